//! Extents of the files that were seen, queried at the end. Events do not report the extents of all
//! files: not on all file systems, and ext4 reports an extent only once, possibly before the
//! recording (an extent that is overwritten in place was in memory).
//!
//! The tracer is not woken when a file is closed or synchronised, because that costs each such call
//! as much as a name does. So extents are queried once, at the end. Files that were removed or
//! moved by then stay unknown, and the result is only likely for the time before.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::stat::{major, minor};

use crate::capture::fact::{Fact, NameOf, Text};
use crate::event::FileStat;
use crate::sys::cancellation::Cancellation;
use crate::sys::{clock, fiemap, regular};
use crate::units::{DevId, Pid};

/// Largest number of files that are remembered.
const FILES_MAX: usize = 1 << 16;

/// Largest size of their paths, in bytes: a program can give each of its files a path of 4,096
/// bytes.
const PATH_BYTES_MAX: usize = 32 << 20;

/// Number of files from which on removed files are searched for: a program that creates and removes
/// files has no more entries than that.
const LOOK_AT_MIN: usize = 1 << 15;

/// Regular files on devices, with their names when they were seen.
#[derive(Debug, Default)]
pub struct SeenFiles {
    paths: HashMap<(DevId, u64), Vec<u8>>,
    /// Bytes of all paths.
    path_bytes: usize,
    /// Number of files at which removed files are searched for.
    look_at: usize,
    /// Bytes of all paths at which removed files are searched for.
    look_at_bytes: usize,
    /// Number of files for which there was no room, and of files that were removed.
    left_out: u64,
    /// Mounts at the last look: the lines of [`Text::BLOCKS`].
    mounted: Option<BTreeSet<String>>,
    /// Devices whose mounts changed during the recording: their extents at the end are not valid
    /// for the time before.
    changed: BTreeSet<String>,
}

impl SeenFiles {
    /// Stores the file that a fact describes, if any.
    pub fn note(&mut self, fact: &Fact) {
        let (stat, link) = match fact {
            Fact::Name { of: NameOf::Link, stat: Some(stat), bytes, .. } => (stat, bytes),
            Fact::Fd { stat: Some(stat), link, .. } => (stat, link),
            Fact::Opened { stat: Some(stat), bytes, .. } => (stat, bytes),
            Fact::Text { which: Text::BLOCKS, text, .. } => return self.note_mounts(text),
            _ => return,
        };
        // On file systems without a device of their own (btrfs, overlay, network) addresses are not
        // locations on a device.
        let is_on_device = stat.dev.major() != 0 && link.starts_with(b"/");
        if !is_on_device || !is_regular(stat) {
            return;
        }
        let is_due = self.paths.len() >= self.look_at.max(LOOK_AT_MIN) && self.look_at < FILES_MAX;
        let is_full = self.path_bytes >= self.look_at_bytes.max(PATH_BYTES_MAX / 2)
            && self.look_at_bytes < PATH_BYTES_MAX;
        if is_due || is_full {
            self.forget_gone();
        }
        self.keep(stat.dev, stat.ino, link);
    }

    fn keep(&mut self, dev: DevId, ino: u64, path: &[u8]) {
        let key = (dev, ino);
        let known = self.paths.get(&key).map(Vec::len);
        let path_bytes = self.path_bytes - known.unwrap_or(0) + path.len();
        if path_bytes <= PATH_BYTES_MAX && (self.paths.len() < FILES_MAX || known.is_some()) {
            self.paths.insert(key, path.to_vec());
            self.path_bytes = path_bytes;
        } else {
            self.left_out += u64::from(known.is_none());
        }
    }

    /// Drops removed files, which cannot be queried at the end. Runs when the number of files has
    /// doubled since the last run.
    fn forget_gone(&mut self) {
        let before = self.paths.len();
        self.paths.retain(|&(dev, ino), path| is_there(dev, ino, path));
        self.paths.shrink_to(2 * self.paths.len());
        self.path_bytes = self.paths.values().map(Vec::len).sum();
        self.left_out += (before - self.paths.len()) as u64;
        self.look_at = 2 * self.paths.len();
        self.look_at_bytes = 2 * self.path_bytes;
    }

    fn note_mounts(&mut self, text: &[u8]) {
        let now: BTreeSet<String> =
            String::from_utf8_lossy(text).lines().map(str::to_owned).collect();
        if let Some(before) = &self.mounted {
            let differ = before.symmetric_difference(&now);
            let devices = differ.filter_map(|it| Some(it.split_once(' ')?.0.to_owned()));
            self.changed.extend(devices);
        }
        self.mounted = Some(now);
    }

    /// Queries the extents. Returns a text for each file, and the number of files that could not be
    /// queried: they are gone, there was no room for them, their file system does not report
    /// extents or was mounted during the recording, or a signal ended the queries.
    pub fn query(self, cancellation: &mut Cancellation<'_>) -> (Vec<Fact>, u64) {
        let mut unqueried = self.left_out;
        let mut facts = Vec::new();
        for ((dev, ino), path) in self.paths {
            let is_same = !self.changed.contains(&dev.to_string());
            match (is_same && !cancellation.is_cancelled()).then(|| places(dev, ino, &path)) {
                Some(Ok(fact)) => facts.push(fact),
                Some(Err(_)) | None => unqueried += 1,
            }
        }
        (facts, unqueried)
    }
}

/// True if this file still has this name.
fn is_there(dev: DevId, ino: u64, path: &[u8]) -> bool {
    find(dev, ino, path).is_ok()
}

