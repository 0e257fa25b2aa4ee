//! Where the library's buffers live and when they are written to disk.
//!
//! OTF2 asks for memory in chunks, one buffer per location. A null answer makes it write all chunks
//! of that buffer to the location's file, give them back and ask again. The file is opened at the
//! first such write and stays open until the writer is closed. So the answers decide two things:
//!
//! * **memory**: a location may hold `budget / locations / chunk size` chunks, at least one, and
//!   not more than a cache holds, unless files are getting scarce;
//! * **open files**: a location whose file is not open may open it only while fewer than
//!   `open_files_max` are open, and while OTF2's buffers under the open files fit into the budget.
//!   Beyond that it keeps its events until it is closed. What exceeds the budget then is moved to a
//!   file of ours, chunk by chunk ([`super::chunks`]); what cannot be moved is counted.
//!
//! So the memory of an archive grows with the number of its locations, not with that of its events.
//!
//! Once something failed, nothing is written any more: OTF2 would try again at each buffer's end,
//! and would write an anchor file that makes a broken archive look whole.
//!
//! # A defect of the library to work around (OTF2 3.0 to 3.2, `otf2_file_write_buffered`)
//!
//! Under each open file lies another buffer, of 4 MiB. When writing that one fails, OTF2 frees it
//! and frees it again when the file is closed. So
//!
//! * after a failure the library's objects are left alone, never closed (`Pool::fail`);
//! * closing a writer must not write that buffer halfway: chunks are written so that no more than
//!   4 MiB remain since the last multiple of 4 MiB in the file, which closing writes with one call
//!   that is safe. Only a location kept in memory by the limit on files can hold more; for that one
//!   the space on the disk is tried first.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use crate::chunks::{Chunk, Chunks};
use crate::constants::{OTF2_CHUNK_SIZE_MIN, OTF2_FILETYPE_EVENTS, OTF2_FLUSH, OTF2_NO_FLUSH};
use crate::ffi::{
    OTF2_FileType, OTF2_FlushCallbacks, OTF2_FlushType, OTF2_LocationRef, OTF2_MemoryCallbacks,
};

/// The size of the library's buffer under each file.
const FILE_BUFFER_BYTES: u64 = 4 * 1024 * 1024;

/// The size of all chunks, the smallest possible: each location needs at least one.
pub(crate) const CHUNK_BYTES: u64 = OTF2_CHUNK_SIZE_MIN;

/// How many chunks fill the library's buffer, which is then written and empty again. A location
/// gains nothing from more chunks between two writes.
const CHUNKS_PER_WRITE_MAX: u64 = FILE_BUFFER_BYTES / CHUNK_BYTES;
const _: () = assert!(FILE_BUFFER_BYTES.is_multiple_of(CHUNK_BYTES));

/// Files that may be open however small the budget is.
const OPEN_FILES_MIN: u64 = 16;

/// When to write: no callback after the write, for it would add a `BufferFlush` event, which says
/// that the traced program stood still meanwhile.
pub(crate) static FLUSH_CALLBACKS: OTF2_FlushCallbacks =
    OTF2_FlushCallbacks { otf2_pre_flush: Some(before_flush), otf2_post_flush: None };

/// Where chunks come from.
pub(crate) static MEMORY_CALLBACKS: OTF2_MemoryCallbacks =
    OTF2_MemoryCallbacks { otf2_allocate: Some(allocate), otf2_free_all: Some(free_all) };

/// How much memory and how many files an archive uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes of event chunks that are in memory now; a chunk counts as a whole, however little is in
    /// it. Besides, OTF2 has a buffer of 4 MiB for each open file.
    pub event_bytes: u64,
    /// The largest value of `event_bytes` so far.
    pub event_bytes_max: u64,
    /// By how many bytes `event_bytes` exceeded the budget at worst.
    pub over_budget_bytes_max: u64,
    /// Event files that are open now.
    pub open_files: u64,
    /// The largest value of `open_files` so far.
    pub open_files_max: u64,
}

/// The books of one archive. The library's callbacks get a pointer to it, on the archive's thread.
#[derive(Debug)]
pub(crate) struct Pool {
    budget_bytes: u64,
    open_files_limit: u64,
    active_writers: Cell<u64>,
    chunks: RefCell<Chunks>,
    state: Cell<State>,
    counts: Cell<MemoryUse>,
    /// The chunks of locations that are kept in memory and cannot be written with one call.
    kept: RefCell<HashMap<OTF2_LocationRef, u64>>,
    /// Where the space on the disk is tried.
    trial_file: PathBuf,
    /// Why there is not enough of it.
    no_space: RefCell<Option<io::Error>>,
}

/// Whether buffers are written and the library's objects may be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Writing,
    /// Nothing is written; closing is safe.
    Abandoned,
    /// Nothing is written; closing may free memory twice.
    Failed,
}

