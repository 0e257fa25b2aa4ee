//! Reads what `strace -f -o FILE` wrote (with or without `-y`, `-T`, `-ttt`, `-x`, `-xx`): the
//! independent witness of which system calls a program made.
//!
//! ```text
//!   812 read(3</etc/passwd>,  <unfinished ...>       a call in two lines, others' between
//!   813 close(4</tmp/x y>) = 0
//!   812 <... read resumed>"root:x"..., 4096) = 1411
//!   812 +++ exited with 0 +++
//!       └─ lines by thread ──► whole calls ──► Call { name, fd, result, errno, paths }
//! ```

pub(crate) mod arguments;
pub(crate) mod compare;
pub(crate) mod names;

use std::collections::BTreeMap;
use std::path::Path;

use arguments::{Annotated, split_arguments};

/// One system call of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// The name as strace writes it; [`names::kernel_name`] gives the kernel's.
    pub name: String,
    /// The descriptor in the first argument.
    pub fd: Option<i32>,
    /// File of the descriptor, as `-y` shows it.
    pub fd_path: Option<Vec<u8>>,
    /// All arguments, as written.
    pub args_text: String,
    /// The result; `None` for `?` (the call never returned, or a signal will restart it).
    pub ret: Option<i64>,
    /// "ENOENT"; also "ERESTARTSYS" and its like, which only a tracer sees.
    pub errno: Option<String>,
    /// The path that the call was given, unescaped.
    pub path_argument: Option<Vec<u8>>,
    /// File of a returned descriptor, as `-y` shows it and `readlink` would give it.
    pub ret_path: Option<Vec<u8>>,
    /// The call was still open when the thread ended or the log did.
    pub unfinished: bool,
    /// Seconds of the timestamp as written by `-ttt`, if there is one.
    pub time: Option<String>,
}

/// Relation between processes: parent and child, or a new program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// A successful `fork`, `vfork`, `clone` or `clone3`.
    Child { parent: i32, child: i32, thread: bool },
    /// A successful `execve` or `execveat`.
    Exec { pid: i32, path: Vec<u8> },
}

/// End of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Exit status.
    Exited(i32),
    /// Name of the signal.
    Killed(String),
    /// An `execve` of this thread of its process took over its number.
    Superseded(i32),
}

/// A log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    /// The calls of each thread, in order; the key is the tid (0 in a log without pids).
    pub calls: BTreeMap<i32, Vec<Call>>,
    /// The first thread of the log: it was started by strace.
    pub first: Option<i32>,
    /// In the order of their ends.
    pub relations: Vec<Relation>,
    /// End of each thread.
    pub ends: BTreeMap<i32, End>,
    /// Signals delivered: thread and name.
    pub signals: Vec<(i32, String)>,
    /// Lines that were not understood. A test wants none.
    pub unknown: Vec<String>,
}

/// The first half of a call, by thread.
type Halves = BTreeMap<i32, (Option<String>, String)>;

impl Log {
    /// Reads a log file.
    pub(crate) fn read(path: &Path) -> std::io::Result<Self> {
        Ok(Self::parse(&String::from_utf8_lossy(&std::fs::read(path)?)))
    }

    /// Reads the text of a log.
    pub(crate) fn parse(text: &str) -> Self {
        let mut log = Self::default();
        let mut halves = Halves::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (pid, line_of_pid) = pid_prefix(line);
            let (time, content) = time_prefix(line_of_pid);
            log.first.get_or_insert(pid);
            if log.line(pid, time, content, &mut halves).is_none() {
                log.unknown.push(line.to_owned());
            }
        }
        for (pid, (time, text)) in halves {
            log.unfinished(pid, time, &text);
        }
        log
    }

    /// The calls of all threads, with their threads.
    pub(crate) fn all(&self) -> impl Iterator<Item = (i32, &Call)> {
        self.calls.iter().flat_map(|(pid, calls)| calls.iter().map(|call| (*pid, call)))
    }

    fn line(
        &mut self,
        pid: i32,
        time: Option<&str>,
        line: &str,
        halves: &mut Halves,
    ) -> Option<()> {
        if let Some(text) = line.strip_prefix("+++ ") {
            return self.end(pid, text.strip_suffix(" +++")?, halves);
        }
        if let Some(text) = line.strip_prefix("--- ") {
            let signal = text.split(' ').next()?;
            self.signals.push((pid, signal.to_owned()));
            return Some(());
        }
        if line.starts_with("strace: ") || line.starts_with("[ Process PID=") {
            return Some(());
        }
        let time = time.map(str::to_owned);
        let (time, whole) = match line.strip_prefix("<... ") {
            Some(rest) => {
                let (_, second) = rest.split_once(" resumed>")?;
                let (first_time, first) = halves.remove(&pid)?;
                (first_time.or(time), first + second)
            }
            None => (time, line.to_owned()),
        };
        if let Some(first) = whole.strip_suffix("<unfinished ...>") {
            halves.insert(pid, (time, first.to_owned()));
            return Some(());
        }
        let call = Call { time, ..Call::parse(&whole)? };
        self.relate(pid, &call);
        self.calls.entry(pid).or_default().push(call);
        Some(())
    }

    fn end(&mut self, pid: i32, text: &str, halves: &mut Halves) -> Option<()> {
        let end = if let Some(status) = text.strip_prefix("exited with ") {
            End::Exited(status.parse().ok()?)
        } else if let Some(signal) = text.strip_prefix("killed by ") {
            End::Killed(signal.split(' ').next()?.to_owned())
        } else {
            let text = text.strip_prefix("superseded by execve in pid ")?;
            let by: i32 = text.parse().ok()?;
            // The other thread goes on under this number, and so does its execve.
            let execve = halves.remove(&by);
            if let Some((time, text)) = halves.remove(&pid) {
                self.unfinished(pid, time, &text);
            }
            halves.extend(execve.map(|half| (pid, half)));
            self.ends.insert(pid, End::Superseded(by));
            return Some(());
        };
        if let Some((time, text)) = halves.remove(&pid) {
            self.unfinished(pid, time, &text);
        }
        self.ends.insert(pid, end);
        Some(())
    }

    fn unfinished(&mut self, pid: i32, time: Option<String>, text: &str) {
        match Call::parse_unfinished(text) {
            Some(call) => self.calls.entry(pid).or_default().push(Call { time, ..call }),
            None => self.unknown.push(text.to_owned()),
        }
    }

    fn relate(&mut self, pid: i32, call: &Call) {
        let Some(ret) = call.ret.filter(|_| call.errno.is_none()) else { return };
        match call.name.as_str() {
            "clone" | "clone3" | "fork" | "vfork" if ret > 0 => {
                let thread = call.args_text.contains("CLONE_THREAD");
                let Ok(child) = i32::try_from(ret) else { return };
                self.relations.push(Relation::Child { parent: pid, child, thread });
            }
            "execve" | "execveat" => {
                let path = call.path_argument.clone().unwrap_or_default();
                self.relations.push(Relation::Exec { pid, path });
            }
            _ => {}
        }
    }
}

