//! Threaded pipeline: the decode stage in a thread of its own, parallel to the track stage.
//!
//! ```text
//!  items ──► decode ──► batch ──┐ bounded ┌──► track ──► sink
//!            (its own thread)   └─────────┘    (the caller's)
//! ```
//!
//! The messages are the same, in the same order. So the steps are the same, and the first error is
//! reported: a failure of the decode stage comes after all its earlier messages.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, scope};

use super::decode_stage::DecodeStage;
use super::erased_sink::{ErasedSink, SinkFailed, with_erased};
use super::error::PipelineError;
use super::stage_message::{StageFailure, StageMessage, StageOutput};
use super::summary::Summary;
use super::track_stage::TrackStage;
use crate::capture::header::Header;
use crate::capture::reader::Item;
use crate::operation::Sink;
use crate::units::KernelTime;

/// Messages that are sent to the other thread at once: waking it takes as long as processing a
/// hundred.
const BATCH: usize = 1024;
/// Limit on the batches that wait, some MiB.
const BATCHES_MAX: usize = 16;

/// Processes the rest of a log as [`super::run`] does, in two threads on any number of CPUs.
///
/// # Errors
///
/// Errors of [`super::run`].
pub fn run_in_two_threads<S: Sink>(
    mut items: impl Iterator<Item = io::Result<Item>> + Send,
    header: Header,
    sink: &mut S,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Summary, PipelineError<S::Error>> {
    with_erased(sink, |sink| in_two(&mut items, header, KernelTime::MAX, sink, go_on))
}

/// Processes a log up to a time in two threads.
pub(super) fn in_two(
    items: &mut (dyn Iterator<Item = io::Result<Item>> + Send),
    header: Header,
    until: KernelTime,
    sink: &mut ErasedSink<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Summary, PipelineError<SinkFailed>> {
    let mut back = TrackStage::new(&header, sink, go_on);
    let mut front = DecodeStage::new(header)?.until(until);
    let (sender, batches) = sync_channel(BATCHES_MAX);
    let read = || {
        let mut sender = Batches { batch: Vec::with_capacity(BATCH), sender };
        let read = front.read(&mut *items, &mut sender);
        // The messages before a failure are sent, too.
        sender.flush().and(read)
    };
    let done = scope(|threads| {
        let builder = Builder::new().name("iotrace:front".to_owned());
        let thread = builder.spawn_scoped(threads, read).ok()?;
        // After an early end the decode stage stops at its next message, as the channel is closed.
        let taken = take_all(batches, &mut back);
        Some(taken.and_then(|()| match thread.join() {
            Ok(Err(DecodeEnd::Failed(failure))) => Err(failure.into()),
            Ok(Ok(()) | Err(DecodeEnd::NoReceiver)) => Ok(()),
            Err(panic) => std::panic::resume_unwind(panic),
        }))
    });
    // If no thread can be started, this one does the work.
    done.unwrap_or_else(|| front.read(items, &mut back))?;
    back.finish(front.into_summary())
}

/// Passes all messages on.
fn take_all<N: StageOutput>(
    batches: Receiver<Vec<StageMessage>>,
    next: &mut N,
) -> Result<(), N::Error> {
    batches.into_iter().flatten().try_for_each(|batch| next.take(batch))
}

/// Reason for which the decode stage has ended.
#[derive(Debug)]
enum DecodeEnd {
    Failed(StageFailure),
    /// The track stage has ended.
    NoReceiver,
}

impl From<StageFailure> for DecodeEnd {
    fn from(failure: StageFailure) -> Self {
        Self::Failed(failure)
    }
}

/// Output that collects messages in batches.
struct Batches {
    batch: Vec<StageMessage>,
    sender: SyncSender<Vec<StageMessage>>,
}

impl Batches {
    fn flush(&mut self) -> Result<(), DecodeEnd> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        self.sender.send(batch).map_err(|_| DecodeEnd::NoReceiver)
    }
}

impl StageOutput for Batches {
    type Error = DecodeEnd;

    fn take(&mut self, passed: StageMessage) -> Result<(), DecodeEnd> {
        self.batch.push(passed);
        if self.batch.len() < BATCH { Ok(()) } else { self.flush() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps messages; refuses further ones after a given number.
    struct NumberedMessages(Vec<u64>, usize);

    impl StageOutput for NumberedMessages {
        type Error = DecodeEnd;

        fn take(&mut self, passed: StageMessage) -> Result<(), DecodeEnd> {
            let StageMessage::Records(number) = passed else { panic!("only these are passed on") };
            self.0.push(number);
            if self.0.len() < self.1 { Ok(()) } else { Err(DecodeEnd::NoReceiver) }
        }
    }

    /// Passes `count` numbers on, of which `wanted` are accepted. Returns the accepted ones, and
    /// whether the decode stage continued to its end.
    fn pass_on(count: u64, wanted: usize) -> (Vec<u64>, bool) {
        let (sender, batches) = sync_channel(BATCHES_MAX);
        let front = move || {
            let mut sender = Batches { batch: Vec::new(), sender };
            (0..count).try_for_each(|number| sender.take(StageMessage::Records(number)))?;
            sender.flush()
        };
        let mut numbers = NumberedMessages(Vec::new(), wanted);
        let done = scope(|threads| {
            let front = threads.spawn(front);
            let _ = take_all(batches, &mut numbers);
            front.join().expect("it does not panic").is_ok()
        });
        (numbers.0, done)
    }

    #[test]
    fn steps_arrive_in_order_at_any_volume() {
        let batch = u64::try_from(BATCH).expect("small");
        let waiting = batch * u64::try_from(BATCHES_MAX).expect("small");
        for count in [0, 1, batch - 1, batch, batch + 1, 3 * waiting + 7] {
            let (numbers, done) = pass_on(count, usize::MAX);
            assert!(done && numbers.into_iter().eq(0..count), "{count}");
        }
    }

    #[test]
    fn front_ends_when_the_back_is_gone() {
        // Without the refusal it would never end.
        let (numbers, done) = pass_on(u64::MAX, BATCH + 3);
        assert_eq!((numbers.len(), done), (BATCH + 3, false));
    }
}
