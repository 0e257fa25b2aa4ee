//! Operations as JSON Lines: one object per line, for programs. `docs/json/script.md` describes
//! every key.
//!
//! Keys are only ever added, have a fixed order, and are omitted only where `docs/json.md` states
//! that.

mod asynchronous;
mod block;
mod fault;
mod line_base;
mod object;
mod syscall;

#[cfg(test)]
mod tests;

use std::io;

use rustc_hash::FxHashMap;

use super::flags::{self, OpenFlagNames};
use super::step_lines::StepLines;
use crate::anomaly::Anomaly;
use crate::operation::asynchronous::{AsyncOperation, NoResult};
use crate::operation::attribution::Piece;
use crate::operation::block::BlockRequest;
use crate::operation::fault::Fault;
use crate::operation::model::{SyscallOperation, ThreadInfo, ThreadKey, Unfinished};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime};
use line_base::LineBase;
use object::{Object, key};

/// Members for a thread without a known name.
const NO_NAME: &[u8] = b",\"comm\":null";

/// Sink that writes every operation that ends, and every anomaly, as one line of JSON.
#[derive(Debug)]
pub struct JsonLines<W> {
    start: KernelTime,
    disks: FxHashMap<DevId, String>,
    /// Members with each thread's name, ready to be copied into its lines.
    names: FxHashMap<ThreadKey, Vec<u8>>,
    open_flags: &'static OpenFlagNames,
    /// Buffer of the current line, kept for its capacity.
    line: Vec<u8>,
    out: W,
}

impl<W: io::Write> JsonLines<W> {
    /// Times count from `start`; `disks` names the whole disks; each line is one `write_all` to
    /// `out`.
    pub fn new(
        start: KernelTime,
        disks: impl IntoIterator<Item = (DevId, String)>,
        out: W,
    ) -> Self {
        let (disks, names) = (disks.into_iter().collect(), FxHashMap::default());
        let (open_flags, line) = (&flags::OPEN_GENERIC, Vec::with_capacity(1024));
        Self { start, disks, names, open_flags, line, out }
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
}

impl<W: io::Write> StepLines for JsonLines<W> {
    fn name(&mut self, thread: &ThreadInfo) {
        let mut members = Vec::new();
        object::bytes_members(&mut members, key!("comm"), key!("comm_bytes"), Some(&thread.comm));
        self.names.insert(thread.key, members);
    }

    fn forget(&mut self, thread: ThreadKey) {
        self.names.remove(&thread);
    }

    fn syscall(
        &mut self,
        operation: &SyscallOperation,
        unfinished: Option<Unfinished>,
    ) -> io::Result<()> {
        let name = self.names.get(&operation.thread).map_or(NO_NAME, Vec::as_slice);
        let base = LineBase { start: self.start, open_flags: self.open_flags };
        syscall::write(&mut self.line, &base, name, operation, unfinished);
        self.out.write_all(&self.line)
    }

    fn asynchronous(
        &mut self,
        operation: &AsyncOperation,
        unfinished: Option<NoResult>,
    ) -> io::Result<()> {
        let name = self.names.get(&operation.thread).map_or(NO_NAME, Vec::as_slice);
        asynchronous::write(&mut self.line, self.start, name, operation, unfinished);
        self.out.write_all(&self.line)
    }

    fn fault(&mut self, fault: &Fault) -> io::Result<()> {
        let name = self.names.get(&fault.thread).map_or(NO_NAME, Vec::as_slice);
        fault::write(&mut self.line, self.start, name, fault);
        self.out.write_all(&self.line)
    }

    fn request(
        &mut self,
        request: &BlockRequest,
        thread: Option<&ThreadInfo>,
        pieces: &[Piece],
    ) -> io::Result<()> {
        block::write(&mut self.line, self.start, &self.disks, request, thread, pieces);
        self.out.write_all(&self.line)
    }

    fn anomaly(&mut self, anomaly: &Anomaly) -> io::Result<()> {
        let mut object = Object::begin(&mut self.line, "anomaly");
        object.word(key!("what"), Some(anomaly.kind.as_str()));
        object.signed(key!("time_ns"), Some(anomaly.time.signed_since(self.start)));
        object.unsigned(key!("cpu"), Some(anomaly.cpu.0.into()));
        object.signed(key!("pid"), Some(anomaly.pid.0.into()));
        object.signed(key!("tid"), Some(anomaly.tid.0.into()));
        object.unsigned(key!("count"), Some(anomaly.count));
        object.text(key!("detail"), Some(&anomaly.detail));
        object.end();
        self.out.write_all(&self.line)
    }
}

impl<W: io::Write> Sink for JsonLines<W> {
    type Error = io::Error;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> io::Result<()> {
        self.line_of(step)
    }
}
