//! Text of `perf script`, and of the kernel's own `trace` file: one line for each event.
//!
//! ```text
//!   dd  4162 [001]  12.345678: block:block_rq_issue: 8,0 R 4096 () 2048 + 8 [dd]
//!   cat 4162/4163 [001] 12.345678: syscalls:sys_enter_read: fd: 0x3, buf: 0x7ffc, count: 0x1000
//!   cat 4162 [001] 12.345678: raw_syscalls:sys_exit: NR 0 = 4096
//!   <idle>-0 [000] d.h1. 12.345678: block_rq_complete: 8,0 R () 2048 + 8 [0]
//! ```
//!
//! The text has addresses, not the paths that they point to: files have no names.

use rustc_hash::FxHashMap;

use super::block_text::{bracketed, comm_of, device, extent, word};
use super::decimal::{integer, seconds};
use super::import_report::ImportReport;
use super::imported_event::{Block, ImportedEvent, ImportedKind, ImportedTask};
use super::parser::Parser;
use super::records::MACHINE;
use crate::event::block::BlockPoint;
use crate::event::block_shape::BLOCK_POINTS;
use crate::event::syscall_table::{CALLS, CallId};
use crate::units::{Pid, Tid};

/// Limit on the threads whose names are kept.
const NAMES_MAX: usize = 1 << 20;

/// Parser of the text.
#[derive(Debug, Default)]
pub(super) struct PerfScript {
    names: FxHashMap<Tid, Vec<u8>>,
    /// Machine of the recording (`# arch : …`, which `perf script --header` prints).
    machine: Option<String>,
}

/// Parts of a line.
#[derive(Debug)]
struct PerfScriptLine<'a> {
    comm: &'a [u8],
    task: ImportedTask,
    /// False if the line has no process, so that the thread stands for it.
    has_process: bool,
    time: u64,
    /// Name of the event, without its system.
    event: &'a [u8],
    /// Fields of the event.
    fields: &'a [u8],
}

/// Returns true for a line of an event.
pub(super) fn is_line(line: &[u8]) -> bool {
    PerfScriptLine::read(line).is_some()
}

impl<'a> PerfScriptLine<'a> {
    fn read(line: &'a [u8]) -> Option<Self> {
        let (before, time, after) = at_time(line)?;
        let (comm, ids) = identity(before)?;
        let (pid, tid) = match ids.split_once_at(b'/') {
            Some((pid, tid)) => (Some(integer(pid)?), integer(tid)?),
            None => (None, integer(ids)?),
        };
        let task = ImportedTask { pid: Pid(pid.unwrap_or(tid)), tid: Tid(tid) };
        let after = after.trim_ascii();
        let end = after.windows(2).position(|two| two == b": ");
        let (name, fields) = match end {
            Some(end) => (after.get(..end)?, after.get(end + 2..)?),
            None => (after.strip_suffix(b":")?, &b""[..]),
        };
        let event = name.rsplit(|byte| *byte == b':').next()?;
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if event.is_empty() || !event.iter().all(is_word) {
            return None;
        }
        Some(Self { comm, task, has_process: pid.is_some(), time, event, fields })
    }
}

/// Extension of byte strings, as `str` has it.
trait SplitOnce {
    fn split_once_at(&self, at: u8) -> Option<(&[u8], &[u8])>;
}

impl SplitOnce for [u8] {
    fn split_once_at(&self, at: u8) -> Option<(&[u8], &[u8])> {
        let place = self.iter().position(|byte| *byte == at)?;
        Some((self.get(..place)?, self.get(place + 1..)?))
    }
}

/// Finds the first word `SECONDS.FRACTION:`, and returns what precedes and follows it.
fn at_time(line: &[u8]) -> Option<(&[u8], u64, &[u8])> {
    let mut rest = line;
    while let Some(found) = word(&mut rest) {
        let is_time = found.contains(&b'.') && found.first().is_some_and(u8::is_ascii_digit);
        let time = found.strip_suffix(b":").filter(|_| is_time).and_then(seconds);
        if let Some(time) = time {
            let before = line.get(..line.len() - rest.len() - found.len())?;
            return Some((before, time, rest));
        }
    }
    None
}

