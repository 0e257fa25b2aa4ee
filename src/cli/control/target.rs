//! The file that somebody means: what it is, what it is called, where it lies.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::analysis::watch::New;
use crate::operation::behind::FileKey;
use crate::sys::{fiemap, files};
use crate::units::{DevId, KernelTime};

/// What a word of a question leads to.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) word: Vec<u8>,
    pub(super) found: Option<Found>,
}

/// A regular file that is there.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) key: FileKey,
    name: String,
    path: Vec<u8>,
    runs: Vec<(u64, u64)>,
}

impl Found {
    /// To be watched from a time on.
    pub(super) fn watched(self, max: usize, at: KernelTime) -> New {
        let Self { key, name, path, runs } = self;
        New { key, name, path, max, at, runs }
    }
}

/// Looks at a file, by its path from the root.
pub(super) fn look(path: &[u8]) -> Result<Found, String> {
    let path = Path::new(OsStr::from_bytes(path));
    if !path.is_absolute() {
        return Err("a path from the root is needed".to_owned());
    }
    let failed = |it: io::Error| it.to_string();
    let path = path.canonicalize().map_err(failed)?;
    // Not opened before it is known that this does nothing.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let bytes = path.into_os_string().into_vec();
    let (file, key) = open(&bytes).map_err(failed)?;
    let runs = runs(&file);
    Ok(Found { key, name: format!("{}_{}", device_name(key.0), key.1), path: bytes, runs })
}

/// Which file a path leads to, if it is there.
pub(super) fn key_of(path: &[u8]) -> Option<FileKey> {
    let is_absolute = path.starts_with(b"/");
    let found = is_absolute.then(|| files::stat_and_mount_behind(OsStr::from_bytes(path)));
    found.flatten().map(|(stat, _)| (stat.dev, stat.ino))
}

/// Where a file lies now, if it is still that one.
pub(super) fn places(path: &[u8], key: FileKey) -> Option<Vec<(u64, u64)>> {
    let (file, found) = open(path).ok()?;
    (found == key).then(|| runs(&file))
}

/// Nothing is kept open: the file may be removed, and its file system unmounted.
fn open(path: &[u8]) -> io::Result<(File, FileKey)> {
    use std::os::fd::AsRawFd;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOATIME;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(OsStr::from_bytes(path))?;
    let stat = files::stat_behind(&format!("/proc/self/fd/{}", file.as_raw_fd()));
    let stat = stat.ok_or_else(io::Error::last_os_error)?;
    Ok((file, (stat.dev, stat.ino)))
}

/// Addresses and lengths; none if the file system does not tell.
fn runs(file: &File) -> Vec<(u64, u64)> {
    let runs = fiemap::runs(file).unwrap_or_default();
    runs.into_iter().map(|it| (it.address, it.length)).collect()
}

/// What the kernel calls the device; its number if it has no name (btrfs, overlay, network).
fn device_name(dev: DevId) -> String {
    let link = std::fs::read_link(format!("/sys/dev/block/{dev}")).ok();
    let name = link.and_then(|it| Some(it.file_name()?.to_str()?.to_owned()));
    name.unwrap_or_else(|| dev.to_string())
}
