//! Parser of `strace -f -ttt -T -y`.
//!
//! strace stops threads, so its output is in the order of events: a call on one line ended before
//! the next line began. Times are printed in microseconds; equal ones get consecutive nanoseconds,
//! in the order of the lines. The begin of an interrupted call is emitted with its end, when all
//! its arguments are known.
//!
//! The type of an opened file is in the next line of its thread, if that queries it, as the C
//! library does: so the end of an open is emitted with the line after it. With `-y` a descriptor
//! that was open before shows its file at its first use, and `AT_FDCWD` the directory of the
//! process.

mod call;
mod prefix;
mod stat_text;
mod tasks;
mod value;

use rustc_hash::FxHashMap;

use super::constants::{ConstantTable, O_DIRECTORY};
use super::import_report::ImportReport;
use super::imported_event::{ImportedEvent, ImportedKind, ImportedTask, MemoryRead};
use super::lines::LINE_BYTES_MAX;
use super::parser::Parser;
use super::records::COMM_BYTES;
use crate::capture::fact::NameOf;
use crate::event::syscall_table::{CallClass, CallId, Role};
use call::{CallResult, GivenDescriptor, Parsed, clone_flags, half, parse, row, whole};
use prefix::{LineClock, Stamp, StampReading, name_of, prefix};
use tasks::StraceTasks;

/// Number of the thread in a log without thread IDs.
const ONLY_THREAD: i32 = 1;

/// Limit on the lines that wait for the start of their thread.
const HELD_MAX: usize = 1 << 14;

/// Calls that never return: the end of their task has a line of its own.
const ENDS: [&[u8]; 2] = [b"exit", b"exit_group"];

/// Parser of strace's output.
#[derive(Debug)]
pub(super) struct Strace {
    words: ConstantTable,
    clock: LineClock,
    tasks: StraceTasks,
    /// Thread of lines without a thread ID.
    main: i32,
    /// Begin of a line that was interrupted by a message of strace.
    carried: Vec<u8>,
    /// Lines of threads whose parent is not known yet.
    held: FxHashMap<i32, Vec<(u64, Vec<u8>)>>,
    held_lines: usize,
}

/// Output of the parser.
struct ParseOutput<'a> {
    events: &'a mut Vec<ImportedEvent>,
    notes: &'a mut ImportReport,
}

impl ParseOutput<'_> {
    fn emit(&mut self, time: u64, task: ImportedTask, what: ImportedKind) {
        self.events.push(ImportedEvent { time, task, what });
    }
}

impl Parser for Strace {
    fn line(
        &mut self,
        line: &[u8],
        events: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> bool {
        let mut out = ParseOutput { events, notes };
        if let Some(before) = without_message(line) {
            self.carried.extend_from_slice(before);
            if self.carried.len() > LINE_BYTES_MAX {
                self.carried.clear();
                return false;
            }
            return true;
        }
        let joined = (!self.carried.is_empty())
            .then(|| [std::mem::take(&mut self.carried).as_slice(), line].concat());
        let (tid, stamp, rest) = prefix(joined.as_deref().unwrap_or(line));
        if rest.is_empty() {
            return line.is_empty();
        }
        let tid = tid.or_else(|| self.tasks.only()).unwrap_or(self.main);
        if tid == ONLY_THREAD && self.tasks.thread(ONLY_THREAD).is_none() {
            out.notes.count("thread without a number: it gets number 1");
        }
        let time = self.time(stamp, out.notes);
        self.of(tid, time, rest, &mut out)
    }

    fn finish(&mut self, events: &mut Vec<ImportedEvent>, notes: &mut ImportReport) -> bool {
        let mut out = ParseOutput { events, notes };
        let mut held: Vec<i32> = self.held.keys().copied().collect();
        held.sort_unstable();
        for tid in held {
            self.tasks.begin(tid);
            self.parse_held(tid, &mut out);
        }
        for tid in self.tasks.tids() {
            self.emit_opened(tid, &[], &mut out);
            self.give_up(tid, &mut out);
        }
        false
    }
}

impl Strace {
    /// Creates a parser for a log that begins like this.
    pub(super) fn new(head: &[u8]) -> Self {
        Self {
            words: ConstantTable::new(),
            clock: LineClock::default(),
            tasks: StraceTasks::default(),
            main: first_thread(head).unwrap_or(ONLY_THREAD),
            carried: Vec::new(),
            held: FxHashMap::default(),
            held_lines: 0,
        }
    }

