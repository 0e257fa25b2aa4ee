//! Where a recording has the names of files from, and why from there: a ladder, best rung first.

use super::plan::SourceKind;
use super::probes::Probes;
use crate::event::syscall_table::CallId;
use crate::sys::thread;
use crate::sys::tracefs::Tracefs;
use crate::tracefs::EventFormat;

/// Where file names come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Probes inside the kernel, whose hits carry the path; and a snapshot of what was open before.
    Kprobe,
    /// Real-time readers, at the moment of each call; and the snapshot.
    Reader,
    /// The strings that the entries of calls carry (from Linux 6.19 on); and the snapshot.
    Event,
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
            Self::Reader => "reader",
            Self::Event => "event",
            Self::Snapshot => "snapshot",
            Self::Off => "off",
        }
    }

    /// True if what stands in the memory of calls is read that say nothing without it.
    pub fn reads(self) -> bool {
        let may_read = matches!(self, Self::Kprobe | Self::Reader);
        may_read && thread::fifo_allowed(super::names::PRIORITY)
    }

    /// True if calls with a path have a ring of their own.
    pub fn has_ring(self) -> bool {
        matches!(self, Self::Reader | Self::Event)
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
) -> Result<Naming, String> {
    let plain = |names, reason: &str| Naming { names, reason: reason.to_owned(), probes: None };
    match wish {
        NamesWish::Only(names @ (Names::Off | Names::Snapshot)) => Ok(plain(names, "as wanted")),
        NamesWish::Only(Names::Reader) => Ok(read("as wanted".to_owned(), warnings)),
        NamesWish::Only(Names::Event) => match events_hindrance(ground.tracefs) {
            Some(why) => Err(why),
            None => Ok(plain(Names::Event, "as wanted")),
        },
        NamesWish::Only(Names::Kprobe) => match kprobes(ground) {
            Ok(naming) => Ok(naming),
            // It is the source that stands in the way.
            Err(why) if ground.source == SourceKind::Perf => {
                warnings.push(format!("names are read by threads: {why}"));
                Ok(read(why, warnings))
            }
            Err(why) => Err(why),
        },
        NamesWish::Auto => {
            if !ground.calls.iter().any(|it| it.call().has_names()) {
                return Ok(plain(Names::Reader, "no call with a path is recorded"));
            }
            let (partly, why_not) = match kprobes(ground) {
                Ok(naming) if is_complete(&naming) => return Ok(naming),
                Ok(naming) => {
                    let why_not = format!("kprobes show {}", naming.reason);
                    (Some(naming), why_not)
                }
                Err(why) => (None, why),
            };
            if thread::fifo_allowed(super::names::PRIORITY) {
                return Ok(plain(Names::Reader, &why_not));
            }
            Ok(match (partly, events_hindrance(ground.tracefs)) {
                (Some(naming), _) => naming,
                (_, None) => plain(Names::Event, &why_not),
                _ => read(why_not, warnings),
            })
        }
    }
}

fn is_complete(naming: &Naming) -> bool {
    naming.probes.as_ref().is_some_and(|it| it.covers.everything())
}

fn kprobes(ground: Ground<'_>) -> Result<Naming, String> {
    if ground.source == SourceKind::Perf {
        return Err("kprobes are recorded with --source tracefs only".to_owned());
    }
    let probes = Probes::find(ground.tracefs, ground.machine, ground.own_name)?;
    let reason = probes.covers.text();
    Ok(Naming { names: Names::Kprobe, reason, probes: Some(probes) })
}

/// The readers need real-time priority: with less, names are wrong in silence.
fn read(reason: String, warnings: &mut Vec<String>) -> Naming {
    let names = if thread::fifo_allowed(super::names::PRIORITY) {
        Names::Reader
    } else {
        warnings.push(
            "no real-time priority to be had (SCHED_FIFO), so files opened during the recording have no names; \
             run as root outside of a container without CAP_SYS_NICE"
                .to_owned(),
        );
        Names::Snapshot
    };
    Naming { names, reason, probes: None }
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
