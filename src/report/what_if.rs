//! Report of `what-if`.

use super::read_ahead;
use super::rows::{binary_size, column, key_column};
use super::summary::device;
use crate::analysis::what_if::{DeviceWish, PAGES_MAX, PredictedHits, QueuePrediction, WhatIf};
use crate::operation::disk;
use crate::pipeline::Summary;
use crate::text::quantity::{count, counted, size, time};
use crate::text::shares;
use crate::text::table::{Cell, Report, Table};
use crate::units::DevId;

/// Amounts of memory and properties of a device that are asked about.
#[derive(Clone, Copy, Debug, Default)]
pub struct WhatIfOptions {
    /// True if sizes of the memory were given: each has a row.
    pub has_sizes: bool,
    /// Properties of another device; `None`: not asked.
    pub device: Option<DeviceWish>,
}

/// Part of the working set below which sizes are shown only if they were given.
const SMALLEST_PART: u64 = 1024;

/// Part of the page reads by which a size may be worse than any other one and is still enough.
const ENOUGH_PART: u64 = 100;

/// All of `what-if` except for the last lines of the capture.
pub fn report(fold: &WhatIf, summary: &Summary, options: WhatIfOptions) -> Report {
    let rates = &fold.rates;
    let working_set = rates.pages_at_once.saturating_mul(fold.page_bytes);
    let rows = shown(rates.predictions(), working_set, options);
    let disks = disk::names(&summary.disks());
    let queues = options.device.map(|wish| fold.queues.predictions(wish)).unwrap_or_default();
    let mut report = Report { kind: "what-if", ..Report::default() };
    report.facts = facts(fold, working_set);
    report.tables = vec![
        findings(fold, &rows, &queues, &disks),
        read_ahead::table(fold),
        memory(fold, &rows),
        devices(&queues, &disks),
    ];
    report.notes = notes(fold, summary, options, &rows);
    report
}

/// Returns the sizes that are shown: those of interest, if none was given.
fn shown(all: Vec<PredictedHits>, working_set: u64, options: WhatIfOptions) -> Vec<PredictedHits> {
    if options.has_sizes {
        return all;
    }
    let is_small = |row: &PredictedHits| row.memory_bytes < working_set / SMALLEST_PART;
    let rows = all.into_iter().skip_while(is_small);
    let mut has_all = working_set == 0;
    let until_all = |row: &PredictedHits| {
        let is_shown = !has_all;
        has_all = has_all || row.memory_bytes >= working_set;
        is_shown
    };
    rows.take_while(until_all).collect()
}

fn facts(fold: &WhatIf, working_set: u64) -> Vec<(&'static str, &'static str, Cell)> {
    let (followed, one_of) = fold.rates.sample();
    let uncached = fold.uncached();
    let titled = |title: &'static str, bytes: u64| if bytes > 0 { title } else { "" };
    vec![
        ("page_reads", "page reads", Cell::Count(fold.rates.reads)),
        ("first_page_reads", "first reads of a page", Cell::Count(fold.rates.first_reads())),
        ("working_set_bytes", "pages in memory at once", Cell::Count(working_set)),
        ("page_bytes", "", Cell::Count(fold.page_bytes)),
        ("followed_pages", "", Cell::Count(followed)),
        ("pages_per_followed", "", Cell::Count(one_of)),
        ("direct_bytes", titled("past the cache", uncached.direct), Cell::Count(uncached.direct)),
        (
            "elsewhere_bytes",
            titled("elsewhere", uncached.elsewhere),
            Cell::Count(uncached.elsewhere),
        ),
        ("unknown_bytes", titled("unknown", uncached.unknown), Cell::Count(uncached.unknown)),
        ("read_ahead_reads", "", Cell::Count(fold.read_ahead.reads)),
        ("read_ahead_bytes", "", Cell::Count(fold.read_ahead.read_bytes)),
        ("read_ahead_left_out", "", Cell::Count(fold.read_ahead.left_out)),
        ("read_ahead_without_length", "", Cell::Count(fold.read_ahead.without_length)),
    ]
}

fn hits(misses: Option<u64>, reads: u64) -> Cell {
    misses.map_or(Cell::None, |misses| Cell::share(reads.saturating_sub(misses), reads))
}

fn hits_text(misses: u64, reads: u64) -> String {
    shares::of(reads.saturating_sub(misses), reads)
}

