//! Each rule of `advise` has a test whose input it must find, and one whose input it must not.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::driver::recording::BINARY;

/// Tests of the folds of durability.
const DURABILITY: &str = "src/analysis/advice/durability/tests.rs";

/// Tests of the other rules, with operations made by hand.
const JUDGE: &str = "src/analysis/advice/judge/tests.rs";

/// Tests with programs.
const PROGRAMS: &str = "tests/recording/advise.rs";

/// Test: file and function.
type RuleTest = (&'static str, &'static str);

const FLAWS: RuleTest = (PROGRAMS, "each_flaw_of_durability_is_found_with_its_order");
const HABITS: RuleTest = (PROGRAMS, "each_habit_is_found_with_its_numbers");

/// Rules, each with a test that it must be found in, and a test with an input just below it.
const TESTS: [(&str, RuleTest, RuleTest); 25] = [
    ("write-after-sync", FLAWS, FLAWS),
    ("rename-unsynced", FLAWS, FLAWS),
    ("directory-unsynced", FLAWS, FLAWS),
    (
        "sync-failed",
        (PROGRAMS, "failed_sync_that_is_ignored_is_found"),
        (DURABILITY, "failed_sync_needs_a_consequence"),
    ),
    (
        "mmap-unsynced",
        (PROGRAMS, "store_through_a_mapping_needs_a_sync"),
        (PROGRAMS, "store_through_a_mapping_needs_a_sync"),
    ),
    ("small-reads", HABITS, HABITS),
    ("small-writes", HABITS, HABITS),
    ("reread", HABITS, HABITS),
    ("missing-lookups", HABITS, HABITS),
    ("stat-storm", HABITS, HABITS),
    ("opened-unused", HABITS, HABITS),
    ("written-removed", HABITS, HABITS),
    ("overwritten", HABITS, HABITS),
    ("fsync-storm", HABITS, HABITS),
    ("sync-all", HABITS, HABITS),
    ("sync-twice", HABITS, HABITS),
    ("journal-commits", COMMITS, COMMITS),
    ("useless-readahead", READAHEAD, READAHEAD),
    (
        "direct-unaligned",
        (PROGRAMS, "direct_reads_of_parts_of_blocks_are_found"),
        (JUDGE, "unaligned_direct_reads_are_found"),
    ),
    (
        "one-at-a-time",
        (PROGRAMS, "device_that_gets_one_request_at_a_time_is_found"),
        (JUDGE, "one_request_at_a_time_is_found"),
    ),
    ("shared-file", SHARED, SHARED),
    (
        "misaligned-partition",
        (PROGRAMS, "partition_beside_a_physical_block_is_found"),
        (JUDGE, "misaligned_partitions_are_found"),
    ),
    (
        "metadata-heavy",
        (PROGRAMS, "opens_that_outweigh_data_are_counted"),
        (JUDGE, "names_that_take_more_time_than_data_are_found"),
    ),
    (
        "cache-thrash",
        (PROGRAMS, "file_that_a_disk_reads_again_is_found"),
        (JUDGE, "thrashing_of_the_page_cache_is_found"),
    ),
    ("throttled-writers", THROTTLED, THROTTLED),
];

/// Tests with programs for which the kernel works.
const KERNEL_WORK: &str = "tests/recording/advise/kernel_work.rs";

const COMMITS: RuleTest = (KERNEL_WORK, "syncs_that_wait_for_the_journal_are_counted");
const READAHEAD: RuleTest = (KERNEL_WORK, "bytes_that_are_read_ahead_in_vain_are_counted");
const SHARED: RuleTest = (KERNEL_WORK, "threads_that_write_one_file_are_counted");
const THROTTLED: RuleTest = (KERNEL_WORK, "writers_that_the_kernel_slows_down_are_found");

/// True if the file has a test of this name.
fn has_test((file, name): RuleTest) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{file}: {cause}"));
    text.contains(&format!("#[test]\nfn {name}()"))
}

/// Fails if a rule has no tests here, or if a test is renamed or removed.
#[test]
fn each_rule_has_a_test_that_finds_it_and_one_that_does_not() {
    let output = Command::new(BINARY).args(["advise", "--rules", "--json"]).output();
    let report: Value = serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON");
    let rules = report["rules"].as_array().expect("a table").iter();
    let rules: BTreeSet<&str> = rules.filter_map(|rule| rule["rule"].as_str()).collect();
    let tested: BTreeSet<&str> = TESTS.iter().map(|row| row.0).collect();
    assert_eq!(tested, rules);
    for (rule, found, quiet) in TESTS {
        assert!(has_test(found), "{rule}: no test {found:?}");
        assert!(has_test(quiet), "{rule}: no test {quiet:?}");
    }
}
