//! Thread that evaluates triggers: reads the ring as it grows.
//!
//! A machine may be so busy that the ring drops frames before they are read. Then the evaluation
//! goes on with the newest segment, and the time in between is counted. Now and then the evaluation
//! begins anew with a segment, so that its memory does not grow.

use std::convert::Infallible;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use super::shared_ring::{Renewal, RingReader, SharedRing, since};
use crate::analysis::trigger::{Firing, Trigger, TriggerFold};
use crate::cli::error::CliError;
use crate::cli::tailing_reader::LogCompletion;
use crate::operation::{Sink, Step};
use crate::pipeline;
use crate::sys::thread;
use crate::units::KernelTime;

/// Pause before the header of the recording is there.
const PAUSE: Duration = Duration::from_millis(20);

/// Input of the evaluation.
pub(super) struct Evaluation {
    pub(super) ring: Arc<SharedRing>,
    pub(super) log: File,
    pub(super) ended: LogCompletion,
    pub(super) triggers: Vec<Trigger>,
    /// Firings, which have room for as many as the keeper takes in a pause.
    pub(super) fired: SyncSender<Firing>,
}

impl Evaluation {
    /// Evaluates until the end of the recording. Returns the number of firings without room.
    ///
    /// # Errors
    ///
    /// The recording cannot be read.
    pub(super) fn run(self) -> Result<u64, CliError> {
        let mut without_room = 0;
        let mut fold = TriggerFold::new(&self.triggers, |firing: Firing| {
            without_room += u64::from(self.fired.try_send(firing).is_err());
        });
        let mut is_first = true;
        while !self.ended.is_given_up() {
            let Some((header, segment)) = self.ring.newest(is_first) else {
                if self.ring.is_over() {
                    break;
                }
                thread::pause(PAUSE);
                continue;
            };
            let gap = since(fold.evaluated_until(), segment.all_from);
            self.ring.add_unevaluated(if is_first { 0 } else { gap });
            is_first = false;
            fold.renew();
            let reader = RingReader::new(&self.ring, &self.log, &self.ended, &header, &segment);
            let reader = reader.map_err(CliError::Output)?;
            let (overtaken, renewal) = (reader.overtaken(), reader.renewal());
            let mut sink = RenewedFold { fold: &mut fold, renewal: &renewal };
            let evaluated = pipeline::open::<_, Infallible>(reader)
                .and_then(|(items, header)| pipeline::run(items, header, &mut sink, &mut || true));
            // ORDERING: Relaxed: this thread has set both.
            let goes_on = [&overtaken, &renewal.is_due].map(|flag| flag.load(Ordering::Relaxed));
            match evaluated {
                _ if goes_on.contains(&true) => {}
                Ok(_) => break,
                Err(_) if self.ended.is_given_up() => break,
                Err(error) => {
                    return Err(CliError::pipeline(Path::new("(the ring)"), &error));
                }
            }
        }
        drop(fold);
        Ok(without_room)
    }
}

/// Fold that outlives the reader of its steps.
struct RenewedFold<'a, F> {
    fold: &'a mut TriggerFold<F>,
    renewal: &'a Renewal,
}

impl<F: FnMut(Firing)> Sink for RenewedFold<'_, F> {
    type Error = Infallible;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        // ORDERING: Relaxed: this thread has set it.
        let is_over = self.renewal.is_due.load(Ordering::Relaxed);
        // The reader reports calls in progress as unfinished when its log ends.
        match step {
            Step::SyscallUnfinished(..) if is_over => Ok(()),
            _ => self.fold.step(time, step),
        }
    }

    fn complete_until(&mut self, time: KernelTime) -> Result<(), Infallible> {
        self.fold.complete_until(time)?;
        // ORDERING: Relaxed: this thread reads it.
        self.renewal.is_quiet.store(self.fold.is_quiet(), Ordering::Relaxed);
        Ok(())
    }
}
