//! What stands in the registers of a call: which of them are pointers comes from the name of the call alone, so nothing that was captured
//! can make another number a pointer.

use super::Refused;
use crate::event::syscall_table::{Call, Class, Role};

/// What was captured of a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
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
    /// What a transfer without a second slot moves goes to a sink.
    pub sinks: bool,
}

/// What stands in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Register<'a> {
    /// A number that is none of the others.
    Number(u64),
    /// The descriptor of a slot; -1 if there is none.
    Slot(Option<u32>),
    /// The number that a slot's descriptor is to have.
    NumberFor(u32),
    /// The descriptor that takes everything.
    Sink,
    /// A path.
    Text(&'a [u8]),
    /// Numbers in memory.
    Words([u64; 3]),
    /// Memory that the kernel writes to.
    Into(u64),
    /// Memory that the kernel reads.
    From(u64),
    /// Buffers that the kernel writes to or reads: how many, and the bytes of all of them.
    Vector { is_into: bool, count: u32, bytes: u32 },
}

/// Memory for what the kernel tells in a structure: the largest of these has 256 bytes (`struct statx`).
pub(super) const SCRATCH_BYTES: u64 = 4096;

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

/// What a register of a row is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number that is none of the others.
    Number,
    /// Nothing is given there.
    Null,
    /// The first descriptor, the second one, and the number that a copy is to have.
    Fd,
    Target,
    CopyTo,
    /// The directories of paths.
    DirFd,
    DirFd2,
    Path,
    Path2,
    /// Positions that stand in memory.
    Offset,
    TargetOffset,
    /// Memory that is read or written, as long as the register behind it says.
    From,
    Into,
    /// How much of it the kernel may use.
    Bytes,
    /// A structure that the kernel tells something in.
    Scratch,
    Vector,
    /// `struct open_how` and its length.
    How,
    HowBytes,
    /// What is told to `fcntl`.
    CommandArg,
    /// Permissions, and those of `mknod`, with what is made.
    Mode,
    NodeMode,
}

/// Calls that look at all 64 bits of the length of their buffer. They refuse one that is negative, and use no more than
/// [`BUFFER_BYTES_MAX`] of a longer one by themselves (`rw_verify_area` in `fs/read_write.c`). All others take an `int`, and believe it.
const WHOLE_LENGTH: &[&str] = &["read", "write", "pread64", "pwrite64"];

/// True for a register with the length of the buffer before it that the kernel believes.
fn is_length(call: &Call, register: usize) -> bool {
    let is_behind = register.checked_sub(1).is_some_and(|it| call.is_buffer(it));
    is_behind && !WHOLE_LENGTH.contains(&call.name)
}

/// The length that the kernel sees, and no more than the buffer has. A negative one stays: it is refused.
fn int_length(value: u64) -> u64 {
    let lower = value & u64::from(u32::MAX);
    if lower > i32::MAX.unsigned_abs().into() { lower } else { lower.min(BUFFER_BYTES_MAX) }
}

impl Kind {
    fn of(call: &Call, register: usize) -> Self {
        match call.args[register] {
            Role::Fd => Self::Fd,
            Role::Fd2 if call.class == Class::Transfer => Self::Target,
            Role::Fd2 => Self::CopyTo,
            Role::DirFd => Self::DirFd,
            Role::DirFd2 => Self::DirFd2,
            Role::Path => Self::Path,
            Role::Path2 => Self::Path2,
            Role::OffsetPtr => Self::Offset,
            Role::OffsetPtr2 => Self::TargetOffset,
            Role::Buffers => Self::Vector,
            Role::How => Self::How,
            Role::CommandArg => Self::CommandArg,
            Role::Count if is_length(call, register) => Self::Bytes,
            Role::Opaque => Self::of_opaque(call, register),
            _ => Self::Number,
        }
    }

    /// Of a register that says nothing by itself: permissions and flags, or the address of memory.
    fn of_opaque(call: &Call, register: usize) -> Self {
        let is_in = |list: &[(&str, usize)]| list.contains(&(call.name, register));
        match () {
            () if call.is_buffer(register) && call.class == Class::Write => Self::From,
            () if call.is_buffer(register) => Self::Into,
            () if is_in(TELLS) => Self::Scratch,
            () if is_in(TIMES) => Self::Null,
            () if is_in(MODES) && call.name.starts_with("mknod") => Self::NodeMode,
            () if is_in(MODES) => Self::Mode,
            () if is_in(HOW_BYTES) => Self::HowBytes,
            () => Self::Number,
        }
    }
}

/// A row as it is called on this machine: found once for all calls of it.
#[derive(Clone, Copy, Debug)]
pub struct Prototype {
    pub(super) number: u32,
    call: &'static Call,
    kinds: [Kind; 6],
}

impl Prototype {
    /// Of a row.
    ///
    /// # Errors
    ///
    /// This kind of machine has no such call.
    pub fn new(call: &'static Call) -> Result<Self, Refused> {
        let number = call.number(std::env::consts::ARCH).ok_or(Refused::NoSuchCall)?;
        let kinds = std::array::from_fn(|register| Kind::of(call, register));
        Ok(Self { number, call, kinds })
    }

