//! Snapshot of the state before the recording: tasks, their names, their open files.

use std::fs::File;
use std::io::{self, Read};
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::error::TracerError;
use super::log_message::Message;
use super::named_thread::spawn_named;
use crate::capture::fact::{Fact, Text};
use crate::sys::cpu_topology::online_cpus;
use crate::sys::spawn::{ProgramEnd, Running};
use crate::sys::thread::SIGNAL_THREAD;
use crate::sys::{clock, mounts, proc};
use crate::units::{KernelTime, Pid, Tid, counted_with};

/// Number of looks at file positions when a running process is attached to. A single look may fall
/// into a read and be useless.
const LOOKS: usize = 8;

/// Processes of a snapshot.
#[derive(Clone, Debug)]
pub enum SnapshotScope {
    /// All processes.
    System,
    /// The given processes; `launched` if they are still held and will not run before they are
    /// released.
    Tree {
        /// The processes.
        pids: Vec<Pid>,
        /// True if they are held.
        launched: bool,
    },
}

/// Data that a snapshot reads in addition.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotOptions {
    /// Threads of all processes, because a sample records only the thread.
    pub all_tasks: bool,
    /// Open files.
    pub files: bool,
    /// Files that are mapped into memory.
    pub maps: bool,
    /// Block sizes of file systems.
    pub blocks: bool,
}

/// Longest time for reading the open files of running processes, ns. A process may have a million
/// descriptors, and any number of locks on each.
const FILES_NS_MAX: u64 = 20_000_000_000;

/// Reads the snapshot and sends it to the log. Returns the number of descriptors, or of processes
/// with descriptors, that were left out.
pub fn take(subject: &SnapshotScope, what: SnapshotOptions, log: &Sender<Message>) -> u64 {
    let all = proc::processes();
    let tree: Vec<Pid> = match subject {
        SnapshotScope::System => all.clone(),
        SnapshotScope::Tree { pids, .. } => pids.clone(),
    };
    let texts =
        [("/proc/self/mountinfo", Text::MOUNTINFO), ("/proc/diskstats", Text::DISKSTATS_START)];
    let mut facts: Vec<Fact> =
        texts.iter().filter_map(|(path, text)| proc::text(path, *text, Pid(0)).ok()).collect();
    facts.extend(proc::own_mounts());
    let whose = if what.all_tasks { &all } else { &tree };
    facts.extend(whose.iter().flat_map(|&it| proc::tasks(it)));
    facts.extend(tree.iter().flat_map(|&it| proc::places(it)));
    if what.blocks {
        facts.extend(mounts::file_systems().ok());
    }
    send(log, facts);
    if what.maps {
        // One message for each process: the maps of many processes are long.
        tree.iter().for_each(|&it| send(log, Vec::from_iter(proc::maps(it))));
    }
    if !what.files {
        return 0;
    }
    let until = KernelTime(clock::now().0.saturating_add(FILES_NS_MAX));
    match subject {
        // The program inherited its descriptors from the tracer and the tracer's caller, so all of
        // them are shared.
        SnapshotScope::Tree { launched: true, .. } => {
            let descriptors = tree.iter().flat_map(|&it| proc::descriptors(it));
            send(log, descriptors.filter_map(|it| proc::descriptor_fact(&it, true)).collect());
            0
        }
        SnapshotScope::Tree { launched: false, .. } => facts_of_running(&tree, &all, until, log),
        SnapshotScope::System => {
            let (facts, left_out) = proc::descriptor_facts(&tree, &all, until);
            send(log, facts);
            left_out
        }
    }
}

/// Takes the snapshot in a thread with the tracer's own name, so that its thousand small reads are
/// not recorded, and records the end of the snapshot. Returns a warning about descriptors that were
/// left out.
///
/// # Errors
///
/// If the thread cannot be started, or fails.
pub(super) fn take_in_thread(
    subject: SnapshotScope,
    what: SnapshotOptions,
    log: &Sender<Message>,
    own_name: &str,
) -> Result<Option<String>, TracerError> {
    let log = log.clone();
    let thread = spawn_named(own_name, move || {
        let left_out = take(&subject, what, &log);
        over(&log);
        left_out
    })?;
    let left_out = thread.join().map_err(|_| TracerError::System {
        what: "take the snapshot of /proc",
        source: io::Error::other("its thread failed"),
    })?;
    Ok((left_out > 0).then(|| {
        format!(
            "the snapshot of open files was limited to {} s: at least {} left out, so the files have no names",
            FILES_NS_MAX / 1_000_000_000,
            counted_with(left_out, "descriptor", ["was", "were"])
        )
    }))
}

