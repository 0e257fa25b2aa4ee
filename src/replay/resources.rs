//! Everything that operations can be in the way of each other on.
//!
//! | Thing | is used by | is changed by |
//! |---|---|---|
//! | a handle | who works on it | who opens and closes it |
//! | a position | – | who reads, writes, seeks or lists without saying where |
//! | a name | who looks it up, and everything below it | who makes, removes and renames it |
//! | 64 KiB of a file | who reads them | who writes them |
//! | all of a file | who moves less than 4 MiB | who moves more, who waits for the disk, who asks for data or holes |
//! | a file's length | who reads | who makes it longer or shorter |
//!
//! Locks of files have rules of their own: [`super::locks`]. Things that are gone, and pieces beyond some number, are forgotten: [`super::evicted_accesses`].

use std::cell::Cell;

use rustc_hash::FxHashMap;

use super::dependencies::{AccessHistory, TimedOp, Touch, WaitSet};
use super::evicted_accesses::EvictedAccesses;
use super::handles::{Handle, Handles};
use super::infer_initial_state::{found_there, open_flags, removes_directory, sought};
use super::low_watermark::Past;
use super::namespace::{FileId, FsModel, NodeId};
use crate::event::syscall_table::{Class, Role};
use crate::operation::model::{OpenFile, SyscallOperation};

/// Bytes of a file that are one thing.
const PIECE_BYTES: u64 = 64 << 10;

/// Pieces that one operation touches at most; with more it touches all of the file.
const PIECES_MAX: u64 = 64;

/// Pieces that are kept: 2 GiB of what was read and written last, some 10 MiB of memory.
const PIECES_KEPT: usize = 32 << 10;

/// One touch: by whom, how far back others may have begun, and whom it has to wait for.
type By<'a> = (TimedOp, &'a Past, &'a mut WaitSet);

/// All of them.
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
    /// The names that an operation was given.
    pub(super) fn named(
        &mut self,
        operation: &SyscallOperation,
        world: &FsModel,
        nodes: [Option<NodeId>; 2],
        (by, past, before): By<'_>,
    ) {
        self.forgotten.wait(by, past, before);
        for (place, node) in nodes.into_iter().enumerate() {
            let Some(node) = node else { continue };
            let changes =
                changes_names(operation) || may_make(operation) && world.thing(node).is_none();
            for (depth, it) in world.way(node).enumerate() {
                let touch = if depth == 0 && changes { Touch::Changes } else { Touch::Uses };
                // Names are as those have left them who have ended: who found them so was behind those, and in front of those who change them then.
                let saw = match found_there(operation, place, depth) {
                    Some(true) => world.thing(it).is_some(),
                    Some(false) => world.is_absent(it),
                    None => false,
                };
                self.names.entry(it).or_default().touch_seen((by, saw), touch, past, before);
            }
        }
    }

    /// Links that paths led through.
    pub(super) fn passed(&mut self, world: &FsModel, links: &[NodeId], (by, past, before): By<'_>) {
        for it in links.iter().flat_map(|it| world.way(*it)) {
            let name = self.names.entry(it).or_default();
            name.touch_seen((by, world.thing(it).is_some()), Touch::Uses, past, before);
        }
    }

    /// A descriptor.
    pub(super) fn of_handle(
        &mut self,
        handles: &mut Handles,
        handle: Handle,
        changes: bool,
        (by, past, before): By<'_>,
    ) {
        let touch = if changes { Touch::Changes } else { Touch::Uses };
        handles.uses(handle).touch(by, touch, past, before);
    }

    /// The contents of an open file, and where it stands. `of_itself`: so long it is whoever has
    /// written what.
    pub(super) fn of_file(
        &mut self,
        operation: &SyscallOperation,
        (file, description, is_target): (FileId, u64, bool),
        of_itself: u64,
        (by, past, before): By<'_>,
    ) {
        let call = operation.call.call();
        self.forgotten.wait(by, past, before);
        if moves_position(operation, is_target) {
            self.moved(description, (by, past, &mut *before));
        }
        let offset = if is_target { operation.target_offset } else { operation.offset };
        let bytes = operation.ret.and_then(|it| u64::try_from(it).ok()).unwrap_or(0);
        let writes = call.class == Class::Write || call.class == Class::Transfer && is_target;
        let reads = call.class == Class::Read || call.class == Class::Transfer && !is_target;
        match call.class {
            _ if reads || writes => {
                let is_longer = offset.is_none_or(|it| it.saturating_add(bytes) > of_itself);
                let touch = if writes { Touch::Changes } else { Touch::Uses };
                self.range(file, offset.map(|it| (it, bytes)), touch, (by, past, &mut *before));
                if is_longer {
                    self.lengths.entry(file).or_default().touch(by, touch, past, before);
                }
            }
            Class::Resize => self.resized(file, (by, past, before)),
            Class::Sync => {
                let whole = self.whole.entry(file).or_default();
                whole.touch(by, Touch::Changes, past, before);
            }
            Class::Seek => {
                let length = self.lengths.entry(file).or_default();
                length.touch(by, Touch::Uses, past, before);
                // Where data is depends on all that has been written.
                if sought(operation).is_some() {
                    let whole = self.whole.entry(file).or_default();
                    whole.touch(by, Touch::Changes, past, before);
                }
            }
            _ => {}
        }
    }

    /// Where an open file stands.
    pub(super) fn moved(&mut self, description: u64, (by, past, before): By<'_>) {
        self.forgotten.wait(by, past, before);
        let position = self.positions.entry(description).or_default();
        position.touch(by, Touch::Changes, past, before);
    }

    /// Another length, by whatever call (`O_TRUNC`, too).
    pub(super) fn resized(&mut self, file: FileId, (by, past, before): By<'_>) {
        for all in [&mut self.whole, &mut self.lengths] {
            all.entry(file).or_default().touch(by, Touch::Changes, past, before);
        }
    }

    /// Bytes of a file; `None`: nobody knows which.
    fn range(
        &mut self,
        file: FileId,
        range: Option<(u64, u64)>,
        touch: Touch,
        (by, past, before): By<'_>,
    ) {
        let pieces = range.map(|(offset, bytes)| {
            let last = offset.saturating_add(bytes.saturating_sub(1));
            offset / PIECE_BYTES..=last / PIECE_BYTES
        });
        let pieces = pieces.filter(|it| it.end() - it.start() < PIECES_MAX);
        let whole = self.whole.entry(file).or_default();
        let Some(pieces) = pieces else {
            whole.touch(by, Touch::Changes, past, before);
            return;
        };
        whole.touch(by, Touch::Uses, past, before);
        for piece in pieces {
            let piece = self.pieces.entry((file, piece)).or_default();
            piece.touch(by, touch, past, before);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        let Self { names, positions, pieces, whole, lengths, .. } = self;
        names.len() + positions.len() + pieces.len() + whole.len() + lengths.len()
    }

    /// True if nobody who began after that may have to wait for who found a name as others had left it, or changed it then.
    pub(super) fn is_settled(&self, node: NodeId, oldest: u64) -> bool {
        self.names.get(&node).is_none_or(|it| it.is_over(oldest))
    }

    /// Names, open files and files that are not there any more are forgotten, and pieces if there are too many.
    pub(super) fn forget(
        &mut self,
        is_gone: impl Fn(NodeId) -> bool,
        is_open: impl Fn(u64) -> bool,
        is_there: impl Fn(FileId) -> bool,
        past: &Past,
    ) {
        let Self { names, positions, pieces, whole, lengths, forgotten } = self;
        let is_many = pieces.len() > PIECES_KEPT;
        let names = names.extract_if(|it, _| is_gone(*it)).map(|it| it.1);
        let positions = positions.extract_if(|it, _| !is_open(*it)).map(|it| it.1);
        let pieces = pieces.extract_if(|it, _| is_many || !is_there(it.0)).map(|it| it.1);
        let whole = whole.extract_if(|it, _| !is_there(*it)).map(|it| it.1);
        let lengths = lengths.extract_if(|it, _| !is_there(*it)).map(|it| it.1);
        forgotten.add(names.chain(positions).chain(pieces).chain(whole).chain(lengths), past);
        self.names.shrink_to_fit();
        self.positions.shrink_to_fit();
        self.pieces.shrink_to_fit();
        self.whole.shrink_to_fit();
        self.lengths.shrink_to_fit();
    }
}

