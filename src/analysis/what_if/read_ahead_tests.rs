//! Windows of read-ahead, in pages of 4 KiB, as the kernel's rules give them.

use super::read_ahead::{FileAdvice, ReadAheadCache, ReadAheadFile, ReadAheadTotals, ReadSpan};

const PAGE: u64 = 4096;

/// Requests of the disk: 1,280 KiB.
const REQUEST: u64 = 320;

fn file(pages: u64) -> ReadAheadFile {
    ReadAheadFile {
        number: 1,
        pages: Some(pages),
        request_pages: REQUEST,
        recorded_pages: 8,
        has_large_folios: false,
    }
}

fn cache(kilobytes: u64) -> ReadAheadCache {
    ReadAheadCache::new(PAGE, Some(kilobytes << 10))
}

/// Reads pages through an open file. Returns the number of pages that came from the disk.
fn read(cache: &mut ReadAheadCache, file: &ReadAheadFile, open: u64, at: u64, pages: u64) -> u64 {
    let before = cache.totals.read_pages;
    let (offset, bytes) = (at * PAGE, pages * PAGE);
    let span = ReadSpan { description: open, offset, bytes, wanted: bytes, is_transfer: false };
    cache.read(file, span);
    cache.totals.read_pages - before
}

/// Reads a file in steps. Returns the parts that came from the disk: the first page of the step,
/// and the number of pages.
fn windows(cache: &mut ReadAheadCache, file: &ReadAheadFile, step: u64) -> Vec<[u64; 2]> {
    let pages = file.pages.expect("a length");
    let steps = (0..pages).step_by(usize::try_from(step).expect("small"));
    let parts = steps.map(|at| [at, read(cache, file, 1, at, step.min(pages - at))]);
    parts.filter(|part| part[1] > 0).collect()
}

#[test]
fn windows_of_a_sequential_read_grow() {
    let file = file(100);
    // Windows 0–3, 4–11, 12–27, 28–59, 60–91 and 92–99, each when the one before it is entered.
    let parts = windows(&mut cache(128), &file, 1);
    assert_eq!(parts, [[0, 4], [1, 8], [4, 16], [12, 32], [28, 32], [60, 8]]);
    // Twice the setting: the last window would be 28–91.
    let mut doubled = cache(128);
    doubled.advised(1, FileAdvice::Sequential);
    let parts = windows(&mut doubled, &file, 1);
    assert_eq!(parts, [[0, 4], [1, 8], [4, 16], [12, 32], [28, 40]]);
    // A smaller setting, 16 KiB: windows 0–1, 2–3, 4–7, 8–11, …
    let parts = windows(&mut cache(16), &file, 1);
    assert_eq!((&parts[..4], parts.len()), (&[[0, 2], [1, 2], [2, 4], [4, 4]][..], 26));
}

#[test]
fn windows_of_large_reads_are_as_large_as_the_setting() {
    // The first window is half for the read itself, and both are asked for by the first read.
    let parts = windows(&mut cache(128), &file(256), 16);
    assert_eq!(
        parts,
        [[0, 32], [16, 32], [32, 32], [64, 32], [96, 32], [128, 32], [160, 32], [192, 32]]
    );
    // More than the setting: as much as the read wants.
    let mut cache = cache(16);
    let parts = windows(&mut cache, &file(256), 64);
    assert_eq!(parts, [[0, 128], [64, 64], [128, 64]]);
    assert_eq!((cache.totals.requests, cache.totals.waiting_reads), (4, 1));
}

#[test]
fn windows_of_large_folios_end_at_their_multiples() {
    let large = ReadAheadFile { has_large_folios: true, ..file(200) };
    let parts = windows(&mut cache(128), &large, 1);
    // Windows 0–3, 4–11, 12–15, 16–23, 24–31, 32–47, 48–63, 64–95, …
    let begin = [[0, 4], [1, 8], [4, 4], [12, 8], [16, 8], [24, 16], [32, 16], [48, 32]];
    assert_eq!(parts[..8], begin);
}

#[test]
fn random_reads_take_what_they_want() {
    let mut cache = cache(128);
    let file = file(100_000);
    for at in [77_000, 12, 50_000, 99_999, 60_000] {
        assert_eq!(read(&mut cache, &file, 1, at, 1), 1, "{at}");
    }
    let totals = ReadAheadTotals { read_pages: 5, used_pages: 5, requests: 5, waiting_reads: 5 };
    assert_eq!(cache.totals, totals);
    // The second read goes on from the first: now there is a window.
    assert_eq!(read(&mut cache, &file, 1, 60_001, 1), 4);
    assert_eq!(cache.totals.used_pages, 6);
}

