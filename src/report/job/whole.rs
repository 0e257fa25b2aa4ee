//! The whole report of a job.

use super::input::JobReportInput;
use super::{job_tables, sentences};
use crate::analysis::job::balance::ComparedRanks;
use crate::analysis::job::file_uses::FILES_OF_RECORDING;
use crate::analysis::job::job_files::FILES_MAX;
use crate::analysis::rank_balance::RankExtreme;
use crate::text::quantity::{count, counted};
use crate::text::table::{Cell, Report};

/// Returns the report; tables have at most this number of rows, and one for the others; 0: all.
pub fn report(input: &JobReportInput<'_>, limit: usize) -> Report {
    let (fold, facts) = (input.fold, input.facts);
    let total = fold.total();
    let ranks = ComparedRanks::of(fold);
    let balance = ranks.balance(fold);
    let ratio = |extreme: RankExtreme| extreme.ratio().map_or(Cell::None, Cell::Mean);
    let unless_zero = |title, number: u64| if number == 0 { "" } else { title };
    let left_out = facts.gaps.iter().filter(|gap| gap.is_left_out).count() as u64;
    Report {
        kind: "job",
        incomplete: sentences::incomplete(facts),
        facts: vec![
            ("wall_ns", "from the first start to the last end", Cell::Ns(input.wall_ns())),
            ("rank_count", "ranks", Cell::Count(ranks.count())),
            (
                "left_out_ranks",
                unless_zero("in no mean", balance.left_out.len() as u64),
                Cell::Count(balance.left_out.len() as u64),
            ),
            ("host_count", "hosts", Cell::Count(facts.hosts.len() as u64)),
            ("recording_count", "recordings", Cell::Count(facts.recordings.len() as u64)),
            ("left_out_count", unless_zero("left out", left_out), Cell::Count(left_out)),
            ("operations", "operations", Cell::Count(total.operations)),
            ("failed", unless_zero("failed", total.failed), Cell::Count(total.failed)),
            ("read_bytes", "", Cell::Count(total.moved[0])),
            ("written_bytes", "", Cell::Count(total.moved[1])),
            ("time_ns", "", Cell::Ns(total.ns)),
            ("file_operations", "operations on files", Cell::Count(total.file_operations)),
            ("file_read_bytes", "read from files", Cell::Count(total.on_files[0])),
            ("file_written_bytes", "written to files", Cell::Count(total.on_files[1])),
            ("file_ns", "time in operations on files", Cell::Ns(total.file_ns)),
            ("file_ns_ratio", "largest time of a rank / mean", ratio(balance.file_ns)),
            ("file_bytes_ratio", "most bytes of a rank / mean", ratio(balance.file_bytes)),
            ("clock_error_bound_ns", "", Cell::ns(facts.order_bound_ns)),
            ("clock_zero_realtime_ns", "", Cell::Count(facts.zero_wall_ns)),
            ("column_ns", "", Cell::Ns(fold.axis.width_ns())),
        ],
        tables: vec![
            sentences::table(input),
            job_tables::phases(input),
            job_tables::ranks(input, limit),
            job_tables::hosts(input, limit),
            job_tables::files(input, limit),
            job_tables::gaps(facts, limit),
        ],
        notes: notes(input),
    }
}

fn notes(input: &JobReportInput<'_>) -> Vec<String> {
    let files = &input.fold.files;
    let mut notes = input.facts.notes.clone();
    if files.left_out > 0 {
        notes.push(format!(
            "shared files: {} of one rank each were left out while the recordings were read, those \
             with the least time, for there were more than {}: if a later rank used one of them, \
             its row lacks the ranks before",
            counted(files.left_out, "file"),
            count(FILES_MAX as u64)
        ));
    }
    if input.fold.beyond_files > 0 {
        notes.push(format!(
            "files: {} on files beyond the first {} of a recording are in no list of files",
            counted(input.fold.beyond_files, "operation"),
            count(FILES_OF_RECORDING as u64)
        ));
    }
    let outside = input.phases.iter().map(|phases| phases.outside).sum::<u64>();
    if outside > 0 {
        let size = crate::text::quantity::size(outside);
        notes.push(format!("phases: {size} were read or written outside of all phases"));
    }
    notes
}
