//! Availability of io_uring: the machine's rules, and the reasons for which a ring cannot be
//! created.

use std::fs;
use std::io;

use thiserror::Error;

/// Rules for io_uring, as read where all of the machine is visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UringPolicy {
    /// `kernel.io_uring_disabled`; `None`: this kernel has no such setting (before Linux 6.6).
    disabled: Option<u8>,
    /// Some of our system calls are filtered (seccomp(2)).
    is_filtered: bool,
}

impl UringPolicy {
    /// Reads the rules for this process.
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

/// Reason for which there is no ring.
#[derive(Debug, Error)]
pub enum UringUnavailable {
    /// The machine's setting switches io_uring off for all processes.
    #[error(
        "io_uring is switched off on this machine (kernel.io_uring_disabled is 2); try: sudo sysctl kernel.io_uring_disabled=0, or --engine calls"
    )]
    Off,
    /// The machine's setting allows io_uring to privileged processes only.
    #[error(
        "io_uring is only for CAP_SYS_ADMIN on this machine (kernel.io_uring_disabled is 1), which a replay gives up; try: sudo sysctl kernel.io_uring_disabled=0, \
         or --engine calls"
    )]
    OnlyForSome,
    /// A seccomp filter refuses io_uring, as a container's does.
    #[error(
        "io_uring is not allowed here: a filter of system calls (seccomp) refuses it ({0}), as filters of containers do; try: --engine calls, or a container without that \
         filter (docker run --security-opt seccomp=unconfined)"
    )]
    Filtered(io::Error),
    /// The kernel was built without io_uring.
    #[error("this kernel has no io_uring (CONFIG_IO_URING); try: --engine calls")]
    NotThere,
    /// The kernel's io_uring cannot wait with a timeout (`IORING_FEAT_EXT_ARG`).
    #[error(
        "the io_uring of this kernel cannot wait with a timeout (Linux 5.11 can); try: --engine calls"
    )]
    TooOld,
    /// Another error.
    #[error("the kernel creates no io_uring: {0}; try: --engine calls")]
    Failed(io::Error),
}

impl UringUnavailable {
    /// Derives the reason from the kernel's error and the rules.
    pub(super) fn new(source: io::Error, rules: UringPolicy) -> Self {
        let is_refused = source.raw_os_error() == Some(libc::EPERM);
        let is_absent = source.raw_os_error() == Some(libc::ENOSYS);
        match rules.disabled {
            Some(2) if is_refused => Self::Off,
            Some(1) if is_refused => Self::OnlyForSome,
            // A kernel that has the setting has io_uring.
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
    fn cause_is_reported() {
        let cause = |errno: i32, disabled: &str, seccomp: &str| {
            let rules = UringPolicy::parse(disabled, &format!("Name:\tx\nSeccomp:\t{seccomp}\n"));
            let unavailable = UringUnavailable::new(io::Error::from_raw_os_error(errno), rules);
            let debug = format!("{unavailable:?}");
            debug.split_once('(').map_or(debug.clone(), |it| it.0.to_owned())
        };
        assert_eq!(cause(libc::EPERM, "2\n", "0"), "Off");
        assert_eq!(cause(libc::EPERM, "1\n", "0"), "OnlyForSome");
        assert_eq!(cause(libc::EPERM, "0\n", "2"), "Filtered");
        assert_eq!(cause(libc::EPERM, "", "2"), "Filtered");
        assert_eq!(cause(libc::ENOSYS, "0\n", "0"), "Filtered");
        assert_eq!(cause(libc::ENOSYS, "", "2"), "Filtered");
        assert_eq!(cause(libc::ENOSYS, "", "0"), "NotThere");
        assert_eq!(cause(libc::ENOMEM, "0\n", "2"), "Failed");
        assert_eq!(cause(libc::EPERM, "0\n", "0"), "Failed");
    }
}