    fn time(&mut self, stamp: Option<Stamp>, notes: &mut ImportReport) -> u64 {
        let (time, reading) = self.clock.read(stamp);
        match reading {
            StampReading::Good => {}
            StampReading::Missing => {
                notes.count("lines without a time: each is 1 µs after the previous one")
            }
            StampReading::Back => {
                notes.count("lines with an earlier time than the previous one: moved after it")
            }
        }
        time
    }

    /// Parses a line of a thread.
    fn of(&mut self, tid: i32, time: u64, rest: &[u8], out: &mut ParseOutput<'_>) -> bool {
        if name_of(rest).is_some() && self.tasks.thread(tid).is_some_and(|thread| thread.is_ending)
        {
            self.end_incarnation(tid, time, out);
        }
        if self.tasks.thread(tid).is_none() && !self.appears(tid, time, rest, out) {
            return true;
        }
        // The begin of a query is handled together with its end.
        if !rest.starts_with(b"<... ") {
            self.emit_opened(tid, rest, out);
        }
        if rest.starts_with(b"+++ ") {
            return self.ends(tid, time, rest, out);
        }
        if rest.starts_with(b"--- ") {
            return true;
        }
        if rest.starts_with(b"<... ") {
            return self.resumed(tid, time, rest, out);
        }
        let cut = [&b"<unfinished ...>"[..], b"<detached ...>"].into_iter();
        let cut = cut.filter_map(|ending| rest.strip_suffix(ending)).next();
        let Some(begun) = cut else { return self.whole(tid, time, rest, None, out) };
        let Some((name, _)) = name_of(begun) else { return false };
        self.give_up(tid, out);
        self.calls_for_its_end(tid, name);
        if let Some(thread) = self.tasks.thread(tid) {
            thread.pending = Some((time, begun.to_vec()));
        }
        true
    }

    /// Handles the first line of a thread. False: its lines have to wait.
    fn appears(&mut self, tid: i32, time: u64, rest: &[u8], out: &mut ParseOutput<'_>) -> bool {
        let makers = self.tasks.inside(makes_tasks);
        match makers.as_slice() {
            [] => {}
            [maker] if !self.held.contains_key(&tid) => {
                self.is_born(*maker, tid, time, out);
                return true;
            }
            _ if self.held_lines < HELD_MAX => {
                self.held_lines += 1;
                self.held.entry(tid).or_default().push((time, rest.to_vec()));
                return false;
            }
            _ => out.notes.count("threads whose parent is not clear"),
        }
        self.tasks.begin(tid);
        self.parse_held(tid, out);
        true
    }

    /// Records a thread that was started by the call that its parent is inside.
    fn is_born(&mut self, parent: i32, tid: i32, time: u64, out: &mut ParseOutput<'_>) {
        let Some(thread) = self.tasks.thread(parent) else { return };
        let task = thread.task;
        let pending =
            thread.pending.as_ref().map(|pending| pending.1.as_slice()).unwrap_or_default();
        let (name, arguments) = name_of(pending).unwrap_or_default();
        let flags = clone_flags(name, arguments, &self.words).unwrap_or(0);
        self.born(task, tid, time, flags, out);
        if let Some(thread) = self.tasks.thread(tid) {
            thread.maker = Some(parent);
        }
    }

    fn calls_for_its_end(&mut self, tid: i32, name: &[u8]) {
        if let Some(thread) = self.tasks.thread(tid) {
            thread.is_ending |= ENDS.contains(&name);
        }
    }

