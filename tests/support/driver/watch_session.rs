//! Recordings that watch files and are asked while they run, and the lines that they log.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::support::driver::process::{self, Finished};
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record, wait_until};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::{Need, require_all};
use crate::support::scratch_dir;

/// On a busy machine the name of a file may be read too late, which is reported, but not each time.
pub(crate) const RUNS_MAX: usize = 5;

/// A recording that runs, and answers.
pub(crate) struct WatchSession {
    child: Child,
    pub(crate) dir: TempDir,
}

impl WatchSession {
    /// `iotrace-perf VERB OPTIONS --control …`; it is on when this returns.
    #[track_caller]
    pub(crate) fn start(verb: &str, options: &[&str]) -> Self {
        let dir = scratch_dir("watch");
        let mut command = Command::new(BINARY);
        command.arg(verb).arg("--control").arg(dir.path().join("control"));
        let said = |name: &str| fs::File::create_new(dir.path().join(name)).expect("a file");
        command.args(options).stdin(Stdio::null()).stdout(said("stdout")).stderr(said("stderr"));
        let child = command.spawn().expect("it starts");
        let mut watching = Self { child, dir };
        let socket = watching.socket();
        wait_until("it listens", || {
            let ended = watching.child.try_wait().expect("asked").is_some();
            assert!(!ended, "{}", watching.said("stderr"));
            socket.exists()
        });
        // Nothing is answered before the events are on.
        watching.ctl(&["list"]);
        watching
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("control")
    }

    pub(crate) fn said(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).expect("it is there")
    }

    pub(crate) fn try_ctl(&self, words: &[&str]) -> Finished {
        let mut command = Command::new(BINARY);
        command.arg("ctl").arg("--control").arg(self.socket()).args(words);
        process::run(&mut command, TIMEOUT).expect("it ends")
    }

    #[track_caller]
    pub(crate) fn ctl(&self, words: &[&str]) -> String {
        self.try_ctl(words).success().stdout()
    }

    #[track_caller]
    pub(crate) fn refuses(&self, words: &[&str], why: &str) {
        let finished = self.try_ctl(words);
        let said = finished.stderr();
        assert!(!finished.status.success() && said.contains(why), "{words:?}: {said}");
        assert_eq!(finished.stdout(), "", "{words:?}");
    }

    #[track_caller]
    pub(crate) fn count(&self, file: &str, what: &str) -> u64 {
        let text = self.ctl(&["counts", file]);
        let mut lines = text.lines().filter_map(|it| it.split_once(' '));
        let found = lines.find(|it| it.0 == what).unwrap_or_else(|| panic!("{what}: {text}"));
        found.1.parse().expect("a number")
    }

    /// True if it is not known of everything that such a program did to which file.
    #[track_caller]
    pub(crate) fn is_in_doubt(&self, comms: &[&str]) -> bool {
        let text = self.ctl(&["counts"]);
        let unknown = text.lines().filter(|it| it.contains(" unidentified "));
        let mut words = unknown.filter_map(|it| it.rsplit(' ').next());
        words.any(|it| comms.contains(&it))
    }

    /// The file's log.
    #[track_caller]
    pub(crate) fn log(&self, file: &str) -> Vec<Line> {
        self.ctl(&["log", file]).lines().map(Line::parse).collect()
    }

    /// Ends it as a user does; what it wrote to both outputs.
    #[track_caller]
    pub(crate) fn end(mut self) -> (String, String) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        kill(Pid::from_raw(pid), Signal::SIGINT).expect("it runs");
        let status = process::wait(&mut self.child, TIMEOUT).expect("it ends");
        let said = (self.said("stdout"), self.said("stderr"));
        assert!(status.success(), "{status}: {}", said.1);
        assert!(!self.socket().exists(), "it goes with its recording");
        said
    }
}

impl Drop for WatchSession {
    fn drop(&mut self) {
        // A test has failed.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) seconds: f64,
    pub(crate) is_write: bool,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) level: String,
    pub(crate) comm: String,
    pub(crate) pid: u32,
}

impl Line {
    #[track_caller]
    pub(crate) fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split(';').collect();
        let &[seconds, access, address, bytes, level, comm, pid] = words.as_slice() else {
            panic!("{line}")
        };
        assert!(matches!(access, "R" | "W") && matches!(level, "VFS" | "BLK"), "{line}");
        let nanoseconds = seconds.split_once('.').expect("a point").1;
        assert_eq!(nanoseconds.len(), 9, "{line}");
        Self {
            seconds: seconds.parse().expect("seconds"),
            is_write: access == "W",
            address: address.parse().expect("an address"),
            bytes: bytes.parse().expect("bytes"),
            level: level.into(),
            comm: comm.into(),
            pid: pid.parse().expect("a pid"),
        }
    }
}

/// Bytes of the accesses of a level in a direction.
pub(crate) fn bytes_of(lines: &[Line], level: &str, is_write: bool) -> u64 {
    let is_such = |it: &&Line| it.level == level && it.is_write == is_write;
    lines.iter().filter(is_such).map(|it| it.bytes).sum()
}

/// A file of so many blocks of 4 KiB on a file system of its own, none of it in memory that is not
/// on the disk.
pub(crate) struct WatchDisk {
    pub(crate) disk: Mounted,
    _memory: TempDir,
}

impl WatchDisk {
    #[track_caller]
    pub(crate) fn new(bytes: u64) -> Self {
        let memory = tempfile::Builder::new().prefix("watch").tempdir_in("/dev/shm");
        let memory = memory.expect("a directory");
        Self { disk: Mounted::new(memory.path(), "ext4", bytes), _memory: memory }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.disk.path()).expect("it is there").join(name)
    }
}

pub(crate) fn may_run(more: &[Need]) -> bool {
    can_record(&[Need::Loop, Need::Program("mkfs.ext4")]) && require_all(more)
}
