//! `watch` and `ctl`: of a watched file there is a line for each access, as the program knows it and the kernel counts it.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::diskstats::DiskStats;
use support::json::JsonPiece;
use support::mounted::Mounted;
use support::need::{Need, require_all};
use support::process::{self, Finished};
use support::recording::{BINARY, Recording, TIMEOUT, alone, can_record, compile, wait_until};
use support::scratch_dir;
use tempfile::TempDir;

/// On a busy machine the name of a file may be read too late, which is told, but not each time.
const RUNS_MAX: usize = 5;

/// A recording that runs, and answers.
struct Watching {
    child: Child,
    dir: TempDir,
}

impl Watching {
    /// `iotrace-perf VERB OPTIONS --control …`; it is on when this returns.
    #[track_caller]
    fn start(verb: &str, options: &[&str]) -> Self {
        let dir = scratch_dir("watch");
        let mut command = Command::new(BINARY);
        command.arg(verb).arg("--control").arg(dir.path().join("control"));
        if let Ok(source) = std::env::var("IOTRACE_TEST_SOURCE") {
            command.args(["--source", &source]);
        }
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

    fn socket(&self) -> PathBuf {
        self.dir.path().join("control")
    }

    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).expect("it is there")
    }

    fn try_ctl(&self, words: &[&str]) -> Finished {
        let mut command = Command::new(BINARY);
        command.arg("ctl").arg("--control").arg(self.socket()).args(words);
        process::run(&mut command, TIMEOUT).expect("it ends")
    }

    #[track_caller]
    fn ctl(&self, words: &[&str]) -> String {
        self.try_ctl(words).success().stdout()
    }

    #[track_caller]
    fn refuses(&self, words: &[&str], why: &str) {
        let finished = self.try_ctl(words);
        let said = finished.stderr();
        assert!(!finished.status.success() && said.contains(why), "{words:?}: {said}");
        assert_eq!(finished.stdout(), "", "{words:?}");
    }

    #[track_caller]
    fn count(&self, file: &str, what: &str) -> u64 {
        let text = self.ctl(&["counts", file]);
        let mut lines = text.lines().filter_map(|it| it.split_once(' '));
        let found = lines.find(|it| it.0 == what).unwrap_or_else(|| panic!("{what}: {text}"));
        found.1.parse().expect("a number")
    }

    /// True if it is not known of everything that such a program did to which file.
    #[track_caller]
    fn is_in_doubt(&self, comms: &[&str]) -> bool {
        let text = self.ctl(&["counts"]);
        let unknown = text.lines().filter(|it| it.contains(" unidentified "));
        let mut words = unknown.filter_map(|it| it.rsplit(' ').next());
        words.any(|it| comms.contains(&it))
    }

    /// The file's log.
    #[track_caller]
    fn log(&self, file: &str) -> Vec<Line> {
        self.ctl(&["log", file]).lines().map(Line::parse).collect()
    }

    /// Ends it as a user does; what it wrote to both outputs.
    #[track_caller]
    fn end(mut self) -> (String, String) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        kill(Pid::from_raw(pid), Signal::SIGINT).expect("it runs");
        let status = process::wait(&mut self.child, TIMEOUT).expect("it ends");
        let said = (self.said("stdout"), self.said("stderr"));
        assert!(status.success(), "{status}: {}", said.1);
        assert!(!self.socket().exists(), "it goes with its recording");
        said
    }
}

