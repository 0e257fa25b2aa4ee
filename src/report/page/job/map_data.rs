//! Data of the maps as JSON.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::line_layout::{JobMap, MapLine};
use crate::analysis::job::sums::{MapCell, RankSums};
use crate::report::job::{JobReportInput, line_name};
use crate::report::page::page_table::cut;
use crate::text::escape::harmless;
use crate::text::table::{Cell, VERSION};

/// Hosts of a line that are named.
const HOSTS_SHOWN: usize = 3;

/// Returns columns and lines; the cells of a line one after the other: column, bytes read, bytes
/// written, operations that neither read nor write, and time in operations on files, ns.
pub(super) fn map(input: &JobReportInput<'_>, map: &JobMap) -> Value {
    let lines: Vec<Value> = map.lines.iter().map(|shown| line(input, shown)).collect();
    json!({
        "kind": "job-map",
        "version": VERSION,
        "to_ns": map.scale.to_ns,
        "column_ns": map.column_ns,
        "line_height": map.line_height,
        "clock_error_bound_ns": input.facts.order_bound_ns,
        "lines": lines,
    })
}

fn line(input: &JobReportInput<'_>, line: &MapLine) -> Value {
    let rows = input.fold.rows.get(line.rows.clone()).unwrap_or_default();
    let mut sums = RankSums::default();
    rows.iter().for_each(|row| sums.merge(&row.sums));
    let slowest = rows.iter().filter_map(|row| row.slowest.as_ref()).max_by_key(|file| file.1);
    let slowest = slowest.map(|(key, ns)| {
        let [_, _, path] = crate::report::file_rows::file_cells(key);
        json!({ "path": cut(&path.text()), "ns": ns })
    });
    let missing: BTreeSet<&str> =
        rows.iter().map(|row| row.missing.as_str()).filter(|text| !text.is_empty()).collect();
    let missing = missing.into_iter().collect::<Vec<_>>().join("; ");
    json!({
        "name": cut(&name(input, line)),
        "hosts": cut(&hosts(input, line)),
        "ranks": line.rows.len(),
        "y": line.y,
        "operations": sums.operations,
        "failed": sums.failed,
        "file_operations": sums.file_operations,
        "file_read_bytes": sums.on_files[0],
        "file_written_bytes": sums.on_files[1],
        "other_operations": sums.other_operations,
        "file_ns": sums.file_ns,
        "slowest": slowest,
        "missing": cut(&harmless(&missing)),
        "cells": cells(&line.cells),
    })
}

/// Name of a line.
pub(super) fn name(input: &JobReportInput<'_>, line: &MapLine) -> String {
    harmless(&line_name(&input.fold.plan.rows, &line.rows, input.facts))
}

/// Names of the hosts of a line.
pub(super) fn hosts(input: &JobReportInput<'_>, line: &MapLine) -> String {
    let rows = input.fold.rows.get(line.rows.clone()).unwrap_or_default();
    let mut hosts: Vec<usize> = rows.iter().map(|row| row.key.host).collect();
    hosts.dedup();
    let names = hosts.iter().filter_map(|host| input.facts.hosts.get(*host));
    let names = names.take(HOSTS_SHOWN);
    let names: Vec<String> =
        names.map(|host| Cell::Name(host.name.clone().into_bytes()).text()).collect();
    match hosts.len().saturating_sub(HOSTS_SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn cells(cells: &[MapCell]) -> Vec<u64> {
    let used = cells.iter().enumerate().filter(|(_, cell)| **cell != MapCell::default());
    used.flat_map(|(column, cell)| {
        let [read, written] = cell.moved;
        [column as u64, read, written, cell.other_operations, cell.ns]
    })
    .collect()
}
