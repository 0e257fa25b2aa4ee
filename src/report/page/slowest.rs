//! The slowest operations, each with a strip of its layers and the requests that it waited for.

use maud::{Markup, html};

use super::chart::number;
use super::input::PageInput;
use super::page_table::{Details, cut, page_table, with_details};
use super::reports::{PageReports, table};
use super::time_scale::ratio;
use crate::analysis::layer_split::LAYERS;
use crate::analysis::slowest::{SlowOperation, SlowRequest};
use crate::operation::disk;
use crate::report::summary::device;
use crate::text::quantity::{counted, size, time};
use crate::text::table::Cell;
use crate::units::DevId;

/// Names of disks.
type NamedDisks = Vec<(DevId, String)>;

/// Returns the block; none without operations on files.
pub(super) fn block(input: &PageInput<'_>, reports: &PageReports, shown: usize) -> Option<Markup> {
    let slowest = table(&reports.slow, "slowest")?;
    let names = disk::names(&input.summary.disks());
    let start = input.summary.start().0;
    let ranked = input.fold.slowest.ranked();
    let shown: Vec<&SlowOperation> = ranked.into_iter().take(shown).collect();
    let times = shown.iter().map(|slow| {
        let from = slow.start.0.saturating_sub(start);
        (from, from.saturating_add(slow.ns))
    });
    let has_parts = shown.iter().any(|slow| has_parts(slow));
    let rows = shown.iter().filter(|_| has_parts);
    let details = Details {
        heading: "where the time went",
        rows: rows.map(|slow| parts(slow, &names)).collect(),
        times: times.collect(),
    };
    Some(html! {
        @if has_parts { p class="note" id="slow-note" {
            "Each strip is one operation: " span class="l-device-text" { "■" } " device, " span class="l-queue-text" { "■" }
            " queue, " span class="l-journal-text" { "■" } " journal, " span class="l-fs-text" { "■" } " other layers; the rest is empty."
        } }
        div id="slow-table" { (with_details(slowest, Some(&details))) }
        @if let Some(groups) = table(&reports.slow, "groups") {
            details { summary { "By operation and file" } (page_table(groups)) }
        }
    })
}

/// True if anything is known about the time inside of an operation.
fn has_parts(slow: &SlowOperation) -> bool {
    !slow.requests.is_empty()
        || slow.more_requests > 0
        || slow.split.layers.iter().any(|ns| *ns > 0)
}

/// Strip of an operation, and its requests.
fn parts(slow: &SlowOperation, names: &NamedDisks) -> Markup {
    let requests = slow.requests.len() as u64 + slow.more_requests;
    html! {
        (strip(slow))
        @if requests > 0 {
            details {
                summary { (counted(requests, "request")) }
                ul {
                    @for request in &slow.requests { li { (text(request, slow, names)) } }
                    @if slow.more_requests > 0 { li { (counted(slow.more_requests, "earlier request")) } }
                }
            }
        }
    }
}

fn strip(slow: &SlowOperation) -> Markup {
    let mut fields: Vec<(&str, f64, f64)> = Vec::new();
    let mut x = 0.0;
    // The deepest layer first: its share is easy to compare.
    for (layer, ns) in LAYERS.iter().zip(slow.split.layers).rev() {
        let class = match layer.as_str() {
            "device" => "l-device",
            "queue" => "l-queue",
            "journal" => "l-journal",
            _ => "l-fs",
        };
        let width = ratio(ns, slow.ns) * 100.0;
        if width > 0.0 {
            fields.push((class, x, width));
        }
        x += width;
    }
    let is_known = !fields.is_empty();
    html! {
        @if is_known {
            svg class="layers" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
                @for (class, x, width) in fields { rect class=(class) x=(number(x)) width=(number(width)) height="8" {} }
            }
        }
    }
}

/// Sentence about a request.
fn text(request: &SlowRequest, slow: &SlowOperation, names: &NamedDisks) -> String {
    let part = |ns: Option<u64>, what: &str| ns.map(|ns| format!(", {} {what}", time(ns)));
    let ahead = request.ahead.filter(|ahead| *ahead > 0);
    let ahead = ahead.map(|ahead| format!(", {} in the disk before it", counted(ahead, "request")));
    let contents = Cell::Name(request.contents.clone()).text();
    let begin = request.queued.0.saturating_sub(slow.start.0);
    let parts = [
        Some(format!(
            "after {}: {} {} of {} at sector {}",
            time(begin),
            request.op.as_str(),
            size(request.bytes),
            device(request.dev, names).text(),
            request.sector
        )),
        part(request.queue_ns, "in the queue"),
        part(request.device_ns, "in the device"),
        ahead,
        Some(format!("; {contents}")).filter(|_| !contents.is_empty()),
    ];
    cut(&parts.into_iter().flatten().collect::<String>())
}