/// True if names are others behind it, or would be if it succeeded.
fn changes_names(operation: &SyscallOperation) -> bool {
    let call = operation.call.call();
    let is_tried = operation.errno().is_none() || removes_directory(call, &operation.args);
    matches!(call.class, Class::Name | Class::Rename | Class::Remove) && is_tried
}

/// True if it makes the file that is not there.
fn may_make(operation: &SyscallOperation) -> bool {
    let creates = open_flags(operation) & libc::O_CREAT.cast_unsigned() != 0;
    operation.call.call().class == Class::Open && creates && operation.errno().is_none()
}

/// Where the file's bytes are that a call has moved, and where it stands then: who began where it stood begins there in the replay, too,
/// whether the capture knows it or not.
pub(super) fn stood(
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
    if call.class == Class::Seek {
        position.set(ret);
        return known;
    }
    let writes = call.class == Class::Write || is_target;
    // What is appended goes to the end, wherever that is.
    let begin = known.or((!writes).then_some(position.get()));
    position.set(begin.unwrap_or(position.get()).saturating_add(ret));
    begin
}

/// True if what it writes goes to the end of the file, wherever that stands.
pub(super) fn appends(
    operation: &SyscallOperation,
    file: Option<&OpenFile>,
    is_target: bool,
) -> bool {
    let flags = file.and_then(|it| it.flags).unwrap_or(0);
    let writes = operation.call.call().class == Class::Write || is_target;
    writes && flags & libc::O_APPEND.cast_unsigned() != 0
}

/// True if it begins where the file stands, and moves that.
pub(super) fn moves_position(operation: &SyscallOperation, is_target: bool) -> bool {
    let call = operation.call.call();
    let is_null = |role| call.arg(role).is_none_or(|it| operation.args[it] == 0);
    match call.class {
        Class::Seek | Class::List => true,
        // -1: where it stands (preadv2(2)).
        Class::Read | Class::Write => {
            call.arg(Role::Offset).is_none_or(|it| operation.args[it] == u64::MAX)
        }
        Class::Transfer if is_target => is_null(Role::OffsetPtr2),
        Class::Transfer => is_null(Role::OffsetPtr),
        _ => false,
    }
}
