//! Programs that read the instructions of others from memory: valgrind, emulators of user programs.
//!
//! A probe in a library is a breakpoint instruction in the memory of all programs that use the
//! library. The processor runs into it, and the kernel handles that. A program that runs under
//! valgrind is translated from what its memory has: it would take the breakpoint for an instruction
//! of its own, and die by SIGTRAP.
//!
//! Beside such a program, there are no probes. If one starts later, the probes are switched off,
//! which takes the breakpoints out of all memory. An emulator takes some tens of milliseconds until
//! it loads the libraries of its program; the probes are gone before that.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::source::Source;
use crate::capture::header::Clock;
use crate::sys::tracefs_instance::Instance;
use crate::sys::{clock, proc};
use crate::units::Pid;

/// Reason why there must be no probes beside an emulator.
const REASON: &str = "reads the instructions of programs, and would take a probe for one of them";

/// Event of the start of a program, in an instance.
const EXEC: &str = "events/sched/sched_process_exec";

/// Filter of the paths that may be those of an emulator.
const FILTER: &str = "filename ~ \"*valgrind*\" || filename ~ \"*box64\" || \
                      filename ~ \"*FEX*\" || filename ~ \"*qemu-*\"";

/// Names of emulators of user programs.
const EMULATORS: [&str; 5] = ["valgrind", "valgrind.bin", "box64", "FEX", "FEXInterpreter"];

/// Architectures of the emulators of user programs that QEMU has: `qemu-x86_64`,
/// `qemu-aarch64-static`. Its other programs (`qemu-system-*`, `qemu-ga`) run no programs from this
/// machine's files.
const QEMU_MACHINES: [&str; 14] = [
    "aarch64",
    "arm",
    "armeb",
    "i386",
    "loongarch64",
    "m68k",
    "mips",
    "mips64",
    "ppc",
    "ppc64",
    "ppc64le",
    "riscv64",
    "s390x",
    "x86_64",
];

/// Directory of the tools of valgrind, which are executables of their own.
const VALGRIND_TOOLS: &str = "/valgrind/";

/// Returns true if a program of this name reads the instructions of others.
fn is_emulator(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let machine =
        name.strip_prefix("qemu-").map(|rest| rest.strip_suffix("-static").unwrap_or(rest));
    EMULATORS.contains(&&*name) || machine.is_some_and(|machine| QEMU_MACHINES.contains(&machine))
}

/// Returns true if the executable of a process reads the instructions of others.
fn reads_code(program: &Path) -> bool {
    is_emulator(program) || program.to_string_lossy().contains(VALGRIND_TOOLS)
}

fn executable(pid: Pid) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{}/exe", pid.0)).ok()
}

/// Returns the reason why there must be no probes in libraries: the command, or a process of this
/// machine, reads the instructions of others.
pub(super) fn hindrance(command: &[String]) -> Option<String> {
    let launched = command.iter().find(|word| is_emulator(word.as_ref()));
    let reader = launched.map(|word| word.escape_debug().to_string()).or_else(running)?;
    Some(format!("no probes are in libraries: {reader} {REASON}"))
}

/// Returns path and process of a running program that reads the instructions of others.
fn running() -> Option<String> {
    proc::processes().into_iter().find_map(|pid| {
        let program = executable(pid).filter(|program| reads_code(program))?;
        Some(format!("{} (process {})", program.to_string_lossy().escape_debug(), pid.0))
    })
}

/// Takes the probes out of libraries for the rest of the recording, because of this program.
/// Returns a warning.
fn leave_libraries(source: &dyn Source, program: &str, begin: &Clock) -> String {
    let switched = source.switch_off_library_probes();
    let since = Duration::from_nanos(clock::now().0.saturating_sub(begin.start_ns));
    let since = since.as_secs_f64();
    match switched {
        Ok(()) => format!(
            "the probes in libraries were taken out {since:.1} s after the start: {program} {REASON}; from then on opens that \
             fail have no names, and libaio's lists are read from memory"
        ),
        Err(error) => format!(
            "the probes could not be taken out of libraries ({error}): {program} {REASON}, and may die by SIGTRAP"
        ),
    }
}

/// Watch on the start of programs that read the instructions of others, while there are probes in
/// libraries.
#[derive(Debug, Default)]
pub struct CodeReaderWatch {
    /// Samples of an instance as text, a line each; `None`: there are no probes in libraries.
    starts: Option<File>,
    /// Part of a line that is not complete.
    rest: String,
}

