//! `io_submit` and `io_getevents`: operations from the memory of their arguments, which probes have
//! recorded or readers have read.

use super::Tracker;
use super::async_state::{operation, read_beside, recorded_list};
use crate::event::async_table::{Interface, Opcode};
use crate::event::registers::fd;
use crate::event::syscall_table::{IO_EVENT_BYTES, IOCB_READ_BYTES, Role};
use crate::event::{Event, SysExit};
use crate::operation::asynchronous::{AsyncFlight, Key, NoResult};
use crate::operation::model::SyscallOperation;
use crate::operation::step::Sink;
use crate::operation::syscall::RWF_APPEND;
use crate::units::Fd;

/// Limit of early results that are kept; operations from before the capture have results, too.
const EARLY_MAX: usize = 1 << 16;

impl Tracker {
    /// Handles the end of `io_submit` or `io_getevents`, whose arguments were read, or of
    /// `io_destroy`.
    pub(super) fn aio<S: Sink>(
        &mut self,
        event: &Event,
        call: &SyscallOperation,
        exit: &SysExit,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let row = call.call.call();
        if row.ends_context() && exit.ret == 0 {
            let context = call.args.first().copied().unwrap_or(0);
            for flight in self.asynchronous.in_flight.end_context(call.process, context) {
                self.async_unfinished(event.time, flight, NoResult::Unseen, sink)?;
            }
        }
        let Some(count) = usize::try_from(exit.ret).ok().filter(|&it| it > 0) else {
            return Ok(());
        };
        let submits = row.arg(Role::Iocbs);
        let role = if submits.is_some() { Role::Iocbs } else { Role::IoEvents };
        let size = if submits.is_some() { IOCB_READ_BYTES } else { IO_EVENT_BYTES };
        let mut recorded = recorded_list(call, exit, role).chunks_exact(size);
        let mut read = read_beside(call, exit, role).chunks_exact(size);
        let known = recorded.len().max(read.len()).min(count);
        let unread = (count - known) as u64;
        self.ledger.async_unread = self.ledger.async_unread.saturating_add(unread);
        if unread > 0 {
            self.aio_unread(event, call, sink)?;
        }
        for _ in 0..known {
            match (recorded.next(), read.next()) {
                (Some(recorded), read) if submits.is_some() => {
                    self.aio_submitted(event, call, &Iocb::recorded(recorded, read), sink)?;
                }
                (None, Some(read)) if submits.is_some() => {
                    self.aio_submitted(event, call, &Iocb::of(read), sink)?;
                }
                (Some(result), _) | (None, Some(result)) => {
                    self.aio_result(event, call, result, sink)?;
                }
                (None, None) => break,
            }
        }
        Ok(())
    }

    /// Handles memory that was not read. An operation whose result was not read, and whose `struct
    /// iocb` was submitted again unseen, would get the next operation's result.
    fn aio_unread<S: Sink>(
        &mut self,
        event: &Event,
        call: &SyscallOperation,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if call.call.call().arg(Role::Iocbs).is_none() {
            self.asynchronous.unread_results.insert(call.process);
        } else if self.asynchronous.unread_results.remove(&call.process) {
            for flight in self.asynchronous.in_flight.end_submitted(call.process) {
                self.async_unfinished(event.time, flight, NoResult::Unseen, sink)?;
            }
        }
        Ok(())
    }

    fn aio_submitted<S: Sink>(
        &mut self,
        event: &Event,
        call: &SyscallOperation,
        iocb: &Iocb,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let (process, thread) = self.tasks.thread(event.pid, event.tid);
        let mut operation = operation(iocb.opcode, iocb.address, event, process, thread);
        let key = Key::Iocb(operation.process, iocb.address);
        operation.id = self.asynchronous.number();
        operation.start = call.start;
        operation.cpu = call.cpu;
        operation.offset =
            u64::try_from(iocb.offset).ok().filter(|_| operation.opcode.has_offset());
        operation.offset = operation.offset.filter(|_| !iocb.appends);
        operation.rw_flags = iocb.rw_flags;
        operation.bytes_requested = iocb.bytes.filter(|_| operation.opcode.has_bytes());
        // The program has its result already, and may have reused the memory before it was read.
        let early = self.asynchronous.early_result.remove(&key).filter(|it| it.0 >= call.start);
        let is_certain = iocb.is_recorded || early.is_none();
        if !is_certain {
            (operation.offset, operation.bytes_requested) = (None, None);
        }
        if operation.opcode.has_bytes() && operation.bytes_requested.is_none() {
            self.ledger.async_unread += 1;
        }
        operation.ring = call.args.first().copied().unwrap_or(0);
        let flight = AsyncFlight { operation, moves: None };
        self.begin_async(event.time, key, flight, sink)?;
        if is_certain {
            self.async_file(event, key, iocb.fd, sink)?;
        }
        match early {
            Some((end, result)) => match self.asynchronous.in_flight.end(key) {
                Some(flight) => self.end_async(event.time, end, flight, result, sink),
                None => Ok(()),
            },
            None => Ok(()),
        }
    }

