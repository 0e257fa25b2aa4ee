//! Parallel unpacking of payloads, ahead of the consumer.
//!
//! ```text
//!  Reader ──► intact frames ──► queue ──► unpacking threads
//!    ▲              └────► waiting, in the order of the log ◄─┘ ──► items
//!    └──── put back ───────────┘
//! ```
//!
//! Only frames with an intact header and checksum are taken ahead. All else (damage, the end, an
//! error of the input) waits until the frames before it were returned, and is then left to the
//! reader. If a payload cannot be unpacked, its frame and all later ones are put back, as if
//! nothing had been read ahead. The items are therefore those of the reader alone.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, available_parallelism};

use super::format::{FRAME_HEADER_BYTES, FrameHeader};
use super::payload::Unpacker;
use super::reader::{Item, Reader};

/// Maximum bytes that are taken ahead, stored and unpacked together; a larger frame is taken alone.
pub const AHEAD_BYTES: usize = 16 << 20;
/// Maximum number of frames that are taken ahead, since the memory of a frame's state is not
/// counted in bytes.
const AHEAD_FRAMES: usize = 1024;
/// Minimum stored bytes of a payload that is handed to a thread: smaller ones are unpacked at once,
/// because waking a thread takes as long.
const HANDED_OVER_BYTES: usize = 4 << 10;
/// Maximum number of threads. More of them would be idle: the consumer takes several times as long
/// as unpacking.
const THREADS_MAX: usize = 3;

/// Items of a log, read and unpacked ahead of the consumer.
#[derive(Debug)]
pub struct Prefetch<R> {
    reader: Reader<R>,
    unpacker: Unpacker,
    /// Frames that were taken, in their order.
    waiting: VecDeque<PrefetchedFrame>,
    /// Sum of their bytes.
    bytes: usize,
    /// True if the next bytes are not an intact frame.
    is_blocked: bool,
    /// Offset up to which the reader works alone, so that frames that were put back are not put
    /// back again and again.
    alone_until: u64,
    threads: UnpackThreads,
}

/// Frame that was taken and is being unpacked.
#[derive(Debug)]
struct PrefetchedFrame {
    header: FrameHeader,
    /// Bytes of the frame as in the file, to be put back.
    frame: Arc<[u8]>,
    payload: Receiver<Option<Vec<u8>>>,
}

/// Job of an unpacking thread.
#[derive(Debug)]
struct UnpackJob {
    header: FrameHeader,
    frame: Arc<[u8]>,
    payload: SyncSender<Option<Vec<u8>>>,
}

impl<R: Read> Prefetch<R> {
    /// Creates the iterator with as many threads as are useful here; on a single CPU none.
    pub fn new(reader: Reader<R>) -> Self {
        let others = available_parallelism().map_or(0, |it| it.get() - 1);
        Self::with_threads(reader, others.min(THREADS_MAX))
    }

    /// Creates the iterator with this number of threads; without any the reader unpacks each
    /// payload itself.
    pub fn with_threads(reader: Reader<R>, threads: usize) -> Self {
        Self {
            reader,
            unpacker: Unpacker::default(),
            waiting: VecDeque::new(),
            bytes: 0,
            is_blocked: false,
            alone_until: 0,
            threads: UnpackThreads::start(threads),
        }
    }

    /// Takes frames and hands them over until there are enough, or until the next bytes are not a
    /// frame.
    fn look_ahead(&mut self) {
        while !self.is_blocked && self.waiting.len() < AHEAD_FRAMES {
            match self.take_frame() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.reader.fail_later(error);
                    self.is_blocked = true;
                }
            }
        }
    }

    /// Takes one frame if there is space for it; returns false if not.
    fn take_frame(&mut self) -> io::Result<bool> {
        let Some(header) = self.reader.header()? else {
            self.is_blocked = true;
            return Ok(true);
        };
        if !self.waiting.is_empty() && self.bytes + bytes(&header) > AHEAD_BYTES {
            return Ok(false);
        }
        let Some(frame) = self.reader.take_intact(&header)? else {
            self.is_blocked = true;
            return Ok(true);
        };
        let (sender, payload) = sync_channel(1);
        let work = UnpackJob { header, frame: Arc::clone(&frame), payload: sender };
        if frame.len() < HANDED_OVER_BYTES {
            work.run(&mut self.unpacker);
        } else {
            self.threads.hand_over(work);
        }
        self.bytes += bytes(&header);
        self.waiting.push_back(PrefetchedFrame { header, frame, payload });
        Ok(true)
    }

    /// Puts back this frame and all later ones; the reader continues with it in the usual way.
    fn put_back(&mut self, first: PrefetchedFrame) {
        let frames = std::iter::once(first).chain(self.waiting.drain(..));
        let (mut bytes, mut payload_bytes) = (Vec::new(), 0);
        for it in frames {
            bytes.extend_from_slice(&it.frame);
            payload_bytes += u64::from(it.header.payload_bytes);
        }
        self.alone_until = self.reader.offset();
        self.reader.put_back(&bytes, payload_bytes);
        self.bytes = 0;
    }
}

