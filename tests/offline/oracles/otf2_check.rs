//! The judges of the other tests are judged here: each rule of the OTF2 checker fails on an archive
//! that breaks it, and the reader of strace's logs gets real and odd logs right.

use std::error::Error;

use crate::support::machine::requirements;
use crate::support::oracle::otf2_check::{Mode, Summary, Totals, check, check_text};
use crate::support::scratch_dir;
use otf2_sys::{
    Archive, IoAccessMode, IoBegin, IoCreationFlags, IoHandleFlags, IoHandleRef, IoOperationFlags,
    IoOperationMode, IoParadigm, IoParadigmClass, IoParadigmFlags, IoParadigmRef, IoStatusFlags,
    LocationGroupRef, LocationGroupType, LocationType, Options, SystemTreeNodeRef,
};

/// A valid archive: two threads of a process, a queue; as `otf2-print` prints it.
const DEFINITIONS: &str = r#"
=== OTF2-PRINT ===
=== Global Definitions =====
Definition                            ID  Attributes
--------------------------------------------------------------------------------
CLOCK_PROPERTIES                          Ticks per Seconds: 1000000000, Global Offset: 100, Length: 200, Date: 2023-11-14 22:13:20.000000000 +0000
STRING                                 0  ""
STRING                                 1  "host"
STRING                                 2  "odd "name" <7>, Scope: , Parent: UNDEFINED"
STRING                                 3  "sh"
STRING                                 4  "read"
STRING                                 5  "POSIX I/O"
STRING                                 6  "block layer I/O"
STRING                                 7  "sda"
SYSTEM_TREE_NODE                       0  Name: "host" <1>, Class: "" <0>, Parent: UNDEFINED
LOCATION_GROUP                         0  Name: "sh" <3>, Type: PROCESS, Parent: "::host" <0>, Creator: UNDEFINED
LOCATION_GROUP                         1  Name: "sda" <7>, Type: PROCESS, Parent: "::host" <0>, Creator: "sh" <0>
LOCATION                               0  Name: "sh" <3>, Type: CPU_THREAD, # Events: 15, Group: "sh" <0>
LOCATION                               1  Name: "read" <4>, Type: CPU_THREAD, # Events: 4, Group: "sh" <0>
LOCATION                               2  Name: "sda" <7>, Type: CPU_THREAD, # Events: 8, Group: "sda" <1>
REGION                                 0  Name: "read" <4> (Aka. "read" <4>), Descr.: "" <0>, Role: FILE_IO, Paradigm: NONE, Flags: NONE, File: "POSIX I/O" <5>, Begin: 0, End: 0
REGION                                 1  Name: "sh" <3> (Aka. "sh" <3>), Descr.: "" <0>, Role: FILE_IO, Paradigm: NONE, Flags: NONE, File: "POSIX I/O" <5>, Begin: 0, End: 0
IO_PARADIGM                            0  Identification: "sh" <3>, Name: "POSIX I/O" <5>, Class: SERIAL, Flags: {OS}, 0 Properties
IO_PARADIGM                            1  Identification: "sda" <7>, Name: "block layer I/O" <6>, Class: SERIAL, Flags: {OS}, 1 Property: (VERSION; STRING; "sh" <3>)
IO_REGULAR_FILE                        0  Name: "odd "name" <7>, Scope: , Parent: UNDEFINED" <2>, Scope: "::host" <0>
IO_DIRECTORY                           1  Name: "host" <1>, Scope: "::host" <0>
IO_HANDLE                              0  Name: "sda" <7>, File: UNDEFINED, I/O Paradigm: "block layer I/O" <1>, Flags: {PRE_CREATED, ALL_PROXY}, Communicator: UNDEFINED, Parent: UNDEFINED
IO_PRE_CREATED_HANDLE_STATE               Handle: "sda" <0>, Access Mode: READ_WRITE, Status Flags: NONE
IO_HANDLE                              1  Name: "" <0>, File: "file://odd "name" <7>, Scope: , Parent: UNDEFINED" <0>, I/O Paradigm: "POSIX I/O" <0>, Flags: NONE, Communicator: UNDEFINED, Parent: UNDEFINED
IO_HANDLE                              2  Name: "" <0>, File: "file://host" <1>, I/O Paradigm: "POSIX I/O" <0>, Flags: NONE, Communicator: UNDEFINED, Parent: "[POSIX I/O]x" <1>
METRIC_CLASS                           0  Occurrence: ASYNCHRONOUS, Kind: ABSTRACT, 1 Member: "in flight" <0>
"#;

