//! Charts over time: bytes and operations of calls, durations, requests of the disks.

use maud::{Markup, html};

use super::chart::{PLOT, TimeChart, step_area};
use super::input::PageInput;
use super::latency_heat;
use super::mirror::MirrorChart;
use super::time_scale::{TimeScale, axis_end, ratio};
use super::timeline_table;
use crate::analysis::timeline::TimeBin;
use crate::text::quantity;

/// Height of the chart of the queue depth.
const DEPTH_HEIGHT: u32 = 70;

/// Returns the block; none without operations and requests.
pub(super) fn block(input: &PageInput<'_>) -> Option<Markup> {
    let fold = &input.fold.timeline;
    let total = fold.total();
    let scale = TimeScale::of(input);
    let has_calls = total.operations.iter().sum::<u64>() > 0;
    let has_requests = total.requests.iter().sum::<u64>() > 0;
    let bins = fold.bins.as_slice();
    (has_calls || has_requests).then(|| {
        html! {
            p class="note" {
                "Each step is " (quantity::time(scale.bin_ns)) " long. Bytes and operations count when their operation ends."
            }
            (selection())
            @if has_calls {
                (throughput().chart(bins, &scale).figure(&scale))
                (operations().chart(bins, &scale).figure(&scale))
                (latency_heat::figure(input, &scale))
            }
            @if has_requests {
                (device_throughput().chart(bins, &scale).figure(&scale))
                (requests().chart(bins, &scale).figure(&scale))
                (depth(bins, &scale, input.is_whole).figure(&scale))
                @if input.is_whole && input.summary.others().values().any(|others| others.all().0 > 0) {
                    p class="note" {
                        "Requests of programs that were not recorded have no times: they are in the tables of disks, not in these charts."
                    }
                }
            } @else {
                p { "No disk has completed a request in this time, or block requests were not recorded." }
            }
            (timeline_table::details(input, &scale))
        }
    })
}

/// Fields for a selection of a time, which the script shows.
fn selection() -> Markup {
    html! {
        form id="selection" hidden aria-label="Selection of a time" {
            label { "from " input id="from" type="number" min="0" step="any"; " s" }
            label { "to " input id="to" type="number" min="0" step="any"; " s" }
            button type="button" id="reset" { "All" }
            output id="selected" aria-live="polite" {}
        }
    }
}

fn throughput() -> MirrorChart<'static> {
    MirrorChart {
        id: "chart-bytes",
        title: "Bytes of calls",
        note: "Reads from memory count, too: the page cache. The strong colours are files, the light ones include pipes and sockets.",
        all: |bin| bin.moved,
        part: Some(|bin| bin.on_files),
        legend: vec![
            ("read", "read from files"),
            ("written", "written to files"),
            ("read-light", "read from anything"),
            ("written-light", "written to anything"),
        ],
        is_bytes: true,
    }
}

fn operations() -> MirrorChart<'static> {
    MirrorChart {
        id: "chart-operations",
        title: "Calls that read and write",
        note: "Opens, stats and other calls are in the table below.",
        all: |bin| [bin.operations[0], bin.operations[1]],
        part: None,
        legend: vec![("read", "reads"), ("written", "writes")],
        is_bytes: false,
    }
}

fn device_throughput() -> MirrorChart<'static> {
    MirrorChart {
        id: "chart-disk-bytes",
        title: "Bytes of disks",
        note: "The strong colour of writes is what the kernel wrote back for a program later. A device above other ones (dm, md) is not counted.",
        all: |bin| bin.device_bytes,
        part: Some(|bin| [bin.device_bytes[0], bin.written_back]),
        legend: vec![
            ("read", "read"),
            ("written-light", "written"),
            ("written", "written back by the kernel"),
        ],
        is_bytes: true,
    }
}

fn requests() -> MirrorChart<'static> {
    MirrorChart {
        id: "chart-requests",
        title: "Requests of disks",
        note: "Discards and flushes are in the table below.",
        all: |bin| [bin.requests[0], bin.requests[1]],
        part: None,
        legend: vec![("read", "reads"), ("written", "writes")],
        is_bytes: false,
    }
}

fn depth(bins: &[TimeBin], scale: &TimeScale, is_whole: bool) -> TimeChart<'static> {
    let shown = scale.bins(bins);
    let end = scale.x(shown.end as u64 * scale.bin_ns, PLOT);
    let bins = bins.get(shown.clone()).unwrap_or_default();
    let most = bins.iter().map(|bin| bin.depth).max().unwrap_or(0);
    let top = axis_end(most);
    let height = f64::from(DEPTH_HEIGHT);
    let step = |(number, bin): (usize, &TimeBin)| {
        let x = scale.x(number as u64 * scale.bin_ns, PLOT);
        (x, height - ratio(bin.depth, top) * height)
    };
    let steps: Vec<(f64, f64)> = shown.zip(bins).map(step).collect();
    TimeChart {
        id: "chart-depth",
        title: "Requests in the disks at once",
        text: format!("The largest number in each step; {most} at most."),
        note: match is_whole {
            true => "",
            false => "Requests that the filter leaves out count here, too.",
        },
        height: DEPTH_HEIGHT,
        labels: vec![(0.0, top.to_string()), (height, "0".to_owned())],
        legend: Vec::new(),
        plot: html! { path class="depth" d=(step_area(&steps, end, height)) {} },
    }
}

/// Returns the charts of the block, in its order, with the meaning of the darkest colour of a map;
/// without operations and requests none.
pub(super) fn charts(
    input: &PageInput<'_>,
    scale: &TimeScale,
) -> Vec<(TimeChart<'static>, Option<String>)> {
    let (fold, total) = (&input.fold.timeline, input.fold.timeline.total());
    let bins = fold.bins.as_slice();
    let mut charts = Vec::new();
    if total.operations.iter().sum::<u64>() > 0 {
        charts.push((throughput().chart(bins, scale), None));
        charts.push((operations().chart(bins, scale), None));
        if let Some((chart, largest)) = latency_heat::chart(input, scale) {
            let darkest = quantity::counted(largest, "operation");
            charts.push((chart, Some(format!("up to {darkest}, each lighter colour a quarter"))));
        }
    }
    if total.requests.iter().sum::<u64>() > 0 {
        charts.push((device_throughput().chart(bins, scale), None));
        charts.push((requests().chart(bins, scale), None));
        charts.push((depth(bins, scale, input.is_whole), None));
    }
    charts
}
