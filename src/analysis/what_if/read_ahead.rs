//! Read-ahead of the page cache: the pages that it would have read from the disk with another
//! setting.
//!
//! The rules are those of `mm/readahead.c` and `mm/filemap.c` since Linux 6.17. Each open file
//! has a *window*, the last part that was read ahead:
//!
//! ```text
//!            ├────────── async ─────────┤
//!   ├──────────────── size ─────────────┤
//!   start    marked                     next window
//! ```
//!
//! - A page that is not there is read at once, with a new window if the read goes on from the one
//!   before it, or begins the file, or the pages before it are there; otherwise as many pages as
//!   the call wants.
//! - The marked page is there: the next window is read, up to four times as large.
//!
//! A page counts as there as soon as it was asked for, and none is evicted.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::resident_pages::{MarkedFolio, ResidentPages};

/// Largest number of open files whose windows are kept; those not used for longest are forgotten.
const WINDOWS_MAX: usize = 1 << 16;

/// Largest folio, as a power of two of pages.
const FOLIO_ORDER_MAX: u32 = 9;

/// Pages of a node in the kernel's tree of pages (`XA_CHUNK_SIZE`).
const NODE_PAGES: u64 = 64;

/// Bytes of a part in which a program's wish for pages is read.
const FORCED_BYTES: u64 = 2 << 20;

/// Advice about an open file (`posix_fadvise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileAdvice {
    /// The default (`POSIX_FADV_NORMAL`).
    Normal,
    /// Pages are read as they are wanted (`POSIX_FADV_RANDOM`).
    Random,
    /// Twice the read-ahead (`POSIX_FADV_SEQUENTIAL`).
    Sequential,
}

/// Properties of a file that its read-ahead depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadAheadFile {
    /// Number of the file.
    pub(super) number: u32,
    /// Pages of the file; `None`: not known.
    pub(super) pages: Option<u64>,
    /// Pages of the largest request of its disk.
    pub(super) request_pages: u64,
    /// Read-ahead of its disk in the recording, in pages.
    pub(super) recorded_pages: u64,
    /// True if its file system has folios of several pages.
    pub(super) has_large_folios: bool,
}

/// Call that reads bytes through the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadSpan {
    /// Number of the open file.
    pub(super) description: u64,
    /// Position of the first byte.
    pub(super) offset: u64,
    /// Bytes that were read; not 0.
    pub(super) bytes: u64,
    /// Bytes that were asked for.
    pub(super) wanted: u64,
    /// True for a transfer, which counts as read what it has so far (`filemap_splice_read()`).
    pub(super) is_transfer: bool,
}

/// Sums over the reads of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAheadTotals {
    /// Pages that are read from the disk.
    pub read_pages: u64,
    /// Part of them that a read has touched.
    pub used_pages: u64,
    /// Requests to the disk.
    pub requests: u64,
    /// Part of the reads that wait: a page was not asked for before.
    pub waiting_reads: u64,
}

/// Window of an open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AheadWindow {
    start: u64,
    size: u64,
    /// Pages from the marked one to the end.
    async_size: u64,
    /// Size of its folios, as a power of two of pages.
    order: u32,
    /// End of the last read, in bytes.
    previous: Option<u64>,
    is_random: bool,
    is_doubled: bool,
    /// Number of the call that used it last.
    used: u64,
}

/// Page cache with one setting of the read-ahead.
#[derive(Clone, Debug)]
pub(super) struct ReadAheadCache {
    page_bytes: u64,
    /// Setting in bytes; `None`: that of the file's disk in the recording.
    setting: Option<u64>,
    pages: ResidentPages,
    windows: FxHashMap<u64, AheadWindow>,
    /// Calls that used a window.
    calls: u64,
    pub(super) totals: ReadAheadTotals,
}

