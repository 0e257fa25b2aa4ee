//! Logs that fio writes with `write_iolog` and reads with `read_iolog` (`Trace file format v2` and
//! `v3` in its HOWTO).
//!
//! ```text
//!   fio version 2 iolog          fio version 3 iolog
//!   /tmp/x add                   0 /tmp/x add
//!   /tmp/x open                  107 /tmp/x open
//!   /tmp/x write 4096 8192       210 /tmp/x write 4096 8192
//!   /tmp/x wait 250              312 /tmp/x close
//!   /tmp/x close
//! ```
//!
//! Times of version 3 are those of the begin, in µs (as fio 3.33 writes them, measured with a known
//! rate); a wait of version 2 is in µs, too. The log has no process, duration or result: it is
//! imported as one thread, with success of all operations. Open flags are not logged either: files
//! are opened for reading and writing, and created if they do not exist.

use rustc_hash::FxHashMap;

use super::decimal::integer;
use super::import_report::ImportReport;
use super::imported_event::{ImportedEvent, ImportedKind, ImportedTask, MemoryRead};
use super::parser::Parser;
use crate::capture::fact::NameOf;
use crate::event::syscall_table::CallId;

/// Number of the only thread.
const WHO: i32 = 1;

/// First descriptor that is assigned: lower ones are standard input and outputs.
const FIRST_FD: u64 = 3;

/// Address of paths.
const MEMORY: u64 = 0x7000_0000_0000;

/// Duration of an operation without one, ns.
const STEP: u64 = 1000;

/// Limit on the files of a log.
const FILES_MAX: usize = 1 << 20;

/// `FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE`: effect of a trim on a file.
const PUNCH: u64 = 3;

/// Parser of fio's logs.
#[derive(Debug, Default)]
pub(super) struct Iolog {
    version: u8,
    /// Descriptors of open files.
    open: FxHashMap<Vec<u8>, u64>,
    free: Vec<u64>,
    now: u64,
}

