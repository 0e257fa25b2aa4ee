//! Memory of the library's buffers, and the times at which they are written to disk.
//!
//! OTF2 requests memory in chunks, one buffer per open writer. A null result makes it write all
//! chunks of that buffer to the location's file, free them and request memory again. The file is
//! opened at the first such write and stays open until the writer is closed, with a buffer of 4 MiB
//! under it. So a writer of the library is expensive: it has one chunk, 256 KiB with any content,
//! and 4 MiB more when it has written. Memory and open files are bounded because few locations have
//! a writer:
//!
//! ```text
//!   waiting ([`crate::waiting`])          open in the library            closed
//!   a few KiB, the rest in one file  ──►  256 KiB + 4 MiB, a file  ──►
//!                 the first with much to write, while the budget has room;
//!                 the others when they are closed, one at a time
//! ```
//!
//! So the memory of an archive depends neither on the number of its events nor, except for some
//! hundred bytes, on that of its locations.
//!
//! After a failure nothing is written any more: OTF2 would try again at each buffer's end, and
//! would write an anchor file that makes a broken archive look complete.
//!
//! # A defect of the library to work around (OTF2 3.0 to 3.2, `otf2_file_write_buffered`)
//!
//! When writing the buffer of a file fails, OTF2 frees it, and frees it again when the file is
//! closed. So
//!
//! * after a failure the library's objects are left alone, never closed (`Pool::fail`);
//! * closing a writer must not write that buffer halfway: with one chunk at a time the buffer is
//!   written whenever it is full, so the data that closing adds fits into it, and is written with
//!   one call that is safe.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::null_mut;

use crate::chunks::{Chunk, Chunks};
use crate::constants::{OTF2_CHUNK_SIZE_MIN, OTF2_FILETYPE_EVENTS, OTF2_FLUSH, OTF2_NO_FLUSH};
use crate::ffi::{
    OTF2_FileType, OTF2_FlushCallbacks, OTF2_FlushType, OTF2_LocationRef, OTF2_MemoryCallbacks,
};

/// The size of the library's buffer under each file.
const FILE_BUFFER_BYTES: u64 = 4 * 1024 * 1024;

/// The size of all chunks, the smallest possible.
pub(crate) const CHUNK_BYTES: u64 = OTF2_CHUNK_SIZE_MIN;

/// Number of chunks of definitions that fill the library's buffer, which is then written and empty
/// again.
const DEFINITION_CHUNKS_MAX: usize = 16;
const _: () = assert!(DEFINITION_CHUNKS_MAX as u64 * CHUNK_BYTES == FILE_BUFFER_BYTES);
// The buffer is empty again after a whole number of chunks.
const _: () = assert!(FILE_BUFFER_BYTES.is_multiple_of(CHUNK_BYTES));

/// Shares of the budget for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Memory for all locations without a writer.
    pub(crate) waiting_bytes: u64,
    /// Limit on writers of the library that stay open.
    pub(crate) writers: u64,
}

impl Shares {
    pub(crate) fn of(budget_bytes: u64, open_files_max: u64) -> Self {
        let waiting_bytes = budget_bytes / 4;
        let affordable = (budget_bytes - waiting_bytes) / (CHUNK_BYTES + FILE_BUFFER_BYTES);
        Self { waiting_bytes, writers: affordable.min(open_files_max) }
    }
}

/// Callbacks for writes: none after the write, because it would add a `BufferFlush` event, which
/// means that the traced program stood still meanwhile.
pub(crate) static FLUSH_CALLBACKS: OTF2_FlushCallbacks =
    OTF2_FlushCallbacks { otf2_pre_flush: Some(before_flush), otf2_post_flush: None };

/// Callbacks for chunks.
pub(crate) static MEMORY_CALLBACKS: OTF2_MemoryCallbacks =
    OTF2_MemoryCallbacks { otf2_allocate: Some(allocate), otf2_free_all: Some(free_all) };

/// Memory and files in use by an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Current number of locations with a writer of OTF2: each has 256 KiB, and 4 MiB more if its
    /// file is open.
    pub library_writers: u64,
    /// The largest value of `library_writers` so far.
    pub library_writers_max: u64,
    /// Current number of open event files.
    pub open_files: u64,
    /// The largest value of `open_files` so far.
    pub open_files_max: u64,
    /// Current memory of the other locations' events, in bytes.
    pub waiting_bytes: u64,
    /// The largest value of `waiting_bytes` so far.
    pub waiting_bytes_max: u64,
    /// Size of the nameless file with the rest of their events.
    pub waiting_file_bytes: u64,
}

/// Counters of one archive. The library's callbacks get a pointer to it, on the archive's thread.
#[derive(Debug)]
pub(crate) struct Pool {
    writers_max: u64,
    free: RefCell<Chunks>,
    state: Cell<State>,
    counts: Cell<MemoryUse>,
}

/// State of the writes and of the library's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Writing,
    /// Nothing is written; closing is safe.
    Abandoned,
    /// Nothing is written; closing may free memory twice.
    Failed,
}

impl Pool {
    /// Creates it with a limit on the writers of events that stay open.
    pub(crate) fn new(writers_max: u64) -> Self {
        Self {
            writers_max,
            free: RefCell::default(),
            state: Cell::new(State::Writing),
            counts: Cell::default(),
        }
    }

    /// Stops all writes of buffers to disk.
    pub(crate) fn abandon(&self) {
        if self.state.get() == State::Writing {
            self.state.set(State::Abandoned);
        }
    }

    /// Records a failure of the library: no buffer is written any more, and no object of it is
    /// closed.
    pub(crate) fn fail(&self) {
        self.state.set(State::Failed);
    }

