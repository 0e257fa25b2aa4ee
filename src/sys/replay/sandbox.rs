//! Sandbox of a replay: a directory becomes the root of this process, so that no path leads out of
//! it.
//!
//! The kernel itself keeps each path inside (chroot(2)), `..` and absolute links included, so the
//! calls are the captured ones. The directory is mounted once more for this process alone, without
//! devices and set-user-ID programs. The capabilities that lead out of such a root
//! (`CAP_SYS_CHROOT`, `CAP_MKNOD`, `CAP_SYS_ADMIN`) are dropped.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use caps::{CapSet, Capability};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::fstat;
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{chdir, chroot, getegid, geteuid};
use thiserror::Error;

use crate::sys::capabilities::keep_for_replay;
use crate::sys::identity::Identity;

/// Reason for which a directory cannot become the root.
#[derive(Debug, Error)]
pub enum SandboxError {
    /// The kernel does not permit a change of the root.
    #[error(
        "this user may not make {root} the root of a process, and neither may one of a user namespace ({source}); try: sudo iotrace-perf …"
    )]
    NotAllowed {
        /// The directory.
        root: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The kernel does not permit mounts, so other directories cannot be mounted in it.
    #[error(
        "this user may not mount {0} in the replay's directory (CAP_SYS_ADMIN), so it cannot be mapped there; leave out --map at replay init, or try where mounting is allowed: sudo iotrace-perf …"
    )]
    NoMount(PathBuf),
    /// A directory cannot be mounted in it.
    #[error("cannot mount {directory} in the replay's directory: {source}")]
    Mount {
        /// The directory.
        directory: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// Another directory is at its path.
    #[error(
        "{0} is not the directory that was checked a moment ago: another one has been put there, and nothing was done in it; choose one in a directory that no other user may change"
    )]
    Swapped(PathBuf),
    /// Another step failed.
    #[error("cannot make {root} the root of the replay: {what}: {source}")]
    Failed {
        /// The directory.
        root: PathBuf,
        /// System call that failed.
        what: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
}

/// Confinement of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// True if the directory is a mount of its own, without devices and set-user-ID programs. False
    /// where no mounts are permitted (in some containers).
    pub is_mount: bool,
}

/// A directory by its path and identity: the path may lead to another one by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxDirectory {
    /// Path from the current root.
    pub path: PathBuf,
    /// Device and inode: a directory that another process has put in its place is not accepted.
    pub identity: (u64, u64),
}

/// Another directory that is mounted in the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxMount {
    /// The directory; no step of its path is a link.
    pub source: SandboxDirectory,
    /// Mount point, from the new root.
    pub target: Vec<u8>,
}

/// Makes a directory the root of this process permanently, and mounts others in it, in their order.
/// `user`: the identity that the process takes by turns. To be called while there is one thread.
///
/// # Errors
///
/// The kernel does not permit it, or a directory does not exist, or is not the same any more.
pub fn enter(
    directory: &SandboxDirectory,
    mounts: &[SandboxMount],
    user: Option<&Identity>,
) -> Result<Sandbox, SandboxError> {
    let root = &directory.path;
    let failed = |what| {
        let root = root.to_owned();
        move |errno: Errno| SandboxError::Failed { root, what, source: errno.into() }
    };
    // An absolute path stays valid for a tracer of this process, whatever is mounted meanwhile.
    let root = &fs::canonicalize(root).map_err(|source| SandboxError::Failed {
        root: root.to_owned(),
        what: "realpath",
        source,
    })?;
    let is_mount = own_mounts(root)?;
    if is_mount {
        mount_again(root).map_err(failed("mount"))?;
    } else if let Some(it) = mounts.first() {
        return Err(SandboxError::NoMount(it.source.path.clone()));
    }
    for mounted in mounts {
        mount_below(root, mounted).map_err(|source| SandboxError::Mount {
            directory: mounted.source.path.clone(),
            source,
        })?;
    }
    chdir(root).map_err(failed("chdir"))?;
    chroot(root).map_err(|errno| match errno {
        Errno::EPERM => SandboxError::NotAllowed { root: root.to_owned(), source: errno.into() },
        errno => failed("chroot")(errno),
    })?;
    chdir("/").map_err(failed("chdir"))?;
    // All steps so far went by paths; only this process sees what was mounted at their targets.
    let others = mounts.iter().map(|it| (&*it.target, &it.source));
    for (target, source) in std::iter::once((&b"/"[..], directory)).chain(others) {
        if !is_unchanged(target, source, is_mount).map_err(failed("stat"))? {
            return Err(SandboxError::Swapped(source.path.clone()));
        }
    }
    user.map_or(Ok(()), Identity::prepare).map_err(failed("setresuid"))?;
    let failed = |what, source| SandboxError::Failed { root: root.to_owned(), what, source };
    keep_for_replay().map_err(|it| failed("capset", it))?;
    nix::sys::prctl::set_no_new_privs().map_err(|it| failed("prctl", it.into()))?;
    Ok(Sandbox { is_mount })
}

