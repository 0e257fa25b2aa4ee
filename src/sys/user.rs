//! Whom a program is started as, and as whom a replay is done.

use std::ffi::CString;
use std::io;

use nix::unistd::{
    Gid, Group, Uid, User, getegid, geteuid, getgrouplist, getresgid, getresuid, setegid, seteuid,
    setgroups, setresgid, setresuid,
};

/// The group of users that are in no list: `nogroup`, wherever groups have the usual numbers. It gives no rights.
const NO_GROUP: u32 = 65534;

/// A number of a user or group; all ones is none (`setresuid(2)` takes it for no change).
fn number(word: &str) -> Option<u32> {
    word.parse().ok().filter(|it| *it != u32::MAX)
}

/// The name of a user, if there is one in the list.
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
    /// USER or USER:GROUP, by names or numbers (as `--userspec` of `chroot` has them); `None`: no user or group is called so. A number is taken
    /// although no user or group has it. Such a user has no groups but the one that is given, or [`NO_GROUP`].
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
        let of_number = |it| Self {
            name: user.to_owned(),
            user: Uid::from_raw(it),
            group,
            groups: vec![group],
        };
        Ok(number(user).map(of_number))
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

    /// Fails if a user of a container, who is in no list here, is not taken, or has more groups than were given.
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