/// Returns the fact that describes a thread of the tracer, for readers of its records.
pub(super) fn own_task(tid: Tid) -> Fact {
    let pid = Pid(std::process::id().cast_signed());
    Fact::Task { time: clock::now(), pid, tid, ppid: Pid(0), comm: Vec::new() }
}

/// Returns the fact with the user that a process is about to become.
pub(super) fn user(pid: i32, user: u32) -> Fact {
    Fact::User { time: clock::now(), pid: Pid(pid), user }
}

/// Records that the snapshot is complete.
pub fn over(log: &Sender<Message>) {
    let (time, which) = (clock::now(), Text::SNAPSHOT_OVER);
    send(log, vec![Fact::Text { time, which, pid: Pid(0), text: Vec::new() }]);
}

/// Records that events are switched off from now on.
pub fn switching_off(log: &Sender<Message>) {
    let (time, which) = (clock::now(), Text::SWITCHING_OFF);
    send(log, vec![Fact::Text { time, which, pid: Pid(0), text: Vec::new() }]);
}

/// Reads the descriptors, and reads those with a position several times.
fn facts_of_running(tree: &[Pid], all: &[Pid], until: KernelTime, log: &Sender<Message>) -> u64 {
    let (first, left_out) = proc::descriptor_facts(tree, all, until);
    let moving: Vec<(proc::Descriptor, bool)> = first.iter().filter_map(with_position).collect();
    send(log, first);
    for _ in 1..LOOKS {
        // Names need only the first look.
        let again = moving
            .iter()
            .take_while(|_| clock::now() < until)
            .filter_map(|(descriptor, shared)| proc::descriptor_fact(descriptor, *shared));
        send(log, again.collect());
    }
    left_out
}

/// Returns the descriptor of a fact, if its file has a position.
fn with_position(fact: &Fact) -> Option<(proc::Descriptor, bool)> {
    let Fact::Fd { pid, fd, link, shared, .. } = fact else { return None };
    let descriptor = proc::Descriptor { pid: *pid, fd: *fd, link: link.clone() };
    link.starts_with(b"/").then_some((descriptor, *shared))
}

/// Sends facts.
pub fn send(log: &Sender<Message>, facts: Vec<Fact>) {
    if !facts.is_empty() {
        // The log thread ends after all its senders.
        let _ = log.send(Message::Facts(facts.into_iter().map(|it| (None, it)).collect()));
    }
}

/// Returns the I/O counters of a process that has ended and was not yet reaped.
pub fn books_of_ended(pid: i32) -> Option<Fact> {
    proc::text(&format!("/proc/{pid}/io"), Text::PROCESS_IO, Pid(pid)).ok()
}

/// Reaps a program that has ended. Returns its I/O counters, too, if they were not readable before
/// ([`books_of_ended`]): the kernel adds the counters of a reaped child to those of its parent.
pub(super) fn reap(program: Running, has_books: bool) -> (Option<ProgramEnd>, Option<Fact>) {
    let pid = program.pid();
    let before = (!has_books).then(own_books).flatten();
    let ended = program.reap().ok();
    let text = before.and_then(|before| books_between(&before, &own_books()?));
    let fact = |text: String| Fact::Text {
        time: clock::now(),
        which: Text::PROCESS_IO,
        pid: Pid(pid),
        text: text.into_bytes(),
    };
    (ended, text.map(fact))
}

/// Returns the number of threads of this process, without the one that waits for a second signal:
/// it makes no call until then, and ends the process.
fn working_threads() -> usize {
    let works = |task: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        name.trim_end() != SIGNAL_THREAD
    };
    let tasks = std::fs::read_dir("/proc/self/task");
    tasks.map_or(0, |tasks| tasks.flatten().filter(works).count())
}

