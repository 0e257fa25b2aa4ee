//! Events of a location that has no writer of the library.

use std::io;

use crate::attributes::Attributes;
use crate::record::{self, Record, Scratch, VALUES_MAX};
use crate::spool::{Chain, PIECE_BYTES_MAX, Spool};

/// Smallest buffer: enough for a location with next to no events.
const BUFFER_BYTES_FIRST: usize = 256;

// The largest possible event fits into an empty block of the file, after a buffer that is nearly
// full.
const _: () = assert!((VALUES_MAX * 4 + 100) * 10 + 4096 < PIECE_BYTES_MAX);

/// A chain of blocks in the spool, and the buffer that will be appended to it.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    buffer: Vec<u8>,
    chain: Option<Chain>,
    /// Bytes in the chain.
    bytes: u64,
}

impl Waiting {
    pub(crate) fn new(spool: &mut Spool) -> Self {
        spool.location_opened();
        Self::default()
    }

    /// Number of bytes that were appended to the chain.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if this number of bytes can be added.
    #[inline]
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.buffer.capacity() - self.buffer.len() >= bytes
    }

    /// Adds an event; `since` is the time since the previous one.
    pub(crate) fn push(&mut self, since: u64, record: Record<'_>, attributes: Attributes<'_>) {
        record.put(since, attributes, &mut self.buffer);
    }

    /// Makes room for this number of bytes: a larger buffer or, if it is at its limit, an empty
    /// one.
    pub(crate) fn make_room(&mut self, bytes: usize, spool: &mut Spool) -> io::Result<()> {
        let old = self.buffer.capacity();
        let limit = spool.buffer_limit();
        if old >= limit && !self.buffer.is_empty() {
            spool.append(&mut self.chain, &self.buffer)?;
            self.bytes += self.buffer.len() as u64;
            self.buffer.clear();
            self.buffer.shrink_to(limit);
        }
        if !self.has_room(bytes) {
            let used = self.buffer.len();
            let size = (2 * old).clamp(BUFFER_BYTES_FIRST, limit).max(used + bytes);
            self.buffer.reserve_exact(size - used);
        }
        spool.buffer_resized(old, self.buffer.capacity());
        Ok(())
    }

    /// Passes on all events in their order. `damaged` creates the error for data that the file did
    /// not return.
    pub(crate) fn replay<E>(
        self,
        spool: &mut Spool,
        mut use_event: impl FnMut(u64, Record<'_>, Attributes<'_>) -> Result<(), E>,
        damaged: impl Fn(io::Error) -> E,
    ) -> Result<(), E> {
        let (mut time, mut scratch) = (0, Scratch::default());
        let mut replay = |mut bytes: &[u8]| {
            while !bytes.is_empty() {
                record::take(&mut bytes, &mut time, &mut scratch, &mut use_event)
                    .unwrap_or_else(|| Err(damaged(io::ErrorKind::InvalidData.into())))?;
            }
            Ok(())
        };
        if let Some(chain) = &self.chain {
            spool.read(chain, |block| replay(block.map_err(&damaged)?))?;
        }
        replay(&self.buffer)?;
        self.forget(spool);
        Ok(())
    }

    /// Returns all memory and blocks to the spool.
    pub(crate) fn forget(self, spool: &mut Spool) {
        spool.buffer_resized(self.buffer.capacity(), 0);
        spool.location_closed(self.chain);
    }
}
