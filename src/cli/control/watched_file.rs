//! File of a command: identity, name, and extents on its device.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::analysis::watch::NewWatch;
use crate::operation::attribution::FileKey;
use crate::sys::{fiemap, files};
use crate::units::{DevId, KernelTime};

/// Reason for which a path is refused: it leads to a directory, a device, a pipe, or to a file that
/// the kernel generates.
const REFUSED: &str = "it is not a regular file of a disk or of memory";

/// File to which a word of a command leads.
#[derive(Debug)]
pub(super) struct WatchTarget {
    pub(super) word: Vec<u8>,
    pub(super) found: Option<RegularFile>,
}

/// An existing regular file.
#[derive(Debug)]
pub(super) struct RegularFile {
    pub(super) key: FileKey,
    name: String,
    path: Vec<u8>,
    runs: Vec<(u64, u64)>,
}

impl RegularFile {
    /// Returns the file to be watched from a time on.
    pub(super) fn watched(self, max: usize, at: KernelTime) -> NewWatch {
        let Self { key, name, path, runs } = self;
        NewWatch { key, name, path, max, at, runs }
    }
}

/// Finds a file by its absolute path.
pub(super) fn look(path: &[u8]) -> Result<RegularFile, String> {
    let path = Path::new(OsStr::from_bytes(path));
    if !path.is_absolute() {
        return Err("the path must be absolute".to_owned());
    }
    let failed = |error: io::Error| error.to_string();
    let path = path.canonicalize().map_err(failed)?;
    let bytes = path.into_os_string().into_vec();
    let held = hold(&bytes).map_err(failed)?;
    let key = held.key.ok_or(REFUSED)?;
    let runs = runs(&held.open().map_err(failed)?);
    Ok(RegularFile { key, name: format!("{}_{}", device_name(key.0), key.1), path: bytes, runs })
}

/// Identity of the file to which a path leads, if it exists.
pub(super) fn key_of(path: &[u8]) -> Option<FileKey> {
    let is_absolute = path.starts_with(b"/");
    let found = is_absolute.then(|| files::stat_and_mount_behind(OsStr::from_bytes(path)));
    found.flatten().map(|(stat, _)| (stat.dev, stat.ino))
}

/// Current extents of a file, if the path still leads to it.
pub(super) fn places(path: &[u8], key: FileKey) -> Option<Vec<(u64, u64)>> {
    let held = hold(path).ok().filter(|held| held.key == Some(key))?;
    Some(runs(&held.open().ok()?))
}

/// A file that is held but not opened, so that a file in its place has no effect.
///
/// The handle is short-lived: the file may be removed, and its file system unmounted.
struct HeldPath {
    handle: File,
    /// Identity of the file, if it is regular.
    key: Option<FileKey>,
}

/// Holds the file at a path; a link is not followed.
fn hold(path: &[u8]) -> io::Result<HeldPath> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let handle = OpenOptions::new().read(true).custom_flags(flags).open(OsStr::from_bytes(path))?;
    let is_file = handle.metadata()?.is_file() && !files::is_of_kernel(&handle)?;
    let stat = files::stat_behind(&held_at(&handle)).ok_or_else(io::Error::last_os_error)?;
    Ok(HeldPath { handle, key: is_file.then_some((stat.dev, stat.ino)) })
}

impl HeldPath {
    /// Opens the held file, even if its path leads elsewhere by now.
    fn open(&self) -> io::Result<File> {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOATIME;
        OpenOptions::new().read(true).custom_flags(flags).open(held_at(&self.handle))
    }
}

fn held_at(handle: &File) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

/// Addresses and lengths; none if the file system does not report them.
fn runs(file: &File) -> Vec<(u64, u64)> {
    let runs = fiemap::runs(file).unwrap_or_default();
    runs.into_iter().map(|run| (run.address, run.length)).collect()
}

/// Kernel's name of the device; its number if it has no name (btrfs, overlay, network).
fn device_name(dev: DevId) -> String {
    let link = std::fs::read_link(format!("/sys/dev/block/{dev}")).ok();
    let name = link.and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
    name.unwrap_or_else(|| dev.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn replaced_file_is_not_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().canonicalize().expect("it is there").join("file");
        let bytes = path.as_os_str().as_bytes();
        fs::write(&path, "one").expect("written");
        let key = look(bytes).expect("a file").key;
        assert!(places(bytes, key).is_some());
        let held = hold(bytes).expect("it is there");
        fs::rename(&path, dir.path().join("moved")).expect("moved");
        fs::write(&path, "another").expect("written");
        assert_eq!(io::read_to_string(held.open().expect("it is there")).expect("read"), "one");
        assert_eq!(places(bytes, key), None);
        fs::remove_file(&path).expect("removed");
        symlink(dir.path().join("moved"), &path).expect("a link");
        assert_eq!(places(bytes, key), None, "a link to it is not the file");
        fs::remove_file(&path).expect("removed");
        // An open of a FIFO waits for a writer.
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        assert_eq!(look(bytes).expect_err("no file"), REFUSED);
        assert_eq!(places(bytes, key), None);
        // Files that the kernel generates seem to be regular.
        for path in ["/proc/self/mem", "/proc/self/maps", "/sys/kernel/notes"] {
            assert_eq!(look(path.as_bytes()).expect_err(path), REFUSED, "{path}");
        }
    }
}
