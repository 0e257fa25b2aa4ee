//! Names and users of processes, kept as long as they may be needed.

use rustc_hash::FxHashMap;

use super::job_keys::CaptureKeys;
use crate::operation::Step;
use crate::operation::model::{ProcessInfo, ProcessKey, ThreadInfo};
use crate::units::Tid;

/// Last name and user of each process that runs or has a row in a table.
#[derive(Clone, Debug, Default)]
pub struct ProcessNames(FxHashMap<ProcessKey, KnownProcess>);

#[derive(Clone, Debug)]
struct KnownProcess {
    info: ProcessInfo,
    has_row: bool,
    has_ended: bool,
}

impl ProcessNames {
    /// Takes the names in a step.
    pub fn look(&mut self, step: &Step<'_>) {
        match step {
            Step::ProcessSeen(it) => {
                let known = KnownProcess { info: (*it).clone(), has_row: false, has_ended: false };
                self.0.insert(it.key, known);
            }
            Step::UserChanged(it) | Step::Identified(it) => {
                if let Some(known) = self.0.get_mut(&it.key) {
                    known.info = (*it).clone();
                }
            }
            Step::ThreadRenamed(thread) => self.renamed(thread),
            Step::ProcessEnded(it) => self.ended(it.key),
            _ => {}
        }
    }

    /// Applies a rename: a process has the name of its first thread.
    fn renamed(&mut self, thread: &ThreadInfo) {
        if let Some(it) = self.0.get_mut(&thread.process)
            && Tid(it.info.pid.0) == thread.tid
        {
            it.info.comm.clone_from(&thread.comm);
        }
    }

    fn ended(&mut self, process: ProcessKey) {
        match self.0.get_mut(&process) {
            Some(known) if known.has_row => known.has_ended = true,
            _ => drop(self.0.remove(&process)),
        }
    }

    /// Keeps the name of this process after its end, because a table has a row about it.
    pub fn keep(&mut self, process: ProcessKey) {
        self.0.entry(process).and_modify(|it| it.has_row = true);
    }

    /// Keeps the name of the process of a new row, whose key this returns.
    pub(super) fn of_new_row(&mut self, process: ProcessKey) -> ProcessKey {
        self.keep(process);
        process
    }

    /// Keeps a process as [`Self::keep`] does; if it is not known any more, as `info` has it.
    pub fn keep_info(&mut self, process: ProcessKey, info: Option<ProcessInfo>) {
        match (self.0.get_mut(&process), info) {
            (Some(known), _) => known.has_row = true,
            (None, Some(info)) => {
                drop(self.0.insert(process, KnownProcess { info, has_row: true, has_ended: true }))
            }
            (None, None) => {}
        }
    }

    /// Adds a process of one more capture, which gets a row; `key` is its key in that capture.
    pub fn absorb(&mut self, key: ProcessKey, other: &Self, keys: &mut CaptureKeys<'_>) {
        let info = other.info(key).map(|info| keys.info(info));
        self.keep_info(keys.process(key), info);
    }

    /// Gives up a process whose last row is gone: it is known until its end.
    pub fn release(&mut self, process: ProcessKey) {
        match self.0.get_mut(&process) {
            Some(known) if !known.has_ended => known.has_row = false,
            _ => drop(self.0.remove(&process)),
        }
    }

    /// Forgets a process that has ended and whose row is gone.
    pub fn forget(&mut self, process: ProcessKey) {
        self.0.remove(&process);
    }

    /// Returns the name; empty if it is unknown.
    pub fn of(&self, process: ProcessKey) -> &[u8] {
        self.info(process).map_or(&[], |it| &it.comm)
    }

    /// Returns what is known of a process that runs or has a row.
    pub fn info(&self, process: ProcessKey) -> Option<&ProcessInfo> {
        self.0.get(&process).map(|it| &it.info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::model::ThreadKey;
    use crate::units::Pid;

    fn process(number: u32) -> ProcessInfo {
        let pid = Pid(100 + i32::try_from(number).expect("small"));
        let comm = format!("p{number}").into_bytes();
        ProcessInfo { comm, ..ProcessInfo::new(ProcessKey(number), pid) }
    }

    fn thread(process: &ProcessInfo, tid: i32, comm: &str) -> ThreadInfo {
        let key = ThreadKey(u32::try_from(tid).expect("positive"));
        ThreadInfo { key, process: process.key, tid: Tid(tid), comm: comm.into() }
    }

    #[test]
    fn names_are_kept_only_for_rows() {
        let mut names = ProcessNames::default();
        let all = [0, 1, 2].map(process);
        all.iter().for_each(|it| names.look(&Step::ProcessSeen(it)));
        names.keep(ProcessKey(1));
        // The last name counts, and only that of the first thread; the end of a thread is not that
        // of its process.
        for (it, tid, comm) in [(&all[1], 101, "new"), (&all[2], 7, "other")] {
            names.look(&Step::ThreadRenamed(&thread(it, tid, comm)));
            names.look(&Step::ThreadEnded(&thread(it, tid, comm)));
        }
        all[..2].iter().for_each(|it| names.look(&Step::ProcessEnded(it)));
        let known = [0, 1, 2].map(|it| names.of(ProcessKey(it)).to_vec());
        assert_eq!(known, [b"".to_vec(), b"new".to_vec(), b"p2".to_vec()]);
        assert_eq!(names.0.len(), 2);
        // A name without a row stays until the end of its process.
        names.keep(ProcessKey(2));
        [1, 2].into_iter().for_each(|key| names.release(ProcessKey(key)));
        assert_eq!((names.of(ProcessKey(1)), names.of(ProcessKey(2))), (&b""[..], &b"p2"[..]));
        names.look(&Step::ProcessEnded(&all[2]));
        assert_eq!(names.0.len(), 0);
    }
}
