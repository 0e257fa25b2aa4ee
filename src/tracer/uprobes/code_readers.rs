//! Programs that read the instructions of others from memory: valgrind, emulators of user programs.
//!
//! A probe in a library is a breakpoint instruction in the memory of all programs that use the
//! library. The processor runs into it, and the kernel handles that. A program that runs under
//! valgrind is translated from what its memory has: it would take the breakpoint for an instruction
//! of its own, and die by SIGTRAP.

use std::path::{Path, PathBuf};

use crate::sys::proc;
use crate::units::Pid;

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
    let reader = launched.map(|word| word.escape_debug().to_string()).or_else(|| {
        proc::processes().into_iter().find_map(|pid| {
            let program = executable(pid).filter(|program| reads_code(program))?;
            Some(format!("{} (process {})", program.to_string_lossy().escape_debug(), pid.0))
        })
    })?;
    Some(format!(
        "no probes are in libraries: {reader} reads the instructions of programs, and would take a \
         probe for one of them"
    ))
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
    fn command_with_valgrind_is_named_as_the_reason() {
        let command = ["env", "A=1", "valgrind", "./app"].map(str::to_owned);
        let why = hindrance(&command).expect("a reason");
        assert!(why.contains("valgrind reads the instructions"), "{why}");
    }
}
