//! Choice of the source of file names of a recording, and its reason.

use std::io::ErrorKind;

use super::environment::Environment;
use super::fanotify_listener::FanotifyListener;
use super::handle_listener::HandleListener;
use super::name_readers::PRIORITY;
use super::name_source::{NameSource, NameSourceOption};
use super::open_listener::OpenListener;
use super::options::Follow;
use super::probes::Probes;
use super::tracepoint_plan::SourceKind;
use super::uprobes;
use crate::event::syscall_table::CallId;
use crate::sys::cancellation::Cancellation;
use crate::sys::proc;
use crate::sys::thread;
use crate::sys::tracefs::Tracefs;
use crate::tracefs::EventFormat;
use crate::units::Pid;

/// Chosen source of file names.
#[derive(Debug)]
pub struct Naming {
    /// The source.
    pub names: NameSource,
    /// Reason for the choice, as text.
    pub reason: String,
    /// Probes, if they are the source.
    pub probes: Option<Probes>,
    /// Listener, if it is the source.
    pub watch: Option<Box<dyn OpenListener>>,
}

impl Naming {
    fn plain(names: NameSource, reason: String) -> Self {
        Self { names, reason, probes: None, watch: None }
    }
}

/// Chooses the source of file names for this request. Messages for the user go into `warnings`.
///
/// # Errors
///
/// Reason why the requested source is not available.
pub fn choose(
    wish: NameSourceOption,
    ground: Environment<'_>,
    warnings: &mut Vec<String>,
    cancellation: &mut Cancellation<'_>,
) -> Result<Naming, String> {
    let plain = |names, reason: &str| Naming::plain(names, reason.to_owned());
    if ground.source == SourceKind::Inherited {
        return without_privileges(wish, ground.tracefs, warnings);
    }
    match wish {
        NameSourceOption::Only(
            names @ (NameSource::Off | NameSource::Snapshot | NameSource::Links),
        ) => Ok(plain(names, "as wanted")),
        NameSourceOption::Only(NameSource::Reader) => Ok(read("as wanted".to_owned(), warnings)),
        NameSourceOption::Only(NameSource::Fanotify) => listen(ground, warnings),
        NameSourceOption::Only(NameSource::Event) => match events_hindrance(ground.tracefs) {
            Some(why) => Err(why),
            None => Ok(plain(NameSource::Event, "as wanted")),
        },
        NameSourceOption::Only(
            names @ (NameSource::Kprobe | NameSource::Uprobe | NameSource::UprobeFanotify),
        ) => {
            let chosen = match names {
                NameSource::UprobeFanotify => compose(ground, warnings, cancellation),
                _ => probes(names, ground, cancellation),
            };
            match chosen {
                Ok(naming) => {
                    if names == NameSource::Uprobe && !names.reads() {
                        warnings.push(NO_OFFSETS.to_owned());
                    }
                    Ok(naming)
                }
                // The source of samples prevents probes.
                Err(why) if ground.source != SourceKind::Tracefs => {
                    warnings.push(format!("names are read by threads: {why}"));
                    Ok(read(why, warnings))
                }
                Err(why) => Err(why),
            }
        }
        NameSourceOption::Auto => choose_best(ground, warnings, cancellation),
        NameSourceOption::Cheap => {
            let found = best_probes(ground, &[NameSource::Kprobe], cancellation);
            Ok(found.unwrap_or_else(|why_not| plain(NameSource::Snapshot, &why_not.1)))
        }
    }
}

/// Chooses the best source that works here.
fn choose_best(
    ground: Environment<'_>,
    warnings: &mut Vec<String>,
    cancellation: &mut Cancellation<'_>,
) -> Result<Naming, String> {
    let plain = |names, why: &str| Naming::plain(names, why.to_owned());
    if !ground.calls.iter().any(|it| it.call().has_names()) {
        return Ok(plain(NameSource::Reader, "no call with a path is recorded"));
    }
    // Readers see the calls of every program, uprobes only calls that go through a library; but
    // programs wait for readers.
    let has_readers = thread::fifo_allowed(PRIORITY);
    let candidates: &[NameSource] =
        if has_readers { &[NameSource::Kprobe] } else { &[NameSource::Kprobe, NameSource::Uprobe] };
    let (partly, why_not) = match best_probes(ground, candidates, cancellation) {
        Ok(naming) => return Ok(naming),
        Err(other) => *other,
    };
    if has_readers {
        let composed = match composition_hindrance(ground) {
            None => compose(ground, warnings, cancellation).and_then(complete_composition),
            Some(why) => Err(why.to_owned()),
        };
        let reader = |why| plain(NameSource::Reader, &format!("{why_not}; {why}"));
        return Ok(composed.unwrap_or_else(reader));
    }
    if let Some(naming) = partly.and_then(|names| probes(names, ground, cancellation).ok()) {
        return Ok(naming);
    }
    let why_not = match listen(ground, warnings) {
        Ok(naming) => {
            let reason = format!("{}; {why_not}", naming.reason);
            return Ok(Naming { reason, ..naming });
        }
        Err(other) => format!("{why_not}; {other}"),
    };
    Ok(match events_hindrance(ground.tracefs) {
        None => plain(NameSource::Event, &why_not),
        Some(_) => read(why_not, warnings),
    })
}

