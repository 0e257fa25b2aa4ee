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
mod tests {
    use super::*;

    const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn layout() -> PageLayout {
        PageLayout::parse(HEADER_PAGE).expect("the kernel's own")
    }

    fn page(time: u64, flags: u64, data: &[u32], lost: Option<u64>) -> Vec<u8> {
        let data: Vec<u8> = data.iter().flat_map(|it| it.to_le_bytes()).collect();
        let commit = flags | data.len() as u64;
        let lost = lost.map(u64::to_le_bytes);
        let parts: [&[u8]; 4] = [
            &time.to_le_bytes(),
            &commit.to_le_bytes(),
            &data,
            lost.as_ref().map_or(&[], <[u8; 8]>::as_slice),
        ];
        parts.concat()
    }

    fn entry(type_len: u32, delta: u32) -> u32 {
        type_len | delta << 5
    }

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(
            layout(),
            PageLayout { commit: 8, long: 8, data: 16, capacity: 4080, is_continued: false }
        );
        assert_eq!(layout().page_bytes(), 4096);
        assert_eq!(PageLayout::parse("field: u64 timestamp;\toffset:8;\tsize:8;"), None);
        assert_eq!(PageLayout::parse(""), None);
    }

    /// Fails if a hit that stays has another time or payload, or one that goes stays.
    #[test]
    fn hits_that_are_not_kept_leave_the_times_of_the_others() {
        let data = [
            entry(1, 5),
            0xaaaa,
            entry(30, 3),
            1,
            entry(0, 7),
            12,
            0xbbbb,
            0xcccc,
            entry(1, 11),
            0xdddd,
            entry(31, 9),
            2,
            entry(2, 0),
            0xeeee,
            0xffff,
        ];
        let of = |bytes: &[u8]| -> Vec<(u64, Vec<u8>)> {
            let all: Vec<Entry> =
                entries(bytes, layout()).collect::<Result<_, _>>().expect("whole");
            let told = |it: &Entry| match *it {
                Entry::Hit(at, time) => {
                    Some((time.0, payload(&bytes[at..]).expect("a hit").to_vec()))
                }
                Entry::Lost(..) => None,
            };
            all.iter().filter_map(told).collect()
        };
        let one = page(1000, 0, &data, None);
        let whole =
            [one.clone(), page(5000, MISSED_EVENTS | MISSED_STORED, &data, Some(7))].concat();
        let all = of(&whole);
        assert_eq!(all.len(), 8);
        for chosen in 0_u32..256 {
            let mut number = 0;
            let mut keeps = |_: &[u8]| {
                number += 1;
                chosen >> (number - 1) & 1 == 1
            };
            let mut bytes = whole.clone();
            layout().retain(&mut bytes, &mut keeps);
            let kept = all.iter().enumerate().filter(|it| chosen >> it.0 & 1 == 1);
            assert_eq!(of(&bytes), kept.map(|it| it.1.clone()).collect::<Vec<_>>(), "{chosen:b}");
            let lost = entries(&bytes, layout())
                .flatten()
                .filter(|it| matches!(it, Entry::Lost(_, Some(7))));
            assert_eq!(lost.count(), 1, "what was lost is told all the same");
        }
        let mut bytes = one;
        layout().retain(&mut bytes, |_| false);
        assert_eq!(bytes, [0_u8; 0], "a page without hits goes");
    }

    #[test]
    fn times_add_up_over_hits_extensions_and_padding() {
        let data = [
            entry(1, 5),
            0xaaaa,
            entry(30, 3),
            1,
            entry(0, 7),
            12,
            0xbbbb,
            0xcccc,
            entry(29, 1),
            8,
            0,
            entry(31, 9),
            2,
            entry(2, 0),
            0xdddd,
            0xeeee,
            entry(29, 0),
            99,
        ];
        let bytes = page(1000, 0, &data, None);
        let found: Vec<_> = entries(&bytes, layout()).collect::<Result<_, _>>().expect("whole");
        let long = 1005 + 3 + (1 << 27) + 7;
        let expected = [
            Entry::Hit(16, KernelTime(1005)),
            Entry::Hit(32, KernelTime(long)),
            Entry::Hit(68, KernelTime((2 << 27) + 9)),
        ];
        assert_eq!(found, expected);
        assert_eq!(payload(&bytes[16..]), Some(&0xaaaa_u32.to_le_bytes()[..]));
        assert_eq!(payload(&bytes[32..]).map(<[u8]>::len), Some(8));
        assert_eq!(payload(&bytes[24..]), None, "an extension");
    }

    #[test]
    fn an_absolute_time_keeps_the_five_highest_bits() {
        let high = 0x10 << 56;
        let bytes = page(high + 5, 0, &[entry(31, 9), 0, entry(1, 1), 0], None);
        let found: Vec<_> = entries(&bytes, layout()).flatten().collect();
        assert_eq!(found, [Entry::Hit(24, KernelTime(high + 10))]);
    }

    #[test]
    fn a_hit_has_the_word_with_its_length() {
        let hits = |length: u32| {
            let bytes = page(1, 0, &[entry(0, 0), length, 0xaaaa], None);
            entries(&bytes, layout()).filter(|it| matches!(it, Ok(Entry::Hit(..)))).count()
        };
        assert_eq!([hits(0), hits(4), hits(8)], [0, 1, 1]);
    }

    #[test]
    fn what_was_lost_is_told_before_the_page() {
        let hit = [entry(1, 0), 0];
        let stored = page(7, MISSED_EVENTS | MISSED_STORED, &hit, Some(23));
        let unknown = page(9, MISSED_EVENTS, &hit, None);
        let bytes = [page(1, 0, &hit, None), stored, unknown].concat();
        let found: Vec<_> = entries(&bytes, layout()).flatten().collect();
        let expected = [
            Entry::Hit(16, KernelTime(1)),
            Entry::Lost(KernelTime(7), Some(23)),
            Entry::Hit(40, KernelTime(7)),
            Entry::Lost(KernelTime(9), None),
            Entry::Hit(72, KernelTime(9)),
        ];
        assert_eq!(found, expected);
        assert_eq!(layout().used_bytes(&bytes[24..]), Some(32));
    }

    #[test]
    fn whole_pages_are_cut_behind_their_data() {
        let used = [page(7, 0, &[entry(1, 0), 0], None), page(8, 0, &[], None)];
        let mut bytes = vec![0xee; 3];
        for page in &used {
            bytes.extend(page);
            bytes.resize(bytes.len() + 4096 - page.len(), 0xee);
        }
        layout().cut(&mut bytes, 3);
        assert_eq!(bytes, [vec![0xee; 3], used.concat()].concat());
    }

    #[test]
    fn a_cut_page_is_an_error_once() {
        let bytes = page(7, 0, &[entry(1, 0), 0, entry(9, 0)], None);
        let found: Vec<_> = entries(&bytes, layout()).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], Err(PageError { offset: 24, left: 4 }));
        let cut: Vec<_> = entries(&bytes[..20], layout()).collect();
        assert_eq!(cut, [Err(PageError { offset: 0, left: 20 })]);
        assert_eq!(layout().used_bytes(&bytes[..20]), None);
    }

    #[test]
    fn the_times_of_a_page_continue_those_of_the_page_before() {
        let hit = [entry(1, 5), 0];
        let mut bytes = [page(1000, 0, &hit, None), page(1005, 0, &hit, None)].concat();
        let before: Vec<_> = entries(&bytes, layout()).collect();
        layout().continue_times(&mut bytes);
        assert_eq!(bytes, [page(1000, 0, &hit, None), page(0, 0, &hit, None)].concat());
        assert_eq!(entries(&bytes, layout().continued()).collect::<Vec<_>>(), before);
    }

    proptest::proptest! {
        #[test]
        fn continued_times_are_the_same(
            pages in proptest::collection::vec((
                proptest::prelude::any::<u64>(),
                proptest::collection::vec(proptest::prelude::any::<u32>(), 0..20),
            ), 0..6),
            tail: Vec<u8>,
        ) {
            let mut bytes: Vec<u8> =
                pages.iter().flat_map(|(time, data)| page(*time, 0, data, None)).collect();
            bytes.extend(tail);
            let before: Vec<_> = entries(&bytes, layout()).collect();
            layout().continue_times(&mut bytes);
            let after: Vec<_> = entries(&bytes, layout().continued()).collect();
            proptest::prop_assert_eq!(after, before);
        }

        #[test]
        fn any_bytes_give_entries_or_errors(bytes: Vec<u8>) {
            for entry in entries(&bytes, layout()).flatten() {
                if let Entry::Hit(start, _) = entry {
                    let _ = payload(&bytes[start..]);
                }
            }
        }
    }
}
