//! What the `block:*` tracepoints say, with the kernel's field names.

use std::fmt;

use super::chain::ChainId;
use crate::units::DevId;

/// Which tracepoint spoke (`include/trace/events/block.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockPoint {
    /// `block_getrq`: a request was allocated for a bio; its life begins. Current task = the submitter.
    GetRq,
    /// `block_rq_insert`: it went into the I/O scheduler (not with scheduler `none`, never a flush).
    Insert,
    /// `block_rq_issue`: it went to the driver. The current task is whoever ran the queue.
    Issue,
    /// `block_rq_complete`: the driver reported all or a part of it done, often in an interrupt.
    Complete,
    /// `block_rq_requeue`: the driver gave it back; it is issued again later.
    Requeue,
    /// `block_bio_backmerge`: a bio was appended to a request that ends at its sector.
    BackMerge,
    /// `block_bio_frontmerge`: a bio was put before a request that starts at its end.
    FrontMerge,
    /// `block_rq_merge`: this request was absorbed by the one that ends where it starts.
    RqMerge,
    /// `block_bio_queue`: a bio was handed to the block layer. Current task = who handed it in.
    BioQueue,
    /// `block_split`: a bio was too long for its device; what is told is the part in front.
    Split,
    /// `block_bio_remap`: what was asked of one device (a partition, a stack of disks) is asked of another.
    Remap,
    /// `block_bio_complete`: a bio was done that never became a request (dm, md, zram), or that failed before.
    BioComplete,
}

impl BlockPoint {
    /// True if it tells of bios, false if of requests.
    pub fn is_of_bio(self) -> bool {
        matches!(self, Self::BioQueue | Self::Split | Self::Remap | Self::BioComplete)
    }
}

/// A place on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The device.
    pub dev: DevId,
    /// Its sector, in units of 512 bytes.
    pub sector: u64,
}

/// What a request asks of the device, as far as the `rwbs` letters tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestOp {
    /// `R`.
    Read,
    /// `W`.
    Write,
    /// `F` alone: make what the device has cached durable.
    Flush,
    /// `D`.
    Discard,
    /// `DE`.
    SecureErase,
    /// `WZ`; kernels that do not write these letters say `N`, which stands for others, too (`block::BlockTracker` tells them apart).
    WriteZeroes,
    /// `ZA`; as the other `Z` letters since Linux 6.18, `N` before.
    ZoneAppend,
    /// `ZR`.
    ZoneReset,
    /// `ZRA`.
    ZoneResetAll,
    /// `ZO`.
    ZoneOpen,
    /// `ZC`.
    ZoneClose,
    /// `ZF`.
    ZoneFinish,
    /// `N` and what no kernel wrote when this was written: driver commands, and operations without letters of their own.
    Other,
}

impl RequestOp {
    /// The word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::SecureErase => "secure-erase",
            Self::WriteZeroes => "write-zeroes",
            Self::ZoneAppend => "zone-append",
            Self::ZoneReset => "zone-reset",
            Self::ZoneResetAll => "zone-reset-all",
            Self::ZoneOpen => "zone-open",
            Self::ZoneClose => "zone-close",
            Self::ZoneFinish => "zone-finish",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for RequestOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The `rwbs` letters of a request: what it does and how (`blk_fill_rwbs()` in `kernel/trace/blktrace.c`).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Rwbs {
    letters: [u8; 10],
}

impl Rwbs {
    /// From the tracepoint's text; letters beyond ten (no kernel writes them so far) are cut.
    pub fn new(text: &[u8]) -> Self {
        let mut letters = [0; 10];
        for (to, from) in letters.iter_mut().zip(text) {
            *to = *from;
        }
        Self { letters }
    }

    /// The letters as the kernel wrote them.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.letters.iter().position(|&it| it == 0).unwrap_or(self.letters.len());
        self.letters.get(..end).unwrap_or_default()
    }

    /// What is done.
    pub fn op(&self) -> RequestOp {
        self.split().1
    }

    /// `F` before the operation: the device's cache is flushed first (`REQ_PREFLUSH`).
    pub fn is_preflush(&self) -> bool {
        self.split().0
    }

    /// `F` after the operation: it is durable when it completes (`REQ_FUA`).
    pub fn is_fua(&self) -> bool {
        self.split().2.first() == Some(&b'F')
    }

    /// `M` among the flags: the file system calls it metadata (`REQ_META`).
    pub fn is_meta(&self) -> bool {
        self.split().2.contains(&b'M')
    }

