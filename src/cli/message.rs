//! Messages to the user.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use console::Term;

use crate::sys::error_text::without_numbers;
use crate::text::escape;
use crate::text::wrapping::wrapped;

/// True if only errors are printed.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Prints only errors from now on.
pub(super) fn be_quiet() {
    // ORDERING: nothing else is published by this flag.
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// True if only errors are printed.
pub(super) fn is_quiet() -> bool {
    // ORDERING: as in be_quiet().
    IS_QUIET.load(Ordering::Relaxed)
}

/// Lines that are printed later; `None`: lines are printed at once.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Holds all lines from now on: the terminal shows something else.
pub(super) fn hold() {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
}

/// Prints the lines that were held.
pub(super) fn release() {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
    held.into_iter().flatten().for_each(|line| print_error(&line));
}

/// Keeps a line while lines are held.
fn is_kept(line: &str) -> bool {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.as_mut().map(|held| held.push(line.to_owned())).is_some()
}

/// Prints a line on standard error, unless only errors are printed.
pub(super) fn print_line(line: &str) {
    if !is_quiet() {
        print_error(line);
    }
}

/// Prints an error on standard error; control characters of logs and programs are escaped. Standard
/// output belongs to the traced program and to data.
pub(super) fn print_error(line: &str) {
    if is_kept(line) {
        return;
    }
    let width = Term::stderr().size_checked().map(|(_, columns)| usize::from(columns));
    let line = format!("iotrace-perf: {}", escape::harmless(&without_numbers(line)));
    // One write: the traced program writes there, too.
    let line = wrapped(&line, width) + "\n";
    // An error has no other place to go.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Prints a text of this program on standard error, such as help, without a prefix.
pub(super) fn print_help(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
