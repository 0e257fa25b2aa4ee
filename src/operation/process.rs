//! Who is who: processes and threads, their names, and who is followed.

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::abi::Abi;
use super::bounds::{Bounds, units};
use super::fd_table::{FdTable, SharedTable};
use super::mappings::SharedMappings;
use super::model::{ProcessInfo, ProcessKey, ThreadInfo, ThreadKey};
use super::place::{Place, SharedPlace};
use super::spaces::Spaces;
use super::spans::OpenSpans;
use super::syscall::Pending;
use super::task::{Copied, Own, Task, become_process, unshare};
use crate::anomaly::Ignored;
use crate::event::task::{CLONE_FILES, CLONE_FS, CLONE_NEWNS, CLONE_PARENT, CLONE_VM};
use crate::units::{KernelTime, Pid, Tid};

/// Whom the capture follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Everybody but the tracer; otherwise the roots and their descendants.
    pub system: bool,
    /// Block requests of others are told, too.
    pub all_requests: bool,
    /// The launched process or those attached to.
    pub roots: Vec<Pid>,
    /// The roots were launched: what they do before their first exec is the tracer's own code.
    pub launched: bool,
    /// The tracer.
    pub own: Pid,
}

/// The parent of the kernel's own threads, in the first pid namespace (`rest_init()` in `init/main.c`).
pub const KTHREADD: Pid = Pid(2);

/// A process.
#[derive(Debug)]
pub struct Process {
    /// As the outputs show it.
    pub info: ProcessInfo,
    /// The process that the kernel adds its accounting to when that waits for it; `None`: it was there before.
    pub waiter: Option<(Pid, Option<ProcessKey>)>,
    /// Its operations are wanted.
    pub followed: bool,
    /// It has not become the program yet.
    pub before_exec: bool,
    /// Its descriptors.
    pub fds: SharedTable,
    /// Files in its memory.
    pub memory: SharedMappings,
    /// Where its paths begin.
    pub place: SharedPlace,
    /// Which calls it makes.
    pub abi: Abi,
    /// One of the kernel's own threads.
    pub is_kernel: bool,
    /// The outputs know it.
    pub announced: bool,
    /// How many of its threads we know.
    threads: u32,
    leader_ended: bool,
}

impl Process {
    /// Why its records are not wanted, if they are not.
    pub fn unwanted(&self) -> Option<Ignored> {
        match (self.followed, self.before_exec) {
            (_, true) => Some(Ignored::BeforeExec),
            (false, _) => Some(Ignored::Foreign),
            (true, false) => None,
        }
    }

    /// What is known of its files is not true any more.
    pub fn forget_files(&mut self) {
        self.fds = SharedTable::default();
        self.memory = SharedMappings::default();
        self.place = SharedPlace::default();
    }
}

/// A thread.
#[derive(Debug)]
pub struct Thread {
    /// As the outputs show it.
    pub info: ThreadInfo,
    /// Its process.
    pub pid: Pid,
    /// Its birth or a call of it was seen when everything was on: it cannot be inside a call that is older than that.
    pub seen: bool,
    /// The call that it is inside.
    pub pending: Option<Pending>,
    /// What is at work in it.
    pub spans: OpenSpans,
    /// What it does not share with its process.
    pub own: Own,
    /// The outputs know it.
    pub announced: bool,
}

impl Thread {
    /// True if it is inside a call that starts a program.
    fn is_in_exec(&self) -> bool {
        self.pending.as_ref().is_some_and(|it| it.operation.call.call().is_exec())
    }
}

/// The process; made if it was never heard of.
fn process_of<'a>(
    processes: &'a mut FxHashMap<i32, Process>,
    (scope, next): (&Scope, &mut u32),
    pid: Pid,
) -> &'a mut Process {
    processes.entry(pid.0).or_insert_with(|| {
        let key = ProcessKey(*next);
        *next += 1;
        Process {
            info: ProcessInfo { key, pid, parent: None, comm: Vec::new(), user: None },
            waiter: None,
            followed: scope.system && pid != scope.own,
            before_exec: false,
            fds: SharedTable::default(),
            memory: SharedMappings::default(),
            place: SharedPlace::default(),
            abi: Abi::default(),
            is_kernel: pid == KTHREADD,
            announced: false,
            threads: 0,
            leader_ended: false,
        }
    })
}

