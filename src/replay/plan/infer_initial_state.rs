//! Inference of the initial state: records in the [`FsModel`] what the results of operations show.

use super::hole_map::RegionKind;
use super::initial_size::Size;
use super::namespace::{EntryKind, FileId, FsModel, NodeId, OpNodes, ShownFile};
use super::open_flags::open_flags;
use super::symlink_follow::follows;
use crate::event::syscall_table::{Call, CallClass, Role};
use crate::event::{FileStat, OpenFlags};
use crate::operation::model::SyscallOperation;

/// Returns the bits of a flag.
const fn bits(flag: i32) -> u32 {
    flag.cast_unsigned()
}

/// Flag of `unlinkat` that removes a directory.
const AT_REMOVEDIR: u64 = libc::AT_REMOVEDIR as u64;

/// Records that a file was opened under this name. Returns the file of the new descriptor, or
/// `None` for a directory. `is_open`: the file has a descriptor.
pub fn opened(
    world: &mut FsModel,
    node: NodeId,
    flags: OpenFlags,
    stat: Option<FileStat>,
    is_open: impl Fn(FileId) -> bool,
) -> Option<FileId> {
    if flags.is_unnamed() {
        world.was_there(node, EntryKind::Directory);
        return Some(world.create_file(None));
    }
    if flags.is_directory() || stat.is_some_and(|stat| stat.is_directory()) {
        world.was_there(node, EntryKind::Directory);
        return None;
    }
    let creates = flags.creates();
    let is_made = creates && (flags.is_exclusive() || world.is_absent(node));
    let shown = stat.filter(|_| !is_made).and_then(|stat| ShownFile::new(stat, flags.truncates()));
    if let Some(shown) = shown {
        world.may_be_second_name(node, shown, &is_open);
    }
    let file = if is_made {
        world.create_file(Some(node))
    } else if creates && world.is_unasked(node) {
        world.perhaps_made(node)
    } else {
        world.file_there(node)?
    };
    if let Some(shown) = shown {
        world.has_inode(node, shown, is_open);
    }
    if flags.truncates() {
        world.size_mut(file).truncated(0);
    } else if let Some(stat) = stat {
        world.size_mut(file).ends(stat.size);
    }
    if let Some(stat) = stat {
        world.has_mode(node, stat.mode & !libc::S_IFMT);
    }
    Some(file)
}

/// Returns whether an entry was at the first or second path of an operation when it was called
/// (`depth` 0), or at the directory `depth` levels above; `None`: the result does not show that.
pub fn found_there(operation: &SyscallOperation, place: usize, depth: usize) -> Option<bool> {
    let call = operation.call.call();
    let errno = operation.errno();
    let is_of_two = call.arg(Role::Path2).is_some() && !call.is_symlink();
    if depth > 0 {
        return match errno {
            None | Some(libc::EEXIST) => Some(true),
            // Either of the two paths may be meant.
            Some(libc::ENOENT) => (!is_of_two).then_some(false),
            Some(_) => None,
        };
    }
    let flags = match call.class {
        CallClass::Open => open_flags(operation),
        _ => OpenFlags::default(),
    };
    let makes = match call.class {
        CallClass::Name => place == 1 || !is_of_two,
        _ => flags.is_exclusive(),
    };
    match errno {
        Some(libc::EEXIST) => makes.then_some(true),
        Some(libc::ENOENT) => (!is_of_two && !flags.creates()).then_some(false),
        Some(_) => None,
        None if makes => Some(false),
        None if flags.creates() || place == 1 => None,
        None => Some(true),
    }
}

/// Records that an entry is a directory if a call has found it as `name/` or `name/.`.
pub fn spelled(
    world: &mut FsModel,
    operation: &SyscallOperation,
    path: Option<&[u8]>,
    node: Option<NodeId>,
) {
    let class = operation.call.call().class;
    let finds = !matches!(class, CallClass::Name | CallClass::Rename | CallClass::Remove);
    if let (Some(path), Some(node)) = (path, node)
        && (path.ends_with(b"/") || path.ends_with(b"/."))
        && finds
        && operation.errno().is_none()
    {
        world.was_there(node, EntryKind::Directory);
    }
}

/// Records what a successful call with paths shows.
pub fn named(world: &mut FsModel, call: &Call, args: &[u64; 6], ret: i64, nodes: OpNodes) {
    let OpNodes { first: Some(node), second } = nodes else { return };
    match (call.class, second) {
        (CallClass::Name, _) if call.name.starts_with("mkdir") => {
            world.create_entry(node, EntryKind::Directory)
        }
        (CallClass::Name, _) if call.name.starts_with("mknod") => {
            world.create_file(Some(node));
        }
        (CallClass::Name, Some(new)) if call.name.starts_with("link") => world.linked(node, new),
        (CallClass::Name, _) => world.create_entry(node, EntryKind::Link(0)),
        (CallClass::Rename, Some(new)) => {
            let flags = call.arg(Role::RenameFlags).map_or(0, |register| args[register]);
            world.renamed(node, new, flags & u64::from(libc::RENAME_EXCHANGE) != 0);
        }
        (CallClass::Remove, _) if removes_directory(call, args) => {
            world.removed(node, EntryKind::Directory);
        }
        (CallClass::Remove, _) => world.removed(node, EntryKind::Any),
        (CallClass::Resize, _) => {
            let length = call.arg(Role::Length).map_or(0, |register| args[register]);
            if let Some(file) = world.file_there(node) {
                world.size_mut(file).truncated(length);
            }
        }
        (CallClass::Stat, _) if call.name.starts_with("readlink") => {
            world.was_there(node, EntryKind::Link(ret.try_into().unwrap_or(0)));
        }
        _ => {
            world.was_there(node, EntryKind::Any);
            if checks_execution(call, args) {
                world.is_executable(node);
            }
        }
    }
}

