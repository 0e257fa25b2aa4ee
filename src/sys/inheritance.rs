//! Descriptors that one child inherits, and no other process.
//!
//! An exec closes all descriptors with a mark. To let one pass, the mark is removed in the child:
//! without the mark in this process, whatever another thread starts would inherit the descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts a process that inherits these descriptors, with their numbers.
///
/// # Errors
///
/// Those of starting it and of `fcntl(2)`.
pub fn spawn_with(command: &mut Command, inherited: &[BorrowedFd<'_>]) -> io::Result<Child> {
    let numbers: Vec<RawFd> = inherited.iter().map(AsRawFd::as_raw_fd).collect();
    let pass = move || {
        for number in &numbers {
            // SAFETY: the call changes nothing in our memory. The descriptors are borrowed until
            // the child has been started, so the numbers are theirs.
            if unsafe { libc::fcntl(*number, libc::F_SETFD, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes only system calls, and neither allocates nor locks. (Its error is a
    // number.)
    unsafe { command.pre_exec(pass) };
    command.spawn()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::process::Stdio;

    use super::*;

    /// Fails if the child does not have the descriptor, or if any other child has it.
    #[test]
    fn descriptor_is_inherited_by_one_child() {
        let kept = File::open("/proc/self/status").expect("there");
        let list = format!("test -e /proc/self/fd/{}", kept.as_raw_fd());
        let mut other = Command::new("sh");
        other.args(["-c", &list]).stdout(Stdio::null());
        let mut child = Command::new("sh");
        child.args(["-c", &list]).stdout(Stdio::null());
        let mut child = spawn_with(&mut child, &[kept.as_fd()]).expect("a shell");
        assert!(!other.status().expect("a shell").success());
        assert!(child.wait().expect("it ends").success());
        assert!(!other.status().expect("a shell").success());
    }
}
