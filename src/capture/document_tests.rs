//! Tests that compare docs/format.md with the code: a kind, field, key or limit that only one of
//! them has is a failure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::*;
use crate::capture::format::*;
use crate::capture::header::{
    CallChainKinds, CapsuleCounts, CaptureScope, Clock, Counts, Disk, End, Excerpt, FiredTrigger,
    Header, Host, Imported, JobPlace, LoopFile, Others, OthersOnDevice, Partition, ProcessRank,
    RecordLayout, RequestCount, RingCounts, RingInfo, Tracepoint, TracerCost, Unread, UnreadFile,
    UnreadProgram, UnreadPrograms,
};
use crate::capture::writer::Writer;

const DOCUMENT: &str = include_str!("../../docs/format.md");

/// Returns the text under this heading.
fn section(title: &str) -> &'static str {
    let mut sections = DOCUMENT.split("\n## ");
    sections.find_map(|it| it.strip_prefix(title)?.strip_prefix('\n')).expect(title)
}

/// Returns the cells of all table rows in the text whose first cell begins with a digit.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = text.lines().filter_map(|it| it.trim_start_matches("//! ").strip_prefix("| "));
    let rows = rows.map(|it| it.trim_end_matches('|').split(" | ").map(str::trim).collect());
    rows.filter(|it: &Vec<&str>| it[0].starts_with(|letter: char| letter.is_ascii_digit()))
}

#[track_caller]
fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(digits: &str) -> T {
    digits.trim().parse().expect(digits)
}

/// Returns the constants of the source: `NAME: TYPE = 3;`, `NAME: Self = Self(3);`.
fn constants(source: &str, of: &str) -> BTreeMap<u16, String> {
    let lines = source.lines().filter_map(|it| it.trim_start().split_once("const "));
    let numbers = lines.filter_map(|(_, rest)| {
        let (name, value) = rest.split_once(&format!(": {of} = "))?;
        let value = value.trim_start_matches("Self(").trim_end_matches([';', ')']);
        Some((number(value), name.to_owned()))
    });
    numbers.collect()
}

/// Returns the constants in the `impl` of this type.
fn constants_of(source: &str, of: &str) -> BTreeMap<u16, String> {
    let start = source.split(&format!("\nimpl {of} {{\n")).nth(1).expect(of);
    constants(start.split("\n}\n").next().expect("its end"), "Self")
}

/// Returns number and name of the rows whose second cell is a name in capitals.
fn named(text: &str) -> BTreeMap<u16, String> {
    let rows = rows(text).filter(|it| it[1].trim_matches('`').starts_with(char::is_uppercase));
    // The former number of NAME is the only name with more than one word.
    let name = |it: &str| it.trim_matches('`').replace("NAME, whole", "WHOLE_NAME");
    let name = |it: &str| name(it).split(' ').next().map(str::to_owned);
    rows.map(|it| (number(it[0]), name(it[1]).expect("a word"))).collect()
}

/// Returns the numbers that explain a field: `what 1 (0 = …, 1 = …)`, `codec: 0 stored, 1 zstd`.
fn listed(text: &str) -> BTreeSet<u8> {
    let items = text.split([',', '(', ':']).map(|it| it.trim().split(' '));
    items.filter_map(|mut it| it.next()?.parse().ok()).collect()
}

