//! Concurrent calls of one thread: the kernel takes several at once, and reports each result when
//! that call has completed (`io_uring(7)`).
//!
//! ```text
//!   CallBatch ─► CallRing::push ──────► CallRing::enter ──────► CallRing::over
//!                a call, into a seat    submits all of them     a seat, and its call's result
//! ```
//!
//! A seat has at most one call in flight, and memory that no other seat uses. That memory is
//! neither changed nor freed before the kernel has completed the call.

use std::fmt;
use std::io;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::time::Duration;

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use super::batch::CallBatch;
use super::buffer_sizes::BUFFER_BYTES_MAX;
use super::memory::CallMemory;
use super::slots::FdSlots;
use super::uring_availability::{UringPolicy, UringUnavailable};
use crate::sys::clock;
use crate::units::{KernelTime, Nanos};

/// Limit on the entries (`IORING_MAX_ENTRIES` in `io_uring/io_uring.c`). When the queue is full,
/// the calls in it are submitted.
const ENTRIES_MAX: u32 = 32_768;

/// User data of the entries that cancel calls, in place of a seat's index.
const INTERRUPT: u64 = u64::MAX;

/// Shortest interval between two cancellations. Each cancellation has a result of its own, and no
/// thread is to wait for that.
const INTERRUPT_INTERVAL: Nanos = Nanos(100_000_000);

/// Time after the drop of the ring from which calls in flight are cancelled.
const DROP_CANCEL_AFTER: Nanos = Nanos(1_000_000_000);

/// Time after the drop of the ring from which the memory of calls in flight is leaked.
const DROP_LEAK_AFTER: Nanos = Nanos(5_000_000_000);

/// Calls in flight, and their memory.
pub struct CallRing {
    uring: IoUring,
    seats: Vec<RingSeat>,
    under_way: usize,
    interrupted: Option<KernelTime>,
}

struct RingSeat {
    memory: CallMemory,
    is_under_way: bool,
}

impl fmt::Debug for CallRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seats, under_way, .. } = self;
        write!(f, "Ring {{ seats: {}, under_way: {under_way}, .. }}", seats.len())
    }
}

impl CallRing {
    /// Creates a ring for this number of concurrent calls, without seats.
    ///
    /// # Errors
    ///
    /// [`UringUnavailable`].
    pub fn new(calls: u32, rules: UringPolicy) -> Result<Self, UringUnavailable> {
        let uring = IoUring::new(calls.clamp(1, ENTRIES_MAX));
        let uring = uring.map_err(|it| UringUnavailable::new(it, rules))?;
        if !uring.params().is_feature_ext_arg() {
            return Err(UringUnavailable::TooOld);
        }
        // Calls that have to wait before they are in flight are done by kernel threads, by default
        // only four for each CPU (`io_wq_create` in `io_uring/io-wq.c`). Before Linux 5.15 that
        // number cannot be changed.
        let _ = uring.submitter().register_iowq_max_workers(&mut [calls, 0]);
        Ok(Self { uring, seats: Vec::new(), under_way: 0, interrupted: None })
    }

    /// Adds a seat and returns its index.
    pub fn seat(&mut self, memory: CallMemory) -> usize {
        self.seats.push(RingSeat { memory, is_under_way: false });
        self.seats.len() - 1
    }

    /// Returns a seat's memory, for a call that is made without the ring.
    ///
    /// # Panics
    ///
    /// The seat has a call in flight.
    pub fn memory(&mut self, seat: usize) -> &mut CallMemory {
        let seat = &mut self.seats[seat];
        assert!(!seat.is_under_way, "the kernel has the memory");
        &mut seat.memory
    }

    /// Puts the call with this index into a seat, to be submitted. Returns false, and does nothing,
    /// if a ring cannot make such a call or would change its meaning.
    ///
    /// # Errors
    ///
    /// The queue has no room.
    ///
    /// # Panics
    ///
    /// The seat has a call in flight; and as [`CallBatch::call`].
    pub fn push(
        &mut self,
        seat: usize,
        batch: &CallBatch,
        index: usize,
        slots: &FdSlots,
    ) -> io::Result<bool> {
        let (number, args) = batch.registers(index, self.memory(seat), slots, None);
        let entry = entry(number, args).filter(|_| has_place(args[0]));
        let Some(entry) = entry else { return Ok(false) };
        self.begin(seat, entry).map(|()| true)
    }

    /// Puts the entry of a seat's call into the queue.
    fn begin(&mut self, seat: usize, entry: squeue::Entry) -> io::Result<()> {
        self.make_room()?;
        let entry = entry.user_data(seat as u64);
        // SAFETY: an invalid descriptor is reported as an error. The only addresses that `entry`
        // takes over are those that `CallBatch::registers` has put there: the seat's buffers, as
        // long as the length in the call (as in `CallBatch::call`), and its vector, or the
        // contents, which the seat's memory has a share of. `is_under_way` keeps that memory from
        // all other uses until the call has completed, and `drop` waits for that, or leaks the
        // memory.
        let pushed = unsafe { self.uring.submission().push(&entry) };
        pushed.map_err(io::Error::other)?;
        self.seats[seat].is_under_way = true;
        self.under_way += 1;
        Ok(())
    }