/// One more thread of the process.
fn new_thread(process: &mut Process, key: ThreadKey, tid: Tid) -> Thread {
    process.threads += 1;
    let ProcessInfo { key: of, pid, comm, .. } = &process.info;
    Thread {
        info: ThreadInfo { key, process: *of, tid, comm: comm.clone() },
        pid: *pid,
        seen: false,
        pending: None,
        spans: OpenSpans::default(),
        own: Own::default(),
        announced: false,
    }
}

/// All processes and threads.
#[derive(Debug)]
pub struct Tasks {
    scope: Scope,
    /// Mount namespaces.
    pub spaces: Spaces,
    /// Of what is alive.
    pub bounds: Bounds,
    processes: FxHashMap<i32, Process>,
    threads: FxHashMap<i32, Thread>,
    next_process: u32,
    next_thread: u32,
    /// Last child of each forking thread, until its clone flags come.
    last_child: FxHashMap<i32, Tid>,
}

/// What is left of a thread.
#[derive(Debug)]
pub struct Gone {
    /// The thread; `None` if it was never heard of.
    pub thread: Option<Thread>,
    /// Its process, if that was its last thread.
    pub process: Option<Process>,
}

impl Tasks {
    /// Nobody known yet but the roots.
    pub fn new(scope: Scope) -> Self {
        let mut tasks = Self {
            spaces: Spaces::default(),
            bounds: Bounds::default(),
            processes: FxHashMap::default(),
            threads: FxHashMap::default(),
            next_process: 0,
            next_thread: 0,
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

    /// The process; made if it was never heard of.
    pub fn process(&mut self, pid: Pid) -> &mut Process {
        process_of(&mut self.processes, (&self.scope, &mut self.next_process), pid)
    }

    /// The thread and its process; made if they were never heard of.
    pub fn thread(&mut self, pid: Pid, tid: Tid) -> (&mut Process, &mut Thread) {
        let process = process_of(&mut self.processes, (&self.scope, &mut self.next_process), pid);
        let thread = match self.threads.entry(tid.0) {
            Entry::Occupied(it) if it.get().pid == pid => it.into_mut(),
            other => {
                let key = ThreadKey(self.next_thread);
                self.next_thread += 1;
                other.insert_entry(new_thread(process, key, tid)).into_mut()
            }
        };
        (process, thread)
    }

    /// True if these are known, or may become so.
    pub fn has_room(&self, pid: Pid, tid: Tid) -> bool {
        let max = self.bounds.tasks_max;
        (self.threads.len() < max || self.threads.contains_key(&tid.0))
            && (self.processes.len() < max || self.processes.contains_key(&pid.0))
    }

    /// Takes room for a descriptor of a file whose name has so many bytes.
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

    /// True if a thread of another process has this number.
    pub fn is_other(&self, pid: Pid, tid: Tid) -> bool {
        self.threads.get(&tid.0).is_some_and(|it| it.pid != pid)
    }

    /// Takes out the thread that has this number in another process: its end, and the birth of the one that has the
    /// number now, were not seen.
    pub fn take_stale(&mut self, pid: Pid, tid: Tid) -> Option<Thread> {
        self.is_other(pid, tid).then(|| self.take_thread(tid)).flatten()
    }

    /// Takes a thread out of its process.
    fn take_thread(&mut self, tid: Tid) -> Option<Thread> {
        let thread = self.threads.remove(&tid.0)?;
        if let Some(process) = self.processes.get_mut(&thread.pid.0) {
            process.threads = process.threads.saturating_sub(1);
        }
        Some(thread)
    }

    /// True if it has a parent among those that were seen to make it, and that one is gone.
    pub fn is_orphan(&self, process: &Process) -> bool {
        process.waiter.is_some_and(|(pid, key)| {
            let waiter = self.processes.get(&pid.0).map(|it| it.info.key);
            waiter.is_none() || waiter != key
        })
    }

    /// Any of them may have gone elsewhere unseen. (Who leaves its root is another matter: that is not for everybody.)
    pub fn forget_directories(&mut self) {
        self.places().for_each(|it| it.borrow_mut().lose_directory());
    }

    /// Followed processes that were seen to be made and have not ended.
    pub fn left(&self) -> u64 {
        let left = self.processes.values().filter(|it| it.followed && it.waiter.is_some());
        u64::try_from(left.count()).unwrap_or(u64::MAX)
    }

    /// True for one of the kernel's own threads, as far as known.
    pub fn is_kernel(&self, pid: Pid) -> bool {
        self.processes.get(&pid.0).is_some_and(|it| it.is_kernel)
    }

    /// The process, if it was heard of.
    pub fn known_process(&self, pid: Pid) -> Option<&Process> {
        self.processes.get(&pid.0)
    }

    /// The thread, if it was heard of.
    pub fn known_thread(&self, tid: Tid) -> Option<&Thread> {
        self.threads.get(&tid.0)
    }

    /// As [`Self::known_thread`].
    pub fn known_thread_mut(&mut self, tid: Tid) -> Option<&mut Thread> {
        self.threads.get_mut(&tid.0)
    }

    /// Where the paths of processes begin, each place once.
    pub fn places(&self) -> impl Iterator<Item = &RefCell<Place>> {
        let own = self.threads.values().filter_map(|it| it.own.place());
        // Several may share one.
        let mut seen = FxHashSet::default();
        let all = self.processes().map(|it| &it.place).chain(own);
        all.filter(move |it| seen.insert(Rc::as_ptr(it))).map(Rc::as_ref)
    }

    /// Tables of descriptors; one may come more than once.
    pub fn tables(&self) -> impl Iterator<Item = &SharedTable> {
        let own = self.threads.values().filter_map(|it| it.own.fds());
        self.processes().map(|it| &it.fds).chain(own)
    }

    /// All processes.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.values()
    }

    /// True for the tracer itself.
    pub fn is_own(&self, pid: Pid) -> bool {
        pid == self.scope.own
    }

    /// A task was born: a thread of its parent's process, or a process with a copy of its parent's descriptors. Gives
    /// back the threads that had its numbers before and whose end was not seen.
    pub fn fork(&mut self, now: KernelTime, parent: (Pid, Tid), child: (Pid, Tid)) -> Vec<Thread> {
        self.last_child.insert(parent.1.0, child.1);
        let mut replaced = Vec::from_iter(self.take_thread(child.1));
        if parent.0 != child.0 {
            replaced.extend(self.begin_process(now, parent, child.0));
        }
        // Whoever had that number is gone.
        self.thread(child.0, child.1);
        let of_parent = self.threads.get(&parent.1.0).filter(|it| it.pid == parent.0);
        let own = of_parent.filter(|_| parent.0 == child.0).map(|it| it.own.clone());
        let comm = self.threads.get(&parent.1.0).map(|it| it.info.comm.clone());
        if let Some(thread) = self.threads.get_mut(&child.1.0) {
            thread.seen = true;
            thread.own = own.unwrap_or_default();
            thread.info.comm = comm.unwrap_or_else(|| std::mem::take(&mut thread.info.comm));
        }
        replaced
    }

    /// A process begins as a copy of its parent. Gives back the threads of one that had its number and has ended unseen.
    fn begin_process(&mut self, now: KernelTime, parent: (Pid, Tid), child: Pid) -> Vec<Thread> {
        let replaced = match self.processes.remove(&child.0) {
            Some(_) => self.take_threads(|_, thread| thread.pid == child),
            None => Vec::new(),
        };
        let system = self.scope.system;
        self.process(parent.0);
        let task = self.task(parent).expect("made above");
        let (descriptors, all) = {
            let table = task.fds().borrow();
            (table.units(), table.len())
        };
        let has_room = self.take_descriptors(descriptors);
        let task = self.task(parent).expect("made above");
        let from = task.process;
        let (followed, before_exec, key) = (from.followed, from.before_exec, from.info.key);
        let fds = if has_room { task.fds().borrow().copied(now) } else { FdTable::default() };
        let memory = from.memory.borrow().clone();
        let place = RefCell::new(task.place().borrow().copied());
        let abi = from.abi.of_child();
        let (comm, user) = (from.info.comm.clone(), from.info.user);
        self.bounds.left_out.descriptors += if has_room { 0 } else { all };
        let process = self.process(child);
        process.followed = if system { process.followed } else { followed };
        process.before_exec = before_exec;
        process.is_kernel = parent.0 == KTHREADD;
        process.info.parent = Some(key);
        process.waiter = Some((parent.0, Some(key)));
        process.info.comm = comm;
        process.info.user = user;
        process.fds = Rc::new(RefCell::new(fds));
        process.memory = Rc::new(RefCell::new(memory));
        process.place = Rc::new(place);
        process.abi = abi;
        replaced
    }

    /// Everything is on from now on: any thread may be inside a call whose entry was not to be seen.
    pub fn forget_seen(&mut self) {
        self.threads.values_mut().for_each(|it| it.seen = false);
    }

    /// Takes out the threads for which this holds, in the order in which they were first seen.
    fn take_threads(&mut self, is_wanted: impl Fn(i32, &Thread) -> bool) -> Vec<Thread> {
        let mut taken: Vec<Thread> =
            self.threads.extract_if(|tid, thread| is_wanted(*tid, thread)).map(|it| it.1).collect();
        taken.sort_unstable_by_key(|it| it.info.key);
        taken
    }

    /// The incarnations that have these numbers now.
    pub fn keys(&self, parent: Pid, child: Pid) -> Option<(ProcessKey, ProcessKey)> {
        let key = |it: Pid| self.processes.get(&it.0).map(|it| it.info.key);
        key(parent).zip(key(child))
    }

    /// A process as this thread has it, or as it has it if the thread was never heard of; `None`: neither was.
    pub fn task(&self, (pid, tid): (Pid, Tid)) -> Option<Task<'_>> {
        let process = self.processes.get(&pid.0)?;
        let thread = self.threads.get(&tid.0).filter(|it| it.pid == pid);
        Some(thread.map_or(Task::of_process(process), |it| Task::new(process, &it.own)))
    }

