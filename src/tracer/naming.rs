//! Where a recording has the names of files from, and why from there: a ladder, best rung first.

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

/// Where file names come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Probes inside the kernel, whose hits carry the path; and a snapshot of what was open before.
    Kprobe,
    /// Probes in libraries, right before the calls, and readers that look at what was opened; and the snapshot.
    Uprobe,
    /// Real-time readers, at the moment of each call; and the snapshot.
    Reader,
    /// A listener to opens, which needs no real-time priority (fanotify); and the snapshot.
    Fanotify,
    /// The strings that the entries of calls carry (from Linux 6.19 on); and the snapshot.
    Event,
    /// Readers like others, which look at what was opened soon after; and the snapshot.
    Links,
    /// Only what was open before.
    Snapshot,
    /// Nowhere.
    Off,
}

impl Names {
    /// The word for it in every output.
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

    /// True if what stands in the memory of calls is read that say nothing without it.
    pub fn reads(self) -> bool {
        let may_read = matches!(self, Self::Kprobe | Self::Uprobe | Self::Reader);
        may_read && thread::fifo_allowed(super::names::PRIORITY)
    }

    /// True if only what was opened is read.
    pub fn links(self) -> bool {
        self == Self::Links || self == Self::Uprobe && self.reads()
    }

    /// True if the numbers are read of descriptors that a call makes two of: at once, or else soon after, with what they are.
    pub fn reads_pairs(self) -> bool {
        self.reads() || matches!(self, Self::Reader | Self::Links | Self::Fanotify)
    }

    /// True if what is read is read by threads that take their turn.
    pub fn reads_late(self) -> bool {
        let needs_no_priority = matches!(self, Self::Links | Self::Fanotify);
        self == Self::Links || needs_no_priority && !thread::fifo_allowed(super::names::PRIORITY)
    }

    /// True if calls with a path have a ring of their own.
    pub fn has_ring(self) -> bool {
        matches!(self, Self::Reader | Self::Event | Self::Links)
    }
}

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamesWish {
    /// The best that there is.
    Auto,
    /// These.
    Only(Names),
}

/// What a recording gets.
#[derive(Debug)]
pub struct Naming {
    /// Where from.
    pub names: Names,
    /// Why, in words.
    pub reason: String,
    /// The probes, if that is where from.
    pub probes: Option<Probes>,
    /// The listener, if that is where from.
    pub watch: Option<OpenWatch>,
}

impl Naming {
    fn plain(names: Names, reason: String) -> Self {
        Self { names, reason, probes: None, watch: None }
    }
}

/// What there is to choose from.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// Where tracepoints are described.
    pub tracefs: &'a Tracefs,
    /// Where hits come from.
    pub source: SourceKind,
    /// `uname -m`.
    pub machine: &'a str,
    /// Name of our own threads.
    pub own_name: &'a str,
    /// What is recorded.
    pub calls: &'a [CallId],
    /// Whose.
    pub follow: &'a Follow,
    /// The launched command; empty if there is none.
    pub command: &'a [String],
}

/// The rung for this wish. What the user should know goes into `warnings`.
///
/// # Errors
///
/// Why the wanted one cannot be had.
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
                // It is the source that stands in the way.
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
            // Readers see the calls of every program, uprobes only those that go through a library.
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

/// Whoever reads what stands in memory needs real-time priority, whoever listens or probes more than that.
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

/// What the user should know of readers that take their turn.
const LATE: &str = "files are looked at soon after they were opened, not at once: what is closed first has no name; sudo knows all";

/// What the user of probes in libraries should know where nobody can look at what was opened.
const NO_OFFSETS: &str = "no real-time priority to be had (SCHED_FIFO), so nobody looks at what was opened, and offsets are not \
                          known; run as root outside of a container without CAP_SYS_NICE";

/// Probes that show all.
///
/// # Errors
///
/// Those that show something, if any do, and why they are not enough.
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
                // The first ones are removed before others are made: they have the same group.
                partly = partly.or(Some(naming.names));
            }
            Err(why) => why_not.push(why),
        }
    }
    let partly = partly.and_then(|it| probes(it, ground, patience).ok());
    Err(Box::new((partly, why_not.join("; "))))
}

/// With the readers that go with them.
fn is_complete(naming: &Naming) -> bool {
    let covers = naming.probes.as_ref().map(|it| &it.covers);
    covers.is_some_and(|it| match naming.names {
        Names::Uprobe => it.paths() && naming.names.reads(),
        _ => it.everything(),
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

/// A listener to opens.
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

/// The readers need real-time priority: with less, paths in memory are wrong in silence. What descriptors are is not: every call
/// that changes them is recorded.
fn read(reason: String, warnings: &mut Vec<String>) -> Naming {
    let names = if thread::fifo_allowed(super::names::PRIORITY) {
        Names::Reader
    } else {
        warnings.push(
            "no real-time priority to be had (SCHED_FIFO), so files are looked at soon after they were opened, not at once: \
             what is closed first has no name; run as root outside of a container without CAP_SYS_NICE"
                .to_owned(),
        );
        Names::Links
    };
    Naming::plain(names, reason)
}

/// What speaks against strings in the entries of calls, if anything does.
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
