//! Registers of a call: the name of the call alone decides which of them are pointers. Nothing that
//! was captured can make another number a pointer.

use super::buffer_sizes::{BUFFER_BYTES_MAX, SCRATCH_BYTES};
use super::refusal::CallRefusal;
use crate::event::registers::low_half;
use crate::event::syscall_table::{Call, CallClass, Role};

/// A captured call.
#[derive(Clone, Copy, Debug, Default)]
pub struct CapturedCall<'a> {
    /// Registers as they were.
    pub args: [u64; 6],
    /// Slot of the first descriptor; `None`: no descriptor that was open.
    pub slot: Option<u32>,
    /// Slot of a transfer's second descriptor.
    pub target: Option<u32>,
    /// Slot of the descriptor that the call makes.
    pub makes: Option<u32>,
    /// Path; `None`: the call is about the first descriptor.
    pub path: Option<&'a [u8]>,
    /// Second path.
    pub second_path: Option<&'a [u8]>,
    /// `O_*` flags that are stored in memory.
    pub flags: Option<u32>,
    /// Position that is stored in memory, in bytes.
    pub offset: Option<u64>,
    /// Position in the second file that is stored in memory, in bytes.
    pub target_offset: Option<u64>,
    /// Bytes requested, for buffers whose lengths are stored in memory.
    pub bytes: Option<u64>,
    /// Bytes that the call moved.
    pub moved: u64,
    /// True if the bytes of a transfer without a second slot go to a sink.
    pub sinks: bool,
}

/// Value of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Register<'a> {
    /// A number that is not an address, descriptor or length of a buffer.
    Number(u64),
    /// The descriptor of a slot; -1 if there is none.
    Slot(Option<u32>),
    /// The number that a slot's descriptor is to have.
    NumberFor(u32),
    /// The descriptor of the sink.
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

/// Limit on the buffers of a call (`UIO_MAXIOV`).
const VECTOR_MAX: u64 = 1024;

/// `AT_FDCWD` in a register: the kernel uses only the lower 32 bits.
const AT_FDCWD: u64 = libc::AT_FDCWD.cast_unsigned() as u64;

/// Calls that return a structure, and the register with its address.
const TELLS: &[(&str, usize)] = &[
    ("newstat", 1),
    ("newlstat", 1),
    ("newfstat", 1),
    ("statfs", 1),
    ("fstatfs", 1),
    ("newfstatat", 2),
    ("statx", 4),
];

/// Calls with times, and the register with their address. It becomes 0, so that the times are those
/// of the replay.
const TIMES: &[(&str, usize)] = &[("utime", 1), ("utimes", 1), ("futimesat", 2), ("utimensat", 2)];

/// Calls with permissions, and the register that has them.
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

/// Calls with the length of `struct open_how`, and the register that has it.
const HOW_BYTES: &[(&str, usize)] = &[("openat2", 3)];

/// Permission bits that no file gets: with them a file that a capture names could give rights to
/// any user who executes it.
const NEVER: u64 = (libc::S_ISUID | libc::S_ISGID) as u64;

/// Purpose of a register of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegisterRole {
    /// A number that is none of the kinds below.
    Number,
    /// A pointer that becomes 0.
    Null,
    /// The first descriptor.
    Fd,
    /// The second descriptor of a transfer.
    Target,
    /// The number that a copy is to have.
    CopyTo,
    /// The directory of the first path.
    DirFd,
    /// The directory of the second path.
    DirFd2,
    Path,
    Path2,
    /// A position in memory.
    Offset,
    TargetOffset,
    /// Memory that the kernel reads; the next register is its length.
    From,
    /// Memory that the kernel writes; the next register is its length.
    Into,
    /// Length of a buffer.
    Bytes,
    /// A structure that the kernel fills in.
    Scratch,
    Vector,
    /// `struct open_how`.
    How,
    /// The length of `struct open_how`.
    HowBytes,
    /// The argument of an `fcntl` command.
    CommandArg,
    /// Permissions of a new file.
    Mode,
    /// Permissions of `mknod`, with the type of the file.
    NodeMode,
}

