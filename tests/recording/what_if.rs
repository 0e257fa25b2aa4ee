//! `what-if`: predicted hit rates against those of the same program in control groups with as much
//! memory.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nix::unistd::{SysconfVar, sysconf};

use crate::support::driver::process;
use crate::support::driver::recording::{TIMEOUT, can_record, compile, record};
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
