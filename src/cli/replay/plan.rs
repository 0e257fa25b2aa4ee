//! `iotrace-perf replay plan`: from a log to a plan, or to a report on it.
//!
//! Without filters this takes one pass, and a second one if the log shows symbolic links that were
//! unknown in the first pass: mostly after the first calls. With filters the log is read repeatedly
//! until the dependencies of the selected operations are known, and then once more.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::Display;
use std::io::{BufWriter, Seek};
use std::path::Path;
use std::process::ExitCode;

use super::super::converted::Converted;
use super::super::error::CliError;
use super::super::filter_args::FilterSpec;
use super::super::{analyse, log_pass, report_output, summary_lines};
use super::args::PlanArgs;
use crate::capture::header::Header;
use crate::replay::plan::dependency_selection::{DependencySelection, PassFindings};
use crate::replay::plan::link_discovery::{LinkDiscovery, Outdated};
use crate::replay::plan::links::SymlinkEvidence;
use crate::replay::plan::plan_file::{PlanWriter, ThreadedWriter, finish};
use crate::replay::plan::planned_op::PlannedOp;
use crate::replay::plan::planner::partial_plan::Selected;
use crate::replay::plan::planner::{PlanOutput, Planner};
use crate::report;

/// Sink that drops the operations.
struct NullPlan;

impl PlanOutput for NullPlan {
    type Error = Infallible;

    fn planned(&mut self, _: &PlannedOp) -> Result<(), Infallible> {
        Ok(())
    }
}

pub(super) fn run(args: &PlanArgs) -> Result<ExitCode, CliError> {
    let Some(path) = args.output.as_ref().filter(|_| !args.dry_run) else {
        return plan(args, || Ok(NullPlan), |_, _| Ok(()));
    };
    let failed = |source| CliError::Create { path: path.clone(), source };
    let mut made = report_output::new_file(path, "-o")?;
    let mut file = made.file().try_clone().map_err(failed)?;
    let writer = || {
        let from_start = file.set_len(0).and_then(|()| file.rewind());
        let writer = from_start.and_then(|()| PlanWriter::new(BufWriter::new(file.try_clone()?)));
        writer.and_then(ThreadedWriter::new).map_err(failed)
    };
    plan(args, writer, |planner, machine| {
        finish(planner, machine).map_err(failed)?;
        made.keep();
        Ok(())
    })
}

/// Plans a log. Each call of `out` starts an empty output; `end` gets the plan and the architecture
/// before the report is printed.
fn plan<O: PlanOutput<Error: Display>>(
    args: &PlanArgs,
    mut out: impl FnMut() -> Result<O, CliError>,
    end: impl FnOnce(Planner<O>, &str) -> Result<(), CliError>,
) -> Result<ExitCode, CliError> {
    let args = &args.analyse;
    // Invalid options are reported before the log is read.
    // Later operations show what was there at the beginning.
    let wish = FilterSpec::of(&args.filter)?.on(args).needing_all();
    let to = report_output::output(args.print.to.as_deref(), !args.capture.command.is_empty())?;
    analyse::on_log(args, |log, go_on| {
        let (planner, converted) = match wish.is_all() {
            true => plan_all(log, &mut out, &wish, go_on)?,
            false => plan_part(log, out()?, &wish, go_on)?,
        };
        let machine = machine(log, &converted)?;
        let limit = analyse::limit(&args.print);
        let mut report = report::replay::report(&planner, limit);
        end(planner, machine)?;
        summary_lines::add_to(&mut report, &converted);
        analyse::print(report, &args.print, to)
    })
}

/// Architecture of a capture: that of this machine, as its flags cannot be interpreted otherwise.
fn machine<'a>(log: &Path, converted: &'a Converted) -> Result<&'a str, CliError> {
    let machine = converted.summary.header.host.machine.as_str();
    if machine == std::env::consts::ARCH {
        return Ok(machine);
    }
    let message = format!(
        "it was captured on another architecture ({machine}), with other numbers for flags and calls than this one ({}); make the plan, and replay it, on the captured architecture",
        std::env::consts::ARCH
    );
    Err(CliError::Log { path: log.to_owned(), message })
}

/// Plans all operations; once more if the log shows links that were unknown to the plan. The pass
/// ends early if such a link is found early.
fn plan_all<O: PlanOutput<Error: Display>>(
    log: &Path,
    out: &mut dyn FnMut() -> Result<O, CliError>,
    wish: &FilterSpec<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(Planner<O>, Converted), CliError> {
    let mut known = Outdated::default();
    let links = loop {
        let outdated = RefCell::new(None);
        let linked = LinkDiscovery::new(out()?, &known, &outdated);
        let mut is_right_so_far = || outdated.borrow().is_none() && go_on();
        let folded = log_pass::fold_log(log, |_| linked, wish.clone(), &mut is_right_so_far);
        match folded {
            Ok((linked, converted)) if linked.is_right() => return Ok((linked.planner, converted)),
            Ok((linked, _)) => break linked.links(),
            Err(CliError::Interrupted) if outdated.borrow().is_some() => {}
            Err(other) => return Err(other),
        }
        known = outdated.take().unwrap_or_default();
    };
    let planner = Planner::new(out()?).knowing(&links);
    log_pass::fold_log(log, |_| planner, wish.clone(), go_on)
}

/// Plans the selected operations of a log, and their dependencies.
fn plan_part<O: PlanOutput<Error: Display>>(
    log: &Path,
    out: O,
    wish: &FilterSpec<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(Planner<O>, Converted), CliError> {
    let (seen, _) =
        log_pass::pass_over(log, wish.clone(), |_, _| SymlinkEvidence::default(), go_on)?;
    let links = seen.links();
    let mut found = PassFindings::default();
    loop {
        let needs = |filter, _: &Header| DependencySelection::new(filter, found, &links);
        let (needs, _) = log_pass::pass_over(log, wish.clone(), needs, go_on)?;
        found = needs.found;
        if !found.take_grown() {
            break;
        }
    }
    let selected = |filter, _: &Header| Selected::new(filter, found, &links, out);
    let (selected, converted) = log_pass::pass_over(log, wish.clone(), selected, go_on)?;
    let (planner, DependencySelection { picker, mut found, .. }) = selected.end();
    if found.take_grown() {
        return Err(CliError::Usage(format!(
            "{} has grown while it was read; make the plan after the recording has ended",
            log.display()
        )));
    }
    let filter_notes = summary_lines::filter_notes(&picker);
    Ok((planner, Converted { filter_notes, ..converted }))
}
