//! Whom a program is started as.

use std::ffi::CString;
use std::io;

use nix::unistd::{Gid, Uid, User, getgrouplist, setgroups, setresgid, setresuid};

/// A user, with all groups (initgroups(3)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    user: Uid,
    group: Gid,
    groups: Vec<Gid>,
}

impl Identity {
    /// By name or number; `None`: nobody is called so.
    ///
    /// # Errors
    ///
    /// Those of `getpwnam_r(3)`, `getpwuid_r(3)` and `getgrouplist(3)`.
    pub fn find(word: &str) -> io::Result<Option<Self>> {
        let found = match (User::from_name(word)?, word.parse()) {
            (None, Ok(number)) => User::from_uid(Uid::from_raw(number))?,
            (named, _) => named,
        };
        let Some(user) = found else { return Ok(None) };
        let name = CString::new(user.name).map_err(io::Error::other)?;
        let groups = getgrouplist(&name, user.gid)?;
        Ok(Some(Self { user: user.uid, group: user.gid, groups }))
    }

    /// The user's number.
    pub fn user(&self) -> u32 {
        self.user.as_raw()
    }

    /// Becomes that user, for good.
    ///
    /// # Errors
    ///
    /// `EPERM` without `CAP_SETUID` and `CAP_SETGID`; `EAGAIN` if the user has too many processes.
    pub fn take(&self) -> nix::Result<()> {
        setgroups(&self.groups)?;
        setresgid(self.group, self.group, self.group)?;
        setresuid(self.user, self.user, self.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = Identity::find("root").expect("a list of users").expect("root");
        assert_eq!((root.user, root.group), (Uid::from_raw(0), Gid::from_raw(0)));
        assert_eq!(Identity::find("0").expect("a list of users"), Some(root));
        for nobody in ["no such user", "", "4294967294"] {
            assert_eq!(Identity::find(nobody).expect("a list of users"), None, "{nobody}");
        }
    }
}