impl ReadAheadCache {
    /// Creates an empty cache. `setting`: bytes of the read-ahead, `None` for those of the
    /// recording.
    pub(super) fn new(page_bytes: u64, setting: Option<u64>) -> Self {
        Self {
            page_bytes: page_bytes.max(1),
            setting,
            pages: ResidentPages::default(),
            windows: FxHashMap::default(),
            calls: 0,
            totals: ReadAheadTotals::default(),
        }
    }

    /// Returns true if it can take no more pages.
    pub(super) fn is_full(&self) -> bool {
        self.pages.is_full()
    }

    /// Takes a call that has read.
    pub(super) fn read(&mut self, file: &ReadAheadFile, span: ReadSpan) {
        let mut window = self.window(span.description);
        let first = span.offset / self.page_bytes;
        let end = span.offset.saturating_add(span.bytes);
        let last = end.saturating_sub(1) / self.page_bytes;
        let wanted = span.offset.saturating_add(span.wanted.max(span.bytes));
        let wanted_end = wanted.div_ceil(self.page_bytes);
        let mut waits = false;
        for page in first..=last {
            let wanted = wanted_end.saturating_sub(page);
            if !self.pages.has(file.number, page) {
                waits = true;
                if span.is_transfer && page > first {
                    window.previous = Some(page.saturating_mul(self.page_bytes));
                }
                self.miss(file, &mut window, page, wanted);
                // The end of the file is elsewhere than it seemed to be.
                self.fetch(file, page..page.saturating_add(1));
            }
            if let Some(folio) = self.pages.take_mark(file.number, page) {
                self.marked(file, &mut window, folio, wanted);
            }
            let is_first = self.pages.touch(file.number, page);
            self.totals.used_pages += u64::from(is_first);
        }
        self.totals.waiting_reads += u64::from(waits);
        window.previous = Some(end);
        self.keep(span.description, window);
    }

    /// Takes pages that a call has written.
    pub(super) fn written(&mut self, file: u32, pages: Range<u64>) {
        for page in pages {
            if !self.pages.has(file, page) {
                self.pages.add(file, page, false);
            }
        }
    }

    /// Takes advice about an open file.
    pub(super) fn advised(&mut self, description: u64, advice: FileAdvice) {
        let mut window = self.window(description);
        match advice {
            FileAdvice::Normal => (window.is_random, window.is_doubled) = (false, false),
            FileAdvice::Random => window.is_random = true,
            FileAdvice::Sequential => (window.is_random, window.is_doubled) = (false, true),
        }
        self.keep(description, window);
    }

    /// Takes the wish of a program for pages that it will read (`POSIX_FADV_WILLNEED`,
    /// `readahead(2)`).
    pub(super) fn wished(&mut self, file: &ReadAheadFile, description: u64, pages: Range<u64>) {
        let window = self.window(description);
        let setting = self.setting(file, &window);
        self.forced(file, pages.start, pages.end.saturating_sub(pages.start), setting);
    }

    /// Removes pages of a file from memory.
    pub(super) fn remove(&mut self, file: u32, pages: &Range<u64>) {
        self.pages.remove(file, pages);
    }

    fn window(&self, description: u64) -> AheadWindow {
        self.windows.get(&description).copied().unwrap_or_default()
    }

    fn keep(&mut self, description: u64, window: AheadWindow) {
        self.calls += 1;
        self.windows.insert(description, AheadWindow { used: self.calls, ..window });
        if self.windows.len() > WINDOWS_MAX {
            let mut uses: Vec<u64> = self.windows.values().map(|window| window.used).collect();
            let (_, oldest, _) = uses.select_nth_unstable(WINDOWS_MAX / 4);
            let oldest = *oldest;
            self.windows.retain(|_, window| window.used > oldest);
        }
    }

    /// Returns the largest window in pages.
    fn setting(&self, file: &ReadAheadFile, window: &AheadWindow) -> u64 {
        let pages = self.setting.map_or(file.recorded_pages, |bytes| bytes / self.page_bytes);
        if window.is_doubled { pages.saturating_mul(2) } else { pages }
    }

