//! Batches of calls that are ready to be made.

use super::buffer_sizes::BufferSizes;
use super::memory::CallMemory;
use super::refusal::CallRefusal;
use super::registers::{CallSignature, CapturedCall, Register};
use super::slots::FdSlots;
use crate::event::registers::low_half;

/// Time at which the value of a register is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgSource {
    /// Value that is known before the call is made.
    Early,
    /// Descriptor of the slot in the register, known when the call is made, as all that follow.
    Slot,
    /// Number that the slot's descriptor is to have.
    NumberFor,
    /// Descriptor of the sink.
    Sink,
    /// Address of the calling thread's buffer for reads.
    Into,
    /// Address of the calling thread's buffer for writes.
    From,
    /// Address of a vector for reads. The upper half of the register is the number of its buffers,
    /// the lower half their bytes.
    VectorInto,
    /// Address of a vector for writes, with the same halves.
    VectorFrom,
}

/// A call that is ready to be made. It fills one cache line: a replay makes a million calls a
/// second, and the kernel's own memory has evicted each of them from the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Prepared {
    args: [u64; 6],
    number: u32,
    known: [ArgSource; 6],
}

/// Position of a register's data in the batch's memory, until that memory no longer moves.
#[derive(Clone, Copy, Debug)]
enum BatchAddress {
    Text(usize),
    Words(usize),
}

/// Calls that are ready to be made, and the memory with their paths.
#[derive(Debug)]
pub struct CallBatch {
    calls: Vec<Prepared>,
    texts: Vec<u8>,
    words: Vec<u64>,
    places: Vec<(usize, usize, BatchAddress)>,
    is_sealed: bool,
    longest: BufferSizes,
}

impl CallBatch {
    /// Creates a batch without calls, for buffers of at most this length.
    pub fn new(longest: BufferSizes) -> Self {
        let (calls, texts, words, places) = Default::default();
        Self { calls, texts, words, places, is_sealed: false, longest }
    }

    /// Adds a call.
    ///
    /// # Errors
    ///
    /// The call cannot be made.
    ///
    /// # Panics
    ///
    /// After [`Self::seal`].
    pub fn push(
        &mut self,
        prototype: &CallSignature,
        wanted: &CapturedCall<'_>,
    ) -> Result<(), CallRefusal> {
        assert!(!self.is_sealed, "the memory of the calls does not move any more");
        let (args, known) = ([0; 6], [ArgSource::Early; 6]);
        let mut prepared = Prepared { args, number: prototype.number, known };
        for (index, it) in prototype.registers(wanted).into_iter().enumerate() {
            (prepared.known[index], prepared.args[index]) = self.register(it, index)?;
        }
        self.calls.push(prepared);
        Ok(())
    }

    /// Returns when the value of a register is known, and the part of it that is known before the
    /// call is made.
    fn register(
        &mut self,
        wanted: Register<'_>,
        register: usize,
    ) -> Result<(ArgSource, u64), CallRefusal> {
        let fits = |bytes, most| if bytes <= most { Ok(()) } else { Err(CallRefusal::TooLong) };
        let place = match wanted {
            Register::Number(value) => return Ok((ArgSource::Early, value)),
            Register::Slot(None) => return Ok((ArgSource::Early, u64::MAX)),
            Register::Slot(Some(slot)) => return Ok((ArgSource::Slot, slot.into())),
            Register::NumberFor(slot) => return Ok((ArgSource::NumberFor, slot.into())),
            Register::Sink => return Ok((ArgSource::Sink, 0)),
            Register::Into(bytes) => {
                fits(bytes, self.longest.into)?;
                return Ok((ArgSource::Into, 0));
            }
            Register::From(bytes) => {
                fits(bytes, self.longest.from)?;
                return Ok((ArgSource::From, 0));
            }
            Register::Vector { is_into, count, bytes } => {
                let (known, most) = match is_into {
                    true => (ArgSource::VectorInto, self.longest.into),
                    false => (ArgSource::VectorFrom, self.longest.from),
                };
                fits(bytes.into(), most)?;
                return Ok((known, u64::from(count) << 32 | u64::from(bytes)));
            }
            Register::Text(text) => {
                let at = self.texts.len();
                self.texts.extend_from_slice(text);
                self.texts.push(0);
                BatchAddress::Text(at)
            }
            Register::Words(words) => {
                let at = self.words.len();
                self.words.extend_from_slice(&words);
                BatchAddress::Words(at)
            }
        };
        self.places.push((self.calls.len(), register, place));
        Ok((ArgSource::Early, 0))
    }

