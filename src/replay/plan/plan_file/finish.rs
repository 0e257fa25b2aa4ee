//! End of a plan: initial files, names and index, after the last operation.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::format::{END_MAGIC, KIND_FILES, KIND_INDEX, KIND_NAMES};
use super::index::{CallPlan, Index, InheritedFdPlan, SkippedOps, WorkerPlan};
use super::initial_files::{FileBefore, FileKind, FilesFrame, NamesFrame};
use super::limits::{FILES_MAX, GIVEN_MAX, PARTS_MAX, WORKERS_MAX};
use super::threaded_writer::IntoWriter;
use super::writer::{PlannedCall, too_many};
use crate::analysis::completed_op::OpKind;
use crate::replay::plan::namespace::{EntryKind, FsModel, ListedEntry};
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::planner::Planner;

/// Writes the rest of a plan, of a capture from this kind of machine (`uname -m`).
///
/// # Errors
///
/// Errors of the destination of the plan.
pub fn finish<O: PlanOutput + IntoWriter>(
    planner: Planner<O>,
    machine: &str,
) -> io::Result<O::Destination> {
    let handles = u32::try_from(planner.handles()).map_err(io::Error::other)?;
    let Planner { out, world, workers, inherited_fds, skipped, .. } = planner;
    let mut out = out.into_writer()?;
    out.flush_all()?;
    let files = files(&world);
    for descriptor in &inherited_fds {
        if let Some(file) = descriptor.file {
            out.names.entry(file.0).or_insert_with(|| descriptor.path.clone());
        }
    }
    let names: Vec<(u32, Vec<u8>)> = std::mem::take(&mut out.names).into_iter().collect();
    let is_too_much = files.len().max(names.len()) > FILES_MAX
        || workers.len() > WORKERS_MAX
        || inherited_fds.len() > GIVEN_MAX;
    if is_too_much {
        return Err(too_many());
    }
    let files_at = out.frame(KIND_FILES, &encoded(&FilesFrame(files))?)?;
    let names_at = out.frame(KIND_NAMES, &encoded(&NamesFrame(names))?)?;
    let workers = workers.into_iter().zip(&mut out.workers).map(|(worker, filling)| WorkerPlan {
        pid: worker.pid,
        tid: worker.tid,
        comm: worker.comm,
        lane: worker.lane,
        before: worker.before.first().map(|it| (it.worker.0, it.number)),
        is_waited_for: filling.is_waited_for,
        operations: filling.operations,
        frames: std::mem::take(&mut filling.frames),
    });
    let given = inherited_fds.into_iter().map(|descriptor| InheritedFdPlan {
        handle: descriptor.handle.0,
        path: descriptor.path,
        flags: descriptor.flags,
        offset: descriptor.offset,
    });
    let left = skipped.into_iter().map(|((reason, call), count)| SkippedOps {
        reason: reason.as_str().to_owned(),
        call: call.to_string(),
        count,
    });
    let calls = out.calls.iter().map(|PlannedCall { call, captured }| CallPlan {
        name: call.call().name.to_owned(),
        asynchronous: matches!(captured, OpKind::Async(_)).then(|| captured.to_string()),
    });
    let index = Index {
        machine: machine.to_owned(),
        workers: workers.collect(),
        calls: calls.collect(),
        given: given.collect(),
        left: left.collect(),
        followed: planner.model_only,
        unexplained: world.unexplained,
        handles,
        span: planner.span,
        bytes: planner.bytes,
        longest: out.longest,
        files_at,
        names_at,
    };
    let at = out.frame(KIND_INDEX, &encoded(&index)?)?;
    out.out.write_all(&at.to_le_bytes())?;
    out.out.write_all(&END_MAGIC)?;
    out.out.flush()?;
    Ok(out.out)
}

fn encoded(what: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_allocvec(what).map_err(io::Error::other)
}

/// Returns the initial files.
fn files(world: &FsModel) -> Vec<FileBefore> {
    let mut first_names = FxHashMap::default();
    let place = |(place, entry): (usize, ListedEntry)| {
        let (kind, size, file) = match entry.thing {
            EntryKind::Directory => (FileKind::Directory, 0, None),
            EntryKind::File(file) => (FileKind::File, world.size(file).first(), Some(file)),
            EntryKind::Any => (FileKind::File, 0, None),
            EntryKind::Link(bytes) => (FileKind::Link, bytes, None),
        };
        let place = u32::try_from(place).expect("fewer files than bytes");
        let first = file.map(|it| *first_names.entry(it).or_insert(place));
        let same_as = first.filter(|it| *it != place);
        let (path, mode, has_more, text) = (entry.path, entry.mode, entry.has_more, entry.text);
        let parts = file.filter(|_| same_as.is_none());
        // Parts beyond the limit become data, like unknown parts; init counts the file among those
        // that differ.
        let parts = parts.into_iter().flat_map(|it| world.parts(it)).take(PARTS_MAX).collect();
        FileBefore { path, kind, size, mode, has_more, same_as, parts, text }
    };
    world.entries().into_iter().enumerate().map(place).collect()
}
