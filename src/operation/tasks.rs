//! Registry of processes and threads.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::abi::Abi;
use super::bounds::{Bounds, units};
use super::copy_interval::CopyInterval;
use super::fd_table::{FdTable, SharedTable};
use super::fs_context::{FsContext, SharedPlace};
use super::mappings::SharedMappings;
use super::model::{ProcessInfo, ProcessKey, ThreadInfo, ThreadKey};
use super::mount_namespaces::MountNamespaces;
use super::process::{KTHREADD, Process, Scope, Thread, Waiter};
use super::spans::OpenSpans;
use super::task::{TaskId, TaskView, become_process, unshare};
use super::task_table::TaskTable;
use super::thread_overrides::ThreadOverrides;
use crate::event::task::{CLONE_FILES, CLONE_FS, CLONE_NEWNS, CLONE_PARENT, CLONE_VM};
use crate::units::{KernelTime, Pid, Tid};

/// Returns the process; creates it if it was not known.
fn process_of<'a>(
    processes: &'a mut TaskTable<Process>,
    scope: &Scope,
    next: &mut u32,
    pid: Pid,
) -> &'a mut Process {
    processes.get_or_insert_with(pid.0, || {
        let key = ProcessKey(*next);
        *next += 1;
        Process {
            info: ProcessInfo { is_kernel: pid == KTHREADD, ..ProcessInfo::new(key, pid) },
            waiter: None,
            followed: scope.system && pid != scope.own && !scope.excluded.contains(&pid),
            before_exec: false,
            fds: SharedTable::default(),
            memory: SharedMappings::default(),
            place: SharedPlace::default(),
            abi: Abi::default(),
            announced: false,
            threads: 0,
            leader_ended: false,
        }
    })
}

/// Creates one more thread of the process.
fn new_thread(process: &mut Process, key: ThreadKey, tid: Tid) -> Thread {
    process.threads += 1;
    let ProcessInfo { key: of, pid, comm, .. } = &process.info;
    Thread {
        info: ThreadInfo { key, process: *of, tid, comm: comm.clone() },
        pid: *pid,
        seen: false,
        pending: None,
        spans: OpenSpans::default(),
        own: ThreadOverrides::default(),
        announced: false,
    }
}

/// All processes and threads.
#[derive(Debug)]
pub struct Tasks {
    scope: Scope,
    /// Mount namespaces.
    pub spaces: MountNamespaces,
    /// Limits of the state of living tasks.
    pub bounds: Bounds,
    processes: TaskTable<Process>,
    threads: TaskTable<Thread>,
    next_process: u32,
    next_thread: u32,
    /// Children of followed processes that are not followed.
    pub children_left_out: u64,
    /// Last child of each forking thread, until its clone flags come.
    last_child: FxHashMap<i32, Tid>,
}

/// Remains of an ended thread.
#[derive(Debug)]
pub struct EndedTask {
    /// The thread; `None` if it was not known.
    pub thread: Option<Thread>,
    /// Process of the thread, if that was its last thread.
    pub process: Option<Process>,
}

impl Tasks {
    /// Returns a registry that knows only the roots.
    pub fn new(scope: Scope) -> Self {
        let mut tasks = Self {
            spaces: MountNamespaces::default(),
            bounds: Bounds::default(),
            processes: TaskTable::default(),
            threads: TaskTable::default(),
            next_process: 0,
            next_thread: 0,
            children_left_out: 0,
            last_child: FxHashMap::default(),
            scope,
        };
        for pid in tasks.scope.roots.clone() {
            let launched = tasks.scope.launched;
            let process = tasks.process(pid);
            process.followed = true;
            process.abi.is_user();
            process.before_exec = launched;
        }
        tasks
    }

    /// Returns the process; creates it if it was not known.
    pub fn process(&mut self, pid: Pid) -> &mut Process {
        process_of(&mut self.processes, &self.scope, &mut self.next_process, pid)
    }

    /// Returns the thread and its process; creates them if they were not known.
    pub fn thread(&mut self, pid: Pid, tid: Tid) -> (&mut Process, &mut Thread) {
        let process = process_of(&mut self.processes, &self.scope, &mut self.next_process, pid);
        if self.threads.get(tid.0).is_none_or(|thread| thread.pid != pid) {
            let key = ThreadKey(self.next_thread);
            self.next_thread += 1;
            let thread = new_thread(process, key, tid);
            return (process, self.threads.insert(tid.0, thread));
        }
        let thread = self.threads.get_mut(tid.0).expect("looked up above");
        (process, thread)
    }

    /// Returns true if these are known, or if there is room for them.
    pub fn has_room(&self, pid: Pid, tid: Tid) -> bool {
        let max = self.bounds.tasks_max;
        (self.threads.len() < max || self.threads.contains(tid.0))
            && (self.processes.len() < max || self.processes.contains(pid.0))
    }

