//! JSON of the HEADER and END frames. These structs are the format and have no other use. Fields
//! are only ever added, and readers take a missing one for its default.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Description of the capture, and of how to read its records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Version of iotrace-perf that wrote the log.
    pub tool_version: String,
    /// Machine of the capture.
    pub host: Host,
    /// Clock of all times.
    pub clock: Clock,
    /// Processes that the capture follows.
    pub scope: CaptureScope,
    /// Process of the tracer itself, as the records show it.
    pub own_pid: i32,
    /// Names of the recorded system calls.
    pub calls: Vec<String>,
    /// Source of file names: `kprobe`, `uprobe`, `reader`, `fanotify`, `event`, `snapshot` or
    /// `off`.
    pub names: String,
    /// Reason for that source, in words; for `kprobe` and `uprobe` the coverage of the probes.
    /// Empty in logs of versions that knew only readers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub names_reason: String,
    /// Source of the layers at work inside calls: `kprobe` or `tracepoint`; `None` if they were not
    /// recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<String>,
    /// Coverage of the kprobes and what this kernel lacks; without kprobes the reason why there are
    /// none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub layers_reason: String,
    /// Coverage of the probes that record the lists of `io_submit` and `io_getevents`; without
    /// probes the reason why there are none. Empty in logs of versions that knew only readers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub aio_reason: String,
    /// Recorded part of the calls' arguments: `registers`, or `exact` if also the memory to which
    /// they point.
    pub args: String,
    /// Source of samples: `perf` or `tracefs`; empty in logs of versions that knew only perf.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Reason for that source, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source_reason: String,
    /// True if the end of each exec was recorded by its own number, which shows the system call
    /// table of the new program.
    pub exec_exits: bool,
    /// Recorded call chains of samples; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chains: Option<CallChainKinds>,
    /// Layouts of the records of data frames, by the frame's `layout`.
    pub layouts: Vec<RecordLayout>,
    /// Rings, by the data frames' `stream`.
    pub rings: Vec<RingInfo>,
    /// Tracepoints that were opened.
    pub tracepoints: Vec<Tracepoint>,
    /// Block devices of the machine.
    pub disks: Vec<Disk>,
    /// Numbers (`MAJOR:MINOR`) of the devices whose requests were recorded; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_filter: Vec<String>,
    /// Place of the program in a parallel job; `None` if its environment has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobPlace>,
    /// Source of an imported log; `None` if the log was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// Parts of the original that an anonymised capsule has left out; `None`: this is no capsule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capsule: Option<CapsuleCounts>,
    /// Part of a longer recording that the log is; `None` if it is the whole recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<Excerpt>,
}

/// Parts of a log that an anonymised capsule has left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CapsuleCounts {
    /// Command lines of programs, the recorded one included.
    pub command_lines: u64,
    /// Texts: reasons, warnings, properties of disks and of the host.
    pub texts: u64,
    /// Payloads of tracepoints without a format.
    pub payloads: u64,
    /// Payloads with fields of unknown contents.
    pub payload_parts: u64,
    /// Records of unknown kinds.
    pub records: u64,
    /// Copies of the stacks and registers of programs.
    pub user_stacks: u64,
    /// Words of call chains that are no addresses of known code.
    pub chain_words: u64,
    /// Facts of unknown kinds.
    pub facts: u64,
    /// Frames of unknown kinds or layouts, and damaged ones.
    pub frames: u64,
    /// Names with the pseudonym of another name.
    pub shared_pseudonyms: u64,
}

pub use super::excerpt::{Excerpt, FiredTrigger};

/// Log of another tool from which this one was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Imported {
    /// Tool that wrote it: `strace`, `ioriot`, `fio`, `blktrace`.
    pub tool: String,
    /// Format of the tool's log, of which it may have several.
    pub format: String,
    /// Last part of its file name; bytes that are not UTF-8 as `\xNN`.
    pub file: String,
}

/// Machine of the capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Output of `uname -n`.
    pub hostname: String,
    /// Output of `uname -r`.
    pub kernel_release: String,
    /// Output of `uname -v`.
    pub kernel_version: String,
    /// Output of `uname -m`, which determines the system call numbers.
    pub machine: String,
    /// Numbers of the CPUs that were online.
    pub cpus: Vec<u32>,
    /// Bytes of a page.
    pub page_bytes: u64,
}

