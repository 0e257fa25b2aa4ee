//! Why there is no io_uring for us.

use std::fs;
use std::io;

use thiserror::Error;

/// What is known of it where all of the machine can be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// `kernel.io_uring_disabled`; `None`: this kernel has no such setting (before Linux 6.6).
    disabled: Option<u8>,
    /// Some of our system calls are filtered (seccomp(2)).
    is_filtered: bool,
}

impl Rules {
    /// Those of this process.
    pub fn new() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/sys/kernel/io_uring_disabled"), &read("/proc/self/status"))
    }

    fn parse(disabled: &str, status: &str) -> Self {
        let mode = status.lines().find_map(|it| it.strip_prefix("Seccomp:"));
        Self {
            disabled: disabled.trim().parse().ok(),
            is_filtered: mode.map(str::trim) == Some("2"),
        }
    }
}

/// Why there is none.
#[derive(Debug, Error)]
pub enum NoRing {
    /// Of this machine's own will.
    #[error(
        "io_uring is switched off on this machine (kernel.io_uring_disabled is 2); try: sudo sysctl kernel.io_uring_disabled=0, or --engine calls"
    )]
    Off,
    /// The same, but for some.
    #[error(
        "io_uring is only for CAP_SYS_ADMIN on this machine (kernel.io_uring_disabled is 1), which a replay gives up; try: sudo sysctl kernel.io_uring_disabled=0, \
         or --engine calls"
    )]
    OnlyForSome,
    /// Of a container's.
    #[error(
        "io_uring is not allowed here: a filter of system calls (seccomp) refuses it ({0}), as those of containers do; try: --engine calls, or a container without that \
         filter (docker run --security-opt seccomp=unconfined)"
    )]
    Filtered(io::Error),
    /// It has none.
    #[error("this kernel has no io_uring (CONFIG_IO_URING); try: --engine calls")]
    NotThere,
    /// One that cannot wait as long as it is told (`IORING_FEAT_EXT_ARG`).
    #[error(
        "the io_uring of this kernel cannot wait for a time (Linux 5.11 can); try: --engine calls"
    )]
    TooOld,
    /// Something else.
    #[error("the kernel gives us no io_uring: {0}; try: --engine calls")]
    Failed(io::Error),
}

impl NoRing {
    /// The kernel has said so, and these are the rules.
    pub(super) fn new(source: io::Error, rules: Rules) -> Self {
        let is_refused = source.raw_os_error() == Some(libc::EPERM);
        let is_absent = source.raw_os_error() == Some(libc::ENOSYS);
        match rules.disabled {
            Some(2) if is_refused => Self::Off,
            Some(1) if is_refused => Self::OnlyForSome,
            // Who has the setting has io_uring.
            Some(_) if is_absent => Self::Filtered(source),
            _ if rules.is_filtered && (is_refused || is_absent) => Self::Filtered(source),
            _ if is_absent => Self::NotThere,
            _ => Self::Failed(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_told() {
        let told = |errno: i32, disabled: &str, seccomp: &str| {
            let rules = Rules::parse(disabled, &format!("Name:\tx\nSeccomp:\t{seccomp}\n"));
            let told = NoRing::new(io::Error::from_raw_os_error(errno), rules);
            let told = format!("{told:?}");
            told.split_once('(').map_or(told.clone(), |it| it.0.to_owned())
        };
        assert_eq!(told(libc::EPERM, "2\n", "0"), "Off");
        assert_eq!(told(libc::EPERM, "1\n", "0"), "OnlyForSome");
        assert_eq!(told(libc::EPERM, "0\n", "2"), "Filtered");
        assert_eq!(told(libc::EPERM, "", "2"), "Filtered");
        assert_eq!(told(libc::ENOSYS, "0\n", "0"), "Filtered");
        assert_eq!(told(libc::ENOSYS, "", "2"), "Filtered");
        assert_eq!(told(libc::ENOSYS, "", "0"), "NotThere");
        assert_eq!(told(libc::ENOMEM, "0\n", "2"), "Failed");
        assert_eq!(told(libc::EPERM, "0\n", "0"), "Failed");
    }
}
