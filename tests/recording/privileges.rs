//! Privileges of a recording by root, and the user of its program.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::driver::process::{Finished, run};
use crate::support::driver::recording::{
    BINARY, Recording, TIMEOUT, can_record, compile, iotrace, record, recorder,
};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::beside_others;
use crate::support::{public_scratch_dir, scratch_dir, text};

/// Capabilities as bits (linux/capability.h).
const fn bits(numbers: &[u32]) -> u64 {
    let (mut bits, mut at) = (0, 0);
    while at < numbers.len() {
        bits |= 1 << numbers[at];
        at += 1;
    }
    bits
}

/// Capabilities that are kept according to docs/security.md: chown, `dac_override`,
/// `dac_read_search`, fowner, kill, setgid, setuid, `sys_ptrace`, syslog.
const KEPT: u64 = bits(&[0, 1, 2, 3, 5, 6, 7, 19, 34]);
/// And by threads that were started to open or to read on each CPU: `ipc_lock`, `sys_admin`,
/// `sys_nice`, `sys_resource`, perfmon.
const OPENING: u64 = bits(&[14, 21, 23, 24, 38]);
/// By those that read rings: `dac_read_search`, fowner, `sys_ptrace`.
const READING: u64 = bits(&[2, 3, 19]);

/// A set of capabilities in a `/proc/PID/status`.
fn set(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(":\t"));
    u64::from_str_radix(line.unwrap_or_else(|| panic!("no {name}: {status}")), 16).expect("hex")
}

fn recorded(options: &[&str], program: &[&str]) -> Finished {
    let dir = scratch_dir("rights");
    let mut command = recorder(&dir.path().join("trace"), options, program);
    run(&mut command, TIMEOUT).expect("it ends")
}

#[test]
fn unneeded_privileges_are_dropped() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let finished = recorded(
        &[],
        &[
            "sh",
            "-c",
            "sleep 1; cd /proc/$PPID; echo @; cat status; for it in task/*; do echo @; cat $it/status; done; echo @; cat /proc/self/status",
        ],
    );
    let reported = finished.stdout();
    let mut tasks: Vec<&str> = reported.split("@\n").skip(1).collect();
    let program = tasks.pop().expect("the program");
    let own = fs::read_to_string("/proc/self/status").expect("ours");
    // The program has what it has without us.
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"] {
        let line = |status: &str| status.lines().find(|it| it.starts_with(name)).map(str::to_owned);
        assert_eq!(line(program), line(&own), "{name}");
    }
    let own = set(&own, "CapEff");
    assert!(tasks.len() > 2, "only {} threads", tasks.len());
    // The first is the one that waits; all others may open, or only read. (They have begun by now.)
    for (number, status) in tasks.iter().enumerate() {
        let kept = if number == 0 { KEPT } else { KEPT | OPENING };
        for name in ["CapPrm", "CapEff"] {
            assert_eq!(set(status, name) & !kept, 0, "{name}: {status}");
        }
        assert_eq!(set(status, "CapBnd") & !(KEPT | OPENING), 0, "{status}");
    }
    assert_eq!(set(tasks[0], "CapEff"), own & KEPT);
    let readers = tasks.iter().filter(|it| set(it, "CapEff") == own & READING).count();
    assert!(readers >= 2, "{readers} threads can only read");
}

#[test]
fn program_is_started_as_another_user() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let mut id = Command::new("setpriv");
    id.args(["--reuid", "games", "--regid", "games", "--init-groups", "id"]);
    let id = run(&mut id, TIMEOUT).expect("it ends").stdout();
    let number = id.split(['=', '(']).nth(1).expect("a number").to_owned();
    for user in ["games", &number] {
        let finished = recorded(&["--as-user", user], &["id"]);
        assert_eq!((finished.stdout(), finished.status.code()), (id.clone(), Some(0)), "{user}");
    }
    // Users of containers are in no list here.
    for (user, reported) in [
        ("3999999999", "uid=3999999999 gid=65534(nogroup) groups=65534(nogroup)\n"),
        ("3999999999:4711", "uid=3999999999 gid=4711 groups=4711\n"),
    ] {
        let finished = recorded(&["--as-user", user], &["id"]);
        assert_eq!(finished.stdout(), reported, "{user}: {}", finished.stderr());
    }
    // Users may do no more than the kernel allows.
    let finished = recorded(&["--as-user", "games"], &["cat", "/etc/shadow"]);
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr());
    let finished = recorded(&["--as-user", "no such name"], &["id"]);
    assert!(finished.stderr().contains("--as-user no such name: there is no such user"));
    assert_ne!(finished.status.code(), Some(0));
}

