//! Captures made up: as large a machine as is wanted, as long a recording, and what is in it to the
//! last record.
//!
//! ```text
//!  threads, one turn each ──► rings ──► a round each 100 ms ──► capture::writer ──► log
//!  (birth, script, CPU)       (of each CPU: main, names)                            + Truth
//! ```
//!
//! The bytes are those of real rings: records of perf's layout, payloads laid out by the `format`
//! files of the corpus. So is their order: a ring is sorted by when a record was written, which is
//! up to 300 µs after its time; and threads move between CPUs, in the middle of a call, too. Half
//! of the processes were there before and are in the snapshot, the others are born and end. All
//! follows from the seed. Memory is bounded by a round.

mod log;
mod random;
mod record;
mod ring;
mod thread;

use std::collections::BTreeMap;
use std::io::{self, Write};

use iotrace_perf::capture::fact::{Fact, NameOf};
use iotrace_perf::event::FileStat;
use iotrace_perf::units::{CpuId, DevId, KernelTime, Tid};

use log::Log;
use random::Random;
use record::Task;
use ring::Stream;
use thread::{Call, Thread};

/// When the capture starts, ns.
const START: u64 = 1_000_000_000_000;
/// Duration of the snapshot at the start, ns. All threads are idle meanwhile.
const SNAPSHOT: u64 = 1_000_000;
/// From one round to the next, ns.
const ROUND: u64 = 100_000_000;
/// The process that all others come from.
const INIT: Task = Task { pid: 1, tid: 1 };
/// The tracer.
const OWN: Task = Task { pid: 2, tid: 2 };
/// The idle task, which completions interrupt.
const IDLE: Task = Task { pid: 0, tid: 0 };
/// Number of the first process; what is above is one thread after the other.
const FIRST_PID: u32 = 1000;
/// The longest call, ns.
const CALL_MAX: u64 = 50_000;
/// Time from the exit of an open to the reading of its name, ns.
const NAME_READ: u64 = 5_000;
/// Disks, major number 8.
const DISKS: u32 = 4;

/// Shape of a log to be made up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub cpus: u32,
    /// All of them, at the same time; at least one for each process.
    pub threads: u32,
    pub processes: u32,
    /// Records, about: a few more, to come to a whole end.
    pub records: u64,
    /// Records of the whole machine in a second, about.
    pub records_per_second: u64,
    /// Files of each process, from which each open takes one.
    pub files: u64,
    /// Open, read and close only: as many opens as there can be.
    pub opens: bool,
    /// The disks appear during the recording: only the end of the log has them.
    pub late_disks: bool,
    pub seed: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            cpus: 2,
            threads: 4,
            processes: 2,
            records: 1_000_000,
            records_per_second: 2_000_000,
            files: 4,
            opens: false,
            late_disks: false,
            seed: 1,
        }
    }
}

/// Content of a made-up log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truth {
    pub records: u64,
    /// Records of the tracer itself.
    pub own: u64,
    pub operations: u64,
    /// Operations on files whose name was not read.
    pub unnamed: u64,
    pub requests: u64,
    /// Threads that did something, and disks.
    pub locations: u64,
    /// Number and bytes of each call.
    pub calls: BTreeMap<&'static str, (u64, u64)>,
    pub duration_ns: u64,
}

/// Writes the log of such a capture.
///
/// # Errors
///
/// Those of `out`.
pub(crate) fn write<W: Write>(shape: &Shape, out: W) -> io::Result<Truth> {
    assert!(shape.cpus > 0 && 0 < shape.processes && shape.processes <= shape.threads, "{shape:?}");
    let mut machine = Machine::new(shape, out)?;
    let mut turn = 0;
    while machine.truth.records < shape.records {
        machine.turn(turn)?;
        turn += 1;
    }
    machine.end(turn)
}

/// Threads that have their turn one after the other.
struct Machine<W> {
    log: Log<W>,
    threads: Vec<Thread>,
    cpus: u32,
    random: Random,
    /// From one turn to the next, ns.
    period: u64,
    /// From one turn of a thread to its next, ns.
    span: u64,
    next_round: u64,
    next_sector: u64,
    truth: Truth,
}

impl<W: Write> Machine<W> {
    fn new(shape: &Shape, out: W) -> io::Result<Self> {
        // Most turns are one call, which is two records.
        let period = (2_000_000_000 / shape.records_per_second.max(1)).max(1);
        let span = period * u64::from(shape.threads);
        assert!(span >= 1000, "too few threads for so many records: {shape:?}");
        let thread = |index| Thread::new(index, shape, FIRST_PID);
        let threads: Vec<Thread> = (0..shape.threads).map(thread).collect();
        let mut log = Log::begin(shape.cpus, shape.late_disks, out)?;
        let before = threads.iter().filter(|it| it.is_old).map(|it| it.task);
        log.snapshot(std::iter::once(INIT).chain(before))?;
        Ok(Self {
            log,
            threads,
            cpus: shape.cpus,
            random: Random::new(shape.seed),
            period,
            span,
            next_round: START + ROUND,
            next_sector: 0,
            truth: Truth::default(),
        })
    }

    /// Makes a thread do the next thing.
    fn turn(&mut self, turn: u64) -> io::Result<()> {
        let now = START + SNAPSHOT + turn * self.period;
        self.rounds_until(now)?;
        let place = usize::try_from(turn % self.threads.len() as u64).expect("a place in memory");
        if turn < self.threads.len() as u64 {
            self.truth.locations += 1;
            if !self.threads[place].is_old {
                self.birth(place, now);
            }
        }
        let start = now + self.span / 4 + self.random.below(self.span / 8);
        let end = start + 100 + self.random.below(CALL_MAX.min(self.span / 2 - 100));
        self.call(place, start, end);
        Ok(())
    }

