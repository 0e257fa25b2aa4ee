//! Capsules of recorded logs: no name of the original is in them, and reports are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::*;
use crate::capture::fact::Fact;

const SALT: &[u8] = b"of the tests";

/// Recorded logs of both sources and several versions.
fn logs() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs");
    let mut logs = Vec::new();
    let mut directories = vec![root];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("the corpus").flatten() {
            let path = entry.path();
            match path.extension() {
                _ if path.is_dir() => directories.push(path),
                Some(ending) if ending == "iocap" => logs.push(path),
                _ => {}
            }
        }
    }
    logs.sort();
    assert!(logs.len() > 3, "{logs:?}");
    logs
}

fn capsule(log: &[u8]) -> (Vec<u8>, CapsuleCounts) {
    let mut out = Vec::new();
    let counts = write(|| Ok(log), SALT, &mut out).expect("a log");
    (out, counts)
}

/// Decoded payloads of a log, by kind.
fn payloads(log: &[u8]) -> Vec<(FrameKind, Vec<u8>)> {
    let mut reader = Reader::new(log).expect("a log");
    let mut all = Vec::new();
    while let Some(item) = reader.next_item().expect("memory") {
        if let Item::Frame(header, payload) = item {
            all.push((header.kind, payload));
        }
    }
    all
}

/// Parts of a path, or words of a text, that could be recognized.
fn parts(text: &[u8]) -> Vec<Vec<u8>> {
    let is_border = |byte: &u8| matches!(byte, b'/' | 0 | b'\n' | b' ' | b':' | b',' | b'=');
    let parts = text.split(is_border).filter(|part| part.len() >= 3);
    parts.map(<[u8]>::to_vec).collect()
}

/// Texts of a JSON value that are no words of the format.
fn texts_of(value: &Value, key: &str, out: &mut Vec<String>) {
    const OF_THE_FORMAT: [&str; 12] = [
        "format",
        "system",
        "name",
        "filter",
        "calls",
        "header_page",
        "header_event",
        "source",
        "clock",
        "mode",
        "attributes",
        "reason",
    ];
    match value {
        _ if OF_THE_FORMAT.contains(&key) => {}
        Value::String(text) => out.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|value| texts_of(value, key, out)),
        Value::Object(all) => all.iter().for_each(|(key, value)| texts_of(value, key, out)),
        _ => {}
    }
}

/// All names of a log: of files, threads, groups, functions, hosts, and all words of its texts.
fn names_of(log: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut names = BTreeSet::new();
    for (kind, payload) in payloads(log) {
        if matches!(kind, FrameKind::FACTS | FrameKind::LAST_FACTS) {
            for fact in fact::facts(&payload) {
                match &fact {
                    Fact::Name { bytes, of, .. } if *of != fact::NameOf::Memory => {
                        names.extend(parts(bytes));
                    }
                    Fact::Opened { bytes, .. } => names.extend(parts(bytes)),
                    Fact::Task { comm, .. } => names.extend(parts(comm)),
                    Fact::Fd { link, .. } => names.extend(parts(link)),
                    Fact::Symbol(symbol) => {
                        names.extend(parts(&symbol.module));
                        names.insert(symbol.name.clone());
                        names.insert(symbol.build_id.clone());
                    }
                    Fact::Text { text, which, .. } if is_of_names(*which) => {
                        names.extend(parts(text));
                    }
                    _ => {}
                }
            }
        }
        if kind == FrameKind::HEADER {
            let header: Header = serde_json::from_slice(&payload).expect("a header");
            names.extend(parts(header.host.hostname.as_bytes()));
            names.extend(parts(header.host.kernel_version.as_bytes()));
            header.scope.command.iter().for_each(|word| names.extend(parts(word.as_bytes())));
        }
    }
    names.extend(seen_names(log));
    names
}

fn is_of_names(which: fact::Text) -> bool {
    use fact::Text;
    [Text::MAPS, Text::CWD, Text::ROOT, Text::EXE, Text::COMMAND, Text::CGROUP, Text::EXECUTABLE]
        .contains(&which)
}

