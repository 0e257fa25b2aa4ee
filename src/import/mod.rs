//! Converts logs of other tools into capture logs, which all other parts read unchanged.
//!
//! ```text
//!   bytes ─► LineReader ─► Parser (strace, ioriot, fio) ┐
//!        └───────────────► blktrace ────────────────────┴► ImportedEvent ─► ImportWriter ─► .iocap
//!                          pure                                             order, frames
//! ```
//!
//! Formats are facts: parsers are written from the tools' output and documents. Data that the other
//! log lacks is absent; where our format needs a number, it is the simplest one, and
//! [`ImportReport`] reports that. Lines that were not understood are counted, and reported at the
//! end and in the log. The input may be any bytes: this code does not panic, and its memory does
//! not grow with the length of the log.

mod blktrace;
mod constants;
mod detect;
mod fio;
mod import_report;
mod imported_event;
mod ioriot;
mod lines;
mod log;
mod parser;
mod records;
mod reorder_window;
mod strace;
mod synthetic_formats;

use std::io::{self, BufRead, Write};

use thiserror::Error;

pub use detect::{ImportFormat, detect};
pub use import_report::ImportReport;
pub use imported_event::{Block, ImportedEvent, ImportedKind, ImportedTask, MemoryRead};
pub use log::{ImportInfo, ImportWriter};

use crate::capture::header::Imported;
use lines::LineReader;
use parser::Parser;

/// Reason for which nothing was imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The other log cannot be read, or our log cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The format is unknown.
    #[error(
        "unrecognized log format; supported: output of strace, logs of ioriot, iologs of fio (first line: fio version 2 \
         iolog, or 3), and binary files of blktrace, not the text of blkparse; --from says which tool wrote the file"
    )]
    Unknown,
    /// No line was understood.
    #[error("the file has no valid data for a log of {tool}: {why}; choose the format with --from")]
    Nothing {
        /// Tool whose format was assumed.
        tool: &'static str,
        /// Data that was found instead.
        why: String,
    },
    /// The log is of a version that cannot be imported.
    #[error("{0}")]
    Refused(String),
}

/// Converts a log of another tool into a capture log. `file` is its name. Returns the output and
/// the report.
///
/// # Errors
///
/// [`ImportError`]; the output is unusable then.
pub fn import<R: BufRead, W: Write>(
    mut input: R,
    format: Option<ImportFormat>,
    file: &str,
    out: W,
) -> Result<(W, ImportReport, ImportFormat), ImportError> {
    let head = input.fill_buf()?.to_vec();
    let format = match format {
        Some(it) => it,
        None => detect(&head).ok_or(ImportError::Unknown)?,
    };
    let about = ImportInfo {
        imported: Imported {
            tool: format.tool().into(),
            format: format.described(&head),
            file: file.into(),
        },
        is_block: format == ImportFormat::Blktrace,
    };
    let mut notes = ImportReport::default();
    let mut log = ImportWriter::new(out, about)?;
    match parser(format, &head) {
        Some(mut parser) => read_lines(input, parser.as_mut(), &mut log, &mut notes)?,
        None => blktrace::Blktrace::default().read(input, &mut notes, |event| log.put(event))?,
    }
    if log.is_empty() {
        let read = format!("no operation in {} {}", notes.read, format.unit());
        let why =
            [read].into_iter().chain(notes.messages(format.unit())).collect::<Vec<_>>().join("; ");
        return Err(ImportError::Nothing { tool: format.tool(), why });
    }
    let out = log.finish(&mut notes, format.unit())?;
    Ok((out, notes, format))
}

/// Parser of its lines; `None`: the format has none.
fn parser(format: ImportFormat, head: &[u8]) -> Option<Box<dyn Parser>> {
    Some(match format {
        ImportFormat::Strace => Box::new(strace::Strace::new(head)),
        ImportFormat::Ioriot => Box::new(ioriot::Capture::default()),
        ImportFormat::IoriotReplay => Box::new(ioriot::Replay::new(head)),
        ImportFormat::FioIolog => Box::new(fio::Iolog::default()),
        ImportFormat::Blktrace => return None,
    })
}

fn read_lines<R: BufRead, W: Write>(
    input: R,
    parser: &mut dyn Parser,
    log: &mut ImportWriter<W>,
    notes: &mut ImportReport,
) -> io::Result<()> {
    let mut lines = LineReader::new(input);
    let mut events = Vec::new();
    while let Some(line) = lines.next()? {
        notes.read += 1;
        if !parser.line(line, &mut events, notes) {
            let number = notes.read;
            notes.not_understood(number, line);
        }
        events.drain(..).try_for_each(|event| log.put(event))?;
    }
    parser.finish(&mut events, notes);
    events.drain(..).try_for_each(|event| log.put(event))
}