impl Pool {
    /// `directory` is that of the event files.
    pub(crate) fn new(budget_bytes: u64, open_files_max: u64, directory: &Path) -> Self {
        let affordable = (budget_bytes / FILE_BUFFER_BYTES).max(OPEN_FILES_MIN);
        Self {
            budget_bytes,
            open_files_limit: open_files_max.min(affordable),
            active_writers: Cell::new(0),
            chunks: RefCell::new(Chunks::new(directory.join("events.kept"))),
            state: Cell::new(State::Writing),
            counts: Cell::new(MemoryUse::default()),
            kept: RefCell::default(),
            trial_file: directory.join("space.trial"),
            no_space: RefCell::default(),
        }
    }

    /// From now on no buffer is written to disk.
    pub(crate) fn abandon(&self) {
        if self.state.get() == State::Writing {
            self.state.set(State::Abandoned);
        }
    }

    /// The library failed: no buffer is written any more, and nothing of it is closed.
    pub(crate) fn fail(&self) {
        self.state.set(State::Failed);
    }

    /// Whether nothing is written any more.
    #[inline]
    pub(crate) fn is_abandoned(&self) -> bool {
        self.state.get() != State::Writing
    }

    /// Whether the library's objects must be left alone.
    pub(crate) fn is_failed(&self) -> bool {
        self.state.get() == State::Failed
    }

    /// Why the space on the disk was tried in vain, once.
    pub(crate) fn take_no_space(&self) -> Option<io::Error> {
        self.no_space.take()
    }

    /// Whether the last write of this location finds room on the disk. If not, nothing is written
    /// any more.
    fn has_space_to_close(&self, location: OTF2_LocationRef) -> bool {
        let Some(chunks) = self.kept.borrow_mut().remove(&location) else { return true };
        match self.try_space(chunks * CHUNK_BYTES) {
            Ok(()) => true,
            Err(error) => {
                self.no_space.replace(Some(error));
                self.abandon();
                false
            }
        }
    }

    /// Writes as many bytes to a file of its own, which is removed again.
    fn try_space(&self, bytes: u64) -> io::Result<()> {
        let mut file = File::create(&self.trial_file)?;
        let written = io::copy(&mut io::repeat(0).take(bytes), &mut file);
        drop(file);
        fs::remove_file(&self.trial_file)?;
        written.map(|_| ())
    }

    pub(crate) fn counts(&self) -> MemoryUse {
        self.counts.get()
    }

    /// Whether a buffer of events with these chunks is to be written before it gets another one.
    fn must_write(&self, buffer: &Buffer) -> bool {
        let held = buffer.chunks.len() as u64;
        let counts = self.counts.get();
        if !buffer.file_open && counts.open_files >= self.open_files_limit {
            return false;
        }
        let writers = self.active_writers.get().max(1);
        let share = (self.budget_bytes / writers / CHUNK_BYTES).max(1);
        let since_multiple = buffer.written % CHUNKS_PER_WRITE_MAX + held;
        let files_are_plenty = buffer.file_open || counts.open_files < self.open_files_limit / 2;
        held >= share || (files_are_plenty && since_multiple >= CHUNKS_PER_WRITE_MAX)
    }

    /// Remembers a location that closing could not write with one call.
    fn note_kept(&self, location: OTF2_LocationRef, buffer: &Buffer) {
        let held = buffer.chunks.len() as u64;
        if held > CHUNKS_PER_WRITE_MAX && !buffer.file_open {
            self.kept.borrow_mut().insert(location, held);
        }
    }

    /// A chunk more for this buffer; null if the machine has no more memory.
    fn grow(&self, buffer: &mut Buffer) -> *mut c_void {
        if buffer.is_events && self.counts.get().event_bytes >= self.budget_bytes {
            self.relieve(buffer);
        }
        let chunk = buffer.spare.take().or_else(|| self.chunks.borrow_mut().take());
        let Some(chunk) = chunk else { return null_mut() };
        let start = chunk.as_ptr();
        buffer.chunks.push(chunk);
        if buffer.is_events {
            self.events_grown(CHUNK_BYTES);
        }
        start.cast()
    }

    /// Memory is short: what this buffer has filled goes to the file.
    fn relieve(&self, buffer: &mut Buffer) {
        let mut moved = 0;
        for chunk in buffer.chunks.iter_mut().rev().take_while(|it| !it.is_in_file()) {
            // What cannot be moved stays.
            if self.chunks.borrow_mut().move_to_file(chunk).is_ok() {
                moved += CHUNK_BYTES;
            }
        }
        self.events_shrunk(moved);
    }

    /// Takes all chunks of a buffer back but one.
    fn shrink(&self, buffer: &mut Buffer) {
        let mut chunks = self.chunks.borrow_mut();
        while let Some(chunk) = buffer.chunks.pop() {
            if buffer.spare.is_none() && !chunk.is_in_file() {
                buffer.spare = Some(chunk);
            } else {
                chunks.give_back(chunk);
            }
        }
    }

