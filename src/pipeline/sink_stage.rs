//! Sink stage: the sink in the caller's thread, parallel to the track stage.
//!
//! ```text
//!  items ──► decode ──► batch ──┐ bounded ┌──► track ──► batch ──┐ bounded ┌──► sink
//!            (its own thread)   └─────────┘ (its own)            └─────────┘ (the caller's)
//! ```
//!
//! The state of the tracker never leaves its thread: steps are copied, and their files are shared
//! with counts that threads may change. A used batch goes back to the track stage, so that its
//! copies are freed where they were made: the counts of a file are then changed by one CPU.

use std::cell::RefCell;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, scope};

use super::erased_sink::{ErasedSink, SinkFailed, with_erased};
use super::error::PipelineError;
use super::summary::Summary;
use super::threaded::in_two;
use crate::capture::header::Header;
use crate::capture::reader::Item;
use crate::operation::owned_step::OwnedStep;
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Parts of steps ([`OwnedStep::parts`]) after which a batch is sent: some 80 KiB.
const BATCH_PARTS: usize = 256;
/// Limit on the batches that wait.
const BATCHES_MAX: usize = 8;

/// Message of the track stage to the sink.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all messages are steps")]
enum SinkMessage {
    Step(KernelTime, OwnedStep),
    CompleteUntil(KernelTime),
    /// A round has ended.
    Round,
}

/// Processes the rest of a log as [`super::run`] does, in three threads on any number of CPUs.
///
/// # Errors
///
/// Errors of [`super::run`].
pub fn run_in_three_threads<S: Sink>(
    mut items: impl Iterator<Item = io::Result<Item>> + Send,
    header: Header,
    sink: &mut S,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Summary, PipelineError<S::Error>> {
    with_erased(sink, |sink| in_three(&mut items, header, KernelTime::MAX, sink, go_on))
}

/// Processes a log up to a time in three threads.
pub(super) fn in_three(
    items: &mut (dyn Iterator<Item = io::Result<Item>> + Send),
    header: Header,
    until: KernelTime,
    sink: &mut ErasedSink<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Summary, PipelineError<SinkFailed>> {
    let (sender, batches) = sync_channel(BATCHES_MAX);
    let (back, used) = sync_channel(BATCHES_MAX);
    let (for_tracker, uses_begins) = (header.clone(), sink.uses_begins());
    let track = || {
        let batches = StepBatches::new(sender, used);
        track(&mut *items, for_tracker, until, batches, uses_begins)
    };
    let done = scope(|threads| {
        let builder = Builder::new().name("iotrace:track".to_owned());
        let thread = builder.spawn_scoped(threads, track).ok()?;
        // After an early end the track stage stops at its next batch, as the channel is closed.
        let taken = take_all(batches, &back, sink, go_on);
        let tracked = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Some(taken.and_then(|()| tracked.map_err(PipelineError::without_sink)))
    });
    // If no thread can be started, the stages before it are in this one.
    done.unwrap_or_else(|| in_two(items, header, until, sink, go_on))
}

/// Runs the stages before the sink.
fn track(
    items: &mut (dyn Iterator<Item = io::Result<Item>> + Send),
    header: Header,
    until: KernelTime,
    batches: StepBatches,
    uses_begins: bool,
) -> Result<Summary, PipelineError<NoSink>> {
    let batches = RefCell::new(batches);
    let mut copies = StepCopies { batches: &batches, uses_begins };
    let go_on = &mut || batches.borrow_mut().add(SinkMessage::Round, 1).is_ok();
    let summary = with_erased(&mut copies, |sink| in_two(items, header, until, sink, go_on));
    // The steps before a failure are passed on, too. Without a sink its own error counts.
    let _ = batches.borrow_mut().flush();
    summary
}

/// Passes all messages to the sink.
fn take_all<S: Sink>(
    batches: Receiver<Vec<SinkMessage>>,
    back: &SyncSender<Vec<SinkMessage>>,
    sink: &mut S,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), PipelineError<S::Error>> {
    for batch in batches {
        for message in &batch {
            let taken = match message {
                SinkMessage::Step(time, step) => step.with(|step| sink.step(*time, step)),
                SinkMessage::CompleteUntil(time) => sink.complete_until(*time),
                SinkMessage::Round if go_on() => Ok(()),
                SinkMessage::Round => return Err(PipelineError::Interrupted),
            };
            taken.map_err(PipelineError::Sink)?;
        }
        // If the track stage has enough of them, or has ended, the batch is freed here.
        if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) =
            back.try_send(batch)
        {
            drop(batch);
        }
    }
    Ok(())
}

/// Error of the track stage's sink: the sink behind it has ended.
#[derive(Debug)]
struct NoSink;

impl PipelineError<NoSink> {
    /// Returns the error for the sink's own thread, which has not ended before the track stage.
    fn without_sink<E>(self) -> PipelineError<E> {
        self.map_sink(|NoSink| PipelineError::Interrupted)
    }
}

/// Messages for the sink in batches.
struct StepBatches {
    batch: Vec<SinkMessage>,
    /// Parts of the steps in the batch.
    parts: usize,
    sender: SyncSender<Vec<SinkMessage>>,
    /// Batches that the sink has taken.
    used: Receiver<Vec<SinkMessage>>,
}

impl StepBatches {
    fn new(sender: SyncSender<Vec<SinkMessage>>, used: Receiver<Vec<SinkMessage>>) -> Self {
        Self { batch: Vec::with_capacity(BATCH_PARTS), parts: 0, sender, used }
    }

    fn add(&mut self, message: SinkMessage, parts: usize) -> Result<(), NoSink> {
        self.batch.push(message);
        self.parts += parts;
        if self.parts < BATCH_PARTS { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), NoSink> {
        self.parts = 0;
        let mut next = self.used.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH_PARTS));
        next.clear();
        self.sender.send(std::mem::replace(&mut self.batch, next)).map_err(|_| NoSink)
    }
}

