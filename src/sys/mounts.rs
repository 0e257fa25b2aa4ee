//! Mounts: block sizes of mounted file systems, and notification of mounts and unmounts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::statfs::statfs;
use procfs::FromBufRead;
use procfs::process::{MountInfo, MountInfos};

use super::clock;
use crate::capture::fact::{Fact, Text};
use crate::units::Pid;

/// List of the mounts in our mount namespace.
const MOUNTINFO: &str = "/proc/self/mountinfo";

/// File systems whose events count in blocks.
const COUNT_IN_BLOCKS: [&str; 3] = ["ext2", "ext3", "ext4"];

/// Notification of changed mounts: the file then has exceptional data to read (`mounts_poll()` in
/// `fs/proc_namespace.c`).
#[derive(Debug)]
pub struct MountWatch(File);

impl MountWatch {
    /// Begins to watch the mounts.
    ///
    /// # Errors
    ///
    /// Those of opening `/proc/self/mountinfo`.
    pub fn new() -> io::Result<Self> {
        File::open(MOUNTINFO).map(Self)
    }

    /// True if a file system was mounted or unmounted since the last call.
    pub fn has_changed(&self) -> bool {
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLPRI)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|it| it > 0)
    }
}

impl AsFd for MountWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Limit on the `mountinfo` of a process, in bytes. A namespace may have 100,000 mounts
/// (`fs.mount-max`), and each line has two paths that a user may have chosen.
const MOUNTINFO_BYTES_MAX: u64 = 32 << 20;

/// Mounts in the namespace of the process of this directory of `/proc`.
///
/// # Errors
///
/// Those of reading its `mountinfo`; `FileTooLarge`: it is longer than the limit.
pub fn mounts_of(process: &str) -> io::Result<Vec<MountInfo>> {
    let file = File::open(format!("{process}/mountinfo"))?;
    let text = within(file, MOUNTINFO_BYTES_MAX)?;
    // One mount point that is not UTF-8 must not hide all others.
    let text = String::from_utf8_lossy(&text);
    let mounts = MountInfos::from_buf_read(text.as_bytes()).map_err(io::Error::other)?;
    let whole = |it: MountInfo| MountInfo { mount_point: unescaped(&it.mount_point), ..it };
    Ok(mounts.0.into_iter().map(whole).collect())
}

/// Reads all of it, if it has at most this number of bytes.
fn within(from: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = from.take(bytes_max.saturating_add(1)).read_to_end(&mut text)?;
    if read as u64 > bytes_max { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
}

/// Reverses the escapes of spaces, tabs, line ends and backslashes: `\\` and three octal digits
/// (`mangle_path()` in `fs/seq_file.c`).
fn unescaped(path: &Path) -> PathBuf {
    let mut rest = path.as_os_str().as_bytes();
    let mut plain = Vec::with_capacity(rest.len());
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| first == b'\\');
        let digits = digits.and_then(|it| std::str::from_utf8(it).ok());
        match digits.and_then(|it| u8::from_str_radix(it, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(plain))
}

/// Devices of the file systems that are mounted here, and the size of the blocks in which their
/// events count, as a fact. Only file systems on devices are queried: one of the network may not
/// respond.
///
/// # Errors
/// # Errors
///
/// Those of reading `/proc/self/mountinfo`.
pub fn file_systems() -> io::Result<Fact> {
    let mounts = mounts_of("/proc/self")?;
    let lines: BTreeSet<String> = mounts.iter().filter_map(line).collect();
    let (time, which) = (clock::now(), Text::BLOCKS);
    let text = Vec::from_iter(lines).concat().into_bytes();
    Ok(Fact::Text { time, which, pid: Pid(0), text })
}

fn line(mount: &MountInfo) -> Option<String> {
    if mount.majmin.starts_with("0:") {
        // btrfs: its number is not that of a device, but its mount source is a device.
        let from = mount.mount_source.as_deref().filter(|it| it.starts_with("/dev/"))?;
        // Users may mount FUSE file systems with any name as the source.
        if mount.fs_type.split('.').next() == Some("fuse") {
            return None;
        }
        let node = fs::metadata(from).ok()?;
        let is_block = node.file_type().is_block_device();
        return is_block.then(|| format!("{} -\n", number(node.rdev())));
    }
    if !COUNT_IN_BLOCKS.contains(&mount.fs_type.as_str()) {
        return Some(format!("{} -\n", mount.majmin));
    }
    // Another file system may be mounted over it.
    let there = number(fs::metadata(&mount.mount_point).ok()?.dev());
    let bytes = statfs(&mount.mount_point).ok()?.block_size();
    (there == mount.majmin).then(|| format!("{there} {bytes}\n"))
}

fn number(dev: u64) -> String {
    format!("{}:{}", nix::sys::stat::major(dev), nix::sys::stat::minor(dev))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_unescaped() {
        let check = |escaped: &str, plain: &str| {
            assert_eq!(unescaped(Path::new(escaped)), Path::new(plain), "{escaped}");
        };
        check("/mnt/a\\040b\\134c\\011", "/mnt/a b\\c\t");
        check("/mnt/a\\04", "/mnt/a\\04");
        check("/mnt/\\", "/mnt/\\");
    }

    /// Fails if the mounts of a user's namespace are read without a limit.
    #[test]
    fn mounts_are_read_within_a_bound() {
        assert_eq!(within(&b"1234"[..], 4).expect("just enough"), b"1234");
        let error = within(io::repeat(b'x'), 4096).expect_err("endless");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    /// Fails if a user decides, by the source of a mount, how a device's events count.
    #[test]
    fn user_mounts_give_no_devices() {
        let Some(device) = fs::read_dir("/dev")
            .expect("it is there")
            .flatten()
            .find(|it| it.file_type().is_ok_and(|it| it.is_block_device()))
        else {
            return;
        };
        let device = device.path().display().to_string();
        let of = |kind: &str| {
            let text = format!("40 1 0:50 / /mnt rw - {kind} {device} rw\n");
            let mounts = MountInfos::from_buf_read(text.as_bytes()).expect("a line");
            mounts.0.first().and_then(line)
        };
        assert!(of("btrfs").is_some_and(|it| it.ends_with(" -\n")));
        assert_eq!((of("fuse"), of("fuse.sshfs")), (None, None));
    }

    #[test]
    fn block_sizes_are_powers_of_two() {
        let Ok(Fact::Text { text, .. }) = file_systems() else { panic!("a text") };
        for line in String::from_utf8(text).expect("digits").lines() {
            let (dev, bytes) = line.split_once(' ').expect(line);
            assert!(crate::units::DevId::parse(dev).is_some(), "{line}");
            let bytes: u64 = if bytes == "-" { 1024 } else { bytes.parse().expect(line) };
            assert!(bytes.is_power_of_two() && (1024..=65536).contains(&bytes), "{line}");
        }
    }
}
