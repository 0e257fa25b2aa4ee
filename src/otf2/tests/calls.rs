//! System calls and their effects on descriptors.

use expect_test::expect;

use super::check;

#[test]
fn a_file_is_opened_read_and_closed() {
    check(
        "10 7/7 enter openat -100 1 524352
         20 7/7 exit openat 3 link /data/a file
         30 7/7 enter read 3 0 4096
         40 7/7 exit read 100
         50 7/7 enter pread64 3 0 10 1000
         60 7/7 exit pread64 -5
         70 7/7 enter lseek 3 -8 2
         80 7/7 exit lseek 92
         90 7/7 enter fsync 3
         91 7/7 exit fsync 0
         92 7/7 enter close 3
         93 7/7 exit close 0",
        expect![[r#"
            ENTER 0 10 Region: "openat" <0>
            IO_CREATE_HANDLE 0 20 Handle: "[POSIX I/O]file:///data/a" <0>, Access Mode: READ_ONLY, Creation Flags: {CREATE}, Status Flags: {CLOSE_ON_EXEC}
            LEAVE 0 20 Region: "openat" <0>
            ENTER 0 30 Region: "read" <1>
            IO_OPERATION_BEGIN 0 30 Handle: "[POSIX I/O]file:///data/a" <0>, Mode: READ, Operation Flags: NONE, Bytes Request: 4096, Matching Id: 0
            IO_OPERATION_COMPLETE 0 40 Handle: "[POSIX I/O]file:///data/a" <0>, Bytes Result: 100, Matching Id: 0
                ("Offset" <1>; UINT64; 0)
            LEAVE 0 40 Region: "read" <1>
            ENTER 0 50 Region: "pread64" <2>
            IO_OPERATION_BEGIN 0 50 Handle: "[POSIX I/O]file:///data/a" <0>, Mode: READ, Operation Flags: NONE, Bytes Request: 10, Matching Id: 0
                ("Offset" <1>; UINT64; 1000)
            IO_OPERATION_COMPLETE 0 60 Handle: "[POSIX I/O]file:///data/a" <0>, Bytes Result: UNDEFINED, Matching Id: 0
                ("errno" <0>; INT32; 5)
            LEAVE 0 60 Region: "pread64" <2>
                ("errno" <0>; INT32; 5)
            ENTER 0 70 Region: "lseek" <3>
            IO_SEEK 0 80 Handle: "[POSIX I/O]file:///data/a" <0>, Offset Request: -8, Whence: FROM_END, Offset Result: 92
            LEAVE 0 80 Region: "lseek" <3>
            ENTER 0 90 Region: "fsync" <4>
            IO_OPERATION_BEGIN 0 90 Handle: "[POSIX I/O]file:///data/a" <0>, Mode: FLUSH, Operation Flags: NONE, Bytes Request: UNDEFINED, Matching Id: 0
            IO_OPERATION_COMPLETE 0 91 Handle: "[POSIX I/O]file:///data/a" <0>, Bytes Result: UNDEFINED, Matching Id: 0
            LEAVE 0 91 Region: "fsync" <4>
            ENTER 0 92 Region: "close" <5>
            IO_DESTROY_HANDLE 0 93 Handle: "[POSIX I/O]file:///data/a" <0>
            LEAVE 0 93 Region: "close" <5>
        "#]],
    );
}

#[test]
fn failed_open_has_its_path() {
    check(
        "10 7/7 enter openat -100 1 0
         20 7/7 exit openat -2 argument lib/\\xff.so",
        expect![[r#"
            ENTER 0 10 Region: "openat" <0>
            LEAVE 0 20 Region: "openat" <0>
                ("errno" <0>; INT32; 2), ("path" <3>; STRING; "lib/\xff.so" <1>)
        "#]],
    );
}

#[test]
fn initially_open_handles_are_pre_created() {
    check(
        "snapshot 7 1 pipe:[9]
         10 7/7 enter write 1 0 5
         20 7/7 exit write 5
         30 7/7 enter write 2 0 5
         40 7/7 exit write 5
         50 7/7 enter close 1
         51 7/7 exit close 0
         60 7/7 enter write 1 0 5
         61 7/7 exit write -9",
        expect![[r#"
            ENTER 0 10 Region: "write" <0>
            IO_OPERATION_BEGIN 0 10 Handle: "pipe:[9]" <0>, Mode: WRITE, Operation Flags: NONE, Bytes Request: 5, Matching Id: 0
            IO_OPERATION_COMPLETE 0 20 Handle: "pipe:[9]" <0>, Bytes Result: 5, Matching Id: 0
            LEAVE 0 20 Region: "write" <0>
            ENTER 0 30 Region: "write" <0>
            IO_OPERATION_BEGIN 0 30 Handle: "stderr" <1>, Mode: WRITE, Operation Flags: NONE, Bytes Request: 5, Matching Id: 0
            IO_OPERATION_COMPLETE 0 40 Handle: "stderr" <1>, Bytes Result: 5, Matching Id: 0
            LEAVE 0 40 Region: "write" <0>
            ENTER 0 50 Region: "close" <1>
            IO_DESTROY_HANDLE 0 51 Handle: "pipe:[9]" <0>
            LEAVE 0 51 Region: "close" <1>
            ENTER 0 60 Region: "write" <0>
            IO_OPERATION_BEGIN 0 60 Handle: "stdout" <2>, Mode: WRITE, Operation Flags: NONE, Bytes Request: 5, Matching Id: 0
            IO_OPERATION_COMPLETE 0 61 Handle: "stdout" <2>, Bytes Result: UNDEFINED, Matching Id: 0
                ("errno" <0>; INT32; 9)
            LEAVE 0 61 Region: "write" <0>
                ("errno" <0>; INT32; 9)
        "#]],
    );
}

#[test]
fn a_pre_created_handle_that_was_closed_is_created_when_it_comes_back() {
    check(
        "10 7/7 enter read 5 0 1
         11 7/7 exit read 1
         20 7/7 enter close 5
         21 7/7 exit close 0
         30 7/7 enter read 5 0 1
         31 7/7 exit read 1
         40 7/7 enter read 5 0 1
         41 7/7 exit read 0",
        expect![[r#"
            ENTER 0 10 Region: "read" <0>
            IO_OPERATION_BEGIN 0 10 Handle: "fd 5" <0>, Mode: READ, Operation Flags: NONE, Bytes Request: 1, Matching Id: 0
            IO_OPERATION_COMPLETE 0 11 Handle: "fd 5" <0>, Bytes Result: 1, Matching Id: 0
            LEAVE 0 11 Region: "read" <0>
            ENTER 0 20 Region: "close" <1>
            IO_DESTROY_HANDLE 0 21 Handle: "fd 5" <0>
            LEAVE 0 21 Region: "close" <1>
            ENTER 0 30 Region: "read" <0>
            IO_CREATE_HANDLE 0 30 Handle: "fd 5" <1>, Access Mode: READ_WRITE, Creation Flags: NONE, Status Flags: NONE
            IO_OPERATION_BEGIN 0 30 Handle: "fd 5" <1>, Mode: READ, Operation Flags: NONE, Bytes Request: 1, Matching Id: 0
            IO_OPERATION_COMPLETE 0 31 Handle: "fd 5" <1>, Bytes Result: 1, Matching Id: 0
            LEAVE 0 31 Region: "read" <0>
            ENTER 0 40 Region: "read" <0>
            IO_OPERATION_BEGIN 0 40 Handle: "fd 5" <1>, Mode: READ, Operation Flags: NONE, Bytes Request: 1, Matching Id: 0
            IO_OPERATION_COMPLETE 0 41 Handle: "fd 5" <1>, Bytes Result: 0, Matching Id: 0
            LEAVE 0 41 Region: "read" <0>
        "#]],
    );
}

#[test]
fn duplicates_and_their_flags() {
    check(
        "10 7/7 enter openat -100 1 1
         11 7/7 exit openat 3 link /a file
         20 7/7 enter dup2 3 1
         21 7/7 exit dup2 1
         30 7/7 enter dup3 3 4 524288
         31 7/7 exit dup3 4
         40 7/7 enter fcntl 4 4 1024
         41 7/7 exit fcntl 0
         50 7/7 enter fcntl 4 2 0
         51 7/7 exit fcntl 0
         60 7/7 enter dup2 4 3
         61 7/7 exit dup2 3",
        expect![[r#"
            ENTER 0 10 Region: "openat" <0>
            IO_CREATE_HANDLE 0 11 Handle: "[POSIX I/O]file:///a" <0>, Access Mode: WRITE_ONLY, Creation Flags: NONE, Status Flags: NONE
            LEAVE 0 11 Region: "openat" <0>
            ENTER 0 20 Region: "dup2" <1>
            IO_DUPLICATE_HANDLE 0 21 Old Handle: "[POSIX I/O]file:///a" <0>, New Handle: "[POSIX I/O]file:///a" <1>, Status Flags: NONE
            LEAVE 0 21 Region: "dup2" <1>
            ENTER 0 30 Region: "dup3" <2>
            IO_DUPLICATE_HANDLE 0 31 Old Handle: "[POSIX I/O]file:///a" <0>, New Handle: "[POSIX I/O]file:///a" <2>, Status Flags: {CLOSE_ON_EXEC}
            LEAVE 0 31 Region: "dup3" <2>
            ENTER 0 40 Region: "fcntl" <3>
            IO_CHANGE_FLAGS 0 41 Handle: "[POSIX I/O]file:///a" <2>, Status Flags: {CLOSE_ON_EXEC, APPEND}
            LEAVE 0 41 Region: "fcntl" <3>
            ENTER 0 50 Region: "fcntl" <3>
            IO_CHANGE_FLAGS 0 51 Handle: "[POSIX I/O]file:///a" <2>, Status Flags: {APPEND}
            LEAVE 0 51 Region: "fcntl" <3>
            ENTER 0 60 Region: "dup2" <1>
            IO_DESTROY_HANDLE 0 61 Handle: "[POSIX I/O]file:///a" <0>
            IO_DUPLICATE_HANDLE 0 61 Old Handle: "[POSIX I/O]file:///a" <2>, New Handle: "[POSIX I/O]file:///a" <0>, Status Flags: {APPEND}
            LEAVE 0 61 Region: "dup2" <1>
        "#]],
    );
}

#[test]
fn exiting_parent_and_child_destroy_their_handles() {
    check(
        "10 7/7 enter openat -100 1 0
         11 7/7 exit openat 3 link /a file
         20 7/7 fork 8/8
         30 8/8 enter read 3 0 9
         31 8/8 exit read 9
         40 8/8 comm cat exec
         50 8/8 enter openat -100 1 0
         51 8/8 exit openat 4 link /b file
         60 8/8 death
         70 7/7 enter close 3
         71 7/7 exit close 0
         80 7/7 death",
        expect![[r#"
            ENTER 0 10 Region: "openat" <0>
            IO_CREATE_HANDLE 0 11 Handle: "[POSIX I/O]file:///a" <0>, Access Mode: READ_ONLY, Creation Flags: NONE, Status Flags: NONE
            LEAVE 0 11 Region: "openat" <0>
            ENTER 1 30 Region: "read" <1>
            IO_OPERATION_BEGIN 1 30 Handle: "[POSIX I/O]file:///a" <1>, Mode: READ, Operation Flags: NONE, Bytes Request: 9, Matching Id: 2
            IO_OPERATION_COMPLETE 1 31 Handle: "[POSIX I/O]file:///a" <1>, Bytes Result: 9, Matching Id: 2
                ("Offset" <1>; UINT64; 0)
            LEAVE 1 31 Region: "read" <1>
            ENTER 1 50 Region: "openat" <0>
            IO_CREATE_HANDLE 1 51 Handle: "[POSIX I/O]file:///b" <2>, Access Mode: READ_ONLY, Creation Flags: NONE, Status Flags: NONE
            LEAVE 1 51 Region: "openat" <0>
            IO_DESTROY_HANDLE 1 60 Handle: "[POSIX I/O]file:///a" <1>
            IO_DESTROY_HANDLE 1 60 Handle: "[POSIX I/O]file:///b" <2>
            ENTER 0 70 Region: "close" <2>
            IO_DESTROY_HANDLE 0 71 Handle: "[POSIX I/O]file:///a" <0>
            LEAVE 0 71 Region: "close" <2>
        "#]],
    );
}

#[test]
fn last_thread_closes_the_descriptors() {
    check(
        "10 7/7 enter openat -100 1 0
         11 7/7 exit openat 3 link /a file
         20 7/7 fork 7/9
         30 7/7 death
         40 7/9 enter read 3 0 9
         41 7/9 exit read 9
         50 7/9 death",
        expect![[r#"
            ENTER 0 10 Region: "openat" <0>
            IO_CREATE_HANDLE 0 11 Handle: "[POSIX I/O]file:///a" <0>, Access Mode: READ_ONLY, Creation Flags: NONE, Status Flags: NONE
            LEAVE 0 11 Region: "openat" <0>
            ENTER 1 40 Region: "read" <1>
            IO_OPERATION_BEGIN 1 40 Handle: "[POSIX I/O]file:///a" <0>, Mode: READ, Operation Flags: NONE, Bytes Request: 9, Matching Id: 2
            IO_OPERATION_COMPLETE 1 41 Handle: "[POSIX I/O]file:///a" <0>, Bytes Result: 9, Matching Id: 2
                ("Offset" <1>; UINT64; 0)
            LEAVE 1 41 Region: "read" <1>
            IO_DESTROY_HANDLE 1 50 Handle: "[POSIX I/O]file:///a" <0>
        "#]],
    );
}

#[test]
fn exec_closes_marked_handles() {
    check(
        "10 7/7 enter openat -100 1 524288
         11 7/7 exit openat 3 link /a file
         20 7/7 enter openat -100 1 0
         21 7/7 exit openat 4 link /b file
         30 7/7 comm cat exec
         40 7/7 enter read 4 0 1
         41 7/7 exit read 1",
        expect![[r#"
            ENTER 0 10 Region: "openat" <0>
            IO_CREATE_HANDLE 0 11 Handle: "[POSIX I/O]file:///a" <0>, Access Mode: READ_ONLY, Creation Flags: NONE, Status Flags: {CLOSE_ON_EXEC}
            LEAVE 0 11 Region: "openat" <0>
            ENTER 0 20 Region: "openat" <0>
            IO_CREATE_HANDLE 0 21 Handle: "[POSIX I/O]file:///b" <1>, Access Mode: READ_ONLY, Creation Flags: NONE, Status Flags: NONE
            LEAVE 0 21 Region: "openat" <0>
            IO_DESTROY_HANDLE 0 30 Handle: "[POSIX I/O]file:///a" <0>
            ENTER 0 40 Region: "read" <1>
            IO_OPERATION_BEGIN 0 40 Handle: "[POSIX I/O]file:///b" <1>, Mode: READ, Operation Flags: NONE, Bytes Request: 1, Matching Id: 0
            IO_OPERATION_COMPLETE 0 41 Handle: "[POSIX I/O]file:///b" <1>, Bytes Result: 1, Matching Id: 0
                ("Offset" <1>; UINT64; 0)
            LEAVE 0 41 Region: "read" <1>
        "#]],
    );
}

#[test]
fn unfinished_operations_are_ended() {
    check(
        "10 7/7 enter read 3 0 9
         20 7/7 enter sendfile64 4 3 0 9
         30 7/7 death
         40 8/8 enter openat -100 1 0",
        expect![[r#"
            ENTER 0 10 Region: "read" <0>
            IO_OPERATION_BEGIN 0 10 Handle: "fd 3" <0>, Mode: READ, Operation Flags: NONE, Bytes Request: 9, Matching Id: 0
            IO_OPERATION_COMPLETE 0 20 Handle: "fd 3" <0>, Bytes Result: UNDEFINED, Matching Id: 0
                ("truncated" <2>; UINT32; 1)
            LEAVE 0 20 Region: "read" <0>
                ("truncated" <2>; UINT32; 1)
            ENTER 0 20 Region: "sendfile64" <1>
            IO_OPERATION_BEGIN 0 20 Handle: "fd 3" <0>, Mode: READ, Operation Flags: NONE, Bytes Request: 9, Matching Id: 0
            IO_OPERATION_BEGIN 0 20 Handle: "fd 4" <1>, Mode: WRITE, Operation Flags: NONE, Bytes Request: 9, Matching Id: 1
            IO_OPERATION_COMPLETE 0 30 Handle: "fd 4" <1>, Bytes Result: UNDEFINED, Matching Id: 1
                ("truncated" <2>; UINT32; 1)
            IO_OPERATION_COMPLETE 0 30 Handle: "fd 3" <0>, Bytes Result: UNDEFINED, Matching Id: 0
                ("truncated" <2>; UINT32; 1)
            LEAVE 0 30 Region: "sendfile64" <1>
                ("truncated" <2>; UINT32; 1)
            IO_DESTROY_HANDLE 0 30 Handle: "fd 3" <0>
            IO_DESTROY_HANDLE 0 30 Handle: "fd 4" <1>
            ENTER 1 40 Region: "openat" <2>
            LEAVE 1 45 Region: "openat" <2>
                ("truncated" <2>; UINT32; 1)
        "#]],
    );
}

#[test]
fn a_transfer_reads_and_writes() {
    check(
        "10 7/7 enter sendfile64 4 3 0 9
         20 7/8 enter sendfile64 6 5 0 9
         30 7/7 exit sendfile64 9
         40 7/7 enter splice 3 0 4 0 7
         50 7/7 exit splice -32
         60 7/8 exit sendfile64 2",
        expect![[r#"
            ENTER 0 10 Region: "sendfile64" <0>
            IO_OPERATION_BEGIN 0 10 Handle: "fd 3" <0>, Mode: READ, Operation Flags: NONE, Bytes Request: 9, Matching Id: 0
            IO_OPERATION_BEGIN 0 10 Handle: "fd 4" <1>, Mode: WRITE, Operation Flags: NONE, Bytes Request: 9, Matching Id: 1
            ENTER 1 20 Region: "sendfile64" <0>
            IO_OPERATION_BEGIN 1 20 Handle: "fd 5" <2>, Mode: READ, Operation Flags: NONE, Bytes Request: 9, Matching Id: 2
            IO_OPERATION_BEGIN 1 20 Handle: "fd 6" <3>, Mode: WRITE, Operation Flags: NONE, Bytes Request: 9, Matching Id: 3
            IO_OPERATION_COMPLETE 0 30 Handle: "fd 4" <1>, Bytes Result: 9, Matching Id: 1
            IO_OPERATION_COMPLETE 0 30 Handle: "fd 3" <0>, Bytes Result: 9, Matching Id: 0
            LEAVE 0 30 Region: "sendfile64" <0>
            ENTER 0 40 Region: "splice" <1>
            IO_OPERATION_BEGIN 0 40 Handle: "fd 3" <0>, Mode: READ, Operation Flags: NONE, Bytes Request: 7, Matching Id: 0
            IO_OPERATION_BEGIN 0 40 Handle: "fd 4" <1>, Mode: WRITE, Operation Flags: NONE, Bytes Request: 7, Matching Id: 1
            IO_OPERATION_COMPLETE 0 50 Handle: "fd 4" <1>, Bytes Result: UNDEFINED, Matching Id: 1
                ("errno" <0>; INT32; 32)
            IO_OPERATION_COMPLETE 0 50 Handle: "fd 3" <0>, Bytes Result: UNDEFINED, Matching Id: 0
                ("errno" <0>; INT32; 32)
            LEAVE 0 50 Region: "splice" <1>
                ("errno" <0>; INT32; 32)
            IO_OPERATION_COMPLETE 1 60 Handle: "fd 6" <3>, Bytes Result: 2, Matching Id: 3
            IO_OPERATION_COMPLETE 1 60 Handle: "fd 5" <2>, Bytes Result: 2, Matching Id: 2
            LEAVE 1 60 Region: "sendfile64" <0>
        "#]],
    );
}

#[test]
fn a_descriptor_used_again_before_its_close_has_ended() {
    check(
        "10 7/7 enter openat -100 1 0
         11 7/7 exit openat 3 link /a file
         20 7/7 enter close 3
         21 7/8 enter openat -100 1 0
         22 7/8 exit openat 3 link /a file
         23 7/7 exit close 0
         30 7/8 enter read 3 0 1
         31 7/8 exit read 1
         40 7/8 enter close 3
         41 7/8 exit close 0",
        expect![[r#"
            ENTER 0 10 Region: "openat" <0>
            IO_CREATE_HANDLE 0 11 Handle: "[POSIX I/O]file:///a" <0>, Access Mode: READ_ONLY, Creation Flags: NONE, Status Flags: NONE
            LEAVE 0 11 Region: "openat" <0>
            ENTER 0 20 Region: "close" <1>
            ENTER 1 21 Region: "openat" <0>
            IO_DESTROY_HANDLE 1 22 Handle: "[POSIX I/O]file:///a" <0>
            IO_CREATE_HANDLE 1 22 Handle: "[POSIX I/O]file:///a" <0>, Access Mode: READ_ONLY, Creation Flags: NONE, Status Flags: NONE
            LEAVE 1 22 Region: "openat" <0>
            LEAVE 0 23 Region: "close" <1>
            ENTER 1 30 Region: "read" <2>
            IO_OPERATION_BEGIN 1 30 Handle: "[POSIX I/O]file:///a" <0>, Mode: READ, Operation Flags: NONE, Bytes Request: 1, Matching Id: 2
            IO_OPERATION_COMPLETE 1 31 Handle: "[POSIX I/O]file:///a" <0>, Bytes Result: 1, Matching Id: 2
                ("Offset" <1>; UINT64; 0)
            LEAVE 1 31 Region: "read" <2>
            ENTER 1 40 Region: "close" <1>
            IO_DESTROY_HANDLE 1 41 Handle: "[POSIX I/O]file:///a" <0>
            LEAVE 1 41 Region: "close" <1>
        "#]],
    );
}

#[test]
fn a_file_that_is_renamed_stays_one_file() {
    check(
        "root 7 /
         10 7/7 enter openat -100 0 0
         11 7/7 exit openat 3 link /data/a file
         12 7/7 enter rename 0 0
         13 7/7 exit rename 0 argument /data/a second /data/b
         14 7/7 enter read 3 0 1
         15 7/7 exit read 1
         16 7/7 fork 8/8
         17 8/8 enter read 3 0 1
         18 8/8 exit read 1
         19 8/8 enter unlink 0
         20 8/8 exit unlink 0 argument /data/b",
        expect![[r#"
            ENTER 0 10 Region: "openat" <0>
            IO_CREATE_HANDLE 0 11 Handle: "[POSIX I/O]file:///data/a" <0>, Access Mode: READ_ONLY, Creation Flags: NONE, Status Flags: NONE
            LEAVE 0 11 Region: "openat" <0>
            ENTER 0 12 Region: "rename" <1>
            LEAVE 0 13 Region: "rename" <1>
                ("path" <3>; STRING; "/data/a" <1>), ("path2" <9>; STRING; "/data/b" <2>)
            ENTER 0 14 Region: "read" <2>
            IO_OPERATION_BEGIN 0 14 Handle: "[POSIX I/O]file:///data/a" <0>, Mode: READ, Operation Flags: NONE, Bytes Request: 1, Matching Id: 0
            IO_OPERATION_COMPLETE 0 15 Handle: "[POSIX I/O]file:///data/a" <0>, Bytes Result: 1, Matching Id: 0
                ("Offset" <1>; UINT64; 0)
            LEAVE 0 15 Region: "read" <2>
            ENTER 1 17 Region: "read" <2>
            IO_OPERATION_BEGIN 1 17 Handle: "[POSIX I/O]file:///data/a" <1>, Mode: READ, Operation Flags: NONE, Bytes Request: 1, Matching Id: 2
            IO_OPERATION_COMPLETE 1 18 Handle: "[POSIX I/O]file:///data/a" <1>, Bytes Result: 1, Matching Id: 2
                ("Offset" <1>; UINT64; 1)
            LEAVE 1 18 Region: "read" <2>
            ENTER 1 19 Region: "unlink" <3>
            IO_DELETE_FILE 1 20 I/O Paradigm: "POSIX I/O" <0>, File: "file:///data/b" <1>
            LEAVE 1 20 Region: "unlink" <3>
                ("path" <3>; STRING; "/data/b" <2>)
        "#]],
    );
}
