//! Usage errors in the words of the command line: the object, the cause, and one thing that helps.
//!
//! ```text
//!  clap::Error ─ kind, arguments ─┐
//!  words as typed ─ TypedLine ────┼──► text ──► iotrace-perf: error: TEXT
//!  tree of subcommands ───────────┘             see: iotrace-perf VERB --help
//! ```

use std::error::Error;
use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::foreign_options::{elsewhere, near, nearest, pointer};
use super::message::{print_error, print_help};
use super::programs_found::is_program;
use super::typed_line::{TypedLine, value_name};

/// An error of the command line.
#[derive(Debug)]
pub(super) struct UsageError {
    /// Message without a prefix.
    pub(super) text: String,
    /// Text below the message.
    after: After,
}

/// Text below a message.
#[derive(Debug)]
enum After {
    /// Command whose help has more.
    See(String),
    /// Help of the subcommand.
    Help(String),
}

impl UsageError {
    /// Returns the error of a word that should be a subcommand.
    pub(super) fn of_subcommand(text: String) -> Self {
        Self { text, after: After::See("iotrace-perf --help".to_owned()) }
    }

    /// Returns an error about a line.
    fn of_line(text: String, line: &TypedLine<'_>) -> Self {
        // The help of the program itself has a part of the options only.
        let verb =
            if line.path.is_empty() { "iotrace-perf record".to_owned() } else { line.verb() };
        Self { text, after: After::See(format!("{verb} --help")) }
    }

    /// Prints the message, and the text below it.
    pub(super) fn print(&self) {
        print_error(&format!("error: {}", self.text));
        match &self.after {
            After::See(command) => print_help(&format!("see: {command}\n")),
            After::Help(text) => print_help(text),
        }
    }
}

/// An option that has a value: what the value is, and an example.
struct ValueHint {
    id: &'static str,
    noun: &'static str,
    example: &'static str,
}

/// Returns a row of [`VALUES`].
const fn hint(id: &'static str, noun: &'static str, example: &'static str) -> ValueHint {
    ValueHint { id, noun, example }
}

const VALUES: &[ValueHint] = &[
    hint("pid", "a process number", "1234"),
    hint("exclude_pid", "a process number", "1234"),
    hint("pgid", "a process group", "1234"),
    hint("max_operations", "a number", "1000000"),
    hint("tid", "a thread number", "1234"),
    hint("events", "events", "%data,%sync"),
    hint("device", "a disk", "sda"),
    hint("cgroup", "a control group", "postgresql.service"),
    hint("user", "a user", "postgres"),
    hint("as_user", "a user", "postgres"),
    hint("comm", "the name of a thread", "postgres"),
    hint("files", "a pattern", "'*.log'"),
    hint("fields", "fields", "time,path"),
    hint("sort", "a column", "time"),
    hint("table", "the name of a table", "files"),
    hint("duration", "a duration", "10s"),
    hint("from", "a time", "10s"),
    hint("until", "a time", "10s"),
    hint("min_latency", "a duration", "5ms"),
    hint("min_size", "a size", "4K"),
    hint("max_size", "a size", "1M"),
    hint("max_log", "a size", "500M"),
    hint("buffer_size", "a size", "8M"),
    hint("rows", "a number", "10"),
    hint("max_events", "a number", "1000"),
    hint("max_mismatch", "a number", "0"),
    hint("rounds", "a number", "3"),
    hint("realtime", "a priority", "1"),
    hint("tracer_cpus", "CPUs", "0-3,8"),
    hint("call_graph", "a method", "dwarf"),
    hint("output", "a file or directory", "run1/"),
    hint("to", "a file", "report.txt"),
    hint("svg", "a file", "stacks.svg"),
    hint("root", "a directory", "replay1"),
    hint("fio", "a directory", "jobs"),
];

/// An argument that a subcommand needs.
struct RequiredArg {
    /// Option that needs it, if it is not the subcommand itself.
    by: &'static str,
    /// Subcommand, or the empty text for each one.
    verb: &'static str,
    /// Identifier of the argument.
    id: &'static str,
    /// The argument, and what it is.
    phrase: &'static str,
}

/// Returns a row of [`NEEDS`] for a subcommand.
const fn need(verb: &'static str, id: &'static str, phrase: &'static str) -> RequiredArg {
    RequiredArg { by: "", verb, id, phrase }
}

