//! Work on logs that a signal of the user cancels.

use super::error::CliError;
use super::message::print_line;
use super::signals::Signals;
use crate::sys::cancellation::Cancellation;
use crate::sys::spawn;

/// Runs cancellable work, which asks now and then whether to go on. If a signal has cancelled the
/// work, prints `if_interrupted` and ends this process by that signal.
///
/// # Errors
///
/// Those of the work.
pub(super) fn until_signal<T>(
    if_interrupted: &str,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let mut signals = Signals::new().map_err(CliError::Output)?;
    let mut cancellation = Cancellation::new(&mut signals, None);
    let done = work(&mut || !cancellation.is_cancelled());
    if let (Err(CliError::Interrupted), Some(signal)) = (&done, cancellation.ended_by()) {
        print_line(&format!("interrupted: {if_interrupted}"));
        spawn::die_by(signal);
    }
    done
}