/// Returns true for `access` with `X_OK`.
fn checks_execution(call: &Call, args: &[u64; 6]) -> bool {
    let mode = call.arg(Role::Path).and_then(|path| args.get(path + 1)).copied().unwrap_or(0);
    let is_access = call.name == "access" || call.name.starts_with("faccessat");
    is_access && mode & u64::from(bits(libc::X_OK)) != 0
}

/// Records what a failed call with paths shows.
pub fn failed(world: &mut FsModel, operation: &SyscallOperation, errno: i32, nodes: OpNodes) {
    let (call, args) = (operation.call.call(), &operation.args);
    if let (OpNodes { first: None, second: Some(new) }, libc::EEXIST) = (nodes, errno) {
        world.was_there(new, EntryKind::Any);
    }
    let OpNodes { first: Some(node), second } = nodes else { return };
    match (errno, second) {
        (_, Some(second)) => failed_with_two(world, operation, errno, node, second),
        (libc::ENOENT, None) => {
            world.was_absent(node, follows(call, args, operation.flags_in_memory));
        }
        (_, None) if is_refused_as_full(operation) => world.was_not_empty(node),
        (libc::EEXIST, None) => world.was_there(node, EntryKind::Any),
        // The entry is not a link.
        (libc::EINVAL, None) if call.name.starts_with("readlink") => {
            world.was_there(node, EntryKind::Any);
        }
        (libc::EISDIR, None) => world.was_there(node, EntryKind::Directory),
        (libc::ELOOP, None) if open_flags(operation).is_nofollow() => {
            world.was_there(node, EntryKind::Link(0));
        }
        (libc::ENOTDIR, None) => {
            let wants = removes_directory(call, args)
                || call.class == CallClass::Open && open_flags(operation).is_directory();
            no_directory(world, node, wants);
        }
        _ => {}
    }
}

/// Records that an entry, or one on the way to it, is not a directory; `wants`: the entry itself
/// was required to be one. The entry that is not is only learnt if just one can be meant.
fn no_directory(world: &mut FsModel, node: NodeId, wants: bool) {
    // Then the entry that is not a directory is known.
    if is_below_file(world, node) {
        return;
    }
    let is_unknown = |place: &NodeId| world.entry_kind(*place) != Some(EntryKind::Directory);
    let unknown: Vec<NodeId> = world.ancestors(node).skip(1).filter(is_unknown).take(2).collect();
    match (unknown.first().copied(), unknown.get(1)) {
        _ if wants => world.file_there(node),
        (None, _) => world.file_there(node),
        (Some(only), None) => world.file_there(only),
        (Some(_), Some(_)) => None,
    };
}

fn is_below_file(world: &FsModel, node: NodeId) -> bool {
    world
        .ancestors(node)
        .skip(1)
        .any(|place| matches!(world.entry_kind(place), Some(EntryKind::File(_))))
}

/// Returns true if the parent of a place is known to be a directory.
fn is_in_directory(world: &FsModel, node: NodeId) -> bool {
    let parent = world.ancestors(node).nth(1);
    parent.is_none_or(|parent| world.entry_kind(parent) == Some(EntryKind::Directory))
}

/// Records what a failed call with two paths shows. Nothing is learnt where either path may be
/// meant.
fn failed_with_two(
    world: &mut FsModel,
    operation: &SyscallOperation,
    errno: i32,
    from: NodeId,
    to: NodeId,
) {
    let renames = operation.call.call().class == CallClass::Rename;
    match errno {
        _ if is_refused_as_full(operation) => {
            // An entry inside a directory cannot take the directory's place.
            let is_inside = world.ancestors(from).skip(1).any(|place| place == to);
            world.was_there(from, if is_inside { EntryKind::Any } else { EntryKind::Directory });
            world.was_not_empty(to);
        }
        libc::EEXIST => {
            world.was_there(from, EntryKind::Any);
            world.was_there(to, EntryKind::Any);
        }
        libc::EXDEV => world.was_there(from, EntryKind::Any),
        libc::EISDIR if renames => {
            world.was_there(from, EntryKind::Any);
            world.was_there(to, EntryKind::Directory);
        }
        libc::ENOTDIR
            if renames && [from, to].iter().all(|place| is_in_directory(world, *place)) =>
        {
            world.was_there(from, EntryKind::Directory);
            world.file_there(to);
        }
        _ => {}
    }
}

