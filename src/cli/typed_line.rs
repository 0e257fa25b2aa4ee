//! A command line as it was typed, as far as its words can be assigned: subcommand, options with
//! their spellings, other words, program. Errors are explained with it.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

/// An option as it was typed.
#[derive(Debug)]
struct TypedOption {
    /// Identifier of the option.
    id: String,
    /// Name with its dashes: short or long.
    spelling: String,
    value: Option<String>,
}

/// Words of a command line.
#[derive(Debug)]
pub(super) struct TypedLine<'a> {
    /// The innermost subcommand.
    pub(super) command: &'a Command,
    /// Names of the subcommands, from the outermost.
    pub(super) path: Vec<&'a str>,
    options: Vec<TypedOption>,
    /// Words that are neither options nor of a program.
    pub(super) positionals: Vec<String>,
    /// The program and its arguments.
    pub(super) program: Vec<String>,
}

impl<'a> TypedLine<'a> {
    /// Assigns the words of a command line, the program's own name first.
    pub(super) fn of(root: &'a Command, words: &[OsString]) -> Self {
        let mut line = Self {
            command: root,
            path: Vec::new(),
            options: Vec::new(),
            positionals: Vec::new(),
            program: Vec::new(),
        };
        let words: Vec<String> =
            words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        let mut rest = words.as_slice();
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            if word == "--" {
                line.program = rest.to_vec();
                break;
            } else if word.len() > 1 && word.starts_with('-') {
                rest = line.push_option(word, rest);
            } else if let Some(verb) = line.subcommand(word) {
                line.command = verb;
                line.path.push(verb.get_name());
            } else if line.command.get_positionals().any(Arg::is_trailing_var_arg_set) {
                line.program = [std::slice::from_ref(word), rest].concat();
                break;
            } else {
                line.positionals.push(word.clone());
            }
        }
        line
    }

    /// Returns the subcommand that a word names, if one may come here.
    fn subcommand(&self, word: &str) -> Option<&'a Command> {
        let is_first = self.positionals.is_empty();
        self.command.find_subcommand(word).filter(|_| is_first)
    }

    /// Adds the options of a word; returns the words after their value.
    fn push_option<'w>(&mut self, word: &str, rest: &'w [String]) -> &'w [String] {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let arg = self.command.get_arguments().find(|arg| has_long(arg, name));
            return self.push(arg, format!("--{name}"), value, rest);
        }
        let mut letters = word[1..].chars();
        while let Some(letter) = letters.next() {
            let arg = self.command.get_arguments().find(|arg| arg.get_short() == Some(letter));
            if arg.is_none_or(takes_value) {
                let value = letters.as_str().trim_start_matches('=');
                let value = (!value.is_empty()).then(|| value.to_owned());
                return self.push(arg, format!("-{letter}"), value, rest);
            }
            self.push(arg, format!("-{letter}"), None, &[]);
        }
        rest
    }

    /// Adds an option; its value may be the next word.
    fn push<'w>(
        &mut self,
        arg: Option<&Arg>,
        spelling: String,
        value: Option<String>,
        rest: &'w [String],
    ) -> &'w [String] {
        let id = arg.map_or(String::new(), |arg| arg.get_id().to_string());
        let is_open = value.is_none() && arg.is_some_and(takes_value);
        let next = rest.split_first().filter(|(word, _)| {
            is_open && (!word.starts_with('-') || word.len() == 1 || is_negative(word))
        });
        let value = value.or_else(|| next.map(|(word, _)| word.clone()));
        self.options.push(TypedOption { id, spelling, value });
        next.map_or(rest, |(_, after)| after)
    }

    /// Returns the name of the program with the subcommands.
    pub(super) fn verb(&self) -> String {
        std::iter::once("iotrace-perf")
            .chain(self.path.iter().copied())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Returns the name of an argument as it was typed, else its shorter one.
    pub(super) fn spelling(&self, arg: &Arg) -> String {
        let typed = self.options.iter().find(|option| option.id == arg.get_id().as_str());
        let short = || arg.get_short().map(|letter| format!("-{letter}"));
        let long = || arg.get_long().map(|name| format!("--{name}"));
        typed
            .map(|option| option.spelling.clone())
            .or_else(short)
            .or_else(long)
            .unwrap_or_else(|| value_name(arg))
    }

    /// Returns the value that an option was given, if any.
    pub(super) fn value(&self, id: &str) -> Option<&str> {
        self.options
            .iter()
            .find(|option| option.id == id)
            .and_then(|option| option.value.as_deref())
    }

    /// Returns an option whose value begins with a minus, and the value.
    pub(super) fn negative_value(&self) -> Option<(String, String)> {
        self.options.windows(2).find_map(|pair| {
            let [option, value] = pair else { return None };
            let number = value.spelling.strip_prefix('-')?;
            let is_number = number.starts_with(|letter: char| letter.is_ascii_digit());
            (is_number && option.value.is_none() && !option.id.is_empty()).then(|| {
                let unit = value.value.as_deref().unwrap_or_default();
                (option.spelling.clone(), format!("{}{unit}", value.spelling))
            })
        })
    }

    /// True if the option was typed.
    pub(super) fn has(&self, id: &str) -> bool {
        self.options.iter().any(|option| option.id == id)
    }

    /// Returns an argument of the subcommand from its text in an error of the parser, such as
    /// `--pid <PID>` or `[LOG]`.
    pub(super) fn argument(&self, shown: &str) -> Option<&'a Arg> {
        let bare = shown.strip_prefix("-- ").unwrap_or(shown);
        let word = bare.split([' ', '=']).next().unwrap_or_default();
        let mut all = self.command.get_arguments();
        if let Some(name) = word.strip_prefix("--") {
            let name = name.trim_end_matches("...").trim_end_matches('[');
            return all.find(|arg| has_long(arg, name));
        }
        if let Some(letter) = word.strip_prefix('-').and_then(|word| word.chars().next()) {
            return all.find(|arg| arg.get_short() == Some(letter));
        }
        let name = bare.trim_end_matches("...");
        let name = name.trim_start_matches(['<', '[']).trim_end_matches(['>', ']']);
        all.find(|arg| arg.is_positional() && value_name(arg) == name)
    }
}

