//! Sink that writes several captures into one archive, one after the other.

use std::path::Path;

use otf2_sys::Archive;

use super::block::Devices;
use super::definitions::job_tree::{CapturePlace, JobClock, JobContext, JobTree};
use super::definitions::registry::{Definitions, LocationOwner};
use super::error::OtfError;
use super::job_files::{FilePlacement, shared_sources};
use super::matching_ids::MatchingIds;
use super::options::{EndFacts, OtfOptions, OtfSummary};
use super::sink::{ArchiveParts, EndedCapture, OtfSink};
use super::tasks::TaskDefinitions;
use super::text::printable;
use crate::capture::header::Header;
use crate::capture::wall_clock::WallClock;
use crate::operation::mount_table::MountTable;
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

pub use super::definitions::job_tree::JobHost;

/// A capture that begins.
#[derive(Clone, Copy, Debug)]
pub struct JobCapture<'a> {
    /// Number of its host, from 0 on.
    pub host: u32,
    /// Number of its process in the job.
    pub rank: Option<u64>,
    /// Clock of its times.
    pub clock: WallClock,
    /// Header of the log.
    pub header: &'a Header,
}

/// Facts that are known after the last capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobEnd {
    /// Hosts by their numbers.
    pub hosts: Vec<JobHost>,
    /// Properties of the archive (`IOTRACE::NAME`).
    pub properties: Vec<(String, String)>,
    /// Name of the machine.
    pub machine: String,
    /// Description of the archive.
    pub description: String,
    /// First and last wall-clock time of the captures, ns since 1970.
    pub span_ns: [u64; 2],
}

/// Summary of an archive of several captures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSummary {
    /// Locations, events and definitions of the archive.
    pub archive: OtfSummary,
    /// Files that several hosts have.
    pub shared_files: u64,
    /// Type and source of their file systems.
    pub shared_sources: Vec<(String, String)>,
}

/// Capture that is being written.
#[derive(Debug)]
struct CurrentCapture {
    sink: OtfSink,
    place: CapturePlace,
    clock: WallClock,
}

/// Writes several captures as one OTF2 archive. All times are those of a common clock: events are
/// moved to it when they are written.
#[derive(Debug)]
pub struct JobSink {
    /// Parts between two captures.
    parts: Option<ArchiveParts>,
    current: Option<CurrentCapture>,
    tree: JobTree,
    /// Names of the hosts.
    hosts: Vec<String>,
    /// Wall clock at time 0 of the archive, ns since 1970.
    zero_wall_ns: u64,
    block_on_threads: bool,
    after_end: u64,
}

impl JobSink {
    /// Creates `directory/name.otf2` with its parts for captures of these hosts. Time 0 of the
    /// archive is at `zero_wall_ns` (since 1970), before all events.
    ///
    /// # Errors
    ///
    /// An archive of that name exists, or cannot be written.
    pub fn create(
        directory: &Path,
        name: &str,
        hosts: Vec<String>,
        zero_wall_ns: u64,
        options: OtfOptions,
    ) -> Result<Self, OtfError> {
        let OtfOptions { open_files_max, memory_budget_bytes, block_on_threads } = options;
        let options = otf2_sys::Options { memory_budget_bytes, open_files_max };
        let definitions = Definitions::new(Archive::create(directory, name, options)?)?;
        let parts = Some(ArchiveParts { definitions, slots: MatchingIds::default() });
        let (tree, current, after_end) = (JobTree::default(), None, 0);
        Ok(Self { parts, current, tree, hosts, zero_wall_ns, block_on_threads, after_end })
    }

    /// Begins a capture; the one before has ended.
    ///
    /// # Panics
    ///
    /// The one before has not ended.
    pub fn begin(&mut self, capture: JobCapture<'_>) {
        let mut parts = self.parts.take().expect("the capture before has ended");
        let JobCapture { host, rank, clock, header } = capture;
        parts.definitions.host = host;
        parts.slots.begin_anew();
        let on_threads = self.block_on_threads && header.scope.mode != "system";
        let name = usize::try_from(host).ok().and_then(|host| self.hosts.get(host));
        let prefix = match name {
            Some(name) if self.hosts.len() > 1 => format!("{}:", printable(name.as_bytes())),
            _ => String::new(),
        };
        let devices = Devices::new(&header.disks, on_threads).with_prefix(prefix);
        let mut sink = OtfSink::resume(parts, devices);
        sink.place_files(FilePlacement::new(host, MountTable::default()));
        self.current = Some(CurrentCapture { sink, place: CapturePlace { host, rank }, clock });
    }

