//! Operations as lines for people: system calls as `strace` prints them, block requests similar to
//! `blkparse`.
//!
//! One line per operation, written when it ends, so the lines are in the order of the ends. The
//! time is that of the *beginning*: seconds since the start of the capture, nine decimals, at least
//! 14 columns wide, negative for operations that began before. Columns are separated by one space;
//! long lines are broken here only:
//!
//! ```text
//! TIME           COMM[PID/TID] CPU  CALL(ARGUMENTS) = RESULT <SECONDS>
//!    0.000123456 tar[4711/4712] cpu1 openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC)
//!        = 3</etc/passwd> <0.000012>
//!    0.000200000 tar[4711/4712] cpu1 pread64(3</etc/passwd>, 4096, offset 0) = 4096 <0.000003>
//!    0.000300000 tar[4711/4712] cpu1 openat(AT_FDCWD, "/nix", O_RDONLY) = -1 ENOENT <0.000001>
//!    0.000400000 tar[4711/4712] cpu1 read(3</etc/passwd>, 4096) = ? (capture ended)
//!
//! TIME           COMM[PID/TID] CPU  INTERFACE:OPERATION(ARGUMENTS) = RESULT <SECONDS>
//!    0.000210000 fio[12/12] cpu0 io_uring:READ(7</data/a>, ?, offset ?) = 4096 <0.000080>
//!    0.000220000 fio[12/12] cpu0 aio:PWRITE(5</data/b>, 4096, offset 8192) = 4096 <0.000091>
//!
//! TIME           DISK DEV RWBS SECTOR + SECTORS Q2G s G2I s I2D s D2C s Q2C s ENDING
//!        COMM[PID/TID] [PIECES]
//!    0.000300000 loop0 7:0 W 2048 + 8 Q2G 0.000000400 G2I 0.000000600 I2D 0.000002000
//!        D2C 0.000080000 Q2C 0.000083000 completed fio[12/12] [/data/b @8192]
//!
//! ! WHAT: count COUNT, TIME CPU [PID/TID]: DETAIL
//! ! lost: count 17, 0.000400000 cpu1 [4711/4712]: the ring of cpu1 was full
//! ```
//!
//! **System calls.** Buffers and pointers to structures are omitted; the other arguments are in the
//! order of the call. Offsets are marked `offset`, lengths of vectors `iovcnt`. An address in
//! memory is followed by the file that is mapped there, and `+` with the offset in it. A descriptor
//! is followed by its file's name in angle brackets. A `?` after a name means that it is not
//! certain ([`PathSource::is_doubtful`]), a `?` in place of a path that it is unknown. `@N` after a
//! path means that it is in mounts that are not the tracer's (`@?`: unknown which). `SECONDS` is
//! the duration of the call, truncated to six decimals. A call without an exit has `?` for its
//! result, with the reason, and no duration. The flags of the file that change an access follow:
//! `(direct, sync, dsync, append)`, as far as they are set.
//!
//! **Asynchronous operations.** `?` means unknown bytes and offsets. They begin when the kernel
//! takes them from the queue (`aio`: when `io_submit` began) and end when the result is in the
//! other queue (`aio`: when `io_getevents` returned with it).
//!
//! **Page faults.** `fault(ADDRESS<FILE>+OFFSET, read)`; they have no end.
//!
//! **Block requests.** `DEV` is `MAJOR:MINOR`, `RWBS` the kernel's letters, `SECTOR` and `SECTORS`
//! count 512 bytes. Five latencies in seconds, nine decimals, `-` if one of the two times is
//! unknown: `Q2G` from the queued bio to the allocation of the request, `G2I` from there to the I/O
//! scheduler (inserted), `I2D` from there to the driver (issued), `D2C` in the driver and device
//! (to completed), `Q2C` the sum. Without an I/O scheduler `G2I` and `I2D` are `-`. `ENDING` is
//! `completed`, the name of the error, `absorbed` (became a part of another request), `unfinished`
//! (the capture ended) or `given-up`. The task is the submitter; the pieces in brackets are the
//! files with their offsets, or a word.
//!
//! **Names.** `?` means an unknown name. Control characters, invisible ones, and bytes that are not
//! UTF-8 are shown as `\xNN`, a backslash as two; so are the delimiters: `"` within quotes, `<` and
//! `>` within angle brackets, `[` in the name of a thread, the space in the name of a disk.
//!
//! [`PathSource::is_doubtful`]: crate::operation::model::PathSource::is_doubtful

