//! Requirements of tests. A test whose machine lacks one is skipped, and prints so; in CI
//! (`CI=true`) what its machine is known to have must be there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use iotrace_perf::sys::proc;
use iotrace_perf::sys::replay::reissue::{CallRing, UringPolicy};
use iotrace_perf::tracer::uprobes;

use crate::support::machine::postgres;

/// One thing that a test needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Effective user id 0.
    Root,
    /// The tracing file system, readable.
    Tracefs,
    /// Tracepoints through `perf_event_open` for all processes.
    PerfTracepoints,
    /// A free loop device.
    Loop,
    /// The program `strace`.
    Strace,
    /// The program `otf2-print` (Debian: otf2-tools).
    Otf2Print,
    /// The program `fio`.
    Fio,
    /// PostgreSQL's server, with `psql` and `pgbench`.
    Postgres,
    /// A user without rights that may make a user namespace.
    UserNamespace,
    /// An io_uring that a process without privileges may use, and that can wait for a time; never
    /// demanded of CI.
    IoUring,
    /// Uprobes that are safe on this kernel and processor.
    Uprobes,
    /// The browser Chromium; never demanded of CI.
    Browser,
    /// The right to have this number of open files.
    OpenFiles(u64),
    /// Any other program of a package.
    Program(&'static str),
    /// A module of Python, which `scripts/setup` does not install; never demanded of CI.
    PythonModule(&'static str),
    /// A file or directory that only some kernels have; never demanded of CI.
    KernelFile(&'static str),
    /// A control group of version 2 that a test may make; never demanded of CI.
    Cgroup,
    /// An I/O scheduler that only some kernels have; never demanded of CI.
    Scheduler(&'static str),
    /// Namespaces and virtual networks in which a job has several hosts; never demanded of CI.
    JobHosts,
    /// The mounts and the root directory of the first process; never demanded of CI.
    FirstMounts,
}

/// Python with the modules of [`Need::PythonModule`]: `IOTRACE_PYTHON`, of a virtual environment,
/// or the one of the system.
pub(crate) fn python() -> String {
    std::env::var("IOTRACE_PYTHON").unwrap_or_else(|_| "python3".into())
}

/// True if the need is met. Otherwise prints "skipped: …" and gives false.
///
/// # Panics
///
/// In CI, unless the need is one that depends on the kernel's version.
pub(crate) fn require(need: Need) -> bool {
    let in_ci = std::env::var("CI").as_deref() == Ok("true");
    verdict(need, missing(need), in_ci)
}

/// As [`require`], for several; names the first that is not met.
pub(crate) fn require_all(needs: &[Need]) -> bool {
    needs.iter().all(|&need| require(need))
}

/// Decides whether a missing requirement skips the test or fails it.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn verdict(need: Need, missing: Option<String>, in_ci: bool) -> bool {
    let Some(reason) = missing else { return true };
    let may_be_missing = matches!(
        need,
        Need::KernelFile(_)
            | Need::Scheduler(_)
            | Need::IoUring
            | Need::Cgroup
            | Need::Browser
            | Need::PythonModule(_)
            | Need::JobHosts
            | Need::FirstMounts
    );
    assert!(!in_ci || may_be_missing, "cannot run in CI: {reason}");
    eprintln!("skipped: {reason}");
    false
}

/// Makes a control group; `None`: this machine has none, or allows none.
pub(crate) fn make_cgroup(name: &str) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
    let path = Path::new(mount.split(' ').nth(1)?).join(name);
    std::fs::create_dir(&path).ok().map(|()| path)
}

/// Why no control group can be made.
fn missing_cgroup() -> Option<String> {
    let name = format!("iotrace-{}-need", std::process::id());
    match make_cgroup(&name).map(std::fs::remove_dir) {
        Some(Ok(())) => None,
        _ => Some("no control group can be made here".to_owned()),
    }
}

/// Why a job cannot have several hosts here.
fn missing_job_hosts() -> Option<String> {
    let time = ["--uts", "--time", "--monotonic", "7", "--fork", "true"];
    let devices = "ip link add hub type bridge && ip link add eth0 type veth peer name port1";
    let name = format!("iotrace-need{}", std::process::id());
    let kinds = [
        ("time namespace", runs("unshare", &time)),
        ("bridge or virtual network device", runs("unshare", &["--net", "sh", "-c", devices])),
        ("named network namespace", {
            let is_made = runs("ip", &["netns", "add", &name]);
            runs("ip", &["netns", "del", &name]) && is_made
        }),
    ];
    let (kind, _) = kinds.into_iter().find(|(_, is_made)| !is_made)?;
    Some(format!("no {kind} can be made here"))
}

/// Why a need is not met.
fn missing(need: Need) -> Option<String> {
    match need {
        Need::Cgroup => missing_cgroup(),
        Need::Root => (!is_root()).then(|| "not root".to_owned()),
        Need::Tracefs => {
            let found = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"]
                .iter()
                .any(|it| std::fs::read_dir(it).is_ok());
            (!found).then(|| "no readable tracing file system".to_owned())
        }
        Need::PerfTracepoints => {
            if !Path::new("/sys/bus/event_source/devices/tracepoint").exists() {
                return Some("the kernel has no perf tracepoints".to_owned());
            }
            let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
            let level: i32 = text.trim().parse().ok()?;
            (!is_root() && level > -1).then(|| format!("perf_event_paranoid is {level}, not root"))
        }
        Need::Loop => {
            let found = is_root() && runs("losetup", &["-f"]);
            (!found).then(|| "no loop devices".to_owned())
        }
        Need::Strace => missing_program("strace", "--version"),
        Need::Otf2Print => missing_program("otf2-print", "--version"),
        Need::Fio => missing_program("fio", "--version"),
        Need::Postgres => postgres::programs().is_none().then(|| "no PostgreSQL server".to_owned()),
        Need::UserNamespace => {
            let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
            let may = runs("setpriv", &[&nobody[..], &["unshare", "--user", "true"]].concat());
            (!may).then(|| "a user may not make a user namespace".to_owned())
        }
        Need::IoUring => {
            // With 1 only processes may have one that keep the rights that a replay gives up.
            // Before Linux 6.6 there is no such setting.
            let setting = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
            let is_off = setting.is_ok_and(|it| it.trim() != "0");
            let ring = CallRing::new(1, UringPolicy::new());
            ring.err().map(|it| it.to_string()).or(is_off.then(|| "io_uring_disabled".to_owned()))
        }
        Need::Uprobes => {
            let has_file = Path::new("/sys/kernel/tracing/uprobe_events").exists();
            let host = proc::host();
            let hindrance = uprobes::hindrance(&host.machine, &host.kernel_release);
            hindrance.or((!has_file).then(|| "the kernel has no uprobes".to_owned()))
        }
        Need::Browser => browser().is_none().then(|| "no Chromium".to_owned()),
        Need::Program(name) => missing_program(name, "--version"),
        Need::PythonModule(name) => {
            let mut python = Command::new(python());
            let found = python.args(["-c", &format!("import {name}")]).output();
            let has = found.is_ok_and(|output| output.status.success());
            (!has).then(|| format!("no module {name} of Python: pip install {name}"))
        }
        Need::KernelFile(path) => {
            (!Path::new(path).exists()).then(|| format!("the kernel has no {path}"))
        }
        Need::JobHosts => missing_job_hosts(),
        Need::FirstMounts => proc::has_own_mounts()
            .then(|| "these mounts are not those of the first process".to_owned()),
        Need::OpenFiles(files) => {
            let may = runs("sh", &["-c", &format!("ulimit -n {files}")]);
            (!may).then(|| format!("{files} open files are needed, and the hard limit is lower"))
        }
        Need::Scheduler(name) => {
            (!offers(name)).then(|| format!("the kernel offers no I/O scheduler {name}"))
        }
    }
}

/// Name of Chromium's program, if there is one.
pub(crate) fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.into_iter().find(|name| missing_program(name, "--version").is_none())
}

/// True if a block device may have this scheduler: "none [mq-deadline] kyber".
fn offers(scheduler: &str) -> bool {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let texts =
        devices.filter_map(|it| std::fs::read_to_string(it.path().join("queue/scheduler")).ok());
    let mut offered = texts.flat_map(|it| {
        let names = it.split_whitespace().map(|it| it.trim_matches(['[', ']']).to_owned());
        names.collect::<Vec<_>>()
    });
    offered.any(|it| it == scheduler)
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A program that does not know the option is there all the same: only its start counts.
fn missing_program(name: &str, option: &str) -> Option<String> {
    let mut command = Command::new(name);
    let quiet = command.arg(option).stdin(Stdio::null()).stdout(Stdio::null());
    let error = quiet.stderr(Stdio::null()).status().err()?;
    Some(format!("{name}: {error}"))
}

fn runs(name: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(name);
    let quiet = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    quiet.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
