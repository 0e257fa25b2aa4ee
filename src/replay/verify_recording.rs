//! Verifies a recording of a replay: compares the replayed plan with a plan of the recording,
//! operation by operation.
//!
//! ```text
//!   PLAN       worker 3      open /a    read 4096 at 0    close
//!   RECORDING  "replay 3"    open DIR/files/a    read 4096 at 0    (dup)    close
//! ```

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use zstd::bulk::Decompressor;

use super::outcome::{makes_descriptor, outcome};
use super::plan::dependencies::{OpId, Worker};
use super::plan::links::SymlinkMap;
use super::plan::namespace::FsModel;
use super::plan::plan_file::{FileKind, Index, Operation, PlanError, PlanReader};
use super::plan::replay_paths::is_kernels;
use crate::event::syscall_table::{Call, CallClass, CallId, Role};

/// Name of the threads of a replay, followed by the number of the worker.
pub const THREAD_NAME: &str = "replay ";

/// Number of planned operations that are searched for the counterpart of a recorded one.
const AHEAD_MAX: usize = 32;

/// Bytes of compared operations that are kept before they are dropped.
const DONE_BYTES_MAX: usize = 1 << 20;

/// Number of differing operations that are kept at most.
const EXAMPLES_MAX: usize = 1000;

/// Plan with its index and names.
#[derive(Debug)]
pub struct PlanSide {
    reader: PlanReader,
    index: Index,
    names: FxHashMap<u32, Vec<u8>>,
}

/// Kind of a difference between two operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperationDifference {
    /// Different call.
    Call,
    /// Different path argument.
    Path,
    /// Different file.
    File,
    /// Different flags or other plain arguments.
    Arguments,
    /// Different offset in the file.
    Offset,
    /// Different number of requested bytes.
    Bytes,
    /// Different result.
    Result,
}

impl OperationDifference {
    /// Returns the word for the difference in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Path => "path",
            Self::File => "file",
            Self::Arguments => "arguments",
            Self::Offset => "offset",
            Self::Bytes => "bytes",
            Self::Result => "result",
        }
    }
}

/// Operation that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Operation of the plan.
    pub at: OpId,
    /// First difference.
    pub difference: OperationDifference,
    /// Names of the calls, as planned and as recorded.
    pub calls: [String; 2],
    /// Results, as planned and as recorded.
    pub results: [i64; 2],
    /// Path arguments, or paths of the files, as planned and as recorded.
    pub paths: [Option<Vec<u8>>; 2],
}

/// Outcome of the verification.
#[derive(Clone, Debug, Default)]
pub struct VerifyResult {
    /// Planned operations with a recorded counterpart.
    pub compared: u64,
    /// Number of them that are the same in everything.
    pub same: u64,
    /// Number of the others, by their first difference.
    pub different: BTreeMap<OperationDifference, u64>,
    /// Operations whose offset in the file is unknown in one of the two plans.
    pub offsets_unknown: u64,
    /// Operations whose file has no known name in the recording.
    pub files_unknown: u64,
    /// Planned operations without a counterpart.
    pub missing: u64,
    /// Number of them in lanes without a thread in the recording.
    pub missing_in_lanes: u64,
    /// Calls that the replay makes for itself: it opens initially open files, and closes copies of
    /// handles that stay open.
    pub own: u64,
    /// Recorded operations without a planned counterpart.
    pub extra: u64,
    /// First differing operations.
    pub examples: Vec<Example>,
}

impl VerifyResult {
    /// Returns true if the recording contains the planned operations and nothing else.
    pub fn is_same(&self) -> bool {
        self.different.is_empty() && self.missing == 0 && self.extra == 0
    }
}

impl PlanSide {
    /// Reads the names of an open plan.
    ///
    /// # Errors
    ///
    /// The plan is damaged.
    pub fn new(reader: PlanReader, index: Index) -> Result<Self, PlanError> {
        let names = reader.names(&index)?;
        Ok(Self { reader, index, names })
    }

