//! Pages of a tracefs ring → the samples in them.
//!
//! A page begins with the time of its first entry and the length of its data. `events/header_page`
//! gives the offsets of both. Then follow entries, whose layout `events/header_event` describes
//! (`include/linux/ring_buffer.h`):
//!
//! ```text
//!   0        5                              32
//!   ├────────┼──────────────────────────────┤
//!   │type_len│ time_delta, ns               │  then, by type_len:
//!   └────────┴──────────────────────────────┘
//!     1 to 28   a sample of type_len × 4 bytes
//!     0         u32 length + 4 of a long sample, and the sample
//!     29        u32 length of the part to skip; nothing more on the page if time_delta is 0
//!     30        u32 more bits of the time delta
//!     31        u32 more bits of an absolute time, without its five highest bits
//! ```
//!
//! A sample has the same payload as one of perf. In a capture log each page is cut after its data,
//! and the times of a page *continue* those of the previous page ([`PageLayout::continue_times`]).
//! The reason: a page that is read in parts begins anew each time, at the time of its last entry,
//! and storing these times would cost more than the entries.

use thiserror::Error;

use crate::units::KernelTime;

/// Flag: the kernel dropped entries before this page.
const MISSED_EVENTS: u64 = 1 << 31;
/// Flag: the number of dropped entries is stored after the data.
const MISSED_STORED: u64 = 1 << 30;
/// Mask of the data length, below the flags.
const LENGTH_MASK: u64 = (1 << 27) - 1;
/// Bits of a time that an absolute time stamp omits.
const TIME_HIGH: u64 = 0xf8 << 56;
/// Number of bits of `time_delta`.
const DELTA_BITS: u32 = 27;

/// Offsets of the parts of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Offset of the length and flags, a `long` of the kernel.
    commit: usize,
    /// Bytes of a `long`.
    long: usize,
    /// Offset of the data.
    data: usize,
    /// Bytes of data for which a page has space.
    capacity: usize,
    /// True if the time of a page counts from the last time of the previous page, and that of the
    /// first page from 0.
    is_continued: bool,
}

/// Element of a page, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEntry {
    /// Sample: the offset of its entry in the bytes, and its time.
    Hit(usize, KernelTime),
    /// Loss: the number of entries that were dropped before this time; `None` if the kernel had no
    /// space to store the number.
    Lost(KernelTime, Option<u64>),
}

/// Error: the bytes are not a page, or end in the middle of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no ring page at offset {offset}, where {left} bytes are left")]
pub struct PageError {
    /// Offset of the page in the bytes.
    pub offset: usize,
    /// Number of bytes that are there.
    pub left: usize,
}

impl PageLayout {
    /// Parses the text of `events/header_page`; `None` if the described layout is not the one that
    /// this module reads.
    pub fn parse(text: &str) -> Option<Self> {
        let field = |wanted: &str| {
            text.lines().find_map(|line| {
                let mut parts = line.trim().split(';').map(str::trim);
                let name = parts.next()?.strip_prefix("field:")?.rsplit(' ').next()?;
                let offset = parts.next()?.strip_prefix("offset:")?.parse::<usize>().ok()?;
                let size = parts.next()?.strip_prefix("size:")?.parse::<usize>().ok()?;
                (name == wanted).then_some((offset, size))
            })
        };
        let (timestamp, commit, data) = (field("timestamp")?, field("commit")?, field("data")?);
        let fits = timestamp == (0, 8)
            && commit.0 == 8
            && matches!(commit.1, 4 | 8)
            && data.0 >= commit.0 + commit.1
            && data.0 <= 64;
        fits.then_some(Self {
            commit: commit.0,
            long: commit.1,
            data: data.0,
            capacity: data.1,
            is_continued: false,
        })
    }

    /// Returns the bytes of a whole page in the ring.
    pub fn page_bytes(&self) -> usize {
        self.data + self.capacity
    }

    /// Returns the length of the page at the start of `bytes` with all its parts, but without the
    /// unused rest. Returns `None` if the bytes end earlier.
    pub fn used_bytes(&self, bytes: &[u8]) -> Option<usize> {
        self.head(bytes).map(|it| it.end).filter(|&it| it <= bytes.len())
    }