    /// Ends the earlier task of this number, whose end is not in the log (`-qq`).
    fn end_incarnation(&mut self, tid: i32, time: u64, out: &mut ParseOutput<'_>) {
        for tid in self.tasks.incarnation(tid) {
            self.emit_opened(tid, &[], out);
            self.give_up(tid, out);
            if let Some(thread) = self.tasks.end(tid) {
                out.emit(time, thread.task, ImportedKind::Ended);
            }
        }
        out.notes.count("tasks that have ended before a task of the same number began");
    }

    /// Handles the end of a call of `tid` that started this child.
    fn made(&mut self, tid: i32, child: i32, time: u64, flags: u64, out: &mut ParseOutput<'_>) {
        let Some(task) = self.tasks.thread(tid).map(|thread| thread.task) else { return };
        match self.tasks.thread(child) {
            // The child has had lines meanwhile.
            Some(known) if known.maker == Some(tid) => known.maker = None,
            Some(_) => {
                self.end_incarnation(child, time, out);
                self.born(task, child, time, flags, out);
            }
            None => self.born(task, child, time, flags, out),
        }
    }

    fn born(
        &mut self,
        parent: ImportedTask,
        tid: i32,
        time: u64,
        flags: u64,
        out: &mut ParseOutput<'_>,
    ) {
        let child = self.tasks.born(parent, tid, flags);
        let first =
            self.held.get(&tid).and_then(|held| held.first()).map_or(time, |held| held.0.min(time));
        out.emit(first, parent, ImportedKind::Born(child, flags));
        self.parse_held(tid, out);
    }

    /// Parses the lines that waited for the start of their thread.
    fn parse_held(&mut self, tid: i32, out: &mut ParseOutput<'_>) {
        let held = self.held.remove(&tid).unwrap_or_default();
        self.held_lines = self.held_lines.saturating_sub(held.len());
        for (time, line) in held {
            if !self.of(tid, time, &line, out) {
                let number = out.notes.read;
                out.notes.not_understood(number, &line);
            }
        }
    }

    /// Parses the end of a task: `+++ exited with 0 +++`, `+++ killed by SIGKILL +++`, `+++
    /// superseded by execve in pid 7 +++`
    fn ends(&mut self, tid: i32, time: u64, rest: &[u8], out: &mut ParseOutput<'_>) -> bool {
        self.give_up(tid, out);
        if let Some(by) = rest.strip_prefix(b"+++ superseded by execve in pid ") {
            // From now on the other thread has this one's number.
            let other =
                value::number(by).and_then(|number| i32::try_from(number).ok()).unwrap_or(0);
            let pending = self.tasks.end(other).and_then(|end| end.pending);
            self.tasks
                .thread(tid)
                .into_iter()
                .for_each(|thread| thread.pending.clone_from(&pending));
            return true;
        }
        let Some(thread) = self.tasks.end(tid) else { return true };
        out.emit(time, thread.task, ImportedKind::Ended);
        true
    }

    /// Ends the wait for the end of the thread's call.
    fn give_up(&mut self, tid: i32, out: &mut ParseOutput<'_>) {
        let Some(thread) = self.tasks.thread(tid) else { return };
        let (task, pending) = (thread.task, thread.pending.take());
        let Some((start, text)) = pending else { return };
        let Some((name, arguments)) = name_of(&text) else { return };
        let Some(call) = row(name) else { return self.unknown(name, out) };
        let parsed = parse(call, &half(arguments), None, &self.words, out.notes);
        self.enters(call, &parsed, start, task, out);
    }

    /// Parses the end of a call such as `<... read resumed>"x", 1) = 1`
    fn resumed(&mut self, tid: i32, time: u64, rest: &[u8], out: &mut ParseOutput<'_>) -> bool {
        let Some(place) = rest.windows(8).position(|window| window == b"resumed>") else {
            return false;
        };
        let behind = rest.get(place + 8..).unwrap_or_default();
        let pending = self.tasks.thread(tid).and_then(|thread| thread.pending.take());
        let Some((start, begun)) = pending else {
            out.notes.count("ends of calls without a begin");
            return true;
        };
        let text = [begun.as_slice(), behind].concat();
        self.emit_opened(tid, &text, out);
        self.whole(tid, start, &text, Some(time), out)
    }

