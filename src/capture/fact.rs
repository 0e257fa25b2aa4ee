//! Facts that cannot be obtained later, as the log keeps them.
//!
//! A FACTS frame is a sequence of facts: `u16` kind, `u32` length, and this many bytes. A reader
//! skips kinds that it does not know, and bytes after those that it knows. All integers are
//! little-endian, and times are nanoseconds of the capture's clock. In the table, `bytes` is a
//! `u32` length and this many bytes, and `stat` is `u32` mode (`st_mode`, 0 = unknown), `u32`
//! device (major in the upper 12 bits), `u64` inode, `u64` size.
//!
//! ```text
//! | kind | name | bytes |
//! | 1 | NAME, whole | as 5, but the name is all bytes |
//! | 2 | TASK | `u64` time, `i32` pid, `i32` tid, `i32` ppid, bytes comm |
//! | 3 | FD | `u64` begin, `u64` end, `i32` pid, `i32` fd, `u32` flags, `u64` position, |
//! |   |    | `u8` shared, stat, bytes link |
//! | 4 | TEXT | `u64` time, `u16` which, `i32` pid or 0, bytes text |
//! | 5 | NAME | `i32` tid, `u32` CPU, `u64` record time, `u8` what, `u64` read begin, |
//! |   |      | `u64` read end, `i32` errno (0 = read), stat, name, `u64` address |
//! | 6 | OPENED | `i32` tid, `u64` since, `u64` until, `u64` read end, `i32` errno, stat, |
//! |   |        | bytes name |
//! | 7 | SYMBOL | `i32` pid (0: the kernel's), `u64` address, `u64` since, bytes name, |
//! |   |        | `u64` offset, bytes module, `u64` place, bytes build id |
//! | 8 | USER | `u64` time, `i32` pid, `u32` user |
//! | 9 | STACK | `u32` number, `i32` pid, `u8` ending, `u8` guessed, bytes addresses (`u64` each) |
//! | 10 | UNWOUND | for each sample: `u64` time, `i32` tid, `u32` number of the STACK |
//! ```
//!
//! - FD: flags are those of `/proc/PID/fdinfo`. Shared is 1 if another descriptor has, or may have,
//!   the same open file.
//! - TEXT: for which see [`Text`].
//! - NAME: what is 0 for an argument string, 1 for the target of `/proc/PID/fd/N`, 2 for the bytes
//!   to which another argument points. The address is that of the bytes that were read; 0 for a
//!   link.
//! - OPENED: tid is -1 if events of this time are missing. Errno is 0 if the name was read; `EXDEV`
//!   if the file may be another one, opened by a file system; for missing events the reason.
//! - STACK: for ending see [`StackEnd`].
//! - UNWOUND: the samples fill the fact.
//!
//! A name is `u16` front, `u16` back, bytes. It consists of the first `front` bytes of the previous
//! link in the frame (of the last NAME of a link; none for the first), these bytes, and the last
//! `back` bytes of that link. The reason: files are opened directory by directory, and a link ends
//! with the argument.

use super::format::Cursor;
pub use super::symbol::Symbol;
pub use super::user_stack::{StackEnd, UnwoundHit, UnwoundStack, UserStack};
use crate::event::FileStat;
use crate::units::{CpuId, DevId, Fd, KernelTime, Pid, Tid};

/// Source of the name in a NAME fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameOf {
    /// String to which the path argument pointed.
    Argument,
    /// Target of `/proc/PID/fd/N` of the returned descriptor.
    Link,
    /// Bytes to which another argument pointed.
    Memory,
}

