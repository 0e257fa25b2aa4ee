//! Reads of the kernel at the start of programs, derived at the end from the program's files.
//!
//! Input are the paths of execs. Output is a text for each program whose files could be read
//! ([`Text::PROGRAM`]), and the programs with a file that could not be read. The table of these
//! reads is in `docs/accounting.md`.
//!
//! The files may belong to other users, and their file systems may not respond, so a helper opens
//! and reads them ([`helper_main`]). An interpreter or loader is named in the previous file, so the
//! helper is asked in rounds.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::source::Described;
use crate::capture::fact::{Fact, Text};
use crate::capture::header::{UnreadProgram, UnreadPrograms};
use crate::event::decode::common_type;
use crate::sys::cancellation::Cancellation;
use crate::sys::clock;
use crate::sys::sandboxed_helper::{self, HelperFailure};
use crate::tracefs::{EventFormat, IntField, StringField};
use crate::units::Pid;

mod headers;
pub mod helper_main;
mod protocol;

use headers::{ELF_HEADER_BYTES, Headers, ProgramFormat};
use helper_main::BOUNDS;
use protocol::{FILES_MAX, HeaderReply, HeadersAnswer, HeadersQuestion};

/// Largest number of paths that are remembered.
const PATHS_MAX: usize = 1 << 12;

/// Largest depth of interpreters of interpreters that the kernel follows (`exec_binprm()` in
/// `fs/exec.c`).
const DEPTH_MAX: usize = 5;

/// Longest time for reading files, ns.
const READ_NS_MAX: u64 = 20_000_000_000;

/// Largest number of unread programs whose path and reason are logged.
const FIRST_MAX: usize = 8;

/// Hidden subcommand that starts this program as the helper that reads headers.
pub const VERB: &str = "read-headers";

/// Arguments that start this program, or its test program, as the helper.
const HELPER: &[&str] =
    if cfg!(test) { &["--exact", "tracer::programs::tests::helper", "--ignored"] } else { &[VERB] };

/// Programs that were started, by the path passed to the exec.
#[derive(Debug, Default)]
pub struct SeenPrograms {
    point: Option<(u16, IntField, StringField)>,
    /// Absolute paths. A relative path may begin at one of two directories.
    paths: BTreeSet<PathBuf>,
    directory: PathBuf,
}

impl SeenPrograms {
    /// Returns a collector for the execs that these tracepoints record; `None` if execs are not
    /// recorded.
    pub fn of(tracepoints: &[Described]) -> Option<Self> {
        let point = tracepoints.iter().find(|it| it.planned.name == "sched_process_exec")?;
        let format = EventFormat::parse(&point.format).ok()?;
        let fields = (format.int("common_pid").ok()?, format.string("filename").ok()?);
        let directory = std::env::current_dir().unwrap_or_default();
        Some(Self {
            point: Some((point.id, fields.0, fields.1)),
            paths: BTreeSet::new(),
            directory,
        })
    }

    /// Stores the path of a payload, if it belongs to an exec.
    pub fn note(&mut self, payload: &[u8]) {
        let Some((id, pid, filename)) = &self.point else { return };
        if common_type(payload) != Some(*id) || self.paths.len() >= PATHS_MAX {
            return;
        }
        let Some(path) = filename.read(payload).map(|it| Path::new(OsStr::from_bytes(it))) else {
            return;
        };
        // In these directories the tracer would find its own files.
        if path.starts_with("/dev/fd") || path.starts_with("/proc") {
            return;
        }
        self.paths.insert(self.directory.join(path));
        if path.is_relative()
            && let Some(pid) = pid.read_i64(payload)
            && let Ok(directory) = std::fs::read_link(format!("/proc/{pid}/cwd"))
        {
            self.paths.insert(directory.join(path));
        }
    }