mod arguments;
mod asynchronous;
mod block;
mod fault;
mod marks;
mod syscall;

#[cfg(test)]
mod tests;

use std::io;

use rustc_hash::FxHashMap;

use self::block::TIME_WIDTH;
use super::flags::{self, OpenFlagNames};
use super::step_lines::StepLines;
use super::{escape, number_format};
use crate::anomaly::Anomaly;
use crate::operation::asynchronous::{AsyncOperation, NoResult};
use crate::operation::attribution::Piece;
use crate::operation::block::BlockRequest;
use crate::operation::fault::Fault;
use crate::operation::model::{SyscallOperation, ThreadInfo, ThreadKey, Unfinished};
use crate::operation::task::TaskId;
use crate::operation::{Sink, Step};
use crate::units::{CpuId, DevId, KernelTime};

/// Sink that writes every operation that ends, and every anomaly, as one line for people.
#[derive(Debug)]
pub struct LineWriter<W> {
    start: KernelTime,
    open_flags: &'static OpenFlagNames,
    /// Names of disks, escaped.
    disks: FxHashMap<DevId, Vec<u8>>,
    /// Threads in the form of their lines.
    tasks: FxHashMap<ThreadKey, TaskLabel>,
    /// Buffer of the current line, kept for its capacity.
    line: Vec<u8>,
    out: W,
}

impl<W: io::Write> LineWriter<W> {
    /// Times count from `start`; `disks` names the whole disks; each line is one `write_all` to
    /// `out`.
    pub fn new(
        start: KernelTime,
        disks: impl IntoIterator<Item = (DevId, String)>,
        out: W,
    ) -> Self {
        let disks =
            disks.into_iter().map(|(dev, name)| (dev, escaped(name.as_bytes(), b" "))).collect();
        let tasks = FxHashMap::default();
        let line = Vec::with_capacity(1024);
        Self { start, open_flags: &flags::OPEN_GENERIC, disks, tasks, line, out }
    }

    /// Sets the capture's architecture (`uname -m`), on which four of the `O_*` flags depend. The
    /// default is x86-64.
    #[must_use]
    pub fn machine(mut self, machine: &str) -> Self {
        self.open_flags = flags::open_flags_of(machine);
        self
    }

    /// Flushes the writer and returns it.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes the columns before the arguments.
    fn begin(&mut self, at: KernelTime, thread: ThreadKey, ids: TaskId, cpu: CpuId) {
        self.line.clear();
        number_format::seconds(&mut self.line, at.signed_since(self.start), TIME_WIDTH);
        self.line.push(b' ');
        match self.tasks.get_mut(&thread) {
            Some(task) => self.line.extend_from_slice(task.text(ids)),
            None => task(&mut self.line, None, Some(ids)),
        }
        self.line.extend_from_slice(b" cpu");
        number_format::unsigned(&mut self.line, cpu.0.into());
        self.line.push(b' ');
    }
}

impl<W: io::Write> StepLines for LineWriter<W> {
    fn name(&mut self, thread: &ThreadInfo) {
        self.tasks.insert(thread.key, TaskLabel::new(thread));
    }

    fn forget(&mut self, thread: ThreadKey) {
        self.tasks.remove(&thread);
    }

    fn syscall(
        &mut self,
        operation: &SyscallOperation,
        unfinished: Option<Unfinished>,
    ) -> io::Result<()> {
        let SyscallOperation { start, thread, pid, tid, cpu, .. } = *operation;
        self.begin(start, thread, TaskId { pid, tid }, cpu);
        syscall::write(&mut self.line, self.open_flags, operation, unfinished);
        self.out.write_all(&self.line)
    }

