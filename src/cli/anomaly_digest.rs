//! Anomalies beside printed operations: the first of each kind on standard error, the others
//! counted at the end.

use std::collections::BTreeMap;

use super::message::print_line;
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Sink that keeps anomalies out of the next one.
pub(super) struct AnomalyDigest<S> {
    pub(super) sink: S,
    /// Number of anomalies by their kind.
    kinds: BTreeMap<&'static str, u64>,
}

impl<S> AnomalyDigest<S> {
    pub(super) fn new(sink: S) -> Self {
        Self { sink, kinds: BTreeMap::new() }
    }

    /// Returns the line about the anomalies that were not printed, if there are some, and the next
    /// sink.
    pub(super) fn finish(self) -> (Option<String>, S) {
        let more = self.kinds.iter().filter(|(_, count)| **count > 1);
        let more: Vec<String> =
            more.map(|(kind, count)| format!("{} more {kind}", count - 1)).collect();
        let line = format!("{}; each one: iotrace-perf script of a recording", more.join(", "));
        ((!more.is_empty()).then_some(line), self.sink)
    }
}

impl<S: Sink> Sink for AnomalyDigest<S> {
    type Error = S::Error;
    const USES_BEGINS: bool = S::USES_BEGINS;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), S::Error> {
        let Step::Anomaly(anomaly) = step else { return self.sink.step(time, step) };
        let count = self.kinds.entry(anomaly.kind.as_str()).or_default();
        *count += 1;
        if *count == 1 {
            print_line(&format!("{}: {}", anomaly.kind.as_str(), anomaly.detail));
        }
        Ok(())
    }

    fn complete_until(&mut self, time: KernelTime) -> Result<(), S::Error> {
        self.sink.complete_until(time)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::anomaly::{Anomaly, AnomalyKind};
    use crate::units::{CpuId, Pid, Tid};

    struct NoAnomalies;

    impl Sink for NoAnomalies {
        type Error = Infallible;

        fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
            assert!(!matches!(step, Step::Anomaly(_)));
            Ok(())
        }
    }

    #[test]
    fn anomalies_are_counted_by_kind() {
        let mut digest = AnomalyDigest::new(NoAnomalies);
        let mut push = |kind| {
            let (cpu, pid, tid) = (CpuId(0), Pid(1), Tid(1));
            let detail = String::new();
            let anomaly = Anomaly { kind, time: KernelTime(1), cpu, pid, tid, count: 1, detail };
            let Ok(()) = digest.step(KernelTime(1), &Step::Anomaly(&anomaly));
        };
        let kinds = [AnomalyKind::OrphanExit, AnomalyKind::Lost];
        kinds.into_iter().chain([AnomalyKind::OrphanExit; 2]).for_each(&mut push);
        let (line, _) = digest.finish();
        let kind = AnomalyKind::OrphanExit.as_str();
        assert!(line.is_some_and(|line| line.starts_with(&format!("2 more {kind};"))));
    }
}