#[test]
fn magic_version_and_sizes() {
    let file: Vec<Vec<&str>> = rows(section("File")).collect();
    assert_eq!(
        file.iter().map(|it| it[0..2].join("+")).collect::<Vec<_>>(),
        ["0+8", "8+2", "10+2", "12+4"]
    );
    let mut log = Vec::new();
    Writer::new(&mut log).expect("memory");
    assert_eq!(log.len(), FILE_HEADER_BYTES);
    assert!(section("File").contains("Sixteen bytes") && FILE_HEADER_BYTES == 16);
    assert_eq!(log[..8], *b"IOTRCAP\n");
    assert_eq!(file[0][2], "magic: `IOTRCAP` and a newline");
    assert!(file[1][2].starts_with(&format!("major version, {MAJOR}:")));
    assert!(file[2][2].starts_with(&format!("minor version, {MINOR}:")));
    assert_eq!(log[8..12], [MAJOR.to_le_bytes(), MINOR.to_le_bytes()].concat());
    assert_eq!(log[12..], [0; 4]);
    assert!(DOCUMENT.contains(&format!("`.iocap`, version {MAJOR}.{MINOR} (")));
    assert!(include_str!("../../CHANGELOG.md").contains(&format!("iocap {MAJOR}.{MINOR} (")));
    assert!(include_str!("format.rs").contains(&format!("(`.iocap`), version {MAJOR}.{MINOR}.")));
    let versions: Vec<&str> = rows(section("Versions")).map(|it| it[0]).collect();
    let oldest = format!("{MAJOR_OLDEST}.0");
    assert_eq!(versions.first(), Some(&oldest.as_str()), "the oldest that is read");
    assert_eq!(versions.last(), Some(&format!("{MAJOR}.{MINOR}").as_str()), "what is written");
    assert!(DOCUMENT.contains(&format!("(a reader of it reads {oldest}, too")));
    let mib = PAYLOAD_BYTES_MAX >> 20;
    assert_eq!(DOCUMENT.matches(&format!("at most {mib} MiB |")).count(), 2);
    let [name, names] = [NAME_BYTES_MAX >> 10, NAMES_BYTES_MAX >> 20];
    let limits = format!(
        "Front and back are at most {name} KiB together; the names of a frame, whole, at most {names} MiB"
    );
    let words: Vec<&str> = section("Facts").split_whitespace().collect();
    assert!(words.join(" ").contains(&limits), "{limits}");
}

#[test]
fn the_head_of_a_frame() {
    let header = FrameHeader {
        kind: FrameKind(0x11),
        codec: Codec(0x12),
        layout: 0x1314,
        cpu: 0x2122_2324,
        stream: 0x3132_3334,
        first_time: 0x4142_4344_4546_4748,
        last_time: 0x5152_5354_5556_5758,
        items: 0x6162_6364,
        stored_bytes: 0x0071_7273,
        payload_bytes: 0x0081_8283,
        payload_crc: 0x9192_9394,
    };
    let bytes = header.encode();
    let crc = crc32fast::hash(&bytes[..48]);
    let values: [(&str, u64); 13] = [
        ("magic `IOFR`", u64::from(u32::from_le_bytes(FRAME_MAGIC))),
        ("kind", header.kind.0.into()),
        ("codec", header.codec.0.into()),
        ("data: index into the header's `layouts`", header.layout.into()),
        ("data: CPU; else 2^32 - 1", header.cpu.into()),
        ("data: stream", header.stream.into()),
        ("first time", header.first_time),
        ("last time", header.last_time),
        ("number of records or facts", header.items.into()),
        ("bytes of the payload in the file", header.stored_bytes.into()),
        ("bytes of the payload decoded", header.payload_bytes.into()),
        ("CRC-32 (IEEE) of the payload", header.payload_crc.into()),
        ("CRC-32 (IEEE) of the 48 bytes before", crc.into()),
    ];
    assert_eq!((FRAME_MAGIC, NO_CPU), (*b"IOFR", u32::MAX));
    let table: Vec<Vec<&str>> = rows(section("Frame")).filter(|it| it.len() == 3).collect();
    let fields: Vec<_> = table.iter().filter(|it| !it[1].starts_with(char::is_uppercase)).collect();
    let mut end = 0;
    assert_eq!(fields.len(), values.len());
    for (row, (words, value)) in fields.into_iter().zip(values) {
        let [offset, length]: [usize; 2] = [number(row[0]), number(row[1])];
        assert!(offset == end && row[2].starts_with(words), "{row:?} {words}");
        end += length;
        assert_eq!(bytes[offset..end], value.to_le_bytes()[..length], "{words}");
    }
    assert_eq!(end, FRAME_HEADER_BYTES);
    assert!(section("Frame").contains("Fifty-two bytes") && end == 52);
    let codec = table.iter().find(|it| it[2].starts_with("codec")).expect("a row");
    let codecs = constants_of(include_str!("format.rs"), "Codec");
    assert_eq!(listed(codec[2]), codecs.keys().map(|it| u8::try_from(*it).expect("u8")).collect());
}

