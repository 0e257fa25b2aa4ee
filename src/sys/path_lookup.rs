//! Files by the path that a thread has passed to a call, found from the outside as the thread finds
//! them.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, open, openat2, readlink};
use nix::sys::stat::Mode;

use super::files::{stat_and_mount_behind, stat_of};
use crate::event::FileStat;
use crate::units::{Fd, Tid};

/// Root directory: its file, and the number of the mount that leads to it.
type RootIdentity = (FileStat, Option<u64>);

/// Lookup of paths for threads that have the tracer's root directory. Other roots are those of
/// containers; an absolute symbolic link leads elsewhere there.
#[derive(Clone, Debug)]
pub struct PathLookup {
    root: Option<RootIdentity>,
}

/// Directory at which a path that is not absolute begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathBase {
    /// Working directory of the thread.
    WorkingDirectory,
    /// Descriptor of the thread's process.
    Descriptor(Fd),
}

impl PathLookup {
    /// Returns a lookup from the tracer's own root directory.
    pub fn new() -> Self {
        Self { root: stat_and_mount_behind(OsStr::new("/proc/thread-self/root")) }
    }

    /// Returns the resolved path and the status of the file to which this path of the thread leads
    /// now. Symbolic links of `/proc` are not followed: for the tracer, some lead elsewhere.
    ///
    /// # Errors
    ///
    /// `EXDEV`: the thread has another root directory; `ELOOP`: a link of `/proc`; `ENOENT`,
    /// `ESRCH`: the thread has ended, or no file has the path; those of `openat2(2)` and
    /// `readlink(2)`.
    pub fn find(
        &self,
        tid: Tid,
        base: PathBase,
        path: &[u8],
        follows_last: bool,
    ) -> nix::Result<(Vec<u8>, FileStat)> {
        let root = stat_and_mount_behind(OsStr::new(&format!("/proc/{tid}/root")));
        let same = |(stat, mount): RootIdentity| (stat.inode(), mount);
        let Some(root) = root else { return Err(Errno::ESRCH) };
        if self.root.map(same) != Some(same(root)) {
            return Err(Errno::EXDEV);
        }
        let directory = (!path.starts_with(b"/")).then(|| match base {
            PathBase::WorkingDirectory => format!("/proc/{tid}/cwd"),
            PathBase::Descriptor(fd) => format!("/proc/{tid}/fd/{}", fd.0),
        });
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let directory = directory
            .map(|it| open(it.as_str(), flags | OFlag::O_DIRECTORY, Mode::empty()))
            .transpose()?;
        let last = if follows_last { OFlag::empty() } else { OFlag::O_NOFOLLOW };
        let how = OpenHow::new().flags(flags | last).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let path = OsStr::from_bytes(path);
        let file = match &directory {
            Some(directory) => openat2(directory, path, how),
            None => openat2(AT_FDCWD, path, how),
        }?;
        let link = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
        let stat = stat_of(&file).ok_or(Errno::ESTALE)?;
        readlink(link.as_str()).map(OsString::into_vec).map(|name| (name, stat))
    }
}

impl Default for PathLookup {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;
    use crate::sys::thread::own_tid;

    #[test]
    fn paths_lead_where_they_lead_the_thread() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("a path");
        fs::write(root.join("file"), "text").expect("written");
        symlink("file", root.join("link")).expect("a link");
        let directory = fs::File::open(&root).expect("opened");
        let base = PathBase::Descriptor(Fd(directory.as_raw_fd()));
        let lookup = PathLookup::new();
        let find = |base, path: &str, follows| {
            let found = lookup.find(own_tid(), base, path.as_bytes(), follows);
            found.map(|(name, stat)| (OsString::from_vec(name).into(), stat.ino))
        };
        let ino = |name: &str| fs::symlink_metadata(root.join(name)).expect("there").ino();
        let expected: (std::path::PathBuf, u64) = (root.join("file"), ino("file"));
        let whole = |name: &str| root.join(name).to_str().expect("text").to_owned();
        let current = PathBase::WorkingDirectory;
        assert_eq!(find(current, &whole("link"), true), Ok(expected.clone()));
        assert_eq!(find(base, "link", true), Ok(expected));
        assert_eq!(find(base, "link", false), Ok((root.join("link"), ino("link"))));
        assert_eq!(find(base, "gone", true), Err(Errno::ENOENT));
        assert_eq!(find(current, "/proc/self/exe", true), Err(Errno::ELOOP));
        let cargo = find(current, "Cargo.toml", true).expect("tests run in the package's folder");
        assert_eq!(cargo.0.file_name(), Some(OsStr::new("Cargo.toml")));
    }

    #[test]
    fn threads_with_another_root_are_left_out() {
        let lookup = PathLookup { root: None };
        let found = lookup.find(own_tid(), PathBase::WorkingDirectory, b"/", true);
        assert_eq!(found.map(|it| it.0), Err(Errno::EXDEV));
    }
}