    /// Cuts off the unused rest of all whole pages from `start` on, as they come out of a ring.
    pub fn cut(&self, bytes: &mut Vec<u8>, start: usize) {
        let mut end = start;
        let mut page = start;
        while page < bytes.len() {
            let next = (page + self.page_bytes()).min(bytes.len());
            let whole = bytes.get(page..next).unwrap_or_default();
            let used = self.used_bytes(whole).unwrap_or(whole.len());
            bytes.copy_within(page..page + used, end);
            (page, end) = (next, end + used);
        }
        bytes.truncate(end);
    }

    /// Removes the samples for whose entry `keeps` is false from these pages, as they come out of a
    /// ring. Removes also the pages that then hold neither a sample nor a loss. Invalid pages stay
    /// as they are.
    pub fn retain(self, bytes: &mut Vec<u8>, mut keeps: impl FnMut(&[u8]) -> bool) {
        let mut out = Vec::with_capacity(bytes.len());
        let mut walk = PageWalk::new(bytes, self);
        loop {
            let start = walk.next_page;
            let lost = match walk.next_page() {
                Ok(Some(lost)) => lost,
                Ok(None) => break,
                Err(_) => {
                    out.extend_from_slice(bytes.get(start..).unwrap_or_default());
                    break;
                }
            };
            let (page, data) = (out.len(), walk.at);
            out.extend_from_slice(bytes.get(start..data).unwrap_or_default());
            let is_whole = walk.copy_hits(&mut out, &mut keeps);
            let length = out.len() - page - self.data;
            if !is_whole {
                out.truncate(page);
                out.extend_from_slice(bytes.get(start..walk.next_page).unwrap_or_default());
            } else if length == 0 && lost.is_none() {
                out.truncate(page);
            } else {
                self.set_length(out.get_mut(page..).unwrap_or_default(), length);
                // The number of lost entries is after the data.
                out.extend_from_slice(bytes.get(walk.end..walk.next_page).unwrap_or_default());
            }
            walk.at = walk.end;
        }
        *bytes = out;
    }

    /// Clears what the padding of these pages holds: remains of earlier entries.
    pub fn clear_padding(self, bytes: &mut [u8]) {
        let mut remains = Vec::new();
        let mut walk = PageWalk::new(bytes, self);
        while let Ok(Some(_)) = walk.next_page() {
            while walk.at < walk.end {
                let start = walk.at;
                let shape = EntryShape::at(bytes.get(..walk.end).unwrap_or_default(), start);
                if walk.entry().is_none() {
                    break;
                }
                if let Some(EntryShape { kind: PageEntryKind::Padding, delta, .. }) = shape {
                    // Its length follows, unless it ends the page.
                    let head = if delta == 0 { 4 } else { 8 };
                    remains.push((start + head).min(walk.at)..walk.at);
                }
            }
            walk.at = walk.end;
        }
        for place in remains {
            if let Some(bytes) = bytes.get_mut(place) {
                bytes.fill(0);
            }
        }
    }

    /// Changes the length of a page's data, but not the flags in the same field.
    fn set_length(self, page: &mut [u8], length: usize) {
        let field = page.get_mut(self.commit..).and_then(|it| it.first_chunk_mut::<4>());
        if let (Some(field), Ok(length)) = (field, u32::try_from(length)) {
            let flags = u64::from(u32::from_le_bytes(*field)) & !LENGTH_MASK;
            let flags = u32::try_from(flags).unwrap_or(0);
            *field = (flags | length).to_le_bytes();
        }
    }

    /// Returns the layout of pages after [`Self::continue_times`].
    #[must_use]
    pub fn continued(self) -> Self {
        Self { is_continued: true, ..self }
    }

    /// Replaces the time of each of these pages, as they come out of a ring, by its difference to
    /// the last time of the previous page, modulo 2^64. The time of the first page stays.
    pub fn continue_times(self, bytes: &mut [u8]) {
        let mut differences = Vec::new();
        let mut walk = PageWalk::new(bytes, self);
        loop {
            let (page, end) = (walk.next_page, walk.time);
            let Ok(Some(_)) = walk.next_page() else { break };
            differences.push((page, walk.time.wrapping_sub(end)));
            walk.pass_page();
        }
        for (page, difference) in differences {
            if let Some(time) = bytes.get_mut(page..).and_then(|it| it.first_chunk_mut::<8>()) {
                *time = difference.to_le_bytes();
            }
        }
    }