#[test]
fn kinds_are_in_the_code_its_comment_and_the_document() {
    let source = include_str!("format.rs");
    let frames = constants_of(source, "FrameKind");
    assert_eq!(named(section("Frame")), frames);
    assert_eq!(named(source), frames, "the comment");
    let source = include_str!("fact.rs");
    let kinds = constants(source, "u16");
    assert_eq!(named(section("Facts")), kinds);
    assert_eq!(named(source), kinds, "the comment");
    let texts = rows(section("Facts")).filter(|it| it.len() == 2);
    let texts: BTreeSet<u16> =
        texts.flat_map(|it| it[0].split(',').map(number).collect::<Vec<_>>()).collect();
    assert_eq!(texts, constants_of(source, "Text").into_keys().collect());
}

/// Decodes a fact of this kind whose body is `length` zeroes.
fn of_zeroes(kind: u16, length: usize) -> Option<Fact> {
    Fact::decode(kind, &vec![0; length], b"")
}

/// Removes the parts in parentheses.
fn without_remarks(text: &str) -> String {
    let mut depth = 0;
    let mut keep = |letter: &char| {
        depth += i32::from(*letter == '(');
        let outside = depth == 0;
        depth -= i32::from(*letter == ')');
        outside
    };
    text.chars().filter(|it| keep(it)).collect()
}

/// Returns the length of a body whose names and texts are empty.
fn bytes_of(fields: &str) -> usize {
    let fields = without_remarks(fields);
    let sizes =
        fields.split(',').map(|field| match field.split_whitespace().collect::<Vec<_>>()[..] {
            ["stat"] => 24,
            ["name"] => 8,
            ["bytes", ..] => 4,
            [.., size] => number(size),
            [] => panic!("a field without words: {fields}"),
        });
    sizes.sum()
}

/// Fails if the reader refuses a body of the documented size, or takes a shorter one.
#[test]
fn fields_of_facts_have_the_documented_sizes() {
    let table: BTreeMap<u16, &str> = rows(section("Facts"))
        .filter(|it| it.len() == 3 && it[1].starts_with(char::is_uppercase))
        .map(|it| (number(it[0]), it[2]))
        .collect();
    let known = (0..=u16::MAX).filter(|it| of_zeroes(*it, 240).is_some());
    assert_eq!(known.collect::<Vec<_>>(), table.keys().copied().collect::<Vec<_>>());
    for (kind, fields) in &table {
        let length = match *fields {
            // The older form of a name has no front and back.
            "as 5, but the name is all bytes" => bytes_of(table[&NAME]) - 4,
            it => bytes_of(it),
        };
        assert!(of_zeroes(*kind, length).is_some(), "kind {kind}: {length} bytes: {fields}");
        let shorter = (1..length).find(|it| of_zeroes(*kind, *it).is_some());
        assert_eq!(shorter, None, "kind {kind}: {fields}");
    }
    let what = |name: u8| {
        let mut body = [0; 96];
        body[16] = name;
        Fact::decode(NAME, &body, b"").is_some()
    };
    let is_listed = |field: &str, fields: &str, is_known: &dyn Fn(u8) -> bool| {
        let remark = fields.split(&format!("{field} 1 (")).nth(1).and_then(|it| it.split_once(')'));
        let listed = listed(remark.expect(field).0.split(';').next().expect("its begin"));
        assert_eq!((0..=u8::MAX).filter(|it| is_known(*it)).collect::<BTreeSet<_>>(), listed);
    };
    is_listed("what", table[&NAME], &what);
    is_listed("ending", table[&kind::STACK], &|it| StackEnd::of(it).is_some());
}