    fn cursor(&self, worker: usize) -> Result<OperationCursor<'_>, PlanError> {
        let frames = self.index.workers.get(worker).map_or(&[][..], |it| &it.frames);
        let zstd = Decompressor::new()?;
        Ok(OperationCursor { side: self, frames, payload: Vec::new(), at: 0, number: 0, zstd })
    }

    fn call(&self, number: u16) -> Result<&'static Call, PlanError> {
        let name = self.index.calls.get(usize::from(number));
        let call = name.and_then(|it| CallId::by_name(&it.name)).map(CallId::call);
        call.ok_or(PlanError::Damaged { offset: 0, what: "it has a call that is not known" })
    }

    fn name(&self, file: Option<u32>) -> Option<&[u8]> {
        self.names.get(&file?).map(|it| &it[..])
    }
}

/// Position in the operations of one worker.
struct OperationCursor<'a> {
    side: &'a PlanSide,
    frames: &'a [u64],
    /// Decompressed frames, one after the other.
    payload: Vec<u8>,
    /// Position in `payload` in bytes; `number` is the index among the worker's operations.
    at: usize,
    number: u32,
    zstd: Decompressor<'a>,
}

impl OperationCursor<'_> {
    /// Loads further frames until `payload` extends beyond `at`. Returns false if there are no
    /// more.
    fn has_more(&mut self, at: usize) -> Result<bool, PlanError> {
        while at >= self.payload.len() {
            let Some((first, rest)) = self.frames.split_first() else { return Ok(false) };
            self.frames = rest;
            let more = self.side.reader.operations(*first, &mut self.zstd)?;
            self.payload.extend(more);
        }
        Ok(true)
    }

    /// Skips implicit operations. Returns how many of them were seeks, and how many set descriptor
    /// flags.
    fn skip_implicit(&mut self) -> Result<[u64; 2], PlanError> {
        let mut passed = [0; 2];
        while self.has_more(self.at)? {
            let (operation, next) = self.peek(self.at)?;
            if !operation.implicit {
                break;
            }
            let class = self.side.call(operation.call)?.class;
            for (count, it) in passed.iter_mut().zip([CallClass::Seek, CallClass::Control]) {
                *count += u64::from(class == it);
            }
            self.at = next;
        }
        Ok(passed)
    }

    /// Returns the operation at a position, and the position of the next one.
    fn peek(&self, at: usize) -> Result<(Operation<'_>, usize), PlanError> {
        let left = self.payload.get(at..).unwrap_or_default();
        let damaged = PlanError::Damaged { offset: 0, what: "its operations have another shape" };
        let (operation, rest) = postcard::take_from_bytes(left).map_err(|_| damaged)?;
        Ok((operation, self.payload.len() - rest.len()))
    }

    fn go_on(&mut self, to: usize) {
        self.at = to;
        self.number += 1;
        if self.at >= DONE_BYTES_MAX {
            self.payload.drain(..self.at);
            self.at = 0;
        }
    }
}

/// Compares a plan with the plan of a recording of its replay. `root` is the path of the replay's
/// root outside the sandbox.
///
/// # Errors
///
/// One of the plans is damaged.
pub fn compare(
    plan: &PlanSide,
    recording: &PlanSide,
    root: &[u8],
) -> Result<VerifyResult, PlanError> {
    let links = plan.reader.files(&plan.index)?.into_iter();
    let links = links.filter(|file| file.kind == FileKind::Link);
    let links = links.filter_map(|link| Some((link.path, link.text?))).collect();
    compare_with(plan, recording, root, &links)
}

