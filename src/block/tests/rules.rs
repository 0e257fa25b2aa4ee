//! Tests of plain requests: queue, issue, completion, requeue, and events that match no request.

use expect_test::expect;

use super::language::{check, check_bare, check_with};
use crate::block::BlockOptions;

#[test]
fn a_request_is_queued_inserted_issued_and_done() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 RS 2048 +8
            #0 begins: read @2048 +8 by tid 7
        0.000_110 tid 7 insert 7:0 RS 2048 +8
            #0 inserted: read @2048 +8
        0.000_120 tid 44 issue 7:0 RS 2048 +8
            #0 issued: read @2048 +8
        0.000_200 tid 0 complete 7:0 RS 2048 +8
            #0 done: read @2048 +8, 4096 B, 20 us queued, 80 us at the device [Read 8]
        -- the end --
    "#]]);
}

#[test]
fn without_a_scheduler_there_is_no_insert() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 WS 2048 +8
            #0 begins: write @2048 +8 by tid 7
        0.000_120 tid 44 issue 7:0 WS 2048 +8
            #0 issued: write @2048 +8
        0.000_200 tid 0 complete 7:0 WS 2048 +8
            #0 done: write @2048 +8, 4096 B, 20 us queued, 80 us at the device [Write 8]
        -- the end --
    "#]]);
}

#[test]
fn submitter_is_never_the_issuing_task_and_sometimes_the_inserting_one() {
    check(expect![[r#"
        0.000_100 tid 7 insert 7:0 WS 2048 +8
            #0 begins: write @2048 +8 perhaps by tid 7
            #0 inserted: write @2048 +8
        0.000_120 tid 44 issue 7:0 WS 2048 +8
            #0 issued: write @2048 +8
        0.000_130 tid 44 issue 7:0 WS 4096 +8
            #1 begins: write @4096 +8
            #1 issued: write @4096 +8
        0.000_200 tid 0 complete 7:0 WS 2048 +8
            #0 done: write @2048 +8, 4096 B, 80 us at the device [Write 8]
        0.000_210 tid 0 complete 7:0 WS 4096 +8
            #1 done: write @4096 +8, 4096 B, 80 us at the device [Write 8]
        -- the end --
    "#]]);
}

#[test]
fn reads_writes_and_devices_at_one_sector_are_kept_apart() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 R 0 +8
            #0 begins: read @0 +8 by tid 7
        0.000_101 tid 7 getrq 7:0 WS 0 +8
            #1 begins: write @0 +8 by tid 7
        0.000_102 tid 7 getrq 7:1 WS 0 +8
            #2 begins: write @0 +8 by tid 7
        0.000_110 tid 7 issue 7:1 WS 0 +8
            #2 issued: write @0 +8
        0.000_111 tid 7 issue 7:0 WS 0 +8
            #1 issued: write @0 +8
        0.000_112 tid 7 issue 7:0 R 0 +8
            #0 issued: read @0 +8
        0.000_120 tid 0 complete 7:0 R 0 +8
            #0 done: read @0 +8, 4096 B, 12 us queued, 8 us at the device [Read 8]
        0.000_121 tid 0 complete 7:1 WS 0 +8
            #2 done: write @0 +8, 4096 B, 8 us queued, 11 us at the device [Write 8]
        0.000_122 tid 0 complete 7:0 WS 0 +8
            #1 done: write @0 +8, 4096 B, 10 us queued, 11 us at the device [Write 8]
        -- the end --
    "#]]);
}

#[test]
fn requests_at_one_sector_match_by_length_then_age() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 R 64 +8
            #0 begins: read @64 +8 by tid 7
        0.000_101 tid 8 getrq 7:0 R 64 +16
            #1 begins: read @64 +16 by tid 8
        0.000_102 tid 9 getrq 7:0 R 64 +8
            #2 begins: read @64 +8 by tid 9
        0.000_110 tid 8 issue 7:0 R 64 +16
            #1 issued: read @64 +16
        0.000_111 tid 7 issue 7:0 R 64 +8
            #0 issued: read @64 +8
        0.000_112 tid 9 issue 7:0 R 64 +8
            #2 issued: read @64 +8
        0.000_120 tid 0 complete 7:0 R 64 +16
            #1 done: read @64 +16, 8192 B, 9 us queued, 10 us at the device [Read 16]
        0.000_121 tid 0 complete 7:0 R 64 +8
            #0 done: read @64 +8, 4096 B, 11 us queued, 10 us at the device [Read 8]
        0.000_122 tid 0 complete 7:0 R 64 +8
            #2 done: read @64 +8, 4096 B, 10 us queued, 10 us at the device [Read 8]
        -- the end --
    "#]]);
}

#[test]
fn a_requeue_returns_it() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 252:0 R 64 +8
            #0 begins: read @64 +8 by tid 7
        0.000_110 tid 7 issue 252:0 R 64 +8
            #0 issued: read @64 +8
        0.000_111 tid 7 requeue 252:0 R 64 +8
            #0 given back
        0.000_115 tid 44 insert 252:0 R 64 +8
            #0 inserted: read @64 +8
        0.000_130 tid 44 issue 252:0 R 64 +8
            #0 issued: read @64 +8
        0.000_140 tid 0 complete 252:0 R 64 +8
            #0 done: read @64 +8, 4096 B, 10 us queued, 10 us at the device, 1 requeues [Read 8]
        -- the end --
    "#]]);
}

