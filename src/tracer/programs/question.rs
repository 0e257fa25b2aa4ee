//! What the helper is asked of the files of programs, and what it answers.
//!
//! The maker of a file may have made the answer, too: nothing is taken from it but lengths that the kernel can read and absolute paths.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::headers::{Format, HEAD_BYTES, Headers, PATH_BYTES_MAX, TABLE_BYTES_MAX};
use crate::capture::format::Cursor;

/// Files of one question: the helper has all of them open at once.
pub(super) const FILES_MAX: usize = 256;

/// Files that are asked about.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub paths: Vec<PathBuf>,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Read(Headers),
    /// It has another format.
    Other,
    /// It is not there.
    Gone,
    /// It is no regular file, or of a file system of the kernel's own.
    NotRegular,
    /// It cannot be opened or read.
    Closed,
}

/// What was said until the helper's end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// By the files' places in the question.
    pub said: Vec<(usize, Said)>,
    /// The file that it was at when it ended.
    pub at_hand: Option<usize>,
}

const AT_HAND: u8 = 0;
const SCRIPT: u8 = 1;
const ELF: u8 = 2;
const OTHERS: [Said; 4] = [Said::Other, Said::Gone, Said::NotRegular, Said::Closed];
const FIRST_OF_OTHERS: u8 = 3;

impl Question {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for path in &self.paths {
            push(&mut out, path.as_os_str().as_bytes());
        }
        out
    }

    /// `None`: this is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Cursor(bytes);
        let mut paths = Vec::new();
        while !from.0.is_empty() {
            paths.push(path(&mut from)?);
        }
        (paths.len() <= FILES_MAX).then_some(Self { paths })
    }
}

/// Says that this file is at hand.
pub(super) fn at_hand(out: &mut impl Write, file: usize) -> io::Result<()> {
    out.write_all(&[AT_HAND])?;
    out.write_all(&number(file))?;
    // Before it may be the helper's end.
    out.flush()
}

/// Says what became of it.
pub(super) fn say(out: &mut impl Write, file: usize, said: &Said) -> io::Result<()> {
    let mut bytes = Vec::new();
    match said {
        Said::Read(Headers { changed_ns, head_bytes, format }) => {
            let tag = if matches!(format, Format::Script { .. }) { SCRIPT } else { ELF };
            bytes.push(tag);
            bytes.extend(number(file));
            bytes.extend(changed_ns.to_le_bytes());
            bytes.extend(number(*head_bytes));
            match format {
                Format::Script { interpreter } => {
                    push(&mut bytes, interpreter.as_os_str().as_bytes())
                }
                Format::Elf { table_bytes, loader } => {
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

impl Answer {
    /// As far as it makes sense; `files`: how many were asked about.
    pub(super) fn decode(answer: &[u8], files: usize) -> Self {
        let mut decoded = Self::default();
        let mut from = Cursor(answer);
        let mut is_said = vec![false; files];
        while let Some(tag) = from.u8() {
            let file = from.u32().and_then(|it| usize::try_from(it).ok());
            let Some(file) = file.filter(|it| is_said.get(*it) == Some(&false)) else { break };
            decoded.at_hand = Some(file);
            if tag == AT_HAND {
                continue;
            }
            let Some(said) = said(tag, &mut from) else { break };
            if let Some(is_said) = is_said.get_mut(file) {
                *is_said = true;
            }
            decoded.at_hand = None;
            decoded.said.push((file, said));
        }
        decoded
    }
}

fn said(tag: u8, from: &mut Cursor<'_>) -> Option<Said> {
    if !matches!(tag, SCRIPT | ELF) {
        return OTHERS.get(usize::from(tag - FIRST_OF_OTHERS)).cloned();
    }
    let changed_ns = from.u64()?.cast_signed();
    let head_bytes = length(from, HEAD_BYTES)?;
    let format = if tag == SCRIPT {
        Format::Script { interpreter: path(from)? }
    } else {
        let table_bytes = length(from, TABLE_BYTES_MAX)?;
        let loader = from.bytes()?;
        let path = Path::new(OsStr::from_bytes(loader));
        let is_sound = loader.is_empty() || path.is_absolute() && loader.len() < PATH_BYTES_MAX;
        let loader = (!loader.is_empty()).then(|| path.to_owned());
        is_sound.then_some(Format::Elf { table_bytes, loader })?
    };
    Some(Said::Read(Headers { changed_ns, head_bytes, format }))
}

fn length(from: &mut Cursor<'_>, max: usize) -> Option<usize> {
    usize::try_from(from.u32()?).ok().filter(|it| *it <= max)
}

/// A path that begins at the root.
fn path(from: &mut Cursor<'_>) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(from.bytes()?));
    path.is_absolute().then(|| path.to_owned())
}

fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(number(bytes.len()));
    out.extend_from_slice(bytes);
}

/// What is said at once has its limits, far below this one.
fn number(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}
