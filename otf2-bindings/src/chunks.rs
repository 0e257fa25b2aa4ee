//! Chunks of memory for events, and where they go when there is too much of it.
//!
//! ```text
//!            take                      fills up, memory is short
//!   (free) ────────► in memory ──────────────────────────────────► in a file, mapped
//!      ▲                │ give back                                    │ give back
//!      └────────────────┴──────────────────────────────────────────────┘
//! ```
//!
//! A full chunk is only read again when its location is closed. So it is copied to a file, and the file is mapped in its
//! place: the library finds the same bytes at the same address (and could still change them), and the kernel keeps them
//! in memory only as long as it has nothing better to do with it. The file has no name and vanishes with the archive.
//!
//! The library touches all of a chunk when it closes a location, however little is in it: of ten thousand locations,
//! 2.5 GiB. So what is given back does not stay in memory, but for a few.
//!
//! Chunks lie in the file in the order of their addresses, so that neighbours are one mapping: the kernel allows
//! 65,530 (`vm.max_map_count`).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::ptr::{NonNull, null_mut};

use crate::memory::CHUNK_BYTES;

/// Chunks that are asked of the kernel at once: 64 MiB of addresses, and memory only where it is used.
const SLAB_CHUNKS: usize = 256;
/// Free chunks that are kept in memory, to be used again soon: what four busy locations give back at once.
const WARM_MAX: usize = 64;
const BYTES: usize = 256 * 1024;
const _: () = assert!(BYTES as u64 == CHUNK_BYTES);
const SLAB_BYTES: usize = BYTES * SLAB_CHUNKS;

/// A chunk that is in use.
#[derive(Debug)]
pub(crate) struct Chunk {
    start: NonNull<u8>,
    /// Its place in the order of all chunks.
    number: usize,
    in_file: bool,
}

impl Chunk {
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn is_in_file(&self) -> bool {
        self.in_file
    }
}

/// All chunks of an archive.
#[derive(Debug)]
pub(crate) struct Chunks {
    slabs: Vec<NonNull<u8>>,
    free: Vec<Chunk>,
    /// About how many of the free ones, the last, still occupy memory.
    warm: usize,
    /// Made when it is first needed.
    file: Option<File>,
    path: PathBuf,
}

impl Chunks {
    /// The file will be made, and its name removed, at this path.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { slabs: Vec::new(), free: Vec::new(), warm: 0, file: None, path }
    }

    /// A chunk in memory; `None` if the machine has no more.
    pub(crate) fn take(&mut self) -> Option<Chunk> {
        if self.free.is_empty() {
            self.add_slab()?;
        }
        self.warm = self.warm.saturating_sub(1);
        self.free.pop()
    }

    fn add_slab(&mut self) -> Option<()> {
        // SAFETY: new addresses, chosen by the kernel.
        let slab = unsafe { map(null_mut(), SLAB_BYTES, libc::MAP_NORESERVE, None) }.ok()?;
        let first = self.slabs.len() * SLAB_CHUNKS;
        self.slabs.push(slab);
        // The last one is taken first.
        self.free.extend((0..SLAB_CHUNKS).rev().map(|it| Chunk {
            // SAFETY: within the slab.
            start: unsafe { slab.add(it * BYTES) },
            number: first + it,
            in_file: false,
        }));
        Some(())
    }

    /// Takes back a chunk that the library does not use any more.
    pub(crate) fn give_back(&mut self, mut chunk: Chunk) {
        if chunk.in_file {
            // SAFETY: the chunk's own addresses, and the library has given them back.
            let memory = unsafe { map(chunk.as_ptr(), BYTES, libc::MAP_FIXED, None) };
            // Without memory there is one chunk less to give out.
            if memory.is_err() {
                return;
            }
            chunk.in_file = false;
        } else if self.warm < WARM_MAX {
            self.warm += 1;
        } else {
            // SAFETY: private memory that nobody uses; it is zero when it is next read, or what it was.
            unsafe { libc::madvise(chunk.as_ptr().cast(), BYTES, libc::MADV_DONTNEED) };
        }
        self.free.push(chunk);
    }

    /// Moves a chunk that will not be written to any more out of memory.
    pub(crate) fn move_to_file(&mut self, chunk: &mut Chunk) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(nameless(&self.path)?),
        };
        let offset = chunk.number as u64 * CHUNK_BYTES;
        file.write_all_at(bytes(chunk.start), offset)?;
        // SAFETY: the chunk's own addresses; the file has the same bytes for them, and nobody can cut it.
        unsafe { map(chunk.as_ptr(), BYTES, libc::MAP_FIXED, Some((file, offset))) }?;
        chunk.in_file = true;
        Ok(())
    }
}