/// Returns a row of [`NEEDS`] for an option.
const fn need_of(by: &'static str, id: &'static str, phrase: &'static str) -> RequiredArg {
    RequiredArg { by, verb: "", id, phrase }
}

const NEEDS: &[RequiredArg] = &[
    need_of("as_user", "command", "a program: iotrace-perf --as-user USER PROGRAM"),
    need_of("exclude_pid", "all_cpus", "-a, the whole machine without these processes"),
    need_of("reversed", "svg", "--svg FILE, the file of the flame graph"),
    need_of("discard", "write", "--write: a request that discards changes the device, too"),
    need_of("write", "device", "--level block --device DEVICE, the device to write to"),
    need_of("from_device", "device", "--level block --device DEVICE, the device to use"),
    need_of("level", "device", "--device DEVICE, the device to use"),
    need_of("trace", "root", "--root DIR, the directory of replay init"),
    need_of("rounds", "root", "--root DIR, the directory of replay init"),
    need("replay run", "root", "--root DIR, the directory of replay init"),
    need("replay init", "root", "--root DIR, a new directory for its files"),
    need("replay compare", "root", "--root DIR, the directory of the replay"),
    need("replay purge", "root", "--root DIR, the directory of the replay"),
    need("replay export", "fio", "--fio DIR, a new directory for the jobs of fio"),
    need("replay compare", "log", "LOG, a recording of the replay"),
    need("import", "output", "-o LOG.iocap, the log to write"),
    need("import", "files", "FILE, the log of another tool, or - for standard input"),
    need("ctl add", "file", "FILE, the file to watch"),
    need(
        "check",
        "budget",
        "--budget FILE, the limits; make some: iotrace-perf check --budget io.toml --update -- PROGRAM",
    ),
    need("completions", "shell", "a shell: iotrace-perf completions bash, zsh, fish or elvish"),
    need("", "plan", "PLAN, from iotrace-perf replay plan LOG -o PLAN"),
    need("", "file", "FILE, a watched file"),
];

