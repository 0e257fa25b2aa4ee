//! Report of `replay export`: calls in the logs, and calls that are not.

use super::rows::{column, first_rows, key_column, others};
use crate::pipeline::Summary;
use crate::replay::fio::{FileName, FioExport, JOBS_MAX, Job, Logs};
use crate::text::quantity::counted_with;
use crate::text::table::{Cell, Column, Report, Table};

const JOBS: [Column; 9] = [
    column("job", "job"),
    key_column(1, "pid", "pid"),
    column("tid", "tid"),
    column("comm", "comm"),
    column("reads", "reads"),
    column("writes", "writes"),
    column("syncs", "syncs"),
    column("read_bytes", "bytes read"),
    column("written_bytes", "bytes written"),
];

const FILES: [Column; 7] = [
    column("reads", "reads"),
    column("writes", "writes"),
    column("read_bytes", "bytes read"),
    column("written_bytes", "bytes written"),
    column("size_bytes", "bytes before"),
    column("name", "name"),
    key_column(0, "path", "path"),
];

const LEFT: [Column; 4] = [
    column("reason", ""),
    key_column(0, "call", "call"),
    column("count", "operations"),
    column("", "because"),
];

/// Calls that fio would make, and those that it would not.
pub fn report<L: Logs>(export: &FioExport<L>, _: &Summary, limit: usize) -> Report {
    let jobs: Vec<(usize, &Job)> = export.data_jobs().collect();
    let sum = |of: &dyn Fn(&Job) -> u64| Cell::Count(jobs.iter().map(|job| of(job.1)).sum());
    let files = export.files();
    let prepared = files.iter().map(FileName::size).sum();
    let facts = vec![
        ("exported", "calls in the logs", Cell::Count(export.exported())),
        ("followed", "  model only", Cell::Count(export.followed)),
        ("left", "  not in them", Cell::Count(export.left.values().sum())),
        ("asynchronous_left", "  asynchronous, not in them", Cell::Count(export.asynchronous)),
        ("left_bytes", "  bytes moved by those", Cell::Count(export.left_bytes)),
        ("reads", "reads", sum(&|job| job.operations[0])),
        ("writes", "writes", sum(&|job| job.operations[1])),
        ("syncs", "syncs", sum(&|job| job.operations[2])),
        ("opens", "opens", sum(&|job| job.opens)),
        ("closes", "closes", sum(&|job| job.closes)),
        ("read_bytes", "bytes to read", sum(&|job| job.bytes[0])),
        ("written_bytes", "bytes to write", sum(&|job| job.bytes[1])),
        ("span_ns", "duration", Cell::Ns(export.span.0)),
        ("jobs", "jobs", Cell::Count(jobs.len() as u64)),
        ("files", "files", Cell::Count(files.len() as u64)),
        ("first_bytes", "bytes in them before", Cell::Count(prepared)),
        ("renamed", "  under numbers", Cell::Count(flat(files))),
    ];
    let mut report = Report { kind: "replay export", facts, ..Report::default() };
    report.tables = vec![job_table(&jobs, limit), file_table(files, limit), left(export)];
    report.notes = notes(&jobs);
    report
}

fn flat(files: &[FileName]) -> u64 {
    files.iter().filter(|file| file.is_flat).count() as u64
}

fn job_table(jobs: &[(usize, &Job)], limit: usize) -> Table {
    let mut sorted = jobs.to_vec();
    sorted.sort_by_key(|(number, it)| (std::cmp::Reverse(it.bytes[0] + it.bytes[1]), *number));
    let (shown, rest) = first_rows(sorted, limit);
    let counts = |jobs: &[(usize, &Job)]| {
        let sum = |of: &dyn Fn(&Job) -> u64| Cell::Count(jobs.iter().map(|job| of(job.1)).sum());
        [
            sum(&|job| job.operations[0]),
            sum(&|job| job.operations[1]),
            sum(&|job| job.operations[2]),
            sum(&|job| job.bytes[0]),
            sum(&|job| job.bytes[1]),
        ]
    };
    let row = |numbered: (usize, &Job)| {
        let (number, job) = numbered;
        let mut row = vec![
            Cell::Count(number as u64),
            Cell::Signed(job.pid.into()),
            Cell::Signed(job.tid.into()),
            Cell::Name(job.comm.clone()),
        ];
        row.extend(counts(&[numbered]));
        row
    };
    let mut rows: Vec<Vec<Cell>> = shown.into_iter().map(row).collect();
    if !rest.is_empty() {
        let mut row = vec![Cell::None, Cell::None, Cell::None, others(rest.len())];
        row.extend(counts(&rest));
        rows.push(row);
    }
    let title = format!("Jobs: {}", jobs.len());
    Table { key: "thread_jobs", title, columns: JOBS.to_vec(), rows }
}

