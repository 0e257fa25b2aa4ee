//! A pass over a log: its selected operations into a sink.

use std::fmt::Display;
use std::path::Path;

use super::convert::{InputLog, open};
use super::converted::Converted;
use super::error::CliError;
use super::filter_args::FilterSpec;
use super::summary_lines;
use crate::analysis::call_totals::{Totals, WithTotals};
use crate::analysis::filter::{Filter, Filtered};
use crate::capture::header::Header;
use crate::operation::Sink;
use crate::pipeline;

/// Folds a log. `go_on` is called now and then.
pub(super) fn fold_log<F: Sink<Error: Display>>(
    log: &Path,
    fold: impl FnOnce(&Header) -> F,
    wish: FilterSpec<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(F, Converted), CliError> {
    let (filtered, converted) =
        pass_over(log, wish, |filter, header| Filtered::new(filter, fold(header)), go_on)?;
    let Filtered { picker, sink: fold } = filtered;
    let filter_notes = summary_lines::filter_notes(&picker);
    Ok((fold, Converted { filter_notes, ..converted }))
}

/// Passes a log up to the last selected time to a sink, which decides what it uses.
pub(super) fn pass_over<S: Sink<Error: Display>>(
    log: &Path,
    wish: FilterSpec<'_>,
    sink: impl FnOnce(Filter, &Header) -> S,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(S, Converted), CliError> {
    let InputLog { items, header, .. } = open(log, false)?;
    let (filter, until) = wish.filter_and_end(&header)?;
    let mut totals = Totals::default();
    let mut sink = WithTotals { totals: &mut totals, sink: sink(filter, &header) };
    let summary = pipeline::run_until(items, header, until, &mut sink, go_on)
        .map_err(|error| CliError::pipeline(log, &error))?;
    let sink = sink.sink;
    Ok((sink, Converted::new(summary, totals)))
}
