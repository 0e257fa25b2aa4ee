//! Names of flags and commands, from the kernel's headers. Bits without a name are shown in
//! hexadecimal, never dropped.

use super::number_format;
use crate::event::{AccessMode, OpenFlags};

/// A set of bits and its name. Sets of several bits precede the single bits that they contain.
type Flag = (u32, &'static str);

/// `O_*` names of one architecture.
pub(super) type OpenFlagNames = [Flag; 17];

/// Flags of x86-64, and every architecture that uses `include/uapi/asm-generic/fcntl.h` unchanged
/// (riscv64, loongarch64).
pub(super) static OPEN_GENERIC: OpenFlagNames =
    open_flags(0o40000, 0o100_000, 0o200_000, 0o400_000);

/// Flags of aarch64 (`arch/arm64/include/uapi/asm/fcntl.h`).
pub(super) static OPEN_AARCH64: OpenFlagNames =
    open_flags(0o200_000, 0o400_000, 0o40000, 0o100_000);

/// Table of an architecture: four bits differ between architectures, the others do not.
const fn open_flags(direct: u32, largefile: u32, directory: u32, nofollow: u32) -> OpenFlagNames {
    [
        (0o100, "O_CREAT"),
        (0o200, "O_EXCL"),
        (0o400, "O_NOCTTY"),
        (0o1000, "O_TRUNC"),
        (0o2000, "O_APPEND"),
        (0o4000, "O_NONBLOCK"),
        // O_SYNC has its own bit and O_DSYNC's: a kernel with only O_DSYNC still does half of it.
        (0o4_010_000, "O_SYNC"),
        (0o10000, "O_DSYNC"),
        (0o20000, "O_ASYNC"),
        (direct, "O_DIRECT"),
        (largefile, "O_LARGEFILE"),
        // O_TMPFILE has its own bit and O_DIRECTORY's: kernels without O_TMPFILE fail instead of
        // opening the directory.
        (0o20_000_000 | directory, "O_TMPFILE"),
        (directory, "O_DIRECTORY"),
        (nofollow, "O_NOFOLLOW"),
        (0o1_000_000, "O_NOATIME"),
        (0o2_000_000, "O_CLOEXEC"),
        (0o10_000_000, "O_PATH"),
    ]
}

/// `CLOSE_RANGE_*` (`include/uapi/linux/close_range.h`).
pub(super) static CLOSE_RANGE: [Flag; 2] = [(2, "CLOSE_RANGE_UNSHARE"), (4, "CLOSE_RANGE_CLOEXEC")];

/// `RENAME_*` (`include/uapi/linux/fs.h`).
pub(super) static RENAME: [Flag; 3] =
    [(1, "RENAME_NOREPLACE"), (2, "RENAME_EXCHANGE"), (4, "RENAME_WHITEOUT")];

/// Flags of a descriptor (`include/uapi/asm-generic/fcntl.h`).
pub(super) static DESCRIPTOR: [Flag; 1] = [(1, "FD_CLOEXEC")];

/// The one flag of `dup3`; its bit is the same on all architectures of the table.
pub(super) static DUP: [Flag; 1] = [(0o2_000_000, "O_CLOEXEC")];

/// `SEEK_*` (`include/uapi/linux/fs.h`): the number is the index.
const WHENCE: [&str; 5] = ["SEEK_SET", "SEEK_CUR", "SEEK_END", "SEEK_DATA", "SEEK_HOLE"];

/// Kind of the argument of a `fcntl` command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandArgument {
    /// No argument, or a pointer.
    Hidden,
    /// A number, with sign.
    Number,
    /// Flag `FD_CLOEXEC`.
    DescriptorFlags,
    /// Flags `O_*`.
    OpenFlags,
    /// Bits without names here, or any value.
    Bits,
}

use CommandArgument::{Bits, DescriptorFlags, Hidden, Number, OpenFlags as FileFlags};