    /// Reserves room for a descriptor of a file with a name of `name_bytes` bytes.
    pub fn take_descriptor(&mut self, name_bytes: usize) -> bool {
        self.take_descriptors(units(name_bytes))
    }

    fn take_descriptors(&mut self, units: usize) -> bool {
        let processes = &self.processes;
        self.bounds.descriptors.take(units, || {
            // Several processes may share a table.
            let mut counted = FxHashSet::default();
            let tables = processes.values().map(|it| &it.fds);
            tables.filter(|it| counted.insert(Rc::as_ptr(it))).map(|it| it.borrow().units()).sum()
        })
    }

    /// Returns true if a thread of another process has this number.
    pub fn is_other(&self, pid: Pid, tid: Tid) -> bool {
        self.threads.get(tid.0).is_some_and(|it| it.pid != pid)
    }

    /// Removes and returns the thread of another process that has this number: its end, and the
    /// birth of the thread that has the number now, were not seen.
    pub fn take_stale(&mut self, pid: Pid, tid: Tid) -> Option<Thread> {
        self.is_other(pid, tid).then(|| self.take_thread(tid)).flatten()
    }

    /// Removes a thread from its process.
    fn take_thread(&mut self, tid: Tid) -> Option<Thread> {
        let thread = self.threads.remove(tid.0)?;
        if let Some(process) = self.processes.get_mut(thread.pid.0) {
            process.threads = process.threads.saturating_sub(1);
        }
        Some(thread)
    }

    /// Returns true if its waiter is a process that was seen to make it, and that process is gone.
    pub fn is_orphan(&self, process: &Process) -> bool {
        process.waiter.is_some_and(|waiter| {
            let now = self.processes.get(waiter.pid.0).map(|it| it.info.key);
            now.is_none() || now != waiter.key
        })
    }

    /// Forgets all working directories: any process may have changed its own unseen. (Roots stay:
    /// leaving a root requires privileges.)
    pub fn forget_directories(&mut self) {
        self.places().for_each(|it| it.borrow_mut().lose_directory());
    }

    /// Returns the number of followed processes that were seen to be made and have not ended.
    pub fn left(&self) -> u64 {
        let left = self.processes.values().filter(|it| it.followed && it.waiter.is_some());
        u64::try_from(left.count()).unwrap_or(u64::MAX)
    }

    /// Returns true for a kernel thread, as far as known.
    pub fn is_kernel(&self, pid: Pid) -> bool {
        self.processes.get(pid.0).is_some_and(|it| it.info.is_kernel)
    }

    /// Returns the process, if it is known.
    pub fn known_process(&self, pid: Pid) -> Option<&Process> {
        self.processes.get(pid.0)
    }

    /// Returns the process for changes, if it is known.
    pub fn known_process_mut(&mut self, pid: Pid) -> Option<&mut Process> {
        self.processes.get_mut(pid.0)
    }

    /// Returns the thread, if it is known.
    pub fn known_thread(&self, tid: Tid) -> Option<&Thread> {
        self.threads.get(tid.0)
    }

    /// Returns the thread for changes, if it is known.
    pub fn known_thread_mut(&mut self, tid: Tid) -> Option<&mut Thread> {
        self.threads.get_mut(tid.0)
    }

    /// Returns the places of all processes and threads, each place once.
    pub fn places(&self) -> impl Iterator<Item = &RefCell<FsContext>> {
        let own = self.threads.values().filter_map(|it| it.own.place());
        // Several processes or threads may share one place.
        let mut seen = FxHashSet::default();
        let all = self.processes().map(|it| &it.place).chain(own);
        all.filter(move |it| seen.insert(Rc::as_ptr(it))).map(Rc::as_ref)
    }

    /// Returns all tables of descriptors; a shared one may come more than once.
    pub fn tables(&self) -> impl Iterator<Item = &SharedTable> {
        let own = self.threads.values().filter_map(|it| it.own.fds());
        self.processes().map(|it| &it.fds).chain(own)
    }

