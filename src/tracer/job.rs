//! What is read of a call that has ended: the link of its new descriptor, and what its arguments point to.

use std::os::unix::ffi::OsStringExt;

use nix::errno::Errno;

use super::hold::{Hold, too_late};
use super::memory;
use super::names::Reads;
use super::passed::received;
use crate::capture::fact::{Fact, NameOf};
use crate::event::syscall_table::{CallId, Memory};
use crate::event::{FileStat, SysEnter};
use crate::sys::clock;
use crate::sys::files::stat_behind;
use crate::sys::thread::Whereabouts;
use crate::units::{self, CpuId, KernelTime, Tid};

/// One thing to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadJob {
    /// The process concerned.
    pub pid: Option<units::Pid>,
    pub ended: Ended,
    pub what: What,
}

/// What is to be read.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// What the new descriptor is.
    Link,
    /// What the arguments point to.
    Arguments(SysEnter, Hold),
}

impl ReadJob {
    /// Nothing holds the thread any more.
    pub(super) fn held_by_nothing(&mut self) {
        if let What::Arguments(_, hold) = &mut self.what {
            *hold = Hold::NONE;
        }
    }

    /// True if memory of the process is read for it.
    pub(super) fn reads_memory(&self, reads: Reads) -> bool {
        let What::Arguments(enter, hold) = &self.what else { return false };
        let call = enter.call.call();
        let may_count = *hold != Hold::NONE && !self.wanted(enter, reads).is_empty();
        may_count || call.receives_descriptors() || call.makes_pair()
    }

    /// True if what is read of it counts only while its thread stands still.
    pub(super) fn must_be_in_time(&self, reads: Reads) -> bool {
        let What::Arguments(enter, _) = &self.what else { return false };
        let call = enter.call.call();
        let is_certain_later = call.receives_descriptors() || call.makes_pair();
        !is_certain_later && !self.wanted(enter, reads).is_empty()
    }

    /// Reads it. The facts that come of it.
    pub(super) fn read(&self, reads: Reads, whereabouts: &mut Whereabouts) -> Vec<Fact> {
        match &self.what {
            What::Link => Vec::from_iter(self.ended.link()),
            What::Arguments(enter, hold) => self.arguments(enter, (reads, *hold), whereabouts),
        }
    }

    /// The same without a look, as if the kernel had refused it.
    pub(super) fn refused(&self, reads: Reads, errno: Errno) -> Vec<Fact> {
        let fact =
            |it: &Wanted| self.ended.fact(it.of(), it.address(), clock::now(), Err(errno), None);
        match &self.what {
            What::Link => vec![self.ended.fact(NameOf::Link, 0, clock::now(), Err(errno), None)],
            What::Arguments(enter, _) => self.wanted(enter, reads).iter().map(fact).collect(),
        }
    }

    /// What is to be read for this call.
    fn wanted(&self, enter: &SysEnter, reads: Reads) -> Vec<Wanted> {
        let arguments = Some(enter).filter(|_| reads.arguments);
        let paths = arguments.map(paths).unwrap_or_default().into_iter().flatten();
        let mut wanted: Vec<Wanted> = paths.map(Wanted::Path).collect();
        let call = enter.call.call();
        if reads.exact_args || call.is_list() || call.makes_pair() {
            let memory = call.memory(&enter.args, self.ended.ret);
            wanted.extend(memory.map(|(address, memory)| Wanted::Bytes(address, memory)));
        }
        wanted
    }

