//! A file system of one's own, on a loop device.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::support::driver::process;
use crate::support::driver::recording::TIMEOUT;
use crate::support::machine::loop_device::LoopDevice;

/// Number of attempts to unmount a file system.
const UNMOUNT_ATTEMPTS: u32 = 100;

/// A file system that is mounted, most often on a loop device.
#[derive(Debug)]
pub(crate) struct Mounted {
    device: Option<LoopDevice>,
    path: PathBuf,
}

impl Mounted {
    /// Makes it below a directory. Needs root.
    #[track_caller]
    pub(crate) fn new(dir: &Path, file_system: &str, bytes: u64) -> Self {
        let path = dir.join("mounted");
        std::fs::create_dir(&path).expect("a directory");
        let device = LoopDevice::new(dir, bytes).expect("a loop device");
        let mut make = Command::new(format!("mkfs.{file_system}"));
        make.arg("-q");
        if file_system == "ext4" {
            // Nothing of it is left for later.
            make.args(["-E", "lazy_itable_init=0,lazy_journal_init=0"]);
        }
        make.arg(device.path());
        let mut mount = Command::new("mount");
        if file_system == "ext4" {
            // Nor does a thread of the kernel's read its bitmaps some seconds later.
            mount.args(["-o", "no_prefetch_block_bitmaps"]);
        }
        mount.args(["-t", file_system]).arg(device.path()).arg(&path);
        for mut command in [make, mount] {
            process::run(&mut command, TIMEOUT).expect("it ends").success();
        }
        Self { device: Some(device), path }
    }

    /// One without a device, mounted on this directory. Needs root.
    #[track_caller]
    pub(crate) fn of_kernel(path: &Path, file_system: &str, options: &str) -> Self {
        let mut mount = Command::new("mount");
        mount.args(["-t", file_system, "-o", options, file_system]).arg(path);
        process::run(&mut mount, TIMEOUT).expect("it ends").success();
        Self { device: None, path: path.to_owned() }
    }

    /// Loop device of the file system.
    pub(crate) fn device(&self) -> &LoopDevice {
        self.device.as_ref().expect("it has one")
    }

    /// Loop device of the file system, whose properties may be changed.
    pub(crate) fn device_mut(&mut self) -> &mut LoopDevice {
        self.device.as_mut().expect("it has one")
    }

    /// Mount point.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A device over it goes when its last user has closed it, whichever process that is. If
        // that never happens, the directory in memory cannot be removed either, and stays.
        for _ in 0..UNMOUNT_ATTEMPTS {
            let unmounted = Command::new("umount").arg(&self.path).output();
            if unmounted.is_ok_and(|it| it.status.success()) {
                return;
            }
            sleep(Duration::from_millis(50));
        }
    }
}
