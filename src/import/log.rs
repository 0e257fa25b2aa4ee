//! Writer of a capture log from imported events.
//!
//! ```text
//!   ImportedEvent ─► ReorderWindow ─► frames: FACTS (names, what was open) ─► DATA ─► ROUND
//!           (window)
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};

use rustc_hash::FxHashSet;

use super::import_report::ImportReport;
use super::imported_event::{ImportedEvent, ImportedKind};
use super::log_content::LogContent;
use super::records::{MACHINE, SAMPLE_TYPE, encode};
use super::reorder_window::ReorderWindow;
use super::synthetic_formats;
use crate::capture::fact::{Fact, FactsFrame, Text};
use crate::capture::format::{Codec, FrameKind};
use crate::capture::header::{
    CaptureScope, Clock, Counts, Disk, End, Header, Host, Imported, RecordLayout, RingInfo,
};
use crate::capture::writer::{DataFrame, Writer};
use crate::event::syscall_table::CALLS;
use crate::units::{CpuId, KernelTime, Pid};

/// Bytes at which a data frame is closed.
const FRAME_BYTES: usize = 2 << 20;

/// Lower limit of times since 1970, which a log with dates has: 1980, in ns.
const EPOCH_MIN: u64 = 315_532_800_000_000_000;

/// Facts about the log that are known before it is read.
#[derive(Clone, Debug, Default)]
pub struct ImportInfo {
    /// Tool and format.
    pub imported: Imported,
    /// Kinds of events that the log may have.
    pub content: LogContent,
}

/// Writer of the log.
#[derive(Debug)]
pub struct ImportWriter<W: Write> {
    writer: Writer<W>,
    about: ImportInfo,
    order: ReorderWindow,
    /// False until the first time is known and written.
    begun: bool,
    facts: FactsFrame,
    bytes: Vec<u8>,
    records: u32,
    first: u64,
    last: u64,
    samples: BTreeMap<u16, u64>,
    /// Processes whose root directory is known.
    rooted: FxHashSet<Pid>,
    /// Names of devices, for the header.
    disks: Vec<Disk>,
    /// Devices whose names came after the header.
    late_disks: u64,
}