/// Returns true if a call did not remove a directory because the directory is not empty: `rmdir`,
/// and `rename` onto it. Some file systems return `EEXIST` (XFS, for a rename); a rename that
/// replaces nothing gets that result for any existing name.
pub fn is_refused_as_full(operation: &SyscallOperation) -> bool {
    let call = operation.call.call();
    let flags = call.arg(Role::RenameFlags).map_or(0, |register| operation.args[register]);
    let may_replace = flags & u64::from(libc::RENAME_NOREPLACE) == 0;
    match (operation.errno(), call.class) {
        (Some(libc::ENOTEMPTY), CallClass::Remove | CallClass::Rename) => true,
        (Some(libc::EEXIST), CallClass::Remove) => true,
        (Some(libc::EEXIST), CallClass::Rename) => may_replace,
        _ => false,
    }
}

/// Returns true if a call removes a directory, and nothing else.
pub fn removes_directory(call: &Call, args: &[u64; 6]) -> bool {
    let flags = call.arg(Role::Path).and_then(|path| args.get(path + 1)).copied().unwrap_or(0);
    call.name == "rmdir" || call.name == "unlinkat" && flags & AT_REMOVEDIR != 0
}

/// Records that a call has moved bytes of a file, or has shown or changed its length.
pub fn learn_from_transfer(
    size: &mut Size,
    operation: &SyscallOperation,
    is_target: bool,
    offset: Option<u64>,
    ret: u64,
) {
    let call = operation.call.call();
    let register = |role| call.arg(role).map(|register| operation.args[register]);
    match call.class {
        CallClass::Write => size.wrote(offset, ret),
        CallClass::Transfer if is_target => size.wrote(offset, ret),
        CallClass::Read => match offset {
            Some(offset) => size.read(offset, operation.bytes_requested, ret),
            // Wherever the read began, the file has that many bytes.
            None => size.read(0, None, ret),
        },
        // The end of a transfer shows nothing of the file: the target may be full.
        CallClass::Transfer => {
            if let Some(offset) = offset {
                size.read(offset, None, ret);
            }
        }
        CallClass::Seek if register(Role::Whence) == Some(u64::from(bits(libc::SEEK_END))) => {
            let distance = register(Role::Offset).unwrap_or(0).cast_signed();
            size.ends(ret.saturating_add_signed(distance.saturating_neg()));
        }
        CallClass::Resize => match register(Role::Length) {
            Some(length) => size.truncated(length),
            None => allocated(size, operation),
        },
        _ => {}
    }
}

/// Records an `fallocate`.
fn allocated(size: &mut Size, operation: &SyscallOperation) {
    let [_, mode, offset, bytes, ..] = operation.args;
    let moves = libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE;
    let keeps_size = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE;
    let has = |flags| mode & u64::from(bits(flags)) != 0;
    if has(moves) {
        size.changed(offset..u64::MAX);
    } else if has(keeps_size) {
        size.changed(offset..offset.saturating_add(bytes));
    } else {
        size.wrote(Some(offset), bytes);
    }
}

/// Returns what a seek looks for: data or a hole.
pub fn sought(operation: &SyscallOperation) -> Option<RegionKind> {
    let whence =
        operation.call.call().arg(Role::Whence).map(|register| operation.args[register])?;
    let is_whence = |value: i32| whence == u64::from(bits(value));
    match () {
        () if is_whence(libc::SEEK_DATA) => Some(RegionKind::Data),
        () if is_whence(libc::SEEK_HOLE) => Some(RegionKind::Hole),
        () => None,
    }
}

/// Records the result of a seek for data or a hole.
pub fn learn_from_query(world: &mut FsModel, file: FileId, operation: &SyscallOperation) {
    let register = operation.call.call().arg(Role::Offset);
    let from = register.map(|register| operation.args[register]);
    let (Some(kind), Some(from)) = (sought(operation), from) else { return };
    let at = operation.ret.and_then(|ret| u64::try_from(ret).ok());
    let one_byte = |offset: u64| offset..offset.saturating_add(1);
    match (kind, at) {
        (RegionKind::Data, Some(at)) => {
            world.size_mut(file).reaches(at.saturating_add(1));
            world.has_part(file, from..at, RegionKind::Hole);
            world.has_part(file, one_byte(at), RegionKind::Data);
        }
        // No data up to the end of the file, wherever that is.
        (RegionKind::Data, None) if operation.errno() == Some(libc::ENXIO) => {
            world.has_part(file, from..u64::MAX, RegionKind::Hole);
        }
        // The hole may be the end of the file: nothing after it is created.
        (RegionKind::Hole, Some(at)) => {
            world.size_mut(file).reaches(at.max(from.saturating_add(1)));
            world.has_part(file, from..at, RegionKind::Data);
            world.has_part(file, one_byte(at), RegionKind::Hole);
        }
        _ => {}
    }
}