fn file_table(files: &[FileName], limit: usize) -> Table {
    let mut sorted: Vec<&FileName> = files.iter().collect();
    sorted.sort_by_key(|file| std::cmp::Reverse(file.bytes[0] + file.bytes[1]));
    let (shown, rest) = first_rows(sorted, limit);
    let counts = |name: &[&FileName]| {
        let sum =
            |of: &dyn Fn(&FileName) -> u64| Cell::Count(name.iter().map(|name| of(name)).sum());
        vec![
            sum(&|name| name.operations[0]),
            sum(&|name| name.operations[1]),
            sum(&|name| name.bytes[0]),
            sum(&|name| name.bytes[1]),
            sum(&|name| name.size()),
        ]
    };
    let row = |name: &FileName| {
        let mut row = counts(&[name]);
        row.extend([Cell::Name(name.name.clone()), Cell::Name(name.path.clone())]);
        row
    };
    let mut rows: Vec<Vec<Cell>> = shown.into_iter().map(row).collect();
    if !rest.is_empty() {
        let mut row = counts(&rest);
        row.extend([Cell::None, others(rest.len())]);
        rows.push(row);
    }
    let title = format!("Files: {}", files.len());
    Table { key: "files_exported", title, columns: FILES.to_vec(), rows }
}

fn left<L: Logs>(export: &FioExport<L>) -> Table {
    let mut rows: Vec<_> = export.left.iter().collect();
    rows.sort_by_key(|(key, it)| (std::cmp::Reverse(**it), **key));
    let row = |((reason, call), operations): (&(_, crate::event::syscall_table::CallId), &u64)| {
        let reason: &crate::replay::fio::NotExported = reason;
        vec![
            Cell::Word(reason.as_str().to_owned()),
            Cell::Word(call.call().name.to_owned()),
            Cell::Count(*operations),
            Cell::Word(reason.to_string()),
        ]
    };
    let rows = rows.into_iter().map(row).collect();
    Table { key: "left_calls", title: "Not in the logs".to_owned(), columns: LEFT.to_vec(), rows }
}

fn notes(jobs: &[(usize, &Job)]) -> Vec<String> {
    let mut notes = Vec::new();
    if jobs.len() > 1 {
        notes.push(
            "fio's jobs do not wait for each other: only the times keep threads apart".to_owned(),
        );
    }
    if jobs.len() > JOBS_MAX {
        notes.push(format!("there are {} jobs, and the limit of fio is {JOBS_MAX}", jobs.len()));
    }
    let mixed = |part: fn(&Job) -> u64| -> u64 {
        let some = jobs.iter().filter(|(_, it)| part(it) < it.operations[0] + it.operations[1]);
        some.map(|job| part(job.1)).sum()
    };
    let direct = mixed(|job| job.direct);
    if direct > 0 {
        notes.push(format!(
            "{} through the page cache, too, because other operations of the thread do: a job of fio has one mode for all its files",
            counted_with(direct, "operation", ["goes", "go"])
        ));
    }
    let sync = mixed(|job| job.sync[0]);
    if sync > 0 {
        notes.push(format!(
            "{} replayed without O_SYNC or O_DSYNC, because other files of the thread have neither",
            counted_with(sync, "operation", ["is", "are"])
        ));
    }
    notes
}