/// Root of a container has little more than any user: what is possible is recorded, the rest is
/// reported.
#[test]
fn root_without_capabilities_records_its_own() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("rights");
    let trace = dir.path().join("trace");
    let program = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1009", "count=211"];
    let mut command = Command::new("setpriv");
    command.args([
        "--bounding-set=-all",
        "--inh-caps=-all",
        BINARY,
        "--verbose",
        "--no-archive",
        "-o",
    ]);
    command.arg(format!("{}/", trace.display())).arg("--").args(program);
    let said = run(&mut command, TIMEOUT).expect("it ends").success().stderr();
    for expected in [
        "without privileges (kernel.perf_event_paranoid is",
        "source: inherited",
        "equal to /proc/PID/io",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let recording = Recording::open(&trace.join("traces.iocap"));
    recording.assert_whole();
    let copied = recording.operations().into_iter().filter(|it| it.result == Some(1009));
    assert_eq!(copied.count(), 2 * 211);
}

/// A user without rights.
const OTHER: u32 = 65534;

/// A directory of another user's in a new one of root's, in which that user may enter.
fn others_directory() -> (TempDir, PathBuf) {
    let dir = public_scratch_dir("rights");
    let others = dir.path().join("others");
    fs::create_dir(&others).expect("space");
    chown(&others, Some(OTHER), Some(OTHER)).expect("given away");
    (dir, others)
}

/// A small log, made without a recording.
fn small_log(dir: &Path) -> PathBuf {
    let strace = dir.join("log.strace");
    fs::write(&strace, "1 1.000000 write(1</a>, \"x\", 1) = 1 <0.000001>\n").expect("space");
    let log = dir.join("log.iocap");
    iotrace(&["import", text(&strace), "-o", text(&log)]).success();
    log
}

/// Fails if root writes anything where another user can exchange directories, links or files.
#[test]
fn root_writes_nothing_below_directories_of_other_users() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let (dir, others) = others_directory();
    let (log, strace) = (small_log(dir.path()), dir.path().join("log.strace"));
    let ran = dir.path().join("ran");
    let at = |name: &str| text(&others.join(name)).to_owned();
    let (log, strace, ran) = (text(&log), text(&strace), text(&ran));
    let program = ["--", "touch", ran];
    let with_program =
        |options: &[&str]| [options, &program].concat().into_iter().map(str::to_owned).collect();
    let words = |words: &[&str]| words.iter().map(|&it| it.to_owned()).collect::<Vec<String>>();
    let made = others.join("made");
    fs::create_dir(&made).expect("space");
    let all: [Vec<String>; 14] = [
        with_program(&["-o", &at("x/")]),
        // One of root's own is exchanged as easily.
        with_program(&["-o", &at("made/")]),
        with_program(&["-o", &at("x.otf2")]),
        // The current directory is the other user's.
        with_program(&[]),
        with_program(&["summary", "--to", &at("x")]),
        with_program(&["live", "--to", &at("x")]),
        with_program(&["--no-archive", "-o", text(&dir.path().join("t/")), "--control", &at("x")]),
        words(&["convert", log, "-o", &at("x.otf2")]),
        words(&["import", strace, "-o", &at("x.iocap")]),
        words(&["replay", "plan", log, "-o", &at("x.ioplan")]),
        words(&["replay", "export", log, "--fio", &at("x")]),
        words(&["replay", "export", log, "--fio", text(&dir.path().join("fio")), "--to", &at("x")]),
        words(&["files", log, "--to", &at("x")]),
        words(&["stacks", log, "--svg", &at("x")]),
    ];
    let refused = |group: &str, why: &str| {
        for arguments in &all {
            let mut command = Command::new(BINARY);
            command.args(arguments).current_dir(&others).env_remove("SUDO_UID");
            let finished = run(&mut command, TIMEOUT).expect("it ends");
            let said = finished.stderr();
            assert_eq!(finished.status.code(), Some(125), "{group} {arguments:?}: {said}");
            assert!(said.contains(why), "{group} {arguments:?}: {said}");
            assert!(!Path::new(ran).exists(), "{arguments:?}");
            let names = fs::read_dir(&others).expect("it is there").flatten();
            let names: Vec<_> = names.map(|it| it.file_name()).collect();
            assert_eq!(names, ["made"], "{arguments:?}");
            assert_eq!(fs::read_dir(&made).expect("it is there").count(), 0, "{arguments:?}");
        }
    };
    let owner = concat!(
        "others belongs to user 65534 (",
        "nobody",
        "), and root writes nothing below it; ",
        "choose a directory that only root can exchange, such as /var/tmp, ",
        "or record as that user: --as-user ",
        "nobody"
    );
    refused("owner", owner);
    chown(&others, Some(0), Some(0)).expect("taken back");
    fs::set_permissions(&others, fs::Permissions::from_mode(0o777)).expect("ours");
    refused("all users", "is writable by all users");
    chown(&others, Some(0), Some(OTHER)).expect("ours");
    fs::set_permissions(&others, fs::Permissions::from_mode(0o775)).expect("ours");
    refused("group", "can be written to by group 65534");
}

