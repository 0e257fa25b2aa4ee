//! Findings of the page: each kind is there for a capture that has its cause, with its evidence on
//! the page, and not for one without.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::{page, printed};
use crate::import::record;

/// Text of strace, line by line.
#[derive(Default)]
struct StraceText {
    lines: String,
    calls: u32,
}

impl StraceText {
    /// Adds a call of a process, which takes 20 µs.
    fn call(mut self, pid: u32, call: &str, result: &str) -> Self {
        self.calls += 1;
        let time = self.calls * 100;
        let _ = writeln!(self.lines, "{pid} 1700000000.{time:06} {call} = {result} <0.000020>");
        self
    }

    /// Adds a call of process 7 as often as this.
    fn calls(self, times: u32, call: &str, result: &str) -> Self {
        (0..times).fold(self, |text, _| text.call(7, call, result))
    }

    /// Begins with a file that process 7 has opened.
    fn open() -> Self {
        Self::default().calls(1, "openat(AT_FDCWD, \"/srv/a\", O_RDWR|O_CREAT)", "3")
    }

    /// Adds opens of a file, each with its close.
    fn opens(self, times: u32) -> Self {
        (0..times).fold(self, |text, _| {
            let text = text.calls(1, "openat(AT_FDCWD, \"/srv/b\", O_RDONLY)", "4");
            text.calls(1, "close(4)", "0")
        })
    }
}

/// A capture: strace's text, or records of blktrace.
enum Source {
    Calls(StraceText),
    /// Requests that wait for the disk and are in it for these times, ns.
    Requests([u64; 2]),
}

impl Source {
    /// Imports the capture into a directory.
    fn log(&self, directory: &Path) -> PathBuf {
        let (input, log) = (directory.join("a.blktrace.0"), directory.join("a.iocap"));
        let (format, bytes) = match self {
            Self::Calls(text) => ("strace", text.lines.clone().into_bytes()),
            Self::Requests(times) => ("blktrace", requests(*times)),
        };
        fs::write(&input, bytes).expect("written");
        let output = log.to_str().expect("UTF-8");
        printed(&["import", "--from", format, "-o", output], &input);
        log
    }
}

/// Reads of a program, one after the other.
fn requests([queue_ns, device_ns]: [u64; 2]) -> Vec<u8> {
    const READ: u32 = 1 << 16;
    const NOTIFY: u32 = 0x400 << 16;
    let mut records = record(0, NOTIFY, (0, 0), 42, b"dd\0");
    for number in 0..103_u64 {
        let begin = 1_000_000 * (number + 1);
        let issued = begin + queue_ns;
        for (time, action) in [(begin, 1), (begin + 1, 4), (issued, 7), (issued + device_ns, 8)] {
            records.extend(record(time, READ | action, (64 * number, 4096), 42, &[]));
        }
    }
    records
}

/// Kinds of the findings of a page. Checks that each one leads to a block of the page.
fn kinds(source: &Source) -> BTreeSet<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let (_, page) = page(&source.log(directory.path()), directory.path(), &[]);
    let (_, list) = super::element(&page, "section", "id=\"findings\"");
    let found = list.split("<li data-kind=\"").skip(1).map(|item| {
        let (kind, rest) = item.split_once('"').expect("a kind");
        let block = rest.split("href=\"#").nth(1).and_then(|link| link.split('"').next());
        let block = block.expect("a link");
        assert!(page.contains(&format!("<section id=\"{block}\"")), "{kind}: no {block}");
        kind.to_owned()
    });
    found.collect()
}

/// Checks that a finding is on the page of the first capture and not on that of the second.
#[track_caller]
fn check(kind: &str, with: &Source, without: &Source) {
    let (found, other) = (kinds(with), kinds(without));
    assert!(found.contains(kind), "{kind} is missing: {found:?}");
    assert!(!other.contains(kind), "{kind} is there: {other:?}");
}

/// Calls of a program that only uses a pipe.
fn pipe() -> Source {
    let text = StraceText::default().calls(1, "pipe2([3, 4], 0)", "0");
    Source::Calls(text.calls(107, "read(3, \"abcd\", 4)", "4"))
}

/// Reads of a file.
fn reads(times: u32, bytes: u32) -> Source {
    let call = format!("read(3, \"abcd\"..., {bytes})");
    Source::Calls(StraceText::open().calls(times, &call, &bytes.to_string()))
}

#[test]
fn most_of_the_time() {
    for kind in ["operation", "file", "slow"] {
        check(kind, &reads(3, 4096), &pipe());
    }
    let other = "openat(AT_FDCWD, \"/srv/a\", O_RDONLY)";
    let two = StraceText::open().call(8, other, "3");
    check("process", &Source::Calls(two), &reads(3, 4096));
}

#[test]
fn many_of_a_kind() {
    check("small", &reads(107, 11), &reads(107, 8191));
    check("small", &reads(107, 11), &reads(97, 11));
    let failing = |error: &str| {
        let result = format!("-1 {error}");
        Source::Calls(StraceText::open().calls(107, "read(3, 0x7f0000000000, 5)", &result))
    };
    let (fails, waits) = ("EIO (Input/output error)", "EAGAIN (Resource unavailable)");
    check("failing", &failing(fails), &failing(waits));
    let nameless = StraceText::default().calls(3, "read(9, \"abcd\", 4)", "4");
    check("unknown-type", &Source::Calls(nameless), &reads(3, 4));
}

#[test]
fn uses_of_files() {
    let missing = |times: u32| {
        let open = "openat(AT_FDCWD, \"/srv/none\", O_RDONLY)";
        let result = "-1 ENOENT (No such file or directory)";
        Source::Calls(StraceText::open().calls(times, open, result))
    };
    check("failed-opens", &missing(11), &missing(7));
    let opened = |times: u32| Source::Calls(StraceText::open().opens(times));
    check("opened-most", &opened(11), &opened(7));
    let read = |offset: &str| {
        let at = |offset: &str| format!("pread64(3, \"abcd\"..., 1048583, {offset})");
        let text = StraceText::open().calls(1, &at("0"), "1048583");
        Source::Calls(text.calls(1, &at(offset), "1048583"))
    };
    check("read-again", &read("0"), &read("1048583"));
    let written = || StraceText::open().calls(1, "write(3, \"abcd\"..., 1048583)", "1048583");
    let closed = || written().calls(1, "close(3)", "0");
    let removed = closed().calls(1, "unlink(\"/srv/a\")", "0");
    check("written-then-removed", &Source::Calls(removed), &Source::Calls(closed()));
}

#[test]
fn uses_of_disks() {
    let (queued, direct) = (Source::Requests([9000, 1000]), Source::Requests([1000, 9000]));
    check("queued", &queued, &direct);
    check("disk", &direct, &reads(3, 4096));
}

#[test]
fn page_without_findings_says_so() {
    assert!(kinds(&pipe()).is_empty());
    let directory = tempfile::tempdir().expect("a directory");
    let (_, page) = page(&pipe().log(directory.path()), directory.path(), &[]);
    assert!(page.contains("Nothing stands out"));
}
