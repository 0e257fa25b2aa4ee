//! How long a file was before its first operation: what reads, ends and truncations let one conclude; and which of its bytes are still those.
//!
//! ```text
//!          at the start                      now
//!   ├──────────────────────┤   ├────────────┬───────────┤
//!   0                  `first` 0       `visible`    `written`
//! ```
//!
//! Bytes below `visible` may be those of the start; a truncation lowers it and nothing raises it. Bytes up to `written` are there
//! because the program put them there. What is read beyond must have been there at the start. Between `changed_from` and `changed_to` the
//! program has changed something, so what is found there says nothing of the start.

use std::ops::Range;

/// What is known of the length of one file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// It was at least as long as this at the start.
    at_least: u64,
    /// It was exactly so long.
    exact: Option<u64>,
    /// Contents of the start are below this.
    visible: u64,
    /// The program has put an end at least here.
    written: u64,
    /// Bytes were put at an end that is not known where.
    appended: u64,
    /// Nothing was changed before this.
    changed_from: u64,
    /// Nor from this on.
    changed_to: u64,
}

impl Size {
    /// A file that was there before.
    pub const THERE: Self = Self {
        at_least: 0,
        exact: None,
        visible: u64::MAX,
        written: 0,
        appended: 0,
        changed_from: 0,
        changed_to: 0,
    };

    /// A file that the program has made.
    pub const MADE: Self = Self { exact: Some(0), visible: 0, ..Self::THERE };

    /// Its length at the start: the shortest one that explains everything that was seen.
    pub fn first(&self) -> u64 {
        self.exact.unwrap_or(self.at_least)
    }

    /// True if that is certain.
    pub fn is_exact(&self) -> bool {
        self.exact.is_some()
    }

    /// So long it is whoever has written what: by what was there at the start, and was not cut off since.
    pub fn of_itself(&self) -> u64 {
        self.visible.min(self.first())
    }

    /// True if it is as long as that now, for all that is known.
    pub fn is_within(&self, end: u64) -> bool {
        end <= self.written.max(self.of_itself())
    }

    /// True if it may end here now.
    pub fn may_end(&self, end: u64) -> bool {
        let known = self.written.max(self.of_itself());
        if self.is_exact() && self.appended == 0 { end == known } else { end >= known }
    }

    /// `got` of `asked` bytes were read from here.
    pub fn read(&mut self, offset: u64, asked: Option<u64>, got: u64) {
        // Where nothing was got, the end is anywhere before.
        if got == 0 {
            return;
        }
        let end = offset.saturating_add(got);
        self.reaches(end);
        if asked.is_some_and(|it| got < it) {
            self.ends(end);
        }
    }

    /// Bytes were written here; `None`: nobody knows where.
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

    /// The program has changed something there, its end left out.
    pub fn changed(&mut self, range: Range<u64>) {
        let is_first = self.changed_from == self.changed_to;
        self.changed_from = if is_first { range.start } else { self.changed_from.min(range.start) };
        self.changed_to = self.changed_to.max(range.end);
    }

    /// What of this is still as it was at the start.
    pub fn of_start(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let end = range.end.min(self.visible);
        let before = range.start..end.min(self.changed_from);
        let behind = range.start.max(self.changed_to)..end;
        [before, behind].into_iter().filter(|it| !it.is_empty())
    }

    /// It was made so long.
    pub fn truncated(&mut self, length: u64) {
        self.visible = self.visible.min(length);
        self.written = length;
        self.appended = 0;
    }

    /// Somebody was told that it ends here.
    pub fn ends(&mut self, end: u64) {
        self.reaches(end);
        // Whether this is the end of the start shows only where nobody has put one.
        if self.exact.is_none() && self.appended == 0 && end > self.written && end < self.visible {
            self.exact = Some(end);
        }
    }

    /// Somebody was shown bytes up to here.
    pub fn reaches(&mut self, end: u64) {
        let from_start = end.min(self.visible).saturating_sub(self.appended);
        if end > self.written && self.exact.is_none() {
            self.at_least = self.at_least.max(from_start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a file's length at the start was, and whether that is certain.
    fn first(of: impl FnOnce(&mut Size)) -> (u64, bool) {
        let mut size = Size::THERE;
        of(&mut size);
        (size.first(), size.is_exact())
    }

    #[test]
    fn what_was_read_was_there() {
        assert_eq!(first(|it| it.read(100, Some(10), 10)), (110, false));
    }

    #[test]
    fn a_short_read_shows_the_end() {
        assert_eq!(first(|it| it.read(0, Some(4096), 13)), (13, true));
    }

    #[test]
    fn a_read_of_nothing_shows_nothing_that_was_there() {
        assert_eq!(first(|it| it.read(0, Some(4096), 0)), (0, false));
        assert_eq!(first(|it| it.read(8192, Some(4096), 0)), (0, false));
    }

    #[test]
    fn what_the_program_has_written_was_not_there() {
        let written = |it: &mut Size| {
            it.wrote(Some(0), 100);
            it.read(0, Some(4096), 100);
        };
        assert_eq!(first(written), (0, false));
        let partly = |it: &mut Size| {
            it.wrote(Some(0), 100);
            it.read(50, Some(4096), 100);
        };
        assert_eq!(first(partly), (150, true));
    }

    #[test]
    fn a_truncation_hides_the_start() {
        let truncated = |it: &mut Size| {
            it.truncated(0);
            it.wrote(Some(0), 10);
            it.read(0, Some(4096), 10);
        };
        assert_eq!(first(truncated), (0, false));
    }

    #[test]
    fn what_the_program_has_changed_says_nothing_of_the_start() {
        let mut size = Size::THERE;
        let left = |size: &Size| -> Vec<(u64, u64)> {
            size.of_start(10..1000).map(|it| (it.start, it.end)).collect()
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
    fn what_was_appended_is_behind_the_start() {
        let appended = |it: &mut Size| {
            it.wrote(None, 10);
            it.read(0, Some(4096), 110);
        };
        assert_eq!(first(appended), (100, false));
    }
}
