//! A block device that requests are sent to: opened so that nobody else uses it, and nothing is written if that was not asked for.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use memmap2::{MmapMut, MmapOptions};
use thiserror::Error;

use super::in_use::{Device, device_at};
use super::thread;
use crate::units::DevId;

/// `include/uapi/linux/fs.h`; arguments: an int, 64 bits, and twice 64 bits (first byte, bytes).
mod ioctls {
    nix::ioctl_read_bad!(block_bytes, nix::request_code_none!(0x12, 104), libc::c_int);
    nix::ioctl_read!(size_bytes, 0x12, 114, u64);
    nix::ioctl_write_ptr_bad!(discard_range, nix::request_code_none!(0x12, 119), [u64; 2]);
    nix::ioctl_write_ptr_bad!(zero_range, nix::request_code_none!(0x12, 127), [u64; 2]);
}

/// Why a device is left alone.
#[derive(Debug, Error)]
pub enum Refused {
    /// A file, a directory, …
    #[error("{0} is no block device: block requests are replayed on a whole disk or a partition")]
    NoDevice(PathBuf),
    /// Somebody uses it.
    #[error("{path} is in use and is left alone: {by}")]
    InUse {
        /// The device.
        path: PathBuf,
        /// By whom.
        by: String,
    },
    /// The system said.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The device.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// How often it is looked whether whoever has it open goes away: whoever notices new devices (udev) looks at them for a moment.
const LOOKS: u32 = 20;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The device.
#[derive(Debug)]
pub struct Target {
    file: File,
    /// Devices behind it: they are nobody else's as long as we have them.
    _behind: Vec<File>,
    /// Where it is.
    pub path: PathBuf,
    /// Its number.
    pub dev: DevId,
    /// Its length in bytes.
    pub size: u64,
    /// Requests begin and end at multiples of this, bytes.
    pub block: u64,
}

impl Target {
    /// Opens a device (`/dev/NAME`, or `NAME`) that nobody uses, to be read, or written, too.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn open(word: &Path, to_write: bool) -> Result<Self, Refused> {
        let below = Path::new("/dev").join(word);
        let path = if word.exists() || !below.exists() { word.to_owned() } else { below };
        let failed = |source| Refused::Open { path: path.clone(), source };
        path.metadata().map_err(failed)?;
        let dev = device_at(&path).ok_or_else(|| Refused::NoDevice(path.clone()))?;
        let mut behind = Vec::new();
        check(&path, dev, to_write, &mut behind)?;
        let file = claim(&path, to_write)?;
        // It may be another one by now.
        let metadata = file.metadata().map_err(failed)?;
        let (major, minor) = (libc::major(metadata.rdev()), libc::minor(metadata.rdev()));
        if !metadata.file_type().is_block_device() || DevId::new(major, minor) != dev {
            return Err(Refused::NoDevice(path));
        }
        let fd = file.as_raw_fd();
        let (mut block, mut size) = (0, 0);
        // SAFETY: the kernel writes an int there, and the descriptor is ours.
        unsafe { ioctls::block_bytes(fd, &raw mut block) }.map_err(|it| failed(it.into()))?;
        // SAFETY: the kernel writes 64 bits there, and the descriptor is ours.
        unsafe { ioctls::size_bytes(fd, &raw mut size) }.map_err(|it| failed(it.into()))?;
        let block = u64::try_from(block).unwrap_or(0).max(1);
        Ok(Self { file, _behind: behind, path, dev, size, block })
    }

    /// Reads from here on; how much.
    ///
    /// # Errors
    ///
    /// Those of `pread(2)`.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    /// Writes; how much.
    ///
    /// # Errors
    ///
    /// Those of `pwrite(2)`.
    pub fn write(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    /// Has the device write out what it has cached (`blkdev_fsync()` in `block/fops.c`).
    ///
    /// # Errors
    ///
    /// Those of `fdatasync(2)`.
    pub fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Gives up what is there.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the device cannot.
    pub fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.range(ioctls::discard_range, [offset, bytes])
    }

    /// Writes zeros without sending them, if the device can.
    ///
    /// # Errors
    ///
    /// The device's own.
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

/// Nobody uses it, nor what it lies on.
fn check(path: &Path, dev: DevId, to_write: bool, behind: &mut Vec<File>) -> Result<(), Refused> {
    let device = Device::new(dev);
    let in_use = |by| Refused::InUse { path: path.to_owned(), by };
    if let Some(by) = device.user_but(None) {
        return Err(in_use(by));
    }
    for look in 1.. {
        // Who only reads disturbs nobody who reads.
        match device.opened().filter(|_| to_write) {
            None => break,
            Some(by) if look == LOOKS => return Err(in_use(by)),
            Some(_) => thread::pause(LOOK_EVERY),
        }
    }
    let Some((below, number)) = device.behind().and_then(|it| Some((it, device_at(it)?))) else {
        return Ok(());
    };
    // The loop device itself is what lies on it.
    let (loop_device, dev) = (dev, number);
    let device = Device::new(dev);
    if let Some(by) = device.user_but(Some(loop_device)) {
        return Err(Refused::InUse { path: below.to_owned(), by });
    }
    behind.push(claim(below, false)?);
    Ok(())
}

/// Opens it as nobody else's (`O_EXCL` on a block device, open(2)).
fn claim(path: &Path, to_write: bool) -> Result<File, Refused> {
    let flags = libc::O_EXCL | libc::O_DIRECT | libc::O_CLOEXEC;
    let opened = OpenOptions::new().read(true).write(to_write).custom_flags(flags).open(path);
    opened.map_err(|source| match source.raw_os_error() {
        Some(libc::EBUSY) => Refused::InUse {
            path: path.to_owned(),
            by: "the kernel, or a program, has it for itself".to_owned(),
        },
        _ => Refused::Open { path: path.to_owned(), source },
    })
}

/// Memory for what is read and written: pages of its own, as direct I/O wants it.
#[derive(Debug)]
pub struct Buffer(MmapMut);

impl Buffer {
    /// So many bytes.
    ///
    /// # Errors
    ///
    /// There is not so much memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        Ok(Self(MmapOptions::new().len(bytes.max(1)).map_anon()?))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