    fn head(&self, bytes: &[u8]) -> Option<Head> {
        let time = u64_at(bytes, 0)?;
        let commit = self.long_at(bytes, self.commit)?;
        let data_end = self.data + usize::try_from(commit & LENGTH_MASK).ok()?;
        let stored = commit & (MISSED_EVENTS | MISSED_STORED) == MISSED_EVENTS | MISSED_STORED;
        let end = data_end + if stored { self.long } else { 0 };
        let lost = (commit & MISSED_EVENTS != 0)
            .then(|| if stored { self.long_at(bytes, data_end) } else { None });
        Some(Head { time, data_end, end, lost })
    }

    fn long_at(&self, bytes: &[u8], offset: usize) -> Option<u64> {
        match self.long {
            4 => u32_at(bytes, offset).map(u64::from),
            _ => u64_at(bytes, offset),
        }
    }
}

/// Header of a page.
#[derive(Clone, Copy, Debug)]
struct Head {
    time: u64,
    /// End of its data, from the start of the page.
    data_end: usize,
    /// End of the page.
    end: usize,
    /// Loss of entries before the page, with their number if that is known.
    lost: Option<Option<u64>>,
}

/// Returns the entries of consecutive pages in their order. No entries follow an error.
pub fn entries(
    bytes: &[u8],
    layout: PageLayout,
) -> impl Iterator<Item = Result<PageEntry, PageError>> + '_ {
    let mut walk = PageWalk::new(bytes, layout);
    std::iter::from_fn(move || walk.next())
}

/// Position of [`entries`] in the pages.
struct PageWalk<'a> {
    bytes: &'a [u8],
    layout: PageLayout,
    /// Offset of the next page.
    next_page: usize,
    /// Offset of the next entry.
    at: usize,
    /// End of the entries of the page.
    end: usize,
    time: u64,
}

impl<'a> PageWalk<'a> {
    fn new(bytes: &'a [u8], layout: PageLayout) -> Self {
        Self { bytes, layout, next_page: 0, at: 0, end: 0, time: 0 }
    }

    /// Passes over the entries to the end of the page, or to the first invalid one.
    fn pass_page(&mut self) {
        while self.at < self.end && self.entry().is_some() {}
        self.at = self.end;
    }

    /// Copies the samples of the page for whose entry `keeps` is true, with the same times. Returns
    /// false if the page is invalid.
    fn copy_hits(&mut self, out: &mut Vec<u8>, keeps: &mut impl FnMut(&[u8]) -> bool) -> bool {
        let mut copied = self.time;
        while self.at < self.end {
            let start = self.at;
            match self.entry() {
                Some(true) => {
                    let entry = self.bytes.get(start..self.at).unwrap_or_default();
                    if keeps(entry) {
                        push_hit(out, entry, self.time.wrapping_sub(copied));
                        copied = self.time;
                    }
                }
                Some(false) => {}
                None => return false,
            }
        }
        true
    }

    fn next(&mut self) -> Option<Result<PageEntry, PageError>> {
        loop {
            if self.at >= self.end {
                match self.next_page() {
                    Ok(Some(Some(lost))) => {
                        return Some(Ok(PageEntry::Lost(KernelTime(self.time), lost)));
                    }
                    Ok(Some(None)) => continue,
                    Ok(None) => return None,
                    Err(error) => {
                        // The beginning of the next page is unknown.
                        (self.next_page, self.end) = (self.bytes.len(), 0);
                        return Some(Err(error));
                    }
                }
            }
            let start = self.at;
            match self.entry() {
                Some(true) => return Some(Ok(PageEntry::Hit(start, KernelTime(self.time)))),
                Some(false) => {}
                None => {
                    self.at = self.end;
                    let left = self.end - start;
                    return Some(Err(PageError { offset: start, left }));
                }
            }
        }
    }

