//! Files for shells and `man`, made from the definition of the command line.

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use super::error::CliError;
use super::invocation::command;
use super::shell_args::{CompletionsArgs, ManArgs, ShellArg};
use super::version::VERSION;
use crate::sys::output_dir::{NewFile, OutputDirectory, Users};

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
        write_pages(directory, &pages)
            .map_err(|source| CliError::Create { path: directory.clone(), source })?;
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

/// Writes pages that all users may read. Pages of the same names are replaced.
fn write_pages(directory: &Path, pages: &[(String, Vec<u8>)]) -> io::Result<()> {
    let directory = directory_of_pages(directory)?;
    for (name, page) in pages {
        let new = OsString::from(format!(".{name}.1.{}", std::process::id()));
        let mut file = NewFile::create_in(directory.clone(), new.clone())?;
        file.file().write_all(page)?;
        file.file().set_permissions(Permissions::from_mode(0o644))?;
        directory.replace(&new, OsStr::new(&format!("{name}.1")))?;
        file.keep();
    }
    Ok(())
}

/// Opens the directory of pages, and creates the missing directories on its path. In a directory
/// of root's, pages are root's, unlike the results of a recording.
fn directory_of_pages(path: &Path) -> io::Result<OutputDirectory> {
    let open = |path: &Path| {
        OutputDirectory::open(path, &Users::none())
            .or_else(|_| OutputDirectory::open(path, &Users::caller()))
    };
    let path = std::path::absolute(path)?;
    match open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return open(&path) };
    let made = directory_of_pages(parent)?.make_own(name)?;
    std::fs::set_permissions(made.path(), Permissions::from_mode(0o755))?;
    Ok(made)
}

/// Pages of the program and of its subcommands, with their names.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut whole = visible_command().disable_help_subcommand(true);
    whole.build();
    let mut pages = Vec::new();
    add_pages(&whole, PROGRAM, &mut pages);
    pages
}

/// Adds the page of a command, and those of its subcommands.
fn add_pages(command: &Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) {
    pages.push((name.to_owned(), page(command, name)));
    for subcommand in command.get_subcommands() {
        add_pages(subcommand, &format!("{name}-{}", subcommand.get_name()), pages);
    }
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
    let page = clap_mangen::Man::new(command.clone().display_name(name))
        .title(name)
        .source(format!("{PROGRAM} {VERSION}"));
    // A vector takes all bytes.
    let _ = page.render(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
    fn each_page_that_a_page_names_exists() {
        let pages = pages();
        let names: BTreeSet<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        let texts = pages.iter().map(|(_, page)| String::from_utf8_lossy(page).replace('\\', ""));
        let mut named = BTreeSet::new();
        for text in texts {
            let words = text.split_whitespace().filter_map(|word| word.strip_suffix("(1)"));
            named.extend(words.filter(|word| word.starts_with(PROGRAM)).map(str::to_owned));
        }
        assert!(named.contains("iotrace-perf-replay-run"), "{named:?}");
        let missing: Vec<&String> =
            named.iter().filter(|name| !names.contains(name.as_str())).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn pages_name_the_version_of_the_program() {
        for (name, page) in pages() {
            let text = String::from_utf8(page).expect("text");
            let title = text.lines().find(|line| line.starts_with(".TH")).expect("a title");
            assert!(title.contains(&format!("\"{PROGRAM} {VERSION}\"")), "{name}: {title}");
        }
    }

    #[test]
    fn all_pages_are_replaced_in_a_directory_that_is_made() {
        let folder = tempfile::tempdir().expect("a directory");
        let directory = folder.path().join("share/man/man1");
        let old = vec![("iotrace-perf".to_owned(), b"old".to_vec())];
        write_pages(&directory, &old).expect("written");
        std::fs::write(directory.join("other.1"), "other").expect("written");
        write_pages(&directory, &pages()).expect("written again");
        let text = |name| std::fs::read_to_string(directory.join(name)).expect("readable");
        assert!(text("iotrace-perf.1").contains(".TH"));
        assert_eq!(text("other.1"), "other");
        let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o755);
        assert_eq!(mode(&directory.join("iotrace-perf-replay-run.1")), 0o644);
        let files = std::fs::read_dir(&directory).expect("readable").count();
        assert_eq!(files, pages().len() + 1);
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
