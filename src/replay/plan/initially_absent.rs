//! Initially absent names: names that were not there before the first operation, as far as the
//! operations of a plan show.
//!
//! ```text
//!   mkdir a     0         a was not there
//!   stat  b     ENOENT    nor was b
//!   mkdir a/x   0         shows nothing: it is inside a directory that was made
//!   rename c d  0         c was there; whether d was is unknown
//!   mkdir d/x   0         shows nothing: the entry at d was moved there
//! ```
//!
//! An operation that makes an entry where none may be, or does not find an entry, shows that the
//! name was absent at the start. This is so if no operation can have changed the name, or a
//! directory that leads to it, by then. Threads work at once: a change that had begun by the end of
//! the observation may be its cause.

use std::ops::Range;

use rustc_hash::FxHashMap;
use thiserror::Error;
use zstd::bulk::Decompressor;

use super::open_flags::flags_of;
use super::plan_file::{Index, Operation, PlanError, PlanReader};
use super::symlink_follow::follows;
use crate::event::syscall_table::{Call, CallClass, CallId, Role};
use crate::units::ReplayTime;

/// Maximum number of names that are kept: no plan can describe the start of more names either.
const NAMES_MAX: usize = super::plan_file::FILES_MAX;

/// Reason why the absent names are unknown.
#[derive(Debug, Error)]
pub enum AbsentError {
    /// Error in the plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Too many names.
    #[error("its operations change more than {NAMES_MAX} names")]
    TooMany,
}

/// Name that was absent at the start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Absent {
    /// Path from the root.
    pub path: Vec<u8>,
    /// True if not even a dangling link was there.
    pub is_free: bool,
}

/// Change of the file at a path.
#[derive(Clone, Copy, Debug)]
pub struct PathChange<'a> {
    /// Path from the root.
    pub path: &'a [u8],
    /// True if a final link is followed.
    pub follows: bool,
}

/// Times of a name. Each is the earliest one, or [`ReplayTime::MAX`] if there is none.
#[derive(Clone, Copy, Debug)]
struct EarliestTimes {
    /// End of an operation that made an entry where none may be.
    made: ReplayTime,
    /// End of an operation that did not find an entry.
    missed: ReplayTime,
    /// Begin of an operation that changed the name and does not show that it was absent.
    changed: ReplayTime,
    /// Begin of any operation that changed the name.
    any: ReplayTime,
}

/// Names of all operations of a plan.
#[derive(Debug, Default)]
struct NameTimes(FxHashMap<Vec<u8>, EarliestTimes>);

