//! Histograms of sizes and durations: each row doubles the size or the duration.

use maud::{Markup, html};

use super::chart::{legend, number};
use super::input::PageInput;
use super::page_table::frame;
use super::time_scale::ratio;
use crate::analysis::completed_op::OpKind;
use crate::analysis::histogram::Histogram;
use crate::event::block::RequestOp;
use crate::event::syscall_table::CallClass;
use crate::operation::io_class::IoClass;
use crate::text::quantity::{count, size, time};

/// A distribution: class of its colour, heading, and numbers by octave.
type Distribution = (&'static str, &'static str, Vec<u64>);

/// Returns the block; none without operations.
pub(super) fn block(input: &PageInput<'_>) -> Option<Markup> {
    let mut times = [Histogram::default(), Histogram::default(), Histogram::default()];
    let mut sizes = [Histogram::default(), Histogram::default()];
    for ((what, io), stats) in input.fold.summary.calls() {
        if io != IoClass::File {
            continue;
        }
        let place = direction(what);
        if let Some(sum) = times.get_mut(place) {
            sum.merge(&stats.time);
        }
        if let Some(sum) = sizes.get_mut(place) {
            sum.merge(&stats.sizes);
        }
    }
    let mut devices = [Histogram::default(), Histogram::default()];
    for ((_, op), used) in &input.fold.summary.devices {
        let place = usize::from(*op != RequestOp::Read);
        if let Some(sum) = devices.get_mut(place) {
            sum.merge(&used.device);
        }
    }
    let [reads, writes, others] = times.map(|histogram| histogram.octaves());
    let [read, written] = sizes.map(|histogram| histogram.octaves());
    let [device_reads, device_writes] = devices.map(|histogram| histogram.octaves());
    let tables = [
        histogram(
            "Bytes of reads and writes of files",
            size,
            &[("read", "reads", read), ("written", "writes", written)],
        ),
        histogram(
            "Durations of operations on files",
            time,
            &[("read", "reads", reads), ("written", "writes", writes), ("other", "others", others)],
        ),
        histogram(
            "Durations of requests in driver and device",
            time,
            &[("read", "reads", device_reads), ("written", "writes and others", device_writes)],
        ),
    ];
    let is_there = tables.iter().any(Option::is_some);
    is_there.then(
        || html! { div class="histograms" { @for table in tables.iter().flatten() { (table) } } },
    )
}

/// Place of the sum of an operation: reads, writes, others.
fn direction(what: OpKind) -> usize {
    match what.class() {
        CallClass::Read | CallClass::Transfer => 0,
        CallClass::Write => 1,
        _ => 2,
    }
}

fn histogram(title: &str, text: fn(u64) -> String, all: &[Distribution]) -> Option<Markup> {
    let at =
        |row: usize| all.iter().map(move |(_, _, counts)| counts.get(row).copied().unwrap_or(0));
    let rows = all.iter().map(|(_, _, counts)| counts.len()).max().unwrap_or(0);
    let is_used = |row: &usize| at(*row).any(|count| count > 0);
    let (first, last) = ((0..rows).find(is_used)?, (0..rows).rev().find(is_used)?);
    let most = (first..=last).map(|row| at(row).sum::<u64>()).max().unwrap_or(0);
    let colors: Vec<(&str, &str)> =
        all.iter().map(|(class, heading, _)| (*class, *heading)).collect();
    let content = html! {
        table class="histogram" {
            caption { (title) }
            thead { tr {
                th scope="col" { "from" }
                @for (_, heading, _) in all { th scope="col" class="n" { (heading) } }
                th scope="col" { span class="hidden" { "bar" } }
            } }
            tbody { @for row in first..=last {
                tr {
                    th scope="row" class="n" { (from(row, text)) }
                    @for number in at(row) { td class="n" { (count(number)) } }
                    td class="bar" { (bar(&at(row).collect::<Vec<u64>>(), &colors, most)) }
                }
            } }
        }
    };
    Some(html! { div { (frame(title, content)) (legend(&colors)) } })
}

/// Smallest value of an octave.
fn from(octave: usize, text: fn(u64) -> String) -> String {
    match octave {
        0 => text(0),
        _ => text(1_u64.checked_shl(u32::try_from(octave).unwrap_or(u32::MAX)).unwrap_or(u64::MAX)),
    }
}

fn bar(counts: &[u64], colors: &[(&str, &str)], most: u64) -> Markup {
    let mut x = 0.0;
    let mut fields = Vec::new();
    for (count, (class, _)) in counts.iter().zip(colors) {
        let width = ratio(*count, most) * 200.0;
        fields.push((*class, x, width));
        x += width;
    }
    html! {
        svg viewBox="0 0 200 10" preserveAspectRatio="none" aria-hidden="true" {
            @for (class, x, width) in fields {
                @if width > 0.0 { rect class=(class) x=(number(x)) width=(number(width.max(0.5))) height="10" {} }
            }
        }
    }
}
