//! Accesses in the line format of b-com's I/O tracer: `TIME;R|W;ADDRESS;BYTES;VFS|BLK;COMM;PID`, in
//! the order of their beginning.
//!
//! `VFS` is a read or write of a regular file by a system call or an asynchronous operation, or one
//! side of a transfer inside the kernel, its address the offset in the file in bytes; `BLK` a piece
//! of a block request, when its bio was queued, its address the sector (of 512 bytes) on the disk.
//! Accesses without a place in this format are counted: those with an unknown offset, and requests
//! that are neither read nor write, or reached no device. For an asynchronous operation without a
//! recorded result (the program fetched it without a call) the line has the requested bytes; these
//! are counted, too.

use std::collections::BTreeMap;
use std::io;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{escape, number_format};
use crate::operation::access::{self, Access, RecentNames};
use crate::operation::asynchronous::AsyncOperation;
use crate::operation::attribution::{BlockContents, Piece};
use crate::operation::block::{BlockRequest, BlockStep, RequestId};
use crate::operation::model::{OpenFile, SyscallOperation};
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Formats one access as a line, without its end; its time counts from `start`. `comm` is `None` if
/// the thread is unknown.
pub fn line(out: &mut Vec<u8>, access: &Access, start: KernelTime, comm: Option<&[u8]>) {
    number_format::seconds(out, access.begin.signed_since(start), 0);
    out.extend_from_slice(if access.is_write { b";W;" } else { b";R;" });
    for number in [access.address, access.bytes] {
        number_format::unsigned(out, number);
        out.push(b';');
    }
    out.extend_from_slice(access.level.as_str().as_bytes());
    out.push(b';');
    match comm {
        Some(name) => escape::shown(out, name, b";"),
        None => out.push(b'?'),
    }
    out.push(b';');
    number_format::signed(out, access.pid.0.into());
}

/// Writes a point in time, in seconds.
pub fn time(out: &mut Vec<u8>, time: KernelTime) {
    number_format::seconds(out, time.signed_since(KernelTime::MIN), 0);
}

/// Selection of the accesses with a line.
pub trait AccessFilter {
    /// True for an access that ends with this step and is selected. It is called for all steps.
    fn wants(&mut self, step: &Step<'_>) -> bool;
    /// True if the part of the access with this file is selected.
    fn wants_file(&self, file: Option<&OpenFile>) -> bool;
}

/// Counts of missing and inexact lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCaveats {
    /// Accesses without a line.
    pub left_out: u64,
    /// Lines with the requested bytes, because the result was not seen.
    pub without_result: u64,
    /// Lines that follow later ones: too many lines waited for an earlier access.
    pub out_of_order: u64,
}

/// Limit on the lines that wait for accesses that began earlier and have not ended.
const WAITING_MAX: usize = 1 << 16;

/// Sink that writes a line for each access.
#[derive(Debug)]
pub struct IotracerLines<W, P> {
    start: KernelTime,
    names: RecentNames,
    /// Number of accesses in flight, by their beginning.
    open: BTreeMap<KernelTime, usize>,
    /// Time at which the first bio of each request was queued, as far as it was known when the
    /// request began.
    requests: FxHashMap<RequestId, KernelTime>,
    /// Asynchronous operations that may be accesses, by number.
    asynchronous: FxHashSet<u64>,
    /// Lines of ended accesses, by their beginning and by number.
    ended: BTreeMap<(KernelTime, u64), Vec<u8>>,
    number: u64,
    /// Last beginning that was written.
    written: KernelTime,
    /// Counts of missing and inexact lines so far.
    doubts: LineCaveats,
    choice: P,
    out: W,
}

impl<W: io::Write, P: AccessFilter> IotracerLines<W, P> {
    /// Creates the sink; times count from `start`.
    pub fn new(start: KernelTime, choice: P, out: W) -> Self {
        Self {
            start,
            names: RecentNames::default(),
            open: BTreeMap::new(),
            requests: FxHashMap::default(),
            asynchronous: FxHashSet::default(),
            ended: BTreeMap::new(),
            number: 0,
            written: KernelTime::MIN,
            doubts: LineCaveats::default(),
            choice,
            out,
        }
    }

    /// Returns the selection.
    pub fn choice(&self) -> &P {
        &self.choice
    }

