//! The JSON of the HEADER and END frames. These structs are the format: they are not used for anything else, a field
//! is only ever added, and readers take a missing one for its default.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the capture is and how to read its records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Version of iotrace-perf that wrote it.
    pub tool_version: String,
    /// The machine.
    pub host: Host,
    /// The clock of all times.
    pub clock: Clock,
    /// Whom it follows.
    pub scope: Scope,
    /// The tracer's own process, as the records show it.
    pub own_pid: i32,
    /// Names of the system calls recorded.
    pub calls: Vec<String>,
    /// Where file names come from: `kprobe`, `uprobe`, `reader`, `fanotify`, `event`, `snapshot` or `off`.
    pub names: String,
    /// Why from there, in words; for `kprobe` and `uprobe` what the probes show. Empty in logs of versions that knew only readers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub names_reason: String,
    /// Who told what is at work inside calls: `kprobe` or `tracepoint`; `None`: that was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<String>,
    /// Of kprobes what they see and what this kernel lacks; else why there are none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub layers_reason: String,
    /// What was read of the calls' arguments: `registers`, or `exact` if also what they point to.
    pub args: String,
    /// Where hits came from: `perf` or `tracefs`; empty in logs of versions that knew only perf.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Why from there, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source_reason: String,
    /// True if the end of each exec was recorded by its own number, which tells what calls the new program makes.
    pub exec_exits: bool,
    /// What is known of how hits came about: through which functions; `None`: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chains: Option<Chains>,
    /// How the records of data frames are laid out, by the frame's `layout`.
    pub layouts: Vec<Layout>,
    /// The rings, by the data frames' `stream`.
    pub rings: Vec<Ring>,
    /// The tracepoints that were opened.
    pub tracepoints: Vec<Tracepoint>,
    /// Block devices.
    pub disks: Vec<Disk>,
    /// Numbers (`MAJOR:MINOR`) of those whose requests were recorded; empty: of all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_filter: Vec<String>,
    /// It was not recorded but made from a log of another tool; `None`: it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
}

/// The log of another tool that this one was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Imported {
    /// Who wrote it: `strace`, `ioriot`, `fio`, `blktrace`.
    pub tool: String,
    /// In which of its formats.
    pub format: String,
    /// The last part of its name; bytes that are not UTF-8 as `\xNN`.
    pub file: String,
}

/// The machine of the capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// `uname -n`.
    pub hostname: String,
    /// `uname -r`.
    pub kernel_release: String,
    /// `uname -v`.
    pub kernel_version: String,
    /// `uname -m`: decides the system call numbers.
    pub machine: String,
    /// Numbers of the CPUs that were online.
    pub cpus: Vec<u32>,
    /// Bytes of a page.
    pub page_bytes: u64,
}

/// The clock of all times in the log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// Its name: `CLOCK_MONOTONIC`.
    pub name: String,
    /// Its reading when the capture started, ns.
    pub start_ns: u64,
    /// Its reading when the last tracepoint had been switched on, ns: what happened between the start and this was seen
    /// in part.
    pub all_on_ns: u64,
    /// `CLOCK_REALTIME` at the start, ns since 1970.
    pub start_realtime_ns: u64,
}

/// Whom the capture follows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scope {
    /// `system`, `launch` or `attach`.
    pub mode: String,
    /// The launched process, or those attached to.
    pub roots: Vec<i32>,
    /// True if records of other processes were kept although the scope is not the system.
    pub foreign_kept: bool,
    /// True if block requests of everybody are shown although the scope is not the system.
    pub all_block: bool,
    /// True if block requests of others were counted and not recorded.
    pub others_counted: bool,
    /// The launched command, each argument with bytes that are not UTF-8 escaped as `\xNN`.
    pub command: Vec<String>,
}

/// Through which functions threads came to hits of the ring `chains`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chains {
    /// The kernel's functions were recorded.
    pub kernel: bool,
    /// The program's.
    pub user: bool,
    /// The program's are found by what tells how to go back (DWARF), from so many bytes of its stack; 0: by frame pointers.
    #[serde(skip_serializing_if = "is_zero")]
    pub stack_bytes: u32,
    /// Of system calls, too, at their ends; the kernel's functions are not known there.
    pub calls: bool,
    /// A chain has no more addresses than this (`kernel.perf_event_max_stack`): one that has so many may be cut off.
    pub frames_max: u64,
}