/// One fact of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Name that was read for the record of this thread at this time.
    Name {
        /// Thread that opened the file.
        tid: Tid,
        /// CPU of its record.
        cpu: CpuId,
        /// Time of the record (a `sys_exit`) to which the read belongs; joined by equality.
        record_time: KernelTime,
        /// Source of the name.
        of: NameOf,
        /// Clock before the read.
        begin: KernelTime,
        /// Clock after the read.
        end: KernelTime,
        /// 0, or the errno of the failed read; `ESTALE` if the thread may have continued before it.
        errno: i32,
        /// Address of the argument in the program's memory (for an argument).
        address: u64,
        /// Status of the descriptor's file (for a link).
        stat: Option<FileStat>,
        /// Bytes of the name.
        bytes: Vec<u8>,
    },
    /// Task that existed at the time of the snapshot.
    Task {
        /// Time when it was read.
        time: KernelTime,
        /// Process of the task.
        pid: Pid,
        /// Thread of the task.
        tid: Tid,
        /// Parent of the process.
        ppid: Pid,
        /// Name of the task.
        comm: Vec<u8>,
    },
    /// Descriptor that was open at the time of the snapshot.
    Fd {
        /// Clock before its position was read.
        begin: KernelTime,
        /// Clock after its position was read.
        end: KernelTime,
        /// Process of the descriptor.
        pid: Pid,
        /// Descriptor number.
        fd: Fd,
        /// `O_*` flags, `O_CLOEXEC` included.
        flags: u32,
        /// File position, in bytes.
        position: u64,
        /// True if another descriptor, of any process, has the same open file, or may have.
        shared: bool,
        /// Status of its file.
        stat: Option<FileStat>,
        /// Target of `/proc/PID/fd/N`.
        link: Vec<u8>,
    },
    /// Report of fanotify: a thread opened a file or a directory.
    Opened {
        /// Thread; -1 if the kernel did not report all opens of this time, or not readably.
        tid: Tid,
        /// Time after which the file was opened.
        since: KernelTime,
        /// Time before which the file was opened.
        until: KernelTime,
        /// Clock after its name was read.
        end: KernelTime,
        /// 0; `EXDEV` if it was opened through a mount that its thread may not have; or the reason
        /// why there is no name.
        errno: i32,
        /// Status of the file.
        stat: Option<FileStat>,
        /// Name as `/proc/PID/fd` shows it.
        bytes: Vec<u8>,
    },
    /// Function of an address in a call chain, found at the end from files and the kernel as they
    /// were then.
    Symbol(Box<Symbol>),
    /// Unwound stack: the functions of its program through which a thread reached some samples.
    Stack(Box<UserStack>),
    /// Samples and the numbers of their unwound stacks.
    Unwound(Vec<UnwoundHit>),
    /// User of a process at the time of a snapshot: the real user of `/proc/PID/status`.
    User {
        /// Time when it was read.
        time: KernelTime,
        /// Process of that user.
        pid: Pid,
        /// Number of the user.
        user: u32,
    },
    /// Text of the kernel, kept whole.
    Text {
        /// Time when it was read.
        time: KernelTime,
        /// Kind of the text.
        which: Text,
        /// Process of the text, or 0.
        pid: Pid,
        /// Bytes of the text.
        text: Vec<u8>,
    },
}

/// Kind of a [`Fact::Text`]; an open set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Text(pub u16);

impl Fact {
    /// Returns the memory that it uses besides itself, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Name { bytes, .. } | Self::Opened { bytes, .. } => bytes.capacity(),
            Self::Task { comm, .. } => comm.capacity(),
            Self::Fd { link, .. } => link.capacity(),
            Self::Text { text, .. } => text.capacity(),
            Self::Symbol(it) => size_of_val(&**it),
            Self::Stack(it) => size_of_val(&**it),
            Self::Unwound(it) => size_of_val(it.as_slice()),
            Self::User { .. } => 0,
        }
    }
}

impl Text {
    /// Content of `/proc/self/mountinfo`.
    pub const MOUNTINFO: Self = Self(1);
    /// Content of `/proc/diskstats` at the start.
    pub const DISKSTATS_START: Self = Self(2);
    /// Content of `/proc/diskstats` at the end.
    pub const DISKSTATS_END: Self = Self(3);
    /// Content of `/proc/PID/io` of the launched program, after its end and before the wait for it.
    pub const PROCESS_IO: Self = Self(4);
    /// Target of `/proc/PID/cwd` at the start.
    pub const CWD: Self = Self(5);
    /// Target of `/proc/PID/root` at the start.
    pub const ROOT: Self = Self(6);
    /// Target of `/proc/PID/exe` at the start.
    pub const EXE: Self = Self(7);
    /// End of the snapshot: the text is empty, and its time is the information.
    pub const SNAPSHOT_OVER: Self = Self(8);
    /// Bits of an address of the program that a process ran at the start, in decimal; only if they
    /// are not those of the kernel.
    pub const BITS: Self = Self(9);
    /// Content of `/proc/PID/maps`; its time is that before it was read.
    pub const MAPS: Self = Self(10);
    /// Devices with mounted file systems: a line `MAJOR:MINOR BYTES` for each. BYTES is the size of
    /// the blocks in which the events of its file system count, or `-`.
    pub const BLOCKS: Self = Self(11);
    /// Target of `/proc/PID/ns/mnt` at the start, `mnt:[INODE]`; for process 0 the tracer's own.
    pub const MOUNTS: Self = Self(12);
    /// Extents of a file at the end, as its file system reports them (`FS_IOC_FIEMAP`):
    /// `MAJOR:MINOR INODE`, then a line `OFFSET ADDRESS LENGTH` for each extent, in bytes.
    pub const EXTENTS: Self = Self(13);
    /// Time from which events are switched off, one ring after the other: the text is empty, and
    /// its time is the information.
    pub const SWITCHING_OFF: Self = Self(14);
    /// Kernel's reads to start a program, found from its file at the end: a line with the time of
    /// the last change of the files involved (ns of the wall clock), a line with the length of each
    /// read, and the path.
    pub const PROGRAM: Self = Self(15);
    /// Extents of files that file systems reported earlier, in records that are not in the log: a
    /// line `MAJOR:MINOR INODE` (file), `MAJOR:MINOR` (device), `blocks` or `bytes`, `OFFSET LENGTH
    /// ADDRESS` in this unit, and 1 if other files may share the extent, else 0.
    pub const PLACES: Self = Self(16);
    /// Content of `/proc/PID/cmdline`, at most 4096 bytes.
    pub const COMMAND: Self = Self(17);
    /// Content of `/proc/PID/cgroup`, at most 4096 bytes.
    pub const CGROUP: Self = Self(18);
    /// Target of `/proc/PID/exe`, read with the two others.
    pub const EXECUTABLE: Self = Self(19);
    /// Begin of a segment, whose snapshot follows: the numbers of the followed processes, with a
    /// space between two; empty for the whole machine.
    pub const SEGMENT: Self = Self(20);
}

