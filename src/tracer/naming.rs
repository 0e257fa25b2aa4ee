//! Source of file names of a recording, and the reason for the choice: a list of methods, best
//! first.

use super::opens::OpenWatch;
use super::options::Follow;
use super::plan::SourceKind;
use super::probes::Probes;
use super::uprobes;
use crate::event::syscall_table::CallId;
use crate::sys::patience::Patience;
use crate::sys::thread;
use crate::sys::tracefs::Tracefs;
use crate::tracefs::EventFormat;
use crate::units::Pid;

/// Source of file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Probes inside the kernel, whose samples carry the path; and a snapshot of the files open
    /// before.
    Kprobe,
    /// Probes in libraries, right before the calls, and readers that look at opened files; and the
    /// snapshot.
    Uprobe,
    /// Real-time readers, at the moment of each call; and the snapshot.
    Reader,
    /// A listener to opens (fanotify), which needs no real-time priority; and the snapshot.
    Fanotify,
    /// Strings in the entries of calls (from Linux 6.19 on); and the snapshot.
    Event,
    /// Readers with ordinary priority, which look at files soon after the open; and the snapshot.
    Links,
    /// Only the snapshot.
    Snapshot,
    /// No source.
    Off,
}

impl Names {
    /// Returns the name of the source in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kprobe => "kprobe",
            Self::Uprobe => "uprobe",
            Self::Reader => "reader",
            Self::Fanotify => "fanotify",
            Self::Event => "event",
            Self::Links => "links",
            Self::Snapshot => "snapshot",
            Self::Off => "off",
        }
    }

    /// True if the memory of calls is read that cannot be interpreted without it.
    pub fn reads(self) -> bool {
        let may_read = matches!(self, Self::Kprobe | Self::Uprobe | Self::Reader);
        may_read && thread::fifo_allowed(super::names::PRIORITY)
    }

    /// True if only opened files are read, not arguments.
    pub fn links(self) -> bool {
        self == Self::Links || self == Self::Uprobe && self.reads()
    }

    /// True if the numbers are read of the two descriptors that a call makes: at once, or else soon
    /// after, with their targets.
    pub fn reads_pairs(self) -> bool {
        self.reads() || matches!(self, Self::Reader | Self::Links | Self::Fanotify)
    }

    /// True if the readers have ordinary priority and therefore read late.
    pub fn reads_late(self) -> bool {
        let needs_no_priority = matches!(self, Self::Links | Self::Fanotify);
        self == Self::Links || needs_no_priority && !thread::fifo_allowed(super::names::PRIORITY)
    }

    /// True if calls with a path have a ring of their own.
    pub fn has_ring(self) -> bool {
        matches!(self, Self::Reader | Self::Event | Self::Links)
    }
}

/// Source of file names that the user requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamesWish {
    /// The best available source.
    Auto,
    /// This source.
    Only(Names),
}

/// Chosen source of file names.
#[derive(Debug)]
pub struct Naming {
    /// The source.
    pub names: Names,
    /// Reason for the choice, as text.
    pub reason: String,
    /// Probes, if they are the source.
    pub probes: Option<Probes>,
    /// Listener, if it is the source.
    pub watch: Option<OpenWatch>,
}

impl Naming {
    fn plain(names: Names, reason: String) -> Self {
        Self { names, reason, probes: None, watch: None }
    }
}

/// Environment that determines the available sources.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// Tracefs, which describes the tracepoints.
    pub tracefs: &'a Tracefs,
    /// Source of samples.
    pub source: SourceKind,
    /// `uname -m`.
    pub machine: &'a str,
    /// Name of the tracer's own threads.
    pub own_name: &'a str,
    /// Recorded system calls.
    pub calls: &'a [CallId],
    /// Processes to follow.
    pub follow: &'a Follow,
    /// The launched command; empty if there is none.
    pub command: &'a [String],
}

