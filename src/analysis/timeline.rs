//! Activity over time in one pass and bounded memory: bytes and operations of calls, requests of
//! devices, durations, and the activity of each process, thread, file and device.
//!
//! The number of time bins is limited ([`BINS_MAX`]): their width doubles when the recording is
//! longer. The rows of processes and the like have wider columns ([`BINS_OF_COLUMN`] bins each),
//! whose width doubles once more when they take too much memory.
//!
//! Bytes and operations count at the end of their operation, time where it passed.

mod activity;
mod latency_grid;
mod offset_map;
mod time_axis;

use std::convert::Infallible;

use rustc_hash::{FxHashMap, FxHashSet};

pub use activity::{ActivityCell, ActivityRow, ActivityRows, ActivitySpan, ActivitySum};
pub use latency_grid::{LatencyGrid, PARTS_OF_OCTAVE, RANGES, percentile};
pub use offset_map::{MAP_COLUMNS, MAP_ROWS, OffsetMap, OffsetMaps, PlacedAccess};
pub(super) use time_axis::spread;
pub use time_axis::{BINS_MAX, TimeAxis};

use offset_map::MAP_COLUMN_BITS;

use super::completed_op::CompletedOp;
use super::process_names::ProcessNames;
use super::recent_rows::{OpRows, RecentRows};
use super::summary::file_key;
use crate::operation::access::is_passed_on;
use crate::operation::attribution::Piece;
use crate::operation::block::{BlockRequest, BlockStep, DiskstatsClass, RequestId};
use crate::operation::io_class::IoClass;
use crate::operation::model::{ProcessKey, ThreadInfo, ThreadKey};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, SECTOR_BYTES, Tid};

/// Bins of a column of the rows, as a power of two.
const COLUMN_BITS: u32 = 2;

/// Bins of a column of the rows, unless these take too much memory.
pub const BINS_OF_COLUMN: usize = 1 << COLUMN_BITS;

/// Bins of a column of the maps of files.
pub const BINS_OF_MAP_COLUMN: usize = BINS_MAX / MAP_COLUMNS;

/// Largest number of cells of all rows: beyond it their columns become wider.
const CELLS_MAX: usize = 1 << 20;

/// Amounts of a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBin {
    /// Bytes that operations read and wrote.
    pub moved: [u64; 2],
    /// Part of them that was read from and written to files.
    pub on_files: [u64; 2],
    /// Operations that read, those that write, and all others.
    pub operations: [u64; 3],
    /// Operations on files. Part of `operations`.
    pub file_operations: u64,
    /// Bytes that devices read and wrote; a stacked device (dm, md) does not count.
    pub device_bytes: [u64; 2],
    /// Requests to devices that read, those that write, and all others.
    pub requests: [u64; 3],
    /// Bytes that the kernel wrote back for another process. Part of `device_bytes`.
    pub written_back: u64,
    /// Largest number of requests in the devices at once.
    pub depth: u64,
}

impl TimeBin {
    /// Adds another bin.
    pub fn merge(&mut self, other: &Self) {
        add_each(&mut self.moved, &other.moved);
        add_each(&mut self.on_files, &other.on_files);
        add_each(&mut self.operations, &other.operations);
        add_each(&mut self.device_bytes, &other.device_bytes);
        add_each(&mut self.requests, &other.requests);
        self.file_operations += other.file_operations;
        self.written_back = self.written_back.saturating_add(other.written_back);
        self.depth = self.depth.max(other.depth);
    }
}

/// Requests that devices have at the moment.
#[derive(Clone, Debug, Default)]
struct RequestsInDevices {
    known: FxHashSet<RequestId>,
    /// Last bin that has their number.
    bin: usize,
}

/// Name of a thread.
#[derive(Clone, Debug)]
pub struct NamedThread {
    /// Number of the thread.
    pub tid: Tid,
    /// Name of the thread.
    pub comm: Vec<u8>,
    has_row: bool,
}