/// Size at which a frame of facts is closed, in bytes.
const FULL_BYTES: usize = 4 << 20;

/// Maximum bytes of all names of a frame together, whole: a reader takes no more, whatever a
/// damaged file claims.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// Maximum bytes that a name takes from another one: a path has at most 4 KiB (`PATH_MAX`), a
/// vector 16.
const NAME_BYTES_MAX: usize = 32 << 10;

/// Kind number of a NAME.
pub(super) const NAME: u16 = 5;

/// Offsets of the times in a NAME: the record's, the beginning and the end of the read.
pub(super) const NAME_TIMES: [usize; 3] = [HEAD_BYTES + 8, HEAD_BYTES + 17, HEAD_BYTES + 25];

/// Bytes of kind and length, before the body.
const HEAD_BYTES: usize = 6;

mod kind {
    pub(super) const WHOLE_NAME: u16 = 1;
    pub(super) const TASK: u16 = 2;
    pub(super) const FD: u16 = 3;
    pub(super) const TEXT: u16 = 4;
    pub(super) const OPENED: u16 = 6;
    pub(super) const SYMBOL: u16 = 7;
    pub(super) const USER: u16 = 8;
    pub(super) const STACK: u16 = 9;
    pub(super) const UNWOUND: u16 = 10;
}

/// Facts of a frame that is being built.
#[derive(Debug, Default)]
pub struct FactsFrame {
    /// Encoded facts, as in the table above.
    pub bytes: Vec<u8>,
    /// Number of facts.
    pub count: u32,
    /// Last name of a link.
    link: Vec<u8>,
    /// Bytes of all names, whole.
    names: usize,
}

impl FactsFrame {
    /// Adds a fact.
    pub fn push(&mut self, fact: &Fact) {
        fact.encode(&mut self.bytes, &self.link);
        self.count += 1;
        if let Fact::Name { of, bytes, .. } = fact {
            self.names += bytes.len();
            if *of == NameOf::Link {
                self.link.clone_from(bytes);
            }
        }
    }

    /// Returns true if the frame has reached its intended size.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= FULL_BYTES || self.names >= NAMES_BYTES_MAX / 2
    }
}

