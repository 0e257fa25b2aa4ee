//! Events of `-e`, and the list of all events.

use std::collections::BTreeSet;
use std::process::ExitCode;

use super::error::CliError;
use super::report_output::print_text;
use crate::event::syscall_table::{CALLS, CallId, DEFAULT_GROUPS, GROUPS};

/// Name of the block requests, which are not system calls.
const BLOCK: &str = "block";

/// Name of the file systems' events about extents, by which requests get files.
const EXTENTS: &str = "extents";

/// Name of the operations of io_uring, which are not system calls; also in `%async`.
const URING: &str = "io_uring";

/// Name of the page faults on files; never by default or in a group, because of their number.
const FAULT: &str = "fault";

/// Name of the layers inside calls; never by default or in a group, because of the number of their
/// events.
pub(super) const LAYERS: &str = "layers";

/// Name of the default set.
pub(super) const DEFAULT: &str = "%default";

/// Events that `-e` selects.
#[derive(Debug, Default)]
pub(super) struct EventSelection {
    /// System calls.
    pub(super) calls: BTreeSet<CallId>,
    /// Block requests.
    pub(super) block: bool,
    /// Events of file systems about extents.
    pub(super) extents: bool,
    /// The operations of io_uring.
    pub(super) uring: bool,
    /// Layers inside calls.
    pub(super) layers: bool,
    /// Page faults on files, and the calls that map them.
    pub(super) faults: bool,
}

/// Parses `-e`; without it the result is the default.
///
/// Each word adds events, or removes them if it begins with `!`: a call, `block`, `extents`,
/// `io_uring`, `fault`, `%GROUP`, `%file` (calls with a path), `%meta`, `%default`, `%all`. If the
/// first word removes events, it does so from the default.
pub(super) fn wanted_events(words: &[String]) -> Result<EventSelection, CliError> {
    let mut wanted = EventSelection::default();
    if words.first().is_none_or(|word| word.starts_with('!')) {
        wanted.change(DEFAULT, true)?;
    }
    for word in words {
        match word.strip_prefix('!') {
            Some(word) => wanted.change(word, false)?,
            None => wanted.change(word, true)?,
        }
    }
    if wanted.calls.is_empty() && !wanted.block && !wanted.uring {
        return Err(CliError::Usage("-e leaves nothing to record".into()));
    }
    Ok(wanted)
}

impl EventSelection {
    fn change(&mut self, word: &str, add: bool) -> Result<(), CliError> {
        let with_faults = word == FAULT;
        // The file at an address is known only from the calls that map.
        let calls = if with_faults && add { mapping_calls() } else { calls(word) };
        let with_block = matches!(word, BLOCK | "%all" | "%default");
        let with_extents = matches!(word, EXTENTS | "%all" | "%default");
        let with_uring = matches!(word, URING | "%async" | "%all" | "%default");
        let with_layers = word == LAYERS;
        let with_other = with_block || with_uring || with_faults || with_extents || with_layers;
        if calls.is_empty() && !with_other {
            let near = CALLS.iter().map(|call| call.name);
            let near = near.min_by_key(|name| strsim::damerau_levenshtein(word, name));
            let near = near.filter(|name| strsim::damerau_levenshtein(word, name) <= 2);
            let near = near.map_or_else(String::new, |name| format!(", did you mean {name}?"));
            return Err(CliError::Usage(format!(
                "unknown event {word}{near}; for all events: iotrace-perf list"
            )));
        }
        if add {
            self.calls.extend(calls);
        } else {
            self.calls.retain(|call| !calls.contains(call));
        }
        if with_block {
            self.block = add;
        }
        if with_extents {
            self.extents = add;
        }
        if with_uring {
            self.uring = add;
        }
        if with_layers {
            self.layers = add;
        }
        if with_faults {
            self.faults = add;
        }
        Ok(())
    }
}

/// Calls from which the file at an address is known.
fn mapping_calls() -> Vec<CallId> {
    CallId::all().filter(|call| call.call().changes_mappings()).collect()
}

/// Calls that a word of `-e` selects.
fn calls(word: &str) -> Vec<CallId> {
    let of_group = |group: &str| -> Vec<CallId> {
        CallId::all().filter(|call| call.call().class.group() == group).collect()
    };
    match word.strip_prefix('%') {
        None => CallId::by_common_name(word).into_iter().collect(),
        Some("all") => CallId::all().collect(),
        Some("default") => CallId::default_set().collect(),
        Some("file") => CallId::all().filter(|call| call.call().has_path()).collect(),
        Some("meta") => ["name", "stat", "attr"].into_iter().flat_map(of_group).collect(),
        Some(group) => of_group(group),
    }
}

/// Prints the groups, their calls, and the default set.
pub(super) fn run() -> Result<ExitCode, CliError> {
    let mut text = String::new();
    for (group, what) in GROUPS {
        let mark = if DEFAULT_GROUPS.contains(group) { " (default)" } else { "" };
        let calls = CallId::all().map(CallId::call).filter(|call| call.class.group() == *group);
        let names: Vec<&str> = calls.map(|call| call.name).collect();
        text += &format!("%{group}{mark}: {what}\n    {}\n", names.join(" "));
    }
    text += "block (default): block requests of all devices\n\
             extents (default): extents that ext4, xfs and others report, and a FIEMAP query at the end: so that block \
             requests have files\n\
             io_uring (default, in %async): the operations that programs ask of io_uring, by its own tracepoints\n\
             layers: work inside calls: functions of the VFS and of ext4, xfs and btrfs by kprobes where the \
             kernel has them, else by tracepoints; the page cache, throttling, the journal\n\
             fault: page faults on files that are mapped into memory, and the calls that map them\n\
             %file: every call with a path; %meta: %name, %stat and %attr; %default; %all\n";
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Option<(Vec<&'static str>, bool)> {
        let words: Vec<String> = words.iter().map(|&word| word.into()).collect();
        let wanted = wanted_events(&words).ok()?;
        Some((wanted.calls.into_iter().map(|call| call.call().name).collect(), wanted.block))
    }

    #[test]
    fn words_add_and_take_away() {
        assert_eq!(names(&["read", "block"]), Some((vec!["read"], true)));
        assert_eq!(names(&["stat"]), Some((vec!["newstat"], false)));
        let (sync, block) = names(&["%sync", "!sync"]).expect("a group");
        assert!(sync.contains(&"fsync") && !sync.contains(&"sync") && !block);
        assert_eq!(names(&["nosuchcall"]), None);
        assert_eq!(names(&["%nosuchgroup"]), None);
        assert_eq!(names(&["read", "!read"]), None);
    }

    #[test]
    fn operations_of_io_uring_come_with_their_group() {
        let has = |word: &str| wanted_events(&[word.to_owned()]).is_ok_and(|wanted| wanted.uring);
        assert!(has("%async") && has("io_uring") && has("%default") && has("!read"));
        assert!(!has("read") && !has("!io_uring"));
    }

    #[test]
    fn empty_selection_is_the_default() {
        let (all, block) = names(&[]).expect("the default");
        assert!(block && all.contains(&"openat") && !all.contains(&"newstat"));
        let (fewer, block) = names(&["!openat", "!block"]).expect("the default without two");
        assert!(!block && fewer.len() + 1 == all.len());
    }
}
