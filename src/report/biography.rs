//! Report of `files --life`.

use super::rows::{column, first_rows, key_column, others, titled};
use crate::analysis::biography::{Biographies, ByteFates, Life, LifeEvent, LifeStep};
use crate::analysis::summary::KeyParts;
use crate::anomaly::Link;
use crate::pipeline::Summary;
use crate::text::quantity::{counted, size, time};
use crate::text::table::{Cell, Column, Report, Table};

/// Number of lives with a sentence.
const SENTENCES_MAX: usize = 3;

/// Names of the columns of a life.
const LIFE: [Column; 18] = [
    column("born_ns", "born at"),
    column("gone_ns", "gone at"),
    column("events", ""),
    column("read_bytes", "read"),
    column("written_bytes", "written"),
    column("reached_bytes", "reached disk"),
    column("reached_exact_bytes", ""),
    column("reached_inferred_bytes", ""),
    column("reached_direct_bytes", ""),
    column("never_reached_bytes", "never"),
    column("overwritten_bytes", ""),
    column("cut_off_bytes", ""),
    column("removed_bytes", ""),
    column("in_memory_bytes", "in memory"),
    column("unknown_bytes", "unknown"),
    column("certainty", "never is"),
    key_column(1, "inode", "inode"),
    key_column(0, "path", "file"),
];

/// Certainty of the statement that bytes never reached a disk. It is the absence of requests, so it
/// is never exact: another name or an open descriptor may keep a removed file, and its data is
/// written later.
fn certainty(summary: &Summary, life: &Life, fates: &ByteFates) -> Link {
    let has_block = summary.header.tracepoints.iter().any(|point| point.system == "block");
    let is_damaged = summary.lost() > 0 || summary.damaged_bytes > 0;
    // File systems without a block device of their own have devices of the major number 0.
    let has_disk = life.inode.is_some_and(|(dev, _)| dev.major() != 0);
    if !has_block || !has_disk || is_damaged || fates.unknown > 0 {
        return Link::Unknown;
    }
    Link::Inferred
}

fn word(text: impl Into<String>) -> Cell {
    Cell::Word(text.into())
}

/// Path of a name; the mounts and the doubt are not shown.
fn path(name: Option<&[u8]>) -> Cell {
    name.map_or(Cell::None, |name| Cell::Name(KeyParts::of(name).path.to_vec()))
}

struct Lives<'a> {
    fold: &'a Biographies,
    summary: &'a Summary,
    lives: Vec<&'a Life>,
}

