//! Read-ahead in the report of `what-if`.

use super::rows::{binary_size, column, key_column};
use crate::analysis::what_if::{PredictedReadAhead, WhatIf};
use crate::text::quantity::{counted, size};
use crate::text::shares;
use crate::text::table::{Cell, Table};

/// Pages that were read in vain.
fn vain_pages(row: &PredictedReadAhead) -> u64 {
    row.totals.read_pages.saturating_sub(row.totals.used_pages)
}

fn setting_text(row: &PredictedReadAhead) -> String {
    let bytes = row.setting_bytes.map(|bytes| match bytes {
        0 => "0".to_owned(),
        bytes => binary_size(bytes),
    });
    match (bytes, row.is_recorded) {
        (Some(bytes), true) => format!("recorded ({bytes})"),
        (Some(bytes), false) => bytes,
        (None, _) => "recorded".to_owned(),
    }
}

/// Table of sizes of the read-ahead.
pub(super) fn table(fold: &WhatIf) -> Table {
    let reads = fold.read_ahead.reads;
    let bytes = |pages: u64| Cell::Count(pages.saturating_mul(fold.page_bytes));
    let row = |row: &PredictedReadAhead| {
        let totals = row.totals;
        vec![
            Cell::Word(setting_text(row)),
            Cell::count(row.setting_bytes),
            Cell::Flag(row.is_recorded),
            bytes(totals.read_pages),
            bytes(vain_pages(row)),
            Cell::share(vain_pages(row), totals.read_pages),
            Cell::Count(totals.requests),
            Cell::Count(totals.waiting_reads),
            Cell::share(totals.waiting_reads, reads),
        ]
    };
    Table {
        key: "read_ahead",
        title: format!(
            "Reads from the disk, by the read-ahead ({} of {})",
            counted(reads, "read"),
            size(fold.read_ahead.read_bytes)
        ),
        columns: vec![
            key_column(0, "", "read-ahead"),
            column("setting_bytes", ""),
            column("recorded", ""),
            column("read_bytes", "from the disk"),
            column("vain_bytes", "in vain"),
            column("vain_share", "in vain"),
            column("requests", "requests"),
            column("waiting_reads", ""),
            column("waiting_share", "waiting"),
        ],
        rows: fold.read_ahead.predictions().iter().map(row).collect(),
    }
}

/// Millionths of the pages that are in vain and of the reads that wait, in sum.
fn waste(row: &PredictedReadAhead, reads: u64) -> u128 {
    let part = |part: u64, whole: u64| u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    part(vain_pages(row), row.totals.read_pages) + part(row.totals.waiting_reads, reads)
}

/// Sentence about the size with the smallest part in vain and of reads that wait, and about that of
/// the recording.
pub(super) fn finding(fold: &WhatIf) -> Option<String> {
    let rows = fold.read_ahead.predictions();
    comparison(&rows, fold.read_ahead.reads, fold.page_bytes)
}

fn comparison(rows: &[PredictedReadAhead], reads: u64, page_bytes: u64) -> Option<String> {
    let given = rows.iter().filter(|row| !row.is_recorded);
    let best = given.min_by_key(|row| waste(row, reads)).filter(|_| reads > 0)?;
    let result = |row: &PredictedReadAhead| {
        format!(
            "{} from the disk, {} in vain, {} of reads wait",
            size(row.totals.read_pages.saturating_mul(page_bytes)),
            shares::of(vain_pages(row), row.totals.read_pages),
            shares::of(row.totals.waiting_reads, reads),
        )
    };
    let recorded = rows.iter().find(|row| row.is_recorded);
    let of_recording = recorded.and_then(|row| row.setting_bytes).map(binary_size);
    let of_recording = of_recording.map(|bytes| format!(" ({bytes})")).unwrap_or_default();
    let (name, text) = (setting_text(best), result(best));
    let is_choice = rows.len() > 1;
    Some(match recorded {
        _ if is_choice && rows.iter().all(|row| result(row) == text) => {
            format!("the size of the read-ahead makes no difference: {text}")
        }
        Some(row) if row.setting_bytes == best.setting_bytes => {
            format!("read-ahead of {name}, as recorded: {text}")
        }
        Some(row) if waste(row, reads) <= waste(best, reads) || result(row) == text => {
            format!(
                "none of these sizes is better than that of the recording{of_recording}: {}",
                result(row)
            )
        }
        Some(row) => format!(
            "read-ahead of {name}: {text}; that of the recording{of_recording}: {}",
            result(row)
        ),
        None => format!("read-ahead of {name}: {text}"),
    })
}

