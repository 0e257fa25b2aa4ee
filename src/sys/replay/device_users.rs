//! Users of a block device: mounts, swap, devices built upon it, and processes that have it open.
//!
//! The kernel's own check is an exclusive open ([`super::block_device`]). This module names the
//! users, and finds those without such an open: the files of loop devices, and programs that have a
//! device open.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::sys::mounts;
use crate::units::DevId;

/// A block device, its partitions, and its backing file.
#[derive(Debug)]
pub struct DeviceUsers {
    /// Numbers of the device and its partitions.
    all: Vec<DevId>,
    /// The backing file of a loop device.
    backing_file: Option<PathBuf>,
}

impl DeviceUsers {
    /// The device with this number.
    pub fn new(dev: DevId) -> Self {
        let place = place(dev);
        let parts = children(&place).into_iter().filter(|it| it.join("partition").exists());
        let numbers = parts.filter_map(|it| DevId::parse(text(&it.join("dev"))?.as_str()));
        let all = [dev].into_iter().chain(numbers).collect();
        let backing_file = text(&place.join("loop/backing_file")).map(PathBuf::from);
        Self { all, backing_file }
    }

    /// The backing device of a loop device whose file is a block device.
    pub fn backing_device(&self) -> Option<&Path> {
        self.backing_file.as_deref().filter(|file| device_at(file).is_some())
    }

    /// Describes a user of the device, other than the loop device `own` that is backed by it;
    /// `None`: no user is known.
    pub fn user_but(&self, own: Option<DevId>) -> Option<String> {
        self.mounted()
            .or_else(|| self.swapped_to())
            .or_else(|| self.held())
            .or_else(|| self.loop_device_upon(own))
    }

    fn is(&self, path: &Path) -> bool {
        device_at(path).is_some_and(|it| self.all.contains(&it))
    }

    /// True if the file is the device's backing file.
    fn is_backing_file(&self, path: &Path) -> bool {
        let identity = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
        let own = self.backing_file.as_deref().and_then(identity);
        own.is_some_and(|own| Some(own) == identity(path))
    }

    /// Mount of the device. Some file systems (btrfs) have device numbers of their own, so the
    /// source's name is compared, too.
    fn mounted(&self) -> Option<String> {
        let mounts = mounts::mounts_of("/proc/self").ok()?;
        let numbers: Vec<String> = self.all.iter().map(ToString::to_string).collect();
        let is_own = |number: &str, source: Option<&str>| {
            numbers.iter().any(|it| it == number) || source.is_some_and(|it| self.is(Path::new(it)))
        };
        let found = mounts.iter().find(|it| is_own(&it.majmin, it.mount_source.as_deref()))?;
        Some(format!("it, or a part of it, is mounted at {}", found.mount_point.display()))
    }

    /// Swap on the device. `/proc/swaps`: a line of titles, then one for each swap area, with the
    /// path first.
    fn swapped_to(&self) -> Option<String> {
        let swaps = fs::read_to_string("/proc/swaps").ok()?;
        let mut paths = swaps.lines().skip(1).filter_map(|it| it.split_whitespace().next());
        let path =
            paths.find(|it| self.is(Path::new(it)) || self.is_backing_file(Path::new(it)))?;
        Some(format!("the kernel swaps to {path}"))
    }

    /// Devices that are built upon it: dm, md, bcache.
    fn held(&self) -> Option<String> {
        let holders = self.all.iter().flat_map(|it| children(&place(*it).join("holders")));
        let names: Vec<String> = holders.map(|it| name(&it)).collect();
        (!names.is_empty()).then(|| format!("it is a part of {}", names.join(", ")))
    }

    /// A loop device that is backed by the device, or by the same file.
    fn loop_device_upon(&self, own: Option<DevId>) -> Option<String> {
        let loops = children(Path::new("/sys/block"));
        loops.into_iter().find_map(|device| {
            let path = PathBuf::from(text(&device.join("loop/backing_file"))?);
            let number = DevId::parse(text(&device.join("dev"))?.as_str())?;
            let is_other = !self.all.contains(&number) && Some(number) != own;
            (is_other && (self.is(&path) || self.is_backing_file(&path)))
                .then(|| format!("{} is backed by the same bytes", name(&device)))
        })
    }

    /// Another process that has the device open.
    pub fn opened(&self) -> Option<String> {
        let own = std::process::id().to_string();
        let processes = children(Path::new("/proc")).into_iter().filter(|process| {
            let name = name(process);
            name.bytes().all(|it| it.is_ascii_digit()) && name != own
        });
        processes.into_iter().find_map(|process| {
            let mut open = children(&process.join("fd")).into_iter();
            open.find(|it| self.is(it))?;
            let comm = text(&process.join("comm")).unwrap_or_default();
            Some(format!("process {} ({comm}) has it open", name(&process)))
        })
    }
}

/// Directory of a device in `/sys`.
fn place(dev: DevId) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{dev}"))
}

/// Number of the block device that a path leads to.
pub(super) fn device_at(path: &Path) -> Option<DevId> {
    let found = fs::metadata(path).ok().filter(|it| it.file_type().is_block_device())?;
    Some(DevId::new(libc::major(found.rdev()), libc::minor(found.rdev())))
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    found.map(|it| it.path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|it| it.trim_end().to_owned())
}
