//! Renames of tasks, which are mostly execs of another program.

use super::Tracker;
use crate::event::Event;
use crate::operation::step::{Sink, Step};
use crate::operation::task::TaskId;
use crate::units::KernelTime;

impl Tracker {
    pub(super) fn renamed<S: Sink>(
        &mut self,
        event: &Event,
        id: TaskId,
        comm: &[u8],
        exec: bool,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let TaskId { pid, tid } = id;
        if exec {
            for thread in self.tasks.other_threads(pid) {
                self.thread_gone(event.time, thread, sink)?;
            }
        }
        self.reap_reused_tid(event.time, pid, tid, sink)?;
        let (process, thread) = self.tasks.thread(pid, tid);
        // The end of an earlier exec may be missing because events are being switched off.
        let is_switched_on = event.time < self.off_from;
        process.abi.lives();
        let starts_program = exec && process.followed && is_switched_on;
        if starts_program && process.abi.exec_again(self.context.losses) {
            self.ledger.other.add(pid, &process.info.comm);
        }
        thread.info.comm = comm.to_vec();
        if pid.0 == tid.0 {
            process.info.comm = comm.to_vec();
        }
        if exec {
            self.ledger.execs += u64::from(process.followed);
            if std::mem::take(&mut process.before_exec) {
                self.ledger.program.exec.get_or_insert((pid, event.time));
            }
            process.info.program = None;
            let launched = self.launched.take_if(|(root, _)| *root == pid);
            process.info.command = launched.map(|(_, arguments)| arguments);
            super::identity::announce(event.time, process, sink)?;
            // An exec gives the process a table of its own.
            let mut own = process.fds.borrow().clone();
            let closed = own.exec(event.time);
            let are_on = self.all_on == KernelTime::MAX && is_switched_on;
            if self.context.followed.execs && are_on {
                process.abi.exec(&own, event.time, self.context.losses);
            }
            process.fds = std::rc::Rc::new(std::cell::RefCell::new(own));
            process.memory = std::rc::Rc::default();
            if process.announced && !closed.is_empty() {
                sink.step(event.time, &Step::DescriptorsClosed(process.info.key, &closed))?;
            }
        }
        if thread.announced {
            sink.step(event.time, &Step::ThreadRenamed(&thread.info))?;
        }
        Ok(())
    }
}
