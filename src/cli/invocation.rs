//! Parsing of the command line: help in groups, programs without `--`, and errors with their
//! explanations.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory, FromArgMatches};

use super::args::RECORDING;
use super::command_line::Args;
use super::examples;
use super::programs_found::is_program;
use super::usage_error::{self, UsageError};

/// Headings of `--help`, and the subcommands below each.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Record", &["record"]),
    (
        "Look at a recording, or at one that is made for the report",
        &[
            "summary",
            "report",
            "disk",
            "neighbours",
            "cache",
            "what-if",
            "files",
            "slow",
            "latency",
            "pattern",
            "stacks",
            "script",
            "info",
            "diff",
            "check",
            "advise",
        ],
    ),
    ("Watch while it happens", &["live", "top", "watch", "ctl"]),
    ("Replay", &["replay"]),
    ("Convert", &["convert", "merge", "clocks", "import"]),
    ("This machine", &["doctor", "list", "completions", "man"]),
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

/// Names of values that are numbers: a minus before one does not begin an option.
const NUMBERS: [&str; 9] =
    ["PID", "TID", "TIME", "SIZE", "BYTES", "N", "PRIORITY", "SPEED", "CPUS"];

/// Option that prints the version with all that belongs to it; `-V` prints a line.
const LONG_VERSION: &str = "--version";

/// A command line that is not run.
#[derive(Debug)]
pub(super) enum Unparsed {
    /// Help, or the version in one line.
    Help(clap::Error),
    /// The version with all that belongs to it. Its text is made only when it is asked for: it
    /// looks for a library.
    LongVersion,
    /// Error of the line.
    Usage(UsageError),
}

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
    let command = WITH_PROGRAM
        .into_iter()
        .fold(with_program(command), |command, name| command.mut_subcommand(name, with_program));
    with_negative_numbers(command)
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
            text.push_str(&format!("  {name:<11} {about}\n"));
        }
        text.push('\n');
    }
    text
}

/// Lets an option whose value is a number take a negative one, so that its own parser refuses it.
fn with_negative_numbers(command: Command) -> Command {
    let accept = |arg: Arg| {
        let names = arg.get_value_names().unwrap_or_default();
        let is_number = names.first().is_some_and(|name| NUMBERS.contains(&name.as_str()));
        arg.allow_negative_numbers(is_number)
    };
    command.mut_args(accept).mut_subcommands(with_negative_numbers)
}

/// Parses the words of a command line, the program's own name first.
///
/// # Errors
///
/// Help or version, which are asked for, or an error with its explanation.
pub(super) fn parse(words: &[OsString]) -> Result<Args, Unparsed> {
    let root = command();
    let matches = root.clone().try_get_matches_from(words).map_err(|error| {
        if error.kind() == ErrorKind::DisplayVersion
            && words.iter().any(|word| word == LONG_VERSION)
        {
            Unparsed::LongVersion
        } else if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            Unparsed::Help(error)
        } else {
            Unparsed::Usage(usage_error::explain(&error, &root, words))
        }
    })?;
    if let Some(usage) = usage_error::check_values(&matches, &root, words) {
        return Err(Unparsed::Usage(usage));
    }
    let args = Args::from_arg_matches(&matches)
        .map_err(|error| Unparsed::Usage(usage_error::explain(&error, &root, words)))?;
    misspelled(&args, &root, words).map_or(Ok(args), |usage| Err(Unparsed::Usage(usage)))
}

/// Returns the error of a program that does not exist and whose name is nearly a subcommand's.
fn misspelled(args: &Args, root: &Command, words: &[OsString]) -> Option<UsageError> {
    let command = &args.record.capture.command;
    let program = command.first().filter(|_| args.verb.is_none())?;
    let before = words.len().checked_sub(command.len() + 1).and_then(|place| words.get(place));
    if before.is_some_and(|word| word == "--") || is_program(program) {
        return None;
    }
    usage_error::first_word(root, command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command_line::Verb;
    use crate::cli::version;

    fn parsed(line: &str) -> Result<Args, String> {
        let words: Vec<OsString> = std::iter::once("iotrace-perf")
            .chain(line.split_whitespace())
            .map(Into::into)
            .collect();
        match parse(&words) {
            Ok(args) => Ok(args),
            Err(Unparsed::Help(help)) => Err(help.to_string()),
            Err(Unparsed::LongVersion) => Err("the long version".to_owned()),
            Err(Unparsed::Usage(usage)) => Err(usage.text),
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
                let line = line.split(['|', '>', ')']).next().unwrap_or_default();
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
    fn version_is_short_or_long() {
        assert_eq!(
            parsed("-V").expect_err("no run"),
            format!("iotrace-perf {}\n", version::VERSION)
        );
        check_error("--version", "the long version");
    }

    #[test]
    fn nearest_subcommand_is_named() {
        check_error("sumary x/", "did you mean: iotrace-perf summary x/");
        check_error("lateny", "did you mean: iotrace-perf latency");
        check_error("-a summary", "the subcommand comes before its options");
        check_program("no-such-program-at-all", "no-such-program-at-all");
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
