//! Target of the bytes of a transfer whose real target the replay does not have.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// The null device (`Documentation/admin-guide/devices.txt`).
const NULL_DEVICE: u64 = libc::makedev(1, 3);

/// The null device, if there is one. It is opened before the replay enters its own directory, in
/// which devices cannot be opened.
#[derive(Debug, Default)]
pub struct DataSink(Option<File>);

impl DataSink {
    /// Opens the null device of this machine.
    pub fn open() -> Self {
        let file = OpenOptions::new().write(true).open("/dev/null").ok();
        let is_null = |file: &File| {
            file.metadata()
                .is_ok_and(|it| it.file_type().is_char_device() && it.rdev() == NULL_DEVICE)
        };
        Self(file.filter(is_null))
    }

    /// Descriptor of the null device, or -1.
    pub(super) fn number(&self) -> i32 {
        self.0.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }
}
