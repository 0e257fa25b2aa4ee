//! Tests of flushes and the writes that wait for them.

use expect_test::expect;

use super::language::check;

#[test]
fn a_write_with_flushes_before_and_after_is_one_write_and_two_flushes() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 FWFSM 1048 +8
            #0 begins: write @1048 +8 by tid 7
        0.000_110 tid 54 issue 7:0 FF 0 +0
            #1 begins: flush @0 +0
            #1 issued: flush @0 +0 for #0 (1 waiting)
        0.000_120 tid 14 complete 7:0 FF -1 +0
            #1 done: flush @0 +0, 0 B, 10 us at the device [Flush 0]
        0.000_121 tid 54 insert 7:0 WSM 1048 +8
            #0 inserted: write @1048 +8
        0.000_122 tid 54 issue 7:0 WSM 1048 +8
            #0 issued: write @1048 +8
        0.000_130 tid 14 complete 7:0 WSM 1048 +8
            #0 data done
        0.000_131 tid 54 issue 7:0 FF 0 +0
            #2 begins: flush @0 +0
            #2 issued: flush @0 +0 for #0 (1 waiting)
        0.000_140 tid 14 complete 7:0 FF -1 +0
            #2 done: flush @0 +0, 0 B, 9 us at the device [Flush 0]
        0.000_141 tid 14 complete 7:0 WSM 1048 +0
            #0 done: write @1048 +8, 4096 B, 22 us queued, 19 us at the device [Write 8]
        -- the end --
    "#]]);
}

#[test]
fn a_device_with_fua_flushes_only_before() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 259:0 FWFSM 1048 +8
            #0 begins: write @1048 +8 by tid 7
        0.000_110 tid 54 issue 259:0 FF 0 +0
            #1 begins: flush @0 +0
            #1 issued: flush @0 +0 for #0 (1 waiting)
        0.000_120 tid 14 complete 259:0 FF -1 +0
            #1 done: flush @0 +0, 0 B, 10 us at the device [Flush 0]
        0.000_122 tid 54 issue 259:0 WFSM 1048 +8
            #0 issued: write @1048 +8
        0.000_130 tid 14 complete 259:0 WFSM 1048 +8
            #0 data done
        0.000_131 tid 14 complete 259:0 WFSM 1048 +0
            #0 done: write @1048 +8, 4096 B, 22 us queued, 9 us at the device [Write 8]
        -- the end --
    "#]]);
}

#[test]
fn a_write_with_fua_is_a_sequence_only_if_the_device_has_none() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 259:0 WFS 0 +8
            #0 begins: write @0 +8 by tid 7
        0.000_101 tid 7 issue 259:0 WFS 0 +8
            #0 issued: write @0 +8
        0.000_102 tid 0 complete 259:0 WFS 0 +8
            #0 done: write @0 +8, 4096 B, 1 us queued, 1 us at the device [Write 8]
        0.000_200 tid 7 getrq 7:0 WFS 0 +8
            #1 begins: write @0 +8 by tid 7
        0.000_201 tid 7 issue 7:0 WS 0 +8
            #1 issued: write @0 +8
        0.000_202 tid 0 complete 7:0 WS 0 +8
            #1 data done
        0.000_203 tid 54 issue 7:0 FF 0 +0
            #2 begins: flush @0 +0
            #2 issued: flush @0 +0 for #1 (1 waiting)
        0.000_204 tid 0 complete 7:0 FF -1 +0
            #2 done: flush @0 +0, 0 B, 1 us at the device [Flush 0]
        0.000_205 tid 0 complete 7:0 WS 0 +0
            #1 done: write @0 +8, 4096 B, 1 us queued, 4 us at the device [Write 8]
        -- the end --
    "#]]);
}

#[test]
fn a_demand_for_a_flush_is_counted_as_a_write() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 FWS 0 +0
            #0 begins: write @0 +0 by tid 7
        0.000_110 tid 44 issue 7:0 FF 0 +0
            #1 begins: flush @0 +0
            #1 issued: flush @0 +0 for #0 (1 waiting)
        0.000_120 tid 22 complete 7:0 FF -1 +0
            #1 done: flush @0 +0, 0 B, 10 us at the device [Flush 0]
        0.000_121 tid 22 complete 7:0 WS 0 +0
            #0 done: write @0 +0, 0 B [Write 0]
        -- the end --
    "#]]);
}

