//! The log thread: filters by tree, compresses, writes, and counts what passed.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use nix::sys::eventfd::EventFd;

use super::tree::Tree;
use crate::capture::fact::Fact;
use crate::capture::writer::{DataFrame, Writer};
use crate::event::decode::common_type;
use crate::record::{SampleLayout, records};
use crate::sys::clock;
use crate::units::{KernelTime, Pid};

/// A data frame is written when it has so many bytes, or at the end of a round.
const FRAME_BYTES: usize = 4 << 20;

/// The longest data frame; the format allows twice as much.
const FRAME_BYTES_MAX: usize = 32 << 20;

/// What the log thread is told.
#[derive(Debug)]
pub enum Message {
    /// Records of one ring.
    Data(Data),
    /// Facts; those with a process are kept only if it is followed.
    Facts(Vec<(Option<Pid>, Fact)>),
    /// All rings were taken after this time.
    Round(KernelTime),
}

/// Records of one ring, whole.
#[derive(Debug)]
pub struct Data {
    /// The ring's CPU.
    pub cpu: u32,
    /// Which of its rings.
    pub stream: u32,
    /// The records.
    pub bytes: Vec<u8>,
}

/// What the log thread counted.
#[derive(Debug, Default)]
pub struct Counted {
    /// Samples by ring and `common_type`.
    samples: [Vec<u64>; 2],
    /// Records dropped because they are not of the tree.
    pub foreign_dropped: u64,
    /// Records that could not be written.
    pub unwritten: u64,
    /// Why not.
    pub error: Option<io::Error>,
}

impl Counted {
    /// Samples of this tracepoint in this ring.
    pub fn samples(&self, stream: u32, id: u16) -> u64 {
        let ring = usize::try_from(stream).ok().and_then(|it| self.samples.get(it));
        ring.and_then(|it| it.get(usize::from(id))).copied().unwrap_or(0)
    }

    fn sample(&mut self, stream: u32, id: u16) {
        let Some(ring) = usize::try_from(stream).ok().and_then(|it| self.samples.get_mut(it))
        else {
            return;
        };
        let place = usize::from(id);
        if ring.len() <= place {
            ring.resize(place + 1, 0);
        }
        if let Some(count) = ring.get_mut(place) {
            *count += 1;
        }
    }
}

/// The log thread's state.
#[derive(Debug)]
pub struct Log {
    writer: Writer<File>,
    layout: SampleLayout,
    tree: Option<Tree>,
    /// In process mode: what waits until the next round has been looked through.
    held: Vec<Message>,
    /// The round that is being received.
    current: Vec<Message>,
    /// Data frames that are being filled, one for each ring.
    filling: Vec<(DataFrame, Vec<u8>)>,
    counted: Counted,
    /// Told when the log cannot be written any more.
    failed: Arc<EventFd>,
    /// Where used buffers go back to.
    spare: SyncSender<Vec<u8>>,
    /// Bytes of data that were sent and not yet dealt with.
    queued: Arc<AtomicUsize>,
}

