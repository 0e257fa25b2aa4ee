//! Table of the operations of a report in groups (`--by`): its sums are those of the whole report.

use super::grouping::ReportOptions;
use super::{op_groups, summary};
use crate::analysis::summary::IoSummary;
use crate::operation::disk;
use crate::pipeline::Summary;
use crate::text::table::Report;

/// Adds the table to a report, behind its findings.
pub fn add(report: &mut Report, sums: Option<&IoSummary>, log: &Summary, options: ReportOptions) {
    let Some(sums) = sums else { return };
    let mut table = match &sums.groups {
        Some(groups) => {
            op_groups::table(sums, groups, log, &disk::names(&log.disks()), options.limit)
        }
        None => summary::processes(sums, options),
    };
    table.key = "grouped";
    let place = usize::from(report.tables.first().is_some_and(|table| table.key == "findings"));
    report.tables.insert(place.min(report.tables.len()), table);
}
