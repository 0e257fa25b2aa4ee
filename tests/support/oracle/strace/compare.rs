//! Our operations against strace's calls, thread by thread and call by call.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use super::arguments::{Annotated, quoted, split_arguments};
use super::names::{errno_number, kernel_name};
use super::{Call, Log};
use crate::support::driver::json::JsonOperation;
use crate::support::oracle::name_compare::{NameJudgement, Score, Truth, is_open};
use iotrace_perf::event::syscall_table::{CALLS, CallClass, Role};

/// Result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Differences; empty if all is well.
    pub differences: Vec<String>,
    /// Calls that both have.
    pub calls: usize,
    /// Paths of successful opens that were compared.
    pub paths: usize,
    /// Paths that calls were given.
    pub given: usize,
    /// Names of all opens. Those that are wrong are differences, too.
    pub opens: Score,
    /// Names of descriptors that calls worked on.
    pub held: usize,
}

impl Comparison {
    fn add(&mut self, other: Self) {
        self.differences.extend(other.differences);
        self.calls += other.calls;
        self.paths += other.paths;
        self.given += other.given;
        self.held += other.held;
        self.opens.add(other.opens);
    }
}

/// The differences between a log of strace and our operations, for the calls of these names (the
/// kernel's). Nothing to compare is a difference, too.
///
/// Compared are name, descriptors, result and error of every call of every thread that strace saw,
/// in order; the paths that calls are given, if ours were read in time; and, if strace ran with
/// `-y`, what opens became and what descriptors are. strace runs below our tracer, so threads are
/// known by the same numbers. Tolerated are only:
///
/// * operations of threads that strace did not see (itself);
/// * in its first thread, operations before its first call: strace's own between fork and exec;
/// * a call that never returned (killed, or ended by another thread's exec): it may be missing in
///   ours, or have any result.
pub(crate) fn compare(log: &Log, ours: &[JsonOperation], names: &[&str]) -> Vec<String> {
    compare_counted(log, ours, names).differences
}

/// As [`compare`], and returns how much was compared.
pub(crate) fn compare_counted(log: &Log, ours: &[JsonOperation], names: &[&str]) -> Comparison {
    let mut comparison = Comparison::default();
    let moved = RenamedParts::of(log);
    let mut by_thread: BTreeMap<i32, Vec<&JsonOperation>> = BTreeMap::new();
    for operation in ours.iter().filter(|it| names.contains(&it.name.as_str())) {
        by_thread.entry(operation.tid).or_default().push(operation);
    }
    for (&tid, calls) in &log.calls {
        let theirs: Vec<&Call> =
            calls.iter().filter(|it| names.contains(&kernel_name(&it.name))).collect();
        let mut ours = by_thread.remove(&tid).unwrap_or_default();
        ours.sort_by_key(|it| it.start_ns);
        let first = log.first == Some(tid);
        comparison.add(aligned(tid, &theirs, &ours, first, &moved));
    }
    if comparison.calls == 0 {
        comparison.differences.push("no call was compared".to_owned());
    }
    for line in &log.unknown {
        comparison.differences.push(format!("a line of strace is not understood: {line}"));
    }
    comparison
}

/// Compares a thread; of the first one, what it did before its first call is left out. How much
/// that is depends on how many calls that never returned are missing in ours.
fn aligned(
    tid: i32,
    theirs: &[&Call],
    ours: &[&JsonOperation],
    first: bool,
    moved: &RenamedParts,
) -> Comparison {
    if !first {
        return thread(tid, theirs, ours, moved);
    }
    let least = ours.len().saturating_sub(theirs.len());
    let unfinished = theirs.iter().filter(|it| it.unfinished).count();
    let after = |skipped| thread(tid, theirs, ours.get(skipped..).unwrap_or_default(), moved);
    let mut found = (least..=least + unfinished).map(after);
    let best = found.find(|it| it.differences.is_empty());
    best.unwrap_or_else(|| after(least))
}