fn compare_with(
    plan: &PlanSide,
    recording: &PlanSide,
    root: &[u8],
    links: &SymlinkMap,
) -> Result<VerifyResult, PlanError> {
    let number =
        |comm: &[u8]| std::str::from_utf8(comm).ok()?.strip_prefix(THREAD_NAME)?.parse().ok();
    let named = recording.index.workers.iter();
    let named = named.map(|it| number(&it.comm).filter(|_| it.lane.is_none()));
    let threads: FxHashMap<usize, usize> =
        (0..).zip(named).filter_map(|(at, it)| Some((it?, at))).collect();
    let mut given: FxHashMap<Vec<u8>, usize> = FxHashMap::default();
    plan.index.given.iter().for_each(|it| *given.entry(it.path.clone()).or_default() += 1);
    let mut comparer = Comparer {
        plan,
        world: FsModel::with_links(links),
        recording,
        root,
        given,
        was_given: false,
        seeks: 0,
        marks: 0,
        traced: VerifyResult::default(),
    };
    for (worker, it) in plan.index.workers.iter().enumerate() {
        // A worker without a recorded thread has done nothing.
        let recorded = threads.get(&worker).copied();
        let missing = comparer.traced.missing;
        comparer.worker(
            u32::try_from(worker).unwrap_or(u32::MAX),
            plan.cursor(worker)?,
            recording.cursor(recorded.unwrap_or(usize::MAX))?,
        )?;
        if it.lane.is_some() && recorded.is_none() {
            comparer.traced.missing_in_lanes += comparer.traced.missing - missing;
        }
    }
    Ok(comparer.traced)
}

struct Comparer<'a> {
    plan: &'a PlanSide,
    /// Initial links of the plan, to find where a path leads.
    world: FsModel,
    recording: &'a PlanSide,
    root: &'a [u8],
    /// Paths of initially open files, and how often the replay has still to open each.
    given: FxHashMap<Vec<u8>, usize>,
    /// True if the last recorded call opened one of them.
    was_given: bool,
    /// Implicit seeks of the plan that are not yet found in the recording.
    seeks: u64,
    /// Implicit changes of descriptor flags that are not yet found in the recording.
    marks: u64,
    traced: VerifyResult,
}