impl Fact {
    fn encode(&self, out: &mut Vec<u8>, link: &[u8]) {
        let mut body = FactBody(Vec::with_capacity(64));
        let kind = match self {
            Self::Name { tid, cpu, record_time, of, begin, end, errno, address, stat, bytes } => {
                let of = match of {
                    NameOf::Argument => 0,
                    NameOf::Link => 1,
                    NameOf::Memory => 2,
                };
                body.i32(tid.0)
                    .u32(cpu.0)
                    .time(*record_time)
                    .u8(of)
                    .time(*begin)
                    .time(*end)
                    .i32(*errno);
                body.stat(stat.as_ref()).name(bytes, link).u64(*address);
                NAME
            }
            Self::Task { time, pid, tid, ppid, comm } => {
                body.time(*time).i32(pid.0).i32(tid.0).i32(ppid.0).bytes(comm);
                kind::TASK
            }
            Self::Fd { begin, end, pid, fd, flags, position, shared, stat, link } => {
                body.time(*begin).time(*end).i32(pid.0).i32(fd.0).u32(*flags).u64(*position);
                body.u8(u8::from(*shared)).stat(stat.as_ref()).bytes(link);
                kind::FD
            }
            Self::Opened { tid, since, until, end, errno, stat, bytes } => {
                body.i32(tid.0).time(*since).time(*until).time(*end).i32(*errno);
                body.stat(stat.as_ref()).bytes(bytes);
                kind::OPENED
            }
            Self::Symbol(it) => {
                body.i32(it.pid.0).u64(it.address).time(it.since).bytes(&it.name).u64(it.offset);
                body.bytes(&it.module).u64(it.place).bytes(&it.build_id);
                kind::SYMBOL
            }
            Self::Stack(it) => {
                let UserStack { number, pid, way } = it.as_ref();
                let addresses = way.addresses.iter().flat_map(|it| it.to_le_bytes());
                body.u32(*number).i32(pid.0);
                body.u8(way.ending.number())
                    .u8(u8::from(way.is_guessed))
                    .bytes(&addresses.collect::<Vec<u8>>());
                kind::STACK
            }
            Self::Unwound(hits) => {
                for UnwoundHit { time, tid, stack } in hits {
                    body.time(*time).i32(tid.0).u32(*stack);
                }
                kind::UNWOUND
            }
            Self::User { time, pid, user } => {
                body.time(*time).i32(pid.0).u32(*user);
                kind::USER
            }
            Self::Text { time, which, pid, text } => {
                body.time(*time).u16(which.0).i32(pid.0).bytes(text);
                kind::TEXT
            }
        };
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&length_u32(&body.0).to_le_bytes());
        out.extend_from_slice(&body.0);
    }

    fn decode(kind: u16, body: &[u8], link: &[u8]) -> Option<Self> {
        let mut body = Cursor(body);
        Some(match kind {
            NAME => name(&mut body, Some(link))?,
            kind::WHOLE_NAME => name(&mut body, None)?,
            kind::TASK => Self::Task {
                time: KernelTime(body.u64()?),
                pid: Pid(body.i32()?),
                tid: Tid(body.i32()?),
                ppid: Pid(body.i32()?),
                comm: body.bytes()?.to_vec(),
            },
            kind::FD => Self::Fd {
                begin: KernelTime(body.u64()?),
                end: KernelTime(body.u64()?),
                pid: Pid(body.i32()?),
                fd: Fd(body.i32()?),
                flags: body.u32()?,
                position: body.u64()?,
                shared: body.u8()? != 0,
                stat: body.stat()?,
                link: body.bytes()?.to_vec(),
            },
            kind::OPENED => Self::Opened {
                tid: Tid(body.i32()?),
                since: KernelTime(body.u64()?),
                until: KernelTime(body.u64()?),
                end: KernelTime(body.u64()?),
                errno: body.i32()?,
                stat: body.stat()?,
                bytes: body.bytes()?.to_vec(),
            },
            kind::SYMBOL => Self::Symbol(Box::new(Symbol {
                pid: Pid(body.i32()?),
                address: body.u64()?,
                since: KernelTime(body.u64()?),
                name: body.bytes()?.to_vec(),
                offset: body.u64()?,
                module: body.bytes()?.to_vec(),
                place: body.u64()?,
                build_id: body.bytes()?.to_vec(),
            })),
            kind::STACK => Self::Stack(Box::new(stack(&mut body)?)),
            kind::UNWOUND => Self::Unwound(unwound(&mut body)?),
            kind::USER => Self::User {
                time: KernelTime(body.u64()?),
                pid: Pid(body.i32()?),
                user: body.u32()?,
            },
            kind::TEXT => Self::Text {
                time: KernelTime(body.u64()?),
                which: Text(body.u16()?),
                pid: Pid(body.i32()?),
                text: body.bytes()?.to_vec(),
            },
            _ => return None,
        })
    }
}

/// Returns kind and length of the fact that begins here, its head included.
pub(super) fn head(bytes: &[u8]) -> Option<(u16, usize)> {
    let mut head = Cursor(bytes);
    let kind = head.u16()?;
    Some((kind, usize::try_from(head.u32()?).ok()?.checked_add(HEAD_BYTES)?))
}

/// Returns the facts of a FACTS frame, without those of kinds that this version does not know.
pub fn facts(payload: &[u8]) -> impl Iterator<Item = Fact> {
    let mut rest = Cursor(payload);
    let mut link = Vec::new();
    let mut names = 0;
    std::iter::from_fn(move || {
        loop {
            let kind = rest.u16()?;
            let body = rest.bytes()?;
            if let Some(fact) = Fact::decode(kind, body, &link) {
                if let Fact::Name { of, bytes, .. } = &fact {
                    names += bytes.len();
                    if names > NAMES_BYTES_MAX {
                        return None;
                    }
                    if *of == NameOf::Link {
                        link.clone_from(bytes);
                    }
                }
                return Some(fact);
            }
        }
    })
}

