//! All formats of output at once, with a check of each line.

use std::io;

use iotrace_perf::capture::header::Header;
use iotrace_perf::operation::model::OpenFile;
use iotrace_perf::operation::{Sink, Step, disk};
use iotrace_perf::text::fields::{FieldLines, FieldSelection, RowForm};
use iotrace_perf::text::ioreplay::IoreplayLines;
use iotrace_perf::text::iotracer::{AccessFilter, IotracerLines};
use iotrace_perf::text::json::JsonLines;
use iotrace_perf::text::line_format::LineWriter;
use iotrace_perf::text::table::Separator;
use iotrace_perf::units::KernelTime;

/// Format of lines.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Json,
    /// Names are not escaped and need not be UTF-8.
    Ioreplay,
}

/// Output that checks whether each line is harmless, and keeps lines if that is requested.
pub struct Harmless {
    kind: Kind,
    pub kept: Option<Vec<u8>>,
}

impl io::Write for Harmless {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.kind {
            Kind::Ioreplay => {
                let text = String::from_utf8_lossy(bytes);
                assert!(!text.contains(|it: char| it.is_control() && it != '\n'), "{text:?}");
            }
            Kind::Text | Kind::Json => check(bytes),
        }
        if self.kind == Kind::Json {
            let value: Result<serde_json::Value, _> = serde_json::from_slice(bytes);
            value.unwrap_or_else(|it| panic!("{it}: {}", String::from_utf8_lossy(bytes)));
        }
        self.kept.iter_mut().for_each(|it| it.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks for UTF-8 text in which only line ends control a terminal.
pub fn check(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|it| panic!("{it}: {bytes:?}"));
    let breaks = |it: char| it.is_control() && it != '\n' || matches!(it, '\u{2028}' | '\u{2029}');
    assert!(!text.contains(breaks), "{text:?}");
}

/// Selection of all operations.
#[derive(Debug)]
pub struct All;

impl AccessFilter for All {
    fn wants(&mut self, _: &Step<'_>) -> bool {
        true
    }

    fn wants_file(&self, _: Option<&OpenFile>) -> bool {
        true
    }
}

/// All formats.
pub struct Outputs {
    pub lines: LineWriter<Harmless>,
    pub json: JsonLines<Harmless>,
    pub csv: FieldLines<Harmless>,
    pub rows: FieldLines<Harmless>,
    pub iotracer: IotracerLines<Harmless, All>,
    pub ioreplay: IoreplayLines<Harmless>,
}

impl Outputs {
    /// Outputs of a log with this header.
    pub fn new(header: &Header, keeps: bool) -> Self {
        let start = KernelTime(header.clock.start_ns);
        let disks = || disk::names(&header.disks);
        let out = |kind| Harmless { kind, kept: keeps.then(Vec::new) };
        let rows = |form| {
            let out = out(if form == RowForm::Json { Kind::Json } else { Kind::Text });
            FieldLines::new(start, disks(), form, FieldSelection::default(), out).expect("memory")
        };
        Self {
            lines: LineWriter::new(start, disks(), out(Kind::Text)).machine(&header.host.machine),
            json: JsonLines::new(start, disks(), out(Kind::Json)),
            csv: rows(RowForm::Separated(Separator::Comma)),
            rows: rows(RowForm::Json),
            iotracer: IotracerLines::new(start, All, out(Kind::Text)),
            ioreplay: IoreplayLines::new(
                start,
                header.clock.start_realtime_ns,
                out(Kind::Ioreplay),
            )
            .expect("memory"),
        }
    }
}

impl Sink for Outputs {
    type Error = io::Error;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> io::Result<()> {
        self.lines.step(time, step)?;
        self.json.step(time, step)?;
        self.csv.step(time, step)?;
        self.rows.step(time, step)?;
        self.iotracer.step(time, step)?;
        self.ioreplay.step(time, step)
    }
}
