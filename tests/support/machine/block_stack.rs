//! A block device for jobs, and the devices below it.

use std::path::Path;

use tempfile::TempDir;

use crate::support::driver::block_jobs::DEVICE_BYTES;
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::mount::Mounted;

/// File system of a loop device's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Memory: nothing is below.
    Tmpfs,
    /// An ext4 on another loop device, whose file is in memory.
    Ext4,
}

impl Backing {
    pub(crate) const ALL: [Self; 2] = [Self::Tmpfs, Self::Ext4];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tmpfs => "tmpfs",
            Self::Ext4 => "ext4",
        }
    }
}

/// A loop device over a file of its own. None of it is in the folder of the logs.
#[derive(Debug)]
pub(crate) struct Stack {
    // In the order in which they must go.
    top: LoopDevice,
    lower: Option<Mounted>,
    _memory: TempDir,
}

impl Stack {
    /// Makes it. Needs root.
    #[track_caller]
    pub(crate) fn new(backing: Backing) -> Self {
        let memory = tempfile::Builder::new().prefix("block").tempdir_in("/dev/shm");
        let memory = memory.expect("a directory in memory");
        let lower = (backing == Backing::Ext4)
            .then(|| Mounted::new(memory.path(), "ext4", DEVICE_BYTES * 3 / 2));
        let place = lower.as_ref().map_or(memory.path(), |it| it.path());
        let top = LoopDevice::new(place, DEVICE_BYTES).expect("a loop device");
        Self { top, lower, _memory: memory }
    }

    /// The device that is worked with.
    pub(crate) fn top(&self) -> &LoopDevice {
        &self.top
    }

    /// All devices, the upper one first.
    pub(crate) fn devices(&self) -> Vec<&LoopDevice> {
        std::iter::once(&self.top).chain(self.lower.as_ref().map(Mounted::device)).collect()
    }

    /// Directory of the upper device's file, unless that is in memory.
    #[track_caller]
    pub(crate) fn place(&self) -> &Path {
        self.lower.as_ref().expect("a device below").path()
    }

    /// Changes the scheduler of all.
    #[track_caller]
    pub(crate) fn set_scheduler(&self, scheduler: &str) {
        for device in self.devices() {
            device.set_scheduler(scheduler).expect("it is offered");
        }
    }

    /// Changes a property of the upper device's queue until it goes.
    #[track_caller]
    pub(crate) fn set_top(&mut self, property: &str, value: &str) {
        self.top.set(property, value).expect("it can be set");
    }

    /// Lines of a shell that wait until all is written and the devices have nothing to do.
    pub(crate) fn lines_to_rest(&self) -> String {
        let names: Vec<&str> = self.devices().into_iter().map(LoopDevice::name).collect();
        let sync = self
            .lower
            .as_ref()
            .map_or(String::new(), |it| format!("sync -f {}\n", it.path().display()));
        format!(
            "blockdev --flushbufs {}
             {sync}
             same=0 last=
             while [ $same -lt 3 ]; do
                 sleep 0.02
                 now=$(grep -E ' ({}) ' /proc/diskstats)
                 if [ \"$now\" = \"$last\" ]; then same=$((same + 1)); else same=0; fi
                 last=$now
             done\n",
            self.top.path().display(),
            names.join("|")
        )
    }
}