/// As if that user had called `sudo`.
fn of_caller(arguments: &[&str], directory: &Path) -> Finished {
    let mut command = Command::new(BINARY);
    command.args(arguments).current_dir(directory);
    command.env("SUDO_UID", OTHER.to_string()).env("SUDO_GID", OTHER.to_string());
    run(&mut command, TIMEOUT).expect("it ends")
}

/// Owners of everything below a directory.
fn owners(directory: &Path, found: &mut Vec<(PathBuf, u32)>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let metadata = entry.path().symlink_metadata().expect("it is there");
        found.push((entry.path(), metadata.uid()));
        if metadata.is_dir() {
            owners(&entry.path(), found);
        }
    }
}

/// Fails if outputs in the directories of the caller of `sudo` are not the caller's, or are made
/// with root's rights.
#[test]
fn outputs_under_sudo_are_the_callers() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let (dir, others) = others_directory();
    let log = small_log(dir.path());
    fs::set_permissions(&log, fs::Permissions::from_mode(0o644)).expect("ours");
    let (log, strace) = (text(&log), dir.path().join("log.strace"));
    let all: [&[&str]; 9] = [
        &["--", "true"],
        &["-o", "dir/", "--", "true"],
        &["-o", "name.otf2", "--", "true"],
        &["convert", log, "-o", "converted.otf2"],
        &["replay", "plan", log, "-o", "plan.ioplan"],
        &["replay", "export", log, "--fio", "fio"],
        &["summary", log, "--to", "summary"],
        &["import", text(&strace), "-o", "imported.iocap"],
        &["convert", "imported.iocap"],
    ];
    for arguments in all {
        of_caller(arguments, &others).success();
    }
    let mut found = Vec::new();
    owners(&others, &mut found);
    assert!(found.len() > 20, "{found:?}");
    assert!(found.iter().all(|it| it.1 == OTHER), "{found:?}");
    // In root's directories root writes, and gives the files to the caller.
    let roots = dir.path().join("roots");
    fs::create_dir(&roots).expect("space");
    for arguments in [&all[1..7], &all[1..2]].concat() {
        let again = fs::read_dir(&roots)
            .expect("ours")
            .any(|it| it.is_ok_and(|it| it.file_name() == "dir"));
        let finished = of_caller(arguments, &roots);
        assert_eq!(
            finished.status.success(),
            !again || arguments[1] != "dir/",
            "{}",
            finished.stderr()
        );
    }
    let mut found = Vec::new();
    owners(&roots, &mut found);
    assert!(found.len() > 15 && found.iter().all(|it| it.1 == OTHER), "{found:?}");
    // A directory in which the caller may not write is not written to below the caller's.
    let inside = others.join("roots");
    fs::create_dir(&inside).expect("space");
    let finished = of_caller(&["-o", text(&inside.join("x.otf2")), "--", "true"], dir.path());
    assert_eq!(finished.status.code(), Some(125), "{}", finished.stderr());
    assert_eq!(fs::read_dir(&inside).expect("ours").count(), 0);
}

/// Fails if root's rights follow what the owner of a directory has put in the place of what is
/// written.
#[test]
fn an_exchanged_directory_is_not_written_to_by_root() {
    if !can_record(&[Need::Program("setpriv")]) {
        return;
    }
    let _turn = beside_others();
    let (dir, others) = others_directory();
    let victim = dir.path().join("victim");
    fs::create_dir(&victim).expect("space");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o700)).expect("ours");
    fs::write(victim.join("secret"), "kept").expect("space");
    let (_, _recording) = record(
        &dir.path().join("trace"),
        &[],
        &["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=50021"],
    );
    let program = compile("exchange.c", dir.path());
    let mut attacker = Command::new("setpriv");
    attacker.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", &program]);
    attacker.args([&others, &victim]).stdout(Stdio::piped());
    let mut attacker = attacker.spawn().expect("it starts");
    let mut ready = [0; 6];
    attacker.stdout.take().expect("piped").read_exact(&mut ready).expect("it is ready");
    let log = dir.path().join("trace/traces.iocap");
    let to = others.join("t.otf2");
    let _ = of_caller(&["convert", text(&log), "-o", text(&to)], dir.path());
    let _ = attacker.kill();
    attacker.wait().expect("it ends");
    assert!(others.join("gone").exists(), "it was exchanged");
    assert_eq!(fs::read_to_string(victim.join("secret")).expect("it is there"), "kept");
    let mut found = Vec::new();
    owners(&victim, &mut found);
    assert_eq!(found, [(victim.join("secret"), 0)]);
}
