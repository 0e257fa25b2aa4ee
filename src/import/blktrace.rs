//! Binary traces of blktrace: files of one CPU each, which are merged by time, or the merged file
//! of `blkparse -d`.
//!
//! A record is a `struct blk_io_trace` (`include/uapi/linux/blktrace_api.h`), 48 bytes in the order
//! of the machine that wrote them:
//!
//! | Offset | Bytes | |
//! |---|---|---|
//! | 0 | 4 | magic `65 61 74`, and the version, 7 |
//! | 4 | 4 | number of the record on its CPU |
//! | 8 | 8 | time, ns |
//! | 16 | 8 | sector |
//! | 24 | 4 | bytes |
//! | 28 | 4 | event in the lower half, category in the upper one |
//! | 32 | 4 | thread |
//! | 36 | 4 | device: major number above 20 bits of the minor one |
//! | 40 | 4 | CPU |
//! | 44 | 2 | minus the error's number, or 0 |
//! | 46 | 2 | bytes that follow |

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, BufRead};

use rustc_hash::{FxHashMap, FxHashSet};

use super::block_text::{RequestDevices, comm_of};
use super::import_report::ImportReport;
use super::imported_event::{Block, ImportedEvent, ImportedKind, ImportedTask};
use crate::event::block::BlockPoint;
use crate::units::{DevId, SECTOR_BYTES};

const RECORD_BYTES: usize = 48;
/// Magic number, whose lowest byte is the version.
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

/// `BLK_TA_*`: events, with our names for them.
const ACTIONS: [(u32, BlockPoint); 10] = [
    (1, BlockPoint::BioQueue),
    (2, BlockPoint::BackMerge),
    (3, BlockPoint::FrontMerge),
    (4, BlockPoint::GetRq),
    (6, BlockPoint::Requeue),
    (7, BlockPoint::Issue),
    (8, BlockPoint::Complete),
    (12, BlockPoint::Insert),
    (13, BlockPoint::Split),
    (15, BlockPoint::Remap),
];

/// Flag: the number of a control group precedes the payload (`__BLK_TA_CGROUP`).
const HAS_GROUP: u32 = 1 << 8;
const GROUP_BYTES: usize = 8;

/// `BLK_TC_*`: categories, above the lower half.
const KIND_SHIFT: u32 = 16;
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNC: u32 = 1 << 3;
const NOTIFY: u32 = 1 << 10;
const AHEAD: u32 = 1 << 11;
const META: u32 = 1 << 12;
const DISCARD: u32 = 1 << 13;
const FUA: u32 = 1 << 15;

/// `BLK_TN_PROCESS`: the payload is the name of a thread.
const NAMES_THREAD: u32 = 0;

/// Limit on the threads whose names are kept.
const NAMES_MAX: usize = 1 << 20;

/// Byte order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    fn of(head: &[u8]) -> Option<Self> {
        let bytes = *head.first_chunk::<4>()?;
        let is_magic = |number: u32| number & !0xff == MAGIC;
        if is_magic(u32::from_le_bytes(bytes)) {
            Some(Self::Little)
        } else {
            is_magic(u32::from_be_bytes(bytes)).then_some(Self::Big)
        }
    }

    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        if self == Self::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    }

    fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        if self == Self::Little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) }
    }

    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        if self == Self::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    }
}

/// True if a file begins like a trace.
pub(super) fn is_trace(head: &[u8]) -> bool {
    ByteOrder::of(head).is_some()
}

/// Parser of traces.
#[derive(Debug, Default)]
pub(super) struct Blktrace {
    names: FxHashMap<u32, Vec<u8>>,
    /// Threads that have an event already.
    named: FxHashSet<u32>,
    devices: RequestDevices,
}

/// Records of one file.
struct RecordStream<R> {
    input: R,
    order: ByteOrder,
    record: [u8; RECORD_BYTES],
    pdu: Vec<u8>,
}

impl<R: BufRead> RecordStream<R> {
    fn new(input: R) -> Self {
        let (order, record) = (ByteOrder::Little, [0; RECORD_BYTES]);
        Self { input, order, record, pdu: Vec::new() }
    }

    /// Reads the next record, and returns its time; `None` at the end, or where the rest cannot be
    /// read.
    fn next(&mut self, notes: &mut ImportReport) -> io::Result<Option<u64>> {
        if !fill(&mut self.input, &mut self.record, notes)? {
            return Ok(None);
        }
        notes.read += 1;
        let Some(order) = ByteOrder::of(&self.record) else {
            // The position of the next record is unknown.
            notes.not_understood(notes.read, &self.record);
            notes.count("time that the trace is damaged: the rest is skipped");
            return Ok(None);
        };
        self.order = order;
        self.pdu.resize(usize::from(order.u16(&self.record, 46)), 0);
        if !self.pdu.is_empty() && !fill(&mut self.input, &mut self.pdu, notes)? {
            return Ok(None);
        }
        Ok(Some(order.u64(&self.record, 8)))
    }
}

