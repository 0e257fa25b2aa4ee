//! System calls as I/O Riot (ioreplay) captures them:
//! `t=END;:,D=DURATION;:,i=PID:TID;:,o=NAME;:,d=FD;:,p=PATH;:,…`, version 3 of its capture log
//! (times in nanoseconds since 1970), one line for each call, in the order of the ends.
//!
//! The fields of a line depend on the call ([`ROWS`]): `d` descriptor, `p` and `P` absolute paths,
//! `f` flags, `m` mode, `b` bytes, `c` requested bytes, `s` the result, `O` offset or owner, `W`
//! whence, `F` and `G` of `fcntl` (`G` also a group). Some calls have no line, and are counted:
//! those that the format does not have (such as `pread64`), those without an end, and those whose
//! path is doubtful, not absolute, or would break the line or control a terminal.

use std::io;

use super::escape::drives_terminal;
use super::number_format;
use crate::event::registers::int;
use crate::operation::model::{PathArgument, SyscallOperation};
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Separator of the fields, also at the end of a line.
const SEPARATOR: &[u8] = b";:,";

/// Source of a field's value.
#[derive(Clone, Copy, Debug)]
enum FieldOrigin {
    /// Result of the call.
    Return,
    /// A register, of which the kernel uses 32 bits.
    Int(usize),
    /// A register.
    Long(usize),
    /// Path of the call's file.
    Path,
    /// Second path.
    Path2,
}

