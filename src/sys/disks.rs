//! Block devices as `/sys` describes them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::capture::header::{Disk, LoopFile, Partition};
use crate::units::DevId;

/// Reason for which a word does not name a disk.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoDisk {
    /// A partition: the kernel traces requests of whole disks only.
    #[error("{partition} is a partition: its requests are those of its disk {disk}; use -d {disk}")]
    Partition {
        /// Name of the partition.
        partition: String,
        /// Name of its disk.
        disk: String,
    },
    /// There is no such device.
    #[error("there is no block device {word}; there are {}", there.join(" "))]
    Unknown {
        /// Word that was looked up.
        word: String,
        /// Names of the disks.
        there: Vec<String>,
    },
}

/// Finds the disk that a word names: `sda`, `/dev/sda`, a link to it (`/dev/mapper/root`,
/// `/dev/disk/by-id/…`), or `8:0`.
///
/// # Errors
///
/// [`NoDisk`].
pub fn find(word: &str) -> Result<DevId, NoDisk> {
    let unknown = || NoDisk::Unknown {
        word: word.to_owned(),
        there: entries(Path::new(BLOCK)).iter().map(|it| device_name(it)).collect(),
    };
    let place = by_name(word).or_else(|| by_number(word)).or_else(|| by_node(word));
    let place = place.and_then(|it| fs::canonicalize(it).ok()).ok_or_else(unknown)?;
    if place.join("partition").exists() {
        let disk = place.parent().map(device_name).unwrap_or_default();
        return Err(NoDisk::Partition { partition: device_name(&place), disk });
    }
    line(&place.join("dev")).and_then(|it| DevId::parse(&it)).ok_or_else(unknown)
}

/// Disks, without their partitions.
const BLOCK: &str = "/sys/block";

/// Finds a disk by the kernel's name, in which `!` replaces `/` (`cciss!c0d0`).
fn by_name(word: &str) -> Option<PathBuf> {
    let name = word.strip_prefix("/dev/").unwrap_or(word).replace('/', "!");
    let is_name = !name.is_empty() && !name.starts_with('.');
    let place = Path::new("/sys/class/block").join(name);
    (is_name && place.exists()).then_some(place)
}

fn by_number(word: &str) -> Option<PathBuf> {
    Some(PathBuf::from(format!("/sys/dev/block/{}", DevId::parse(word)?)))
}

/// Finds a device file of another name, or a link to one.
fn by_node(word: &str) -> Option<PathBuf> {
    let found = [word.to_owned(), format!("/dev/{word}")]
        .into_iter()
        .find_map(|it| fs::metadata(it).ok().filter(|it| it.file_type().is_block_device()))?;
    let (major, minor) = (libc::major(found.rdev()), libc::minor(found.rdev()));
    Some(PathBuf::from(format!("/sys/dev/block/{major}:{minor}")))
}

/// Attributes that are kept of each disk: files below `/sys/block/NAME`, of any kind of disk.
const ATTRIBUTES: [&str; 38] = [
    "size",
    "ro",
    "removable",
    "device/vendor",
    "device/model",
    "device/rev",
    "device/serial",
    "device/wwid",
    "device/transport",
    "serial",
    "wwid",
    "queue/rotational",
    "queue/scheduler",
    "queue/logical_block_size",
    "queue/physical_block_size",
    "queue/minimum_io_size",
    "queue/optimal_io_size",
    "queue/nr_requests",
    "queue/max_sectors_kb",
    "queue/max_hw_sectors_kb",
    "queue/read_ahead_kb",
    "queue/write_cache",
    "queue/fua",
    "queue/discard_granularity",
    "queue/discard_max_bytes",
    "queue/zoned",
    "queue/nomerges",
    "loop/backing_file",
    "loop/offset",
    "loop/sizelimit",
    "loop/dio",
    "loop/partscan",
    "dm/name",
    "dm/uuid",
    "md/level",
    "md/raid_disks",
    "md/chunk_size",
    "md/array_state",
];

/// The block devices, by name.
pub fn disks() -> Vec<Disk> {
    entries(Path::new(BLOCK)).iter().map(|it| disk(it)).collect()
}

/// Disks and partitions by device and inode of their nodes in `/dev`.
pub fn nodes(disks: &[Disk]) -> HashMap<(DevId, u64), DevId> {
    let of_disk = |it: &Disk| (it.name.replace('!', "/"), it.dev.clone());
    let partitions = disks.iter().flat_map(|it| &it.partitions);
    let of_partition = |it: &Partition| (it.name.replace('!', "/"), it.dev.clone());
    let all = disks.iter().map(of_disk).chain(partitions.map(of_partition));
    let node = |(name, dev): (String, String)| {
        let found = fs::metadata(Path::new("/dev").join(name)).ok()?;
        let on = DevId::new(libc::major(found.dev()), libc::minor(found.dev()));
        Some(((on, found.ino()), DevId::parse(&dev)?))
    };
    all.filter_map(node).collect()
}

