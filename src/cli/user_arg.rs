//! Users on the command line.

use super::error::CliError;
use crate::sys::identity::Identity;

/// The user that `option` names. `what` is the action, which needs root.
pub(super) fn named(option: &str, word: &str, what: &str) -> Result<Identity, CliError> {
    let wrong = |why: String| CliError::Usage(format!("{option} {word}: {why}"));
    if !nix::unistd::geteuid().is_root() {
        return Err(wrong(format!("only root can {what} as another user")));
    }
    let found = Identity::find(word).map_err(|error| wrong(error.to_string()))?;
    found.ok_or_else(|| {
        wrong(
            "there is no such user or group; see: getent passwd; a number needs no entry: UID:GID"
                .into(),
        )
    })
}

/// User that `option` names, with an account: a later command finds the user by number alone.
pub(super) fn listed(option: &str, word: &str, what: &str) -> Result<Identity, CliError> {
    let found = named(option, word, what)?;
    match Identity::of_number(found.user()) {
        Ok(Some(listed)) if listed == found => Ok(found),
        _ => Err(CliError::Usage(format!(
            "{option} {word}: this needs a user with an account, and the user's own group; see: getent passwd"
        ))),
    }
}