    /// Goes to the next page and returns the loss before it, if there was one; `None` at the end of
    /// the bytes.
    fn next_page(&mut self) -> Result<Option<Option<Option<u64>>>, PageError> {
        let offset = self.next_page;
        let rest = self.bytes.get(offset..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let head = self.layout.head(rest).filter(|it| it.end <= rest.len());
        let head = head.ok_or(PageError { offset, left: rest.len() })?;
        self.time = match self.layout.is_continued {
            true => self.time.wrapping_add(head.time),
            false => head.time,
        };
        (self.at, self.end) = (offset + self.layout.data, offset + head.data_end);
        self.next_page = offset + head.end;
        Ok(Some(head.lost))
    }

    /// Passes over one entry; returns true if it is a sample, and `None` if it does not fit into
    /// the page.
    fn entry(&mut self) -> Option<bool> {
        let page = self.bytes.get(..self.end)?;
        let EntryShape { kind, delta, length } = EntryShape::at(page, self.at)?;
        let more = || u32_at(page, self.at + 4).map(|it| u64::from(it) << DELTA_BITS);
        match kind {
            PageEntryKind::Absolute => self.time = (more()? | delta) | (self.time & TIME_HIGH),
            PageEntryKind::Extend => self.time = self.time.wrapping_add(more()? | delta),
            // A padding without a length ends the page.
            PageEntryKind::Padding if delta == 0 => {
                self.at = self.end;
                return Some(false);
            }
            PageEntryKind::Padding | PageEntryKind::Hit { .. } => {
                self.time = self.time.wrapping_add(delta)
            }
        }
        self.at = self.at.checked_add(length).filter(|&it| it <= self.end)?;
        Some(matches!(kind, PageEntryKind::Hit { .. }))
    }
}

/// Header of one entry, decoded.
#[derive(Clone, Copy, Debug)]
struct EntryShape {
    kind: PageEntryKind,
    delta: u64,
    /// Bytes of the whole entry.
    length: usize,
}

#[derive(Clone, Copy, Debug)]
enum PageEntryKind {
    /// The payload begins this many bytes after the start of the entry.
    Hit {
        payload: usize,
    },
    Padding,
    Extend,
    Absolute,
}

impl EntryShape {
    /// Decodes the entry at this offset.
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let word = u32_at(bytes, at)?;
        let long = || u32_at(bytes, at + 4).and_then(|it| usize::try_from(it).ok());
        let (kind, length) = match word & 31 {
            0 => {
                let length = long()?.checked_add(7)? & !3;
                // The word with the length is included (`rb_update_event()` in
                // kernel/trace/ring_buffer.c).
                (PageEntryKind::Hit { payload: 8 }, Some(length).filter(|it| *it >= 8)?)
            }
            29 if word >> 5 == 0 => (PageEntryKind::Padding, 0),
            29 => (PageEntryKind::Padding, long()?.checked_add(4)?),
            30 => (PageEntryKind::Extend, 8),
            31 => (PageEntryKind::Absolute, 8),
            // The number of words is at most 28.
            words => (PageEntryKind::Hit { payload: 4 }, 4 + 4 * usize::try_from(words).ok()?),
        };
        Some(Self { kind, delta: u64::from(word >> 5), length })
    }
}

/// Adds a sample whose time is `delta` after that of the previous entry.
fn push_hit(out: &mut Vec<u8>, entry: &[u8], delta: u64) {
    let Some((word, rest)) = entry.split_first_chunk::<4>() else { return };
    let low = |it: u64| u32::try_from(it & ((1 << DELTA_BITS) - 1)).unwrap_or(0);
    let mut own = low(delta);
    if let Some(high) = u32::try_from(delta >> DELTA_BITS).ok().filter(|it| *it > 0) {
        out.extend_from_slice(&(30 | own << 5).to_le_bytes());
        out.extend_from_slice(&high.to_le_bytes());
        own = 0;
    }
    let word = u32::from_le_bytes(*word) & 31 | own << 5;
    out.extend_from_slice(&word.to_le_bytes());
    out.extend_from_slice(rest);
}

/// Returns the payload of the sample whose entry begins at the start of `bytes`.
pub fn payload(bytes: &[u8]) -> Option<&[u8]> {
    let shape = EntryShape::at(bytes, 0)?;
    match shape.kind {
        PageEntryKind::Hit { payload } => bytes.get(payload..shape.length),
        PageEntryKind::Padding | PageEntryKind::Extend | PageEntryKind::Absolute => None,
    }
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
