//! Parsing of the command line: help in groups, programs without `--`, and answers to words of
//! other tools.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, FromArgMatches};
use nix::unistd::{AccessFlags, access};

use super::args::RECORDING;
use super::command_line::Args;
use super::error::CliError;
use super::examples;

/// Headings of `--help`, and the subcommands below each.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Record", &["record"]),
    (
        "Look at a recording, or at one that is made for the report",
        &[
            "summary", "report", "disk", "cache", "files", "slow", "latency", "pattern", "stacks",
            "script", "info",
        ],
    ),
    ("Watch while it happens", &["live", "watch", "ctl"]),
    ("Replay", &["replay"]),
    ("Convert", &["convert", "import"]),
    ("This machine", &["doctor", "list"]),
];

/// Options of a recording that `iotrace-perf --help` shows; `record --help` has all.
const SHOWN: [&str; 6] = ["all_cpus", "pid", "events", "output", "duration", "verbose"];

/// Options of a recording that the help of other subcommands shows.
const SHOWN_ELSEWHERE: [&str; 6] = ["all_cpus", "pid", "events", "device", "duration", "command"];

/// Subcommands whose positional arguments are a program, as without a subcommand.
const WITH_PROGRAM: [&str; 2] = ["record", "live"];

const USAGE: &str = "iotrace-perf [OPTIONS] PROGRAM [ARGUMENT]...
       iotrace-perf [OPTIONS] -a | -p PID
       iotrace-perf SUBCOMMAND ...";

/// Options of other tools, and what has their effect here.
const HABITS: [(&str, &str); 8] = [
    ("-c", "counts and times by call: iotrace-perf summary -- PROGRAM"),
    ("-C", "counts and times by call: iotrace-perf summary -- PROGRAM"),
    ("-t", "operations with their times: iotrace-perf live PROGRAM, or script of a recording"),
    ("-T", "operations with their durations: iotrace-perf live PROGRAM, or script of a recording"),
    ("-r", "operations with their times: iotrace-perf live PROGRAM, or script of a recording"),
    ("-x", "failed operations by file: iotrace-perf files -- PROGRAM"),
    ("-s", "paths are always whole, and the data of reads and writes are not recorded"),
    ("-y", "operations always have the paths of their descriptors"),
];

/// Letters of a word for each edit between the word and the subcommand that was meant.
const LETTERS_PER_EDIT: usize = 3;

/// Returns the command with all subcommands.
pub(super) fn command() -> Command {
    let shown = |arg: Arg| {
        let is_shown = SHOWN.contains(&arg.get_id().as_str());
        arg.hide(!is_shown)
    };
    let command = Args::command();
    let help = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options of a recording (all: \
         iotrace-perf record --help):\n{{options}}{{after-help}}",
        subcommands_text(&command)
    );
    let command = command.override_usage(USAGE).help_template(help).mut_args(shown);
    let command = command.mut_subcommands(with_examples);
    WITH_PROGRAM
        .into_iter()
        .fold(with_program(command), |command, name| command.mut_subcommand(name, with_program))
}

/// Returns a subcommand with its examples, and without the options of a recording that only
/// `record --help` shows.
fn with_examples(subcommand: Command) -> Command {
    let examples = examples::text(subcommand.get_name());
    let subcommand = if examples.is_empty() { subcommand } else { subcommand.after_help(examples) };
    let nested = |verb: Command| verb.mut_args(shown_elsewhere);
    subcommand.mut_args(shown_elsewhere).mut_subcommands(nested)
}

/// Hides an option of a recording that only `record --help` shows.
fn shown_elsewhere(arg: Arg) -> Arg {
    let is_of_recording = arg.get_help_heading() == Some(RECORDING);
    let is_shown = SHOWN_ELSEWHERE.contains(&arg.get_id().as_str());
    if is_of_recording && !is_shown { arg.hide(true) } else { arg }
}

/// Lets the first positional argument begin a program with its arguments.
fn with_program(command: Command) -> Command {
    command.mut_arg("command", |arg| arg.last(false).trailing_var_arg(true))
}

/// Returns the subcommands in their groups, a line each.
fn subcommands_text(command: &Command) -> String {
    let mut text = String::new();
    for (heading, names) in GROUPS {
        text.push_str(&format!("{heading}:\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {name:<9}{about}\n"));
        }
        text.push('\n');
    }
    text
}

/// Parses the words of a command line, the program's own name first.
///
/// # Errors
///
/// Those of clap, to be printed by it; the inner error is of a word that is neither a subcommand
/// nor a program.
pub(super) fn parse(words: &[OsString]) -> Result<Result<Args, CliError>, clap::Error> {
    let parsed =
        command().try_get_matches_from(words).and_then(|found| Args::from_arg_matches(&found));
    let args = match parsed {
        Ok(args) => args,
        Err(error) => return habit(&error).map_or(Err(error), |usage| Ok(Err(usage))),
    };
    Ok(match misspelled(&args, words) {
        Some(usage) => Err(usage),
        None => Ok(args),
    })
}

/// Returns the answer to an option of another tool.
fn habit(error: &clap::Error) -> Option<CliError> {
    let word = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) => word,
        _ => return None,
    };
    let (_, effect) = HABITS.iter().find(|(option, _)| option == word)?;
    Some(CliError::Usage(format!("there is no option {word} here; {effect}")))
}