impl Comparer<'_> {
    fn worker(
        &mut self,
        worker: u32,
        mut plan: OperationCursor<'_>,
        mut recorded: OperationCursor<'_>,
    ) -> Result<(), PlanError> {
        loop {
            let [seeks, marks] = plan.skip_implicit()?;
            (self.seeks, self.marks) = (self.seeks + seeks, self.marks + marks);
            recorded.skip_implicit()?;
            if !plan.has_more(plan.at)? {
                break;
            }
            if !recorded.has_more(recorded.at)? {
                self.traced.missing += 1;
                let next = plan.peek(plan.at)?.1;
                plan.go_on(next);
                continue;
            }
            let (got, recorded_next) = recorded.peek(recorded.at)?;
            let (wanted, next) = plan.peek(plan.at)?;
            let difference = self.difference(&wanted, &got)?;
            if difference.is_some() && self.is_own(&got)? {
                self.traced.own += 1;
                recorded.go_on(recorded_next);
                continue;
            }
            if difference.is_some() && self.is_ahead(&mut plan, &got)? {
                self.traced.missing += 1;
                plan.go_on(next);
                continue;
            }
            let (wanted, _) = plan.peek(plan.at)?;
            let at = OpId { worker: Worker(worker), number: plan.number };
            self.pair(at, difference, &wanted, &got)?;
            plan.go_on(next);
            recorded.go_on(recorded_next);
        }
        while recorded.has_more(recorded.at)? {
            let (got, next) = recorded.peek(recorded.at)?;
            if got.implicit {
                recorded.at = next;
                continue;
            }
            let is_own = self.is_own(&got)?;
            let count = if is_own { &mut self.traced.own } else { &mut self.traced.extra };
            *count += 1;
            recorded.go_on(next);
        }
        Ok(())
    }

    /// Counts a planned operation and its recorded counterpart.
    fn pair(
        &mut self,
        at: OpId,
        difference: Option<OperationDifference>,
        wanted: &Operation<'_>,
        got: &Operation<'_>,
    ) -> Result<(), PlanError> {
        self.traced.compared += 1;
        let call = self.plan.call(wanted.call)?;
        let knows_offsets = [wanted, got].iter().all(|it| has_offset(call, it));
        let moves = call.class.moves_bytes() && wanted.ret > 0;
        self.traced.offsets_unknown += u64::from(moves && !knows_offsets);
        self.traced.files_unknown += u64::from(self.lacks_file(wanted, got));
        match difference {
            None => self.traced.same += 1,
            Some(it) => self.differs(it, at, wanted, got)?,
        }
        Ok(())
    }

    /// Returns true if a later planned operation matches the recorded one: the operations before it
    /// are missing. An operation on a file without a known name matches many: the one whose turn
    /// it is counts as its counterpart.
    fn is_ahead(
        &mut self,
        plan: &mut OperationCursor<'_>,
        got: &Operation<'_>,
    ) -> Result<bool, PlanError> {
        let mut at = plan.at;
        for _ in 0..=AHEAD_MAX {
            if !plan.has_more(at)? {
                return Ok(false);
            }
            let (wanted, next) = plan.peek(at)?;
            let is_certain = !wanted.implicit && !self.lacks_file(&wanted, got);
            if is_certain && self.difference(&wanted, got)?.is_none() {
                return Ok(true);
            }
            at = next;
        }
        Ok(false)
    }

    /// Returns the first difference of two operations.
    fn difference(
        &mut self,
        wanted: &Operation<'_>,
        got: &Operation<'_>,
    ) -> Result<Option<OperationDifference>, PlanError> {
        let (call, other) = (self.plan.call(wanted.call)?, self.recording.call(got.call)?);
        if call.name != other.name {
            return Ok(Some(OperationDifference::Call));
        }
        // The target of a symbolic link is stored without a root.
        let second = if call.is_symlink() { got.second_path } else { self.inside(got.second_path) };
        let recorded_name = self.recording.name(got.file);
        let is_descriptor = makes_descriptor(call, &wanted.args);
        let checks = [
            (
                OperationDifference::Path,
                self.is_same_path(call, wanted.path, self.inside(got.path))
                    && wanted.second_path == second,
            ),
            (
                OperationDifference::File,
                self.lacks_file(wanted, got)
                    || self.leads_to(self.plan.name(wanted.file), self.inside(recorded_name)),
            ),
            (
                OperationDifference::Offset,
                agree(wanted.offset, got.offset)
                    && agree(wanted.target_offset, got.target_offset)
                    && same(call, wanted, got, is_offset),
            ),
            (
                OperationDifference::Bytes,
                agree(wanted.bytes, got.bytes) && same(call, wanted, got, is_count),
            ),
            (
                OperationDifference::Arguments,
                wanted.flags == got.flags && same(call, wanted, got, is_plain),
            ),
            (
                OperationDifference::Result,
                !outcome(call, is_descriptor, wanted.ret, got.ret).is_mismatch(),
            ),
        ];
        Ok(checks.into_iter().find(|it| !it.1).map(|it| it.0))
    }

    /// Returns true if two path arguments are the same. The path of an open is that of the opened
    /// file where that was read, and else the argument as the program spelled it.
    fn is_same_path(&mut self, call: &Call, wanted: Option<&[u8]>, got: Option<&[u8]>) -> bool {
        match call.class {
            CallClass::Open => self.leads_to(wanted, got),
            _ => wanted == got,
        }
    }

    /// Returns true if two paths are the same, or lead to the same place through initial links.
    fn leads_to(&mut self, wanted: Option<&[u8]>, got: Option<&[u8]>) -> bool {
        let mut place = |path| self.world.reach(path, true, &mut Vec::new());
        let mut places = || Some((place(wanted?)?, place(got?)?));
        wanted == got || places().is_some_and(|(one, other)| one == other)
    }

    /// Returns true if the file has a name in the plan, and none in the recording: a name that was
    /// read too late is no difference, nor is a directory, which has none, where the plan does not
    /// know that.
    fn lacks_file(&self, wanted: &Operation<'_>, got: &Operation<'_>) -> bool {
        self.plan.name(wanted.file).is_some() && self.recording.name(got.file).is_none()
    }

    /// Converts a path of the recording to one from the root of the replay.
    fn inside<'a>(&self, path: Option<&'a [u8]>) -> Option<&'a [u8]> {
        let path = path?;
        match path.strip_prefix(self.root) {
            Some(b"") => Some(b"/"),
            Some(inside) if inside.starts_with(b"/") => Some(inside),
            _ => Some(path),
        }
    }

    /// Returns true for calls that the replay makes for itself.
    fn is_own(&mut self, got: &Operation<'_>) -> Result<bool, PlanError> {
        let was_given = std::mem::take(&mut self.was_given);
        Ok(match self.recording.call(got.call)?.name {
            "dup" | "close" => true,
            // A lock that the end of a process releases in the capture.
            "flock" => got.args[1] == u64::from(libc::LOCK_UN.cast_unsigned()),
            "lseek" if self.seeks > 0 && got.args[2] == SEEK_SET => {
                self.seeks -= 1;
                true
            }
            "lseek" => was_given,
            "fcntl" if self.marks > 0 && got.args[1] == F_SETFD => {
                self.marks -= 1;
                true
            }
            "open" | "openat" => {
                let path = self.inside(got.path).unwrap_or_default();
                // The C library reads the list of CPUs when threads allocate memory. No plan
                // contains such files.
                if is_kernels(path) {
                    return Ok(true);
                }
                let path = path.to_vec();
                let left = self.given.get_mut(&path).filter(|it| **it > 0);
                self.was_given = left.is_some();
                if let Some(count) = left {
                    *count -= 1;
                }
                self.was_given
            }
            _ => false,
        })
    }

    fn differs(
        &mut self,
        difference: OperationDifference,
        at: OpId,
        wanted: &Operation<'_>,
        got: &Operation<'_>,
    ) -> Result<(), PlanError> {
        *self.traced.different.entry(difference).or_default() += 1;
        if self.traced.examples.len() < EXAMPLES_MAX {
            let calls = [self.plan.call(wanted.call)?, self.recording.call(got.call)?];
            let of_plan = wanted.path.or_else(|| self.plan.name(wanted.file));
            let recorded = self.inside(got.path.or_else(|| self.recording.name(got.file)));
            self.traced.examples.push(Example {
                at,
                difference,
                calls: calls.map(|it| it.name.to_owned()),
                results: [wanted.ret, got.ret],
                paths: [of_plan, recorded].map(|it| it.map(<[u8]>::to_vec)),
            });
        }
        Ok(())
    }
}

