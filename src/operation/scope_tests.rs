//! Tests of the processes that a capture follows.

use super::process::Scope;
use super::task::TaskId;
use super::tasks::Tasks;
use crate::units::{KernelTime, Pid, Tid};

const OWN: Pid = Pid(900);

fn scope(system: bool, children: bool, excluded: &[i32]) -> Scope {
    Scope {
        system,
        all_requests: system,
        roots: if system { Vec::new() } else { vec![Pid(10)] },
        launched: false,
        own: OWN,
        children,
        excluded: excluded.iter().copied().map(Pid).collect(),
    }
}

fn task(pid: i32, tid: i32) -> TaskId {
    TaskId { pid: Pid(pid), tid: Tid(tid) }
}

/// Makes a process fork another one; both have one thread.
fn fork(tasks: &mut Tasks, parent: i32, child: i32) {
    tasks.fork(KernelTime(1), task(parent, parent), task(child, child));
}

fn is_followed(tasks: &mut Tasks, pid: i32) -> bool {
    tasks.process(Pid(pid)).followed
}

#[test]
fn children_are_followed_or_counted() {
    for (children, left_out) in [(true, 0), (false, 2)] {
        let mut tasks = Tasks::new(scope(false, children, &[]));
        fork(&mut tasks, 10, 11);
        fork(&mut tasks, 11, 12);
        fork(&mut tasks, 10, 13);
        tasks.fork(KernelTime(1), task(10, 10), task(10, 14));
        let followed = [10, 11, 12, 13].map(|pid| is_followed(&mut tasks, pid));
        assert_eq!(followed, [true, children, children, children]);
        assert_eq!(tasks.children_left_out, left_out);
        assert!(tasks.known_thread(Tid(14)).is_some(), "threads are followed");
    }
}

/// Fails if state of children that are not followed is kept: there may be any number of them.
#[test]
fn children_that_are_not_followed_have_no_state() {
    let mut tasks = Tasks::new(scope(false, false, &[]));
    for child in 100..200 {
        fork(&mut tasks, 10, child);
    }
    assert_eq!(tasks.processes().count(), 1);
    assert_eq!(tasks.children_left_out, 100);
}

#[test]
fn excluded_processes_and_their_children_are_not_followed() {
    let mut tasks = Tasks::new(scope(true, true, &[20]));
    fork(&mut tasks, 20, 21);
    fork(&mut tasks, 21, 22);
    fork(&mut tasks, 30, 31);
    fork(&mut tasks, OWN.0, 40);
    let followed = [20, 21, 22, 30, 31, 40, OWN.0].map(|pid| is_followed(&mut tasks, pid));
    assert_eq!(followed, [false, false, false, true, true, true, false]);
    // The number of an excluded process belongs to another one now.
    fork(&mut tasks, 30, 20);
    assert!(is_followed(&mut tasks, 20));
}
