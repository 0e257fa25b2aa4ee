//! `perf_event_open`: tracepoints of one CPU, the event that owns its ring, and their counters.

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use perf_event_open_sys as perf;
use perf_event_open_sys::bindings as abi;

use crate::record::abi::sample_type;
use crate::record::program::x86;
use crate::units::Tid;

/// Fields of every sample: the fewest with which samples can be ordered and attributed. Each
/// further field costs the traced program 70 to 150 ns per event.
pub const SAMPLE_TYPE: u64 = sample_type::TID | sample_type::TIME | sample_type::RAW;

/// Functions in the call chains of an event's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// True for functions of the kernel.
    pub kernel: bool,
    /// Unwinding of the program's functions, if they are wanted.
    pub user: Option<Unwind>,
}

/// Method by which a program's stack is unwound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unwind {
    #[default]
    /// The kernel unwinds it, as far as frame pointers lead.
    FramePointers,
    /// The stack is copied and unwound later, by the unwind tables of the program's files (DWARF).
    Dwarf {
        /// Bytes of the stack that are copied: a multiple of 8, less than 65,528.
        stack_bytes: u32,
    },
}

/// Limit on the addresses of a call chain of perf: `kernel.perf_event_max_stack`, which is 127
/// (`PERF_MAX_STACK_DEPTH`) unless an administrator has changed it.
pub fn chain_frames_max() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_stack").unwrap_or_default();
    text.trim().parse().unwrap_or(127)
}

impl Unwind {
    /// Bytes of the stack that are copied.
    pub fn stack_bytes(self) -> u32 {
        match self {
            Self::FramePointers => 0,
            Self::Dwarf { stack_bytes } => stack_bytes,
        }
    }
}

impl Functions {
    /// Returns the `PERF_SAMPLE_*` bits and the mask of registers that the call chains need.
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

/// Target of an event: the processes whose samples it records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfTarget {
    /// All processes: for users who may trace the machine.
    AllProcesses,
    /// One thread, and all threads and processes that it starts from then on, while they are in
    /// user mode. An unprivileged user may trace that much of the user's own processes. (A system
    /// call's tracepoint is checked by the registers of the program, so it is recorded;
    /// `TRACE_EVENT_FL_CAP_ANY`, `perf_trace_event_perm()` in `kernel/trace/trace_event_perf.c`.)
    Thread(Tid),
    /// One thread, and all threads of its process that it starts from then on. Kernels before 5.13
    /// record the processes that it starts, too.
    ThreadsOf(Tid),
}

impl PerfTarget {
    /// Returns the number of the thread as `perf_event_open(2)` takes it; -1: all.
    pub fn number(self) -> i32 {
        match self {
            Self::AllProcesses => -1,
            Self::Thread(tid) | Self::ThreadsOf(tid) => tid.0,
        }
    }
}

/// Condition under which an event wakes the reader of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The ring has this number of bytes.
    Watermark(u32),
    /// Every sample of this event.
    Each,
}

/// Counters of an event, as `read(2)` returns them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events that passed the filter; the ring may have fewer samples.
    pub hits: u64,
    /// Time during which the event was enabled, ns. An event ends when its CPU goes offline, and
    /// does not come back with it.
    pub on_ns: u64,
    /// Samples that were lost because the ring was full; `None`: the kernel does not count them
    /// (before 6.0).
    pub lost: Option<u64>,
}

/// One open event.
#[derive(Debug)]
pub struct PerfEvent {
    fd: OwnedFd,
    counts_lost: bool,
}

impl PerfEvent {
    /// Opens a tracepoint on one CPU with every sample, switched off.
    ///
    /// # Errors
    ///
    /// Those of `perf_event_open(2)`.
    pub fn tracepoint(id: u16, cpu: u32, wake: Wake, whose: PerfTarget) -> io::Result<Self> {
        Self::open(hits(id, wake), cpu, whose)
    }