    fn events_grown(&self, bytes: u64) {
        let mut counts = self.counts.get();
        counts.event_bytes += bytes;
        counts.event_bytes_max = counts.event_bytes_max.max(counts.event_bytes);
        let over = counts.event_bytes.saturating_sub(self.budget_bytes);
        counts.over_budget_bytes_max = counts.over_budget_bytes_max.max(over);
        self.counts.set(counts);
    }

    fn events_shrunk(&self, bytes: u64) {
        let mut counts = self.counts.get();
        counts.event_bytes -= bytes;
        self.counts.set(counts);
    }

    fn file_opened(&self) {
        let mut counts = self.counts.get();
        counts.open_files += 1;
        counts.open_files_max = counts.open_files_max.max(counts.open_files);
        self.counts.set(counts);
    }

    fn file_closed(&self) {
        let mut counts = self.counts.get();
        counts.open_files -= 1;
        self.counts.set(counts);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.is_failed() {
            // What the library did not close may point into it.
            std::mem::forget(self.chunks.replace(Chunks::new(PathBuf::new())));
        }
    }
}

/// The chunks of one buffer of the library. It hangs at the buffer's "per buffer data" pointer
/// from the first `allocate` to the last `free_all`.
struct Buffer {
    chunks: Vec<Chunk>,
    /// A chunk kept back when the others are freed after a write. The library asks for one at once
    /// and cannot cope with a refusal then: it would go on with memory it has freed.
    spare: Option<Chunk>,
    is_events: bool,
    file_open: bool,
    /// Chunks in the file.
    written: u64,
}

/// Called by the library before it writes a buffer to its file.
unsafe extern "C" fn before_flush(
    pool: *mut c_void,
    file_type: OTF2_FileType,
    location: OTF2_LocationRef,
    _caller_data: *mut c_void,
    last: bool,
) -> OTF2_FlushType {
    // SAFETY: `pool` is what `Archive::create` registered: it lives until the archive is closed
    // and is only ever used through shared references, on this thread.
    let pool: &Pool = unsafe { &*pool.cast() };
    if pool.is_abandoned() {
        return OTF2_NO_FLUSH;
    }
    if last && file_type == OTF2_FILETYPE_EVENTS && !pool.has_space_to_close(location) {
        return OTF2_NO_FLUSH;
    }
    OTF2_FLUSH
}

/// Called by the library for the first chunk of a buffer and for each further one.
unsafe extern "C" fn allocate(
    pool: *mut c_void,
    file_type: OTF2_FileType,
    location: OTF2_LocationRef,
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
            pool.active_writers.set(pool.active_writers.get() + 1);
        }
        *slot = Box::into_raw(buffer);
    }
    // SAFETY: not null, so it is the box leaked above, which nothing else refers to now.
    let buffer: &mut Buffer = unsafe { &mut **slot };
    let must_write = if buffer.is_events {
        !buffer.chunks.is_empty() && pool.must_write(buffer)
    } else {
        buffer.chunks.len() as u64 >= CHUNKS_PER_WRITE_MAX
    };
    if must_write {
        return null_mut();
    }
    let chunk = pool.grow(buffer);
    if buffer.is_events && !chunk.is_null() {
        pool.note_kept(location, buffer);
    }
    chunk
}

fn new_buffer(file_type: OTF2_FileType) -> Box<Buffer> {
    Box::new(Buffer {
        chunks: Vec::new(),
        spare: None,
        is_events: file_type == OTF2_FILETYPE_EVENTS,
        file_open: false,
        written: 0,
    })
}

/// Called by the library after each write of a buffer, and (`last`) when the buffer is deleted.
unsafe extern "C" fn free_all(
    pool: *mut c_void,
    _file_type: OTF2_FileType,
    location: OTF2_LocationRef,
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
    if buffer.is_events {
        let in_memory = buffer.chunks.iter().filter(|it| !it.is_in_file());
        pool.events_shrunk(CHUNK_BYTES * in_memory.count() as u64);
        if !last && !buffer.file_open {
            buffer.file_open = true;
            pool.kept.borrow_mut().remove(&location);
            pool.file_opened();
        }
        if last {
            pool.active_writers.set(pool.active_writers.get() - 1);
            if buffer.file_open {
                pool.file_closed();
            }
        }
    }
    buffer.written += buffer.chunks.len() as u64;
    pool.shrink(buffer);
    if last {
        let buffer = std::mem::replace(slot, null_mut());
        // SAFETY: the box that `allocate` leaked; the slot is cleared, so it is taken back once.
        let buffer = unsafe { Box::from_raw(buffer) };
        buffer.spare.into_iter().for_each(|it| pool.chunks.borrow_mut().give_back(it));
    }
}
