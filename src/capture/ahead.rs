//! Payloads unpacked in threads of their own, while the consumer works on earlier ones.
//!
//! ```text
//!  Reader ──► intact frames ──► queue ──► unpacking threads
//!    ▲              └────► waiting, in the order of the log ◄─┘ ──► items
//!    └──── put back ───────────┘
//! ```
//!
//! Only frames whose header and checksum are right are taken ahead. Anything else (damage, the end, an error of the
//! input) waits until all frames before it were given out, and is then left to the reader. If a payload cannot be
//! unpacked, its frame and all behind it are put back, as if nobody had looked ahead. So the items are those of the
//! reader alone.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, available_parallelism};

use super::format::{FRAME_HEADER_BYTES, FrameHeader};
use super::payload::Unpacker;
use super::reader::{Item, Reader};

/// Frames are taken ahead up to so many bytes, stored and unpacked together; beyond them only one frame alone.
pub const AHEAD_BYTES: usize = 16 << 20;
/// Frames are taken ahead up to so many: what is kept for each is not counted in bytes.
const AHEAD_FRAMES: usize = 1024;
/// Payloads that are stored in fewer bytes are unpacked at once: waking a thread takes as long.
const HANDED_OVER_BYTES: usize = 4 << 10;
/// More threads than the consumer can keep busy are of no use: it takes several times as long as unpacking.
const THREADS_MAX: usize = 3;

/// The items of a log, read and unpacked ahead of whoever takes them.
#[derive(Debug)]
pub struct Ahead<R> {
    reader: Reader<R>,
    unpacker: Unpacker,
    /// Frames that were taken, in their order.
    waiting: VecDeque<Taken>,
    /// The sum of their bytes.
    bytes: usize,
    /// What comes next is no intact frame.
    is_blocked: bool,
    /// Up to this offset the reader goes alone: what was put back would be put back again and again.
    alone_until: u64,
    threads: Threads,
}

/// A frame on its way.
#[derive(Debug)]
struct Taken {
    header: FrameHeader,
    /// As it stands in the file, to be put back.
    frame: Arc<[u8]>,
    payload: Receiver<Option<Vec<u8>>>,
}

/// What a thread is to do.
#[derive(Debug)]
struct Work {
    header: FrameHeader,
    frame: Arc<[u8]>,
    payload: SyncSender<Option<Vec<u8>>>,
}

impl<R: Read> Ahead<R> {
    /// As many threads as are of use here; on a single CPU none.
    pub fn new(reader: Reader<R>) -> Self {
        let others = available_parallelism().map_or(0, |it| it.get() - 1);
        Self::with_threads(reader, others.min(THREADS_MAX))
    }

    /// So many threads; with none the reader does everything in its turn.
    pub fn with_threads(reader: Reader<R>, threads: usize) -> Self {
        Self {
            reader,
            unpacker: Unpacker::default(),
            waiting: VecDeque::new(),
            bytes: 0,
            is_blocked: false,
            alone_until: 0,
            threads: Threads::start(threads),
        }
    }

    /// Takes frames and hands them over until there is enough, or something that is none.
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

    /// Takes one frame if there is room; false if there is none.
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
        let work = Work { header, frame: Arc::clone(&frame), payload: sender };
        if frame.len() < HANDED_OVER_BYTES {
            work.run(&mut self.unpacker);
        } else {
            self.threads.hand_over(work);
        }
        self.bytes += bytes(&header);
        self.waiting.push_back(Taken { header, frame, payload });
        Ok(true)
    }

    /// The reader goes on at this frame, in its own way.
    fn put_back(&mut self, first: Taken) {
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

impl<R: Read> Iterator for Ahead<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.threads.is_empty() || self.reader.offset() < self.alone_until {
            return self.reader.next();
        }
        self.look_ahead();
        if let Some(first) = self.waiting.pop_front() {
            // A thread that panicked has not said anything.
            if let Some(payload) = first.payload.recv().ok().flatten() {
                self.bytes -= bytes(&first.header);
                // The threads have work while the consumer has its own.
                self.look_ahead();
                return Some(Ok(Item::Frame(first.header, payload)));
            }
            self.put_back(first);
        }
        self.is_blocked = false;
        self.reader.next()
    }
}

/// What a frame that was taken holds in memory, or will.
fn bytes(header: &FrameHeader) -> usize {
    let payloads = [header.stored_bytes, header.payload_bytes];
    payloads.iter().map(|&it| usize::try_from(it).unwrap_or(usize::MAX)).sum()
}

impl Work {
    fn run(self, unpacker: &mut Unpacker) {
        let stored = self.frame.get(FRAME_HEADER_BYTES..).unwrap_or_default();
        // Nobody waits for frames that were put back.
        let _ = self.payload.send(unpacker.unpack(&self.header, stored));
    }
}

/// The threads that unpack; they end when this is dropped.
#[derive(Debug)]
struct Threads {
    work: Option<Sender<Work>>,
    all: Vec<JoinHandle<()>>,
}

impl Threads {
    /// So many, or as many as can be had.
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

    fn hand_over(&self, work: Work) {
        if let Some(queue) = &self.work {
            // If all threads have panicked, the result does not come, and that is seen.
            let _ = queue.send(work);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.work = None;
        for thread in self.all.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Unpacks what is in the queue until nobody puts anything into it.
fn work_off(queue: &Mutex<Receiver<Work>>) {
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

    /// Reads the first frame of a log of so many, each of so many zeroes, and looks at what was taken ahead.
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
        let mut ahead = Ahead::with_threads(Reader::new(log.as_slice()).expect("a log"), 1);
        let first = ahead.next().expect("a frame").expect("memory can be read");
        assert!(matches!(first, Item::Frame(header, payload)
            if header.kind == FrameKind::DATA && payload.len() == length));
        assert_eq!(ahead.waiting.len(), expected);
        let in_flight: usize = ahead.waiting.iter().map(|it| bytes(&it.header)).sum();
        assert_eq!(ahead.bytes, in_flight);
        assert_eq!(ahead.count(), frames - 1);
    }

    #[test]
    fn what_is_taken_ahead_is_bounded() {
        check_taken(3, AHEAD_BYTES / 3, 2);
        check_taken(6, AHEAD_BYTES / 3, 2);
        check_taken(4, AHEAD_BYTES / 2 + 1, 1);
        check_taken(4, AHEAD_BYTES + 1, 1);
        check_taken(2 * AHEAD_FRAMES, 10, AHEAD_FRAMES);
        check_taken(1, 10, 0);
    }
}