    /// Opens a tracepoint on one CPU with every sample, switched off, and their call chains.
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
        Self::open(attr, cpu, PerfTarget::AllProcesses)
    }

    /// Opens an event that never fires, but owns a ring, and writes the starts, names and ends of
    /// tasks into it. With `code` it also writes the files that processes map as code, with their
    /// build ids where the kernel has those (from Linux 5.12 on).
    ///
    /// # Errors
    ///
    /// Those of `perf_event_open(2)`.
    pub fn tasks(cpu: u32, wake: Wake, code: bool, whose: PerfTarget) -> io::Result<Self> {
        let mut attr = attributes(wake);
        attr.type_ = abi::PERF_TYPE_SOFTWARE;
        attr.config = u64::from(abi::PERF_COUNT_SW_DUMMY);
        attr.set_task(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        if !code {
            return Self::open(attr, cpu, whose);
        }
        attr.set_mmap(1);
        attr.set_mmap2(1);
        let mut with_ids = attr;
        with_ids.set_build_id(1);
        match Self::open(with_ids, cpu, whose) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                Self::open(attr, cpu, whose)
            }
            other => other,
        }
    }

    /// Opens an event that never fires and only owns a ring.
    ///
    /// # Errors
    ///
    /// Those of `perf_event_open(2)`.
    pub fn ring_owner(cpu: u32, wake: Wake, whose: PerfTarget) -> io::Result<Self> {
        let mut attr = attributes(wake);
        attr.type_ = abi::PERF_TYPE_SOFTWARE;
        attr.config = u64::from(abi::PERF_COUNT_SW_DUMMY);
        Self::open(attr, cpu, whose)
    }

    fn open(mut attr: abi::perf_event_attr, cpu: u32, whose: PerfTarget) -> io::Result<Self> {
        if whose != PerfTarget::AllProcesses {
            attr.set_inherit(1);
            attr.set_inherit_thread(u64::from(matches!(whose, PerfTarget::ThreadsOf(_))));
            attr.set_exclude_kernel(1);
            attr.set_exclude_hv(1);
        }
        let time = u64::from(abi::PERF_FORMAT_TOTAL_TIME_ENABLED);
        attr.read_format = time | u64::from(abi::PERF_FORMAT_LOST);
        // Before 6.0 there is no such bit.
        let with_time = |attr: &mut abi::perf_event_attr| attr.read_format = time;
        let with_children = |attr: &mut abi::perf_event_attr| attr.set_inherit_thread(0);
        let fallbacks: [&dyn Fn(&mut abi::perf_event_attr); 2] = [&with_time, &with_children];
        let mut opened = Self::open_as_is(&mut attr, cpu, whose);
        for fall_back in fallbacks {
            let is_unknown = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
            if !opened.as_ref().is_err_and(is_unknown) {
                break;
            }
            fall_back(&mut attr);
            opened = Self::open_as_is(&mut attr, cpu, whose);
        }
        opened
    }

    fn open_as_is(
        attr: &mut abi::perf_event_attr,
        cpu: u32,
        whose: PerfTarget,
    ) -> io::Result<Self> {
        let pid = whose.number();
        let cpu = i32::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = libc::c_ulong::from(abi::PERF_FLAG_FD_CLOEXEC);
        // SAFETY: `attr` is a complete, initialised attr of the size in it, and outlives the call;
        // the kernel only writes its size back.
        let fd = unsafe { perf::perf_event_open(attr, pid, cpu, -1, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created this descriptor for us; no other code has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let counts_lost = attr.read_format & u64::from(abi::PERF_FORMAT_LOST) != 0;
        Ok(Self { fd, counts_lost })
    }

    /// Keeps samples that do not match out of the ring (filter language:
    /// `Documentation/trace/events.rst`).
    ///
    /// # Errors
    ///
    /// `EINVAL` for a filter that the kernel cannot parse or that is too long.
    pub fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        // SAFETY: the string ends with NUL and outlives the call; the kernel copies it and does not
        // write to it.
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

    /// Reads its counters.
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

/// True if the text of a link in `/proc/PID/fd` is that of a perf event (`anon_inode_getfile()`).
pub fn is_event(file: &Path) -> bool {
    file.as_os_str() == "anon_inode:[perf_event]"
}

/// Attributes of a tracepoint's event with every sample.
fn hits(id: u16, wake: Wake) -> abi::perf_event_attr {
    let mut attr = attributes(wake);
    attr.type_ = abi::PERF_TYPE_TRACEPOINT;
    attr.config = u64::from(id);
    attr.__bindgen_anon_1.sample_period = 1;
    attr
}

/// Attributes that all our events have in common.
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

/// Waits until no CPU is writing a sample that it began before this call. An event that was
/// switched off may still be writing a sample, which has been counted and is not in its ring. (A
/// sample is counted, then written, with interrupts on and without preemption:
/// `perf_swevent_event()` in `kernel/events/core.c`. The interrupt that switches its event off may
/// come in between, and a hypervisor may deschedule the virtual CPU there for long.)
pub fn wait_for_hits() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: three numbers; the call changes no memory. It waits as `synchronize_rcu()` does, for
    // all code that runs without preemption. Without the call, late samples are counted as missing.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
}
