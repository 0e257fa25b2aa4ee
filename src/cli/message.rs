//! Messages to the user.

use std::io::Write;

use crate::text::escape;

/// Prints a line on standard error; control characters of logs and programs are escaped. Standard
/// output belongs to the traced program and to data.
pub(super) fn print_line(line: &str) {
    // One write: the traced program writes there, too.
    let line = format!("iotrace-perf: {}\n", escape::harmless(line));
    // An error has no other place to go.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
