//! Opens whose files are looked at while the program goes on. A descriptor may be closed before the
//! look; that is judged later, where all records are in order.

use std::collections::VecDeque;

use super::ended_call::EndedCall;
use crate::capture::fact::Fact;
use crate::units::Pid;

/// Largest number of opens on one CPU that wait to be looked at: more than can be looked at in a
/// round.
const WAITING_MAX: usize = 4096;
/// Number of waiting opens that are searched for the same descriptor.
const SEARCHED_MAX: usize = 64;
/// Number of looks, some 20 to 50 us each, at the end of a round, while the records of calls wait.
const LAST_LOOKS: usize = 16;

/// Opens on one CPU that wait to be looked at, oldest first.
#[derive(Debug, Default)]
pub(super) struct LateLooks {
    waiting: VecDeque<LateOpen>,
}

/// An open that waits to be looked at.
#[derive(Debug)]
struct LateOpen {
    pid: Option<Pid>,
    call: EndedCall,
}

impl LateLooks {
    /// Defers the look at an open. An earlier open with the same descriptor number is dropped: that
    /// descriptor is closed.
    pub(super) fn put_off(&mut self, pid: Option<Pid>, call: EndedCall) {
        let same = |earlier: &LateOpen| {
            let is_its = pid.is_some() && earlier.pid == pid || earlier.call.tid == call.tid;
            is_its && earlier.call.ret == call.ret
        };
        if let Some(back) = self.waiting.iter().rev().take(SEARCHED_MAX).position(same) {
            self.waiting.remove(self.waiting.len() - 1 - back);
        }
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(LateOpen { pid, call });
    }

    /// Looks at the most recent of the waiting opens. Returns false if none waits.
    pub(super) fn look(&mut self, facts: &mut Vec<(Option<Pid>, Fact)>) -> bool {
        let Some(LateOpen { pid, call }) = self.waiting.pop_back() else { return false };
        facts.extend(call.link().map(|fact| (pid, fact)));
        true
    }

    /// Looks at the most recent waiting opens and drops all others: the records of all of them are
    /// written now, so no later event needs their names.
    pub(super) fn look_at_last(&mut self, facts: &mut Vec<(Option<Pid>, Fact)>) {
        for _ in 0..LAST_LOOKS {
            if !self.look(facts) {
                break;
            }
        }
        self.waiting.clear();
    }
}