/// Chooses the source of a recording without privileges. Readers of memory need real-time priority;
/// listeners and probes need more than that.
fn without_privileges(
    wish: NameSourceOption,
    tracefs: &Tracefs,
    warnings: &mut Vec<String>,
) -> Result<Naming, String> {
    let why = "all other ways need privileges";
    let plain = |names| Naming::plain(names, why.to_owned());
    match (wish, events_hindrance(tracefs)) {
        (
            NameSourceOption::Only(
                it @ (NameSource::Snapshot | NameSource::Off | NameSource::Links),
            ),
            _,
        ) => Ok(plain(it)),
        (NameSourceOption::Cheap, _) => Ok(plain(NameSource::Snapshot)),
        (NameSourceOption::Auto | NameSourceOption::Only(NameSource::Event), None) => {
            Ok(plain(NameSource::Event))
        }
        (NameSourceOption::Only(NameSource::Event), Some(why)) => Err(why),
        (NameSourceOption::Auto, Some(_)) => {
            warnings.push(LATE.to_owned());
            Ok(plain(NameSource::Links))
        }
        (NameSourceOption::Only(_), _) => Err("it needs privileges".to_owned()),
    }
}

/// Warning about readers with ordinary priority.
const LATE: &str = "file names are read soon after the open, not at once: files that are closed \
                    sooner have no name; run with sudo for all names";

/// Warning about probes in libraries if no reader can look at opened files.
const NO_OFFSETS: &str = "no real-time priority (SCHED_FIFO), so opened files are not looked at, and offsets are not \
                          known; run as root outside of a container without CAP_SYS_NICE";

/// Finds probes that show all paths.
///
/// # Errors
///
/// The best probes that show some paths, if any, and the reason why they are not enough.
fn best_probes(
    ground: Environment<'_>,
    candidates: &[NameSource],
    cancellation: &mut Cancellation<'_>,
) -> Result<Naming, Box<(Option<NameSource>, String)>> {
    let mut partly = None;
    let mut why_not = Vec::new();
    for &names in candidates {
        match probes(names, ground, cancellation) {
            Ok(naming) if is_complete(&naming) => return Ok(naming),
            Ok(naming) => {
                why_not.push(format!("{}s show {}", names.as_str(), naming.reason));
                // The first probes are removed before others are created: both have the same group.
                partly = partly.or(Some(naming.names));
            }
            Err(why) => why_not.push(why),
        }
    }
    Err(Box::new((partly, why_not.join("; "))))
}

/// True if the probes show everything together with the readers that accompany them.
fn is_complete(naming: &Naming) -> bool {
    let covers = naming.probes.as_ref().map(|probes| &probes.covers);
    covers.is_some_and(|covers| match naming.names {
        NameSource::Uprobe => covers.paths() && naming.names.reads(),
        _ => covers.everything(),
    })
}

fn probes(
    names: NameSource,
    ground: Environment<'_>,
    cancellation: &mut Cancellation<'_>,
) -> Result<Naming, String> {
    if ground.source != SourceKind::Tracefs {
        let kind = if names == NameSource::Kprobe { "kprobes" } else { "uprobes" };
        return Err(format!("{kind} are recorded with --source tracefs only"));
    }
    let probes = match names {
        NameSource::Uprobe | NameSource::UprobeFanotify => {
            uprobes::find(names, ground, cancellation)?
        }
        _ => Probes::find(ground.tracefs, ground.machine, ground.own_name)?,
    };
    let reason = probes.reason.clone();
    Ok(Naming { probes: Some(probes), ..Naming::plain(names, reason) })
}

/// Creates probes in libraries, and a listener that identifies the opened files. Without real-time
/// priority no reader sees the paths of other calls, so these have probes, too.
fn compose(
    ground: Environment<'_>,
    warnings: &mut Vec<String>,
    cancellation: &mut Cancellation<'_>,
) -> Result<Naming, String> {
    let paths = probes(NameSource::UprobeFanotify, ground, cancellation)?;
    warn_of_other_opens(ground, warnings);
    let files = HandleListener::new()?;
    let reason = format!("{}; of all programs {}", paths.reason, files.reason());
    Ok(Naming { reason, watch: Some(Box::new(files)), ..paths })
}