/// How the records of a data frame are laid out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Layout {
    /// Where they are from: `perf` or `tracefs`.
    pub source: String,
    /// perf: `PERF_SAMPLE_*`; `sample_id_all` is set.
    pub sample_type: u64,
    /// perf: of samples with registers of the program those that they have, a bit for each (`PERF_REG_*`).
    #[serde(skip_serializing_if = "is_zero")]
    pub regs_user: u64,
    /// tracefs: the text of `events/header_page`, byte by byte.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub header_page: String,
    /// tracefs: the text of `events/header_event`, byte by byte.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub header_event: String,
    /// tracefs: in a frame the time of each page but the first is its difference to the last time of the page before.
    pub pages_continue: bool,
}

/// One kind of ring; there is one of it on each CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ring {
    /// What is in it: `main`, `names`, …
    pub name: String,
    /// Bytes of each.
    pub bytes: u64,
}

/// A tracepoint that was opened on every CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tracepoint {
    /// `raw_syscalls`, `block`, …
    pub system: String,
    /// `sys_enter`, …
    pub name: String,
    /// `common_type` of its records.
    pub id: u16,
    /// The `format` file, byte by byte.
    pub format: String,
    /// The filter set in the kernel; empty = none.
    pub filter: String,
    /// Index into `rings`.
    pub ring: u32,
}

/// A block device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// `MAJOR:MINOR`.
    pub dev: String,
    /// Its name under `/sys/block`.
    pub name: String,
    /// `/sys/block/NAME/queue/scheduler`, the active one.
    pub scheduler: String,
    /// Files below `/sys/block/NAME` and what they say, without the newline at the end; bytes that are not UTF-8 as
    /// `\xNN`. A file that is not there, cannot be read or is empty is not in it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// The file that it lies on, if it is a loop device and the file is where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_file: Option<LoopFile>,
    /// Its partitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<Partition>,
    /// Names of the devices that lie on it (dm, md).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<String>,
    /// Names of the devices on which it lies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slaves: Vec<String>,
}

/// The file of a loop device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoopFile {
    /// `MAJOR:MINOR` of its file system, as `st_dev` says it.
    pub dev: String,
    /// Its inode.
    pub ino: u64,
}

/// A partition of a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Partition {
    /// `MAJOR:MINOR`.
    pub dev: String,
    /// Its name.
    pub name: String,
    /// Its first sector on the disk (512 bytes each).
    pub start_sectors: Option<u64>,
    /// Its length in sectors (512 bytes each).
    pub sectors: Option<u64>,
}

fn is_zero<T: Default + PartialEq>(it: &T) -> bool {
    *it == T::default()
}

/// How the recording ended and what the kernel counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// The clock when the events were switched off, ns.
    pub end_ns: u64,
    /// `CLOCK_REALTIME` then.
    pub end_realtime_ns: u64,
    /// How far `CLOCK_REALTIME` was then from where it would have been if nobody had set it and the machine had not slept, ns.
    /// `None`: not looked at.
    pub wall_moved_ns: Option<i64>,
    /// Why: `exit`, `interrupt`, `duration`, `disk-full`, …
    pub reason: String,
    /// Exit status of the launched program; `None`: none was launched or it runs on.
    pub exit_code: Option<i32>,
    /// The signal that killed the launched program.
    pub exit_signal: Option<i32>,
    /// What was counted, per tracepoint.
    pub tracepoints: Vec<Counts>,
    /// What the kernel says of tracefs rings, summed over the CPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rings: Vec<RingCounts>,
    /// Records that were dropped because of the scope, before they reached the log.
    pub foreign_dropped: u64,
    /// What could not be written to the log, in records.
    pub unwritten: u64,
    /// What went wrong without ending the recording, in words.
    pub warnings: Vec<String>,
    /// What the recording itself cost.
    pub own: Own,
    /// Files that could not be asked at the end where they lie.
    pub places_not_asked: u64,
    /// Block devices that were not in the header, or as they were not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Disk>,
    /// What could not be read to find what addresses of programs are called.
    #[serde(skip_serializing_if = "Unread::is_nothing")]
    pub unread: Unread,
    /// Files of programs that could not be read to find what the kernel reads to start them.
    #[serde(skip_serializing_if = "is_zero")]
    pub unread_programs: UnreadPrograms,
    /// Block requests of other programs and of the kernel's own threads that were counted and not recorded.
    #[serde(skip_serializing_if = "is_zero")]
    pub others: Others,
}

