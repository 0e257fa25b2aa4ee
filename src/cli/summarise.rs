//! `iotrace-perf summary`: sums of a log, or of a job, with the findings of the rules that cost
//! little.

use std::path::Path;
use std::process::ExitCode;

use super::analyse::{chosen, on_log, print, report_options};
use super::args::GroupedArgs;
use super::error::CliError;
use super::exit_code::INCOMPLETE;
use super::filter_args::FilterSpec;
use super::job_fold::{fold_all, is_job};
use super::job_index::JobIndex;
use super::report_args::ByArg;
use super::report_output::output;
use super::{advise, summary_lines};
use crate::analysis::advice::facts::{AdviceFold, SelectedAdvice};
use crate::analysis::advice::judge::{AdviceInput, judge};
use crate::analysis::job_keys::{CaptureKeys, CaptureOrigin, JobKeys};
use crate::analysis::rank_rows::{CapturedRanks, RankRows};
use crate::analysis::summary::IoSummary;
use crate::capture::header::Header;
use crate::capture::wall_clock::WallClock;
use crate::operation::mount_table::MountTable;
use crate::pipeline::Summary;
use crate::report;
use crate::report::ranks::RankOptions;
use crate::text::direct_flag;
use crate::units::KernelTime;

/// Sums up a log, or a recording that is made for it.
pub(super) fn run(args: &GroupedArgs) -> Result<ExitCode, CliError> {
    let dimension = args.by.and_then(ByArg::dimension);
    let by = args.by.and_then(ByArg::place);
    let print_args = &args.analyse.print;
    let wish = FilterSpec::of(&args.analyse.filter)?.on(&args.analyse);
    let options = report_options(args, wish.is_all());
    let empty = IoSummary::in_dimension(dimension);
    let mut columns = report::summary::report(&empty, &Summary::default(), options);
    report::ranks::add(
        &mut columns,
        &RankRows::default(),
        RankOptions { by, ..RankOptions::default() },
    );
    chosen(columns, print_args)?;
    let to = output(print_args.to.as_deref(), !args.analyse.capture.command.is_empty())?;
    let shown = advise::shown_log(&args.analyse);
    let is_of_ranks = by.is_some() || args.analyse.log.as_deref().is_some_and(is_job);
    let mut has_damage = false;
    let code = on_log(&args.analyse, |log, go_on| {
        let sink = |filter, header: &Header| {
            let fold = AdviceFold::brief(direct_flag(&header.host.machine), empty.clone());
            let fold = match is_of_ranks {
                true => fold.with_ranks(CapturedRanks::of(header)),
                false => fold,
            };
            SelectedAdvice::new(filter, fold)
        };
        let (selected, converted) = fold_all(log, wish, sink, go_on)?;
        let mut fold = selected.fold;
        let summary = &converted.summary;
        let mut report = report::summary::report(&fold.summary, summary, options);
        if let Some(job) = &converted.job {
            has_damage = job.has_damage;
            expect_all(&mut fold.ranks, log)?;
            report.notes.push(format!(
                "the rules of advise judge each recording: iotrace-perf advise {}",
                JobIndex::named(log).display()
            ));
        } else {
            add_ranks(&mut fold, &summary.header);
            let advice = judge(&AdviceInput::of(&fold, summary, &[]));
            report::advice::add_to_summary(&mut report, &advice, &shown);
        }
        let bound_ns = converted.job.as_ref().map_or(Some(0), |job| job.bound_ns);
        let options = RankOptions { by, limit: options.limit, bound_ns };
        report::ranks::add(&mut report, &fold.ranks, options);
        summary_lines::add_to(&mut report, &converted);
        print(report, print_args, to)
    })?;
    Ok(if has_damage { ExitCode::from(INCOMPLETE) } else { code })
}

/// Notes the ranks whose recordings are in the index of a job and were not read.
fn expect_all(ranks: &mut RankRows, log: &Path) -> Result<(), CliError> {
    let Some(path) = JobIndex::named_by(log) else { return Ok(()) };
    let index = JobIndex::read(&path)?;
    ranks.expect(index.captures.iter().map(|capture| (capture.host, capture.ranks().collect())));
    Ok(())
}

/// Sums up a recording by rank, with times since its start.
fn add_ranks(fold: &mut AdviceFold, header: &Header) {
    let Some(activity) = fold.activity.take() else { return };
    let place = CaptureOrigin {
        host: 0,
        host_name: header.host.hostname.as_str().into(),
        rank: header.rank(),
        clock: WallClock::without_dates(KernelTime(header.clock.start_ns), 0),
        zero_ns: 0,
    };
    let mut job = JobKeys::new(false);
    let mut keys = CaptureKeys::new(&mut job, place, MountTable::default(), Vec::new());
    fold.ranks.add(&fold.summary, Some(&activity), &fold.captured, &mut keys);
}
