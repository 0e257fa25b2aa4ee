//! A call that has ended, and the reads that the names readers make for it.

use std::os::unix::ffi::OsStringExt;

use super::target_memory;
use crate::capture::fact::{Fact, NameOf};
use crate::event::FileStat;
use crate::event::syscall_table::{ArgumentMemory, CallId};
use crate::sys::clock;
use crate::sys::files::stat_behind;
use crate::units::{CpuId, KernelTime, Tid};

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedCall {
    pub(super) cpu: CpuId,
    pub(super) tid: Tid,
    pub(super) record_time: KernelTime,
    pub(super) call: CallId,
    /// True if the return value is a descriptor.
    pub(super) is_open: bool,
    pub(super) ret: i64,
}

impl EndedCall {
    /// Reads the target and metadata of the call's new descriptor, if it made one.
    pub(super) fn link(&self) -> Option<Fact> {
        (self.is_open && self.ret >= 0).then(|| self.link_of(self.ret, 0))
    }

    /// Reads the target and metadata of a descriptor; `address` is stored in the fact.
    pub(super) fn link_of(&self, fd: i64, address: u64) -> Fact {
        let path = format!("/proc/{}/fd/{fd}", self.tid);
        let begin = clock::now();
        let link = nix::fcntl::readlink(path.as_str()).map(OsStringExt::into_vec);
        let stat = stat_behind(&path);
        self.fact(NameOf::Link, address, begin, link, stat)
    }

    /// Reads the targets of the two descriptors whose numbers this memory may hold. The numbers may
    /// have been overwritten by now. The target of a descriptor with such a number shows whether
    /// the number can be right.
    pub(super) fn links_of_pair(&self, memory: &Fact) -> Vec<Fact> {
        let Fact::Name { of: NameOf::Memory, errno: 0, bytes, .. } = memory else {
            return Vec::new();
        };
        let (numbers, _) = bytes.as_chunks::<4>();
        let numbers = numbers.iter().map(|it| u32::from_le_bytes(*it));
        numbers.map(|it| self.link_of(i64::from(it), u64::from(it))).collect()
    }

    /// Reads the string that an argument points to.
    pub(super) fn argument(&self, pointer: u64) -> Fact {
        let begin = clock::now();
        self.fact(
            NameOf::Argument,
            pointer,
            begin,
            target_memory::string_at(self.tid, pointer),
            None,
        )
    }

    /// Reads the bytes that another argument points to.
    pub(super) fn memory(&self, address: u64, memory: ArgumentMemory) -> Fact {
        let begin = clock::now();
        let read = match memory {
            ArgumentMemory::Bytes(bytes) => target_memory::bytes_at(self.tid, address, bytes),
            ArgumentMemory::Iocbs(count) => target_memory::iocbs_at(self.tid, address, count),
        };
        self.fact(NameOf::Memory, address, begin, read, None)
    }

    pub(super) fn fact(
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
