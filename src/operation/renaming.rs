//! Renames and removals: effects of calls on the names of open files and on the directories of
//! processes.

use super::file_names::{CallSpan, FileNames, NameChange};
use super::model::{PathArgument, SyscallOperation};
use super::tasks::Tasks;
use crate::event::syscall_table::{CallClass, Role};
use crate::naming::paths::{has_part, last};

/// Both places are exchanged (`include/uapi/linux/fs.h`).
const RENAME_EXCHANGE: u64 = 2;

/// Effect of a call on names.
#[derive(Clone, Debug)]
pub enum RenameOutcome {
    /// No effect.
    Nothing,
    /// An effect on names that are not known.
    Unknown,
    /// Known change, and the span of the call.
    Changed(NameChange, CallSpan),
}

/// Follows a call that has ended.
pub fn follow(operation: &SyscallOperation, names: &mut FileNames, tasks: &Tasks) -> RenameOutcome {
    let call = operation.call.call();
    if !call.changes_names() || operation.ret != Some(0) {
        return RenameOutcome::Nothing;
    }
    names.sort_in();
    let Some(change) = change(operation, names) else { return RenameOutcome::Unknown };
    // The directories of processes are determined with the names before the change.
    let end = operation.end.unwrap_or(operation.start);
    if concerns_directories(operation) {
        tasks.places().for_each(|it| it.borrow_mut().follow(&change, names, end));
    }
    let span = CallSpan { start: operation.start, end };
    match names.follow(&change, span) {
        true => RenameOutcome::Changed(change, span),
        false => RenameOutcome::Nothing,
    }
}

/// Returns false if the call has removed something other than a directory.
fn concerns_directories(operation: &SyscallOperation) -> bool {
    let call = operation.call.call();
    let flags = call.arg(Role::RemoveFlags).and_then(|it| operation.args.get(it)).copied();
    let removes_file = call.class == CallClass::Remove && call.name != "rmdir";
    !removes_file || flags.is_some_and(|it| it & libc::AT_REMOVEDIR.unsigned_abs() as u64 != 0)
}

/// Marks the places of processes as doubtful after a call that has changed an unknown name: a
/// directory that may be meant is not known any more.
pub fn doubt_places(operation: &SyscallOperation, tasks: &Tasks) {
    if !concerns_directories(operation) {
        return;
    }
    let places = tasks.places();
    if operation.call.call().class == CallClass::Rename {
        let parts = last_parts(operation);
        let may_be = |path: &[u8]| parts.is_none_or(|it| it.iter().any(|it| has_part(path, it)));
        return places.for_each(|it| it.borrow_mut().doubt(may_be));
    }
    let given = operation.named.as_ref().and_then(|it| it.first.as_ref());
    let given = given.filter(|it| !it.path.source.is_doubtful()).map(|it| last(&it.path.bytes));
    let name = given.filter(|it| !matches!(*it, b"" | b"." | b".."));
    places.for_each(|it| it.borrow_mut().doubt(|path| name.is_none_or(|it| last(path) == it)));
}

/// Returns the last parts of both paths, if they were read and are not `.` or `..`.
pub fn last_parts(operation: &SyscallOperation) -> Option<[&[u8]; 2]> {
    let named = operation.named.as_ref()?;
    let is_name = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    let given = [named.first.as_ref()?, named.second.as_ref()?];
    let is_read = given.iter().all(|it| !it.path.source.is_doubtful());
    let [first, second] = given.map(|it| last(&it.path.bytes));
    (is_read && is_name(first) && is_name(second)).then_some([first, second])
}

/// Returns the change that the call has made; `None` if its paths are not known.
fn change(operation: &SyscallOperation, names: &FileNames) -> Option<NameChange> {
    let spot = |given: &Option<PathArgument>| {
        let given = given.as_ref().filter(|it| it.path.source.is_spelled())?;
        given.absolute.as_ref().map(|it| names.spot(it, given.path.mounts))
    };
    let named = operation.named.as_ref()?;
    let call = operation.call.call();
    if call.class == CallClass::Remove {
        return Some(NameChange::Removed(spot(&named.first)?));
    }
    let exchange = exchanges(operation);
    Some(NameChange::Renamed { from: spot(&named.first)?, to: spot(&named.second)?, exchange })
}

/// Returns true for a rename that exchanges the names of two files.
pub fn exchanges(operation: &SyscallOperation) -> bool {
    let flags = operation.call.call().arg(Role::RenameFlags);
    let flags = flags.and_then(|it| operation.args.get(it));
    flags.is_some_and(|it| it & RENAME_EXCHANGE != 0)
}
