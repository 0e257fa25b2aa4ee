//! What a recording by root may do, and whom its program is.

mod support;

use std::fs;
use std::process::Command;

use support::process::{Finished, run};
use support::recording::{BINARY, Recording, TIMEOUT, can_record, recorder};
use support::scratch_dir;

/// Capabilities as bits (linux/capability.h).
const fn bits(numbers: &[u32]) -> u64 {
    let (mut bits, mut at) = (0, 0);
    while at < numbers.len() {
        bits |= 1 << numbers[at];
        at += 1;
    }
    bits
}

/// What docs/security.md says that is kept: chown, `dac_override`, `dac_read_search`, fowner, kill, setgid, setuid, `sys_ptrace`,
/// syslog.
const KEPT: u64 = bits(&[0, 1, 2, 3, 5, 6, 7, 19, 34]);
/// And by threads that were started to open or to read on each CPU: `ipc_lock`, `sys_admin`, `sys_nice`, `sys_resource`, perfmon.
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
fn nothing_is_kept_that_is_not_needed() {
    if !can_record(&[]) {
        return;
    }
    let finished = recorded(
        &[],
        &[
            "sh",
            "-c",
            "sleep 1; cd /proc/$PPID; echo @; cat status; for it in task/*; do echo @; cat $it/status; done; echo @; cat /proc/self/status",
        ],
    );
    let told = finished.stdout();
    let mut tasks: Vec<&str> = told.split("@\n").skip(1).collect();
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
fn a_program_is_started_as_somebody_else() {
    if !can_record(&[]) {
        return;
    }
    let mut id = Command::new("setpriv");
    id.args(["--reuid", "games", "--regid", "games", "--init-groups", "id"]);
    let id = run(&mut id, TIMEOUT).expect("it ends").stdout();
    let number = id.split(['=', '(']).nth(1).expect("a number").to_owned();
    for user in ["games", &number] {
        let finished = recorded(&["--as-user", user], &["id"]);
        assert_eq!((finished.stdout(), finished.status.code()), (id.clone(), Some(0)), "{user}");
    }
    // They may do no more than they may.
    let finished = recorded(&["--as-user", "games"], &["cat", "/etc/shadow"]);
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr());
    let finished = recorded(&["--as-user", "nobody at all"], &["id"]);
    assert!(finished.stderr().contains("--as-user nobody at all: there is no such user"));
    assert_ne!(finished.status.code(), Some(0));
}

/// Root of a container has little more than any user: what is possible is recorded, and what is not is told.
#[test]
fn root_without_capabilities_records_its_own() {
    if !can_record(&[]) {
        return;
    }
    let dir = scratch_dir("rights");
    let trace = dir.path().join("trace");
    let program = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1009", "count=211"];
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", BINARY, "--no-archive", "-o"]);
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
