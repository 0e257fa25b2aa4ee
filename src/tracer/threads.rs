//! Threads that carry records from the rings to the log: a drain thread for each group of CPUs, and
//! the log thread.

use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::drain::{Drain, Drained};
use super::error::TracerError;
use super::log_limits::LogSignals;
use super::log_message::Message;
use super::log_thread::{LogChannels, LogCounts, LogThread};
use super::name_readers::NamesReaders;
use super::named_thread::spawn_named;
use super::ring_stream::RingStream;
use super::switched::SwitchWatch;
use super::thread_placement::ThreadPlacement;
use super::tracepoint_plan::RingKind;
use crate::capture::writer::Writer;
use crate::sys::trace_ring::PagePipe;
use crate::sys::{clock, cpu_topology};

/// The threads, and their connections to the session.
pub(super) struct TracerThreads {
    /// Channel to the log thread.
    pub to_log: Sender<Message>,
    /// Signals of the log thread.
    pub log_signals: Arc<LogSignals>,
    log: Option<JoinHandle<(Writer<File>, LogCounts)>>,
    /// Connections and messages with which the log thread will start.
    waiting: Option<(LogChannels, Receiver<Message>)>,
    drains: Drains,
    /// Set before the rings are switched off.
    pub is_over: Arc<AtomicBool>,
}

/// Drain threads; dropping the value stops them.
struct Drains {
    threads: Vec<JoinHandle<Drained>>,
    stop: Arc<EventFd>,
}

impl Drains {
    fn end(&mut self) -> Vec<Drained> {
        let _ = self.stop.write(1);
        std::mem::take(&mut self.threads).into_iter().filter_map(|it| it.join().ok()).collect()
    }
}

impl Drop for Drains {
    fn drop(&mut self) {
        self.end();
    }
}

impl TracerThreads {
    /// Starts the drain threads, before any record is written to the rings: on a busy machine the
    /// rings would be full before the log has begun. `ring_bytes` is the size of a main ring.
    pub(super) fn start(
        rings: Vec<RingStream>,
        switches: Vec<(RingKind, File)>,
        names: &Arc<NamesReaders>,
        place: &ThreadPlacement,
        ring_bytes: usize,
        own_name: &str,
    ) -> Result<Self, TracerError> {
        let (to_log, messages) = channel();
        let (spare, spares) = sync_channel(2 * rings.len());
        let spares = Arc::new(Mutex::new(spares));
        let stop = Arc::new(eventfd()?);
        let log_signals =
            Arc::new(LogSignals { failed: eventfd()?, full: eventfd()?, counted: eventfd()? });
        let queued = names.queued();
        let groups = grouped(rings, &cpu_topology::numa_nodes());
        let links = LogChannels {
            signals: Arc::clone(&log_signals),
            spare,
            queued: Arc::clone(&queued),
            groups: groups.len(),
            place: place.clone(),
        };
        let is_over = Arc::new(AtomicBool::new(false));
        let mut watch = Some(SwitchWatch::new(switches, Arc::clone(&is_over)));
        let mut drains = Drains { threads: Vec::new(), stop: Arc::clone(&stop) };
        for (group, (cpus, rings)) in groups.into_iter().enumerate() {
            let cpus = match (place.cpus.as_slice(), cpus.as_slice()) {
                ([], []) => cpu_topology::online_cpus(),
                ([], _) => cpus,
                _ => place.cpus.clone(),
            };
            let drain = Drain {
                rings,
                group,
                pipe: PagePipe::new().map_err(TracerError::system("make a pipe"))?,
                ring_bytes,
                names: (group == 0).then(|| Arc::clone(names)),
                place: ThreadPlacement { cpus, ..place.clone() },
                log: to_log.clone(),
                queued: Arc::clone(&queued),
                switches: watch.take(),
                spare: Arc::clone(&spares),
                empty: None,
                failed: None,
                avoided: None,
                stop: Arc::clone(&stop),
            };
            drains.threads.push(spawn_named(own_name, move || drain.run())?);
        }
        let waiting = Some((links, messages));
        Ok(Self { to_log, log_signals, log: None, waiting, drains, is_over })
    }

    /// Starts the log thread: records that were taken until now come first.
    pub(super) fn write_to(&mut self, log: LogThread, own_name: &str) -> Result<(), TracerError> {
        if let Some((links, messages)) = self.waiting.take() {
            self.log = Some(spawn_named(own_name, move || log.run(links, &messages))?);
        }
        Ok(())
    }

    /// Takes and writes the remaining data. Returns the results of the drain threads, and the log,
    /// if its thread has not failed.
    pub(super) fn finish(mut self) -> (Vec<Drained>, Option<(Writer<File>, LogCounts)>) {
        let drained = self.drains.end();
        drop(self.to_log);
        (drained, self.log.and_then(|it| it.join().ok()))
    }
}

/// Largest number of CPUs that one drain thread serves.
const GROUP_CPUS_MAX: usize = 32;

/// Divides the rings into groups of CPUs that one drain thread serves: CPUs of one NUMA node, at
/// most [`GROUP_CPUS_MAX`]. Returns with each group the CPUs that its thread runs on; none if there
/// is only one group.
fn grouped(rings: Vec<RingStream>, nodes: &[Vec<u32>]) -> Vec<(Vec<u32>, Vec<RingStream>)> {
    let mut groups: Vec<(Vec<u32>, Vec<RingStream>)> = nodes
        .iter()
        .flat_map(|it| it.chunks(GROUP_CPUS_MAX))
        .map(|it| (it.to_vec(), Vec::new()))
        .collect();
    if groups.is_empty() {
        groups.push((Vec::new(), Vec::new()));
    }
    for ring in rings {
        let place = groups.iter().position(|it| it.0.contains(&ring.cpu)).unwrap_or(0);
        if let Some(group) = groups.get_mut(place) {
            group.1.push(ring);
        }
    }
    groups.retain(|it| !it.1.is_empty());
    if let [only] = groups.as_mut_slice() {
        only.0.clear();
    }
    groups
}

fn eventfd() -> Result<EventFd, TracerError> {
    EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)
        .map_err(|errno| TracerError::System { what: "make an eventfd", source: errno.into() })
}

/// Returns a name for the tracer's threads that no other process has, so that the kernel's filter
/// can distinguish them in any pid namespace. At most 15 bytes.
pub(super) fn own_name() -> String {
    let number = clock::now().0 ^ u64::from(std::process::id()) << 20;
    format!("iotrace:{:07x}", number & 0xfff_ffff)
}
