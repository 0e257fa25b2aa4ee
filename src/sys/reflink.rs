//! `FICLONE`: a file gets another one's contents and shares their room until one of them is written to (`ioctl_ficlone(2)`).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `to`, which is open for writing and empty, gets what is in `from`.
///
/// # Errors
///
/// `EOPNOTSUPP`: the file system has no such files; `EXDEV`: they are on different ones, or, before Linux 5.18
/// (`ioctl_file_clone()` in fs/ioctl.c), reached by different mounts.
pub fn reflink(from: &File, to: &File) -> io::Result<()> {
    // SAFETY: the call takes two descriptors, which are open as long as the files live, and no memory of ours.
    let result = unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE, from.as_raw_fd()) };
    nix::errno::Errno::result(result)?;
    Ok(())
}