    /// What the last child of this thread shares with it.
    pub fn new_task(
        &mut self,
        parent: (Pid, Tid),
        clone_flags: u64,
        comm: Option<&[u8]>,
        now: KernelTime,
    ) {
        let Some(child) = self.last_child.remove(&parent.1.0) else { return };
        let Some(thread) = self.threads.get_mut(&child.0) else { return };
        let pid = thread.pid;
        if let Some(comm) = comm {
            thread.info.comm = comm.to_vec();
            if pid.0 == child.0 {
                self.process(pid).info.comm = comm.to_vec();
            }
        }
        let Some(from) = self.task(parent) else { return };
        if pid == parent.0 {
            let own = Own::of_child(from, clone_flags, now);
            self.threads.entry(child.0).and_modify(|it| it.own = own);
            return;
        }
        let (fds, place) = (Rc::clone(from.fds()), Rc::clone(from.place()));
        let memory = Rc::clone(&from.process.memory);
        let own = (self.scope.own, None);
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

    /// A thread leaves what it shares.
    pub fn unshare(&mut self, (pid, tid): (Pid, Tid), flags: u64, copied: Copied) {
        let (process, thread) = self.thread(pid, tid);
        let alone = process.threads == 1;
        unshare((process, thread, alone), flags, copied);
        if flags & CLONE_NEWNS != 0 {
            let mounts = self.spaces.made();
            let task = self.task((pid, tid));
            task.iter().for_each(|it| it.place().borrow_mut().mounts = mounts);
        }
    }

    /// An exec of a process in which not all threads have the same: what does the one have that calls it?
    fn settle_exec(&mut self, pid: Pid) {
        let mut threads = self.threads.values().filter(|it| it.pid == pid);
        if !threads.any(|it| it.own.is_something()) {
            return;
        }
        let is_inside = |it: &&Thread| it.pid == pid && it.is_in_exec();
        let mut inside = self.threads.values().filter(is_inside);
        let caller = match (inside.next(), inside.next()) {
            (Some(caller), None) => Some(caller.own.clone()),
            _ => None,
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

    /// The task ended. What is left of it, and of its process if it was the last thread.
    pub fn exit(&mut self, pid: Pid, tid: Tid) -> Gone {
        self.last_child.remove(&tid.0);
        let thread = self.take_thread(tid);
        if let Some(process) = self.processes.get_mut(&pid.0) {
            process.leader_ended |= pid.0 == tid.0;
        }
        let is_over =
            self.processes.get(&pid.0).is_some_and(|it| it.leader_ended && it.threads == 0);
        let process = if is_over { self.processes.remove(&pid.0) } else { None };
        Gone { thread, process }
    }

    /// An exec: the other threads of the process are gone without a word, and the one that called it has the
    /// process's number now.
    pub fn other_threads(&mut self, pid: Pid) -> Vec<Thread> {
        self.settle_exec(pid);
        self.threads.entry(pid.0).and_modify(|it| it.own = Own::default());
        let gone = self.take_threads(|tid, thread| thread.pid == pid && tid != pid.0);
        let process = self.process(pid);
        process.threads =
            process.threads.saturating_sub(u32::try_from(gone.len()).unwrap_or(u32::MAX));
        process.leader_ended = false;
        gone
    }

    /// Takes all threads out, in the order in which they were first seen.
    pub fn drain_threads(&mut self) -> Vec<Thread> {
        self.take_threads(|_, _| true)
    }
}
