//! Block requests.

use expect_test::expect;

use super::super::OtfOptions;
use super::{check, check_with};

const REQUESTS: &str = "
    10 7/7 block getrq 7:0 W 2048 +8
    11 7/7 block getrq 7:0 W 2056 +8
    12 7/7 block insert 7:0 W 2056 +8
    13 7/7 block rq_merge 7:0 W 2056 +8
    20 0/0 block issue 7:0 W 2048 +16
    30 0/0 block complete 7:0 W 2048 +16
    40 7/7 block getrq 8:16 D 0 +8
    50 0/0 block issue 8:16 D 0 +8
    51 7/7 death
    60 0/0 block complete 8:16 D 0 +8 error -5
    70 7/9 block getrq 7:0 R 4096 +8";

#[test]
fn requests_are_operations_of_their_device() {
    check(
        REQUESTS,
        expect![[r#"
            IO_OPERATION_BEGIN 0 10 Handle: "loop0" <0>, Mode: WRITE, Operation Flags: {NON_BLOCKING}, Bytes Request: 4096, Matching Id: 1
                ("Sector" <4>; UINT64; 2048), ("pid" <5>; INT32; 7), ("tid" <6>; INT32; 7)
            METRIC 0 10 Metric: 0, 2 Values: ("requests waiting" <0>; UINT64; 1), ("requests at the driver" <1>; UINT64; 0)
            IO_OPERATION_BEGIN 0 11 Handle: "loop0" <0>, Mode: WRITE, Operation Flags: {NON_BLOCKING}, Bytes Request: 4096, Matching Id: 3
                ("Sector" <4>; UINT64; 2056), ("pid" <5>; INT32; 7), ("tid" <6>; INT32; 7)
            METRIC 0 11 Metric: 0, 2 Values: ("requests waiting" <0>; UINT64; 2), ("requests at the driver" <1>; UINT64; 0)
            IO_OPERATION_ISSUED 0 13 Handle: "loop0" <0>, Matching Id: 3
            IO_OPERATION_CANCELLED 0 13 Handle: "loop0" <0>, Matching Id: 3
                ("MergedInto" <8>; UINT64; 1)
            METRIC 0 13 Metric: 0, 2 Values: ("requests waiting" <0>; UINT64; 1), ("requests at the driver" <1>; UINT64; 0)
            IO_OPERATION_ISSUED 0 20 Handle: "loop0" <0>, Matching Id: 1
            ENTER 0 20 Region: "busy" <0>
            METRIC 0 20 Metric: 0, 2 Values: ("requests waiting" <0>; UINT64; 0), ("requests at the driver" <1>; UINT64; 1)
            IO_OPERATION_COMPLETE 0 30 Handle: "loop0" <0>, Bytes Result: 8192, Matching Id: 1
            METRIC 0 30 Metric: 0, 2 Values: ("requests waiting" <0>; UINT64; 0), ("requests at the driver" <1>; UINT64; 0)
            METRIC 0 30 Metric: 1, 2 Values: ("bytes read" <2>; UINT64; 0), ("bytes written" <3>; UINT64; 8192)
            LEAVE 0 30 Region: "busy" <0>
            IO_OPERATION_BEGIN 1 40 Handle: "dev 8:16" <1>, Mode: WRITE, Operation Flags: {NON_BLOCKING}, Bytes Request: 4096, Matching Id: 1
                ("Sector" <4>; UINT64; 0), ("pid" <5>; INT32; 7), ("tid" <6>; INT32; 7), ("operation" <7>; STRING; "discard" <2>)
            METRIC 1 40 Metric: 0, 2 Values: ("requests waiting" <0>; UINT64; 1), ("requests at the driver" <1>; UINT64; 0)
            IO_OPERATION_ISSUED 1 50 Handle: "dev 8:16" <1>, Matching Id: 1
            ENTER 1 50 Region: "busy" <0>
            METRIC 1 50 Metric: 0, 2 Values: ("requests waiting" <0>; UINT64; 0), ("requests at the driver" <1>; UINT64; 1)
            IO_OPERATION_COMPLETE 1 60 Handle: "dev 8:16" <1>, Bytes Result: UNDEFINED, Matching Id: 1
                ("errno" <0>; INT32; 5)
            METRIC 1 60 Metric: 0, 2 Values: ("requests waiting" <0>; UINT64; 0), ("requests at the driver" <1>; UINT64; 0)
            LEAVE 1 60 Region: "busy" <0>
            IO_OPERATION_BEGIN 0 70 Handle: "loop0" <0>, Mode: READ, Operation Flags: {NON_BLOCKING}, Bytes Request: 4096, Matching Id: 1
                ("Sector" <4>; UINT64; 4096), ("pid" <5>; INT32; 7), ("tid" <6>; INT32; 9)
            METRIC 0 70 Metric: 0, 2 Values: ("requests waiting" <0>; UINT64; 1), ("requests at the driver" <1>; UINT64; 0)
            IO_OPERATION_ISSUED 0 75 Handle: "loop0" <0>, Matching Id: 1
            IO_OPERATION_COMPLETE 0 75 Handle: "loop0" <0>, Bytes Result: UNDEFINED, Matching Id: 1
                ("truncated" <2>; UINT32; 1)
            METRIC 0 75 Metric: 0, 2 Values: ("requests waiting" <0>; UINT64; 0), ("requests at the driver" <1>; UINT64; 0)
        "#]],
    );
}

#[test]
fn requests_are_shown_on_threads_if_wanted() {
    let options = OtfOptions { block_on_threads: true, ..OtfOptions::default() };
    // The thread's own locations come last here: that of thread 7 closes only when its last request
    // has ended.
    check_with(
        options,
        REQUESTS,
        &["--location", "1"],
        |_| true,
        expect![[r#"
        IO_OPERATION_BEGIN 1 10 Handle: "loop0" <1>, Mode: WRITE, Operation Flags: {NON_BLOCKING}, Bytes Request: 4096, Matching Id: 3
            ("Sector" <4>; UINT64; 2048), ("pid" <5>; INT32; 7), ("tid" <6>; INT32; 7)
        IO_OPERATION_BEGIN 1 11 Handle: "loop0" <1>, Mode: WRITE, Operation Flags: {NON_BLOCKING}, Bytes Request: 4096, Matching Id: 7
            ("Sector" <4>; UINT64; 2056), ("pid" <5>; INT32; 7), ("tid" <6>; INT32; 7)
        IO_OPERATION_ISSUED 1 13 Handle: "loop0" <1>, Matching Id: 7
        IO_OPERATION_CANCELLED 1 13 Handle: "loop0" <1>, Matching Id: 7
            ("MergedInto" <8>; UINT64; 1)
        IO_OPERATION_ISSUED 1 20 Handle: "loop0" <1>, Matching Id: 3
        IO_OPERATION_COMPLETE 1 30 Handle: "loop0" <1>, Bytes Result: 8192, Matching Id: 3
        IO_OPERATION_BEGIN 1 40 Handle: "dev 8:16" <3>, Mode: WRITE, Operation Flags: {NON_BLOCKING}, Bytes Request: 4096, Matching Id: 3
            ("Sector" <4>; UINT64; 0), ("pid" <5>; INT32; 7), ("tid" <6>; INT32; 7), ("operation" <7>; STRING; "discard" <2>)
        IO_OPERATION_ISSUED 1 50 Handle: "dev 8:16" <3>, Matching Id: 3
        IO_OPERATION_COMPLETE 1 60 Handle: "dev 8:16" <3>, Bytes Result: UNDEFINED, Matching Id: 3
            ("errno" <0>; INT32; 5)
    "#]],
    );
}
