//! Durations of the tracer's own calls. The tracer makes calls that do nothing, and opens, to
//! measure what recording costs (`tracer::overhead_meter`); their durations in the log show how
//! much of a duration is the tracer's.

use rustc_hash::FxHashMap;

use crate::anomaly::OwnDurations;
use crate::event::syscall_table::{CallClass, CallId};
use crate::event::{SysEnter, SysExit};
use crate::units::{KernelTime, Tid};

/// Call that does almost nothing where the tracer makes it.
const IDLE_CALL: &str = "lseek";

/// Largest number of durations of each kind: more are not needed for a median.
const DURATIONS_MAX: usize = 1 << 12;

/// Largest number of own threads that are inside a call.
const THREADS_MAX: usize = 1 << 6;

/// Calls of the tracer's own threads.
#[derive(Debug, Default)]
pub(super) struct OwnCalls {
    entered: FxHashMap<Tid, (CallId, KernelTime)>,
    idle_ns: Vec<u64>,
    open_ns: Vec<u64>,
}

impl OwnCalls {
    pub(super) fn enter(&mut self, tid: Tid, time: KernelTime, enter: &SysEnter) {
        let call = enter.call.call();
        let is_measured = call.name == IDLE_CALL || call.class == CallClass::Open;
        self.entered.remove(&tid);
        if is_measured && self.entered.len() < THREADS_MAX {
            self.entered.insert(tid, (enter.call, time));
        }
    }

    pub(super) fn exit(&mut self, tid: Tid, time: KernelTime, exit: &SysExit) {
        let Some((call, begin)) = self.entered.remove(&tid) else { return };
        if !call.ends_as(exit.call) || exit.ret < 0 {
            return;
        }
        let is_idle = call.call().name == IDLE_CALL;
        let durations = if is_idle { &mut self.idle_ns } else { &mut self.open_ns };
        if durations.len() < DURATIONS_MAX {
            durations.push(time.0.saturating_sub(begin.0));
        }
    }

    /// Returns the medians.
    pub(super) fn durations(&mut self) -> OwnDurations {
        OwnDurations { idle_ns: median(&mut self.idle_ns), open_ns: median(&mut self.open_ns) }
    }
}

fn median(values: &mut [u64]) -> Option<u64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable(middle).1)
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
        for (begin, duration) in [(0, 300), (1_000, 200), (2_000, 9_000)] {
            make("lseek", begin, begin + duration, 0);
            make("openat", begin + 500, begin + 500 + 2 * duration, 3);
        }
        make("openat", 20_000, 20_001, -2);
        make("close", 30_000, 30_001, 0);
        assert_eq!(own.durations(), OwnDurations { idle_ns: Some(300), open_ns: Some(600) });
    }
}