fn disk(place: &Path) -> Disk {
    let attribute = |it: &&str| Some(((*it).to_owned(), line(&place.join(it))?));
    let scheduler = line(&place.join("queue/scheduler")).unwrap_or_default();
    let names = |directory: &str| {
        entries(&place.join(directory)).iter().map(|it| device_name(it)).collect()
    };
    Disk {
        dev: line(&place.join("dev")).unwrap_or_default(),
        name: file_name(place),
        // "none [mq-deadline] kyber": the one in brackets is in use.
        scheduler: scheduler.split(['[', ']']).nth(1).unwrap_or(&scheduler).to_owned(),
        attributes: ATTRIBUTES.iter().filter_map(attribute).collect(),
        loop_file: loop_file(place),
        partitions: entries(place).iter().filter_map(|it| partition(it)).collect(),
        hardware_queues: Some(entries(&place.join("mq")).len() as u64).filter(|count| *count > 0),
        holders: names("holders"),
        slaves: names("slaves"),
    }
}

/// Identity of the file that `/sys/block/NAME/loop/backing_file` names, if it exists (`"
/// (deleted)"` ends the name of a deleted one).
fn loop_file(place: &Path) -> Option<LoopFile> {
    let mut path = fs::read(place.join("loop/backing_file")).ok()?;
    path.pop_if(|it| *it == b'\n');
    let found = fs::metadata(OsStr::from_bytes(&path)).ok()?;
    let (major, minor) = (libc::major(found.dev()), libc::minor(found.dev()));
    Some(LoopFile { dev: format!("{major}:{minor}"), ino: found.ino() })
}

fn partition(place: &Path) -> Option<Partition> {
    let number = |file: &str| line(&place.join(file))?.parse().ok();
    place.join("partition").exists().then(|| Partition {
        dev: line(&place.join("dev")).unwrap_or_default(),
        name: file_name(place),
        start_sectors: number("start"),
        sectors: number("size"),
    })
}

/// Entries of a directory, sorted by name.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = found.map(|it| it.path()).collect();
    found.sort();
    found
}

/// Content of a file without the newline at its end; bytes that are not UTF-8 as `\xNN`. `None`:
/// the file does not exist, or is empty.
fn line(path: &Path) -> Option<String> {
    let mut bytes = fs::read(path).ok()?;
    bytes.pop_if(|it| *it == b'\n');
    Some(escaped(&bytes)).filter(|it| !it.is_empty())
}

fn file_name(place: &Path) -> String {
    escaped(place.file_name().map_or(&[][..], |it| it.as_bytes()))
}

/// Name of a device in `/dev`.
fn device_name(place: &Path) -> String {
    file_name(place).replace('!', "/")
}

fn escaped(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_disk_is_found_by_all_its_names() {
        for disk in disks() {
            let number = DevId::parse(&disk.dev).expect("a number");
            for word in [disk.name.as_str(), &format!("/dev/{}", disk.name), &disk.dev] {
                assert_eq!(find(word), Ok(number), "{word}");
            }
            assert_eq!(disk.attributes.get("size").map(|it| it.parse::<u64>().is_ok()), Some(true));
        }
    }

    #[test]
    fn unknown_disk_is_reported_with_the_existing_ones() {
        for word in ["no-such-disk", "/dev/null", "", ".", "..", "4095:1048575"] {
            let there = disks().into_iter().map(|it| it.name.replace('!', "/")).collect();
            assert_eq!(find(word), Err(NoDisk::Unknown { word: word.to_owned(), there }));
        }
    }

    /// Builds a tree as `/sys/block/NAME` has it.
    #[test]
    fn partitions_and_odd_bytes_are_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = dir.path().join("cciss!c0d0");
        let files: [(&str, &[u8]); 10] = [
            ("dev", b"104:0\n"),
            ("size", b"2048\n"),
            ("device/model", b"Odd \xff \n"),
            ("queue/scheduler", b"none [kyber] bfq\n"),
            ("queue/fua", b"\n"),
            ("cciss!c0d0p1/partition", b"1\n"),
            ("cciss!c0d0p1/dev", b"104:1\n"),
            ("cciss!c0d0p1/start", b"64\n"),
            ("cciss!c0d0p1/size", b"1984\n"),
            ("holders/dm-0", b""),
        ];
        for (path, bytes) in files {
            let path = place.join(path);
            fs::create_dir_all(path.parent().expect("one")).expect("a directory");
            fs::write(path, bytes).expect("a file");
        }
        let it = disk(&place);
        assert_eq!((it.dev.as_str(), it.name.as_str()), ("104:0", "cciss!c0d0"));
        assert_eq!(it.scheduler, "kyber");
        assert_eq!(it.attributes.get("device/model").map(String::as_str), Some("Odd \\xff "));
        assert_eq!(it.attributes.get("queue/fua"), None);
        assert_eq!(it.attributes.len(), 3);
        let partition = Partition {
            dev: "104:1".into(),
            name: "cciss!c0d0p1".into(),
            start_sectors: Some(64),
            sectors: Some(1984),
        };
        assert_eq!((it.partitions, it.holders), (vec![partition], vec!["dm-0".to_owned()]));
        assert_eq!(it.slaves, [] as [String; 0]);
    }
}
