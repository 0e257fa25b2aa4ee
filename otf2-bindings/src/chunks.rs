//! Memory for the library's buffers, in chunks of the one size that it requests.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use crate::memory::CHUNK_BYTES;

const BYTES: usize = 256 * 1024;
const _: () = assert!(BYTES as u64 == CHUNK_BYTES);

/// Layout of a chunk: aligned for any C type.
const LAYOUT: Layout = match Layout::from_size_align(BYTES, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

/// Limit on free chunks that are kept for reuse.
const FREE_MAX: usize = 32;

/// A chunk of memory.
#[derive(Debug)]
pub(crate) struct Chunk(NonNull<u8>);

impl Chunk {
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated by `take` with this layout, and freed only here.
        unsafe { dealloc(self.0.as_ptr(), LAYOUT) };
    }
}

/// Free chunks, kept for reuse.
#[derive(Debug, Default)]
pub(crate) struct Chunks(Vec<Chunk>);

impl Chunks {
    /// Returns a chunk; `None` if the machine has no more memory.
    pub(crate) fn take(&mut self) -> Option<Chunk> {
        self.0.pop().or_else(|| {
            // SAFETY: the layout is not empty.
            NonNull::new(unsafe { alloc(LAYOUT) }).map(Chunk)
        })
    }

    /// Takes back a chunk that the library does not use any more.
    pub(crate) fn give_back(&mut self, chunk: Chunk) {
        if self.0.len() < FREE_MAX {
            self.0.push(chunk);
        }
    }
}
