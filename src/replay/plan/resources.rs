//! Resources through which operations conflict.
//!
//! | Resource | Used by operations that | Changed by operations that |
//! |---|---|---|
//! | handle | work on the handle | open or close the handle |
//! | position | – | read, write, seek or list without an explicit offset |
//! | name | look up the name or a name below it | make, remove or rename the name |
//! | 64 KiB of a file | read these bytes | write these bytes |
//! | all of a file | move less than 4 MiB | move more, sync, or seek for data or holes |
//! | length of a file | read | make the file longer or shorter |
//!
//! Locks of files have rules of their own: [`super::locks`]. Resources that no longer exist, and
//! pieces above a limit, are evicted: [`super::evicted_accesses`].

use std::cell::Cell;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::dependencies::{AccessHistory, ConflictMode, TimedOp, WaitSet};
use super::evicted_accesses::EvictedAccesses;
use super::handles::{Handle, Handles};
use super::infer_initial_state::{found_there, removes_directory, sought};
use super::low_watermark::LowWatermark;
use super::namespace::{FileId, FsModel, NodeId, OpNodes};
use super::open_flags::open_flags;
use crate::event::OpenFlags;
use crate::event::syscall_table::{CallClass, Role};
use crate::operation::model::{OpenFile, SyscallOperation};
use crate::units::ReplayTime;

/// Bytes of a file that form one resource.
const PIECE_BYTES: u64 = 64 << 10;

/// Maximum number of pieces that one operation accesses. An operation on more pieces accesses all
/// of the file.
const PIECES_MAX: u64 = 64;

/// Number of pieces that are kept: the last 2 GiB read and written, in about 10 MiB of memory.
const PIECES_KEPT: usize = 32 << 10;

/// Access in progress: its operation, the bound for the begins of others, and the operations to
/// wait for.
#[derive(Debug)]
pub(super) struct Accessor<'a> {
    /// Operation that makes the access.
    pub(super) by: TimedOp,
    /// Bound for the begins of later operations.
    pub(super) past: &'a LowWatermark,
    /// Operations for which `by` waits.
    pub(super) before: &'a mut WaitSet,
}

impl Accessor<'_> {
    /// Adds an access to a resource.
    fn touch(&mut self, history: &mut AccessHistory, touch: ConflictMode) {
        history.touch(self.by, touch, self.past, self.before);
    }

    /// Adds an access to a resource; `saw` is that of [`AccessHistory::touch_seen`].
    fn touch_seen(&mut self, history: &mut AccessHistory, saw: bool, touch: ConflictMode) {
        history.touch_seen(self.by, saw, touch, self.past, self.before);
    }

    /// Adds the evicted accesses for which the operation waits.
    fn wait_for_evicted(&mut self, forgotten: &mut EvictedAccesses) {
        forgotten.wait(self.by, self.past, self.before);
    }
}

/// Access of an operation to a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameAccess {
    name: NodeId,
    /// Argument of [`AccessHistory::touch_seen`].
    saw: bool,
    touch: ConflictMode,
}

/// Accesses of an operation to names: most paths have fewer components.
pub(super) type NameAccesses = SmallVec<[NameAccess; 8]>;

/// Access histories of all resources.
#[derive(Debug, Default)]
pub(super) struct Resources {
    names: FxHashMap<NodeId, AccessHistory>,
    positions: FxHashMap<u64, AccessHistory>,
    pieces: FxHashMap<(FileId, u64), AccessHistory>,
    whole: FxHashMap<FileId, AccessHistory>,
    lengths: FxHashMap<FileId, AccessHistory>,
    forgotten: EvictedAccesses,
}

impl Resources {
    /// Records the accesses of an operation to names.
    pub(super) fn named(&mut self, names: &[NameAccess], accessor: &mut Accessor<'_>) {
        accessor.wait_for_evicted(&mut self.forgotten);
        for &NameAccess { name, saw, touch } in names {
            accessor.touch_seen(self.names.entry(name).or_default(), saw, touch);
        }
    }

    /// Records an access to a descriptor.
    pub(super) fn of_handle(
        &mut self,
        handles: &mut Handles,
        handle: Handle,
        changes: bool,
        accessor: &mut Accessor<'_>,
    ) {
        let touch = if changes { ConflictMode::Exclusive } else { ConflictMode::Shared };
        accessor.touch(handles.uses(handle), touch);
    }

