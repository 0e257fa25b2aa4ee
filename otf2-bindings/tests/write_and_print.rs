//! A small archive with a record of every kind, compared with the output of `otf2-print`.

#[expect(dead_code, reason = "each test program uses a part of it")]
mod common;

use common::{Scratch, assert_valid, otf2_print, skip};
use otf2_sys::{
    Archive, AttributeRef, AttributeType, AttributeValue, EvtWriter, GlobalDefs, IoAccessMode,
    IoBegin, IoCreationFlags, IoFileRef, IoHandleFlags, IoHandleRef, IoOperationFlags,
    IoOperationMode, IoParadigm, IoParadigmClass, IoParadigmFlags, IoParadigmProperty,
    IoParadigmRef, IoStatusFlags, LocationGroupRef, LocationGroupType, LocationRef, LocationType,
    MetricBase, MetricMember, MetricMemberRef, MetricMode, MetricOccurrence, MetricRef,
    MetricScope, MetricType, Paradigm, RecorderKind, Region, RegionFlags, RegionRef, RegionRole,
    Result, SeekOption, SystemTreeDomain, SystemTreeNodeRef,
};

const READ: RegionRef = RegionRef::new(0);
const POSIX: IoParadigmRef = IoParadigmRef::new(0);
const FILE: IoFileRef = IoFileRef::new(0);
const DIRECTORY: IoFileRef = IoFileRef::new(1);
const STDIN: IoHandleRef = IoHandleRef::new(0);
const DATA: IoHandleRef = IoHandleRef::new(1);
const COPY: IoHandleRef = IoHandleRef::new(2);
const OFFSET: AttributeRef = AttributeRef::new(0);
const ERRNO: AttributeRef = AttributeRef::new(1);
const PATH: AttributeRef = AttributeRef::new(2);
const DEPTH: MetricRef = MetricRef::new(0);
const DEPTH_OF_GROUP: MetricRef = MetricRef::new(1);

fn begin(mode: IoOperationMode, flags: IoOperationFlags, id: u64) -> IoBegin {
    IoBegin { handle: DATA, mode, flags, bytes_request: Some(4096), matching_id: id }
}

fn write_thread(archive: &mut Archive, writer: &mut EvtWriter) -> Result<()> {
    let path = AttributeValue::String(archive.intern("/data/file")?);
    writer.enter(100, READ, &[(PATH, path)])?;
    let creation = IoCreationFlags::CREATE | IoCreationFlags::TRUNCATE;
    let status = IoStatusFlags::CLOSE_ON_EXEC;
    writer.io_create_handle(110, DATA, IoAccessMode::READ_WRITE, creation, status, &[])?;
    let read = begin(IoOperationMode::READ, IoOperationFlags::NONE, 2);
    writer.io_operation_begin(120, &read, &[(OFFSET, AttributeValue::Uint64(1 << 40))])?;
    writer.io_operation_complete(130, DATA, Some(100), 2, &[])?;
    writer.io_seek(140, DATA, -7, SeekOption::FROM_END, 93, &[])?;
    writer.io_duplicate_handle(150, DATA, COPY, IoStatusFlags::NONE, &[])?;
    let status = IoStatusFlags::APPEND | IoStatusFlags::NON_BLOCKING;
    writer.io_change_status_flags(160, COPY, status, &[])?;
    writer.io_destroy_handle(170, COPY, &[])?;
    writer.io_destroy_handle(175, DATA, &[])?;
    writer.io_delete_file(180, POSIX, FILE, &[])?;
    writer.leave(190, READ, &[(ERRNO, AttributeValue::Int32(-2))])
}

fn write_device(writer: &mut EvtWriter) -> Result<()> {
    let flags = IoOperationFlags::NON_BLOCKING;
    writer.io_operation_begin(200, &begin(IoOperationMode::WRITE, flags, 1), &[])?;
    writer.metric(200, DEPTH, &[1], &[])?;
    writer.io_operation_issued(210, DATA, 1, &[])?;
    writer.io_operation_begin(220, &begin(IoOperationMode::FLUSH, flags, 3), &[])?;
    writer.io_operation_issued(225, DATA, 3, &[])?;
    writer.io_operation_complete(230, DATA, None, 3, &[])?;
    writer.io_operation_cancelled(240, DATA, 1, &[])?;
    writer.metric(240, DEPTH_OF_GROUP, &[u64::MAX], &[])
}

