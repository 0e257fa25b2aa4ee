//! `iotrace-perf report`: a page about a recording, for a browser.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::args::AnalyseArgs;
use super::converted::Converted;
use super::error::CliError;
use super::file_staging::FreeName;
use super::filter_args::FilterSpec;
use super::interruptible::until_signal;
use super::message::{print_error, print_line};
use super::output::LOG_NAME;
use super::page_args::PageArgs;
use super::{analyse, completeness, events, log_pass, summary_lines};
use crate::analysis::overview::{Overview, SelectedOverview};
use crate::capture::header::Header;
use crate::report::page::{self, PageInput};
use crate::sys::output_dir::Users;
use crate::text::table::incomplete_line;
use crate::text::{direct_flag, quantity};

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
    let places = PagePlaces::find(args, analyse.log.as_deref())?;
    let command = command(&analyse, wish.is_all());
    let work = |log: &Path, go_on: &mut dyn FnMut() -> bool| {
        make_page(log, wish, &places, &command, go_on)
    };
    if analyse.log.is_none() {
        return analyse::on_log(&analyse, work);
    }
    let log = analyse.log.clone().unwrap_or_default();
    until_signal("no page was made", |go_on| work(&log, go_on))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the fold of the page for a log with this header.
pub(super) fn overview(header: &Header) -> Overview {
    Overview::new(header, direct_flag(&header.host.machine))
}

/// Names of the page and of the picture.
struct PagePlaces {
    page: Option<FreeName>,
    svg: Option<FreeName>,
}

impl PagePlaces {
    /// Finds the names. A picture alone needs no page.
    fn find(args: &PageArgs, log: Option<&Path>) -> Result<Self, CliError> {
        let named = |path: &Path| FreeName::find(path, &Users::caller(), args.force);
        let page = match (&args.output, &args.svg) {
            (Some(path), _) => Some(path.clone()),
            (None, None) => Some(page_path(log)),
            (None, Some(_)) => None,
        };
        let page = page.as_deref().map(named).transpose()?;
        Ok(Self { page, svg: args.svg.as_deref().map(named).transpose()? })
    }
}

/// Makes the page about a log, and the picture of its charts. `go_on` is called now and then, and
/// before a file gets its name.
fn make_page(
    log: &Path,
    wish: FilterSpec<'_>,
    places: &PagePlaces,
    command: &str,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), CliError> {
    let is_whole = wish.is_all();
    let sink = |filter, header: &Header| SelectedOverview::new(filter, overview(header));
    let (selected, converted) = log_pass::pass_over(log, wish, sink, go_on)?;
    let filter_notes = summary_lines::filter_notes(&selected.picker);
    let converted = Converted { filter_notes, ..converted };
    let fold = &selected.fold;
    if let Some(place) = &places.svg {
        let picture = with_input(fold, &converted, is_whole, command, page::timeline_svg);
        let picture = picture.ok_or_else(|| CliError::Usage(NO_PICTURE.to_owned()))?;
        write_file(place, &picture, go_on)?;
    }
    if let Some(place) = &places.page {
        let page = with_input(fold, &converted, is_whole, command, page::render);
        write_file(place, &page, go_on)?;
    }
    let missing = completeness::missing(&converted.summary);
    incomplete_line(&missing).iter().for_each(|line| print_error(line));
    Ok(())
}

/// Error of a picture without a chart.
const NO_PICTURE: &str = "--svg has nothing to draw: no operation has ended in this time, or a filter selects none; \
                          iotrace-perf info LOG shows how long the recording is";

/// Writes a file, unless the work is cancelled.
pub(super) fn write_file(
    place: &FreeName,
    text: &str,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), CliError> {
    let staged = place.stage()?;
    staged.file().write_all(text.as_bytes()).map_err(CliError::output)?;
    if !go_on() {
        return Err(CliError::Interrupted);
    }
    staged.finish()?;
    let size = quantity::size(text.len() as u64);
    print_line(&format!("wrote {0} ({size}); open it: xdg-open {0}", place.path().display()));
    Ok(())
}

/// Returns the page about all of a log, which is shown by this path.
pub(super) fn page_of(fold: &Overview, converted: &Converted, log: &Path) -> String {
    let command = format!("iotrace-perf summary {}", log.display());
    with_input(fold, converted, true, &command, page::render)
}

fn with_input<T>(
    fold: &Overview,
    converted: &Converted,
    is_whole: bool,
    command: &str,
    make: impl FnOnce(&PageInput<'_>) -> T,
) -> T {
    let summary = &converted.summary;
    make(&PageInput {
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
