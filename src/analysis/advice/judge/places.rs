//! Places of a finding: the files, directories or devices with most of it.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::super::super::files::{FileTotals, FileUse, ProcessUse};
use super::super::super::process_names::ProcessNames;
use super::super::super::summary::KeyParts;
use super::super::finding::{AdviceAmount, AdviceFinding, AdvicePlace, PLACES_MAX};
use super::super::habits::HabitRows;
use super::super::rule::RuleId;
use super::Judge;
use crate::operation::io_class::IoClass;
use crate::operation::model::ProcessKey;

/// Sum over all places.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlaceSum {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) time_ns: u64,
}

/// Places with their sum, the largest first.
pub(super) struct AdvicePlaces {
    pub(super) sum: PlaceSum,
    pub(super) all: u64,
    places: Vec<AdvicePlace>,
}

impl AdvicePlaces {
    /// Returns the places, sorted by count, or by bytes.
    pub(super) fn new(mut places: Vec<AdvicePlace>, is_by_bytes: bool) -> Self {
        let mut sum = PlaceSum::default();
        for place in &places {
            sum.count = sum.count.saturating_add(place.count);
            sum.bytes = sum.bytes.saturating_add(place.bytes);
            sum.time_ns = sum.time_ns.saturating_add(place.time_ns);
        }
        places.sort_by(|one, other| {
            let weight = |place: &AdvicePlace| {
                Reverse(if is_by_bytes {
                    (place.bytes, place.count)
                } else {
                    (place.count, place.bytes)
                })
            };
            weight(one).cmp(&weight(other)).then_with(|| one.key.cmp(&other.key))
        });
        let all = places.len() as u64;
        places.truncate(PLACES_MAX);
        Self { sum, all, places }
    }

    /// Returns a finding about the places.
    pub(super) fn finding(self, rule: RuleId, amounts: Vec<AdviceAmount>) -> AdviceFinding {
        AdviceFinding {
            rule,
            severity: rule.rule().severity,
            count: self.sum.count,
            amounts,
            places: self.places,
            all_places: self.all,
            proofs: Vec::new(),
        }
    }
}

/// Returns the places of rows that pass a test.
pub(super) fn of_habits(
    rows: &HabitRows,
    names: &ProcessNames,
    is_meant: impl Fn(&AdvicePlace) -> bool,
) -> Vec<AdvicePlace> {
    let place = |(key, row): (&Vec<u8>, &super::super::habits::HabitRow)| AdvicePlace {
        key: key.clone(),
        pid: row.process.map(|process| process.1),
        comm: row.process.map(|process| names.of(process.0).to_vec()).unwrap_or_default(),
        count: row.count,
        bytes: row.bytes,
        time_ns: row.time_ns,
    };
    rows.iter().map(place).filter(is_meant).collect()
}

impl Judge<'_> {
    /// Returns the files that a test selects, with count and bytes, and the process with most
    /// operations on each.
    pub(super) fn files(&self, select: impl Fn(&FileUse) -> Option<PlaceSum>) -> Vec<AdvicePlace> {
        let Some(totals) = self.input.files else { return Vec::new() };
        let files = &totals.files;
        let rows: FxHashMap<usize, &Vec<u8>> = files.keys().map(|(key, row)| (row, key)).collect();
        let mut selected: FxHashMap<usize, AdvicePlace> = FxHashMap::default();
        for (row, key) in &rows {
            let Some(used) = files.get(key.as_slice()) else { continue };
            if used.io_class() == Some(IoClass::Waiting) || self.is_pseudo(key, used) {
                continue;
            }
            if let Some(sum) = select(used) {
                let place = AdvicePlace {
                    key: (*key).clone(),
                    count: sum.count,
                    bytes: sum.bytes,
                    time_ns: sum.time_ns,
                    ..AdvicePlace::default()
                };
                selected.insert(*row, place);
            }
        }
        add_processes(totals, &mut selected);
        selected.into_values().collect()
    }

    /// True for a file of a file system that only shows the kernel's state.
    fn is_pseudo(&self, key: &[u8], used: &FileUse) -> bool {
        let KeyParts { path, mounts, .. } = KeyParts::of(key);
        let namespace = mounts.unwrap_or_default();
        let found = self.mounts.of_file(path, namespace, used.file_system);
        found.is_some_and(|found| found.mount.is_pseudo())
    }
}

/// Adds the process with most operations to each place.
fn add_processes(files: &FileTotals, selected: &mut FxHashMap<usize, AdvicePlace>) {
    let mut most: FxHashMap<usize, (u64, ProcessKey)> = FxHashMap::default();
    for ((process, row), used) in files.by_process.iter() {
        let used: &ProcessUse = used;
        let Some(place) = selected.get_mut(row) else { continue };
        let this = (used.tally.count, *process);
        let known = most.entry(*row).or_insert((0, *process));
        if this.0 > known.0 || this.0 == known.0 && this.1 < known.1 {
            *known = this;
            place.pid = Some(used.pid);
            place.comm = files.names.of(*process).to_vec();
        }
    }
}