/// Keeps the current root, and drops the same capabilities. To be called while there is one thread.
///
/// # Errors
///
/// Errors of `capset(2)` and `prctl(2)`.
pub fn stay() -> io::Result<()> {
    chdir("/")?;
    keep_for_replay()?;
    Ok(nix::sys::prctl::set_no_new_privs()?)
}

/// Creates a private mount namespace. Returns false if mounts are not permitted, but a change of
/// the root is.
fn own_mounts(root: &Path) -> Result<bool, SandboxError> {
    let refused =
        |errno: Errno| SandboxError::NotAllowed { root: root.into(), source: errno.into() };
    match unshare(CloneFlags::CLONE_NEWNS) {
        Ok(()) => return Ok(true),
        Err(_)
            if caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_CHROOT)
                .unwrap_or(false) =>
        {
            return Ok(false);
        }
        Err(_) => {}
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).map_err(refused)?;
    let write = |file: &str, text: String| fs::write(format!("/proc/self/{file}"), text);
    // A user other than root may map only the own ids, and no groups (user_namespaces(7)).
    let written = write("setgroups", "deny".to_owned())
        .and_then(|()| write("uid_map", format!("{user} {user} 1")))
        .and_then(|()| write("gid_map", format!("{group} {group} 1")));
    written.map_err(|source| SandboxError::NotAllowed { root: root.to_owned(), source })?;
    Ok(true)
}

/// True if a path of the new root leads to `source`, and, with `is_mount`, has no devices and
/// set-user-ID programs.
fn is_unchanged(path: &[u8], source: &SandboxDirectory, is_mount: bool) -> nix::Result<bool> {
    let stat = nix::sys::stat::lstat(path)?;
    let is_restricted = statvfs(path)?.flags().contains(FsFlags::ST_NODEV | FsFlags::ST_NOSUID);
    let is_same = (stat.st_dev, stat.st_ino) == source.identity;
    Ok(is_same && (is_restricted || !is_mount))
}

/// Makes the directory a mount of its own.
fn mount_again(root: &Path) -> nix::Result<()> {
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some(root), root, none, MsFlags::MS_BIND, none)?;
    restrict(root)
}

/// Mounts another directory in the root, which is a mount already. No step of either path may be a
/// link.
fn mount_below(root: &Path, wanted: &SandboxMount) -> io::Result<()> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    let source = openat2(AT_FDCWD, &wanted.source.path, how)?;
    let stat = fstat(&source)?;
    if (stat.st_dev, stat.st_ino) != wanted.source.identity {
        return Err(io::Error::other("another directory has been put there"));
    }
    let root = openat2(AT_FDCWD, root, how)?;
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
    let how = how.resolve(resolve);
    let target = wanted.target.strip_prefix(b"/").unwrap_or(&wanted.target);
    let target = OsStr::from_bytes(target);
    let none: Option<&str> = None;
    let below = openat2(root.as_fd(), target, how)?;
    mount(Some(&path_of(&source)), &path_of(&below), none, MsFlags::MS_BIND, none)?;
    // The name now leads to the mount.
    let mounted = openat2(root.as_fd(), target, how)?;
    Ok(restrict(&path_of(&mounted))?)
}

/// A path that leads to this open directory and to no other.
fn path_of(open: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()))
}

/// Remounts without devices and set-user-ID programs.
fn restrict(path: &Path) -> nix::Result<()> {
    let none: Option<&str> = None;
    // Root of a user namespace cannot remove the flags that the mount had before.
    let had = statvfs(path)?.flags();
    let kept = [(FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC), (FsFlags::ST_RDONLY, MsFlags::MS_RDONLY)];
    let mut flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
    for (had_flag, flag) in kept {
        flags.set(flag, had.contains(had_flag));
    }
    mount(none, path, none, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | flags, none)
}