/// Names that come with records: of threads, and of files by probes and execs.
fn seen_names(log: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut names = BTreeSet::new();
    let header = payloads(log).into_iter().find(|(kind, _)| *kind == FrameKind::HEADER);
    let header: Header = serde_json::from_slice(&header.expect("a header").1).expect("a header");
    let formats: BTreeMap<u16, crate::tracefs::EventFormat> = header
        .tracepoints
        .iter()
        .filter_map(|point| {
            Some((point.id, crate::tracefs::EventFormat::parse(&point.format).ok()?))
        })
        .collect();
    for payload in record_payloads(log, &header) {
        let id = payload.first_chunk::<2>().map(|id| u16::from_le_bytes(*id));
        let Some(format) = id.and_then(|id| formats.get(&id)) else { continue };
        for field in format.event_fields().iter().filter(|field| field.name != "rwbs") {
            if let Ok(text) = format.string(&field.name)
                && let Some(text) = text.read(&payload)
            {
                names.extend(parts(text));
            }
        }
    }
    names
}

fn record_payloads(log: &[u8], header: &Header) -> Vec<Vec<u8>> {
    use crate::record::layout::SampleLayout;
    use crate::record::page::{self, PageEntry, PageLayout};
    let mut reader = Reader::new(log).expect("a log");
    let mut all = Vec::new();
    while let Some(item) = reader.next_item().expect("memory") {
        let Item::Frame(frame, bytes) = item else { continue };
        let Some(layout) = header.layouts.get(usize::from(frame.layout)) else { continue };
        if frame.kind != FrameKind::DATA {
            continue;
        }
        if layout.source == "tracefs" {
            let pages = PageLayout::parse(&layout.header_page).expect("a layout");
            for entry in page::entries(&bytes, pages) {
                if let Ok(PageEntry::Hit(at, _)) = entry {
                    all.extend(page::payload(&bytes[at..]).map(<[u8]>::to_vec));
                }
            }
        } else if let Some(layout) = SampleLayout::new(layout.sample_type, layout.regs_user) {
            let records = crate::record::parse::records(&bytes).flatten();
            all.extend(records.filter_map(|(_, record)| Some(record.payload(&layout)?.to_vec())));
        }
    }
    all
}

/// Words that are in every log, or of which a few letters may be in a pseudonym by chance.
fn is_common(name: &[u8]) -> bool {
    const KEPT: [&[u8]; 15] = [
        // `name=` of a hierarchy of control groups.
        b"name",
        b"dev",
        b"proc",
        b"sys",
        b"null",
        b"zero",
        b"random",
        b"urandom",
        b"full",
        b"tty",
        b"(deleted)",
        b"[heap]",
        b"[stack]",
        b"[vdso]",
        b"[vvar]",
    ];
    let is_number = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'.');
    let is_permission = |byte: &u8| b"-rwxps".contains(byte);
    let is_letter = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    let objects: [&[u8]; 5] = [b"pipe", b"socket", b"anon_inode", b"[", b"mnt"];
    KEPT.contains(&name)
        || name.iter().all(is_number)
        || name.iter().all(is_permission)
        || name.len() < 5 && name.iter().all(is_letter)
        || objects.iter().any(|object| name.starts_with(object))
}

fn contains(bytes: &[u8], name: &[u8]) -> bool {
    bytes.windows(name.len()).any(|window| window == name)
}

/// Returns a name with the bytes around its first place.
fn context(bytes: &[u8], name: &[u8]) -> String {
    const AROUND: usize = 24;
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap_or(0);
    let end = bytes.len().min(at + name.len() + AROUND);
    let around = &bytes[at.saturating_sub(AROUND)..end];
    format!("{} in {:?}", String::from_utf8_lossy(name), String::from_utf8_lossy(around))
}

/// Fails if a name of an original is in its capsule, in a record, a fact, or a text of the header.
#[test]
fn no_name_of_the_original_is_in_a_capsule() {
    let mut leaks = Vec::new();
    for path in logs() {
        let log = fs::read(&path).expect("a log");
        let names = names_of(&log);
        let (capsule, _) = capsule(&log);
        let mut haystack = Vec::new();
        for (kind, payload) in payloads(&capsule) {
            if matches!(kind, FrameKind::HEADER | FrameKind::END) {
                let value: Value = serde_json::from_slice(&payload).expect("an object");
                let mut texts = Vec::new();
                texts_of(&value, "", &mut texts);
                haystack.extend(texts.join("\0").into_bytes());
            } else {
                haystack.extend(payload);
            }
            haystack.push(0);
        }
        let kept = kept_words(&log);
        let leaked: Vec<String> = names
            .iter()
            .filter(|name| !is_common(name) && contains(&haystack, name))
            .filter(|name| !kept.iter().any(|word| contains(word, name)))
            .map(|name| context(&haystack, name))
            .collect();
        if !leaked.is_empty() {
            leaks.push(format!("{}: {leaked:?}", path.display()));
        }
        assert!(names.len() > 5, "{}: {}", path.display(), names.len());
    }
    assert!(leaks.is_empty(), "{leaks:#?}");
}

