//! Perf events of single threads, which whatever these give birth to inherits: the source that needs no privilege.
//!
//! ```text
//!  thread ─┬─ CPU 0: births and names (owns the ring) ◄── sys_enter_read, sys_exit_read, …
//!          └─ CPU 1: the same
//! ```
//!
//! The kernel copies each event at each birth (about 8 us for each, on each CPU), sends what the copies see to the ring of the
//! first one, and adds up their counts. It ends them without a word when a program is executed that the user may not read, or
//! that is somebody else's (`begin_new_exec()` in `fs/exec.c`): the exec itself is the last that is seen.

use std::io;

use super::error::TracerError;
use super::perf_source::{as_large_as_allowed, filter, layout, map, sum, watermark};
use super::plan::RingOf;
use super::source::{Books, Described, Opened, RingSizes, Source};
use super::stream::{PERF_LAYOUT, Stream};
use crate::capture::header::Layout;
use crate::sys::perf::{PerfEvent, Wake, Whose};
use crate::sys::proc;
use crate::units::{Pid, Tid};

/// Everything that is open in the kernel.
#[derive(Debug)]
struct InheritedSource {
    threads: Vec<Tid>,
    tracepoints: Vec<Described>,
    /// For each of them, its events on each CPU and of each thread.
    events: Vec<Vec<PerfEvent>>,
    /// Births and names, but for those of the first thread, which own the rings.
    tasks: Vec<PerfEvent>,
}

/// Opens all for the threads of these processes on all CPUs, switched off; the user has named some of them, the others are their
/// descendants. What the user should know goes into `warnings`.
///
/// # Errors
///
/// [`TracerError`] says what could not be opened and what would help.
pub(super) fn open(
    described: Vec<Described>,
    (cpus, sizes): (&[u32], RingSizes),
    (processes, named): (&[Pid], &[Pid]),
    warnings: &mut Vec<String>,
) -> Result<Opened, TracerError> {
    let (threads, wanted) = (proc::threads(processes), proc::threads(named));
    let is_left_out = |thread: Tid, error: &TracerError| {
        has_ended(error) || is_forbidden(error) && !wanted.contains(&thread)
    };
    let has_names = described.iter().any(|it| it.planned.ring == RingOf::Names);
    let rings = |sizes| first_rings((cpus, has_names), sizes, &threads, is_left_out);
    let ((first, rings), sizes) = as_large_as_allowed(sizes, rings, warnings)?;
    let (mut tasks, mut of_others) = (Vec::new(), 0_u64);
    let mut events: Vec<Vec<PerfEvent>> = described.iter().map(|_| Vec::new()).collect();
    for &thread in &threads {
        for ring in &rings {
            match of_thread(&described, ring, sizes, (thread, thread == first)) {
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
            "{of_others} threads are another user's, or this user may not trace them: they are not recorded"
        ));
    }
    let mut ring_bytes = [0; RingOf::ALL.len()];
    ring_bytes[RingOf::Main as usize] = sizes.main;
    ring_bytes[RingOf::Names as usize] = if has_names { sizes.small } else { 0 };
    let source = Box::new(InheritedSource { threads, tracepoints: described, events, tasks });
    let (drained, names): (Vec<_>, Vec<_>) =
        rings.into_iter().map(|it| (it.main, it.names)).unzip();
    Ok(Opened { source, drained, names: names.into_iter().flatten().collect(), ring_bytes })
}

/// It has ended meanwhile.
fn has_ended(error: &TracerError) -> bool {
    matches!(error, TracerError::Open { source, .. } if source.raw_os_error() == Some(libc::ESRCH))
}

