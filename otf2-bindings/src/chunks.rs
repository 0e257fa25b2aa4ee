//! Memory for the library's buffers, in pieces of the one size it asks for.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use crate::memory::CHUNK_BYTES;

const BYTES: usize = 256 * 1024;
const _: () = assert!(BYTES as u64 == CHUNK_BYTES);

/// Aligned for any C type.
const LAYOUT: Layout = match Layout::from_size_align(BYTES, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

/// Free ones that are kept, to be used again soon.
const FREE_MAX: usize = 32;

/// A chunk that is in use, or could be.
#[derive(Debug)]
pub(crate) struct Chunk(NonNull<u8>);

impl Chunk {
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated by `take` with this layout, and only here given back.
        unsafe { dealloc(self.0.as_ptr(), LAYOUT) };
    }
}

/// The chunks that nobody uses.
#[derive(Debug, Default)]
pub(crate) struct Chunks(Vec<Chunk>);

impl Chunks {
    /// A chunk; `None` if the machine has no more memory.
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