const EVENTS: &str = r#"
=== OTF2-PRINT ===
=== Events =====
Event                                   Location            Timestamp  Attributes
--------------------------------------------------------------------------------
ENTER                                          0                  100  Region: "sh" <1>
                                                                       ADDITIONAL ATTRIBUTES: ("path" <2>; STRING; "/data/file" <0>)
ENTER                                          0                  110  Region: "read" <0>
IO_OPERATION_BEGIN                             1                  120  Handle: "[POSIX I/O]odd "name" <7>" <1>, Mode: READ, Operation Flags: NONE, Bytes Request: 4096, Matching Id: 2
IO_CREATE_HANDLE                               0                  120  Handle: "[POSIX I/O]odd "name" <7>" <1>, Access Mode: READ_WRITE, Creation Flags: {CREATE}, Status Flags: NONE
IO_OPERATION_BEGIN                             0                  130  Handle: "[POSIX I/O]odd "name" <7>" <1>, Mode: WRITE, Operation Flags: NONE, Bytes Request: 10, Matching Id: 0
IO_OPERATION_BEGIN                             2                  130  Handle: "sda" <0>, Mode: WRITE, Operation Flags: {NON_BLOCKING}, Bytes Request: 512, Matching Id: 1
IO_OPERATION_BEGIN                             2                  131  Handle: "sda" <0>, Mode: FLUSH, Operation Flags: {NON_BLOCKING}, Bytes Request: 18446744073709551615, Matching Id: 3
METRIC                                         2                  131  Metric: 0, 1 Value: ("in flight" <0>; UINT64; 2)
IO_OPERATION_ISSUED                            2                  140  Handle: "sda" <0>, Matching Id: 1
IO_OPERATION_ISSUED                            2                  141  Handle: "sda" <0>, Matching Id: 3
IO_OPERATION_TEST                              2                  142  Handle: "sda" <0>, Matching Id: 3
IO_OPERATION_COMPLETE                          0                  145  Handle: "[POSIX I/O]odd "name" <7>" <1>, Bytes Result: 10, Matching Id: 0
IO_OPERATION_COMPLETE                          1                  146  Handle: "[POSIX I/O]odd "name" <7>" <1>, Bytes Result: 18446744073709551615, Matching Id: 2
IO_OPERATION_BEGIN                             1                  147  Handle: "[POSIX I/O]odd "name" <7>" <1>, Mode: READ, Operation Flags: NONE, Bytes Request: 4096, Matching Id: 2
IO_OPERATION_COMPLETE                          2                  150  Handle: "sda" <0>, Bytes Result: 512, Matching Id: 1
IO_OPERATION_CANCELLED                         2                  151  Handle: "sda" <0>, Matching Id: 3
IO_SEEK                                        0                  160  Handle: "[POSIX I/O]odd "name" <7>" <1>, Offset Request: -7, Whence: FROM_END, Offset Result: 93
IO_DUPLICATE_HANDLE                            0                  170  Old Handle: "[POSIX I/O]odd "name" <7>" <1>, New Handle: "x" <2>, Status Flags: NONE
IO_CHANGE_FLAGS                                0                  180  Handle: "x" <2>, Status Flags: {APPEND, NON_BLOCKING}
IO_TRY_LOCK                                    0                  185  Handle: "x" <2>, Type: EXCLUSIVE
IO_DESTROY_HANDLE                              0                  190  Handle: "x" <2>
IO_CREATE_HANDLE                               0                  191  Handle: "x" <2>, Access Mode: READ_ONLY, Creation Flags: NONE, Status Flags: NONE
IO_DESTROY_HANDLE                              0                  200  Handle: "[POSIX I/O]odd "name" <7>" <1>
IO_OPERATION_COMPLETE                          1                  210  Handle: "[POSIX I/O]odd "name" <7>" <1>, Bytes Result: 6, Matching Id: 2
IO_DELETE_FILE                                 0                  220  I/O Paradigm: "POSIX I/O" <0>, File: "file://odd "name" <7>" <0>
LEAVE                                          0                  230  Region: "read" <0>
LEAVE                                          0                  300  Region: "sh" <1>
"#;