    /// Reads a page that is not there, and what goes with it (`page_cache_sync_ra()`).
    fn miss(&mut self, file: &ReadAheadFile, window: &mut AheadWindow, page: u64, wanted: u64) {
        let setting = self.setting(file, window);
        if setting == 0 || window.is_random {
            let wanted = if setting == 0 { 1 } else { wanted };
            self.forced(file, page, wanted, setting);
            return;
        }
        let max = largest(file, setting, wanted);
        let previous = window.previous.map(|end| end / self.page_bytes);
        // The end of the last read, or one page behind it.
        let goes_on = previous.is_some_and(|previous| page.wrapping_sub(previous) <= 1);
        if page == 0 || wanted > max || goes_on {
            window.size = first_size(wanted, max);
            let rest = window.size.saturating_sub(wanted);
            window.async_size = if rest > 0 { rest } else { window.size / 2 };
        } else {
            let behind = self.pages_behind(file.number, page, max);
            if behind <= wanted {
                self.submit(file, page, wanted, 0);
                return;
            }
            // All pages from the beginning of the file on are there: a long run.
            let behind = if behind == page { behind * 2 } else { behind };
            window.size = behind.saturating_add(wanted).min(max);
            window.async_size = 1;
        }
        window.start = page;
        window.order = 0;
        self.submit_window(file, window);
    }

    /// Reads the next window, as its reader is at the marked folio (`page_cache_async_ra()`).
    fn marked(
        &mut self,
        file: &ReadAheadFile,
        window: &mut AheadWindow,
        folio: MarkedFolio,
        wanted: u64,
    ) {
        let setting = self.setting(file, window);
        if setting == 0 {
            return;
        }
        let MarkedFolio { first: page, pages: folio_pages } = folio;
        let wanted = wanted.max(1);
        let max = largest(file, setting, wanted);
        let expected = window.start.saturating_add(window.size - window.async_size);
        if page == expected - expected % folio_pages.max(1) {
            window.start = window.start.saturating_add(window.size);
            window.size = window.size.max(next_size(window.size, max));
        } else {
            // The window of another reader: the next one begins behind the pages that are there.
            let Some(gap) = self.gap_behind(file.number, folio, max) else { return };
            window.start = gap;
            window.size = next_size((gap - page).saturating_add(wanted), max);
        }
        window.order += 2;
        let align = 1_u64 << window.order.min(max.trailing_zeros());
        let end = window.start.saturating_add(window.size);
        let aligned = end - end % align;
        if aligned > window.start {
            window.size -= end - aligned;
        }
        window.async_size = window.size;
        self.submit_window(file, window);
    }

    /// Reads the pages of a window (`page_cache_ra_order()`).
    fn submit_window(&mut self, file: &ReadAheadFile, window: &mut AheadWindow) {
        let AheadWindow { start, size, async_size, .. } = *window;
        if !file.has_large_folios {
            window.order = 0;
            self.submit(file, start, size, async_size);
            return;
        }
        window.order = window.order.min(FOLIO_ORDER_MAX).min(size.max(1).ilog2());
        let end = start.saturating_add(size).min(file.pages.unwrap_or(u64::MAX));
        let marked = start.saturating_add(size - async_size);
        let mut page = start;
        while page < end {
            let mut order = window.order.min(page.trailing_zeros());
            while order > 0 && end - page < 1 << order {
                order -= 1;
            }
            let pages = 1_u64 << order;
            let folio = page..page + pages;
            if folio.clone().any(|page| self.pages.has(file.number, page)) {
                break;
            }
            if page == marked - marked % pages {
                self.pages.mark(file.number, page, pages);
            }
            folio.for_each(|page| self.pages.add(file.number, page, true));
            page += pages;
        }
        self.count(file, page - start);
        let rest = size.saturating_sub(page - start);
        if page < end {
            self.submit(file, page, rest, async_size);
        }
    }

