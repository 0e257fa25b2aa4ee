//! Files of other users that are made to harm a recording by root: what it reads, opens and removes
//! has limits.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

use crate::support::driver::process::{self, Finished};
use crate::support::driver::recording::{
    BINARY, Recording, TIMEOUT, can_record, compile, iotrace, now_ns, record, recorder, wait_until,
};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::{scratch_dir, text};

const SLOW_FILES: Need = Need::KernelFile("/dev/fuse");

/// A user without rights.
const NOBODY: u32 = 65534;

/// Long enough for a busy machine, and much less than what a hang or a minute of work takes.
const SOON: Duration = Duration::from_secs(60);

/// Hears of the opens of one file.
fn listener(file: &Path) -> Fanotify {
    let flags = InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_NONBLOCK | InitFlags::FAN_CLOEXEC;
    // The event has a descriptor of the file: a FIFO must not be waited for.
    let listener = Fanotify::init(flags, EventFFlags::O_RDONLY | EventFFlags::O_NONBLOCK);
    let listener = listener.expect("we are root");
    listener
        .mark(MarkFlags::FAN_MARK_ADD, MaskFlags::FAN_OPEN, nix::fcntl::AT_FDCWD, Some(file))
        .expect("it is there");
    listener
}

/// Fails if a path that was recorded is opened at the end through a link that came to be there
/// meanwhile.
#[test]
fn recorded_paths_are_not_followed_to_other_files() {
    if !can_record(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("hostile");
    let disk = Mounted::new(dir.path(), "ext4", 16 << 20);
    let at = |name: &str| disk.path().join(name);
    fs::create_dir(at("fake")).expect("a directory");
    mkfifo(&at("fake/watchdog"), Mode::S_IRWXU).expect("a FIFO");
    let listener = listener(&at("fake/watchdog"));
    let script = "mkdir d; dd if=/dev/zero of=d/watchdog bs=4k count=7 conv=fsync 2>/dev/null; \
                  dd if=/dev/zero of=kept bs=4k count=5 conv=fsync 2>/dev/null; mv d away; ln -s fake d";
    let script = format!("cd {}; {script}", disk.path().display());
    let (finished, recording) = record(&dir.path().join("out"), &[], &["sh", "-c", &script]);
    finished.success();
    let opened = listener.read_events().map_or(0, |it| it.len());
    assert_eq!(opened, 0, "the FIFO was opened");
    recording.assert_whole();
}

/// A library of another user that this machine's dynamic linker maps into a process.
fn held(dir: &Path, assembly: &str) -> (PathBuf, Child) {
    let (source, library) = (dir.join("f.s"), dir.join("libc.evil.so"));
    fs::write(&source, assembly).expect("space");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-nostdlib", "-o", text(&library), text(&source)]);
    process::run(&mut cc, TIMEOUT).expect("it ends").success();
    std::os::unix::fs::chown(&library, Some(NOBODY), None).expect("we are root");
    let mut sleep = Command::new("sleep");
    let child = sleep.arg("600").env("LD_PRELOAD", &library).spawn().expect("it runs");
    let maps = format!("/proc/{}/maps", child.id());
    wait_until("it is mapped", || {
        fs::read_to_string(&maps).is_ok_and(|it| it.contains("libc.evil.so"))
    });
    (library, child)
}

/// Functions that each hand a path to the kernel.
fn functions(count: u32) -> String {
    let function = |it| {
        format!(
            ".globl f{it}\n.type f{it},@function\n.balign 16\nf{it}:\n mov %rdi,%rsi\n push %rbx\n mov $257,%eax\n syscall\n \
             pop %rbx\n ret\n.size f{it},.-f{it}\n"
        )
    };
    (0..count).map(function).collect()
}

/// One function with so many calls that are given a path, each of them after all the others.
fn long_function(count: u32) -> String {
    let call = " mov %rdi,%rsi\n push %rbx\n pop %rbx\n mov $257,%eax\n syscall\n test %eax,%eax\n js 9f\n";
    format!(".globl f\n.type f,@function\nf:\n{}9: ret\n.size f,.-f\n", call.repeat(count as usize))
}

fn end(mut child: Child) {
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

/// Fails if a file that any user has mapped gets as many probes as it has probe sites, or if that
/// is not reported.
#[test]
fn code_of_other_users_gets_few_probes() {
    let _turn = beside_others();
    if !can_record(&[Need::Uprobes, Need::Program("cc")]) || std::env::consts::ARCH != "x86_64" {
        return;
    }
    let dir = scratch_dir("hostile");
    let (_library, child) = held(dir.path(), &functions(6007));
    let begin = now_ns();
    let options = ["-a", "--source", "tracefs", "--names", "uprobe", "-D", "300ms"];
    let mut command = recorder(&dir.path().join("out"), &options, &[]);
    let finished = process::run(&mut command, TIMEOUT).expect("it ends").success();
    end(child);
    let said = finished.stderr();
    let reported = "none of libc.evil.so, which was not searched: has more places than are probed";
    assert!(said.contains(reported) && said.contains("libc.so.6 ("), "{said}");
    let took = Duration::from_nanos(now_ns() - begin);
    assert!(took < SOON, "{took:?}");
}

/// Fails if a signal has to wait until the code of others is looked through.
#[test]
fn signal_ends_the_search_for_probe_sites() {
    let _turn = beside_others();
    if !can_record(&[Need::Uprobes, Need::Program("cc")]) || std::env::consts::ARCH != "x86_64" {
        return;
    }
    let dir = scratch_dir("hostile");
    let (library, child) = held(dir.path(), &long_function(560));
    let options = ["-a", "--source", "tracefs", "--names", "uprobe"];
    let mut command = recorder(&dir.path().join("out"), &options, &[]);
    command.stderr(Stdio::piped()).stdout(Stdio::null());
    let tracer = command.spawn().expect("it runs");
    // The process that looks through it has given up its rights.
    let is_searching = || {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        all.map(|it| it.path()).any(|it| {
            fs::read(it.join("cmdline")).is_ok_and(|it| it.ends_with(b"find-sites\0"))
                && fs::read_to_string(it.join("maps")).is_ok_and(|it| it.contains(text(&library)))
        })
    };
    wait_until("it is looked through", is_searching);
    let begin = now_ns();
    kill(Pid::from_raw(tracer.id().cast_signed()), Signal::SIGINT).expect("it runs");
    let output = tracer.wait_with_output().expect("it ends");
    let took = Duration::from_nanos(now_ns() - begin);
    end(child);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("came before the recording had begun"), "{said}");
    assert_eq!(output.status.code(), Some(125));
    // To look it through takes ten seconds of processor time, which is its limit.
    assert!(took < Duration::from_secs(8), "{took:?}");
}

/// Fails if a FIFO is opened, and waited for, that a script names as its interpreter.
#[test]
fn fifo_as_interpreter_does_not_block() {
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("hostile");
    let (fifo, script) = (dir.path().join("fifo"), dir.path().join("script"));
    mkfifo(&fifo, Mode::S_IRWXU).expect("a FIFO");
    fs::write(&script, format!("#!{}\n", fifo.display())).expect("space");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let options = ["--source", "tracefs", "--names", "uprobe"];
    let mut command = recorder(&dir.path().join("out"), &options, &[text(&script)]);
    let finished = process::run(&mut command, SOON).expect("it ends");
    // The kernel does not run it either.
    assert_eq!(finished.status.code(), Some(126), "{}", finished.stderr());
}

/// A file system of a server that can stop to answer, and the file in it.
struct SlowFiles {
    server: Child,
    directory: PathBuf,
}

impl SlowFiles {
    fn new(dir: &Path, text: &str) -> Self {
        let (directory, file) = (dir.join("slow"), dir.join("text"));
        fs::create_dir(&directory).expect("a directory");
        fs::write(&file, text).expect("space");
        let mut server = Command::new(compile("slow_files.c", dir));
        let server = server.args([&directory, &file]).stdout(Stdio::piped());
        let mut server = server.spawn().expect("it starts");
        let mut ready = [0; 6];
        server.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("it is mounted");
        Self { server, directory }
    }

    fn program(&self) -> String {
        text(&self.directory.join("program")).to_owned()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.server.id().cast_signed())
    }
}

