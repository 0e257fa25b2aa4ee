//! Tests of merges, with and without their events.

use expect_test::expect;

use super::language::{check, check_bare};

#[test]
fn back_and_front_merges() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 W 64 +8
            #0 begins: write @64 +8 by tid 7
        0.000_101 tid 7 backmerge 7:0 W 72 +8
            #0 grew: write @64 +16
        0.000_102 tid 7 frontmerge 7:0 W 56 +8
            #0 grew: write @56 +24
        0.000_110 tid 7 issue 7:0 W 56 +24
            #0 issued: write @56 +24
        0.000_120 tid 0 complete 7:0 W 56 +24
            #0 done: write @56 +24, 12288 B, 10 us queued, 10 us at the device, 2 merges [Write 24]
        -- the end --
    "#]]);
}

#[test]
fn a_merge_prefers_the_requests_of_its_own_task() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 W 64 +8
            #0 begins: write @64 +8 by tid 7
        0.000_101 tid 8 getrq 7:0 W 56 +16
            #1 begins: write @56 +16 by tid 8
        0.000_102 tid 7 backmerge 7:0 W 72 +8
            #0 grew: write @64 +16
        0.000_110 tid 7 issue 7:0 W 64 +16
            #0 issued: write @64 +16
        0.000_111 tid 8 issue 7:0 W 56 +16
            #1 issued: write @56 +16
        0.000_120 tid 0 complete 7:0 W 64 +16
            #0 done: write @64 +16, 8192 B, 10 us queued, 10 us at the device, 1 merges [Write 16]
        0.000_121 tid 0 complete 7:0 W 56 +16
            #1 done: write @56 +16, 8192 B, 10 us queued, 10 us at the device [Write 16]
        -- the end --
    "#]]);
}

#[test]
fn a_request_absorbs_another_with_all_its_merges() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 W 64 +8
            #0 begins: write @64 +8 by tid 7
        0.000_101 tid 8 getrq 7:0 W 80 +8
            #1 begins: write @80 +8 by tid 8
        0.000_102 tid 8 backmerge 7:0 W 88 +8
            #1 grew: write @80 +16
        0.000_103 tid 7 backmerge 7:0 W 72 +8
            #0 grew: write @64 +16
        0.000_104 tid 7 rq_merge 7:0 W 80 +16
            #0 grew: write @64 +32
            #1 absorbed by #0, 1 merges [not counted]
        0.000_110 tid 7 issue 7:0 W 64 +32
            #0 issued: write @64 +32
        0.000_120 tid 0 complete 7:0 W 64 +32
            #0 done: write @64 +32, 16384 B, 10 us queued, 10 us at the device, 3 merges [Write 32]
        -- the end --
    "#]]);
}

#[test]
fn discards_absorb_disjoint_ranges() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 DS 0 +8
            #0 begins: discard @0 +8 by tid 7
        0.000_101 tid 7 getrq 7:0 DS 800 +8
            #1 begins: discard @800 +8 by tid 7
        0.000_102 tid 7 rq_merge 7:0 DS 800 +8
            #1 absorbed by ? [not counted]
        0.000_110 tid 7 issue 7:0 DS 0 +16
            #0 issued: discard @0 +16
        0.000_120 tid 0 complete 7:0 DS 0 +16
            #0 done: discard @0 +16, 8192 B, 10 us queued, 10 us at the device, extent inferred [Discard 16]
        -- the end --
    "#]]);
}