/// Refuses a composition whose probes do not show all paths: readers do.
fn complete_composition(composed: Naming) -> Result<Naming, String> {
    let covers = composed.probes.as_ref().map(|probes| &probes.covers);
    if covers.is_some_and(|covers| covers.paths() && covers.blank == 0) {
        return Ok(composed);
    }
    Err(format!("uprobe+fanotify would show {}", composed.reason))
}

/// Returns the reason why probes and a listener would miss names that readers see.
fn composition_hindrance(ground: Environment<'_>) -> Option<&'static str> {
    let processes = match ground.follow {
        Follow::System => proc::processes(),
        Follow::Attached(pids) => {
            let pids: Vec<Pid> = pids.iter().copied().map(Pid).collect();
            proc::with_descendants(&pids)
        }
        Follow::Launched => Vec::new(),
    };
    let link = |process: &str, name: &str| std::fs::read_link(format!("/proc/{process}/{name}"));
    let own = link("self", "ns/mnt").ok()?;
    // A kernel thread has no executable and calls no library (`kdevtmpfs` has its own namespace).
    let runs_programs = |pid: &str| {
        link(pid, "exe").map_or_else(|error| error.kind() != ErrorKind::NotFound, |_| true)
    };
    let is_elsewhere = |pid: &Pid| {
        let pid = pid.0.to_string();
        link(&pid, "ns/mnt").is_ok_and(|other| other != own) && runs_programs(&pid)
    };
    if !unrecorded_opens(ground).is_empty() {
        Some("uprobe+fanotify needs all calls that open, rename or remove files")
    } else if processes.iter().any(is_elsewhere) {
        // Their libraries are other files, and their file systems are not listened to.
        Some("uprobe+fanotify does not see containers: processes have another mount namespace")
    } else {
        None
    }
}

/// Starts a listener to opens.
fn listen(ground: Environment<'_>, warnings: &mut Vec<String>) -> Result<Naming, String> {
    let processes: Vec<Pid> = match ground.follow {
        Follow::Attached(pids) => pids.iter().copied().map(Pid).collect(),
        Follow::System | Follow::Launched => Vec::new(),
    };
    let watch = FanotifyListener::new(&processes)?;
    warn_of_other_opens(ground, warnings);
    let reason = watch.reason();
    Ok(Naming { watch: Some(Box::new(watch)), ..Naming::plain(NameSource::Fanotify, reason) })
}

/// Returns the calls that a report of an open may belong to and that are not recorded.
fn unrecorded_opens(ground: Environment<'_>) -> Vec<&'static str> {
    let needed = CallId::all().filter(|it| it.call().bears_on_opens());
    needed
        .filter(|it| it.call().number(ground.machine).is_some() && !ground.calls.contains(it))
        .map(|it| it.call().name)
        .collect()
}

/// Warns if not all calls are recorded that a report of an open may belong to.
fn warn_of_other_opens(ground: Environment<'_>, warnings: &mut Vec<String>) {
    let others = unrecorded_opens(ground);
    if !others.is_empty() {
        warnings.push(format!(
            "none of fanotify's names is certain: calls that open, rename or remove files are not recorded: {}",
            others.join(", ")
        ));
    }
}

/// Chooses the readers. They need real-time priority: without it, paths read from memory would be
/// wrong unnoticed. The targets of descriptors would not: every call that changes descriptors is
/// recorded.
fn read(reason: String, warnings: &mut Vec<String>) -> Naming {
    let names = if thread::fifo_allowed(PRIORITY) {
        NameSource::Reader
    } else {
        warnings.push(
            "no real-time priority (SCHED_FIFO), so file names are read soon after the open, not at once: \
             files that are closed sooner have no name; run as root outside of a container without CAP_SYS_NICE"
                .to_owned(),
        );
        NameSource::Links
    };
    Naming::plain(names, reason)
}

/// Returns the reason why the entries of calls carry no strings, if they carry none.
pub fn events_hindrance(tracefs: &Tracefs) -> Option<String> {
    let format = match tracefs.format("syscalls", "sys_enter_openat") {
        Ok(format) => format,
        Err(error) => return Some(error.to_string()),
    };
    let carries = EventFormat::parse(&format)
        .is_ok_and(|it| it.event_fields().iter().any(|it| it.name == "__filename_val"));
    let why = "the entries of calls carry no strings on this kernel (from Linux 6.19 on they do)";
    (!carries).then(|| why.to_owned())
}