/// Fold of the activity over time.
#[derive(Clone, Debug)]
pub struct IoTimeline {
    /// Origin and width of the bins.
    pub axis: TimeAxis,
    /// End of the part that is looked at; `None`: the end of the recording.
    pub until: Option<KernelTime>,
    /// Bins, up to the last with an operation.
    pub bins: Vec<TimeBin>,
    /// Durations of operations on files, by bin.
    pub latency: LatencyGrid,
    /// Doublings of the columns of the rows beyond those of the bins.
    wider: u32,
    /// Operations on files by process.
    pub processes: ActivityRows<ProcessKey>,
    /// Operations on files by thread.
    pub threads: ActivityRows<ThreadKey>,
    /// Operations on files by file ([`file_key`]).
    pub files: ActivityRows<Vec<u8>>,
    /// Reads and writes of files by offset, by the number of the file's row.
    pub offsets: OffsetMaps,
    /// Completed requests by device.
    pub devices: ActivityRows<DevId>,
    /// Names of processes.
    pub names: ProcessNames,
    /// Names of threads that run or have a row.
    pub thread_names: FxHashMap<ThreadKey, NamedThread>,
    recent: RecentRows<OpRows>,
    in_devices: RequestsInDevices,
}

impl IoTimeline {
    /// Creates the fold; its first bin begins at this time.
    pub fn new(origin: KernelTime) -> Self {
        Self {
            axis: TimeAxis::new(origin),
            until: None,
            bins: Vec::new(),
            latency: LatencyGrid::default(),
            wider: 0,
            processes: ActivityRows::default(),
            threads: ActivityRows::default(),
            files: ActivityRows::default(),
            offsets: OffsetMaps::default(),
            devices: ActivityRows::default(),
            names: ProcessNames::default(),
            thread_names: FxHashMap::default(),
            recent: RecentRows::default(),
            in_devices: RequestsInDevices::default(),
        }
    }

    /// Looks at this part of the recording only: its bins can be narrower. To be called before
    /// anything is added.
    pub(super) fn restrict(&mut self, from: KernelTime, until: KernelTime) {
        self.axis = TimeAxis::new(self.axis.origin().max(from));
        self.until = Some(until);
    }

    /// Returns the width of a column of the rows as a power of two, ns.
    fn column_shift(&self) -> u32 {
        self.axis.width_ns().ilog2() + COLUMN_BITS + self.wider
    }

    /// Returns the width of a column of the rows, ns.
    pub fn column_ns(&self) -> u64 {
        1 << self.column_shift()
    }

    /// Returns the sum over all bins; its depth is the largest.
    pub fn total(&self) -> TimeBin {
        let mut total = TimeBin::default();
        self.bins.iter().for_each(|bin| total.merge(bin));
        total
    }

    /// Returns the number of the bin of a time, which exists then.
    fn reach(&mut self, time: KernelTime) -> usize {
        for _ in 0..self.axis.reach(time) {
            self.bins = self.bins.chunks(2).map(joined).collect();
            self.latency.halve();
            self.halve_rows();
            self.offsets.halve();
            self.in_devices.bin /= 2;
        }
        let place = self.axis.place(time);
        if self.bins.len() <= place {
            self.bins.resize(place + 1, TimeBin::default());
        }
        place
    }

    fn halve_rows(&mut self) {
        self.processes.halve();
        self.threads.halve();
        self.files.halve();
        self.devices.halve();
    }

    /// Adds an operation.
    pub(super) fn done(&mut self, done: &CompletedOp<'_>) {
        let place = self.reach(done.end);
        let moved = done.moved();
        let is_on_file = done.io == IoClass::File;
        if let Some(bin) = self.bins.get_mut(place) {
            let kind = match done.ways() {
                [_, true] => 1,
                [true, _] => 0,
                [false, false] => 2,
            };
            bin.operations.iter_mut().skip(kind).take(1).for_each(|count| *count += 1);
            add_each(&mut bin.moved, &moved);
            if is_on_file {
                add_each(&mut bin.on_files, &moved);
                bin.file_operations += 1;
            }
        }
        if is_on_file {
            self.latency.add(place, done.ns());
            self.on_file(done);
        }
    }

    /// Adds an operation on a file to the rows.
    fn on_file(&mut self, done: &CompletedOp<'_>) {
        let (shift, [read, written]) = (self.column_shift(), done.moved());
        let span = ActivitySpan {
            from: self.axis.since_origin(done.start),
            to: self.axis.since_origin(done.end),
            ns: done.ns(),
            bytes: read.saturating_add(written),
        };
        let rows = self.rows_of(done);
        self.processes.add(rows.process, &span, shift);
        let threads = &mut self.thread_names;
        let thread = self.threads.place(&done.thread, || {
            threads.entry(done.thread).and_modify(|thread| thread.has_row = true);
            done.thread
        });
        self.threads.add(thread, &span, shift);
        if let Some(file) = rows.file {
            self.files.add(file, &span, shift);
            let moved = done.sides();
            if let Some(offset) = done.offset.filter(|_| moved != [0; 2]) {
                let access = PlacedAccess { since_origin: span.to, offset, moved };
                self.offsets.add(file, access, self.axis.width_ns().ilog2() + MAP_COLUMN_BITS);
            }
        }
        if let Some(target) = &done.target {
            let key = file_key(target);
            let place = self.files.place(key.as_slice(), || key.clone());
            self.files.add(place, &span, shift);
        }
        self.limit_cells();
    }