/// Clock of all times in the log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// Name of the clock: `CLOCK_MONOTONIC`.
    pub name: String,
    /// Time when the capture started, ns.
    pub start_ns: u64,
    /// Time when the last tracepoint had been switched on, ns: events between the start and this
    /// time were seen only in part.
    pub all_on_ns: u64,
    /// `CLOCK_REALTIME` at the start, ns since 1970.
    pub start_realtime_ns: u64,
}

/// Processes that the capture follows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaptureScope {
    /// Mode of the capture: `system`, `launch` or `attach`.
    pub mode: String,
    /// Launched process, or the processes to which the tracer attached.
    pub roots: Vec<i32>,
    /// Control groups whose processes these are, if the user has chosen them so.
    pub group: Option<String>,
    /// True if records of other processes were kept although the scope is not the system.
    pub foreign_kept: bool,
    /// True if block requests of all processes are shown although the scope is not the system.
    pub all_block: bool,
    /// True if block requests of other processes were counted and not recorded.
    pub others_counted: bool,
    /// Launched command, each argument with bytes that are not UTF-8 escaped as `\xNN`.
    pub command: Vec<String>,
    /// True if children of the processes were not followed.
    #[serde(skip_serializing_if = "is_zero")]
    pub children_left_out: bool,
    /// Threads of the processes that are shown; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<i32>,
    /// Processes that were left out of a capture of the system, with their descendants at the
    /// start; later descendants are left out, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<i32>,
    /// True if the kernel recorded nothing of the left out processes; otherwise the capture has
    /// their records.
    #[serde(skip_serializing_if = "is_zero")]
    pub excluded_in_kernel: bool,
    /// Ranks of a parallel job whose processes are followed together; empty if there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<ProcessRank>,
}

/// Process of a parallel job that is followed together with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessRank {
    /// The process.
    pub pid: i32,
    /// Number of the process in the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// Number of the process among those of its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_rank: Option<u64>,
}

/// Place of the recorded program in a parallel job, from its environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobPlace {
    /// Number of the process in the job, from 0 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// Number of processes of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Number of the process among those of its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_rank: Option<u64>,
    /// Number of processes of the job on its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_size: Option<u64>,
    /// Workload manager that has the job: `slurm`, `flux`, `pbs`, `lsf`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manager: String,
    /// Identifier of the job at the workload manager.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Identifier of the step of the job.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub step: String,
}

/// Call chains of the samples of the ring `chains`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallChainKinds {
    /// True if the kernel's functions were recorded.
    pub kernel: bool,
    /// True if the program's functions were recorded.
    pub user: bool,
    /// Bytes of the stack from which the program's functions are unwound with unwind information
    /// (DWARF); 0 if they are found by frame pointers.
    #[serde(skip_serializing_if = "is_zero")]
    pub stack_bytes: u32,
    /// True if system calls have call chains too, at their ends; the kernel's functions are unknown
    /// there.
    pub calls: bool,
    /// Maximum number of addresses of a chain (`kernel.perf_event_max_stack`): one with as many may
    /// be incomplete.
    pub frames_max: u64,
}

/// Layout of the records of a data frame.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordLayout {
    /// Source of the records: `perf` or `tracefs`.
    pub source: String,
    /// perf: `PERF_SAMPLE_*`; `sample_id_all` is set.
    pub sample_type: u64,
    /// perf: mask of the program's registers in samples, a bit for each (`PERF_REG_*`).
    #[serde(skip_serializing_if = "is_zero")]
    pub regs_user: u64,
    /// tracefs: text of `events/header_page`, byte by byte.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub header_page: String,
    /// tracefs: text of `events/header_event`, byte by byte.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub header_event: String,
    /// tracefs: true if in a frame the time of each page but the first is its difference to the
    /// last time of the previous page.
    pub pages_continue: bool,
}

/// Kind of ring; there is one of it on each CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RingInfo {
    /// Name by content: `main`, `names`, …
    pub name: String,
    /// Bytes of each ring.
    pub bytes: u64,
}