    /// Parses a call from its begin to its end; `end`: the time of the end, if it is on another
    /// line.
    fn whole(
        &mut self,
        tid: i32,
        start: u64,
        text: &[u8],
        end: Option<u64>,
        out: &mut ParseOutput<'_>,
    ) -> bool {
        let Some((name, arguments)) = name_of(text) else { return false };
        let Some((texts, outcome)) = whole(name, arguments, &self.words) else { return false };
        let Some(task) = self.tasks.thread(tid).map(|thread| thread.task) else { return false };
        if outcome.took.is_none() && outcome.ret.is_some() {
            out.notes.count("calls without a duration");
        }
        let took = outcome.took.unwrap_or(0);
        let end = match (end, outcome.took) {
            (None, _) => self.clock.after(start.saturating_add(took.max(1))),
            (Some(end), None) => end,
            (Some(end), Some(took)) => {
                let (end, was_set) = self.clock.end(start, end, took);
                if was_set {
                    out.notes.count(
                        "times at which the clock was set: times go on by the durations of calls",
                    );
                }
                end
            }
        };
        let child = outcome.ret.and_then(|ret| i32::try_from(ret).ok()).filter(|ret| *ret > 0);
        if let (Some(flags), Some(child)) = (clone_flags(name, arguments, &self.words), child) {
            self.made(tid, child, end, flags, out);
        }
        self.calls_for_its_end(tid, name);
        let Some(call) = row(name) else {
            self.unknown(name, out);
            return true;
        };
        let parsed = parse(call, &texts, outcome.ret, &self.words, out.notes);
        self.enters(call, &parsed, start, task, out);
        self.exits(call, parsed, outcome, end, task, out);
        true
    }

    fn unknown(&self, name: &[u8], out: &mut ParseOutput<'_>) {
        if !ENDS.contains(&name) {
            out.notes.unknown_call(name);
        }
    }

    fn enters(
        &mut self,
        call: CallId,
        parsed: &Parsed,
        time: u64,
        task: ImportedTask,
        out: &mut ParseOutput<'_>,
    ) {
        let process = self.tasks.process(task.pid);
        if let Some(path) = &parsed.directory
            && !std::mem::replace(&mut process.knows_directory, true)
        {
            out.emit(time, task, ImportedKind::Directory(path.clone()));
        }
        for GivenDescriptor { fd, link, is_directory } in &parsed.given {
            if process.fds.insert(fd.0) {
                // strace does not print how it was opened: the flags permit all operations in the
                // log.
                let flags = if *is_directory { O_DIRECTORY } else { libc::O_RDWR.cast_unsigned() };
                out.emit(time, task, ImportedKind::Open(*fd, link.clone(), flags));
            }
        }
        out.emit(time, task, ImportedKind::Enter(call, parsed.args));
    }