/// A call by the kernel's name and by that in the log, with its fields.
type Row = (&'static str, &'static str, &'static [(u8, FieldOrigin)]);

use FieldOrigin::{Int, Long, Path, Path2, Return};

const OF_FD: &[(u8, FieldOrigin)] = &[(b'd', Int(0)), (b's', Return)];
const MOVES: &[(u8, FieldOrigin)] = &[(b'd', Int(0)), (b'b', Return)];
const OF_PATH: &[(u8, FieldOrigin)] = &[(b'p', Path), (b's', Return)];
const RENAMES: &[(u8, FieldOrigin)] = &[(b'p', Path), (b'P', Path2), (b's', Return)];

/// Calls of the format; a new one is a new row.
const ROWS: &[Row] = &[
    ("open", "open", &[(b'd', Return), (b'p', Path), (b'f', Int(1)), (b'm', Int(2))]),
    ("openat", "openat", &[(b'd', Return), (b'p', Path), (b'f', Int(2)), (b'm', Int(3))]),
    ("creat", "creat", &[(b'd', Return), (b'p', Path), (b'm', Int(1))]),
    ("close", "close", OF_FD),
    ("read", "read", MOVES),
    ("readv", "readv", MOVES),
    ("write", "write", MOVES),
    ("writev", "writev", MOVES),
    ("lseek", "lseek", &[(b'd', Int(0)), (b'O', Long(1)), (b'W', Int(2)), (b'b', Return)]),
    ("readahead", "readahead", &[(b'd', Int(0)), (b'b', Return), (b'O', Long(1)), (b'c', Long(2))]),
    ("fcntl", "fcntl", &[(b'd', Int(0)), (b'F', Int(1)), (b'G', Long(2)), (b's', Return)]),
    ("fsync", "fsync", OF_FD),
    ("fdatasync", "fdatasync", OF_FD),
    ("syncfs", "syncfs", OF_FD),
    ("sync", "sync", &[(b's', Return)]),
    (
        "sync_file_range",
        "sync_file_range",
        &[(b'd', Int(0)), (b'O', Long(1)), (b'b', Long(2)), (b's', Return)],
    ),
    ("getdents", "getdents", &[(b'd', Int(0)), (b'c', Int(2)), (b'b', Return)]),
    ("getdents64", "getdents", &[(b'd', Int(0)), (b'c', Int(2)), (b'b', Return)]),
    ("unlink", "unlink", OF_PATH),
    ("unlinkat", "unlinkat", &[(b'd', Int(0)), (b'p', Path), (b'f', Int(2)), (b's', Return)]),
    ("rename", "rename", RENAMES),
    ("renameat", "renameat", RENAMES),
    ("renameat2", "renameat2", RENAMES),
    ("mkdir", "mkdir", &[(b'p', Path), (b'm', Int(1)), (b's', Return)]),
    ("mkdirat", "mkdirat", &[(b'd', Int(0)), (b'p', Path), (b'm', Int(2)), (b's', Return)]),
    ("rmdir", "rmdir", OF_PATH),
    ("readlink", "readlink", OF_PATH),
    ("readlinkat", "readlinkat", OF_PATH),
    ("newstat", "stat", OF_PATH),
    ("newlstat", "lstat", OF_PATH),
    ("newfstat", "fstat", OF_FD),
    ("newfstatat", "fstatat", &[(b'd', Int(0)), (b'p', Path), (b'f', Int(3)), (b's', Return)]),
    ("statfs", "statfs", OF_PATH),
    ("fstatfs", "fstatfs", OF_FD),
    ("chmod", "chmod", &[(b'p', Path), (b'm', Int(1)), (b's', Return)]),
    ("fchmod", "fchmod", &[(b'd', Int(0)), (b'm', Int(1)), (b's', Return)]),
    ("fchmodat", "fchmodat", &[(b'p', Path), (b'm', Int(2)), (b's', Return)]),
    ("chown", "chown", &[(b'p', Path), (b'O', Int(1)), (b'G', Int(2)), (b's', Return)]),
    ("lchown", "lchown", &[(b'p', Path), (b'O', Int(1)), (b'G', Int(2)), (b's', Return)]),
    ("fchown", "fchown", &[(b'd', Int(0)), (b'O', Int(1)), (b'G', Int(2)), (b's', Return)]),
];

/// Sink that writes a line for each call.
#[derive(Debug)]
pub struct IoreplayLines<W> {
    /// Offset from a time to one since 1970, ns, with overflow.
    to_realtime: u64,
    /// Buffer of the current line, kept for its capacity.
    line: Vec<u8>,
    /// Calls without a line.
    left_out: u64,
    out: W,
}

impl<W: io::Write> IoreplayLines<W> {
    /// Writes the first line; `start` was at `start_realtime_ns` since 1970.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn new(start: KernelTime, start_realtime_ns: u64, mut out: W) -> io::Result<Self> {
        out.write_all(b"#|capture_version=3|\n")?;
        let to_realtime = start_realtime_ns.wrapping_sub(start.0);
        Ok(Self { to_realtime, line: Vec::new(), left_out: 0, out })
    }

    /// Flushes the writer; returns it, with the number of operations without a line.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.out.flush()?;
        Ok((self.out, self.left_out))
    }

    /// Writes the operation into `self.line`; `None`: the format has no line for it.
    fn line(&mut self, operation: &SyscallOperation) -> Option<()> {
        let name = operation.call.call().name;
        let (_, word, fields) = ROWS.iter().find(|row| row.0 == name)?;
        let (end, ret) = (operation.end?, operation.ret?);
        let line = &mut self.line;
        line.clear();
        line.extend_from_slice(b"t=");
        number_format::unsigned(line, end.0.wrapping_add(self.to_realtime));
        line.extend_from_slice(SEPARATOR);
        line.extend_from_slice(b"D=");
        number_format::unsigned(line, end.0.saturating_sub(operation.start.0));
        line.extend_from_slice(SEPARATOR);
        line.extend_from_slice(b"i=");
        number_format::signed(line, operation.pid.0.into());
        line.push(b':');
        number_format::signed(line, operation.tid.0.into());
        line.extend_from_slice(SEPARATOR);
        line.extend_from_slice(b"o=");
        line.extend_from_slice(word.as_bytes());
        line.extend_from_slice(SEPARATOR);
        for (key, from) in *fields {
            line.extend_from_slice(&[*key, b'=']);
            match from {
                Return => number_format::signed(line, ret),
                Int(place) => {
                    number_format::signed(line, int(*operation.args.get(*place)?).into());
                }
                Long(place) => {
                    number_format::signed(line, operation.args.get(*place)?.cast_signed())
                }
                Path => line.extend_from_slice(path(operation)?),
                Path2 => {
                    let given = operation.named.as_ref()?.second.as_ref();
                    let given = given.filter(|given| !given.path.source.is_doubtful());
                    line.extend_from_slice(printable(given.map(PathArgument::whole))?);
                }
            }
            line.extend_from_slice(SEPARATOR);
        }
        line.push(b'\n');
        Some(())
    }
}

/// Path argument of the call, or the name of the opened file.
fn path(operation: &SyscallOperation) -> Option<&[u8]> {
    let given = operation.named.as_ref().and_then(|named| named.first.as_ref());
    let given = given.filter(|given| !given.path.source.is_doubtful()).map(PathArgument::whole);
    let opened =
        || operation.file.as_ref()?.path.as_ref().filter(|path| !path.source.is_doubtful());
    printable(given.or_else(|| opened().map(|opened| opened.bytes.as_slice())))
}