/// Returns the error of a program that does not exist and whose name is nearly a subcommand's.
fn misspelled(args: &Args, words: &[OsString]) -> Option<CliError> {
    let command = &args.record.capture.command;
    let program = command.first().filter(|_| args.verb.is_none())?;
    let before = words.len().checked_sub(command.len() + 1).and_then(|place| words.get(place));
    if before.is_some_and(|word| word == "--") || is_program(program) {
        return None;
    }
    let word = program.to_str()?;
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let near = names.map(|name| (strsim::damerau_levenshtein(word, name), name));
    let (edits, name) = near.min()?;
    let rest: String =
        command.iter().skip(1).map(|argument| format!(" {}", argument.to_string_lossy())).collect();
    match edits {
        0 => Some(CliError::Usage(format!(
            "the subcommand comes before its options; try: iotrace-perf {name} …"
        ))),
        _ if edits <= (word.chars().count() / LETTERS_PER_EDIT).max(1) => {
            Some(CliError::Usage(format!(
                "there is no subcommand or program {word}; did you mean: iotrace-perf {name}{rest}"
            )))
        }
        _ => None,
    }
}

/// True if a shell would find this program.
fn is_program(program: &OsStr) -> bool {
    if program.as_bytes().contains(&b'/') {
        return true;
    }
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let found = |path: PathBuf| path.is_file() && access(&path, AccessFlags::X_OK).is_ok();
    std::env::split_paths(&directories).any(|directory| found(directory.join(Path::new(program))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command_line::Verb;

    fn parsed(line: &str) -> Result<Args, String> {
        let words: Vec<OsString> = std::iter::once("iotrace-perf")
            .chain(line.split_whitespace())
            .map(Into::into)
            .collect();
        match parse(&words) {
            Ok(Ok(args)) => Ok(args),
            Ok(Err(usage)) => Err(usage.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[track_caller]
    fn check_program(line: &str, program: &str) {
        let args = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let capture = match &args.verb {
            None => &args.record.capture,
            Some(Verb::Record(record)) => &record.capture,
            Some(Verb::Live(live)) => &live.capture,
            Some(other) => panic!("{line}: {other:?}"),
        };
        let words: Vec<_> = capture.command.iter().map(|word| word.to_string_lossy()).collect();
        assert_eq!(words.join(" "), program, "{line}");
    }

    #[track_caller]
    fn check_error(line: &str, part: &str) {
        let error = parsed(line).expect_err(line);
        assert!(error.contains(part), "{line}: {error}");
    }

    /// Fails if an example in a help text is no command line, or if a subcommand has none.
    #[test]
    fn examples_of_all_subcommands_are_command_lines() {
        for (name, examples) in examples::EXAMPLES {
            for (line, _) in examples {
                let line = line.split(" | ").next().unwrap_or_default();
                if let Some((_, rest)) = line.split_once("iotrace-perf ") {
                    parsed(rest).unwrap_or_else(|error| panic!("{name}: {line}: {error}"));
                }
            }
        }
        for name in GROUPS.iter().flat_map(|(_, names)| *names).filter(|name| **name != "list") {
            assert!(!examples::text(name).is_empty(), "{name}");
        }
    }

    /// Fails if two options of a subcommand have the same name.
    #[test]
    fn options_of_all_subcommands_go_together() {
        command().debug_assert();
    }

    #[test]
    fn program_needs_no_dashes() {
        check_program("./app -x --json", "./app -x --json");
        check_program("-a ./app", "./app");
        check_program("-f -D 10s ls -a -p 1", "ls -a -p 1");
        check_program("-ff ls", "ls");
        check_program("no-cc file.c", "no-cc file.c");
        check_program("-- ./app -a", "./app -a");
        check_program("ls -- -a", "ls -- -a");
        check_program("record ls -l", "ls -l");
        check_program("live ls -l", "ls -l");
        check_program("live -- ls -l", "ls -l");
        check_program("-- sumary", "sumary");
    }

    #[test]
    fn promised_lines_are_accepted() {
        for line in [
            "-a -- ./app -x",
            "-p 12,13 -o trace.otf2",
            "convert a.iocap",
            "--tracer-cpus 0-1 -a",
            // The former name.
            "--own-cpus 0-1 -a",
        ] {
            assert!(parsed(line).is_ok(), "{line}");
        }
        for line in ["-a -p 1", "-p 1 -- ./app", "--tracer-cpus 0 --own-cpus 1 -a"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn nearest_subcommand_is_named() {
        check_error("sumary x/", "did you mean: iotrace-perf summary x/");
        check_error("lateny", "did you mean: iotrace-perf latency");
        check_error("-a summary", "the subcommand comes before its options");
        check_program("no-such-program-at-all", "no-such-program-at-all");
    }

    #[test]
    fn options_of_other_tools_are_answered() {
        for (option, effect) in HABITS {
            check_error(&format!("{option} ls"), effect);
        }
        check_error("--no-such-option", "--no-such-option");
    }

    #[test]
    fn help_has_all_subcommands_in_lines_of_80_columns() {
        let mut command = command().term_width(80);
        let help = command.render_help().to_string();
        for subcommand in command
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
        {
            let name = subcommand.get_name();
            assert!(help.contains(&format!("\n  {name:<9}")), "{name}: {help}");
        }
        let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(long.is_empty(), "{long:#?}");
    }
}
