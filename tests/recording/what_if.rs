//! `what-if`: predicted hit rates against those of the same program in control groups with as much
//! memory, and predicted reads from the disk against those with other settings of the read-ahead.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use iotrace_perf::sys::proc;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::unistd::{SysconfVar, sysconf};

use crate::support::driver::process;
use crate::support::driver::recording::{TIMEOUT, can_record, compile, record, wait_until};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::{Need, verdict};
use crate::support::machine::turns::alone;
use crate::support::scratch_dir;

const PAGES: u64 = 16_384;
const READS: u64 = 150_000;

/// Memory of the control groups, in bytes: the file has 64 MiB.
const MEMORY: [u64; 5] = [8 << 20, 16 << 20, 24 << 20, 32 << 20, 48 << 20];

/// Control group with a limit on its memory, which is removed at the end.
struct LimitedMemory(PathBuf);

impl LimitedMemory {
    /// Makes one below a hierarchy that has the controller; `None`: there is none.
    fn new(bytes: u64) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let hierarchy = mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, point, kind, options, ..] = fields.as_slice() else { return None };
            let limit = match *kind {
                "cgroup" if options.split(',').any(|word| word == "memory") => {
                    "memory.limit_in_bytes"
                }
                "cgroup2" => "memory.max",
                _ => return None,
            };
            Some((PathBuf::from(*point), limit))
        });
        let (point, limit) = hierarchy?;
        let path = point.join(format!("iotrace-{}-{bytes}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        fs::write(group.0.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for LimitedMemory {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn page_bytes() -> u64 {
    let page = sysconf(SysconfVar::PAGE_SIZE).expect("a limit").expect("a size");
    u64::try_from(page).expect("a size")
}

/// Bytes that the program printed.
fn printed(text: &str) -> u64 {
    text.trim().parse().expect("a number of bytes")
}

/// Part of the reads of a run with this memory that found their page.
#[expect(clippy::cast_precision_loss, reason = "compared to a hundredth")]
fn measured(program: &[&str], group: &LimitedMemory) -> f64 {
    let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0.display());
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).args(program);
    let output = process::run(&mut command, TIMEOUT).expect("it ends").success();
    1.0 - printed(&output.stdout()) as f64 / (READS * page_bytes()) as f64
}

#[test]
fn predicted_hit_rates_are_those_of_as_much_memory() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("what-if");
    let file = dir.path().join("data");
    fs::write(&file, vec![7_u8; usize::try_from(PAGES * page_bytes()).expect("small")])
        .expect("written");
    fs::File::open(&file).and_then(|file| file.sync_all()).expect("on the disk");
    let program = compile("skewed_reads.c", dir.path());
    let [pages, reads] = [PAGES, READS].map(|number| number.to_string());
    let words = [program.as_str(), file.to_str().expect("text"), &pages, &reads];
    let (finished, recording) = record(&dir.path().join("trace"), &["-e", "%data,%desc"], &words);
    let from_disk = printed(&finished.success().stdout());
    recording.assert_whole();
    let groups: Vec<LimitedMemory> =
        MEMORY.iter().filter_map(|bytes| LimitedMemory::new(*bytes)).collect();
    if from_disk == 0 || groups.len() < MEMORY.len() {
        let reason = "no disk below the scratch directory, or no limits of memory";
        verdict(Need::Cgroup, Some(reason.to_owned()), false);
        return;
    }
    let sizes = MEMORY.map(|bytes| bytes.to_string()).join(",");
    let report = recording.report_with(&["what-if", "-F", words[1], "--memory", &sizes]);
    assert_eq!(report["page_reads"], READS, "{report:#}");
    // All reads that no memory can have come from the disk.
    let first = report["first_page_reads"].as_u64().expect("a number");
    assert_eq!(first * page_bytes(), from_disk, "{report:#}");
    let rows = report["memory"].as_array().expect("rows");
    let compared: Vec<[f64; 2]> = rows
        .iter()
        .zip(&groups)
        .map(|(row, group)| [row["hit_rate"].as_f64().expect("a rate"), measured(&words, group)])
        .collect();
    let is_near = |[predicted, measured]: &[f64; 2]| (predicted - measured).abs() < 0.03;
    assert!(compared.len() == MEMORY.len() && compared.iter().all(is_near), "{compared:?}");
}

/// Settings of the read-ahead that are compared, in kilobytes.
const READ_AHEAD_KB: [u64; 5] = [0, 16, 128, 1024, 4096];

/// Bytes of the file that is read in patterns.
const PATTERN_BYTES: usize = 32 << 20;

/// Patterns of `reading_patterns`, and whether the bytes depend on the read-ahead.
const PATTERNS: [(&str, bool); 10] = [
    ("small", false),
    ("large", false),
    ("random", false),
    ("parts", true),
    ("strided", true),
    ("halves", false),
    ("announced", true),
    ("unordered", false),
    ("wishes", true),
    ("transfer", true),
];

/// Part of the bytes by which a prediction may be off, and bytes of metadata.
const BYTES_TOLERANCE: (f64, u64) = (0.01, 16 << 10);

/// Part of the requests by which a prediction may be off, and more of them where the file lies in
/// several pieces.
const REQUESTS_TOLERANCE: (f64, u64) = (0.03, 4);

