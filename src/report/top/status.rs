//! Lines of the state: scope, interval, losses, own cost, and omissions.

use unicode_width::UnicodeWidthStr;

use super::cells::harmless;
use super::screen::TopScreen;
use crate::analysis::top::TopModel;
use crate::text::quantity::{count, time};
use crate::text::shares;
use crate::text::table_text::beginning_of;

/// State of the recording that the model does not have.
#[derive(Clone, Debug, Default)]
pub struct TopStatus {
    /// Reason why no interval follows, for people; `None`: the recording goes on.
    pub over: Option<String>,
    /// Time since the end of the last interval, ns; 0: not measured.
    pub since_ns: u64,
    /// True if the key `n` begins again with the names of all files.
    pub can_restart: bool,
}

/// Shortest delay that is reported, ns: records are read some tenths of a second after they are
/// written.
const DELAY_NS_MIN: u64 = 1_000_000_000;

/// Cells of the scope that stay on a narrow terminal.
const SCOPE_MIN: usize = 12;

/// Returns the delay of the last interval if it is longer than usual, ns.
pub(super) fn long_delay(model: &TopModel) -> Option<u64> {
    is_long(model.delay_ns, model)
}

fn is_long(delay_ns: u64, model: &TopModel) -> Option<u64> {
    let longest = DELAY_NS_MIN.max(model.facts.length_ns);
    Some(delay_ns).filter(|delay_ns| *delay_ns > longest)
}

/// Returns the share of a CPU that this process used in the last interval; empty: not measured.
pub(super) fn own_cost(model: &TopModel) -> String {
    model.last_ns().map_or_else(String::new, |ns| shares::of(model.own_cpu_ns, ns))
}

/// Returns the first line.
pub(super) fn status(model: &TopModel, width: usize) -> String {
    let facts = [
        format!("every {}", time(model.facts.length_ns)),
        format!("recorded {}", time(model.recorded_ns())),
        format!("lost {}", count(model.lost)),
        format!("own CPU {}", own_cost(model)),
    ];
    let facts = facts.join(" | ");
    let room = width.saturating_sub(facts.width() + 3).max(SCOPE_MIN);
    let scope = beginning_of(&harmless(model.facts.scope.as_bytes()), room);
    beginning_of(&format!("{scope} | {facts}"), width)
}

/// Returns the parts of the second line, the most important first.
pub(super) fn notes(screen: &TopScreen, model: &TopModel, state: &TopStatus) -> Vec<String> {
    let shown = screen.shown(model);
    let mut notes = Vec::new();
    notes.extend(state.over.clone());
    notes.extend(screen.is_paused().then(|| "PAUSED, space goes on".to_owned()));
    // An interval that does not end at all is late, too.
    let since_ns = state.since_ns.saturating_sub(model.facts.length_ns);
    let is_over = state.over.is_some();
    let late_ns = long_delay(model).max(is_long(since_ns, model)).filter(|_| !is_over);
    if let Some(delay_ns) = late_ns {
        notes.push(format!("BEHIND by {}: the log is read too slowly", time(delay_ns)));
    }
    if model.last_lost > 0 {
        notes.push(format!("LOST {} in this interval", count(model.last_lost)));
    }
    notes.extend(names_note(shown, state.can_restart));
    notes.extend(shown.facts.omissions.iter().cloned());
    notes
}

/// Returns which files have no name, unless all have one.
fn names_note(model: &TopModel, can_restart: bool) -> Option<String> {
    let without = match model.facts.names.as_str() {
        "off" => "no names of files",
        "snapshot" => "names only of files open at the start",
        _ => return None,
    };
    Some(match can_restart {
        true => format!("{without} (n: all)"),
        false => without.to_owned(),
    })
}
