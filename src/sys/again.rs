//! System calls that are made once more: the same numbers in the registers, and our own memory and descriptors where the program's were.
//!
//! ```text
//!   Wanted ──► Batch::push ──► Batch::call        registers of a read, say:
//!   (what was captured)        (what is made)      [slot 7 → 12] [our buffer] [4096]
//! ```
//!
//! Which registers are pointers stands in [`registers`] alone, and comes from the name of the call: nothing that was captured can make
//! another number a pointer.

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use memmap2::{MmapMut, MmapOptions};

use crate::event::syscall_table::{Call, Class, Role};

/// What was captured of a call.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The row.
    pub call: &'static Call,
    /// Its registers as they were.
    pub args: [u64; 6],
    /// Whose descriptor the first one is; `None`: of none that was open.
    pub slot: Option<u32>,
    /// The second one of a transfer.
    pub target: Option<u32>,
    /// The one that it makes.
    pub makes: Option<u32>,
    /// A path; `None`: it is about the first descriptor.
    pub path: Option<&'a [u8]>,
    /// The second path.
    pub second_path: Option<&'a [u8]>,
    /// `O_*` that stand in memory.
    pub flags: Option<u32>,
    /// Position that stands in memory, in bytes.
    pub offset: Option<u64>,
    /// The same of the second file.
    pub target_offset: Option<u64>,
    /// Bytes asked for, of buffers whose lengths stand in memory.
    pub bytes: Option<u64>,
    /// Bytes that it moved.
    pub moved: u64,
}

/// What stands in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register<'a> {
    /// A number that is none of the others.
    Number(u64),
    /// The descriptor of a slot; -1 if there is none.
    Slot(Option<u32>),
    /// The number that a slot's descriptor is to have.
    NumberFor(u32),
    /// A path.
    Text(&'a [u8]),
    /// Numbers in memory.
    Words([u64; 3]),
    /// Memory that the kernel writes to.
    Into(u64),
    /// Memory that the kernel reads.
    From(u64),
    /// Buffers that the kernel writes to (`true`) or reads: how many, and their bytes.
    Vector(bool, u64, u64),
}

/// Memory for what the kernel tells in a structure: the largest of these has 256 bytes (`struct statx`).
const SCRATCH_BYTES: u64 = 4096;

/// Bytes that one call moves at most (`MAX_RW_COUNT` in `include/linux/fs.h`).
pub const BUFFER_BYTES_MAX: u64 = 0x7fff_f000;

/// Buffers of a call at most (`UIO_MAXIOV`).
const VECTOR_MAX: u64 = 1024;

/// Only its lower 32 bits are looked at.
const AT_FDCWD: u64 = libc::AT_FDCWD.cast_unsigned() as u64;

/// Calls that tell something in a structure, and in which register its address stands.
const TELLS: &[(&str, usize)] = &[
    ("newstat", 1),
    ("newlstat", 1),
    ("newfstat", 1),
    ("statfs", 1),
    ("fstatfs", 1),
    ("newfstatat", 2),
    ("statx", 4),
];

/// Calls that are given times, and in which register their address stands: none, so that the times are those of the replay.
const TIMES: &[(&str, usize)] = &[("utime", 1), ("utimes", 1), ("futimesat", 2), ("utimensat", 2)];

/// Calls that are given permissions, and in which register.
const MODES: &[(&str, usize)] = &[
    ("open", 2),
    ("openat", 3),
    ("creat", 1),
    ("mkdir", 1),
    ("mkdirat", 2),
    ("mknod", 1),
    ("mknodat", 2),
    ("chmod", 1),
    ("fchmod", 1),
    ("fchmodat", 2),
    ("fchmodat2", 2),
];

/// The length of `struct open_how`, and in which register.
const HOW_BYTES: &[(&str, usize)] = &[("openat2", 3)];

/// Bits of permissions that nothing gets: with them a file that a capture names could give rights to whoever runs it.
const NEVER: u64 = (libc::S_ISUID | libc::S_ISGID) as u64;

fn register_of(list: &[(&str, usize)], call: &Call) -> Option<usize> {
    list.iter().find(|it| it.0 == call.name).map(|it| it.1)
}

/// What stands in its registers.
fn registers<'a>(wanted: &Wanted<'a>) -> [Register<'a>; 6] {
    std::array::from_fn(|register| one(wanted, register))
}

