//! Names of processes, as long as somebody may ask for them.

use rustc_hash::FxHashMap;

use crate::operation::Step;
use crate::operation::model::{ProcessKey, ThreadInfo};
use crate::units::{Pid, Tid};

/// The last name of each process that lives, or has a row in a table.
#[derive(Clone, Debug, Default)]
pub struct ProcessNames(FxHashMap<ProcessKey, Known>);

#[derive(Clone, Debug)]
struct Known {
    pid: Pid,
    comm: Vec<u8>,
    /// Its threads that have not ended.
    threads: u32,
    has_row: bool,
}

impl ProcessNames {
    /// Takes note of a step.
    pub fn look(&mut self, step: &Step<'_>) {
        match step {
            Step::ProcessSeen(it) => {
                let known =
                    Known { pid: it.pid, comm: it.comm.clone(), threads: 0, has_row: false };
                self.0.insert(it.key, known);
            }
            Step::ThreadSeen(thread) => {
                self.0.entry(thread.process).and_modify(|it| it.threads += 1);
            }
            Step::ThreadRenamed(thread) => self.renamed(thread),
            Step::ThreadEnded(thread) => self.ended(thread.process),
            _ => {}
        }
    }

    /// A process has the name of its first thread.
    fn renamed(&mut self, thread: &ThreadInfo) {
        if let Some(it) = self.0.get_mut(&thread.process)
            && Tid(it.pid.0) == thread.tid
        {
            it.comm.clone_from(&thread.comm);
        }
    }

    fn ended(&mut self, process: ProcessKey) {
        let Some(it) = self.0.get_mut(&process) else { return };
        it.threads = it.threads.saturating_sub(1);
        if it.threads == 0 && !it.has_row {
            self.0.remove(&process);
        }
    }

    /// A table has a row about this process: its name is kept when it has ended.
    pub fn keep(&mut self, process: ProcessKey) {
        self.0.entry(process).and_modify(|it| it.has_row = true);
    }

    /// The name; empty: not known.
    pub fn of(&self, process: ProcessKey) -> &[u8] {
        self.0.get(&process).map_or(&[], |it| &it.comm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::model::{ProcessInfo, ThreadKey};

    fn process(names: &mut ProcessNames, number: u32) -> ThreadInfo {
        let key = ProcessKey(number);
        let pid = Pid(100 + i32::try_from(number).expect("small"));
        let comm = format!("p{number}").into_bytes();
        let (parent, user) = (None, None);
        let info = ProcessInfo { key, pid, parent, comm: comm.clone(), user };
        names.look(&Step::ProcessSeen(&info));
        let thread = ThreadInfo { key: ThreadKey(number), process: key, tid: Tid(pid.0), comm };
        names.look(&Step::ThreadSeen(&thread));
        thread
    }

    #[test]
    fn a_name_is_kept_for_a_row_and_no_other() {
        let mut names = ProcessNames::default();
        let threads = [0, 1, 2].map(|it| process(&mut names, it));
        let second = ThreadInfo { tid: Tid(7), key: ThreadKey(9), ..threads[2].clone() };
        names.look(&Step::ThreadSeen(&second));
        names.keep(ProcessKey(1));
        // The last name counts, and only that of the first thread.
        for (thread, comm) in [(&threads[1], "new"), (&second, "other")] {
            let renamed = ThreadInfo { comm: comm.into(), ..thread.clone() };
            names.look(&Step::ThreadRenamed(&renamed));
        }
        threads.iter().for_each(|it| names.look(&Step::ThreadEnded(it)));
        let known = [0, 1, 2].map(|it| names.of(ProcessKey(it)).to_vec());
        assert_eq!(known, [b"".to_vec(), b"new".to_vec(), b"p2".to_vec()]);
        names.look(&Step::ThreadEnded(&second));
        assert_eq!((names.of(ProcessKey(2)), names.0.len()), (b"".as_slice(), 1));
    }
}