/// Calls whose buffer length has 64 bits. The kernel refuses a negative one, and limits a longer
/// one to [`BUFFER_BYTES_MAX`] (`rw_verify_area` in `fs/read_write.c`). All other calls take an
/// `int`, and use it unchecked.
const WHOLE_LENGTH: &[&str] = &["read", "write", "pread64", "pwrite64"];

/// True for a register that is the length of the buffer before it, and that the kernel does not
/// limit.
fn is_length(call: &Call, register: usize) -> bool {
    let follows_buffer = register.checked_sub(1).is_some_and(|it| call.is_buffer(it));
    follows_buffer && !WHOLE_LENGTH.contains(&call.name)
}

/// Limits the length that the kernel sees to that of the buffer. A negative length stays: the
/// kernel refuses it.
fn int_length(value: u64) -> u64 {
    let lower = u64::from(low_half(value));
    if lower > i32::MAX.unsigned_abs().into() { lower } else { lower.min(BUFFER_BYTES_MAX) }
}

impl RegisterRole {
    fn of(call: &Call, register: usize) -> Self {
        match call.args[register] {
            Role::Fd => Self::Fd,
            Role::Fd2 if call.class == CallClass::Transfer => Self::Target,
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

    /// Kind of a register whose role does not decide it: permissions and flags, or the address of
    /// memory.
    fn of_opaque(call: &Call, register: usize) -> Self {
        let is_in = |list: &[(&str, usize)]| list.contains(&(call.name, register));
        match () {
            () if call.is_buffer(register) && call.class == CallClass::Write => Self::From,
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

/// A call as this machine makes it: looked up once for all operations with that call.
#[derive(Clone, Copy, Debug)]
pub struct CallSignature {
    pub(super) number: u32,
    call: &'static Call,
    kinds: [RegisterRole; 6],
}

impl CallSignature {
    /// Looks a call up.
    ///
    /// # Errors
    ///
    /// The architecture has no such call.
    pub fn new(call: &'static Call) -> Result<Self, CallRefusal> {
        let number = call.number(std::env::consts::ARCH).ok_or(CallRefusal::NoSuchCall)?;
        let kinds = std::array::from_fn(|register| RegisterRole::of(call, register));
        Ok(Self { number, call, kinds })
    }

    /// Returns the values of its registers.
    pub(super) fn registers<'a>(&self, wanted: &CapturedCall<'a>) -> [Register<'a>; 6] {
        std::array::from_fn(|register| self.one(wanted, register))
    }

    fn one<'a>(&self, wanted: &CapturedCall<'a>, register: usize) -> Register<'a> {
        let value = wanted.args[register];
        let length = || wanted.args.get(register + 1).map_or(0, |it| *it).min(BUFFER_BYTES_MAX);
        let text = |path: Option<&'a [u8]>| Register::Text(path.unwrap_or_default());
        match self.kinds[register] {
            RegisterRole::Number => Register::Number(value),
            RegisterRole::Null => Register::Number(0),
            RegisterRole::Fd => Register::Slot(wanted.slot),
            RegisterRole::Target if wanted.target.is_none() && wanted.sinks => Register::Sink,
            RegisterRole::Target => Register::Slot(wanted.target),
            RegisterRole::CopyTo => match wanted.makes {
                Some(made) => Register::NumberFor(made),
                None if value == wanted.args[0] => Register::Slot(wanted.slot),
                None => Register::Slot(None),
            },
            // Paths are absolute.
            RegisterRole::DirFd if wanted.path.is_some() => Register::Number(AT_FDCWD),
            RegisterRole::DirFd => Register::Slot(wanted.slot),
            RegisterRole::DirFd2 => Register::Number(AT_FDCWD),
            RegisterRole::Path if value == 0 => Register::Number(0),
            RegisterRole::Path => text(wanted.path),
            RegisterRole::Path2 => text(wanted.second_path),
            RegisterRole::Offset => position(value, wanted.offset),
            RegisterRole::TargetOffset => position(value, wanted.target_offset),
            RegisterRole::From => Register::From(length()),
            RegisterRole::Into => Register::Into(length()),
            RegisterRole::Bytes => Register::Number(int_length(value)),
            RegisterRole::Scratch => Register::Into(SCRATCH_BYTES),
            RegisterRole::Vector => self.vector(wanted),
            RegisterRole::How => how(wanted),
            // The size of the structure at the pointer before it.
            RegisterRole::HowBytes => Register::Number(24),
            RegisterRole::CommandArg => Register::Number(command_arg(wanted.args[1], value)),
            RegisterRole::Mode => Register::Number(value & !NEVER),
            // Not even a FIFO, in which an open would wait for another process.
            RegisterRole::NodeMode => Register::Number(value & 0o1777),
        }
    }

    fn vector<'a>(&self, wanted: &CapturedCall<'a>) -> Register<'a> {
        let count = self.call.arg(Role::BufferCount).map_or(0, |it| wanted.args[it]);
        // Lengths that the tracer could not read: as many bytes as were moved.
        let bytes = wanted.bytes.unwrap_or(wanted.moved).min(BUFFER_BYTES_MAX);
        let count = u32::try_from(count.min(VECTOR_MAX)).unwrap_or(0);
        let bytes = u32::try_from(bytes).unwrap_or(0);
        Register::Vector { is_into: self.call.class == CallClass::Read, count, bytes }
    }
}