fn one<'a>(wanted: &Wanted<'a>, register: usize) -> Register<'a> {
    let call = wanted.call;
    let value = wanted.args[register];
    let text = |path: Option<&'a [u8]>| Register::Text(path.unwrap_or_default());
    match call.args[register] {
        Role::Fd => Register::Slot(wanted.slot),
        Role::Fd2 if call.class == Class::Transfer => Register::Slot(wanted.target),
        Role::Fd2 => match wanted.makes {
            Some(made) => Register::NumberFor(made),
            None if value == wanted.args[0] => Register::Slot(wanted.slot),
            None => Register::Slot(None),
        },
        // Paths are whole.
        Role::DirFd if wanted.path.is_some() => Register::Number(AT_FDCWD),
        Role::DirFd => Register::Slot(wanted.slot),
        Role::DirFd2 => Register::Number(AT_FDCWD),
        Role::Path if value == 0 => Register::Number(0),
        Role::Path => text(wanted.path),
        Role::Path2 => text(wanted.second_path),
        Role::OffsetPtr => position(value, wanted.offset),
        Role::OffsetPtr2 => position(value, wanted.target_offset),
        Role::Buffers => vector(wanted),
        Role::How => how(wanted),
        Role::CommandArg => Register::Number(command_arg(wanted.args[1], value)),
        Role::Opaque => opaque(wanted, register),
        _ => Register::Number(value),
    }
}

fn position<'a>(value: u64, offset: Option<u64>) -> Register<'a> {
    match (value, offset) {
        (0, _) | (_, None) => Register::Number(0),
        (_, Some(offset)) => Register::Words([offset, 0, 0]),
    }
}

fn vector<'a>(wanted: &Wanted<'a>) -> Register<'a> {
    let count = wanted.call.arg(Role::BufferCount).map_or(0, |it| wanted.args[it]);
    // Lengths that nobody read: so much was moved.
    let bytes = wanted.bytes.unwrap_or(wanted.moved).min(BUFFER_BYTES_MAX);
    Register::Vector(wanted.call.class == Class::Read, count.min(VECTOR_MAX), bytes)
}

/// `struct open_how`: flags, mode, what names may lead to.
fn how<'a>(wanted: &Wanted<'a>) -> Register<'a> {
    let flags = wanted.flags.unwrap_or(0);
    let creates = flags & libc::O_CREAT.cast_unsigned() != 0;
    Register::Words([flags.into(), if creates { 0o644 } else { 0 }, 0])
}

/// What is told to `fcntl`.
fn command_arg(command: u64, value: u64) -> u64 {
    match i32::try_from(command) {
        // Numbers are ours.
        Ok(libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => 0,
        // Nobody waits for signals.
        Ok(libc::F_SETFL) => value & !u64::from(libc::O_ASYNC.cast_unsigned()),
        _ => value,
    }
}

/// A register that says nothing by itself: permissions and flags, or the address of memory.
fn opaque<'a>(wanted: &Wanted<'a>, register: usize) -> Register<'a> {
    let (call, value) = (wanted.call, wanted.args[register]);
    let is_in = |list| register_of(list, call) == Some(register);
    if call.args.get(register + 1) == Some(&Role::Count) && call.class != Class::Sync {
        let bytes = wanted.args[register + 1].min(BUFFER_BYTES_MAX);
        return match call.class {
            Class::Write => Register::From(bytes),
            Class::Read | Class::List | Class::Stat => Register::Into(bytes),
            _ => Register::Number(value),
        };
    }
    match () {
        () if is_in(TELLS) => Register::Into(SCRATCH_BYTES),
        () if is_in(TIMES) => Register::Number(0),
        // No pipe either, in which an open would wait for somebody.
        () if is_in(MODES) && call.name.starts_with("mknod") => Register::Number(value & 0o1777),
        () if is_in(MODES) => Register::Number(value & !NEVER),
        // Of what stands at the pointer before it.
        () if is_in(HOW_BYTES) => Register::Number(24),
        () => Register::Number(value),
    }
}

/// A register whose value is known only when the call is made.
#[derive(Clone, Copy, Debug)]
enum Late {
    Slot(u32),
    NumberFor(u32),
    Into,
    From,
    Vector { is_into: bool, count: u64, bytes: u64 },
}