/// Creates a header in which all fields have values: the compiler reports a missing field.
fn full_header() -> Header {
    let word = String::from("x");
    Header {
        tool_version: word.clone(),
        host: Host {
            hostname: word.clone(),
            kernel_release: word.clone(),
            kernel_version: word.clone(),
            machine: word.clone(),
            cpus: vec![1],
            page_bytes: 1,
        },
        clock: Clock { name: word.clone(), start_ns: 1, all_on_ns: 1, start_realtime_ns: 1 },
        scope: CaptureScope {
            mode: word.clone(),
            roots: vec![1],
            group: Some(word.clone()),
            foreign_kept: true,
            all_block: true,
            others_counted: true,
            command: vec![word.clone()],
            children_left_out: true,
            threads: vec![1],
            excluded: vec![1],
            excluded_in_kernel: true,
            ranks: vec![ProcessRank { pid: 1, rank: Some(1), local_rank: Some(1) }],
        },
        own_pid: 1,
        calls: vec![word.clone()],
        names: word.clone(),
        names_reason: word.clone(),
        layers: Some(word.clone()),
        layers_reason: word.clone(),
        aio_reason: word.clone(),
        args: word.clone(),
        source: word.clone(),
        source_reason: word.clone(),
        exec_exits: true,
        chains: Some(CallChainKinds {
            kernel: true,
            user: true,
            stack_bytes: 1,
            calls: true,
            frames_max: 1,
        }),
        layouts: vec![RecordLayout {
            source: word.clone(),
            sample_type: 1,
            regs_user: 1,
            header_page: word.clone(),
            header_event: word.clone(),
            pages_continue: true,
        }],
        rings: vec![RingInfo { name: word.clone(), bytes: 1 }],
        tracepoints: vec![Tracepoint {
            system: word.clone(),
            name: word.clone(),
            id: 1,
            format: word.clone(),
            filter: word.clone(),
            ring: 1,
        }],
        disks: vec![full_disk()],
        device_filter: vec![word.clone()],
        job: Some(full_job()),
        imported: Some(Imported { tool: word.clone(), format: word.clone(), file: word }),
        capsule: Some(CapsuleCounts::default()),
        excerpt: Some(full_excerpt()),
    }
}

fn full_excerpt() -> Excerpt {
    let word = String::from("x");
    let fired = FiredTrigger {
        trigger: word.clone(),
        time_ns: 1,
        value: 1,
        unit: word.clone(),
        subject: word.clone(),
        pid: Some(1),
        tid: Some(1),
        comm: word.clone(),
        path: Some(word.clone()),
        is_running: true,
    };
    Excerpt {
        number: 1,
        reason: word.clone(),
        ring: word.clone(),
        recording_start_ns: 1,
        mode: word.clone(),
        command: vec![word],
        triggers: vec![fired],
        triggers_left_out: 1,
        unevaluated_ns: 1,
    }
}

fn full_job() -> JobPlace {
    let word = String::from("x");
    JobPlace {
        rank: Some(1),
        size: Some(1),
        local_rank: Some(1),
        local_size: Some(1),
        manager: word.clone(),
        id: word.clone(),
        step: word,
    }
}

fn full_disk() -> Disk {
    let word = String::from("x");
    let partition = Partition {
        dev: word.clone(),
        name: word.clone(),
        start_sectors: Some(1),
        sectors: Some(1),
    };
    Disk {
        dev: word.clone(),
        name: word.clone(),
        scheduler: word.clone(),
        attributes: [(word.clone(), word.clone())].into(),
        loop_file: Some(LoopFile { dev: word.clone(), ino: 1 }),
        partitions: vec![partition],
        hardware_queues: Some(1),
        holders: vec![word.clone()],
        slaves: vec![word],
    }
}

