//! Records of the names rings, as the readers of names take and interpret them.

use std::sync::Arc;

use super::log_message::{Data, Message};
use super::long_lists::LongLists;
use super::ring_stream::{RingStream, Take};
use crate::event::decode::Decoder;
use crate::record::page::{self, PageEntry};
use crate::record::parse::RecordBody;
use crate::record::{Layout, records};
use crate::sys::thread;
use crate::sys::trace_ring::PagePipe;
use crate::units::{KernelTime, Pid, Tid};

/// A ring and the records taken from it since the last round.
#[derive(Debug)]
pub(super) struct TakenRecords {
    pub(super) ring: RingStream,
    pub(super) bytes: Vec<u8>,
}

impl TakenRecords {
    /// Takes new records from the ring and returns them.
    pub(super) fn more(&mut self, how: Take, pipe: &mut PagePipe) -> &[u8] {
        let start = self.bytes.len();
        // The kernel counts records that cannot be taken as left in the ring.
        if self.ring.take(how, pipe, &mut self.bytes).is_err() {
            // The ring may stay readable; no other thread must wait for this one in the meantime.
            thread::pause(std::time::Duration::from_millis(1));
        }
        self.bytes.get(start..).unwrap_or_default()
    }

    pub(super) fn message(&mut self) -> Option<Message> {
        let bytes = std::mem::take(&mut self.bytes);
        let RingStream { cpu, ring, .. } = self.ring;
        let layout = self.ring.layout();
        (!bytes.is_empty()).then_some(Message::Data(Data { cpu, ring, layout, bytes }))
    }
}

/// Interpretation of records, the same on every CPU.
#[derive(Clone, Debug)]
pub(super) struct RecordReading {
    pub(super) decoder: Arc<Decoder>,
    /// Layouts by their index in the header.
    pub(super) layouts: Vec<Layout>,
    pub(super) reads: NameReads,
    /// Longest lists of asynchronous operations.
    pub(super) long_lists: Arc<LongLists>,
}

/// Data that is read in addition to the links of new descriptors.
#[derive(Clone, Copy, Debug)]
pub struct NameReads {
    /// True to read the paths of calls. If false, an exit without its entry has no path.
    pub arguments: bool,
    /// True to read the memory that arguments point to, too.
    pub exact_args: bool,
    /// True to read before the program continues, by threads with real-time priority on the
    /// program's CPU. If false, on any idle CPU.
    pub at_once: bool,
}

/// Thread, time and payload of a sample; perf also records the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameRecord<'a> {
    pub(super) pid: Option<Pid>,
    pub(super) tid: Tid,
    pub(super) time: KernelTime,
    pub(super) payload: &'a [u8],
}

impl NameReads {
    /// True if memory of opens is read, whose addresses are in the entries.
    pub(super) fn needs_entry(self) -> bool {
        self.arguments || self.exact_args
    }
}

impl RecordReading {
    pub(super) fn each_hit(&self, layout: u16, bytes: &[u8], mut with: impl FnMut(NameRecord<'_>)) {
        match self.layouts.get(usize::from(layout)) {
            Some(Layout::Perf(layout)) => {
                for (_, record) in records(bytes).flatten() {
                    let Ok(record) = record.parse(layout) else { continue };
                    let RecordBody::Sample(payload) = record.body else { continue };
                    let (pid, tid, time) = (Some(record.pid), record.tid, record.time);
                    with(NameRecord { pid, tid, time, payload });
                }
            }
            Some(Layout::Pages(layout)) => {
                for entry in page::entries(bytes, *layout).flatten() {
                    let PageEntry::Hit(start, time) = entry else { continue };
                    let payload = page::payload(bytes.get(start..).unwrap_or_default());
                    let thread = payload.and_then(|it| Some((it, self.decoder.thread(it)?)));
                    let Some((payload, tid)) = thread else { continue };
                    with(NameRecord { pid: None, tid, time, payload });
                }
            }
            None => {}
        }
    }
}
