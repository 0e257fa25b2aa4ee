//! Tests of bios: the tasks that queued them, and the devices that they passed.

use expect_test::expect;

use super::language::check;

#[test]
fn request_consists_of_its_bios() {
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
fn discards_of_other_places_are_ranges_of_one_request() {
    check(expect![[r#"
        0.000_100 tid 7 queue 7:0 D 64 +8
        0.000_101 tid 7 getrq 7:0 D 64 +8
            #0 begins: discard @64 +8 by tid 7
        0.000_102 tid 7 queue 7:0 D 800 +16
        0.000_103 tid 7 queue 7:0 D 400 +8
        0.000_110 tid 9 issue 7:0 D 64 +32
            #0 issued: discard @64 +32
        0.000_120 tid 0 complete 7:0 D 64 +32
            #0 done: discard @64 +32, 16384 B, 10 us queued, 10 us at the device, 2 merges, extent inferred, part @64 +8, part @800 +16, part @400 +8 [Discard 32]
        -- the end --
    "#]]);
}

#[test]
fn oversized_bio_is_split() {
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
fn partition_requests_are_remapped_to_the_disk() {
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
fn stack_on_a_partition_is_reported_on_both_levels() {
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

/// Fails if the second disk of a mirror gets an older bio whose end is never reported.
#[test]
fn dispatched_bio_is_not_remapped_again() {
    check(expect![[r#"
        0.000_100 tid 7 queue 9:0 W 64 +1024
        0.000_101 tid 7 remap 7:0 W 2112 +1024 <- 9:0 64
            #0 begins: write @64 +1024 by tid 7
            #0 issued: write @64 +1024
        0.000_102 tid 7 remap 7:1 W 2112 +1024 <- 9:0 64
        0.000_200 tid 8 queue 9:0 W 72 +8
        0.000_201 tid 9 queue 9:0 W 72 +8
        0.000_202 tid 4 remap 7:0 W 2120 +8 <- 9:0 72
            #1 begins: write @72 +8 by tid 8
            #1 issued: write @72 +8
        0.000_203 tid 4 remap 7:0 W 2120 +8 <- 9:0 72
            #2 begins: write @72 +8 by tid 9
            #2 issued: write @72 +8
        0.000_204 tid 4 remap 7:1 W 2120 +8 <- 9:0 72
        0.000_205 tid 4 remap 7:1 W 2120 +8 <- 9:0 72
        0.000_210 tid 4 queue 7:1 W 2120 +8
        0.000_211 tid 4 getrq 7:1 W 2120 +8
            #3 begins: write @2120 +8 by tid 8
        0.000_212 tid 4 queue 7:1 W 2120 +8
        0.000_213 tid 4 getrq 7:1 W 2120 +8
            #4 begins: write @2120 +8 by tid 9
        -- the end --
            #0 unfinished, part @64 +1024 [not counted]
            #1 unfinished, part @72 +8 [not counted]
            #2 unfinished, part @72 +8 [not counted]
            #3 unfinished, part @2120 +8 <- 9:0 @72 [not counted]
            #4 unfinished, part @2120 +8 <- 9:0 @72 [not counted]
    "#]]);
}

#[test]
fn device_without_requests_is_reported_by_its_bios() {
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
fn waiting_bios_are_counted_at_the_end_and_at_a_loss() {
    check(expect![[r#"
        0.000_100 tid 7 queue 7:0 R 64 +8
        -- records lost --
        0.000_101 tid 7 queue 7:0 R 72 +8
        -- the end --
            #0 begins: read @72 +8 by tid 7
            #0 unfinished, part @72 +8 [not counted]
    "#]]);
}

#[test]
fn mirror_with_metadata_at_the_start_of_its_disks() {
    // As Linux 5.10 reports it: the distance of the pieces is that of their places further down on
    // the disks.
    check(expect![[r#"
        67.186_700 tid 490 queue 9:0 W 312 +2048
        67.186_799 tid 490 split 9:0 W 312 +1024
        67.186_800 tid 490 remap 7:2 W 2360 +1024 <- 9:0 312
            #0 begins: write @312 +1024 by tid 490
            #0 issued: write @312 +1024
        67.186_801 tid 490 remap 7:2 W 3384 +1024 <- 9:0 1336
            #1 begins: write @1336 +1024 by tid 490
            #1 issued: write @1336 +1024
        67.186_900 tid 490 queue 9:0 W 2360 +1024
        67.186_901 tid 490 remap 7:2 W 4408 +1024 <- 9:0 2360
            #2 begins: write @2360 +1024 by tid 490
            #2 issued: write @2360 +1024
        67.187_300 tid 361 queue 7:2 W 2360 +1024
        67.187_301 tid 361 getrq 7:2 W 2360 +1024
            #3 begins: write @2360 +1024 by tid 490
        67.187_302 tid 361 queue 7:2 W 3384 +1024
        67.187_303 tid 361 getrq 7:2 W 3384 +1024
            #4 begins: write @3384 +1024 by tid 490
        67.187_304 tid 361 queue 7:2 W 4408 +1024
        67.187_305 tid 361 getrq 7:2 W 4408 +1024
            #5 begins: write @4408 +1024 by tid 490
        -- the end --
            #1 unfinished, part @1336 +1024 [not counted]
            #0 unfinished, part @312 +1024 [not counted]
            #2 unfinished, part @2360 +1024 [not counted]
            #3 unfinished, part @2360 +1024 <- 9:0 @312 [not counted]
            #4 unfinished, part @3384 +1024 <- 9:0 @1336 [not counted]
            #5 unfinished, part @4408 +1024 <- 9:0 @2360 [not counted]
    "#]]);
}

#[test]
fn dm_split_event_follows_the_first_part() {
    // As Linux 5.10 reports it; then the end of both is that of the later part.
    check(expect![[r#"
        37.357_896 tid 306 queue 253:0 DS 0 +120000
        37.357_920 tid 306 remap 7:0 DS 2048 +60004 <- 253:0 0
            #0 begins: discard @0 +120000 by tid 306
            #0 issued: discard @0 +120000
        37.357_925 tid 306 queue 7:0 DS 2048 +60004
        37.357_948 tid 306 split 253:0 DS 0 +60004
        37.357_972 tid 306 getrq 7:0 DS 2048 +60004
            #1 begins: discard @2048 +60004 by tid 306
        37.357_989 tid 306 remap 7:1 DS 24 +59996 <- 253:0 60004
        37.357_994 tid 306 remap 7:1 DS 2080 +59996 <- 259:2 24
        37.357_997 tid 306 queue 7:1 DS 2080 +59996
        37.358_005 tid 306 getrq 7:1 DS 2080 +59996
            #2 begins: discard @2080 +59996 by tid 306
        37.358_019 tid 306 issue 7:0 DS 2048 +60004
            #1 issued: discard @2048 +60004
        37.358_118 tid 306 issue 7:1 DS 2080 +59996
            #2 issued: discard @2080 +59996
        37.359_268 tid 11 complete 7:1 DS 2080 +59996
            #2 done: discard @2080 +59996, 30717952 B, 222 us queued, 1150 us at the device, part @2080 +59996 <- 259:2 @24 <- 253:0 @60004 [Discard 59996]
        37.382_023 tid 18 complete 7:0 DS 2048 +60004
            #1 done: discard @2048 +60004, 30722048 B, 123 us queued, 24004 us at the device, part @2048 +60004 <- 253:0 @0 [Discard 60004]
        37.382_072 tid 18 bio_complete 253:0 DS 60004 +59996
            #0 done: discard @0 +120000, 61440000 B, 24152 us at the device, part @0 +120000 [Discard 120000]
        -- the end --
    "#]]);
}