impl Cursor<'_> {
    /// Reads a name that shares parts of this link; without a link, a whole name.
    fn name(&mut self, link: Option<&[u8]>) -> Option<Vec<u8>> {
        let Some(link) = link else { return Some(self.bytes()?.to_vec()) };
        let (front, back) = (usize::from(self.u16()?), usize::from(self.u16()?));
        if front + back > NAME_BYTES_MAX {
            return None;
        }
        let back = link.len().checked_sub(back)?;
        Some([link.get(..front)?, self.bytes()?, link.get(back..)?].concat())
    }

    /// Reads a `stat`; `Some(None)` if it is there but nothing is known.
    fn stat(&mut self) -> Option<Option<FileStat>> {
        let stat = FileStat {
            mode: self.u32()?,
            dev: DevId(self.u32()?),
            ino: self.u64()?,
            size: self.u64()?,
        };
        Some((stat.mode != 0).then_some(stat))
    }
}

/// Reads a [`Fact::Name`]; `link` is the previous link, if the name is encoded relative to it.
fn name(body: &mut Cursor<'_>, link: Option<&[u8]>) -> Option<Fact> {
    Some(Fact::Name {
        tid: Tid(body.i32()?),
        cpu: CpuId(body.u32()?),
        record_time: KernelTime(body.u64()?),
        of: match body.u8()? {
            0 => NameOf::Argument,
            1 => NameOf::Link,
            2 => NameOf::Memory,
            _ => return None,
        },
        begin: KernelTime(body.u64()?),
        end: KernelTime(body.u64()?),
        errno: body.i32()?,
        stat: body.stat()?,
        bytes: body.name(link)?,
        address: body.u64()?,
    })
}

fn stack(body: &mut Cursor<'_>) -> Option<UserStack> {
    let (number, pid) = (body.u32()?, Pid(body.i32()?));
    let ending = StackEnd::of(body.u8()?)?;
    let is_guessed = body.u8()? != 0;
    let (addresses, _) = body.bytes()?.as_chunks::<8>();
    let addresses = addresses.iter().map(|it| u64::from_le_bytes(*it)).collect();
    Some(UserStack { number, pid, way: UnwoundStack { addresses, ending, is_guessed } })
}

fn unwound(body: &mut Cursor<'_>) -> Option<Vec<UnwoundHit>> {
    let mut hits = Vec::new();
    while !body.0.is_empty() {
        let (time, tid) = (KernelTime(body.u64()?), Tid(body.i32()?));
        hits.push(UnwoundHit { time, tid, stack: body.u32()? });
    }
    Some(hits)
}

/// Body of a fact that is being built.
struct FactBody(Vec<u8>);

impl FactBody {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u8(&mut self, value: u8) -> &mut Self {
        self.put(&[value])
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    fn i32(&mut self, value: i32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    fn time(&mut self, time: KernelTime) -> &mut Self {
        self.u64(time.0)
    }

    fn stat(&mut self, stat: Option<&FileStat>) -> &mut Self {
        let stat = stat.copied().unwrap_or(FileStat { mode: 0, dev: DevId(0), ino: 0, size: 0 });
        self.u32(stat.mode).u32(stat.dev.0).u64(stat.ino).u64(stat.size)
    }

    fn name(&mut self, name: &[u8], link: &[u8]) -> &mut Self {
        let same = |(a, b): &(&u8, &u8)| a == b;
        let front = name.iter().zip(link).take(NAME_BYTES_MAX / 2).take_while(same).count();
        let rest = name.get(front..).unwrap_or_default();
        let pairs = rest.iter().rev().zip(link.iter().rev());
        let back = pairs.take(NAME_BYTES_MAX / 2).take_while(same).count();
        let own = rest.get(..rest.len() - back).unwrap_or_default();
        self.u16(length_u16(front)).u16(length_u16(back)).bytes(own)
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(length_u32(bytes)).put(bytes)
    }
}

/// Returns the length. Names and `/proc` texts have at most a few MiB: these limits are the
/// kernel's.
fn length_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a fact is shorter than 4 GiB")
}

fn length_u16(shared: usize) -> u16 {
    u16::try_from(shared).expect("at most half of NAME_BYTES_MAX")
}

#[cfg(test)]
#[path = "fact_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "document_tests.rs"]
mod document;
