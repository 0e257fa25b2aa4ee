//! `iotrace-perf report`: a page about a recording, for a browser.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::args::{AnalyseArgs, PageArgs};
use super::converted::Converted;
use super::error::CliError;
use super::filter_args::FilterSpec;
use super::message::{print_error, print_line};
use super::output::LOG_NAME;
use super::{analyse, completeness, events, report_output, summary_lines};
use crate::analysis::overview::Overview;
use crate::report::page::{self, PageInput};
use crate::text::quantity;
use crate::text::table::incomplete_line;

/// Name of the page about a recording that is not kept.
const PAGE_NAME: &str = "report.html";

/// Makes the page about a log, or about a recording that is made for it.
pub(super) fn run(args: &PageArgs) -> Result<ExitCode, CliError> {
    let mut analyse = args.analyse();
    if analyse.log.is_none() && analyse.capture.events.is_empty() {
        // Where the time goes inside of calls is a part of the page.
        analyse.capture.events = [events::DEFAULT, events::LAYERS].map(str::to_owned).to_vec();
    }
    // Invalid options are reported before anything is recorded.
    let wish = FilterSpec::of(&analyse.filter)?.on(&analyse);
    let is_whole = wish.is_all();
    let path = args.output.clone().unwrap_or_else(|| page_path(analyse.log.as_deref()));
    let mut file = report_output::new_file(&path, "-o")?;
    let command = command(&analyse, is_whole);
    let finish = |(fold, converted): (Overview, Converted)| {
        let page = page(&fold, &converted, is_whole, &command);
        file.file().write_all(page.as_bytes()).map_err(CliError::output)?;
        file.keep();
        let missing = completeness::missing(&converted.summary);
        incomplete_line(&missing).iter().for_each(|line| print_error(line));
        let size = quantity::size(page.len() as u64);
        print_line(&format!("wrote {0} ({size}); open it: xdg-open {0}", path.display()));
        Ok(())
    };
    analyse::run_with(&analyse, wish, Overview::new, finish)
}

/// Returns the page about all of a log, which is shown by this path.
pub(super) fn page_of(fold: &Overview, converted: &Converted, log: &Path) -> String {
    page(fold, converted, true, &format!("iotrace-perf summary {}", log.display()))
}

fn page(fold: &Overview, converted: &Converted, is_whole: bool, command: &str) -> String {
    let summary = &converted.summary;
    page::render(&PageInput {
        fold,
        summary,
        is_whole,
        incomplete: &completeness::missing(summary),
        unknown: &completeness::unknown(summary),
        notes: &summary_lines::notes(converted),
        command,
    })
}

/// Command with the numbers of the page. That with a filter is not repeated.
fn command(args: &AnalyseArgs, is_whole: bool) -> String {
    let log = args.log.as_deref().unwrap_or(Path::new("LOG")).display();
    let filter = if is_whole { "" } else { " (and the options of the filter)" };
    format!("iotrace-perf summary {log}{filter}")
}

/// Path of the page about a log: beside the log, or beside the directory of the recording.
fn page_path(log: Option<&Path>) -> PathBuf {
    let Some(log) = log else { return PAGE_NAME.into() };
    let directory = log.parent().filter(|_| log.file_name() == Some(OsStr::new(LOG_NAME)));
    let named = directory.filter(|directory| directory.file_name().is_some());
    let Some(directory) = named else { return log.with_extension("html") };
    let mut name: OsString = directory.file_name().unwrap_or_default().to_owned();
    name.push(".html");
    directory.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_beside_the_recording() {
        let path = |log: &str| page_path(Some(Path::new(log)));
        assert_eq!(page_path(None), Path::new("report.html"));
        assert_eq!(path("a/b.iocap"), Path::new("a/b.html"));
        assert_eq!(path("run.1/traces.iocap"), Path::new("run.1.html"));
        assert_eq!(path("/x/run/traces.iocap"), Path::new("/x/run.html"));
        assert_eq!(path("traces.iocap"), Path::new("traces.html"));
    }
}
