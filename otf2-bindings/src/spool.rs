//! Spool: the file for events of locations without a writer, and their share of the memory.
//!
//! ```text
//!   block 0: of location 7      block 1: of location 3     block 2: of location 7 …
//!   [next: 2, used] events …    [unknown yet] events …     [unknown yet] events …
//! ```
//!
//! A location's events are a chain of blocks of the file; each block except for the last has the
//! number of the next one and its used bytes. So the memory of a chain does not grow with its
//! length, and the blocks of a closed location are reused. The file has no name and vanishes with
//! the archive.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Size of a block, of which only the written part occupies the disk.
const BLOCK_BYTES: u32 = 32 * 1024;
/// The number of the next block, and the bytes used in this one.
const HEADER_BYTES: u32 = 8;
/// Bytes that fit into an empty block.
pub(crate) const PIECE_BYTES_MAX: usize = (BLOCK_BYTES - HEADER_BYTES) as usize;

/// Limit on the bytes that a location collects in memory: more is not faster.
const BUFFER_BYTES_MAX: u64 = 4096;
/// Lower limit: less would mean a system call for every other event.
const BUFFER_BYTES_MIN: u64 = 512;

/// Blocks of one location.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    first: u32,
    last: u32,
    /// Bytes used in the last one, including the header.
    used: u32,
    blocks: u32,
}

/// Events of all locations without a writer.
#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    /// Created when it is first needed.
    file: Option<File>,
    blocks: u32,
    /// First block and length of each chain that is free.
    free: Vec<(u32, u32)>,
    budget_bytes: u64,
    locations: u64,
    buffer_bytes: u64,
    buffer_bytes_max: u64,
}

impl Spool {
    /// Creates a spool; the file will be created at this path, and its name removed.
    pub(crate) fn new(budget_bytes: u64, path: &Path) -> Self {
        Self {
            path: path.into(),
            file: None,
            blocks: 0,
            free: Vec::new(),
            budget_bytes,
            locations: 0,
            buffer_bytes: 0,
            buffer_bytes_max: 0,
        }
    }

    pub(crate) fn location_opened(&mut self) {
        self.locations += 1;
    }

    /// Records that the location has no events here any more; its blocks are reused.
    pub(crate) fn location_closed(&mut self, chain: Option<Chain>) {
        self.locations -= 1;
        self.free.extend(chain.map(|it| (it.first, it.blocks)));
    }

    /// Bytes that a location may collect before it appends them to its chain.
    pub(crate) fn buffer_limit(&self) -> usize {
        let share = self.budget_bytes / self.locations.max(1);
        usize::try_from(share.clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)).unwrap_or(usize::MAX)
    }

    /// Records the new size of a buffer.
    pub(crate) fn buffer_resized(&mut self, old: usize, new: usize) {
        self.buffer_bytes = self.buffer_bytes + new as u64 - old as u64;
        self.buffer_bytes_max = self.buffer_bytes_max.max(self.buffer_bytes);
    }

    /// Bytes in memory, now and at most, and in the file.
    pub(crate) fn bytes(&self) -> (u64, u64, u64) {
        let file = u64::from(self.blocks) * u64::from(BLOCK_BYTES);
        (self.buffer_bytes, self.buffer_bytes_max, file)
    }

    /// Adds a piece of at most [`PIECE_BYTES_MAX`] to a chain; pieces stay whole.
    pub(crate) fn append(&mut self, chain: &mut Option<Chain>, piece: &[u8]) -> io::Result<()> {
        let length = u32::try_from(piece.len()).map_err(io::Error::other)?;
        let mut to = match chain {
            Some(chain) if chain.used + length <= BLOCK_BYTES => *chain,
            Some(chain) => {
                let next = self.take_block()?;
                self.write(chain.last, 0, &header(next, chain.used))?;
                Chain { last: next, used: HEADER_BYTES, blocks: chain.blocks + 1, ..*chain }
            }
            None => {
                let first = self.take_block()?;
                Chain { first, last: first, used: HEADER_BYTES, blocks: 1 }
            }
        };
        self.write(to.last, to.used, piece)?;
        to.used += length;
        *chain = Some(to);
        Ok(())
    }

    /// Reads the blocks of a chain one by one.
    pub(crate) fn read<E>(
        &self,
        chain: &Chain,
        mut use_block: impl FnMut(io::Result<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut bytes = vec![0; PIECE_BYTES_MAX];
        let mut block = chain.first;
        for number in 1..=chain.blocks {
            let is_last = number == chain.blocks;
            let found = if is_last { Ok((block, chain.used)) } else { self.read_header(block) };
            let read = found.and_then(|(next, used)| {
                let length = usize::try_from(used - HEADER_BYTES).map_err(io::Error::other)?;
                let bytes = bytes.get_mut(..length).ok_or(io::ErrorKind::InvalidData)?;
                self.read_exact(block, HEADER_BYTES, bytes)?;
                block = next;
                Ok(&*bytes)
            });
            use_block(read)?;
        }
        Ok(())
    }

    fn take_block(&mut self) -> io::Result<u32> {
        if let Some((first, blocks)) = self.free.pop() {
            if blocks > 1 {
                let (next, _) = self.read_header(first)?;
                self.free.push((next, blocks - 1));
            }
            return Ok(first);
        }
        if self.file.is_none() {
            self.file = Some(nameless(&self.path)?);
        }
        let block = self.blocks;
        self.blocks = block.checked_add(1).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(block)
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, block: u32, position: u32, bytes: &[u8]) -> io::Result<()> {
        self.file()?.write_all_at(bytes, place(block, position))
    }

    fn read_exact(&self, block: u32, position: u32, bytes: &mut [u8]) -> io::Result<()> {
        self.file()?.read_exact_at(bytes, place(block, position))
    }

    /// The next block, and the bytes used in this one.
    fn read_header(&self, block: u32) -> io::Result<(u32, u32)> {
        let mut bytes = [0; HEADER_BYTES as usize];
        self.read_exact(block, 0, &mut bytes)?;
        let [a, b, c, d, rest @ ..] = bytes;
        let (next, used) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(rest));
        if (HEADER_BYTES..=BLOCK_BYTES).contains(&used) {
            Ok((next, used))
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }
}

