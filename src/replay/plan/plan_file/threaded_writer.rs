//! Plan writer with a thread of its own, which encodes and compresses in parallel with the planner.
//!
//! ```text
//!   Planner ──► batch ──► (bounded) ──► PlanWriter ──► file
//!                                       its own thread
//! ```
//!
//! Operations arrive in the same order, so the plan has the same bytes. An error of the file is
//! reported at a later operation, or at the end.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::writer::PlanWriter;
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::planned_op::PlannedOp;

/// Operations that are sent to the thread at once.
const BATCH: usize = 1024;

/// Batches that may wait, some MiB.
const BATCHES_MAX: usize = 8;

/// Output of a planner that becomes the writer of the rest of a plan after the last operation.
pub trait IntoWriter {
    /// Destination of the plan.
    type Destination: Write;

    /// Turns the output into the writer.
    ///
    /// # Errors
    ///
    /// Errors of the destination, including errors of earlier operations.
    fn into_writer(self) -> io::Result<PlanWriter<Self::Destination>>;
}

impl<W: Write> IntoWriter for PlanWriter<W> {
    type Destination = W;

    fn into_writer(self) -> io::Result<Self> {
        Ok(self)
    }
}

type WriterThread<W> = JoinHandle<io::Result<PlanWriter<W>>>;

/// Output that sends operations to a writing thread.
#[derive(Debug)]
pub struct ThreadedWriter<W> {
    batch: Vec<PlannedOp>,
    sender: Option<SyncSender<Vec<PlannedOp>>>,
    thread: Option<WriterThread<W>>,
}

impl<W: Write + Send + 'static> ThreadedWriter<W> {
    /// Starts the thread of a writer.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn new(writer: PlanWriter<W>) -> io::Result<Self> {
        let (sender, batches) = sync_channel(BATCHES_MAX);
        let builder = Builder::new().name("iotrace:plan".to_owned());
        let thread = builder.spawn(move || write_all(writer, batches))?;
        Ok(Self { batch: Vec::with_capacity(BATCH), sender: Some(sender), thread: Some(thread) })
    }

    fn send(&mut self) -> io::Result<()> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        match self.sender.as_ref().map(|it| it.send(batch)) {
            Some(Ok(())) => Ok(()),
            _ => self.end().map(drop),
        }
    }

    /// Waits for the thread.
    fn end(&mut self) -> io::Result<PlanWriter<W>> {
        self.sender = None;
        let over = || io::Error::other("the plan has failed already");
        match self.thread.take().ok_or_else(over)?.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn write_all<W: Write>(
    mut writer: PlanWriter<W>,
    batches: Receiver<Vec<PlannedOp>>,
) -> io::Result<PlanWriter<W>> {
    batches.into_iter().flatten().try_for_each(|it| writer.planned(&it))?;
    Ok(writer)
}

impl<W: Write + Send + 'static> PlanOutput for ThreadedWriter<W> {
    type Error = io::Error;

    fn planned(&mut self, planned: &PlannedOp) -> io::Result<()> {
        self.batch.push(planned.clone());
        if self.batch.len() < BATCH { Ok(()) } else { self.send() }
    }
}

impl<W: Write + Send + 'static> IntoWriter for ThreadedWriter<W> {
    type Destination = W;

    fn into_writer(mut self) -> io::Result<PlanWriter<W>> {
        self.send()?;
        self.end()
    }
}

/// Waits for the thread when a plan is abandoned: nothing writes to its file afterwards.
impl<W> Drop for ThreadedWriter<W> {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // The plan is abandoned, so the result of the thread has no use.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::CallId;
    use crate::replay::plan::dependencies::{OpId, Worker};
    use crate::units::ReplayTime;

    fn planned(number: u32) -> PlannedOp {
        PlannedOp {
            at: OpId { worker: Worker(number % 3), number: number / 3 },
            call: CallId::by_name("read").expect("it is in the table"),
            asynchronous: None,
            args: [number.into(); 6],
            handle: None,
            target: None,
            makes: None,
            file: None,
            path: Some(format!("/{number}").into_bytes()),
            second_path: None,
            flags: None,
            offset: None,
            target_offset: None,
            bytes: None,
            ret: number.into(),
            start: ReplayTime(u64::from(number) * 10),
            end: ReplayTime(u64::from(number) * 10 + 5),
            keeps_handle: false,
            implicit: false,
            before: Vec::new(),
        }
    }

    /// Returns the bytes of a plan of `count` operations.
    fn bytes(
        out: impl PlanOutput<Error = io::Error> + IntoWriter<Destination = Vec<u8>>,
        count: u32,
    ) -> Vec<u8> {
        let mut out = out;
        (0..count).try_for_each(|it| out.planned(&planned(it))).expect("memory");
        let mut writer = out.into_writer().expect("memory");
        writer.flush_all().expect("memory");
        writer.into_destination()
    }

    /// Fails if operations are lost at the end of a batch, or arrive in another order.
    #[test]
    fn threaded_writer_writes_same_bytes() {
        for count in [0, 1, 1023, 1024, 1025, 40_009] {
            let new = || PlanWriter::new(Vec::new()).expect("memory");
            let beside = bytes(ThreadedWriter::new(new()).expect("a thread"), count);
            assert!(beside == bytes(new(), count), "{count}");
        }
    }

    /// Disk that is full after this many bytes.
    struct LimitedDisk(usize);

    impl Write for LimitedDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Fails if an error of the file is lost, or the writer waits forever.
    #[test]
    fn full_disk_is_reported() {
        let writer = PlanWriter::new(LimitedDisk(1000)).expect("the header fits");
        let mut beside = ThreadedWriter::new(writer).expect("a thread");
        let error = (0..4_000_037).find_map(|it| beside.planned(&planned(it)).err());
        assert_eq!(error.map(|it| it.kind()), Some(io::ErrorKind::StorageFull));
    }
}