/// Tracepoint that was opened on every CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tracepoint {
    /// System of the tracepoint: `raw_syscalls`, `block`, …
    pub system: String,
    /// Name of the tracepoint: `sys_enter`, …
    pub name: String,
    /// `common_type` of its records.
    pub id: u16,
    /// Text of the `format` file, byte by byte.
    pub format: String,
    /// Filter that was set in the kernel; empty for none.
    pub filter: String,
    /// Index into `rings`.
    pub ring: u32,
}

/// Block device of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Number of the device, `MAJOR:MINOR`.
    pub dev: String,
    /// Name under `/sys/block`.
    pub name: String,
    /// Active scheduler in `/sys/block/NAME/queue/scheduler`.
    pub scheduler: String,
    /// Files below `/sys/block/NAME` and their contents, without the newline at the end; bytes that
    /// are not UTF-8 as `\xNN`. Missing, unreadable and empty files are left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Backing file of a loop device, if it is still at its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_file: Option<LoopFile>,
    /// Partitions of the device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<Partition>,
    /// Number of its hardware queues (`/sys/block/NAME/mq`); `None`: not known, or it has no queues
    /// of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware_queues: Option<u64>,
    /// Names of the devices above it (dm, md).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<String>,
    /// Names of the devices below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slaves: Vec<String>,
}

/// Backing file of a loop device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoopFile {
    /// `MAJOR:MINOR` of its file system, as in `st_dev`.
    pub dev: String,
    /// Inode of the file.
    pub ino: u64,
}

/// Partition of a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Partition {
    /// Number of the partition, `MAJOR:MINOR`.
    pub dev: String,
    /// Name of the partition.
    pub name: String,
    /// First sector on the disk (512 bytes each).
    pub start_sectors: Option<u64>,
    /// Length in sectors (512 bytes each).
    pub sectors: Option<u64>,
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// End of the recording, and the kernel's counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// Time when the events were switched off, ns.
    pub end_ns: u64,
    /// `CLOCK_REALTIME` at that time.
    pub end_realtime_ns: u64,
    /// Difference of `CLOCK_REALTIME` at that time from its expected value, ns, caused by setting
    /// the clock or by sleep of the machine. `None` if it was not measured.
    pub wall_moved_ns: Option<i64>,
    /// Reason of the end: `exit`, `interrupt`, `duration`, … (docs/json/info.md lists them).
    pub reason: String,
    /// Exit status of the launched program; `None` if none was launched or it is still running.
    pub exit_code: Option<i32>,
    /// Signal that killed the launched program.
    pub exit_signal: Option<i32>,
    /// Counters of each tracepoint.
    pub tracepoints: Vec<Counts>,
    /// Kernel's counters of tracefs rings, summed over the CPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rings: Vec<RingCounts>,
    /// Records that were dropped because of the scope, before they reached the log.
    pub foreign_dropped: u64,
    /// Records that could not be written to the log.
    pub unwritten: u64,
    /// Problems that did not end the recording, in words.
    pub warnings: Vec<String>,
    /// Cost of the recording itself.
    pub own: TracerCost,
    /// Files whose extents could not be requested at the end.
    pub places_not_asked: u64,
    /// Block devices that were missing in the header, or had changed since.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Disk>,
    /// Files that could not be read in order to name the addresses of programs.
    #[serde(skip_serializing_if = "Unread::is_nothing")]
    pub unread: Unread,
    /// Files of programs that could not be read in order to find the kernel's reads at their start.
    #[serde(skip_serializing_if = "is_zero")]
    pub unread_programs: UnreadPrograms,
    /// Block requests of other programs and of the kernel's own threads that were counted and not
    /// recorded.
    #[serde(skip_serializing_if = "is_zero")]
    pub others: Others,
    /// Number of calls that ask about files (`%stat`), which were counted and not recorded. `None`:
    /// they were recorded, or not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat_calls: Option<u64>,
}

/// Block requests that are not in the log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Others {
    /// Counters by device.
    pub devices: Vec<OthersOnDevice>,
    /// Requests that are in the log nevertheless: they waited too long for the decision that they
    /// contain no data of the program.
    pub kept_undecided: u64,
    /// Extents of files that were dropped for lack of space.
    pub places_given_up: u64,
}

/// Unrecorded block requests to one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OthersOnDevice {
    /// Number of the device, `MAJOR:MINOR`.
    pub dev: String,
    /// Completed requests that `/proc/diskstats` counts, by operation.
    pub operations: BTreeMap<String, RequestCount>,
    /// Requests that `/proc/diskstats` does not count.
    pub not_counted: u64,
}

