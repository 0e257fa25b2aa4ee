//! Limits on living state: a malicious log may be packed to a thousandth of what its reader would
//! keep.
//!
//! Living tasks and descriptors are limited, not all that have lived: room is freed when tasks end
//! and descriptors are closed. Events beyond a limit are left out and counted; their calls are
//! missing in every report, which shows the number.

use super::Tracker;
use crate::anomaly::{Anomaly, AnomalyKind};
use crate::event::syscall_table::CallClass;
use crate::event::task::TaskEvent;
use crate::event::{Event, EventKind, SeenFd};
use crate::operation::bounds::LeftOut;
use crate::units::{CpuId, KernelTime, Pid, Tid};

impl Tracker {
    /// Returns the anomaly of an event that was left out.
    pub fn beyond_bounds(event: &Event) -> Anomaly {
        let Event { time, cpu, pid, tid, .. } = *event;
        let detail = "event of a task or with a descriptor beyond the limits".to_owned();
        Anomaly { kind: AnomalyKind::BeyondBounds, time, cpu, pid, tid, count: 1, detail }
    }

    /// Returns false if the event would make a task or a descriptor beyond the limits.
    pub fn has_room_for(&mut self, event: &Event) -> bool {
        let (pid, tid) = (event.pid, event.tid);
        match &event.kind {
            EventKind::SysEnter(_) | EventKind::Uring(_) | EventKind::Fault(_) => {
                self.tasks.has_room(pid, tid)
            }
            EventKind::SysExit(exit) => {
                let makes = matches!(
                    exit.call.call().class,
                    CallClass::Open | CallClass::Dup | CallClass::Make(_)
                );
                let names = exit.names.as_deref();
                let name = names.and_then(|it| it.link.as_ref().or(it.argument.as_ref()));
                let name_bytes = name.map_or(0, |it| it.bytes.len());
                self.tasks.has_room(pid, tid)
                    && (!makes || exit.ret < 0 || self.tasks.take_descriptor(name_bytes))
            }
            EventKind::Task(TaskEvent::Fork { pid, tid, .. }) => self.tasks.has_room(*pid, *tid),
            EventKind::Task(_) => self.tasks.has_room(pid, tid),
            _ => true,
        }
    }

    /// Returns false for a task of a snapshot beyond the limits, and counts it.
    pub fn has_room_for_task(&mut self, pid: Pid, tid: Tid) -> bool {
        let has_room = self.tasks.has_room(pid, tid);
        self.tasks.bounds.left_out.tasks += u64::from(!has_room);
        has_room
    }

    /// Returns false for a descriptor of a snapshot beyond the limits, and counts it.
    pub(super) fn has_room_for_descriptor(&mut self, seen: &SeenFd) -> bool {
        let has_room = self.tasks.has_room(seen.pid, Tid(seen.pid.0))
            && self.tasks.take_descriptor(seen.link.len());
        self.tasks.bounds.left_out.descriptors += u64::from(!has_room);
        has_room
    }

    /// Returns the facts that were left out, at the end; `waiting`: those that had no room to wait
    /// for their calls.
    pub fn left_out(&self, waiting: u64, time: KernelTime) -> Option<Anomaly> {
        let LeftOut { tasks, descriptors } = self.tasks.bounds.left_out;
        let count = tasks + descriptors + waiting;
        (count > 0).then(|| Anomaly {
            kind: AnomalyKind::BeyondBounds,
            time,
            cpu: CpuId(0),
            pid: Pid(-1),
            tid: Tid(-1),
            count,
            detail: format!(
                "facts of tasks {tasks}, descriptors {descriptors}, names and texts {waiting}"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::block::BlockOptions;
    use crate::naming::room::Room;
    use crate::operation::context::Observability;
    use crate::operation::process::Scope;
    use crate::operation::step::{Sink, Step};
    use crate::units::Fd;

    struct BoundsNullSink;

    impl Sink for BoundsNullSink {
        type Error = Infallible;

        fn step(&mut self, _: KernelTime, _: &Step<'_>) -> Result<(), Infallible> {
            Ok(())
        }
    }

    fn tracker() -> Tracker {
        let scope = Scope {
            system: true,
            all_requests: false,
            roots: Vec::new(),
            launched: false,
            own: Pid(99),
            children: true,
            excluded: Vec::new(),
        };
        Tracker::new(scope, BlockOptions::default(), Observability::ALL, KernelTime(0))
    }

    fn event(pid: i32, kind: TaskEvent) -> Event {
        let (time, cpu) = (KernelTime(7), CpuId(0));
        Event { time, cpu, pid: Pid(pid), tid: Tid(pid), kind: EventKind::Task(kind) }
    }

    fn fork(parent: i32, child: i32) -> Event {
        let (ppid, ptid) = (Pid(parent), Tid(parent));
        event(parent, TaskEvent::Fork { pid: Pid(child), tid: Tid(child), ppid, ptid })
    }

    fn descriptor(fd: i32, name_bytes: usize) -> SeenFd {
        SeenFd {
            begin: KernelTime(5),
            pid: Pid(1),
            fd: Fd(fd),
            flags: 0,
            position: None,
            shared: false,
            stat: None,
            link: vec![b'/'; name_bytes],
        }
    }

    #[test]
    fn tasks_beyond_the_bound_are_left_out_and_counted() {
        let mut tracker = tracker();
        tracker.tasks.bounds.tasks_max = 3;
        for number in 1..=5 {
            if tracker.has_room_for_task(Pid(number), Tid(number)) {
                tracker.seen_task(Pid(number), Tid(number), Pid(1), b"x");
            }
        }
        assert!(tracker.tasks.known_thread(Tid(3)).is_some());
        assert!(tracker.tasks.known_thread(Tid(4)).is_none());
        assert!(tracker.has_room_for(&fork(1, 2)), "a number that is known takes no room");
        assert!(!tracker.has_room_for(&fork(1, 6)));
        let left_out = tracker.left_out(5, KernelTime(9)).expect("something was left out");
        assert_eq!((left_out.kind, left_out.count), (AnomalyKind::BeyondBounds, 7));
        expect_test::expect!["facts of tasks 2, descriptors 0, names and texts 5"]
            .assert_eq(&left_out.detail);
    }

    #[test]
    fn descriptors_beyond_the_bound_are_left_out_and_counted() {
        let mut tracker = tracker();
        tracker.tasks.bounds.descriptors = Room::new(5);
        tracker.seen_task(Pid(1), Tid(1), Pid(1), b"x");
        // A long name counts as two more.
        for (fd, name_bytes) in [(3, 9), (4, 9), (5, 513), (6, 9), (7, 9)] {
            tracker.seen_fd(&descriptor(fd, name_bytes), KernelTime(6));
        }
        let count = |tracker: &Tracker| tracker.left_out(0, KernelTime(9)).map(|it| it.count);
        assert_eq!(count(&tracker), Some(2));
        // A child would have three more.
        assert_eq!(tracker.push(fork(1, 2), &mut BoundsNullSink), Ok(()));
        assert_eq!(count(&tracker), Some(5));
        let fds = |pid| tracker.tasks.known_process(Pid(pid)).map(|it| it.fds.borrow().len());
        assert_eq!((fds(1), fds(2)), (Some(3), Some(0)));
    }
}