    /// Returns all processes.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.values()
    }

    /// Returns true if processes are left out of a capture of all processes.
    pub fn has_excluded(&self) -> bool {
        !self.scope.excluded.is_empty()
    }

    /// Returns true for the tracer itself.
    pub fn is_own(&self, pid: Pid) -> bool {
        pid == self.scope.own
    }

    /// Adds a new task: a thread of its parent's process, or a process with a copy of its parent's
    /// descriptors. Returns the threads that had its numbers before and whose end was not seen.
    pub fn fork(&mut self, now: KernelTime, parent: TaskId, child: TaskId) -> Vec<Thread> {
        if parent.pid != child.pid && self.leaves_out_children(parent.pid) {
            return self.leave_out(parent, child);
        }
        self.last_child.insert(parent.tid.0, child.tid);
        let mut replaced = Vec::from_iter(self.take_thread(child.tid));
        if parent.pid != child.pid {
            replaced.extend(self.begin_process(now, parent, child.pid));
        }
        // The previous thread of that number is gone.
        self.thread(child.pid, child.tid);
        let of_parent = self.threads.get(parent.tid.0).filter(|it| it.pid == parent.pid);
        let own = of_parent.filter(|_| parent.pid == child.pid).map(|it| it.own.clone());
        let comm = self.threads.get(parent.tid.0).map(|it| it.info.comm.clone());
        if let Some(thread) = self.threads.get_mut(child.tid.0) {
            thread.seen = true;
            thread.own = own.unwrap_or_default();
            thread.info.comm = comm.unwrap_or_else(|| std::mem::take(&mut thread.info.comm));
        }
        replaced
    }

    /// Returns true if children of the process are not followed although it is.
    fn leaves_out_children(&self, parent: Pid) -> bool {
        let parent = self.processes.get(parent.0);
        !self.scope.children && parent.is_some_and(|parent| parent.followed)
    }

    /// Handles the birth of a child that is not followed: the child may move the positions of files
    /// that it inherits. Returns the threads that had its numbers before, and whose end was not
    /// seen.
    fn leave_out(&mut self, parent: TaskId, child: TaskId) -> Vec<Thread> {
        self.children_left_out += 1;
        if let Some(parent) = self.task(parent) {
            parent.fds().borrow().share_all();
        }
        self.last_child.remove(&parent.tid.0);
        let mut replaced = Vec::from_iter(self.take_thread(child.tid));
        replaced.extend(self.take_process(child.pid));
        replaced
    }

    /// Removes a process that has ended unseen. Returns its threads.
    fn take_process(&mut self, pid: Pid) -> Vec<Thread> {
        match self.processes.remove(pid.0) {
            Some(_) => self.take_threads(|_, thread| thread.pid == pid),
            None => Vec::new(),
        }
    }

    /// Creates a process as a copy of its parent. Returns the threads of a process that had its
    /// number and has ended unseen.
    fn begin_process(&mut self, now: KernelTime, parent: TaskId, child: Pid) -> Vec<Thread> {
        let replaced = self.take_process(child);
        let (system, own) = (self.scope.system, self.scope.own);
        self.process(parent.pid);
        let task = self.task(parent).expect("made above");
        let (descriptors, all) = {
            let table = task.fds().borrow();
            (table.units(), table.len())
        };
        let has_room = self.take_descriptors(descriptors);
        let task = self.task(parent).expect("made above");
        let from = task.process;
        let (followed, before_exec) = (from.followed, from.before_exec);
        let fds = if has_room { task.fds().borrow().copied(now) } else { FdTable::default() };
        let memory = from.memory.borrow().clone();
        let place = RefCell::new(task.place().borrow().copied());
        let abi = from.abi.of_child();
        let parent_info = from.info.clone();
        self.bounds.left_out.descriptors += if has_room { 0 } else { all };
        let process = self.process(child);
        // In a recording of all processes only the tracer and excluded ones are not followed.
        let is_excluded = !followed && parent.pid != own;
        process.followed = if system { child != own && !is_excluded } else { followed };
        process.before_exec = before_exec;
        process.info.is_kernel = parent.pid == KTHREADD;
        process.info.copy_from(&parent_info);
        process.waiter = Some(Waiter { pid: parent.pid, key: Some(parent_info.key) });
        process.fds = Rc::new(RefCell::new(fds));
        process.memory = Rc::new(RefCell::new(memory));
        process.place = Rc::new(place);
        process.abi = abi;
        replaced
    }

    /// Handles the moment when all tracepoints are on: any thread may be inside a call whose entry
    /// was not seen.
    pub fn forget_seen(&mut self) {
        self.threads.values_mut().for_each(|it| it.seen = false);
    }

    /// Removes and returns the matching threads, in the order in which they were first seen.
    fn take_threads(&mut self, is_wanted: impl Fn(i32, &Thread) -> bool) -> Vec<Thread> {
        let mut taken: Vec<Thread> = self.threads.take_if(is_wanted);
        taken.sort_unstable_by_key(|it| it.info.key);
        taken
    }

    /// Returns the incarnations that have these numbers now.
    pub fn keys(&self, parent: Pid, child: Pid) -> Option<(ProcessKey, ProcessKey)> {
        let key = |it: Pid| self.processes.get(it.0).map(|it| it.info.key);
        key(parent).zip(key(child))
    }

    /// Returns the resources of a thread, or those of its process if the thread is not known;
    /// `None`: neither is known.
    pub fn task(&self, id: TaskId) -> Option<TaskView<'_>> {
        let process = self.processes.get(id.pid.0)?;
        let thread = self.threads.get(id.tid.0).filter(|it| it.pid == id.pid);
        Some(thread.map_or(TaskView::of_process(process), |it| TaskView::new(process, &it.own)))
    }

    /// Applies the clone flags of the last child of this thread, which determine what the two
    /// share.
    pub fn new_task(
        &mut self,
        parent: TaskId,
        clone_flags: u64,
        comm: Option<&[u8]>,
        now: KernelTime,
    ) {
        let Some(child) = self.last_child.remove(&parent.tid.0) else { return };
        let Some(thread) = self.threads.get_mut(child.0) else { return };
        let pid = thread.pid;
        if let Some(comm) = comm {
            thread.info.comm = comm.to_vec();
            if pid.0 == child.0 {
                self.process(pid).info.comm = comm.to_vec();
            }
        }
        let Some(from) = self.task(parent) else { return };
        if pid == parent.pid {
            let own = ThreadOverrides::of_child(from, clone_flags, now);
            if let Some(thread) = self.threads.get_mut(child.0) {
                thread.own = own;
            }
            return;
        }
        let (fds, place) = (Rc::clone(from.fds()), Rc::clone(from.place()));
        let memory = Rc::clone(&from.process.memory);
        let own = Waiter { pid: self.scope.own, key: None };
        let sibling_waiter = from.process.waiter.unwrap_or(own);
        let mounts = (clone_flags & CLONE_NEWNS != 0).then(|| self.spaces.made());
        let child = self.process(pid);
        if clone_flags & CLONE_PARENT != 0 {
            child.waiter = Some(sibling_waiter);
        }
        if clone_flags & CLONE_FILES != 0 {
            child.fds = fds;
        }
        if clone_flags & CLONE_FS != 0 {
            child.place = place;
        }
        if let Some(mounts) = mounts {
            child.place.borrow_mut().mounts = mounts;
        }
        if clone_flags & CLONE_VM != 0 {
            child.memory = memory;
        }
    }

    /// Gives a thread its own copy of resources that it shares.
    pub fn unshare(&mut self, id: TaskId, flags: u64, copied: CopyInterval) {
        let (process, thread) = self.thread(id.pid, id.tid);
        let is_alone = process.threads == 1;
        unshare(process, thread, is_alone, flags, copied);
        if flags & CLONE_NEWNS != 0 {
            let mounts = self.spaces.made();
            let task = self.task(id);
            task.iter().for_each(|it| it.place().borrow_mut().mounts = mounts);
        }
    }

    /// Handles an exec of a process whose threads have different resources: determines those of the
    /// calling thread.
    fn settle_exec(&mut self, pid: Pid) {
        let differs = |thread: &Thread| thread.pid == pid && thread.own.is_something();
        if !self.threads.values().any(differs) {
            return;
        }
        let is_inside = |it: &&Thread| it.pid == pid && it.is_in_exec();
        let caller = {
            let mut inside = self.threads.values().filter(is_inside);
            match (inside.next(), inside.next()) {
                (Some(caller), None) => Some(caller.own.clone()),
                _ => None,
            }
        };
        let process = self.process(pid);
        match caller {
            Some(own) => become_process(process, own),
            None => {
                process.fds.borrow_mut().split();
                process.place = SharedPlace::default();
            }
        }
    }

    /// Ends a task. Returns the remains of the thread, and of its process if that was the last
    /// thread.
    pub fn exit(&mut self, pid: Pid, tid: Tid) -> EndedTask {
        self.last_child.remove(&tid.0);
        let thread = self.take_thread(tid);
        if let Some(process) = self.processes.get_mut(pid.0) {
            process.leader_ended |= pid.0 == tid.0;
        }
        let is_over =
            self.processes.get(pid.0).is_some_and(|it| it.leader_ended && it.threads == 0);
        let process = if is_over { self.processes.remove(pid.0) } else { None };
        EndedTask { thread, process }
    }

    /// Handles an exec: the other threads of the process are gone without an exit event, and the
    /// calling thread has the number of the process now. Returns the other threads.
    pub fn other_threads(&mut self, pid: Pid) -> Vec<Thread> {
        self.settle_exec(pid);
        self.threads
            .get_mut(pid.0)
            .into_iter()
            .for_each(|thread| thread.own = ThreadOverrides::default());
        let gone = self.take_threads(|tid, thread| thread.pid == pid && tid != pid.0);
        let process = self.process(pid);
        process.threads =
            process.threads.saturating_sub(u32::try_from(gone.len()).unwrap_or(u32::MAX));
        process.leader_ended = false;
        gone
    }

    /// Removes all threads, in the order in which they were first seen.
    pub fn drain_threads(&mut self) -> Vec<Thread> {
        self.take_threads(|_, _| true)
    }
}
