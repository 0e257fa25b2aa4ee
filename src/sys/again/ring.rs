//! Calls that one thread has under way side by side: the kernel takes several at once, and tells of each when it is through (`io_uring(7)`).
//!
//! ```text
//!   Batch ──► Ring::push            ──► Ring::enter            ──► Ring::over
//!             a call, into a seat       all of them to the kernel   a seat, and what its call returned
//! ```
//!
//! A seat has one call under way at most, and memory that nobody else has: neither is that changed nor does it go before the kernel is through
//! with the call.

use std::fmt;
use std::io;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::time::Duration;

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use super::no_ring::{NoRing, Rules};
use super::{BUFFER_BYTES_MAX, Batch, Memory, Slots};

/// Entries at most (`IORING_MAX_ENTRIES` in `io_uring/io_uring.c`): of more calls the first ones are handed over before.
const ENTRIES_MAX: u32 = 32_768;

/// Calls under way, and their memory.
pub struct Ring {
    uring: IoUring,
    seats: Vec<Seat>,
    under_way: usize,
}

struct Seat {
    memory: Memory,
    is_under_way: bool,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seats, under_way, .. } = self;
        write!(f, "Ring {{ seats: {}, under_way: {under_way}, .. }}", seats.len())
    }
}

impl Ring {
    /// For so many calls at once; no seat yet.
    ///
    /// # Errors
    ///
    /// [`NoRing`].
    pub fn new(calls: u32, rules: Rules) -> Result<Self, NoRing> {
        let uring = IoUring::new(calls.clamp(1, ENTRIES_MAX));
        let uring = uring.map_err(|it| NoRing::new(it, rules))?;
        if !uring.params().is_feature_ext_arg() {
            return Err(NoRing::TooOld);
        }
        // What would have to wait before it is under way is done by threads of the kernel's, by default only four for each CPU
        // (`io_wq_create` in `io_uring/io-wq.c`). Before Linux 5.15 it stays with those.
        let _ = uring.submitter().register_iowq_max_workers(&mut [calls, 0]);
        Ok(Self { uring, seats: Vec::new(), under_way: 0 })
    }

    /// One more seat: its number.
    pub fn seat(&mut self, memory: Memory) -> usize {
        self.seats.push(Seat { memory, is_under_way: false });
        self.seats.len() - 1
    }

    /// A seat's memory, for a call that no ring makes.
    ///
    /// # Panics
    ///
    /// The seat has a call under way.
    pub fn memory(&mut self, seat: usize) -> &mut Memory {
        let it = &mut self.seats[seat];
        assert!(!it.is_under_way, "the kernel has the memory");
        &mut it.memory
    }

    /// Puts a call into a seat, to be handed over; false: no ring makes such calls, and nothing has happened.
    ///
    /// # Errors
    ///
    /// There is no room.
    ///
    /// # Panics
    ///
    /// The seat has a call under way; and as [`Batch::call`].
    pub fn push(&mut self, seat: usize, batch: (&Batch, usize), slots: &Slots) -> io::Result<bool> {
        let (batch, index) = batch;
        let call = batch.registers(index, self.memory(seat), slots, None);
        let Some(entry) = entry(call) else { return Ok(false) };
        let entry = entry.user_data(seat as u64);
        if self.uring.submission().is_full() {
            self.enter(None)?;
        }
        // SAFETY: a descriptor that is none is told as an error. The only addresses that `entry` takes over are those that
        // `Batch::registers` has put there: the seat's buffers, as long as the kernel is told (as in `Batch::call`), and its vector, or the
        // contents, which the seat's memory has a share of. `is_under_way` keeps that memory from everybody until the call is through, and
        // `drop` waits for that, or gives the memory up.
        let pushed = unsafe { self.uring.submission().push(&entry) };
        pushed.map_err(io::Error::other)?;
        self.seats[seat].is_under_way = true;
        self.under_way += 1;
        Ok(true)
    }