/// An absolute path that neither breaks the line nor controls a terminal: the format has no
/// escapes. Bytes that are not UTF-8 stay, except for 0x80 to 0x9f.
fn printable(path: Option<&[u8]>) -> Option<&[u8]> {
    let breaks = |byte: &[u8]| {
        drives_terminal(byte) || byte.windows(SEPARATOR.len()).any(|window| window == SEPARATOR)
    };
    path.filter(|path| path.starts_with(b"/") && !breaks(path))
}

impl<W: io::Write> Sink for IoreplayLines<W> {
    type Error = io::Error;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> io::Result<()> {
        match step {
            Step::SyscallEnded(operation, _) if self.line(operation).is_some() => {
                self.out.write_all(&self.line)?;
            }
            Step::SyscallEnded(..) => self.left_out += 1,
            Step::SyscallUnfinished(..) | Step::AsyncEnded(..) => self.left_out += 1,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::fixtures::{self, START, call, failed_open, file};
    use super::*;
    use crate::event::syscall_table::CallId;
    use crate::operation::model::PathSource;

    fn check(operations: &[SyscallOperation], expected: &Expect, left_out: u64) {
        let mut sink =
            IoreplayLines::new(START, 1_700_000_000_000_000_000, Vec::new()).expect("memory");
        for it in operations {
            sink.step(START, &Step::SyscallEnded(it, &[])).expect("memory");
        }
        let (text, left) = sink.finish().expect("memory");
        expected.assert_eq(std::str::from_utf8(&text).expect("text"));
        assert_eq!(left, left_out);
    }

    #[test]
    fn calls_have_their_fields() {
        let passwd = file(b"/etc/passwd", PathSource::Link);
        let open = call("openat", &[fixtures::CWD, 0x7fff_0000, 0], 3, Some(3), Some(&passwd));
        let read = call("read", &[3, 0, 4096], 4096, Some(3), Some(&passwd));
        let seek = call("lseek", &[3, u64::MAX - 6, 2], 90, Some(3), Some(&passwd));
        let close = call("close", &[3], 0, Some(3), Some(&passwd));
        let mut rename = call("rename", &[1, 2], 0, None, None);
        rename.named = Some(Box::new(fixtures::renamed(b"name")));
        check(
            &[open, read, seek, close, failed_open(b"/nix", PathSource::Argument), rename],
            &expect![[r#"
                #|capture_version=3|
                t=1700000000000135999;:,D=12543;:,i=4711:4712;:,o=openat;:,d=3;:,p=/etc/passwd;:,f=0;:,m=0;:,
                t=1700000000000135999;:,D=12543;:,i=4711:4712;:,o=read;:,d=3;:,b=4096;:,
                t=1700000000000135999;:,D=12543;:,i=4711:4712;:,o=lseek;:,d=3;:,O=-7;:,W=2;:,b=90;:,
                t=1700000000000135999;:,D=12543;:,i=4711:4712;:,o=close;:,d=3;:,s=0;:,
                t=1700000000000135999;:,D=12543;:,i=4711:4712;:,o=openat;:,d=-2;:,p=/nix;:,f=577;:,m=420;:,
                t=1700000000000135999;:,D=12543;:,i=4711:4712;:,o=rename;:,p=/name;:,P=/name;:,s=0;:,
            "#]],
            0,
        );
    }

    #[test]
    fn operations_without_a_line_are_counted() {
        let odd = file(b"/a;:,b", PathSource::Link);
        let lines = file(b"/a\nb", PathSource::Link);
        let escapes =
            [file(b"/\x1b[2J", PathSource::Link), file("/\u{9b}2J".as_bytes(), PathSource::Link)];
        let more = ["/\u{202e}", "/\u{2028}", "/\u{e0041}"];
        let more = more.map(str::as_bytes).into_iter().chain([&b"/\x9b2J"[..]]);
        let more = more.map(|more| file(more, PathSource::Link)).collect::<Vec<_>>();
        let pipe = file(b"pipe:[7]", PathSource::Link);
        let open = |file| call("openat", &[fixtures::CWD, 0, 0], 3, Some(3), Some(file));
        let pread = call("pread64", &[3, 0, 1, 0], 1, Some(3), None);
        let mut calls: Vec<_> = escapes.iter().chain(&more).map(&open).collect();
        calls.extend([open(&odd), open(&lines), open(&pipe), pread]);
        check(
            &calls,
            &expect![[r#"
            #|capture_version=3|
        "#]],
            10,
        );
    }

    #[test]
    fn table_has_only_existing_calls() {
        for row in ROWS {
            assert!(CallId::by_name(row.0).is_some(), "{}", row.0);
        }
    }
}
