//! Data and holes of the initial files: data everywhere except in holes that the plan contains; and
//! the check whether a file system has created them so.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};
use rangemap::RangeSet;

use super::file_content::{ContentMaker, ContentsSource};
use crate::replay::plan::hole_map::{KnownRegion, RegionKind};
use crate::replay::plan::plan_file::FileBefore;

/// Alignment of holes. No file system here has smaller ones, and of an observed hole only its first
/// byte may be known.
const HOLE_BYTES: u64 = 4096;

/// Returns the ranges in which a file gets data. Unknown ranges are data, or holes with
/// [`ContentsSource::Sparse`].
pub(super) fn data(initial: &FileBefore, contents: ContentsSource) -> RangeSet<u64> {
    let of_kind = |kind| {
        let clipped = initial
            .parts
            .iter()
            .map(|part| KnownRegion { to_byte: part.to_byte.min(initial.size), ..*part });
        clipped.filter(move |part| part.kind == kind && part.from_byte < part.to_byte)
    };
    let mut data = RangeSet::new();
    if contents != ContentsSource::Sparse && initial.size > 0 {
        data.insert(0..initial.size);
        for hole in of_kind(RegionKind::Hole) {
            let from = hole.from_byte - hole.from_byte % HOLE_BYTES;
            data.remove(
                from..hole.to_byte.checked_next_multiple_of(HOLE_BYTES).unwrap_or(u64::MAX),
            );
        }
    }
    for part in of_kind(RegionKind::Data) {
        data.insert(part.from_byte..part.to_byte);
    }
    data
}

/// Returns the number of bytes in ranges.
pub(super) fn bytes(data: &RangeSet<u64>) -> u64 {
    data.iter().map(|it| it.end - it.start).sum()
}

/// Sets the length of a file. A correct length is not set again: XFS would unshare the last block
/// of a reflink.
pub(super) fn set_length(file: &File, bytes: u64) -> io::Result<()> {
    if file.metadata()?.len() == bytes { Ok(()) } else { file.set_len(bytes) }
}

/// Writes data into the ranges, from `offset` on.
pub(super) fn fill(
    mut file: &File,
    data: &RangeSet<u64>,
    offset: u64,
    mut maker: ContentMaker,
) -> io::Result<()> {
    for range in data.iter() {
        let start = range.start.max(offset);
        if start < range.end {
            file.seek(SeekFrom::Start(start))?;
            maker.write(&mut file, range.end - start)?;
        }
    }
    Ok(())
}

/// Returns true if the file system reports the data and holes that the plan contains.
pub(super) fn is_as_known(file: &File, initial: &FileBefore) -> bool {
    let first = |kind: RegionKind, offset: u64| {
        let whence = if kind == RegionKind::Data { Whence::SeekData } else { Whence::SeekHole };
        let offset = i64::try_from(offset).map_err(|_| Errno::EOVERFLOW)?;
        match lseek(file, offset, whence) {
            Err(Errno::ENXIO) => Ok(initial.size),
            found => found.map(|it| u64::try_from(it).unwrap_or(0)),
        }
    };
    initial.parts.iter().all(|part| {
        let other = if part.kind == RegionKind::Data { RegionKind::Hole } else { RegionKind::Data };
        first(other, part.from_byte).is_ok_and(|it| it >= part.to_byte)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::replay::plan::plan_file::FileKind;

    fn file(size: u64, parts: &[(u64, u64, RegionKind)]) -> FileBefore {
        let parts = parts.iter().map(|&(from_byte, to_byte, kind)| KnownRegion {
            from_byte,
            to_byte,
            kind,
        });
        let parts = parts.collect();
        FileBefore { size, parts, ..FileBefore::new(b"/f", FileKind::File) }
    }

    /// Checks the ranges of a file of this size with `known` parts. `expected`: data with random
    /// contents, and in a sparse file.
    #[track_caller]
    fn check(size: u64, known: &[(u64, u64, RegionKind)], expected: [&[(u64, u64)]; 2]) {
        let it = file(size, known);
        for (contents, expected) in
            [ContentsSource::Random(0), ContentsSource::Sparse].iter().zip(expected)
        {
            let data = data(&it, *contents);
            let found: Vec<_> = data.iter().map(|it| (it.start, it.end)).collect();
            assert_eq!(found, expected, "{contents:?}");
        }
    }

    #[test]
    fn unknown_ranges_are_data() {
        use RegionKind::{Data, Hole};
        check(10_007, &[], [&[(0, 10_007)], &[]]);
        check(0, &[(0, 1, Hole)], [&[], &[]]);
        check(20_000, &[(0, 8192, Hole), (8192, 8193, Data)], [&[(8192, 20_000)], &[(8192, 8193)]]);
        // Only the first byte of the hole is known.
        check(20_000, &[(4096, 4097, Hole)], [&[(0, 4096), (8192, 20_000)], &[]]);
        // A malicious plan.
        check(9, &[(7, 3, Hole), (8, u64::MAX, Data)], [&[(0, 9)], &[(8, 9)]]);
    }

    #[test]
    fn created_file_has_planned_holes() {
        use RegionKind::{Data, Hole};
        let it =
            file(1 << 20, &[(0, 65_536, Hole), (65_536, 131_072, Data), (131_072, 1 << 20, Hole)]);
        let made = tempfile::tempfile().expect("a file");
        made.set_len(it.size).expect("space");
        let data = data(&it, ContentsSource::Zero);
        assert_eq!(bytes(&data), 65_536);
        assert!(!is_as_known(&made, &it));
        fill(&made, &data, 0, ContentsSource::Zero.of(1)).expect("space");
        assert!(is_as_known(&made, &it));
        made.write_all_at(b"x", 500_009).expect("space");
        assert!(!is_as_known(&made, &it));
    }
}
