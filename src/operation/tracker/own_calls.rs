//! Durations of the tracer's own calls. A thread of the tracer makes calls that do nothing, and
//! opens, to measure what recording costs (`tracer::overhead_probe`); the durations of these calls
//! in the log show how much of a duration is the tracer's.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::anomaly::OwnDurations;
use crate::event::syscall_table::{CallClass, CallId};
use crate::event::{SysEnter, SysExit};
use crate::units::{KernelTime, Tid};

/// Call that does almost nothing where the tracer makes it.
const IDLE_CALL: &str = "lseek";

/// Largest number of durations of each kind that are kept of a thread.
const DURATIONS_MAX: usize = 1 << 12;

/// Largest number of own threads.
const THREADS_MAX: usize = 1 << 6;

/// Calls of the tracer's own threads.
#[derive(Debug, Default)]
pub(super) struct OwnCalls {
    threads: FxHashMap<Tid, OwnThread>,
}

/// Calls of one thread.
#[derive(Debug, Default)]
struct OwnThread {
    inside: Option<(CallId, KernelTime)>,
    idle_ns: Vec<u64>,
    open_ns: Vec<u64>,
}

impl OwnCalls {
    pub(super) fn enter(&mut self, tid: Tid, time: KernelTime, enter: &SysEnter) {
        let call = enter.call.call();
        let is_measured = call.name == IDLE_CALL || call.class == CallClass::Open;
        if self.threads.len() < THREADS_MAX || self.threads.contains_key(&tid) {
            let thread = self.threads.entry(tid).or_default();
            thread.inside = is_measured.then_some((enter.call, time));
        }
    }

    pub(super) fn exit(&mut self, tid: Tid, time: KernelTime, exit: &SysExit) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let Some((call, begin)) = thread.inside.take() else { return };
        if !call.ends_as(exit.call) || exit.ret < 0 {
            return;
        }
        let is_idle = call.call().name == IDLE_CALL;
        let durations = if is_idle { &mut thread.idle_ns } else { &mut thread.open_ns };
        if durations.len() < DURATIONS_MAX {
            durations.push(time.0.saturating_sub(begin.0));
        }
    }

    /// Returns the durations of each thread.
    pub(super) fn durations(&mut self) -> BTreeMap<Tid, OwnDurations> {
        let of = |thread: &mut OwnThread| OwnDurations {
            idle_ns: usual(&mut thread.idle_ns),
            open_ns: usual(&mut thread.open_ns),
        };
        self.threads.iter_mut().map(|(tid, thread)| (*tid, of(thread))).collect()
    }
}

/// Returns the value that nine of ten do not exceed.
fn usual(values: &mut [u64]) -> Option<u64> {
    let place = values.len() * 9 / 10;
    (!values.is_empty()).then(|| *values.select_nth_unstable(place).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_work_count_by_kind() {
        let mut own = OwnCalls::default();
        let mut make = |name: &str, begin, end, ret| {
            let call = CallId::all().find(|id| id.call().name == name).expect("a call");
            own.enter(Tid(1), KernelTime(begin), &SysEnter { call, args: [0; 6] });
            let exit = SysExit { call, ret, names: None, chain: None };
            own.exit(Tid(1), KernelTime(end), &exit);
        };
        for number in 0..10 {
            let begin = 10_000 * number;
            make("lseek", begin, begin + 200 + number, 0);
            make("openat", begin + 500, begin + 700 + 2 * number, 3);
        }
        make("openat", 200_000, 200_001, -2);
        make("close", 300_000, 300_001, 0);
        let expected = OwnDurations { idle_ns: Some(209), open_ns: Some(218) };
        assert_eq!(own.durations(), [(Tid(1), expected)].into());
    }
}
