//! Kinds of files that are given as a log, as a plan, or as the log of another tool: an error names
//! what the file is.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::capture::format::{
    FILE_HEADER_BYTES, FILE_MAGIC as LOG_MAGIC, FRAME_HEADER_BYTES, FrameHeader,
};
use crate::replay::plan::plan_file::FILE_MAGIC as PLAN_MAGIC;
use crate::sys::regular;

/// Bytes of a file by which its kind is known.
const HEAD_BYTES: usize = 512;

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputKind {
    Directory,
    Empty,
    Log,
    /// Log that ends inside its header.
    CutLog,
    Plan,
    /// Anchor file, definitions or events of an OTF2 archive.
    Archive,
    Text,
    /// Another file, or none that can be read.
    Unknown,
}

/// Returns the kind of a file; nothing is read of files that are not regular.
pub(super) fn of(path: &Path) -> InputKind {
    if path.is_dir() {
        return InputKind::Directory;
    }
    let Some((mut file, found)) = regular::open_regular(path, true) else {
        return InputKind::Unknown;
    };
    let mut head = Vec::new();
    let limit = HEAD_BYTES as u64;
    if file.by_ref().take(limit).read_to_end(&mut head).is_err() {
        return InputKind::Unknown;
    }
    let is_archive = path.extension().is_some_and(|name| name == "otf2" || name == "def");
    match head.as_slice() {
        [] => InputKind::Empty,
        bytes if bytes.starts_with(&PLAN_MAGIC) => InputKind::Plan,
        bytes if bytes.starts_with(&LOG_MAGIC) && is_cut(bytes, found.len()) => InputKind::CutLog,
        bytes if bytes.starts_with(&LOG_MAGIC) => InputKind::Log,
        bytes if LOG_MAGIC.starts_with(bytes) => InputKind::CutLog,
        _ if is_archive => InputKind::Archive,
        bytes if is_text(bytes) => InputKind::Text,
        _ => InputKind::Unknown,
    }
}

/// True if a log of this length ends before its first frame does, which has the header.
fn is_cut(head: &[u8], length: u64) -> bool {
    let frame = head.get(FILE_HEADER_BYTES..).unwrap_or_default();
    match FrameHeader::decode(frame) {
        Some(frame) => {
            let before = (FILE_HEADER_BYTES + FRAME_HEADER_BYTES) as u64;
            length < before.saturating_add(u64::from(frame.stored_bytes))
        }
        None => frame.len() < FRAME_HEADER_BYTES,
    }
}

/// True for the beginning of a text.
fn is_text(head: &[u8]) -> bool {
    // The last character may be cut.
    let valid = head.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let is_control = |letter: char| letter.is_control() && !letter.is_whitespace();
    valid.len() + 4 > head.len() && !valid.contains(is_control)
}

/// Returns why a file is no log, and what to do with it; `None` if it is one.
pub(super) fn no_log(path: &Path) -> Option<String> {
    let shown = path.display();
    Some(match of(path) {
        InputKind::Log => return None,
        InputKind::Text | InputKind::Unknown if is_executable(path) => {
            format!(
                "{shown} is a program, not a recording; record it: iotrace-perf summary -- {shown}"
            )
        }
        InputKind::Directory => format!("{shown} is a directory without a recording"),
        InputKind::Empty => format!("{shown} is empty"),
        InputKind::CutLog => format!("{shown} ends inside its header: it was cut off"),
        InputKind::Plan => format!(
            "{shown} is a replay plan, not a recording; replay it: iotrace-perf replay run {shown} --root DIR"
        ),
        InputKind::Archive => format!(
            "{shown} is part of an OTF2 archive, and reports need the log (.iocap) that was beside it"
        ),
        InputKind::Text => format!(
            "{shown} is not a recording; a log of another tool is imported first: iotrace-perf import {shown} -o LOG.iocap"
        ),
        InputKind::Unknown => format!("{shown} is not a recording (a log is NAME.iocap)"),
    })
}

/// Returns why a file is no plan, and how to make one.
pub(super) fn no_plan(path: &Path) -> String {
    let shown = path.display();
    match of(path) {
        InputKind::Log => format!(
            "{shown} is a recording, not a plan; make one: iotrace-perf replay plan {shown} -o PLAN"
        ),
        InputKind::Empty => {
            format!("{shown} is empty; make a plan: iotrace-perf replay plan LOG -o PLAN")
        }
        InputKind::Directory => format!(
            "{shown} is a directory, not a plan; make one: iotrace-perf replay plan LOG -o PLAN"
        ),
        _ => format!("{shown} is not a plan; make one: iotrace-perf replay plan LOG -o PLAN"),
    }
}

/// Returns why a file cannot be the log of another tool; `None` if it may be one.
pub(super) fn no_import(path: &Path) -> Option<String> {
    let shown = path.display();
    match of(path) {
        InputKind::Log | InputKind::CutLog => Some(format!(
            "{shown} is a log of iotrace-perf already; look at it: iotrace-perf summary {shown}"
        )),
        InputKind::Archive => Some(format!(
            "{shown} is part of an OTF2 archive, which cannot be imported; import takes logs of other tools"
        )),
        InputKind::Plan => Some(format!("{shown} is a replay plan, not the log of another tool")),
        InputKind::Empty => Some(format!("{shown} is empty")),
        InputKind::Directory => Some(format!("{shown} is a directory; import takes one file")),
        InputKind::Text | InputKind::Unknown => None,
    }
}

/// True for a file that may be run.
fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// True for a log, or a directory with the log of a recording.
pub(super) fn is_recording(path: &Path) -> bool {
    let log = path.join("traces.iocap");
    of(path) == InputKind::Log || fs::symlink_metadata(log).is_ok_and(|found| found.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_from_the_first_bytes() {
        let dir = tempfile::tempdir().expect("a directory");
        let kind = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).expect("a file");
            of(&path)
        };
        assert_eq!(of(dir.path()), InputKind::Directory);
        assert_eq!(of(&dir.path().join("none")), InputKind::Unknown);
        assert_eq!(kind("a", b""), InputKind::Empty);
        assert_eq!(kind("a", b"IOTR"), InputKind::CutLog);
        assert_eq!(kind("a", &LOG_MAGIC), InputKind::CutLog);
        assert_eq!(kind("a", &PLAN_MAGIC), InputKind::Plan);
        assert_eq!(kind("a", "1 read(3, \"ä\") = 1\n".as_bytes()), InputKind::Text);
        assert_eq!(kind("a", b"\x7fELF\x00\x01"), InputKind::Unknown);
        assert_eq!(kind("a.def", b"\x7fELF\x00\x01"), InputKind::Archive);
        assert_eq!(no_import(&dir.path().join("none")), None);
    }
}
