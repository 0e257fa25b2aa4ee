//! Work of a thread: the same few calls again and again, on one file after the other.

use super::Shape;
use super::random::Random;
use super::record::Task;
use super::ring::Stream;

/// Address of a thread's buffer.
const BUFFER: u64 = 0x7f00_0000_0000;

/// A thread and where it is in its script.
pub(super) struct Thread {
    pub task: Task,
    /// The CPU on which it runs.
    pub cpu: u32,
    /// The thread was there before the capture.
    pub is_old: bool,
    /// The descriptor that it opens: none of another thread's.
    fd: u64,
    step: usize,
    is_unnamed: bool,
    /// See [`Shape`].
    files: u64,
    opens: bool,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    pub name_of_call: &'static str,
    pub args: [u64; 6],
    pub ret: u64,
    /// Bytes that it moves.
    pub bytes: u64,
    pub stream: Stream,
    /// The name that is read for it.
    pub name: Option<String>,
    /// The thread works on a file whose name was not read.
    pub is_unnamed: bool,
    pub has_request: bool,
}

/// The calls in their order.
const SCRIPT: [fn(&Thread) -> Call; 11] = [
    |it| Call { stream: Stream::Names, ..call("openat", [AT_FDCWD, BUFFER, 2, 0, 0, 0], it.fd) },
    |it| moves("read", [it.fd, BUFFER, 4096, 0, 0, 0], 4096),
    |it| moves("read", [it.fd, BUFFER, 4096, 0, 0, 0], 4001),
    |it| moves("write", [it.fd, BUFFER, 997, 0, 0, 0], 997),
    |it| call("lseek", [it.fd, 100, 0, 0, 0, 0], 100),
    |it| moves("read", [it.fd, BUFFER, 512, 0, 0, 0], 512),
    |it| moves("pread64", [it.fd, BUFFER, 8192, 1 << 16, 0, 0], 8192),
    |it| Call {
        has_request: true,
        ..moves("pwrite64", [it.fd, BUFFER, 4096, 1 << 20, 0, 0], 4096)
    },
    |it| moves("write", [it.fd, BUFFER, 31, 0, 0, 0], 31),
    |it| call("close", [it.fd, 0, 0, 0, 0, 0], 0),
    |_| moves("read", [0, BUFFER, 64, 0, 0, 0], 1),
];
const OPEN: usize = 0;
const CLOSE: usize = 9;

/// `AT_FDCWD` as a register holds it.
const AT_FDCWD: u64 = (-100i64).cast_unsigned();

fn call(name_of_call: &'static str, args: [u64; 6], ret: u64) -> Call {
    Call {
        name_of_call,
        args,
        ret,
        bytes: 0,
        stream: Stream::Main,
        name: None,
        is_unnamed: false,
        has_request: false,
    }
}

fn moves(name: &'static str, args: [u64; 6], bytes: u64) -> Call {
    Call { bytes, ..call(name, args, bytes) }
}

impl Call {
    pub(super) fn of_the_tracer() -> Self {
        moves("write", [3, BUFFER, 1 << 20, 0, 0, 0], 1 << 20)
    }
}

impl Thread {
    /// The first threads are the leaders of the processes, the others their threads in turn.
    pub(super) fn new(index: u32, shape: &Shape, first_pid: u32) -> Self {
        let process = index % shape.processes;
        Self {
            task: Task { pid: first_pid + process, tid: first_pid + index },
            cpu: index % shape.cpus,
            is_old: process.is_multiple_of(2),
            fd: u64::from(3 + index / shape.processes),
            step: 0,
            is_unnamed: false,
            files: shape.files,
            opens: shape.opens,
        }
    }

    /// The thread's next call.
    pub(super) fn next(&mut self, random: &mut Random) -> Call {
        let step = self.step;
        // Once more, or not: or all threads would be at the same place of the script.
        if self.opens {
            self.step = match step {
                OPEN => OPEN + 1,
                CLOSE => OPEN,
                _ => CLOSE,
            };
        } else if matches!(step, OPEN | CLOSE) || random.one_in(2) {
            self.step = (step + 1) % SCRIPT.len();
        }
        let mut call = SCRIPT[step](self);
        if step == OPEN {
            self.is_unnamed = random.one_in(101);
            let file = random.below(self.files);
            call.name = (!self.is_unnamed).then(|| format!("/data/{}/{file}", self.task.pid));
        }
        call.is_unnamed = self.is_unnamed && (OPEN..=CLOSE).contains(&step);
        call
    }
}
