//! Sinks of all types behind one type. The stages are compiled once for this type: compiled for
//! each of some ninety sinks, they were a quarter of the program's file.

use super::error::PipelineError;
use super::summary::Summary;
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Failure of a sink, whose error is kept beside the sink.
#[derive(Debug)]
pub(super) struct SinkFailed;

/// Methods of a sink, with an error of one type.
trait StepTaker {
    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), SinkFailed>;

    fn complete_until(&mut self, time: KernelTime) -> Result<(), SinkFailed>;
}

/// Sink with the error by which it has failed.
struct FallibleSink<'a, S: Sink> {
    sink: &'a mut S,
    error: Option<S::Error>,
}

impl<S: Sink> FallibleSink<'_, S> {
    fn keep(&mut self, taken: Result<(), S::Error>) -> Result<(), SinkFailed> {
        taken.map_err(|error| {
            self.error = Some(error);
            SinkFailed
        })
    }
}

impl<S: Sink> StepTaker for FallibleSink<'_, S> {
    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), SinkFailed> {
        let taken = self.sink.step(time, step);
        self.keep(taken)
    }

    fn complete_until(&mut self, time: KernelTime) -> Result<(), SinkFailed> {
        let taken = self.sink.complete_until(time);
        self.keep(taken)
    }
}

/// Sink of any type.
pub(super) struct ErasedSink<'a> {
    sink: &'a mut dyn StepTaker,
    uses_begins: bool,
    is_costly: bool,
}

impl ErasedSink<'_> {
    /// Value of [`Sink::IS_COSTLY`] of the sink behind.
    pub(super) fn is_costly(&self) -> bool {
        self.is_costly
    }

    /// Value of [`Sink::USES_BEGINS`] of the sink behind.
    pub(super) fn uses_begins(&self) -> bool {
        self.uses_begins
    }
}

impl Sink for ErasedSink<'_> {
    type Error = SinkFailed;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), SinkFailed> {
        if self.uses_begins || !step.is_begin() { self.sink.step(time, step) } else { Ok(()) }
    }

    fn complete_until(&mut self, time: KernelTime) -> Result<(), SinkFailed> {
        self.sink.complete_until(time)
    }
}

/// Calls a run of the stages with the erased sink, and returns the sink's own error if it fails.
pub(super) fn with_erased<S: Sink>(
    sink: &mut S,
    run: impl FnOnce(&mut ErasedSink<'_>) -> Result<Summary, PipelineError<SinkFailed>>,
) -> Result<Summary, PipelineError<S::Error>> {
    let mut kept = FallibleSink { sink, error: None };
    let (uses_begins, is_costly) = (S::USES_BEGINS, S::IS_COSTLY);
    let done = run(&mut ErasedSink { sink: &mut kept, uses_begins, is_costly });
    let error = kept.error;
    done.map_err(|failure| {
        // A sink that has failed has left its error.
        failure.map_sink(|SinkFailed| error.map_or(PipelineError::Interrupted, PipelineError::Sink))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::mount_table::MountTable;

    /// Sink that fails at a time.
    struct FailsAt(u64);

    impl Sink for FailsAt {
        type Error = String;

        const USES_BEGINS: bool = false;

        fn step(&mut self, time: KernelTime, _: &Step<'_>) -> Result<(), String> {
            if time.0 == self.0 { Err(format!("no room at {}", time.0)) } else { Ok(()) }
        }
    }

    #[test]
    fn error_of_the_sink_comes_back() {
        let mounts = MountTable::parse(b"");
        let failed = with_erased(&mut FailsAt(3), |sink| {
            assert!(!sink.uses_begins());
            for time in 1.. {
                let step = sink.step(KernelTime(time), &Step::MountsSeen(&mounts));
                step.map_err(PipelineError::Sink)?;
            }
            Ok(Summary::default())
        });
        assert!(matches!(failed, Err(PipelineError::Sink(text)) if text == "no room at 3"));
    }

    #[test]
    fn other_failures_stay() {
        let stopped = with_erased(&mut FailsAt(0), |_| Err(PipelineError::Interrupted));
        assert!(matches!(stopped, Err(PipelineError::Interrupted)));
    }
}
