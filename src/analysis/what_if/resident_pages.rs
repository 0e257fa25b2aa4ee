//! Pages of files in a memory that evicts none, and what has become of those from the disk.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;

/// Pages of a chunk: one bit each.
const CHUNK_PAGES: u64 = 64;

/// Largest number of chunks and marks.
pub(super) const CHUNKS_MAX: usize = 1 << 21;

/// Chunk of pages that lie side by side in a file.
#[derive(Clone, Copy, Debug, Default)]
struct PageChunk {
    present: u64,
    /// Pages from the disk that no read has touched.
    untouched: u64,
}

/// Pages of a file.
#[derive(Clone, Debug, Default)]
struct ResidentFile {
    chunks: BTreeMap<u64, PageChunk>,
    /// Folios with the marker of read-ahead: pages by the first page.
    marks: BTreeMap<u64, u64>,
}

/// Pages that the kernel has in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkedFolio {
    /// First page in the file.
    pub(super) first: u64,
    /// Number of pages.
    pub(super) pages: u64,
}

/// Pages of files.
#[derive(Clone, Debug, Default)]
pub(super) struct ResidentPages {
    files: FxHashMap<u32, ResidentFile>,
    chunks: usize,
    marks: usize,
}

fn place(page: u64) -> (u64, u64) {
    (page / CHUNK_PAGES, 1 << (page % CHUNK_PAGES))
}

impl ResidentPages {
    /// Returns true if there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.chunks + self.marks >= CHUNKS_MAX
    }

    /// Returns true if a page is in memory.
    pub(super) fn has(&self, file: u32, page: u64) -> bool {
        let (chunk, bit) = place(page);
        let chunk = self.files.get(&file).and_then(|pages| pages.chunks.get(&chunk));
        chunk.is_some_and(|chunk| chunk.present & bit != 0)
    }

    /// Adds a page: from the disk, or one that was written.
    pub(super) fn add(&mut self, file: u32, page: u64, is_from_disk: bool) {
        let (number, bit) = place(page);
        let pages = self.files.entry(file).or_default();
        let chunk = pages.chunks.entry(number).or_insert_with(|| {
            self.chunks += 1;
            PageChunk::default()
        });
        chunk.present |= bit;
        if is_from_disk {
            chunk.untouched |= bit;
        }
    }

    /// Takes the read of a page. Returns true if it is the first one since the page came from the
    /// disk.
    pub(super) fn touch(&mut self, file: u32, page: u64) -> bool {
        let (chunk, bit) = place(page);
        let chunk = self.files.get_mut(&file).and_then(|pages| pages.chunks.get_mut(&chunk));
        let Some(chunk) = chunk else { return false };
        let is_first = chunk.untouched & bit != 0;
        chunk.untouched &= !bit;
        is_first
    }

    /// Marks a folio of this number of pages.
    pub(super) fn mark(&mut self, file: u32, first: u64, pages: u64) {
        let before = self.files.entry(file).or_default().marks.insert(first, pages);
        self.marks += usize::from(before.is_none());
    }

    /// Removes the marker of the folio that has this page, and returns the folio.
    pub(super) fn take_mark(&mut self, file: u32, page: u64) -> Option<MarkedFolio> {
        let marks = &mut self.files.get_mut(&file)?.marks;
        let (first, pages) =
            marks.range(..=page).next_back().map(|(first, pages)| (*first, *pages))?;
        if page - first >= pages {
            return None;
        }
        marks.remove(&first);
        self.marks -= 1;
        Some(MarkedFolio { first, pages })
    }

    /// Removes pages of a file: those in a range.
    pub(super) fn remove(&mut self, file: u32, range: &Range<u64>) {
        let Some(pages) = self.files.get_mut(&file) else { return };
        let Some(last) = range.end.checked_sub(1).filter(|last| *last >= range.start) else {
            return;
        };
        let chunks = range.start / CHUNK_PAGES..=last / CHUNK_PAGES;
        let mut empty = Vec::new();
        for (number, chunk) in pages.chunks.range_mut(chunks) {
            let first = number * CHUNK_PAGES;
            let from = range.start.saturating_sub(first);
            let until = (range.end - first).min(CHUNK_PAGES);
            let kept = !((u64::MAX >> (CHUNK_PAGES - (until - from))) << from);
            chunk.present &= kept;
            chunk.untouched &= kept;
            if chunk.present == 0 {
                empty.push(*number);
            }
        }
        self.chunks -= empty.len();
        for number in &empty {
            pages.chunks.remove(number);
        }
        let marks: Vec<u64> = pages.marks.range(range.clone()).map(|(first, _)| *first).collect();
        self.marks -= marks.len();
        for first in &marks {
            pages.marks.remove(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_range_leave() {
        let mut pages = ResidentPages::default();
        (0..200).for_each(|page| pages.add(1, page, true));
        pages.mark(1, 100, 4);
        pages.remove(1, &(10..130));
        let left: Vec<u64> = (0..300).filter(|page| pages.has(1, *page)).collect();
        assert_eq!(left, (0..10).chain(130..200).collect::<Vec<u64>>());
        assert_eq!((pages.chunks, pages.marks, pages.take_mark(1, 100)), (3, 0, None));
        pages.remove(1, &(0..u64::MAX));
        assert_eq!((pages.chunks, pages.has(1, 140)), (0, false));
    }

    #[test]
    fn marker_is_that_of_the_whole_folio() {
        let mut pages = ResidentPages::default();
        pages.mark(1, 8, 4);
        assert_eq!(pages.take_mark(1, 12), None);
        assert_eq!(pages.take_mark(2, 8), None);
        assert_eq!(pages.take_mark(1, 11), Some(MarkedFolio { first: 8, pages: 4 }));
        assert_eq!(pages.take_mark(1, 8), None);
    }

    #[test]
    fn only_the_first_touch_counts() {
        let mut pages = ResidentPages::default();
        pages.add(1, 5, true);
        pages.add(1, 6, false);
        let touched = [5, 5, 6, 7].map(|page| pages.touch(1, page));
        assert_eq!(touched, [true, false, false, false]);
    }
}
