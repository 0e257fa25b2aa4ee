//! Predictions beside simulations that are too slow for a log, and known results.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::two_lists::TwoLists;
use super::*;
use crate::event::FileStat;
use crate::operation::model::{
    FilePath, OpenFile, PathArgument, PathArguments, PathSource, SyscallOperation,
};
use crate::operation::test_fixtures::call;
use crate::units::DevId;

const PAGE: u64 = 4096;

/// Misses of a cache that evicts what was not used for longest: the pages in the order of their
/// use, and one after the other compared.
fn naive_lru(accesses: &[u64], capacity: usize) -> u64 {
    let mut stack: Vec<u64> = Vec::new();
    let mut misses = 0;
    for page in accesses {
        let place = stack.iter().position(|known| known == page);
        misses += u64::from(place.is_none_or(|place| place >= capacity));
        if let Some(place) = place {
            stack.remove(place);
        }
        stack.insert(0, *page);
    }
    misses
}

/// Misses of two lists, each a vector with its beginning first.
fn naive_two_lists(accesses: &[u64], capacity: usize) -> u64 {
    let mut inactive: Vec<(u64, bool)> = Vec::new();
    let mut active: Vec<(u64, bool)> = Vec::new();
    let mut evicted: HashMap<u64, u64> = HashMap::new();
    let (mut left, mut misses) = (0, 0);
    for page in accesses {
        if let Some(place) = active.iter().position(|known| known.0 == *page) {
            active[place].1 = true;
        } else if let Some(place) = inactive.iter().position(|known| known.0 == *page) {
            if inactive[place].1 {
                inactive.remove(place);
                active.insert(0, (*page, false));
                left += 1;
            } else {
                inactive[place].1 = true;
            }
        } else {
            misses += 1;
            while inactive.len() + active.len() >= capacity {
                while inactive.len() < active.len() {
                    inactive.insert(0, active.pop().expect("a page"));
                }
                let (page, _) = inactive.pop().expect("a page");
                evicted.insert(page, left);
                left += 1;
            }
            let is_back = evicted.remove(page).is_some_and(|at| left - at <= active.len() as u64);
            left += u64::from(is_back);
            if is_back { &mut active } else { &mut inactive }.insert(0, (*page, true));
        }
    }
    misses
}

fn rates(accesses: &[u64], sizes: &[u64], pages_max: usize) -> HitRates {
    let sizes = sizes.iter().map(|pages| pages * PAGE).collect();
    let mut rates = HitRates::with_pages(PAGE, sizes, pages_max);
    accesses.iter().for_each(|page| rates.access(0, *page, true, true));
    rates
}

/// Random numbers below a limit, always the same.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Accesses of which four fifths are to a fifth of the pages.
fn skewed(count: usize, pages: u64) -> Vec<u64> {
    let mut state = 1;
    let mut one = || {
        let is_hot = random(&mut state, 5) > 0;
        let page = random(&mut state, if is_hot { pages / 5 } else { pages });
        // The hot pages are spread over the file.
        page * 7919 % pages
    };
    (0..count).map(|_| one()).collect()
}

const SIZES: [u64; 6] = [1, 2, 5, 13, 64, 1000];

proptest! {
    #[test]
    fn predictions_are_those_of_simulations(accesses in proptest::collection::vec(0_u64..97, 0..700)) {
        let rates = rates(&accesses, &SIZES, 4096);
        let mut seen = accesses.clone();
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(rates.first_reads(), seen.len() as u64);
        prop_assert_eq!(rates.reads, accesses.len() as u64);
        for (row, pages) in rates.predictions().iter().zip(SIZES) {
            let pages = usize::try_from(pages).expect("small");
            prop_assert_eq!(row.lru_misses, Some(naive_lru(&accesses, pages)));
            prop_assert_eq!(row.misses, Some(naive_two_lists(&accesses, pages)));
            prop_assert_eq!(row.misses_error, 0);
        }
    }

    /// Fails if a page is in memory, or left out, that was removed.
    #[test]
    fn removed_pages_are_read_again(accesses in proptest::collection::vec((0_u64..53, 0_u64..9), 1..500)) {
        let mut rates = rates(&[], &SIZES, 4096);
        let mut present: Vec<u64> = Vec::new();
        let mut misses = 0;
        for (page, action) in &accesses {
            if *action == 0 {
                rates.remove(0, *page..*page + 11);
                present.retain(|known| !(*page..*page + 11).contains(known));
            } else {
                misses += u64::from(!present.contains(page));
                present.retain(|known| known != page);
                present.push(*page);
                rates.access(0, *page, true, true);
            }
        }
        prop_assert_eq!(rates.first_reads(), misses);
        prop_assert_eq!(rates.predictions().last().and_then(|row| row.misses), Some(misses));
    }
}