/// Number and bytes of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestCount {
    /// Number of requests.
    pub requests: u64,
    /// Bytes that they moved.
    pub bytes: u64,
}

/// Unreadable files of programs, and lists of compiled functions: their addresses have no names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unread {
    /// Number of files.
    pub files: u64,
    /// Number of addresses in these files.
    pub addresses: u64,
    /// First files, up to a limit.
    pub first: Vec<UnreadFile>,
}

impl Disk {
    /// Returns true if the device is known to have no zones.
    pub fn has_no_zones(&self) -> bool {
        self.attributes.get("queue/zoned").is_some_and(|it| it == "none")
    }
}

impl Header {
    /// Returns the rank of all recorded processes; `None`: there are several ranks, the whole
    /// machine was recorded, or no rank is known.
    pub fn rank(&self) -> Option<u64> {
        let is_of_one = self.scope.ranks.is_empty() && self.scope.mode != "system";
        self.job.as_ref().and_then(|job| job.rank).filter(|_| is_of_one)
    }

    /// Returns true if the ends of waits that took a child were recorded: by tracepoints of their
    /// own or among all exits.
    pub fn records_waits(&self) -> bool {
        self.tracepoints
            .iter()
            .any(|it| it.name == "sys_exit_wait4" || it.filter.contains("(ret>0&&"))
    }
}

impl Unread {
    /// Returns true if all files were read.
    pub fn is_nothing(&self) -> bool {
        self.files == 0
    }
}

/// File that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnreadFile {
    /// Path by which a process uses it; bytes that are not printable ASCII as `\xNN`.
    pub path: String,
    /// Number of addresses in this file.
    pub addresses: u64,
    /// Reason why it could not be read, in words.
    pub reason: String,
}

/// Files of started programs, and of their interpreters and loaders, that could not be read at the
/// end of the recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnreadPrograms {
    /// Number of programs that need such a file.
    pub programs: u64,
    /// First programs, up to a limit.
    pub first: Vec<UnreadProgram>,
}

/// Program whose start is unknown because a file could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnreadProgram {
    /// Path of the program; bytes that are not printable ASCII as `\xNN`.
    pub path: String,
    /// Unreadable file, if it is another one, and the reason, in words.
    pub reason: String,
}

/// Counters of one tracepoint, summed over the CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Name of the tracepoint, `system:name`.
    pub name: String,
    /// Index into `Header::rings`.
    pub ring: u32,
    /// Events by the perf counters, after the filter; `None`: tracefs rings have no such counters.
    pub hits: Option<u64>,
    /// Samples found in the rings.
    pub samples: u64,
    /// Samples lost for lack of space, by `PERF_FORMAT_LOST`; `None`: the kernel has no such
    /// counter (before 6.0).
    pub lost: Option<u64>,
}

/// Counters of one kind of tracefs ring, summed over the CPUs: `per_cpu/cpuN/stats`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RingCounts {
    /// Index into `Header::rings`.
    pub ring: u32,
    /// `read events`: samples that were taken out of the ring.
    pub read: u64,
    /// Samples found in the pages that were taken out.
    pub found: u64,
    /// `overrun`: samples that were overwritten before they were taken.
    pub overrun: u64,
    /// `commit overrun` and `dropped events`: samples for which there was no space.
    pub dropped: u64,
    /// `entries`: samples that were still in the ring after the last read.
    pub left: u64,
}

/// Cost of the recording itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracerCost {
    /// CPU time of the tracer until the events were off, ns.
    pub cpu_ns: u64,
    /// Additional time of a recorded system call, ns: measured at the start with a call of the
    /// tracer's own. `None` if it was not measured.
    pub call_cost_ns: Option<u64>,
    /// Time of that call before the events were on, ns.
    pub idle_ns: Option<u64>,
    /// Time of an open of the tracer's own before the events were on, ns. `None` if it was not
    /// measured.
    pub open_ns: Option<u64>,
    /// Thread of the tracer that made these calls.
    pub meter_tid: Option<i32>,
    /// True if times before the events were on are missing because events of another recording were
    /// being closed.
    pub is_disturbed: bool,
}