    /// A thread is born, or a process that becomes a program at once.
    fn birth(&mut self, place: usize, now: u64) {
        let Thread { task, cpu, .. } = self.threads[place];
        let is_process = task.pid == task.tid;
        let parent = if is_process { INIT } else { Task { pid: task.pid, tid: task.pid } };
        let comm = if is_process { "program" } else { "worker" };
        let later = now + self.span / 8;
        self.put(cpu, Stream::Main, now, |out| record::fork(out, now, parent, task));
        self.put(cpu, Stream::Main, later, |out| record::comm(out, later, task, comm, is_process));
    }

    /// The next call of a thread's script.
    fn call(&mut self, place: usize, start: u64, end: u64) {
        let thread = &mut self.threads[place];
        if self.random.one_in(8) {
            thread.cpu = self.random.cpu(self.cpus);
        }
        let call = thread.next(&mut self.random);
        let (task, entered) = (thread.task, thread.cpu);
        if self.random.one_in(32) {
            thread.cpu = self.random.cpu(self.cpus);
        }
        let exited = thread.cpu;
        self.count(&call);
        self.pair(call.stream, task, (entered, start), (exited, end), &call);
        if let Some(path) = &call.name {
            self.log.fact(name(task.tid, exited, end, path));
        }
        if call.has_request {
            self.request(task, entered, start, end);
        }
    }

    /// The two records of a call.
    fn pair(
        &mut self,
        stream: Stream,
        task: Task,
        (entered, start): (u32, u64),
        (exited, end): (u32, u64),
        call: &Call,
    ) {
        let points = self.log.points();
        self.put(entered, stream, start, |out| points.enter(out, start, task, call));
        self.put(exited, stream, end, |out| points.exit(out, end, task, call));
    }

    /// A request that a thread waits for: asked for on its CPU, done on any.
    fn request(&mut self, task: Task, cpu: u32, start: u64, end: u64) {
        let sector = self.next_sector;
        self.next_sector += 8;
        let disk = DevId::new(8, u32::try_from(sector / 8 % u64::from(DISKS)).expect("a few"));
        let done_on = self.random.cpu(self.cpus);
        let points = self.log.points();
        for (name, eighths, task, cpu) in [
            ("block_getrq", 1, task, cpu),
            ("block_rq_insert", 2, task, cpu),
            ("block_rq_issue", 3, task, cpu),
            ("block_rq_complete", 7, IDLE, done_on),
        ] {
            let time = start + (end - start) * eighths / 8;
            self.put(cpu, Stream::Main, time, |out| {
                points.request(name, out, time, task, disk, sector);
            });
        }
        self.truth.requests += 1;
    }

    fn put(&mut self, cpu: u32, stream: Stream, time: u64, write: impl FnOnce(&mut Vec<u8>)) {
        self.truth.records += 1;
        self.log.put(cpu, stream, time, ring::delay(&mut self.random), write);
    }

    fn count(&mut self, call: &Call) {
        self.truth.operations += 1;
        self.truth.unnamed += u64::from(call.is_unnamed);
        let (count, bytes) = self.truth.calls.entry(call.name_of_call).or_default();
        *count += 1;
        *bytes += call.bytes;
    }

    /// The rounds that are over when nothing before `now` is to come any more.
    fn rounds_until(&mut self, now: u64) -> io::Result<()> {
        while self.log.taken_by(self.next_round) <= now {
            self.log.round(self.next_round)?;
            self.next_round += ROUND;
            // The tracer writes what it took.
            self.pair(Stream::Main, OWN, (0, now), (0, now + 99), &Call::of_the_tracer());
            self.truth.own += 2;
        }
        Ok(())
    }

    /// The last moments: threads born during the capture end, the others run on.
    fn end(mut self, turns: u64) -> io::Result<Truth> {
        let mut now = START + SNAPSHOT + turns * self.period + self.span;
        self.rounds_until(now)?;
        let acted = turns.min(self.threads.len() as u64);
        let born = (0..usize::try_from(acted).expect("a place in memory")).rev();
        // Leaders come first, so they end last.
        for place in born {
            let Thread { task, cpu, is_old, .. } = self.threads[place];
            if !is_old {
                now += 1;
                self.put(cpu, Stream::Main, now, |out| record::exit(out, now, task));
            }
        }
        now += ROUND;
        self.log.end(now)?;
        self.truth.locations += u64::from(DISKS).min(self.truth.requests);
        self.truth.duration_ns = now - START;
        Ok(self.truth)
    }
}

/// The name of a file, read in time from `/proc/PID/fd/N`.
fn name(tid: u32, cpu: u32, exit: u64, path: &str) -> Fact {
    Fact::Name {
        tid: Tid(tid.cast_signed()),
        cpu: CpuId(cpu),
        record_time: KernelTime(exit),
        of: NameOf::Link,
        begin: KernelTime(exit + NAME_READ / 2),
        end: KernelTime(exit + NAME_READ),
        errno: 0,
        address: 0,
        stat: Some(FileStat { mode: 0o100_644, dev: DevId::new(8, 1), ino: 7, size: 1 << 20 }),
        bytes: path.as_bytes().to_vec(),
    }
}
