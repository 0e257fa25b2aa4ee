//! Sink of the planner: handles each step of the capture.

use super::Planner;
use super::thread::NewThread;
use crate::event::syscall_table::Role;
use crate::operation::{Sink, Step};
use crate::replay::plan::dependencies::WaitSet;
use crate::replay::plan::in_flight::InFlightKey;
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::replayability::SkipReason;
use crate::units::KernelTime;

impl<O: PlanOutput> Sink for Planner<O> {
    type Error = O::Error;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), O::Error> {
        match step {
            Step::Forked { parent, child } => {
                self.handles.forked(*parent, *child);
                self.process_waits.born(*parent, *child, time);
                if let Some(at) = self.newest.get(parent) {
                    self.newest.insert(*child, (at.0, false));
                }
            }
            Step::ThreadSeen(thread) => {
                let mut born = self.newest.get(&thread.process).map(|(op, _)| *op);
                let mut before = WaitSet::default();
                if let Some(last) = self.process_waits.siblings(thread.process, time, &mut before) {
                    // Otherwise all children of a shell that is idle between them would begin at
                    // once, and wait for each other.
                    born.replace(last).into_iter().for_each(|sibling| before.add(sibling));
                }
                self.new.insert(thread.key, NewThread { comm: thread.comm.clone(), born, before });
            }
            Step::SyscallBegun(operation) => {
                let sendfile = self.as_sendfile(operation);
                self.begun(sendfile.as_ref().unwrap_or(operation));
            }
            Step::SyscallEnded(operation, effects) => {
                if operation.call.call().arg(Role::Iocbs).is_none() {
                    self.in_flight.remove_operation(InFlightKey::Call(operation.thread));
                }
                let sendfile = self.as_sendfile(operation);
                self.ended(sendfile.as_ref().unwrap_or(operation), effects)?;
                self.in_flight.raise_floor(time, self.first);
                self.forget();
            }
            Step::SyscallUnfinished(operation, _) => {
                self.in_flight.remove_operation(InFlightKey::Call(operation.thread));
                self.leave(operation, SkipReason::NoResult);
            }
            Step::AsyncFile(operation) => self.submitted(operation),
            Step::AsyncEnded(operation, _) => {
                self.asynchronous_ended(operation)?;
                self.in_flight.raise_floor(time, self.first);
                self.forget();
            }
            Step::AsyncUnfinished(operation, _) => self.asynchronous_lost(operation),
            Step::DescriptorsClosed(process, fds) => self.went(*process, fds, time)?,
            Step::ProcessEnded(process) => {
                self.handles.ended(process.key);
                self.process_waits.process_ended(process.key);
                self.newest.remove(&process.key);
            }
            Step::ThreadEnded(thread) => {
                if let Some(seen) = self.threads.remove(&thread.key) {
                    self.process_waits.thread_ended(thread.process, time, seen.last);
                }
                for last in self.lanes.ended(thread.key) {
                    self.process_waits.thread_ended(thread.process, time, last);
                }
                self.in_flight.remove_operation(InFlightKey::Call(thread.key));
                self.new.remove(&thread.key);
            }
            _ => {}
        }
        Ok(())
    }
}