fn position<'a>(value: u64, offset: Option<u64>) -> Register<'a> {
    match (value, offset) {
        (0, _) | (_, None) => Register::Number(0),
        (_, Some(offset)) => Register::Words([offset, 0, 0]),
    }
}

/// `struct open_how`: flags, mode, and limits on path resolution.
fn how<'a>(wanted: &CapturedCall<'a>) -> Register<'a> {
    let flags = wanted.flags.unwrap_or(0);
    let creates = flags & libc::O_CREAT.cast_unsigned() != 0;
    Register::Words([flags.into(), if creates { 0o644 } else { 0 }, 0])
}

/// Argument of `fcntl` for this command.
fn command_arg(command: u64, value: u64) -> u64 {
    match i32::try_from(command) {
        // The slots choose the number of a copy.
        Ok(libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => 0,
        // No thread of a replay waits for signals.
        Ok(libc::F_SETFL) => value & !u64::from(libc::O_ASYNC.cast_unsigned()),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::CallId;

    /// Value of a register that is a number.
    fn number(register: Register<'_>) -> Option<u64> {
        if let Register::Number(value) = register { Some(value) } else { None }
    }

    /// Fails if the length in a call is larger than its buffer: the kernel would write beyond its
    /// end.
    #[test]
    fn calls_do_not_exceed_the_buffer() {
        let mut checked = Vec::new();
        for call in CallId::all().map(CallId::call) {
            let Ok(prototype) = CallSignature::new(call) else { continue };
            let buffers = (0..5).filter(|it| call.is_buffer(*it));
            for (buffer, length) in buffers.flat_map(|buffer| {
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
                .map(|length| (buffer, length))
            }) {
                let mut wanted = CapturedCall::default();
                wanted.args[buffer + 1] = length;
                let registers = prototype.registers(&wanted);
                let (Register::Into(bytes) | Register::From(bytes)) = registers[buffer] else {
                    panic!("{}: {registers:?}", call.name)
                };
                let argument = number(registers[buffer + 1]).expect("a length");
                // As the kernel takes it.
                let used = match WHOLE_LENGTH.contains(&call.name) {
                    true if argument.cast_signed() < 0 => 0,
                    true => argument.min(BUFFER_BYTES_MAX),
                    false if argument & 0x8000_0000 != 0 => 0,
                    false => low_half(argument).into(),
                };
                assert!(used <= bytes, "{}: {used} of {bytes} bytes for {length:#x}", call.name);
                checked.push(call.name);
            }
        }
        assert!(checked.contains(&"getdents64") && checked.contains(&"readlink"), "{checked:?}");
    }
}