impl<W: Write> ImportWriter<W> {
    /// Begins a log on `out`.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn new(out: W, about: ImportInfo) -> io::Result<Self> {
        Ok(Self {
            writer: Writer::new(out)?,
            about,
            order: ReorderWindow::default(),
            begun: false,
            facts: FactsFrame::default(),
            bytes: Vec::new(),
            records: 0,
            first: 0,
            last: 0,
            samples: BTreeMap::new(),
            rooted: FxHashSet::default(),
            disks: Vec::new(),
            late_disks: 0,
        })
    }

    /// True if there was no event.
    pub(super) fn is_empty(&self) -> bool {
        !self.begun && self.order.is_empty()
    }

    /// Takes events in approximate order of their times.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    pub fn put(&mut self, event: ImportedEvent) -> io::Result<()> {
        if let ImportedKind::Disk(dev, name) = &event.what {
            if self.begun {
                self.late_disks += 1;
                return Ok(());
            }
            let name = name.escape_ascii().to_string();
            self.disks.push(Disk { dev: dev.to_string(), name, ..Disk::default() });
            return Ok(());
        }
        match self.order.push(event) {
            Some(due) => self.write(due),
            None => Ok(()),
        }
    }

    fn write(&mut self, event: ImportedEvent) -> io::Result<()> {
        if !self.begun {
            self.begin(event.time)?;
        }
        if self.records == 0 {
            self.first = event.time;
        }
        self.last = event.time;
        let before = self.bytes.len();
        let point = encode(&mut self.bytes, &event);
        let births = u32::from(matches!(event.what, ImportedKind::Born(..)));
        self.records += births + u32::from(self.bytes.len() > before);
        if let Some(point) = point {
            *self.samples.entry(synthetic_formats::number(point)).or_default() += 1;
        }
        self.note(event);
        if self.bytes.len() >= FRAME_BYTES || self.facts.is_full() {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the facts of an event, which are not records.
    fn note(&mut self, event: ImportedEvent) {
        let (time, pid) = (KernelTime(event.time), event.task.pid);
        if self.about.content.has_calls() && self.rooted.insert(pid) {
            // The other tool's paths begin at its own root, and so, presumably, do those of the
            // processes that it traced.
            self.facts.push(&Fact::Text { time, which: Text::ROOT, pid, text: b"/".to_vec() });
        }
        match event.what {
            ImportedKind::Exit(_, _, reads) => {
                for read in reads {
                    self.facts.push(&Fact::Name {
                        tid: event.task.tid,
                        cpu: CpuId(0),
                        record_time: time,
                        of: read.of,
                        begin: time,
                        end: time,
                        errno: 0,
                        address: read.address,
                        stat: read.stat,
                        bytes: read.bytes,
                    });
                }
            }
            ImportedKind::Open(fd, link, flags) => self.facts.push(&Fact::Fd {
                begin: time,
                end: time,
                pid,
                fd,
                flags,
                position: 0,
                // The position is unknown: other processes may move it.
                shared: true,
                stat: None,
                link,
            }),
            // A child inherits the root of its parent.
            ImportedKind::Born(child, _) => {
                self.rooted.insert(child.pid);
            }
            ImportedKind::Directory(text) => {
                self.facts.push(&Fact::Text { time, which: Text::CWD, pid, text })
            }
            _ => {}
        }
    }

    fn begin(&mut self, first: u64) -> io::Result<()> {
        self.begun = true;
        let start = KernelTime(first.saturating_sub(1));
        let header = Header { disks: self.disks.clone(), ..header(&self.about, start.0) };
        self.writer.json(FrameKind::HEADER, start, &header)?;
        // There was no snapshot: no event waits for its end.
        let over = (Text::SNAPSHOT_OVER, Pid(0), Vec::new());
        let (which, pid, text) = over;
        self.facts.push(&Fact::Text { time: start, which, pid, text });
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let time = KernelTime(self.last);
        if self.facts.count > 0 {
            self.writer.facts(time, &mut std::mem::take(&mut self.facts))?;
        }
        if self.records > 0 {
            let frame = DataFrame {
                cpu: 0,
                stream: 0,
                layout: 0,
                codec: Codec::ZSTD_DELTA,
                first_time: KernelTime(self.first),
                last_time: time,
                records: std::mem::take(&mut self.records),
            };
            self.writer.data(&frame, &mut self.bytes)?;
            self.bytes.clear();
        }
        self.writer.round(time)
    }

    /// Ends the log. Lines that were not understood are in its counters; `unit` is the unit of
    /// `notes`.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    pub fn finish(mut self, notes: &mut ImportReport, unit: &str) -> io::Result<W> {
        while let Some(due) = self.order.pop() {
            self.write(due)?;
        }
        if !self.begun {
            self.begin(1)?;
            self.last = 1;
        }
        self.flush()?;
        notes.add(
            "began before others that appear much earlier in the log: their times were delayed",
            self.order.late,
        );
        notes.add("devices that appear late in the log: without their names", self.late_disks);
        let end = End {
            end_ns: self.last,
            end_realtime_ns: if self.last > EPOCH_MIN { self.last } else { 0 },
            reason: "imported".into(),
            tracepoints: self.counts(),
            warnings: notes.messages(unit),
            ..End::default()
        };
        self.writer.json(FrameKind::END, KernelTime(self.last), &end)?;
        Ok(self.writer.into_inner())
    }

    fn counts(&self) -> Vec<Counts> {
        let counts =
            synthetic_formats::described(self.about.content).into_iter().map(|text| Counts {
                samples: self.samples.get(&text.id).copied().unwrap_or(0),
                name: format!("{}:{}", text.system, text.name),
                ring: 0,
                hits: None,
                lost: None,
            });
        counts.collect()
    }
}

fn header(about: &ImportInfo, start: u64) -> Header {
    let is_dated = start > EPOCH_MIN;
    let calls = if about.content.has_calls() { CALLS } else { &[] };
    Header {
        tool_version: env!("CARGO_PKG_VERSION").into(),
        // The only known fact about the machine is that its calls have these names: the numbers are
        // ours.
        host: Host { machine: MACHINE.into(), cpus: vec![0], page_bytes: 4096, ..Host::default() },
        clock: Clock {
            name: if is_dated { "CLOCK_REALTIME" } else { "unknown" }.into(),
            start_ns: start,
            all_on_ns: start,
            start_realtime_ns: if is_dated { start } else { 0 },
        },
        scope: CaptureScope { mode: "system".into(), ..CaptureScope::default() },
        calls: calls.iter().map(|call| call.name.to_owned()).collect(),
        args: "exact".into(),
        names: "imported".into(),
        source: "imported".into(),
        source_reason: format!("from {}: {}", about.imported.tool, about.imported.format),
        exec_exits: true,
        layouts: vec![RecordLayout {
            source: "perf".into(),
            sample_type: SAMPLE_TYPE,
            ..RecordLayout::default()
        }],
        rings: vec![RingInfo { name: "imported".into(), bytes: 0 }],
        tracepoints: synthetic_formats::described(about.content),
        imported: Some(about.imported.clone()),
        ..Header::default()
    }
}