    fn arguments(
        &self,
        enter: &SysEnter,
        (reads, hold): (Reads, Hold),
        whereabouts: &mut Whereabouts,
    ) -> Vec<Fact> {
        let (ended, call) = (&self.ended, enter.call.call());
        let wanted = self.wanted(enter, reads);
        let mut facts = Vec::new();
        if hold == Hold::NONE && !call.makes_pair() {
            // What would be read does not count.
            facts.extend(self.refused(reads, Errno::ESTALE));
        } else {
            let read: Vec<Fact> = wanted.into_iter().map(|it| ended.read(it)).collect();
            let stood_still = read.is_empty() || hold.keeps(ended.tid, ended.cpu, whereabouts);
            if call.makes_pair() && !stood_still && ended.ret == 0 {
                facts.extend(read.iter().flat_map(|it| ended.links_of_pair(it)));
            }
            facts.extend(read.into_iter().map(|it| if stood_still { it } else { too_late(it) }));
        }
        if call.receives_descriptors() {
            facts.extend(received(ended.tid, enter, ended.ret));
        }
        facts
    }
}

/// Something in the memory of a process.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Path(u64),
    Bytes(u64, Memory),
}

impl Wanted {
    fn of(&self) -> NameOf {
        match self {
            Self::Path(_) => NameOf::Argument,
            Self::Bytes(..) => NameOf::Memory,
        }
    }

    fn address(&self) -> u64 {
        let (Self::Path(address) | Self::Bytes(address, _)) = self;
        *address
    }
}

/// Where the paths stand that a call is given; one that is the second one, too, is read once.
fn paths(enter: &SysEnter) -> [Option<u64>; 2] {
    let [first, second] = enter.call.call().paths(&enter.args);
    [first, second.filter(|_| second != first)]
}

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub cpu: CpuId,
    pub tid: Tid,
    pub record_time: KernelTime,
    pub call: CallId,
    /// What it returns is a descriptor.
    pub is_open: bool,
    pub ret: i64,
}

impl Ended {
    /// True if it made a descriptor.
    pub(super) fn has_link(&self) -> bool {
        self.is_open && self.ret >= 0
    }

    /// Where its descriptor points and what that is, if it made one.
    fn link(&self) -> Option<Fact> {
        self.has_link().then(|| self.link_of(self.ret, 0))
    }

    /// Where a descriptor points and what it is; `address` as the fact has it.
    fn link_of(&self, fd: i64, address: u64) -> Fact {
        let path = format!("/proc/{}/fd/{fd}", self.tid);
        let begin = clock::now();
        let link = nix::fcntl::readlink(path.as_str()).map(OsStringExt::into_vec);
        let stat = stat_behind(&path);
        self.fact(NameOf::Link, address, begin, link, stat)
    }

    /// What the two descriptors are whose numbers may stand in this memory. The numbers may be others by now; what a
    /// descriptor of such a number is then shows whether they can be those that were made.
    fn links_of_pair(&self, memory: &Fact) -> Vec<Fact> {
        let Fact::Name { of: NameOf::Memory, errno: 0, bytes, .. } = memory else {
            return Vec::new();
        };
        let (numbers, _) = bytes.as_chunks::<4>();
        let numbers = numbers.iter().map(|it| u32::from_le_bytes(*it));
        numbers.map(|it| self.link_of(i64::from(it), u64::from(it))).collect()
    }

    /// What stands in the memory of its process.
    fn read(&self, wanted: Wanted) -> Fact {
        let begin = clock::now();
        let read = match wanted {
            Wanted::Path(pointer) => memory::string_at(self.tid, pointer),
            Wanted::Bytes(address, Memory::Bytes(bytes)) => {
                memory::bytes_at(self.tid, address, bytes)
            }
            Wanted::Bytes(address, Memory::Iocbs(count)) => {
                memory::iocbs_at(self.tid, address, count)
            }
        };
        self.fact(wanted.of(), wanted.address(), begin, read, None)
    }

    fn fact(
        &self,
        of: NameOf,
        address: u64,
        begin: KernelTime,
        read: nix::Result<Vec<u8>>,
        stat: Option<FileStat>,
    ) -> Fact {
        let end = clock::now();
        let Self { cpu, tid, record_time, .. } = *self;
        let (errno, bytes) = match read {
            Ok(bytes) => (0, bytes),
            Err(errno) => (errno as i32, Vec::new()),
        };
        Fact::Name { tid, cpu, record_time, of, begin, end, errno, address, stat, bytes }
    }
}