/// True if an option has this long name.
pub(super) fn has_long(arg: &Arg, name: &str) -> bool {
    let is_alias = || arg.get_all_aliases().is_some_and(|all| all.contains(&name));
    arg.get_long() == Some(name) || is_alias()
}

/// True if an option has a value.
pub(super) fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// Returns the name of an argument's value.
pub(super) fn value_name(arg: &Arg) -> String {
    let name = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    name.unwrap_or_else(|| arg.get_id().as_str().to_uppercase())
}

/// True for a negative number.
fn is_negative(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|number| number.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::invocation;

    #[track_caller]
    fn check(line: &str, expected: [&str; 4]) {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let mut root = invocation::command();
        root.build();
        let line = TypedLine::of(&root, &words);
        let option = |option: &TypedOption| match &option.value {
            Some(value) => format!("{}={value}", option.spelling),
            None => option.spelling.clone(),
        };
        let options: Vec<String> = line.options.iter().map(option).collect();
        let found = [
            line.path.join(" "),
            options.join(" "),
            line.positionals.join(" "),
            line.program.join(" "),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn words_are_assigned() {
        check("i -fp 1 ls -a", ["", "-f -p=1", "", "ls -a"]);
        check("i summary rec -n -1 -- ls -a", ["summary", "-n=-1", "rec", "ls -a"]);
        check("i replay run P --root=R x", ["replay run", "--root=R", "P x", ""]);
        check("i ctl --control S lits summary", ["ctl", "--control=S", "lits summary", ""]);
        check("i script -eread,write --zzz r", ["script", "-e=read,write --zzz", "r", ""]);
        check("i import - -o x", ["import", "-o=x", "-", ""]);
    }
}