impl Blktrace {
    /// Reads complete traces, in the order of their records' times.
    ///
    /// # Errors
    ///
    /// Errors of the inputs, and of the output.
    pub(super) fn read<R: BufRead>(
        &mut self,
        inputs: Vec<R>,
        notes: &mut ImportReport,
        mut put: impl FnMut(ImportedEvent) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut streams: Vec<_> = inputs.into_iter().map(RecordStream::new).collect();
        let mut next = BinaryHeap::new();
        for (index, stream) in streams.iter_mut().enumerate() {
            next.extend(stream.next(notes)?.map(|time| Reverse((time, index))));
        }
        let mut events = Vec::new();
        while let Some(Reverse((_, index))) = next.pop() {
            let Some(stream) = streams.get_mut(index) else { continue };
            self.record(stream.order, &stream.record, &stream.pdu, &mut events, notes);
            events.drain(..).try_for_each(&mut put)?;
            next.extend(stream.next(notes)?.map(|time| Reverse((time, index))));
        }
        Ok(())
    }

    fn record(
        &mut self,
        order: ByteOrder,
        record: &[u8],
        pdu: &[u8],
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) {
        if order.u32(record, 0) & 0xff != VERSION {
            return notes.not_understood(notes.read, record);
        }
        let (action, thread) = (order.u32(record, 28), order.u32(record, 32));
        let (what, kind) = (action & 0xffff, action >> KIND_SHIFT);
        let skipped = if what & HAS_GROUP != 0 { GROUP_BYTES } else { 0 };
        let pdu = pdu.get(skipped..).unwrap_or_default();
        let what = what & !HAS_GROUP;
        if kind & NOTIFY != 0 {
            if what == NAMES_THREAD && self.names.len() < NAMES_MAX {
                let name = pdu.split(|byte| *byte == 0).next().unwrap_or_default();
                self.names.insert(thread, comm_of(name));
                self.named.remove(&thread);
            }
            return;
        }
        let Some(&(_, point)) = ACTIONS.iter().find(|action| action.0 == what) else {
            return notes.count("records of plugs, bounces and drivers: skipped");
        };
        let (time, tid) = (order.u64(record, 8), i32::try_from(thread).unwrap_or(0));
        let task = ImportedTask::leader(tid);
        let comm = self.names.get(&thread).cloned().unwrap_or_default();
        if tid > 0 && !comm.is_empty() && self.named.insert(thread) {
            out.push(ImportedEvent { time, task, what: ImportedKind::Named(comm.clone(), false) });
        }
        let block = self.block(order, record, point, kind, pdu);
        out.push(ImportedEvent { time, task, what: ImportedKind::Block(Block { comm, ..block }) });
    }

    fn block(
        &mut self,
        order: ByteOrder,
        record: &[u8],
        point: BlockPoint,
        kind: u32,
        pdu: &[u8],
    ) -> Block {
        let (sector, bytes) = (order.u64(record, 16), order.u32(record, 24));
        let device = order.u32(record, 36);
        let point = self.devices.point(point, DevId(device));
        // In network byte order on every machine.
        let (old, new) = (ByteOrder::Big.u32(pdu, 0), ByteOrder::Big.u32(pdu, 4));
        let (dev, from) = match point {
            BlockPoint::Remap if pdu.len() >= 16 => {
                (new, Some((DevId(old), ByteOrder::Big.u64(pdu, 8))))
            }
            _ => (device, None),
        };
        let sectors = match point {
            BlockPoint::Split if pdu.len() >= 8 => ByteOrder::Big.u64(pdu, 0),
            BlockPoint::Split => sector,
            _ => u64::from(bytes) / SECTOR_BYTES,
        };
        Block {
            point,
            dev: DevId(dev),
            sector,
            sectors,
            error: i32::from(order.u16(record, 44).cast_signed()).min(0),
            rwbs: rwbs(kind, bytes),
            from,
            comm: Vec::new(),
        }
    }
}

/// Letters for a category, as the kernel's own tracepoints have them (`blk_fill_rwbs()` in
/// `kernel/trace/blktrace.c`).
fn rwbs(kind: u32, bytes: u32) -> Vec<u8> {
    let has = |bit: u32| kind & bit != 0;
    let op = match () {
        () if has(DISCARD) => b'D',
        () if has(WRITE) => b'W',
        () if bytes > 0 => b'R',
        () if has(FLUSH) => b'F',
        () => b'N',
    };
    let letters = [
        (has(FLUSH), b'F'),
        (true, op),
        (has(FUA), b'F'),
        (has(AHEAD), b'A'),
        (has(SYNC), b'S'),
        (has(META), b'M'),
    ];
    letters.into_iter().filter(|letter| letter.0).map(|letter| letter.1).collect()
}