/// Table of sizes of the memory.
fn memory(fold: &WhatIf, rows: &[PredictedHits]) -> Table {
    let reads = fold.rates.reads;
    let (_, one_of) = fold.rates.sample();
    let row = |row: &PredictedHits| {
        vec![
            Cell::Word(binary_size(row.memory_bytes)),
            Cell::Count(row.memory_bytes),
            hits(row.misses, reads),
            Cell::share(row.misses_error, reads),
            hits(row.lru_misses, reads),
            Cell::count(row.misses.map(|misses| misses.saturating_mul(fold.page_bytes))),
        ]
    };
    Table {
        key: "memory",
        title: "Page reads that hit, by the memory for the page cache".into(),
        columns: vec![
            key_column(0, "", "memory"),
            column("memory_bytes", ""),
            column("hit_rate", "hits"),
            column("hit_rate_error", if one_of > 1 { "error" } else { "" }),
            column("lru_hit_rate", "with LRU"),
            column("missed_bytes", "from the device"),
        ],
        rows: rows.iter().map(row).collect(),
    }
}

/// Table of devices.
fn devices(queues: &[(DevId, QueuePrediction)], disks: &[(DevId, String)]) -> Table {
    let row = |(dev, queue): &(DevId, QueuePrediction)| {
        vec![
            device(*dev, disks),
            Cell::Count(queue.requests),
            Cell::ns(mean(queue.recorded.sum(), queue.requests)),
            Cell::ns(mean(queue.open.times.sum(), queue.requests)),
            Cell::ns(queue.open.times.percentile(990)),
            Cell::ns(mean(queue.closed.times.sum(), queue.requests)),
            Cell::ns(queue.closed.times.percentile(990)),
            Cell::ns(mean(queue.open.waited_ns, queue.requests)),
            Cell::Ns(queue.waited_bound_ns),
            Cell::share(queue.busy_ns, queue.span_ns),
            Cell::Ns(queue.latency_ns),
            Cell::Count(queue.depth.into()),
            Cell::Count(queue.in_flight),
            Cell::ns(queue.recorded.percentile(990)),
            Cell::Ns(queue.open.times.max()),
            Cell::Ns(queue.busy_ns),
            Cell::Ns(queue.span_ns),
            Cell::ns(queue.recorded.percentile(500)),
            Cell::ns(queue.open.times.percentile(500)),
            Cell::Ns(queue.open.span_ns),
            Cell::ns(queue.closed.times.percentile(500)),
            Cell::ns(mean(queue.closed.waited_ns, queue.requests)),
            Cell::Ns(queue.closed.span_ns),
        ]
    };
    Table {
        key: "devices",
        title: format!("Requests on another device ({})", queues.len()),
        columns: vec![
            key_column(0, "disk", "disk"),
            column("requests", "requests"),
            column("recorded_mean_ns", "recorded"),
            column("predicted_mean_ns", "open"),
            column("predicted_p99_ns", "p99"),
            column("closed_mean_ns", "closed"),
            column("closed_p99_ns", "p99"),
            column("waited_mean_ns", ""),
            column("waited_bound_ns", ""),
            column("load", "load"),
            column("latency_ns", ""),
            column("depth", ""),
            column("in_flight_max", ""),
            column("recorded_p99_ns", ""),
            column("predicted_max_ns", ""),
            column("busy_ns", ""),
            column("span_ns", ""),
            column("recorded_median_ns", ""),
            column("predicted_median_ns", ""),
            column("predicted_span_ns", ""),
            column("closed_median_ns", ""),
            column("closed_waited_mean_ns", ""),
            column("closed_span_ns", ""),
        ],
        rows: queues.iter().map(row).collect(),
    }
}

fn mean(sum: u64, number: u64) -> Option<u64> {
    sum.checked_div(number)
}

fn findings(
    fold: &WhatIf,
    rows: &[PredictedHits],
    queues: &[(DevId, QueuePrediction)],
    disks: &[(DevId, String)],
) -> Table {
    let of_queue = |(dev, queue): &(DevId, QueuePrediction)| of_device(*dev, queue, disks);
    let mut sentences: Vec<String> = queues.iter().map(of_queue).collect();
    sentences.extend(read_ahead::finding(fold));
    sentences.extend(enough(fold, rows));
    let (first, reads) = (fold.rates.first_reads(), fold.rates.reads);
    if first > 0 {
        sentences.push(format!(
            "{} of {} are the first of their page, and come from the device whatever the memory",
            shares::of(first, reads),
            counted(reads, "page read")
        ));
    }
    Table {
        key: "findings",
        title: "Findings".into(),
        columns: vec![column("text", "finding")],
        rows: sentences.into_iter().map(|text| vec![Cell::Word(text)]).collect(),
    }
}