/// What is in a chunk now.
fn bytes<'a>(start: NonNull<u8>) -> &'a [u8] {
    // SAFETY: chunks are mapped and readable until `Chunks` is dropped, and callers do not keep the slice. Nobody writes
    // meanwhile: the library runs on this thread and has called us.
    unsafe { std::slice::from_raw_parts(start.as_ptr(), BYTES) }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        for slab in &self.slabs {
            // SAFETY: mapped in `add_slab`, and whoever drops this knows that no chunk is used.
            unsafe { libc::munmap(slab.as_ptr().cast(), SLAB_BYTES) };
        }
    }
}

/// A new file whose name is removed at once.
fn nameless(path: &PathBuf) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    fs::remove_file(path)?;
    Ok(file)
}

/// Maps private memory, or a private view of a part of a file.
///
/// # Safety
///
/// With `MAP_FIXED` nobody may rely on what was at these addresses before, unless the file has the same bytes.
unsafe fn map(
    start: *mut u8,
    bytes: usize,
    flags: i32,
    file: Option<(&File, u64)>,
) -> io::Result<NonNull<u8>> {
    let (kind, fd, offset) = match file {
        None => (libc::MAP_ANONYMOUS, -1, 0),
        Some((file, offset)) => (0, file.as_raw_fd(), offset),
    };
    let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | kind | flags;
    // SAFETY: the caller answers for the addresses.
    let mapped = unsafe { libc::mmap(start.cast(), bytes, access, flags, fd, offset) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(mapped.cast()).ok_or_else(|| io::Error::other("memory at address 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(name: &str) -> Chunks {
        let name = format!("otf2-sys-chunks-{name}-{}", std::process::id());
        Chunks::new(std::env::temp_dir().join(name))
    }

    fn fill(chunk: &Chunk, from: usize, to: usize, byte: u8) {
        assert!(from <= to && to <= BYTES);
        // SAFETY: within the chunk.
        let start = unsafe { chunk.as_ptr().add(from) };
        // SAFETY: within the chunk, which only this test uses.
        unsafe { start.write_bytes(byte, to - from) };
    }

    #[test]
    fn what_is_moved_to_the_file_is_still_there() -> io::Result<()> {
        let mut chunks = chunks("moved");
        let mut all: Vec<(Chunk, u8)> =
            (0..=SLAB_CHUNKS).filter_map(|_| chunks.take()).zip((0..251).cycle()).collect();
        assert_eq!(all.len(), 257, "more than one slab");
        for (chunk, byte) in &mut all {
            fill(chunk, 0, BYTES, *byte);
            if *byte % 3 != 0 {
                chunks.move_to_file(chunk)?;
            }
        }
        assert!(!chunks.path.exists());
        for (chunk, byte) in &all {
            assert_eq!(chunk.is_in_file(), byte % 3 != 0);
            assert!(bytes(chunk.start).iter().all(|it| it == byte), "chunk {byte}");
        }
        all.drain(..).for_each(|it| chunks.give_back(it.0));
        let again = chunks.take().expect("memory");
        assert!(!again.is_in_file());
        Ok(())
    }

    #[test]
    fn without_a_directory_nothing_moves() {
        let mut chunks = Chunks::new("/nonexistent/file".into());
        let mut chunk = chunks.take().expect("memory");
        fill(&chunk, 0, BYTES, 5);
        assert!(chunks.move_to_file(&mut chunk).is_err());
        assert!(!chunk.is_in_file() && bytes(chunk.start).iter().all(|&it| it == 5));
    }
}
