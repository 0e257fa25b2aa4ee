//! Identity of a process beside its numbers and its name.

use crate::units::Pid;

/// Part of the identity of a process that was read while it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenIdentity {
    /// The process.
    pub pid: Pid,
    /// Part that was read.
    pub part: IdentityPart,
}

/// Part of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityPart {
    /// Arguments of its program, each with a NUL at its end: `/proc/PID/cmdline`. A program may
    /// have changed them.
    Command(Vec<u8>),
    /// Control groups of the process: `/proc/PID/cgroup`.
    Cgroup(Vec<u8>),
    /// Path of its program: the target of `/proc/PID/exe`.
    Executable(Vec<u8>),
}

impl IdentityPart {
    /// Returns the memory that it uses besides itself, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Command(text) | Self::Cgroup(text) | Self::Executable(text) => text.len(),
        }
    }
}
