//! Recorded event sequences, each of a whole run on an idle device, compared with the kernel's
//! counters of that run.

use super::language::{parse, run};
use crate::block::{BlockOptions, DiskstatsClass, RequestEnd};

/// Parses the line `# diskstats READS MERGED SECTORS WRITES MERGED SECTORS DISCARDS MERGED SECTORS
/// FLUSHES`.
fn diskstats(input: &str) -> Vec<u64> {
    let line =
        input.lines().find_map(|it| it.strip_prefix("# diskstats ")).expect("the kernel's books");
    line.split_whitespace().map(|it| it.parse().expect("a number")).collect()
}

#[track_caller]
fn check(input: &str, options: BlockOptions, is_merges_exact: bool) {
    let mut wanted = diskstats(input);
    let books = run(options, input.lines().filter_map(parse), |_, _| ());
    let classes = [DiskstatsClass::Read, DiskstatsClass::Write, DiskstatsClass::Discard];
    let mut counted = Vec::new();
    for class in classes {
        let (requests, sectors, merges) = books.diskstats(class);
        counted.extend([requests, merges, sectors]);
    }
    counted.push(books.diskstats(DiskstatsClass::Flush).0);
    if !is_merges_exact {
        for place in [1, 4, 7] {
            (wanted[place], counted[place]) = (0, 0);
        }
    }
    assert_eq!(counted, wanted);
    assert_eq!(books.anomalies, Vec::<String>::new());
    assert!(!books.ended.iter().any(|it| matches!(it.ending, Some(RequestEnd::Unfinished(_)))));
}

/// Runs the same events as recorded, and without those that a kernel or a tracer may lack.
#[track_caller]
fn check_all(input: &str) {
    check(input, BlockOptions::default(), true);
    let bare: String =
        input.lines().filter(|it| !it.contains("merge ")).map(|it| format!("{it}\n")).collect();
    check(
        &bare,
        BlockOptions {
            merges_recorded: false,
            requeues_recorded: false,
            ..BlockOptions::default()
        },
        false,
    );
}

#[test]
fn overlapping_direct_io() {
    check_all(include_str!("../testdata/overlap.txt"));
}

#[test]
fn backward_writes_merge_in_front() {
    check_all(include_str!("../testdata/frontmerge.txt"));
}

#[test]
fn journal_commits_are_flush_sequences() {
    check_all(include_str!("../testdata/journal.txt"));
}

#[test]
fn discards_and_a_refused_write_zeroes() {
    check_all(include_str!("../testdata/discard.txt"));
}