/// `F_*` (`include/uapi/asm-generic/fcntl.h`, `include/uapi/linux/fcntl.h`), 64-bit machines.
static COMMANDS: [(u32, &str, CommandArgument); 33] = [
    (0, "F_DUPFD", Number),
    (1, "F_GETFD", Hidden),
    (2, "F_SETFD", DescriptorFlags),
    (3, "F_GETFL", Hidden),
    (4, "F_SETFL", FileFlags),
    (5, "F_GETLK", Hidden),
    (6, "F_SETLK", Hidden),
    (7, "F_SETLKW", Hidden),
    (8, "F_SETOWN", Number),
    (9, "F_GETOWN", Hidden),
    (10, "F_SETSIG", Number),
    (11, "F_GETSIG", Hidden),
    (15, "F_SETOWN_EX", Hidden),
    (16, "F_GETOWN_EX", Hidden),
    (17, "F_GETOWNER_UIDS", Hidden),
    (36, "F_OFD_GETLK", Hidden),
    (37, "F_OFD_SETLK", Hidden),
    (38, "F_OFD_SETLKW", Hidden),
    (1024, "F_SETLEASE", Number),
    (1025, "F_GETLEASE", Hidden),
    (1026, "F_NOTIFY", Bits),
    (1027, "F_DUPFD_QUERY", Number),
    (1028, "F_CREATED_QUERY", Hidden),
    (1029, "F_CANCELLK", Hidden),
    (1030, "F_DUPFD_CLOEXEC", Number),
    (1031, "F_SETPIPE_SZ", Number),
    (1032, "F_GETPIPE_SZ", Hidden),
    (1033, "F_ADD_SEALS", Bits),
    (1034, "F_GET_SEALS", Hidden),
    (1035, "F_GET_RW_HINT", Hidden),
    (1036, "F_SET_RW_HINT", Hidden),
    (1037, "F_GET_FILE_RW_HINT", Hidden),
    (1038, "F_SET_FILE_RW_HINT", Hidden),
];

/// `F_DUPFD`: the result is a descriptor.
pub(super) const F_DUPFD: u32 = 0;
/// `F_GETFD`: the result is descriptor flags.
pub(super) const F_GETFD: u32 = 1;
/// `F_GETFL`: the result is `O_*` flags.
pub(super) const F_GETFL: u32 = 3;
/// `F_DUPFD_CLOEXEC`: the result is a descriptor.
pub(super) const F_DUPFD_CLOEXEC: u32 = 1030;

/// `O_*` names of an architecture (`uname -m`).
pub(super) fn open_flags_of(machine: &str) -> &'static OpenFlagNames {
    match machine {
        "aarch64" => &OPEN_AARCH64,
        _ => &OPEN_GENERIC,
    }
}

/// Bit of `O_DIRECT` on an architecture (`uname -m`).
pub fn direct_flag(machine: &str) -> u32 {
    let named = open_flags_of(machine).iter().find(|flags| flags.1 == "O_DIRECT");
    named.map_or(0, |named| named.0)
}

/// Flags of an open: the access mode, then the others.
pub(super) fn open(out: &mut Vec<u8>, names: &[Flag], flags: u32) {
    let flags = OpenFlags(flags);
    let access = match flags.access_mode() {
        AccessMode::Read => "O_RDONLY",
        AccessMode::Write => "O_WRONLY",
        AccessMode::ReadWrite => "O_RDWR",
        AccessMode::Neither => "O_ACCMODE",
    };
    out.extend_from_slice(access.as_bytes());
    let others = flags.without_access_mode().0;
    if others != 0 {
        out.push(b'|');
        bits(out, names, others);
    }
}

/// Writes flags joined by `|`; bits without a name are one number at the end, no flag at all is
/// `0`.
pub(super) fn bits(out: &mut Vec<u8>, names: &[Flag], flags: u32) {
    let mut rest = flags;
    let mut join = "";
    for (set, name) in names {
        if rest & set == *set {
            out.extend_from_slice(join.as_bytes());
            out.extend_from_slice(name.as_bytes());
            rest &= !set;
            join = "|";
        }
    }
    if rest != 0 {
        out.extend_from_slice(join.as_bytes());
        number_format::hex(out, u64::from(rest));
    } else if flags == 0 {
        out.push(b'0');
    }
}

/// Writes `SEEK_*`, or the number.
pub(super) fn whence(out: &mut Vec<u8>, number: u32) {
    match usize::try_from(number).ok().and_then(|number| WHENCE.get(number)) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => number_format::unsigned(out, u64::from(number)),
    }
}

/// Writes `F_*`, or the number.
pub(super) fn command(out: &mut Vec<u8>, number: u32) {
    match COMMANDS.iter().find(|command| command.0 == number) {
        Some((_, name, _)) => out.extend_from_slice(name.as_bytes()),
        None => number_format::unsigned(out, u64::from(number)),
    }
}