    /// Preflush, the operation, and the letters of the flags behind it.
    fn split(&self) -> (bool, RequestOp, &[u8]) {
        let (preflush, rest) = match self.as_bytes() {
            [b'F', rest @ ..] if matches!(rest, [b'R' | b'W' | b'D' | b'F' | b'N' | b'Z', ..]) => {
                (true, rest)
            }
            all => (false, all),
        };
        let (op, flags) = match rest {
            [b'R', flags @ ..] => (RequestOp::Read, flags),
            [b'W', b'Z', flags @ ..] => (RequestOp::WriteZeroes, flags),
            [b'W', flags @ ..] => (RequestOp::Write, flags),
            [b'F', flags @ ..] => (RequestOp::Flush, flags),
            [b'D', b'E', flags @ ..] => (RequestOp::SecureErase, flags),
            [b'D', flags @ ..] => (RequestOp::Discard, flags),
            [b'Z', b'A', flags @ ..] => (RequestOp::ZoneAppend, flags),
            [b'Z', b'R', b'A', flags @ ..] => (RequestOp::ZoneResetAll, flags),
            [b'Z', b'R', flags @ ..] => (RequestOp::ZoneReset, flags),
            [b'Z', b'O', flags @ ..] => (RequestOp::ZoneOpen, flags),
            [b'Z', b'C', flags @ ..] => (RequestOp::ZoneClose, flags),
            [b'Z', b'F', flags @ ..] => (RequestOp::ZoneFinish, flags),
            [_, flags @ ..] => (RequestOp::Other, flags),
            [] => (RequestOp::Other, rest),
        };
        (preflush, op, flags)
    }
}

impl fmt::Display for Rwbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().escape_ascii().fmt(f)
    }
}

impl fmt::Debug for Rwbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rwbs({self})")
    }
}

/// One hit of a block tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEvent {
    /// Which tracepoint.
    pub point: BlockPoint,
    /// `dev`: the whole disk's number (partitions are already resolved). Of a remap the device that is asked now: that of
    /// the whole disk too, even where the sector counts from the start of a partition.
    pub dev: DevId,
    /// `sector`: first sector, in units of 512 bytes; `u64::MAX` for the empty flush completion.
    pub sector: u64,
    /// `nr_sector`: length in sectors of 512 bytes; 0 for flushes and for the end of a flush sequence. Of a split the
    /// length of the part in front (`new_sector` is where the rest begins).
    pub nr_sector: u32,
    /// `error`: a negative errno, 0 = no error; only completions have it.
    pub error: i32,
    /// `rwbs`.
    pub rwbs: Rwbs,
    /// `old_dev`, `old_sector`: what was asked; only `block_bio_remap` has it.
    pub from: Option<Place>,
    /// `comm`: who was running; only of `block_bio_queue` it is kept.
    pub comm: Option<Comm>,
    /// Through which functions the thread came there, if that was recorded; only of `block_bio_queue`.
    pub chain: Option<ChainId>,
}

/// The name of a thread, as the kernel keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Comm([u8; 16]);

impl Comm {
    /// The first 16 bytes of this.
    pub fn new(name: &[u8]) -> Self {
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        Self(bytes)
    }

    /// Without what fills it up.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|it| *it == 0).next().unwrap_or_default()
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::{RequestOp, Rwbs};

    #[track_caller]
    fn check(letters: &str, op: RequestOp, preflush: bool, fua: bool) {
        let rwbs = Rwbs::new(letters.as_bytes());
        assert_eq!(
            (rwbs.op(), rwbs.is_preflush(), rwbs.is_fua()),
            (op, preflush, fua),
            "{letters}"
        );
    }

    #[test]
    fn letters_are_read_in_the_order_in_which_the_kernel_writes_them() {
        check("R", RequestOp::Read, false, false);
        check("RAM", RequestOp::Read, false, false);
        check("WS", RequestOp::Write, false, false);
        check("WFS", RequestOp::Write, false, true);
        check("FWS", RequestOp::Write, true, false);
        check("FWFSM", RequestOp::Write, true, true);
        check("FF", RequestOp::Flush, true, false);
        check("F", RequestOp::Flush, false, false);
        check("FS", RequestOp::Flush, false, false);
        check("DS", RequestOp::Discard, false, false);
        check("DES", RequestOp::SecureErase, false, false);
        check("WZS", RequestOp::WriteZeroes, false, false);
        check("ZAF", RequestOp::ZoneAppend, false, true);
        check("ZF", RequestOp::ZoneFinish, false, false);
        check("ZRA", RequestOp::ZoneResetAll, false, false);
        check("N", RequestOp::Other, false, false);
        check("", RequestOp::Other, false, false);
        check("?", RequestOp::Other, false, false);
    }
}