    fn rows_of(&mut self, done: &CompletedOp<'_>) -> OpRows {
        self.recent.rows(done, || OpRows {
            process: self.processes.place(&done.process, || self.names.of_new_row(done.process)),
            file: done.name.as_ref().map(|name| {
                let key = file_key(name);
                self.files.place(key.as_slice(), || key.clone())
            }),
        })
    }

    /// Doubles the columns of the rows if these have too many cells.
    fn limit_cells(&mut self) {
        let tasks = self.processes.cells() + self.threads.cells();
        if tasks + self.files.cells() + self.devices.cells() > CELLS_MAX {
            self.wider += 1;
            self.halve_rows();
        }
    }

    fn request(&mut self, request: &BlockRequest, pieces: &[Piece], time: KernelTime) {
        self.left(request.id, time);
        let Some(class) = request.diskstats_class() else { return };
        let end = request.completed.unwrap_or(time);
        let place = self.reach(end);
        let bytes = request.diskstats_sectors().saturating_mul(SECTOR_BYTES);
        let moves = matches!(class, DiskstatsClass::Read | DiskstatsClass::Write);
        let begin = request.issued.or(request.begin()).unwrap_or(end);
        let span = ActivitySpan {
            from: self.axis.since_origin(begin),
            to: self.axis.since_origin(end),
            ns: end.0.saturating_sub(begin.0),
            bytes: if moves { bytes } else { 0 },
        };
        let shift = self.column_shift();
        let row = self.devices.place(&request.dev, || request.dev);
        self.devices.add(row, &span, shift);
        self.limit_cells();
        if is_passed_on(request) {
            return;
        }
        let Some(bin) = self.bins.get_mut(place) else { return };
        match class {
            DiskstatsClass::Read => bin.merge(&of_device([bytes, 0], [1, 0, 0])),
            DiskstatsClass::Write => {
                bin.merge(&of_device([0, bytes], [0, 1, 0]));
                let sectors = pieces.iter().filter(|piece| is_written_back(piece));
                let sectors: u64 = sectors.map(|piece| piece.nr_sector).sum();
                let written_back = sectors.saturating_mul(SECTOR_BYTES).min(bytes);
                bin.written_back = bin.written_back.saturating_add(written_back);
            }
            DiskstatsClass::Discard | DiskstatsClass::Flush => {
                bin.merge(&of_device([0; 2], [0, 0, 1]));
            }
        }
    }

    /// Counts a request of these devices for the depth alone.
    pub(super) fn count_depth(
        &mut self,
        time: KernelTime,
        step: &BlockStep<'_>,
        is_wanted: impl Fn(DevId) -> bool,
    ) {
        match step {
            BlockStep::Issued(request) if is_wanted(request.dev) => self.entered(request, time),
            BlockStep::Requeued(request) | BlockStep::Ended(request) => self.left(request.id, time),
            _ => {}
        }
    }

    fn entered(&mut self, request: &BlockRequest, time: KernelTime) {
        if is_passed_on(request) {
            return;
        }
        self.carry_depth(time);
        self.in_devices.known.insert(request.id);
        self.carry_depth(time);
    }

    fn left(&mut self, request: RequestId, time: KernelTime) {
        if self.in_devices.known.contains(&request) {
            self.carry_depth(time);
            self.in_devices.known.remove(&request);
        }
    }

    /// Enters the number of requests in the devices into all bins since the last one and up to this
    /// time.
    fn carry_depth(&mut self, time: KernelTime) {
        if time < self.axis.origin() || self.until.is_some_and(|until| time > until) {
            return;
        }
        let last = self.reach(time);
        let first = self.in_devices.bin.min(last);
        let depth = self.in_devices.known.len() as u64;
        let bins = self.bins.get_mut(first..=last).unwrap_or_default();
        bins.iter_mut().for_each(|bin| bin.depth = bin.depth.max(depth));
        self.in_devices.bin = last;
    }

