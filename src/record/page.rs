//! Pages of a tracefs ring → the hits in them.
//!
//! A page begins with the time of its first entry and the length of its data; where these stand `events/header_page`
//! says. Then come entries, whose layout `events/header_event` describes (`include/linux/ring_buffer.h`):
//!
//! ```text
//!   0        5                              32
//!   ├────────┼──────────────────────────────┤
//!   │type_len│ time_delta, ns               │  then, by type_len:
//!   └────────┴──────────────────────────────┘
//!     1 to 28   a hit of type_len × 4 bytes
//!     0         u32 length + 4 of a long hit, and the hit
//!     29        u32 length of what is to be passed over; nothing more on the page if time_delta is 0
//!     30        u32 more bits of the time delta
//!     31        u32 more bits of an absolute time, without its five highest bits
//! ```
//!
//! A hit is the same payload that perf puts into a sample. In a capture log each page is cut behind its data, and the times
//! of a page *continue* those of the page before ([`PageLayout::continue_times`]): a page that is read in part begins anew
//! each time, at the time of its last entry, which would cost more than the entries.

use thiserror::Error;

use crate::units::KernelTime;

/// The kernel dropped entries before this page.
const MISSED_EVENTS: u64 = 1 << 31;
/// How many stands behind the data.
const MISSED_STORED: u64 = 1 << 30;
/// The length of the data, below the flags.
const LENGTH_MASK: u64 = (1 << 27) - 1;
/// Bits of a time that an absolute time stamp leaves out.
const TIME_HIGH: u64 = 0xf8 << 56;
/// Bits of `time_delta`.
const DELTA_BITS: u32 = 27;

/// Where the parts of a page are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Offset of the length and flags, a `long` of the kernel.
    commit: usize,
    /// Bytes of a `long`.
    long: usize,
    /// Offset of the data.
    data: usize,
    /// Bytes of data that a page holds.
    capacity: usize,
    /// The time of a page counts from the last time of the page before; that of the first page from 0.
    is_continued: bool,
}

/// What a page holds, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A hit: where its entry begins in the bytes, and its time.
    Hit(usize, KernelTime),
    /// So many were dropped before this time; `None`: the kernel had no room to say how many.
    Lost(KernelTime, Option<u64>),
}

/// The bytes are no page, or end in the middle of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no ring page at offset {offset}, where {left} bytes are left")]
pub struct PageError {
    /// Where.
    pub offset: usize,
    /// What is there, in bytes.
    pub left: usize,
}

impl PageLayout {
    /// From the text of `events/header_page`; `None` if it describes something else than this module reads.
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

    /// Bytes of a whole page in the ring.
    pub fn page_bytes(&self) -> usize {
        self.data + self.capacity
    }

    /// Length of the page at the start of `bytes` with what belongs to it, without the unused rest; `None` if the bytes
    /// end before.
    pub fn used_bytes(&self, bytes: &[u8]) -> Option<usize> {
        self.head(bytes).map(|it| it.end).filter(|&it| it <= bytes.len())
    }

    /// Cuts off the unused rest of each of the whole pages that begin at `start`, as they come out of a ring.
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

    /// Removes those hits from these pages, as they come out of a ring, for whose entry `keeps` is false, and pages that then hold
    /// neither a hit nor a loss. A page that makes no sense stays as it is.
    pub fn retain(self, bytes: &mut Vec<u8>, mut keeps: impl FnMut(&[u8]) -> bool) {
        let mut out = Vec::with_capacity(bytes.len());
        let mut walk = Walk::new(bytes, self);
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
                // How many were lost.
                out.extend_from_slice(bytes.get(walk.end..walk.next_page).unwrap_or_default());
            }
            walk.at = walk.end;
        }
        *bytes = out;
    }

    /// Changes the length of the data of a page, and not the flags beside it.
    fn set_length(self, page: &mut [u8], length: usize) {
        let field = page.get_mut(self.commit..).and_then(|it| it.first_chunk_mut::<4>());
        if let (Some(field), Ok(length)) = (field, u32::try_from(length)) {
            let flags = u64::from(u32::from_le_bytes(*field)) & !LENGTH_MASK;
            let flags = u32::try_from(flags).unwrap_or(0);
            *field = (flags | length).to_le_bytes();
        }
    }

    /// The layout of pages after [`Self::continue_times`].
    #[must_use]
    pub fn continued(self) -> Self {
        Self { is_continued: true, ..self }
    }

    /// Replaces the time of each of these pages, as they come out of a ring, by its difference to the last time of the page
    /// before, modulo 2^64; that of the first stays.
    pub fn continue_times(self, bytes: &mut [u8]) {
        let mut differences = Vec::new();
        let mut walk = Walk::new(bytes, self);
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

/// The beginning of a page.
#[derive(Clone, Copy, Debug)]
struct Head {
    time: u64,
    /// Where its data ends, from the start of the page.
    data_end: usize,
    /// Where the page ends.
    end: usize,
    /// Entries were dropped before it; so many, if that is known.
    lost: Option<Option<u64>>,
}

/// The entries of pages one behind the other, in their order. After an error there are no more.
pub fn entries(
    bytes: &[u8],
    layout: PageLayout,
) -> impl Iterator<Item = Result<Entry, PageError>> + '_ {
    let mut walk = Walk::new(bytes, layout);
    std::iter::from_fn(move || walk.next())
}

