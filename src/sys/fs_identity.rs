//! File-system identity of a thread: the user, group and supplementary groups with which the kernel
//! checks its file accesses (setfsuid(2)).
//!
//! A thread of root that takes the identity of another user has none of root's rights over files:
//! `setfsuid` removes the capabilities for files from the effective set, and returns them on the
//! way back (`cap_task_fix_setuid`, security/commoncap.c). Everything else of the process stays
//! root's.

use std::io;
use std::marker::PhantomData;

use nix::unistd::{geteuid, getgroups};

use super::identity::Identity;

/// A user, with all groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsIdentity {
    user: u32,
    group: u32,
    groups: Vec<u32>,
}

impl FsIdentity {
    /// The user who called `sudo`, if this process is root's and runs under it. The environment is
    /// trusted: root wrote it.
    pub fn sudo_caller() -> Option<Self> {
        let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        geteuid().is_root().then_some(())?;
        let (user, group) = (number("SUDO_UID")?, number("SUDO_GID")?);
        let known = Identity::of_number(user).ok().flatten();
        let groups = known.map_or_else(|| vec![group], |it| it.groups());
        (user != 0).then_some(Self { user, group, groups })
    }

    /// Of a user on the command line.
    pub fn of(identity: &Identity) -> Self {
        Self { user: identity.user(), group: identity.group(), groups: identity.groups() }
    }

    /// Number of the user.
    pub fn user(&self) -> u32 {
        self.user
    }

    /// Number of the group.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// The calling thread has this identity until the value is dropped.
    ///
    /// # Errors
    ///
    /// `EPERM` without `CAP_SETUID` and `CAP_SETGID`.
    pub fn enter(&self) -> io::Result<Entered> {
        let groups = getgroups()?.iter().map(|it| it.as_raw()).collect();
        let before = fs_ids();
        let entered = Entered { before, groups, _of_thread: PhantomData };
        set_groups(&self.groups)?;
        set_ids(self.user, self.group)?;
        Ok(entered)
    }
}

/// Guard of another file-system identity; its drop restores the thread's own.
#[derive(Debug)]
pub struct Entered {
    /// User and group of the previous identity.
    before: (u32, u32),
    groups: Vec<u32>,
    /// Identities belong to a thread: the value stays in it.
    _of_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // The identity before, which may itself be another user's. With fewer groups than before
        // the thread may do less, not more.
        let _ = set_ids(self.before.0, self.before.1);
        let _ = set_groups(&self.groups);
    }
}

/// Sets the groups of the calling thread alone; the C library's function changes all threads.
fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: the pointer leads to as many numbers as the first argument states, which the kernel
    // only reads.
    let code = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the group first: after the user the rights may be missing.
fn set_ids(user: u32, group: u32) -> io::Result<()> {
    // SAFETY: a number only.
    unsafe { libc::setfsgid(group) };
    // SAFETY: a number only.
    unsafe { libc::setfsuid(user) };
    // Neither call reports a failure.
    if fs_ids() == (user, group) { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// The user and group of the thread's file-system identity: -1 changes nothing and returns the
/// identity.
fn fs_ids() -> (u32, u32) {
    // SAFETY: a number only.
    let user = unsafe { libc::setfsuid(u32::MAX) };
    // SAFETY: a number only.
    let group = unsafe { libc::setfsgid(u32::MAX) };
    (user.cast_unsigned(), group.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// Fails if a thread with another identity creates files as root, opens files that only root
    /// may, or does not get its own back.
    #[test]
    fn roots_rights_are_away_and_come_back() {
        if !crate::sys::need::root() {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).expect("given away");
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "").expect("written");
        let only_root = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&secret, only_root).expect("its mode");
        let before = getgroups().expect("groups");
        let unprivileged = FsIdentity { user: 65534, group: 65534, groups: vec![65534] };
        {
            let _entered = unprivileged.enter().expect("root may");
            assert!(File::open(&secret).is_err());
            File::create_new(dir.path().join("own")).expect("its directory");
        }
        File::open(&secret).expect("root may");
        {
            let _entered = unprivileged.enter().expect("root may");
            drop(unprivileged.enter().expect("once more"));
            assert!(File::open(&secret).is_err(), "an inner identity gives root's back");
        }
        let own = dir.path().join("own").metadata().expect("it is there");
        assert_eq!((own.uid(), own.gid()), (65534, 65534));
        assert_eq!(getgroups().expect("groups"), before);
    }
}