fn define(defs: &mut GlobalDefs<'_>, thread: LocationRef, device: LocationRef) -> Result<()> {
    assert_eq!(defs.event_times(), Some((100, 240)));
    assert_eq!((defs.events(thread), defs.events(device)), (11, 8));
    defs.clock_properties(1_000_000_000, 100, 141, Some(1_700_000_000_000_000_000))?;
    let (root, disk) = (SystemTreeNodeRef::new(0), SystemTreeNodeRef::new(1));
    let (host, node, text) = (defs.string("host")?, defs.string("node")?, defs.string("text")?);
    defs.system_tree_node(root, host, node, None)?;
    defs.system_tree_node_domain(root, SystemTreeDomain::SHARED_MEMORY)?;
    defs.system_tree_node_property(root, text, AttributeValue::String(host))?;
    let (sda, class) = (defs.string("sda")?, defs.string("disk")?);
    defs.system_tree_node(disk, sda, class, Some(root))?;
    let (parent, child) = (LocationGroupRef::new(0), LocationGroupRef::new(1));
    let (shell, queue) = (defs.string("shell [1]")?, defs.string("sda queue")?);
    defs.location_group(parent, shell, LocationGroupType::PROCESS, root, None)?;
    defs.location_group(child, queue, LocationGroupType::PROCESS, disk, Some(parent))?;
    defs.location_group_property(parent, text, AttributeValue::Uint64(1))?;
    let (name, other) = (defs.string("shell:1")?, defs.string("sda requests")?);
    defs.location(thread, name, LocationType::CPU_THREAD, parent)?;
    defs.location(device, other, LocationType::CPU_THREAD, child)?;
    defs.location_property(thread, text, AttributeValue::Double(0.5))?;
    define_io(defs, root)?;
    define_metrics(defs, device)
}

fn define_io(defs: &mut GlobalDefs<'_>, root: SystemTreeNodeRef) -> Result<()> {
    let (posix, posix_io) = (defs.string("POSIX")?, defs.string("POSIX I/O")?);
    let (read, empty, version) = (defs.string("read")?, defs.string("")?, defs.string("2024")?);
    let region = Region {
        name: read,
        canonical_name: read,
        description: empty,
        role: RegionRole::FILE_IO,
        paradigm: Paradigm::NONE,
        flags: RegionFlags::NONE,
        source_file: posix_io,
        begin_line: 0,
        end_line: 0,
    };
    defs.region(READ, &region)?;
    let paradigm = IoParadigm {
        identification: posix,
        name: posix_io,
        class: IoParadigmClass::SERIAL,
        flags: IoParadigmFlags::OS,
        properties: &[(IoParadigmProperty::VERSION, AttributeValue::String(version))],
    };
    defs.io_paradigm(POSIX, &paradigm)?;
    let (file, directory) = (defs.string("/data/file")?, defs.string("/data")?);
    defs.io_regular_file(FILE, file, root)?;
    defs.io_directory(DIRECTORY, directory, root)?;
    defs.io_file_property(FILE, posix, AttributeValue::String(directory))?;
    let stdin = defs.string("stdin")?;
    defs.io_handle(STDIN, stdin, None, POSIX, IoHandleFlags::PRE_CREATED, None)?;
    defs.io_pre_created_handle_state(STDIN, IoAccessMode::READ_ONLY, IoStatusFlags::NONE)?;
    defs.io_handle(DATA, empty, Some(FILE), POSIX, IoHandleFlags::NONE, None)?;
    defs.io_handle(COPY, empty, Some(FILE), POSIX, IoHandleFlags::NONE, Some(DATA))?;
    for (attribute, name, attribute_type) in [
        (OFFSET, "Offset", AttributeType::UINT64),
        (ERRNO, "errno", AttributeType::INT32),
        (PATH, "path", AttributeType::STRING),
    ] {
        let name = defs.string(name)?;
        defs.attribute(attribute, name, empty, attribute_type)?;
    }
    Ok(())
}

