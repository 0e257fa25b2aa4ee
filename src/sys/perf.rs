//! `perf_event_open`: tracepoints of one CPU, the event that owns its ring, and their counters.

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys as perf;
use perf_event_open_sys::bindings as abi;

use crate::record::abi::sample_type;
use crate::record::program::x86;
use crate::units::Tid;

/// The fields of every sample: the fewest that order and attribute it. Each more costs the traced program 70 to 150 ns
/// per event.
pub const SAMPLE_TYPE: u64 = sample_type::TID | sample_type::TIME | sample_type::RAW;

/// Which functions the samples of an event tell, those through which the task came there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// The kernel's.
    pub kernel: bool,
    /// The program's.
    pub user: Option<Unwind>,
}

/// How the functions of a program are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unwind {
    #[default]
    /// By the kernel, as far as its frame pointers lead.
    FramePointers,
    /// Later, by what its files say of how to go back (DWARF).
    Dwarf {
        /// So much of its stack is copied, in bytes; a multiple of 8, fewer than 65,528.
        stack_bytes: u32,
    },
}

impl Unwind {
    /// How much of the stack is copied, in bytes.
    pub fn stack_bytes(self) -> u32 {
        match self {
            Self::FramePointers => 0,
            Self::Dwarf { stack_bytes } => stack_bytes,
        }
    }
}

impl Functions {
    /// The `PERF_SAMPLE_*` bits and the mask of registers that they need.
    pub fn sample(self) -> (u64, u64) {
        let chain = sample_type::CALLCHAIN;
        match self.user {
            Some(Unwind::Dwarf { .. }) => {
                (chain | sample_type::REGS_USER | sample_type::STACK_USER, x86::ALL)
            }
            Some(Unwind::FramePointers) | None => (chain, 0),
        }
    }
}

/// Whose hits an event sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Everybody's: for those who may trace the machine.
    Everybody,
    /// Those of this thread, and of all threads and processes that it makes from then on, while they are in user mode: what
    /// anybody may see of what is theirs. (A system call's tracepoint is judged by the registers of the program, so it is seen;
    /// `TRACE_EVENT_FL_CAP_ANY`, `perf_trace_event_perm()` in `kernel/trace/trace_event_perf.c`.)
    Thread(Tid),
}

/// When the reader of a ring is woken by an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Once so many bytes are in the ring.
    Watermark(u32),
    /// By every hit of this event.
    Each,
}

/// What `read(2)` on an event says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Hits after the filter.
    pub hits: u64,
    /// How long it has been on, ns. It ends when its CPU goes offline, and does not come back with it.
    pub on_ns: u64,
    /// Samples of it lost for want of room; `None`: the kernel does not count them (before 6.0).
    pub lost: Option<u64>,
}

/// One open event.
#[derive(Debug)]
pub struct PerfEvent {
    fd: OwnedFd,
    counts_lost: bool,
}

impl PerfEvent {
    /// A tracepoint on one CPU, every hit, switched off.
    ///
    /// # Errors
    ///
    /// Those of `perf_event_open(2)`.
    pub fn tracepoint(id: u16, cpu: u32, wake: Wake, whose: Whose) -> io::Result<Self> {
        Self::open(hits(id, wake), (cpu, whose))
    }

    /// The same, and each hit tells through which functions the task came there.
    ///
    /// # Errors
    ///
    /// Those of `perf_event_open(2)`.
    pub fn chained(id: u16, cpu: u32, wake: Wake, which: Functions) -> io::Result<Self> {
        let mut attr = hits(id, wake);
        let (bits, registers) = which.sample();
        attr.sample_type |= bits;
        attr.sample_regs_user = registers;
        attr.sample_stack_user = which.user.map_or(0, Unwind::stack_bytes);
        attr.set_exclude_callchain_kernel(u64::from(!which.kernel));
        let by_kernel = which.user == Some(Unwind::FramePointers);
        attr.set_exclude_callchain_user(u64::from(!by_kernel));
        Self::open(attr, (cpu, Whose::Everybody))
    }

    /// An event that never fires but owns a ring and writes the births, names and ends of tasks into it; with `code` also which
    /// files' code comes into the memory of processes, with their build ids where the kernel tells those (from Linux 5.12 on).
    ///
    /// # Errors
    ///
    /// Those of `perf_event_open(2)`.
    pub fn tasks(cpu: u32, wake: Wake, code: bool, whose: Whose) -> io::Result<Self> {
        let mut attr = attributes(wake);
        attr.type_ = abi::PERF_TYPE_SOFTWARE;
        attr.config = u64::from(abi::PERF_COUNT_SW_DUMMY);
        attr.set_task(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        let place = (cpu, whose);
        if !code {
            return Self::open(attr, place);
        }
        attr.set_mmap(1);
        attr.set_mmap2(1);
        let mut with_ids = attr;
        with_ids.set_build_id(1);
        match Self::open(with_ids, place) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Self::open(attr, place),
            other => other,
        }
    }

    /// An event that never fires and only owns a ring.
    ///
    /// # Errors
    ///
    /// Those of `perf_event_open(2)`.
    pub fn ring_owner(cpu: u32, wake: Wake, whose: Whose) -> io::Result<Self> {
        let mut attr = attributes(wake);
        attr.type_ = abi::PERF_TYPE_SOFTWARE;
        attr.config = u64::from(abi::PERF_COUNT_SW_DUMMY);
        Self::open(attr, (cpu, whose))
    }