/// A mistake: what of the valid archive becomes what (the first place), and the message about it.
struct Mistake {
    what: &'static str,
    from: &'static str,
    to: &'static str,
    said: &'static str,
}

const fn mistake(
    what: &'static str,
    from: &'static str,
    to: &'static str,
    said: &'static str,
) -> Mistake {
    Mistake { what, from, to, said }
}

#[rustfmt::skip]
const IN_DEFINITIONS: &[Mistake] = &[
    mistake("number of events", "# Events: 4,", "# Events: 5,", "location 1 has 4 events, its definition says 5"),
    mistake("event before the clock", "Offset: 100, Length: 200", "Offset: 101, Length: 199", "Enter { region: 1 } at 100 is outside"),
    mistake("event after the clock", "Length: 200", "Length: 199", "Leave { region: 1 } at 300 is outside"),
    mistake("no clock", "CLOCK_PROPERTIES ", "OTHER ", "no CLOCK_PROPERTIES"),
    mistake("clock twice", "METRIC_CLASS                           0  ", "CLOCK_PROPERTIES                          Ticks per Seconds: 1, Global Offset: 100, Length: 200, Date: ", "CLOCK_PROPERTIES twice"),
    mistake("PRE_CREATED without state", "IO_PRE_CREATED_HANDLE_STATE ", "OTHER ", "PRE_CREATED handle 0 has 0 states"),
    mistake("state without PRE_CREATED", "{PRE_CREATED, ALL_PROXY}", "{ALL_PROXY}", "handle 0 is not PRE_CREATED, has a state"),
    mistake("state of an unknown handle", "Handle: \"sda\" <0>, Access", "Handle: \"sda\" <9>, Access", "state of handle 9, which is not defined"),
    mistake("two states", "IO_HANDLE                              1 ", "IO_PRE_CREATED_HANDLE_STATE               Handle: \"sda\" <0>, Access Mode: READ_WRITE, Status Flags: NONE\nIO_HANDLE                              1 ", "PRE_CREATED handle 0 has 2 states"),
    mistake("handle of an unknown file", "File: \"file://host\" <1>", "File: INVALID <5>", "IO_HANDLE 2: file 5 is not defined"),
    mistake("handle of an unknown paradigm", "\"block layer I/O\" <1>, Flags", "\"block layer I/O\" <4>, Flags", "IO_HANDLE 0: paradigm 4 is not defined"),
    mistake("handle of an unknown parent", "\"[POSIX I/O]x\" <1>", "INVALID <8>", "IO_HANDLE 2: parent 8 is not defined"),
    mistake("handle not defined", "IO_HANDLE                              2", "IO_HANDLE                              3", "handle 2 is not defined"),
    mistake("handle twice", "IO_HANDLE                              2", "IO_HANDLE                              1", "IO_HANDLE 1 is defined twice"),
    mistake("file in no node", "\"host\" <1>, Scope: \"::host\" <0>", "\"host\" <1>, Scope: INVALID <6>", "IO_DIRECTORY refers to a system tree node"),
    mistake("group in no node", "Parent: \"::host\" <0>, Creator: UNDEFINED", "Parent: INVALID <3>, Creator: UNDEFINED", "LOCATION_GROUP refers to a system tree node"),
    mistake("location in no group", "Group: \"sda\" <1>", "Group: INVALID <4>", "LOCATION 2 is in group 4, which is not defined"),
    mistake("location not defined", "LOCATION                               1 ", "LOCATION                               7 ", "location 1 is not defined"),
    mistake("region not defined", "REGION                                 0", "REGION                                 5", "region 0 is not defined"),
    mistake("paradigm of a deletion", "IO_PARADIGM                            0", "IO_PARADIGM                            5", "paradigm 0 or file 0 is not defined"),
    mistake("string not defined", "STRING                                 3 ", "STRING                                 8 ", "string 3 is not defined"),
    mistake("any other dangling reference", "Creator: \"sh\" <0>", "Creator: INVALID <3>", "LOCATION_GROUP refers to what is not defined"),
    mistake("line break in a name", "STRING                                 7  \"sda\"", "STRING                                 7  \"s\nda\"", "a line break in a name"),
];