    fn asynchronous(
        &mut self,
        operation: &AsyncOperation,
        unfinished: Option<NoResult>,
    ) -> io::Result<()> {
        let AsyncOperation { start, thread, pid, tid, cpu, .. } = *operation;
        self.begin(start, thread, TaskId { pid, tid }, cpu);
        asynchronous::write(&mut self.line, self.open_flags, operation, unfinished);
        self.out.write_all(&self.line)
    }

    fn fault(&mut self, fault: &Fault) -> io::Result<()> {
        let Fault { time, thread, pid, tid, cpu, .. } = *fault;
        self.begin(time, thread, TaskId { pid, tid }, cpu);
        fault::write(&mut self.line, fault);
        self.out.write_all(&self.line)
    }

    fn request(
        &mut self,
        request: &BlockRequest,
        thread: Option<&ThreadInfo>,
        pieces: &[Piece],
    ) -> io::Result<()> {
        self.line.clear();
        let disk = self.disks.get(&request.dev).map(Vec::as_slice);
        block::write(&mut self.line, self.start, disk, request);
        self.line.push(b' ');
        let name = thread.map(|thread| escaped(&thread.comm, b"["));
        task(
            &mut self.line,
            name.as_deref(),
            request.submitter.map(|by| TaskId { pid: by.pid, tid: by.tid }),
        );
        block::write_pieces(&mut self.line, &self.disks, pieces);
        self.line.push(b'\n');
        self.out.write_all(&self.line)
    }

    fn anomaly(&mut self, anomaly: &Anomaly) -> io::Result<()> {
        self.line.clear();
        let what = anomaly.kind.as_str();
        self.line.extend_from_slice(format!("! {what}: count {}, ", anomaly.count).as_bytes());
        number_format::seconds(&mut self.line, anomaly.time.signed_since(self.start), 0);
        let who = format!(" cpu{} [{}/{}]: ", anomaly.cpu, anomaly.pid, anomaly.tid);
        self.line.extend_from_slice(who.as_bytes());
        escape::shown(&mut self.line, anomaly.detail.as_bytes(), b"");
        self.line.push(b'\n');
        self.out.write_all(&self.line)
    }
}

impl<W: io::Write> Sink for LineWriter<W> {
    type Error = io::Error;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> io::Result<()> {
        self.line_of(step)
    }
}

/// A thread in the form of its lines: it is the same on nearly all of them, so it is formatted
/// once.
#[derive(Debug)]
struct TaskLabel {
    /// Escaped name.
    name: Vec<u8>,
    /// Numbers on its last line.
    ids: Option<TaskId>,
    /// Name with those numbers.
    text: Vec<u8>,
}

impl TaskLabel {
    fn new(thread: &ThreadInfo) -> Self {
        Self { name: escaped(&thread.comm, b"["), ids: None, text: Vec::new() }
    }

    fn text(&mut self, ids: TaskId) -> &[u8] {
        if self.ids != Some(ids) {
            self.ids = Some(ids);
            self.text.clear();
            task(&mut self.text, Some(&self.name), self.ids);
        }
        &self.text
    }
}

/// Writes `COMM[PID/TID]`.
fn task(line: &mut Vec<u8>, name: Option<&[u8]>, ids: Option<TaskId>) {
    line.extend_from_slice(name.unwrap_or(b"?"));
    match ids {
        Some(TaskId { pid, tid }) => {
            line.push(b'[');
            number_format::signed(line, pid.0.into());
            line.push(b'/');
            number_format::signed(line, tid.0.into());
            line.push(b']');
        }
        None => line.extend_from_slice(b"[?/?]"),
    }
}

fn escaped(bytes: &[u8], delimiters: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    escape::shown(&mut out, bytes, delimiters);
    out
}