impl Drop for SlowFiles {
    fn drop(&mut self) {
        // Processes that wait for it go on.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = nix::mount::umount2(&self.directory, nix::mount::MntFlags::MNT_DETACH);
    }
}

/// Waits so long for the end of a tracer, and no longer for one that waits for the server of a file
/// system; returns its messages.
fn said_within(mut tracer: Child, files: SlowFiles) -> (Option<ExitStatus>, String) {
    let status = process::wait(&mut tracer, SOON).ok();
    drop(files);
    let _ = tracer.kill();
    let output = tracer.wait_with_output().expect("it ends");
    (status, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Fails if the end of a recording waits for a file system that does not answer any more, or if
/// the unread parts are not reported.
#[test]
fn hanging_file_system_does_not_block_the_end() {
    if !can_record(&[SLOW_FILES, Need::Program("cc")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("hostile");
    let files = SlowFiles::new(dir.path(), "#!/bin/sh\nkill -USR1 $1\nexec true\n");
    let (program, pid) = (files.program(), files.pid().to_string());
    let out = dir.path().join("out");
    let mut command = recorder(&out, &["--names", "reader"], &[&program, &pid]);
    let tracer = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let (status, said) = said_within(tracer, files);
    assert_eq!(status.and_then(|it| it.code()), Some(0), "{said}");
    let reason = format!("; not read: {program} (it took more than 5 s)");
    assert!(said.contains("audit: equal to /proc/PID/io") && said.contains(&reason), "{said}");
    let recording = Recording::open(&out.join("traces.iocap"));
    let unread = &recording.info["unread_programs"];
    assert_eq!(unread["programs"], 1, "{unread}");
    assert_eq!(unread["first"][0]["path"], program, "{unread}");
    // The helper, the programs without a server.
    assert_eq!(recording.info["audit"]["programs_unknown"], 1, "{}", recording.info["audit"]);
}

/// True if a process is in an exec whose file system does not answer, or waits for another process
/// that has asked the same: a child of the tracer that is no helper.
fn is_in_exec(tracer: &Child) -> bool {
    let children = format!("/proc/{0}/task/{0}/children", tracer.id());
    fs::read_to_string(children).unwrap_or_default().split_whitespace().any(|it| {
        let read = |name: &str| fs::read(format!("/proc/{it}/{name}")).unwrap_or_default();
        let (wait, is_helper) = (read("wchan"), read("cmdline").ends_with(b"read-headers\0"));
        !is_helper && [&b"request_wait_answer"[..], b"d_alloc_parallel"].contains(&&wait[..])
    })
}

/// Fails if no signal ends a tracer whose program cannot begin, or if it looks at the program's
/// file itself before.
#[test]
fn hanging_exec_is_abandoned_on_a_signal() {
    if !can_record(&[SLOW_FILES, Need::Uprobes, Need::Program("cc")]) {
        return;
    }
    let _turn = beside_others();
    for names in ["reader", "uprobe"] {
        let dir = scratch_dir("hostile");
        let files = SlowFiles::new(dir.path(), "#!/bin/sh\n");
        kill(files.pid(), Signal::SIGUSR1).expect("it is ours");
        let options = ["--source", "tracefs", "--names", names];
        let mut command = recorder(&dir.path().join("out"), &options, &[&files.program()]);
        let tracer = command.stderr(Stdio::piped()).spawn().expect("it runs");
        let until = now_ns() + u64::try_from(SOON.as_nanos()).expect("a minute");
        while !is_in_exec(&tracer) && now_ns() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let began = is_in_exec(&tracer);
        kill(Pid::from_raw(tracer.id().cast_signed()), Signal::SIGINT).expect("it runs");
        let (program, (status, said)) = (files.program(), said_within(tracer, files));
        assert!(began, "{names}: {said}");
        let expected = format!("signal 2 came before {program} had begun");
        assert!(said.contains(&expected), "{names}: {said}");
        assert_eq!(status.and_then(|it| it.code()), Some(125), "{names}: {said}");
        assert!(!dir.path().join("out/traces.iocap").exists(), "{names}");
    }
}

/// Fails if something else than a file is opened because it is called like a log.
#[test]
fn logs_are_files() {
    let _turn = beside_others();
    let dir = scratch_dir("hostile");
    let at = |name: &str| dir.path().join(name);
    mkfifo(&at("fifo.iocap"), Mode::S_IRWXU).expect("a FIFO");
    symlink("/dev/zero", at("device.iocap")).expect("a link");
    let run = |verb: &[&str], name: &str| -> Finished {
        let mut command = Command::new(BINARY);
        command.args(verb).arg(at(name));
        if verb == ["convert"] {
            command.arg("-o").arg(at("out.otf2"));
        }
        process::run(&mut command, SOON).expect("it ends")
    };
    for verb in [&["summary"][..], &["info"], &["script"], &["convert"]] {
        for (name, reported) in
            [("fifo.iocap", "it is a FIFO"), ("device.iocap", "not a regular file")]
        {
            let finished = run(verb, name);
            let said = finished.stderr();
            assert!(
                said.contains(reported) && !finished.status.success(),
                "{verb:?} {name}: {said}"
            );
        }
    }
    for (name, reported) in [("fifo.iocap", "it is a FIFO"), ("device.iocap", "not a regular file")]
    {
        let mut command = Command::new(BINARY);
        command.arg("import").arg(at(name)).arg("-o").arg(at("imported.iocap"));
        let finished = process::run(&mut command, SOON).expect("it ends");
        assert!(finished.stderr().contains(reported), "{name}: {}", finished.stderr());
    }
    // A file of the kernel's own: to open one may do something.
    let finished = iotrace(&["import", "/proc/self/maps", "-o", text(&at("imported.iocap"))]);
    assert!(finished.stderr().contains("a file of the kernel's own"), "{}", finished.stderr());
    assert!(!at("imported.iocap").exists());
    // A pipe of our caller's is one that we may read.
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs/v2/attached.iocap");
    let script = format!("cat {} | {BINARY} info /dev/stdin", corpus.display());
    let mut command = Command::new("sh");
    process::run(command.args(["-c", &script]), SOON).expect("it ends").success();
}

/// Fails if a small log keeps its reader busy for long.
#[test]
fn a_small_log_is_read_soon() {
    // The time of children is counted for the whole process.
    let _alone = alone();
    let dir = scratch_dir("hostile");
    let log = dir.path().join("bomb.iocap");
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs/v2/attached.iocap");
    let whole = fs::read(corpus).expect("it is there");
    let word = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().expect("four"));
    // The file header, and the frame with the log's header.
    let head = 16 + 52 + word(16 + 36) as usize;
    let payload = zstd::bulk::compress(&vec![0; 64 << 20], 3).expect("memory");
    let mut frame = b"IOFR".to_vec();
    frame.extend([4, 1, 0, 0]);
    frame.extend(u32::MAX.to_le_bytes());
    frame.extend(0_u32.to_le_bytes());
    frame.extend([1_u64, 1].map(u64::to_le_bytes).concat());
    let (stored, unpacked) = (u32::try_from(payload.len()).expect("few"), 64_u32 << 20);
    frame.extend([1, stored, unpacked, crc32fast::hash(&payload)].map(u32::to_le_bytes).concat());
    frame.extend(crc32fast::hash(&frame).to_le_bytes());
    frame.extend(&payload);
    let mut file = fs::File::create(&log).expect("space");
    file.write_all(&whole[..head]).expect("space");
    // 19 GiB of nothing.
    (0..300).for_each(|_| file.write_all(&frame).expect("space"));
    let before = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN);
    let before = before.expect("ours").user_time();
    let info = iotrace(&["info", "--json", text(&log)]).success().stdout();
    let after = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN);
    let seconds = after.expect("ours").user_time().tv_sec() - before.tv_sec();
    assert!(seconds < 12, "{seconds} s of processor time");
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    assert!(info["damaged_bytes"].as_u64().expect("a number") > 100_000, "{info}");
}

/// Fails if the times that the tracer reads itself are not those that the kernel writes.
#[test]
fn time_namespaces_change_nothing() {
    let needs = [Need::Program("unshare"), Need::KernelFile("/proc/self/timens_offsets")];
    if !can_record(&needs) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("hostile");
    let files = dir.path().join("files");
    fs::create_dir(&files).expect("a directory");
    let script = format!(
        "cd {}; i=0; while [ $i -lt 101 ]; do echo $i > g$((i % 7)); i=$((i + 1)); done",
        files.display()
    );
    for (number, seconds) in ["100000", "-5"].iter().enumerate() {
        let out = dir.path().join(number.to_string());
        let tracer = recorder(&out, &[], &["sh", "-c", &script]);
        let mut command = Command::new("unshare");
        command.args(["--time", "--monotonic", seconds, "--fork"]).arg(tracer.get_program());
        let finished = process::run(command.args(tracer.get_args()), TIMEOUT).expect("it ends");
        finished.success();
        let recording = Recording::open(&out.join("traces.iocap"));
        recording.assert_whole();
        let named = recording.operations().into_iter().filter(|it| {
            let path = it.path().map(|it| String::from_utf8_lossy(&it).into_owned());
            path.is_some_and(|it| it.starts_with(text(&files)) && it.contains("/g"))
        });
        // Each is opened, written to and closed, and copied.
        assert!(named.count() >= 3 * 101, "{seconds}");
        let duration = recording.number("duration_ns");
        assert!(duration < 1_000_000_000_000, "{duration}");
    }
}

/// Fails if an instance or a probe of another tool is removed that is called nearly as ours are.
#[test]
fn foreign_tracefs_objects_stay() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let all = Path::new("/sys/kernel/tracing");
    let pid = std::process::id();
    // No process has such a number (`PID_MAX_LIMIT`).
    let names =
        [format!("iotrace-mine-{pid}"), format!("iotrace-5{pid:07}-mine"), "iotrace-x-main".into()];
    let instances: Vec<PathBuf> = names.iter().map(|it| all.join("instances").join(it)).collect();
    for it in &instances {
        let _ = fs::remove_dir(it);
        fs::create_dir(it).expect("we are root");
    }
    let probe = format!("iotrace_5{pid:07}/mine");
    let write = |line: String| {
        let file = fs::OpenOptions::new().append(true).open(all.join("uprobe_events"));
        file.is_ok_and(|mut it| it.write_all(line.as_bytes()).is_ok())
    };
    let has_probe = write(format!("p:{probe} /proc/self/exe:0x1000\n"));
    let dir = scratch_dir("hostile");
    record(&dir.path().join("out"), &[], &["true"]).0.success();
    let left: Vec<bool> = instances.iter().map(|it| fs::remove_dir(it).is_ok()).collect();
    let probes = fs::read_to_string(all.join("uprobe_events")).unwrap_or_default();
    let probe_left = probes.contains(&probe);
    let _ = write(format!("-:{probe}\n"));
    assert_eq!((left, probe_left), (vec![true; instances.len()], has_probe));
}
