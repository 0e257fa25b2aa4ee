//! Converts logs of other tools into capture logs, which all other parts read unchanged.
//!
//! ```text
//!   bytes ─► LineReader ─► Parser (strace, fio, CSV, …) ┐
//!        └───────────────► blktrace, perf_data ─────────┴► ImportedEvent ─► ImportWriter ─► .iocap
//!                          pure                                             order, frames
//! ```
//!
//! Formats are facts: parsers are written from the tools' output and documents. Data that the other
//! log lacks is absent; where our format needs a number, it is the simplest one, and
//! [`ImportReport`] reports that. Lines that were not understood are counted, and reported at the
//! end and in the log. The input may be any bytes: this code does not panic, and its memory does
//! not grow with the length of the log.

mod blkparse;
mod blktrace;
mod block_csv;
mod block_text;
mod constants;
mod decimal;
mod detect;
mod dxt;
mod fio;
mod import_report;
mod imported_event;
mod ioriot;
mod lines;
mod log;
mod log_content;
mod parser;
mod perf_data;
mod perf_script;
mod records;
mod reorder_window;
mod strace;
mod synthetic_formats;

use std::io::{self, BufRead, Read, Seek, Write};

use thiserror::Error;

pub use block_csv::CsvColumns;
pub use detect::{ImportFormat, detect};
pub use import_report::ImportReport;
pub use imported_event::{Block, ImportedEvent, ImportedKind, ImportedTask, MemoryRead};
pub use log::{ImportInfo, ImportWriter};
pub use log_content::LogContent;

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
        "unrecognized log format; supported: output of strace, perf script, blkparse and darshan-dxt-parser, recordings \
         of perf, files of blktrace, logs of ioriot, iologs of fio (first line: fio version 2 iolog, or 3), and CSV of \
         block devices; --from says which tool wrote the file"
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

/// Description of the input of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportRequest {
    /// Format of the log; `None`: detected.
    pub format: Option<ImportFormat>,
    /// Name of the log's file.
    pub file: String,
    /// Columns of [`ImportFormat::Csv`].
    pub columns: Option<CsvColumns>,
}

/// Converts a log of another tool into a capture log. Several inputs are the files of one trace of
/// blktrace. Returns the output and the report.
///
/// # Errors
///
/// [`ImportError`]; the output is unusable then.
pub fn import<R: BufRead, W: Write>(
    mut inputs: Vec<R>,
    request: &ImportRequest,
    out: W,
) -> Result<(W, ImportReport, ImportFormat), ImportError> {
    let mut head = Vec::new();
    for input in &mut inputs {
        // A CPU without events has an empty file.
        if head.is_empty() {
            head = input.fill_buf()?.to_vec();
        }
    }
    let format = match request.format {
        Some(it) => it,
        None => detect(&head).ok_or(ImportError::Unknown)?,
    };
    let several = inputs.len() > 1;
    if several && format != ImportFormat::Blktrace {
        return Err(ImportError::Refused(format!(
            "several files are one log only for blktrace, and this one is of {}; import one file \
             after the other",
            format.tool()
        )));
    }
    let mut notes = ImportReport::default();
    let mut log = ImportWriter::new(out, info(format, &head, request))?;
    match parser(format, &head, request)? {
        LogParser::Lines(mut parser) => {
            for input in inputs {
                read_lines(input, parser.as_mut(), &mut log, &mut notes)?;
            }
        }
        LogParser::Records(mut parser) => {
            parser.read(inputs, &mut notes, |event| log.put(event))?
        }
    }
    finish(log, notes, format)
}

/// Converts a recording of `perf record` into a capture log: its parts are read in another order
/// than they stand.
///
/// # Errors
///
/// [`ImportError`]; the output is unusable then.
pub fn import_perf_data<R: Read + Seek, W: Write>(
    input: R,
    request: &ImportRequest,
    out: W,
) -> Result<(W, ImportReport, ImportFormat), ImportError> {
    let format = ImportFormat::PerfData;
    let mut notes = ImportReport::default();
    let mut log = ImportWriter::new(out, info(format, &[], request))?;
    perf_data::read(input, &mut notes, |event| log.put(event))?;
    finish(log, notes, format)
}

fn info(format: ImportFormat, head: &[u8], request: &ImportRequest) -> ImportInfo {
    ImportInfo {
        imported: Imported {
            tool: format.tool().into(),
            format: format.described(head),
            file: request.file.clone(),
        },
        content: format.content(),
    }
}

fn finish<W: Write>(
    log: ImportWriter<W>,
    mut notes: ImportReport,
    format: ImportFormat,
) -> Result<(W, ImportReport, ImportFormat), ImportError> {
    if log.is_empty() {
        let read = format!("no operation in {} {}", notes.read, format.unit());
        let why =
            [read].into_iter().chain(notes.messages(format.unit())).collect::<Vec<_>>().join("; ");
        return Err(ImportError::Nothing { tool: format.tool(), why });
    }
    let out = log.finish(&mut notes, format.unit())?;
    Ok((out, notes, format))
}

/// Parser of a format.
enum LogParser {
    Lines(Box<dyn Parser>),
    Records(blktrace::Blktrace),
}

fn parser(
    format: ImportFormat,
    head: &[u8],
    request: &ImportRequest,
) -> Result<LogParser, ImportError> {
    let refused = |why: &str| ImportError::Refused(why.to_owned());
    let no_columns = "--from csv needs the columns: --columns time=us,op,offset=bytes,size=bytes";
    Ok(LogParser::Lines(match format {
        ImportFormat::Strace => Box::new(strace::Strace::new(head)),
        ImportFormat::Ioriot => Box::new(ioriot::Capture::default()),
        ImportFormat::IoriotReplay => Box::new(ioriot::Replay::new(head)),
        ImportFormat::FioIolog => Box::new(fio::Iolog::default()),
        ImportFormat::Blkparse => Box::new(blkparse::Blkparse::default()),
        ImportFormat::PerfScript => Box::new(perf_script::PerfScript::default()),
        ImportFormat::DarshanDxt => Box::new(dxt::Dxt::default()),
        ImportFormat::MsrCsv => Box::new(block_csv::BlockCsv::new(CsvColumns::msr())),
        ImportFormat::SpcCsv => Box::new(block_csv::BlockCsv::new(CsvColumns::spc())),
        ImportFormat::Csv => {
            let columns = request.columns.clone().ok_or_else(|| refused(no_columns))?;
            Box::new(block_csv::BlockCsv::new(columns))
        }
        ImportFormat::Blktrace => return Ok(LogParser::Records(blktrace::Blktrace::default())),
        ImportFormat::PerfData => {
            return Err(refused(
                "a recording of perf is read in another order than it stands: give the file \
                 itself, or perf script -F +pid | iotrace-perf import - -o LOG.iocap",
            ));
        }
    }))
}

impl From<perf_data::Refusal> for ImportError {
    fn from(refusal: perf_data::Refusal) -> Self {
        match refusal {
            perf_data::Refusal::Io(error) => Self::Io(error),
            perf_data::Refusal::Text(why) => Self::Refused(why),
        }
    }
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
    loop {
        let has_more = parser.finish(&mut events, notes);
        events.drain(..).try_for_each(|event| log.put(event))?;
        if !has_more {
            return Ok(());
        }
    }
}
