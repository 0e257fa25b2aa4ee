//! Checked path of a directory in which root writes: opened step by step, each step checked before
//! the next one.
//!
//! ```text
//!   / or .  ──openat, no links──►  step  ──openat──►  …  ──►  descriptor of the directory
//!              owner root?             owner root?
//!              only root writes?       only root writes, or sticky?
//! ```
//!
//! A step that another user owns or can write to is refused: that user could exchange the entries
//! below it at any moment. A sticky directory of root's (`/tmp`) is accepted: each entry in it
//! belongs to its creator. Symbolic links are followed only if they belong to root.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, fstat};

use super::identity::name_of;

/// Symbolic links on one path, as the kernel has it (`MAXSYMLINKS`, include/linux/namei.h).
const LINKS_MAX: u32 = 40;

/// Directories in which root may write on most machines.
const PLACES: [&str; 3] = ["/var/tmp", "/tmp", "/root"];

/// Flags of a descriptor that only holds a directory, without the right to read it.
const HOLD: OFlag = OFlag::O_PATH.union(OFlag::O_CLOEXEC);

/// Reason for which root does not write to a directory.
#[derive(Debug)]
struct PathRefusal {
    step: PathBuf,
    why: String,
    /// Owner of the directory, if that is not root.
    owner: Option<u32>,
}

impl fmt::Display for PathRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, why, owner } = self;
        write!(f, "{} {why}, and root writes nothing below it; choose ", step.display())?;
        match PLACES.iter().find(|it| open_checked(Path::new(it)).is_ok()) {
            Some(place) => write!(f, "a directory that only root can exchange, such as {place}")?,
            None => f.write_str("a directory that only root can exchange")?,
        }
        let named = |it: u32| name_of(it).unwrap_or_else(|| it.to_string());
        match owner {
            Some(user) => write!(f, ", or record as that user: --as-user {}", named(*user)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PathRefusal {}

/// True if the path itself was refused.
pub(super) fn is_refused(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<PathRefusal>)
}

/// Opens a directory without a check.
pub(super) fn open_plain(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(AT_FDCWD, path, HOLD | OFlag::O_DIRECTORY, Mode::empty())?)
}

/// Opens a directory in which root may write.
///
/// # Errors
///
/// Another user owns a step or can write to it ([`is_refused`]); those of `openat(2)`.
pub(super) fn open_checked(path: &Path) -> io::Result<OwnedFd> {
    let start = Path::new(if path.is_absolute() { "/" } else { "." });
    let mut at = PathStep { held: open_plain(start)?, shown: start.to_owned() };
    at.check()?;
    let mut ahead = steps(path);
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        if name == "/" {
            at = PathStep { held: open_plain(Path::new("/"))?, shown: "/".into() };
            at.check()?;
            continue;
        }
        let held = openat(&at.held, name.as_os_str(), HOLD | OFlag::O_NOFOLLOW, Mode::empty())?;
        let shown = if name == ".." { at.shown.join("..") } else { at.shown.join(&name) };
        let next = PathStep { held, shown };
        let found = fstat(&next.held)?;
        match found.st_mode & libc::S_IFMT {
            libc::S_IFDIR => {
                next.check()?;
                at = next;
            }
            libc::S_IFLNK => {
                next.check_owner(&found)?;
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::ELOOP.into());
                }
                let target = readlinkat(&next.held, "")?;
                ahead.extend(steps(Path::new(&target)));
            }
            _ => return Err(Errno::ENOTDIR.into()),
        }
    }
    Ok(at.held)
}

/// Steps of a path, the last one first.
fn steps(path: &Path) -> Vec<OsString> {
    let step = |it: Component<'_>| (it != Component::CurDir).then(|| it.as_os_str().to_owned());
    let mut steps: Vec<OsString> = path.components().filter_map(step).collect();
    steps.reverse();
    steps
}

struct PathStep {
    held: OwnedFd,
    shown: PathBuf,
}

impl PathStep {
    fn check(&self) -> io::Result<()> {
        let found = fstat(&self.held)?;
        self.check_owner(&found)?;
        let writers = if found.st_mode & libc::S_IWOTH != 0 {
            Some("is writable by all users".to_owned())
        } else if found.st_mode & libc::S_IWGRP == 0 {
            None
        } else if found.st_gid != 0 {
            Some(format!("can be written to by group {}", found.st_gid))
        } else {
            // The bits of the group are then the maximum for all entries of the list (acl(5)).
            has_list(self.held.as_fd())
                .then(|| "can be written to by users in its access list".into())
        };
        match writers.filter(|_| found.st_mode & libc::S_ISVTX == 0) {
            Some(why) => Err(self.refused(why, None)),
            None => Ok(()),
        }
    }

    fn check_owner(&self, found: &FileStat) -> io::Result<()> {
        if found.st_uid == 0 || is_outside(found.st_uid) {
            return Ok(());
        }
        let name = name_of(found.st_uid).map_or(String::new(), |it| format!(" ({it})"));
        Err(self.refused(format!("belongs to user {}{name}", found.st_uid), Some(found.st_uid)))
    }

    fn refused(&self, why: String, owner: Option<u32>) -> io::Error {
        let step = if self.shown == Path::new(".") {
            std::env::current_dir().unwrap_or_else(|_| self.shown.clone())
        } else {
            self.shown.strip_prefix("./").map_or_else(|_| self.shown.clone(), Path::to_owned)
        };
        io::Error::new(io::ErrorKind::PermissionDenied, PathRefusal { step, why, owner })
    }
}

/// True, in a user namespace, for the number of users outside of that namespace: its root has no
/// rights over their files.
fn is_outside(owner: u32) -> bool {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let overflow = text("/proc/sys/kernel/overflowuid").trim().parse() == Ok(owner);
    overflow && !text("/proc/self/uid_map").split_whitespace().eq(["0", "0", "4294967295"])
}

/// True if a directory has an access control list.
fn has_list(held: BorrowedFd<'_>) -> bool {
    let path = format!("/proc/self/fd/{}\0", held.as_raw_fd());
    let path = OsStr::new(&path).as_bytes();
    let name = c"system.posix_acl_access";
    // SAFETY: both texts end with NUL and outlive the call; with a size of 0 the kernel writes
    // nothing.
    let size =
        unsafe { libc::getxattr(path.as_ptr().cast(), name.as_ptr(), std::ptr::null_mut(), 0) };
    size >= 0
}