    fn thread(&mut self, step: &Step<'_>) {
        match step {
            Step::ThreadSeen(thread) | Step::ThreadRenamed(thread) => {
                let ThreadInfo { key, tid, comm, .. } = thread;
                let known = self.thread_names.entry(*key);
                let known = known.or_insert_with(|| NamedThread {
                    tid: *tid,
                    comm: Vec::new(),
                    has_row: false,
                });
                known.comm.clone_from(comm);
            }
            Step::ThreadEnded(thread) => {
                let has_row = self.thread_names.get(&thread.key).is_some_and(|known| known.has_row);
                if !has_row {
                    self.thread_names.remove(&thread.key);
                }
            }
            _ => {}
        }
    }
}

/// Adds numbers to sums at the same places.
fn add_each(sums: &mut [u64], more: &[u64]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
}

/// Sum of a pair of bins.
fn joined(pair: &[TimeBin]) -> TimeBin {
    let mut sum = TimeBin::default();
    pair.iter().for_each(|bin| sum.merge(bin));
    sum
}

fn of_device(device_bytes: [u64; 2], requests: [u64; 3]) -> TimeBin {
    TimeBin { device_bytes, requests, ..TimeBin::default() }
}

/// True for sectors that another process wrote than the one that queued their bio.
fn is_written_back(piece: &Piece) -> bool {
    !piece.writers.is_empty() && piece.writers.iter().all(|by| by.pid != piece.queued.pid)
}

impl Sink for IoTimeline {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                if let Some(done) = CompletedOp::of(step) {
                    self.done(&done);
                }
            }
            Step::Block { step: BlockStep::Issued(request), .. } => self.entered(request, time),
            Step::Block { step: BlockStep::Requeued(request), .. } => self.left(request.id, time),
            Step::Block { step: BlockStep::Ended(request), pieces, .. } => {
                self.request(request, pieces, time);
            }
            _ => {
                self.thread(step);
                self.names.look(step);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::operation::model::{FilePath, OpenFile, PathSource};
    use crate::operation::test_fixtures::call;

    /// Returns the fold over reads and writes of a file: begin, duration and bytes of each.
    fn folded(all: &[(u64, u64, u16)]) -> IoTimeline {
        let mut fold = IoTimeline::new(KernelTime(1000));
        let file: Arc<OpenFile> = OpenFile {
            id: 0,
            path: Some(FilePath::new("/a", PathSource::Link)),
            first_path: None,
            given: None,
            stat: None,
            flags: None,
            pre_created: false,
        }
        .into();
        for (number, (begin, ns, bytes)) in all.iter().enumerate() {
            let name = if number % 2 == 0 { "read" } else { "write" };
            let times = [1000 + begin, 1000 + begin + ns];
            let operation = call(name, file.clone(), times, None, i64::from(*bytes));
            let step = Step::SyscallEnded(&operation, &[]);
            fold.step(KernelTime(times[1]), &step).unwrap_or_default();
        }
        fold
    }

    proptest! {
        /// Fails if a doubling of the bins, in any order, loses or repeats anything.
        #[test]
        fn sums_over_bins_equal_totals(
            all in prop::collection::vec((0_u64..1 << 36, 0_u64..1 << 30, any::<u16>()), 1..40),
        ) {
            let (fold, total) = (folded(&all), folded(&all).total());
            let bytes = |odd: usize| -> u64 {
                let own = all.iter().enumerate().filter(|(number, _)| number % 2 == odd);
                own.map(|(_, (_, _, bytes))| u64::from(*bytes)).sum()
            };
            prop_assert_eq!(total.moved, [bytes(0), bytes(1)]);
            let count = all.len() as u64;
            prop_assert_eq!(total.operations, [count.div_ceil(2), count / 2, 0]);
            prop_assert!(fold.bins.len() <= BINS_MAX);
            let timed: u64 = (0..fold.bins.len()).flat_map(|bin| fold.latency.bin(bin)).sum();
            prop_assert_eq!(timed, total.file_operations);
            for (_, row) in fold.processes.rows.iter() {
                let mut sum = ActivitySum::default();
                row.cells.iter().for_each(|cell| sum.merge(&cell.sum));
                prop_assert_eq!(sum, row.total);
                prop_assert!(row.cells.is_sorted_by(|a, b| a.column < b.column));
            }
        }
    }
}