    /// True if nothing is written any more.
    #[inline]
    pub(crate) fn is_abandoned(&self) -> bool {
        self.state.get() != State::Writing
    }

    /// True if the library's objects must be left alone.
    pub(crate) fn is_failed(&self) -> bool {
        self.state.get() == State::Failed
    }

    /// Counters of the library's writers and files; those of waiting events are not known here.
    pub(crate) fn counts(&self) -> MemoryUse {
        self.counts.get()
    }

    /// True if one more location may have a writer of the library permanently.
    pub(crate) fn has_writer_to_give(&self) -> bool {
        self.counts.get().library_writers < self.writers_max
    }

    /// Adds a chunk to this buffer; null if the machine has no more memory.
    fn grow(&self, buffer: &mut Buffer) -> *mut c_void {
        let chunk = buffer.spare.take().or_else(|| self.free.borrow_mut().take());
        let Some(chunk) = chunk else { return null_mut() };
        let start = chunk.as_ptr();
        buffer.chunks.push(chunk);
        start.cast()
    }

    /// Takes all chunks of a buffer back except for one.
    fn shrink(&self, buffer: &mut Buffer) {
        while let Some(chunk) = buffer.chunks.pop() {
            if buffer.spare.is_none() {
                buffer.spare = Some(chunk);
            } else {
                self.free.borrow_mut().give_back(chunk);
            }
        }
    }

    fn count(&self, change: impl FnOnce(&mut MemoryUse)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        counts.library_writers_max = counts.library_writers_max.max(counts.library_writers);
        counts.open_files_max = counts.open_files_max.max(counts.open_files);
        self.counts.set(counts);
    }
}

/// Chunks of one buffer of the library. The buffer's "per buffer data" pointer refers to it from
/// the first `allocate` to the last `free_all`; after a failure forever, because the library may
/// still use them.
struct Buffer {
    chunks: Vec<Chunk>,
    /// A chunk kept back when the others are freed after a write. The library requests one at once
    /// and cannot handle a refusal then: it would go on with memory that it has freed.
    spare: Option<Chunk>,
    is_events: bool,
    file_open: bool,
}

/// Called by the library before it writes a buffer to its file.
unsafe extern "C" fn before_flush(
    pool: *mut c_void,
    _file_type: OTF2_FileType,
    _location: OTF2_LocationRef,
    _caller_data: *mut c_void,
    _last: bool,
) -> OTF2_FlushType {
    // SAFETY: `pool` is what `Archive::create` registered: it lives until the archive is closed
    // and is only ever used through shared references, on this thread.
    let pool: &Pool = unsafe { &*pool.cast() };
    if pool.is_abandoned() { OTF2_NO_FLUSH } else { OTF2_FLUSH }
}

/// Called by the library for the first chunk of a buffer and for each further one.
unsafe extern "C" fn allocate(
    pool: *mut c_void,
    file_type: OTF2_FileType,
    _location: OTF2_LocationRef,
    slot: *mut *mut c_void,
    chunk_bytes: u64,
) -> *mut c_void {
    // SAFETY: as in `before_flush`.
    let pool: &Pool = unsafe { &*pool.cast() };
    // SAFETY: the library passes the address of the buffer's own pointer, null before first use,
    // and nothing else reads or writes it during this call.
    let slot: &mut *mut Buffer = unsafe { &mut *slot.cast() };
    // All chunks are of the size that the archive was opened with.
    if chunk_bytes != CHUNK_BYTES {
        return null_mut();
    }
    if slot.is_null() {
        let buffer = new_buffer(file_type);
        if buffer.is_events {
            pool.count(|it| it.library_writers += 1);
        }
        *slot = Box::into_raw(buffer);
    }
    // SAFETY: not null, so it is the box leaked above, which nothing else refers to now.
    let buffer: &mut Buffer = unsafe { &mut **slot };
    let chunks_max = if buffer.is_events { 1 } else { DEFINITION_CHUNKS_MAX };
    if buffer.chunks.len() >= chunks_max {
        return null_mut();
    }
    pool.grow(buffer)
}

fn new_buffer(file_type: OTF2_FileType) -> Box<Buffer> {
    Box::new(Buffer {
        chunks: Vec::new(),
        spare: None,
        is_events: file_type == OTF2_FILETYPE_EVENTS,
        file_open: false,
    })
}

/// Called by the library after each write of a buffer, and (`last`) when the buffer is deleted.
unsafe extern "C" fn free_all(
    pool: *mut c_void,
    _file_type: OTF2_FileType,
    _location: OTF2_LocationRef,
    slot: *mut *mut c_void,
    last: bool,
) {
    // SAFETY: as in `before_flush`.
    let pool: &Pool = unsafe { &*pool.cast() };
    // SAFETY: as in `allocate`.
    let slot: &mut *mut Buffer = unsafe { &mut *slot.cast() };
    if slot.is_null() {
        return;
    }
    // SAFETY: not null, so it is the box that `allocate` leaked, which nothing else refers to now.
    let buffer: &mut Buffer = unsafe { &mut **slot };
    if buffer.is_events && !last && !buffer.file_open {
        buffer.file_open = true;
        pool.count(|it| it.open_files += 1);
    }
    pool.shrink(buffer);
    if last {
        let buffer = std::mem::replace(slot, null_mut());
        // SAFETY: the box that `allocate` leaked; the slot is cleared, so it is taken back once.
        let buffer = unsafe { Box::from_raw(buffer) };
        pool.count(|it| {
            it.library_writers -= u64::from(buffer.is_events);
            it.open_files -= u64::from(buffer.file_open);
        });
        buffer.spare.into_iter().for_each(|it| pool.free.borrow_mut().give_back(it));
    }
}
