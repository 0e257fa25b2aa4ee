//! Sink that passes each step to its mapping, and finishes the archive.

use std::path::Path;

use otf2_sys::Archive;

use super::asynchronous::AsyncOperations;
use super::attributes::AttributeList;
use super::block::Devices;
use super::definitions::finish_context::FinishContext;
use super::definitions::registry::{Definitions, LocationOwner};
use super::error::OtfError;
use super::job_files::FilePlacement;
use super::matching_ids::MatchingIds;
use super::options::{EndFacts, OtfOptions, OtfSummary};
use super::posix::{self, Writing};
use super::tasks::TaskDefinitions;
use super::text::printable;
use crate::capture::header::Header;
use crate::operation::fault::Fault;
use crate::operation::model::SyscallOperation;
use crate::operation::mount_table::MountTable;
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Writes steps as an OTF2 archive.
#[derive(Debug)]
pub struct OtfSink {
    definitions: Definitions,
    tasks: TaskDefinitions,
    devices: Devices,
    asynchronous: AsyncOperations,
    slots: MatchingIds,
    mounts: MountTable,
    capture: Header,
}

/// Parts of an archive that go from one capture to the next.
#[derive(Debug)]
pub(super) struct ArchiveParts {
    pub(super) definitions: Definitions,
    pub(super) slots: MatchingIds,
}

/// Definitions of one capture, after its last step.
#[derive(Debug)]
pub(super) struct EndedCapture {
    pub(super) tasks: TaskDefinitions,
    pub(super) devices: Devices,
}

impl OtfSink {
    /// Goes on with one more capture, whose devices these are.
    pub(super) fn resume(parts: ArchiveParts, devices: Devices) -> Self {
        Self {
            definitions: parts.definitions,
            tasks: TaskDefinitions::default(),
            devices,
            asynchronous: AsyncOperations::default(),
            slots: parts.slots,
            mounts: MountTable::default(),
            capture: Header::default(),
        }
    }

    /// Closes the locations of a capture after which the archive goes on.
    ///
    /// # Errors
    ///
    /// The archive cannot be written.
    pub(super) fn end_capture(mut self) -> Result<(ArchiveParts, EndedCapture), OtfError> {
        self.tasks.close_all(&mut self.definitions)?;
        self.devices.close_all(&mut self.definitions)?;
        let Self { definitions, slots, tasks, devices, .. } = self;
        Ok((ArchiveParts { definitions, slots }, EndedCapture { tasks, devices }))
    }

    /// Sets the mounts of a capture among several.
    pub(super) fn place_files(&mut self, placement: FilePlacement) {
        self.definitions.files.placement = Some(placement);
    }

    /// Creates `directory/name.otf2` with its parts `name.def` and `name/`, and the directory if it
    /// does not exist.
    ///
    /// # Errors
    ///
    /// An archive of that name exists, or cannot be written.
    pub fn create(
        directory: &Path,
        name: &str,
        capture: &Header,
        options: OtfOptions,
    ) -> Result<Self, OtfError> {
        let OtfOptions { open_files_max, memory_budget_bytes, block_on_threads } = options;
        let archive = Archive::create(
            directory,
            name,
            otf2_sys::Options { memory_budget_bytes, open_files_max },
        )?;
        Ok(Self {
            definitions: Definitions::new(archive)?,
            tasks: TaskDefinitions::default(),
            devices: Devices::new(&capture.disks, block_on_threads),
            asynchronous: AsyncOperations::default(),
            slots: MatchingIds::default(),
            mounts: MountTable::default(),
            capture: capture.clone(),
        })
    }

    /// Sets the text of `/proc/PID/mountinfo` at the time of the capture; any time before
    /// [`OtfSink::finish`]. It decides the file system of each file; without it no file has one.
    pub fn set_mounts(&mut self, mountinfo: &[u8]) {
        self.mounts = MountTable::parse(mountinfo);
    }

    /// Writes the definitions. The archive is readable only after this.
    ///
    /// # Errors
    ///
    /// The archive cannot be written; then it has no anchor file `name.otf2`.
    pub fn finish(mut self, end: &EndFacts) -> Result<OtfSummary, OtfError> {
        self.tasks.close_all(&mut self.definitions)?;
        self.devices.close_all(&mut self.definitions)?;
        if self.definitions.owners.is_empty() {
            let writer = self.definitions.open(LocationOwner::None)?;
            self.definitions.close(writer)?;
        }
        self.describe(end)?;
        let Self { definitions, tasks, devices, mounts, capture, .. } = self;
        let Definitions { archive, files, handles, regions, owners, .. } = definitions;
        let summary = OtfSummary {
            locations: owners.len() as u64,
            events: definitions.events,
            files: files.list().len() as u64,
            handles: handles.list().len() as u64,
            clamped: definitions.clamped,
            strings_cut: archive.strings_cut(),
            files_left_out: files.left_out,
            paths_left_out: definitions.paths_left_out,
            after_end: tasks.after_end,
        };
        let context = FinishContext {
            files: &files,
            handles: &handles,
            regions: &regions,
            owners: &owners,
            tasks: &tasks,
            devices: &devices,
            mounts: &mounts,
            capture: &capture,
            end,
        };
        archive.finish(|defs| context.write(defs))?;
        Ok(summary)
    }