/// Explains an error of the parser.
pub(super) fn explain(error: &clap::Error, root: &Command, words: &[OsString]) -> UsageError {
    let mut root = root.clone();
    // Options of all subcommands have their places from here on.
    root.build();
    let line = TypedLine::of(&root, words);
    let text = match error.kind() {
        ErrorKind::UnknownArgument => unknown(error, &root, &line),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => value(error, &line, words),
        ErrorKind::ArgumentConflict => conflict(error, &line),
        ErrorKind::MissingRequiredArgument => missing(error, &line),
        ErrorKind::InvalidSubcommand => {
            let word = first(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            let text = subcommand(&root, &line, &word);
            let path = line.path.iter().filter(|name| **name != "help");
            let parent: String = path.map(|name| format!("{name} ")).collect();
            return UsageError { text, after: After::See(format!("iotrace-perf {parent}--help")) };
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let text = format!("{} needs a subcommand: {}", called(&line), verbs(line.command));
            let help = line.command.clone().render_help().to_string();
            return UsageError { text, after: After::Help(help) };
        }
        ErrorKind::InvalidUtf8 => "a value is not UTF-8".to_owned(),
        _ => parsers_own(error),
    };
    UsageError::of_line(text, &line)
}

/// Returns the message of the parser, without its prefix and its advice.
fn parsers_own(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Returns the first text of a part of an error.
fn first(error: &clap::Error, kind: ContextKind) -> Option<String> {
    all(error, kind).into_iter().next()
}

/// Returns the texts of a part of an error.
fn all(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

/// Returns the subcommand of a line as the subject of a sentence.
fn called(line: &TypedLine<'_>) -> String {
    if line.path.is_empty() { "iotrace-perf".to_owned() } else { line.path.join(" ") }
}

/// Returns the subcommands of a command in a sentence.
fn verbs(command: &Command) -> String {
    let names: Vec<&str> = verb_names(command).collect();
    listed(&names)
}

/// Returns the names of the subcommands that the help shows.
fn verb_names(command: &Command) -> impl Iterator<Item = &str> {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    shown.map(Command::get_name).filter(|name| *name != "help")
}

/// Returns words as `a, b or c`.
fn listed(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Explains a word that the subcommand does not take.
fn unknown(error: &clap::Error, root: &Command, line: &TypedLine<'_>) -> String {
    let word = first(error, ContextKind::InvalidArg).unwrap_or_default();
    if !word.starts_with('-') || word == "-" {
        return extra(line, &word);
    }
    if let Some(text) =
        line.negative_value().and_then(|(spelling, value)| negative(line, &spelling, &value))
    {
        return text;
    }
    let here =
        if line.path.is_empty() { "here".to_owned() } else { format!("in {}", called(line)) };
    let help = pointer(line, &word).map(str::to_owned);
    if help.is_none()
        && let Some(text) = elsewhere(root, line, &word)
    {
        return text;
    }
    let help = help.or_else(|| nearest(line, &word).map(|name| format!("did you mean {name}?")));
    match help {
        Some(help) => format!("there is no option {word} {here}; {help}"),
        None => format!("there is no option {word} {here}"),
    }
}

/// Explains a word more than the subcommand takes.
fn extra(line: &TypedLine<'_>, word: &str) -> String {
    let verb = called(line);
    let has_command = line.command.get_arguments().any(|arg| arg.get_id() == "command");
    let slots: Vec<&Arg> =
        line.command.get_positionals().filter(|arg| arg.get_id() != "command").collect();
    let is_log = slots.iter().any(|arg| arg.get_id() == "log");
    match (slots.as_slice(), line.positionals.first()) {
        (_, Some(_)) if has_command && is_log && is_program(OsStr::new(word)) => {
            format!("one recording only; to record {word}: {} -- {word}", line.verb())
        }
        ([_], Some(log)) if is_log => {
            format!("one recording only: {verb} takes {log}, and {word} is a second one")
        }
        ([_], Some(taken)) => {
            format!("{verb} takes one {}: leave out {taken} or {word}", value_name(slots[0]))
        }
        ([], _) if has_command => {
            format!("a program comes after --: {} -- {word}", line.verb())
        }
        _ => format!("{verb} takes no more words: leave out {word}"),
    }
}

/// Explains a value that an option or word does not take.
fn value(error: &clap::Error, line: &TypedLine<'_>, words: &[OsString]) -> String {
    let shown = first(error, ContextKind::InvalidArg).unwrap_or_default();
    let value = first(error, ContextKind::InvalidValue).unwrap_or_default();
    let values = all(error, ContextKind::ValidValue);
    let arg = line.argument(&shown);
    let name = arg.map_or_else(|| shown.clone(), |arg| line.spelling(arg));
    if value.is_empty() {
        let is_typed =
            words.iter().any(|word| word.is_empty() || word.as_encoded_bytes().ends_with(b"="));
        return match arg {
            Some(arg) if is_typed || !error.kind().eq(&ErrorKind::InvalidValue) => empty(line, arg),
            _ => no_value(line, arg, &name, &values),
        };
    }
    if let Some(source) = error.source().map(ToString::to_string) {
        let has_value = source.starts_with(&format!("{value} "));
        return if has_value {
            format!("{name}: {source}")
        } else {
            format!("{name} {value}: {source}")
        };
    }
    let near = near(&value, values.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    // There the option is the unit of a stack.
    let groups = match (name.as_str(), called(line).as_str()) {
        ("--by", "stacks") => {
            "; groups of operations are in summary, files, slow, latency, pattern, disk and cache: iotrace-perf summary --by program"
        }
        _ => "",
    };
    format!("{name} {value}: the value is {}{near}{groups}", listed(&values))
}

/// Explains an option without its value.
fn no_value(line: &TypedLine<'_>, arg: Option<&Arg>, name: &str, values: &[String]) -> String {
    let negative =
        || line.negative_value().and_then(|(spelling, value)| negative(line, &spelling, &value));
    if let Some(text) = negative() {
        return text;
    }
    if !values.is_empty() {
        return format!("{name} needs a value: {}", listed(values));
    }
    let noun = arg.and_then(hint_of).map_or("a value", |hint| hint.noun);
    let place = arg.map_or_else(|| "VALUE".to_owned(), value_name);
    format!("{name} needs {noun}: {name} {place}")
}

/// Explains a value that begins with a minus.
fn negative(line: &TypedLine<'_>, spelling: &str, value: &str) -> Option<String> {
    let arg = line.argument(spelling)?;
    let hint = hint_of(arg)?;
    Some(format!(
        "{spelling} {value}: {} is not below 0; an example: {spelling} {}",
        hint.noun, hint.example
    ))
}

/// Returns the row of an argument.
fn hint_of(arg: &Arg) -> Option<&'static ValueHint> {
    VALUES.iter().find(|hint| arg.get_id() == hint.id)
}

/// Explains an empty value.
fn empty(line: &TypedLine<'_>, arg: &Arg) -> String {
    let name = line.spelling(arg);
    let list = line.value(arg.get_id().as_str()).filter(|value| value.contains(','));
    match hint_of(arg) {
        _ if list.is_some() => {
            format!("{name} {}: a word of the list is empty", list.unwrap_or_default())
        }
        Some(hint) => format!("{name}: the value is empty; an example: {name} {}", hint.example),
        None => format!("{name}: the value is empty"),
    }
}

/// Returns the error of the first value that is empty, or that excludes nothing.
pub(super) fn check_values(
    matches: &ArgMatches,
    root: &Command,
    words: &[OsString],
) -> Option<UsageError> {
    let mut command = root;
    let mut matches = matches;
    loop {
        if let Some((arg, value)) = first_void(command, matches) {
            let mut root = root.clone();
            root.build();
            let line = TypedLine::of(&root, words);
            let text = if value.is_empty() {
                empty(&line, arg)
            } else {
                let name = line.spelling(arg);
                let example = hint_of(arg).map_or("'*.log'", |hint| hint.example);
                let example = format!(
                    "!{}",
                    example.trim_matches('\'').split(',').next().unwrap_or_default()
                );
                format!(
                    "{name} !: the ! excludes the word after it; an example: {name} '{example}'"
                )
            };
            return Some(UsageError::of_line(text, &line));
        }
        let (name, inner) = matches.subcommand()?;
        command = command.find_subcommand(name)?;
        matches = inner;
    }
}

/// Returns the first argument with a value that is empty, or an exclamation mark.
fn first_void<'a>(command: &'a Command, matches: &ArgMatches) -> Option<(&'a Arg, String)> {
    let mut args = command.get_arguments().filter(|arg| {
        let id = arg.get_id().as_str();
        id != "command"
            && matches!(matches.try_contains_id(id), Ok(true))
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    });
    args.find_map(|arg| {
        let mut values = matches.try_get_raw(arg.get_id().as_str()).ok().flatten()?;
        let is_list = ["files", "comm", "events"].iter().any(|id| arg.get_id() == id);
        let void = values.find(|value| {
            value.is_empty() && arg.get_action().takes_values() || is_list && *value == "!"
        })?;
        Some((arg, void.to_string_lossy().into_owned()))
    })
}

/// Explains two arguments that exclude each other.
fn conflict(error: &clap::Error, line: &TypedLine<'_>) -> String {
    let shown = first(error, ContextKind::InvalidArg).unwrap_or_default();
    let prior = first(error, ContextKind::PriorArg).unwrap_or_default();
    let (Some(one), Some(other)) = (line.argument(&shown), line.argument(&prior)) else {
        return format!("{shown} and {prior} exclude each other: leave out one");
    };
    if one.get_id() == other.get_id() {
        return format!("{} is given twice: leave out one", line.spelling(one));
    }
    let both = [one, other];
    let other_than = |id: &str| {
        let has = both.iter().any(|arg| arg.get_id() == id);
        both.into_iter().find(|arg| has && arg.get_id() != id)
    };
    let log = line.positionals.first().map_or("LOG", String::as_str);
    let program = line.program.first().map_or("PROGRAM", String::as_str);
    if let Some(arg) = other_than("log") {
        let name = line.spelling(arg);
        return match arg.get_id().as_str() {
            "command" => format!("give a recording ({log}) or a program ({program}), not both"),
            "all_cpus" => format!("give a recording ({log}) or {name}, not both"),
            _ => format!("{name} is for a new recording, and {log} exists: leave out one of them"),
        };
    }
    match other_than("command") {
        Some(arg) if arg.get_id() == "pid" => {
            let pid = line.value("pid").unwrap_or("1");
            let is_number = |word: &&String| word.parse::<u32>().is_ok();
            let more = line.program.iter().take_while(is_number).cloned().collect::<Vec<_>>();
            let more = if more.is_empty() { "PID".to_owned() } else { more.join(",") };
            let name = line.spelling(arg);
            format!(
                "give {name} {pid} or a program ({program}), not both; several processes: {name} {pid},{more}"
            )
        }
        Some(arg) => {
            let name = line.spelling(arg);
            let value = line.value(arg.get_id().as_str()).unwrap_or_default();
            format!("give {name} {value} or a program ({program}), not both")
        }
        None => {
            let [one, other] = both.map(|arg| line.spelling(arg));
            format!("{one} and {other} exclude each other: leave out one")
        }
    }
}

/// Explains arguments that are missing.
fn missing(error: &clap::Error, line: &TypedLine<'_>) -> String {
    let shown = all(error, ContextKind::InvalidArg);
    let verb = called(line);
    let mut phrases = Vec::new();
    for text in &shown {
        let arg = line.argument(text);
        let id = arg.map_or("", |arg| arg.get_id().as_str());
        let is_row = |row: &&RequiredArg| {
            row.id == id
                && if row.by.is_empty() {
                    row.verb.is_empty() || row.verb == verb
                } else {
                    line.has(row.by)
                }
        };
        let row = NEEDS.iter().find(is_row);
        if let Some(by) = row.filter(|row| !row.by.is_empty()).and_then(|row| option(line, row.by))
        {
            let phrase = row.map_or("", |row| row.phrase);
            let value = line.value("level").filter(|_| by.get_id() == "level");
            let value = value.map_or_else(String::new, |value| format!(" {value}"));
            return format!("{}{value} needs {phrase}", line.spelling(by));
        }
        phrases.push(row.map_or_else(|| text.clone(), |row| row.phrase.to_owned()));
    }
    format!("{verb} needs {}", phrases.join("; and "))
}

/// Returns an argument of the subcommand.
fn option<'a>(line: &TypedLine<'a>, id: &str) -> Option<&'a Arg> {
    line.command.get_arguments().find(|arg| arg.get_id() == id)
}

/// Subcommands of other tools, and the ones here.
const OTHER_SUBCOMMANDS: [(&str, &str); 4] =
    [("stat", "summary"), ("trace", "live"), ("dump", "script"), ("version", "--version")];

/// Subcommands of other tools that have no counterpart here.
const NO_SUBCOMMANDS: [&str; 3] = ["completion", "manpage", "config"];

/// Explains a word that is no subcommand.
fn subcommand(root: &Command, line: &TypedLine<'_>, word: &str) -> String {
    let is_help = line.path.first() == Some(&"help");
    let path: Vec<&str> = line.path.iter().copied().filter(|name| *name != "help").collect();
    let command = path.iter().try_fold(root, |command, name| command.find_subcommand(name));
    let command = command.unwrap_or(root);
    let parent: String = path.iter().map(|name| format!("{name} ")).collect();
    let help = if is_help { "help " } else { "" };
    let other = OTHER_SUBCOMMANDS.iter().find(|(name, _)| path.is_empty() && *name == word);
    let meant = other.map(|(_, own)| *own).or_else(|| near(word, verb_names(command)));
    let text = format!("there is no subcommand {parent}{word}");
    match meant {
        Some(option) if option.starts_with('-') => {
            format!("{text}; did you mean: iotrace-perf {option}")
        }
        Some(name) => format!("{text}; did you mean: iotrace-perf {help}{parent}{name}"),
        None if path.is_empty() => text,
        None => format!("{text}; there are {}", verbs(command).replace(" or ", " and ")),
    }
}

/// Explains the first word of a line, if it is neither a subcommand nor a program.
pub(super) fn first_word(root: &Command, program: &[OsString]) -> Option<UsageError> {
    let word = program.first()?.to_str()?;
    let rest: String =
        program.iter().skip(1).map(|argument| format!(" {}", argument.to_string_lossy())).collect();
    let other = OTHER_SUBCOMMANDS.iter().find(|(name, _)| *name == word).map(|(_, own)| *own);
    if verb_names(root).any(|name| name == word) {
        return Some(UsageError::of_subcommand(format!(
            "the subcommand comes before its options; try: iotrace-perf {word} …"
        )));
    }
    if let Some(name) = other.or_else(|| near(word, verb_names(root))) {
        let rest = if name.starts_with('-') { "" } else { &rest };
        return Some(UsageError::of_subcommand(format!(
            "there is no subcommand or program {word}; did you mean: iotrace-perf {name}{rest}"
        )));
    }
    NO_SUBCOMMANDS
        .contains(&word)
        .then(|| UsageError::of_subcommand(format!("there is no subcommand or program {word}")))
}

#[cfg(test)]
#[path = "usage_error_tests.rs"]
mod tests;
