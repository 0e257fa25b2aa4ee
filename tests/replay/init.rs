//! Files that `replay init` makes: holes where the captured files had some, contents of the
//! captured files, and all of it for another user.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::fixture::NAMED;
use crate::support::driver::process::{Finished, run};
use crate::support::driver::recording::{
    BINARY, TIMEOUT, can_record, iotrace, plan_of_strace, record,
};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::{Need, require_all};
use crate::support::machine::turns::beside_others;
use crate::support::{copy_program, public_scratch_dir, scratch_dir, text};
use nix::unistd::{Whence, lseek};
use serde_json::Value;

/// A plan, and a directory for its replay.
struct Replay {
    plan: PathBuf,
    root: PathBuf,
}

impl Replay {
    /// Of what is recorded of this program.
    #[track_caller]
    fn of(dir: &Path, options: &[&str], program: &[&str]) -> Self {
        let options = [&NAMED, options].concat();
        let (finished, recording) = record(&dir.join("trace"), &options, program);
        finished.success();
        recording.assert_whole();
        Self::of_log(&dir.join("trace/traces.iocap"), &dir.join("plan"), dir.join("root"))
    }

    /// A replay of made-up lines of strace.
    #[track_caller]
    fn of_strace(dir: &Path, lines: &str, root: PathBuf) -> Self {
        Self { plan: plan_of_strace(lines, dir, "p"), root }
    }

    #[track_caller]
    fn of_log(log: &Path, plan: &Path, root: PathBuf) -> Self {
        iotrace(&["replay", "plan", text(log), "-o", text(plan)]).success();
        Self { plan: plan.to_owned(), root }
    }

    fn init(&self, options: &[&str]) -> Finished {
        let first = ["replay", "init", text(&self.plan), "--root", text(&self.root)];
        iotrace(&[&first, options].concat())
    }

    fn run(&self, options: &[&str]) -> Finished {
        let first = ["replay", "run", text(&self.plan), "--root", text(&self.root), "--json"];
        iotrace(&[&first[..], &["--speed", "max"], options].concat())
    }

    /// Returns its report, in which no operation may have another result than in the capture.
    #[track_caller]
    fn assert_same(&self) -> Value {
        let finished = self.run(&[]);
        let report: Value = serde_json::from_str(&finished.stdout())
            .unwrap_or_else(|_| panic!("{}", finished.stderr()));
        assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
        assert_eq!(report["is_whole"], true, "{report:#}");
        report
    }

    #[track_caller]
    fn purge(&self) {
        iotrace(&["replay", "purge", "--root", text(&self.root)]).success();
        assert!(!self.root.exists());
    }

    /// Path in the replay's directory of a path of the capture.
    fn inside(&self, path: &Path) -> PathBuf {
        self.root.join("files").join(path.strip_prefix("/").expect("from the root"))
    }
}

/// Ranges of a file that are data.
fn data(path: &Path) -> Vec<(i64, i64)> {
    let file = File::open(path).expect("there");
    let (mut found, mut at) = (Vec::new(), 0);
    while let Ok(from) = lseek(&file, at, Whence::SeekData) {
        at = lseek(&file, from, Whence::SeekHole).expect("behind data");
        found.push((from, at));
    }
    found
}

/// A file of 10 MB in three pieces, the last one not at its end.
fn sparse_file(path: &Path) {
    let file = File::create_new(path).expect("space");
    file.set_len(10_000_019).expect("space");
    for (bytes, at) in [(13_001, 0), (3, 5_000_000), (70_001, 7_000_000)] {
        file.write_all_at(&vec![b'a'; bytes], at).expect("space");
    }
    file.sync_all().expect("space");
}

/// Fails if a file whose holes a program has asked for has others in the replay, whatever it
/// contains.
#[test]
fn initial_files_have_the_captured_holes() {
    if !can_record(&[Need::Uprobes, Need::Program("qemu-img")]) {
        return;
    }
    let _turn = beside_others();
    let programs = [
        "cp sparse copy",
        "cp --sparse=always sparse copy",
        "tar -cSf made.tar sparse",
        "qemu-img convert -f raw -O qcow2 sparse made.qcow2",
        // Holes that the program has made itself.
        "truncate -s 10M own && printf abc | dd of=own bs=1 seek=5000000 conv=notrunc && cp own copy && tar -cSf made.tar own",
        // Holes of the start are asked for when something has been written between them.
        "dd if=/dev/zero of=sparse bs=4096 seek=700 count=3 conv=notrunc && cp sparse copy",
    ];
    for program in programs {
        let dir = scratch_dir("holes");
        let place = dir.path().join("place");
        fs::create_dir(&place).expect("a directory");
        let sparse = place.join("sparse");
        sparse_file(&sparse);
        let expected = data(&sparse);
        assert_eq!(expected.len(), 3, "{expected:?}");
        let line = format!("cd {} && {program}", text(&place));
        let replay = Replay::of(dir.path(), &[], &["sh", "-c", &line]);
        for content in ["random", "zero", "sparse"] {
            replay.init(&["--content", content]).success();
            let made = replay.inside(&sparse);
            if made.exists() && !program.starts_with("dd") {
                assert_eq!(data(&made), expected, "{program}, {content}");
            }
            replay.assert_same();
        }
    }
}