fn header(next: u32, used: u32) -> [u8; HEADER_BYTES as usize] {
    let ([a, b, c, d], [e, f, g, h]) = (next.to_le_bytes(), used.to_le_bytes());
    [a, b, c, d, e, f, g, h]
}

fn place(block: u32, position: u32) -> u64 {
    u64::from(block) * u64::from(BLOCK_BYTES) + u64::from(position)
}

/// Creates a file whose name is removed at once.
fn nameless(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    fs::remove_file(path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(name: &str) -> Spool {
        let name = format!("otf2-sys-spool-{name}-{}", std::process::id());
        Spool::new(1 << 20, &std::env::temp_dir().join(name))
    }

    fn contents(spool: &Spool, chain: Option<Chain>) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        spool.read(&chain.expect("something was appended"), |block| {
            all.extend_from_slice(block?);
            Ok::<(), io::Error>(())
        })?;
        Ok(all)
    }

    #[test]
    fn chains_do_not_mix_and_blocks_serve_again() -> io::Result<()> {
        let mut spool = spool("chains");
        let pieces = [1, 700, 4096, PIECE_BYTES_MAX, PIECE_BYTES_MAX - 1, 9000, 9000, 9000, 9000];
        let mut sizes = Vec::new();
        for round in 0..3_u8 {
            let mut chains = [None; 3];
            let mut expected: [Vec<u8>; 3] = Default::default();
            for (turn, size) in (round..).zip(pieces) {
                for (number, (chain, expected)) in
                    (0_u8..).zip(chains.iter_mut().zip(&mut expected))
                {
                    let piece = vec![10 * turn + number; size];
                    spool.append(chain, &piece)?;
                    expected.extend(piece);
                }
            }
            for (chain, expected) in chains.into_iter().zip(&expected) {
                assert!(contents(&spool, chain)? == *expected);
            }
            for chain in chains {
                spool.location_opened();
                spool.location_closed(chain);
            }
            sizes.push(spool.blocks);
        }
        // 1 + 700 + 4096, a whole one, one less a byte, three of 9000, the last of 9000.
        assert_eq!(sizes, [15, 15, 15]);
        assert!(!spool.path.exists());
        Ok(())
    }

    #[test]
    fn many_locations_get_less_each() {
        let mut spool = spool("limits");
        let mut limits = Vec::new();
        for locations in 1..=10_000 {
            spool.location_opened();
            if [1, 256, 512, 10_000].contains(&locations) {
                limits.push(spool.buffer_limit());
            }
        }
        assert_eq!(limits, [4096, 4096, 2048, 512]);
    }

    #[test]
    fn spool_without_a_directory_keeps_nothing() {
        let mut spool = Spool::new(0, Path::new("/nonexistent/file"));
        let mut chain = None;
        assert!(spool.append(&mut chain, b"event").is_err());
        assert!(chain.is_none());
    }
}