#[rustfmt::skip]
const IN_EVENTS: &[Mistake] = &[
    mistake("time goes back", "0                  230  R", "0                  219  R", "location 0: time goes back, 220 to 219"),
    mistake("an event less", "IO_OPERATION_TEST                              2                  142  Handle: \"sda\" <0>, Matching Id: 3\n", "", "location 2 has 7 events, its definition says 8"),
    mistake("leave of another region", "230  Region: \"read\" <0>", "230  Region: \"sh\" <1>", "leaves region 1, but is in Some(0)"),
    mistake("leave without enter", "100  Region: \"sh\" <1>", "100  Region: \"read\" <0>", "leaves region 1, but is in Some(0)"),
    mistake("enter without leave", "LEAVE                                          0                  300", "ENTER                                          0                  300", "location 0 never leaves regions [1, 1]"),
    mistake("id used twice", "Request: 10, Matching Id: 0", "Request: 10, Matching Id: 2", "an operation with id 2 is open already on handle 1"),
    mistake("complete without begin", "Result: 512, Matching Id: 1", "Result: 512, Matching Id: 5", "no operation with id 5 is open on handle 0"),
    mistake("operation never ends", "Result: 512, Matching Id: 1", "Result: 512, Matching Id: 5", "operation 1 on handle 0 never ends"),
    mistake("complete on another handle", "\"sda\" <0>, Bytes Result: 512", "\"x\" <2>, Bytes Result: 512", "no operation with id 1 is open on handle 2"),
    mistake("complete before issue", "IO_OPERATION_ISSUED                            2                  140", "IO_OPERATION_TEST                              2                  140", "ends before Issued: handle 0 id 1"),
    mistake("cancelled before issue", "IO_OPERATION_ISSUED                            2                  141", "IO_OPERATION_TEST                              2                  141", "ends before Issued: handle 0 id 3"),
    mistake("issued twice", "141  Handle: \"sda\" <0>, Matching Id: 3", "141  Handle: \"sda\" <0>, Matching Id: 1", "issued twice: handle 0 id 1"),
    mistake("issue of a blocking operation", "Operation Flags: {NON_BLOCKING}, Bytes Request: 512", "Operation Flags: NONE, Bytes Request: 512", "issued, but not NON_BLOCKING: handle 0 id 1"),
    mistake("test without begin", "142  Handle: \"sda\" <0>, Matching Id: 3", "142  Handle: \"sda\" <0>, Matching Id: 9", "no operation with id 9 is open on handle 0"),
    mistake("cancel without begin", "151  Handle: \"sda\" <0>, Matching Id: 3", "151  Handle: \"sda\" <0>, Matching Id: 9", "no operation with id 9 is open on handle 0"),
    mistake("end in another group", "2                  150  Handle: \"sda\" <0>", "0                  150  Handle: \"sda\" <0>", "operation 1 on handle 0 began in another location group"),
    mistake("open handle created", "0                  191  Handle: \"x\" <2>", "0                  191  Handle: \"y\" <1>", "handle 1 is created, but active already"),
    mistake("PRE_CREATED handle created", "0                  191  Handle: \"x\" <2>", "0                  191  Handle: \"sda\" <0>", "handle 0 is created, but active already"),
    mistake("open handle made by duplication", "New Handle: \"x\" <2>", "New Handle: \"sda\" <0>", "handle 0 is made by duplication, but active already"),
    mistake("closed handle destroyed", "190  Handle: \"x\" <2>", "190  Handle: \"y\" <1>", "handle 1 is destroyed, but not active"),
    mistake("use before creation", "1                  120", "1                  119", "handle 1 is used by an operation, but not active"),
    mistake("closed handle duplicated", "Old Handle: \"[POSIX I/O]odd \"name\" <7>\" <1>", "Old Handle: \"x\" <2>", "handle 2 is duplicated, but not active"),
    mistake("closed handle used", "160  Handle: \"[POSIX I/O]odd \"name\" <7>\" <1>", "160  Handle: \"x\" <2>", "handle 2 is used, but not active"),
    mistake("flags of a closed handle", "180  Handle: \"x\" <2>", "180  Handle: \"x\" <9>", "handle 9 is not defined"),
    mistake("lock of a closed handle", "IO_TRY_LOCK                                    0", "IO_TRY_LOCK                                    2", "handle 2 is used, but not active"),
    mistake("operation on a closed handle", "130  Handle: \"[POSIX I/O]odd \"name\" <7>\" <1>, Mode: WRITE", "130  Handle: \"x\" <2>, Mode: WRITE", "handle 2 is used by an operation, but not active"),
    mistake("handle of another process", "2                  130  Handle: \"sda\" <0>", "2                  130  Handle: \"y\" <1>", "handle 1 is used by an operation, but not active"),
    mistake("buffer flush", "IO_OPERATION_TEST                              2                  142  Handle: \"sda\" <0>, Matching Id: 3", "BUFFER_FLUSH                                   2                  142  Stop Time: 143", "BUFFER_FLUSH"),
    mistake("unknown attribute", "(\"path\" <2>;", "(INVALID <2>;", "an attribute that is not defined"),
    mistake("unknown metric", "Metric: 0, 1 Value: (\"in flight\" <0>;", "Metric: INVALID <6>, 1 Value: (INVALID;", "refers to what is not defined"),
    mistake("deletion of an unknown file", "\"file://odd \"name\" <7>\" <0>", "INVALID <9>", "paradigm 0 or file 9 is not defined"),
    mistake("line that is no event", "LEAVE                                          0                  230", "LEAVE                                          0                  x", "event that cannot be read"),
    mistake("line break in a name", "                  230  Region: \"read\" <0>", "                  230  Region: \"re <0>\n ad\" <0>", "a line break in a name"),
];

