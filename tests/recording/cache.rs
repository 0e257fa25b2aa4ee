//! `cache`: the bytes that reads get from memory and from the disk, of files whose pages in memory
//! are known before.

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::unistd::{SysconfVar, sysconf};
use serde_json::Value;

use crate::support::driver::process;
use crate::support::driver::recording::{Recording, TIMEOUT, can_record, record};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::scratch_dir;

const FILE_BYTES: u64 = 8 << 20;

/// Reads of single pages at places that are far from each other.
const RANDOM_READS: u64 = 50;

/// Prepares four files: none, all, and half of the pages are in memory, and none of `random`.
const PREPARE: &str = "
import os, sys
os.chdir(sys.argv[1])
for name in ['cold', 'warm', 'half', 'random']:
    with open(name, 'wb') as file:
        file.write(os.urandom(int(sys.argv[2])))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
for name in ['warm', 'half']:
    open(name, 'rb').read()
with open('half', 'rb') as file:
    half = int(sys.argv[2]) // 2
    os.posix_fadvise(file.fileno(), half, half, os.POSIX_FADV_DONTNEED)
";

/// Reads pages of a file, without reading ahead.
const READ_PAGES: &str = "
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
count, page = int(sys.argv[2]), os.sysconf('SC_PAGESIZE')
for number in range(count):
    os.pread(file, page, number * 31 * page)
";

/// Bytes of a file that are in memory (`fincore`, by `mincore(2)`).
#[track_caller]
fn resident(file: &Path) -> u64 {
    let mut fincore = Command::new("fincore");
    fincore.args(["-n", "-b", "-r", "-o", "RES"]).arg(file);
    let text = process::run(&mut fincore, TIMEOUT).expect("it ends").success().stdout();
    text.trim().parse().expect("a number")
}

fn row(report: &Value, file: &Path) -> Value {
    let rows = report["files"].as_array().expect("files");
    let path = file.to_str().expect("text");
    let row = rows.iter().find(|row| row["path"] == path);
    row.unwrap_or_else(|| panic!("{path}: {rows:#?}")).clone()
}

fn numbers<const N: usize>(row: &Value, keys: [&str; N]) -> [u64; N] {
    keys.map(|key| row[key].as_u64().expect(key))
}

/// Checks the row of a file of which this number of bytes was in memory.
#[track_caller]
fn check_file(recording: &Recording, file: &Path, in_memory: u64, read: u64) {
    let row = row(&recording.report("cache"), file);
    let keys = ["read_bytes", "memory_bytes", "waited_bytes", "ahead_bytes", "disk_bytes"];
    let [bytes, memory, waited, ahead, disk] = numbers(&row, keys);
    assert_eq!((bytes, memory), (read, in_memory), "{row:#}");
    assert_eq!(waited + ahead, read - in_memory, "{row:#}");
    assert_eq!(disk - row["unused_bytes"].as_u64().expect("unused"), read - in_memory, "{row:#}");
}

#[test]
fn hits_and_misses_are_those_of_the_pages_in_memory() {
    if !can_record(&[Need::Loop, Need::Program("python3"), Need::Program("fincore")]) {
        return;
    }
    let _alone = alone();
    let memory = tempfile::Builder::new().prefix("cache").tempdir_in("/dev/shm");
    let memory = memory.expect("a directory");
    let disk = Mounted::new(memory.path(), "ext4", 320 << 20);
    let place = fs::canonicalize(disk.path()).expect("it is there");
    let mut prepare = Command::new("python3");
    prepare.args(["-c", PREPARE]).arg(&place).arg(FILE_BYTES.to_string());
    process::run(&mut prepare, TIMEOUT).expect("it ends").success();
    let files = ["cold", "warm", "half", "random"].map(|name| place.join(name));
    let before = files.each_ref().map(|file| resident(file));
    assert_eq!(before, [0, FILE_BYTES, FILE_BYTES / 2, 0]);
    let script = format!(
        "cd {}; for file in cold warm half; do dd if=$file of=/dev/null bs=64k status=none; done
         python3 -c \"$1\" random {RANDOM_READS}",
        place.display()
    );
    let trace = scratch_dir("cache");
    let (finished, recording) =
        record(&trace.path().join("trace"), &[], &["sh", "-c", &script, "sh", READ_PAGES]);
    finished.success();
    recording.assert_whole();
    for (file, in_memory) in files.iter().zip(before).take(3) {
        check_file(&recording, file, in_memory, FILE_BYTES);
    }
    // Nothing is read ahead for a program that says that it reads at random.
    let page = sysconf(SysconfVar::PAGE_SIZE).expect("a limit").expect("a size");
    let page = u64::try_from(page).expect("a size");
    check_file(&recording, &files[3], 0, RANDOM_READS * page);
    let random = row(&recording.report("cache"), &files[3]);
    assert_eq!(numbers(&random, ["ahead_bytes", "unused_bytes"]), [0, 0], "{random:#}");
}

/// Fails if reads of a file system without a block device are of unknown origin, where only the
/// path of the file is known.
#[test]
fn reads_of_memory_are_known_by_the_path() {
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let _turn = beside_others();
    let memory = tempfile::Builder::new().prefix("cache").tempdir_in("/dev/shm");
    let file = fs::canonicalize(memory.expect("a directory").keep()).expect("there").join("file");
    fs::write(&file, [b'x'; 4099]).expect("space");
    let trace = scratch_dir("cache");
    let (finished, recording) = record(
        &trace.path().join("trace"),
        &["--source", "tracefs", "--names", "uprobe"],
        &["cat", file.to_str().expect("text")],
    );
    finished.success();
    fs::remove_dir_all(file.parent().expect("ours")).expect("it is ours");
    let row = row(&recording.report("cache"), &file);
    assert_eq!(numbers(&row, ["read_bytes", "elsewhere_bytes"]), [4099, 4099], "{row:#}");
}