    /// Writes the waiting lines and flushes the writer; returns it, with the counts of missing and
    /// inexact lines.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn finish(mut self) -> io::Result<(W, LineCaveats)> {
        self.open.clear();
        self.write_ready()?;
        self.out.flush()?;
        Ok((self.out, self.doubts))
    }

    fn begun(&mut self, at: KernelTime) {
        *self.open.entry(at).or_default() += 1;
    }

    fn over(&mut self, at: KernelTime) {
        if let Some(count) = self.open.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&at);
            }
        }
    }

    /// Writes the lines that no other line can precede any more.
    fn write_ready(&mut self) -> io::Result<()> {
        let first_open = self.open.first_key_value().map(|first| *first.0);
        let mut waiting = self.ended.len();
        while let Some(entry) = self.ended.first_entry()
            && (waiting > WAITING_MAX
                || first_open.is_none_or(|first_open| entry.key().0 < first_open))
        {
            waiting -= 1;
            self.doubts.out_of_order += u64::from(entry.key().0 < self.written);
            self.written = self.written.max(entry.key().0);
            self.out.write_all(&entry.remove())?;
        }
        Ok(())
    }

    fn line(&mut self, access: &Access) {
        let mut bytes = Vec::with_capacity(64);
        let comm = self.names.of(access.tid).map(|row| &**row);
        line(&mut bytes, access, self.start, comm);
        bytes.push(b'\n');
        self.ended.insert((access.begin, self.number), bytes);
        self.number += 1;
    }

    /// Handles an operation that has ended.
    fn sides(&mut self, step: &Step<'_>) {
        for side in access::sides(step) {
            let is_wanted = self.choice.wants_file(side.file.map(|file| &**file));
            match side.access() {
                _ if is_wanted && side.file.is_none_or(|file| may_be_regular(file)) => {
                    self.doubts.left_out += 1;
                }
                _ if !is_wanted || !side.file.is_some_and(|file| is_regular(file)) => {}
                Some(access) => {
                    self.doubts.without_result += u64::from(side.lacks_result);
                    self.line(&access);
                }
                None => self.doubts.left_out += 1,
            }
        }
    }

    fn request(&mut self, request: &BlockRequest, pieces: &[Piece]) {
        if access::is_passed_on(request) {
            return;
        }
        let Some(accesses) = access::pieces(request, pieces) else {
            self.doubts.left_out += 1;
            return;
        };
        self.doubts.left_out += u64::from(pieces.is_empty());
        for (piece, access) in accesses {
            let file = match &piece.contents {
                BlockContents::File { file, .. } => file.as_deref(),
                _ => None,
            };
            if self.choice.wants_file(file) {
                self.line(&access);
            }
        }
    }

    /// Handles the begin of an asynchronous operation, or its file, which becomes known later than
    /// the operation.
    fn asynchronous(&mut self, operation: &AsyncOperation) {
        let may_be = operation.file.as_ref().is_none_or(|file| is_regular(file));
        let moves = operation.opcode.class().moves_bytes();
        match (moves && may_be, self.asynchronous.contains(&operation.id)) {
            (true, false) => {
                self.asynchronous.insert(operation.id);
                self.begun(operation.start);
            }
            (false, true) => self.asynchronous_over(operation),
            _ => {}
        }
    }

    fn asynchronous_over(&mut self, operation: &AsyncOperation) {
        if self.asynchronous.remove(&operation.id) {
            self.over(operation.start);
        }
    }
}

fn is_regular(file: &OpenFile) -> bool {
    file.stat.is_some_and(|stat| stat.mode & libc::S_IFMT == libc::S_IFREG)
}

/// True if the file's type is unknown.
fn may_be_regular(file: &OpenFile) -> bool {
    file.stat.is_none() && !file.is_made()
}

/// True for a read or write of a regular file, or a transfer from or to one.
fn is_access(operation: &SyscallOperation) -> bool {
    let target = operation.target.as_ref().map(|target| &target.1);
    let mut files = operation.file.iter().chain(target);
    operation.call.call().class.moves_bytes() && files.any(|file| is_regular(file))
}