#[test]
fn valid_archive_passes_and_is_summed_up() {
    let summary = check_text(DEFINITIONS, EVENTS).expect("the archive is valid");
    let odd = "odd \"name\" <7>, Scope: , Parent: UNDEFINED";
    let totals = |count, bytes, without_result, cancelled| Totals {
        count,
        bytes,
        without_result,
        cancelled,
    };
    let (posix, block) = ("POSIX I/O".to_owned(), "block layer I/O".to_owned());
    let expected = Summary {
        enters: [("read".to_owned(), 1), ("sh".to_owned(), 1)].into(),
        operations: [
            ((posix.clone(), Mode::Read), totals(2, 6, 1, 0)),
            ((posix, Mode::Write), totals(1, 10, 0, 0)),
            ((block.clone(), Mode::Write), totals(1, 512, 0, 0)),
            ((block, Mode::Flush), totals(1, 0, 0, 1)),
        ]
        .into(),
        locations: [(0, "sh".to_owned()), (1, "read".to_owned()), (2, "sda".to_owned())].into(),
        events_of: [(0, 15), (1, 4), (2, 8)].into(),
        groups: [(0, "sh".to_owned()), (1, "sda".to_owned())].into(),
        files: [(0, odd.to_owned()), (1, "host".to_owned())].into(),
        handle_files: [(1, odd.to_owned()), (2, "host".to_owned())].into(),
        events: 27,
        ended_after_destroy: 1,
        handles_left: 1,
    };
    assert_eq!(summary, expected);
    assert_eq!(summary.of_mode(Mode::Write), totals(2, 522, 0, 0));
}