impl Call {
    /// Reads `name(arguments) = result`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        if !is_name(name) {
            return None;
        }
        let (arguments, length) = split_arguments(rest);
        let result = rest.get(length..)?.strip_prefix(')')?.trim_start().strip_prefix("= ")?;
        let mut call = Self::with_arguments(name, &arguments, rest.get(..length)?);
        call.result(result)?;
        Some(call)
    }

    /// Reads the `name(arguments` of a call that was still open.
    fn parse_unfinished(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        let (arguments, length) = split_arguments(rest);
        let call = Self::with_arguments(name, &arguments, rest.get(..length)?);
        is_name(name).then_some(Self { unfinished: true, ..call })
    }

    fn with_arguments(name: &str, arguments: &[&str], text: &str) -> Self {
        let first = arguments.first().map(|it| Annotated::parse(it));
        let path = names::path_argument(name).and_then(|index| arguments.get(index));
        let args_text = text.trim_end().trim_end_matches("<unfinished ...>").trim_end();
        Self {
            name: name.to_owned(),
            fd: first.as_ref().and_then(|it| it.number).and_then(|it| i32::try_from(it).ok()),
            fd_path: first.and_then(|it| it.path),
            args_text: args_text.to_owned(),
            path_argument: path.and_then(|it| arguments::quoted(it)),
            ..Self::default()
        }
    }

    /// Reads the text after `= `.
    fn result(&mut self, text: &str) -> Option<()> {
        let word = text.split(' ').next()?;
        if word == "?" {
            // `?` without an error is a call that never returned.
            self.errno =
                text.split(' ').nth(1).filter(|it| it.starts_with("ERESTART")).map(str::to_owned);
            self.unfinished = self.errno.is_none();
            return Some(());
        }
        let value = Annotated::parse(text);
        self.ret = Some(value.number?);
        self.ret_path = value.path;
        if self.ret == Some(-1) {
            self.errno = text.split(' ').nth(1).filter(|it| is_errno(it)).map(str::to_owned);
        }
        Some(())
    }
}

fn is_name(text: &str) -> bool {
    let allowed = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
    !text.is_empty() && text.chars().all(allowed)
}

fn is_errno(text: &str) -> bool {
    text.len() > 1
        && text.starts_with('E')
        && text.chars().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_')
}

/// Takes `812 ` or `[pid   812] ` from the line: with `-f` every line has it.
fn pid_prefix(line: &str) -> (i32, &str) {
    let plain = line.split_once(' ');
    let bracketed = line.strip_prefix("[pid ").and_then(|it| it.trim_start().split_once("] "));
    bracketed
        .or(plain)
        .and_then(|(pid, rest)| Some((pid.parse().ok()?, rest.trim_start())))
        .unwrap_or((0, line))
}

/// Takes `1700000000.123456 ` or `12:34:56 ` from the line.
fn time_prefix(line: &str) -> (Option<&str>, &str) {
    match line.split_once(' ') {
        Some((time, rest))
            if time.starts_with(|it: char| it.is_ascii_digit())
                && time.chars().all(|it| it.is_ascii_digit() || it == '.' || it == ':') =>
        {
            (Some(time), rest.trim_start())
        }
        _ => (None, line),
    }
}