/// Words that a capsule keeps: disks, the machine's kind, words of the kernel in texts, extensions.
fn kept_words(log: &[u8]) -> BTreeSet<Vec<u8>> {
    let header = header_of(log);
    let disks = header.disks.into_iter().flat_map(|disk| {
        let partitions = disk.partitions.into_iter().map(|partition| partition.name);
        partitions.chain([disk.name, disk.scheduler]).collect::<Vec<_>>()
    });
    let words = disks.chain([header.host.machine, header.names]);
    let mut kept: BTreeSet<Vec<u8>> = words.map(String::into_bytes).collect();
    kept.extend(vocabulary::EXTENSIONS.iter().map(|word| word.as_bytes().to_vec()));
    for (_, payload) in payloads(log).iter().filter(|(kind, _)| *kind == FrameKind::FACTS) {
        for fact in fact::facts(payload) {
            if let Fact::Text { which, text, .. } = fact {
                kept.extend(words_of_the_kernel(which, &text));
            }
        }
    }
    kept
}

/// Types and options of file systems, controllers of groups, keys of `/proc/PID/io`.
fn words_of_the_kernel(which: fact::Text, text: &[u8]) -> Vec<Vec<u8>> {
    let lines = text.split(|byte| *byte == b'\n');
    let mut kept: Vec<&[u8]> = Vec::new();
    for line in lines {
        match which {
            fact::Text::MOUNTINFO => {
                let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
                let dash = words.iter().position(|word| *word == b"-").unwrap_or(words.len());
                kept.extend(words.get(dash + 1));
                let options = [5, dash + 3].into_iter().filter_map(|place| words.get(place));
                let options = options.flat_map(|word| word.split(|byte| *byte == b','));
                kept.extend(options.filter_map(|word| word.split(|byte| *byte == b'=').next()));
            }
            fact::Text::CGROUP => {
                let controllers = line.split(|byte| *byte == b':').nth(1).unwrap_or_default();
                kept.extend(controllers.split(|byte| *byte == b','));
            }
            fact::Text::PROCESS_IO => kept.push(line),
            _ => {}
        }
    }
    kept.into_iter().filter(|word| !word.starts_with(b"name=")).map(<[u8]>::to_vec).collect()
}

fn header_of(log: &[u8]) -> Header {
    let mut all = payloads(log).into_iter();
    let (_, payload) = all.find(|(kind, _)| *kind == FrameKind::HEADER).expect("a header");
    serde_json::from_slice(&payload).expect("a header")
}

/// Counts of an original and of its capsule: everything but the names.
#[test]
fn frames_and_times_of_a_capsule_are_those_of_the_original() {
    for path in logs() {
        let log = fs::read(&path).expect("a log");
        let (capsule, counts) = capsule(&log);
        let shape = |log: &[u8]| {
            let mut reader = Reader::new(log).expect("a log");
            let mut all = Vec::new();
            while let Some(item) = reader.next_item().expect("memory") {
                if let Item::Frame(header, payload) = item {
                    let is_data = header.kind == FrameKind::DATA;
                    let bytes = if is_data { payload.len() } else { 0 };
                    all.push((header.kind, header.first_time, header.last_time, bytes));
                }
            }
            all
        };
        assert_eq!(shape(&log), shape(&capsule), "{}", path.display());
        let header = header_of(&capsule);
        assert_eq!(header.capsule, Some(counts));
        assert_eq!(header.host.hostname, "");
        assert!(header.scope.command.len() <= 1, "the program alone");
    }
}

#[test]
fn capsule_of_a_capsule_is_refused() {
    let log = fs::read(logs().remove(0)).expect("a log");
    let (capsule, _) = capsule(&log);
    let again = write(|| Ok(capsule.as_slice()), SALT, Vec::new());
    assert!(matches!(again, Err(CapsuleError::IsCapsule)), "{again:?}");
    let none = write(|| Ok(b"IOTRCAP\n\x02\0\x04\0\0\0\0\0".as_slice()), SALT, Vec::new());
    assert!(matches!(none, Err(CapsuleError::NoHeader)), "{none:?}");
}

/// Fails if any damaged log makes the capsule panic.
#[test]
fn damaged_logs_become_capsules() {
    let log = fs::read(logs().remove(0)).expect("a log");
    for place in (16..log.len()).step_by(997) {
        let mut damaged = log.clone();
        damaged[place] ^= 0x55;
        let _ = write(|| Ok::<_, io::Error>(damaged.as_slice()), SALT, Vec::new());
    }
    let _: Result<(), Infallible> = Ok(());
}
