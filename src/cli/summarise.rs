//! `iotrace-perf summary`: sums of a log, with the findings of the rules that cost little.

use std::process::ExitCode;

use super::analyse::{chosen, on_log, print, report_options};
use super::args::GroupedArgs;
use super::error::CliError;
use super::filter_args::FilterSpec;
use super::report_args::ByArg;
use super::report_output::output;
use super::{advise, summary_lines};
use crate::analysis::advice::facts::AdviceFold;
use crate::analysis::advice::judge::{AdviceInput, judge};
use crate::analysis::summary::IoSummary;
use crate::capture::header::Header;
use crate::pipeline::Summary;
use crate::report;

/// Sums up a log, or a recording that is made for it.
pub(super) fn run(args: &GroupedArgs) -> Result<ExitCode, CliError> {
    let dimension = args.by.and_then(ByArg::dimension);
    let print_args = &args.analyse.print;
    let wish = FilterSpec::of(&args.analyse.filter)?.on(&args.analyse);
    let options = report_options(args, wish.is_all());
    let empty = IoSummary::in_dimension(dimension);
    chosen(report::summary::report(&empty, &Summary::default(), options), print_args)?;
    let to = output(print_args.to.as_deref(), !args.analyse.capture.command.is_empty())?;
    let shown = advise::shown_log(&args.analyse);
    on_log(&args.analyse, |log, go_on| {
        let fold = |_: &Header, flag| AdviceFold::brief(flag, empty);
        let (fold, converted) = advise::folded(log, wish, fold, go_on)?;
        let advice = judge(&AdviceInput::of(&fold, &converted.summary, &[]));
        let mut report = report::summary::report(&fold.summary, &converted.summary, options);
        report::advice::add_to_summary(&mut report, &advice, &shown);
        summary_lines::add_to(&mut report, &converted);
        print(report, print_args, to)
    })
}