#[test]
fn merges_with_unknown_requests_are_anomalies() {
    check(expect![[r#"
        0.000_101 tid 7 backmerge 7:0 W 72 +8
            ! merge without a host: no queued request is adjacent to it
        0.000_102 tid 7 frontmerge 7:0 W 56 +8
            ! merge without a host: no queued request is adjacent to it
        0.000_104 tid 7 rq_merge 7:0 W 80 +16
            ! unmatched merge: the absorbed request was not seen before
        -- the end --
    "#]]);
}

#[test]
fn merge_events_missing_growth_is_found_by_sector_and_range() {
    check_bare(expect![[r#"
        0.000_100 tid 7 getrq 7:0 W 64 +8
            #0 begins: write @64 +8 by tid 7
        0.000_101 tid 8 getrq 7:0 W 80 +8
            #1 begins: write @80 +8 by tid 8
        0.000_102 tid 9 getrq 7:0 W 88 +16
            #2 begins: write @88 +16 by tid 9
        0.000_103 tid 9 getrq 7:0 W 200 +8
            #3 begins: write @200 +8 by tid 9
        0.000_110 tid 7 issue 7:0 W 64 +32
            #1 absorbed by #0, not seen [not counted]
            #0 issued: write @64 +32
        0.000_111 tid 7 issue 7:0 W 192 +16
            #3 issued: write @192 +16
        0.000_120 tid 0 complete 7:0 W 64 +32
            #0 done: write @64 +32, 16384 B, 10 us queued, 10 us at the device, 1 merges, extent inferred [Write 32]
        0.000_121 tid 0 complete 7:0 W 192 +16
            #3 done: write @192 +16, 8192 B, 8 us queued, 10 us at the device, extent inferred [Write 16]
        -- the end --
            #2 unfinished [not counted]
    "#]]);
}

#[test]
fn merge_events_missing_a_wrong_guess_costs_the_queue_time_and_no_request() {
    check_bare(expect![[r#"
        0.000_100 tid 7 getrq 7:0 W 64 +8
            #0 begins: write @64 +8 by tid 7
        0.000_101 tid 8 getrq 7:0 W 72 +8
            #1 begins: write @72 +8 by tid 8
        0.000_110 tid 7 issue 7:0 W 64 +16
            #1 absorbed by #0, not seen [not counted]
            #0 issued: write @64 +16
        0.000_111 tid 8 issue 7:0 W 72 +8
            #2 begins: write @72 +8
            #2 issued: write @72 +8
        0.000_120 tid 0 complete 7:0 W 72 +8
            #2 done: write @72 +8, 4096 B, 9 us at the device [Write 8]
        0.000_121 tid 0 complete 7:0 W 64 +16
            #0 done: write @64 +16, 8192 B, 10 us queued, 11 us at the device, 1 merges, extent inferred [Write 16]
        -- the end --
    "#]]);
}

#[test]
fn merge_events_disable_guesses_from_ranges() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 W 64 +8
            #0 begins: write @64 +8 by tid 7
        0.000_101 tid 8 getrq 7:0 W 72 +8
            #1 begins: write @72 +8 by tid 8
        0.000_110 tid 7 issue 7:0 W 64 +16
            #0 issued: write @64 +16
        0.000_111 tid 8 issue 7:0 W 72 +8
            #1 issued: write @72 +8
        0.000_120 tid 0 complete 7:0 W 72 +8
            #1 done: write @72 +8, 4096 B, 10 us queued, 9 us at the device [Write 8]
        0.000_121 tid 0 complete 7:0 W 64 +16
            #0 done: write @64 +16, 8192 B, 10 us queued, 11 us at the device, extent inferred [Write 16]
        -- the end --
    "#]]);
}

#[test]
fn wrong_merge_host_is_corrected_at_issue() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 W 64 +8
            #0 begins: write @64 +8 by tid 7
        0.000_101 tid 7 getrq 7:0 W 64 +16
            #1 begins: write @64 +16 by tid 7
        0.000_102 tid 7 frontmerge 7:0 W 56 +8
            #1 grew: write @56 +24
        0.000_110 tid 7 issue 7:0 W 56 +16
            #1 issued: write @56 +16
        0.000_111 tid 7 issue 7:0 W 64 +16
            #0 issued: write @64 +16
        0.000_120 tid 0 complete 7:0 W 56 +16
            #1 done: write @56 +16, 8192 B, 9 us queued, 10 us at the device, 1 merges, extent inferred [Write 16]
        0.000_121 tid 0 complete 7:0 W 64 +16
            #0 done: write @64 +16, 8192 B, 11 us queued, 10 us at the device, extent inferred [Write 16]
        -- the end --
    "#]]);
}

#[test]
fn merge_events_missing_only_adjacent_requests_are_absorbed() {
    check_bare(expect![[r#"
        0.000_100 tid 7 getrq 7:0 W 64 +8
            #0 begins: write @64 +8 by tid 7
        0.000_101 tid 8 getrq 7:0 W 72 +16
            #1 begins: write @72 +16 by tid 8
        0.000_102 tid 9 getrq 7:0 W 80 +8
            #2 begins: write @80 +8 by tid 9
        0.000_103 tid 9 getrq 7:0 W 88 +8
            #3 begins: write @88 +8 by tid 9
        0.000_110 tid 7 issue 7:0 W 64 +32
            #1 absorbed by #0, not seen [not counted]
            #3 absorbed by #0, not seen [not counted]
            #0 issued: write @64 +32
        0.000_111 tid 9 issue 7:0 W 80 +8
            #2 issued: write @80 +8
        0.000_120 tid 0 complete 7:0 W 64 +32
            #0 done: write @64 +32, 16384 B, 10 us queued, 10 us at the device, 2 merges, extent inferred [Write 32]
        0.000_121 tid 0 complete 7:0 W 80 +8
            #2 done: write @80 +8, 4096 B, 9 us queued, 10 us at the device [Write 8]
        -- the end --
    "#]]);
}
