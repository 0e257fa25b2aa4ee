//! Options that a subcommand does not have: those of other tools, and those of other subcommands.

use clap::{Arg, Command};

use super::typed_line::{TypedLine, has_long, takes_value, value_name};

/// Subcommands to which a row of [`POINTERS`] applies.
#[derive(Clone, Copy, Debug)]
enum Verbs {
    All,
    /// Subcommands that record, and print no report.
    Recordings,
    Reports,
    /// Subcommands of this list.
    Only(&'static [&'static str]),
}

/// Subcommands that record; the empty word is a recording without a subcommand.
const RECORDINGS: &[&str] = &["", "record", "live", "watch"];

/// Subcommands with the options of reports.
const REPORTS: &[&str] = &[
    "summary",
    "disk",
    "neighbours",
    "cache",
    "what-if",
    "files",
    "slow",
    "latency",
    "pattern",
    "stacks",
];

/// Subcommands that print on standard output only.
const PRINTING: &[&str] = &["script", "info", "list", "doctor"];

/// An option that a subcommand does not have, and the way to its effect.
struct Pointer {
    verbs: Verbs,
    options: &'static [&'static str],
    effect: &'static str,
}

/// Returns a row of [`POINTERS`].
const fn row(verbs: Verbs, options: &'static [&'static str], effect: &'static str) -> Pointer {
    Pointer { verbs, options, effect }
}

const POINTERS: &[Pointer] = &[
    // Of the subcommands here.
    row(Verbs::Reports, &["-o", "--output"], "the file of a report: --to FILE"),
    row(Verbs::Only(&["live", "watch"]), &["-o", "--output"], "the file of the output: --to FILE"),
    row(
        Verbs::Only(PRINTING),
        &["-o", "--output", "--to"],
        "the output of a command goes to a file by > FILE",
    ),
    row(Verbs::Only(&["script", "live"]), &["--csv"], "comma-separated values: --format csv"),
    row(
        Verbs::Only(&["script", "live"]),
        &["--sort"],
        "the slowest operations first: iotrace-perf slow LOG",
    ),
    row(Verbs::Only(&["script"]), &["-n", "--rows"], "the first lines: iotrace-perf script | head"),
    row(Verbs::Only(&["stacks"]), &["-g"], "the program's functions: -U"),
    row(Verbs::Only(&["stacks"]), &["-k"], "the kernel's functions: -K"),
    row(Verbs::Reports, &["-q", "--quiet"], "a report is printed without messages by 2>/dev/null"),
    // Of strace.
    row(Verbs::All, &["-c"], "counts and times by call: iotrace-perf summary -- PROGRAM"),
    row(
        Verbs::All,
        &["-C"],
        "all CPUs are recorded (-C of perf), and counts and times by call (-C of strace) come from: iotrace-perf summary -- PROGRAM",
    ),
    row(
        Verbs::All,
        &["-t", "-r"],
        "operations with their times: iotrace-perf live PROGRAM, or script of a recording",
    ),
    row(
        Verbs::All,
        &["-T"],
        "operations with their durations: iotrace-perf live PROGRAM, or script of a recording",
    ),
    row(Verbs::All, &["-x"], "failed operations by file: iotrace-perf files -- PROGRAM"),
    row(
        Verbs::All,
        &["-s"],
        "paths are always whole, and the data of reads and writes are not recorded",
    ),
    row(Verbs::All, &["-y", "-yy"], "operations always have the paths of their descriptors"),
    row(Verbs::All, &["-k"], "call chains with the kernel's functions: --stacks kernel"),
    row(Verbs::All, &["-u"], "the user who runs the program: --as-user USER"),
    row(
        Verbs::All,
        &["-P"],
        "operations on some files: -F GLOB of reports, iotrace-perf files -F GLOB -- PROGRAM",
    ),
    row(
        Verbs::All,
        &["-z", "-Z"],
        "failed operations: --failed of reports, iotrace-perf files --failed -- PROGRAM",
    ),
    // Of perf, and of blktrace and iosnoop.
    row(Verbs::All, &["-g"], "call chains with the program's functions: --stacks user"),
    row(Verbs::All, &["-A", "-I"], "the whole machine: -a"),
    row(
        Verbs::Recordings,
        &["-F"],
        "-F GLOB is a filter of reports: iotrace-perf files LOG -F GLOB",
    ),
    row(Verbs::All, &["-i"], "operations on some files: -F GLOB, of reports and script"),
    row(Verbs::All, &["-w"], "a recording of some seconds: -D 10s"),
];