    /// Records accesses to the contents and the position of an open file. `of_itself`: length that
    /// does not depend on any write.
    pub(super) fn of_file(
        &mut self,
        operation: &SyscallOperation,
        file: FileId,
        description: u64,
        is_target: bool,
        of_itself: u64,
        accessor: &mut Accessor<'_>,
    ) {
        let call = operation.call.call();
        accessor.wait_for_evicted(&mut self.forgotten);
        if moves_position(operation, is_target) {
            self.moved(description, accessor);
        }
        let offset = if is_target { operation.target_offset } else { operation.offset };
        let bytes = operation.ret.and_then(|ret| u64::try_from(ret).ok()).unwrap_or(0);
        let writes =
            call.class == CallClass::Write || call.class == CallClass::Transfer && is_target;
        let reads =
            call.class == CallClass::Read || call.class == CallClass::Transfer && !is_target;
        match call.class {
            _ if reads || writes => {
                let is_longer =
                    offset.is_none_or(|offset| offset.saturating_add(bytes) > of_itself);
                let touch = if writes { ConflictMode::Exclusive } else { ConflictMode::Shared };
                self.range(file, offset.map(|offset| (offset, bytes)), touch, accessor);
                if is_longer {
                    accessor.touch(self.lengths.entry(file).or_default(), touch);
                }
            }
            CallClass::Resize => self.resized(file, accessor),
            CallClass::Sync => {
                accessor.touch(self.whole.entry(file).or_default(), ConflictMode::Exclusive)
            }
            CallClass::Seek => {
                accessor.touch(self.lengths.entry(file).or_default(), ConflictMode::Shared);
                // Positions of data depend on all earlier writes.
                if sought(operation).is_some() {
                    accessor.touch(self.whole.entry(file).or_default(), ConflictMode::Exclusive);
                }
            }
            _ => {}
        }
    }

    /// Records a change of the position of an open file.
    pub(super) fn moved(&mut self, description: u64, accessor: &mut Accessor<'_>) {
        accessor.wait_for_evicted(&mut self.forgotten);
        accessor.touch(self.positions.entry(description).or_default(), ConflictMode::Exclusive);
    }

    /// Records a change of a file's length, by any call (including `O_TRUNC`).
    pub(super) fn resized(&mut self, file: FileId, accessor: &mut Accessor<'_>) {
        for all in [&mut self.whole, &mut self.lengths] {
            accessor.touch(all.entry(file).or_default(), ConflictMode::Exclusive);
        }
    }

    /// Records an access to bytes of a file, given as offset and number; `None`: their offset is
    /// unknown.
    fn range(
        &mut self,
        file: FileId,
        range: Option<(u64, u64)>,
        touch: ConflictMode,
        accessor: &mut Accessor<'_>,
    ) {
        let pieces = range.map(|(offset, bytes)| {
            let last = offset.saturating_add(bytes.saturating_sub(1));
            offset / PIECE_BYTES..=last / PIECE_BYTES
        });
        let pieces = pieces.filter(|numbers| numbers.end() - numbers.start() < PIECES_MAX);
        let whole = self.whole.entry(file).or_default();
        let Some(pieces) = pieces else {
            accessor.touch(whole, ConflictMode::Exclusive);
            return;
        };
        accessor.touch(whole, ConflictMode::Shared);
        for piece in pieces {
            accessor.touch(self.pieces.entry((file, piece)).or_default(), touch);
        }
    }

    /// Returns the number of resources.
    pub(super) fn len(&self) -> usize {
        let Self { names, positions, pieces, whole, lengths, .. } = self;
        names.len() + positions.len() + pieces.len() + whole.len() + lengths.len()
    }

    /// Returns true if all accesses to a name had ended by `oldest`. Then an operation that began
    /// later need not wait for any that found the name so or changed the name.
    pub(super) fn is_settled(&self, node: NodeId, oldest: ReplayTime) -> bool {
        self.names.get(&node).is_none_or(|history| history.is_over(oldest))
    }

    /// Evicts names, open files and files that no longer exist, and all pieces if there are too
    /// many.
    pub(super) fn forget(
        &mut self,
        is_gone: impl Fn(NodeId) -> bool,
        is_open: impl Fn(u64) -> bool,
        is_there: impl Fn(FileId) -> bool,
        past: &LowWatermark,
    ) {
        let Self { names, positions, pieces, whole, lengths, forgotten } = self;
        let is_many = pieces.len() > PIECES_KEPT;
        let names = names.extract_if(|node, _| is_gone(*node)).map(|(_, name)| name);
        let positions = positions.extract_if(|description, _| !is_open(*description));
        let positions = positions.map(|(_, position)| position);
        let pieces = pieces.extract_if(|(file, _), _| is_many || !is_there(*file));
        let pieces = pieces.map(|(_, piece)| piece);
        let whole = whole.extract_if(|file, _| !is_there(*file)).map(|(_, whole)| whole);
        let lengths = lengths.extract_if(|file, _| !is_there(*file)).map(|(_, length)| length);
        forgotten.add(names.chain(positions).chain(pieces).chain(whole).chain(lengths), past);
        self.names.shrink_to_fit();
        self.positions.shrink_to_fit();
        self.pieces.shrink_to_fit();
        self.whole.shrink_to_fit();
        self.lengths.shrink_to_fit();
    }
}