/// Sink of the track stage: copies the steps for the sink behind.
struct StepCopies<'a> {
    batches: &'a RefCell<StepBatches>,
    /// Value of [`Sink::USES_BEGINS`] of that sink.
    uses_begins: bool,
}

impl Sink for StepCopies<'_> {
    type Error = NoSink;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), NoSink> {
        if step.is_begin() && !self.uses_begins {
            return Ok(());
        }
        let step = OwnedStep::of(step);
        let parts = step.parts();
        self.batches.borrow_mut().add(SinkMessage::Step(time, step), parts)
    }

    fn complete_until(&mut self, time: KernelTime) -> Result<(), NoSink> {
        self.batches.borrow_mut().add(SinkMessage::CompleteUntil(time), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches to a sink with room for `waiting` of them.
    fn batches(waiting: usize) -> (StepBatches, Receiver<Vec<SinkMessage>>) {
        let (sender, taken) = sync_channel(waiting);
        let (_, used) = sync_channel(1);
        (StepBatches::new(sender, used), taken)
    }

    #[test]
    fn large_steps_fill_a_batch() {
        let (mut batches, taken) = batches(3);
        let lengths = || taken.try_iter().map(|batch| batch.len()).collect::<Vec<_>>();
        for _ in 1..BATCH_PARTS {
            batches.add(SinkMessage::Round, 1).expect("there is a sink");
        }
        assert_eq!(lengths(), [0; 0]);
        batches.add(SinkMessage::Round, BATCH_PARTS).expect("there is a sink");
        batches.add(SinkMessage::Round, BATCH_PARTS).expect("there is a sink");
        assert_eq!(lengths(), [BATCH_PARTS, 1]);
    }

    #[test]
    fn track_stage_ends_when_the_sink_is_gone() {
        let (mut batches, taken) = batches(3);
        drop(taken);
        let added = (0..BATCH_PARTS).take_while(|_| batches.add(SinkMessage::Round, 1).is_ok());
        assert_eq!(added.count(), BATCH_PARTS - 1);
    }
}
