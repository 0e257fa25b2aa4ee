//! Table of operations in a dimension of their own: by thread, directory, mount or device.

use std::collections::BTreeMap;

use super::file_systems::FileSystems;
use super::places::{PlaceTable, PlacedFile, Places, table_of};
use super::rows::rest_of_keys;
use super::tallies::Tallies;
use crate::analysis::group_stats::GroupStats;
use crate::analysis::op_groups::{OpDimension, OpGroupKey, OpGroups};
use crate::analysis::summary::IoSummary;
use crate::operation::io_class::IoClass;
use crate::pipeline::Summary;
use crate::text::table::{Cell, Table};
use crate::units::DevId;

/// Returns the table of the dimension of a fold.
pub(super) fn table(
    fold: &IoSummary,
    groups: &OpGroups,
    summary: &Summary,
    disks: &[(DevId, String)],
    limit: usize,
) -> Table {
    let dimension = groups.dimension();
    let PlaceTable { key, title, columns } = table_of(dimension);
    let rows = match dimension {
        OpDimension::Thread => threads(groups),
        _ => files(fold, groups, summary, disks),
    };
    let tables = Tallies { key, title, names: &columns, all: &fold.all(), limit };
    tables.table(rows)
}

fn threads(groups: &OpGroups) -> Vec<(Vec<Cell>, GroupStats)> {
    let row = |(key, sum): (&OpGroupKey, &GroupStats)| {
        let thread = match key {
            OpGroupKey::Thread(thread) => groups.threads.get(thread),
            _ => None,
        };
        let names = match thread {
            Some(thread) => vec![
                Cell::Signed(thread.pid.0.into()),
                Cell::Signed(thread.info.tid.0.into()),
                Cell::Name(thread.info.comm.clone()),
            ],
            None => vec![Cell::None, Cell::None, Cell::Word("(not known)".to_owned())],
        };
        (names, sum.clone())
    };
    let rest = groups.sums.others();
    let rest = rest.map(|sum| (vec![Cell::None, Cell::None, rest_of_keys()], sum.clone()));
    groups.sums.iter().map(row).chain(rest).collect()
}

/// Word for files that have no row of their own.
const FURTHER: &str = "(further ones)";

fn files(
    fold: &IoSummary,
    groups: &OpGroups,
    summary: &Summary,
    disks: &[(DevId, String)],
) -> Vec<(Vec<Cell>, GroupStats)> {
    let mut keys: BTreeMap<usize, &[u8]> = BTreeMap::new();
    keys.extend(fold.files.keys().map(|(key, row)| (row, key.as_slice())));
    let file_systems = FileSystems::of(summary);
    let places = Places { dimension: groups.dimension(), file_systems: &file_systems, disks };
    let placed = |key: &OpGroupKey| match key {
        OpGroupKey::File(row, dev) => match keys.get(row) {
            Some(key) => PlacedFile::Named(key, *dev),
            None => PlacedFile::Word(FURTHER),
        },
        OpGroupKey::Nameless(io) => PlacedFile::Word(nameless(*io)),
        OpGroupKey::NoFile | OpGroupKey::Thread(_) => PlacedFile::Word("(no file)"),
    };
    let rest = groups.sums.others().map(|sum| (PlacedFile::Word(FURTHER), sum.clone()));
    let rows = groups.sums.iter().map(|(key, sum)| (placed(key), sum.clone())).chain(rest);
    places.groups(rows, GroupStats::merge)
}

/// Word for operations on files without a name.
fn nameless(io: IoClass) -> &'static str {
    match io {
        IoClass::File => "(files without a name)",
        IoClass::Waiting => "(pipes, sockets and the like without a name)",
        IoClass::Unknown => "(descriptors of unknown type)",
        IoClass::Nothing => "(no I/O)",
    }
}