/// Returns the tracer's own I/O counters by one read, if no other thread of the tracer can run in
/// the meantime. (A joined thread still exists for a moment.)
fn own_books() -> Option<String> {
    let is_alone = (0..ALONE_TRIES).any(|_| {
        let threads = working_threads();
        if threads != 1 {
            std::thread::sleep(ALONE_PAUSE);
        }
        threads == 1
    });
    let mut file = is_alone.then(|| File::open("/proc/self/io").ok()).flatten()?;
    let mut bytes = [0; 1024];
    let length = file.read(&mut bytes).ok()?;
    String::from_utf8(bytes.get(..length)?.to_vec()).ok()
}

/// Number of checks whether the other threads of the tracer are gone.
const ALONE_TRIES: u32 = 200;
/// Interval between these checks.
const ALONE_PAUSE: Duration = Duration::from_millis(1);

/// Returns the difference of the tracer's I/O counters between two reads, without the first of
/// these reads itself.
fn books_between(before: &str, after: &str) -> Option<String> {
    let number = |line: &str| line.split_once(": ").and_then(|it| it.1.parse::<u64>().ok());
    let mut between = String::new();
    for (old, new) in before.lines().zip(after.lines()) {
        let key = new.split_once(": ")?.0;
        let read = match key {
            "rchar" => before.len() as u64,
            "syscr" => 1,
            _ => 0,
        };
        let came = number(new)?.checked_sub(number(old)?)?.checked_sub(read)?;
        between.push_str(&format!("{key}: {came}\n"));
    }
    Some(between)
}

/// A CPU whose events were off for less than this time, ns, was online throughout: events are not
/// switched on and off simultaneously on all CPUs.
const AWAY_NS_MIN: u64 = 100_000_000;

/// Returns a warning about CPUs that went offline. `on` is the time for which the perf events of
/// each CPU were on, ns; events end with their CPU.
pub(super) fn cpus_gone(on: &[(u32, u64)]) -> Option<String> {
    let longest = on.iter().map(|it| it.1).max()?;
    let away = |(cpu, on): &(u32, u64)| (*cpu, longest.saturating_sub(*on));
    let mut gone: Vec<(u32, u64)> = on.iter().map(away).filter(|it| it.1 >= AWAY_NS_MIN).collect();
    gone.sort_unstable();
    gone.dedup_by_key(|it| it.0);
    let tenths = |ns: u64| (ns / 1_000_000_000, ns / 100_000_000 % 10);
    let shown = gone.iter().map(|(cpu, ns)| (cpu, tenths(*ns)));
    let shown: Vec<String> =
        shown.map(|(cpu, it)| format!("CPU {cpu} {}.{} s before the end", it.0, it.1)).collect();
    (!gone.is_empty()).then(|| {
        format!(
            "went offline: {}: perf's events end with a CPU and do not return with it, so events there are missing \
             since then; with tracefs only births, names and ends of processes and threads are missing",
            shown.join(", ")
        )
    })
}

/// Returns a warning about CPUs that are online now and were not at the start.
pub(super) fn late_cpus(at_start: &[u32]) -> Option<String> {
    let late: Vec<String> =
        online_cpus().iter().filter(|it| !at_start.contains(it)).map(u32::to_string).collect();
    let (which, has) = (late.join(", "), !late.is_empty());
    has.then(|| format!("events of CPU {which} are missing: it came online during the recording"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_counters_are_the_difference_to_ours() {
        let before = "rchar: 1000\nwchar: 7\nsyscr: 5\n";
        let after = "rchar: 1131\nwchar: 10\nsyscr: 8\n";
        let expected = "rchar: 101\nwchar: 3\nsyscr: 2\n";
        assert_eq!(books_between(before, after).as_deref(), Some(expected));
        assert_eq!(books_between(after, before), None);
        assert_eq!(books_between("rchar: x\n", "rchar: 3\n"), None);
    }

    #[test]
    fn a_cpu_is_gone_if_its_events_were_off_much_earlier() {
        let ms = |it: u64| it * 1_000_000;
        assert_eq!(cpus_gone(&[]), None);
        assert_eq!(cpus_gone(&[(0, ms(2000)), (1, ms(1901))]), None);
        let warning = cpus_gone(&[(0, ms(2000)), (1, ms(700)), (1, ms(699)), (2, ms(1999))]);
        assert!(
            warning.is_some_and(|it| it.starts_with("went offline: CPU 1 1.3 s before the end:"))
        );
    }
}