/// Splits `COMM PID/TID [CPU]` or `COMM-TID [CPU] FLAGS` into the name and the numbers.
fn identity(before: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = before.trim_ascii();
    let open = rest.iter().rposition(|byte| *byte == b'[');
    if let Some(open) = open {
        let inside = rest.get(open + 1..)?.split(|byte| *byte == b']').next()?;
        if !inside.is_empty() && inside.iter().all(u8::is_ascii_digit) {
            rest = rest.get(..open)?.trim_ascii_end();
        }
    }
    let is_id = |byte: &u8| byte.is_ascii_digit() || *byte == b'/';
    let start = rest.iter().rposition(|byte| !is_id(byte))?;
    let ids = rest.get(start + 1..)?;
    let between = rest.get(start)?;
    let is_right = between.is_ascii_whitespace() || *between == b'-';
    (is_right && !ids.is_empty()).then_some((rest.get(..start)?.trim_ascii(), ids))
}

impl Parser for PerfScript {
    fn line(
        &mut self,
        line: &[u8],
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> bool {
        let text = line.trim_ascii();
        if let Some(machine) = text.strip_prefix(b"# arch : ") {
            self.machine = Some(String::from_utf8_lossy(machine.trim_ascii()).into_owned());
        }
        if text.is_empty() || text.starts_with(b"#") {
            return true;
        }
        let Some(event) = PerfScriptLine::read(line) else {
            // `ffffffff81234567 vfs_read+0x87 ([kernel.kallsyms])`
            let mut rest = text;
            let address = word(&mut rest).unwrap_or_default();
            let is_chain = address.len() >= 6 && address.iter().all(u8::is_ascii_hexdigit);
            if is_chain {
                notes.count("lines of call chains: skipped");
            }
            return is_chain;
        };
        self.event(&event, out, notes).is_some()
    }
}

impl PerfScript {
    fn event(
        &mut self,
        line: &PerfScriptLine<'_>,
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> Option<()> {
        let what = match kind(line, self.machine.as_deref(), notes) {
            KindFound::Kind(what) => what,
            KindFound::Skipped => return Some(()),
            KindFound::NotUnderstood => return None,
        };
        let PerfScriptLine { comm, task, time, .. } = *line;
        if task.tid.0 > 0 && self.is_new_name(task.tid, comm) {
            if !line.has_process {
                notes.count(
                    "threads without a process, each of which counts as one: perf script -F +pid",
                );
            }
            out.push(ImportedEvent { time, task, what: ImportedKind::Named(comm_of(comm), false) });
        }
        out.push(ImportedEvent { time, task, what });
        Some(())
    }

    fn is_new_name(&mut self, tid: Tid, comm: &[u8]) -> bool {
        if self.names.get(&tid).is_some_and(|known| *known == comm_of(comm)) {
            return false;
        }
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        self.names.insert(tid, comm_of(comm));
        true
    }
}

/// Result of the search for the kind of an event.
enum KindFound {
    Kind(ImportedKind),
    /// The event is not imported; it was counted.
    Skipped,
    NotUnderstood,
}

fn kind(line: &PerfScriptLine<'_>, machine: Option<&str>, notes: &mut ImportReport) -> KindFound {
    let name = std::str::from_utf8(line.event).unwrap_or_default();
    let found = |kind: Option<ImportedKind>| kind.map_or(KindFound::NotUnderstood, KindFound::Kind);
    if let Some(&(_, point)) = BLOCK_POINTS.iter().find(|row| row.0 == name) {
        return found(block(point, line).map(ImportedKind::Block));
    }
    let fields = line.fields;
    match (name, name.strip_prefix("sys_enter_"), name.strip_prefix("sys_exit_")) {
        ("sys_enter" | "sys_exit", ..) if machine.is_some_and(|known| known != MACHINE) => {
            notes.count("events of calls with the numbers of another machine: skipped");
            KindFound::Skipped
        }
        ("sys_enter" | "sys_exit", ..) => match raw_call(fields) {
            Some((Some(call), rest)) if name == "sys_enter" => {
                found(raw_arguments(rest).map(|args| ImportedKind::Enter(call, args)))
            }
            Some((Some(call), rest)) => {
                found(result(rest).map(|ret| ImportedKind::Exit(call, ret, Vec::new())))
            }
            Some((None, _)) => {
                notes.count("events of calls that are not recorded: skipped");
                KindFound::Skipped
            }
            None => KindFound::NotUnderstood,
        },
        (_, Some(call), _) => match CallId::by_common_name(call) {
            Some(id) => found(Some(ImportedKind::Enter(id, arguments(fields)))),
            None => skipped_call(call, notes),
        },
        (_, _, Some(call)) => match CallId::by_common_name(call) {
            Some(id) => found(
                value(fields).map(|value| ImportedKind::Exit(id, value.cast_signed(), Vec::new())),
            ),
            // Its entry was counted.
            None => KindFound::Skipped,
        },
        _ => {
            notes.count("events of other tracepoints: skipped");
            KindFound::Skipped
        }
    }
}

fn skipped_call(call: &str, notes: &mut ImportReport) -> KindFound {
    notes.unknown_call(call.as_bytes());
    KindFound::Skipped
}

/// Parses `8,0 R 4096 () 2048 + 8 [comm]`.
fn block(point: BlockPoint, line: &PerfScriptLine<'_>) -> Option<Block> {
    let mut rest = line.fields;
    let dev = device(word(&mut rest)?)?;
    let rwbs = word(&mut rest)?.to_vec();
    let (words, inside) = bracketed(rest);
    let is_end =
        matches!(point, BlockPoint::Complete | BlockPoint::BioComplete | BlockPoint::Requeue);
    let (comm, error) = match is_end {
        true => (Vec::new(), integer::<i32>(inside)?.min(0)),
        false => (comm_of(inside), 0),
    };
    Some(Block { rwbs, comm, error, ..extent(words, point, dev)? })
}

/// Parses `NR NUMBER …` with the numbers of x86-64.
fn raw_call(fields: &[u8]) -> Option<(Option<CallId>, &[u8])> {
    let mut rest = fields.strip_prefix(b"NR ")?;
    let number: i64 = integer(word(&mut rest)?)?;
    let row = CALLS.iter().find(|call| i64::from(call.x86_64) == number);
    Some((row.and_then(|call| CallId::by_name(call.name)), rest))
}

/// Parses `(3, 7ffc, …)`: six hexadecimal numbers.
fn raw_arguments(text: &[u8]) -> Option<[u64; 6]> {
    let inside = text.trim_ascii().strip_prefix(b"(")?.strip_suffix(b")")?;
    let mut numbers = inside.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let mut args = [0; 6];
    for arg in &mut args {
        *arg = hexadecimal(numbers.next()?)?;
    }
    Some(args)
}

/// Parses `= RESULT`.
fn result(text: &[u8]) -> Option<i64> {
    integer(text.trim_ascii().strip_prefix(b"= ")?)
}

/// Parses `NAME: VALUE, NAME: VALUE`: the arguments in the order of the call.
fn arguments(fields: &[u8]) -> [u64; 6] {
    let mut args = [0; 6];
    let values = fields.split(|byte| *byte == b',').filter_map(|field| {
        let (_, text) = field.split_once_at(b':')?;
        value(text)
    });
    args.iter_mut().zip(values).for_each(|(arg, value)| *arg = value);
    args
}

/// Parses a number as perf prints it, decimal or with `0x`; words after it are left out.
fn value(text: &[u8]) -> Option<u64> {
    let mut rest = text;
    let number = word(&mut rest)?;
    match number.strip_prefix(b"0x") {
        Some(digits) => hexadecimal(digits),
        None => integer::<u64>(number).or_else(|| integer::<i64>(number).map(i64::cast_unsigned)),
    }
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parser::parse_lines;
    use super::*;

    fn parsed(text: &str) -> (Vec<ImportedEvent>, ImportReport) {
        parse_lines(&mut PerfScript::default(), text)
    }

    #[track_caller]
    fn only(line: &str) -> ImportedEvent {
        let (events, notes) = parsed(line);
        assert_eq!(notes.unparsed(), 0, "{line}");
        events.last().unwrap_or_else(|| panic!("{line}: {notes:?}")).clone()
    }

    #[test]
    fn calls_are_read() {
        let read = CallId::by_name("read").expect("a row");
        let enter = only(
            "  my app  4162/4163 [001]    12.345678: syscalls:sys_enter_read: fd: 0x00000003, buf: 0x7ffc01, count: 0x00001000",
        );
        assert_eq!(enter.what, ImportedKind::Enter(read, [3, 0x7f_fc01, 4096, 0, 0, 0]));
        assert_eq!(enter.task, ImportedTask { pid: Pid(4162), tid: Tid(4163) });
        assert_eq!(enter.time, 12_345_678_000);
        let exit = only("cat  7 [000] 12.5: syscalls:sys_exit_read: 0xfffffffffffffffe");
        assert_eq!(exit.what, ImportedKind::Exit(read, -2, Vec::new()));
        let raw = only("cat  7 12.5:  raw_syscalls:sys_enter: NR 0 (3, 7ffc01, 1000, 0, 0, 0)");
        assert_eq!(raw.what, enter.what);
        let raw = only("cat  7 [000] 12.5:  raw_syscalls:sys_exit: NR 0 = -4");
        assert_eq!(raw.what, ImportedKind::Exit(read, -4, Vec::new()));
    }

    #[test]
    fn block_events_are_read() {
        let block = |line: &str| match only(line).what {
            ImportedKind::Block(block) => block,
            other => panic!("{other:?}"),
        };
        let issued =
            block("dd  9 [001] 1.5: block:block_rq_issue: 8,0 WS 4096 () 2048 + 8 none,0,0 [dd]");
        assert_eq!((issued.sector, issued.sectors), (2048, 8));
        assert_eq!((issued.rwbs.as_slice(), issued.comm.as_slice()), (&b"WS"[..], &b"dd"[..]));
        let done = block("<idle>-0 [000] d.h1. 1.6: block_rq_complete: 8,0 WS () 2048 + 8 [-5]");
        assert_eq!((done.point, done.error), (BlockPoint::Complete, -5));
        let remap = block("a-b-77  [000] ..... 1.6: block_bio_remap: 8,0 R 9 + 8 <- (8,1) 1");
        assert_eq!(remap.from.map(|from| from.1), Some(1));
    }

    #[test]
    fn other_lines_are_counted() {
        let (events, notes) = parsed(
            "# captured on: today

dd 9 [001] 1.5: sched:sched_switch: prev_comm=dd
dd 9 [001] 1.5: syscalls:sys_enter_brk: brk: 0x0
dd 9 [001] 1.5: syscalls:sys_exit_brk: 0x0
    ffffffff81234567 vfs_read+0x87 ([kernel.kallsyms])
what is this
",
        );
        assert_eq!((events.len(), notes.unparsed()), (0, 1));
        assert_eq!(notes.messages("lines").len(), 4, "{:?}", notes.messages("lines"));
    }

    proptest! {
        #[test]
        fn any_lines_are_read(line in "[a-z<>-]{0,5} ?[0-9/]{0,6} ?(\\[[0-9]{0,3}\\])? ?[0-9.]{0,6}:? ?(syscalls:|block:)?[a-z_]{0,18}:? ?[ -~]{0,40}") {
            parsed(&line);
        }
    }
}