/// Fails if a plan does not have the known holes, or two plans of a log differ.
#[test]
fn plan_contains_holes() {
    let _turn = beside_others();
    const LINES: &str = r#"7 1700000000.000000 openat(AT_FDCWD, "/f", O_RDONLY) = 3</f> <0.000010>
7 1700000000.001000 lseek(3</f>, 0, SEEK_DATA) = 8192 <0.000010>
7 1700000000.002000 lseek(3</f>, 8192, SEEK_HOLE) = 12288 <0.000010>
7 1700000000.003000 lseek(3</f>, 12288, SEEK_DATA) = -1 ENXIO (No such device or address) <0.000010>
7 1700000000.004000 lseek(3</f>, 0, SEEK_END) = 100003 <0.000010>
7 1700000000.005000 openat(AT_FDCWD, "/g", O_RDONLY) = 4</g> <0.000010>
7 1700000000.006000 lseek(4</g>, 0, SEEK_HOLE) = 20011 <0.000010>
7 1700000000.007000 lseek(4</g>, 0, SEEK_END) = 20011 <0.000010>
"#;
    if !require_all(&[Need::Root]) {
        return;
    }
    let dir = scratch_dir("holes");
    let replay = Replay::of_strace(dir.path(), LINES, dir.path().join("root"));
    let plan = || fs::read(&replay.plan).expect("a plan");
    let first = plan();
    fs::remove_file(&replay.plan).expect("ours");
    let log = dir.path().join("p.iocap");
    Replay::of_log(&log, &replay.plan, replay.root.clone());
    assert!(first == plan());
    let report = iotrace(&["replay", "plan", "--json", text(&log)]).success().stdout();
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let files = report["files_before"].as_array().expect("a list").iter();
    let holes: Vec<_> = files.map(|it| it["hole_bytes"].as_u64()).collect();
    assert_eq!(holes, [Some(8192 + 100_003 - 12_288), Some(0)]);
    for content in ["compress:50", "sparse"] {
        let said = replay.init(&["--content", content]).success().stderr();
        assert!(
            said.contains("(95907 in holes)") && !said.contains("do not have all holes"),
            "{said}"
        );
        assert_eq!(data(&replay.inside(Path::new("/f"))), [(8192, 12_288)], "{content}");
        assert_eq!(data(&replay.inside(Path::new("/g"))), [(0, 20_011)], "{content}");
        replay.assert_same();
    }
}

/// Names below a directory and how long they were in the capture.
const CAPTURED: [(&str, usize); 8] = [
    ("same", 400_009),
    ("holes", 9_000_011),
    ("longer", 30_011),
    ("shorter", 30_013),
    ("gone", 4099),
    ("pipe", 4091),
    ("link", 5003),
    ("device", 5009),
];

/// Lines of strace of a program that has read each of these files to its end.
fn reading(place: &Path) -> String {
    let mut lines = String::new();
    for (number, (name, bytes)) in CAPTURED.into_iter().enumerate() {
        let path = place.join(name);
        let (path, fd) = (text(&path), number + 3);
        lines += &format!(
            "7 17000000{number:02}.000000 openat(AT_FDCWD, \"{path}\", O_RDONLY) = {fd}<{path}> <0.000010>\n\
             7 17000000{number:02}.001000 read({fd}<{path}>, \"\"..., 16777216) = {bytes} <0.000010>\n"
        );
    }
    lines
}

/// Creates the files as they are when the replay is made.
fn originals(place: &Path) {
    let bytes = |of: &str, count| -> Vec<u8> { of.bytes().cycle().take(count).collect() };
    fs::write(place.join("same"), bytes("same", 400_009)).expect("space");
    fs::set_permissions(place.join("same"), Permissions::from_mode(0o640)).expect("ours");
    let holes = File::create_new(place.join("holes")).expect("space");
    holes.set_len(9_000_011).expect("space");
    holes.write_all_at(&bytes("holes", 70_001), 4_194_304).expect("space");
    fs::write(place.join("longer"), bytes("longer", 50_021)).expect("space");
    fs::write(place.join("shorter"), bytes("shorter", 20_011)).expect("space");
    let pipe = nix::unistd::mkfifo(&place.join("pipe"), nix::sys::stat::Mode::S_IRUSR);
    pipe.expect("a pipe");
    fs::write(place.join("behind"), bytes("behind", 5003)).expect("space");
    symlink("behind", place.join("link")).expect("a link");
    symlink("/dev/zero", place.join("device")).expect("a link");
}

