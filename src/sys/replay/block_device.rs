//! Block device of a replay: opened exclusively, and for writing only if that was requested.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use memmap2::{MmapMut, MmapOptions};
use thiserror::Error;

use super::device_users::{DeviceUsers, device_at};
use crate::sys::thread;
use crate::units::DevId;

/// `include/uapi/linux/fs.h`; arguments: an int, 64 bits, and twice 64 bits (first byte, bytes).
mod ioctls {
    nix::ioctl_read_bad!(block_bytes, nix::request_code_none!(0x12, 104), libc::c_int);
    nix::ioctl_read!(size_bytes, 0x12, 114, u64);
    nix::ioctl_write_ptr_bad!(discard_range, nix::request_code_none!(0x12, 119), [u64; 2]);
    nix::ioctl_write_ptr_bad!(zero_range, nix::request_code_none!(0x12, 127), [u64; 2]);
}

/// Reason for which a device is not used.
#[derive(Debug, Error)]
pub enum DeviceRefusal {
    /// The path leads to a file, a directory, …
    #[error(
        "{0} is not a block device: block requests are replayed on a whole disk or a partition"
    )]
    NoDevice(PathBuf),
    /// The device is in use.
    #[error("{path} is in use and is left alone: {by}")]
    InUse {
        /// The device.
        path: PathBuf,
        /// User of the device.
        by: String,
    },
    /// The device cannot be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The device.
        path: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
}

/// Limit on the checks whether a process still has the device open: programs that notice new
/// devices (udev) open them for a moment.
const LOOKS: u32 = 20;

/// Pause between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// An open block device.
#[derive(Debug)]
pub struct BlockTarget {
    file: File,
    /// Backing devices, claimed as long as the device is open.
    _backing: Vec<File>,
    /// Path of the device.
    pub path: PathBuf,
    /// Number of the device.
    pub dev: DevId,
    /// Length in bytes.
    pub size: u64,
    /// Logical block size: requests begin and end at multiples of this, bytes.
    pub block: u64,
}

impl BlockTarget {
    /// Opens an unused device (`/dev/NAME`, or `NAME`), for reading or also for writing.
    ///
    /// # Errors
    ///
    /// [`DeviceRefusal`].
    pub fn open(word: &Path, to_write: bool) -> Result<Self, DeviceRefusal> {
        let below = Path::new("/dev").join(word);
        let path = if word.exists() || !below.exists() { word.to_owned() } else { below };
        let failed = |source| DeviceRefusal::Open { path: path.clone(), source };
        path.metadata().map_err(failed)?;
        let dev = device_at(&path).ok_or_else(|| DeviceRefusal::NoDevice(path.clone()))?;
        let mut backing = Vec::new();
        check(&path, dev, to_write, &mut backing)?;
        let file = claim(&path, to_write)?;
        // The path may lead to another device by now.
        let metadata = file.metadata().map_err(failed)?;
        let (major, minor) = (libc::major(metadata.rdev()), libc::minor(metadata.rdev()));
        if !metadata.file_type().is_block_device() || DevId::new(major, minor) != dev {
            return Err(DeviceRefusal::NoDevice(path));
        }
        let fd = file.as_raw_fd();
        let (mut block, mut size) = (0, 0);
        // SAFETY: the kernel writes an int there, and the descriptor is ours.
        unsafe { ioctls::block_bytes(fd, &raw mut block) }.map_err(|it| failed(it.into()))?;
        // SAFETY: the kernel writes 64 bits there, and the descriptor is ours.
        unsafe { ioctls::size_bytes(fd, &raw mut size) }.map_err(|it| failed(it.into()))?;
        let block = u64::try_from(block).unwrap_or(0).max(1);
        Ok(Self { file, _backing: backing, path, dev, size, block })
    }

    /// Reads at an offset; returns the number of bytes.
    ///
    /// # Errors
    ///
    /// Errors of `pread(2)`.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    /// Writes at an offset; returns the number of bytes.
    ///
    /// # Errors
    ///
    /// Errors of `pwrite(2)`.
    pub fn write(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    /// Flushes the device's cache (`blkdev_fsync()` in `block/fops.c`).
    ///
    /// # Errors
    ///
    /// Errors of `fdatasync(2)`.
    pub fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Discards a range.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the device cannot.
    pub fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.range(ioctls::discard_range, [offset, bytes])
    }

    /// Writes zeros to a range, without transferring them if the device can.
    ///
    /// # Errors
    ///
    /// Errors of the device.
    pub fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.range(ioctls::zero_range, [offset, bytes])
    }

    fn range(
        &self,
        ioctl: unsafe fn(RawFd, *const [u64; 2]) -> nix::Result<libc::c_int>,
        range: [u64; 2],
    ) -> io::Result<()> {
        // SAFETY: both ioctls read twice 64 bits there; the descriptor is ours.
        unsafe { ioctl(self.file.as_raw_fd(), &raw const range) }?;
        Ok(())
    }
}

/// Checks that neither the device nor its backing device has users.
fn check(
    path: &Path,
    dev: DevId,
    to_write: bool,
    backing: &mut Vec<File>,
) -> Result<(), DeviceRefusal> {
    let device = DeviceUsers::new(dev);
    let in_use = |by| DeviceRefusal::InUse { path: path.to_owned(), by };
    if let Some(by) = device.user_but(None) {
        return Err(in_use(by));
    }
    for look in 1.. {
        // A process that has the device open does not matter to reads.
        match device.opened().filter(|_| to_write) {
            None => break,
            Some(by) if look == LOOKS => return Err(in_use(by)),
            Some(_) => thread::pause(LOOK_EVERY),
        }
    }
    let Some((below, number)) = device.backing_device().and_then(|it| Some((it, device_at(it)?)))
    else {
        return Ok(());
    };
    // The loop device itself uses its backing device.
    let (loop_device, dev) = (dev, number);
    let device = DeviceUsers::new(dev);
    if let Some(by) = device.user_but(Some(loop_device)) {
        return Err(DeviceRefusal::InUse { path: below.to_owned(), by });
    }
    backing.push(claim(below, false)?);
    Ok(())
}

/// Opens a block device exclusively (`O_EXCL`, open(2)).
fn claim(path: &Path, to_write: bool) -> Result<File, DeviceRefusal> {
    let flags = libc::O_EXCL | libc::O_DIRECT | libc::O_CLOEXEC;
    let opened = OpenOptions::new().read(true).write(to_write).custom_flags(flags).open(path);
    opened.map_err(|source| match source.raw_os_error() {
        Some(libc::EBUSY) => DeviceRefusal::InUse {
            path: path.to_owned(),
            by: "the kernel, or a program, has it open exclusively".to_owned(),
        },
        _ => DeviceRefusal::Open { path: path.to_owned(), source },
    })
}

/// Memory for reads and writes: whole pages, as direct I/O requires.
#[derive(Debug)]
pub struct DirectBuffer(MmapMut);

impl DirectBuffer {
    /// Allocates this number of bytes.
    ///
    /// # Errors
    ///
    /// The kernel has not enough memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        Ok(Self(MmapOptions::new().len(bytes.max(1)).map_anon()?))
    }

    /// Bytes of the buffer, to be read.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Bytes of the buffer, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
