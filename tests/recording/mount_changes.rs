//! File systems that are mounted and unmounted during a recording, beside programs that open files.

use std::fs;
use std::process::Command;

use crate::support::driver::json::JsonOperation;
use crate::support::driver::process;
use crate::support::driver::recording::{TIMEOUT, can_record, record};
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::{scratch_dir, text};

/// Number of mounts.
const MOUNTS: usize = 20;

/// Fails if a file is taken for one of another file system of the same type, whose directories have
/// the same handles, while that is mounted.
#[test]
fn files_of_equal_file_systems_are_told_apart() {
    if !can_record(&[Need::Loop, Need::Program("mkfs.ext4"), Need::Program("python3")]) {
        return;
    }
    let _alone = alone();
    let memory = tempfile::Builder::new().prefix("mounts").tempdir_in("/dev/shm");
    let memory = memory.expect("a directory");
    let [kept, changed] = ["kept", "changed"].map(|name| memory.path().join(name));
    fs::create_dir_all(changed.join("m")).expect("a directory");
    fs::create_dir(&kept).expect("a directory");
    let kept = Mounted::new(&kept, "ext4", 32 << 20);
    let device = LoopDevice::new(&changed, 32 << 20).expect("a loop device");
    let mut mkfs = Command::new("mkfs.ext4");
    let mkfs = process::run(mkfs.args(["-q", "-F"]).arg(device.path()), TIMEOUT);
    mkfs.expect("it ends").success();
    let script = "import os, subprocess, sys, time
kept, device, place, mounts = sys.argv[1:]
opener = os.fork()
while opener == 0:
    os.close(os.open(kept + '/kept-open', os.O_RDWR | os.O_CREAT))
    time.sleep(0.0002)
for mount in range(int(mounts)):
    subprocess.run(['mount', device, place], check=True)
    for file in range(3):
        os.close(os.open(f'{place}/file{file}', os.O_RDWR | os.O_CREAT))
        time.sleep(0.002)
    while subprocess.run(['umount', place]).returncode != 0: time.sleep(0.01)
os.kill(opener, 9)";
    let trace = scratch_dir("mounts");
    let changed = changed.join("m");
    let mounts = MOUNTS.to_string();
    let places = [kept.path(), device.path(), &changed].map(text);
    let words = [&["python3", "-c", script][..], &places, &[mounts.as_str()]].concat();
    let (finished, recording) = record(&trace.path().join("trace"), &["-a"], &words);
    finished.success();
    recording.assert_whole();
    let operations = recording.operations();
    let is_called =
        |path: &str, name: &str| path.rsplit('/').next().is_some_and(|file| file.starts_with(name));
    let opens = |name: &str| -> Vec<&JsonOperation> {
        let is_named = |it: &&JsonOperation| {
            it.name == "openat" && it.path.as_ref().is_some_and(|path| is_called(path, name))
        };
        operations.iter().filter(is_named).collect()
    };
    let (tops, files) = (opens("kept-open"), opens("file"));
    let top = kept.path().join("kept-open");
    assert!(tops.iter().all(|it| it.path.as_deref() == top.to_str()), "{tops:#?}");
    let place = text(&changed);
    let is_there = |it: &&JsonOperation| it.path.as_ref().is_some_and(|it| it.starts_with(place));
    let of_changed = files.iter().copied().filter(is_there).count();
    assert_eq!(of_changed, 3 * MOUNTS, "{files:#?}");
    assert!(tops.len() >= MOUNTS, "{}", tops.len());
}