/// It is somebody else's.
fn is_forbidden(error: &TracerError) -> bool {
    matches!(error, TracerError::Open { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
}

/// The rings of the first of these threads that can be followed, and which that is.
fn first_rings(
    cpus: (&[u32], bool),
    sizes: RingSizes,
    threads: &[Tid],
    is_left_out: impl Fn(Tid, &TracerError) -> bool,
) -> Result<(Tid, Vec<Rings>), TracerError> {
    let mut why = None;
    for &thread in threads {
        match rings(cpus, sizes, thread) {
            Err(error) if is_left_out(thread, &error) => why = why.or(Some(error)),
            made => return made.map(|rings| (thread, rings)),
        }
    }
    let gone = || TracerError::system("follow it")(io::Error::other("all its threads have ended"));
    Err(why.unwrap_or_else(gone))
}

/// The rings of one CPU.
struct Rings {
    main: Stream,
    /// Where opens are looked at soon.
    names: Option<Stream>,
}

/// Those of each CPU.
fn rings(
    (cpus, has_names): (&[u32], bool),
    sizes: RingSizes,
    first: Tid,
) -> Result<Vec<Rings>, TracerError> {
    let whose = Whose::Thread(first);
    let of_cpu = |&cpu: &u32| {
        let wake = |ring| watermark(ring, sizes);
        let owner = PerfEvent::tasks(cpu, wake(RingOf::Main), false, whose);
        let main = map(cpu, (RingOf::Main, PERF_LAYOUT), owner, sizes)?;
        let names = has_names.then(|| {
            let owner = PerfEvent::ring_owner(cpu, wake(RingOf::Names), whose);
            map(cpu, (RingOf::Names, PERF_LAYOUT), owner, sizes)
        });
        Ok(Rings { main, names: names.transpose()? })
    };
    cpus.iter().map(of_cpu).collect()
}

/// The events of a thread on the CPU of these rings: births and names, unless the ring's owner is these, and the tracepoints.
fn of_thread(
    described: &[Described],
    rings: &Rings,
    sizes: RingSizes,
    (thread, is_first): (Tid, bool),
) -> Result<(Option<PerfEvent>, Vec<PerfEvent>), TracerError> {
    let (cpu, whose) = (rings.main.cpu, Whose::Thread(thread));
    let into_ring = |ring: &Stream, event: io::Result<PerfEvent>, what: &dyn Fn() -> String| {
        let redirected = event.and_then(|event| {
            ring.owner().map_or(Ok(()), |owner| event.redirect(owner))?;
            Ok(event)
        });
        redirected.map_err(|source| TracerError::open(what(), cpu, source))
    };
    let task = || {
        let task = PerfEvent::tasks(cpu, watermark(RingOf::Main, sizes), false, whose);
        into_ring(&rings.main, task, &|| format!("the births and names of thread {thread}"))
    };
    let task = (!is_first).then(task).transpose()?;
    let hits = described.iter().map(|it| {
        let of = it.planned.ring;
        let ring = rings.names.as_ref().filter(|_| of == RingOf::Names).unwrap_or(&rings.main);
        let wake = if it.planned.wakes { Wake::Each } else { watermark(of, sizes) };
        let event = into_ring(ring, PerfEvent::tracepoint(it.id, cpu, wake, whose), &|| it.name())?;
        filter(&event, it, cpu).map(|()| event)
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

    /// Who was born while the events were opened may have inherited none.
    fn follow(&self, now_there: &dyn Fn() -> Vec<Tid>) -> io::Result<bool> {
        Ok(now_there().iter().all(|it| self.threads.contains(it)))
    }

    fn tracepoints(&self) -> &[Described] {
        &self.tracepoints
    }

    fn layouts(&self) -> Vec<Layout> {
        vec![layout()]
    }

    fn counts(&self) -> io::Result<Books> {
        let each = self.tracepoints.iter().zip(&self.events);
        let counts = each.map(|(tracepoint, events)| Ok((tracepoint.id, sum(tracepoint, events)?)));
        Ok(Books { tracepoints: counts.collect::<io::Result<_>>()?, rings: Vec::new() })
    }
}