    fn aio_result<S: Sink>(
        &mut self,
        event: &Event,
        call: &SyscallOperation,
        read: &[u8],
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let (address, result) = (word(read, 8), word(read, 16).cast_signed());
        let key = Key::Iocb(call.process, address);
        if let Some(flight) = self.asynchronous.in_flight.end(key) {
            return self.end_async(event.time, event.time, flight, result, sink);
        }
        if self.asynchronous.early_result.len() < EARLY_MAX {
            self.asynchronous.early_result.insert(key, (event.time, result));
        } else {
            self.ledger.async_orphans += 1;
        }
        Ok(())
    }
}

/// Contents of a `struct iocb` (`include/uapi/linux/aio_abi.h`; little-endian).
struct Iocb {
    address: u64,
    opcode: Opcode,
    fd: Fd,
    /// Requested bytes; for a vector the sum of its buffers, if that could be read.
    bytes: Option<u64>,
    offset: i64,
    /// True if it goes to the current end of the file (`RWF_APPEND`).
    appends: bool,
    /// Flags of the request, `RWF_*`.
    rw_flags: u32,
    /// True if the submitting thread has recorded it, false if a reader has read it.
    is_recorded: bool,
}

/// Part of a `struct iocb`, in the form of [`ArgumentMemory::Iocbs`], that determines the request:
/// flags, opcode and descriptor, buffer, bytes, offset; not its key, which the kernel writes.
///
/// [`ArgumentMemory::Iocbs`]: crate::event::syscall_table::ArgumentMemory::Iocbs
const REQUEST_BYTES: std::ops::Range<usize> = 20..56;

impl Iocb {
    fn of(read: &[u8]) -> Self {
        let number = (word(read, 8 + 16) & 0xffff) as u16;
        let opcode = Opcode { interface: Interface::Aio, number };
        let is_vector = opcode.request_kind().name.ends_with('V');
        let bytes = if is_vector { word(read, IOCB_READ_BYTES - 8) } else { word(read, 8 + 32) };
        let rw_flags = (word(read, 8 + 8) >> 32) as u32;
        Self {
            address: word(read, 0),
            opcode,
            fd: fd(word(read, 8 + 16) >> 32),
            bytes: Some(bytes).filter(|it| *it != u64::MAX),
            offset: word(read, 8 + 40).cast_signed(),
            appends: u64::from(rw_flags) & RWF_APPEND != 0,
            rw_flags,
            is_recorded: false,
        }
    }

    /// Returns the contents that the submitting thread has recorded. Only a reader knows the bytes
    /// of a vector; what it has read counts if it is the same request.
    fn recorded(recorded: &[u8], read: Option<&[u8]>) -> Self {
        let is_same = |read: &&[u8]| {
            read.first_chunk::<8>() == recorded.first_chunk::<8>()
                && read.get(REQUEST_BYTES) == recorded.get(REQUEST_BYTES)
        };
        let iocb = Self::of(read.filter(is_same).unwrap_or(recorded));
        Self { is_recorded: true, ..iocb }
    }
}

/// Returns the eight bytes at this place; 0 after the end.
fn word(read: &[u8], place: usize) -> u64 {
    let bytes = read.get(place..).and_then(|it| it.first_chunk());
    bytes.map_or(0, |it| u64::from_le_bytes(*it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An `IOCB_CMD_PREADV` of two buffers at this offset, with the sum of the buffers.
    fn vectored(offset: u64, sum: u64) -> Vec<u8> {
        let words = [0x40, 1, 0, 7 | 3 << 32, 0x99, 2, offset, 0, 0, sum];
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    #[test]
    fn bytes_of_a_vector_are_those_read_of_the_same_request() {
        let recorded = vectored(8192, u64::MAX);
        let bytes = |read: Option<&[u8]>| {
            let iocb = Iocb::recorded(&recorded, read);
            assert_eq!((iocb.offset, iocb.fd, iocb.is_recorded), (8192, Fd(3), true));
            iocb.bytes
        };
        assert_eq!(bytes(None), None);
        assert_eq!(bytes(Some(&vectored(8192, 512))), Some(512));
        assert_eq!(bytes(Some(&vectored(4096, 512))), None);
    }
}
