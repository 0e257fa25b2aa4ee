//! Attribution of block requests: each piece of a file, at the place that `filefrag` reports, with
//! the program that caused it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::driver::json::{JsonBlock, JsonPiece};
use crate::support::driver::process;
use crate::support::driver::recording::{Recording, TIMEOUT, can_record, record};
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use nix::sys::stat::{major, minor};

/// `mkfs.xfs` makes no smaller one.
const DEVICE_BYTES: u64 = 320 << 20;

/// Sizes of what is written: primes, in blocks of 4 KiB.
const BLOCKS: [u64; 2] = [499, 491];

/// Two programs that write at the same time, one that waits for its data, one that goes past the
/// cache, one that reads. Each prints its process id.
fn script(dirs: [&Path; 2]) -> String {
    let [first, second] = dirs.map(|it| it.display());
    let [one, two] = BLOCKS;
    format!(
        "as() {{ sh -c 'echo $$ > '$1'; shift; exec \"$@\"' sh \"$@\"; }}
         set -e
         as {first}/../one dd if=/dev/urandom of={first}/one bs=4k count={one} status=none &
         as {second}/../two dd if=/dev/urandom of={second}/two bs=4k count={two} status=none &
         wait
         sync
         as {first}/../kept dd if=/dev/urandom of={first}/kept bs=4k count=23 conv=fsync status=none
         as {second}/../direct dd if=/dev/zero of={second}/direct bs=16k count=17 oflag=direct status=none
         sync
         echo 1 > /proc/sys/vm/drop_caches
         as {first}/../reader cat {first}/one > /dev/null
         as {second}/../left dd if=/dev/zero of={second}/left bs=4k count=31 status=none
         python3 -c 'import os, sys; os.fsync(os.open(sys.argv[1], os.O_RDONLY))' {second}/left
         sync"
    )
}

/// A range of a file on its device, in bytes: where in the file, where on the device, how long.
type Extent = (u64, u64, u64);