/// Returns the absent names of a plan, sorted. `place` returns the path of a place, whatever links
/// lead to it; `change` is called for each change of a file.
///
/// # Errors
///
/// Returns an error if the plan is damaged, or has too many names.
pub fn absent(
    reader: &PlanReader,
    index: &Index,
    place: &mut dyn FnMut(&[u8]) -> Vec<u8>,
    change: &mut dyn FnMut(PathChange<'_>),
) -> Result<Vec<Absent>, AbsentError> {
    let mut names = NameTimes::default();
    each(reader, index, &mut |call, operation, times| {
        changes(call, operation, change);
        names.add(call, operation, times, place);
        if names.0.len() > NAMES_MAX { Err(AbsentError::TooMany) } else { Ok(()) }
    })?;
    Ok(names.absent())
}

/// Returns true for calls after which a name may belong to another file, or to none.
pub fn changes_names(call: &Call, args: &[u64; 6], in_memory: Option<u32>) -> bool {
    match call.class {
        CallClass::Name | CallClass::Rename | CallClass::Remove => true,
        CallClass::Open => flags_of(call, args, in_memory).creates(),
        _ => false,
    }
}

/// Visitor of an operation with its begin and end.
type OperationObserver<'a> =
    dyn FnMut(&Call, &Operation<'_>, Range<ReplayTime>) -> Result<(), AbsentError> + 'a;

/// Visits all operations with begin and end; those of a thread in their order.
fn each(
    reader: &PlanReader,
    index: &Index,
    seen: &mut OperationObserver<'_>,
) -> Result<(), AbsentError> {
    let mut zstd = Decompressor::new().map_err(PlanError::from)?;
    for worker in &index.workers {
        let mut last = ReplayTime::MIN;
        for &offset in &worker.frames {
            let damaged = |what| PlanError::Damaged { offset, what };
            let payload = reader.operations(offset, &mut zstd)?;
            let mut left = &payload[..];
            while !left.is_empty() {
                let (operation, rest): (Operation<'_>, _) = postcard::take_from_bytes(left)
                    .map_err(|_| damaged("its operations have another shape"))?;
                left = rest;
                let call = index.calls.get(usize::from(operation.call));
                let call = call.and_then(|call| CallId::by_name(&call.name)).map(CallId::call);
                let call = call.ok_or(damaged("it has a call that is not known"))?;
                let start = last.saturating_add(operation.gap);
                let end = start.saturating_add(operation.took);
                if !operation.implicit {
                    last = end;
                }
                seen(call, &operation, start..end)?;
            }
        }
    }
    Ok(())
}

/// Reports the changes that an operation has made at its paths.
fn changes(call: &Call, operation: &Operation<'_>, change: &mut dyn FnMut(PathChange<'_>)) {
    let Operation { args, flags, ret, .. } = operation;
    let is_change = match call.class {
        CallClass::Name
        | CallClass::Rename
        | CallClass::Remove
        | CallClass::Resize
        | CallClass::Attribute => true,
        CallClass::Open => flags_of(call, args, *flags).may_change(),
        _ => false,
    };
    if !is_change || *ret < 0 {
        return;
    }
    let second = operation.second_path.filter(|_| !call.is_symlink());
    let follows = [follows(call, args, *flags), false];
    for (path, follows) in [operation.path, second].into_iter().zip(follows) {
        if let Some(path) = path.and_then(plain) {
            change(PathChange { path, follows });
        }
    }
}

impl NameTimes {
    fn add(
        &mut self,
        call: &Call,
        operation: &Operation<'_>,
        times: Range<ReplayTime>,
        place: &mut dyn FnMut(&[u8]) -> Vec<u8>,
    ) {
        let Range { start, end } = times;
        let flags = flags_of(call, &operation.args, operation.flags);
        let (first, second) = (operation.path, operation.second_path);
        let mut of = |path: Option<&[u8]>, change: &dyn Fn(&mut EarliestTimes)| {
            if let Some(path) = path.and_then(plain) {
                change(self.0.entry(place(path)).or_insert(EarliestTimes::NONE));
            }
        };
        let made = |times: &mut EarliestTimes| {
            times.made = times.made.min(end);
            times.any = times.any.min(start);
        };
        let changed = |times: &mut EarliestTimes| {
            times.changed = times.changed.min(start);
            times.any = times.any.min(start);
        };
        let creates = call.class == CallClass::Open && flags.creates();
        match call.class {
            // Either of two names may be meant.
            _ if operation.ret == -i64::from(libc::ENOENT)
                && !creates
                && (second.is_none() || call.is_symlink()) =>
            {
                of(first, &|times| times.missed = times.missed.min(end));
            }
            _ if operation.ret < 0 => {}
            CallClass::Name if call.is_symlink() => of(first, &made),
            CallClass::Name => of(second.or(first), &made),
            CallClass::Open if creates && flags.is_exclusive() => of(first, &made),
            CallClass::Open if creates => of(first, &changed),
            CallClass::Remove => of(first, &changed),
            CallClass::Rename => {
                let flags =
                    call.arg(Role::RenameFlags).map_or(0, |register| operation.args[register]);
                let is_new = flags & u64::from(libc::RENAME_NOREPLACE) != 0;
                let second_change: &dyn Fn(&mut EarliestTimes) =
                    if is_new { &made } else { &changed };
                of(first, &changed);
                of(second, second_change);
            }
            _ => {}
        }
    }

    fn absent(&self) -> Vec<Absent> {
        let absent = |(path, times): (&Vec<u8>, &EarliestTimes)| {
            let above = above(path).filter_map(|path| self.0.get(path));
            let above = above.map(|times| times.any).min();
            let is_so = |at: ReplayTime| {
                at < ReplayTime::MAX && at <= times.changed && above.is_none_or(|above| at <= above)
            };
            // A failed lookup shows the start only if no change had begun by its end.
            let is_missed = is_so(times.missed) && times.missed <= times.any;
            let is_free = is_so(times.made);
            (is_free || is_missed).then(|| Absent { path: path.clone(), is_free })
        };
        let mut all: Vec<Absent> = self.0.iter().filter_map(absent).collect();
        all.sort_unstable();
        all
    }
}

impl EarliestTimes {
    const NONE: Self = Self {
        made: ReplayTime::MAX,
        missed: ReplayTime::MAX,
        changed: ReplayTime::MAX,
        any: ReplayTime::MAX,
    };
}

/// Returns the directories that lead to a path, without the root.
pub fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(at, byte)| *at > 0 && **byte == b'/');
    slashes.map(|(at, _)| &path[..at])
}

