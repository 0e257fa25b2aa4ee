//! Checks of `doctor` that try each source of names, and report the one that a recording would use.

use super::check::Check;
use crate::event::syscall_table::CallId;
use crate::sys::cancellation::Cancellation;
use crate::sys::tracefs::Tracefs;
use crate::sys::{proc, thread};
use crate::tracer::environment::Environment;
use crate::tracer::name_readers::PRIORITY;
use crate::tracer::name_source::{NameSource, NameSourceOption};
use crate::tracer::name_source_selection;
use crate::tracer::options::Follow;
use crate::tracer::source_selection::{SourceOption, choose};

/// Checks of the sources, best first, and of the one that `--names auto` would use.
pub(super) fn checks() -> Vec<Check> {
    let Ok(tracefs) = Tracefs::find_or_kept() else {
        return vec![Check::bad("names", "unknown without tracefs", "see tracefs")];
    };
    let machine = proc::host().machine;
    let calls: Vec<CallId> = CallId::default_set().collect();
    let source = match choose(SourceOption::Auto, &tracefs) {
        Ok(choice) => choice.source,
        Err(why) => return vec![Check::bad("names", why, "see source")],
    };
    let own_name = "iotrace:doctor";
    let (calls, follow) = (calls.as_slice(), &Follow::Launched);
    let (tracefs, machine, command) = (&tracefs, machine.as_str(), &[][..]);
    // Each check tries its source.
    let recalls = false;
    let ground =
        Environment { tracefs, source, machine, own_name, calls, follow, command, recalls };
    vec![
        auto(ground),
        probes(NameSource::Kprobe, "names kprobe", ground),
        probes(NameSource::UprobeFanotify, "names uprobe+fanotify", ground),
        probes(NameSource::Uprobe, "names uprobe", ground),
        reader(),
        fanotify(ground),
        event(tracefs),
    ]
}

fn auto(ground: Environment<'_>) -> Check {
    let mut warnings = Vec::new();
    match name_source_selection::choose(
        NameSourceOption::Auto,
        ground,
        &mut warnings,
        &mut Cancellation::endless(),
    ) {
        Ok(it) if it.names == NameSource::Links => Check::bad(
            "names",
            "files that are closed at once get no names, and failed opens and other calls no paths (links)",
            "run as root, in a cgroup with a real-time budget",
        ),
        Ok(it) => Check::ok(
            "names",
            format!("{} is the source that --names auto uses", it.names.as_str()),
        ),
        Err(why) => Check::bad("names", why, "--names snapshot"),
    }
}

fn probes(names: NameSource, title: &'static str, ground: Environment<'_>) -> Check {
    let wish = NameSourceOption::Only(names);
    let mut warnings = Vec::new();
    match name_source_selection::choose(wish, ground, &mut warnings, &mut Cancellation::endless()) {
        Ok(it) => match it.probes {
            Some(probes) if probes.covers.everything() => Check::ok(title, it.reason),
            Some(probes) if names != NameSource::Kprobe && probes.covers.paths() => {
                Check::ok(title, it.reason)
            }
            Some(_) => Check::bad(title, it.reason, "--names auto prefers the reader"),
            // Another source was selected instead.
            None => Check::bad(title, it.reason, "--source tracefs"),
        },
        Err(why) => Check::bad(title, why, "optional: the next source is used"),
    }
}

fn reader() -> Check {
    if thread::fifo_allowed(PRIORITY) {
        let found = "the paths of all calls but execve (perf: of opens), and types of files, read at each call \
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

fn fanotify(ground: Environment<'_>) -> Check {
    let wish = NameSourceOption::Only(NameSource::Fanotify);
    match name_source_selection::choose(wish, ground, &mut Vec::new(), &mut Cancellation::endless())
    {
        Ok(it) => Check::ok("names fanotify", it.reason),
        Err(why) => Check::bad("names fanotify", why, "optional: the other sources are better"),
    }
}

fn event(tracefs: &Tracefs) -> Check {
    match name_source_selection::events_hindrance(tracefs) {
        None => Check::ok(
            "names event",
            "the first bytes of the paths of all calls (tracefs 165; perf 63, of opens); no types of files",
        ),
        Some(why) => Check::bad("names event", why, "optional: the other sources are better"),
    }
}