/// Chooses the source of file names for this request. Messages for the user go into `warnings`.
///
/// # Errors
///
/// Reason why the requested source is not available.
pub fn choose(
    wish: NamesWish,
    ground: Ground<'_>,
    warnings: &mut Vec<String>,
    patience: &mut Patience<'_>,
) -> Result<Naming, String> {
    let plain = |names, reason: &str| Naming::plain(names, reason.to_owned());
    if ground.source == SourceKind::Inherited {
        return without_privileges(wish, ground.tracefs, warnings);
    }
    match wish {
        NamesWish::Only(names @ (Names::Off | Names::Snapshot | Names::Links)) => {
            Ok(plain(names, "as wanted"))
        }
        NamesWish::Only(Names::Reader) => Ok(read("as wanted".to_owned(), warnings)),
        NamesWish::Only(Names::Fanotify) => listen(ground, warnings),
        NamesWish::Only(Names::Event) => match events_hindrance(ground.tracefs) {
            Some(why) => Err(why),
            None => Ok(plain(Names::Event, "as wanted")),
        },
        NamesWish::Only(names @ (Names::Kprobe | Names::Uprobe)) => {
            match probes(names, ground, patience) {
                Ok(naming) => {
                    if names == Names::Uprobe && !names.reads() {
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
        NamesWish::Auto => {
            if !ground.calls.iter().any(|it| it.call().has_names()) {
                return Ok(plain(Names::Reader, "no call with a path is recorded"));
            }
            // Readers see the calls of every program, uprobes only calls that go through a library.
            let has_readers = thread::fifo_allowed(super::names::PRIORITY);
            let rungs: &[Names] =
                if has_readers { &[Names::Kprobe] } else { &[Names::Kprobe, Names::Uprobe] };
            let (partly, why_not) = match best_probes(ground, rungs, patience) {
                Ok(naming) => return Ok(naming),
                Err(other) => *other,
            };
            if has_readers {
                return Ok(plain(Names::Reader, &why_not));
            }
            if let Some(naming) = partly {
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
                None => plain(Names::Event, &why_not),
                Some(_) => read(why_not, warnings),
            })
        }
    }
}

/// Chooses the source of a recording without privileges. Readers of memory need real-time priority;
/// listeners and probes need more than that.
fn without_privileges(
    wish: NamesWish,
    tracefs: &Tracefs,
    warnings: &mut Vec<String>,
) -> Result<Naming, String> {
    let why = "all other ways need privileges";
    let plain = |names| Naming::plain(names, why.to_owned());
    match (wish, events_hindrance(tracefs)) {
        (NamesWish::Only(it @ (Names::Snapshot | Names::Off | Names::Links)), _) => Ok(plain(it)),
        (NamesWish::Auto | NamesWish::Only(Names::Event), None) => Ok(plain(Names::Event)),
        (NamesWish::Only(Names::Event), Some(why)) => Err(why),
        (NamesWish::Auto, Some(_)) => {
            warnings.push(LATE.to_owned());
            Ok(plain(Names::Links))
        }
        (NamesWish::Only(_), _) => Err("it needs privileges".to_owned()),
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
    ground: Ground<'_>,
    rungs: &[Names],
    patience: &mut Patience<'_>,
) -> Result<Naming, Box<(Option<Naming>, String)>> {
    let mut partly = None;
    let mut why_not = Vec::new();
    for &names in rungs {
        match probes(names, ground, patience) {
            Ok(naming) if is_complete(&naming) => return Ok(naming),
            Ok(naming) => {
                why_not.push(format!("{}s show {}", names.as_str(), naming.reason));
                // The first probes are removed before others are created: both have the same group.
                partly = partly.or(Some(naming.names));
            }
            Err(why) => why_not.push(why),
        }
    }
    let partly = partly.and_then(|it| probes(it, ground, patience).ok());
    Err(Box::new((partly, why_not.join("; "))))
}

/// True if the probes show everything together with the readers that accompany them.
fn is_complete(naming: &Naming) -> bool {
    let covers = naming.probes.as_ref().map(|probes| &probes.covers);
    covers.is_some_and(|covers| match naming.names {
        Names::Uprobe => covers.paths() && naming.names.reads(),
        _ => covers.everything(),
    })
}

fn probes(names: Names, ground: Ground<'_>, patience: &mut Patience<'_>) -> Result<Naming, String> {
    if ground.source != SourceKind::Tracefs {
        return Err(format!("{}s are recorded with --source tracefs only", names.as_str()));
    }
    let probes = match names {
        Names::Uprobe => uprobes::find(ground, patience)?,
        _ => Probes::find(ground.tracefs, ground.machine, ground.own_name)?,
    };
    let reason = probes.reason.clone();
    Ok(Naming { probes: Some(probes), ..Naming::plain(names, reason) })
}

/// Starts a listener to opens.
fn listen(ground: Ground<'_>, warnings: &mut Vec<String>) -> Result<Naming, String> {
    let processes: Vec<Pid> = match ground.follow {
        Follow::Attached(pids) => pids.iter().copied().map(Pid).collect(),
        Follow::System | Follow::Launched => Vec::new(),
    };
    let watch = OpenWatch::new(&processes)?;
    let needed = CallId::all().filter(|it| it.call().bears_on_opens());
    let others: Vec<&str> = needed
        .filter(|it| it.call().number(ground.machine).is_some() && !ground.calls.contains(it))
        .map(|it| it.call().name)
        .collect();
    if !others.is_empty() {
        warnings.push(format!(
            "none of fanotify's names is certain: calls that open, rename or remove files are not recorded: {}",
            others.join(", ")
        ));
    }
    let reason = watch.reason();
    Ok(Naming { watch: Some(watch), ..Naming::plain(Names::Fanotify, reason) })
}

/// Chooses the readers. They need real-time priority: without it, paths read from memory would be
/// wrong unnoticed. The targets of descriptors would not: every call that changes descriptors is
/// recorded.
fn read(reason: String, warnings: &mut Vec<String>) -> Naming {
    let names = if thread::fifo_allowed(super::names::PRIORITY) {
        Names::Reader
    } else {
        warnings.push(
            "no real-time priority (SCHED_FIFO), so file names are read soon after the open, not at once: \
             files that are closed sooner have no name; run as root outside of a container without CAP_SYS_NICE"
                .to_owned(),
        );
        Names::Links
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