/// Fills the buffer; returns false at the end of the input, or within its last record.
fn fill<R: BufRead>(input: &mut R, bytes: &mut [u8], notes: &mut ImportReport) -> io::Result<bool> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|byte| !byte.is_empty()) {
        match input.read(rest) {
            Ok(0) => {
                notes.add("bytes of a record at the end, which is truncated", filled as u64);
                return Ok(false);
            }
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> (Vec<ImportedEvent>, ImportReport) {
        let (mut events, mut notes) = (Vec::new(), ImportReport::default());
        let put = |value| {
            events.push(value);
            Ok(())
        };
        Blktrace::default().read(vec![bytes], &mut notes, put).expect("memory");
        (events, notes)
    }

    /// Category of reads.
    const READ_KIND: u32 = 1 << KIND_SHIFT;

    fn record(is_big: bool, action: u32, bytes: u32, pdu: &[u8]) -> Vec<u8> {
        let words = |number: u32| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
        let long = |number: u64| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
        let length = u32::try_from(pdu.len()).expect("short");
        let end = if is_big { length } else { length << 16 };
        let head = [words(MAGIC | VERSION), words(1)].concat();
        let middle = [long(7000), long(64)].concat();
        let tail = [bytes, action, 42, 8 << 20 | 1, 0, end].map(words).concat();
        [head, middle, tail, pdu.to_vec()].concat()
    }

    #[test]
    fn both_orders_of_bytes_are_read() {
        for is_big in [false, true] {
            let kind = (WRITE | SYNC | FUA) << KIND_SHIFT;
            let records = [
                record(is_big, NOTIFY << KIND_SHIFT, 0, b"dd\0"),
                record(is_big, kind | 1, 4096, &[]),
                record(
                    is_big,
                    kind | 15,
                    4096,
                    &[0, 128, 0, 2, 0, 128, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9],
                ),
                record(is_big, kind | 9, 0, &[]),
                record(is_big, kind | 8, 4096, &[]),
            ];
            let (events, notes) = read(&[records.concat().as_slice(), &[7]].concat());
            assert_eq!(events[0].what, ImportedKind::Named(b"dd".to_vec(), false));
            let ImportedKind::Block(queued) = &events[1].what else { panic!("{events:?}") };
            assert_eq!((queued.dev, queued.sector, queued.sectors), (DevId::new(8, 1), 64, 8));
            assert_eq!((queued.rwbs.as_slice(), queued.comm.as_slice()), (&b"WFS"[..], &b"dd"[..]));
            let ImportedKind::Block(remapped) = &events[2].what else { panic!("{events:?}") };
            assert_eq!(remapped.from, Some((DevId::new(8, 2), 9)));
            let ImportedKind::Block(done) = &events[3].what else { panic!("{events:?}") };
            assert_eq!(done.point, BlockPoint::BioComplete);
            assert_eq!(notes.messages("records").len(), 2, "{notes:?}");
        }
    }

    #[test]
    fn letters_are_those_of_the_kernel() {
        let letters = |kind, bytes| String::from_utf8(rwbs(kind, bytes)).expect("letters");
        assert_eq!(letters(FLUSH, 0), "FF");
        assert_eq!(letters(FLUSH | WRITE | SYNC, 4096), "FWS");
        assert_eq!(letters(AHEAD | META, 4096), "RAM");
        assert_eq!(letters(DISCARD | WRITE, 4096), "D");
        assert_eq!(letters(0, 0), "N");
    }

    #[test]
    fn files_of_several_cpus_are_merged_by_time() {
        let at = |time: u64, action: u32| {
            let mut bytes = record(false, action | READ_KIND, 4096, &[]);
            bytes[8..16].copy_from_slice(&time.to_le_bytes());
            bytes
        };
        // The completion is on another CPU than the issue.
        let first = [at(10, 1), at(30, 7), at(70, 7)].concat();
        let second = [at(20, 2), at(50, 8), at(90, 8)].concat();
        let (mut times, mut notes) = (Vec::new(), ImportReport::default());
        let put = |event: ImportedEvent| {
            times.push(event.time);
            Ok(())
        };
        let inputs = vec![first.as_slice(), second.as_slice(), &[]];
        Blktrace::default().read(inputs, &mut notes, put).expect("memory");
        assert_eq!((times, notes.read), (vec![10, 20, 30, 50, 70, 90], 6));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            actions in prop::collection::vec(any::<u32>(), 0..8)
        ) {
            read(&bytes);
            let records: Vec<u8> = actions.iter().flat_map(|action| record(false, *action, 512, &bytes)).collect();
            read(&records);
        }
    }
}