/// True if the file's room is another one's, too.
fn is_shared(path: &Path) -> bool {
    let mut filefrag = Command::new("filefrag");
    let reported = run(filefrag.arg("-vs").arg(path), TIMEOUT).expect("it ends").success();
    reported.stdout().contains("shared")
}

/// Fails if contents are not those of the captured files, are not shared where that can be, if
/// anything is read that is no file, or if a user gets more rights to a copy than to its original.
#[test]
fn contents_come_from_the_captured_files() {
    let _turn = beside_others();
    let programs = ["filefrag", "mkfs.btrfs", "mkfs.xfs", "mkfs.ext4"].map(Need::Program);
    if !require_all(&[&[Need::Root, Need::Loop], &programs[..]].concat()) {
        return;
    }
    for (file_system, is_sharing) in [("btrfs", true), ("xfs", true), ("ext4", false)] {
        let dir = scratch_dir("originals");
        let mounted = Mounted::new(dir.path(), file_system, 400 << 20);
        let place = mounted.path().join("place");
        fs::create_dir(&place).expect("space");
        originals(&place);
        let root = mounted.path().join("root");
        let replay = Replay::of_strace(dir.path(), &reading(&place), root);
        let said = replay.init(&["--content", "original"]).success().stderr();
        let made = |name: &str| replay.inside(&place.join(name));
        for (name, bytes) in CAPTURED {
            let contents = fs::read(made(name)).expect("made");
            let original = match name {
                "gone" | "pipe" | "device" => Vec::new(),
                _ => fs::read(place.join(name)).expect("there"),
            };
            let common = original.len().min(bytes);
            assert_eq!(contents.len(), bytes, "{name}");
            assert!(contents[..common] == original[..common], "{name} on {file_system}");
            assert!(contents[common..].iter().filter(|it| **it != 0).count() * 2 >= bytes - common);
        }
        assert_eq!(is_shared(&made("same")), is_sharing, "{file_system}");
        assert!(made("holes").metadata().expect("made").blocks() * 512 < 1 << 20);
        let mode = made("same").metadata().expect("made").mode();
        assert_eq!(mode & 0o777, 0o640, "{file_system}");
        let expected = match is_sharing {
            true => "contents of 4 files (",
            false => "copied from the originals; they cannot be shared: Operation not supported",
        };
        for expected in [
            expected,
            "contents of 1 file (/",
            "from originals that are shorter now, and generated beyond their end",
            "generated: the originals do not exist",
            "contents of 2 files (",
            "generated: the originals are not regular files on a disk",
        ] {
            assert!(said.contains(expected), "no {expected}: {said}");
        }
        replay.assert_same();
        // The rounds after the first one have them, too.
        replay.init(&["--content", "original"]).success();
        replay.run(&["--loop", "2"]).success();
        let again = fs::read(made("same")).expect("made");
        assert!(again == fs::read(place.join("same")).expect("there"));
        replay.purge();
        assert_eq!(fs::read_dir(&place).expect("there").count(), 8);
    }
}

/// Fails if a file of which the user may not read the original is taken for one that shares its
/// contents, and needs no room.
#[test]
fn unreadable_files_need_space() {
    if !require_all(&[Need::Root, Need::Loop, Need::Program("mkfs.xfs")]) {
        return;
    }
    let _turn = beside_others();
    // A directory that each user can enter; that of the build may be in a home directory.
    let dir = public_scratch_dir("originals");
    let mounted = Mounted::new(dir.path(), "xfs", 400 << 20);
    let original = mounted.path().join("original");
    let file = File::create_new(&original).expect("space");
    file.set_len((1 << 30) + 4099).expect("space");
    fs::set_permissions(&original, Permissions::from_mode(0o600)).expect("ours");
    let path = text(&original);
    let lines = format!(
        "7 1700000000.000000 openat(AT_FDCWD, \"{path}\", O_RDONLY) = 3<{path}> <0.000010>\n\
         7 1700000000.001000 pread64(3<{path}>, \"\"..., 4099, 1073741824) = 4099 <0.000010>\n"
    );
    let replay = Replay::of_strace(dir.path(), &lines, mounted.path().join("root"));
    replay.init(&["--content", "original"]).success();
    let refused = |options: &[&str]| {
        let finished = replay.init(&[&["--content", "original"], options].concat());
        assert_eq!(finished.status.code(), Some(125), "{}", finished.stderr());
        let words = "the files need 1073745923 bytes and";
        assert!(finished.stderr().contains(words), "{}", finished.stderr());
    };
    refused(&["--user", "nobody"]);
    // Files that the user may read are shared as root would share them.
    fs::set_permissions(&original, Permissions::from_mode(0o644)).expect("ours");
    replay.init(&["--content", "original", "--user", "nobody"]).success();
    replay.assert_same();
    replay.purge();
}

