//! Errors that recur while their cause lasts, such as a full disk: each cause is printed once, and
//! counted after that.

use std::error::Error;

use super::super::error::CliError;
use crate::cli::message::{print_error, print_line};
use crate::sys::error_text::plain;
use crate::text::quantity::count;

/// Number of causes that are distinguished.
const CAUSES_MAX: usize = 16;

/// Errors since the last success, by cause.
#[derive(Debug, Default)]
pub(super) struct RepeatedErrors {
    causes: Vec<(String, u64)>,
}

impl RepeatedErrors {
    /// Prints the error of a cause for the first time, and counts it after that.
    pub(super) fn print(&mut self, cause: &str, line: &str) {
        if self.is_first(cause) {
            print_error(line);
        }
    }

    fn is_first(&mut self, cause: &str) -> bool {
        if let Some((_, times)) = self.causes.iter_mut().find(|known| known.0 == cause) {
            *times += 1;
            return false;
        }
        if let Some((_, times)) = self.causes.get_mut(CAUSES_MAX - 1) {
            *times += 1;
            return false;
        }
        self.causes.push((cause.to_owned(), 1));
        true
    }

    /// Prints the number of each cause that has recurred, and begins anew.
    pub(super) fn print_counts(&mut self) {
        self.take_lines().iter().for_each(|line| print_line(line));
    }

    fn take_lines(&mut self) -> Vec<String> {
        let causes = std::mem::take(&mut self.causes).into_iter();
        let recurred = causes.filter(|(_, times)| *times > 1);
        recurred.map(|(cause, times)| format!("{cause}: {} times in all", count(times))).collect()
    }
}

/// Returns the cause of an error, without the name of a file.
pub(super) fn cause_of(error: &CliError) -> String {
    match error {
        CliError::Create { source, .. } | CliError::Open { source, .. } => plain(source),
        CliError::Output(source) => plain(source),
        other => other.source().map_or_else(|| other.to_string(), ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_first_once_until_a_success() {
        let mut errors = RepeatedErrors::default();
        let all = ["full", "full", "denied", "full"].map(|cause| errors.is_first(cause));
        assert_eq!(all, [true, false, true, false]);
        assert_eq!(errors.take_lines(), ["full: 3 times in all"]);
        assert!(errors.is_first("full") && errors.take_lines().is_empty());
        let many = (0..100).filter(|number| errors.is_first(&number.to_string())).count();
        assert_eq!(many, CAUSES_MAX);
    }
}
