//! `FICLONE`: gives a file the contents of another one. Both share their blocks until one of them
//! is written to (`ioctl_ficlone(2)`).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Gives `to`, which is open for writing and empty, the contents of `from`.
///
/// # Errors
///
/// `EOPNOTSUPP`: the file system cannot share blocks; `EXDEV`: the files are on different file
/// systems, or, before Linux 5.18 (`ioctl_file_clone()` in fs/ioctl.c), reached by different
/// mounts.
pub fn reflink(from: &File, to: &File) -> io::Result<()> {
    // SAFETY: the call takes two descriptors, which are open as long as the files live, and no
    // memory of ours.
    let result = unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE, from.as_raw_fd()) };
    nix::errno::Errno::result(result)?;
    Ok(())
}
