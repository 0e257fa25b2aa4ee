//! `iotrace-perf stacks`: operations by call chain.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use super::args::{StacksArg, StacksArgs, WeightArg};
use super::completeness;
use super::converted::Converted;
use super::error::CliError;
use super::filter_args::FilterSpec;
use super::message::{print_error, print_line};
use super::report_output::ReportOutput;
use super::summary_lines;
use super::{analyse, report_output};
use crate::analysis::stacks::{IoStacks, StacksOf};
use crate::report::stacks::{StackOptions, Stacks, Weight};
use crate::sys::output_dir::NewFile;
use crate::text::table::incomplete_line;

/// Folds a log, or a recording, and prints its stacks.
pub(super) fn run(mut args: StacksArgs) -> Result<ExitCode, CliError> {
    let user = args.user_stack || args.calls;
    let kernel = args.kernel_stack || !user;
    let by = match args.by {
        WeightArg::Bytes => Weight::Bytes,
        WeightArg::Count => Weight::Count,
        WeightArg::Time => Weight::Time,
    };
    let shape = StackOptions { kernel, user, by };
    choose(&mut args, kernel, user);
    let which = StacksOf { calls: args.calls, by_process: args.per_process };
    let analyse = &args.analyse;
    if analyse.print.sort.is_some() {
        return Err(CliError::Usage("stacks have the order of --by bytes, count or time".into()));
    }
    // Invalid options are reported before anything is recorded.
    let wish = FilterSpec::of(&analyse.filter)?.on(analyse);
    let has_program = !analyse.capture.command.is_empty();
    let to = report_output::output(analyse.print.to.as_deref(), has_program)?;
    let svg = args.svg.as_deref().map(FlameGraphFile::new).transpose()?;
    let finish = |(fold, converted): (IoStacks, Converted)| {
        let stacks = Stacks::new(&fold, &converted.summary, shape);
        let mut notes = summary_lines::notes(&converted);
        let (svg, nothing) = svg.map_or((None, None), |svg| {
            if stacks.is_nothing() { (None, Some(NOTHING)) } else { (Some(svg), None) }
        });
        notes.extend(nothing.map(str::to_owned));
        if args.folded {
            let missing = completeness::missing(&converted.summary);
            incomplete_line(&missing).iter().for_each(|line| print_error(line));
            stacks.notes().iter().chain(&notes).for_each(|note| print_line(note));
            folded(&stacks, to)?;
        } else {
            let form = analyse::form(&analyse.print);
            let mut report = stacks.report(form, analyse::limit(&analyse.print));
            report.incomplete = completeness::missing(&converted.summary);
            report.notes.extend(notes);
            analyse::print(report, &analyse.print, to)?;
        }
        svg.map_or(Ok(()), |svg| svg.draw(&stacks, args.reversed))
    };
    analyse::run_with(analyse, wish, |_| IoStacks::new(which), finish)
}

/// Chooses the recorded events, unless they are given: fewer are cheaper.
fn choose(args: &mut StacksArgs, kernel: bool, user: bool) {
    if args.analyse.log.is_some() {
        return;
    }
    let whose =
        [(kernel, StacksArg::Kernel), (user, StacksArg::User), (args.calls, StacksArg::Calls)];
    let capture = &mut args.analyse.capture;
    capture.stacks = whose.into_iter().filter(|row| row.0).map(|row| row.1).collect();
    // A filter by files needs all events of the default.
    if capture.events.is_empty() && args.analyse.filter.files.is_empty() {
        let events: &[&str] = if args.calls { &["%data", "%sync"] } else { &["block"] };
        capture.events = events.iter().map(|&event| event.to_owned()).collect();
    }
}

fn folded(stacks: &Stacks, mut to: ReportOutput) -> Result<(), CliError> {
    let mut lines = stacks.folded().into_iter();
    let written = lines.try_for_each(|line| writeln!(to, "{line}")).and_then(|()| to.flush());
    written.map_err(CliError::output)
}

/// Message in place of a flame graph.
const NOTHING: &str = "no flame graph: there is nothing to draw";

/// File of a flame graph, created before anything is recorded; removed if nothing is drawn.
struct FlameGraphFile(NewFile);

impl FlameGraphFile {
    fn new(path: &Path) -> Result<Self, CliError> {
        report_output::new_file(path, "--svg").map(Self)
    }

    fn draw(mut self, stacks: &Stacks, reversed: bool) -> Result<(), CliError> {
        let mut out = io::BufWriter::new(self.0.file());
        let drawn = stacks.flame_graph(reversed, &mut out).and_then(|()| out.flush());
        drop(out);
        if drawn.is_ok() {
            self.0.keep();
        }
        drawn.map_err(|error| CliError::Usage(format!("no flame graph: {error}")))
    }
}
