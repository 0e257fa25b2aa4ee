//! System calls that are made once more: the same numbers in the registers, and our own memory and descriptors where the program's were.
//!
//! ```text
//!   Wanted ──► Batch::push ──► Batch::call        registers of a read, say:
//!   (what was captured)        (what is made)      [slot 7 → 12] [our buffer] [4096]
//! ```
//!
//! Which registers are pointers stands in `registers.rs` alone. Calls that one thread has under way side by side go through a [`Ring`].

mod memory;
mod no_ring;
mod registers;
mod ring;
mod sink;
mod slots;

pub use memory::{Contents, Memory};
pub use no_ring::{NoRing, Rules};
pub use registers::{BUFFER_BYTES_MAX, Prototype, Wanted};
pub use ring::Ring;
pub use sink::Sink;
pub use slots::Slots;

use registers::{Register, SCRATCH_BYTES};

/// When what stands in a register is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Now: it is there.
    Early,
    /// When the call is made: the descriptor of the slot that is there, or the number that this is to have.
    Slot,
    NumberFor,
    /// The same: that of what takes everything.
    Sink,
    /// The memory of whoever makes it.
    Into,
    From,
    /// The same in so many parts as the upper half says, of so many bytes as the lower one says.
    VectorInto,
    VectorFrom,
}

/// A call that is ready to be made. It fills a line of the cache: a replay comes by a million of them in a second, each of which the kernel's
/// own memory has driven out.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Prepared {
    args: [u64; 6],
    number: u32,
    known: [Known; 6],
}

/// Where something lies in the batch's memory until that no longer moves.
#[derive(Clone, Copy, Debug)]
enum Place {
    Text(usize),
    Words(usize),
}

/// The longest buffers of a replay, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Longest {
    /// That anything is written from.
    pub from: u64,
    /// That anything is read into.
    pub into: u64,
}

impl Longest {
    /// These, as far as the kernel moves so much at once, and never less than what it tells in a structure.
    pub fn new(from: u64, into: u64) -> Self {
        Self {
            from: from.clamp(1, BUFFER_BYTES_MAX),
            into: into.clamp(SCRATCH_BYTES, BUFFER_BYTES_MAX),
        }
    }
}

/// Why a call cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// This kind of machine has no such call.
    NoSuchCall,
    /// It needs a longer buffer than there is.
    TooLong,
}

/// Calls that are ready to be made, and the memory with their paths.
#[derive(Debug)]
pub struct Batch {
    calls: Vec<Prepared>,
    texts: Vec<u8>,
    words: Vec<u64>,
    places: Vec<(usize, usize, Place)>,
    is_sealed: bool,
    longest: Longest,
}

impl Batch {
    /// None yet; all of them with buffers of at most this length.
    pub fn new(longest: Longest) -> Self {
        let (calls, texts, words, places) = Default::default();
        Self { calls, texts, words, places, is_sealed: false, longest }
    }

    /// One more call.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    ///
    /// # Panics
    ///
    /// After [`Self::seal`].
    pub fn push(&mut self, prototype: &Prototype, wanted: &Wanted<'_>) -> Result<(), Refused> {
        assert!(!self.is_sealed, "the memory of the calls does not move any more");
        let (args, known) = ([0; 6], [Known::Early; 6]);
        let mut prepared = Prepared { args, number: prototype.number, known };
        for (index, it) in prototype.registers(wanted).into_iter().enumerate() {
            (prepared.known[index], prepared.args[index]) = self.register(it, index)?;
        }
        self.calls.push(prepared);
        Ok(())
    }