impl Log {
    /// A log that `writer` has begun. With a tree, only its records are kept.
    pub fn new(
        writer: Writer<File>,
        layout: SampleLayout,
        tree: Option<Tree>,
        failed: Arc<EventFd>,
        spare: SyncSender<Vec<u8>>,
        queued: Arc<AtomicUsize>,
    ) -> Self {
        let (held, current, filling) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            writer,
            layout,
            tree,
            held,
            current,
            filling,
            counted: Counted::default(),
            failed,
            spare,
            queued,
        }
    }

    /// Runs until nobody can send any more. Gives back the writer for the last frame.
    pub fn run(mut self, messages: &Receiver<Message>) -> (Writer<File>, Counted) {
        for message in messages {
            match self.tree {
                None => self.write(message),
                Some(_) => self.hold(message),
            }
        }
        // Nothing follows: what is held is released twice, the held round and the last one.
        self.release();
        self.release();
        self.flush();
        (self.writer, self.counted)
    }

    fn hold(&mut self, message: Message) {
        if let (Message::Data(data), Some(tree)) = (&message, &mut self.tree) {
            for (_, record) in records(&data.bytes).flatten() {
                tree.note(&record, &self.layout);
            }
        }
        let ends_round = matches!(message, Message::Round(_));
        self.current.push(message);
        if ends_round {
            self.release();
        }
    }

    /// Writes the held round and holds the current one.
    fn release(&mut self) {
        if let Some(tree) = &mut self.tree {
            tree.learn();
        }
        for message in std::mem::replace(&mut self.held, std::mem::take(&mut self.current)) {
            self.write(message);
        }
    }

    fn write(&mut self, message: Message) {
        match message {
            Message::Data(data) => self.write_data(data),
            Message::Facts(facts) => self.write_facts(&facts),
            Message::Round(time) => {
                self.flush();
                self.try_write(0, |writer| writer.round(time));
            }
        }
    }

    fn write_facts(&mut self, facts: &[(Option<Pid>, Fact)]) {
        let is_kept = |pid: Option<Pid>| {
            pid.is_none_or(|pid| self.tree.as_ref().is_none_or(|it| it.has(pid)))
        };
        let kept: Vec<&Fact> = facts.iter().filter(|it| is_kept(it.0)).map(|it| &it.1).collect();
        let mut bytes = Vec::new();
        let mut count = 0;
        for (number, fact) in kept.iter().enumerate() {
            fact.encode(&mut bytes);
            count += 1;
            if bytes.len() >= FRAME_BYTES || number + 1 == kept.len() {
                self.try_write(0, |writer| writer.facts(clock::now(), count, &bytes));
                bytes.clear();
                count = 0;
            }
        }
    }

    /// Adds the records to the frame of their ring, and writes it when it is large enough: a long frame compresses a
    /// fifth better than the pieces in which a busy ring is taken.
    fn write_data(&mut self, data: Data) {
        let Data { cpu, stream, mut bytes } = data;
        // ORDERING: only a measure of how far the log is behind.
        self.queued.fetch_sub(bytes.len(), Ordering::Relaxed);
        let frame = self.look_through(cpu, stream, &mut bytes);
        if frame.records == 0 {
            return self.give_back(bytes);
        }
        match self.filling.iter_mut().find(|it| it.0.cpu == cpu && it.0.stream == stream) {
            Some((filling, filled)) => {
                filling.extend(&frame);
                filled.extend_from_slice(&bytes);
                let is_full = filled.len() >= FRAME_BYTES;
                self.give_back(bytes);
                if is_full {
                    self.flush();
                }
            }
            None => self.filling.push((frame, bytes)),
        }
    }

    /// Writes all frames that are being filled.
    fn flush(&mut self) {
        for (frame, mut bytes) in std::mem::take(&mut self.filling) {
            let mut rest = bytes.as_mut_slice();
            // A large ring that ran full is more than one frame may hold.
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at_mut(whole_records(rest, FRAME_BYTES_MAX));
                let frame = if behind.is_empty() && piece.len() <= FRAME_BYTES {
                    frame
                } else {
                    summary(frame, piece, &self.layout)
                };
                self.try_write(u64::from(frame.records), |writer| writer.data(&frame, piece));
                rest = behind;
            }
            self.give_back(bytes);
        }
    }

    fn give_back(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        // It is freed if there are enough, or nobody takes it any more.
        let _ = self.spare.try_send(bytes);
    }

    /// Counts the records, finds their time range and cuts those out that are not of the tree.
    fn look_through(&mut self, cpu: u32, stream: u32, bytes: &mut Vec<u8>) -> DataFrame {
        let mut frame = DataFrame {
            cpu,
            stream,
            layout: 0,
            first_time: KernelTime::MAX,
            last_time: KernelTime::MIN,
            records: 0,
        };
        let mut kept = Vec::new();
        for (start, record) in records(bytes).flatten() {
            if let Some(id) = record.payload(&self.layout).and_then(common_type) {
                self.counted.sample(stream, id);
            }
            if let Some(tree) = &self.tree
                && !tree.keeps(&record, &self.layout)
            {
                self.counted.foreign_dropped += 1;
                continue;
            }
            if self.tree.is_some() {
                kept.push((start, crate::record::abi::HEADER_BYTES + record.body.len()));
            }
            if let Some(time) = record.time(&self.layout) {
                frame.first_time = frame.first_time.min(time);
                frame.last_time = frame.last_time.max(time);
            }
            frame.records += 1;
        }
        if self.tree.is_some() {
            compact(bytes, &kept);
        }
        frame
    }

    /// Writes unless the log has failed already; what is not written is counted.
    fn try_write(&mut self, records: u64, write: impl FnOnce(&mut Writer<File>) -> io::Result<()>) {
        if self.counted.error.is_some() {
            self.counted.unwritten += records;
            return;
        }
        let good = self.writer.written();
        if let Err(error) = write(&mut self.writer) {
            // What was written of the frame goes, so that the log ends with a whole one.
            let _ = self.writer.rewind(good);
            self.counted.error = Some(error);
            self.counted.unwritten += records;
            let _ = self.failed.write(1);
        }
    }
}

/// Length of the whole records at the front of `bytes` that fit into `limit`; at least one, or all if they make no sense.
fn whole_records(bytes: &[u8], limit: usize) -> usize {
    if bytes.len() <= limit {
        return bytes.len();
    }
    let starts = records(bytes).flatten().map(|it| it.0);
    starts.take_while(|&it| it <= limit).last().filter(|&it| it > 0).unwrap_or(bytes.len())
}

/// What a frame of these records of the same ring is about.
fn summary(of: DataFrame, bytes: &[u8], layout: &SampleLayout) -> DataFrame {
    let mut frame =
        DataFrame { first_time: KernelTime::MAX, last_time: KernelTime::MIN, records: 0, ..of };
    for (_, record) in records(bytes).flatten() {
        if let Some(time) = record.time(layout) {
            frame.first_time = frame.first_time.min(time);
            frame.last_time = frame.last_time.max(time);
        }
        frame.records += 1;
    }
    frame
}

/// Keeps only these stretches of the bytes, given as start and length in ascending order.
fn compact(bytes: &mut Vec<u8>, kept: &[(usize, usize)]) {
    let mut end = 0;
    for &(start, length) in kept {
        bytes.copy_within(start..start + length, end);
        end += length;
    }
    bytes.truncate(end);
}
