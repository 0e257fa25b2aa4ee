//! Ring of one CPU in a tracefs instance: `trace_pipe_raw`.
//!
//! Full pages are spliced: the kernel takes them out of the ring and puts empty ones in, so nothing
//! is copied there, and writer and reader contend only once a page. The page that is being written
//! is read, which is more expensive and done only when a round needs it. (Mapping the ring costs
//! the traced program more than twice as much: the kernel then walks over every entry under the
//! reader's lock, `ring_buffer_map_get_reader()`.)

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Size of the pipe that moves pages: the largest that unprivileged processes may have
/// (`/proc/sys/fs/pipe-max-size`).
const PIPE_BYTES: usize = 1 << 20;

/// Number of pages that are read after the full ones were spliced.
const REST_PAGES: usize = 4;

/// Reader of one CPU's ring.
#[derive(Debug)]
pub struct TraceRing {
    file: File,
    page_bytes: usize,
    /// True if the page that is being written was read in part. Kernels before 6.1 do not splice
    /// the rest of such a page.
    is_partly_read: bool,
}

/// Pipe that moves pages from rings to our memory; one for each reading thread.
#[derive(Debug)]
pub struct PagePipe {
    from: File,
    to: File,
    bytes: usize,
}

impl PagePipe {
    /// Creates a pipe.
    ///
    /// # Errors
    ///
    /// Those of `pipe(2)`.
    pub fn new() -> io::Result<Self> {
        let (from, to) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        // A smaller pipe works, too.
        let wanted = i32::try_from(PIPE_BYTES).unwrap_or(i32::MAX);
        let _ = fcntl(&to, FcntlArg::F_SETPIPE_SZ(wanted));
        let bytes = fcntl(&to, FcntlArg::F_GETPIPE_SZ)?;
        Ok(Self { from: from.into(), to: to.into(), bytes: usize::try_from(bytes).unwrap_or(0) })
    }
}

impl TraceRing {
    /// Opens the ring's file.
    pub(super) fn open(path: &Path, page_bytes: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        Ok(Self { file, page_bytes, is_partly_read: false })
    }

    /// True if the ring has records, or if the kernel does not say. Only with `buffer_percent` 0:
    /// otherwise the kernel calls a ring empty that is filled less (`ring_buffer_poll_wait()`).
    pub fn has_records(&self) -> bool {
        let mut fds = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO) != Ok(0)
    }

    /// Appends all full pages to `out`.
    ///
    /// # Errors
    ///
    /// Those of `splice(2)` and `read(2)`.
    pub fn take_pages(&mut self, pipe: &mut PagePipe, out: &mut Vec<u8>) -> io::Result<()> {
        if self.is_partly_read {
            self.read_page(out)?;
        }
        loop {
            let flags = SpliceFFlags::SPLICE_F_NONBLOCK | SpliceFFlags::SPLICE_F_MOVE;
            match splice(&self.file, None, &pipe.to, None, pipe.bytes, flags) {
                Ok(0) | Err(Errno::EAGAIN) => return Ok(()),
                Ok(bytes) => {
                    let start = out.len();
                    out.resize(start + bytes, 0);
                    pipe.from.read_exact(out.get_mut(start..).unwrap_or_default())?;
                    self.is_partly_read = false;
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Appends the first page, or the part of it that is written.
    ///
    /// # Errors
    ///
    /// Those of `read(2)`.
    pub fn take_page(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.is_partly_read |= self.read_page(out)?;
        Ok(())
    }

    /// Appends the rest, page by page, the page that is being written included.
    ///
    /// # Errors
    ///
    /// Those of `read(2)`.
    pub fn take_rest(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        // The writer may go on as fast as this thread reads, and this thread may be the writer
        // (each read is recorded). The full pages were spliced before, so the records at the time
        // of the call are on the first page, or on the two around its end.
        for _ in 0..REST_PAGES {
            if !self.read_page(out)? {
                break;
            }
            self.is_partly_read = true;
        }
        Ok(())
    }

    /// Appends one page, or the part of it that is written; false if there is nothing.
    fn read_page(&self, out: &mut Vec<u8>) -> io::Result<bool> {
        let start = out.len();
        out.resize(start + self.page_bytes, 0);
        let read = (&self.file).read(out.get_mut(start..).unwrap_or_default());
        out.truncate(start + read.as_ref().map_or(0, |it| *it));
        match read {
            Ok(bytes) => Ok(bytes > 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for TraceRing {
    /// Descriptor that is readable when the ring has records, if the instance's `buffer_percent` is
    /// 0.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
