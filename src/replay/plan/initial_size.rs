//! Initial size: the length of a file before its first operation, as reads, ends and truncations
//! show it, and the bytes that are still those of the start.
//!
//! ```text
//!          at the start                      now
//!   ├──────────────────────┤   ├────────────┬───────────┤
//!   0                  `first` 0       `visible`    `written`
//! ```
//!
//! Bytes below `visible` may be those of the start; a truncation lowers `visible`, and nothing
//! raises it. Bytes up to `written` are there because the program wrote them. Bytes that are read
//! beyond must have been there at the start. The program has changed bytes between
//! `first_changed` and `changed_end`, so their contents show nothing of the start.

use std::ops::Range;

/// Knowledge about the length of one file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Minimum length at the start.
    at_least: u64,
    /// Exact length at the start, if known.
    exact: Option<u64>,
    /// Limit below which bytes of the start may be left.
    visible: u64,
    /// Minimum end that the program has set.
    written: u64,
    /// Number of bytes that were appended at an unknown end.
    appended: u64,
    /// Offset of the first byte of the changed range.
    first_changed: u64,
    /// Offset after the last byte of the changed range.
    changed_end: u64,
}

impl Size {
    /// File that was there before.
    pub const THERE: Self = Self {
        at_least: 0,
        exact: None,
        visible: u64::MAX,
        written: 0,
        appended: 0,
        first_changed: 0,
        changed_end: 0,
    };

    /// File that the program has made.
    pub const MADE: Self = Self { exact: Some(0), visible: 0, ..Self::THERE };

    /// Returns the length at the start: the shortest one that explains all observations.
    pub fn first(&self) -> u64 {
        self.exact.unwrap_or(self.at_least)
    }

    /// Returns true if the length at the start is certain.
    pub fn is_exact(&self) -> bool {
        self.exact.is_some()
    }

    /// Returns the length that does not depend on any write: bytes that were there at the start and
    /// have not been cut off since.
    pub fn of_itself(&self) -> u64 {
        self.visible.min(self.first())
    }

    /// Returns true if the file is known to reach this length now.
    pub fn is_within(&self, length: u64) -> bool {
        length <= self.written.max(self.of_itself())
    }

    /// Returns true if the file may have this length now.
    pub fn may_end(&self, length: u64) -> bool {
        let known = self.written.max(self.of_itself());
        if self.is_exact() && self.appended == 0 { length == known } else { length >= known }
    }

    /// Records a read at `offset` that returned `got` of `count` bytes.
    pub fn read(&mut self, offset: u64, count: Option<u64>, got: u64) {
        // An empty read shows only that the end is at or before the offset.
        if got == 0 {
            return;
        }
        let end = offset.saturating_add(got);
        self.reaches(end);
        if count.is_some_and(|count| got < count) {
            self.ends(end);
        }
    }

    /// Records a write of `bytes` bytes; `None`: its offset is unknown.
    pub fn wrote(&mut self, offset: Option<u64>, bytes: u64) {
        match offset {
            Some(offset) => {
                let end = offset.saturating_add(bytes);
                self.written = self.written.max(end);
                self.changed(offset..end);
            }
            None => {
                self.appended = self.appended.saturating_add(bytes);
                self.changed(0..u64::MAX);
            }
        }
    }

    /// Records that the program has changed this range.
    pub fn changed(&mut self, range: Range<u64>) {
        let is_first = self.first_changed == self.changed_end;
        self.first_changed =
            if is_first { range.start } else { self.first_changed.min(range.start) };
        self.changed_end = self.changed_end.max(range.end);
    }

    /// Returns the parts of a range that are still as they were at the start.
    pub fn of_start(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let end = range.end.min(self.visible);
        let before = range.start..end.min(self.first_changed);
        let after = range.start.max(self.changed_end)..end;
        [before, after].into_iter().filter(|part| !part.is_empty())
    }

    /// Records that the file was set to this length.
    pub fn truncated(&mut self, length: u64) {
        self.visible = self.visible.min(length);
        self.written = length;
        self.appended = 0;
    }

    /// Records that an operation has shown the end of the file.
    pub fn ends(&mut self, length: u64) {
        self.reaches(length);
        // The end is that of the start only where the program has not set one.
        if self.exact.is_none()
            && self.appended == 0
            && length > self.written
            && length < self.visible
        {
            self.exact = Some(length);
        }
    }

    /// Records that an operation has shown bytes up to this length.
    pub fn reaches(&mut self, length: u64) {
        let from_start = length.min(self.visible).saturating_sub(self.appended);
        if length > self.written && self.exact.is_none() {
            self.at_least = self.at_least.max(from_start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the length at the start, and whether the length is certain.
    fn first(of: impl FnOnce(&mut Size)) -> (u64, bool) {
        let mut size = Size::THERE;
        of(&mut size);
        (size.first(), size.is_exact())
    }

    #[test]
    fn read_bytes_were_initially_there() {
        assert_eq!(first(|size| size.read(100, Some(10), 10)), (110, false));
    }

    #[test]
    fn short_read_shows_end_of_file() {
        assert_eq!(first(|size| size.read(0, Some(4096), 13)), (13, true));
    }

    #[test]
    fn empty_read_shows_no_initial_bytes() {
        assert_eq!(first(|size| size.read(0, Some(4096), 0)), (0, false));
        assert_eq!(first(|size| size.read(8192, Some(4096), 0)), (0, false));
    }

    #[test]
    fn written_bytes_are_not_initial() {
        let written = |size: &mut Size| {
            size.wrote(Some(0), 100);
            size.read(0, Some(4096), 100);
        };
        assert_eq!(first(written), (0, false));
        let partly = |size: &mut Size| {
            size.wrote(Some(0), 100);
            size.read(50, Some(4096), 100);
        };
        assert_eq!(first(partly), (150, true));
    }

    #[test]
    fn truncation_hides_initial_length() {
        let truncated = |size: &mut Size| {
            size.truncated(0);
            size.wrote(Some(0), 10);
            size.read(0, Some(4096), 10);
        };
        assert_eq!(first(truncated), (0, false));
    }

    #[test]
    fn changed_file_shows_nothing_of_the_start() {
        let mut size = Size::THERE;
        let left = |size: &Size| -> Vec<(u64, u64)> {
            size.of_start(10..1000).map(|part| (part.start, part.end)).collect()
        };
        assert_eq!(left(&size), [(10, 1000)]);
        size.wrote(Some(500), 100);
        assert_eq!(left(&size), [(10, 500), (600, 1000)]);
        size.changed(700..800);
        size.truncated(900);
        assert_eq!(left(&size), [(10, 500), (800, 900)]);
        size.wrote(None, 1);
        assert_eq!(left(&size), []);
        assert_eq!(left(&Size::MADE), []);
    }

    #[test]
    fn appended_bytes_follow_the_initial_ones() {
        let appended = |size: &mut Size| {
            size.wrote(None, 10);
            size.read(0, Some(4096), 110);
        };
        assert_eq!(first(appended), (100, false));
    }
}