#[test]
fn times_are_numbered_anew_without_an_effect() {
    // 64 pages have times for 256 accesses.
    let accesses: Vec<u64> = skewed(5000, 61);
    let rates = rates(&accesses, &SIZES, 64);
    for (row, pages) in rates.predictions().iter().zip(SIZES) {
        let pages = usize::try_from(pages).expect("small");
        assert_eq!(row.lru_misses, Some(naive_lru(&accesses, pages)), "{pages}");
    }
}

#[test]
fn a_loop_over_more_than_fits_never_hits() {
    let accesses: Vec<u64> = (0..5).flat_map(|_| 0..101).collect();
    let rows = rates(&accesses, &[100, 101], 4096).predictions();
    let found: Vec<_> = rows.iter().map(|row| (row.misses, row.lru_misses)).collect();
    assert_eq!(found, [(Some(505), Some(505)), (Some(101), Some(101))]);
}

#[test]
fn pages_that_are_read_again_stay_beside_a_scan() {
    // Ten pages that are used twice, and then beside a scan that is never repeated.
    let mut accesses: Vec<u64> = (0..10).collect();
    for round in 0..1000_u64 {
        accesses.extend(0..10);
        accesses.extend((0..20).map(|page| 100 + round * 20 + page));
    }
    let row = rates(&accesses, &[25], 1 << 16).predictions()[0];
    // LRU has evicted each of them before it comes back.
    assert_eq!((row.misses, row.lru_misses), (Some(20_010), Some(30_000)));
}

/// Fails if a sample of a thirtieth of the pages is wrong by more than it says, or says too much.
#[test]
fn sample_is_near_the_whole() {
    let accesses = skewed(400_000, 60_000);
    let sizes = [4_000, 8_000, 16_000, 32_000, 60_000];
    let whole = rates(&accesses, &sizes, 1 << 16);
    let sampled = rates(&accesses, &sizes, 2048);
    let (followed, one_of) = sampled.sample();
    assert!(one_of >= 16 && followed <= 2048, "{followed} {one_of}");
    assert_eq!(sampled.reads, 400_000);
    for (exact, row) in whole.predictions().iter().zip(sampled.predictions()) {
        let near = |one: Option<u64>, other: Option<u64>| {
            one.expect("a number").abs_diff(other.expect("a number"))
        };
        let apart = near(exact.misses, row.misses);
        // Twice the standard error is exceeded in one of twenty cases.
        assert!(apart <= row.misses_error * 3 / 2, "{apart} {row:?} {exact:?}");
        assert!(row.misses_error < 400_000 / 10, "{row:?}");
        assert!(near(exact.lru_misses, row.lru_misses) < 400_000 / 20, "{row:?} {exact:?}");
        assert_eq!(exact.misses_error, 0);
    }
    let apart = sampled.pages_at_once.abs_diff(whole.pages_at_once);
    assert!(apart < 6_000, "{} {}", sampled.pages_at_once, whole.pages_at_once);
}

#[test]
fn sizes_below_the_sample_have_no_prediction() {
    let rows = rates(&skewed(100_000, 50_000), &[64, 50_000], 1024).predictions();
    assert_eq!((rows[0].misses, rows[0].lru_misses), (None, None));
    assert!(rows[1].misses.is_some());
}

#[test]
fn parts_of_a_page_are_one_access() {
    let mut lists = TwoLists::new(2);
    lists.access(0, true);
    lists.access(0, false);
    lists.access(1, true);
    // Page 0 was not used again: it is the first to go.
    lists.access(2, true);
    assert!(!lists.has(0) && lists.has(1));
}

fn file(path: &str, ino: u64, flags: i32) -> Arc<OpenFile> {
    let stat = FileStat { mode: libc::S_IFREG, dev: DevId::new(8, 1), ino, size: 0 };
    Arc::new(OpenFile {
        id: ino,
        path: Some(FilePath::new(path, PathSource::Link)),
        first_path: None,
        given: None,
        stat: Some(stat),
        flags: Some(flags.cast_unsigned()),
        pre_created: false,
    })
}

fn what_if() -> WhatIf {
    WhatIf::new(&Header::default(), libc::O_DIRECT.cast_unsigned(), &[1 << 20], &[])
}

fn push(fold: &mut WhatIf, operation: &SyscallOperation) {
    let Ok(()) = fold.step(KernelTime(0), &Step::SyscallEnded(operation, &[]));
}

