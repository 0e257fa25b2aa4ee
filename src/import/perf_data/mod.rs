//! Recordings of `perf record` with tracepoints of calls and block requests.
//!
//! ```text
//!   perf.data ─► PerfFile: events, formats ─► Decoder
//!        └─────► records ─► RecordedEvent's layout ─► ImportedEvent ─► RoundSorter ─► log
//! ```
//!
//! The records are the kernel's, so they are decoded as those of our own rings. perf writes them
//! ring by ring, with a mark after each round: all records that are older than the end of the round
//! before are complete then.

mod file;
mod formats;
mod refusal;
mod round_sorter;

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use rustc_hash::FxHashMap;

use super::block_text::comm_of;
use super::import_report::ImportReport;
use super::imported_event::{Block, ImportedEvent, ImportedKind, ImportedTask};
use crate::event::EventKind;
use crate::event::block::{BlockEvent, BlockPoint};
use crate::event::decode::{DecodeError, Decoder};
use crate::record::abi::{record_type, sample_type};
use crate::record::layout::SampleLayout;
use crate::record::parse::{RecordBody, RecordKind};
use file::{PerfFile, u64_at};
pub(super) use refusal::Refusal;
use round_sorter::RoundSorter;

/// Bytes of a record's header.
const HEADER_BYTES: usize = 8;

/// Records of perf itself have types from here on.
const USER_TYPES: u32 = 64;
/// Mark after one pass over all rings.
const FINISHED_ROUND: u32 = 68;
/// Data of a hardware tracer, whose bytes follow the record.
const AUXTRACE: u32 = 71;
/// Type of the record with the losses of an event (`PERF_RECORD_LOST_SAMPLES`).
const LOST_SAMPLES: u32 = 13;
/// Bit of samples that were filtered on purpose (`PERF_RECORD_MISC_LOST_SAMPLES_BPF`).
const BPF_FILTERED: u16 = 1 << 15;

/// Bits of `clone` for a new thread, as its parent's resources are shared.
const THREAD_FLAGS: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM;

/// Returns true if a file begins like a recording.
pub(super) fn is_recording(head: &[u8]) -> bool {
    head.starts_with(file::MAGIC) || head.starts_with(file::SWAPPED_MAGIC)
}

/// Reads a whole recording.
pub(super) fn read<R: Read + Seek>(
    input: R,
    notes: &mut ImportReport,
    put: impl FnMut(ImportedEvent) -> io::Result<()>,
) -> Result<(), Refusal> {
    let mut input = BufReader::with_capacity(1 << 20, input);
    let file = PerfFile::read(&mut input)?;
    let mut decoder = Decoder::new(&file.machine);
    for format in &file.formats {
        if decoder.add(&format.system, &format.name, format.id, &format.text).is_err() {
            notes.count("tracepoints whose format is not understood");
        }
    }
    input.seek(SeekFrom::Start(file.data.offset))?;
    let layouts = Layouts::of(&file);
    let sorter = RoundSorter::new(put);
    let (lost, lost_samples) = (0, 0);
    let mut records = PerfRecords { decoder, layouts, sorter, lost, lost_samples, notes };
    // perf writes the size at the end: a killed one leaves 0, and the rest of the file is data.
    let limit = if file.data.size == 0 { u64::MAX } else { file.data.size };
    records.read(&mut input.take(limit))?;
    records.finish()?;
    Ok(())
}

/// Layouts of records, by the number of their event.
struct Layouts {
    by_id: FxHashMap<u64, Option<SampleLayout>>,
    /// The only layout, if all events have the same.
    common: Option<SampleLayout>,
    /// Layout of the first event.
    first: Option<SampleLayout>,
    has_identifier: bool,
}

impl Layouts {
    fn of(file: &PerfFile) -> Self {
        let events = &file.events;
        let first = events.first().and_then(|event| event.layout);
        let is_common = events.iter().all(|event| event.layout == first);
        let has_identifier =
            events.iter().all(|event| event.sample_type & sample_type::IDENTIFIER != 0);
        let ids = |event: &file::RecordedEvent| {
            let layout = event.layout;
            event.ids.iter().map(move |id| (*id, layout)).collect::<Vec<_>>()
        };
        let by_id = events.iter().flat_map(ids).collect();
        Self { by_id, common: first.filter(|_| is_common), first, has_identifier }
    }

    fn layout(&self, record: &RecordKind<'_>) -> Option<SampleLayout> {
        if self.common.is_some() || !self.has_identifier {
            return self.common;
        }
        if record.kind == record_type::SAMPLE {
            return *self.by_id.get(&u64_at(record.body, 0)?)?;
        }
        let id = u64_at(record.body, record.body.len().checked_sub(8)?)?;
        // Records that perf makes up have no number, and the trailer of the first event.
        self.by_id.get(&id).copied().unwrap_or(self.first)
    }
}

/// Reader of the records.
struct PerfRecords<'n, P> {
    decoder: Decoder,
    layouts: Layouts,
    sorter: RoundSorter<P>,
    /// Losses that records of rings report, and that the kernel has counted for the events.
    lost: u64,
    lost_samples: u64,
    notes: &'n mut ImportReport,
}