/// Finds the file that had this name, if it still has it, without following links and without
/// opening it. A directory of the path may have been replaced, or a link may lead to a device, a
/// FIFO, or files of other users.
fn find(dev: DevId, ino: u64, path: &[u8]) -> io::Result<File> {
    let place = regular::find_without_links(Path::new(OsStr::from_bytes(path)))?;
    let found = place.metadata()?;
    let found_dev = (major(found.dev()), minor(found.dev()));
    let is_same = found_dev == (dev.major().into(), dev.minor().into()) && found.ino() == ino;
    (is_same && found.is_file()).then_some(place).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn is_regular(stat: &FileStat) -> bool {
    stat.mode & libc::S_IFMT == libc::S_IFREG
}

/// Returns the text `MAJOR:MINOR INODE`, then `OFFSET ADDRESS LENGTH` in bytes for each run.
fn places(dev: DevId, ino: u64, path: &[u8]) -> io::Result<Fact> {
    let place = find(dev, ino, path)?;
    let file = regular::open_found(&place, libc::O_NOATIME)?;
    let mut text = format!("{dev} {ino}\n");
    for run in fiemap::runs(&file)? {
        text += &format!("{} {} {}\n", run.offset, run.address, run.length);
    }
    let (time, which) = (clock::now(), Text::EXTENTS);
    Ok(Fact::Text { time, which, pid: Pid(0), text: text.into_bytes() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    use crate::event::FileStat;
    use crate::sys::cancellation::testing::{ended_by, endless};
    use crate::units::{KernelTime, Tid};

    #[test]
    fn later_mounts_are_not_queried() {
        let mut seen = SeenFiles::default();
        for text in ["8:1 4096\n7:0 1024\n", "8:1 4096\n", "8:1 4096\n7:1 -\n"] {
            let (time, which, pid) = (KernelTime(0), Text::BLOCKS, Pid(0));
            seen.note(&Fact::Text { time, which, pid, text: text.into() });
        }
        assert_eq!(Vec::from_iter(seen.changed.iter().cloned()), ["7:0", "7:1"]);
        seen.paths.insert((DevId::new(7, 1), 2), b"/".to_vec());
        assert_eq!(seen.query(endless()), (Vec::new(), 1));
    }

    #[test]
    fn files_that_fanotify_reports_are_queried() {
        let stat = FileStat { mode: libc::S_IFREG, dev: DevId::new(8, 1), ino: 2, size: 0 };
        let (tid, since, until, end) = (Tid(7), KernelTime(1), KernelTime(2), KernelTime(3));
        let opened = |errno, stat, bytes: &[u8]| {
            let bytes = bytes.to_vec();
            Fact::Opened { tid, since, until, end, errno, stat, bytes }
        };
        let mut seen = SeenFiles::default();
        seen.note(&opened(libc::ESTALE, None, b""));
        seen.note(&opened(0, Some(FileStat { mode: libc::S_IFDIR, ..stat }), b"/d"));
        seen.note(&opened(0, Some(stat), b"/a"));
        seen.note(&opened(libc::EMLINK, Some(FileStat { ino: 3, ..stat }), b"/b"));
        let inodes: BTreeSet<u64> = seen.paths.keys().map(|key| key.1).collect();
        assert_eq!(inodes, BTreeSet::from([2, 3]));
    }

    /// Fails if files that a program creates and removes are kept, or if files that it keeps are
    /// not.
    #[test]
    fn closed_files_are_evicted() {
        let kept = std::env::current_exe().expect("the test program is a file");
        let found = std::fs::metadata(&kept).expect("it is there");
        let number = |it: u64| u32::try_from(it).expect("a small number");
        let dev = DevId::new(number(major(found.dev())), number(minor(found.dev())));
        let mut seen = SeenFiles::default();
        seen.paths.insert((dev, found.ino()), kept.into_os_string().into_vec());
        for ino in 0..3 * LOOK_AT_MIN as u64 {
            seen.paths.insert((DevId::new(7, 1), ino), b"/nowhere/at/all".to_vec());
            if seen.paths.len() >= seen.look_at.max(LOOK_AT_MIN) {
                seen.forget_gone();
            }
            assert!(seen.paths.len() <= LOOK_AT_MIN);
        }
        assert!(seen.paths.contains_key(&(dev, found.ino())));
        assert_eq!(seen.left_out + seen.paths.len() as u64, 3 * LOOK_AT_MIN as u64 + 1);
    }

    /// Fails if long paths take unlimited memory.
    #[test]
    fn paths_have_a_limit_together() {
        let mut seen = SeenFiles::default();
        let path = [b'x'; 4096];
        let room = (PATH_BYTES_MAX / path.len()) as u64;
        for ino in 0..room + 7 {
            seen.keep(DevId::new(8, 1), ino, &path);
            // The same path once more takes no room.
            seen.keep(DevId::new(8, 1), ino.min(room - 1), &path);
        }
        assert_eq!((seen.paths.len() as u64, seen.left_out), (room, 7));
        // A shorter name makes room.
        seen.keep(DevId::new(8, 1), 0, b"/a");
        seen.keep(DevId::new(8, 1), room + 7, b"/b");
        assert_eq!((seen.paths.len() as u64, seen.left_out), (room + 1, 7));
    }

    #[test]
    fn abandoned_queries_are_counted() {
        let mut seen = SeenFiles::default();
        let path = std::env::current_exe().expect("the test program is a file");
        let found = path.metadata().expect("it is there");
        let dev = DevId::new(
            u32::try_from(major(found.dev())).expect("a number"),
            u32::try_from(minor(found.dev())).expect("a number"),
        );
        for other in 0..3 {
            let path = path.clone().into_os_string().into_vec();
            seen.paths.insert((dev, found.ino() + other), path);
        }
        let cancellation = ended_by(libc::SIGINT);
        assert_eq!((seen.query(cancellation), cancellation.ended_by()), ((Vec::new(), 3), Some(2)));
    }
}
