//! Identity of a user, as which a program is started or a replay is run.

use std::ffi::CString;
use std::io;

use nix::unistd::{
    Gid, Group, Uid, User, getegid, geteuid, getgrouplist, getresgid, getresuid, setegid, seteuid,
    setgroups, setresgid, setresuid,
};

/// Group of users without an account: `nogroup`, wherever groups have the usual numbers. It gives
/// no rights.
const NO_GROUP: u32 = 65534;

/// Parses the number of a user or group; all ones is not one (`setresuid(2)` takes it for no
/// change).
fn number(word: &str) -> Option<u32> {
    word.parse().ok().filter(|it| *it != u32::MAX)
}

/// Name of a user with an account.
pub(super) fn name_of(user: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(user)).ok().flatten().map(|it| it.name)
}

/// A user, with all groups (initgroups(3)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    name: String,
    user: Uid,
    group: Gid,
    groups: Vec<Gid>,
}

impl Identity {
    /// Finds USER or USER:GROUP, by names or numbers (as in `--userspec` of `chroot`); `None`:
    /// there is no user or group of that name. A number is accepted even without an account. Such a
    /// user has no groups except for the given one, or [`NO_GROUP`].
    ///
    /// # Errors
    ///
    /// Those of `getpwnam_r(3)`, `getpwuid_r(3)`, `getgrnam_r(3)` and `getgrouplist(3)`.
    pub fn find(word: &str) -> io::Result<Option<Self>> {
        let (user, group) = word.split_once(':').map_or((word, None), |it| (it.0, Some(it.1)));
        let group = match group {
            None => None,
            Some(word) => match (Group::from_name(word)?.map(|it| it.gid), number(word)) {
                (None, None) => return Ok(None),
                (None, Some(number)) => Some(Gid::from_raw(number)),
                (named, _) => named,
            },
        };
        let found = match (User::from_name(user)?, number(user)) {
            (None, None) => return Ok(None),
            (None, Some(number)) => User::from_uid(Uid::from_raw(number))?,
            (named, _) => named,
        };
        if let Some(found) = found {
            let gid = group.unwrap_or(found.gid);
            return Self::of(User { gid, ..found }).map(Some);
        }
        let group = group.unwrap_or(Gid::from_raw(NO_GROUP));
        let of_number = |number| Self {
            name: user.to_owned(),
            user: Uid::from_raw(number),
            group,
            groups: vec![group],
        };
        Ok(number(user).map(of_number))
    }

    /// Finds a user by number; `None`: no account has it.
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

    /// Name of the user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of the user.
    pub fn user(&self) -> u32 {
        self.user.as_raw()
    }

    /// Number of the user's own group.
    pub fn group(&self) -> u32 {
        self.group.as_raw()
    }

    /// Numbers of all groups.
    pub fn groups(&self) -> Vec<u32> {
        self.groups.iter().map(|it| it.as_raw()).collect()
    }

    /// Makes this process that user permanently.
    ///
    /// # Errors
    ///
    /// `EPERM` without `CAP_SETUID` and `CAP_SETGID`; `EAGAIN` if the user has too many processes.
    pub fn take(&self) -> nix::Result<()> {
        setgroups(&self.groups)?;
        setresgid(self.group, self.group, self.group)?;
        setresuid(self.user, self.user, self.user)
    }

    /// Prepares this process for turns as that user ([`Identity::begin`]) and as the current one
    /// ([`end`]). They are possible even after it has dropped the capabilities for a change of the
    /// user.
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

    /// Takes that user's identity, without root's capabilities (capabilities(7)), until [`end`].
    ///
    /// # Errors
    ///
    /// It was not prepared.
    pub fn begin(&self) -> nix::Result<()> {
        setegid(self.group)?;
        seteuid(self.user)
    }
}

/// Returns to the identity before [`Identity::begin`]; has no effect without one.
///
/// # Errors
///
/// None in practice: the kernel has no error for this (setresuid(2)).
pub fn end() -> nix::Result<()> {
    seteuid(getresuid()?.saved)?;
    setegid(getresgid()?.saved)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a number without an account, such as a container's user, is refused, or gets more
    /// groups than were given.
    #[test]
    fn numbers_need_no_entry() {
        let of = |word: &str| {
            let found = Identity::find(word).expect("a list of users").expect("a number");
            (found.user(), found.group(), found.groups())
        };
        assert_eq!(of("3999999999"), (3_999_999_999, 65534, vec![65534]));
        assert_eq!(of("3999999999:4711"), (3_999_999_999, 4711, vec![4711]));
        assert_eq!(of("3999999999:root"), (3_999_999_999, 0, vec![0]));
        let (user, group, groups) = of("root:4711");
        assert_eq!((user, group, groups.contains(&4711)), (0, 4711, true));
    }

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = Identity::find("root").expect("a list of users").expect("root");
        assert_eq!((root.user, root.group), (Uid::from_raw(0), Gid::from_raw(0)));
        assert_eq!(Identity::of_number(0).expect("a list of users").as_ref(), Some(&root));
        assert_eq!(root.name(), "root");
        assert_eq!(Identity::find("0").expect("a list of users"), Some(root));
        for none in ["no such user", "", "4294967295", "-1", "0:no such group", "0:", ":0"] {
            assert_eq!(Identity::find(none).expect("a list of users"), None, "{none}");
        }
    }
}
