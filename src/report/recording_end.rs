//! End of a recording in words.

use nix::sys::signal::Signal;

use crate::capture::header::End;

/// Causes of an end, as [`End::reason`] names them, and the same in words. The words of the
/// recorded program's own end are those of [`exited`].
const CAUSES: [(&str, &str); 10] = [
    ("interrupt", "by a signal to the tracer (Ctrl-C, SIGTERM)"),
    ("duration", "after the time of --duration"),
    ("log size", "at the size of --max-log"),
    ("operations", "at the number of operations of --max-operations"),
    ("failed rank", "2 s after a rank had failed"),
    ("incident", "as the part of a recording that an incident keeps"),
    ("rotation", "as a part of a recording with --rotate"),
    ("log not writable", "when the log could not be written any more"),
    ("not started", "because the program could not be started"),
    ("imported", "with the imported file"),
];

/// Returns when the recording ended and, if it is known, how the launched program did. A cause that
/// this version does not know is shown as the log names it.
pub fn recording_end(end: Option<&End>) -> String {
    let Some(end) = end else { return "did not end in order".to_owned() };
    let cause = CAUSES.iter().find(|(reason, _)| *reason == end.reason);
    let cause = cause.map_or(end.reason.as_str(), |(_, words)| words);
    match (exited(end), end.reason.as_str()) {
        (Some(program), "exit") => format!("with the program: {program}"),
        (None, "exit") => "with the recorded processes".to_owned(),
        (Some(program), _) => format!("{cause}; the program: {program}"),
        (None, _) => cause.to_owned(),
    }
}

/// Returns how the launched program ended; `None` if it is not known.
fn exited(end: &End) -> Option<String> {
    let of_signal = |number: i32| match Signal::try_from(number) {
        Ok(signal) => format!("killed by {signal}"),
        Err(_) => format!("killed by signal {number}"),
    };
    end.exit_signal
        .map(of_signal)
        .or_else(|| end.exit_code.map(|code| format!("exit status {code}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(reason: &str, exit_code: Option<i32>, exit_signal: Option<i32>) -> String {
        let end = End { reason: reason.to_owned(), exit_code, exit_signal, ..End::default() };
        recording_end(Some(&end))
    }

    #[test]
    fn program_and_cause_are_named() {
        assert_eq!(words("exit", Some(3), None), "with the program: exit status 3");
        assert_eq!(words("exit", None, Some(9)), "with the program: killed by SIGKILL");
        assert_eq!(words("exit", None, Some(40)), "with the program: killed by signal 40");
        assert_eq!(words("exit", None, None), "with the recorded processes");
        assert_eq!(words("duration", None, None), "after the time of --duration");
        assert_eq!(
            words("log size", Some(0), None),
            "at the size of --max-log; the program: exit status 0"
        );
        assert_eq!(words("of a later version", None, None), "of a later version");
        assert_eq!(recording_end(None), "did not end in order");
    }
}
