//! The page cache as the kernel manages it: pages that were read once, and pages that were read
//! again.
//!
//! A page begins on the inactive list, and its second access takes it to the active list
//! (`folio_mark_accessed()` in `mm/swap.c`). Room is made at the end of the inactive list.
//! While the active list is too long beside it, its end goes to the inactive list first
//! (`inactive_is_low()` in `mm/vmscan.c`). A page that comes back before as many pages have left as
//! the active list has begins on the active list (`workingset_refault()` in `mm/workingset.c`).
//!
//! Pages are numbers from 0 on, which are used again for other pages.

use std::collections::BTreeMap;

/// List of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Residence {
    #[default]
    Absent,
    Inactive,
    Active,
}

#[derive(Clone, Copy, Debug, Default)]
struct PageState {
    residence: Residence,
    is_referenced: bool,
    /// Place in its list.
    place: u64,
    /// Number of pages that had left when this one was evicted.
    evicted_at: Option<u64>,
}

/// Cache of two lists.
#[derive(Clone, Debug)]
pub(super) struct TwoLists {
    capacity: usize,
    /// Times that the active list may be as long as the inactive one.
    active_ratio: usize,
    pages: Vec<PageState>,
    /// Pages by their places, the end of the list first.
    inactive: BTreeMap<u64, u32>,
    active: BTreeMap<u64, u32>,
    next: u64,
    /// Pages that were evicted or activated.
    left: u64,
}

impl TwoLists {
    /// Creates an empty cache for this number of pages.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            active_ratio: 1,
            pages: Vec::new(),
            inactive: BTreeMap::new(),
            active: BTreeMap::new(),
            next: 0,
            left: 0,
        }
    }

    /// Returns a copy with another capacity, of a memory of this size.
    pub(super) fn with_capacity(&self, capacity: usize, memory_bytes: u64) -> Self {
        let mut copy = self.clone();
        copy.active_ratio = active_ratio(memory_bytes);
        copy.set_capacity(capacity);
        copy
    }

    /// Changes the capacity; pages leave if it shrinks.
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.make_room(0);
    }

    /// Returns the number of pages in the cache.
    pub(super) fn len(&self) -> usize {
        self.inactive.len() + self.active.len()
    }

    /// Returns true if a page is in the cache.
    pub(super) fn has(&self, page: u32) -> bool {
        self.state(page).residence != Residence::Absent
    }

    /// Takes an access. Returns true if the page was in the cache. `marks`: the access is one of
    /// its own, and not the rest of the access before.
    pub(super) fn access(&mut self, page: u32, marks: bool) -> bool {
        let state = self.state(page);
        match state.residence {
            Residence::Absent => self.enter(page, state),
            Residence::Inactive if marks && state.is_referenced => {
                self.inactive.remove(&state.place);
                self.put(page, Residence::Active, false);
                self.left += 1;
            }
            Residence::Inactive | Residence::Active => {
                let is_referenced = state.is_referenced || marks;
                self.set(page, PageState { is_referenced, ..state });
            }
        }
        state.residence != Residence::Absent
    }

    /// Removes a page, and all that is known of it.
    pub(super) fn forget(&mut self, page: u32) {
        let state = self.state(page);
        match state.residence {
            Residence::Absent => {}
            Residence::Inactive => {
                self.inactive.remove(&state.place);
            }
            Residence::Active => {
                self.active.remove(&state.place);
            }
        }
        self.set(page, PageState::default());
    }

    fn enter(&mut self, page: u32, state: PageState) {
        self.make_room(1);
        let active = self.active.len() as u64;
        let is_back = state.evicted_at.is_some_and(|at| self.left.saturating_sub(at) <= active);
        let list = if is_back { Residence::Active } else { Residence::Inactive };
        self.left += u64::from(is_back);
        self.put(page, list, true);
    }

    /// Evicts pages until there is room for more.
    fn make_room(&mut self, more: usize) {
        while self.len() + more > self.capacity.max(more) {
            while self.inactive.len() * self.active_ratio < self.active.len() {
                let Some((_, page)) = self.active.pop_first() else { break };
                let is_referenced = self.state(page).is_referenced;
                self.put(page, Residence::Inactive, is_referenced);
            }
            let Some((_, page)) = self.inactive.pop_first() else { break };
            self.set(page, PageState { evicted_at: Some(self.left), ..PageState::default() });
            self.left += 1;
        }
    }

    /// Puts a page that is on no list at the beginning of one.
    fn put(&mut self, page: u32, residence: Residence, is_referenced: bool) {
        let place = self.next;
        self.next += 1;
        let list =
            if residence == Residence::Active { &mut self.active } else { &mut self.inactive };
        list.insert(place, page);
        self.set(page, PageState { residence, is_referenced, place, evicted_at: None });
    }

    fn state(&self, page: u32) -> PageState {
        self.pages.get(page as usize).copied().unwrap_or_default()
    }

    fn set(&mut self, page: u32, state: PageState) {
        let place = page as usize;
        if self.pages.len() <= place {
            self.pages.resize(place + 1, PageState::default());
        }
        if let Some(old) = self.pages.get_mut(place) {
            *old = state;
        }
    }
}

/// Returns how many times the active list may be as long as the inactive one (`inactive_is_low()`).
fn active_ratio(memory_bytes: u64) -> usize {
    let gigabytes = memory_bytes >> 30;
    if gigabytes == 0 {
        return 1;
    }
    usize::try_from((gigabytes * 10).isqrt()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memories_have_short_inactive_lists() {
        let sizes = [1 << 20, (1 << 30) - 1, 1 << 30, 10 << 30, 100 << 30];
        assert_eq!(sizes.map(active_ratio), [1, 1, 3, 10, 31]);
    }
}