    /// Has the files read. Returns the facts, and the programs with a file that exists and could
    /// not be read. A program that is gone or has another format gets no fact.
    pub fn describe(self, cancellation: &mut Cancellation<'_>) -> (Vec<Fact>, UnreadPrograms) {
        let (mut facts, mut unread) = (Vec::new(), UnreadPrograms::default());
        // On aarch64 the kernel reads a note, too, if it is configured so (`parse_elf_properties()`
        // in `fs/binfmt_elf.c`).
        if cfg!(not(target_arch = "x86_64")) {
            return (facts, unread);
        }
        let mut files = HeaderCache::new();
        files.read_with_next(self.paths.clone(), cancellation);
        for path in &self.paths {
            let without_dots = without_dots(path).into_os_string().into_encoded_bytes();
            match files.reads_of(path) {
                Ok((changed_ns, reads)) => {
                    let reads: Vec<String> = reads.iter().map(usize::to_string).collect();
                    let mut text = format!("{changed_ns}\n{}\n", reads.join(" ")).into_bytes();
                    text.extend_from_slice(&without_dots);
                    let (time, which) = (clock::now(), Text::PROGRAM);
                    facts.push(Fact::Text { time, which, pid: Pid(0), text });
                }
                Err(Some(reason)) => {
                    unread.programs += 1;
                    if unread.first.len() < FIRST_MAX {
                        let path = without_dots.escape_ascii().to_string();
                        unread.first.push(UnreadProgram { path, reason });
                    }
                }
                Err(None) => {}
            }
        }
        (facts, unread)
    }
}

/// Returns the path without `.` and empty components, as the path of an operation is composed.
fn without_dots(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Returns the first of these files that exists, and the files that the kernel opens to start it:
/// interpreters, then the loader. True if one of them could not be read. Such a file is left out,
/// together with the files that it needs, because a process that looks at it may block.
pub fn needed_by(
    first_of: &[PathBuf],
    cancellation: &mut Cancellation<'_>,
) -> (Vec<PathBuf>, bool) {
    let mut files = HeaderCache::new();
    files.read_with_next(first_of.iter().cloned().collect(), cancellation);
    let is_there =
        |it: &&PathBuf| !matches!(files.of.get(*it), None | Some(Err(HeadersError::Gone)));
    let mut needed = Vec::new();
    let mut next = first_of.iter().find(is_there);
    while let Some(path) = next.filter(|_| needed.len() <= DEPTH_MAX + 1) {
        next = match files.of.get(path) {
            Some(Ok(headers)) => headers.next(),
            Some(Err(HeadersError::Failed(_))) => return (needed, true),
            Some(Err(HeadersError::Gone)) | None => break,
            Some(Err(HeadersError::Other)) => None,
        };
        needed.push(path.clone());
    }
    (needed, false)
}

/// Reason why a file has no headers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HeadersError {
    /// The file does not exist.
    Gone,
    /// The file has another format.
    Other,
    /// The file could not be read; the reason as text.
    Failed(String),
}

/// Files that the helper was asked about.
struct HeaderCache {
    until: u64,
    of: BTreeMap<PathBuf, Result<Headers, HeadersError>>,
}

impl HeaderCache {
    fn new() -> Self {
        Self { until: clock::now().0.saturating_add(READ_NS_MAX), of: BTreeMap::new() }
    }

    /// Reads these files, and the files that they lead to.
    fn read_with_next(
        &mut self,
        mut wanted: BTreeSet<PathBuf>,
        cancellation: &mut Cancellation<'_>,
    ) {
        // Interpreters come first, then the loader.
        for _ in 0..=DEPTH_MAX + 1 {
            let mut waiting = Vec::from_iter(wanted);
            while !waiting.is_empty() {
                let later = waiting.split_off(waiting.len().min(FILES_MAX));
                waiting = self.read(waiting, cancellation);
                waiting.extend(later);
            }
            let next = self.of.values().filter_map(|it| it.as_ref().ok()?.next());
            wanted = next.filter(|it| !self.of.contains_key(*it)).cloned().collect();
        }
    }

