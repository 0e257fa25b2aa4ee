//! Contents of the definitions.

use expect_test::expect;

use super::super::OtfOptions;
use super::language::{make, otf2_print, printed};
use super::{MOUNTS, balance, check_with, skip};

const EVENTS: &str = "
    10 7/7 enter openat -100 1 0
    11 7/7 exit openat 3 link /a file
    20 7/7 enter openat -100 1 65536
    21 7/7 exit openat 4 link /net/d dir
    30 7/7 enter openat -100 1 0
    31 7/7 exit openat 5 late /a
    40 7/7 enter openat -100 1 0
    41 7/7 exit openat 6 argument a
    50 7/7 fork 8/8
    60 8/8 enter read 3 0 1
    61 8/8 exit read 1
    70 8/8 comm ca\u{1}t
    80 8/8 block getrq 7:0 F 0 +0";

#[test]
fn definitions_have_processes_and_places() {
    let wanted = |line: &str| {
        !["ATTRIBUTE", "STRING", "REGION", "METRIC"].iter().any(|word| line.starts_with(word))
    };
    check_with(
        OtfOptions::default(),
        EVENTS,
        &["-G"],
        wanted,
        expect![[r#"
            Definition ID Attributes
            CLOCK_PROPERTIES Ticks per Seconds: 1000000000, Global Offset: 5, Length: 80, Date: 1970-01-01 00:00:00.001000000 +0000
            SYSTEM_TREE_NODE 0 Name: "Linux" <37>, Class: "machine" <38>, Parent: UNDEFINED
            SYSTEM_TREE_NODE_DOMAIN System Tree Node: "machine::Linux" <0>, Domain: MACHINE
            SYSTEM_TREE_NODE 1 Name: "host" <39>, Class: "node" <40>, Parent: "machine::Linux" <0>
            SYSTEM_TREE_NODE_DOMAIN System Tree Node: "node::host" <1>, Domain: SHARED_MEMORY
            SYSTEM_TREE_NODE_PROPERTY System Tree Node: "node::host" <1>, Name: "Kernel release" <41>, Type: STRING, Value: "6.1" <42>
            SYSTEM_TREE_NODE_PROPERTY System Tree Node: "node::host" <1>, Name: "LOST" <43>, Type: STRING, Value: "3 records" <44>
            LOCATION_GROUP 0 Name: "process [7]" <45>, Type: PROCESS, Parent: "node::host" <1>, Creator: UNDEFINED
            LOCATION_GROUP_PROPERTY Location Group: "process [7]" <0>, Name: "ProcessId" <46>, Type: INT32, Value: 7
            LOCATION_GROUP 1 Name: "ca\x01t [8]" <47>, Type: PROCESS, Parent: "node::host" <1>, Creator: "process [7]" <0>
            LOCATION_GROUP_PROPERTY Location Group: "ca\x01t [8]" <1>, Name: "ProcessId" <46>, Type: INT32, Value: 8
            LOCATION_GROUP_PROPERTY Location Group: "ca\x01t [8]" <1>, Name: "ParentProcessId" <48>, Type: STRING, Value: "7" <49>
            SYSTEM_TREE_NODE 2 Name: "block devices" <50>, Class: "hardware" <51>, Parent: "node::host" <1>
            SYSTEM_TREE_NODE 3 Name: "loop0" <4>, Class: "disk" <52>, Parent: "hardware::block devices" <2>
            SYSTEM_TREE_NODE_PROPERTY System Tree Node: "disk::loop0" <3>, Name: "Device number" <53>, Type: STRING, Value: "7:0" <54>
            SYSTEM_TREE_NODE_PROPERTY System Tree Node: "disk::loop0" <3>, Name: "I/O scheduler" <55>, Type: STRING, Value: "none" <56>
            SYSTEM_TREE_NODE_PROPERTY System Tree Node: "disk::loop0" <3>, Name: "Model" <57>, Type: STRING, Value: "Odd\x1b" <58>
            SYSTEM_TREE_NODE_PROPERTY System Tree Node: "disk::loop0" <3>, Name: "Size (bytes)" <59>, Type: STRING, Value: "1048576" <60>
            SYSTEM_TREE_NODE_PROPERTY System Tree Node: "disk::loop0" <3>, Name: "Rotational" <61>, Type: STRING, Value: "no" <62>
            LOCATION_GROUP 2 Name: "loop0 queue" <63>, Type: PROCESS, Parent: "disk::loop0" <3>, Creator: UNDEFINED
            LOCATION 0 Name: "thread:7" <64>, Type: CPU_THREAD, # Events: 12, Group: "process [7]" <0>
            LOCATION_PROPERTY Location: "thread:7" <0>, Name: "ThreadId" <65>, Type: INT32, Value: 7
            LOCATION 1 Name: "ca\x01t:8" <66>, Type: CPU_THREAD, # Events: 4, Group: "ca\x01t [8]" <1>
            LOCATION_PROPERTY Location: "ca\x01t:8" <1>, Name: "ThreadId" <65>, Type: INT32, Value: 8
            LOCATION 2 Name: "loop0 requests" <67>, Type: CPU_THREAD, # Events: 5, Group: "loop0 queue" <2>
            IO_REGULAR_FILE 0 Name: "/a" <1>, Scope: "node::host" <1>
            IO_FILE_PROPERTY File: "file:///a" <0>, Name: "Mount Point" <71>, Type: STRING, Value: "/" <72>
            IO_FILE_PROPERTY File: "file:///a" <0>, Name: "Mount Source" <73>, Type: STRING, Value: "/dev/vda1" <74>
            IO_FILE_PROPERTY File: "file:///a" <0>, Name: "File system" <75>, Type: STRING, Value: "ext4" <76>
            IO_DIRECTORY 1 Name: "/net/d" <2>, Scope: "machine::Linux" <0>
            IO_FILE_PROPERTY File: "directory:///net/d" <1>, Name: "Mount Point" <71>, Type: STRING, Value: "/net" <77>
            IO_FILE_PROPERTY File: "directory:///net/d" <1>, Name: "Mount Source" <73>, Type: STRING, Value: "server:/export" <78>
            IO_FILE_PROPERTY File: "directory:///net/d" <1>, Name: "File system" <75>, Type: STRING, Value: "nfs4" <79>
            IO_REGULAR_FILE 2 Name: "/a" <1>, Scope: "node::host" <1>
            IO_FILE_PROPERTY File: "file:///a" <2>, Name: "Mount Point" <71>, Type: STRING, Value: "/" <72>
            IO_FILE_PROPERTY File: "file:///a" <2>, Name: "Mount Source" <73>, Type: STRING, Value: "/dev/vda1" <74>
            IO_FILE_PROPERTY File: "file:///a" <2>, Name: "File system" <75>, Type: STRING, Value: "ext4" <76>
            IO_FILE_PROPERTY File: "file:///a" <2>, Name: "Name certainty" <80>, Type: STRING, Value: "unverified" <81>
            IO_REGULAR_FILE 3 Name: "a" <3>, Scope: "node::host" <1>
            IO_FILE_PROPERTY File: "file://a" <3>, Name: "Name certainty" <80>, Type: STRING, Value: "as spelled by the program" <82>
            IO_PARADIGM 0 Identification: "POSIX" <83>, Name: "POSIX I/O" <69>, Class: SERIAL, Flags: {OS}, 0 Properties
            IO_PARADIGM 1 Identification: "block_io" <84>, Name: "block layer I/O" <85>, Class: SERIAL, Flags: {OS}, 0 Properties
            IO_HANDLE 0 Name: "" <0>, File: "file:///a" <0>, I/O Paradigm: "POSIX I/O" <0>, Flags: NONE, Communicator: UNDEFINED, Parent: UNDEFINED
            IO_HANDLE 1 Name: "" <0>, File: "directory:///net/d" <1>, I/O Paradigm: "POSIX I/O" <0>, Flags: NONE, Communicator: UNDEFINED, Parent: UNDEFINED
            IO_HANDLE 2 Name: "" <0>, File: "file:///a" <2>, I/O Paradigm: "POSIX I/O" <0>, Flags: NONE, Communicator: UNDEFINED, Parent: UNDEFINED
            IO_HANDLE 3 Name: "" <0>, File: "file://a" <3>, I/O Paradigm: "POSIX I/O" <0>, Flags: NONE, Communicator: UNDEFINED, Parent: UNDEFINED
            IO_HANDLE 4 Name: "" <0>, File: "file:///a" <0>, I/O Paradigm: "POSIX I/O" <0>, Flags: {PRE_CREATED}, Communicator: UNDEFINED, Parent: UNDEFINED
            IO_PRE_CREATED_HANDLE_STATE Handle: "[POSIX I/O]file:///a" <4>, Access Mode: READ_ONLY, Status Flags: NONE
            IO_HANDLE 5 Name: "loop0" <4>, File: UNDEFINED, I/O Paradigm: "block layer I/O" <1>, Flags: {PRE_CREATED}, Communicator: UNDEFINED, Parent: UNDEFINED
            IO_PRE_CREATED_HANDLE_STATE Handle: "loop0" <5>, Access Mode: READ_WRITE, Status Flags: NONE
        "#]],
    );
}

#[test]
fn an_archive_of_nothing_can_be_read() {
    check_with(
        OtfOptions::default(),
        "",
        &["-G"],
        |line| line.starts_with("LOCATION"),
        expect![[r#"
            LOCATION_GROUP 0 Name: "iotrace-perf" <41>, Type: PROCESS, Parent: "node::host" <1>, Creator: UNDEFINED
            LOCATION 0 Name: "nothing recorded" <42>, Type: CPU_THREAD, # Events: 0, Group: "iotrace-perf" <0>
        "#]],
    );
}

/// Fails if each open adds a handle: readers search a list for each handle, so archives would
/// become unreadable.
#[test]
fn opens_that_follow_each_other_share_a_handle() {
    // Descriptors 3 to 12 in turn, in two processes that have one of them at once, and two at the
    // end.
    let mut text = "5 7/7 fork 8/8\n".to_owned();
    let mut time = 10;
    for fd in 3..13 {
        for task in ["7/7", "8/8"] {
            for call in [
                "enter openat -100 1 0".to_owned(),
                format!("exit openat {fd} link /a file"),
                format!("enter read {fd} 0 1"),
                "exit read 1".to_owned(),
                format!("enter close {fd}"),
                "exit close 0".to_owned(),
            ] {
                time += 1;
                text += &format!("{time} {task} {call}\n");
            }
        }
    }
    for fd in [3, 4] {
        text += &format!("{} 7/7 enter openat -100 1 0\n", time + fd);
        text += &format!("{} 7/7 exit openat {fd} link /a file\n", time + fd);
    }
    let made = make(&text, OtfOptions::default(), MOUNTS).expect("an archive");
    assert_eq!((made.summary.files, made.summary.handles, made.summary.after_end), (1, 2, 0));
    let Some(program) = otf2_print() else { return skip() };
    balance::check(&printed(&program, &made, &["-G"]), &printed(&program, &made, &[]));
}
