//! How large the blocks of mounted file systems are, and when something is mounted or unmounted.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use nix::sys::statfs::statfs;
use procfs::FromBufRead;
use procfs::process::{MountInfo, MountInfos};

use super::clock;
use crate::capture::fact::{Fact, Text};
use crate::units::{DevId, Pid};

/// What is mounted in our mount namespace.
const MOUNTINFO: &str = "/proc/self/mountinfo";

/// File systems whose events count in blocks.
const COUNT_IN_BLOCKS: [&str; 3] = ["ext2", "ext3", "ext4"];

/// Tells when mounts change: then it has something urgent to read (`mounts_poll()` in `fs/proc_namespace.c`).
#[derive(Debug)]
pub struct MountWatch(File);

impl MountWatch {
    /// Begins to watch.
    ///
    /// # Errors
    ///
    /// Those of opening `/proc/self/mountinfo`.
    pub fn new() -> io::Result<Self> {
        File::open(MOUNTINFO).map(Self)
    }
}

impl AsFd for MountWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Bytes of the blocks of those file systems, as a fact. Only they are asked: one of the network may not answer.
///
/// # Errors
///
/// Those of reading `/proc/self/mountinfo`.
pub fn block_sizes() -> io::Result<Fact> {
    let text = fs::read(MOUNTINFO)?;
    let mounts = MountInfos::from_buf_read(text.as_slice()).map_err(io::Error::other)?;
    let counted = mounts.0.iter().filter(|it| COUNT_IN_BLOCKS.contains(&it.fs_type.as_str()));
    let lines: String = counted.filter_map(line).collect();
    let (time, which) = (clock::now(), Text::BLOCKS);
    Ok(Fact::Text { time, which, pid: Pid(0), text: lines.into_bytes() })
}

/// File systems that tell by events where files lie: those, and xfs.
///
/// # Errors
///
/// Those of reading `/proc/self/mountinfo`.
pub fn told_by_events() -> io::Result<Vec<DevId>> {
    let text = fs::read(MOUNTINFO)?;
    let mounts = MountInfos::from_buf_read(text.as_slice()).map_err(io::Error::other)?;
    let tells =
        |it: &&MountInfo| it.fs_type == "xfs" || COUNT_IN_BLOCKS.contains(&it.fs_type.as_str());
    Ok(mounts.0.iter().filter(tells).filter_map(|it| DevId::parse(&it.majmin)).collect())
}

fn line(mount: &MountInfo) -> Option<String> {
    // Something else may be mounted over it.
    let there = fs::metadata(&mount.mount_point).ok()?.dev();
    let dev = format!("{}:{}", nix::sys::stat::major(there), nix::sys::stat::minor(there));
    let bytes = statfs(&mount.mount_point).ok()?.block_size();
    (dev == mount.majmin).then(|| format!("{dev} {bytes}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_sizes_are_powers_of_two() {
        let Ok(Fact::Text { text, .. }) = block_sizes() else { panic!("a text") };
        for line in String::from_utf8(text).expect("digits").lines() {
            let bytes: u64 = line.split_once(' ').and_then(|it| it.1.parse().ok()).expect(line);
            assert!(bytes.is_power_of_two() && (1024..=65536).contains(&bytes), "{line}");
        }
    }
}