/// A call that is ready to be made.
#[derive(Clone, Copy, Debug)]
struct Prepared {
    number: libc::c_long,
    args: [u64; 6],
    late: [Option<(usize, Late)>; 3],
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
    pub fn push(&mut self, wanted: &Wanted<'_>) -> Result<(), Refused> {
        assert!(!self.is_sealed, "the memory of the calls does not move any more");
        let number = wanted.call.number(std::env::consts::ARCH).ok_or(Refused::NoSuchCall)?;
        let mut prepared = Prepared { number: number.into(), args: [0; 6], late: [None; 3] };
        let mut late = prepared.late.iter_mut();
        for (register, it) in registers(wanted).into_iter().enumerate() {
            match self.early(it, register)? {
                Early::Known(value) => prepared.args[register] = value,
                // No call has more: two descriptors and one buffer.
                Early::Late(it) => *late.next().ok_or(Refused::TooLong)? = Some((register, it)),
            }
        }
        self.calls.push(prepared);
        Ok(())
    }

    /// What is known of a register before the call is made.
    fn early(&mut self, it: Register<'_>, register: usize) -> Result<Early, Refused> {
        let fits = |bytes, most| if bytes <= most { Ok(()) } else { Err(Refused::TooLong) };
        let place = match it {
            Register::Number(value) => return Ok(Early::Known(value)),
            Register::Slot(None) => return Ok(Early::Known(u64::MAX)),
            Register::Slot(Some(slot)) => return Ok(Early::Late(Late::Slot(slot))),
            Register::NumberFor(slot) => return Ok(Early::Late(Late::NumberFor(slot))),
            Register::Into(bytes) => {
                fits(bytes, self.longest.into)?;
                return Ok(Early::Late(Late::Into));
            }
            Register::From(bytes) => {
                fits(bytes, self.longest.from)?;
                return Ok(Early::Late(Late::From));
            }
            Register::Vector(is_into, count, bytes) => {
                let most = if is_into { self.longest.into } else { self.longest.from };
                fits(bytes, most)?;
                return Ok(Early::Late(Late::Vector { is_into, count, bytes }));
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
        Ok(Early::Known(0))
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
        assert!(self.is_sealed, "addresses are not known before");
        assert!(self.longest == memory.longest, "the memory is for another replay");
        let prepared = &self.calls[index];
        let mut args = prepared.args;
        for (register, late) in prepared.late.into_iter().flatten() {
            args[register] = match late {
                Late::Slot(slot) => number(copy.unwrap_or_else(|| slots.get(slot))),
                Late::NumberFor(slot) => number(slots.number_for(slot)),
                Late::Into => memory.address_into(),
                Late::From => memory.address_from(),
                Late::Vector { is_into, count, bytes } => memory.vector(is_into, count, bytes),
            };
        }
        let [a, b, c, d, e, f] = args;
        // SAFETY: `registers` has put into each register that this call takes for an address either 0 or that of memory of ours: paths,
        // which the batch keeps and the kernel only reads; numbers in the batch, of which it writes those that are positions, 8 bytes;
        // buffers at least as long as the call was told, into which it writes while `memory` is borrowed for us alone, or from which it
        // only reads. All other registers are numbers. None of the calls changes what is mapped or which threads there are.
        let ret = unsafe { libc::syscall(prepared.number, a, b, c, d, e, f) };
        if ret == -1 { -i64::from(nix::errno::Errno::last_raw()) } else { ret }
    }
}

enum Early {
    Known(u64),
    Late(Late),
}

/// A descriptor in a register.
fn number(fd: i32) -> u64 {
    i64::from(fd).cast_unsigned()
}

/// The memory of one thread that calls read from and write into.
#[derive(Debug)]
pub struct Memory {
    longest: Longest,
    into: MmapMut,
    from: Arc<Contents>,
    /// `struct iovec`: address and length.
    vector: Vec<[u64; 2]>,
}

impl Memory {
    /// For reads of this length, and writes of this.
    ///
    /// # Errors
    ///
    /// There is not so much memory.
    pub fn new(longest: Longest, from: Arc<Contents>) -> io::Result<Self> {
        assert!(from.0.len() as u64 >= longest.from, "contents of another replay");
        let length = usize::try_from(longest.into).map_err(io::Error::other)?;
        let into = MmapOptions::new().len(length).no_reserve_swap().map_anon()?;
        Ok(Self { longest, into, from, vector: Vec::new() })
    }

    fn address_into(&mut self) -> u64 {
        self.into.as_mut_ptr().expose_provenance() as u64
    }

    fn address_from(&self) -> u64 {
        self.from.0.as_ptr().expose_provenance() as u64
    }

    /// Buffers one behind the other, as equal as what is read without the page cache allows.
    fn vector(&mut self, is_into: bool, count: u64, bytes: u64) -> u64 {
        let begin = if is_into { self.address_into() } else { self.address_from() };
        let part = (bytes / count.max(1)).next_multiple_of(ALIGNED_BYTES);
        self.vector.clear();
        for number in 0..count {
            let from = (number * part).min(bytes);
            let to = if number + 1 == count { bytes } else { (from + part).min(bytes) };
            self.vector.push([begin + from, to - from]);
        }
        self.vector.as_ptr().expose_provenance() as u64
    }
}

/// Parts of a vector begin at multiples of this: sectors of most disks (`O_DIRECT`, open(2)).
const ALIGNED_BYTES: u64 = 512;

/// What is written: the same for all threads.
#[derive(Debug)]
pub struct Contents(MmapMut);

/// Bytes of it that `fill` makes; those behind are 0.
const FILLED_BYTES_MAX: usize = 64 << 20;

impl Contents {
    /// Enough for the longest write; `fill` makes the first 64 MiB.
    ///
    /// # Errors
    ///
    /// There is not so much memory.
    pub fn new(longest: Longest, fill: impl FnOnce(&mut [u8])) -> io::Result<Arc<Self>> {
        let length = usize::try_from(longest.from).map_err(io::Error::other)?;
        let mut map = MmapOptions::new().len(length).no_reserve_swap().map_anon()?;
        fill(&mut map[..length.min(FILLED_BYTES_MAX)]);
        Ok(Arc::new(Self(map)))
    }
}

/// Nothing is open there.
const EMPTY: i32 = -1;

/// The descriptors of a replay, by their handles: all threads use them. Who may use which when is settled by whom they wait for.
#[derive(Debug)]
pub struct Slots {
    all: Box<[AtomicI32]>,
    /// Numbers from here on are nobody's but a slot's each.
    reserved: i32,
}

impl Slots {
    /// So many, all empty. No open gets a number from `reserved` on by itself, as the kernel takes the lowest that is free (open(2)).
    pub fn new(count: u32, reserved: i32) -> Self {
        Self { all: (0..count).map(|_| AtomicI32::new(EMPTY)).collect(), reserved }
    }

    fn get(&self, slot: u32) -> i32 {
        // ORDERING: who has waited for the thread that put it there (an acquire of its counter) sees it.
        self.all.get(slot as usize).map_or(EMPTY, |it| it.load(Ordering::Relaxed))
    }

    /// The number of its descriptor, or the one that is kept for it.
    fn number_for(&self, slot: u32) -> i32 {
        match self.get(slot) {
            EMPTY => i32::try_from(slot).map_or(EMPTY, |it| self.reserved.saturating_add(it)),
            fd => fd,
        }
    }

    /// What was open in a slot before the first call.
    pub fn put(&self, slot: u32, fd: OwnedFd) {
        self.replace(slot, fd.into_raw_fd());
    }

    /// A call that makes descriptors has returned this, for that slot; `None`: nobody has it. What was open there before is closed: it
    /// went without a call, with its process.
    pub fn made(&self, slot: Option<u32>, ret: i64) {
        let fd = i32::try_from(ret).ok().filter(|it| *it >= 0);
        match (slot, fd) {
            (Some(slot), fd) => self.replace(slot, fd.unwrap_or(EMPTY)),
            (None, Some(fd)) => close(fd),
            (None, None) => {}
        }
    }

    fn replace(&self, slot: u32, fd: i32) {
        // ORDERING: as in `get`; whoever waits for us sees it behind our counter.
        let before = match self.all.get(slot as usize) {
            Some(it) => it.swap(fd, Ordering::Relaxed),
            None => fd,
        };
        if before != EMPTY && (before != fd || self.all.get(slot as usize).is_none()) {
            close(before);
        }
    }

    /// A call has closed it.
    pub fn closed(&self, slot: u32) {
        if let Some(it) = self.all.get(slot as usize) {
            // ORDERING: as in `put`.
            it.store(EMPTY, Ordering::Relaxed);
        }
    }

    /// A copy of a descriptor, to be closed in its place: others of the original have it still.
    pub fn copy(&self, slot: u32) -> Option<i32> {
        let fd = self.get(slot);
        // SAFETY: dup changes no memory.
        let copy = unsafe { libc::dup(fd) };
        (copy >= 0).then_some(copy)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // ORDERING: nobody else has it any more.
        let all = self.all.iter().map(|it| it.load(Ordering::Relaxed));
        all.filter(|it| *it != EMPTY).for_each(close);
    }
}

fn close(fd: i32) {
    // SAFETY: it was made by a call of a replay and is in no slot any more: nobody has its number.
    unsafe { libc::close(fd) };
}
