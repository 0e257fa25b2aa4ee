//! Names of the logs of a recorder: numbers from 1 on, without those that are there already.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::cli::error::CliError;
use crate::cli::output::{Output, substitute};

/// Placeholder of the number.
const NUMBER: &[u8] = b"{N}";

/// Names, and the number of the next one.
#[derive(Clone, Debug)]
pub(super) struct PartNames {
    pattern: OsString,
    next: u64,
}

impl PartNames {
    /// Checks the name that `-o` gives, or takes `default`.
    ///
    /// # Errors
    ///
    /// Several names, one without a number, or one that is not the name of a log.
    pub(super) fn of(given: &[OsString], default: &str) -> Result<Self, CliError> {
        let pattern = match given {
            [] => OsString::from(default),
            [pattern] => pattern.clone(),
            [_, second, ..] => {
                let second = second.display();
                let text =
                    format!("-o {second}: there is one name for all logs; leave out the others");
                return Err(CliError::Usage(text));
            }
        };
        if !pattern.as_bytes().windows(NUMBER.len()).any(|part| part == NUMBER) {
            let text = format!(
                "-o {}: there are several logs, whose number is missing in the name; write -o {default}/",
                pattern.display()
            );
            return Err(CliError::Usage(text));
        }
        let names = Self { pattern, next: 1 };
        let first = names.output(1)?;
        if !first.own_directory && first.has_archive {
            let text = format!(
                "-o {}: only logs are written, which `convert` makes archives of; write -o {default}/ or {default}.iocap",
                names.pattern.display()
            );
            return Err(CliError::Usage(text));
        }
        Ok(names)
    }

    /// Returns the next output that is not there yet, and its number.
    pub(super) fn next_free(&mut self) -> Result<(u64, Output), CliError> {
        loop {
            let number = self.next;
            self.next += 1;
            let output = Output { has_archive: false, ..self.output(number)? };
            let taken = if output.own_directory { output.directory.clone() } else { output.log() };
            if taken.symlink_metadata().is_err() {
                return Ok((number, output));
            }
        }
    }

    fn output(&self, number: u64) -> Result<Output, CliError> {
        let filled = fill(self.pattern.as_bytes(), number);
        Output::parse(&substitute(OsStr::from_bytes(&filled))?)
    }
}

/// Fills in the number.
fn fill(pattern: &[u8], number: u64) -> Vec<u8> {
    let mut filled = Vec::new();
    let mut rest = pattern;
    while let Some(at) = rest.windows(NUMBER.len()).position(|part| part == NUMBER) {
        let (before, tail) = rest.split_at(at);
        filled.extend_from_slice(before);
        filled.extend_from_slice(number.to_string().as_bytes());
        rest = tail.get(NUMBER.len()..).unwrap_or_default();
    }
    filled.extend_from_slice(rest);
    OsString::from_vec(filled).into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_there_are_passed_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let pattern = dir.path().join("a{N}-{PID}/");
        let pid = std::process::id();
        std::fs::create_dir(dir.path().join(format!("a1-{pid}"))).expect("made");
        let mut names = PartNames::of(&[pattern.into()], "incident-{N}").expect("valid");
        let (number, output) = names.next_free().expect("free");
        assert_eq!((number, output.directory), (2, dir.path().join(format!("a2-{pid}"))));
        assert_eq!(names.next_free().expect("free").0, 3);
    }

    #[test]
    fn names_without_a_number_are_refused() {
        let refused = |names: &[&str]| {
            let names: Vec<OsString> = names.iter().map(OsString::from).collect();
            PartNames::of(&names, "incident-{N}").expect_err("refused").to_string()
        };
        assert!(refused(&["out/"]).contains("number is missing"));
        assert!(refused(&["a{N}", "b{N}"]).contains("one name for all"));
        assert!(refused(&["a{N}.otf2"]).contains("only logs are written"));
        assert!(refused(&["a{N}{X}"]).contains("unknown {X}"));
    }
}