#[test]
fn every_rule_can_fail() {
    for Mistake { what, from, to, said } in IN_DEFINITIONS {
        let definitions = DEFINITIONS.replacen(from, to, 1);
        assert_ne!(definitions, DEFINITIONS, "{what}: `{from}` is not in the archive");
        assert_said(what, said, check_text(&definitions, EVENTS));
    }
    for Mistake { what, from, to, said } in IN_EVENTS {
        let events = EVENTS.replacen(from, to, 1);
        assert_ne!(events, EVENTS, "{what}: `{from}` is not in the archive");
        assert_said(what, said, check_text(DEFINITIONS, &events));
    }
}

#[track_caller]
fn assert_said(what: &str, said: &str, result: Result<Summary, Vec<String>>) {
    let problems = result.expect_err(what);
    let found = problems.iter().any(|it| it.contains(said));
    assert!(!said.is_empty() && found, "{what}: `{said}` is not in {problems:#?}");
}

/// Writes an archive with a real library: one read, which ends or does not.
fn write_archive(archive: &mut Archive, ends: bool) -> otf2_sys::Result<otf2_sys::LocationRef> {
    let handle = IoHandleRef::new(0);
    let mut writer = archive.event_writer()?;
    let location = writer.location();
    let (mode, flags) = (IoAccessMode::READ_ONLY, IoStatusFlags::NONE);
    writer.io_create_handle(10, handle, mode, IoCreationFlags::NONE, flags, &[])?;
    let begin = IoBegin {
        handle,
        mode: IoOperationMode::READ,
        flags: IoOperationFlags::NONE,
        bytes_request: Some(4096),
        matching_id: 7,
    };
    writer.io_operation_begin(20, &begin, &[])?;
    if ends {
        writer.io_operation_complete(30, handle, Some(100), 7, &[])?;
    }
    archive.close_event_writer(writer)?;
    Ok(location)
}

fn write_and_check(ends: bool) -> Result<Result<Summary, Vec<String>>, Box<dyn Error>> {
    let dir = scratch_dir("otf2_semantics");
    let mut archive = Archive::create(dir.path(), "traces", Options::default())?;
    let location = write_archive(&mut archive, ends)?;
    archive.finish(|defs| -> otf2_sys::Result<()> {
        defs.clock_properties(1_000_000_000, 10, 20, None)?;
        let (name, path) = (defs.string("host")?, defs.string("/data/\"x\" <3>, Scope: y")?);
        let (node, group) = (SystemTreeNodeRef::new(0), LocationGroupRef::new(0));
        defs.system_tree_node(node, name, name, None)?;
        defs.location_group(group, name, LocationGroupType::PROCESS, node, None)?;
        defs.location(location, name, LocationType::CPU_THREAD, group)?;
        let paradigm = IoParadigm {
            identification: name,
            name,
            class: IoParadigmClass::SERIAL,
            flags: IoParadigmFlags::OS,
            properties: &[],
        };
        defs.io_paradigm(IoParadigmRef::new(0), &paradigm)?;
        let file = otf2_sys::IoFileRef::new(0);
        defs.io_regular_file(file, path, node)?;
        let (handle, posix) = (IoHandleRef::new(0), IoParadigmRef::new(0));
        defs.io_handle(handle, name, Some(file), posix, IoHandleFlags::NONE, None)
    })?;
    Ok(check(&dir.path().join("traces.otf2")))
}

#[test]
fn archives_are_read_through_otf2_print() -> Result<(), Box<dyn Error>> {
    if !requirements::require(requirements::Need::Otf2Print) {
        return Ok(());
    }
    let summary = write_and_check(true)?.expect("the archive is valid");
    assert_eq!((summary.events, summary.of_mode(Mode::Read).bytes), (3, 100));
    assert_eq!(summary.handle_files.get(&0).map(String::as_str), Some("/data/\"x\" <3>, Scope: y"));
    let problems = write_and_check(false)?.expect_err("an operation never ends");
    assert_eq!(problems, ["operation 7 on handle 0 never ends"]);
    let dir = scratch_dir("otf2_semantics");
    let problems = check(&dir.path().join("no.otf2")).expect_err("there is no archive");
    assert!(problems.iter().any(|it| it.contains("--silent")), "{problems:?}");
    Ok(())
}
