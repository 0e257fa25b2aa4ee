//! Inherited source: perf events of single threads, which their children inherit. It needs no
//! privilege.
//!
//! ```text
//!  thread ─┬─ CPU 0: births and names (owns the ring) ◄── sys_enter_read, sys_exit_read, …
//!          └─ CPU 1: the same
//! ```
//!
//! The kernel copies each event at each birth (about 8 us for each, on each CPU), sends the samples
//! of the copies to the ring of the first event, and adds up their counts. The kernel ends the
//! events silently when a program is executed that the user may not read, or that belongs to
//! another user (`begin_new_exec()` in `fs/exec.c`): the exec itself is the last sample.

use std::io;

use super::error::TracerError;
use super::options::Options;
use super::perf_source::{as_large_as_allowed, filter, layout, map, sum, watermark};
use super::ring_stream::{PERF_LAYOUT, RingStream};
use super::source::{Described, KernelCounts, NamesRings, OpenedSource, RingSizes, Source};
use super::tracepoint_plan::RingKind;
use crate::capture::header::RecordLayout;
use crate::sys::perf::{PerfEvent, PerfTarget, Wake};
use crate::sys::proc;
use crate::sys::tracefs_instance::Instance;
use crate::units::{Pid, Tid, counted_with};

/// Open perf events.
#[derive(Debug)]
struct InheritedSource {
    threads: Vec<Tid>,
    tracepoints: Vec<Described>,
    /// For each tracepoint, its events on each CPU and of each thread.
    events: Vec<Vec<PerfEvent>>,
    /// Events of births and names, without those of the first thread, which own the rings.
    tasks: Vec<PerfEvent>,
}

