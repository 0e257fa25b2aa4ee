//! Bars of time: by kind of I/O, by layer inside the calls, before and in the devices.

use maud::{Markup, html};

use super::chart::{number, swatch};
use super::input::PageInput;
use super::page_table::page_table;
use super::reports::{PageReports, table};
use super::time_scale::ratio;
use crate::analysis::layer_split::{LAYERS, Split};
use crate::operation::disk;
use crate::operation::io_class::IoClass;
use crate::report::latency::is_recorded;
use crate::report::summary::device;
use crate::text::quantity::time;
use crate::text::shares;

/// Part of a bar: class of its colour, meaning, and time, ns.
type BarPart = (String, String, u64);

/// Meanings of [`LAYERS`].
const MEANINGS: [&str; LAYERS.len()] = [
    "VFS",
    "file system",
    "page cache: waiting for pages",
    "journal",
    "throttled writers",
    "queue of the device",
    "device",
];

/// Returns the block.
pub(super) fn block(input: &PageInput<'_>, reports: &PageReports) -> Markup {
    html! {
        (bar("Time of all operations", &kinds(input)))
        (calls(input))
        (devices(input))
        @if let Some(split) = table(&reports.latency, "split") { details { summary { "Time by layer of each call" } (page_table(split)) } }
        @if let Some(layers) = table(&reports.latency, "layers") { details { summary { "Durations by layer and operation" } (page_table(layers)) } }
    }
}

fn kinds(input: &PageInput<'_>) -> Vec<BarPart> {
    let all = input.fold.summary.all();
    [
        ("l-device", "on files", all.own_time()),
        ("l-queue", "on pipes, sockets, terminals: waiting for other programs", all.waited),
        ("l-fs", "on descriptors of unknown type", all.untyped_ns),
        ("l-rest", "without I/O", all.without_io_ns),
    ]
    .map(|(class, meaning, ns)| (class.to_owned(), meaning.to_owned(), ns))
    .to_vec()
}

/// Time of system calls on files by layer.
fn calls(input: &PageInput<'_>) -> Markup {
    let mut sum = Split::default();
    let splits = input.fold.latency.splits();
    for (_, split) in splits.iter().filter(|((_, io), _)| *io == IoClass::File) {
        sum.count += split.count;
        sum.ns = sum.ns.saturating_add(split.ns);
        sum.layers.iter_mut().zip(split.layers).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
    }
    let header = &input.summary.header;
    let has_layers = header.layers.is_some();
    let mut parts = vec![(
        "l-rest".to_owned(),
        if has_layers { "entry, exit, copying" } else { "in the kernel before the block layer" }
            .to_owned(),
        sum.rest(),
    )];
    for ((layer, ns), meaning) in LAYERS.iter().zip(sum.layers).zip(MEANINGS) {
        if is_recorded(*layer, header) {
            parts.push((format!("l-{}", layer.as_str()), meaning.to_owned(), ns));
        }
    }
    html! {
        (bar("Time of system calls on files, by the deepest layer at work", &parts))
        @if !has_layers {
            p class="note" { "File systems, page cache and journals were not recorded; record them with -e %default,layers." }
        }
    }
}

/// Time of requests before and in each device.
fn devices(input: &PageInput<'_>) -> Markup {
    let names = disk::names(&input.summary.disks());
    let mut all: Vec<(String, [u64; 2])> = Vec::new();
    for ((dev, _), used) in &input.fold.summary.devices {
        let name = device(*dev, &names).text();
        let sums = [used.queue.sum(), used.device.sum()];
        match all.last_mut().filter(|last| last.0 == name) {
            Some((_, known)) => {
                known.iter_mut().zip(sums).for_each(|(sum, ns)| *sum = sum.saturating_add(ns))
            }
            None => all.push((name, sums)),
        }
    }
    let parts = |[queue, device]: [u64; 2]| {
        [("l-queue", "before the driver", queue), ("l-device", "in driver and device", device)]
            .map(|(class, meaning, ns)| (class.to_owned(), meaning.to_owned(), ns))
    };
    html! {
        @for (name, sums) in all { (bar(&format!("Requests of {name}"), &parts(sums))) }
    }
}

/// Bar of parts of a time, and a list of them.
fn bar(title: &str, parts: &[BarPart]) -> Markup {
    let all: u64 = parts.iter().map(|part| part.2).fold(0, u64::saturating_add);
    let mut place = 0.0;
    let mut fields = Vec::new();
    for (class, meaning, ns) in parts.iter().filter(|part| part.2 > 0) {
        let width = ratio(*ns, all) * 1000.0;
        fields.push((class, meaning, place, width));
        place += width;
    }
    html! {
        @if all > 0 {
            figure class="bar" {
                figcaption { h3 { (title) ": " (time(all)) } }
                svg viewBox="0 0 1000 24" preserveAspectRatio="none" aria-hidden="true" {
                    @for (class, meaning, x, width) in &fields {
                        rect class=(class) x=(number(*x)) width=(number(*width)) height="24" { title { (meaning) } }
                    }
                }
                ul class="legend" { @for (class, meaning, ns) in parts {
                    @if *ns > 0 { li { (swatch(class)) (meaning) ": " b { (time(*ns)) } " (" (shares::of(*ns, all)) ")" } }
                } }
            }
        }
    }
}