#[test]
fn strides_are_random_until_the_pages_behind_are_there() {
    let file = file(100_000);
    // Every other part of 16 pages.
    let mut small = cache(128);
    // The beginning of the file has a window, which the next part comes right behind.
    let parts = [0, 32, 64, 96].map(|at| read(&mut small, &file, 1, at, 16));
    assert_eq!(parts, [32, 32, 32, 32]);
    // Away from the beginning each part is read by itself.
    let mut small = cache(128);
    let parts = [1000, 1032, 1064].map(|at| read(&mut small, &file, 1, at, 16));
    assert_eq!(parts, [16, 16, 16]);
}

#[test]
fn transfer_goes_on_from_the_page_before() {
    let file = file(100_000);
    let second_part = |is_transfer: bool| {
        let mut cache = cache(128);
        read(&mut cache, &file, 1, 1000, 8);
        // Pages 1004 to 1007 are there.
        let (offset, bytes) = (1004 * PAGE, 16 * PAGE);
        cache.read(&file, ReadSpan { description: 2, offset, bytes, wanted: bytes, is_transfer });
        cache.totals.read_pages - 8
    };
    // A read of 12 more pages; a window.
    assert_eq!([false, true].map(second_part), [12, 32]);
}

#[test]
fn two_open_files_have_windows_of_their_own() {
    let file = file(100_000);
    let mut cache = cache(128);
    let mut parts = Vec::new();
    for step in 0..60 {
        for (open, base) in [(1, 1000), (2, 5000)] {
            parts.push(read(&mut cache, &file, open, base + step, 1));
        }
    }
    let of = |open: usize| -> Vec<[u64; 2]> {
        let own = parts.iter().skip(open).step_by(2).zip(0..);
        own.filter(|(pages, _)| **pages > 0).map(|(pages, step)| [step, *pages]).collect()
    };
    // Windows 1001–1004, 1005–1011, 1012–1023, … end at multiples of four.
    assert_eq!(of(0), [[0, 1], [1, 4], [2, 7], [5, 12], [12, 24], [24, 32], [48, 32]]);
    assert_eq!(of(0), of(1));
    // The markers of one reader serve the other, whose window is elsewhere.
    let before = cache.totals.read_pages;
    let found: u64 = (0..29).map(|step| read(&mut cache, &file, 2, 1000 + step, 1)).sum();
    assert_eq!((found, cache.totals.read_pages), (0, before));
    // That of the last window is not taken yet: the next one begins behind it.
    assert_eq!(read(&mut cache, &file, 2, 1080, 1), 32);
}

#[test]
fn without_read_ahead_each_page_is_a_request() {
    let mut cache = cache(0);
    let file = file(100);
    assert_eq!(windows(&mut cache, &file, 20), [[0, 20], [20, 20], [40, 20], [60, 20], [80, 20]]);
    let totals =
        ReadAheadTotals { read_pages: 100, used_pages: 100, requests: 100, waiting_reads: 5 };
    assert_eq!(cache.totals, totals);
}

#[test]
fn advice_of_random_reads_stops_the_windows() {
    let mut cache = cache(128);
    let file = file(1000);
    cache.advised(1, FileAdvice::Random);
    assert_eq!([0, 1, 2].map(|at| read(&mut cache, &file, 1, at, 1)), [1, 1, 1]);
    // At most one request at once, again and again.
    assert_eq!(read(&mut cache, &file, 1, 3, 400), 400);
    assert_eq!(cache.totals.requests, 5);
    cache.advised(1, FileAdvice::Normal);
    assert_eq!(read(&mut cache, &file, 1, 403, 1), 4);
}

#[test]
fn wished_pages_are_no_more_than_a_request_or_a_window() {
    let file = file(100_000);
    let mut small = cache(128);
    small.wished(&file, 1, 10..5000);
    assert_eq!(small.totals.read_pages, REQUEST);
    assert_eq!(read(&mut small, &file, 1, 10, 8), 0);
    let mut large = cache(4096);
    large.wished(&file, 1, 10..5000);
    assert_eq!((large.totals.read_pages, large.totals.used_pages), (1024, 0));
    assert_eq!(large.totals.waiting_reads, 0);
}

#[test]
fn pages_that_leave_or_are_written_are_no_pages_in_use() {
    let file = file(100);
    let mut cache = cache(128);
    cache.written(1, 0..2);
    assert_eq!(read(&mut cache, &file, 1, 0, 1), 0);
    assert_eq!(read(&mut cache, &file, 1, 2, 1), 4);
    cache.remove(1, &(0..u64::MAX));
    assert_eq!(read(&mut cache, &file, 1, 3, 1), 4);
    // Pages 3 to 5 and 6 of the first and the second time.
    let ReadAheadTotals { read_pages, used_pages, waiting_reads, .. } = cache.totals;
    assert_eq!((read_pages, used_pages, waiting_reads), (8, 2, 2));
}

#[test]
fn setting_of_the_recording_is_that_of_the_disk() {
    let mut cache = ReadAheadCache::new(PAGE, None);
    assert_eq!(windows(&mut cache, &file(24), 8), [[0, 16], [8, 8]]);
}