#[test]
fn demands_share_a_flush() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 FWS 0 +0
            #0 begins: write @0 +0 by tid 7
        0.000_101 tid 8 getrq 7:0 FWS 0 +0
            #1 begins: write @0 +0 by tid 8
        0.000_110 tid 44 issue 7:0 FF 0 +0
            #2 begins: flush @0 +0
            #2 issued: flush @0 +0 for #0 (2 waiting)
        0.000_120 tid 22 complete 7:0 FF -1 +0
            #2 done: flush @0 +0, 0 B, 10 us at the device [Flush 0]
        0.000_121 tid 22 complete 7:0 WS 0 +0
            #0 done: write @0 +0, 0 B [Write 0]
        0.000_122 tid 22 complete 7:0 WS 0 +0
            #1 done: write @0 +0, 0 B [Write 0]
        -- the end --
    "#]]);
}

#[test]
fn the_end_of_a_demand_is_not_the_end_of_a_write_to_sector_0() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 WS 0 +8
            #0 begins: write @0 +8 by tid 7
        0.000_101 tid 7 issue 7:0 WS 0 +8
            #0 issued: write @0 +8
        0.000_102 tid 8 getrq 7:0 FWS 0 +0
            #1 begins: write @0 +0 by tid 8
        0.000_110 tid 44 issue 7:0 FF 0 +0
            #2 begins: flush @0 +0
            #2 issued: flush @0 +0 for #1 (1 waiting)
        0.000_120 tid 22 complete 7:0 FF -1 +0
            #2 done: flush @0 +0, 0 B, 10 us at the device [Flush 0]
        0.000_121 tid 22 complete 7:0 WS 0 +0
            #1 done: write @0 +0, 0 B [Write 0]
        0.000_122 tid 22 complete 7:0 WS 0 +8
            #0 done: write @0 +8, 4096 B, 1 us queued, 21 us at the device [Write 8]
        -- the end --
    "#]]);
}

#[test]
fn the_end_of_a_sequence_whose_data_came_in_parts_may_name_any_of_three_places() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 FWS 0 +24
            #0 begins: write @0 +24 by tid 7
        0.000_101 tid 7 issue 7:0 WS 0 +24
            #0 issued: write @0 +24
        0.000_102 tid 0 complete 7:0 WS 0 +8
            #0 4096 of 12288 B done
        0.000_103 tid 0 complete 7:0 WS 8 +16
            #0 data done
        0.000_104 tid 0 complete 7:0 WS 8 +0
            #0 done: write @0 +24, 12288 B, 1 us queued, 3 us at the device [Write 24]
        0.000_200 tid 7 getrq 7:0 FWS 0 +24
            #1 begins: write @0 +24 by tid 7
        0.000_201 tid 7 issue 7:0 WS 0 +24
            #1 issued: write @0 +24
        0.000_202 tid 0 complete 7:0 WS 0 +8
            #1 4096 of 12288 B done
        0.000_203 tid 0 complete 7:0 WS 8 +16
            #1 data done
        0.000_204 tid 0 complete 7:0 WS 0 +0
            #1 done: write @0 +24, 12288 B, 1 us queued, 3 us at the device [Write 24]
        0.000_300 tid 7 getrq 7:0 FWS 0 +24
            #2 begins: write @0 +24 by tid 7
        0.000_301 tid 7 issue 7:0 WS 0 +24
            #2 issued: write @0 +24
        0.000_303 tid 0 complete 7:0 WS 0 +24
            #2 data done
        0.000_304 tid 0 complete 7:0 WS 24 +0
            #2 done: write @0 +24, 12288 B, 1 us queued, 3 us at the device [Write 24]
        -- the end --
    "#]]);
}

#[test]
fn a_failed_flush_ends_the_write_that_waited_for_it() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 7:0 FWS 64 +8
            #0 begins: write @64 +8 by tid 7
        0.000_110 tid 54 issue 7:0 FF 0 +0
            #1 begins: flush @0 +0
            #1 issued: flush @0 +0 for #0 (1 waiting)
        0.000_120 tid 14 complete 7:0 FF -1 +0 error -5
            #1 done: flush @0 +0, 0 B, 10 us at the device, errno 5 [Flush 0]
        0.000_121 tid 14 complete 7:0 WS 64 +8 error -5
            #0 done: write @64 +8, 4096 B, errno 5 [Write 8]
        -- the end --
    "#]]);
}

