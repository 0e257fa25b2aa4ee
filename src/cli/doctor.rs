//! `iotrace-perf doctor`: features that this machine supports, verified by use.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::json;

use super::args::DoctorArgs;
use super::check::Check;
use super::error::CliError;
use super::message::print_line;
use super::report_output::print_text;
use super::{doctor_names, self_test};
use crate::event::block_shape::BLOCK_POINTS;
use crate::event::syscall_table::CallId;
use crate::operation::disk;
use crate::sys::instance_pool::{self, FreeInstances};
use crate::sys::perf::{PerfEvent, PerfTarget, Wake};
use crate::sys::ring::Ring;
use crate::sys::tracefs::{Tracefs, TracefsError};
use crate::sys::tracefs_instance::Instance;
use crate::sys::{cpu_topology, disks, proc, rlimits, socket};
use crate::text::quantity::{counted, size};
use crate::tracefs::EventFormat;
use crate::tracer::format_cache;
use crate::tracer::source_selection::hindrance;
use crate::units::Tid;

/// Runs the checks. The exit status reports whether a recording is possible.
pub(super) fn run(args: &DoctorArgs) -> Result<ExitCode, CliError> {
    if args.cache {
        let (path, count) = format_cache::keep().map_err(CliError::Tracer)?;
        print_line(&format!(
            "{count} formats of tracepoints are cached for all users in {}",
            path.display()
        ));
    }
    let mut checks =
        vec![kernel(), root(), tracefs(), tracepoints(), source(), perf(), own_events()];
    checks.extend(doctor_names::checks());
    checks.extend([open_files(), disks(), archives(), self_test::check()]);
    if args.json {
        io::stdout().lock().write_all(as_json(&checks).as_bytes()).map_err(CliError::output)?;
    } else {
        print_text(&as_text(&checks))?;
    }
    let is_ok = |name: &str| checks.iter().any(|check| check.name == name && check.ok);
    let possible = is_ok("tracefs") && (is_ok("perf events") || is_ok("own programs"));
    Ok(if possible { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn kernel() -> Check {
    let host = proc::host();
    let found = format!(
        "{} on {}, {}, pages of {} bytes",
        host.kernel_release,
        host.machine,
        counted(host.cpus.len() as u64, "CPU"),
        host.page_bytes
    );
    let known = CallId::all().any(|call| call.call().number(&host.machine).is_some());
    if known {
        Check::ok("kernel", found)
    } else {
        Check::bad("kernel", found, "system call numbers of this machine are not in the table")
    }
}

fn root() -> Check {
    if nix::unistd::geteuid().is_root() {
        Check::ok("user", "root")
    } else {
        let fix = "sudo iotrace-perf …";
        Check::bad("user", "not root: see what can be recorded below", fix)
    }
}

/// Value of `kernel.perf_event_paranoid`; 0 if the kernel has no such setting.
fn paranoid_level() -> i32 {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    level.ok().and_then(|level| level.trim().parse().ok()).unwrap_or(0)
}

/// Opens a tracepoint of this thread alone, as a recording without privileges would.
fn own_events() -> Check {
    const NAME: &str = "own programs";
    let format =
        Tracefs::find_or_kept().and_then(|tracefs| tracefs.format("syscalls", "sys_enter_read"));
    let id = format.ok().and_then(|format| EventFormat::parse(&format).ok()?.id);
    let Some(id) = id.and_then(|id| u16::try_from(id).ok()) else {
        return Check::bad(NAME, "not tried without tracefs", "see tracefs");
    };
    let cpu = cpu_topology::online_cpus().first().copied().unwrap_or(0);
    let whose = PerfTarget::Thread(Tid(nix::unistd::gettid().as_raw()));
    match PerfEvent::tracepoint(id, cpu, Wake::Watermark(4096), whose) {
        // Root may always open it.
        Ok(_) if nix::unistd::geteuid().is_root() && paranoid_level() > 2 => {
            let found = format!("kernel.perf_event_paranoid is {}", paranoid_level());
            Check::bad(NAME, found, "sudo sysctl kernel.perf_event_paranoid=2")
        }
        Ok(_) => Check::ok(NAME, "their system calls can be recorded without privileges"),
        Err(error) => {
            // The kernel's own rules refuse with EACCES.
            let fix = match error.raw_os_error() {
                Some(libc::EPERM) => "a seccomp profile that allows perf_event_open",
                _ => "sudo sysctl kernel.perf_event_paranoid=2",
            };
            Check::bad(NAME, format!("cannot be recorded without privileges: {error}"), fix)
        }
    }
}

fn tracefs() -> Check {
    let found = Tracefs::find_or_kept()
        .and_then(|tracefs| tracefs.format("raw_syscalls", "sys_enter").map(|_| tracefs));
    match found {
        Ok(tracefs) if tracefs.is_readable() => {
            Check::ok("tracefs", tracefs.root().display().to_string())
        }
        Ok(_) => Check::ok("tracefs", "for root only; its formats of this kernel are cached"),
        Err(error) => {
            let fix = match error {
                TracefsError::NotKept(_) => "sudo iotrace-perf doctor --cache",
                TracefsError::NotMounted => "sudo mount -t tracefs tracefs /sys/kernel/tracing",
                TracefsError::Unreadable { .. } => "sudo iotrace-perf doctor",
                TracefsError::Missing { .. } => "a kernel with CONFIG_FTRACE_SYSCALLS",
            };
            Check::bad("tracefs", error.to_string(), fix)
        }
    }
}

/// Tracepoints that this program uses and this kernel has.
fn tracepoints() -> Check {
    let readable = Tracefs::find_or_kept()
        .and_then(|tracefs| tracefs.format("raw_syscalls", "sys_enter").map(|_| tracefs));
    let Ok(tracefs) = readable else {
        return Check::bad("tracepoints", "unknown without tracefs", "see tracefs");
    };
    let machine = proc::host().machine;
    let calls = CallId::all().filter(|call| call.call().number(&machine).is_some());
    let syscalls = calls.map(|call| ("syscalls", format!("sys_enter_{}", call.call().name)));
    let blocks = BLOCK_POINTS.iter().map(|point| ("block", point.0.to_owned()));
    let all: Vec<(&str, String)> =
        syscalls.chain(blocks).chain([("task", "task_newtask".to_owned())]).collect();
    let missing: Vec<String> = all
        .iter()
        .filter(|(system, name)| tracefs.format(system, name).is_err())
        .map(|(system, name)| format!("{system}:{name}"))
        .collect();
    if missing.is_empty() {
        Check::ok("tracepoints", format!("all {}", all.len()))
    } else {
        let fix = "their events are not recorded; a newer kernel has them";
        Check::bad(
            "tracepoints",
            format!("{} of {} are missing: {}", missing.len(), all.len(), missing.join(" ")),
            fix,
        )
    }
}

/// Source that a recording would get. Creates an instance of tracefs as a recording would, and
/// removes those of dead tracers.
fn source() -> Check {
    let Ok(tracefs) = Tracefs::find() else {
        return Check::bad("source", "unknown without tracefs", "see tracefs");
    };
    let removed = instance_pool::remove_stale(&tracefs, FreeInstances::Remove).unwrap_or(0);
    let mut cleaned = match removed {
        0 => String::new(),
        more => format!("; removed {more} instances of ended recordings"),
    };
    if socket::remove_left() {
        cleaned.push_str("; removed the socket of a dead recording");
    }
    let hindrance = hindrance(&tracefs)
        .or_else(|| Instance::create(&tracefs, "doctor").err().map(|error| error.to_string()));
    match hindrance {
        None => Check::ok("source", format!("tracefs, the cheaper one{cleaned}")),
        Some(why) => Check::bad(
            "source",
            format!("perf: {why}{cleaned}"),
            "it works, at twice the cost; for tracefs: root outside of a container",
        ),
    }
}

/// Opens a tracepoint on the first CPU and maps a ring as a recording would.
fn perf() -> Check {
    let fix = format!("sudo iotrace-perf … (kernel.perf_event_paranoid is {})", paranoid_level());
    let format =
        Tracefs::find_or_kept().and_then(|tracefs| tracefs.format("raw_syscalls", "sys_enter"));
    let id = format
        .ok()
        .and_then(|format| EventFormat::parse(&format).ok()?.id)
        .and_then(|format| u16::try_from(format).ok());
    let Some(id) = id else {
        return Check::bad("perf events", "not tried without tracefs", "see tracefs");
    };
    let cpu = cpu_topology::online_cpus().first().copied().unwrap_or(0);
    let event =
        match PerfEvent::tracepoint(id, cpu, Wake::Watermark(4096), PerfTarget::AllProcesses) {
            Ok(event) => event,
            Err(error) => {
                return Check::bad("perf events", format!("cannot be opened: {error}"), fix);
            }
        };
    let counts = event.counters().map(|counter| counter.lost.is_some()).unwrap_or(false);
    match Ring::map(&event, 8 << 20) {
        Ok(ring) => Check::ok(
            "perf events",
            format!(
                "system-wide, rings of {} KiB, losses {}",
                ring.data_size() >> 10,
                if counts {
                    "counted per tracepoint"
                } else {
                    "counted by LOST records only (before Linux 6.0)"
                }
            ),
        ),
        Err(error) => Check::bad(
            "perf events",
            format!("a ring of 8 MiB cannot be mapped: {error}"),
            "--buffer-size 512K, or: ulimit -l unlimited",
        ),
    }
}

fn open_files() -> Check {
    let limit = rlimits::raise_open_files();
    let cpus = u64::try_from(cpu_topology::online_cpus().len()).unwrap_or(u64::MAX);
    // Each tracepoint is opened once on each CPU: some 45 of the default set with perf.
    let needed = cpus.saturating_mul(48) + 64;
    if limit >= needed {
        Check::ok("open files", format!("{limit}"))
    } else {
        Check::bad(
            "open files",
            format!("{limit}, {needed} are needed on {cpus} CPUs"),
            format!("ulimit -n {needed}"),
        )
    }
}

/// Looks for the library that writes archives.
fn archives() -> Check {
    const NAME: &str = "OTF2 library";
    match otf2_sys::library() {
        Ok(library) => Check::ok(NAME, format!("{}, version {}", library.name, library.major)),
        Err(error) => {
            let text = error.to_string();
            let (found, remedy) = text.split_once("; ").unwrap_or((&text, ""));
            Check::bad(NAME, format!("no archives: cannot {found}"), remedy)
        }
    }
}

fn disks() -> Check {
    let disks: Vec<String> = disks::disks()
        .iter()
        .filter_map(|event| {
            let bytes = size(disk::size_bytes(event)?);
            let scheduler =
                if event.scheduler.is_empty() { "no scheduler" } else { event.scheduler.as_str() };
            Some(format!("{} ({}, {bytes}, {scheduler})", event.name, event.dev))
        })
        .collect();
    Check::ok("disks", disks.join(" "))
}

fn as_text(checks: &[Check]) -> String {
    let line = |check: &Check| {
        let fix =
            check.fix.as_ref().map_or_else(String::new, |fix| format!("\n               → {fix}"));
        format!(
            "{} {:<12} {}{fix}\n",
            if check.ok { "ok " } else { "NO " },
            check.name,
            check.found
        )
    };
    checks.iter().map(line).collect()
}

fn as_json(checks: &[Check]) -> String {
    let entry = |check: &Check| json!({"name": check.name, "ok": check.ok, "found": check.found, "fix": check.fix});
    format!("{:#}\n", json!({"checks": checks.iter().map(entry).collect::<Vec<_>>()}))
}