    /// Asks about these files once. Returns those without a result caused by another file.
    fn read(&mut self, waiting: Vec<PathBuf>, cancellation: &mut Cancellation<'_>) -> Vec<PathBuf> {
        let is_late = clock::now().0 >= self.until;
        if is_late || cancellation.is_cancelled() {
            let why = if is_late { "the time was up" } else { "a signal came" };
            let missed =
                waiting.into_iter().map(|it| (it, Err(HeadersError::Failed(why.to_owned()))));
            self.of.extend(missed);
            return Vec::new();
        }
        let question = HeadersQuestion { paths: waiting };
        let reply = sandboxed_helper::run_helper(HELPER, &question.encode(), &BOUNDS, cancellation);
        let HeadersAnswer { replies, at_hand } =
            HeadersAnswer::decode(&reply.answer, question.paths.len());
        // A helper that cannot be started cannot be started for the other files, either.
        let is_none = matches!(reply.failure, Some(HelperFailure::NotStarted(_)));
        let is_of_all = reply.failure.as_ref().is_some_and(HelperFailure::is_of_all);
        let why = reply.failure.map_or("the answer makes no sense".to_owned(), |it| it.to_string());
        let mut left: BTreeMap<usize, PathBuf> = question.paths.into_iter().enumerate().collect();
        let is_innocent = is_of_all && !replies.is_empty() && at_hand.is_none();
        for (place, header_reply) in replies {
            let Some(path) = left.remove(&place) else { continue };
            self.of.insert(path, read(header_reply));
        }
        let blamed = at_hand.or_else(|| left.keys().next().copied()).filter(|_| !is_innocent);
        let blamed = blamed.and_then(|it| left.remove(&it));
        let others = std::mem::take(&mut left).into_values();
        let (missed, waiting): (Vec<_>, Vec<_>) = others.partition(|_| is_none);
        let missed = blamed.into_iter().chain(missed);
        self.of.extend(missed.map(|it| (it, Err(HeadersError::Failed(why.clone())))));
        waiting
    }

    /// Returns the time at which one of the program's files was last changed, ns of the wall clock,
    /// and the length of each read of the kernel. `None`: the program is gone, or has another
    /// format.
    fn reads_of(&self, program: &Path) -> Result<(i64, Vec<usize>), Option<String>> {
        let mut reads = Vec::new();
        let mut changed_ns = 0;
        let headers = |path: &Path| match self.of.get(path) {
            Some(Ok(headers)) => Ok(headers),
            Some(Err(HeadersError::Failed(why))) if path == program => Err(Some(why.clone())),
            Some(Err(HeadersError::Failed(why))) => {
                let path = path.as_os_str().as_encoded_bytes().escape_ascii();
                Err(Some(format!("its {path}: {why}")))
            }
            Some(Err(HeadersError::Gone | HeadersError::Other)) | None => Err(None),
        };
        let mut path = program;
        for _ in 0..=DEPTH_MAX {
            let file = headers(path)?;
            changed_ns = file.changed_ns.max(changed_ns);
            reads.push(file.head_bytes);
            match &file.format {
                ProgramFormat::Script { interpreter } => path = interpreter,
                ProgramFormat::Elf { table_bytes, loader } => {
                    reads.push(*table_bytes);
                    if let Some(loader) = loader {
                        let its = headers(loader)?;
                        let ProgramFormat::Elf { table_bytes, .. } = its.format else {
                            return Err(None);
                        };
                        changed_ns = its.changed_ns.max(changed_ns);
                        // The path ends with NUL.
                        reads.extend([loader.as_os_str().len() + 1, ELF_HEADER_BYTES, table_bytes]);
                    }
                    return Ok((changed_ns, reads));
                }
            }
        }
        Err(None)
    }
}

fn read(reply: HeaderReply) -> Result<Headers, HeadersError> {
    let failed = |why: &str| Err(HeadersError::Failed(why.to_owned()));
    match reply {
        HeaderReply::Read(headers) => Ok(headers),
        HeaderReply::Gone => Err(HeadersError::Gone),
        HeaderReply::Other => Err(HeadersError::Other),
        HeaderReply::NotRegular => {
            failed("it is not a regular file, or is in a file system of the kernel")
        }
        HeaderReply::Closed => failed("it cannot be opened or read"),
    }
}

#[cfg(test)]
mod tests;
