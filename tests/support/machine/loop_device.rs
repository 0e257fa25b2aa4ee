//! A block device of one's own, backed by a file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device; detached when dropped.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    path: PathBuf,
    name: String,
    /// Properties of its queue that were changed, and what they were: they outlive it.
    changed: Vec<(PathBuf, String)>,
}

impl LoopDevice {
    /// Makes a file of this size in a directory, and a device over it. Needs root.
    pub(crate) fn new(dir: &Path, bytes: u64) -> io::Result<Self> {
        let image = dir.join("disk.img");
        File::create_new(&image)?.set_len(bytes)?;
        Self::over(&image, &["-P"])
    }

    /// Makes a device over a file that is there. Needs root.
    pub(crate) fn over(image: &Path, options: &[&str]) -> io::Result<Self> {
        let output =
            Command::new("losetup").args(options).args(["-f", "--show"]).arg(image).output()?;
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let name = path.strip_prefix("/dev/").map(str::to_owned);
        let Some(name) = name.filter(|_| output.status.success()) else {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        };
        let device = Self { path: path.into(), name, changed: Vec::new() };
        // The queue outlives the device: a program that was killed may have left another value.
        fs::write(device.queue("write_cache"), "write back")?;
        Ok(device)
    }

    /// Path of the device, as "/dev/loop3".
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// "loop3", as in `/proc/diskstats`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Number of the device, "7:3".
    #[track_caller]
    pub(crate) fn number(&self) -> String {
        let number = fs::read_to_string(Path::new("/sys/block").join(&self.name).join("dev"));
        number.expect("a device that is there").trim().to_owned()
    }

    /// The schedulers that the kernel offers for it, and which is in use.
    pub(crate) fn schedulers(&self) -> io::Result<(Vec<String>, Option<String>)> {
        let text = fs::read_to_string(self.queue("scheduler"))?;
        let bare = |it: &str| it.trim_matches(['[', ']']).to_owned();
        let used = text.split_whitespace().find(|it| it.starts_with('[')).map(bare);
        Ok((text.split_whitespace().map(bare).collect(), used))
    }

    /// Changes the scheduler ("none", "mq-deadline").
    pub(crate) fn set_scheduler(&self, scheduler: &str) -> io::Result<()> {
        fs::write(self.queue("scheduler"), scheduler)
    }

    /// Changes a property of its queue ("nomerges") until it goes.
    pub(crate) fn set(&mut self, property: &str, value: &str) -> io::Result<()> {
        let file = self.queue(property);
        self.changed.push((file.clone(), fs::read_to_string(&file)?));
        fs::write(file, value)
    }

    fn queue(&self, file: &str) -> PathBuf {
        Path::new("/sys/block").join(&self.name).join("queue").join(file)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        for (file, value) in self.changed.drain(..).rev() {
            // As below.
            let _ = fs::write(file, value.trim());
        }
        // A failure has no reader; a device in use goes away with its last user.
        let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}
