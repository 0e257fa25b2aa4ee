//! `watch` and `ctl`: of a watched file there is a line for each access, as the program knows it
//! and the kernel counts it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::support::driver::json::JsonPiece;
use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, Recording, TIMEOUT, compile, wait_until};
use crate::support::driver::watch_session::{
    Line, RUNS_MAX, WatchDisk, WatchSession, bytes_of, may_run,
};
use crate::support::machine::turns::alone;
use crate::support::oracle::diskstats::DiskStats;
use crate::support::{scratch_dir, text};

/// Lines of calls: direction, offset, bytes.
fn calls(lines: &[Line]) -> Vec<(bool, u64, u64)> {
    let of_calls = lines.iter().filter(|it| it.level == "VFS");
    of_calls.map(|it| (it.is_write, it.address, it.bytes)).collect()
}

/// Rows of `COUNT` calls of `BYTES`.
fn row(is_write: bool, count: u64, bytes: u64) -> Vec<(bool, u64, u64)> {
    (0..count).map(|it| (is_write, it * bytes, bytes)).collect()
}

/// A program that reads and writes a file on command.
struct Obeys {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Obeys {
    #[track_caller]
    fn start(dir: &Path, file: &Path) -> Self {
        let program = compile("scripted_io.c", dir);
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

/// Device and inode number of a file, as the kernel prints them.
fn name_of(file: &Path) -> String {
    let found = fs::metadata(file).expect("it is there");
    let (major, minor) = (nix::sys::stat::major(found.dev()), nix::sys::stat::minor(found.dev()));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    let link = link.ok().and_then(|it| Some(it.file_name()?.to_str()?.to_owned()));
    format!("{}_{}", link.unwrap_or_else(|| format!("{major}:{minor}")), found.ino())
}

/// Fails if an access has no line, a second one, or differs from the program's calls.
#[test]
fn every_access_of_a_watched_file_has_its_line() {
    if !may_run(&[]) {
        return;
    }
    let _alone = alone();
    let place = WatchDisk::new(32 << 20);
    let (file, other) = (place.file("a file;\n"), place.file("other"));
    let dir = scratch_dir("watch");
    let mut program = Obeys::start(dir.path(), &file);
    let mut bystander = Obeys::start(dir.path(), &other);
    let pids = format!("{},{}", program.child.id(), bystander.child.id());
    let watching = WatchSession::start("watch", &[text(&file), "-n", "1000", "-p", &pids]);
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
            .all(|it| (it.comm.as_str(), it.pid) == ("scripted_io", pid))
    );
    assert!(log.is_sorted_by(|a, b| a.seconds <= b.seconds) && log[0].seconds > 0.0, "{log:?}");
    // No other process writes it; its blocks have 4 KiB, or 1 KiB.
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
fn launched_program_is_watched_from_its_start() {
    if !may_run(&[]) {
        return;
    }
    let _alone = alone();
    let place = WatchDisk::new(32 << 20);
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
        if !is_good && finished.stderr().contains("of unknown files") {
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
    let place = WatchDisk::new(32 << 20);
    let path = place.file("file");
    let file = text(&path);
    let dir = scratch_dir("watch");
    let mut program = Obeys::start(dir.path(), &path);
    let watching = WatchSession::start("watch", &["-p", &program.child.id().to_string()]);
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
fn bytes_at_the_device_equal_the_kernel_counters() {
    if !may_run(&[]) {
        return;
    }
    let _alone = alone();
    for _ in 0..RUNS_MAX {
        let place = WatchDisk::new(200 << 20);
        let path = place.file("file");
        fs::write(&path, "").expect("made");
        let trace = scratch_dir("watch");
        let to = format!("{}/", text(trace.path()));
        let watching = WatchSession::start("record", &["-a", "--no-archive", "-o", &to]);
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
        assert_eq!(of("unknown"), unknown, "the unknown amount is reported");
        let all = of("file") + of("journal") + of("metadata") + of("unknown");
        assert_eq!(all, counted.written_sectors * 512);
        return;
    }
    panic!("on a busy machine a name may be read too late, but not each time");
}

/// Fails if pieces of other files are shown when one is asked for.
#[test]
fn filter_chooses_pieces() {
    if !may_run(&[]) {
        return;
    }
    let _alone = alone();
    for _ in 0..RUNS_MAX {
        let place = WatchDisk::new(32 << 20);
        let (one, two) = (place.file("one"), place.file("two"));
        let dir = scratch_dir("watch");
        let script = format!(
            "dd if=/dev/zero of={} bs=4k count=13 status=none; dd if=/dev/zero of={} bs=4k count=17 status=none; sync -f {0}",
            text(&one),
            text(&two)
        );
        let trace = dir.path().join("trace");
        let program = ["sh", "-c", &script];
        let (finished, recording) =
            crate::support::driver::recording::record(&trace, &["--all-block"], &program);
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

/// Says something to the socket as it is; the answer, without the greeting.
#[track_caller]
fn says(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    // The line may have been cut off: then there is an answer all the same.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said).into_owned();
    let answer = said.strip_prefix("iotrace-perf control 1\n");
    answer.unwrap_or_else(|| panic!("{said}")).to_owned()
}

/// Fails if something that is said or given can end the recording, stop it from answering, or drive
/// a terminal.
#[test]
fn bad_input_is_refused_without_harm() {
    if !may_run(&[]) {
        return;
    }
    let _alone = alone();
    let place = WatchDisk::new(32 << 20);
    let path = place.file("file");
    let dir = scratch_dir("watch");
    let mut program = Obeys::start(dir.path(), &path);
    let pid = program.child.id().to_string();
    let watching = WatchSession::start("watch", &[text(&path), "-p", &pid]);
    let socket = watching.socket();
    let gone = place.file("gone");
    watching.refuses(&["add", text(&gone)], "No such file");
    watching.refuses(&["add", "/dev/null"], "not a regular file");
    watching.refuses(&["add", "/proc/self/mem"], "not a regular file");
    watching.refuses(&["add", text(place.disk.path())], "not a regular file");
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
    assert!(says(&socket, b"add relative\n").starts_with("error the path must be absolute"));
    assert_eq!(says(&socket, b""), "");
    // Silent clients keep no other client out for ever, and the first of them are still answered.
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
    assert!(said.contains("complete: nothing lost"), "{said}");
    program.end();
}

/// Checks that a control socket has one recording, and that one whose recording died is taken over.
#[track_caller]
fn second_recordings(watching: &WatchSession, file: &Path) {
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
    assert!(
        missing.stderr().contains("there is no file /gone; a watched file must exist before"),
        "{missing:?}"
    );
    let hostile = watching.dir.path().join(std::ffi::OsStr::from_bytes(b"\xff\x1b"));
    fs::write(&hostile, "").expect("made");
    run(&dead, &hostile).success();
}

/// Fails if a program runs unwatched, or if no message reports that the output is incomplete.
#[test]
fn unwatchable_file_or_failed_output_is_an_error() {
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
    let refused: [(&[&str], [&str; 2]); 4] = [
        (&["-n", "0", one], ["-n 0:", "at least 1"]),
        (&["-n", "300000", one], ["cannot watch", "at most 262144"]),
        (&[one, one], ["cannot watch", "watched already"]),
        (&[one, other], ["cannot watch", "watched already"]),
    ];
    for (words, why) in refused {
        let mut command = watch(words);
        let finished = process::run(command.args(["--", "touch", text(&ran)]), TIMEOUT);
        let finished = finished.expect("it ends");
        let said = finished.stderr();
        assert!(why.iter().all(|part| said.contains(part)), "{words:?}: {said}");
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
    assert!(said.contains("VFS "), "what there was is reported: {said}");
    program.end();
}
