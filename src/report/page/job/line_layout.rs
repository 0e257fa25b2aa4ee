//! Lines and columns of the maps, and the places of the lines.

use std::ops::Range;

use crate::analysis::job::sums::MapCell;
use crate::report::job::JobReportInput;
use crate::report::page::time_scale::TimeScale;

/// Largest number of columns of a map.
const COLUMNS_MAX: usize = 256;

/// Units for the lines of a map.
const HEIGHT: usize = 560;

/// Units of the highest and of the lowest line.
const LINE_MAX: usize = 22;
const LINE_MIN: usize = 3;

/// Units for the name of a host above its lines.
const HEADING: u32 = 16;

/// Largest number of hosts with headings.
const HEADINGS_MAX: usize = 24;

/// Lines and columns of the fold that share one of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MapShape {
    pub(super) lines: usize,
    pub(super) columns: usize,
}

/// A line of a map.
#[derive(Clone, Debug)]
pub(super) struct MapLine {
    /// Rows of the fold.
    pub(super) rows: Range<usize>,
    /// Cells, up to the last one with an operation.
    pub(super) cells: Vec<MapCell>,
    /// Distance from the top.
    pub(super) y: u32,
}

/// Heading of a group of lines.
#[derive(Clone, Debug)]
pub(super) struct HostHeading {
    pub(super) host: usize,
    /// Distance of its upper end from the top.
    pub(super) y: u32,
}

/// Map of rank and time.
#[derive(Clone, Debug)]
pub(super) struct JobMap {
    pub(super) lines: Vec<MapLine>,
    /// Headings of hosts; empty: there is one host, or too many.
    pub(super) headings: Vec<HostHeading>,
    /// Height of a line.
    pub(super) line_height: u32,
    /// Height of the map.
    pub(super) height: u32,
    /// Width of a column, ns.
    pub(super) column_ns: u64,
    pub(super) scale: TimeScale,
}

impl JobMap {
    /// Creates the map of a job.
    pub(super) fn of(input: &JobReportInput<'_>, shape: MapShape) -> Self {
        let fold = input.fold;
        let width = fold.axis.width_ns();
        let in_one = fold.columns().div_ceil(COLUMNS_MAX).max(1) * shape.columns;
        let lines: Vec<MapLine> = fold
            .plan
            .lines
            .chunks(shape.lines)
            .zip(fold.lines.chunks(shape.lines))
            .filter_map(|(rows, cells)| {
                let rows = rows.first()?.start..rows.last()?.end;
                Some(MapLine { rows, cells: joined(cells, in_one), y: 0 })
            })
            // A node whose processes all have a rank has no line for others.
            .filter(|line| {
                let rows = fold.rows.get(line.rows.clone()).unwrap_or_default();
                rows.iter().any(|row| row.sums.operations > 0 || row.recordings > 0)
            })
            .collect();
        let column_ns = width * in_one as u64;
        let scale = TimeScale {
            from_ns: 0,
            to_ns: input.wall_ns().max(1),
            bin_ns: column_ns,
            origin_ns: 0,
        };
        let mut map = Self {
            line_height: line_height(lines.len()),
            lines,
            headings: Vec::new(),
            height: 0,
            column_ns,
            scale,
        };
        map.place(input);
        map
    }

    /// Places the lines, those of each host below a heading.
    fn place(&mut self, input: &JobReportInput<'_>) {
        let host = |line: &MapLine| input.fold.rows.get(line.rows.start).map(|row| row.key.host);
        let groups = self.lines.chunk_by(|one, other| host(one) == host(other)).count();
        let has_headings =
            groups > 1 && groups <= HEADINGS_MAX && input.facts.hosts.len() == groups;
        let mut y = 0;
        let mut last = None;
        for line in &mut self.lines {
            let host = host(line);
            if let Some(host) = host.filter(|_| has_headings && host != last) {
                self.headings.push(HostHeading { host, y });
                y += HEADING;
            }
            last = host;
            line.y = y;
            y += self.line_height;
        }
        self.height = y.max(1);
    }

    /// Returns the groups of lines without a heading between them.
    pub(super) fn groups(&self) -> impl Iterator<Item = &[MapLine]> {
        let height = self.line_height;
        self.lines.chunk_by(move |one, other| other.y == one.y + height)
    }
}

fn line_height(lines: usize) -> u32 {
    let height = (HEIGHT / lines.max(1)).clamp(LINE_MIN, LINE_MAX);
    u32::try_from(height).unwrap_or(1)
}

/// Sum of lines; this number of their columns are one.
fn joined(lines: &[Vec<MapCell>], columns: usize) -> Vec<MapCell> {
    let length = lines.iter().map(Vec::len).max().unwrap_or(0);
    let mut sums = vec![MapCell::default(); length.div_ceil(columns)];
    for line in lines {
        for (sum, cells) in sums.iter_mut().zip(line.chunks(columns)) {
            cells.iter().for_each(|cell| sum.merge(cell));
        }
    }
    sums
}