fn thread(tid: i32, theirs: &[&Call], ours: &[&JsonOperation], moved: &RenamedParts) -> Comparison {
    let mut comparison = Comparison::default();
    let mut rest = ours.iter();
    for (index, call) in theirs.iter().enumerate() {
        let name = kernel_name(&call.name);
        let next = rest.as_slice().first().copied();
        if call.unfinished {
            let there = next.is_some_and(|it| it.name == name && it.fd_matches(call));
            if there {
                rest.next();
            }
            continue;
        }
        let Some(operation) = rest.next() else {
            let missing = theirs.iter().skip(index).filter(|it| !it.unfinished).count();
            let text = show(call);
            comparison.differences.push(format!("tid {tid}: {missing} calls missing from: {text}"));
            return comparison;
        };
        if operation.name != name {
            // The lines below are shifted: more of them would add nothing.
            comparison.differences.push(format!(
                "tid {tid} call {index}: strace has {}, ours is {operation:?}",
                show(call)
            ));
            return comparison;
        }
        comparison.calls += 1;
        let mut found = differences(call, operation);
        if is_open(name) {
            found.extend(opened(call, operation, &mut comparison));
        } else {
            found.extend(given_paths(call, operation, &mut comparison.given));
            found.extend(held_path(call, operation, moved, &mut comparison.held));
        }
        let lines =
            found.into_iter().map(|it| format!("tid {tid} call {index} {}: {it}", show(call)));
        comparison.differences.extend(lines);
    }
    for operation in rest {
        comparison.differences.push(format!("tid {tid}: strace does not have {operation:?}"));
    }
    comparison
}

fn differences(call: &Call, ours: &JsonOperation) -> Vec<String> {
    let mut found = Vec::new();
    if !ours.fd_matches(call) {
        found.push(format!("descriptor {:?}, ours {:?}", expected_fd(call), ours.fd));
    }
    let expected = expected_second(call);
    // The numbers of a pair are in memory, which may be read too late.
    let is_unread = pair(call).is_some() && ours.fd.is_none() && ours.fd2.is_none();
    if ours.fd2 != expected && !is_unread {
        found.push(format!("second descriptor {expected:?}, ours {:?}", ours.fd2));
    }
    let number = call.errno.as_deref().map(errno_number);
    let result = match number {
        None => call.ret,
        Some(number) => number.map(|it| -i64::from(it)),
    };
    if result.is_none() || ours.result != result {
        found.push(format!("result {result:?}, ours {:?}", ours.result));
    }
    let our_errno = ours.errno.as_deref().map(errno_number);
    if our_errno != number {
        found.push(format!("error {:?}, ours {:?}", call.errno, ours.errno));
    }
    found
}

/// Adds the differences of an open's name.
fn opened(call: &Call, ours: &JsonOperation, comparison: &mut Comparison) -> Vec<String> {
    let failed = call.errno.is_some();
    if !failed && call.ret_path.is_none() {
        // Without `-y`: what it became is not known.
        return Vec::new();
    }
    let truth = Truth::of(call);
    let is_known = !matches!(truth.verdict(ours), NameJudgement::Unknown);
    comparison.paths += usize::from(!failed && is_known);
    comparison.given += usize::from(failed && is_given(ours.path_source.as_deref()));
    let mut score = Score::default();
    score.judge(&truth, ours);
    let wrong = score.wrong.clone();
    comparison.opens.add(score);
    wrong
}

/// True for a path as the program passed it.
fn is_given(source: Option<&str>) -> bool {
    matches!(source, Some("argument" | "uprobe-string" | "kernel-string"))
}

/// The paths that a call was given, if ours were read in time.
fn given_paths(call: &Call, ours: &JsonOperation, given: &mut usize) -> Vec<String> {
    let row = CALLS.iter().find(|it| it.name == kernel_name(&call.name));
    let (arguments, _) = split_arguments(&call.args_text);
    let second = row.and_then(|it| arguments.get(it.arg(Role::Path2)?)).and_then(|it| quoted(it));
    let first = (&call.path_argument, &ours.path_source, ours.path());
    let second = (&second, &ours.path2_source, ours.path2());
    let mut found = Vec::new();
    for (expected, source, reported) in [first, second] {
        let Some(expected) = expected else { continue };
        if !is_given(source.as_deref()) {
            continue;
        }
        *given += 1;
        if reported.as_ref() != Some(expected) {
            let expected = String::from_utf8_lossy(expected);
            found.push(format!("given {expected:?}, ours {ours:?}"));
        }
    }
    found
}

/// The file of the descriptor that a call works on. Ours is what it was called when it was opened.
fn held_path(
    call: &Call,
    ours: &JsonOperation,
    moved: &RenamedParts,
    held: &mut usize,
) -> Option<String> {
    let row = CALLS.iter().find(|it| it.name == kernel_name(&call.name))?;
    let expected = call.fd_path.as_deref().filter(|it| it.starts_with(b"/"))?;
    if row.arg(Role::Fd) != Some(0) {
        return None;
    }
    let reported = match ours.path_source.as_deref() {
        Some("fd-link" | "fanotify" | "snapshot") => {
            *held += 1;
            ours.path()?
        }
        // As the program spelled it: it leads to the file if that is still there.
        Some("uprobe-string" | "kernel-string") => {
            let spelled = ours.path_absolute.as_deref().or(ours.path.as_deref())?;
            let found = Path::new(spelled).is_absolute().then(|| fs::canonicalize(spelled))?;
            let found = found.ok()?.into_os_string().into_vec();
            *held += 1;
            found
        }
        _ => return None,
    };
    let name = expected.strip_suffix(b" (deleted)").unwrap_or(expected);
    let is_same = reported == expected || reported == name || moved.may_be(&reported, name);
    (!is_same).then(|| format!("works on {:?}, ours {ours:?}", String::from_utf8_lossy(expected)))
}