fn read(fold: &mut WhatIf, file: &Arc<OpenFile>, offset: Option<u64>, bytes: i64) {
    push(fold, &call("pread64", Arc::clone(file), [1, 2], offset, bytes));
}

#[track_caller]
fn expect_reads(fold: &WhatIf, reads: u64, first: u64) {
    assert_eq!((fold.rates.reads, fold.rates.first_reads()), (reads, first));
}

#[test]
fn pages_of_calls_are_counted() {
    let mut fold = what_if();
    let one = file("/a", 1, libc::O_RDWR);
    // From the middle of page 0 to the first byte of page 2.
    read(&mut fold, &one, Some(2048), 6145);
    expect_reads(&fold, 3, 3);
    push(&mut fold, &call("pwrite64", Arc::clone(&one), [1, 2], Some(12_288), 100));
    expect_reads(&fold, 3, 3);
    // Page 3 was written, page 4 was not.
    read(&mut fold, &one, Some(12_288), 8192);
    expect_reads(&fold, 5, 4);
    read(&mut fold, &file("/b", 2, 0), Some(12_288), 4096);
    expect_reads(&fold, 6, 5);
    assert_eq!(fold.uncached(), UncachedBytes::default());
}

#[test]
fn accesses_past_the_cache_or_of_unknown_place_are_counted_apart() {
    let mut fold = what_if();
    read(&mut fold, &file("/a", 1, libc::O_DIRECT), Some(0), 4096);
    read(&mut fold, &file("/a", 1, 0), None, 13);
    let mut unknown = file("relative", 0, 0);
    Arc::get_mut(&mut unknown).expect("one").stat = None;
    read(&mut fold, &unknown, Some(0), 7);
    let table = "21 1 8:1 / /tmp rw - tmpfs tmpfs rw\n";
    let table = crate::operation::mount_table::MountTable::parse(table.as_bytes());
    let Ok(()) = fold.step(KernelTime(0), &Step::MountsSeen(&table));
    read(&mut fold, &file("/a", 1, 0), Some(0), 11);
    assert_eq!(fold.uncached(), UncachedBytes { direct: 4096, elsewhere: 11, unknown: 20 });
    expect_reads(&fold, 0, 0);
}

fn named(name: &str, paths: [Option<&str>; 2]) -> SyscallOperation {
    let argument = |path: &str| PathArgument {
        path: FilePath::new(path, PathSource::Kernel),
        absolute: Some(path.as_bytes().to_vec()),
    };
    let [first, second] = paths.map(|path| path.map(argument));
    let mut operation = call(name, file("/none", 99, 0), [1, 2], None, 0);
    operation.file = None;
    operation.named = Some(Box::new(PathArguments { first, second }));
    operation
}

/// Fails if pages of a file outlive it, or leave with another one.
#[test]
fn pages_leave_with_truncation_removal_and_advice() {
    let mut fold = what_if();
    let (one, other) = (file("/a", 1, libc::O_RDWR), file("/b", 2, libc::O_RDWR));
    for file in [&one, &other] {
        push(&mut fold, &call("openat", Arc::clone(file), [1, 2], None, 3));
        read(&mut fold, file, Some(0), 4 * 4096);
    }
    expect_reads(&fold, 8, 8);
    let mut cut = call("ftruncate", Arc::clone(&one), [1, 2], None, 0);
    cut.args[1] = 4097;
    push(&mut fold, &cut);
    read(&mut fold, &one, Some(0), 4 * 4096);
    expect_reads(&fold, 12, 10);
    let mut advice = call("fadvise64", Arc::clone(&one), [1, 2], None, 0);
    advice.args = [3, 0, 0, 4, 0, 0];
    push(&mut fold, &advice);
    read(&mut fold, &one, Some(0), 4 * 4096);
    expect_reads(&fold, 16, 14);
    // The file of /b is replaced by that of /a, whose pages stay.
    push(&mut fold, &named("rename", [Some("/a"), Some("/b")]));
    read(&mut fold, &one, Some(0), 4096);
    read(&mut fold, &other, Some(0), 4096);
    expect_reads(&fold, 18, 15);
    push(&mut fold, &named("unlink", [Some("/b"), None]));
    read(&mut fold, &one, Some(0), 4096);
    expect_reads(&fold, 19, 16);
    let emptied = file("/b", 2, libc::O_RDWR | libc::O_TRUNC);
    push(&mut fold, &call("openat", Arc::clone(&emptied), [1, 2], None, 3));
    read(&mut fold, &emptied, Some(0), 4096);
    expect_reads(&fold, 20, 17);
}