/// Output of `filefrag -e -b1` (`FIEMAP`, `Documentation/filesystems/fiemap.rst`).
#[track_caller]
fn extents(file: &Path) -> Vec<Extent> {
    let mut filefrag = Command::new("filefrag");
    filefrag.args(["-e", "-b1"]).arg(file);
    let finished = process::run(&mut filefrag, TIMEOUT).expect("it ends").success();
    let text = String::from_utf8_lossy(&finished.stdout).into_owned();
    let line = |it: &str| -> Option<Extent> {
        let mut columns = it.split(':');
        columns.next()?.trim().parse::<u32>().ok()?;
        let first = |it: &str| it.split("..").next()?.trim().parse::<u64>().ok();
        let (offset, address) = (first(columns.next()?)?, first(columns.next()?)?);
        Some((offset, address, columns.next()?.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// The pieces of requests that went all the way and do this.
fn pieces<'a>(requests: &'a [JsonBlock], op: &'a str) -> impl Iterator<Item = &'a JsonPiece> {
    let done = |it: &&JsonBlock| it.ending.as_deref() == Some("completed");
    requests.iter().filter(done).filter(move |it| it.op == op).flat_map(|it| &it.pieces)
}

/// Checks that every byte of a file appears once, at its place according to the kernel's map.
#[track_caller]
fn check_places(file: &Path, pieces: &[&JsonPiece], link: &str) {
    let extents = extents(file);
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for piece in pieces {
        let offset = piece.offset.expect("where in the file");
        assert_eq!(piece.link, link, "{piece:?}");
        let holds = |it: &&Extent| it.0 <= offset && offset + piece.bytes <= it.0 + it.2;
        let extent = extents.iter().find(holds).unwrap_or_else(|| panic!("{piece:?}: {extents:?}"));
        assert_eq!(piece.sector * 512, extent.1 + (offset - extent.0), "{piece:?}");
        assert_eq!(next.insert(offset, piece.bytes), None, "once: {piece:?}");
    }
    let whole = next.iter().fold(0, |end, (offset, bytes)| {
        assert_eq!(*offset, end, "no gap: {next:?}");
        offset + bytes
    });
    assert_eq!(whole, fs::metadata(file).expect("it is there").len().next_multiple_of(4096));
}

/// True if it is a piece of this file. Its name, if that was read in time, is the right one.
#[track_caller]
fn is_of(piece: &JsonPiece, file: &Path) -> bool {
    let found = fs::metadata(file).expect("it is there");
    let dev = format!("{}:{}", major(found.dev()), minor(found.dev()));
    let is_same = piece.ino == Some(found.ino()) && piece.fs_dev.as_ref() == Some(&dev);
    assert!(!is_same || piece.path.as_ref().is_none_or(|it| Path::new(it) == file), "{piece:?}");
    is_same
}

/// The number that a program left of itself.
#[track_caller]
fn pid_of(dir: &Path, name: &str) -> i32 {
    let text = fs::read_to_string(dir.join("..").join(name)).expect("it said who it is");
    text.trim().parse().expect("a number")
}

/// Programs of a piece: the one that queued it, or those that wrote it.
fn programs(piece: &JsonPiece) -> Vec<i32> {
    match piece.program.as_deref() {
        Some("exact") => vec![piece.pid],
        Some("inferred") => piece.writers.iter().map(|it| it.pid).collect(),
        _ => Vec::new(),
    }
}

#[track_caller]
fn check(recording: &Recording, dirs: [&Path; 2], whole_system: bool) {
    let requests = recording.requests();
    let [first, second] = dirs;
    // A program's own requests, and those that the kernel made for it later.
    let rows = [
        (first, "one", "write", "one", "inferred"),
        (second, "two", "write", "two", "inferred"),
        (first, "kept", "write", "kept", "exact"),
        (second, "direct", "write", "direct", "exact"),
        (first, "one", "read", "reader", "exact"),
        // Another program has asked for it.
        (second, "left", "write", "left", "inferred"),
    ];
    for (dir, name, op, program, how) in rows {
        let file: PathBuf = fs::canonicalize(dir.join(name)).expect("it is there");
        let of_file: Vec<&JsonPiece> =
            pieces(&requests, op).filter(|it| is_of(it, &file)).collect();
        let all: Vec<&JsonPiece> = pieces(&requests, op).collect();
        assert!(!of_file.is_empty(), "{name}: {all:#?}");
        check_places(&file, &of_file, "exact");
        for piece in &of_file {
            assert_eq!(programs(piece), [pid_of(dir, program)], "{name} {op}: {piece:?}");
            assert_eq!(piece.program.as_deref(), Some(how), "{name} {op}: {piece:?}");
        }
    }
    let on_loops = requests
        .iter()
        .filter(|it| it.disk.as_deref().is_some_and(|it| it.starts_with("loop")))
        .flat_map(|it| &it.pieces);
    let bytes = |it: Vec<&JsonPiece>| it.into_iter().map(|it| it.bytes).sum::<u64>();
    let unknown: Vec<&JsonPiece> = on_loops.clone().filter(|it| it.behind == "unknown").collect();
    if whole_system {
        let journals =
            requests.iter().flat_map(|it| &it.pieces).filter(|it| it.behind == "journal");
        assert!(journals.count() > 0, "ext4 has written its journal");
    }
    // Metadata that the kernel's threads write back from the device's own cache are not marked as
    // such.
    assert!(bytes(unknown.clone()) * 50 < bytes(on_loops.collect()), "{unknown:#?}");
}

/// True if the programs of all pieces of these files are known: not if a name was read too late, on
/// a busy machine. Then the file that a program wrote is unknown.
fn is_known(recording: &Recording, dirs: [&Path; 2]) -> bool {
    let requests = recording.requests();
    let is_ours = |it: &&JsonPiece| match it.path.as_deref().map(Path::new) {
        Some(path) => dirs.iter().any(|dir| path.starts_with(dir)),
        // A file on a loop device whose name was not read.
        None => it.fs_dev.as_deref().is_some_and(|it| it.starts_with("7:")),
    };
    let mut ours = requests.iter().flat_map(|it| &it.pieces).filter(is_ours);
    ours.all(|it| it.program.as_deref() != Some("unknown"))
}

/// Two file systems in memory: the log, on a disk, makes no requests on these devices.
#[track_caller]
pub(super) fn file_systems() -> ([Mounted; 2], [tempfile::TempDir; 2]) {
    let memory = || {
        let made = tempfile::Builder::new().prefix("behind").tempdir_in("/dev/shm");
        made.expect("a directory")
    };
    let memory = [memory(), memory()];
    let disks = [(&memory[0], "ext4"), (&memory[1], "xfs")];
    (disks.map(|(dir, kind)| Mounted::new(dir.path(), kind, DEVICE_BYTES)), memory)
}

fn try_out(options: &[&str]) {
    if !can_record(&[
        Need::Loop,
        Need::Program("filefrag"),
        Need::Program("mkfs.xfs"),
        Need::Program("python3"),
    ]) {
        return;
    }
    let _alone = alone();
    for _ in 0..5 {
        let ((disks, _memory), trace) = (file_systems(), crate::support::scratch_dir("behind"));
        let dirs = [disks[0].path(), disks[1].path()];
        let (finished, recording) =
            record(&trace.path().join("trace"), options, &["sh", "-c", &script(dirs)]);
        finished.success();
        recording.assert_whole();
        if is_known(&recording, dirs) {
            return check(&recording, dirs, options.contains(&"-a"));
        }
    }
    panic!("on a busy machine a name may be read too late, but not each time");
}

#[test]
fn each_piece_is_of_its_file_and_program_on_the_whole_machine() {
    try_out(&["-a"]);
}

#[test]
fn kernel_writeback_is_attributed_to_the_traced_program() {
    try_out(&[]);
}

/// Fails if the file systems are not asked at the end for the places of the files, or the
/// answer is taken for certain: ext4 has no event when it overwrites cached data that has a place.
#[test]
fn file_systems_are_queried_for_extents_at_the_end() {
    if !can_record(&[Need::Loop, Need::Program("filefrag"), Need::Program("mkfs.xfs")]) {
        return;
    }
    let _alone = alone();
    let ((disks, _memory), trace) = (file_systems(), crate::support::scratch_dir("behind"));
    let paths = disks.each_ref().map(|it| it.path().join("file"));
    let write = paths.each_ref().map(|it| {
        format!(
            "dd if=/dev/urandom of={} bs=4k count=43 conv=notrunc,fsync status=none",
            it.display()
        )
    });
    let before = process::run(Command::new("sh").args(["-c", &write.join("; ")]), TIMEOUT);
    before.expect("it ends").success();
    let (finished, recording) =
        record(&trace.path().join("trace"), &[], &["sh", "-c", &write.join("; ")]);
    finished.success();
    recording.assert_whole();
    let requests = recording.requests();
    for (path, link) in paths.iter().zip(["inferred", "exact"]) {
        let of_file: Vec<&JsonPiece> =
            pieces(&requests, "write").filter(|it| is_of(it, path)).collect();
        check_places(path, &of_file, link);
    }
}

/// Fails if what a program writes to a device, or reads there, is not shown as a place on that
/// device.
#[test]
fn device_node_is_a_file() {
    if !can_record(&[Need::Loop]) {
        return;
    }
    let _alone = alone();
    let memory = tempfile::Builder::new().prefix("behind").tempdir_in("/dev/shm");
    let memory = memory.expect("a directory");
    let device = LoopDevice::new(memory.path(), 8 << 20).expect("a loop device");
    let path = device.path().to_str().expect("text");
    for how in ["oflag=direct", "conv=fsync"] {
        let trace = crate::support::scratch_dir("behind");
        let to = format!("of={path}");
        let program = ["dd", "if=/dev/zero", &to, "bs=8k", "count=23", "seek=7", how];
        let (finished, recording) = record(&trace.path().join("trace"), &[], &program);
        finished.success();
        recording.assert_whole();
        let requests = recording.requests();
        let mut written = 0;
        // An empty write that asks for a flush has no place.
        for piece in pieces(&requests, "write").filter(|it| it.bytes > 0) {
            assert_eq!(piece.path.as_deref(), Some(path), "{how}: {piece:?}");
            assert_eq!(piece.offset, Some(piece.sector * 512), "{how}: {piece:?}");
            assert_eq!(piece.program.as_deref(), Some("exact"), "{how}: {piece:?}");
            written += piece.bytes;
        }
        assert_eq!(written, 23 * 8192, "{how}");
    }
}

/// A loop device with an ext4 that can be taken away and come back.
struct Device {
    disk: LoopDevice,
    place: PathBuf,
    _memory: tempfile::TempDir,
}

impl Device {
    #[track_caller]
    fn new() -> Self {
        let memory = tempfile::Builder::new().prefix("behind").tempdir_in("/dev/shm");
        let memory = memory.expect("a directory");
        let disk = LoopDevice::new(memory.path(), 32 << 20).expect("a loop device");
        let place = memory.path().join("m");
        fs::create_dir(&place).expect("a directory");
        Self { disk, place, _memory: memory }
    }

    /// A script with its words: `mkfs`, `mount`, `write FILE`, and `$DEV`, in its directory.
    fn script(&self, script: &str) -> String {
        format!(
            "set -e; cd {dir}; DEV={dev}; trap 'cd /; umount {place} 2>/dev/null || true' EXIT
             mkfs() {{ mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 \"$@\" $DEV; }}
             mount() {{ /bin/mount -o no_prefetch_block_bitmaps,\"${{1:-rw}}\" $DEV m; }}
             write() {{ dd if=/dev/zero of=\"$1\" bs=64k count=16 conv=notrunc,fsync status=none; }}
             {script}",
            dir = self.place.parent().expect("it has one").display(),
            place = self.place.display(),
            dev = self.disk.path().display()
        )
    }

    /// Does the first script, records the second, and gives the pieces of writes to the device.
    #[track_caller]
    fn pieces(&self, before: &str, script: &str, options: &[&str]) -> Vec<JsonPiece> {
        let trace = crate::support::scratch_dir("behind");
        let before = self.script(&format!("trap - EXIT; {before}"));
        let before = process::run(Command::new("bash").args(["-c", &before]), TIMEOUT);
        before.expect("it ends").success();
        let words = ["bash", "-c", &self.script(script)];
        let (finished, recording) = record(&trace.path().join("trace"), options, &words);
        finished.success();
        recording.assert_whole();
        let requests = recording.requests();
        let ours: Vec<JsonBlock> = requests
            .into_iter()
            .filter(|it| it.disk.as_deref() == Some(self.disk.name()))
            .collect();
        pieces(&ours, "write").cloned().collect()
    }
}

/// Bytes of pieces of a file of this name.
fn bytes_of(pieces: &[JsonPiece], name: &str) -> u64 {
    let is_of = |it: &&JsonPiece| it.path.as_ref().is_some_and(|it| it.ends_with(name));
    pieces.iter().filter(is_of).map(|it| it.bytes).sum()
}

const FILE_BYTES: u64 = 1 << 20;

/// Fails if what is known of one file system is believed of what comes after it on the device.
#[test]
fn unmounted_file_system_has_no_files() {
    if !can_record(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _alone = alone();
    let device = Device::new();
    let raw = "dd if=/dev/zero of=$DEV bs=1M count=24 oflag=direct status=none";
    let script = format!(
        "mkfs -b 1024; mount; sleep 0.3; write m/one; umount m
         mkfs -b 4096; mount; sleep 0.3; write m/two; umount m; sleep 1.5; {raw}"
    );
    let found = device.pieces("true", &script, &["-a"]);
    assert_eq!(bytes_of(&found, "m/one"), FILE_BYTES, "{found:#?}");
    assert_eq!(bytes_of(&found, "m/two"), FILE_BYTES, "{found:#?}");
    let of_files = found.iter().filter(|it| it.ino.is_some());
    assert_eq!(of_files.map(|it| it.bytes).sum::<u64>(), 2 * FILE_BYTES, "{found:#?}");
}

/// Fails if a file system lives on when the program has unmounted it: `mkfs` refuses a device that
/// is in use, and a copy of the device lacks what is not written yet.
#[test]
fn file_system_ends_with_its_unmount() {
    if !can_record(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _alone = alone();
    let device = Device::new();
    // `umount` itself may come while a file is looked up, and is tried again.
    let script = "for i in 1 2 3 4 5 6 7 8; do
            mkfs; mount; dd if=/dev/urandom of=m/file bs=1M count=16 status=none
            for file in a b c d e f g h i j k l m n; do > m/$file; done
            until umount m; do sleep 0.05; done
            at_once=$(md5sum < $DEV); sleep 0.05; blockdev --flushbufs $DEV
            test \"$at_once\" = \"$(md5sum < $DEV)\"
        done";
    device.pieces("true", script, &["-a"]);
}

/// Fails if a write to the device's node makes its files unknown, or files of the device.
#[test]
fn write_to_the_device_node_leaves_extents_of_files() {
    if !can_record(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _alone = alone();
    let device = Device::new();
    // The first sector is no part of the file system.
    let script = "write m/file; dd if=/dev/zero of=$DEV bs=512 count=1 conv=notrunc,fsync status=none; write m/file";
    let found = device.pieces("mkfs; mount", script, &["-a"]);
    assert_eq!(bytes_of(&found, "m/file"), 2 * FILE_BYTES, "{found:#?}");
}

/// Fails if a file has the name or the writers of one whose inode it was given.
#[test]
fn reused_inode_does_not_give_its_former_name() {
    if !can_record(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _alone = alone();
    let device = Device::new();
    // A process that is not recorded waits for its turn.
    let before = "mkfs; mount; rm -f mine foreign
        setsid bash -c 'until [ -e mine ]; do sleep 0.02; done
            dd if=/dev/zero of=m/foreign bs=64k count=16 status=none; touch foreign' > /dev/null 2>&1 &";
    let script = "dd if=/dev/zero of=m/mine bs=64k count=16 status=none; rm m/mine; touch mine
        until [ -e foreign ]; do sleep 0.02; done; sync";
    let found = device.pieces(before, script, &[]);
    assert_eq!(bytes_of(&found, "m/mine"), 0, "{found:#?}");
    assert!(found.iter().all(|it| it.writers.is_empty()), "{found:#?}");
}

/// Fails if a process is taken for the writer that only had the dirty pages of other processes
/// written.
#[test]
fn sync_caller_is_not_the_writer() {
    if !can_record(&[Need::Loop, Need::Fio, Need::Program("mkfs.ext4"), Need::Program("python3")]) {
        return;
    }
    let _alone = alone();
    let device = Device::new();
    let mapped = "import mmap, sys
f = open(sys.argv[1], \"r+b\"); m = mmap.mmap(f.fileno(), 0); m[:] = b\"x\" * len(m)";
    let script = format!(
        "sync m/before
         python3 -c '{mapped}' m/mapped; sync m/mapped
         fio --name=j --filename=m/ring --ioengine=io_uring --rw=write --bs=64k --size=1m --fallocate=none > fio; sync m/ring"
    );
    let before = "mkfs; mount; write m/mapped; write m/ring; sync
        dd if=/dev/zero of=m/before bs=64k count=16 status=none";
    let found = device.pieces(before, &script, &[]);
    for (name, program) in
        [("m/before", "unknown"), ("m/mapped", "unknown"), ("m/ring", "inferred")]
    {
        let is_of = |it: &&JsonPiece| it.path.as_ref().is_some_and(|it| it.ends_with(name));
        let of_file: Vec<&JsonPiece> = found.iter().filter(is_of).collect();
        assert_eq!(bytes_of(&found, name), FILE_BYTES, "{name}: {found:#?}");
        let is_so = |it: &&JsonPiece| it.program.as_deref() == Some(program);
        assert!(of_file.iter().all(is_so), "{name}: {of_file:#?}");
        let by_fio =
            |it: &&JsonPiece| it.writers.iter().any(|it| it.comm.as_deref() == Some("fio"));
        assert_eq!(of_file.iter().all(by_fio), name == "m/ring", "{of_file:#?}");
    }
}

/// Fails if a piece has the name that its file had when it was opened, and not the one that it has
/// when it is written.
#[test]
fn pieces_follow_renames() {
    if !can_record(&[Need::Loop, Need::Program("mkfs.ext4"), Need::Program("python3")]) {
        return;
    }
    let _alone = alone();
    let device = Device::new();
    let program = "import os
os.chdir(\"m\")
def new(name, byte):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT); os.write(fd, byte * 65536); os.fsync(fd); return fd
old = new(\"log\", b\"o\"); os.rename(\"log\", \"log.1\"); new(\"log\", b\"n\")
os.write(old, b\"p\" * 131072); os.fsync(old)
closed = os.open(\"part\", os.O_WRONLY | os.O_CREAT); os.write(closed, b\"c\" * 196608); os.close(closed)
os.rename(\"part\", \"whole\"); os.sync()
gone = os.open(\"gone\", os.O_WRONLY | os.O_CREAT); os.write(gone, b\"g\" * 262144); os.unlink(\"gone\"); os.fsync(gone)";
    let expected = [
        ("m/log", 2 * 65536),
        ("m/log.1", 131_072),
        ("m/part", 0),
        ("m/whole", 196_608),
        ("m/gone (deleted)", 262_144),
    ];
    for _ in 0..5 {
        let found = device.pieces("mkfs; mount", &format!("python3 -c '{program}'"), &[]);
        let unverified = Some("unverified".to_owned());
        if found
            .iter()
            .any(|it| it.ino.is_some() && [&None, &unverified].contains(&&it.path_source))
        {
            continue;
        }
        for (name, bytes) in expected {
            assert_eq!(bytes_of(&found, name), bytes, "{name}: {found:#?}");
        }
        let inodes = |name: &str| -> BTreeSet<Option<u64>> {
            let of_name =
                found.iter().filter(|it| it.path.as_ref().is_some_and(|it| it.ends_with(name)));
            of_name.map(|it| it.ino).collect()
        };
        assert_eq!(inodes("m/log").len(), 2, "before the rename it is the old one");
        assert!(inodes("m/log").is_superset(&inodes("m/log.1")), "{found:#?}");
        return;
    }
    panic!("on a busy machine a name may be read too late, but not each time");
}

/// Fails if a thread that is inside a call which is not recorded is taken for the program that has
/// written, or the metadata that a `sync` brings for that of the program which called it.
#[test]
fn unrecorded_call_has_no_attributed_writes() {
    if !can_record(&[Need::Loop, Need::Program("mkfs.ext4"), Need::Program("python3")]) {
        return;
    }
    let _alone = alone();
    let device = Device::new();
    // FS_IOC_FIEMAP with FIEMAP_FLAG_SYNC writes the file back.
    let map = "import fcntl, struct, sys
fd = open(sys.argv[1], \"rb\")
fcntl.ioctl(fd, 0xc020660b, struct.pack(\"QQIIII\", 0, 2**64 - 1, 1, 0, 0, 0))";
    let script = format!(
        "dd if=/dev/zero of=m/written bs=64k count=16 status=none; python3 -c '{map}' m/written
         python3 -c '{map}' m/before; sync"
    );
    let before = "mkfs; mount; dd if=/dev/zero of=m/before bs=64k count=16 status=none";
    for _ in 0..5 {
        let found = device.pieces(before, &script, &[]);
        let of = |name: &str| -> Vec<&JsonPiece> {
            found
                .iter()
                .filter(|it| it.path.as_ref().is_some_and(|it| it.ends_with(name)))
                .collect()
        };
        if [of("m/written"), of("m/before")].iter().any(Vec::is_empty) {
            continue;
        }
        for piece in of("m/written") {
            assert_eq!(piece.program.as_deref(), Some("inferred"), "{piece:#?}");
            let writers: Vec<_> = piece.writers.iter().map(|it| it.comm.as_deref()).collect();
            assert_eq!(writers, [Some("dd")], "{piece:#?}");
        }
        for piece in of("m/before") {
            assert_eq!(piece.program.as_deref(), Some("unknown"), "{piece:#?}");
        }
        let own = found.iter().filter(|it| matches!(it.behind.as_str(), "metadata" | "journal"));
        let claimed: Vec<_> = own.filter(|it| it.program.is_some()).collect();
        assert!(claimed.is_empty(), "{claimed:#?}");
        return;
    }
    panic!("a name may be read too late, or the files be written back before, but not each time");
}

/// Fails if the data that a commit waits for is taken for the journal, or the journal for something
/// else.
#[test]
fn journal_blocks_are_attributed_to_the_journal() {
    if !can_record(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _alone = alone();
    let device = Device::new();
    let before = "mkfs; mount nodelalloc; dd if=/dev/zero of=m/data bs=64k count=16 status=none";
    let found = device.pieces(before, "echo other > m/other; sync m/other", &["-a"]);
    let journal: u64 = found.iter().filter(|it| it.behind == "journal").map(|it| it.bytes).sum();
    assert!(journal > 0 && journal < FILE_BYTES, "{found:#?}");
    assert!(found.iter().map(|it| it.bytes).sum::<u64>() > FILE_BYTES, "{found:#?}");
}
