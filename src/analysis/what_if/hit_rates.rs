//! Hit rates of page caches of many sizes, in one pass over the accesses.
//!
//! ```text
//!   page access ─► sample by a hash of the page ─┬─► stack distance ─► LRU of every size
//!                                                └─► two lists, a cache for each size
//! ```
//!
//! Up to [`PAGES_MAX`] pages all accesses are followed: the result is exact. With more pages, those
//! with half of the hashes are left out, again and again: an access that is followed counts for
//! two, four, … of them, and caches get as much smaller (Waldspurger 2015, 2017). Accesses are
//! always counted exactly. The misses of sixteen parts of the sample tell how far the estimate may
//! be off.
//!
//! A cache that is larger than all pages so far has them all: such caches share one. The cache of a
//! size begins as a copy when the first page does not fit any more.

use rustc_hash::FxHashMap;

use super::stack_distance::StackDistances;
use super::two_lists::TwoLists;

/// Largest number of pages that are followed.
pub const PAGES_MAX: usize = 1 << 16;

/// Smallest cache of a sample, in pages: smaller ones tell nothing.
const SAMPLED_MIN: usize = 32;

/// Parts of the sample whose misses are counted apart.
const PARTS: usize = 16;

/// Misses by parts of the sample.
type PartMisses = [u64; PARTS];

/// A page that is followed.
#[derive(Clone, Copy, Debug)]
struct FollowedPage {
    file: u32,
    page: u64,
    hash: u64,
}

/// Prediction for a size of the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedHits {
    /// Size of the cache in bytes.
    pub memory_bytes: u64,
    /// Pages that reads do not find, with the two lists of the kernel; `None`: the sample is too
    /// small for this size.
    pub misses: Option<u64>,
    /// Twice the standard error of the misses; 0: they are exact.
    pub misses_error: u64,
    /// Pages that reads do not find in a cache that evicts what was not used for longest.
    pub lru_misses: Option<u64>,
}

/// Caches of several sizes.
#[derive(Clone, Debug)]
pub struct HitRates {
    page_bytes: u64,
    pages_max: usize,
    /// Sizes in bytes, the smallest first.
    sizes: Vec<u64>,
    /// Caches that are full, or were; `None`: too small for the sample.
    caches: Vec<Option<TwoLists>>,
    misses: Vec<PartMisses>,
    /// Cache that holds all pages.
    whole: TwoLists,
    first: PartMisses,
    distances: StackDistances,
    /// Misses of LRU that the cache of this number would have had, and those before it not.
    lru_misses: Vec<u64>,
    /// Numbers of pages by file and place.
    numbers: FxHashMap<u32, FxHashMap<u64, u32>>,
    followed: Vec<Option<FollowedPage>>,
    free: Vec<u32>,
    /// Times that the sample was halved.
    halvings: u32,
    /// Pages that reads have touched, each read by itself.
    pub reads: u64,
    /// Largest number of pages that were in memory at once.
    pub pages_at_once: u64,
}

impl HitRates {
    /// Creates caches of these sizes.
    pub fn new(page_bytes: u64, sizes: Vec<u64>) -> Self {
        Self::with_pages(page_bytes, sizes, PAGES_MAX)
    }

    /// Creates caches that follow at most this number of pages.
    pub(super) fn with_pages(page_bytes: u64, mut sizes: Vec<u64>, pages_max: usize) -> Self {
        sizes.sort_unstable();
        sizes.dedup();
        Self {
            page_bytes: page_bytes.max(1),
            pages_max,
            caches: Vec::new(),
            misses: Vec::new(),
            whole: TwoLists::new(usize::MAX),
            first: PartMisses::default(),
            distances: StackDistances::new(pages_max + 1),
            lru_misses: vec![0; sizes.len()],
            sizes,
            numbers: FxHashMap::default(),
            followed: Vec::new(),
            free: Vec::new(),
            halvings: 0,
            reads: 0,
            pages_at_once: 0,
        }
    }

    /// Takes the access of one page of a file. `marks`: see [`TwoLists::access`].
    pub(super) fn access(&mut self, file: u32, page: u64, is_read: bool, marks: bool) {
        self.reads += u64::from(is_read);
        let hash = hash_of(file, page);
        if !self.is_sampled(hash) {
            return;
        }
        let number = self.number(FollowedPage { file, page, hash });
        self.fill_caches(number);
        let weight = if is_read { 1 << self.halvings } else { 0 };
        let part = usize::try_from(hash % PARTS as u64).unwrap_or(0);
        if !self.whole.access(number, marks) {
            add(&mut self.first, part, weight);
        }
        for (cache, misses) in self.caches.iter_mut().zip(&mut self.misses) {
            if cache.as_mut().is_some_and(|cache| !cache.access(number, marks)) {
                add(misses, part, weight);
            }
        }
        if let Some(distance) = self.distances.access(number) {
            let smaller = self.sizes.partition_point(|bytes| self.sampled(*bytes) <= distance);
            if let Some(misses) = smaller.checked_sub(1).and_then(|at| self.lru_misses.get_mut(at))
            {
                *misses += weight;
            }
        }
        let pages = (self.whole.len() as u64) << self.halvings;
        self.pages_at_once = self.pages_at_once.max(pages);
        if self.whole.len() > self.pages_max {
            self.halve();
        }
    }

