//! Bios: who queued what becomes a request, and through which devices it came.

use expect_test::expect;

use super::language::check;

#[test]
fn a_request_is_of_the_bios_that_became_part_of_it() {
    check(expect![[r#"
        0.000_100 tid 7 queue 7:0 W 64 +8
        0.000_101 tid 7 getrq 7:0 W 64 +8
            #0 begins: write @64 +8 by tid 7
        0.000_102 tid 8 queue 7:0 W 72 +8
        0.000_103 tid 8 backmerge 7:0 W 72 +8
            #0 grew: write @64 +16
        0.000_104 tid 7 queue 7:0 W 56 +8
        0.000_105 tid 7 frontmerge 7:0 W 56 +8
            #0 grew: write @56 +24
        0.000_110 tid 9 issue 7:0 W 56 +24
            #0 issued: write @56 +24
        0.000_120 tid 0 complete 7:0 W 56 +24
            #0 done: write @56 +24, 12288 B, 10 us queued, 10 us at the device, 2 merges, part @64 +8, part @72 +8 of tid 8, part @56 +8 [Write 24]
        -- the end --
    "#]]);
}

#[test]
fn one_that_is_too_long_is_split() {
    check(expect![[r#"
        0.000_100 tid 7 queue 7:0 R 0 +24
        0.000_101 tid 7 split 7:0 R 0 +8
        0.000_102 tid 7 getrq 7:0 R 0 +8
            #0 begins: read @0 +8 by tid 7
        0.000_103 tid 7 getrq 7:0 R 8 +16
            #1 begins: read @8 +16 by tid 7
        0.000_110 tid 7 issue 7:0 R 0 +8
            #0 issued: read @0 +8
        0.000_110 tid 7 issue 7:0 R 8 +16
            #1 issued: read @8 +16
        0.000_120 tid 0 complete 7:0 R 0 +8
            #0 done: read @0 +8, 4096 B, 10 us queued, 10 us at the device, part @0 +8 [Read 8]
        0.000_120 tid 0 complete 7:0 R 8 +16
            #1 done: read @8 +16, 8192 B, 10 us queued, 10 us at the device, part @8 +16 [Read 16]
        -- the end --
    "#]]);
}

#[test]
fn what_is_asked_of_a_partition_is_asked_of_its_disk() {
    check(expect![[r#"
        0.000_100 tid 7 remap 8:0 W 2112 +8 <- 8:1 64
        0.000_101 tid 7 queue 8:0 W 2112 +8
        0.000_102 tid 7 getrq 8:0 W 2112 +8
            #0 begins: write @2112 +8 by tid 7
        0.000_110 tid 7 issue 8:0 W 2112 +8
            #0 issued: write @2112 +8
        0.000_120 tid 0 complete 8:0 W 2112 +8
            #0 done: write @2112 +8, 4096 B, 10 us queued, 10 us at the device, part @2112 +8 <- 8:1 @64 [Write 8]
        -- the end --
    "#]]);
}

#[test]
fn a_stack_on_a_partition_is_told_on_both_levels() {
    check(expect![[r#"
        0.000_100 tid 7 queue 253:0 W 1000 +8
        0.000_101 tid 9 remap 8:0 W 3000 +8 <- 253:0 1000
            #0 begins: write @1000 +8 by tid 7
            #0 issued: write @1000 +8
        0.000_102 tid 9 remap 8:0 W 5048 +8 <- 8:1 3000
        0.000_103 tid 9 queue 8:0 W 5048 +8
        0.000_104 tid 9 getrq 8:0 W 5048 +8
            #1 begins: write @5048 +8 by tid 7
        0.000_110 tid 5 issue 8:0 W 5048 +8
            #1 issued: write @5048 +8
        0.000_120 tid 0 complete 8:0 W 5048 +8
            #1 done: write @5048 +8, 4096 B, 10 us queued, 10 us at the device, part @5048 +8 <- 8:1 @3000 <- 253:0 @1000 [Write 8]
        0.000_121 tid 0 bio_complete 253:0 W 1000 +8
            #0 done: write @1000 +8, 4096 B, 20 us at the device, part @1000 +8 [Write 8]
        -- the end --
    "#]]);
}

#[test]
fn a_mirror_writes_to_two_disks() {
    check(expect![[r#"
        0.000_100 tid 7 queue 9:0 W 64 +8
        0.000_101 tid 7 remap 7:0 W 2112 +8 <- 9:0 64
            #0 begins: write @64 +8 by tid 7
            #0 issued: write @64 +8
        0.000_102 tid 7 remap 7:1 W 2112 +8 <- 9:0 64
        0.000_103 tid 4 queue 7:0 W 2112 +8
        0.000_104 tid 4 queue 7:1 W 2112 +8
        0.000_105 tid 4 getrq 7:0 W 2112 +8
            #1 begins: write @2112 +8 by tid 7
        0.000_106 tid 4 getrq 7:1 W 2112 +8
            #2 begins: write @2112 +8 by tid 7
        0.000_110 tid 5 issue 7:0 W 2112 +8
            #1 issued: write @2112 +8
        0.000_110 tid 5 issue 7:1 W 2112 +8
            #2 issued: write @2112 +8
        0.000_120 tid 0 complete 7:0 W 2112 +8
            #1 done: write @2112 +8, 4096 B, 10 us queued, 10 us at the device, part @2112 +8 <- 9:0 @64 [Write 8]
        0.000_121 tid 0 complete 7:1 W 2112 +8
            #2 done: write @2112 +8, 4096 B, 10 us queued, 11 us at the device, part @2112 +8 <- 9:0 @64 [Write 8]
        0.000_122 tid 0 bio_complete 9:0 W 64 +8
            #0 done: write @64 +8, 4096 B, 21 us at the device, part @64 +8 [Write 8]
        -- the end --
    "#]]);
}

#[test]
fn a_device_without_requests_is_told_by_its_bios() {
    check(expect![[r#"
        0.000_100 tid 7 queue 252:0 W 64 +8
        0.000_110 tid 7 bio_complete 252:0 W 64 +8
            #0 begins: write @64 +8 by tid 7
            #0 done: write @64 +8, 4096 B, part @64 +8 [Write 8]
        0.000_200 tid 7 queue 252:0 R 64 +8
            #1 begins: read @64 +8 by tid 7
        0.000_210 tid 7 bio_complete 252:0 R 64 +8 error -5
            #1 done: read @64 +8, 4096 B, errno 5, part @64 +8 [Read 8]
        0.000_220 tid 7 bio_complete 252:0 R 99 +8
            ! unmatched completion of a bio: no such bio was seen before
        -- the end --
    "#]]);
}

#[test]
fn a_bio_may_fail_before_it_is_a_request() {
    check(expect![[r#"
        0.000_100 tid 7 queue 7:0 R 64 +8
        0.000_101 tid 7 getrq 7:0 R 64 +8
            #0 begins: read @64 +8 by tid 7
        0.000_102 tid 7 queue 7:0 R 72 +8
        0.000_103 tid 7 bio_complete 7:0 R 72 +8 error -11
            #1 begins: read @72 +8 by tid 7
            #1 done: read @72 +8, 0 B, errno 11, part @72 +8 [not counted]
        0.000_110 tid 7 issue 7:0 R 64 +8
            #0 issued: read @64 +8
        0.000_120 tid 0 complete 7:0 R 64 +8
            #0 done: read @64 +8, 4096 B, 10 us queued, 10 us at the device, part @64 +8 [Read 8]
        -- the end --
    "#]]);
}

#[test]
fn what_waits_at_the_end_or_at_a_loss() {
    check(expect![[r#"
        0.000_100 tid 7 queue 7:0 R 64 +8
        -- records lost --
        0.000_101 tid 7 queue 7:0 R 72 +8
        -- the end --
            #0 begins: read @72 +8 by tid 7
            #0 unfinished, part @72 +8 [not counted]
    "#]]);
}