impl CodeReaderWatch {
    /// Begins to watch with an instance that marks probes as in use, if the source records probes
    /// in libraries. The probes are taken out if such a program has started since they were made,
    /// and a warning is returned.
    pub(in super::super) fn begin(
        marker: Option<&Instance>,
        source: &dyn Source,
        begin: &Clock,
    ) -> (Self, Option<String>) {
        let has_probes = source.tracepoints().iter().any(|point| point.planned.is_in_library());
        let Some(marker) = marker.filter(|_| has_probes) else { return (Self::default(), None) };
        let reader = match starts(marker) {
            Ok(starts) => match running() {
                None => return (Self { starts: Some(starts), rest: String::new() }, None),
                Some(reader) => reader,
            },
            Err(error) => format!("a program that cannot be noticed ({error})"),
        };
        (Self::default(), Some(leave_libraries(source, &reader, begin)))
    }

    /// Returns the descriptor that is readable when a program has started.
    pub(in super::super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.starts.as_ref().map(AsFd::as_fd)
    }

    /// Takes the probes out of libraries if a program has started that reads the instructions of
    /// others. Returns a warning then.
    pub(in super::super) fn look(&mut self, source: &dyn Source, begin: &Clock) -> Option<String> {
        let program = self.started()?;
        self.starts = None;
        Some(leave_libraries(source, &program, begin))
    }

    /// Returns the program that has started since the last call and reads the instructions of
    /// others, if there is one: its path and process.
    fn started(&mut self) -> Option<String> {
        let mut bytes = vec![0; 4096];
        while let Ok(count @ 1..) = self.starts.as_mut()?.read(&mut bytes) {
            self.rest.push_str(&String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()));
        }
        let complete = self.rest.rfind('\n').map_or(0, |end| end + 1);
        let lines: String = self.rest.drain(..complete).collect();
        lines.lines().find_map(emulator_of)
    }
}

/// Has an instance record the starts of programs that may be emulators, and returns its samples.
fn starts(marker: &Instance) -> io::Result<File> {
    // A waiting reader is woken by the first sample. (Kernels before 5.0 have no such file and
    // behave this way.)
    let _ = marker.write("buffer_percent", "0");
    marker.set_filter(EXEC, FILTER)?;
    marker.write(&format!("{EXEC}/enable"), "1")?;
    marker.write("tracing_on", "1")?;
    marker.open_nonblocking("trace_pipe")
}

/// Returns path and process of the emulator whose start a line of `trace_pipe` shows. A path may
/// have any characters.
fn emulator_of(line: &str) -> Option<String> {
    let (_, sample) = line.split_once("sched_process_exec: filename=")?;
    let (path, numbers) = sample.rsplit_once(" pid=")?;
    let pid = numbers.split_whitespace().next()?.parse::<u32>().ok()?;
    reads_code(path.as_ref()).then(|| format!("{} (process {pid})", path.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valgrind_and_emulators_of_programs_read_code() {
        for program in [
            "valgrind",
            "/usr/bin/valgrind",
            "/usr/libexec/valgrind/memcheck-amd64-linux",
            "/usr/bin/qemu-x86_64-static",
            "/usr/local/bin/box64",
        ] {
            assert!(reads_code(program.as_ref()), "{program}");
        }
        for program in [
            "/usr/bin/qemu-system-x86_64",
            "/usr/sbin/qemu-ga",
            "/usr/libexec/qemu-kvm",
            "/bin/make",
            "valgrind.log",
            "",
        ] {
            assert!(!reads_code(program.as_ref()), "{program}");
        }
        assert!(!is_emulator("valgrind-logs".as_ref()));
    }

    #[test]
    fn started_emulators_are_found_in_the_lines_of_the_kernel() {
        let line = |path: &str| {
            format!(
                "   make-812   [001] ..... 15.2: sched_process_exec: filename={path} pid=812 old_pid=810"
            )
        };
        assert_eq!(
            emulator_of(&line("/usr/bin/valgrind")).as_deref(),
            Some("/usr/bin/valgrind (process 812)")
        );
        let spaced = emulator_of(&line("/a pid=3 b/qemu-x86_64")).expect("an emulator");
        assert_eq!(spaced, "/a pid=3 b/qemu-x86_64 (process 812)");
        for other in ["/bin/make", "/usr/bin/qemu-system-x86_64", "/var/valgrind.log"] {
            assert_eq!(emulator_of(&line(other)), None, "{other}");
        }
        assert_eq!(emulator_of("CPU:1 [LOST 3 EVENTS]"), None);
    }

    #[test]
    fn command_with_valgrind_is_named_as_the_reason() {
        let command = ["env", "A=1", "valgrind", "./app"].map(str::to_owned);
        let why = hindrance(&command).expect("a reason");
        assert!(why.contains("valgrind reads the instructions"), "{why}");
    }
}
