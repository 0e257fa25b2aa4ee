//! A directory that becomes the root of everything that this process does with names: nothing beyond it can be named any more.
//!
//! The kernel itself keeps each path below (chroot(2)), `..` and absolute links included, so that calls are the same ones as were captured;
//! what is in the directory is mounted once more for this process alone, without devices and set-user-ID programs; and rights that lead
//! out of such a root (`CAP_SYS_CHROOT`, `CAP_MKNOD`, `CAP_SYS_ADMIN`) are given up.

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

use super::capabilities::keep_for_replay;
use super::user::Identity;

/// Why a directory cannot become the root.
#[derive(Debug, Error)]
pub enum SandboxError {
    /// Nobody lets us.
    #[error(
        "this user may not make {root} the root of a process, and neither may one of a user namespace ({source}); try: sudo iotrace-perf …"
    )]
    NotAllowed {
        /// The directory.
        root: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It cannot have other directories in it.
    #[error(
        "this user may not mount {0} in the replay's directory (CAP_SYS_ADMIN), so it cannot be elsewhere; leave out --map at replay init, or try where mounting is allowed: sudo iotrace-perf …"
    )]
    NoMount(PathBuf),
    /// A directory that is to be in it.
    #[error("cannot mount {directory} in the replay's directory: {source}")]
    Mount {
        /// The directory.
        directory: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something else is where it was.
    #[error(
        "{0} is not the directory that it was a moment ago: somebody has put another one there, and nothing was done in it; choose one in a directory that nobody else may change"
    )]
    Swapped(PathBuf),
    /// Something else.
    #[error("cannot make {root} the root of the replay: {what}: {source}")]
    Failed {
        /// The directory.
        root: PathBuf,
        /// What failed.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// How the process is kept inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// The directory is a mount of its own, without devices and set-user-ID programs. Not where nobody may mount (in some containers).
    pub is_mount: bool,
}

/// A directory, and what it is: its path may lead to another one by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// From the root that we have now.
    pub path: PathBuf,
    /// Its device and inode: nothing else is taken for it that somebody may have put there.
    pub identity: (u64, u64),
}

/// A directory that is in the root besides, wherever it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// It; nothing on the way there is a link.
    pub source: Directory,
    /// Where, from the new root.
    pub target: Vec<u8>,
}

/// Makes a directory the root of this process, for good, and mounts others in it, in their order. `user`: whom it is to be by turns.
/// To be said while there is one thread.
///
/// # Errors
///
/// It is not allowed, or a directory is not there, or is not what it was.
pub fn enter(
    directory: &Directory,
    mounts: &[Mount],
    user: Option<&Identity>,
) -> Result<Sandbox, SandboxError> {
    let root = &directory.path;
    let failed = |what| {
        let root = root.to_owned();
        move |errno: Errno| SandboxError::Failed { root, what, source: errno.into() }
    };
    // Who traces us knows where that is, whatever was mounted meanwhile.
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
    for it in mounts {
        mount_below(root, it)
            .map_err(|source| SandboxError::Mount { directory: it.source.path.clone(), source })?;
    }
    chdir(root).map_err(failed("chdir"))?;
    chroot(root).map_err(|errno| match errno {
        Errno::EPERM => SandboxError::NotAllowed { root: root.to_owned(), source: errno.into() },
        errno => failed("chroot")(errno),
    })?;
    chdir("/").map_err(failed("chdir"))?;
    // All of it went by paths so far, and only we see what was mounted where these led.
    let others = mounts.iter().map(|it| (&*it.target, &it.source));
    for (target, source) in std::iter::once((&b"/"[..], directory)).chain(others) {
        if !is_what_it_was(target, source.identity, is_mount).map_err(failed("stat"))? {
            return Err(SandboxError::Swapped(source.path.clone()));
        }
    }
    user.map_or(Ok(()), Identity::prepare).map_err(failed("setresuid"))?;
    let failed = |what, source| SandboxError::Failed { root: root.to_owned(), what, source };
    keep_for_replay().map_err(|it| failed("capset", it))?;
    nix::sys::prctl::set_no_new_privs().map_err(|it| failed("prctl", it.into()))?;
    Ok(Sandbox { is_mount })
}

/// Keeps the root that we have, and gives up the same rights. To be said while there is one thread.
///
/// # Errors
///
/// Those of `capset(2)` and `prctl(2)`.
pub fn stay() -> io::Result<()> {
    chdir("/")?;
    keep_for_replay()?;
    Ok(nix::sys::prctl::set_no_new_privs()?)
}

/// Mounts that nobody else sees; false if we may not have any, but may change the root.
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
    let tell = |file: &str, text: String| fs::write(format!("/proc/self/{file}"), text);
    // A user who is not root may name only itself, and no groups (user_namespaces(7)).
    let told = tell("setgroups", "deny".to_owned())
        .and_then(|()| tell("uid_map", format!("{user} {user} 1")))
        .and_then(|()| tell("gid_map", format!("{group} {group} 1")));
    told.map_err(|source| SandboxError::NotAllowed { root: root.to_owned(), source })?;
    Ok(true)
}

/// True if a directory of the new root is this one, and, if it is to be a mount of ours, has no devices and set-user-ID programs.
fn is_what_it_was(path: &[u8], identity: (u64, u64), is_mount: bool) -> nix::Result<bool> {
    let stat = nix::sys::stat::lstat(path)?;
    let is_restricted = statvfs(path)?.flags().contains(FsFlags::ST_NODEV | FsFlags::ST_NOSUID);
    Ok((stat.st_dev, stat.st_ino) == identity && (is_restricted || !is_mount))
}

/// The directory as a mount of its own.
fn mount_again(root: &Path) -> nix::Result<()> {
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some(root), root, none, MsFlags::MS_BIND, none)?;
    restrict(root)
}

/// Another directory as a mount of its own in the root, which is one already. Nothing on the way to either of them may be a link.
fn mount_below(root: &Path, it: &Mount) -> io::Result<()> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    let source = openat2(AT_FDCWD, &it.source.path, how)?;
    let stat = fstat(&source)?;
    if (stat.st_dev, stat.st_ino) != it.source.identity {
        return Err(io::Error::other("somebody has put another directory there"));
    }
    let root = openat2(AT_FDCWD, root, how)?;
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
    let how = how.resolve(resolve);
    let target = OsStr::from_bytes(it.target.strip_prefix(b"/").unwrap_or(&it.target));
    let none: Option<&str> = None;
    let below = openat2(root.as_fd(), target, how)?;
    mount(Some(&path_of(&source)), &path_of(&below), none, MsFlags::MS_BIND, none)?;
    // What has this name now is the mount.
    let mounted = openat2(root.as_fd(), target, how)?;
    Ok(restrict(&path_of(&mounted))?)
}

/// What is open, as a path that leads to nothing else.
fn path_of(open: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()))
}

/// A mount without devices and set-user-ID programs.
fn restrict(path: &Path) -> nix::Result<()> {
    let none: Option<&str> = None;
    // Whoever is root only in a user namespace cannot take away what the mount had before.
    let had = statvfs(path)?.flags();
    let kept = [(FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC), (FsFlags::ST_RDONLY, MsFlags::MS_RDONLY)];
    let mut flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
    for (had_flag, flag) in kept {
        flags.set(flag, had.contains(had_flag));
    }
    mount(none, path, none, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | flags, none)
}