    /// Hands over what was pushed; then waits until a call is through, for so long at most. A signal ends the wait, too.
    ///
    /// # Errors
    ///
    /// The kernel does not take it.
    pub fn enter(&mut self, wait: Option<Duration>) -> io::Result<()> {
        let told = match wait {
            None if self.uring.submission().is_empty() => return Ok(()),
            None => self.uring.submit(),
            Some(it) => {
                let time = Timespec::from(it);
                self.uring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        told.map(drop).or_else(|it| if is_passing(&it) { Ok(()) } else { Err(it) })
    }

    /// A call that is through: its seat, and what it returned, as [`Batch::call`].
    pub fn over(&mut self) -> Option<(usize, i64)> {
        let entry = self.uring.completion().next()?;
        let seat = usize::try_from(entry.user_data()).ok()?;
        self.seats[seat].is_under_way = false;
        self.under_way -= 1;
        Some((seat, entry.result().into()))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.under_way > 0 {
            match self.uring.submit_and_wait(1) {
                Err(it) if !is_passing(&it) => {
                    // The kernel may still write into it.
                    std::mem::forget(std::mem::take(&mut self.seats));
                    return;
                }
                _ => while self.over().is_some() {},
            }
        }
    }
}

/// Errors that the next try may not have (`io_uring_enter(2)`): the time is over, a signal came, there was no memory at that moment, or
/// results have to be taken before.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

/// The same call for a ring; `None`: there is none, or it would not be the same.
fn entry((number, args): (libc::c_long, [u64; 6])) -> Option<squeue::Entry> {
    let [fd, address, count, offset, _, flags] = args;
    let fd = Fd(i32::try_from(fd.cast_signed()).ok()?);
    let flags = i32::try_from(flags).ok()?;
    let address = usize::try_from(address).ok()?;
    match number {
        libc::SYS_fsync => return Some(opcode::Fsync::new(fd).build()),
        libc::SYS_fdatasync => {
            return Some(opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build());
        }
        // -1 is where the file stands. Polling for results takes a ring of its own kind.
        _ if i64::try_from(offset).is_err() || flags & libc::RWF_HIPRI != 0 => {
            return None;
        }
        _ => {}
    }
    let count = u32::try_from(count).ok().filter(|it| u64::from(*it) <= BUFFER_BYTES_MAX)?;
    let (into, from) = (with_exposed_provenance_mut(address), with_exposed_provenance(address));
    let vector = with_exposed_provenance(address);
    Some(match number {
        libc::SYS_pread64 => opcode::Read::new(fd, into, count).offset(offset).build(),
        libc::SYS_pwrite64 => opcode::Write::new(fd, from, count).offset(offset).build(),
        libc::SYS_preadv2 => {
            opcode::Readv::new(fd, vector, count).offset(offset).rw_flags(flags).build()
        }
        libc::SYS_pwritev2 => {
            opcode::Writev::new(fd, vector, count).offset(offset).rw_flags(flags).build()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::event::syscall_table::CallId;
    use crate::sys::again::{Contents, Longest, Prototype, Wanted};

    /// A call, its registers, and whether a ring makes it.
    type Asked = (&'static str, [u64; 6], bool);

    /// Those that the ring makes give what the others give, and are made.
    #[test]
    #[expect(clippy::print_stdout, reason = "a skipped test says so")]
    fn a_ring_makes_the_same_calls() {
        let asked: [Asked; 11] = [
            ("pwrite64", [0, 1, 4099, 23, 0, 0], true),
            ("pwritev2", [0, 1, 1, 5003, 0, 0], true),
            ("fsync", [0; 6], true),
            ("fdatasync", [0; 6], true),
            ("pread64", [0, 1, 4099, 0, 0, 0], true),
            ("pread64", [0, 1, 4099, 6007, 0, 0], true),
            ("preadv2", [0, 1, 1, 5003, 0, 0], true),
            // No such flag.
            ("preadv2", [0, 1, 1, 0, 0, 1 << 30], true),
            // Here it would read where the file stands.
            ("pread64", [0, 1, 7, u64::MAX, 0, 0], false),
            ("preadv2", [0, 1, 1, 0, 0, 1], false),
            ("ftruncate", [0, 11, 0, 0, 0, 0], false),
        ];
        let mut ring = match Ring::new(3, Rules::new()) {
            Ok(it) => it,
            Err(it) => return println!("skipped: {it}"),
        };
        let longest = Longest::new(4099, 4099);
        let contents = Contents::new(longest, |it| it.fill(7)).expect("memory");
        let memory = || Memory::new(longest, contents.clone()).expect("memory");
        let file = tempfile::NamedTempFile::new().expect("space");
        let slots = Slots::new(1, 1000);
        let open = File::options().read(true).write(true).open(file.path()).expect("there");
        slots.put(0, OwnedFd::from(open));
        let mut batch = Batch::new(longest);
        for (name, args, _) in asked {
            let prototype = Prototype::new(CallId::by_name(name).expect("a row").call());
            let bytes = Some(1009).filter(|_| name.ends_with("v2"));
            let wanted = Wanted { args, slot: Some(0), bytes, ..Wanted::default() };
            batch.push(&prototype.expect("a call"), &wanted).expect("short");
        }
        batch.seal();
        let mut got = Vec::new();
        for (index, it) in (0..).zip(&asked) {
            let seat = ring.seat(memory());
            assert_eq!(ring.push(seat, (&batch, index), &slots).expect("room"), it.2, "{it:?}");
            if it.2 {
                ring.enter(Some(Duration::from_secs(7))).expect("a ring that works");
                let (number, ret) = ring.over().expect("it is through");
                assert_eq!((number, ring.over()), (seat, None));
                got.push(ret);
            }
        }
        let invalid = -i64::from(libc::EOPNOTSUPP);
        assert_eq!(got, [4099, 1009, 0, 0, 4099, 5, 1009, invalid]);
        let mut expected = vec![0; 6012];
        expected[23..23 + 4099].fill(7);
        expected[5003..].fill(7);
        assert_eq!(std::fs::read(file.path()).expect("there"), expected);
        let calls = (0..).zip(&asked).filter(|it| it.1.2);
        let same: Vec<i64> =
            calls.map(|it| batch.call(it.0, &mut memory(), &slots, None)).collect();
        assert_eq!(same, got);
        // More of them than the ring has entries, which nobody takes back: they are through before their memory goes.
        for _ in 0..23 {
            let seat = ring.seat(memory());
            assert!(ring.push(seat, (&batch, 0), &slots).expect("room"));
        }
        file.as_file().set_len(0).expect("ours");
        drop(ring);
        assert_eq!(file.as_file().metadata().expect("there").len(), 23 + 4099);
    }
}