    /// Ends the current capture: all of its locations are complete.
    ///
    /// # Errors
    ///
    /// The archive cannot be written.
    pub fn end(&mut self, end: &EndFacts) -> Result<(), OtfError> {
        let Some(CurrentCapture { sink, place, .. }) = self.current.take() else { return Ok(()) };
        let (mut parts, ended) = sink.end_capture()?;
        self.after_end += ended.tasks.after_end;
        self.tree.add(place, &ended, &end.disks, &mut parts.definitions)?;
        self.parts = Some(parts);
        Ok(())
    }

    /// Writes the definitions. The archive is readable only after this.
    ///
    /// # Errors
    ///
    /// The archive cannot be written; then it has no anchor file.
    pub fn finish(mut self, end: &JobEnd) -> Result<JobSummary, OtfError> {
        self.end(&EndFacts::default())?;
        let Some(mut parts) = self.parts else { return Ok(JobSummary::default()) };
        if self.tree.locations() == 0 {
            let definitions = &mut parts.definitions;
            let writer = definitions.open(LocationOwner::None)?;
            definitions.close(writer)?;
            let devices = Devices::new(&[], false);
            let nothing = EndedCapture { tasks: TaskDefinitions::default(), devices };
            self.tree.add(CapturePlace { host: 0, rank: None }, &nothing, &[], definitions)?;
        }
        let Definitions {
            mut archive,
            files,
            handles,
            regions,
            events,
            clamped,
            paths_left_out,
            ..
        } = parts.definitions;
        describe(&mut archive, end, files.left_out)?;
        let shared = || files.list().iter().filter_map(|file| file.origin.as_ref());
        let summary = JobSummary {
            archive: OtfSummary {
                locations: self.tree.locations(),
                events,
                files: files.list().len() as u64,
                handles: handles.list().len() as u64,
                clamped,
                strings_cut: archive.strings_cut(),
                files_left_out: files.left_out,
                paths_left_out,
                after_end: self.after_end,
            },
            shared_files: shared().filter(|origin| origin.host.is_none()).count() as u64,
            shared_sources: shared_sources(shared()).into_iter().collect(),
        };
        let [start, end_time] = end.span_ns.map(|wall| wall.saturating_sub(self.zero_wall_ns));
        let clock = JobClock { start, end: end_time, zero_wall_ns: self.zero_wall_ns };
        let context = JobContext {
            files: &files,
            handles: &handles,
            regions: &regions,
            tree: &self.tree,
            hosts: &end.hosts,
            clock,
        };
        archive.finish(|defs| context.write(defs))?;
        Ok(summary)
    }
}

/// Writes the anchor file's description.
fn describe(archive: &mut Archive, end: &JobEnd, files_left_out: u64) -> Result<(), OtfError> {
    archive.set_creator(&format!("iotrace-perf {}", env!("CARGO_PKG_VERSION")))?;
    archive.set_machine_name(&printable(end.machine.as_bytes()))?;
    archive.set_description(&printable(end.description.as_bytes()))?;
    for (name, value) in &end.properties {
        archive.set_property(&format!("IOTRACE::{name}"), &printable(value.as_bytes()))?;
    }
    if files_left_out > 0 {
        archive.set_property("IOTRACE::files_left_out", &files_left_out.to_string())?;
    }
    Ok(())
}

impl Sink for JobSink {
    type Error = OtfError;

    #[inline]
    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), OtfError> {
        let Some(current) = &mut self.current else { return Ok(()) };
        if let Step::MountsSeen(mounts) = step {
            let placement = FilePlacement::new(current.place.host, (*mounts).clone());
            current.sink.place_files(placement);
        }
        let since_zero = current.clock.at(time) - i128::from(self.zero_wall_ns);
        let time = u64::try_from(since_zero.max(0)).unwrap_or(u64::MAX);
        current.sink.step(KernelTime(time), step)
    }
}
