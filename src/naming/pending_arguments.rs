//! Arguments that probes have recorded right before a call: paths, and lists of `io_submit`.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::ProbeObservation;
use crate::units::{Pid, Tid};

/// Limit of threads with path arguments, and of processes that submit: no machine has more.
const THREADS_MAX: usize = 1 << 16;

/// Limit of path arguments of a thread on its way to one call: two at most, some of them twice.
const ARGUMENTS_MAX: usize = 8;

/// Arguments of the next calls of threads.
#[derive(Debug, Default)]
pub(super) struct PendingArguments {
    of_thread: FxHashMap<Tid, Vec<ProbeObservation>>,
    /// Processes whose `io_submit` probes have recorded: they also record the results of the
    /// processes' `io_getevents`.
    submitters: FxHashSet<Pid>,
}

/// Returns true for what a program is about to pass to its next call.
pub(super) fn is_argument(probed: &ProbeObservation) -> bool {
    matches!(probed, ProbeObservation::Given { .. }) || is_list(probed)
}

fn is_list(probed: &ProbeObservation) -> bool {
    matches!(probed, ProbeObservation::Submitted { .. })
}

/// True for another part of the list at this address than the one from its element `first` on.
fn is_other_part(probed: &ProbeObservation, address: u64, first: usize) -> bool {
    matches!(probed, ProbeObservation::Submitted { address: at, first: begin, .. }
        if *at == address && *begin != first)
}

impl PendingArguments {
    /// Keeps a path argument or a list until the next call of the thread begins. The bytes of a
    /// list move here.
    pub(super) fn keep(&mut self, pid: Pid, tid: Tid, probed: &mut ProbeObservation) {
        if self.of_thread.len() >= THREADS_MAX {
            self.of_thread.clear();
        }
        let arguments = self.of_thread.entry(tid).or_default();
        let kept = match probed {
            // Lists are long: a thread has one, in parts.
            ProbeObservation::Submitted { address, first, bytes } => {
                arguments.retain(|other| !is_list(other) || is_other_part(other, *address, *first));
                if self.submitters.len() >= THREADS_MAX {
                    self.submitters.clear();
                }
                self.submitters.insert(pid);
                let (address, first) = (*address, *first);
                ProbeObservation::Submitted { address, first, bytes: std::mem::take(bytes) }
            }
            path => path.clone(),
        };
        if arguments.len() >= ARGUMENTS_MAX {
            arguments.remove(0);
        }
        arguments.push(kept);
    }

    /// Returns the arguments of a call of the thread that begins.
    pub(super) fn take(&mut self, tid: Tid) -> Vec<ProbeObservation> {
        self.of_thread.remove(&tid).unwrap_or_default()
    }

    /// Returns true if there are arguments of the thread's next call.
    pub(super) fn has(&self, tid: Tid) -> bool {
        self.of_thread.contains_key(&tid)
    }

    /// Returns true if a probe has recorded an `io_submit` of the process.
    pub(super) fn has_submitted(&self, pid: Pid) -> bool {
        self.submitters.contains(&pid)
    }

    /// Drops all arguments.
    pub(super) fn clear(&mut self) {
        self.of_thread.clear();
    }
}
