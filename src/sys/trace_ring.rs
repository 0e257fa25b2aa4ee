//! One CPU's ring of a tracefs instance: `trace_pipe_raw`.
//!
//! Whole pages are spliced: the kernel takes them out of the ring and puts empty ones in, so nothing is copied there
//! and the writer meets its reader only once a page. What stands on the page that is just being written is read, which
//! is dearer and done only when a round needs it. (Mapping the ring costs the traced program more than twice as much:
//! the kernel then walks over every entry under the reader's lock, `ring_buffer_map_get_reader()`.)

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};

/// Pages that a pipe carries at once: as large as the kernel lets everybody have (`/proc/sys/fs/pipe-max-size`).
const PIPE_BYTES: usize = 1 << 20;

/// Pages that are read after the full ones were taken.
const REST_PAGES: usize = 4;

/// The reader of one CPU's ring.
#[derive(Debug)]
pub struct TraceRing {
    file: File,
    page_bytes: usize,
    /// The page that is being written was read in part. Kernels before 6.1 do not splice the rest of such a page.
    is_partly_read: bool,
}

/// Carries pages from rings to our memory; one for each thread that takes them.
#[derive(Debug)]
pub struct PagePipe {
    from: File,
    to: File,
    bytes: usize,
}

impl PagePipe {
    /// A new one.
    ///
    /// # Errors
    ///
    /// Those of `pipe(2)`.
    pub fn new() -> io::Result<Self> {
        let (from, to) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        // It works with less, too.
        let wanted = i32::try_from(PIPE_BYTES).unwrap_or(i32::MAX);
        let _ = fcntl(&to, FcntlArg::F_SETPIPE_SZ(wanted));
        let bytes = fcntl(&to, FcntlArg::F_GETPIPE_SZ)?;
        Ok(Self { from: from.into(), to: to.into(), bytes: usize::try_from(bytes).unwrap_or(0) })
    }
}

impl TraceRing {
    /// Opens the file.
    pub(super) fn open(path: &Path, page_bytes: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        Ok(Self { file, page_bytes, is_partly_read: false })
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

    /// Appends the first page, or what is on it so far.
    ///
    /// # Errors
    ///
    /// Those of `read(2)`.
    pub fn take_page(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.is_partly_read |= self.read_page(out)?;
        Ok(())
    }

    /// Appends what is left, page by page, the one that is being written included.
    ///
    /// # Errors
    ///
    /// Those of `read(2)`.
    pub fn take_rest(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        // The writer may go on as fast as we read, and we may be the writer ourselves (each read is a hit). The full pages
        // were taken before, so what was there at the call is on the first page, or on the two around its end.
        for _ in 0..REST_PAGES {
            if !self.read_page(out)? {
                break;
            }
            self.is_partly_read = true;
        }
        Ok(())
    }

    /// Appends one page, or what is on it so far; false if there is nothing.
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
    /// Readable when something is in the ring, if the instance's `buffer_percent` is 0.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