/// Notes about what the model of the read-ahead does not have.
pub(super) fn notes(fold: &WhatIf) -> Vec<String> {
    if !fold.read_ahead.is_wanted() {
        return Vec::new();
    }
    let mut notes = vec![
        "read-ahead: the rules are those of Linux 6.17 and later, with an empty cache at the beginning; a page counts \
         as there as soon as it was asked for; of a transfer each 64 KiB count as a read"
            .to_owned(),
        "read-ahead, not in the model: faults of mappings, pages that leave the memory for want of room, partial \
         writes that read their page first, read-ahead of metadata, file systems that read ahead in their own way"
            .to_owned(),
    ];
    if fold.read_ahead.without_length > 0 {
        notes.push(format!(
            "read-ahead: {} of files of unknown length, at whose end the model reads on",
            counted(fold.read_ahead.without_length, "read")
        ));
    }
    if fold.read_ahead.left_out > 0 {
        let reads = counted(fold.read_ahead.left_out, "read");
        notes.push(format!("read-ahead: {reads} beyond the limit of pages are left out"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::what_if::ReadAheadTotals;

    fn row(kib: u64, read_pages: u64, used_pages: u64) -> PredictedReadAhead {
        let totals = ReadAheadTotals { read_pages, used_pages, ..ReadAheadTotals::default() };
        PredictedReadAhead { setting_bytes: Some(kib * 1024), is_recorded: false, totals }
    }

    fn recorded(row: PredictedReadAhead) -> PredictedReadAhead {
        PredictedReadAhead { is_recorded: true, ..row }
    }

    fn sentence(rows: &[PredictedReadAhead]) -> String {
        comparison(rows, 10, 4096).expect("a finding")
    }

    #[test]
    fn sizes_without_a_difference_are_not_compared() {
        let text = "4.10 MB from the disk, 0.0 % in vain, 0.0 % of reads wait";
        let rows = [recorded(row(128, 1000, 1000)), row(0, 1000, 1000), row(1024, 1000, 1000)];
        assert_eq!(
            sentence(&rows),
            format!("the size of the read-ahead makes no difference: {text}")
        );
        // One page more in vain is not a difference that a line shows.
        let rows =
            [recorded(row(128, 1_000_000, 999_999)), row(0, 1_000_000, 1_000_000), row(64, 9, 1)];
        assert!(sentence(&rows).starts_with("none of these sizes is better than"));
    }

    #[test]
    fn best_size_is_compared_with_that_of_the_recording() {
        let rows = [recorded(row(128, 1000, 500)), row(0, 500, 500)];
        assert_eq!(
            sentence(&rows),
            "read-ahead of 0: 2.05 MB from the disk, 0.0 % in vain, 0.0 % of reads wait; that of the recording \
             (128 KiB): 4.10 MB from the disk, 50.0 % in vain, 0.0 % of reads wait"
        );
        let rows = [recorded(row(128, 1000, 900)), row(1024, 1000, 500)];
        assert_eq!(
            sentence(&rows),
            "none of these sizes is better than that of the recording (128 KiB): 4.10 MB from the disk, 10.0 % in \
             vain, 0.0 % of reads wait"
        );
    }
}