    /// Removes pages of a file from memory: those in a range.
    pub(super) fn remove(&mut self, file: u32, pages: std::ops::Range<u64>) {
        let Some(all) = self.numbers.get_mut(&file) else { return };
        let mut removed = Vec::new();
        all.retain(|page, number| {
            let is_kept = !pages.contains(page);
            if !is_kept {
                removed.push(*number);
            }
            is_kept
        });
        if all.is_empty() {
            self.numbers.remove(&file);
        }
        removed.into_iter().for_each(|number| self.forget(number));
    }

    /// Returns the predictions, the smallest size first.
    pub fn predictions(&self) -> Vec<PredictedHits> {
        let sum = |parts: &PartMisses| parts.iter().sum::<u64>();
        let first = sum(&self.first);
        let prediction = |(number, bytes): (usize, &u64)| {
            let parts = match self.caches.get(number) {
                Some(None) => None,
                Some(Some(_)) => self.misses.get(number),
                None => Some(&self.first),
            };
            let larger = self.lru_misses.iter().skip(number).sum::<u64>();
            PredictedHits {
                memory_bytes: *bytes,
                misses: parts.map(sum).map(|misses| misses.min(self.reads)),
                misses_error: parts.map_or(0, |parts| self.error(parts)),
                lru_misses: parts.map(|_| first.saturating_add(larger).min(self.reads)),
            }
        };
        self.sizes.iter().enumerate().map(prediction).collect()
    }

    /// Returns the pages that reads have touched first, and do not find in any cache.
    pub fn first_reads(&self) -> u64 {
        self.first.iter().sum::<u64>().min(self.reads)
    }

    /// Returns the number of pages that are followed now, and the number of pages for each of
    /// them.
    pub fn sample(&self) -> (u64, u64) {
        (self.whole.len() as u64, 1 << self.halvings)
    }

    /// Twice the standard error of a sum over the parts of a sample.
    fn error(&self, parts: &PartMisses) -> u64 {
        if self.halvings == 0 {
            return 0;
        }
        let mean = parts.iter().sum::<u64>() / PARTS as u64;
        let squares = parts.iter().map(|part| u128::from(part.abs_diff(mean)).pow(2));
        let variance = squares.sum::<u128>() * PARTS as u128 / (PARTS as u128 - 1);
        u64::try_from(variance.isqrt()).unwrap_or(u64::MAX).saturating_mul(2)
    }

    fn is_sampled(&self, hash: u64) -> bool {
        hash.leading_zeros() >= self.halvings
    }

    /// Returns the pages of the sample in a cache of a size.
    fn sampled(&self, bytes: u64) -> usize {
        let pages = (bytes / self.page_bytes) >> self.halvings;
        usize::try_from(pages).unwrap_or(usize::MAX).max(1)
    }

    /// Returns the number of a page, a new one if it has none.
    fn number(&mut self, page: FollowedPage) -> u32 {
        let numbers = self.numbers.entry(page.file).or_default();
        if let Some(number) = numbers.get(&page.page) {
            return *number;
        }
        let new = u32::try_from(self.followed.len()).unwrap_or(u32::MAX);
        let number = self.free.pop().unwrap_or(new);
        numbers.insert(page.page, number);
        match self.followed.get_mut(number as usize) {
            Some(place) => *place = Some(page),
            None => self.followed.push(Some(page)),
        }
        number
    }

    /// Begins the caches into which this page does not fit any more.
    fn fill_caches(&mut self, number: u32) {
        if self.whole.has(number) {
            return;
        }
        while let Some(bytes) = self.sizes.get(self.caches.len()) {
            let capacity = self.sampled(*bytes);
            if capacity > self.whole.len() {
                break;
            }
            let cache = self.is_large(capacity).then(|| self.whole.with_capacity(capacity, *bytes));
            self.caches.push(cache);
            self.misses.push(self.first);
        }
    }

    /// True if a cache of this number of pages tells something.
    fn is_large(&self, capacity: usize) -> bool {
        self.halvings == 0 || capacity >= SAMPLED_MIN
    }

    fn forget(&mut self, number: u32) {
        self.whole.forget(number);
        self.caches.iter_mut().flatten().for_each(|cache| cache.forget(number));
        self.distances.forget(number);
        if let Some(page) = self.followed.get_mut(number as usize) {
            *page = None;
            self.free.push(number);
        }
    }

    /// Leaves out the pages with half of the hashes.
    fn halve(&mut self) {
        self.halvings += 1;
        let numbered = (0..).zip(&self.followed);
        let left_out = numbered.filter_map(|(number, page)| {
            let page = (*page)?;
            (!self.is_sampled(page.hash)).then_some((number, page))
        });
        let left_out: Vec<(u32, FollowedPage)> = left_out.collect();
        for (number, page) in left_out {
            if let Some(pages) = self.numbers.get_mut(&page.file) {
                pages.remove(&page.page);
                if pages.is_empty() {
                    self.numbers.remove(&page.file);
                }
            }
            self.forget(number);
        }
        for place in 0..self.caches.len() {
            let capacity = self.sizes.get(place).map_or(1, |bytes| self.sampled(*bytes));
            let is_large = self.is_large(capacity);
            if let Some(cache) = self.caches.get_mut(place) {
                *cache = cache.take().filter(|_| is_large);
                cache.iter_mut().for_each(|cache| cache.set_capacity(capacity));
            }
        }
    }
}

fn add(misses: &mut PartMisses, part: usize, weight: u64) {
    if let Some(sum) = misses.get_mut(part) {
        *sum = sum.saturating_add(weight);
    }
}

/// Returns a hash of a page whose bits are all mixed (the finalizer of splitmix64).
fn hash_of(file: u32, page: u64) -> u64 {
    let mut hash = page ^ u64::from(file).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}
