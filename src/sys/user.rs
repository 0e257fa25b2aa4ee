//! Whom a program is started as, and as whom a replay is done.

use std::ffi::CString;
use std::io;

use nix::unistd::{
    Gid, Uid, User, getegid, geteuid, getgrouplist, getresgid, getresuid, setegid, seteuid,
    setgroups, setresgid, setresuid,
};

/// A user, with all groups (initgroups(3)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    name: String,
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
        found.map(Self::of).transpose()
    }

    /// By number; `None`: nobody has it.
    ///
    /// # Errors
    ///
    /// As [`Identity::find`].
    pub fn of_number(user: u32) -> io::Result<Option<Self>> {
        User::from_uid(Uid::from_raw(user))?.map(Self::of).transpose()
    }

    fn of(User { name, uid: user, gid: group, .. }: User) -> io::Result<Self> {
        let groups = getgrouplist(&CString::new(name.clone()).map_err(io::Error::other)?, group)?;
        Ok(Self { name, user, group, groups })
    }

    /// The user's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The user's number.
    pub fn user(&self) -> u32 {
        self.user.as_raw()
    }

    /// The number of the user's own group.
    pub fn group(&self) -> u32 {
        self.group.as_raw()
    }

    /// The numbers of all groups.
    pub fn groups(&self) -> Vec<u32> {
        self.groups.iter().map(|it| it.as_raw()).collect()
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

    /// From now on this process may be that user ([`Identity::begin`]) and who it is now ([`end`]) by turns, also when it has given up the
    /// rights to become others.
    ///
    /// # Errors
    ///
    /// As [`Identity::take`].
    pub fn prepare(&self) -> nix::Result<()> {
        setgroups(&self.groups)?;
        let group = getegid();
        setresgid(self.group, group, group)?;
        let user = geteuid();
        setresuid(self.user, user, user)
    }

    /// It is that user: without rights of root's (capabilities(7)), until [`end`].
    ///
    /// # Errors
    ///
    /// It was not prepared.
    pub fn begin(&self) -> nix::Result<()> {
        setegid(self.group)?;
        seteuid(self.user)
    }
}

/// Is who it was before [`Identity::begin`]; nothing to do if it never was anybody else.
///
/// # Errors
///
/// None that the kernel has for this (setresuid(2)).
pub fn end() -> nix::Result<()> {
    seteuid(getresuid()?.saved)?;
    setegid(getresgid()?.saved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = Identity::find("root").expect("a list of users").expect("root");
        assert_eq!((root.user, root.group), (Uid::from_raw(0), Gid::from_raw(0)));
        assert_eq!(Identity::of_number(0).expect("a list of users").as_ref(), Some(&root));
        assert_eq!(root.name(), "root");
        assert_eq!(Identity::find("0").expect("a list of users"), Some(root));
        for nobody in ["no such user", "", "4294967294"] {
            assert_eq!(Identity::find(nobody).expect("a list of users"), None, "{nobody}");
        }
    }
}
