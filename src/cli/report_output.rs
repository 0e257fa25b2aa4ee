//! Destination of a report: a file, standard output, or a pager on a terminal.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use console::Term;

use super::error::CliError;
use super::report_args::{ColorArg, PrintArgs};
use crate::sys::output_dir::{NewFile, Users};
use crate::sys::signal;
use crate::text::table::{Report, TableFormat, TextStyle};
use crate::text::wrapping::wrapped_lines;

/// Creates a file that does not exist, as `option` names it.
pub(super) fn new_file(path: &Path, option: &'static str) -> Result<NewFile, CliError> {
    let path = path.to_owned();
    NewFile::create(&path, &Users::caller()).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => CliError::Exists { path, option },
        _ => CliError::Create { path, source },
    })
}

/// Destination of a report.
pub(super) struct ReportOutput {
    out: Box<dyn Write + Send>,
    /// The terminal that may show it; `None`: a file of the caller's.
    terminal: Option<Term>,
    /// True for standard output, which no program of a recording uses.
    may_page: bool,
}

impl Write for ReportOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl ReportOutput {
    /// Returns the destination for other output than a report.
    pub(super) fn into_writer(self) -> Box<dyn Write + Send> {
        self.out
    }

    /// Prints a report, a long one for people through a pager.
    pub(super) fn print(
        &mut self,
        report: &Report,
        form: TableFormat,
        args: &PrintArgs,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        report.print(form, self.style(args), &mut text)?;
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        let rows =
            self.terminal.as_ref().and_then(Term::size_checked).map(|size| usize::from(size.0));
        let is_long = rows.is_some_and(|rows| lines >= rows) && form == TableFormat::Text;
        if is_long && self.may_page && !args.no_pager && page(&text)? {
            return Ok(());
        }
        self.out.write_all(&text)?;
        self.out.flush()
    }

    /// Returns the style of a report for people.
    pub(super) fn style(&self, args: &PrintArgs) -> TextStyle {
        let width = self.terminal.as_ref().and_then(columns).filter(|_| !args.wide);
        let has_color = match args.color {
            ColorArg::Always => true,
            ColorArg::Never => false,
            ColorArg::Auto => self.terminal.as_ref().is_some_and(is_colorful),
        };
        TextStyle { width, has_color }
    }
}

/// Prints a text on standard output, its lines as wide as a terminal.
pub(super) fn print_text(text: &str) -> Result<(), CliError> {
    let text = wrapped_lines(text, columns(&Term::stdout()));
    io::stdout().lock().write_all(text.as_bytes()).map_err(CliError::output)
}

/// Returns the destination of a report: separate from a traced program's own output.
pub(super) fn output(to: Option<&Path>, has_program: bool) -> Result<ReportOutput, CliError> {
    if let Some(path) = to {
        let mut made = new_file(path, "--to")?;
        made.keep();
        let out = Box::new(made.file().try_clone().map_err(CliError::Output)?);
        return Ok(ReportOutput { out, terminal: None, may_page: false });
    }
    let (out, terminal): (Box<dyn Write + Send>, Term) = match has_program {
        true => (Box::new(io::stderr()), Term::stderr()),
        false => (Box::new(io::stdout()), Term::stdout()),
    };
    Ok(ReportOutput { out, terminal: Some(terminal), may_page: !has_program })
}

/// Returns the columns of a terminal, or those of `COLUMNS` for a pipe or a file.
fn columns(terminal: &Term) -> Option<usize> {
    let shown = terminal.size_checked().map(|(_, columns)| usize::from(columns));
    let wanted = || std::env::var("COLUMNS").ok()?.parse().ok();
    shown.or_else(wanted).filter(|columns| *columns > 0)
}

/// True for a terminal that shows colours to a user who wants them (no-color.org).
fn is_colorful(terminal: &Term) -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|kind| kind == "dumb");
    terminal.features().is_attended() && !is_refused && !is_dumb
}

/// Shows a text in the caller's pager, as git does. Returns false if there is none.
fn page(text: &[u8]) -> io::Result<bool> {
    let named = ["IOTRACE_PAGER", "PAGER"].into_iter().find_map(|name| std::env::var(name).ok());
    let pager = named.unwrap_or_else(|| "less".to_owned());
    if matches!(pager.trim(), "" | "cat") {
        return Ok(false);
    }
    let mut command = Command::new("sh");
    command.args(["-c", &pager]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Colours; no pager for a text that fits; the text stays on the screen.
        command.env("LESS", "FRX");
    }
    // A pager of root starts no editor and no shell.
    command.env("LESSSECURE", "1");
    let Ok(mut pager) = command.spawn() else { return Ok(false) };
    // The pager handles Ctrl-C.
    signal::block_interrupts()?;
    if let Some(mut input) = pager.stdin.take() {
        match input.write_all(text) {
            // The caller has left the pager.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            other => other?,
        }
    }
    // A shell that finds no pager ends with 127.
    Ok(pager.wait()?.code() != Some(127))
}