fn full_end() -> End {
    let word = String::from("x");
    let unread = UnreadFile { path: word.clone(), addresses: 1, reason: word.clone() };
    End {
        end_ns: 1,
        end_realtime_ns: 1,
        wall_moved_ns: Some(1),
        reason: word.clone(),
        exit_code: Some(1),
        exit_signal: Some(1),
        tracepoints: vec![Counts {
            name: word.clone(),
            ring: 1,
            hits: Some(1),
            samples: 1,
            lost: Some(1),
        }],
        rings: vec![RingCounts { ring: 1, read: 1, found: 1, overrun: 1, dropped: 1, left: 1 }],
        foreign_dropped: 1,
        unwritten: 1,
        warnings: vec![word.clone()],
        own: TracerCost {
            cpu_ns: 1,
            call_cost_ns: Some(1),
            idle_ns: Some(1),
            open_ns: Some(1),
            meter_tid: Some(1),
            is_disturbed: true,
        },
        places_not_asked: 1,
        disks: vec![full_disk()],
        unread: Unread { files: 1, addresses: 1, first: vec![unread] },
        others: full_others(),
        unread_programs: UnreadPrograms {
            programs: 1,
            first: vec![UnreadProgram { path: word.clone(), reason: word }],
        },
        stat_calls: Some(1),
    }
}

fn full_others() -> Others {
    let operations = [("read".to_owned(), RequestCount { requests: 1, bytes: 1 })].into();
    let device = OthersOnDevice { dev: String::from("x"), operations, not_counted: 1 };
    Others { devices: vec![device], kept_undecided: 1, places_given_up: 1 }
}

/// Collects the keys of the object and of its inner objects, except those of `attributes`, which
/// are names of files, and of `operations`, which are operations.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    for (key, inner) in value.as_object().into_iter().flatten() {
        found.insert(key.clone());
        match key.as_str() {
            "attributes" => {}
            "operations" => {
                inner.as_object().into_iter().flatten().for_each(|(_, it)| keys(it, found));
            }
            _ => keys(inner, found),
        }
    }
    value.as_array().into_iter().flatten().for_each(|it| keys(it, found));
}

/// Words in backticks in that section that are values, not keys.
const VALUES: [&str; 25] = [
    "incident",
    "rotation",
    "ns",
    "records",
    "operations",
    "system",
    "launch",
    "attach",
    "kprobe",
    "uprobe",
    "uprobe+fanotify",
    "reader",
    "fanotify",
    "event",
    "links",
    "snapshot",
    "off",
    "tracepoint",
    "perf",
    "tracefs",
    "inherited",
    "registers",
    "exact",
    "execve",
    "execveat",
];

#[test]
fn keys_of_the_header_and_the_end() {
    let text = section("Header and end");
    let (header, end) = text.split_once("\nEND: ").expect("both");
    for (text, value) in
        [(header, serde_json::to_value(full_header())), (end, serde_json::to_value(full_end()))]
    {
        let mut written = BTreeSet::new();
        keys(&value.expect("JSON"), &mut written);
        let is_key = |it: &&str| it.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
        let words = text.split('`').skip(1).step_by(2).filter(is_key).map(str::to_owned);
        let words: BTreeSet<String> = words.collect();
        // The keys of `disks` in HEADER are also those in END.
        let of_disks =
            if text == end { header.split_once("`disks`").expect("a list").1 } else { "" };
        let missing = written
            .iter()
            .filter(|it| !words.contains(*it) && !of_disks.contains(&format!("`{it}`")));
        assert_eq!(missing.collect::<Vec<_>>(), Vec::<&String>::new(), "not in docs/format.md");
        let unknown = words.iter().filter(|it| !written.contains(*it));
        let unknown: Vec<&String> = unknown.filter(|it| !VALUES.contains(&it.as_str())).collect();
        assert_eq!(unknown, Vec::<&String>::new(), "not in the code");
    }
}