    fn open(mut attr: abi::perf_event_attr, (cpu, whose): (u32, Whose)) -> io::Result<Self> {
        if whose != Whose::Everybody {
            attr.set_inherit(1);
            attr.set_exclude_kernel(1);
            attr.set_exclude_hv(1);
        }
        let time = u64::from(abi::PERF_FORMAT_TOTAL_TIME_ENABLED);
        attr.read_format = time | u64::from(abi::PERF_FORMAT_LOST);
        match Self::open_as_is(&mut attr, cpu, whose) {
            // Before 6.0 there is no such bit.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                attr.read_format = time;
                Self::open_as_is(&mut attr, cpu, whose)
            }
            other => other,
        }
    }

    fn open_as_is(attr: &mut abi::perf_event_attr, cpu: u32, whose: Whose) -> io::Result<Self> {
        let pid = match whose {
            Whose::Everybody => -1,
            Whose::Thread(tid) => tid.0,
        };
        let cpu = i32::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = libc::c_ulong::from(abi::PERF_FLAG_FD_CLOEXEC);
        // SAFETY: `attr` is a whole, initialised attr of the size it names, alive over the call; the kernel only
        // writes its size back.
        let fd = unsafe { perf::perf_event_open(attr, pid, cpu, -1, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor for us; nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let counts_lost = attr.read_format & u64::from(abi::PERF_FORMAT_LOST) != 0;
        Ok(Self { fd, counts_lost })
    }

    /// Keeps hits that do not match out of the ring (filter language: `Documentation/trace/events.rst`).
    ///
    /// # Errors
    ///
    /// `EINVAL` for a filter that the kernel does not understand or that is too long.
    pub fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        // SAFETY: the string ends with NUL and lives over the call; the kernel copies it and does not write to it.
        let code =
            unsafe { perf::ioctls::SET_FILTER(self.fd.as_raw_fd(), filter.as_ptr().cast_mut()) };
        check(code)
    }

    /// Sends this event's samples into the ring of `owner`, which is on the same CPU.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the two do not share CPU and clock.
    pub fn redirect(&self, owner: &Self) -> io::Result<()> {
        // SAFETY: both descriptors are open events; the call changes nothing in our memory.
        check(unsafe { perf::ioctls::SET_OUTPUT(self.fd.as_raw_fd(), owner.fd.as_raw_fd()) })
    }

    /// Switches the event on.
    ///
    /// # Errors
    ///
    /// Those of `ioctl(2)`.
    pub fn enable(&self) -> io::Result<()> {
        // SAFETY: an open event; the call changes nothing in our memory.
        check(unsafe { perf::ioctls::ENABLE(self.fd.as_raw_fd(), 0) })
    }

    /// Switches the event off.
    ///
    /// # Errors
    ///
    /// Those of `ioctl(2)`.
    pub fn disable(&self) -> io::Result<()> {
        // SAFETY: an open event; the call changes nothing in our memory.
        check(unsafe { perf::ioctls::DISABLE(self.fd.as_raw_fd(), 0) })
    }

    /// Its counters now.
    ///
    /// # Errors
    ///
    /// Those of `read(2)`.
    pub fn counters(&self) -> io::Result<Counters> {
        let mut bytes = [0; 24];
        let wanted = if self.counts_lost { 24 } else { 16 };
        let mut file = std::fs::File::from(self.fd.try_clone()?);
        file.read_exact(bytes.get_mut(..wanted).unwrap_or_default())?;
        let word = |at: usize| {
            bytes.get(at..at + 8).and_then(|it| it.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let lost = self.counts_lost.then(|| word(16));
        Ok(Counters { hits: word(0), on_ns: word(8), lost })
    }
}

impl AsFd for PerfEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Every hit of a tracepoint.
fn hits(id: u16, wake: Wake) -> abi::perf_event_attr {
    let mut attr = attributes(wake);
    attr.type_ = abi::PERF_TYPE_TRACEPOINT;
    attr.config = u64::from(id);
    attr.__bindgen_anon_1.sample_period = 1;
    attr
}

/// What all our events have in common.
fn attributes(wake: Wake) -> abi::perf_event_attr {
    let mut attr = abi::perf_event_attr {
        size: u32::try_from(size_of::<abi::perf_event_attr>()).unwrap_or_default(),
        sample_type: SAMPLE_TYPE,
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attr.set_disabled(1);
    attr.set_use_clockid(1);
    attr.set_sample_id_all(1);
    match wake {
        Wake::Watermark(bytes) => {
            attr.set_watermark(1);
            attr.__bindgen_anon_2.wakeup_watermark = bytes;
        }
        Wake::Each => attr.__bindgen_anon_2.wakeup_events = 1,
    }
    attr
}

fn check(code: i32) -> io::Result<()> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits until no CPU is inside a hit any more that began before: events that were switched off may still be writing one, which
/// has been counted and is not in its ring. (A hit is counted, then written, with interrupts on and without preemption:
/// `perf_swevent_event()` in `kernel/events/core.c`; the interrupt that switches its event off may come in between, and a virtual CPU may be taken away
/// there for long.)
pub fn wait_for_hits() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: three numbers; changes no memory. It waits as `synchronize_rcu()` does, for all that runs without preemption. Where there
    // is no such call, what is late is counted as missing, as before.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
}
