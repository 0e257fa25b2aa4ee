//! Helper process that unwinds stacks: opens the files of a process, gives up its privileges,
//! unwinds the stacks, and answers.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use memmap2::Mmap;

use super::cfi::CallFrames;
use super::protocol::{FileRequest, MemoryEvent, StacksQuestion, encode_missed, encode_way};
use super::unwinder::{AddressSpace, FrameTables, walk};
use crate::sys::sandboxed_helper::{self, ResourceLimits};
use crate::tracer::symbols::file_access::{FileAccessTable, give_up_rights, is_same};
use crate::tracer::symbols::helper_main;

/// Limits of one question. They allow more time than symbolization, because a question may have
/// thousands of stacks.
pub(super) const BOUNDS: ResourceLimits = ResourceLimits {
    time: Duration::from_secs(60),
    cpu: Duration::from_secs(30),
    ..helper_main::BOUNDS
};

/// Answers the question at standard input.
///
/// # Errors
///
/// The question is missing, the privileges cannot be given up, or the reader of the answer is gone.
pub fn answer() -> io::Result<()> {
    sandboxed_helper::limit(&BOUNDS)?;
    let (question, socket) = sandboxed_helper::received_question()?;
    let question = StacksQuestion::decode(&question);
    let StacksQuestion { pid, files, events } =
        question.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    let mut copies = FileAccessTable::new();
    let of = |it: &FileRequest| copies.candidates(pid, it.mapped.0, it.mapped.1, &it.file);
    let candidates: Vec<VecDeque<usize>> = files.iter().map(of).collect();
    give_up_rights()?;
    let maps = files
        .iter()
        .zip(&candidates)
        .map(|(file, candidates)| candidates.iter().find_map(|it| map(&copies, *it, file)));
    let maps: Vec<Option<Mmap>> = maps.collect();
    let files = FrameTables::new(maps.iter().map(|it| CallFrames::of(it.as_ref()?)).collect());
    go_back(files, events, &mut BufWriter::new(socket))
}

/// Writes an unwound stack for each copy, and the files that were not available.
pub(super) fn go_back(
    mut files: FrameTables<'_>,
    events: Vec<MemoryEvent>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut code = AddressSpace::default();
    for event in events {
        match event {
            MemoryEvent::Map(start, mapped) => code.map(start, mapped),
            MemoryEvent::Clear => code.clear(),
            MemoryEvent::Stack(sampled) => {
                out.write_all(&encode_way(&walk(&code, &mut files, &sampled)))?;
            }
        }
    }
    out.write_all(&encode_missed(files.missed()))?;
    out.flush()
}

/// Maps a copy into memory, if it is the file that the process had mapped.
fn map(
    copies: &FileAccessTable,
    number: usize,
    FileRequest { file, .. }: &FileRequest,
) -> Option<Mmap> {
    let path = copies.path(number)?;
    let opened = File::open(&path).ok()?;
    is_same(&path, &file.identity).then(|| sandboxed_helper::map(&opened).ok())?
}