    /// Submits the entries of a queue that is full.
    fn make_room(&mut self) -> io::Result<()> {
        if self.uring.submission().is_full() { self.enter(None) } else { Ok(()) }
    }

    /// Cancels, at the next [`Self::enter`], calls that wait for something that may never come.
    /// Requests already issued to a disk go on. The caller repeats this until all calls have
    /// completed: a call that was about to wait may do so afterwards.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::enter`].
    pub fn interrupt(&mut self) -> io::Result<()> {
        let now = clock::now();
        let is_early = |last: KernelTime| now.since(last).unwrap_or_default() < INTERRUPT_INTERVAL;
        if self.interrupted.is_some_and(is_early) {
            return Ok(());
        }
        self.interrupted = Some(now);
        for seat in 0..self.seats.len() {
            if !self.seats[seat].is_under_way {
                continue;
            }
            self.make_room()?;
            let entry = opcode::AsyncCancel::new(seat as u64).build().user_data(INTERRUPT);
            // SAFETY: the entry has numbers only.
            if unsafe { self.uring.submission().push(&entry) }.is_err() {
                // Results have to be taken first: the next call cancels the others.
                break;
            }
        }
        Ok(())
    }

    /// Submits the queue, then waits for at most this time until a call has completed. A signal
    /// ends the wait, too.
    ///
    /// # Errors
    ///
    /// The kernel does not take the entries.
    pub fn enter(&mut self, wait: Option<Duration>) -> io::Result<()> {
        let entered = match wait {
            None if self.uring.submission().is_empty() => return Ok(()),
            None => self.uring.submit(),
            Some(it) => {
                let time = Timespec::from(it);
                self.uring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        entered.map(drop).or_else(|it| if is_passing(&it) { Ok(()) } else { Err(it) })
    }

    /// Returns a completed call: its seat, and its result as from [`CallBatch::call`].
    pub fn over(&mut self) -> Option<(usize, i64)> {
        let entry = self.uring.completion().find(|it| it.user_data() != INTERRUPT)?;
        let seat = usize::try_from(entry.user_data()).ok()?;
        self.seats[seat].is_under_way = false;
        self.under_way -= 1;
        // The same result for a call that the kernel had not begun.
        let ret = if entry.result() == -libc::ECANCELED { -libc::EINTR } else { entry.result() };
        Some((seat, ret.into()))
    }
}

impl Drop for CallRing {
    fn drop(&mut self) {
        let begin = clock::now();
        let pause = Duration::from_nanos(INTERRUPT_INTERVAL.0);
        while self.under_way > 0 {
            let waited = clock::now().since(begin).unwrap_or_default();
            let interrupted = if waited < DROP_CANCEL_AFTER { Ok(()) } else { self.interrupt() };
            let entered = interrupted.and_then(|()| self.enter(Some(pause)));
            while self.over().is_some() {}
            if entered.is_err() || waited > DROP_LEAK_AFTER {
                // The kernel may still write into that memory.
                std::mem::forget(std::mem::take(&mut self.seats));
                return;
            }
        }
    }
}

/// True if a descriptor has a file position. Others (pipes, terminals) refuse a read at an offset
/// (`ESPIPE`), but a ring would read their next bytes, or wait for them.
fn has_place(fd: u64) -> bool {
    // SAFETY: numbers only; the position does not change.
    i32::try_from(fd.cast_signed())
        .is_ok_and(|it| unsafe { libc::lseek(it, 0, libc::SEEK_CUR) } >= 0)
}

/// True for errors that the next try may not have (`io_uring_enter(2)`): the time is over, a signal
/// came, there was no memory at that moment, or results have to be taken first.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

/// Entry of a ring for a call; `None`: there is none, or its meaning would differ.
fn entry(number: libc::c_long, args: [u64; 6]) -> Option<squeue::Entry> {
    let [fd, address, count, offset, _, flags] = args;
    let fd = Fd(i32::try_from(fd.cast_signed()).ok()?);
    let flags = i32::try_from(flags).ok()?;
    let address = usize::try_from(address).ok()?;
    match number {
        libc::SYS_fsync => return Some(opcode::Fsync::new(fd).build()),
        libc::SYS_fdatasync => {
            return Some(opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build());
        }
        // Offset -1 means the file position. Polling for results takes a ring of its own kind.
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
    use crate::sys::replay::reissue::{BufferSizes, CallSignature, CapturedCall, WriteContents};

    /// A call: its name, its registers, and whether a ring makes it.
    type CallCase = (&'static str, [u64; 6], bool);

    /// Fails if a call has another result or effect through a ring, or the ring makes other calls.
    #[test]
    #[expect(clippy::print_stdout, reason = "a skipped test says so")]
    fn ring_makes_same_calls_as_batch() {
        let cases: [CallCase; 11] = [
            ("pwrite64", [0, 1, 4099, 23, 0, 0], true),
            ("pwritev2", [0, 1, 1, 5003, 0, 0], true),
            ("fsync", [0; 6], true),
            ("fdatasync", [0; 6], true),
            ("pread64", [0, 1, 4099, 0, 0, 0], true),
            ("pread64", [0, 1, 4099, 6007, 0, 0], true),
            ("preadv2", [0, 1, 1, 5003, 0, 0], true),
            // An invalid flag.
            ("preadv2", [0, 1, 1, 0, 0, 1 << 30], true),
            // A ring would read at the file position.
            ("pread64", [0, 1, 7, u64::MAX, 0, 0], false),
            ("preadv2", [0, 1, 1, 0, 0, 1], false),
            ("ftruncate", [0, 11, 0, 0, 0, 0], false),
        ];
        let mut ring = match CallRing::new(3, UringPolicy::new()) {
            Ok(it) => it,
            Err(it) => return println!("skipped: {it}"),
        };
        let longest = BufferSizes::new(4099, 4099);
        let contents = WriteContents::new(longest, |it| it.fill(7)).expect("memory");
        let memory = || CallMemory::new(longest, contents.clone()).expect("memory");
        let file = tempfile::NamedTempFile::new().expect("space");
        let slots = FdSlots::new(1, 1000);
        let open = File::options().read(true).write(true).open(file.path()).expect("there");
        slots.put(0, OwnedFd::from(open));
        let mut batch = CallBatch::new(longest);
        for (name, args, _) in cases {
            let prototype = CallSignature::new(CallId::by_name(name).expect("a row").call());
            let bytes = Some(1009).filter(|_| name.ends_with("v2"));
            let wanted = CapturedCall { args, slot: Some(0), bytes, ..CapturedCall::default() };
            batch.push(&prototype.expect("a call"), &wanted).expect("short");
        }
        batch.seal();
        let mut got = Vec::new();
        for (index, call) in (0..).zip(&cases) {
            let seat = ring.seat(memory());
            let is_made = ring.push(seat, &batch, index, &slots).expect("room");
            assert_eq!(is_made, call.2, "{call:?}");
            if call.2 {
                ring.enter(Some(Duration::from_secs(7))).expect("a ring that works");
                let (number, ret) = ring.over().expect("a completed call");
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
        let calls = (0..).zip(&cases).filter(|it| it.1.2);
        let same: Vec<i64> =
            calls.map(|it| batch.call(it.0, &mut memory(), &slots, None)).collect();
        assert_eq!(same, got);
        // More calls than the ring has entries, whose results are not taken: they complete before
        // their memory goes.
        for _ in 0..23 {
            let seat = ring.seat(memory());
            assert!(ring.push(seat, &batch, 0, &slots).expect("room"));
        }
        file.as_file().set_len(0).expect("ours");
        drop(ring);
        assert_eq!(file.as_file().metadata().expect("there").len(), 23 + 4099);
    }

    /// Fails if a call that waits forever does not end when it is cancelled, or outlives the ring.
    #[test]
    #[expect(clippy::print_stdout, reason = "a skipped test says so")]
    fn waiting_request_is_interrupted() {
        let mut ring = match CallRing::new(1, UringPolicy::new()) {
            Ok(it) => it,
            Err(it) => return println!("skipped: {it}"),
        };
        let longest = BufferSizes::new(1, 23);
        let contents = WriteContents::new(longest, |_| {}).expect("memory");
        let (pipe, mut other_end) = std::io::pipe().expect("a pipe");
        let mut same = pipe.try_clone().expect("a copy");
        let slots = FdSlots::new(1, 1000);
        slots.put(0, OwnedFd::from(pipe));
        let mut batch = CallBatch::new(longest);
        let prototype = CallSignature::new(CallId::by_name("pread64").expect("a row").call());
        let wanted =
            CapturedCall { args: [0, 1, 23, 0, 0, 0], slot: Some(0), ..CapturedCall::default() };
        batch.push(&prototype.expect("a call"), &wanted).expect("short");
        batch.seal();
        let seat = ring.seat(CallMemory::new(longest, contents).expect("memory"));
        assert!(!ring.push(seat, &batch, 0, &slots).expect("room"), "a pipe has no places");
        let begin = |ring: &mut CallRing| {
            let (number, args) = batch.registers(0, ring.memory(seat), &slots, None);
            ring.begin(seat, entry(number, args).expect("a read")).expect("room");
            ring.enter(Some(Duration::from_millis(1))).expect("a ring that works");
            assert_eq!(ring.over(), None);
        };
        begin(&mut ring);
        let got = loop {
            ring.interrupt().expect("room");
            ring.enter(Some(Duration::from_millis(7))).expect("a ring that works");
            if let Some(it) = ring.over() {
                break it;
            }
        };
        assert_eq!(got, (seat, -i64::from(libc::EINTR)));
        begin(&mut ring);
        drop(ring);
        std::io::Write::write_all(&mut other_end, &[7; 23]).expect("room");
        drop(other_end);
        let mut read = [0; 23];
        std::io::Read::read_exact(&mut same, &mut read).expect("the only reader");
        assert_eq!(read, [7; 23]);
    }
}