/// Opens all tracepoints for the threads of these processes on all CPUs, switched off. The user has
/// named some of the processes in the options; the others are their descendants. Messages for the
/// user go into `warnings`.
///
/// # Errors
///
/// [`TracerError`] reports what could not be opened, and a remedy.
pub(super) fn open(
    described: Vec<Described>,
    cpus: &[u32],
    sizes: RingSizes,
    processes: &[Pid],
    options: &Options,
    warnings: &mut Vec<String>,
) -> Result<OpenedSource, TracerError> {
    let (threads, whose) = (proc::threads(processes), options.inheritance());
    let wanted = proc::threads(&options.follow.named(processes));
    let is_left_out = |thread: Tid, error: &TracerError| {
        has_ended(error) || is_forbidden(error) && !wanted.contains(&thread)
    };
    let has_names = described.iter().any(|it| it.planned.ring == RingKind::Names);
    let rings = |sizes| {
        first_rings(&threads, |thread| rings(cpus, has_names, sizes, whose(thread)), is_left_out)
    };
    let ((first, rings), sizes) = as_large_as_allowed(sizes, rings, warnings)?;
    let (mut tasks, mut of_others) = (Vec::new(), 0_u64);
    let mut events: Vec<Vec<PerfEvent>> = described.iter().map(|_| Vec::new()).collect();
    for &thread in &threads {
        for ring in &rings {
            match of_thread(&described, ring, sizes, whose(thread), thread == first) {
                Ok((task, hits)) => {
                    tasks.extend(task);
                    events.iter_mut().zip(hits).for_each(|(all, it)| all.push(it));
                }
                Err(error) if thread != first && is_left_out(thread, &error) => {
                    of_others += u64::from(!has_ended(&error));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    if of_others > 0 {
        warnings.push(format!(
            "{} not recorded, of another user, or not to be traced by this user",
            counted_with(of_others, "thread", ["is", "are"])
        ));
    }
    let mut ring_bytes = [0; RingKind::ALL.len()];
    ring_bytes[RingKind::Main as usize] = sizes.main;
    ring_bytes[RingKind::Names as usize] = if has_names { sizes.small } else { 0 };
    let source = Box::new(InheritedSource { threads, tracepoints: described, events, tasks });
    let (drained, names): (Vec<_>, Vec<_>) =
        rings.into_iter().map(|it| (it.main, it.names)).unzip();
    let names = NamesRings::combined(names.into_iter().flatten().collect());
    Ok(OpenedSource { source, drained, names, ring_bytes })
}

/// True if the thread has ended in the meantime.
fn has_ended(error: &TracerError) -> bool {
    matches!(error, TracerError::Open { source, .. } if source.raw_os_error() == Some(libc::ESRCH))
}

/// True if the thread belongs to another user.
fn is_forbidden(error: &TracerError) -> bool {
    matches!(error, TracerError::Open { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
}

/// Opens the rings of the first of these threads that can be followed, and returns that thread,
/// too.
fn first_rings(
    threads: &[Tid],
    rings: impl Fn(Tid) -> Result<Vec<CpuRings>, TracerError>,
    is_left_out: impl Fn(Tid, &TracerError) -> bool,
) -> Result<(Tid, Vec<CpuRings>), TracerError> {
    let mut why = None;
    for &thread in threads {
        match rings(thread) {
            Err(error) if is_left_out(thread, &error) => why = why.or(Some(error)),
            made => return made.map(|rings| (thread, rings)),
        }
    }
    let gone = || TracerError::system("follow it")(io::Error::other("all its threads have ended"));
    Err(why.unwrap_or_else(gone))
}

/// Rings of one CPU.
struct CpuRings {
    main: RingStream,
    /// Ring of opens whose files are looked at soon.
    names: Option<RingStream>,
}

/// Opens the rings of each CPU.
fn rings(
    cpus: &[u32],
    has_names: bool,
    sizes: RingSizes,
    whose: PerfTarget,
) -> Result<Vec<CpuRings>, TracerError> {
    let of_cpu = |&cpu: &u32| {
        let wake = |ring| watermark(ring, sizes);
        let owner = PerfEvent::tasks(cpu, wake(RingKind::Main), false, whose);
        let main = map(cpu, RingKind::Main, PERF_LAYOUT, owner, sizes)?;
        let names = has_names.then(|| {
            let owner = PerfEvent::ring_owner(cpu, wake(RingKind::Names), whose);
            map(cpu, RingKind::Names, PERF_LAYOUT, owner, sizes)
        });
        Ok(CpuRings { main, names: names.transpose()? })
    };
    cpus.iter().map(of_cpu).collect()
}

/// Opens the events of a thread on the CPU of these rings: the tracepoints, and births and names,
/// unless the ring's owner records these.
fn of_thread(
    described: &[Described],
    rings: &CpuRings,
    sizes: RingSizes,
    whose: PerfTarget,
    is_first: bool,
) -> Result<(Option<PerfEvent>, Vec<PerfEvent>), TracerError> {
    let cpu = rings.main.cpu;
    let into_ring = |ring: &RingStream, event: io::Result<PerfEvent>, what: &dyn Fn() -> String| {
        let redirected = event.and_then(|event| {
            ring.owner().map_or(Ok(()), |owner| event.redirect(owner))?;
            Ok(event)
        });
        redirected.map_err(|source| TracerError::open(what(), cpu, source))
    };
    let task = || {
        let task = PerfEvent::tasks(cpu, watermark(RingKind::Main, sizes), false, whose);
        into_ring(&rings.main, task, &|| {
            format!("the births and names of thread {}", whose.number())
        })
    };
    let task = (!is_first).then(task).transpose()?;
    let hits = described.iter().map(|tracepoint| {
        let Described { planned, id, .. } = tracepoint;
        let of = planned.ring;
        let ring = rings.names.as_ref().filter(|_| of == RingKind::Names).unwrap_or(&rings.main);
        let wake = if planned.wakes { Wake::Each } else { watermark(of, sizes) };
        let event = PerfEvent::tracepoint(*id, cpu, wake, whose);
        let event = into_ring(ring, event, &|| tracepoint.name())?;
        filter(&event, tracepoint, cpu).map(|()| event)
    });
    Ok((task, hits.collect::<Result<_, _>>()?))
}

impl Source for InheritedSource {
    fn enable(&self) -> io::Result<()> {
        let hits = self.events.iter().flatten().rev();
        self.tasks.iter().chain(hits).try_for_each(PerfEvent::enable)
    }

    fn disable(&self) -> io::Result<()> {
        self.events.iter().flatten().chain(&self.tasks).try_for_each(PerfEvent::disable)
    }

    /// True if no thread is new: a thread born while the events were opened may have inherited
    /// none.
    fn follow(&self, now_there: &dyn Fn() -> Vec<Tid>) -> io::Result<bool> {
        Ok(now_there().iter().all(|it| self.threads.contains(it)))
    }

    fn into_parts(self: Box<Self>) -> (Vec<Instance>, Vec<PerfEvent>) {
        (Vec::new(), self.events.into_iter().flatten().chain(self.tasks).collect())
    }

    fn tracepoints(&self) -> &[Described] {
        &self.tracepoints
    }

    fn layouts(&self) -> Vec<RecordLayout> {
        vec![layout()]
    }

    fn counts(&self) -> io::Result<KernelCounts> {
        let each = self.tracepoints.iter().zip(&self.events);
        let counts = each.map(|(tracepoint, events)| Ok((tracepoint.id, sum(tracepoint, events)?)));
        Ok(KernelCounts { tracepoints: counts.collect::<io::Result<_>>()?, rings: Vec::new() })
    }
}