fn define_metrics(defs: &mut GlobalDefs<'_>, device: LocationRef) -> Result<()> {
    let (name, unit) = (defs.string("in flight")?, defs.string("requests")?);
    let member = MetricMember {
        name,
        description: unit,
        metric_type: MetricType::OTHER,
        mode: MetricMode::ABSOLUTE_NEXT,
        base: MetricBase::DECIMAL,
        exponent: 0,
        unit,
    };
    let id = MetricMemberRef::new(0);
    defs.metric_member(id, &member)?;
    defs.metric_class(DEPTH, &[id], MetricOccurrence::ASYNCHRONOUS, RecorderKind::ABSTRACT)?;
    defs.metric_instance(DEPTH_OF_GROUP, DEPTH, device, MetricScope::LOCATION_GROUP, 1)
}

fn write_archive(dir: &Scratch) -> Result<()> {
    let mut archive = dir.archive()?;
    archive.set_creator("a test")?;
    archive.set_description("every kind of record")?;
    archive.set_machine_name("host")?;
    archive.set_property("Test::LONG_NAME", &"x".repeat(100_000))?;
    archive.set_property("TEST::EMPTY", "")?;
    let mut thread = archive.event_writer()?;
    let mut device = archive.event_writer()?;
    let locations = (thread.location(), device.location());
    write_thread(&mut archive, &mut thread)?;
    write_device(&mut device)?;
    assert_eq!(archive.close_event_writer(thread)?, 11);
    assert_eq!(archive.close_event_writer(device)?, 8);
    archive.finish(|defs| define(defs, locations.0, locations.1))
}

/// Checks that each expected line is found, with its words in this order, after the previous one.
fn assert_lines(printed: &str, expected: &[&str]) {
    let mut lines = printed.lines();
    for wanted in expected {
        let words: Vec<&str> =
            wanted.split_whitespace().map(|word| word.trim_end_matches(',')).collect();
        let found = lines.any(|line| {
            let mut rest = line;
            words.iter().all(|word| {
                rest.find(word).is_some_and(|at| {
                    rest = &rest[at + word.len()..];
                    true
                })
            })
        });
        assert!(found, "`{wanted}` is not, or not in this place, in:\n{printed}");
    }
}

const EVENTS: &[&str] = &[
    r#"ENTER 0 100 Region: "read" <0>"#,
    r#"ATTRIBUTES: ("path" <2>; STRING; "/data/file" <0>)"#,
    r#"IO_CREATE_HANDLE 0 110 <1> Mode: READ_WRITE Creation Flags: {CREATE, TRUNCATE} Status Flags: {CLOSE_ON_EXEC}"#,
    r#"IO_OPERATION_BEGIN 0 120 <1> Mode: READ Bytes Request: 4096 Matching Id: 2"#,
    r#"ATTRIBUTES: ("Offset" <0>; UINT64; 1099511627776)"#,
    "IO_OPERATION_COMPLETE 0 130 <1> Bytes Result: 100 Matching Id: 2",
    "IO_SEEK 0 140 <1> Offset Request: -7 Whence: FROM_END Offset Result: 93",
    "IO_DUPLICATE_HANDLE 0 150 Old Handle: <1> New Handle: <2>",
    "IO_CHANGE_FLAGS 0 160 <2> Status Flags: {APPEND, NON_BLOCKING}",
    "IO_DESTROY_HANDLE 0 170 <2>",
    "IO_DESTROY_HANDLE 0 175 <1>",
    r#"IO_DELETE_FILE 0 180 "POSIX I/O" <0>, File: "file:///data/file" <0>"#,
    r#"LEAVE 0 190 Region: "read" <0>"#,
    r#"ATTRIBUTES: ("errno" <1>; INT32; -2)"#,
    "IO_OPERATION_BEGIN 1 200 Mode: WRITE NON_BLOCKING Bytes Request: 4096 Matching Id: 1",
    r#"METRIC 1 200 ("in flight" <0>; UINT64; 1)"#,
    "IO_OPERATION_ISSUED 1 210 Matching Id: 1",
    "IO_OPERATION_BEGIN 1 220 Mode: FLUSH NON_BLOCKING Matching Id: 3",
    "IO_OPERATION_COMPLETE 1 230 Bytes Result: 18446744073709551615 Matching Id: 3",
    "IO_OPERATION_CANCELLED 1 240 Matching Id: 1",
    r#"METRIC 1 240 ("in flight" <0>; UINT64; 18446744073709551615)"#,
];

