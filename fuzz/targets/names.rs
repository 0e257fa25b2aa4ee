//! Untrusted names in all formats of output: a path, NUL, the name of a thread.
#![no_main]

use std::io::Write as _;
use std::sync::Arc;

use iotrace_perf::capture::header::Header;
use iotrace_perf::event::syscall_table::CallId;
use iotrace_perf::operation::model::{
    FilePath, OpenFile, PathArgument, PathArguments, PathSource, ProcessInfo, ProcessKey,
    SyscallOperation, ThreadInfo, ThreadKey,
};
use iotrace_perf::operation::{Sink, Step};
use iotrace_perf::text::escape::{shown, unshown};
use iotrace_perf::text::table::{Cell, Column, Report, Table, TableFormat, TextStyle};
use iotrace_perf::units::{CpuId, Fd, KernelTime, Pid, Tid};
use iotrace_perf_fuzz::halves;
use iotrace_perf_fuzz::output::{Outputs, check};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fn seeds() {
    iotrace_perf_fuzz::seeds(|give| {
        let names: [&[u8]; 7] = [
            b"/etc/passwd\0cat",
            b"/a b/\n\r\t\x1b[2J\x7f\0\x1b]0;x\x07",
            b"/\xff\xfe\xc3(\0\xed\xa0\x80",
            "/\u{202e}ü\u{85}\u{2028}\u{9b}\0\u{feff}ß".as_bytes(),
            b"a,\"b\",;'<>[x]?@1\0\\x41\\",
            b"/proc/1/fd/3 (deleted)\0",
            b"\0a",
        ];
        names.iter().for_each(|it| give(it));
        give(&vec![b'\n'; 4096]);
    });
}

/// Bytes of a member, from its text or, if there are any, from its hexadecimal digits.
fn member(object: &Value, key: &str) -> Vec<u8> {
    let text = object[key].as_str().unwrap_or_else(|| panic!("{key} in {object}"));
    let Some(digits) = object.get(format!("{key}_bytes")) else { return text.into() };
    let digits = digits.as_str().expect("digits").as_bytes();
    let byte = |it: &[u8]| {
        u8::from_str_radix(std::str::from_utf8(it).expect("digits"), 16).expect("digits")
    };
    let bytes: Vec<u8> = digits.chunks(2).map(byte).collect();
    assert_eq!(unshown(text.as_bytes()).as_ref(), Some(&bytes), "both are equal");
    bytes
}

/// Fields of a line of CSV (RFC 4180), without the escapes of names.
fn fields(line: &str) -> Vec<Vec<u8>> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            _ => field.push(letter),
        }
    }
    assert!(!quoted, "{line}");
    fields.push(field);
    fields.iter().map(|it| unshown(it.as_bytes()).expect("it was escaped")).collect()
}

fn report(name: &[u8]) {
    let column = |key, rank| Column { key, title: key, rank };
    let columns = vec![column("name", Some(0)), column("n", None)];
    let table = Table {
        key: "t",
        title: "t".into(),
        columns,
        rows: vec![vec![Cell::Name(name.into()), Cell::Count(7)]],
    };
    let facts = vec![("name", "name", Cell::Name(name.into()))];
    let report = Report { kind: "k", facts, tables: vec![table], ..Report::default() };
    let print_in = |form, width| {
        let mut out = Vec::new();
        report.print(form, TextStyle { width, has_color: false }, &mut out).expect("memory");
        check(&out);
        String::from_utf8(out).expect("checked")
    };
    let print = |form| print_in(form, None);
    for width in [1, 30] {
        print_in(TableFormat::Text, Some(width));
    }
    assert!(print(TableFormat::Text).lines().any(|it| it.trim_start().starts_with("name")));
    let json: Value = serde_json::from_str(&print(TableFormat::Json)).expect("JSON");
    assert_eq!(member(&json, "name"), name);
    assert_eq!(member(&json["t"][0], "name"), name);
    let csv = print(TableFormat::Csv);
    let rows: Vec<Vec<Vec<u8>>> = csv.lines().map(fields).collect();
    assert!(
        rows.iter().any(|it| it[..2] == [b"facts".to_vec(), b"name".to_vec()] && it[2] == name)
    );
    assert!(rows.iter().any(|it| it.len() == 3 && it[0] == b"t" && it[1] == name && it[2] == b"7"));
}

