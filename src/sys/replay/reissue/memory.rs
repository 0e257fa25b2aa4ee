//! Buffers of a replay: the bytes that it writes, and memory for the bytes that it reads.

use std::io;
use std::sync::Arc;

use memmap2::{MmapMut, MmapOptions};

use super::buffer_sizes::BufferSizes;

/// Buffers of one thread, which its calls read from and write into.
#[derive(Debug)]
pub struct CallMemory {
    pub(super) longest: BufferSizes,
    into: MmapMut,
    from: Arc<WriteContents>,
    /// `struct iovec`: address and length.
    vector: Vec<[u64; 2]>,
}

impl CallMemory {
    /// Creates buffers for reads and writes of these lengths.
    ///
    /// # Errors
    ///
    /// The kernel has not enough memory.
    pub fn new(longest: BufferSizes, from: Arc<WriteContents>) -> io::Result<Self> {
        assert!(from.0.len() as u64 >= longest.from, "contents of another replay");
        let length = usize::try_from(longest.into).map_err(io::Error::other)?;
        let into = MmapOptions::new().len(length).no_reserve_swap().map_anon()?;
        Ok(Self { longest, into, from, vector: Vec::new() })
    }

    pub(super) fn address_into(&mut self) -> u64 {
        self.into.as_mut_ptr().expose_provenance() as u64
    }

    pub(super) fn address_from(&self) -> u64 {
        self.from.0.as_ptr().expose_provenance() as u64
    }

    /// Fills the vector with adjacent buffers and returns its address. Their lengths are as equal
    /// as the alignment for reads without the page cache allows.
    pub(super) fn vector(&mut self, is_into: bool, count: u64, bytes: u64) -> u64 {
        let begin = if is_into { self.address_into() } else { self.address_from() };
        let part = (bytes / count.max(1)).next_multiple_of(ALIGNED_BYTES);
        self.vector.clear();
        for number in 0..count {
            let from = (number * part).min(bytes);
            let to = if number + 1 == count { bytes } else { (from + part).min(bytes) };
            self.vector.push([begin + from, to - from]);
        }
        self.vector.as_ptr().expose_provenance() as u64
    }
}

/// Parts of a vector begin at multiples of this: sectors of most disks (`O_DIRECT`, open(2)).
const ALIGNED_BYTES: u64 = 512;

/// Bytes that a replay writes: one copy for all threads.
#[derive(Debug)]
pub struct WriteContents(MmapMut);

/// Bytes of [`WriteContents`] that `fill` makes; all later bytes are 0.
const FILLED_BYTES_MAX: usize = 64 << 20;

impl WriteContents {
    /// Creates enough bytes for the longest write; `fill` makes the first 64 MiB.
    ///
    /// # Errors
    ///
    /// The kernel has not enough memory.
    pub fn new(longest: BufferSizes, fill: impl FnOnce(&mut [u8])) -> io::Result<Arc<Self>> {
        let length = usize::try_from(longest.from).map_err(io::Error::other)?;
        let mut map = MmapOptions::new().len(length).no_reserve_swap().map_anon()?;
        fill(&mut map[..length.min(FILLED_BYTES_MAX)]);
        Ok(Arc::new(Self(map)))
    }
}