    /// Ends the adding of calls: the memory no longer moves, so the addresses are put into the
    /// registers.
    pub fn seal(&mut self) {
        self.is_sealed = true;
        for (call, register, place) in std::mem::take(&mut self.places) {
            let address = match place {
                BatchAddress::Text(at) => self.texts[at..].as_ptr().expose_provenance(),
                BatchAddress::Words(at) => self.words[at..].as_mut_ptr().expose_provenance(),
            };
            self.calls[call].args[register] = address as u64;
        }
    }

    /// Number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Memory of the batch, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.calls[..]) + self.texts.len() + size_of_val(&self.words[..])
    }

    /// True if the batch has no calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Makes one of the calls, with `copy` in place of its descriptor. Returns the kernel's result:
    /// at least 0, or a negative error number.
    ///
    /// # Panics
    ///
    /// Before [`Self::seal`], and with memory for shorter buffers.
    pub fn call(
        &mut self,
        index: usize,
        memory: &mut CallMemory,
        slots: &FdSlots,
        copy: Option<i32>,
    ) -> i64 {
        let (number, [a, b, c, d, e, f]) = self.registers(index, memory, slots, copy);
        // SAFETY: each register that this call takes for an address is either 0 or, put there by
        // `registers`, the address of our own memory. Paths: the batch keeps them and the kernel
        // only reads them. Numbers in the batch: the kernel writes only positions, 8 bytes each.
        // Buffers: they are at least as long as the length in the call; the kernel writes into them
        // while `memory` is borrowed exclusively, or only reads them. All other registers are
        // numbers. None of the calls changes mappings or threads.
        let ret = unsafe { libc::syscall(number, a, b, c, d, e, f) };
        if ret == -1 { -i64::from(nix::errno::Errno::last_raw()) } else { ret }
    }

    /// Returns the number of a call and the current values of its registers.
    pub(super) fn registers(
        &self,
        index: usize,
        memory: &mut CallMemory,
        slots: &FdSlots,
        copy: Option<i32>,
    ) -> (libc::c_long, [u64; 6]) {
        assert!(self.is_sealed, "addresses are not known before");
        assert!(self.longest == memory.longest, "the memory is for another replay");
        let prepared = &self.calls[index];
        let mut args = prepared.args;
        for (value, known) in args.iter_mut().zip(prepared.known) {
            let (upper, lower) = halves(*value);
            *value = match known {
                ArgSource::Early => continue,
                ArgSource::Slot => number(copy.unwrap_or_else(|| slots.get(lower))),
                ArgSource::NumberFor => number(slots.number_for(lower)),
                ArgSource::Sink => number(slots.sink()),
                ArgSource::Into => memory.address_into(),
                ArgSource::From => memory.address_from(),
                ArgSource::VectorInto => memory.vector(true, upper.into(), lower.into()),
                ArgSource::VectorFrom => memory.vector(false, upper.into(), lower.into()),
            };
        }
        (prepared.number.into(), args)
    }
}

/// Splits a register into its upper and lower half.
fn halves(value: u64) -> (u32, u32) {
    (low_half(value >> 32), low_half(value))
}

/// Converts a descriptor to the value of a register.
fn number(fd: i32) -> u64 {
    i64::from(fd).cast_unsigned()
}