/// Sentence about the smallest shown size that is nearly as good as any other one.
fn enough(fold: &WhatIf, rows: &[PredictedHits]) -> Option<String> {
    let (first, reads) = (fold.rates.first_reads(), fold.rates.reads);
    if reads == 0 {
        return None;
    }
    let limit = first.saturating_add(reads / ENOUGH_PART);
    let is_enough = |row: &PredictedHits| row.misses.is_some_and(|misses| misses <= limit);
    let Some(place) = rows.iter().position(is_enough) else {
        return Some(format!(
            "no size of these is enough: with all pages in memory {} of page reads hit",
            hits_text(first, reads)
        ));
    };
    let row = rows.get(place)?;
    let mut text = format!(
        "{} of page cache: {} of page reads hit, with more memory at most {}",
        binary_size(row.memory_bytes),
        hits_text(row.misses?, reads),
        hits_text(first, reads),
    );
    let smaller = place.checked_sub(1).and_then(|before| rows.get(before));
    if let Some((smaller, misses)) = smaller.and_then(|row| Some((row, row.misses?))) {
        let smaller = binary_size(smaller.memory_bytes);
        text.push_str(&format!("; {smaller}: only {}", hits_text(misses, reads)));
    }
    Some(text)
}

fn of_device(dev: DevId, queue: &QueuePrediction, disks: &[(DevId, String)]) -> String {
    format!(
        "{} with {} and {} at once: requests take {} in all if threads wait for them, {} by the clock, instead of {}",
        device(dev, disks).text(),
        time(queue.latency_ns),
        count(queue.depth.into()),
        time(queue.closed.span_ns),
        time(queue.open.span_ns),
        time(queue.span_ns),
    )
}

fn notes(
    fold: &WhatIf,
    summary: &Summary,
    options: WhatIfOptions,
    rows: &[PredictedHits],
) -> Vec<String> {
    let mut notes = Vec::new();
    let (followed, one_of) = fold.rates.sample();
    if one_of > 1 {
        notes.push(format!(
            "one of {} pages is followed, {} in all (exact up to {}); error is twice the standard error of the hits",
            count(one_of),
            count(followed),
            count(PAGES_MAX as u64)
        ));
    }
    if rows.iter().any(|row| row.misses.is_none()) {
        notes.push("-: the sample has too few pages for so little memory".to_owned());
    }
    if fold.rates.reads > 0 {
        notes.push(
            "the cache is empty at the beginning; hits: two lists as in the kernel; LRU: what was not used for \
             longest is evicted; where the two differ much, the result depends on details"
                .to_owned(),
        );
        notes.push(
            "not in the model: accesses through mappings, pages that are read ahead in vain, the memory of programs, \
             written pages that wait for their disk"
                .to_owned(),
        );
    } else {
        notes.push("no read of a file through the page cache is selected".to_owned());
    }
    if fold.uncached().unknown > 0 {
        notes.push(format!(
            "{} of reads and writes are not in the model: their file or position is not known",
            size(fold.uncached().unknown)
        ));
    }
    notes.extend(read_ahead::notes(fold));
    notes.extend(device_notes(fold, summary, options));
    notes
}

fn device_notes(fold: &WhatIf, summary: &Summary, options: WhatIfOptions) -> Vec<String> {
    if options.device.is_none() {
        return Vec::new();
    }
    let has_block = summary.header.tracepoints.iter().any(|point| point.system == "block");
    if !has_block {
        let text = "devices: block requests were not recorded; record them with -e %default";
        return vec![text.to_owned()];
    }
    let mut notes = vec![
        "devices: open: requests arrive as recorded; closed: each thread waits for its requests as it did, and \
         first for the last one of others before it; a program that sends by the clock, or can have more in flight, \
         is between the two; each request takes the same time, whatever its size"
            .to_owned(),
    ];
    if fold.queues.left_out > 0 {
        let requests = counted(fold.queues.left_out, "request");
        notes.push(format!("devices: {requests} beyond the limit are left out"));
    }
    if fold.queues.asynchronous_left_out > 0 {
        let operations = counted(fold.queues.asynchronous_left_out, "asynchronous operation");
        notes.push(format!(
            "devices: {operations} beyond the limit are left out: threads may have more in flight than the closed \
             model and the bound have"
        ));
    }
    if fold.queues.without_times > 0 {
        let requests = counted(fold.queues.without_times, "request");
        notes.push(format!("devices: {requests} without a known begin or end are left out"));
    }
    notes
}