impl Parser for Iolog {
    fn line(
        &mut self,
        line: &[u8],
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> bool {
        let line = line.trim_ascii();
        if let Some(version) = line.strip_prefix(b"fio version ") {
            self.version = version.first().map_or(0, |version| version.wrapping_sub(b'0'));
            return matches!(self.version, 2 | 3);
        }
        line.is_empty() || self.action(line, out, notes).is_some()
    }
}

impl Iolog {
    /// Parses `[TIME] FILE ACTION [OFFSET LENGTH]`. A name may have spaces, so the words after it
    /// are counted from the end.
    fn action(
        &mut self,
        line: &[u8],
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> Option<()> {
        let rest = match self.version {
            3 => {
                let end = line.iter().position(|line| *line == b' ')?;
                let time = integer::<u64>(line.get(..end)?)?.saturating_mul(STEP);
                // Operations of one microsecond get consecutive times.
                if time.saturating_add(STEP) < self.now {
                    notes.count("lines with an earlier time than the previous one: moved after it");
                }
                self.now = time.max(self.now.saturating_add(1));
                line.get(end + 1..)?
            }
            _ => {
                self.now = self.now.saturating_add(STEP);
                line
            }
        };
        let (file, action, numbers) = parts(rest)?;
        match action {
            b"add" => {}
            b"open" => self.opens(file, out, notes)?,
            b"close" => self.closes(file, out, notes),
            b"wait" => self.now = self.now.saturating_add(numbers[0].saturating_mul(STEP)),
            action => self.moves(file, action, numbers, out, notes)?,
        }
        if self.version == 0 {
            notes.count(
                "lines of a log without its first line, `fio version N iolog`: read as version 2",
            );
        }
        if self.version != 3 {
            notes.count("lines without a time: each is 1 µs after the previous one, plus its wait");
        }
        Some(())
    }

    fn emit(
        &self,
        name: &str,
        args: [u64; 6],
        ret: i64,
        reads: Vec<MemoryRead>,
        out: &mut Vec<ImportedEvent>,
    ) {
        let Some(call) = CallId::by_name(name) else { return };
        let event = |what| ImportedEvent { time: self.now, task: ImportedTask::leader(WHO), what };
        out.push(event(ImportedKind::Enter(call, args)));
        out.push(event(ImportedKind::Exit(call, ret, reads)));
    }

    fn opens(
        &mut self,
        file: &[u8],
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> Option<()> {
        if self.open.contains_key(file) {
            notes.count("opens of files that are open: skipped");
            return Some(());
        }
        if self.open.len() >= FILES_MAX {
            return None;
        }
        let fd = self.free.pop().unwrap_or(FIRST_FD + self.open.len() as u64);
        self.open.insert(file.to_vec(), fd);
        let path = MemoryRead::memory(NameOf::Argument, MEMORY, file.to_vec());
        let flags = (libc::O_RDWR | libc::O_CREAT).cast_unsigned();
        let at = i64::from(libc::AT_FDCWD).cast_unsigned();
        self.emit(
            "openat",
            [at, MEMORY, flags.into(), 0o644, 0, 0],
            fd.cast_signed(),
            vec![path],
            out,
        );
        Some(())
    }

    fn closes(&mut self, file: &[u8], out: &mut Vec<ImportedEvent>, notes: &mut ImportReport) {
        match self.open.remove(file) {
            Some(fd) => {
                self.free.push(fd);
                self.emit("close", [fd, 0, 0, 0, 0, 0], 0, Vec::new(), out);
            }
            None => notes.count("closes of files that are not open: skipped"),
        }
    }

    fn moves(
        &mut self,
        file: &[u8],
        action: &[u8],
        [offset, length]: [u64; 2],
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> Option<()> {
        let (name, args, ret) = match action {
            b"read" => ("pread64", [0, 0, length, offset, 0, 0], length),
            b"write" => ("pwrite64", [0, 0, length, offset, 0, 0], length),
            b"sync" => ("fsync", [0; 6], 0),
            b"datasync" => ("fdatasync", [0; 6], 0),
            b"trim" => ("fallocate", [0, PUNCH, offset, length, 0, 0], 0),
            _ => return None,
        };
        let Some(&fd) = self.open.get(file) else {
            notes.count("operations on files that are not open: skipped");
            return Some(());
        };
        let [_, rest @ ..] = args;
        let [a, b, c, d, e] = rest;
        self.emit(name, [fd, a, b, c, d, e], i64::try_from(ret).ok()?, Vec::new(), out);
        Some(())
    }
}

/// Actions, and the number of their arguments.
const ACTIONS: [(&[u8], usize); 9] = [
    (b"add", 0),
    (b"open", 0),
    (b"close", 0),
    (b"wait", 1),
    (b"read", 2),
    (b"write", 2),
    (b"sync", 2),
    (b"datasync", 2),
    (b"trim", 2),
];

/// Splits a line into file, action, and its numbers.
fn parts(line: &[u8]) -> Option<(&[u8], &[u8], [u64; 2])> {
    let mut numbers = [0; 2];
    let mut rest = line;
    for count in 0..=2 {
        let (before, last) = split_last(rest)?;
        let found = ACTIONS.iter().find(|action| action.0 == last);
        if let Some((action, wanted)) = found {
            // fio may write offset and length after a sync, too.
            let is_right =
                *wanted == count || count == 0 && matches!(*action, b"sync" | b"datasync");
            let is_wait = *action == b"wait" && count == 2;
            return (is_right || is_wait).then_some((before, *action, numbers));
        }
        numbers = [integer(last)?, numbers[0]];
        rest = before;
    }
    None
}

fn split_last(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let place = line.iter().rposition(|line| *line == b' ')?;
    let (before, last) = (line.get(..place)?, line.get(place + 1..)?);
    (!before.is_empty()).then_some((before, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> (Vec<(u64, String)>, ImportReport) {
        let (mut events, mut notes) = (Vec::new(), ImportReport::default());
        let mut parser = Iolog::default();
        for (number, line) in (1..).zip(text.lines()) {
            notes.read += 1;
            if !parser.line(line.as_bytes(), &mut events, &mut notes) {
                notes.not_understood(number, line.as_bytes());
            }
        }
        let word = |event: &ImportedEvent| match &event.what {
            ImportedKind::Enter(call, args) => {
                Some((event.time, format!("{} {args:?}", call.call().name)))
            }
            _ => None,
        };
        (events.iter().filter_map(word).collect(), notes)
    }

    #[test]
    fn both_versions_are_read() {
        let (calls, notes) = parsed(
            "fio version 3 iolog\n5 /t/a b add\n7 /t/a b open\n9 /t/a b write 4096 512\n11 /t/a b sync 0 0\n12 /t/a b close\n",
        );
        let words: Vec<&str> =
            calls.iter().map(|call| call.1.split(' ').next().expect("a word")).collect();
        assert_eq!(words, ["openat", "pwrite64", "fsync", "close"]);
        assert_eq!(calls[1], (9000, "pwrite64 [3, 0, 512, 4096, 0, 0]".into()));
        assert_eq!(notes.messages("lines"), Vec::<String>::new());
        let (calls, notes) = parsed(
            "fio version 2 iolog\n/t/x add\n/t/x open\n/t/x wait 100 0\n/t/x read 0 8\n/t/y read 0 8\n/t/x trim 0 8\nwhat\n",
        );
        let times: Vec<u64> = calls.iter().map(|call| call.0).collect();
        assert_eq!(times, [2000, 104_000, 106_000]);
        assert!(calls[2].1.starts_with("fallocate [3, 3, 0, 8"));
        assert_eq!((notes.unparsed(), notes.messages("lines").len()), (1, 3));
    }

    #[test]
    fn decreasing_times_are_reported() {
        let (calls, notes) =
            parsed("fio version 3 iolog\n900 /t/x open\n7 /t/x read 0 8\n900 /t/x close\n");
        assert_eq!(
            calls.iter().map(|call| call.0).collect::<Vec<_>>(),
            [900_000, 900_001, 900_002]
        );
        assert_eq!(
            notes.messages("lines"),
            ["1 lines with an earlier time than the previous one: moved after it"]
        );
    }

    proptest! {
        #[test]
        fn any_lines_are_read(lines in prop::collection::vec("[0-9]{0,20} ?(/x|a b)? ?(add|open|read|wait|sync|trim|close)?[ 0-9]{0,24}", 0..20)) {
            parsed(&format!("fio version 3 iolog\n{}", lines.join("\n")));
            parsed(&format!("fio version 2 iolog\n{}", lines.join("\n")));
        }
    }
}
