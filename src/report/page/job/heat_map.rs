//! Maps of rank and time, and the chart of all ranks together.

use std::fmt::Write;

use maud::{Markup, PreEscaped, html};

use super::line_layout::{JobMap, MapLine};
use super::map_data;
use super::measure::MapMeasure;
use crate::analysis::timeline::TimeBin;
use crate::report::job::JobReportInput;
use crate::report::page::chart::{PLOT, TimeChart, number};
use crate::report::page::heat::{LEVELS, level, scale_legend};
use crate::report::page::mirror::MirrorChart;
use crate::report::page::time_scale::{TimeScale, ratio};
use crate::text::quantity::{count, time};
use crate::text::table_text::beginning_of;

/// Units between two names of lines.
const LABEL: u32 = 12;

/// Letters of a name beside the map.
const LABEL_LETTERS: usize = 10;

/// Returns the block; none without operations on files.
pub(super) fn block(input: &JobReportInput<'_>, map: &JobMap) -> Option<Markup> {
    let total = input.fold.total();
    (total.file_operations > 0).then(|| {
        html! {
            p class="note" { (note(input, map)) }
            (together(input))
            div class="maps" {
                @for measure in MapMeasure::ALL {
                    input type="radio" name="measure" id={ "show-" (measure.word()) } checked[measure == MapMeasure::Time];
                    label for={ "show-" (measure.word()) } { (measure.label()) }
                }
                @for measure in MapMeasure::ALL {
                    div class={ "map of-" (measure.word()) } { (figure(input, map, measure)) }
                }
            }
            output id="field" class="field" aria-live="polite" {}
        }
    })
}

/// Sentences on lines, columns and clocks.
fn note(input: &JobReportInput<'_>, map: &JobMap) -> String {
    let most = map.lines.iter().map(|line| line.rows.len()).max().unwrap_or(1) as u64;
    let lines = match most {
        0 | 1 => "Each line is one rank".to_owned(),
        most => format!(
            "Each line is up to {} neighbouring ranks ({} in {} lines), coloured by their mean",
            count(most),
            count(input.fold.rows.len() as u64),
            count(map.lines.len() as u64)
        ),
    };
    let clock = match input.facts.order_bound_ns {
        Some(0) => "All recordings are of one clock.".to_owned(),
        Some(bound) if bound > map.column_ns => format!(
            "Columns are narrower than the error of the clocks: fields of different hosts that are less than {} \
             ({} columns) apart are in no known order.",
            time(bound),
            count(bound.div_ceil(map.column_ns))
        ),
        Some(bound) => format!(
            "Events of different hosts that are less than {} apart are in no known order; a column is wider than that.",
            time(bound)
        ),
        None => "A recording has no dates: it is shown as if begun with the earliest one, and its order with others \
                 is not known."
            .to_owned(),
    };
    format!(
        "{lines}; a column is {}. Bytes are spread evenly over the time of their operation. {clock}",
        time(map.column_ns)
    )
}

/// Chart of the bytes of all ranks.
fn together(input: &JobReportInput<'_>) -> Markup {
    let bins: Vec<TimeBin> = input
        .fold
        .column_sums()
        .iter()
        .map(|cell| TimeBin { moved: cell.moved, on_files: cell.moved, ..TimeBin::default() })
        .collect();
    let scale = TimeScale {
        from_ns: 0,
        to_ns: input.wall_ns().max(1),
        bin_ns: input.fold.axis.width_ns(),
        origin_ns: 0,
    };
    let chart = MirrorChart {
        id: "chart-job",
        title: "Bytes of files, all ranks",
        note: "Reads from memory count, too: the page cache.",
        all: |bin| bin.moved,
        part: None,
        legend: vec![("read", "read"), ("written", "written")],
        is_bytes: true,
    };
    chart.chart(&bins, &scale).figure(&scale)
}

/// Map of a measure with its legend.
fn figure(input: &JobReportInput<'_>, map: &JobMap, measure: MapMeasure) -> Markup {
    let cells = map.lines.iter().flat_map(|line| {
        line.cells.iter().map(|cell| of_rank(measure.amount(cell), line.rows.len()))
    });
    let largest = cells.max().unwrap_or(0);
    let text = measure.text(largest, map.column_ns);
    let has_gaps = map.lines.iter().any(|line| has_gap(input, line));
    let mut legend = vec![("read", "read phase"), ("written", "write phase")];
    legend.extend(has_gaps.then_some(("cut", "parts of the line are missing")));
    let chart = TimeChart {
        id: measure.chart(),
        title: measure.title(),
        text: format!(
            "{} lines from rank to rank, {} columns of {}; at most {text} for each rank.",
            count(map.lines.len() as u64),
            count(map.scale.ns().div_ceil(map.column_ns)),
            time(map.column_ns)
        ),
        note: "The table of ranks has all sums.",
        height: map.height,
        labels: Vec::new(),
        legend,
        plot: html! {
            (phases(input, map))
            (names(input, map))
            (fields(map, measure, largest))
            @for line in map.lines.iter().filter(|line| has_gap(input, line)) {
                rect class="cut" x=(PLOT) y=(line.y) width="6" height=(map.line_height) {}
            }
        },
    };
    html! {
        (chart.figure(&map.scale))
        (scale_legend(&text, measure.label()))
    }
}