#[test]
fn a_busy_driver_gives_back_before_the_issue_is_traced() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 252:0 R 64 +8
            #0 begins: read @64 +8 by tid 7
        0.000_111 tid 7 requeue 252:0 R 64 +8
            #0 given back
        0.000_130 tid 44 issue 252:0 R 64 +8
            #0 issued: read @64 +8
        0.000_140 tid 0 complete 252:0 R 64 +8
            #0 done: read @64 +8, 4096 B, 30 us queued, 10 us at the device, 1 requeues [Read 8]
        -- the end --
    "#]]);
}

#[test]
fn requeue_events_missing_a_second_issue_means_one() {
    check_bare(expect![[r#"
        0.000_100 tid 7 getrq 252:0 R 64 +8
            #0 begins: read @64 +8 by tid 7
        0.000_110 tid 7 issue 252:0 R 64 +8
            #0 issued: read @64 +8
        0.000_130 tid 44 issue 252:0 R 64 +8
            #0 issued: read @64 +8
        0.000_140 tid 0 complete 252:0 R 64 +8
            #0 done: read @64 +8, 4096 B, 10 us queued, 10 us at the device, 1 requeues, requeue inferred [Read 8]
        -- the end --
    "#]]);
}

#[test]
fn with_requeue_events_a_second_issue_is_another_request() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 252:0 R 64 +8
            #0 begins: read @64 +8 by tid 7
        0.000_110 tid 7 issue 252:0 R 64 +8
            #0 issued: read @64 +8
        0.000_130 tid 44 issue 252:0 R 64 +8
            #1 begins: read @64 +8
            #1 issued: read @64 +8
        0.000_140 tid 0 complete 252:0 R 64 +8
            #0 done: read @64 +8, 4096 B, 10 us queued, 30 us at the device [Read 8]
        0.000_150 tid 0 complete 252:0 R 64 +8
            #1 done: read @64 +8, 4096 B, 20 us at the device [Read 8]
        -- the end --
    "#]]);
}

#[test]
fn parts_sum_up_and_the_rest_may_be_given_back() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 8:0 R 64 +32
            #0 begins: read @64 +32 by tid 7
        0.000_110 tid 7 issue 8:0 R 64 +32
            #0 issued: read @64 +32
        0.000_120 tid 0 complete 8:0 R 64 +8
            #0 4096 of 16384 B done
        0.000_121 tid 0 complete 8:0 R 72 +0
            #0 4096 of 16384 B done
        0.000_122 tid 0 requeue 8:0 R 72 +24
            #0 given back
        0.000_123 tid 9 issue 8:0 R 72 +24
            #0 issued: read @64 +32
        0.000_130 tid 0 complete 8:0 R 72 +16 error -5
            #0 12288 of 16384 B done
        0.000_131 tid 0 complete 8:0 R 88 +8
            #0 done: read @64 +32, 16384 B, 10 us queued, 8 us at the device, 1 requeues, errno 5 [Read 32]
        -- the end --
    "#]]);
}

#[test]
fn requests_from_before_the_capture_are_unmatched() {
    check(expect![[r#"
        0.000_100 tid 0 complete 7:0 R 64 +8
            ! unmatched completion: no such request was seen before
        0.000_101 tid 0 complete 7:0 WSM 64 +0
            ! unmatched end of a flush sequence: its beginning was not seen
        0.000_102 tid 0 complete 7:0 FF -1 +0
            ! unmatched flush completion: no flush was in flight
        0.000_103 tid 0 requeue 7:0 R 64 +8
            ! unmatched requeue: no such request was seen before
        -- the end --
    "#]]);
}

#[test]
fn impossible_transition_is_an_anomaly_with_its_state() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 FWS 64 +8
            #0 begins: write @64 +8 by tid 7
        0.000_101 tid 7 rq_merge 7:0 WS 64 +8
            ! impossible for request #0, which is waiting for a flush before its data
        0.000_102 tid 7 complete 7:0 WS 64 +0
            ! impossible for request #0, which is waiting for a flush before its data
        0.000_103 tid 7 issue 7:0 WS 64 +8
            #0 issued: write @64 +8
        0.000_104 tid 7 rq_merge 7:0 WS 64 +8
            ! impossible for request #0, which is at the driver
        0.000_105 tid 0 complete 7:0 WS 64 +8
            #0 data done
        0.000_106 tid 0 requeue 7:0 WS 64 +8
            ! impossible for request #0, which is waiting for the end of its flush sequence
        0.000_107 tid 0 complete 7:0 WS 64 +8
            ! impossible for request #0, which is waiting for the end of its flush sequence
        0.000_108 tid 0 complete 7:0 WS 64 +0
            #0 done: write @64 +8, 4096 B, 3 us queued, 5 us at the device [Write 8]
        -- the end --
    "#]]);
}

#[test]
fn a_completion_without_an_issue_is_an_anomaly_unless_it_failed() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 R 64 +8
            #0 begins: read @64 +8 by tid 7
        0.000_101 tid 7 getrq 7:0 R 128 +8
            #1 begins: read @128 +8 by tid 7
        0.000_110 tid 0 complete 7:0 R 64 +8 error -5
            #0 done: read @64 +8, 4096 B, errno 5 [Read 8]
        0.000_111 tid 0 complete 7:0 R 128 +8
            ! request #1 completed without an issue
            #1 done: read @128 +8, 4096 B [Read 8]
        -- the end --
    "#]]);
}

#[test]
fn zone_operations_have_no_length() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 8:0 ZR 524288 +0
            #0 begins: zone-reset @524288 +0 by tid 7
        0.000_101 tid 7 issue 8:0 ZR 524288 +0
            #0 issued: zone-reset @524288 +0
        0.000_120 tid 0 complete 8:0 ZR 524288 +0
            #0 done: zone-reset @524288 +0, 0 B, 1 us queued, 19 us at the device [Write 0]
        -- the end --
    "#]]);
}

#[test]
fn driver_commands_have_no_sector_and_are_not_counted() {
    check(expect![[r#"
        0.000_101 tid 7 issue 8:0 N 0 +0
            #0 begins: other @0 +0
            #0 issued: other @0 +0
        0.000_102 tid 7 issue 8:0 N 0 +0
            #1 begins: other @0 +0
            #1 issued: other @0 +0
        0.000_120 tid 0 complete 8:0 N -1 +1
            #0 done: other @0 +1, 512 B, 19 us at the device, extent inferred [not counted]
        0.000_121 tid 0 complete 8:0 N -1 +0
            #1 done: other @0 +0, 0 B, 19 us at the device [not counted]
        -- the end --
    "#]]);
}

#[test]
fn after_a_loss_newer_requests_match_first() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 R 64 +8
            #0 begins: read @64 +8 by tid 7
        0.000_101 tid 7 issue 7:0 R 64 +8
            #0 issued: read @64 +8
        -- records lost --
        0.000_200 tid 8 getrq 7:0 R 64 +8
            #1 begins: read @64 +8 by tid 8
        0.000_201 tid 8 issue 7:0 R 64 +8
            #1 issued: read @64 +8
        0.000_202 tid 0 complete 7:0 R 64 +8
            #1 done: read @64 +8, 4096 B, 1 us queued, 1 us at the device [Read 8]
        -- the end --
            #0 unfinished, 1 us queued [not counted]
    "#]]);
}

/// Fails if a request beyond the limit does not end the oldest request of the device.
#[test]
fn too_many_in_flight() {
    let options = BlockOptions { in_flight_limit: 2, ..BlockOptions::default() };
    check_with(
        options,
        expect![[r#"
            0.000_100 tid 7 getrq 7:0 R 64 +8
                #0 begins: read @64 +8 by tid 7
            0.000_101 tid 7 getrq 7:0 R 72 +8
                #1 begins: read @72 +8 by tid 7
            0.000_102 tid 7 getrq 7:1 R 80 +8
                #2 begins: read @80 +8 by tid 7
            0.000_103 tid 7 getrq 7:0 R 88 +8
                #3 begins: read @88 +8 by tid 7
                ! too many requests in flight: request #0 was given up
                #0 given up [not counted]
            0.000_104 tid 0 complete 7:0 R 64 +8
                ! unmatched completion: no such request was seen before
            -- the end --
                #1 unfinished [not counted]
                #2 unfinished [not counted]
                #3 unfinished [not counted]
        "#]],
    );
}

#[test]
fn completion_of_zero_bytes_does_not_end_a_queued_request() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 W 64 +8
            #0 begins: write @64 +8 by tid 7
        0.000_101 tid 0 complete 7:0 W 64 +0
            ! impossible for request #0, which is queued
        -- the end --
            #0 unfinished [not counted]
    "#]]);
}