impl<R: Read> Iterator for Prefetch<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.threads.is_empty() || self.reader.offset() < self.alone_until {
            return self.reader.next();
        }
        self.look_ahead();
        if let Some(first) = self.waiting.pop_front() {
            // A thread that panicked sent no payload.
            if let Some(payload) = first.payload.recv().ok().flatten() {
                self.bytes -= bytes(&first.header);
                // The threads have work while the consumer works.
                self.look_ahead();
                return Some(Ok(Item::Frame(first.header, payload)));
            }
            self.put_back(first);
        }
        self.is_blocked = false;
        self.reader.next()
    }
}

/// Returns the memory that a taken frame uses now or later.
fn bytes(header: &FrameHeader) -> usize {
    let payloads = [header.stored_bytes, header.payload_bytes];
    payloads.iter().map(|&it| usize::try_from(it).unwrap_or(usize::MAX)).sum()
}

impl UnpackJob {
    fn run(self, unpacker: &mut Unpacker) {
        let stored = self.frame.get(FRAME_HEADER_BYTES..).unwrap_or_default();
        // There is no receiver for frames that were put back.
        let _ = self.payload.send(unpacker.unpack(&self.header, stored));
    }
}

/// Unpacking threads; they end when this is dropped.
#[derive(Debug)]
struct UnpackThreads {
    work: Option<Sender<UnpackJob>>,
    all: Vec<JoinHandle<()>>,
}

impl UnpackThreads {
    /// Starts this number of threads, or as many as can be created.
    fn start(count: usize) -> Self {
        let (work, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let start = |_| {
            let queue = Arc::clone(&queue);
            let builder = std::thread::Builder::new().name("iotrace:unpack".to_owned());
            builder.spawn(move || work_off(&queue)).ok()
        };
        Self { work: Some(work), all: (0..count).map_while(start).collect() }
    }

    fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn hand_over(&self, work: UnpackJob) {
        if let Some(queue) = &self.work {
            // If all threads have panicked, the result never arrives, which the receiver notices.
            let _ = queue.send(work);
        }
    }
}

impl Drop for UnpackThreads {
    fn drop(&mut self) {
        self.work = None;
        for thread in self.all.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Unpacks the payloads in the queue until its sender is dropped.
fn work_off(queue: &Mutex<Receiver<UnpackJob>>) {
    let mut unpacker = Unpacker::default();
    let next = || queue.lock().ok()?.recv().ok();
    while let Some(work) = next() {
        work.run(&mut unpacker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::format::{Codec, FrameKind};
    use crate::capture::writer::{DataFrame, Writer};
    use crate::units::KernelTime;

    /// Reads the first frame of a log of this number of frames, each of `length` zeroes, and
    /// compares the number of frames taken ahead.
    #[track_caller]
    fn check_taken(frames: usize, length: usize, expected: usize) {
        let mut log = Vec::new();
        let mut writer = Writer::new(&mut log).expect("memory takes all");
        let (first_time, last_time) = (KernelTime(1), KernelTime(1));
        let (cpu, stream, layout, codec, records) = (0, 0, 0, Codec::ZSTD, 1);
        let about = DataFrame { cpu, stream, layout, codec, first_time, last_time, records };
        for _ in 0..frames {
            writer.data(&about, &mut vec![0; length]).expect("memory takes all");
        }
        let mut ahead = Prefetch::with_threads(Reader::new(log.as_slice()).expect("a log"), 1);
        let first = ahead.next().expect("a frame").expect("memory can be read");
        assert!(matches!(first, Item::Frame(header, payload)
            if header.kind == FrameKind::DATA && payload.len() == length));
        assert_eq!(ahead.waiting.len(), expected);
        let in_flight: usize = ahead.waiting.iter().map(|it| bytes(&it.header)).sum();
        assert_eq!(ahead.bytes, in_flight);
        assert_eq!(ahead.count(), frames - 1);
    }

    #[test]
    fn prefetched_bytes_are_bounded() {
        check_taken(3, AHEAD_BYTES / 3, 2);
        check_taken(6, AHEAD_BYTES / 3, 2);
        check_taken(4, AHEAD_BYTES / 2 + 1, 1);
        check_taken(4, AHEAD_BYTES + 1, 1);
        check_taken(2 * AHEAD_FRAMES, 10, AHEAD_FRAMES);
        check_taken(1, 10, 0);
    }
}
