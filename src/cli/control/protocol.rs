//! Protocol of the control socket: lines of words (docs/control.md).

use crate::text::escape;

/// Greeting of each connection. Its number changes with the meaning of a command.
pub(super) const GREETING: &str = "iotrace-perf control 1\n";

/// Limit on a command: a path of `PATH_MAX` bytes, each as `\xNN`.
pub(super) const LINE_MAX: usize = 4 * 4096 + 256;

/// Kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum ControlVerb {
    Add,
    Remove,
    List,
    Status,
    Stop,
    Start,
    Reset,
    TimeReset,
    Log,
    Counts,
    Dump,
}

/// File argument of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileArgument {
    Never,
    Perhaps,
    Always,
}

/// All commands by their names.
const VERBS: [(&str, ControlVerb, FileArgument); 11] = [
    ("add", ControlVerb::Add, FileArgument::Always),
    ("remove", ControlVerb::Remove, FileArgument::Always),
    ("list", ControlVerb::List, FileArgument::Never),
    ("status", ControlVerb::Status, FileArgument::Perhaps),
    ("stop", ControlVerb::Stop, FileArgument::Perhaps),
    ("start", ControlVerb::Start, FileArgument::Perhaps),
    ("reset", ControlVerb::Reset, FileArgument::Perhaps),
    ("timereset", ControlVerb::TimeReset, FileArgument::Perhaps),
    ("log", ControlVerb::Log, FileArgument::Always),
    ("counts", ControlVerb::Counts, FileArgument::Perhaps),
    ("dump", ControlVerb::Dump, FileArgument::Never),
];

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct ControlCommand {
    pub(in crate::cli) verb: ControlVerb,
    /// Absolute path, or `DEVICE_INODE`.
    pub(in crate::cli) file: Option<Vec<u8>>,
    /// Number of accesses to keep, after `add`.
    pub(in crate::cli) max: Option<usize>,
}

impl ControlCommand {
    /// Parses a line without its end.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        let mut words = line.split(|line| *line == b' ');
        let first = words.next().unwrap_or_default();
        let known = VERBS.iter().find(|verb| verb.0.as_bytes() == first);
        let Some((name, verb, of_file)) = known else {
            let all = VERBS.map(|verb| verb.0).join(", ");
            return Err(format!("{} is not known; there are {all}", shown(first)));
        };
        let unshown =
            |word| escape::unshown(word).ok_or_else(|| format!("{}: \\ stands alone", shown(word)));
        let file = match of_file {
            FileArgument::Never => None,
            _ => words.next().map(unshown).transpose()?,
        };
        // A command without a file is for all files; an empty name is an error.
        if file.as_ref().is_some_and(Vec::is_empty) {
            return Err(format!("{name}: a file without a name"));
        }
        if *of_file == FileArgument::Always && file.is_none() {
            return Err(format!("{name} needs a file"));
        }
        let number = |byte: &[u8]| {
            let number = std::str::from_utf8(byte).ok().and_then(|digits| digits.parse().ok());
            number.ok_or_else(|| format!("{} is not a number of accesses", shown(byte)))
        };
        let max = match verb {
            ControlVerb::Add => words.next().map(number).transpose()?,
            _ => None,
        };
        match words.next() {
            Some(more) => Err(format!("{} is too much after {name}", shown(more))),
            None => Ok(Self { verb: *verb, file, max }),
        }
    }

    /// The line with its end.
    pub(super) fn line(&self) -> Vec<u8> {
        let name = VERBS.iter().find(|verb| verb.1 == self.verb).map_or("", |verb| verb.0);
        let mut line = name.as_bytes().to_vec();
        if let Some(file) = &self.file {
            line.push(b' ');
            escape::shown(&mut line, file, b" ");
        }
        if let Some(max) = self.max {
            line.extend_from_slice(format!(" {max}").as_bytes());
        }
        line.push(b'\n');
        line
    }
}

/// Lines of a response, each with its end, or the error.
pub(super) type Answer = Result<AnswerLines, String>;

