//! Files for shells and `man`, made from the definition of the command line.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use super::error::CliError;
use super::invocation::command;
use super::report_output::new_file;
use super::shell_args::{CompletionsArgs, ManArgs, ShellArg};
use super::version::VERSION;

/// Name of the program, and of its page.
const PROGRAM: &str = "iotrace-perf";

/// Prints the completions of a shell.
pub(super) fn completions(args: &CompletionsArgs) -> Result<ExitCode, CliError> {
    let shell = match args.shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
        ShellArg::Elvish => Shell::Elvish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut visible_command(), PROGRAM, &mut text);
    io::stdout().lock().write_all(&text).map_err(CliError::output)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a page of the manual, or writes all pages.
pub(super) fn man(args: &ManArgs) -> Result<ExitCode, CliError> {
    let pages = pages();
    if let Some(directory) = &args.all {
        pages.iter().try_for_each(|(name, page)| write(directory, name, page))?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = match &args.subcommand {
        Some(subcommand) => format!("{PROGRAM}-{subcommand}"),
        None => PROGRAM.to_owned(),
    };
    let Some((_, page)) = pages.iter().find(|(name, _)| *name == wanted) else {
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(", ");
        return Err(CliError::Usage(format!("there is no page {wanted}; the pages are: {names}")));
    };
    io::stdout().lock().write_all(page).map_err(CliError::output)?;
    Ok(ExitCode::SUCCESS)
}

fn write(directory: &Path, name: &str, page: &[u8]) -> Result<(), CliError> {
    let mut file = new_file(&directory.join(format!("{name}.1")), "--all")?;
    file.keep();
    file.file().write_all(page).map_err(CliError::Output)
}

/// Pages of the program and of its subcommands, with their names.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut whole = visible_command();
    whole.build();
    let subcommands = whole.get_subcommands().filter(|verb| verb.get_name() != "help");
    let mut pages = vec![(PROGRAM.to_owned(), page(&whole, PROGRAM))];
    for subcommand in subcommands {
        let name = format!("{PROGRAM}-{}", subcommand.get_name());
        pages.push((name.clone(), page(subcommand, &name)));
    }
    pages
}

/// Returns the command without the subcommands that the program starts itself.
fn visible_command() -> Command {
    let whole = command();
    let subcommands = whole.get_subcommands().filter(|verb| !verb.is_hide_set());
    let about = whole.get_about().cloned().unwrap_or_default();
    Command::new(PROGRAM)
        .about(about)
        .version(VERSION)
        .args(whole.get_arguments().cloned())
        .subcommands(subcommands.cloned())
}

fn page(command: &Command, name: &str) -> Vec<u8> {
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command.clone().display_name(name)).title(name);
    // A vector takes all bytes.
    let _ = page.render(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subcommand_has_a_page_with_its_options() {
        let pages = pages();
        let text = |name: &str| {
            let (_, page) = pages.iter().find(|page| page.0 == name).expect("a page");
            String::from_utf8(page.clone()).expect("text")
        };
        assert!(text("iotrace-perf-summary").contains(r"\-\-sort"));
        assert!(text("iotrace-perf-record").contains(r"\-\-max\-log"));
        assert!(text("iotrace-perf").contains("doctor"));
        assert!(pages.iter().all(|(name, _)| !name.contains("release")));
    }

    #[test]
    fn completions_of_all_shells_know_the_subcommands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut visible_command(), PROGRAM, &mut text);
            let text = String::from_utf8(text).expect("text");
            assert!(text.contains("summary") && text.contains("max-log"), "{shell}");
            assert!(!text.contains("release-kernel-objects"), "{shell}");
        }
    }
}
