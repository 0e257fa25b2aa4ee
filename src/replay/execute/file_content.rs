//! Generated contents of files and writes, which are not captured.

use std::io::{self, Write};

/// Kind of contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentsSource {
    /// Holes, without data.
    Sparse,
    /// Bytes of value zero.
    Zero,
    /// Random numbers, which cannot be compressed. The same seed gives the same numbers.
    Random(u64),
    /// Random numbers, with this percentage of zeros in each 4 KiB. The same seed gives the same
    /// numbers.
    Compressible(u64, u8),
}

/// Size of the parts that are as compressible as the whole.
const PART_BYTES: usize = 4096;

/// Bytes that are generated and written at once.
const CHUNK_BYTES: usize = 1 << 20;

impl ContentsSource {
    /// Returns a generator of the contents of one file, which has this number.
    pub fn of(self, number: u64) -> ContentMaker {
        let seed = match self {
            Self::Random(seed) | Self::Compressible(seed, _) => seed,
            Self::Sparse | Self::Zero => 0,
        };
        // An odd multiplier of any value: it separates the states of consecutive seeds.
        let state = (seed ^ number.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        ContentMaker { contents: self, state }
    }
}

/// Generator of contents, from their beginning on.
#[derive(Debug)]
pub struct ContentMaker {
    contents: ContentsSource,
    state: u64,
}

impl ContentMaker {
    /// Generates the next bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let zeros = match self.contents {
            ContentsSource::Sparse | ContentsSource::Zero => 100,
            ContentsSource::Random(_) => 0,
            ContentsSource::Compressible(_, percent) => usize::from(percent.min(100)),
        };
        for part in bytes.chunks_mut(PART_BYTES) {
            let (zero, random) = part.split_at_mut(part.len() * zeros / 100);
            zero.fill(0);
            for word in random.chunks_mut(8) {
                let next = self.next().to_le_bytes();
                word.copy_from_slice(&next[..word.len()]);
            }
        }
    }

    /// Writes the next `bytes` bytes to `out`.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn write(&mut self, out: &mut impl Write, bytes: u64) -> io::Result<()> {
        let mut left = bytes;
        let mut chunk = vec![0; CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(CHUNK_BYTES))];
        while left > 0 {
            let length = chunk.len().min(usize::try_from(left).unwrap_or(CHUNK_BYTES));
            self.fill(&mut chunk[..length]);
            out.write_all(&chunk[..length])?;
            left -= length as u64;
        }
        Ok(())
    }

    /// Returns the next number of xorshift64* (Vigna, "An experimental exploration of Marsaglia's
    /// xorshift generators, scrambled", 2014).
    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressed(contents: ContentsSource, number: u64) -> usize {
        let mut bytes = Vec::new();
        contents.of(number).write(&mut bytes, 3 << 20).expect("memory");
        assert_eq!(bytes.len(), 3 << 20);
        zstd::bulk::compress(&bytes, 3).expect("memory").len()
    }

    #[test]
    fn contents_have_requested_compressibility() {
        let whole = 3 << 20;
        assert!(compressed(ContentsSource::Random(1), 0) >= whole);
        assert!(compressed(ContentsSource::Zero, 0) < whole / 1000);
        let half = compressed(ContentsSource::Compressible(1, 50), 0);
        assert!((whole * 49 / 100..whole * 52 / 100).contains(&half), "{half}");
    }

    #[test]
    fn same_seed_gives_same_bytes_per_file() {
        let bytes = |seed, number| {
            let mut bytes = [0; 64];
            ContentsSource::Random(seed).of(number).fill(&mut bytes);
            bytes
        };
        assert_eq!(bytes(1, 2), bytes(1, 2));
        assert!(bytes(1, 2) != bytes(1, 3) && bytes(1, 2) != bytes(2, 2));
    }
}
