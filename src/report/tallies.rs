//! Tables of groups of operations: counts, bytes and times of each group.

use std::cmp::Reverse;

use super::rows::{column, first_rows, others, titled};
use crate::analysis::group_stats::GroupStats;
use crate::text::table::{Cell, Column, Table};

/// Columns of a group of operations.
const TALLY: [Column; 18] = [
    column("count", "count"),
    column("errors", "errors"),
    column("read_bytes", "read"),
    column("written_bytes", "written"),
    column("time_ns", "time"),
    column("time_share", "share"),
    column("waited_ns", "wait"),
    column("p50_ns", "p50"),
    column("p90_ns", "p90"),
    column("p99_ns", "p99"),
    column("p999_ns", "p99.9"),
    column("max_ns", "max"),
    column("size_p50_bytes", "size p50"),
    column("size_p99_bytes", ""),
    column("size_max_bytes", "size max"),
    column("doubtful_names", ""),
    column("unknown_type_count", ""),
    column("unknown_type_ns", ""),
];

fn tally(stats: &GroupStats, share: Cell) -> Vec<Cell> {
    let [p50, p90, p99, p999] = [500, 900, 990, 999].map(|at| Cell::ns(stats.time.percentile(at)));
    let size = |at| Cell::count(stats.sizes.percentile(at));
    vec![
        Cell::Count(stats.count),
        Cell::Count(stats.errors),
        Cell::Count(stats.read),
        Cell::Count(stats.written),
        Cell::Ns(stats.time.sum()),
        share,
        Cell::Ns(stats.waited),
        p50,
        p90,
        p99,
        p999,
        Cell::Ns(stats.time.max()),
        size(500),
        size(990),
        size(1000),
        Cell::Count(stats.doubtful),
        Cell::Count(stats.untyped),
        Cell::Ns(stats.untyped_ns),
    ]
}

/// Table of groups: those with most time on files first, then those with most time.
pub(super) struct Tallies<'a> {
    pub(super) key: &'static str,
    pub(super) title: &'a str,
    pub(super) names: &'a [Column],
    pub(super) all: &'a GroupStats,
    pub(super) limit: usize,
}

impl Tallies<'_> {
    pub(super) fn table(&self, mut rows: Vec<(Vec<Cell>, GroupStats)>) -> Table {
        let total = rows.len();
        rows.sort_by_cached_key(|(cells, tally)| {
            (Reverse((tally.own_time(), tally.time.sum())), format!("{cells:?}"))
        });
        let (mut rows, rest) = first_rows(rows, self.limit);
        if !rest.is_empty() {
            let mut sum = GroupStats::default();
            rest.iter().for_each(|rest| sum.merge(&rest.1));
            let mut names = vec![Cell::None; self.names.len()];
            let key_columns =
                self.names.iter().zip(&mut names).filter(|(column, _)| column.rank == Some(0));
            key_columns.for_each(|(_, name)| *name = others(rest.len()));
            rows.push((names, sum));
        }
        let times: Vec<u64> = rows.iter().map(|row| row.1.time.sum()).collect();
        let parts = Cell::parts(&times, self.all.time.sum());
        let row = |((names, stats), share): ((Vec<Cell>, GroupStats), Cell)| {
            let mut cells = tally(&stats, share);
            cells.extend(names);
            cells
        };
        Table {
            key: self.key,
            title: titled(self.title, total),
            columns: TALLY.iter().chain(self.names).copied().collect(),
            rows: rows.into_iter().zip(parts).map(row).collect(),
        }
    }
}