impl Drop for Watching {
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
struct Line {
    seconds: f64,
    is_write: bool,
    address: u64,
    bytes: u64,
    level: String,
    comm: String,
    pid: u32,
}

impl Line {
    #[track_caller]
    fn parse(line: &str) -> Self {
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
fn bytes_of(lines: &[Line], level: &str, is_write: bool) -> u64 {
    let is_such = |it: &&Line| it.level == level && it.is_write == is_write;
    lines.iter().filter(is_such).map(|it| it.bytes).sum()
}

/// Those of calls: direction, offset, bytes.
fn calls(lines: &[Line]) -> Vec<(bool, u64, u64)> {
    let of_calls = lines.iter().filter(|it| it.level == "VFS");
    of_calls.map(|it| (it.is_write, it.address, it.bytes)).collect()
}

/// What `COUNT` calls of `BYTES` do.
fn row(is_write: bool, count: u64, bytes: u64) -> Vec<(bool, u64, u64)> {
    (0..count).map(|it| (is_write, it * bytes, bytes)).collect()
}

/// A program that does with a file what it is told.
struct Obeys {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Obeys {
    #[track_caller]
    fn start(dir: &Path, file: &Path) -> Self {
        let program = compile("obeys.c", dir);
        let mut command = Command::new(program);
        command.arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let (to, from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut obeys = Self { child, to, from: BufReader::new(from) };
        obeys.says("ready");
        obeys
    }

    #[track_caller]
    fn says(&mut self, word: &str) {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("it says something");
        assert_eq!(line.trim_end(), word);
    }

    /// Does so many of this, and has done it when this returns.
    #[track_caller]
    fn does(&mut self, what: char, count: u64, bytes: u64) {
        writeln!(self.to, "{what} {count} {bytes}").expect("it listens");
        self.says("done");
    }

    #[track_caller]
    fn end(mut self) {
        drop(self.to);
        assert!(process::wait(&mut self.child, TIMEOUT).expect("it ends").success());
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// What the kernel calls the device of a file, and its inode.
fn name_of(file: &Path) -> String {
    let found = fs::metadata(file).expect("it is there");
    let (major, minor) = (nix::sys::stat::major(found.dev()), nix::sys::stat::minor(found.dev()));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    let link = link.ok().and_then(|it| Some(it.file_name()?.to_str()?.to_owned()));
    format!("{}_{}", link.unwrap_or_else(|| format!("{major}:{minor}")), found.ino())
}

/// A file of so many blocks of 4 KiB on a file system of its own, none of it in memory that is not on the disk.
struct Place {
    disk: Mounted,
    _memory: TempDir,
}

impl Place {
    #[track_caller]
    fn new(bytes: u64) -> Self {
        let memory = tempfile::Builder::new().prefix("watch").tempdir_in("/dev/shm");
        let memory = memory.expect("a directory");
        Self { disk: Mounted::new(memory.path(), "ext4", bytes), _memory: memory }
    }

    fn file(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.disk.path()).expect("it is there").join(name)
    }
}

fn may_run(more: &[Need]) -> bool {
    can_record(&[Need::Loop, Need::Program("mkfs.ext4")]) && require_all(more)
}

/// Fails if an access has no line, a second one, or says anything else than what the program did.
#[test]
fn every_access_of_a_watched_file_has_its_line() {
    if !may_run(&[]) {
        return;
    }
    let _alone = alone();
    let place = Place::new(32 << 20);
    let (file, other) = (place.file("a file;\n"), place.file("other"));
    let dir = scratch_dir("watch");
    let mut program = Obeys::start(dir.path(), &file);
    let mut bystander = Obeys::start(dir.path(), &other);
    let pids = format!("{},{}", program.child.id(), bystander.child.id());
    let watching = Watching::start("watch", &[text(&file), "-n", "1000", "-p", &pids]);
    let name = name_of(&file);
    let shown = text(&file).replace('\n', "\\x0a");
    assert_eq!(watching.ctl(&["list"]), format!("{name} {shown}\n"));
    program.does('w', 23, 4099);
    bystander.does('w', 7, 4099);
    program.does('r', 29, 1031);
    program.does('c', 1, 5003);
    program.does('s', 1, 1);
    let log = watching.log(text(&file));
    let copy = [(false, 0, 5003), (true, 1 << 20, 5003)];
    let expected = [row(true, 23, 4099), row(false, 29, 1031), copy.to_vec()].concat();
    assert_eq!(calls(&log), expected);
    let pid = program.child.id();
    assert!(
        log.iter()
            .filter(|it| it.level == "VFS")
            .all(|it| (it.comm.as_str(), it.pid) == ("obeys", pid))
    );
    assert!(log.is_sorted_by(|a, b| a.seconds <= b.seconds) && log[0].seconds > 0.0, "{log:?}");
    // Nobody else writes it; its blocks have 4 KiB, or 1 KiB.
    let written = bytes_of(&log, "BLK", true);
    let least: u64 = 23 * 4099 + 5003;
    assert!(written >= least && written <= least.next_multiple_of(4096) + 2 * 4096, "{written}");
    assert_eq!(bytes_of(&log, "BLK", false), 0);
    assert_eq!(watching.count(&name, "blk_exact_bytes"), written, "ext4 says where it lies");
    let status = watching.ctl(&["status", text(&file)]);
    let words: Vec<&str> = status.split_whitespace().collect();
    assert!(matches!(words.as_slice(), ["1", _, "1000", kept] if *kept == log.len().to_string()));
    let lines = watching.ctl(&["log", &name]);
    let (stream, said) = watching.end();
    let with_name = |it: &str| format!("{it};{name}\n");
    let mut expected: Vec<String> = lines.lines().map(with_name).collect();
    let mut found: Vec<String> = stream.lines().map(|it| format!("{it}\n")).collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected, "what is printed is what is logged");
    assert!(said.contains("VFS 54 ("), "{said}");
    program.end();
    bystander.end();
}

/// Fails if something of a program that is launched is missed, or its output is not its own.
#[test]
fn a_launched_program_is_watched_from_its_start() {
    if !may_run(&[]) {
        return;
    }
    let _alone = alone();
    let place = Place::new(32 << 20);
    let path = place.file("file");
    fs::write(&path, "").expect("made");
    for _ in 0..RUNS_MAX {
        let dir = scratch_dir("watch");
        let (out, socket) = (dir.path().join("out"), dir.path().join("control"));
        let mut watch = Command::new(BINARY);
        watch.arg("watch").arg(&path).arg("--to").arg(&out).arg("--control").arg(&socket);
        let script = format!(
            "echo own; dd if=/dev/zero of={} bs=4099 count=23 conv=notrunc,fsync status=none; exit 7",
            text(&path)
        );
        let finished = process::run(watch.args(["--", "sh", "-c", &script]), TIMEOUT);
        let finished = finished.expect("it ends");
        assert_eq!((finished.status.code(), finished.stdout().as_str()), (Some(7), "own\n"));
        let name = name_of(&path);
        let lines = fs::read_to_string(&out).expect("it is there");
        let line = |it: &str| {
            Line::parse(it.strip_suffix(&format!(";{name}")).unwrap_or_else(|| panic!("{it}")))
        };
        let lines: Vec<Line> = lines.lines().map(line).collect();
        let is_good = calls(&lines) == row(true, 23, 4099);
        if !is_good && finished.stderr().contains("files that are not known") {
            continue;
        }
        assert!(is_good, "{lines:#?} {}", finished.stderr());
        let block = fs::metadata(&path).expect("it is there").blksize();
        assert_eq!(bytes_of(&lines, "BLK", true), (23 * 4099_u64).next_multiple_of(block));
        return;
    }
    panic!("on a busy machine a name may be read too late, but not each time");
}

/// Fails if what is done to a file while a program works on it does not hold from that moment on.
#[test]
fn files_come_stop_and_go_while_a_program_runs() {
    if !may_run(&[]) {
        return;
    }
    let _alone = alone();
    let place = Place::new(32 << 20);
    let path = place.file("file");
    let file = text(&path);
    let dir = scratch_dir("watch");
    let mut program = Obeys::start(dir.path(), &path);
    let watching = Watching::start("watch", &["-p", &program.child.id().to_string()]);
    program.does('w', 3, 1009);
    watching.refuses(&["log", file], "is not watched");
    let name = name_of(&path);
    assert_eq!(watching.ctl(&["add", file, "23"]), format!("{name} {file}\n"));
    watching.refuses(&["add", file], "watched already");
    program.does('w', 5, 1013);
    let five = row(true, 5, 1013);
    assert_eq!(calls(&watching.log(file)), five);
    watching.ctl(&["stop", file]);
    program.does('w', 7, 1019);
    assert!(watching.ctl(&["status", file]).starts_with("0 "));
    watching.ctl(&["start", file]);
    program.does('r', 6, 1021);
    let both = [five, row(false, 6, 1021)].concat();
    assert_eq!(calls(&watching.log(file)), both);
    assert!(watching.ctl(&["status", file]).ends_with(" 23 11\n"));
    // There is room for twelve more.
    program.does('w', 17, 1031);
    let log = calls(&watching.log(&name));
    assert_eq!(log, [both, row(true, 12, 1031)].concat());
    assert_eq!(watching.count(file, "not_kept"), 5);
    let before = watching.ctl(&["status"]);
    watching.ctl(&["reset", file]);
    assert_eq!(watching.ctl(&["log", file]), "");
    program.does('w', 13, 1033);
    assert_eq!(calls(&watching.log(file)), row(true, 13, 1033));
    let time =
        |status: &str| status.split(' ').nth(2).expect("a time").parse::<f64>().expect("seconds");
    let after = watching.ctl(&["status"]);
    assert!(after.ends_with(" 23 13\n") && after.starts_with(&format!("{name} 1 ")), "{after}");
    assert_eq!(time(&after), time(&before), "a reset leaves the time alone");
    watching.ctl(&["timereset"]);
    assert!(time(&watching.ctl(&["status"])) > time(&before));
    program.does('r', 16, 1039);
    let log = watching.log(file);
    assert_eq!(calls(&log), row(false, 16, 1039));
    watching.ctl(&["remove", file]);
    assert_eq!(watching.ctl(&["list"]), "");
    program.does('w', 23, 1049);
    watching.ctl(&["add", file]);
    assert_eq!(watching.ctl(&["log", file]), "", "what was before is gone");
    // The same file under another name; and gone, it is still the one.
    let moved = place.file("moved");
    fs::rename(&path, &moved).expect("moved");
    program.does('w', 29, 1051);
    fs::remove_file(&moved).expect("removed");
    program.does('r', 28, 1061);
    let log = calls(&watching.log(file));
    assert_eq!(log, [row(true, 29, 1051), row(false, 28, 1061)].concat());
    watching.end();
    program.end();
}

/// Fails if the requests for a file are not all there, or one is there that is another's.
#[test]
fn bytes_at_the_device_are_those_that_the_kernel_counts() {
    if !may_run(&[]) {
        return;
    }
    let _alone = alone();
    for _ in 0..RUNS_MAX {
        let place = Place::new(200 << 20);
        let path = place.file("file");
        fs::write(&path, "").expect("made");
        let trace = scratch_dir("watch");
        let to = format!("{}/", text(trace.path()));
        let watching = Watching::start("record", &["-a", "--no-archive", "-o", &to]);
        let device = place.disk.device();
        let file = text(&path);
        watching.ctl(&["add", file, "20000"]);
        let before = DiskStats::wait_idle(device.name(), TIMEOUT).expect("it gets idle");
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/urandom", "bs=8k", "count=10000", "conv=fsync,notrunc", "status=none"]);
        process::run(dd.arg(format!("of={file}")), TIMEOUT).expect("it ends").success();
        let counted = DiskStats::wait_idle(device.name(), TIMEOUT).expect("it gets idle") - before;
        let (log, is_in_doubt) = (watching.log(file), watching.is_in_doubt(&["dd"]));
        let unknown = watching.count(file, "device_unknown_bytes");
        let (stream, said) = watching.end();
        assert_eq!(stream, "", "a recording prints nothing");
        let recording = Recording::open(&trace.path().join("traces.iocap"));
        let is_good = calls(&log) == row(true, 10000, 8192);
        if !is_good && is_in_doubt {
            continue;
        }
        assert!(is_good, "{} lines; {said}", log.len());
        assert_eq!(bytes_of(&log, "BLK", true), 10000 * 8192, "{said}");
        // The journal and what else the file system writes for itself is the rest.
        let requests = recording.requests();
        let pieces: Vec<&JsonPiece> = requests
            .iter()
            .filter(|it| it.disk.as_deref() == Some(device.name()) && it.op == "write")
            .filter(|it| it.ending.as_deref() == Some("completed"))
            .flat_map(|it| &it.pieces)
            .collect();
        let of = |what: &str| {
            pieces.iter().filter(|it| it.behind == what).map(|it| it.bytes).sum::<u64>()
        };
        assert_eq!(of("file"), 10000 * 8192);
        assert_eq!(of("unknown"), unknown, "it is told how much is not known");
        let all = of("file") + of("journal") + of("metadata") + of("unknown");
        assert_eq!(all, counted.written_sectors * 512);
        return;
    }
    panic!("on a busy machine a name may be read too late, but not each time");
}

/// Fails if pieces of other files are shown when one is asked for.
#[test]
fn a_filter_chooses_pieces() {
    if !may_run(&[]) {
        return;
    }
    let _alone = alone();
    for _ in 0..RUNS_MAX {
        let place = Place::new(32 << 20);
        let (one, two) = (place.file("one"), place.file("two"));
        let dir = scratch_dir("watch");
        let script = format!(
            "dd if=/dev/zero of={} bs=4k count=13 status=none; dd if=/dev/zero of={} bs=4k count=17 status=none; sync -f {0}",
            text(&one),
            text(&two)
        );
        let trace = dir.path().join("trace");
        let program = ["sh", "-c", &script];
        let (finished, recording) = support::recording::record(&trace, &["--all-block"], &program);
        finished.success();
        let lines = |glob: &str| {
            let mut command = Command::new(BINARY);
            command.args(["script", "--format", "iotracer", "-F", glob]);
            let finished = process::run(command.arg(trace.join("traces.iocap")), TIMEOUT);
            let text = finished.expect("it ends").success().stdout();
            text.lines().map(Line::parse).collect::<Vec<_>>()
        };
        let written = [&one, &two].map(|it| bytes_of(&lines(text(it)), "BLK", true));
        if written != [13 * 4096, 17 * 4096] && recording.number("unnamed") > 0 {
            continue;
        }
        assert_eq!(written, [13 * 4096, 17 * 4096]);
        return;
    }
    panic!("on a busy machine a name may be read too late, but not each time");
}

/// A way in which QEMU reads and writes images.
struct Way {
    aio: &'static str,
    cache: &'static str,
    is_direct: bool,
}

const WAYS: [Way; 4] = [
    Way { aio: "threads", cache: "writeback", is_direct: false },
    Way { aio: "threads", cache: "none", is_direct: true },
    Way { aio: "native", cache: "none", is_direct: true },
    Way { aio: "io_uring", cache: "none", is_direct: true },
];

/// What its threads are called.
const QEMU: [&str; 4] = ["qemu-io", "qemu-img", "worker", "iou-wrk"];

/// What is written to an image, at places of its own, and read.
const WRITTEN: [(u64, u64); 3] = [(1 << 20, 192 << 10), (5 << 20, 64 << 10), (9 << 20, 320 << 10)];

/// Its output goes to a file: the other end of a pipe that was made before is a file that nobody knows.
#[track_caller]
fn qemu(words: &[&str]) -> Finished {
    let dir = scratch_dir("watch");
    let out = dir.path().join("out");
    let script = format!("exec \"$@\" > {} 2>&1", text(&out));
    let mut shell = Command::new("sh");
    let mut finished =
        process::run(shell.args(["-c", &script, "sh"]).args(words), TIMEOUT).expect("it ends");
    finished.stdout = fs::read(&out).expect("it is there");
    finished
}

/// Fails if of a virtual disk something is missing that was asked of it, at one of the levels.
#[test]
fn images_of_virtual_machines_are_watched_at_both_levels() {
    if !may_run(&[Need::Program("qemu-img"), Need::Program("qemu-io")]) {
        return;
    }
    let _alone = alone();
    for way in &WAYS {
        let is_done = (0..RUNS_MAX).any(|_| images(way));
        // On a busy machine some of what `io_submit` is given may be read too late each time; each run has checked that it is told.
        let may_miss = way.aio == "native";
        assert!(is_done || may_miss, "a name may be read too late, but not each time");
    }
}

/// False if a name, or what `io_submit` was given, was read too late.
#[track_caller]
fn images(way: &Way) -> bool {
    let place = Place::new(96 << 20);
    let images = [("raw", place.file("disk.raw")), ("qcow2", place.file("disk.qcow2"))];
    for (format, image) in &images {
        let how = if *format == "raw" { "full" } else { "off" };
        let how = format!("preallocation={how}");
        qemu(&["qemu-img", "create", "-q", "-f", format, "-o", &how, text(image), "16M"]).success();
    }
    qemu(&["sync"]).success();
    let watching = Watching::start("watch", &[text(&images[0].1), text(&images[1].1)]);
    let is_known = images.iter().all(|(format, image)| {
        let image = Image { watching: &watching, way, format, path: text(image) };
        image.is_written() && image.is_read() && image.is_benched()
    });
    let (_, said) = watching.end();
    let is_said =
        ["could not be read", "files that are not known"].iter().any(|it| said.contains(it));
    assert!(is_known || is_said, "what is not known is told: {said}");
    is_known
}

/// A virtual disk, and how it is used.
struct Image<'a> {
    watching: &'a Watching,
    way: &'a Way,
    format: &'a str,
    path: &'a str,
}

/// What was logged of an image.
struct Logged {
    lines: Vec<Line>,
    called: u64,
    at_device: u64,
    /// It is known of all operations where in the image they worked.
    is_told: bool,
    /// Some names were read too late: it may be that of the image.
    is_in_doubt: bool,
    /// For people.
    text: String,
}

impl Logged {
    /// True if this holds; false if it need not, for what was done is not known for certain.
    #[track_caller]
    fn shows(&self, holds: bool) -> bool {
        assert!(holds || self.is_in_doubt, "{}", self.text);
        holds
    }
}

impl Image<'_> {
    /// What is asked of the kernel stands in memory, and may be read too late.
    fn may_miss(&self) -> bool {
        self.way.aio == "native"
    }

    /// What QEMU says.
    #[track_caller]
    fn io(&self, commands: &[String]) -> String {
        let Way { aio, cache, .. } = self.way;
        let mut words = vec!["qemu-io", "-f", self.format, "-i", aio, "-t", cache];
        words.extend(commands.iter().flat_map(|it| ["-c", it]));
        words.push(self.path);
        let said = qemu(&words).success().stdout();
        assert!(!said.contains("failed"), "{said}");
        said
    }

    /// What there is of one direction.
    #[track_caller]
    fn logged(&self, is_write: bool) -> Logged {
        let Way { aio, cache, .. } = self.way;
        let lines = self.watching.log(self.path);
        let is_told = self.watching.count(self.path, "without_line") == 0;
        let is_in_doubt = self.watching.is_in_doubt(&QEMU);
        let text = format!("{} {aio} {cache} told {is_told}: {lines:#?}", self.format);
        // A thread of the kernel's may do it then: no event tells where, but it is counted, and the device shows it.
        assert!(is_told || *aio == "io_uring", "{text}");
        let (called, at_device) =
            (bytes_of(&lines, "VFS", is_write), bytes_of(&lines, "BLK", is_write));
        Logged { lines, called, at_device, is_told, is_in_doubt, text }
    }

    #[track_caller]
    fn is_written(&self) -> bool {
        let write = |it: &(u64, u64)| format!("write -P 7 {} {}", it.0, it.1);
        let mut commands: Vec<String> = WRITTEN.iter().map(write).collect();
        commands.push("flush".into());
        self.io(&commands);
        let logged = self.logged(true);
        let Logged { lines, called, at_device, is_told, .. } = &logged;
        let all: u64 = WRITTEN.iter().map(|it| it.1).sum();
        let is_good = if self.format == "raw" {
            let found = lines.iter().filter(|it| it.level == "VFS" && it.is_write);
            let found: Vec<(u64, u64)> = found.map(|it| (it.address, it.bytes)).collect();
            if self.may_miss() && found.len() < WRITTEN.len() {
                return false;
            }
            *at_device == all && (!is_told || found == WRITTEN)
        } else if self.may_miss() && *called < all {
            return false;
        } else {
            // Its tables, too; what is new in it is written in whole blocks.
            (*called > all || !is_told) && *at_device >= all
        };
        if !logged.shows(is_good) {
            return false;
        }
        // While it is stopped nothing is logged; what was stays.
        self.watching.ctl(&["stop", self.path]);
        self.io(&["read -P 7 1M 64k".to_owned()]);
        assert_eq!(&self.watching.log(self.path), lines);
        self.watching.ctl(&["start", self.path]);
        true
    }

    #[track_caller]
    fn is_read(&self) -> bool {
        qemu(&["sync"]).success();
        self.watching.ctl(&["reset", self.path]);
        fs::write("/proc/sys/vm/drop_caches", "1").expect("root");
        self.io(&["read -P 7 9M 320k".to_owned()]);
        let logged = self.logged(false);
        let Logged { lines, called, at_device, is_told, .. } = &logged;
        if self.may_miss() && *called < 320 << 10 {
            return false;
        }
        let is_it = |it: &&Line| it.level == "VFS" && it.address >= 9 << 20;
        let found: u64 = lines.iter().filter(is_it).map(|it| it.bytes).sum();
        let is_exact = self.format != "raw" || !is_told || found == 320 << 10;
        // QEMU looks at the image, too; and the kernel reads ahead.
        logged.shows((*called >= 320 << 10 || !is_told) && *at_device >= 320 << 10 && is_exact)
    }

    #[track_caller]
    fn is_benched(&self) -> bool {
        let Way { aio, cache, is_direct } = *self.way;
        self.watching.ctl(&["reset", self.path]);
        let bench = "qemu-img bench -q -w -c 53 -d 8 -s 16k -S 32k";
        let mut words: Vec<&str> = bench.split(' ').collect();
        words.extend(["-f", self.format, "-i", aio, "-t", cache, self.path]);
        qemu(&words).success();
        let logged = self.logged(true);
        let Logged { called, at_device, is_told, .. } = logged;
        let all = 53 * (16 << 10);
        let is_raw = self.format == "raw";
        if self.may_miss() && called < all {
            return false;
        }
        logged.shows(
            (!is_told || called == all || !is_raw && called > all)
                && (!is_direct || at_device == all || !is_raw && at_device > all),
        )
    }
}

/// Says something to the socket as it is; the answer, without the greeting.
#[track_caller]
fn says(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    // It may have been cut off: then there is an answer all the same.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said).into_owned();
    let answer = said.strip_prefix("iotrace-perf control 1\n");
    answer.unwrap_or_else(|| panic!("{said}")).to_owned()
}

/// Fails if something that is said or given can end the recording, stop it from answering, or drive a terminal.
#[test]
fn bad_input_is_refused_and_harms_nobody() {
    if !may_run(&[]) {
        return;
    }
    let _alone = alone();
    let place = Place::new(32 << 20);
    let path = place.file("file");
    let dir = scratch_dir("watch");
    let mut program = Obeys::start(dir.path(), &path);
    let pid = program.child.id().to_string();
    let watching = Watching::start("watch", &[text(&path), "-p", &pid]);
    let socket = watching.socket();
    let gone = place.file("gone");
    watching.refuses(&["add", text(&gone)], "No such file");
    watching.refuses(&["add", "/dev/null"], "no regular file");
    watching.refuses(&["add", text(place.disk.path())], "no regular file");
    watching.refuses(&["add", text(&path), "0"], "watched already");
    let other = place.file("other\x1b[2J\n;\\");
    fs::write(&other, "").expect("made");
    watching.refuses(&["add", text(&other), "0"], "at least 1");
    watching.refuses(&["remove", text(&other)], "is not watched");
    watching.refuses(&["log", "sda_0"], "sda_0 is not watched");
    watching.ctl(&["add", text(&other), "1"]);
    let list = watching.ctl(&["list"]);
    assert_eq!(list.lines().count(), 2, "{list}");
    assert!(list.ends_with("/other\\x1b[2J\\x0a;\\\\\n"), "{list}");
    watching.ctl(&["remove", text(&other)]);
    let link = place.file("link");
    symlink(&path, &link).expect("a link");
    watching.refuses(&["add", text(&link)], "watched already");
    assert_eq!(watching.ctl(&["status", text(&link)]), watching.ctl(&["status", text(&path)]));
    // As it is, without `ctl`.
    assert!(says(&socket, b"nonsense\x1b[2J\n").starts_with("error nonsense\\x1b[2J is not known"));
    assert!(says(&socket, b"list\nlist").starts_with("ok 1\n"), "half a question is none");
    assert_eq!(says(&socket, b"list\nlist\n").matches("ok 1\n").count(), 2);
    assert!(says(&socket, &vec![b'a'; 1 << 20]).starts_with("error a question has at most"));
    assert!(says(&socket, b"add relative\n").starts_with("error a path from the root"));
    assert_eq!(says(&socket, b""), "");
    // Nobody is kept out for ever by those who say nothing, and the first of them are answered still.
    let quiet: Vec<UnixStream> =
        (0..8).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    let mut is_refused = false;
    wait_until("all places are taken", || {
        is_refused = says(&socket, b"list\n").starts_with("error too many");
        is_refused
    });
    program.does('w', 23, 1009);
    drop(quiet);
    wait_until("there is room again", || watching.try_ctl(&["list"]).status.success());
    assert_eq!(calls(&watching.log(text(&path))), row(true, 23, 1009));
    second_recordings(&watching, &path);
    let (_, said) = watching.end();
    assert!(said.contains("lost 0"), "{said}");
    program.end();
}

/// Where one recording is controlled there is no other; but where one has died there is.
#[track_caller]
fn second_recordings(watching: &Watching, file: &Path) {
    let socket = watching.socket();
    let run = |socket: &Path, file: &Path| {
        let mut second = Command::new(BINARY);
        second.arg("watch").arg("--control").arg(socket).arg(file).args(["-D", "100ms"]);
        process::run(&mut second, TIMEOUT).expect("it ends")
    };
    let refused = run(&socket, file);
    assert!(refused.stderr().contains("another recording is controlled there"), "{refused:?}");
    assert!(!refused.status.success());
    let dead = watching.dir.path().join("dead");
    drop(UnixListener::bind(&dead).expect("bound"));
    let nobody = |words: &[&str]| {
        let mut ctl = Command::new(BINARY);
        process::run(ctl.arg("ctl").arg("--control").args(words), TIMEOUT).expect("it ends")
    };
    for place in [text(&dead), text(&watching.dir.path().join("none"))] {
        let said = nobody(&[place, "list"]);
        assert!(!said.status.success() && said.stderr().contains("no recording is controlled at"));
    }
    run(&dead, file).success();
    let missing = run(&watching.dir.path().join("new"), Path::new("/gone"));
    assert!(missing.stderr().contains("cannot watch /gone: No such file"), "{missing:?}");
    let hostile = watching.dir.path().join(std::ffi::OsStr::from_bytes(b"\xff\x1b"));
    fs::write(&hostile, "").expect("made");
    run(&dead, &hostile).success();
}

/// Fails if a program runs unwatched, or nobody learns that what is printed is not all.
#[test]
fn what_cannot_be_watched_or_printed_is_an_error() {
    if !may_run(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("watch");
    let (file, link, ran) =
        (dir.path().join("file"), dir.path().join("link"), dir.path().join("ran"));
    fs::write(&file, "").expect("made");
    fs::hard_link(&file, &link).expect("a link");
    let watch = |words: &[&str]| {
        let mut command = Command::new(BINARY);
        command.arg("watch").arg("--control").arg(dir.path().join("control")).args(words);
        command
    };
    let (one, other) = (text(&file), text(&link));
    let refused: [(&[&str], &str); 4] = [
        (&["-n", "0", one], "at least 1"),
        (&["-n", "300000", one], "at most 262144"),
        (&[one, one], "watched already"),
        (&[one, other], "watched already"),
    ];
    for (words, why) in refused {
        let mut command = watch(words);
        let finished = process::run(command.args(["--", "touch", text(&ran)]), TIMEOUT);
        let finished = finished.expect("it ends");
        let said = finished.stderr();
        assert!(said.contains("cannot watch") && said.contains(why), "{words:?}: {said}");
        assert!(!finished.status.success() && !ran.exists(), "{words:?}");
    }
    let mut program = Obeys::start(dir.path(), &file);
    let (errors, full) =
        (dir.path().join("errors"), fs::File::options().write(true).open("/dev/full"));
    let mut command = watch(&[one, "-p", &program.child.id().to_string()]);
    command.stdin(Stdio::null()).stdout(full.expect("it is there"));
    command.stderr(fs::File::create_new(&errors).expect("a file"));
    let mut child = command.spawn().expect("it starts");
    let mut status = None;
    wait_until("it ends when nothing can be printed", || {
        program.does('w', 3, 1009);
        status = child.try_wait().expect("asked");
        status.is_some()
    });
    let said = fs::read_to_string(&errors).expect("it is there");
    assert!(!status.expect("it has ended").success() && said.contains("No space left"), "{said}");
    assert!(said.contains("VFS "), "what there was is told: {said}");
    program.end();
}