    /// What stands in its registers.
    pub(super) fn registers<'a>(&self, wanted: &Wanted<'a>) -> [Register<'a>; 6] {
        std::array::from_fn(|register| self.one(wanted, register))
    }

    fn one<'a>(&self, wanted: &Wanted<'a>, register: usize) -> Register<'a> {
        let value = wanted.args[register];
        let behind = || wanted.args.get(register + 1).map_or(0, |it| *it).min(BUFFER_BYTES_MAX);
        let text = |path: Option<&'a [u8]>| Register::Text(path.unwrap_or_default());
        match self.kinds[register] {
            Kind::Number => Register::Number(value),
            Kind::Null => Register::Number(0),
            Kind::Fd => Register::Slot(wanted.slot),
            Kind::Target if wanted.target.is_none() && wanted.sinks => Register::Sink,
            Kind::Target => Register::Slot(wanted.target),
            Kind::CopyTo => match wanted.makes {
                Some(made) => Register::NumberFor(made),
                None if value == wanted.args[0] => Register::Slot(wanted.slot),
                None => Register::Slot(None),
            },
            // Paths are whole.
            Kind::DirFd if wanted.path.is_some() => Register::Number(AT_FDCWD),
            Kind::DirFd => Register::Slot(wanted.slot),
            Kind::DirFd2 => Register::Number(AT_FDCWD),
            Kind::Path if value == 0 => Register::Number(0),
            Kind::Path => text(wanted.path),
            Kind::Path2 => text(wanted.second_path),
            Kind::Offset => position(value, wanted.offset),
            Kind::TargetOffset => position(value, wanted.target_offset),
            Kind::From => Register::From(behind()),
            Kind::Into => Register::Into(behind()),
            Kind::Bytes => Register::Number(int_length(value)),
            Kind::Scratch => Register::Into(SCRATCH_BYTES),
            Kind::Vector => self.vector(wanted),
            Kind::How => how(wanted),
            // Of what stands at the pointer before it.
            Kind::HowBytes => Register::Number(24),
            Kind::CommandArg => Register::Number(command_arg(wanted.args[1], value)),
            Kind::Mode => Register::Number(value & !NEVER),
            // No pipe either, in which an open would wait for somebody.
            Kind::NodeMode => Register::Number(value & 0o1777),
        }
    }

    fn vector<'a>(&self, wanted: &Wanted<'a>) -> Register<'a> {
        let count = self.call.arg(Role::BufferCount).map_or(0, |it| wanted.args[it]);
        // Lengths that nobody read: so much was moved.
        let bytes = wanted.bytes.unwrap_or(wanted.moved).min(BUFFER_BYTES_MAX);
        let count = u32::try_from(count.min(VECTOR_MAX)).unwrap_or(0);
        let bytes = u32::try_from(bytes).unwrap_or(0);
        Register::Vector { is_into: self.call.class == Class::Read, count, bytes }
    }
}

fn position<'a>(value: u64, offset: Option<u64>) -> Register<'a> {
    match (value, offset) {
        (0, _) | (_, None) => Register::Number(0),
        (_, Some(offset)) => Register::Words([offset, 0, 0]),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::CallId;

    /// What stands in a register that is a number.
    fn number(register: Register<'_>) -> Option<u64> {
        if let Register::Number(value) = register { Some(value) } else { None }
    }

    /// Fails if a call of any row is told of a longer buffer than there is: the kernel would write behind it.
    #[test]
    fn no_call_is_told_of_more_than_there_is() {
        let mut checked = Vec::new();
        for call in CallId::all().map(CallId::call) {
            let Ok(prototype) = Prototype::new(call) else { continue };
            let buffers = (0..5).filter(|it| call.is_buffer(*it));
            for (buffer, length) in buffers.flat_map(|it| {
                [
                    0,
                    7,
                    BUFFER_BYTES_MAX,
                    BUFFER_BYTES_MAX + 1,
                    0x7fff_ffff,
                    0xffff_ffff,
                    7 << 32,
                    u64::MAX,
                ]
                .map(|length| (it, length))
            }) {
                let mut wanted = Wanted::default();
                wanted.args[buffer + 1] = length;
                let registers = prototype.registers(&wanted);
                let (Register::Into(bytes) | Register::From(bytes)) = registers[buffer] else {
                    panic!("{}: {registers:?}", call.name)
                };
                let told = number(registers[buffer + 1]).expect("a length");
                // As the kernel takes it.
                let used = match WHOLE_LENGTH.contains(&call.name) {
                    true if told.cast_signed() < 0 => 0,
                    true => told.min(BUFFER_BYTES_MAX),
                    false if told & 0x8000_0000 != 0 => 0,
                    false => told & 0xffff_ffff,
                };
                assert!(used <= bytes, "{}: {used} of {bytes} bytes for {length:#x}", call.name);
                checked.push(call.name);
            }
        }
        assert!(checked.contains(&"getdents64") && checked.contains(&"readlink"), "{checked:?}");
    }
}
