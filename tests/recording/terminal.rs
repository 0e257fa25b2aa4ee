//! A recording at a terminal, under a shell that controls jobs: suspended and brought back, its
//! output held up, its terminal closed.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{OpenptyResult, openpty};

use crate::support::driver::process;
use crate::support::driver::recording::{
    BINARY, Recording, TIMEOUT, can_record, compile, wait_until,
};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::{public_scratch_dir, scratch_dir};

/// A shell at a terminal of its own.
struct Shell {
    process: Child,
    keyboard: File,
}

impl Shell {
    /// `DIR` in the script is this directory, `TRACER` ours. Each of its commands is a job in a
    /// process group of its own.
    fn new(dir: &Path, script: &str) -> Self {
        let script = script.replace("DIR", dir.to_str().expect("text")).replace("TRACER", BINARY);
        let OpenptyResult { master, slave } = openpty(None, None).expect("a terminal");
        // A child that has inherited its other side would keep it open.
        fcntl(&master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("it is ours");
        let side = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", "sh", "-mc", &script]);
        let process = command.stdin(side()).stdout(side()).stderr(side()).spawn();
        Self { process: process.expect("it starts"), keyboard: File::from(master) }
    }

    fn types(&mut self, key: u8) {
        self.keyboard.write_all(&[key]).expect("it is open");
    }

    /// Reads what is shown, to the end.
    fn screen(&self) -> JoinHandle<String> {
        let mut screen = self.keyboard.try_clone().expect("a descriptor");
        std::thread::spawn(move || {
            let mut text = Vec::new();
            // Ends with an error when the last program has closed the terminal.
            let _ = screen.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    }

    /// Closes the terminal; how the shell has ended.
    fn end(mut self) -> ExitStatus {
        drop(self.keyboard);
        process::wait(&mut self.process, TIMEOUT).expect("it ends")
    }

    fn wait(&mut self) -> ExitStatus {
        process::wait(&mut self.process, TIMEOUT).expect("it ends")
    }
}

/// Letters of the states of all threads of the process whose number is in this file.
fn states(pid: &Path) -> String {
    let pid = fs::read_to_string(pid).expect("it was written");
    let tasks = fs::read_dir(format!("/proc/{}/task", pid.trim())).into_iter().flatten().flatten();
    let stat = tasks.filter_map(|it| fs::read_to_string(it.path().join("stat")).ok());
    stat.filter_map(|it| it.rsplit_once(") ")?.1.chars().next()).collect()
}

/// Fails if Ctrl-Z does not stop us and the program, if `fg` does not let both go on, if anything
/// of what was done before and after is missing, or if the terminal is not as it was.
#[test]
fn suspended_tracer_and_program_are_resumed() {
    if !can_record(&[Need::Program("setsid"), Need::Program("stty")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("terminal");
    let file = |name: &str| -> PathBuf { dir.path().join(name) };
    let mut shell = Shell::new(
        dir.path(),
        "stty -g > DIR/before; \
         TRACER --no-archive -o DIR/trace/ -- sh -c '
            echo $PPID > DIR/tracer; echo $$ > DIR/program
            lines() { i=0; while [ $i -lt $1 ]; do echo x; i=$((i + 1)); done; }
            exec > DIR/out; lines 1009; touch DIR/ready
            while ! [ -e DIR/go ]; do :; done
            lines 1013; exit 5'; \
         stty -g > DIR/meanwhile; touch DIR/suspended; \
         while ! [ -e DIR/go ]; do sleep 0.05; done; \
         fg; code=$?; stty -g > DIR/after; exit $code",
    );
    let screen = shell.screen();
    wait_until("it is recorded", || file("ready").exists());
    shell.types(0x1a);
    wait_until("the shell goes on", || file("suspended").exists());
    for who in ["tracer", "program"] {
        let states = states(&file(who));
        assert!(!states.is_empty() && states.chars().all(|it| it == 'T'), "{who}: {states}");
    }
    fs::write(file("go"), "").expect("write it");
    let code = shell.wait().code();
    let screen = screen.join().expect("it reads to the end");
    assert_eq!(code, Some(5), "{screen}");
    let recording = Recording::open(&file("trace/traces.iocap"));
    recording.assert_whole();
    let out = file("out");
    let operations = recording.operations();
    let lines =
        operations.iter().filter(|it| it.name == "write" && it.path.as_deref() == out.to_str());
    assert_eq!(lines.count(), 1009 + 1013);
    let state = |name: &str| fs::read_to_string(file(name)).expect("written");
    assert_eq!((state("meanwhile"), state("after")), (state("before"), state("before")));
}

/// Fails if a terminal that shows nothing for a while (Ctrl-S) holds up the program, or if
/// something is not shown in the end.
#[test]
fn blocked_terminal_does_not_block_the_program() {
    if !can_record(&[Need::Program("setsid")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("terminal");
    let file = |name: &str| dir.path().join(name);
    let mut shell = Shell::new(
        dir.path(),
        "TRACER live -e read -- sh -c '
            touch DIR/ready; while ! [ -e DIR/go ]; do :; done
            dd if=/dev/zero of=/dev/null bs=1 count=20011 2>/dev/null; touch DIR/done; exit 5'; \
         exit $?",
    );
    let screen = shell.screen();
    wait_until("it is recorded", || file("ready").exists());
    shell.types(0x13);
    fs::write(file("go"), "").expect("write it");
    wait_until("the program ends", || file("done").exists());
    shell.types(0x11);
    let code = shell.wait().code();
    let screen = screen.join().expect("it reads to the end");
    let last = screen.lines().filter(|it| it.starts_with("iotrace-perf: ")).collect::<Vec<_>>();
    assert_eq!(code, Some(5), "{last:?}");
    let is_its = |it: &&str| it.contains("read(0") && it.contains(", 1) = 1 <");
    let shown = screen.lines().filter(is_its).count();
    let is_reported = last.iter().any(|it| it.contains("complete: nothing lost"));
    assert!(shown == 20011 && is_reported, "{shown} {last:?}");
}

/// Fails if the end of a terminal is not the end of the program, as it is without us, or costs
/// anything of the log.
#[test]
fn closed_terminal_hangs_up_the_program() {
    if !can_record(&[Need::Program("setsid")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("terminal");
    let file = |name: &str| dir.path().join(name);
    let shell = Shell::new(
        dir.path(),
        "TRACER --no-archive -o DIR/trace/ -- sh -c 'echo $PPID > DIR/tracer; touch DIR/ready; exec sleep 1000'",
    );
    wait_until("it is recorded", || file("ready").exists());
    let status = shell.end();
    assert_eq!(status.signal(), Some(1), "{status}");
    wait_until("the tracer has ended", || states(&file("tracer")).is_empty());
    let recording = Recording::open(&file("trace/traces.iocap"));
    recording.assert_whole();
    assert_eq!(recording.info["exit_signal"], 1);
}

/// A directory in which the user of `--as-user` may write, in one that is root's.
fn for_nobody() -> (tempfile::TempDir, PathBuf) {
    let dir = public_scratch_dir("terminal");
    let free = dir.path().join("free");
    fs::create_dir(&free).expect("space");
    fs::set_permissions(&free, fs::Permissions::from_mode(0o1777)).expect("ours");
    (dir, free)
}

/// Fails if a program of another user can type into the terminal of root's shell, or if its output
/// or exit code get lost.
#[test]
fn another_users_program_cannot_type() {
    if !can_record(&[Need::Program("setsid")]) {
        return;
    }
    let _turn = beside_others();
    let (dir, free) = for_nobody();
    let program = compile("typist.c", dir.path());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let shell = Shell::new(
        dir.path(),
        concat!(
            "TRACER --as-user ",
            "nobody",
            " --no-archive -o DIR/trace/ -- DIR/typist 'touch DIR/free/owned\n'; exit $?"
        ),
    );
    let screen = shell.screen();
    let mut shell = shell;
    let code = shell.wait().code();
    let screen = screen.join().expect("it reads to the end");
    assert!(screen.contains("cannot type: "), "{screen}");
    assert_eq!((code, free.join("owned").exists()), (Some(6), false), "{screen}");
}

/// Fails if a program of another user is in the session of root's shell: whatever
/// `dev.tty.legacy_tiocsti` says, the kernel may have other ways to type into the terminal of one's
/// own session.
#[test]
fn another_users_program_has_a_session_of_its_own() {
    if !can_record(&[Need::Program("setsid")]) {
        return;
    }
    let _turn = beside_others();
    let (dir, free) = for_nobody();
    let tracer = concat!(
        "TRACER --as-user ",
        "nobody",
        " --no-archive -o DIR/trace/ -- cat /proc/self/stat"
    );
    let mut shell = Shell::new(
        dir.path(),
        &format!("{tracer} > DIR/free/stat; cat /proc/self/stat > DIR/free/shell"),
    );
    let screen = shell.screen();
    let status = shell.wait();
    assert!(status.success(), "{}", screen.join().expect("it reads to the end"));
    let session = |name: &str| {
        let stat = fs::read_to_string(free.join(name)).expect("it was written");
        let numbers: Vec<String> = stat.split(' ').map(str::to_owned).collect();
        (numbers[0].clone(), numbers[5].clone())
    };
    let ((program, its), (_, shells)) = (session("stat"), session("shell"));
    assert!(its == program && its != shells, "{its} {shells}");
}

/// Fails if keys of job control do not do to a program of another user what they do to one's own.
#[test]
fn another_users_program_is_controlled_by_keys() {
    if !can_record(&[Need::Program("setsid")]) {
        return;
    }
    let _alone = alone();
    let (dir, free) = for_nobody();
    let file = |name: &str| free.join(name);
    let mut shell = Shell::new(
        dir.path(),
        concat!("TRACER --as-user ", "nobody", " --no-archive -o DIR/trace/ -- sh -c '
            trap \"echo caught; exit 7\" INT; echo $PPID > DIR/free/tracer; echo $$ > DIR/free/program
            touch DIR/free/ready; while :; do sleep 0.1; done'; \
         touch DIR/free/suspended; while ! [ -e DIR/free/go ]; do sleep 0.05; done; fg; exit $?"),
    );
    let screen = shell.screen();
    wait_until("it is recorded", || file("ready").exists());
    shell.types(0x1a);
    wait_until("the shell goes on", || file("suspended").exists());
    for who in ["tracer", "program"] {
        let states = states(&file(who));
        // A shell that starts a program (`vfork`) waits for it, and the child has stopped.
        assert!(
            !states.is_empty() && states.chars().all(|it| "TD".contains(it)),
            "{who}: {states}"
        );
    }
    fs::write(file("go"), "").expect("write it");
    wait_until("both go on", || !states(&file("program")).contains('T'));
    shell.types(0x03);
    let code = shell.wait().code();
    let screen = screen.join().expect("it reads to the end");
    assert!(screen.contains("caught"), "{screen}");
    assert_eq!(code, Some(7), "{screen}");
    Recording::open(&dir.path().join("trace/traces.iocap")).assert_whole();
}
