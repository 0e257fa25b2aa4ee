//! Protocol between the tracer and the helper that reads the headers of programs.
//!
//! The author of a file may have forged the answer, too: only lengths that the kernel can read and
//! absolute paths are accepted.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::headers::{HEAD_BYTES, Headers, PATH_BYTES_MAX, ProgramFormat, TABLE_BYTES_MAX};
use crate::capture::format::Cursor;

/// Largest number of files in one question: the helper has all of them open at the same time.
pub(super) const FILES_MAX: usize = 256;

/// Files in a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeadersQuestion {
    pub paths: Vec<PathBuf>,
}

/// Result for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HeaderReply {
    Read(Headers),
    /// The file has another format.
    Other,
    /// The file does not exist.
    Gone,
    /// The file is not a regular file, or is in a file system of the kernel.
    NotRegular,
    /// The file cannot be opened or read.
    Closed,
}

/// Results until the helper's end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HeadersAnswer {
    /// Results by the files' indices in the question.
    pub replies: Vec<(usize, HeaderReply)>,
    /// File that the helper was processing when it ended.
    pub at_hand: Option<usize>,
}

const AT_HAND: u8 = 0;
const SCRIPT: u8 = 1;
const ELF: u8 = 2;
const OTHERS: [HeaderReply; 4] =
    [HeaderReply::Other, HeaderReply::Gone, HeaderReply::NotRegular, HeaderReply::Closed];
const FIRST_OF_OTHERS: u8 = 3;

impl HeadersQuestion {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for path in &self.paths {
            push(&mut out, path.as_os_str().as_bytes());
        }
        out
    }

    /// Decodes a question; `None`: the bytes are not one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Cursor(bytes);
        let mut paths = Vec::new();
        while !from.0.is_empty() {
            paths.push(path(&mut from)?);
        }
        (paths.len() <= FILES_MAX).then_some(Self { paths })
    }
}

/// Announces that this file is processed next.
pub(super) fn at_hand(out: &mut impl Write, file: usize) -> io::Result<()> {
    out.write_all(&[AT_HAND])?;
    out.write_all(&number(file))?;
    // Flushed first, because the file may kill the helper.
    out.flush()
}

/// Writes the result for a file.
pub(super) fn write_reply(
    out: &mut impl Write,
    file: usize,
    reply: &HeaderReply,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    match reply {
        HeaderReply::Read(Headers { changed_ns, head_bytes, format }) => {
            let tag = if matches!(format, ProgramFormat::Script { .. }) { SCRIPT } else { ELF };
            bytes.push(tag);
            bytes.extend(number(file));
            bytes.extend(changed_ns.to_le_bytes());
            bytes.extend(number(*head_bytes));
            match format {
                ProgramFormat::Script { interpreter } => {
                    push(&mut bytes, interpreter.as_os_str().as_bytes())
                }
                ProgramFormat::Elf { table_bytes, loader } => {
                    bytes.extend(number(*table_bytes));
                    let loader = loader.as_ref().map_or(&b""[..], |it| it.as_os_str().as_bytes());
                    push(&mut bytes, loader);
                }
            }
        }
        other => {
            let place = OTHERS.iter().position(|it| it == other).unwrap_or_default();
            bytes.push(FIRST_OF_OTHERS + u8::try_from(place).unwrap_or_default());
            bytes.extend(number(file));
        }
    }
    out.write_all(&bytes)
}

impl HeadersAnswer {
    /// Decodes the valid part of an answer; `files` is the number of files in the question.
    pub(super) fn decode(answer: &[u8], files: usize) -> Self {
        let mut decoded = Self::default();
        let mut from = Cursor(answer);
        let mut is_answered = vec![false; files];
        while let Some(tag) = from.u8() {
            let file = from.u32().and_then(|it| usize::try_from(it).ok());
            let Some(file) = file.filter(|it| is_answered.get(*it) == Some(&false)) else { break };
            decoded.at_hand = Some(file);
            if tag == AT_HAND {
                continue;
            }
            let Some(reply) = read_reply(tag, &mut from) else { break };
            if let Some(is_answered) = is_answered.get_mut(file) {
                *is_answered = true;
            }
            decoded.at_hand = None;
            decoded.replies.push((file, reply));
        }
        decoded
    }
}

fn read_reply(tag: u8, from: &mut Cursor<'_>) -> Option<HeaderReply> {
    if !matches!(tag, SCRIPT | ELF) {
        return OTHERS.get(usize::from(tag - FIRST_OF_OTHERS)).cloned();
    }
    let changed_ns = from.u64()?.cast_signed();
    let head_bytes = length(from, HEAD_BYTES)?;
    let format = if tag == SCRIPT {
        ProgramFormat::Script { interpreter: path(from)? }
    } else {
        let table_bytes = length(from, TABLE_BYTES_MAX)?;
        let loader = from.bytes()?;
        let path = Path::new(OsStr::from_bytes(loader));
        let is_sound = loader.is_empty() || path.is_absolute() && loader.len() < PATH_BYTES_MAX;
        let loader = (!loader.is_empty()).then(|| path.to_owned());
        is_sound.then_some(ProgramFormat::Elf { table_bytes, loader })?
    };
    Some(HeaderReply::Read(Headers { changed_ns, head_bytes, format }))
}

fn length(from: &mut Cursor<'_>, max: usize) -> Option<usize> {
    usize::try_from(from.u32()?).ok().filter(|it| *it <= max)
}

/// Reads an absolute path.
fn path(from: &mut Cursor<'_>) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(from.bytes()?));
    path.is_absolute().then(|| path.to_owned())
}

fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(number(bytes.len()));
    out.extend_from_slice(bytes);
}

/// Encodes a number. Numbers are limited far below `u32::MAX`.
fn number(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}
