//! `iotrace-perf advise`: findings with advice, from a log or a recording that is made for it.

use std::path::Path;
use std::process::ExitCode;

use clap::Args as ClapArgs;

use super::analyse::{form, on_log, print};
use super::args::AnalyseArgs;
use super::converted::Converted;
use super::error::CliError;
use super::filter_args::FilterSpec;
use super::log_pass::pass_over;
use super::report_output::output;
use super::{events, summary_lines};
use crate::analysis::advice::facts::{AdviceFold, SelectedAdvice};
use crate::analysis::advice::judge::{AdviceInput, judge};
use crate::analysis::advice::rule::{RuleId, Severity};
use crate::analysis::advice::rule_table::RULES;
use crate::capture::header::Header;
use crate::report::advice::{self as report, AdviceOptions};
use crate::text::direct_flag;
use crate::text::table::TableFormat;

/// Exit status for a warning.
const WARNING: u8 = 102;

/// Exit status for a problem.
const PROBLEM: u8 = 103;

/// Events of a recording that is made for the findings: all rules but that about page faults.
const EVENTS: [&str; 5] = [events::DEFAULT, events::LAYERS, "%stat", "%map", "%attr"];

/// Arguments of `advise`.
#[derive(Debug, ClapArgs)]
pub(super) struct AdviseArgs {
    #[command(flatten)]
    pub(super) analyse: AnalyseArgs,
    /// Print the table of rules, and judge nothing
    #[arg(long, help_heading = "Rules")]
    pub(super) rules: bool,
    /// Do not judge this rule (can be given several times)
    #[arg(long, value_name = "ID", value_parser = parse_rule, help_heading = "Rules")]
    pub(super) ignore: Vec<RuleId>,
}

/// Parses the name of a rule.
fn parse_rule(text: &str) -> Result<RuleId, String> {
    RuleId::by_name(text).ok_or_else(|| {
        let names = RULES.iter().map(|rule| rule.name);
        let near = names.min_by_key(|name| strsim::damerau_levenshtein(text, name));
        format!(
            "there is no rule {text}; the nearest is {}; all: iotrace-perf advise --rules",
            near.unwrap_or_default()
        )
    })
}

/// Judges a log, or a recording that is made for it.
pub(super) fn run(args: &AdviseArgs) -> Result<ExitCode, CliError> {
    let mut analyse = args.analyse.clone();
    let to = output(analyse.print.to.as_deref(), !analyse.capture.command.is_empty())?;
    if args.rules {
        print(report::rules(), &analyse.print, to)?;
        return Ok(ExitCode::SUCCESS);
    }
    if analyse.log.is_none() && analyse.capture.events.is_empty() {
        analyse.capture.events = EVENTS.map(str::to_owned).to_vec();
    }
    // A later sync makes earlier writes durable.
    let wish = FilterSpec::of(&analyse.filter)?.on(&analyse).needing_all();
    let shown = shown_log(&analyse);
    let mut worst = None;
    let code = on_log(&analyse, |log, go_on| {
        let (fold, converted) = folded(log, wish, AdviceFold::new, go_on)?;
        let summary = &converted.summary;
        let advice = judge(&AdviceInput::of(&fold, summary, &args.ignore));
        worst = advice.worst();
        let is_text = form(&analyse.print) == TableFormat::Text;
        let (start, rows) = (summary.start(), analyse.print.rows);
        let options = AdviceOptions { log: &shown, start, is_text, rows };
        let mut report = report::report(&advice, options);
        if analyse.log.is_none() && !advice.findings.is_empty() {
            let events = analyse.capture.events.join(",");
            report.notes.push(format!(
                "LOG: this recording is not kept; keep one: iotrace-perf record -e {events} -o LOG \
                 -- COMMAND"
            ));
        }
        summary_lines::add_to(&mut report, &converted);
        print(report, &analyse.print, to)
    })?;
    // The program's own failure comes first.
    let status = status_of(worst).filter(|_| code == ExitCode::SUCCESS);
    Ok(status.map_or(code, ExitCode::from))
}

/// Log as commands name it: a recording that is not kept has no name.
pub(super) fn shown_log(args: &AnalyseArgs) -> String {
    let log = args.shown.as_ref().or(args.log.as_ref());
    log.map_or_else(|| "LOG".to_owned(), |log| log.display().to_string())
}

/// Folds a log for the rules; `fold` gets the header, and the bit of `O_DIRECT`.
pub(super) fn folded(
    log: &Path,
    wish: FilterSpec<'_>,
    fold: impl FnOnce(&Header, u32) -> AdviceFold,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(AdviceFold, Converted), CliError> {
    let sink = |filter, header: &Header| {
        SelectedAdvice::new(filter, fold(header, direct_flag(&header.host.machine)))
    };
    let (selected, converted) = pass_over(log, wish, sink, go_on)?;
    let filter_notes = summary_lines::filter_notes(&selected.picker);
    Ok((selected.fold, Converted { filter_notes, ..converted }))
}

fn status_of(worst: Option<Severity>) -> Option<u8> {
    match worst? {
        Severity::Note => None,
        Severity::Warning => Some(WARNING),
        Severity::Problem => Some(PROBLEM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_rules_are_refused_with_the_nearest() {
        assert_eq!(parse_rule("reread"), Ok(RuleId::Reread));
        let error = parse_rule("rename-unsync").expect_err("unknown");
        assert!(error.contains("the nearest is rename-unsynced"), "{error}");
    }

    #[test]
    fn status_tells_the_severity() {
        assert_eq!(status_of(None), None);
        assert_eq!(status_of(Some(Severity::Note)), None);
        assert_eq!(status_of(Some(Severity::Warning)), Some(WARNING));
        assert_eq!(status_of(Some(Severity::Problem)), Some(PROBLEM));
    }
}
