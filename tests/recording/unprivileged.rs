//! Recordings by a user without any privilege: of that user's programs, and the messages about the
//! rest.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::copy_program;
use crate::support::driver::json::JsonOperation;
use crate::support::driver::process::{Finished, run};
use crate::support::driver::recording::{BINARY, Recording, TIMEOUT, can_record};
use crate::support::machine::requirements::{Need, require_all};
use crate::support::machine::turns::beside_others;
use serde_json::Value;
use tempfile::TempDir;

/// User and group without any privilege (`nogroup`).
const NOBODY: u32 = 65534;

/// At most at this level users may trace programs of their own.
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// A directory that all users can reach, with our binary.
struct UserDirectory {
    dir: TempDir,
}

impl UserDirectory {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory that all users can reach");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).expect("ours");
        copy_program(BINARY, dir.path().join("iotrace-perf"));
        fs::set_permissions(dir.path().join("iotrace-perf"), Permissions::from_mode(0o755))
            .expect("ours");
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A program as they would run it.
    fn command(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program.as_ref());
        command.args(arguments).uid(NOBODY).gid(NOBODY).current_dir(self.dir.path());
        command.env("HOME", self.dir.path()).env_remove("SUDO_UID").env_remove("SUDO_GID");
        command
    }

    /// Records a program as this user.
    fn record(&self, options: &[&str], program: &[&str]) -> Finished {
        let log = format!("{}/", self.path("log").display());
        let _ = fs::remove_dir_all(self.path("log"));
        let arguments =
            [options, &["--verbose", "--no-archive", "-o", &log, "--"], program].concat();
        run(&mut self.command(self.path("iotrace-perf"), &arguments), TIMEOUT).expect("it ends")
    }

    fn recording(&self) -> Recording {
        Recording::open(&self.path("log/traces.iocap"))
    }
}

/// True if users of this machine may trace programs of their own; the formats are kept then.
fn can_record_own() -> bool {
    if !can_record(&[]) {
        return false;
    }
    let level = fs::read_to_string(PARANOID).expect("perf events");
    let level: i32 = level.trim().parse().expect("a number");
    assert!(level <= 2, "perf_event_paranoid is {level}: sudo sysctl kernel.perf_event_paranoid=2");
    static KEPT: OnceLock<String> = OnceLock::new();
    let said = KEPT.get_or_init(|| {
        let kept = Command::new(BINARY).args(["doctor", "--cache"]).output().expect("it runs");
        String::from_utf8_lossy(&kept.stderr).into_owned()
    });
    assert!(said.contains("formats of tracepoints are cached for all users"), "{said}");
    true
}

#[test]
fn known_program_is_recorded_to_the_byte() {
    let _turn = beside_others();
    if !can_record_own() {
        return;
    }
    let place = UserDirectory::new();
    let program = ["dd", "if=/dev/zero", "of=out", "bs=1009", "count=211", "conv=fsync"];
    let finished = place.record(&[], &program).success();
    let said = finished.stderr();
    assert!(said.contains("without privileges (kernel.perf_event_paranoid is"), "{said}");
    assert!(said.contains("equal to /proc/PID/io to the byte and call"), "{said}");
    let recording = place.recording();
    recording.assert_whole();
    // dd reports with three writes.
    assert_eq!((recording.calls("write"), recording.calls("fsync")), (211 + 3, 1));
    let written: u64 = recording.info["calls"]["write"]["bytes"].as_u64().expect("a number");
    assert_eq!(written, 211 * 1009 + reported_by_dd(&said));
    assert_eq!(fs::metadata(place.path("out")).expect("made").len(), 211 * 1009);
}

/// Bytes of what dd itself has reported: its three lines, before ours.
fn reported_by_dd(said: &str) -> u64 {
    let of_dd = said.lines().filter(|it| !it.starts_with("iotrace-perf: "));
    of_dd.map(|it| it.len() as u64 + 1).sum()
}