/// Kind of the argument of this command.
pub(super) fn command_argument(number: u32) -> CommandArgument {
    COMMANDS.iter().find(|command| command.0 == number).map_or(Bits, |command| command.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[track_caller]
    fn check(machine: &str, flags: u32, expected: &str) {
        assert_eq!(text(|out| open(out, open_flags_of(machine), flags)), expected);
    }

    #[test]
    fn direct_io_bit_depends_on_the_architecture() {
        assert_eq!(direct_flag("x86_64"), 0o40000);
        assert_eq!(direct_flag("aarch64"), 0o200_000);
        assert_eq!(direct_flag(std::env::consts::ARCH), libc::O_DIRECT.cast_unsigned());
    }

    #[test]
    fn open_flags_are_named() {
        check("x86_64", 0, "O_RDONLY");
        check("x86_64", 0o2_000_000, "O_RDONLY|O_CLOEXEC");
        check("x86_64", 0o1101, "O_WRONLY|O_CREAT|O_TRUNC");
        check("x86_64", 3, "O_ACCMODE");
        check("x86_64", 0o4_010_002, "O_RDWR|O_SYNC");
        check("x86_64", 0o10002, "O_RDWR|O_DSYNC");
        check("x86_64", 0o4_000_002, "O_RDWR|0x100000");
        check("x86_64", 0o20_200_002, "O_RDWR|O_TMPFILE");
        check("x86_64", 0o200_000, "O_RDONLY|O_DIRECTORY");
        check("x86_64", 0o20_000_000, "O_RDONLY|0x400000");
        check("x86_64", 0x8000_0000 | 0o2000, "O_RDONLY|O_APPEND|0x80000000");
        check("x86_64", 0o40000, "O_RDONLY|O_DIRECT");
        check("aarch64", 0o40000, "O_RDONLY|O_DIRECTORY");
        check("aarch64", 0o20_040_002, "O_RDWR|O_TMPFILE");
    }

    #[test]
    fn other_flags_are_named() {
        assert_eq!(
            text(|out| bits(out, &CLOSE_RANGE, 6)),
            "CLOSE_RANGE_UNSHARE|CLOSE_RANGE_CLOEXEC"
        );
        assert_eq!(text(|out| bits(out, &CLOSE_RANGE, 9)), "0x9");
        assert_eq!(text(|out| bits(out, &DESCRIPTOR, 0)), "0");
        assert_eq!(text(|out| whence(out, 3)), "SEEK_DATA");
        assert_eq!(text(|out| whence(out, 77)), "77");
        assert_eq!(text(|out| command(out, 1030)), "F_DUPFD_CLOEXEC");
        assert_eq!(text(|out| command(out, 4711)), "4711");
        assert_eq!(command_argument(4711), Bits);
    }

    #[test]
    fn numbers_are_those_of_the_headers() {
        let machine = open_flags_of(std::env::consts::ARCH);
        for (bit, name) in [
            (libc::O_CREAT, "O_CREAT"),
            (libc::O_EXCL, "O_EXCL"),
            (libc::O_NOCTTY, "O_NOCTTY"),
            (libc::O_TRUNC, "O_TRUNC"),
            (libc::O_APPEND, "O_APPEND"),
            (libc::O_NONBLOCK, "O_NONBLOCK"),
            (libc::O_SYNC, "O_SYNC"),
            (libc::O_DSYNC, "O_DSYNC"),
            (libc::O_ASYNC, "O_ASYNC"),
            (libc::O_DIRECT, "O_DIRECT"),
            (libc::O_TMPFILE, "O_TMPFILE"),
            (libc::O_DIRECTORY, "O_DIRECTORY"),
            (libc::O_NOFOLLOW, "O_NOFOLLOW"),
            (libc::O_NOATIME, "O_NOATIME"),
            (libc::O_CLOEXEC, "O_CLOEXEC"),
            (libc::O_PATH, "O_PATH"),
        ] {
            assert!(machine.contains(&(bit.cast_unsigned(), name)), "{name}");
        }
        for (number, name) in [
            (libc::F_DUPFD, "F_DUPFD"),
            (libc::F_GETFD, "F_GETFD"),
            (libc::F_SETFD, "F_SETFD"),
            (libc::F_GETFL, "F_GETFL"),
            (libc::F_SETFL, "F_SETFL"),
            (libc::F_GETLK, "F_GETLK"),
            (libc::F_SETLK, "F_SETLK"),
            (libc::F_SETLKW, "F_SETLKW"),
            (libc::F_SETOWN, "F_SETOWN"),
            (libc::F_GETOWN, "F_GETOWN"),
            (libc::F_OFD_GETLK, "F_OFD_GETLK"),
            (libc::F_OFD_SETLK, "F_OFD_SETLK"),
            (libc::F_OFD_SETLKW, "F_OFD_SETLKW"),
            (libc::F_SETLEASE, "F_SETLEASE"),
            (libc::F_GETLEASE, "F_GETLEASE"),
            (libc::F_NOTIFY, "F_NOTIFY"),
            (libc::F_CANCELLK, "F_CANCELLK"),
            (libc::F_DUPFD_CLOEXEC, "F_DUPFD_CLOEXEC"),
            (libc::F_SETPIPE_SZ, "F_SETPIPE_SZ"),
            (libc::F_GETPIPE_SZ, "F_GETPIPE_SZ"),
            (libc::F_ADD_SEALS, "F_ADD_SEALS"),
            (libc::F_GET_SEALS, "F_GET_SEALS"),
        ] {
            assert_eq!(text(|out| command(out, number.cast_unsigned())), name);
        }
    }
}