    /// Reads those pages of a range that are not there, and marks one: the first of the last
    /// `marked` ones (`do_page_cache_ra()`).
    fn submit(&mut self, file: &ReadAheadFile, start: u64, pages: u64, marked: u64) {
        let until_end = file.pages.map_or(pages, |end| end.saturating_sub(start));
        let pages = pages.min(until_end);
        let end = start.saturating_add(pages);
        let mark = pages.checked_sub(marked).map(|before| start.saturating_add(before));
        if let Some(mark) = mark.filter(|mark| *mark < end && !self.pages.has(file.number, *mark)) {
            self.pages.mark(file.number, mark, 1);
        }
        self.fetch(file, start..end);
    }

    /// Reads as many pages as are wanted, and no more than a request or a window has
    /// (`force_page_cache_ra()`).
    fn forced(&mut self, file: &ReadAheadFile, start: u64, wanted: u64, setting: u64) {
        let wanted = wanted.min(setting.max(file.request_pages));
        let end = start.saturating_add(wanted).min(file.pages.unwrap_or(u64::MAX));
        let mut page = start;
        let part = (FORCED_BYTES / self.page_bytes).max(1);
        while page < end && !self.is_full() {
            let pages = part.min(end - page);
            self.submit(file, page, pages, 0);
            page += pages;
        }
    }

    /// Reads those pages of a range that are not there: each run of them by itself.
    fn fetch(&mut self, file: &ReadAheadFile, pages: Range<u64>) {
        let mut run = 0;
        for page in pages {
            if self.pages.has(file.number, page) {
                self.count(file, run);
                run = 0;
            } else {
                self.pages.add(file.number, page, true);
                run += 1;
            }
        }
        self.count(file, run);
    }

    /// Counts a run of pages that is read.
    fn count(&mut self, file: &ReadAheadFile, pages: u64) {
        self.totals.read_pages += pages;
        self.totals.requests += pages.div_ceil(file.request_pages.max(1));
    }

    /// Returns the first page behind the first one of a folio that is not there, among this number
    /// of pages.
    ///
    /// In a folio of several pages the kernel's walk (`page_cache_next_miss()`) begins at its first
    /// page and not at the second one, and is one page late up to the next node of 64 pages.
    fn gap_behind(&self, file: u32, folio: MarkedFolio, max: u64) -> Option<u64> {
        let MarkedFolio { first, pages } = folio;
        let mut late = u64::from((2..NODE_PAGES).contains(&pages));
        for page in first.saturating_add(1)..=first.saturating_add(max) {
            if !self.pages.has(file, page - late) {
                return Some(page);
            }
            if (page - late) % NODE_PAGES == NODE_PAGES - 1 {
                late = 0;
            }
        }
        None
    }

    /// Returns the number of pages right before one that are there. Of so many the kernel sees all
    /// but one (`page_cache_prev_miss()`).
    fn pages_behind(&self, file: u32, page: u64, max: u64) -> u64 {
        let all = page.min(max.saturating_sub(1));
        let is_missing = |back: &u64| !self.pages.has(file, page - back);
        (1..=all).find(is_missing).map_or(all, |back| back - 1)
    }
}

/// Returns the largest window for a read: more than the setting, if the read is larger and the disk
/// takes it (`ractl_max_pages()`).
fn largest(file: &ReadAheadFile, setting: u64, wanted: u64) -> u64 {
    setting.max(wanted.min(file.request_pages))
}

/// Returns the size of the first window (`get_init_ra_size()`).
fn first_size(wanted: u64, max: u64) -> u64 {
    match wanted.checked_next_power_of_two().unwrap_or(max) {
        size if size <= max / 32 => size * 4,
        size if size <= max / 4 => size * 2,
        _ => max,
    }
}

/// Returns the size of the window behind one (`get_next_ra_size()`).
fn next_size(size: u64, max: u64) -> u64 {
    match size {
        size if size < max / 16 => size * 4,
        size if size <= max / 2 => size * 2,
        _ => max,
    }
}