const DEFINITIONS: &[&str] = &[
    r#"STRING 0 "/data/file""#,
    "CLOCK_PROPERTIES 1000000000, 100, 141",
    r#"SYSTEM_TREE_NODE 0 "host", "node", Parent: UNDEFINED"#,
    r#"SYSTEM_TREE_NODE_DOMAIN "node::host" <0>, Domain: SHARED_MEMORY"#,
    r#"SYSTEM_TREE_NODE_PROPERTY "node::host" <0>, "text", STRING, "host""#,
    r#"SYSTEM_TREE_NODE 1 "sda", "disk", "node::host" <0>"#,
    r#"LOCATION_GROUP 0 "shell [1]", PROCESS, "node::host" <0>"#,
    r#"LOCATION_GROUP 1 "sda queue", PROCESS, "disk::sda" <1>"#,
    r#"LOCATION_GROUP_PROPERTY "shell [1]" <0>, "text", UINT64, Value: 1"#,
    r#"LOCATION 0 "shell:1", CPU_THREAD, Events: 11, "shell [1]" <0>"#,
    r#"LOCATION 1 "sda requests", CPU_THREAD, Events: 8, "sda queue" <1>"#,
    r#"LOCATION_PROPERTY "shell:1" <0>, "text", DOUBLE, Value: 0.5"#,
    r#"REGION 0 "read", Role: FILE_IO, Paradigm: NONE, Flags: NONE, File: "POSIX I/O""#,
    r#"IO_PARADIGM 0 "POSIX", "POSIX I/O", SERIAL, {OS}, (VERSION; STRING; "2024""#,
    r#"IO_REGULAR_FILE 0 "/data/file", Scope: "node::host" <0>"#,
    r#"IO_DIRECTORY 1 "/data", Scope: "node::host" <0>"#,
    r#"IO_FILE_PROPERTY "file:///data/file" <0>, "POSIX", STRING, "/data""#,
    r#"IO_HANDLE 0 "stdin", File: UNDEFINED, "POSIX I/O", {PRE_CREATED}, UNDEFINED, UNDEFINED"#,
    r#"IO_PRE_CREATED_HANDLE_STATE "stdin" <0>, READ_ONLY, Status Flags: NONE"#,
    r#"IO_HANDLE 1 "", File: "file:///data/file" <0>, "POSIX I/O", NONE, Parent: UNDEFINED"#,
    r#"IO_HANDLE 2 "", File: "file:///data/file" <0>, "POSIX I/O", NONE, Parent: <1>"#,
    r#"ATTRIBUTE 0 "Offset", Type: UINT64"#,
    r#"ATTRIBUTE 1 "errno", Type: INT32"#,
    r#"ATTRIBUTE 2 "path", Type: STRING"#,
    r#"METRIC_MEMBER 0 "in flight", OTHER, ABSOLUTE_NEXT, UINT64, DECIMAL, Exponent: 0, "requests""#,
    r#"METRIC_CLASS 0 ASYNCHRONOUS, ABSTRACT, "in flight" <0>"#,
    r#"METRIC_INSTANCE 1 Class: 0, "sda requests" <1>, LOCATION_GROUP "sda queue" <1>"#,
];

#[test]
fn every_kind_of_record_is_printed_as_written() -> Result<()> {
    let dir = Scratch::new("records");
    write_archive(&dir)?;
    let anchor = dir.path().join("traces.otf2");
    assert_valid(&anchor);
    let Some(events) = otf2_print(&[], &anchor) else {
        skip("otf2-print (Debian: otf2-tools) is not installed");
        return Ok(());
    };
    assert_lines(&events, EVENTS);
    let definitions = otf2_print(&["-G"], &anchor).unwrap_or_default();
    assert_lines(&definitions, DEFINITIONS);
    if otf2_sys::library()?.major >= 3 {
        assert_lines(&definitions, &[r#"LOCATION_GROUP 1 Creator: "shell [1]" <0>"#]);
    }
    let information = otf2_print(&["-I"], &anchor).unwrap_or_default();
    for text in ["a test", "every kind of record", "TEST::LONG_NAME"] {
        assert!(information.contains(text), "`{text}` is not in {information:.2000}");
    }
    Ok(())
}