#[test]
fn flushes_are_first_in_first_out_and_may_be_given_back() {
    check(expect![[r#"
        0.000_100 tid 44 issue 8:0 FF 0 +0
            #0 begins: flush @0 +0
            #0 issued: flush @0 +0 for an unknown request
        0.000_101 tid 44 requeue 8:0 FF 0 +0
            #0 given back
        0.000_110 tid 44 issue 8:0 FF 0 +0
            #0 issued: flush @0 +0 for an unknown request
        0.000_111 tid 45 issue 8:0 FF 0 +0
            #1 begins: flush @0 +0
            #1 issued: flush @0 +0 for an unknown request
        0.000_120 tid 0 complete 8:0 FF -1 +0
            #0 done: flush @0 +0, 0 B, 10 us at the device, 1 requeues [Flush 0]
        0.000_122 tid 0 complete 8:0 FF -1 +0
            #1 done: flush @0 +0, 0 B, 11 us at the device [Flush 0]
        0.000_130 tid 44 requeue 8:0 FF 0 +0
            #2 begins: flush @0 +0
            #2 given back
        0.000_131 tid 44 insert 8:0 FF 0 +0
            #2 inserted: flush @0 +0
        0.000_132 tid 44 issue 8:0 FF 0 +0
            #2 issued: flush @0 +0 for an unknown request
        0.000_133 tid 0 complete 8:0 FF -1 +0
            #2 done: flush @0 +0, 0 B, 1 us at the device, 1 requeues [Flush 0]
        -- the end --
    "#]]);
}

#[test]
fn flushes_given_back_keep_their_order() {
    check(expect![[r#"
        0.000_100 tid 44 issue 8:0 FF 0 +0
            #0 begins: flush @0 +0
            #0 issued: flush @0 +0 for an unknown request
        0.000_101 tid 45 issue 8:0 FF 0 +0
            #1 begins: flush @0 +0
            #1 issued: flush @0 +0 for an unknown request
        0.000_102 tid 44 requeue 8:0 FF 0 +0
            #1 given back
        0.000_103 tid 44 requeue 8:0 FF 0 +0
            #0 given back
        0.000_104 tid 44 requeue 8:0 FF 0 +0
            #0 given back
        0.000_110 tid 44 issue 8:0 FF 0 +0
            #0 issued: flush @0 +0 for an unknown request
        0.000_111 tid 44 issue 8:0 FF 0 +0
            #1 issued: flush @0 +0 for an unknown request
        0.000_120 tid 0 complete 8:0 FF -1 +0
            #0 done: flush @0 +0, 0 B, 10 us at the device, 2 requeues [Flush 0]
        0.000_121 tid 0 complete 8:0 FF -1 +0
            #1 done: flush @0 +0, 0 B, 10 us at the device, 1 requeues [Flush 0]
        -- the end --
    "#]]);
}

#[test]
fn the_data_of_a_sequence_may_be_given_back_before_its_issue_is_traced() {
    check(expect![[r#"
        0.000_100 tid 7 getrq 252:0 FWS 64 +8
            #0 begins: write @64 +8 by tid 7
        0.000_110 tid 54 issue 252:0 FF 0 +0
            #1 begins: flush @0 +0
            #1 issued: flush @0 +0 for #0 (1 waiting)
        0.000_120 tid 0 complete 252:0 FF -1 +0
            #1 done: flush @0 +0, 0 B, 10 us at the device [Flush 0]
        0.000_121 tid 54 requeue 252:0 WS 64 +8
            #0 given back
        0.000_130 tid 54 issue 252:0 WS 64 +8
            #0 issued: write @64 +8
        0.000_140 tid 0 complete 252:0 WS 64 +8
            #0 data done
        0.000_141 tid 0 complete 252:0 WS 64 +0
            #0 done: write @64 +8, 4096 B, 30 us queued, 11 us at the device, 1 requeues [Write 8]
        -- the end --
    "#]]);
}