/// Where [`entries`] is.
struct Walk<'a> {
    bytes: &'a [u8],
    layout: PageLayout,
    /// Where the next page begins.
    next_page: usize,
    /// The next entry.
    at: usize,
    /// Where the entries of the page end.
    end: usize,
    time: u64,
}

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8], layout: PageLayout) -> Self {
        Self { bytes, layout, next_page: 0, at: 0, end: 0, time: 0 }
    }

    /// To the end of the page, or to where it makes no sense any more.
    fn pass_page(&mut self) {
        while self.at < self.end && self.entry().is_some() {}
        self.at = self.end;
    }

    /// Copies the hits of the page for whose entry `keeps` is true, with the same times. False if the page makes no sense.
    fn copy_hits(&mut self, out: &mut Vec<u8>, keeps: &mut impl FnMut(&[u8]) -> bool) -> bool {
        let mut told = self.time;
        while self.at < self.end {
            let start = self.at;
            match self.entry() {
                Some(true) => {
                    let entry = self.bytes.get(start..self.at).unwrap_or_default();
                    if keeps(entry) {
                        push_hit(out, entry, self.time.wrapping_sub(told));
                        told = self.time;
                    }
                }
                Some(false) => {}
                None => return false,
            }
        }
        true
    }

    fn next(&mut self) -> Option<Result<Entry, PageError>> {
        loop {
            if self.at >= self.end {
                match self.next_page() {
                    Ok(Some(Some(lost))) => {
                        return Some(Ok(Entry::Lost(KernelTime(self.time), lost)));
                    }
                    Ok(Some(None)) => continue,
                    Ok(None) => return None,
                    Err(error) => {
                        // Where the next one begins is not known.
                        (self.next_page, self.end) = (self.bytes.len(), 0);
                        return Some(Err(error));
                    }
                }
            }
            let start = self.at;
            match self.entry() {
                Some(true) => return Some(Ok(Entry::Hit(start, KernelTime(self.time)))),
                Some(false) => {}
                None => {
                    self.at = self.end;
                    let left = self.end - start;
                    return Some(Err(PageError { offset: start, left }));
                }
            }
        }
    }

    /// Goes to the next page; `None` at the end of the bytes. What was lost before it, if anything was.
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

    /// Passes over one entry; true if it is a hit. `None` if it does not fit the page.
    fn entry(&mut self) -> Option<bool> {
        let page = self.bytes.get(..self.end)?;
        let Shape { kind, delta, length } = Shape::at(page, self.at)?;
        let more = || u32_at(page, self.at + 4).map(|it| u64::from(it) << DELTA_BITS);
        match kind {
            Kind::Absolute => self.time = (more()? | delta) | (self.time & TIME_HIGH),
            Kind::Extend => self.time = self.time.wrapping_add(more()? | delta),
            // Nothing more on this page.
            Kind::Padding if delta == 0 => {
                self.at = self.end;
                return Some(false);
            }
            Kind::Padding | Kind::Hit { .. } => self.time = self.time.wrapping_add(delta),
        }
        self.at = self.at.checked_add(length).filter(|&it| it <= self.end)?;
        Some(matches!(kind, Kind::Hit { .. }))
    }
}

/// One entry.
#[derive(Clone, Copy, Debug)]
struct Shape {
    kind: Kind,
    delta: u64,
    /// Of the whole entry, bytes.
    length: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Its payload begins so far behind the entry's start.
    Hit {
        payload: usize,
    },
    Padding,
    Extend,
    Absolute,
}

impl Shape {
    /// The entry that begins there.
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let word = u32_at(bytes, at)?;
        let long = || u32_at(bytes, at + 4).and_then(|it| usize::try_from(it).ok());
        let (kind, length) = match word & 31 {
            0 => {
                let length = long()?.checked_add(7)? & !3;
                // The word with the length is in it (`rb_update_event()` in kernel/trace/ring_buffer.c).
                (Kind::Hit { payload: 8 }, Some(length).filter(|it| *it >= 8)?)
            }
            29 if word >> 5 == 0 => (Kind::Padding, 0),
            29 => (Kind::Padding, long()?.checked_add(4)?),
            30 => (Kind::Extend, 8),
            31 => (Kind::Absolute, 8),
            // At most 28.
            words => (Kind::Hit { payload: 4 }, 4 + 4 * usize::try_from(words).ok()?),
        };
        Some(Self { kind, delta: u64::from(word >> 5), length })
    }
}

/// Adds a hit, so long after what stands before it.
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

/// The payload of the hit whose entry begins at the start of `bytes`.
pub fn payload(bytes: &[u8]) -> Option<&[u8]> {
    let shape = Shape::at(bytes, 0)?;
    match shape.kind {
        Kind::Hit { payload } => bytes.get(payload..shape.length),
        Kind::Padding | Kind::Extend | Kind::Absolute => None,
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