const NOBODY: u32 = 65_534;

/// Fails if files are another one's, if the replay is done by root, or if the user gets files
/// without the right to read them.
#[test]
fn replay_runs_as_another_user() {
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let _turn = beside_others();
    let dir = tempfile::tempdir().expect("a directory that all users can reach");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("ours");
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("a directory");
    fs::set_permissions(&place, Permissions::from_mode(0o777)).expect("ours");
    fs::write(place.join("in"), [b'i'; 5003]).expect("space");
    let program = "umask 022; mkdir d e; cp in d/x; cat d/x in > out; mv d/x e/y; ln e/y e/z; chmod 400 e/y; rm -r e; cp out d";
    let line = format!("cd {} && {program}", text(&place));
    let replay = Replay::of(dir.path(), &["--as-user", "nobody"], &["sh", "-c", &line]);
    // Made files are gone for the replay; read files are secret now.
    for name in ["d", "out"] {
        let path = place.join(name);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("ours");
    }
    fs::set_permissions(place.join("in"), Permissions::from_mode(0o600)).expect("ours");
    let said = replay.init(&["--user", "nobody", "--content", "original"]).success().stderr();
    assert!(said.contains(concat!("they belong to ", "nobody")), "{said}");
    let unreadable = format!(
        "contents of 1 file ({}): generated: the originals cannot be read: Permission denied",
        text(&place.join("in"))
    );
    assert!(said.contains(&unreadable), "{said}");
    let owner = |path: &Path| path.symlink_metadata().expect("there").uid();
    let secret = fs::read(replay.inside(&place.join("in"))).expect("made");
    assert!(secret.len() == 5003 && secret != [b'i'; 5003]);
    let report = replay.assert_same();
    assert!(report["notes"].to_string().contains(concat!("ran as user ", "nobody")), "{report:#}");
    for path in ["", "in", "out", "d", "d/out"] {
        assert_eq!(owner(&replay.inside(&place.join(path))), NOBODY, "{path}");
    }
    assert_eq!(owner(&replay.root.join("files")), NOBODY);
    for own in ["iotrace-perf.state", "iotrace-perf.files", "iotrace-perf.given"] {
        let metadata = replay.root.join(own).symlink_metadata().expect("there");
        assert_eq!((metadata.uid(), metadata.mode() & 0o077), (0, 0), "{own}");
    }
    assert_eq!(replay.root.metadata().expect("there").mode() & 0o077, 0);
    replay.init(&["--user", "65534"]).success();
    replay.run(&["--loop", "2"]).success();
    assert_eq!(owner(&replay.inside(&place.join("d/out"))), NOBODY);
    replay.purge();
}

/// Fails if a replay that runs as another user may do what only root may.
#[test]
fn replay_as_a_user_has_no_privileges_of_root() {
    if !require_all(&[Need::Root]) {
        return;
    }
    let _turn = beside_others();
    const LINES: &str = r#"7 1700000000.000000 chmod("/d", 0555) = 0 <0.000010>
7 1700000000.001000 mkdir("/d/e", 0777) = 0 <0.000010>
"#;
    let dir = scratch_dir("user");
    let replay = Replay::of_strace(dir.path(), LINES, dir.path().join("root"));
    for (user, mismatches) in [(&[][..], 0), (&["--user", "nobody"], 1)] {
        replay.init(user).success();
        let report: Value = serde_json::from_str(&replay.run(&[]).stdout()).expect("JSON");
        assert_eq!(report["mismatches"], mismatches, "{report:#}");
    }
    let finished = replay.init(&["--user", "no such name"]);
    assert!(finished.stderr().contains("--user no such name: there is no such user"));
    replay.purge();
    let place = tempfile::tempdir().expect("a directory that all users can reach");
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).expect("ours");
    let binary = place.path().join("iotrace-perf");
    copy_program(BINARY, &binary);
    let mut other = Command::new(binary);
    other.args(["replay", "init", "plan", "--root", "root", "--user", "root"]);
    let finished = run(other.uid(NOBODY).gid(NOBODY), TIMEOUT).expect("it ends");
    assert_eq!(finished.status.code(), Some(125));
    assert!(finished.stderr().contains("--user root: only root can do a replay as another user"));
}
