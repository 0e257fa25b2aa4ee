//! Check that a traced thread could not run while its memory was being read.
//!
//! A reader with real-time priority takes its CPU from the thread whose record woke the reader,
//! while that thread is inside the kernel. The thread runs again when the reader sleeps, or at once
//! if another CPU takes it over. Then it may change its memory without any record. So both
//! conditions are checked after the read.

use crate::capture::fact::Fact;
use crate::sys::thread::{self, CpuLookup};
use crate::units::{CpuId, Tid};

/// Evidence that a reader has had its CPU for itself since the kernel woke it: the reader has not
/// slept since. A thread whose record woke the reader has not left the kernel, unless another CPU
/// took the thread over.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuHold(
    /// Number of times the reader had slept when it woke; `None`: the record did not find the
    /// reader waiting.
    Option<i64>,
);

impl CpuHold {
    /// Hold of a thread that is not the CPU's own reader.
    pub(super) const NONE: Self = Self(None);

    /// Returns the hold of a reader that a record found waiting, and that had slept this number of
    /// times ([`thread::switches`]) when it woke.
    pub(super) const fn since(sleeps: i64) -> Self {
        Self(Some(sleeps))
    }

    /// True if this thread, which made a record on this CPU, has not run until now.
    pub(super) fn keeps(self, tid: Tid, cpu: CpuId, whereabouts: &mut CpuLookup) -> bool {
        let is_here = self.0.is_some() && whereabouts.cpu_of(tid) == Some(cpu);
        is_here && self.0 == Some(thread::switches())
    }
}

/// Drops the bytes of a fact, because other bytes may have been written there before the read.
pub(super) fn too_late(mut fact: Fact) -> Fact {
    if let Fact::Name { errno, bytes, .. } = &mut fact {
        *errno = nix::errno::Errno::ESTALE as i32;
        bytes.clear();
    }
    fact
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::fact::NameOf;
    use crate::units::KernelTime;

    fn own() -> Tid {
        Tid(nix::unistd::gettid().as_raw())
    }

    #[test]
    fn sleeping_or_remote_reader_holds_no_thread() {
        let reader = || {
            thread::pin(0).expect("the first CPU is there");
            let mut whereabouts = CpuLookup::default();
            let mut keeps = |hold: CpuHold, cpu| hold.keeps(own(), CpuId(cpu), &mut whereabouts);
            let hold = CpuHold::since(thread::switches());
            let at_first = keeps(hold, 0);
            let elsewhere = keeps(hold, 1) || keeps(CpuHold::NONE, 0);
            thread::pause(std::time::Duration::from_millis(1));
            (at_first, elsewhere, keeps(hold, 0))
        };
        let found = || std::thread::spawn(reader).join().expect("it ends");
        // On a busy machine the reader may have slept between the two calls.
        let all: Vec<_> = std::iter::repeat_with(found).take(20).collect();
        assert!(all.iter().any(|it| it.0), "{all:?}");
        assert!(all.iter().all(|it| !it.1 && !it.2), "{all:?}");
    }

    #[test]
    fn late_reads_are_dropped() {
        let begin = KernelTime(7);
        let fact = Fact::Name {
            tid: own(),
            cpu: CpuId(0),
            record_time: begin,
            of: NameOf::Argument,
            begin,
            end: begin,
            errno: 0,
            address: 9,
            stat: None,
            bytes: b"/of/the/next".to_vec(),
        };
        let Fact::Name { errno, address, bytes, .. } = too_late(fact) else { panic!("a name") };
        assert_eq!((errno, address, bytes), (116, 9, Vec::new()), "ESTALE");
    }
}
