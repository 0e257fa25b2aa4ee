//! Helper process that unwinds stacks: opens the files of a process, gives up its privileges,
//! unwinds the stacks, and answers.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use memmap2::Mmap;

use super::cfi::CallFrames;
use super::question::{AskedFile, Event, Question, encode_missed, encode_way};
use super::walk::{Code, Files, walk};
use crate::sys::helper::{self, Bounds};
use crate::tracer::symbols::apart;
use crate::tracer::symbols::copies::{Copies, give_up_rights, is_same};

/// Limits of one question. They allow more time than symbolization, because a question may have
/// thousands of stacks.
pub(super) const BOUNDS: Bounds =
    Bounds { time: Duration::from_secs(60), cpu: Duration::from_secs(30), ..apart::BOUNDS };

/// Answers the question at standard input.
///
/// # Errors
///
/// The question is missing, the privileges cannot be given up, or the reader of the answer is gone.
pub fn answer() -> io::Result<()> {
    helper::limit(&BOUNDS)?;
    let (question, socket) = helper::asked()?;
    let question = Question::decode(&question);
    let Question { pid, files, events } =
        question.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    let mut copies = Copies::new();
    let of = |it: &AskedFile| copies.candidates(pid, it.mapped.0, it.mapped.1, &it.file);
    let candidates: Vec<VecDeque<usize>> = files.iter().map(of).collect();
    give_up_rights()?;
    let maps = files
        .iter()
        .zip(&candidates)
        .map(|(file, candidates)| candidates.iter().find_map(|it| map(&copies, *it, file)));
    let maps: Vec<Option<Mmap>> = maps.collect();
    let files = Files::new(maps.iter().map(|it| CallFrames::of(it.as_ref()?)).collect());
    go_back(files, events, &mut BufWriter::new(socket))
}

/// Writes an unwound stack for each copy, and the files that were not available.
pub(super) fn go_back(
    mut files: Files<'_>,
    events: Vec<Event>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut code = Code::default();
    for event in events {
        match event {
            Event::Map(start, mapped) => code.map(start, mapped),
            Event::Clear => code.clear(),
            Event::Stack(sampled) => {
                out.write_all(&encode_way(&walk(&code, &mut files, &sampled)))?;
            }
        }
    }
    out.write_all(&encode_missed(files.missed()))?;
    out.flush()
}

/// Maps a copy into memory, if it is the file that the process had mapped.
fn map(copies: &Copies, number: usize, AskedFile { file, .. }: &AskedFile) -> Option<Mmap> {
    let path = copies.path(number)?;
    let opened = File::open(&path).ok()?;
    is_same(&path, &file.identity).then(|| helper::map(&opened).ok())?
}