/// Block requests that are not in the log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Others {
    /// By the devices that they were for.
    pub devices: Vec<OthersOnDevice>,
    /// Requests that are in the log all the same: they waited too long until it was known that nothing of the program's was in them.
    pub kept_undecided: u64,
    /// Places of files that were given up for want of room.
    pub places_given_up: u64,
}

/// Those for one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OthersOnDevice {
    /// `MAJOR:MINOR`.
    pub dev: String,
    /// By operation: those that completed and that `/proc/diskstats` counts.
    pub operations: BTreeMap<String, RequestCount>,
    /// Those that it does not count.
    pub not_counted: u64,
}

/// So many requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestCount {
    /// How many.
    pub requests: u64,
    /// What they moved, in bytes.
    pub bytes: u64,
}

/// Files of programs, and lists of compiled functions, that could not be read: their addresses have no names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unread {
    /// How many files.
    pub files: u64,
    /// Addresses that were to be found in them.
    pub addresses: u64,
    /// The first few files.
    pub first: Vec<UnreadFile>,
}

impl Disk {
    /// True if it is known to have no zones.
    pub fn has_no_zones(&self) -> bool {
        self.attributes.get("queue/zoned").is_some_and(|it| it == "none")
    }
}

impl Header {
    /// True if the ends of waits were recorded that took a child: by tracepoints of their own or among all exits.
    pub fn records_waits(&self) -> bool {
        self.tracepoints
            .iter()
            .any(|it| it.name == "sys_exit_wait4" || it.filter.contains("(ret>0&&"))
    }
}

impl Unread {
    /// True if everything was read.
    pub fn is_nothing(&self) -> bool {
        self.files == 0
    }
}

/// A file that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnreadFile {
    /// As a process calls it; bytes that are not printable ASCII as `\xNN`.
    pub path: String,
    /// Addresses that were to be found in it.
    pub addresses: u64,
    /// Why not, in words.
    pub reason: String,
}

/// Files of started programs, and of their interpreters and loaders, that could not be read at the end of the recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnreadPrograms {
    /// Number of programs that need such a file.
    pub programs: u64,
    /// The first few programs.
    pub first: Vec<UnreadProgram>,
}

/// A program whose start is not known because a file could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnreadProgram {
    /// Its path; bytes that are not printable ASCII as `\xNN`.
    pub path: String,
    /// Which file could not be read, if it is another one, and why not, in words.
    pub reason: String,
}

/// Books of one tracepoint, summed over the CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// `system:name`.
    pub name: String,
    /// Index into `Header::rings`.
    pub ring: u32,
    /// What the perf counters say, after the filter; `None`: tracefs rings have no such counters.
    pub hits: Option<u64>,
    /// Samples found in the rings.
    pub samples: u64,
    /// Samples lost for want of room, by `PERF_FORMAT_LOST`; `None`: the kernel has no such count (before 6.0).
    pub lost: Option<u64>,
}

/// Books of one kind of tracefs ring, summed over the CPUs: `per_cpu/cpuN/stats`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RingCounts {
    /// Index into `Header::rings`.
    pub ring: u32,
    /// `read events`: hits that were taken out.
    pub read: u64,
    /// Hits found in what was taken out.
    pub found: u64,
    /// `overrun`: hits that were overwritten before they were taken.
    pub overrun: u64,
    /// `commit overrun` and `dropped events`: hits that had no room.
    pub dropped: u64,
    /// `entries`: hits that were still in the ring after the last look.
    pub left: u64,
}

/// What the recording itself cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Own {
    /// CPU time of the tracer until the events were off, ns.
    pub cpu_ns: u64,
    /// How much longer a recorded system call took, ns: measured at the start with a call of the tracer's own. `None`: not
    /// measured.
    pub call_cost_ns: Option<u64>,
}