/// Returns the accesses of an operation to the names that it was given, and to the symbolic links
/// through which its paths led, in the current state of the names.
pub(super) fn name_accesses(
    operation: &SyscallOperation,
    world: &FsModel,
    nodes: OpNodes,
    links: &[NodeId],
) -> NameAccesses {
    let mut accesses = NameAccesses::new();
    for (place, node) in [nodes.first, nodes.second].into_iter().enumerate() {
        let Some(node) = node else { continue };
        let changes =
            changes_names(operation) || may_make(operation) && world.entry_kind(node).is_none();
        for (depth, name) in world.ancestors(node).enumerate() {
            let touch =
                if depth == 0 && changes { ConflictMode::Exclusive } else { ConflictMode::Shared };
            // Ended operations determine the state of a name. An operation that found the name in
            // that state came after them, and before those that change the name later.
            let saw = match found_there(operation, place, depth) {
                Some(true) => world.entry_kind(name).is_some(),
                Some(false) => world.is_absent(name),
                None => false,
            };
            accesses.push(NameAccess { name, saw, touch });
        }
    }
    for name in links.iter().flat_map(|link| world.ancestors(*link)) {
        let saw = world.entry_kind(name).is_some();
        accesses.push(NameAccess { name, saw, touch: ConflictMode::Shared });
    }
    accesses
}

/// Returns true if an operation changes names, or would if it succeeded.
fn changes_names(operation: &SyscallOperation) -> bool {
    let call = operation.call.call();
    let is_tried = operation.errno().is_none() || removes_directory(call, &operation.args);
    matches!(call.class, CallClass::Name | CallClass::Rename | CallClass::Remove) && is_tried
}

/// Returns true if an open may create a missing file.
fn may_make(operation: &SyscallOperation) -> bool {
    let creates = open_flags(operation).creates();
    operation.call.call().class == CallClass::Open && creates && operation.errno().is_none()
}

/// Returns the offset of the bytes that a call has moved, and updates the position. An operation
/// that began at the position begins there in the replay too, whether or not the capture knows the
/// position.
pub(super) fn advance_position(
    operation: &SyscallOperation,
    is_target: bool,
    position: &Cell<u64>,
    ret: u64,
) -> Option<u64> {
    let known = if is_target { operation.target_offset } else { operation.offset };
    if !moves_position(operation, is_target) {
        return known;
    }
    let call = operation.call.call();
    if call.class == CallClass::Seek {
        position.set(ret);
        return known;
    }
    let writes = call.class == CallClass::Write || is_target;
    // Appended bytes go to the end of the file, wherever the end is.
    let begin = known.or((!writes).then_some(position.get()));
    position.set(begin.unwrap_or(position.get()).saturating_add(ret));
    begin
}

/// Returns true if an operation appends to the file, wherever its end is.
pub(super) fn appends(
    operation: &SyscallOperation,
    file: Option<&OpenFile>,
    is_target: bool,
) -> bool {
    let flags = OpenFlags(file.and_then(|file| file.flags).unwrap_or(0));
    let writes = operation.call.call().class == CallClass::Write || is_target;
    writes && flags.appends()
}

/// Returns true if an operation begins at the position, and moves the position.
pub(super) fn moves_position(operation: &SyscallOperation, is_target: bool) -> bool {
    let call = operation.call.call();
    let is_null = |role| call.arg(role).is_none_or(|register| operation.args[register] == 0);
    match call.class {
        CallClass::Seek | CallClass::List => true,
        // -1 means the position (preadv2(2)).
        CallClass::Read | CallClass::Write => {
            call.arg(Role::Offset).is_none_or(|register| operation.args[register] == u64::MAX)
        }
        CallClass::Transfer if is_target => is_null(Role::OffsetPtr2),
        CallClass::Transfer => is_null(Role::OffsetPtr),
        _ => false,
    }
}