fn operations(path: &[u8], comm: &[u8]) {
    let mut outputs = Outputs::new(&Header::default(), true);
    let (thread, process, pid, tid) = (ThreadKey(0), ProcessKey(0), Pid(7), Tid(8));
    let info = ThreadInfo { key: thread, process, tid, comm: comm.into() };
    let parent = ProcessInfo { comm: comm.into(), ..ProcessInfo::new(process, pid) };
    let given =
        |source| PathArgument { path: FilePath::new(path, source), absolute: Some(path.into()) };
    let file = OpenFile {
        id: 0,
        path: Some(FilePath::new(path, PathSource::Link)),
        first_path: None,
        given: None,
        stat: None,
        flags: None,
        pre_created: false,
    };
    let call = |name, named: Option<Box<PathArguments>>| SyscallOperation {
        call: CallId::by_name(name).expect("in the table"),
        thread,
        process,
        pid,
        tid,
        cpu: CpuId(0),
        start: KernelTime(1),
        end: Some(KernelTime(2)),
        args: [3; 6],
        ret: Some(0),
        fd: named.is_none().then_some(Fd(3)),
        file: None,
        named,
        target: None,
        offset: None,
        target_offset: None,
        flags_in_memory: None,
        resolve_in_memory: None,
        bytes_requested: None,
        spans: Vec::new(),
        chain: None,
    };
    let both = PathArguments {
        first: Some(given(PathSource::Kernel)),
        second: Some(given(PathSource::Argument)),
    };
    let read = SyscallOperation { file: Some(Arc::new(file)), ..call("read", None) };
    let rename = call("rename", Some(Box::new(both)));
    let steps = [
        Step::ProcessSeen(&parent),
        Step::ThreadSeen(&info),
        Step::SyscallBegun(&read),
        Step::SyscallEnded(&read, &[]),
        Step::SyscallEnded(&rename, &[]),
    ];
    for step in &steps {
        outputs.step(KernelTime(2), step).expect("memory");
    }
    let Outputs { lines, json, csv, rows, iotracer, ioreplay } = outputs;
    let text = |kept: Option<Vec<u8>>| String::from_utf8(kept.expect("kept")).expect("checked");
    let count = |text: &str| text.lines().count();
    assert_eq!(count(&text(lines.finish().expect("memory").kept)), 2);
    iotracer.finish().expect("memory").0.flush().expect("memory");
    ioreplay.finish().expect("memory").0.flush().expect("memory");
    for text in
        [text(json.finish().expect("memory").kept), text(rows.finish().expect("memory").kept)]
    {
        assert_eq!(count(&text), 2);
        for line in text.lines() {
            let object: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(member(&object, "path"), path);
            assert_eq!(member(&object, "comm"), comm);
        }
    }
    let csv = text(csv.finish().expect("memory").kept);
    let mut rows = csv.lines().map(fields);
    let head = rows.next().expect("the names of the fields");
    let place = |name: &str| head.iter().position(|it| it == name.as_bytes()).expect("a field");
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(
            (row.len(), &row[place("path")][..], &row[place("comm")][..]),
            (head.len(), path, comm)
        );
    }
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let (path, comm) = halves(data);
    for delimiters in [&b""[..], b"\"", b"<>", b"[", b" ", b"\\x0"] {
        let mut line = Vec::new();
        shown(&mut line, data, delimiters);
        check(&line);
        assert!(!line.contains(&b'\n'));
        if !delimiters.contains(&b'\\') {
            assert!(!line.iter().any(|it| delimiters.contains(it)));
            assert_eq!(unshown(&line).as_deref(), Some(data));
        }
    }
    let _ = unshown(data);
    report(data);
    operations(path, comm);
});
