//! The part of `doctor` that tries each rung of names, and says which a recording would take.

use super::check::Check;
use crate::event::syscall_table::CallId;
use crate::sys::patience::Patience;
use crate::sys::tracefs::Tracefs;
use crate::sys::{proc, thread};
use crate::tracer::choice::{SourceWish, choose};
use crate::tracer::names::PRIORITY;
use crate::tracer::naming::{self, Ground, Names, NamesWish};
use crate::tracer::options::Follow;

/// The rungs, best first, and what `--names auto` would take.
pub(super) fn checks() -> Vec<Check> {
    let Ok(tracefs) = Tracefs::find_or_kept() else {
        return vec![Check::bad("names", "unknown without tracefs", "see tracefs")];
    };
    let machine = proc::host().machine;
    let calls: Vec<CallId> = CallId::default_set().collect();
    let source = match choose(SourceWish::Auto, &tracefs) {
        Ok(choice) => choice.source,
        Err(why) => return vec![Check::bad("names", why, "see source")],
    };
    let own_name = "iotrace:doctor";
    let (calls, follow) = (calls.as_slice(), &Follow::Launched);
    let (tracefs, machine, command) = (&tracefs, machine.as_str(), &[][..]);
    let ground = Ground { tracefs, source, machine, own_name, calls, follow, command };
    vec![
        auto(ground),
        probes(Names::Kprobe, "names kprobe", ground),
        probes(Names::Uprobe, "names uprobe", ground),
        reader(),
        fanotify(ground),
        event(tracefs),
    ]
}

fn auto(ground: Ground<'_>) -> Check {
    let mut warnings = Vec::new();
    match naming::choose(NamesWish::Auto, ground, &mut warnings, &mut Patience::endless()) {
        Ok(it) if it.names == Names::Links => Check::bad(
            "names",
            "files that are closed at once have no names, and failed opens and other calls no paths (links)",
            "run as root, in a cgroup with a real-time budget",
        ),
        Ok(it) => Check::ok("names", format!("{} is what --names auto takes", it.names.as_str())),
        Err(why) => Check::bad("names", why, "--names snapshot"),
    }
}

fn probes(names: Names, title: &'static str, ground: Ground<'_>) -> Check {
    let wish = NamesWish::Only(names);
    let mut warnings = Vec::new();
    match naming::choose(wish, ground, &mut warnings, &mut Patience::endless()) {
        Ok(it) => match it.probes {
            Some(probes) if probes.covers.everything() => Check::ok(title, it.reason),
            Some(probes) if names == Names::Uprobe && probes.covers.paths() => {
                Check::ok(title, it.reason)
            }
            Some(_) => Check::bad(title, it.reason, "--names auto prefers the reader"),
            // Another rung was taken for it.
            None => Check::bad(title, it.reason, "--source tracefs"),
        },
        Err(why) => Check::bad(title, why, "it works without: the next rung is taken"),
    }
}

fn reader() -> Check {
    if thread::fifo_allowed(PRIORITY) {
        let found = "the paths of all calls but execve (perf: of opens), and what files are, read at each call \
                     by real-time threads (SCHED_FIFO)";
        Check::ok("names reader", found)
    } else {
        Check::bad(
            "names reader",
            "no real-time priority (SCHED_FIFO)",
            "run as root, in a cgroup with a real-time budget",
        )
    }
}

fn fanotify(ground: Ground<'_>) -> Check {
    let wish = NamesWish::Only(Names::Fanotify);
    match naming::choose(wish, ground, &mut Vec::new(), &mut Patience::endless()) {
        Ok(it) => Check::ok("names fanotify", it.reason),
        Err(why) => {
            Check::bad("names fanotify", why, "it works without: the other rungs are better")
        }
    }
}

fn event(tracefs: &Tracefs) -> Check {
    match naming::events_hindrance(tracefs) {
        None => Check::ok(
            "names event",
            "the first bytes of the paths of all calls (tracefs 165; perf 63, of opens); not what files are",
        ),
        Some(why) => Check::bad("names event", why, "it works without: the other rungs are better"),
    }
}