/// Returns a path that only descends; `None`: the path leads to a place that depends on existing
/// entries.
fn plain(path: &[u8]) -> Option<&[u8]> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let mut names = path.strip_prefix(b"/")?.split(|byte| *byte == b'/');
    names.all(|name| !matches!(name, b"" | b"." | b"..")).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;

    /// Operation: a call, its flags if it is an open, its paths, and its result. Each begins after
    /// the previous one has ended.
    type Done<'a> = (&'a str, i32, [&'a str; 2], i32);

    const ENOENT: i32 = -libc::ENOENT;

    fn operation<'a>(call: &Call, done: &Done<'a>) -> Operation<'a> {
        let (_, flags, [first, second], ret) = done;
        let mut args = [0; 6];
        for role in [Role::OpenFlags, Role::RenameFlags] {
            if let Some(register) = call.arg(role) {
                args[register] = u64::from(flags.cast_unsigned());
            }
        }
        Operation {
            call: 0,
            args,
            handle: None,
            target: None,
            makes: None,
            file: None,
            path: Some(first.as_bytes()),
            second_path: Some(second.as_bytes()).filter(|path| !path.is_empty()),
            flags: None,
            offset: None,
            target_offset: None,
            bytes: None,
            ret: (*ret).into(),
            gap: Nanos(0),
            took: Nanos(5),
            others: 0,
            behind: Nanos(0),
            keeps_handle: false,
            implicit: false,
            before: Vec::new(),
        }
    }

    /// Checks the names that were absent; `?` marks names where a dangling link may have been.
    #[track_caller]
    fn check(done: &[Done<'_>], expected: &str) {
        let mut names = NameTimes::default();
        for (start, done) in (0_u64..).step_by(10).zip(done) {
            let call = CallId::by_name(done.0).expect(done.0).call();
            let same = &mut |path: &[u8]| path.to_vec();
            names.add(call, &operation(call, done), ReplayTime(start)..ReplayTime(start + 5), same);
        }
        let text = |absent: Absent| {
            let path = String::from_utf8(absent.path).expect("a name of ours");
            if absent.is_free { path } else { path + "?" }
        };
        let found: Vec<String> = names.absent().into_iter().map(text).collect();
        assert_eq!(found.join(" "), expected, "{done:?}");
    }

    #[test]
    fn exclusively_created_path_was_absent() {
        check(&[("mkdir", 0, ["/a/", ""], 0)], "/a");
        check(&[("symlink", 0, ["/a/l", "/x"], 0)], "/a/l");
        check(&[("link", 0, ["/f", "/g"], 0)], "/g");
        check(&[("openat", libc::O_CREAT | libc::O_EXCL, ["/f", ""], 3)], "/f");
        check(&[("renameat2", 1, ["/f", "/g"], 0)], "/g");
        check(&[("mkdir", 0, ["/a", ""], -libc::EEXIST)], "");
        check(&[("mkdir", 0, ["/a/../b", ""], 0)], "");
    }

    #[test]
    fn path_not_found_was_absent() {
        check(&[("newstat", 0, ["/a", ""], ENOENT), ("unlink", 0, ["/b", ""], ENOENT)], "/a? /b?");
        // The directory may have been absent.
        check(&[("openat", libc::O_CREAT, ["/a/f", ""], ENOENT)], "");
        check(&[("rename", 0, ["/a", "/b"], ENOENT)], "");
        check(
            &[("newstat", 0, ["/a", ""], ENOENT), ("openat", libc::O_CREAT, ["/a", ""], 3)],
            "/a?",
        );
    }

    /// Fails if a name that may have been there is taken for an absent one.
    #[test]
    fn changed_path_shows_nothing_of_the_start() {
        let create = ("openat", libc::O_CREAT, ["/f", ""], 3);
        let unlink = ("unlink", 0, ["/f", ""], 0);
        check(&[create, unlink, ("mkdir", 0, ["/f", ""], 0)], "");
        check(&[unlink, ("newstat", 0, ["/f", ""], ENOENT)], "");
        check(&[("mkdir", 0, ["/a", ""], 0), ("mkdir", 0, ["/a/b", ""], 0)], "/a");
        check(&[("rename", 0, ["/a", "/b"], 0), ("mkdir", 0, ["/b/c", ""], 0)], "");
        check(&[("mkdir", 0, ["/b/c", ""], 0), ("rename", 0, ["/a", "/b"], 0)], "/b/c");
        // Made, removed and made again: the first time counts.
        let (make, remove) = (("mkdir", 0, ["/d", ""], 0), ("rmdir", 0, ["/d", ""], 0));
        check(&[make, remove, make, remove, ("newstat", 0, ["/d", ""], ENOENT)], "/d");
    }

    #[test]
    fn changes_are_reported_with_their_paths() {
        let mut rows = Vec::new();
        for done in [
            ("truncate", 0, ["/f", ""], 0),
            ("unlink", 0, ["/g", ""], 0),
            ("openat", libc::O_RDONLY, ["/h", ""], 3),
            ("openat", libc::O_WRONLY, ["/i", ""], 3),
            ("link", 0, ["/j", "/k"], 0),
            ("symlink", 0, ["/l", "/text"], 0),
            ("chmod", 0, ["/m", ""], ENOENT),
        ] {
            let call = CallId::by_name(done.0).expect(done.0).call();
            changes(call, &operation(call, &done), &mut |change| {
                rows.push((String::from_utf8_lossy(change.path).into_owned(), change.follows));
            });
        }
        let found: Vec<_> = rows.iter().map(|(path, follows)| (path.as_str(), *follows)).collect();
        let expected = [
            ("/f", true),
            ("/g", false),
            ("/i", true),
            ("/j", false),
            ("/k", false),
            ("/l", false),
        ];
        assert_eq!(found, expected);
    }
}