    /// What is known of a register before the call is made.
    fn register(&mut self, it: Register<'_>, register: usize) -> Result<(Known, u64), Refused> {
        let fits = |bytes, most| if bytes <= most { Ok(()) } else { Err(Refused::TooLong) };
        let place = match it {
            Register::Number(value) => return Ok((Known::Early, value)),
            Register::Slot(None) => return Ok((Known::Early, u64::MAX)),
            Register::Slot(Some(slot)) => return Ok((Known::Slot, slot.into())),
            Register::NumberFor(slot) => return Ok((Known::NumberFor, slot.into())),
            Register::Sink => return Ok((Known::Sink, 0)),
            Register::Into(bytes) => {
                fits(bytes, self.longest.into)?;
                return Ok((Known::Into, 0));
            }
            Register::From(bytes) => {
                fits(bytes, self.longest.from)?;
                return Ok((Known::From, 0));
            }
            Register::Vector { is_into, count, bytes } => {
                let (known, most) = match is_into {
                    true => (Known::VectorInto, self.longest.into),
                    false => (Known::VectorFrom, self.longest.from),
                };
                fits(bytes.into(), most)?;
                return Ok((known, u64::from(count) << 32 | u64::from(bytes)));
            }
            Register::Text(text) => {
                let at = self.texts.len();
                self.texts.extend_from_slice(text);
                self.texts.push(0);
                Place::Text(at)
            }
            Register::Words(words) => {
                let at = self.words.len();
                self.words.extend_from_slice(&words);
                Place::Words(at)
            }
        };
        self.places.push((self.calls.len(), register, place));
        Ok((Known::Early, 0))
    }

    /// Nothing comes any more: addresses become known.
    pub fn seal(&mut self) {
        self.is_sealed = true;
        for (call, register, place) in std::mem::take(&mut self.places) {
            let address = match place {
                Place::Text(at) => self.texts[at..].as_ptr().expose_provenance(),
                Place::Words(at) => self.words[at..].as_mut_ptr().expose_provenance(),
            };
            self.calls[call].args[register] = address as u64;
        }
    }

    /// How many calls there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.calls[..]) + self.texts.len() + size_of_val(&self.words[..])
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Makes one of the calls, with `copy` in the place of its descriptor; what the kernel returned: a number of at least 0, or an error
    /// number below.
    ///
    /// # Panics
    ///
    /// Before [`Self::seal`], and with memory for shorter buffers.
    pub fn call(
        &mut self,
        index: usize,
        memory: &mut Memory,
        slots: &Slots,
        copy: Option<i32>,
    ) -> i64 {
        let (number, [a, b, c, d, e, f]) = self.registers(index, memory, slots, copy);
        // SAFETY: `registers` has put into each register that this call takes for an address either 0 or that of memory of ours: paths,
        // which the batch keeps and the kernel only reads; numbers in the batch, of which it writes those that are positions, 8 bytes;
        // buffers at least as long as the call was told, into which it writes while `memory` is borrowed for us alone, or from which it
        // only reads. All other registers are numbers. None of the calls changes what is mapped or which threads there are.
        let ret = unsafe { libc::syscall(number, a, b, c, d, e, f) };
        if ret == -1 { -i64::from(nix::errno::Errno::last_raw()) } else { ret }
    }

    /// The number of a call, and what stands in its registers now.
    fn registers(
        &self,
        index: usize,
        memory: &mut Memory,
        slots: &Slots,
        copy: Option<i32>,
    ) -> (libc::c_long, [u64; 6]) {
        assert!(self.is_sealed, "addresses are not known before");
        assert!(self.longest == memory.longest, "the memory is for another replay");
        let prepared = &self.calls[index];
        let mut args = prepared.args;
        for (value, known) in args.iter_mut().zip(prepared.known) {
            let (upper, lower) = halves(*value);
            *value = match known {
                Known::Early => continue,
                Known::Slot => number(copy.unwrap_or_else(|| slots.get(lower))),
                Known::NumberFor => number(slots.number_for(lower)),
                Known::Sink => number(slots.sink()),
                Known::Into => memory.address_into(),
                Known::From => memory.address_from(),
                Known::VectorInto => memory.vector(true, upper.into(), lower.into()),
                Known::VectorFrom => memory.vector(false, upper.into(), lower.into()),
            };
        }
        (prepared.number.into(), args)
    }
}

/// The upper and the lower half of a register.
fn halves(value: u64) -> (u32, u32) {
    let lower = |it| u32::try_from(it & u64::from(u32::MAX)).unwrap_or_default();
    (lower(value >> 32), lower(value))
}

/// A descriptor in a register.
fn number(fd: i32) -> u64 {
    i64::from(fd).cast_unsigned()
}