    /// Writes the anchor file's description.
    fn describe(&mut self, end: &EndFacts) -> Result<(), OtfError> {
        let archive = &mut self.definitions.archive;
        let version = match self.capture.tool_version.as_str() {
            "" => env!("CARGO_PKG_VERSION"),
            version => version,
        };
        archive.set_creator(&format!("iotrace-perf {version}"))?;
        archive.set_machine_name(&printable(self.capture.host.hostname.as_bytes()))?;
        let command = self.capture.scope.command.join(" ");
        archive.set_description(&printable(command.as_bytes()))?;
        for (name, value) in &end.properties {
            let name: String = name
                .chars()
                .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
                .collect();
            archive.set_property(&format!("IOTRACE::{name}"), &printable(value.as_bytes()))?;
        }
        let left_out = self.definitions.files.left_out;
        if left_out > 0 {
            archive.set_property("IOTRACE::files_left_out", &left_out.to_string())?;
        }
        Ok(())
    }

    /// Parts of the sink on which a step of an asynchronous operation works.
    fn off_thread(
        &mut self,
        time: u64,
    ) -> (&mut AsyncOperations, &mut TaskDefinitions, Writing<'_>) {
        let out = Writing { time, definitions: &mut self.definitions, slots: &mut self.slots };
        (&mut self.asynchronous, &mut self.tasks, out)
    }

    /// Records a fault. The number of bytes and the end are unknown: it is a region without length,
    /// with file and offset.
    fn fault(&mut self, time: u64, fault: &Fault) -> Result<(), OtfError> {
        let Some(active) = self.tasks.active(fault.thread, &mut self.definitions)? else {
            return Ok(());
        };
        let region = self.definitions.regions.fault();
        active.writer.enter(time, region, &[])?;
        let mut notes = AttributeList::new();
        if let Some(path) = fault.file.first_path() {
            notes.path(self.definitions.given_path(&path.bytes)?);
        }
        notes.offset(Some(fault.offset));
        Ok(active.writer.leave(time, region, notes.list())?)
    }

    fn on_thread(
        &mut self,
        time: u64,
        operation: &SyscallOperation,
        write: impl FnOnce(&mut super::tasks::Active<'_>, &mut Writing<'_>) -> Result<(), OtfError>,
    ) -> Result<(), OtfError> {
        let Some(mut active) = self.tasks.active(operation.thread, &mut self.definitions)? else {
            return Ok(());
        };
        write(
            &mut active,
            &mut Writing { time, definitions: &mut self.definitions, slots: &mut self.slots },
        )
    }
}

impl Sink for OtfSink {
    type Error = OtfError;

    #[inline]
    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), OtfError> {
        let time = time.0;
        match step {
            Step::SyscallBegun(operation) => {
                self.on_thread(time, operation, |active, out| posix::begin(operation, active, out))
            }
            Step::SyscallEnded(operation, effects) => {
                self.on_thread(time, operation, |active, out| {
                    posix::end(operation, effects, active, out)
                })
            }
            Step::SyscallUnfinished(operation, _) => {
                self.on_thread(time, operation, |active, out| {
                    posix::unfinished(operation, active, out)
                })
            }
            Step::Block { step, thread, pieces } => {
                let mut out =
                    Writing { time, definitions: &mut self.definitions, slots: &mut self.slots };
                self.devices.step(step, *thread, pieces, &mut self.tasks, &mut out)
            }
            Step::Fault(fault) => self.fault(time, fault),
            Step::AsyncBegun(operation) => {
                let (asynchronous, tasks, mut out) = self.off_thread(time);
                asynchronous.begun(operation, tasks, &mut out)
            }
            Step::AsyncFile(operation) => {
                let (asynchronous, tasks, mut out) = self.off_thread(time);
                asynchronous.file(operation, tasks, &mut out)
            }
            Step::AsyncEnded(operation, effects) => {
                let (asynchronous, tasks, mut out) = self.off_thread(time);
                asynchronous.ended(operation, effects, tasks, &mut out)
            }
            Step::AsyncUnfinished(operation, _) => {
                let (asynchronous, tasks, mut out) = self.off_thread(time);
                asynchronous.unfinished(operation, tasks, &mut out)
            }
            Step::DescriptorsClosed(process, fds) => {
                self.tasks.descriptors_closed(time, *process, fds, &mut self.definitions)
            }
            Step::ThreadEnded(info) => self.tasks.thread_ended(info, &mut self.definitions),
            Step::ProcessSeen(info) => {
                self.tasks.process_seen(info);
                Ok(())
            }
            Step::ThreadSeen(info) => {
                self.tasks.thread_seen(info);
                Ok(())
            }
            Step::ThreadRenamed(info) => {
                self.tasks.renamed(info);
                Ok(())
            }
            // Times inside calls are only in the report of `latency`.
            Step::Aside { .. } => Ok(()),
            // The process's last thread wrote it.
            Step::ProcessEnded(_) => Ok(()),
            Step::Identified(info) | Step::UserChanged(info) => {
                self.tasks.identified(info);
                Ok(())
            }
            // Anomalies are counted by the stage that finds them, and written with `EndFacts`.
            Step::Anomaly(_)
            | Step::ChainSeen(_)
            | Step::Forked { .. }
            | Step::MountsSeen(_)
            | Step::Committed(_) => Ok(()),
        }
    }
}