/// Number of each call, as strace counts.
fn counts_of_strace(summary: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(summary).expect("strace wrote it");
    let row = |line: &str| {
        let (count, name) = line.trim().split_once(char::is_whitespace)?;
        Some((name.trim().to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(row).filter(|it| it.0 != "total").collect()
}

#[test]
fn counts_are_those_of_strace() {
    let _turn = beside_others();
    let needs = [Need::Strace, Need::Program("git"), Need::Program("python3")];
    if !can_record_own() || !require_all(&needs) {
        return;
    }
    let git = "mkdir g; cd g; git init -q; for i in 1 2 3; do echo $i > f$i; git add f$i; \
               git -c user.name=a -c user.email=a -c gc.auto=0 -c maintenance.auto=false commit -qm $i; done; git log; rm -rf ../g";
    let python = "[open(f'p{i}', 'w').write('x' * i) for i in range(101)]; \
                  print(sum(len(open(f'p{i}').read()) for i in range(101)))";
    let programs: [&[&str]; 3] = [
        &["tar", "cf", "x.tar", "--exclude=x.tar", "/usr/lib/git-core"],
        &["sh", "-c", git],
        &["python3", "-B", "-c", python],
    ];
    let place = UserDirectory::new();
    for program in programs {
        // In the same run: what git reads depends on how fast it is.
        let summary = place.path("strace");
        let options = ["strace", "-f", "-c", "-U", "calls,name", "-o"];
        let strace = [&options[..], &[summary.to_str().expect("text")], program].concat();
        let finished = place.record(&[], &strace).success();
        let recording = place.recording();
        recording.assert_whole();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for operation in recording.operations() {
            if operation.comm.as_deref() != Some("strace") {
                let name =
                    if operation.name == "sendfile64" { "sendfile" } else { &operation.name };
                *counts.entry(name.to_owned()).or_default() += 1;
            }
        }
        let expected = counts_of_strace(&summary);
        for (name, count) in &counts {
            assert_eq!(Some(count), expected.get(name), "{name} of {program:?}");
        }
        let seen: u64 = counts.values().sum();
        assert!(counts.len() > 6 && seen > 300, "{program:?}: {counts:?}");
        assert!(
            finished.stderr().contains("audit: equal to /proc/PID/io"),
            "{}",
            finished.stderr()
        );
    }
}

#[test]
fn invisible_processes_are_reported() {
    let _turn = beside_others();
    if !can_record_own() {
        return;
    }
    let place = UserDirectory::new();
    // Only root may read it, so only root may trace it.
    let secret = place.path("secret");
    copy_program("/bin/true", &secret);
    fs::set_permissions(&secret, Permissions::from_mode(0o711)).expect("ours");
    for options in [&[][..], &["-e", "openat,read,close"]] {
        let finished =
            place.record(options, &["sh", "-c", "cat /dev/null; ./secret; cat /dev/null"]);
        let said = finished.success().stderr();
        assert!(
            said.contains("(secret): without privileges the kernel shows nothing of"),
            "{said}"
        );
        assert_eq!(place.recording().number("other_programs"), 1);
    }
    let finished = place.record(&[], &["sh", "-c", "cat /dev/null; cat /dev/null"]).success();
    assert!(!finished.stderr().contains("shows nothing of programs"), "{}", finished.stderr());
    assert_eq!(place.recording().calls("execve"), 2);
}

/// Events are switched off one after the other, entries first: an exit may be seen whose entry was
/// off. Then no later call of that name is seen of the thread.
#[track_caller]
fn expect_orphans_at_the_end(recording: &Recording) {
    let script = recording.script(&["--json"]);
    let lines: Vec<Value> =
        script.lines().map(|it| serde_json::from_str(it).expect("JSON")).collect();
    let orphans = lines.iter().filter(|it| it["what"] == "orphan-exit");
    for orphan in orphans {
        let detail = orphan["detail"].as_str().expect("text");
        let name = detail.split(' ').next().expect("a word");
        let is_later = |it: &&Value| {
            let is_its = it["tid"] == orphan["tid"] && it["name"] == name;
            is_its && it["start_ns"].as_u64() > orphan["time_ns"].as_u64()
        };
        assert!(!lines.iter().any(|it| is_later(&it)), "{orphan}");
    }
}

#[test]
fn own_processes_can_be_attached_to() {
    let _turn = beside_others();
    if !can_record_own() {
        return;
    }
    let place = UserDirectory::new();
    let loops = "while :; do cat /dev/null; read -t 0.01 x < /dev/zero || :; done";
    let mut program = place.command("bash", &["-c", loops]);
    let mut program = program.process_group(0).spawn().expect("it runs");
    let pid = program.id().to_string();
    let log = format!("{}/", place.path("log").display());
    // Twice the same is once.
    let arguments = ["-p", &pid, "-p", &pid, "-D", "1s", "--no-archive", "-o", &log];
    let finished = run(&mut place.command(place.path("iotrace-perf"), &arguments), TIMEOUT);
    let group = nix::unistd::Pid::from_raw(program.id().cast_signed());
    nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL).expect("it runs");
    program.wait().expect("it was killed");
    finished.expect("it ends").success();
    let recording = place.recording();
    recording.assert_books_balance();
    assert_eq!(recording.number("lost_exits"), 0);
    expect_orphans_at_the_end(&recording);
    // Children, too.
    assert!(recording.calls("execve") > 3 && recording.calls("openat") > 6, "{}", recording.info);
    // A process of another user.
    let arguments = ["-p", "1", "-o", "of-init/"];
    let refused = run(&mut place.command(place.path("iotrace-perf"), &arguments), TIMEOUT);
    let refused = refused.expect("it ends");
    assert_eq!(refused.status.code(), Some(125));
    let said = refused.stderr();
    assert!(said.contains("only programs of this user"), "{said}");
    assert!(!said.contains("recording process"), "nothing was recorded: {said}");
}

/// Program that opens one file after the other: some it keeps for a while, most it closes at once.
const OPENS: &str = "import os, time\n\
    for i in range(53): f = os.open(f'kept{i}', os.O_CREAT | os.O_WRONLY); time.sleep(.02); os.write(f, b'x' * i); os.close(f)\n\
    for i in range(2003): os.close(os.open(f'short{i % 7}', os.O_CREAT | os.O_WRONLY))";

/// Fails if a name that is marked as sure is another file's, or if no reader looks.
#[test]
fn files_are_named_soon() {
    let _turn = beside_others();
    if !can_record_own() || !require_all(&[Need::Program("python3")]) {
        return;
    }
    let place = UserDirectory::new();
    let program = ["python3", "-B", "-c", OPENS];
    let record = || {
        let said = place.record(&["--names", "links"], &program).success().stderr();
        assert!(said.contains("names: links (all other ways need privileges)"), "{said}");
        (said, place.recording())
    };
    // Beside others the rings may run over.
    let all_told = (0..3).map(|_| record()).find(|it| it.1.number("lost") == 0);
    let (said, recording) = all_told.unwrap_or_else(record);
    recording.assert_whole();
    let of_ours = |it: &&JsonOperation| it.result.is_some_and(|it| it >= 0) && it.name == "openat";
    let operations = recording.operations();
    let opens: Vec<_> = operations.iter().filter(of_ours).collect();
    let opens = &opens[opens.len() - (53 + 2003)..];
    let of = |it: &JsonOperation| Some((it.path.clone()?, it.path_source.clone()?));
    let mut sure = [0, 0];
    for (number, open) in opens.iter().enumerate() {
        let expected = if number < 53 {
            format!("kept{number}")
        } else {
            format!("short{}", (number - 53) % 7)
        };
        let expected = place.path(&expected).to_str().expect("text").to_owned();
        if let Some((path, source)) = of(open).filter(|it| it.1 != "unverified") {
            assert_eq!((path, source.as_str()), (expected, "fd-link"), "open {number}");
            sure[usize::from(number >= 53)] += 1;
        }
    }
    // Twenty milliseconds are long, even beside others.
    assert!(sure[0] >= 27, "{sure:?} of 53 and 2003: {said}");
    // Bytes go to the file whose name it is.
    for write in operations.iter().filter(|it| it.name == "write" && it.fd != Some(2)) {
        if let Some((path, _)) = of(write).filter(|it| it.1 == "fd-link") {
            let bytes = format!("kept{}", write.result.expect("it ended"));
            assert_eq!(path, place.path(&bytes).to_str().expect("text"));
        }
    }
}

/// One capability is enough for the whole machine; what it does not give is reported.
#[test]
fn with_cap_perfmon_the_machine_is_recorded() {
    let _turn = beside_others();
    if !can_record_own() {
        return;
    }
    let place = UserDirectory::new();
    let rights =
        "--reuid=65534 --regid=65534 --clear-groups --inh-caps=+perfmon --ambient-caps=+perfmon";
    let log = format!("{}/", place.path("log").display());
    let program = place.path("iotrace-perf");
    let arguments =
        ["-a", "-v", "--source", "perf", "--no-archive", "-o", &log, "--", "dd", "if=/dev/zero"];
    let mut command = Command::new("setpriv");
    command.args(rights.split(' ')).arg(program).args(arguments);
    command.args(["of=out", "bs=1009", "count=211"]).current_dir(place.dir.path());
    let said = run(&mut command, TIMEOUT).expect("it ends").success().stderr();
    assert!(said.contains("CAP_SYS_NICE") && said.contains("names: links"), "{said}");
    let recording = place.recording();
    recording.assert_books_balance();
    let operations = recording.operations();
    let written = operations.iter().filter(|it| {
        it.name == "write" && it.comm.as_deref() == Some("dd") && it.result == Some(1009)
    });
    let (written, lost) = (written.count(), recording.number("lost"));
    assert!(written == 211 || lost > 0 && written < 211, "{written} written, {lost} lost");
}

#[test]
fn impossible_options_are_refused_before_the_program_starts() {
    let _turn = beside_others();
    if !can_record_own() {
        return;
    }
    let place = UserDirectory::new();
    let cases: [(&[&str], &str); 5] = [
        (&["--names", "reader"], "it needs privileges"),
        (&["-a"], "the whole machine (-a): not without privileges"),
        (&["-e", "block"], "the selection of -e: not without privileges"),
        (&["--stacks", "kernel"], "stacks: not without privileges"),
        (&["--source", "tracefs"], "--source tracefs is not possible"),
    ];
    for (options, expected) in cases {
        let finished = place.record(options, &["touch", "started"]);
        assert_eq!(finished.status.code(), Some(125), "{options:?}");
        assert!(finished.stderr().contains(expected), "{options:?}: {}", finished.stderr());
        assert!(!place.path("started").exists(), "{options:?}");
    }
}

#[test]
fn full_ring_is_counted() {
    let _turn = beside_others();
    if !can_record_own() {
        return;
    }
    let place = UserDirectory::new();
    // The tracer is stopped while the program writes more than a ring holds.
    let stop = "kill -STOP $PPID; dd if=/dev/zero of=/dev/null bs=1 count=300000 2>/dev/null; kill -CONT $PPID";
    let _ = place.record(&["--buffer-size", "16K"], &["sh", "-c", stop]).success();
    let recording = place.recording();
    recording.assert_books_balance();
    let lost = recording.number("lost");
    assert!(lost > 100_000, "{lost}");
    // Records and losses together are the kernel's count.
    for (name, count) in recording.info["missing"].as_object().expect("it ended in order") {
        let at_the_end = count.as_u64().is_some_and(|it| it <= recording.number("cpus"));
        assert!(at_the_end, "missing {name}: {:#}", recording.info);
    }
}

/// Fails if a budget is not kept after one more open, or if the results cannot be read.
#[test]
fn budget_is_checked() {
    if !can_record_own() {
        return;
    }
    let _turn = beside_others();
    let user = UserDirectory::new();
    fs::write(user.path("file"), "abc").expect("written");
    let budget = "[[limit]]\nprograms = \"cat\"\nopens = 0\nfailed_opens = 9\nfsyncs = 0\n";
    fs::write(user.path("io.toml"), budget).expect("written");
    let check = |options: &[&str], script: &str| {
        let arguments = [&["check", "--budget", "io.toml"], options, &["--", "sh", "-c", script]];
        let command = &mut user.command(user.path("iotrace-perf"), &arguments.concat());
        run(command, TIMEOUT).expect("it ends")
    };
    check(&["--update"], "cat file; true").success();
    for (script, expected, failures) in
        [("cat file; true", 0, 0), ("cat file file; true", 100, 1), ("cat file; exit 7", 7, 0)]
    {
        let results = user.path("results.xml");
        let _ = fs::remove_file(&results);
        let finished = check(&["--junit", "results.xml"], script);
        assert_eq!(finished.status.code(), Some(expected), "{script}: {}", finished.stderr());
        let text = fs::read_to_string(&results).expect("results");
        let report = quick_junit::Report::deserialize_from_str(&text).expect("JUnit XML");
        assert_eq!((report.tests, report.failures, report.errors), (3, failures, 0), "{text}");
    }
}