/// Files that got other names during the run: the last parts of what was given.
#[derive(Debug, Default)]
struct RenamedParts {
    from: BTreeSet<Vec<u8>>,
    to: BTreeSet<Vec<u8>>,
}

impl RenamedParts {
    fn of(log: &Log) -> Self {
        let mut moved = Self::default();
        let moves = |it: &Call| it.name.starts_with("rename") || it.name.starts_with("link");
        for (_, call) in log.all().filter(|it| it.1.errno.is_none() && moves(it.1)) {
            let Some(row) = CALLS.iter().find(|it| it.name == kernel_name(&call.name)) else {
                continue;
            };
            let (arguments, _) = split_arguments(&call.args_text);
            let path = |role| quoted(arguments.get(row.arg(role)?)?);
            if let (Some(from), Some(to)) = (path(Role::Path), path(Role::Path2)) {
                moved.from.insert(last_part(&from).to_vec());
                moved.to.insert(last_part(&to).to_vec());
            }
        }
        moved
    }

    fn may_be(&self, before: &[u8], now: &[u8]) -> bool {
        self.from.contains(last_part(before)) && self.to.contains(last_part(now))
    }
}

fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|&it| it == b'/').next().unwrap_or_default()
}

impl JsonOperation {
    fn fd_matches(&self, call: &Call) -> bool {
        let expected = expected_fd(call);
        // A descriptor below 0 is none.
        let may_be_unread = || expected.is_some_and(|it| it < 0) || pair(call).is_some();
        self.fd == expected || (self.fd.is_none() && may_be_unread())
    }
}

/// The descriptor that we report for a call: of an open the new one, of a transfer the source.
fn expected_fd(call: &Call) -> Option<i32> {
    if let Some([first, _]) = pair(call) {
        return Some(first);
    }
    let name = kernel_name(&call.name);
    let row = CALLS.iter().find(|it| it.name == name);
    match row.map(|it| (it.class, it.arg(Role::Fd))) {
        Some((CallClass::Open | CallClass::Make(_), _)) => returned_fd(call),
        Some((_, Some(index))) => argument_fd(call, index),
        _ => None,
    }
}

/// The second one: the target of a transfer, the duplicate.
fn expected_second(call: &Call) -> Option<i32> {
    if let Some([_, second]) = pair(call) {
        return Some(second);
    }
    match kernel_name(&call.name) {
        "dup" => returned_fd(call),
        // Requested bytes, and the result, if the call did not fail.
        "dup2" | "dup3" => argument_fd(call, 1),
        "fcntl" if call.args_text.contains("F_DUPFD") => returned_fd(call),
        "sendfile64" => call.fd,
        "splice" | "copy_file_range" => argument_fd(call, 2),
        "tee" => argument_fd(call, 1),
        _ => None,
    }
}

/// The descriptors that a call has made and written to memory.
fn pair(call: &Call) -> Option<[i32; 2]> {
    let index = match kernel_name(&call.name) {
        "pipe" | "pipe2" => 0,
        "socketpair" => 3,
        _ => return None,
    };
    let (arguments, _) = split_arguments(&call.args_text);
    let inside = arguments.get(index)?.strip_prefix('[')?.strip_suffix(']')?;
    let (numbers, _) = split_arguments(inside);
    let number = |at: usize| Annotated::parse(numbers.get(at)?).number?.try_into().ok();
    Some([number(0)?, number(1)?])
}

fn returned_fd(call: &Call) -> Option<i32> {
    call.ret.filter(|&it| it >= 0).and_then(|it| i32::try_from(it).ok())
}

fn argument_fd(call: &Call, index: usize) -> Option<i32> {
    let (arguments, _) = split_arguments(&call.args_text);
    arguments.get(index).and_then(|it| Annotated::parse(it).number?.try_into().ok())
}

fn show(call: &Call) -> String {
    let Call { name, args_text, ret, errno, .. } = call;
    let arguments: String = args_text.chars().take(120).collect();
    let error = errno.as_deref().unwrap_or_default();
    let result = ret.map_or("?".to_owned(), |it| it.to_string());
    format!("`{name}({arguments}) = {result} {error}`")
}