    fn exits(
        &mut self,
        call: CallId,
        parsed: Parsed,
        outcome: CallResult,
        time: u64,
        task: ImportedTask,
        out: &mut ParseOutput<'_>,
    ) {
        let Some(ret) = outcome.ret else { return };
        let row = call.call();
        let process = self.tasks.process(task.pid);
        if matches!(
            row.class,
            CallClass::Open | CallClass::Dup | CallClass::Control | CallClass::Make(_)
        ) {
            process.fds.extend(i32::try_from(ret).ok().filter(|number| *number >= 0));
        }
        let mut reads = parsed.reads;
        if row.class == CallClass::MakePair {
            let made =
                reads.iter().find_map(|byte| byte.bytes.as_chunks::<4>().0.first_chunk::<2>());
            process.fds.extend(made.into_iter().flatten().map(|made| i32::from_le_bytes(*made)));
        }
        if row.class == CallClass::Place && ret == 0 {
            // The process has left the directory of the start.
            process.knows_directory = true;
        }
        if row.is_exec() && ret == 0 {
            let path = reads.iter().find(|byte| byte.of == NameOf::Argument);
            let name = path.map(|path| last(&path.bytes)).unwrap_or_default();
            out.emit(time, task, ImportedKind::Named(name.to_vec(), true));
        }
        if let Some(bytes) = outcome.link.filter(|_| row.class == CallClass::Open) {
            reads.push(MemoryRead::link(bytes, None));
        }
        if row.arg(Role::Path).is_some() && !reads.iter().any(|byte| byte.of == NameOf::Argument) {
            out.notes.count("calls without a printed path");
        }
        let opened = reads
            .last()
            .filter(|byte| byte.of == NameOf::Link)
            .and_then(|_| i32::try_from(ret).ok());
        let exit = ImportedEvent { time, task, what: ImportedKind::Exit(call, ret, reads) };
        match (opened, self.tasks.thread(task.tid.0)) {
            (Some(fd), Some(thread)) => thread.opened = Some((fd, exit)),
            _ => out.events.push(exit),
        }
    }

    /// Emits the end of an open before this line of its thread, which may show the type of the
    /// opened file.
    fn emit_opened(&mut self, tid: i32, line: &[u8], out: &mut ParseOutput<'_>) {
        let Some(thread) = self.tasks.thread(tid) else { return };
        let opened = thread.opened.take_if(|opened| !stat_text::begins_query(line, opened.0));
        let Some((fd, mut exit)) = opened else { return };
        if let ImportedKind::Exit(_, _, reads) = &mut exit.what
            && let Some(link) = reads.last_mut()
        {
            link.stat = stat_text::stat(line, fd, &self.words);
        }
        out.events.push(exit);
    }
}

/// Kernel's name of a task after an exec: the last part of the path (`begin_new_exec()` in
/// `fs/exec.c`).
fn last(path: &[u8]) -> &[u8] {
    let name = path.rsplit(|path| *path == b'/').next().unwrap_or(path);
    name.get(..COMM_BYTES).unwrap_or(name)
}

fn makes_tasks(text: &[u8]) -> bool {
    [&b"clone("[..], b"clone3(", b"fork(", b"vfork("].into_iter().any(|name| text.starts_with(name))
}

/// True if strace may have printed a line.
pub(super) fn is_line(line: &[u8]) -> bool {
    let rest = prefix(line).2;
    let is_call = name_of(rest).is_some_and(|(_, arguments)| {
        arguments.ends_with(b"<unfinished ...>")
            || value::arguments(arguments)
                .is_some_and(|argument| argument.1.trim_ascii_start().starts_with(b"="))
    });
    is_call || rest.starts_with(b"<... ") || rest.starts_with(b"+++ ")
}

/// Text before a message of strace, which it prints in the middle of a line.
fn without_message(line: &[u8]) -> Option<&[u8]> {
    let is_end = line.ends_with(b" attached") || line.ends_with(b" detached");
    let place =
        line.windows(16).rposition(|window| window == b"strace: Process ").filter(|_| is_end)?;
    line.get(..place)
}

/// Number of the first thread, if the lines do not have it: many programs query it when they begin.
fn first_thread(head: &[u8]) -> Option<i32> {
    let unnamed = head.split(|head| *head == b'\n').filter(|part| prefix(part).0.is_none());
    let mut answers = unnamed.filter_map(|unnamed| {
        let (name, _) = name_of(prefix(unnamed).2)?;
        let answer = unnamed
            .windows(3)
            .rposition(|window| window == b" = ")
            .and_then(|at| unnamed.get(at + 3..))?;
        let is_query = matches!(name, b"set_tid_address" | b"gettid");
        value::number(answer).filter(|_| is_query)
    });
    answers.next().and_then(|answer| i32::try_from(answer).ok())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
