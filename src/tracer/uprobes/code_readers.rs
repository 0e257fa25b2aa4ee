//! Programs that read the instructions of others from memory: valgrind, emulators of user programs.
//!
//! A probe in a library is a breakpoint instruction in the memory of all programs that use the
//! library. The processor runs into it, and the kernel handles that. A program that runs under
//! valgrind is translated from what its memory has: it would take the breakpoint for an instruction
//! of its own, and die by SIGTRAP.
//!
//! Beside such a program, there are no probes. If one starts later, a thread takes the probes out
//! of all memory. An emulator takes some tens of milliseconds until it loads the libraries of its
//! program; the probes are gone before that, unless no CPU is free for the thread.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::super::library_probes::LibraryProbes;
use super::super::name_source::NameSource;
use super::super::named_thread::spawn_named;
use crate::sys::tracefs_instance::Instance;
use crate::sys::{capabilities, clock, proc};
use crate::units::{KernelTime, Pid};

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

/// Returns the losses of a recording without its probes in libraries, as a part of a sentence.
fn losses(names: NameSource, has_lists: bool) -> String {
    let of_names = match names {
        NameSource::UprobeFanotify => {
            Some("the paths of opens that fail, of renames and of removals are not known")
        }
        NameSource::Uprobe => Some("paths are known of opened files only"),
        _ => None,
    };
    let of_lists = match names.reads() {
        true => "lists of libaio are read from memory",
        false => "operations of libaio are not recorded",
    };
    let losses = of_names.into_iter().chain(has_lists.then_some(of_lists));
    format!("from then on {}", losses.collect::<Vec<_>>().join(", and "))
}

/// Probes that are taken out of libraries when an emulator starts.
#[derive(Clone, Debug)]
struct Withdrawal {
    probes: Arc<LibraryProbes>,
    begin: KernelTime,
    losses: String,
}

impl Withdrawal {
    /// Takes the probes out, for this reason, and returns a warning.
    fn carry_out(&self, reason: &str) -> String {
        let taken_out = self.probes.take_out();
        let since = Duration::from_nanos(clock::now().0.saturating_sub(self.begin.0));
        let (since, losses) = (since.as_secs_f64(), &self.losses);
        match taken_out {
            Ok(()) => format!(
                "the probes in libraries were taken out {since:.1} s after the start: {reason}; {losses}"
            ),
            Err(error) => format!(
                "not all probes could be taken out of libraries ({error}): {reason}; {losses}"
            ),
        }
    }
}

/// Watch on the start of programs that read the instructions of others, while there are probes in
/// libraries: a thread, which ends with this value.
#[derive(Debug, Default)]
pub struct CodeReaderWatch {
    warning: Arc<Mutex<Option<String>>>,
    thread: Option<(Arc<EventFd>, JoinHandle<()>)>,
}

impl CodeReaderWatch {
    /// Begins to watch with an instance that marks probes as in use, if the source records probes
    /// in libraries. The probes are taken out if such a program has started since they were made,
    /// or if starts cannot be watched. `has_lists`: the probes record lists of libaio.
    pub(in super::super) fn begin(
        marker: Option<&Instance>,
        probes: Arc<LibraryProbes>,
        names: NameSource,
        has_lists: bool,
        own_name: &str,
    ) -> Self {
        let Some(marker) = marker.filter(|_| !probes.is_empty()) else { return Self::default() };
        let losses = losses(names, has_lists);
        let withdrawal = Withdrawal { probes, begin: clock::now(), losses };
        let warning = Arc::new(Mutex::new(None));
        let begun = stop_event().and_then(|stop| {
            let (starts, until) = (starts(marker)?, Arc::clone(&stop));
            let (withdrawal, noted) = (withdrawal.clone(), Arc::clone(&warning));
            let run = move || watch(starts, &until, &withdrawal, &noted);
            let thread = spawn_named(own_name, run).map_err(io::Error::other)?;
            Ok((stop, thread))
        });
        let thread = match begun {
            Ok(thread) => Some(thread),
            Err(error) => {
                let reason = format!("the start of an emulator would not be noticed ({error})");
                note(&warning, withdrawal.carry_out(&reason));
                None
            }
        };
        Self { warning, thread }
    }

    /// Returns a warning if the probes have been taken out.
    pub(in super::super) fn warning(&self) -> Option<String> {
        self.warning.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for CodeReaderWatch {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            let _ = stop.write(1);
            let _ = thread.join();
        }
    }
}

fn note(warning: &Mutex<Option<String>>, text: String) {
    *warning.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
}

fn stop_event() -> io::Result<Arc<EventFd>> {
    Ok(Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?))
}

/// Options of an instance with which its samples are other text, or its stream is always readable.
/// A new instance has those of the top one.
const FORM_OPTIONS: [&str; 5] = ["block", "raw", "hex", "bin", "fields"];

/// Has an instance record the starts of programs that may be emulators, and returns its samples.
fn starts(marker: &Instance) -> io::Result<File> {
    for option in FORM_OPTIONS {
        // Some kernels have fewer options.
        let _ = marker.write(&format!("options/{option}"), "0");
    }
    // A waiting reader is woken by the first sample. (Kernels before 5.0 have no such file and
    // behave this way.)
    let _ = marker.write("buffer_percent", "0");
    marker.set_filter(EXEC, FILTER)?;
    marker.write(&format!("{EXEC}/enable"), "1")?;
    marker.write("tracing_on", "1")?;
    marker.open_nonblocking("trace_pipe")
}

/// Waits for the start of an emulator, and takes the probes out then.
fn watch(
    mut starts: File,
    stop: &EventFd,
    withdrawal: &Withdrawal,
    warning: &Mutex<Option<String>>,
) {
    // The files of the probes are open: writing to them needs none of the rights that opened them.
    let _ = capabilities::keep_for_reading();
    // An emulator may have started since the probes were made.
    let mut found = running();
    while found.is_none() {
        let fds = [starts.as_fd(), stop.as_fd()];
        let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
        let [_, stopped] = fds;
        if stopped.any().unwrap_or(true) {
            return;
        }
        // A path with a line end is found among the processes.
        let text = read_all(&mut starts);
        found = text.lines().find_map(emulator_of).or_else(running);
    }
    let Some(program) = found else { return };
    note(warning, withdrawal.carry_out(&format!("{program} {REASON}")));
}

/// Reads all text that is there.
fn read_all(stream: &mut File) -> String {
    let mut text = String::new();
    let mut bytes = vec![0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        text.push_str(&String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()));
    }
    text
}

/// Returns path and process of the emulator whose start a line of `trace_pipe` shows.
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
    fn losses_depend_on_what_the_probes_record() {
        let of_opens = losses(NameSource::UprobeFanotify, false);
        assert!(of_opens.ends_with("of renames and of removals are not known"), "{of_opens}");
        assert_eq!(
            losses(NameSource::Snapshot, true),
            "from then on operations of libaio are not recorded"
        );
    }

    #[test]
    fn command_with_valgrind_is_named_as_the_reason() {
        let command = ["env", "A=1", "valgrind", "./app"].map(str::to_owned);
        let why = hindrance(&command).expect("a reason");
        assert!(why.contains("valgrind reads the instructions"), "{why}");
    }
}