fn has_gap(input: &JobReportInput<'_>, line: &MapLine) -> bool {
    let rows = input.fold.rows.get(line.rows.clone()).unwrap_or_default();
    rows.iter().any(|row| !row.missing.is_empty())
}

/// Mean of a line's ranks, not 0 unless all are 0.
fn of_rank(amount: u64, ranks: usize) -> u64 {
    amount.div_ceil(ranks.max(1) as u64)
}

/// Fields of all lines. A run of fields of a level is a stroke, which is as wide as a line.
fn fields(map: &JobMap, measure: MapMeasure, largest: u64) -> Markup {
    let unit = ratio(map.column_ns, map.scale.ns()) * f64::from(PLOT);
    html! {
        @for group in map.groups() {
            @let y = group.first().map_or(0, |line| line.y);
            g class="fields" transform={ "translate(0 " (y) ") scale(" (format!("{unit:.4}")) " " (map.line_height) ")" } {
                @for (place, path) in strokes(group, measure, largest).iter().enumerate() {
                    @if !path.is_empty() { path class={ "h" (place + 1) } d=(PreEscaped(path)) {} }
                }
            }
        }
    }
}

/// Path of each level over a group of lines. The places are relative to the end of the stroke
/// before.
fn strokes(group: &[MapLine], measure: MapMeasure, largest: u64) -> [String; LEVELS] {
    let mut paths: [String; LEVELS] = Default::default();
    let mut pens = [(0_i64, 0_i64); LEVELS];
    for (line, number) in group.iter().zip(0_i64..) {
        let level_of = |cell| level(of_rank(measure.amount(cell), line.rows.len()), largest);
        let levels: Vec<usize> = line.cells.iter().map(level_of).collect();
        let mut from = 0_i64;
        for run in levels.chunk_by(|one, other| one == other) {
            let length = i64::try_from(run.len()).unwrap_or(i64::MAX);
            let place = run.first().and_then(|level| level.checked_sub(1));
            let path = place.and_then(|place| Some((paths.get_mut(place)?, pens.get_mut(place)?)));
            if let Some((path, pen)) = path {
                match path.is_empty() {
                    // The middle of the first line is half a unit from the top.
                    true => drop(write!(path, "M{from} {number}.5h{length}")),
                    false => drop(write!(path, "m{} {}h{length}", from - pen.0, number - pen.1)),
                }
                *pen = (from + length, number);
            }
            from += length;
        }
    }
    paths
}

/// Names beside lines, as many as have room, and headings of hosts.
fn names(input: &JobReportInput<'_>, map: &JobMap) -> Markup {
    let every = LABEL.div_ceil(map.line_height.max(1)).max(1);
    let every = usize::try_from(every).unwrap_or(1);
    let label = |line: &MapLine| {
        let name = map_data::name(input, line);
        let ranks = name.strip_prefix("ranks ").unwrap_or(&name);
        match ranks.split_once(',') {
            Some((first, _)) => beginning_of(&format!("{first}, …"), LABEL_LETTERS),
            None => beginning_of(ranks, LABEL_LETTERS),
        }
    };
    let middle = |line: &MapLine| f64::from(line.y) + f64::from(map.line_height) / 2.0 + 4.0;
    html! {
        @for group in map.groups() {
            @for line in group.iter().step_by(every) {
                text class="tick" x="-6" y=(number(middle(line))) text-anchor="end" { (label(line)) }
            }
        }
        @for heading in &map.headings {
            line class="grid" x1="0" x2=(PLOT) y1=(heading.y + 2) y2=(heading.y + 2) {}
            text class="title" x="2" y=(heading.y + 13) {
                @if let Some(host) = input.facts.hosts.get(heading.host) {
                    (beginning_of(&crate::text::escape::harmless(&host.name), 60))
                }
            }
        }
    }
}

/// Marks above the map at the phases.
fn phases(input: &JobReportInput<'_>, map: &JobMap) -> Markup {
    let width = input.fold.axis.width_ns();
    let x = |column: usize| map.scale.x(column as u64 * width, PLOT);
    html! {
        @for (class, phases) in ["read", "written"].into_iter().zip(input.phases) {
            @for phase in &phases.phases {
                @let (from, to) = (x(phase.columns.start), x(phase.columns.end));
                rect class=(class) x=(number(from)) y=(if class == "read" { "-7" } else { "-4" })
                    width=(number((to - from).max(1.0))) height="2" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::job::sums::MapCell;

    #[test]
    fn strokes_of_a_level_follow_each_other() {
        let line = |amounts: &[u64]| MapLine {
            rows: 0..1,
            cells: amounts.iter().map(|ns| MapCell { ns: *ns, ..MapCell::default() }).collect(),
            y: 0,
        };
        let lines = [line(&[0, 100, 100, 1, 100]), line(&[100])];
        let paths = strokes(&lines, MapMeasure::Time, 100);
        assert_eq!(paths[6], "M1 0.5h2m1 0h1m-5 1h1");
        assert_eq!(paths[3], "M3 0.5h1");
        assert_eq!([of_rank(1, 40), of_rank(0, 40), of_rank(80, 40)], [1, 0, 2]);
    }
}