/// `lseek` relative to the beginning (`include/uapi/linux/fs.h`).
const SEEK_SET: u64 = libc::SEEK_SET as u64;

/// `fcntl` that sets descriptor flags (`include/uapi/linux/fcntl.h`).
const F_SETFD: u64 = libc::F_SETFD as u64;

fn has_offset(call: &Call, operation: &Operation<'_>) -> bool {
    operation.offset.is_some() || call.arg(Role::Offset).is_some()
}

/// Returns true unless both values are known and differ.
fn agree(one: Option<u64>, other: Option<u64>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one == other)
}

/// Returns true if registers with these roles are equal.
fn same(call: &Call, one: &Operation<'_>, other: &Operation<'_>, of: fn(Role) -> bool) -> bool {
    let mut registers = call.args.iter().zip(one.args.iter().zip(&other.args));
    registers.all(|(role, (one, other))| !of(*role) || one == other)
}

fn is_offset(role: Role) -> bool {
    matches!(role, Role::Offset)
}

fn is_count(role: Role) -> bool {
    matches!(role, Role::Count | Role::Length | Role::BufferCount)
}

/// Returns true for numbers that have the same meaning in both plans.
fn is_plain(role: Role) -> bool {
    use Role::{Command, DupFlags, OpenFlags, RenameFlags, RwFlags, Whence};
    matches!(role, Command | DupFlags | OpenFlags | RenameFlags | RwFlags | Whence)
}

#[cfg(test)]
mod tests;
