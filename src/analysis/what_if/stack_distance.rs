//! Stack distances: the number of different pages between two accesses of a page.
//!
//! A cache of C pages that evicts the page that was not used for the longest time (LRU) has a page
//! if its distance is less than C, for any C (Mattson 1970). Each page has a mark at the time of
//! its last access; the distance is the number of marks after that. A tree of sums counts them
//! (Fenwick 1994). Times are numbered anew when they run out.

/// Distances of accesses to a limited number of pages.
#[derive(Clone, Debug)]
pub(super) struct StackDistances {
    /// Sums of marks; the place of a time is one more.
    sums: Vec<u32>,
    /// Time of the last access of each page.
    last: Vec<Option<usize>>,
    now: usize,
    marks: usize,
}

impl StackDistances {
    /// Creates it for at most this number of pages.
    pub(super) fn new(pages_max: usize) -> Self {
        Self { sums: vec![0; pages_max * 4 + 1], last: Vec::new(), now: 0, marks: 0 }
    }

    /// Takes an access. Returns its distance; `None`: the page was not accessed before.
    pub(super) fn access(&mut self, page: u32) -> Option<usize> {
        let distance = self.take(page).map(|time| self.marks - self.marks_before(time));
        if self.now + 1 >= self.sums.len() {
            self.renumber();
        }
        self.mark(self.now, true);
        let place = page as usize;
        if self.last.len() <= place {
            self.last.resize(place + 1, None);
        }
        if let Some(last) = self.last.get_mut(place) {
            *last = Some(self.now);
        }
        self.now += 1;
        distance
    }

    /// Removes a page.
    pub(super) fn forget(&mut self, page: u32) {
        self.take(page);
    }

    /// Removes the mark of a page, and returns its time.
    fn take(&mut self, page: u32) -> Option<usize> {
        let time = self.last.get_mut(page as usize)?.take()?;
        self.mark(time, false);
        Some(time)
    }

    fn mark(&mut self, time: usize, is_set: bool) {
        let mut place = time + 1;
        while let Some(sum) = self.sums.get_mut(place) {
            *sum = if is_set { *sum + 1 } else { sum.saturating_sub(1) };
            place += place & place.wrapping_neg();
        }
        self.marks = if is_set { self.marks + 1 } else { self.marks.saturating_sub(1) };
    }

    /// Returns the number of marks up to a time.
    fn marks_before(&self, time: usize) -> usize {
        let mut place = time + 1;
        let mut sum = 0;
        while place > 0 {
            sum += self.sums.get(place).copied().unwrap_or(0) as usize;
            place &= place - 1;
        }
        sum
    }

    fn renumber(&mut self) {
        let pages = self.last.iter().enumerate();
        let mut marked: Vec<(usize, usize)> =
            pages.filter_map(|(page, time)| Some(((*time)?, page))).collect();
        marked.sort_unstable();
        self.sums.fill(0);
        self.marks = 0;
        for (time, (_, page)) in marked.iter().enumerate() {
            self.mark(time, true);
            if let Some(last) = self.last.get_mut(*page) {
                *last = Some(time);
            }
        }
        self.now = marked.len();
    }
}
