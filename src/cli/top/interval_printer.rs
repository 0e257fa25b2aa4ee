//! Printer of a table for each interval.

use std::io::{self, Write};

use crate::analysis::top::{TopModel, TopView};
use crate::cli::error::CliError;
use crate::cli::report_args::PrintArgs;
use crate::cli::report_output::output;
use crate::cli::top_args::TopArgs;
use crate::report::ROWS;
use crate::report::top::{IntervalReportOptions, interval_report};
use crate::text::table::{Separator, TableFormat, TextStyle};

/// Destination and form of the tables.
pub(super) struct IntervalPrinter {
    out: Box<dyn Write + Send>,
    style: TextStyle,
    form: TableFormat,
    views: Vec<TopView>,
    limit: usize,
    /// True after the first interval.
    has_begun: bool,
}

impl IntervalPrinter {
    /// Opens the destination.
    pub(super) fn new(args: &TopArgs) -> Result<Self, CliError> {
        let form = match (args.json, args.csv) {
            (true, _) => TableFormat::Json,
            (_, true) => TableFormat::Csv,
            _ => TableFormat::Text,
        };
        let is_text = form == TableFormat::Text;
        let views = match args.view {
            Some(view) => vec![view.into()],
            None if form == TableFormat::Json => TopView::ALL.to_vec(),
            None => vec![TopView::default()],
        };
        let limit = args.rows.unwrap_or(if is_text { ROWS } else { 0 });
        let to = output(args.to.as_deref(), !args.capture.command.is_empty())?;
        let style = to.style(&PrintArgs::default());
        Ok(Self { out: to.into_writer(), style, form, views, limit, has_begun: false })
    }

    /// Prints the last interval of the model.
    pub(super) fn print(&mut self, model: &TopModel) -> io::Result<()> {
        let options = IntervalReportOptions {
            views: &self.views,
            limit: self.limit,
            repeats_interval: self.form == TableFormat::Csv,
        };
        let report = interval_report(model, &options);
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        match self.form {
            TableFormat::Json => report.print_json_line(&mut self.out),
            TableFormat::Csv => report.print_rows(Separator::Comma, is_first, &mut self.out),
            TableFormat::Tsv => report.print_rows(Separator::Tab, is_first, &mut self.out),
            TableFormat::Text => {
                if !is_first {
                    self.out.write_all(b"\n")?;
                }
                report.print(TableFormat::Text, self.style, &mut self.out)
            }
        }
    }
}
