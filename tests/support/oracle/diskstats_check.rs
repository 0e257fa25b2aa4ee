//! The kernel's count of a device's requests beside ours.

use std::fmt;
use std::fs;
use std::ops::{Add, Sub};
use std::path::Path;
use std::time::Duration;

use crate::support::driver::block_jobs::Job;
use crate::support::driver::json::JsonBlock;
use crate::support::driver::recording::{Recording, record};
use crate::support::machine::block_stack::Stack;
use crate::support::machine::loop_device::LoopDevice;
use crate::support::oracle::diskstats::DiskStats;
use crate::support::scratch_dir;

/// Time that a device may take to come to rest.
const REST: Duration = Duration::from_secs(20);

/// Counts of one class of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Class {
    pub requests: u64,
    pub sectors: u64,
    pub merges: u64,
}

/// All that `/proc/diskstats` counts, but for times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub reads: Class,
    pub writes: Class,
    pub discards: Class,
    pub flushes: u64,
}

impl Counts {
    /// Counts of the kernel.
    pub(crate) fn by_kernel(it: &DiskStats) -> Self {
        let class = |requests, merges, sectors| Class { requests, sectors, merges };
        Self {
            reads: class(it.reads, it.reads_merged, it.read_sectors),
            writes: class(it.writes, it.writes_merged, it.written_sectors),
            discards: class(it.discards, it.discards_merged, it.discarded_sectors),
            flushes: it.flushes,
        }
    }

    /// Counts of the requests of a recording.
    pub(crate) fn by_us(requests: &[JsonBlock]) -> Self {
        let class = |name: &str| {
            let of = requests.iter().filter(|it| it.diskstats.as_deref() == Some(name));
            Class {
                requests: of.clone().count() as u64,
                sectors: of.clone().map(|it| it.bytes_done).sum::<u64>() / 512,
                merges: of.map(|it| it.merges).sum(),
            }
        };
        let flushes = requests.iter().filter(|it| it.diskstats.as_deref() == Some("flush"));
        Self {
            reads: class("read"),
            writes: class("write"),
            discards: class("discard"),
            flushes: flushes.count() as u64,
        }
    }

    /// Requests of all classes, flushes included.
    pub(crate) fn requests(&self) -> u64 {
        self.classes().map(|it| it.requests).iter().sum::<u64>() + self.flushes
    }

    /// Sectors of all classes.
    pub(crate) fn sectors(&self) -> u64 {
        self.classes().map(|it| it.sectors).iter().sum()
    }

    /// Merges of all classes.
    pub(crate) fn merges(&self) -> u64 {
        self.classes().map(|it| it.merges).iter().sum()
    }

    fn classes(&self) -> [Class; 3] {
        [self.reads, self.writes, self.discards]
    }
}

impl Add for Class {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            sectors: self.sectors + other.sectors,
            merges: self.merges + other.merges,
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            discards: self.discards + other.discards,
            flushes: self.flushes + other.flushes,
        }
    }
}

/// One device in one recording.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    pub device: String,
    pub kernel: Counts,
    pub ours: Counts,
    /// Requests of the device, as recorded.
    pub requests: Vec<JsonBlock>,
    /// Events that fit no request.
    pub unmatched: Vec<String>,
    /// Table `devices` of `summary` for the recording, as CSV.
    pub summary: String,
    /// False if the device was used between the looks at the counters from outside and from inside:
    /// while the recording was not wholly on.
    pub rested: bool,
}

impl Compared {
    pub(crate) fn is_equal(&self) -> bool {
        self.ours == self.kernel && self.unmatched.is_empty()
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unrest = if self.rested { "" } else { " (used while the recording was not wholly on)" };
        write!(f, "{}{unrest}: kernel {:?}, ours {:?}", self.device, self.kernel, self.ours)?;
        self.unmatched.iter().try_for_each(|it| write!(f, "; {it}"))
    }
}

/// Number of times that a comparison is repeated.
const DISTURBED_MAX: u64 = 5;

/// [`compare`], again while the counts differ and another process used a device while the recording
/// was not wholly on: the right one cannot be known then; or while the kernel has
/// counted block events that it did not write into perf's rings (those that interrupt an idle CPU),
/// and the recording has reported that. How often, too.
#[track_caller]
pub(crate) fn compare_undisturbed(
    stack: &Stack,
    job: Job,
    options: &[&str],
) -> (Vec<Compared>, Recording, u64) {
    let mut disturbed = 0;
    loop {
        let dir = scratch_dir("block-books");
        let (devices, recording) = compare(dir.path(), stack, job, options);
        let missing = recording.info["missing"].as_object().expect("it ended in order");
        let is_missing = missing.keys().any(|it| it.starts_with("block:"));
        let is_known = devices.iter().all(|it| it.rested && !is_missing || it.is_equal());
        if is_known || disturbed == DISTURBED_MAX {
            return (devices, recording, disturbed);
        }
        disturbed += 1;
    }
}

/// Does the job while the requests of the whole machine are recorded. The counters are read before
/// the recording begins and after it has ended, with the devices at rest; and once more at both
/// ends of the job, to know that they were.
#[track_caller]
fn compare(dir: &Path, stack: &Stack, job: Job, options: &[&str]) -> (Vec<Compared>, Recording) {
    let devices = stack.devices();
    let look = || -> Vec<DiskStats> {
        let rest = |it: &&LoopDevice| DiskStats::wait_idle(it.name(), REST);
        devices.iter().map(|it| rest(it).expect("no other process uses it")).collect()
    };
    let script = format!(
        "set -e\ncd {}\ncat /proc/diskstats > before\n{}{}cat /proc/diskstats > after\n",
        dir.display(),
        job.lines(stack.top().path()),
        stack.lines_to_rest()
    );
    let before = look();
    // Other programs are not the question.
    let options = [&["-a", "-e", "block,extents"], options].concat();
    let (finished, recording) = record(&dir.join("trace"), &options, &["sh", "-c", &script]);
    let after = look();
    finished.success();
    recording.assert_whole();
    let [inside_before, inside_after] = ["before", "after"]
        .map(|it| fs::read_to_string(dir.join(it)).expect("the script wrote it"));
    let (requests, anomalies) = (recording.requests(), recording.anomalies());
    let summary = recording.table("summary", "devices");
    let compared =
        devices.iter().zip(before.into_iter().zip(after)).map(|(device, (before, after))| {
            let name = device.name();
            let on_device = |it: &&JsonBlock| it.disk.as_deref() == Some(name);
            let requests: Vec<JsonBlock> = requests.iter().filter(on_device).cloned().collect();
            let number = format!(" {} ", device.number());
            let unmatched = anomalies.iter().filter(|it| it.what == "unmatched-block");
            let unmatched = unmatched.map(|it| it.detail.clone()).filter(|it| it.contains(&number));
            let inside = |text: &str| DiskStats::parse(text, name).expect("the device is there");
            Compared {
                device: name.to_owned(),
                kernel: Counts::by_kernel(&after.sub(before)),
                ours: Counts::by_us(&requests),
                requests,
                unmatched: unmatched.collect(),
                summary: summary.clone(),
                rested: inside(&inside_before) == before && inside(&inside_after) == after,
            }
        });
    (compared.collect(), recording)
}