impl<W: io::Write, P: AccessFilter> Sink for IotracerLines<W, P> {
    type Error = io::Error;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> io::Result<()> {
        let is_wanted = self.choice.wants(step);
        self.names.look(step);
        match step {
            Step::SyscallBegun(it) if is_access(it) => self.begun(it.start),
            Step::SyscallEnded(it, _) | Step::SyscallUnfinished(it, _) if is_access(it) => {
                self.over(it.start);
                if is_wanted {
                    self.sides(step);
                }
                self.write_ready()?;
            }
            Step::AsyncBegun(it) => self.asynchronous(it),
            Step::AsyncFile(it) => {
                self.asynchronous(it);
                self.write_ready()?;
            }
            Step::AsyncEnded(it, _) | Step::AsyncUnfinished(it, _) => {
                self.asynchronous_over(it);
                if is_wanted {
                    self.sides(step);
                }
                self.write_ready()?;
            }
            Step::Block { step: BlockStep::Queued(it), .. } => {
                let begin = it.begin().unwrap_or(KernelTime::MIN);
                self.requests.insert(it.id, begin);
                self.begun(begin);
            }
            Step::Block { step: BlockStep::Ended(it), pieces, .. } => {
                if let Some(begin) = self.requests.remove(&it.id) {
                    self.over(begin);
                }
                if is_wanted {
                    self.request(it, pieces);
                }
                self.write_ready()?;
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::{Expect, expect};

    use super::*;
    use crate::event::FileStat;
    use crate::operation::asynchronous::NoResult;
    use crate::operation::model::PathSource;
    use crate::text::fixtures::{START, asynchronous, call, file, pass, pieces, request, thread};
    use crate::units::DevId;
    use crate::units::Fd;

    /// Selects all accesses, or only those of a file of this name.
    struct OnlyFile(Option<&'static [u8]>);

    impl AccessFilter for OnlyFile {
        fn wants(&mut self, _: &Step<'_>) -> bool {
            true
        }

        fn wants_file(&self, file: Option<&OpenFile>) -> bool {
            let path = file.and_then(|file| file.path.as_ref());
            self.0.is_none_or(|name| path.is_some_and(|path| path.bytes == name))
        }
    }

    fn regular(path: &[u8]) -> Arc<OpenFile> {
        let stat = FileStat { mode: libc::S_IFREG, dev: DevId(1), ino: 1, size: 0 };
        let file = Arc::into_inner(file(path, PathSource::Link)).expect("the only reference");
        Arc::new(OpenFile { stat: Some(stat), ..file })
    }

    #[track_caller]
    fn check(name: Option<&'static [u8]>, expected: Expect) {
        let mut lines = IotracerLines::new(START, OnlyFile(name), Vec::new());
        pass(&mut lines, &Step::ThreadSeen(&thread(b"a;b\n")));
        let (first, second) = (regular(b"/f"), regular(b"/g"));
        // An operation that begins before all others and ends after them.
        let mut early = asynchronous(&first);
        early.offset = Some(8192);
        early.start = START;
        pass(&mut lines, &Step::AsyncBegun(&early));
        let mut send = call("sendfile64", &[], 4099, Some(4), Some(&first));
        send.offset = Some(17);
        send.target = Some((Fd(5), Arc::clone(&second)));
        pass(&mut lines, &Step::SyscallBegun(&send));
        pass(&mut lines, &Step::SyscallEnded(&send, &[]));
        let request = request();
        let (block, pieces) = (BlockStep::Ended(&request), pieces());
        pass(&mut lines, &Step::Block { step: &block, thread: None, pieces: &pieces });
        let socket = file(b"socket:[?]", PathSource::Call);
        pass(&mut lines, &Step::SyscallEnded(&call("read", &[], 9, Some(6), Some(&socket)), &[]));
        pass(&mut lines, &Step::AsyncEnded(&asynchronous(&socket), &[]));
        assert!(lines.out.is_empty(), "{:?}", String::from_utf8_lossy(&lines.out));
        early.end = None;
        early.result = None;
        early.bytes_requested = Some(4096);
        pass(&mut lines, &Step::AsyncUnfinished(&early, NoResult::Unseen));
        let (text, doubts) = lines.finish().expect("memory");
        let LineCaveats { left_out, without_result, out_of_order: _ } = doubts;
        let text = String::from_utf8(text).expect("text");
        expected.assert_eq(&format!("{text}left out {left_out}, asked {without_result}\n"));
    }

    #[test]
    fn accesses_in_the_order_of_their_beginnings() {
        check(
            None,
            expect![[r#"
            0.000000000;R;8192;4096;VFS;a\x3bb\x0a;4711
            0.000123456;R;17;4099;VFS;a\x3bb\x0a;4711
            0.000290000;W;2048;4096;BLK;?;12
            0.000290000;W;2056;4096;BLK;?;9
            0.000290000;W;2064;4096;BLK;?;9
            0.000290000;W;2072;4096;BLK;?;12
            left out 1, asked 1
        "#]],
        );
    }

    #[test]
    fn only_file_operations_are_listed() {
        check(
            Some(b"/f"),
            expect![[r#"
            0.000000000;R;8192;4096;VFS;a\x3bb\x0a;4711
            0.000123456;R;17;4099;VFS;a\x3bb\x0a;4711
            left out 0, asked 1
        "#]],
        );
        check(
            Some(b"/mnt/a file;\x1b\xff"),
            expect![[r#"
            0.000290000;W;2048;4096;BLK;?;12
            left out 0, asked 0
        "#]],
        );
    }
}