impl Verbs {
    /// True if the row applies to this subcommand.
    fn has(self, verb: &str) -> bool {
        match self {
            Self::All => true,
            Self::Recordings => RECORDINGS.contains(&verb),
            Self::Reports => REPORTS.contains(&verb),
            Self::Only(verbs) => verbs.contains(&verb),
        }
    }
}

/// Returns the way to the effect of an option that the subcommand of the line does not have.
pub(super) fn pointer(line: &TypedLine<'_>, word: &str) -> Option<&'static str> {
    let verb = line.path.join(" ");
    let mut rows = POINTERS.iter();
    let row = rows.find(|row| row.verbs.has(&verb) && row.options.contains(&word));
    row.map(|row| row.effect)
}

/// Returns the option of another subcommand, with an example.
pub(super) fn elsewhere(root: &Command, line: &TypedLine<'_>, word: &str) -> Option<String> {
    let mut found = Vec::new();
    collect(root, &mut Vec::new(), word, &mut found);
    let parent = line.path.split_last().map(|(_, parent)| parent.join(" ")).unwrap_or_default();
    let is_near = |verb: &str| !parent.is_empty() && verb.starts_with(&parent);
    let rank = |verb: &str| match verb {
        verb if is_near(verb) => 0,
        "record" => 1,
        "summary" => 2,
        _ => 3,
    };
    let (verb, arg) = found.into_iter().min_by_key(|(verb, _)| rank(verb))?;
    let value = if takes_value(arg) { format!(" {}", value_name(arg)) } else { String::new() };
    let is_recording = RECORDINGS.contains(&line.path.join(" ").as_str());
    let (owner, rest) = match verb.as_str() {
        "record" => ("recordings", " PROGRAM".to_owned()),
        "summary" if is_recording => ("reports", " -- PROGRAM".to_owned()),
        "summary" => ("reports", String::new()),
        other => (other, String::new()),
    };
    Some(format!("{word} is an option of {owner}: iotrace-perf {verb} {word}{value}{rest}"))
}

/// Collects the subcommands that have an option.
fn collect<'a>(
    command: &'a Command,
    path: &mut Vec<&'a str>,
    word: &str,
    found: &mut Vec<(String, &'a Arg)>,
) {
    for verb in command.get_subcommands() {
        if verb.is_hide_set() || verb.get_name() == "help" {
            continue;
        }
        path.push(verb.get_name());
        let has = |arg: &&Arg| match word.strip_prefix("--") {
            Some(long) => has_long(arg, long),
            None => {
                arg.get_id() != "follow"
                    && arg.get_short().map(|letter| format!("-{letter}")).as_deref() == Some(word)
            }
        };
        found.extend(verb.get_arguments().find(has).map(|arg| (path.join(" "), arg)));
        collect(verb, path, word, found);
        path.pop();
    }
}

/// Returns the long option of the subcommand that a word is nearest to, if it is close.
pub(super) fn nearest(line: &TypedLine<'_>, word: &str) -> Option<String> {
    let name = word.strip_prefix("--")?;
    let args = line.command.get_arguments().filter(|arg| arg.get_id() != "version");
    let longs = args.filter_map(Arg::get_long);
    near(name, longs).map(|long| format!("--{long}"))
}

/// Letters of a word for each edit between the word and another that was meant.
const LETTERS_PER_EDIT: usize = 3;

/// Returns the candidate that a word is a misspelling of.
pub(super) fn near<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (edits, name) =
        candidates.map(|name| (strsim::damerau_levenshtein(word, name), name)).min()?;
    (edits <= (word.chars().count() / LETTERS_PER_EDIT).max(1)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a row can never be used: the subcommands have the option themselves.
    #[test]
    fn no_subcommand_has_an_option_of_its_rows() {
        let root = crate::cli::invocation::command();
        for row in POINTERS {
            let Verbs::Only(verbs) = row.verbs else { continue };
            for verb in verbs.iter().filter_map(|name| root.find_subcommand(name)) {
                for option in row.options {
                    let mut args = verb.get_arguments();
                    let letter = option.strip_prefix('-').and_then(|word| word.chars().next());
                    let has = args.any(|arg| match option.strip_prefix("--") {
                        Some(long) => has_long(arg, long),
                        None => arg.get_short() == letter,
                    });
                    assert!(!has, "{} {option}", verb.get_name());
                }
            }
        }
    }
}