/// Lines of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerLines {
    pub(super) count: usize,
    pub(super) text: Vec<u8>,
}

impl AnswerLines {
    /// Counts one more line, whose end is not written yet.
    pub(super) fn end_line(&mut self) {
        self.text.push(b'\n');
        self.count += 1;
    }
}

/// First line of a response: `ok COUNT`, or `error WHY`.
pub(super) fn head(answer: &Answer) -> Vec<u8> {
    match answer {
        Ok(lines) => format!("ok {}\n", lines.count).into_bytes(),
        Err(why) => {
            let mut line = b"error ".to_vec();
            // Untrusted bytes in it were escaped where it was made.
            line.extend_from_slice(why.replace(char::is_control, " ").as_bytes());
            line.push(b'\n');
            line
        }
    }
}

/// Escapes a client's bytes for a message.
pub(super) fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 200;
    let mut out = Vec::new();
    escape::shown(&mut out, bytes.get(..SHOWN_MAX).unwrap_or(bytes), b"");
    let dots = if bytes.len() > SHOWN_MAX { "…" } else { "" };
    format!("{}{dots}", String::from_utf8_lossy(&out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(verb: ControlVerb, file: &[u8], max: Option<usize>) -> ControlCommand {
        let file = (!file.is_empty()).then(|| file.to_vec());
        ControlCommand { verb, file, max }
    }

    #[test]
    fn questions_survive_their_lines() {
        let names: [&[u8]; 4] = [b"/a b/c", b"/x\ny;z\\", b"/\xff\x00", "/\u{202e}ü".as_bytes()];
        for name in names {
            for question in
                [command(ControlVerb::Add, name, Some(7)), command(ControlVerb::Log, name, None)]
            {
                let line = question.line();
                let bare = line.strip_suffix(b"\n").expect("an end");
                assert!(!bare.contains(&b'\n') && line.len() <= LINE_MAX);
                assert_eq!(ControlCommand::parse(bare), Ok(question));
            }
        }
        for (name, verb, of_file) in VERBS {
            let bare = ControlCommand::parse(name.as_bytes());
            let expected = (of_file != FileArgument::Always).then(|| command(verb, b"", None));
            assert_eq!(bare.ok(), expected, "{name}");
        }
    }

    #[test]
    fn the_longest_path_fits() {
        let path = vec![b'\n'; 4096];
        assert!(command(ControlVerb::Add, &path, Some(usize::MAX)).line().len() <= LINE_MAX);
    }

    #[test]
    fn invalid_command_is_reported() {
        let lines: [(&str, &str); 11] = [
            ("", "is not known"),
            ("ADD /a", "ADD is not known"),
            ("add", "needs a file"),
            ("add ", "a file without a name"),
            ("reset ", "reset: a file without a name"),
            ("log ", "a file without a name"),
            ("add /a -1", "-1 is not a number"),
            ("add /a 1 2", "2 is too much"),
            ("log /a\\n", "stands alone"),
            ("list /a", "too much"),
            ("stop /a 1", "too much"),
        ];
        for (line, why) in lines {
            let error = ControlCommand::parse(line.as_bytes()).expect_err(line);
            assert!(error.contains(why), "{line}: {error}");
        }
        let error = ControlCommand::parse(b"\x1b[2J\n").expect_err("nonsense");
        assert!(!error.contains('\x1b') && error.len() < 200);
    }

    #[test]
    fn an_error_is_one_line() {
        let line = head(&Err("a\nb".to_owned()));
        assert_eq!(line, b"error a b\n");
        assert_eq!(head(&Ok(AnswerLines { count: 3, text: Vec::new() })), b"ok 3\n");
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_understood_or_refused(line: Vec<u8>) {
            if let Ok(question) = ControlCommand::parse(&line) {
                let again = question.line();
                let bare = again.strip_suffix(b"\n").expect("an end");
                proptest::prop_assert_eq!(ControlCommand::parse(bare), Ok(question));
            }
        }
    }
}