impl Lives<'_> {
    /// Returns a time since the start of the recording.
    fn at(&self, event: &LifeEvent) -> u64 {
        event.first.0.saturating_sub(self.summary.start().0)
    }

    fn process(&self, event: &LifeEvent) -> String {
        let name = Cell::Name(self.fold.names.of(event.process).to_vec()).text();
        format!("{name}[{}]", event.pid)
    }

    fn table(&self, limit: usize) -> Table {
        let (shown, rest) = first_rows(self.lives.clone(), limit);
        let mut rows: Vec<Vec<Cell>> = shown.iter().map(|life| self.row(life)).collect();
        if !rest.is_empty() {
            let mut row = vec![Cell::None; LIFE.len() - 1];
            row.push(others(rest.len()));
            rows.push(row);
        }
        let title = format!("Lives ({})", self.lives.len());
        Table { key: "lives", title, columns: LIFE.to_vec(), rows }
    }

    fn row(&self, life: &Life) -> Vec<Cell> {
        let fates = life.fates();
        let [exact, inferred, unknown] = fates.reached;
        let at = |step| life.first(step).map(|event: &LifeEvent| self.at(event));
        let gone = gone(life).map(|event| self.at(event));
        let counts = [
            life.events.iter().map(|event| event.count).sum::<u64>() + life.more_events,
            life.read,
            life.written,
            fates.reached_bytes(),
            exact,
            inferred + unknown,
            fates.direct,
            fates.never_reached(),
            fates.overwritten,
            fates.cut_off,
            fates.removed,
            fates.in_memory,
            fates.unknown,
        ];
        let mut cells = vec![Cell::ns(at(LifeStep::Born)), Cell::ns(gone)];
        cells.extend(counts.map(Cell::Count));
        let certainty = word(certainty(self.summary, life, &fates).as_str());
        cells.push(if fates.never_reached() > 0 { certainty } else { Cell::None });
        cells.push(life.inode.map_or(Cell::None, |(dev, ino)| word(format!("{dev}:{ino}"))));
        cells.push(path(life.last_name.as_deref()));
        cells
    }

    /// Table of the events of all lives.
    fn events(&self, limit: usize) -> Table {
        let numbered = self.lives.iter().enumerate();
        let all: Vec<(usize, &LifeEvent)> = numbered
            .flat_map(|(place, life)| life.events.iter().map(move |event| (place + 1, event)))
            .collect();
        let total = all.len();
        let (shown, rest) = first_rows(all, limit);
        let row = |(number, event): &(usize, &LifeEvent)| {
            let moves =
                matches!(event.what, LifeStep::Read | LifeStep::Written | LifeStep::Truncated);
            let link =
                if event.link == Link::Exact { Cell::None } else { word(event.link.as_str()) };
            vec![
                Cell::Count(*number as u64),
                Cell::Ns(self.at(event)),
                Cell::Ns(event.last.0.saturating_sub(event.first.0)),
                Cell::Count(event.count),
                if moves { Cell::Count(event.bytes) } else { Cell::None },
                word(event.what.as_str()),
                link,
                Cell::Name(self.fold.names.of(event.process).to_vec()),
                Cell::Signed(event.pid.0.into()),
                path(event.name.as_deref()),
                path(event.new_name.as_deref()),
            ]
        };
        let mut rows: Vec<Vec<Cell>> = shown.iter().map(row).collect();
        if !rest.is_empty() {
            let mut row = vec![Cell::None; 11];
            if let Some(cell) = row.get_mut(5) {
                *cell = others(rest.len());
            }
            rows.push(row);
        }
        Table {
            key: "events",
            title: titled("Events", total),
            columns: vec![
                key_column(0, "life", "life"),
                column("start_ns", "at"),
                column("duration_ns", ""),
                column("count", "calls"),
                column("bytes", "bytes"),
                key_column(1, "event", "event"),
                column("certainty", "certainty"),
                key_column(2, "comm", "process"),
                key_column(3, "pid", "pid"),
                key_column(4, "path", "file"),
                key_column(5, "new_path", "new name"),
            ],
            rows,
        }
    }

    /// A sentence for each of the first lives.
    fn findings(&self) -> Table {
        let sentence = |life: &&Life| vec![word(self.sentence(life))];
        Table {
            key: "findings",
            title: "Findings".into(),
            columns: vec![column("text", "finding")],
            rows: self.lives.iter().take(SENTENCES_MAX).map(sentence).collect(),
        }
    }

    fn sentence(&self, life: &Life) -> String {
        let name = match path(life.last_name.as_deref()) {
            Cell::None => "a file without a name".to_owned(),
            name => name.text(),
        };
        let mut parts = Vec::new();
        if let Some(born) = life.first(LifeStep::Born) {
            let inferred = if born.link == Link::Exact { "" } else { " (inferred)" };
            parts.push(format!(
                "born at {}{inferred} by {}",
                time(self.at(born)),
                self.process(born)
            ));
        }
        for (what, bytes, verb) in
            [(LifeStep::Written, life.written, "written"), (LifeStep::Read, life.read, "read")]
        {
            let of = life.events.iter().filter(|event| event.what == what);
            let mut processes: Vec<_> = of.map(|event| event.process).collect();
            processes.sort_unstable();
            processes.dedup();
            let by = match processes.len() {
                0 => continue,
                1 => life.first(what).map_or_else(String::new, |event| self.process(event)),
                count => format!("{count} processes"),
            };
            parts.push(format!("{} {verb} by {by}", size(bytes)));
        }
        if let Some(gone) = gone(life) {
            let what = gone.what.as_str();
            parts.push(format!("{what} at {} by {}", time(self.at(gone)), self.process(gone)));
        }
        let fates = life.fates();
        if fates.never_reached() > 0 {
            let (never, all) = (size(fates.never_reached()), size(life.written));
            let link = certainty(self.summary, life, &fates).as_str();
            parts.push(format!("{never} of {all} never reached the disk ({link})"));
        }
        if parts.is_empty() {
            parts.push(counted(life.events.len() as u64, "event"));
        }
        format!("{name}: {}", parts.join(", "))
    }
}

/// Returns the event that ended a life.
fn gone(life: &Life) -> Option<&LifeEvent> {
    let is_end = |event: &&LifeEvent| matches!(event.what, LifeStep::Removed | LifeStep::Replaced);
    life.events.iter().rev().find(is_end).filter(|_| life.is_gone)
}

/// All of `files --life` except for the last lines of the capture.
pub fn report(fold: &Biographies, summary: &Summary, limit: usize) -> Report {
    let lives = Lives { fold, summary, lives: fold.chosen().collect() };
    let mut report = Report { kind: "life", ..Report::default() };
    report.tables = vec![lives.findings(), lives.table(limit), lives.events(limit)];
    if lives.lives.is_empty() {
        report
            .notes
            .push("no recorded call used this file; files --all-files lists all names".into());
    }
    let more: u64 = lives.lives.iter().map(|life| life.more_events).sum();
    for (count, noun, what) in [
        (more, "event", "beyond the limit of each life are counted only"),
        (fold.not_followed, "file", "had no room, so earlier names of this one may be missing"),
        (
            fold.not_remembered,
            "open or absent file",
            "had no room: births and accesses may be missing",
        ),
        (fold.unknown_names, "change", "of a name that is not known: a life may lack its end"),
    ] {
        if count > 0 {
            report.notes.push(format!("{} {what}", counted(count, noun)));
        }
    }
    report
}