impl<P: FnMut(ImportedEvent) -> io::Result<()>> PerfRecords<'_, P> {
    fn read(&mut self, input: &mut impl BufRead) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let head = input.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut bytes)?;
            let size = bytes.get(6..).and_then(<[u8]>::first_chunk).copied();
            let size = usize::from(size.map_or(0, u16::from_le_bytes));
            if head < HEADER_BYTES || size < HEADER_BYTES {
                let rest = io::copy(input, &mut io::sink())?;
                self.notes.add("bytes at the end that are no record", head as u64 + rest);
                return Ok(());
            }
            let rest = (size - HEADER_BYTES) as u64;
            let read = input.by_ref().take(rest).read_to_end(&mut bytes)? as u64;
            let Ok((record, _)) = RecordKind::first(&bytes) else {
                self.notes.add("bytes of a record at the end, which is truncated", read);
                return Ok(());
            };
            self.notes.read += 1;
            match record.kind {
                FINISHED_ROUND => self.sorter.end_round()?,
                AUXTRACE => {
                    let more = u64_at(record.body, 0).unwrap_or(0);
                    io::copy(&mut input.by_ref().take(more), &mut io::sink())?;
                    self.notes.count("parts of a hardware trace: skipped");
                }
                USER_TYPES.. => {}
                _ => self.record(&record)?,
            }
        }
    }

    fn record(&mut self, record: &RecordKind<'_>) -> io::Result<()> {
        let parsed = self.layouts.layout(record).and_then(|layout| record.parse(&layout).ok());
        let Some(parsed) = parsed else {
            self.notes.count("records of other events, or with fields that are not read: skipped");
            return Ok(());
        };
        let mut task = ImportedTask { pid: parsed.pid, tid: parsed.tid };
        let what = match parsed.body {
            RecordBody::Sample(payload) => self.sample(payload),
            RecordBody::Lost(count) => {
                self.lost += count;
                Some(ImportedKind::Lost(count))
            }
            // Counts of the kernel for each event, at the end; or what a BPF program has filtered.
            RecordBody::Other(LOST_SAMPLES) if record.misc & BPF_FILTERED == 0 => {
                self.lost_samples += u64_at(record.body, 0).unwrap_or(0);
                None
            }
            RecordBody::Comm { pid, tid, comm, exec } => {
                task = ImportedTask { pid, tid };
                Some(ImportedKind::Named(comm_of(comm), exec))
            }
            // perf makes up records of what was there before, with time 0.
            RecordBody::Fork { pid, tid, ppid, ptid } if parsed.time.0 > 0 => {
                task = ImportedTask { pid: ppid, tid: ptid };
                let flags = if pid == ppid { THREAD_FLAGS } else { 0 };
                let child = ImportedTask { pid, tid };
                Some(ImportedKind::Born(child, u64::from(flags.cast_unsigned())))
            }
            RecordBody::Exit { pid, tid } => {
                task = ImportedTask { pid, tid };
                Some(ImportedKind::Ended)
            }
            RecordBody::Fork { .. } | RecordBody::Mmap(_) | RecordBody::Other(_) => None,
        };
        match what {
            Some(what) => {
                self.sorter.push(ImportedEvent { time: parsed.time.0, task, what }, self.notes)
            }
            None => Ok(()),
        }
    }

    /// Ends the recording: the kernel may have counted losses that no record of a ring reports.
    fn finish(mut self) -> io::Result<()> {
        let more = self.lost_samples.saturating_sub(self.lost);
        self.notes.add("records lost by perf record", self.lost + more);
        if more > 0 {
            self.sorter.push_last(ImportedKind::Lost(more));
        }
        self.sorter.finish()
    }

    /// Decodes a sample; what is not imported is counted.
    fn sample(&mut self, payload: &[u8]) -> Option<ImportedKind> {
        match self.decoder.decode(payload) {
            Ok(EventKind::SysEnter(enter)) => Some(ImportedKind::Enter(enter.call, enter.args)),
            Ok(EventKind::SysExit(exit)) => {
                Some(ImportedKind::Exit(exit.call, exit.ret, Vec::new()))
            }
            Ok(EventKind::Block(event)) => Some(ImportedKind::Block(block(&event))),
            // FORK records have the same.
            Ok(EventKind::Task(_)) => None,
            Err(DecodeError::UnknownCall(_)) => {
                self.notes.count("events of calls that are not recorded: skipped");
                None
            }
            Ok(_) | Err(_) => {
                self.notes.count("events of other tracepoints: skipped");
                None
            }
        }
    }
}

fn block(event: &BlockEvent) -> Block {
    let length = u64::from(event.nr_sector);
    Block {
        point: event.point,
        dev: event.dev,
        sector: event.sector,
        sectors: match event.point {
            BlockPoint::Split => event.sector.saturating_add(length),
            _ => length,
        },
        error: event.error,
        rwbs: event.rwbs.as_bytes().to_vec(),
        from: event.from.map(|from| (from.dev, from.sector)),
        comm: event.comm.map(|comm| comm.as_bytes().to_vec()).unwrap_or_default(),
    }
}