/// Device with a file of which no page is in memory.
struct PatternDisk {
    mounted: Mounted,
    file: PathBuf,
}

impl PatternDisk {
    fn new(dir: &Path) -> Self {
        let mounted = Mounted::new(dir, "ext4", 4 * PATTERN_BYTES as u64);
        let file = mounted.path().join("data");
        fs::write(&file, vec![7_u8; PATTERN_BYTES]).expect("written");
        fs::File::open(&file).and_then(|file| file.sync_all()).expect("on the disk");
        Self { mounted, file }
    }

    /// Sets the read-ahead, and drops the pages of the file.
    fn prepare(&mut self, kilobytes: u64) {
        let device = self.mounted.device_mut();
        device.set("read_ahead_kb", &kilobytes.to_string()).expect("a property");
        let file = fs::File::open(&self.file).expect("it is there");
        posix_fadvise(file.as_fd(), 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .expect("dropped");
    }

    /// Requests and bytes that were read from the device so far, when none is in flight.
    fn read(&self) -> [u64; 2] {
        let path = format!("/sys/block/{}/stat", self.mounted.device().name());
        let mut counts = [0; 2];
        wait_until("requests to end", || {
            let text = fs::read_to_string(&path).expect("counts");
            let numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
            let numbers: Vec<u64> = numbers.collect();
            counts = [numbers[0], numbers[2] * 512];
            numbers[8] == 0
        });
        counts
    }
}

/// Requests and bytes of a run of the program with this setting.
fn measured_reads(disk: &mut PatternDisk, program: &[&str], kilobytes: u64) -> [u64; 2] {
    disk.prepare(kilobytes);
    let before = disk.read();
    let mut command = Command::new(program[0]);
    process::run(command.args(&program[1..]), TIMEOUT).expect("it ends").success();
    let after = disk.read();
    [after[0] - before[0], after[1] - before[1]]
}

#[expect(clippy::cast_precision_loss, reason = "compared to a hundredth")]
fn is_within(predicted: u64, measured: u64, tolerance: (f64, u64)) -> bool {
    let (part, more) = tolerance;
    predicted.abs_diff(measured).saturating_sub(more) as f64 <= measured as f64 * part
}

/// Predicted and measured requests and bytes of a pattern, for each setting.
fn compared_reads(dir: &Path, disk: &mut PatternDisk, program: &[&str]) -> Vec<[[u64; 2]; 2]> {
    disk.prepare(128);
    let log = dir.join(format!("trace-{}", program[2]));
    let (finished, recording) = record(&log, &["-e", "%data,%desc,%attr"], program);
    finished.success();
    recording.assert_whole();
    let sizes = READ_AHEAD_KB.map(|kilobytes| format!("{kilobytes}K")).join(",");
    let report = recording.report_with(&["what-if", "-F", program[1], "--read-ahead", &sizes]);
    let rows = report["read_ahead"].as_array().expect("rows").clone();
    let (recorded, given) = rows.split_first().expect("the setting of the recording");
    assert_eq!(
        (&recorded["recorded"], &recorded["setting_bytes"]),
        (&true.into(), &131_072.into())
    );
    assert_eq!(given.len(), READ_AHEAD_KB.len(), "{report:#}");
    let same = given.iter().find(|row| row["setting_bytes"] == recorded["setting_bytes"]);
    assert_eq!(same.map(|row| &row["read_bytes"]), Some(&recorded["read_bytes"]), "{report:#}");
    let compared = given.iter().zip(READ_AHEAD_KB).map(|(row, kilobytes)| {
        let predicted = ["requests", "read_bytes"].map(|key| row[key].as_u64().expect("a number"));
        [predicted, measured_reads(disk, program, kilobytes)]
    });
    compared.collect()
}

#[test]
fn predicted_reads_from_the_disk_are_those_of_other_settings() {
    if !can_record(&[Need::Loop]) {
        return;
    }
    let release = proc::host().kernel_release;
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    let version = [numbers.next(), numbers.next()].map(|number| number.and_then(Result::ok));
    if version < [Some(6), Some(17)] {
        let reason = format!("Linux {release} reads ahead by the rules before those of 6.17");
        verdict(Need::KernelFile("mm/readahead.c"), Some(reason), false);
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("what-if-read-ahead");
    let mut disk = PatternDisk::new(dir.path());
    let file = disk.file.to_str().expect("text").to_owned();
    let program = compile("reading_patterns.c", dir.path());
    for (pattern, depends) in PATTERNS {
        let words = [program.as_str(), &file, pattern];
        let compared = compared_reads(dir.path(), &mut disk, &words);
        let is_near = |[predicted, measured]: &[[u64; 2]; 2]| {
            is_within(predicted[1], measured[1], BYTES_TOLERANCE)
                && is_within(predicted[0], measured[0], REQUESTS_TOLERANCE)
        };
        assert!(compared.iter().all(is_near), "{pattern}: {compared:?}");
        // The right prediction is not one for any setting.
        let bytes = compared.iter().map(|[_, measured]| measured[1]);
        let (least, most) = (bytes.clone().min().expect("rows"), bytes.max().expect("rows"));
        assert_eq!(!is_within(least, most, (0.1, 0)), depends, "{pattern}: {compared:?}");
    }
}
