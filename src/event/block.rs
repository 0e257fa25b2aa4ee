//! Events of the `block:*` tracepoints, with the kernel's field names.

use std::fmt;

use super::callchain::ChainId;
use crate::units::DevId;

/// Tracepoint of an event (`include/trace/events/block.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockPoint {
    /// `block_getrq`: a request was allocated for a bio; its life begins. The current task is the
    /// submitter.
    GetRq,
    /// `block_rq_insert`: the request went into the I/O scheduler (not with scheduler `none`, never
    /// a flush).
    Insert,
    /// `block_rq_issue`: the request went to the driver. The current task is any that ran the
    /// queue.
    Issue,
    /// `block_rq_complete`: the driver reported completion of all or a part, often in an interrupt.
    Complete,
    /// `block_rq_requeue`: the driver returned the request; it is issued again later.
    Requeue,
    /// `block_bio_backmerge`: a bio was appended to a request that ends at its sector.
    BackMerge,
    /// `block_bio_frontmerge`: a bio was put before a request that starts at its end.
    FrontMerge,
    /// `block_rq_merge`: this request was absorbed by the one that ends at its start.
    RqMerge,
    /// `block_bio_queue`: a bio was handed to the block layer by the current task.
    BioQueue,
    /// `block_split`: a bio was too long for its device; the event describes the front part.
    Split,
    /// `block_bio_remap`: a bio of one device (a partition, a stack of disks) was sent to another.
    Remap,
    /// `block_bio_complete`: a bio completed that never became a request (dm, md, zram), or that
    /// failed before.
    BioComplete,
}

impl BlockPoint {
    /// Returns true for events of bios, false for those of requests.
    pub fn is_of_bio(self) -> bool {
        matches!(self, Self::BioQueue | Self::Split | Self::Remap | Self::BioComplete)
    }
}

/// Place on a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DevicePosition {
    /// Device of the place.
    pub dev: DevId,
    /// Sector on the device, in units of 512 bytes.
    pub sector: u64,
}

/// Operation of a request, as far as the `rwbs` letters determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestOp {
    /// Letter `R`.
    Read,
    /// Letter `W`.
    Write,
    /// Letter `F` alone: makes the device's cached data durable.
    Flush,
    /// Letter `D`.
    Discard,
    /// Letters `DE`.
    SecureErase,
    /// Letters `WZ`. Kernels that do not write these letters write `N`, which also denotes other
    /// operations (`block::BlockTracker` distinguishes them).
    WriteZeroes,
    /// Letters `ZA`; like the other `Z` letters since Linux 6.18, `N` before.
    ZoneAppend,
    /// Letters `ZR`.
    ZoneReset,
    /// Letters `ZRA`.
    ZoneResetAll,
    /// Letters `ZO`.
    ZoneOpen,
    /// Letters `ZC`.
    ZoneClose,
    /// Letters `ZF`.
    ZoneFinish,
    /// Letter `N` and unknown letters: driver commands, and operations without letters of their
    /// own.
    Other,
}

impl RequestOp {
    /// Returns the word for it in every output.
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

/// Letters `rwbs` of a request: its operation and flags (`blk_fill_rwbs()` in
/// `kernel/trace/blktrace.c`).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Rwbs {
    letters: [u8; 10],
}

impl Rwbs {
    /// Creates the value from the tracepoint's text; letters after the tenth (no kernel writes so
    /// many yet) are cut off.
    pub fn new(text: &[u8]) -> Self {
        let mut letters = [0; 10];
        for (to, from) in letters.iter_mut().zip(text) {
            *to = *from;
        }
        Self { letters }
    }

    /// Returns the letters as the kernel wrote them.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.letters.iter().position(|&it| it == 0).unwrap_or(self.letters.len());
        self.letters.get(..end).unwrap_or_default()
    }

    /// Returns the operation.
    pub fn op(&self) -> RequestOp {
        self.split().1
    }

    /// Returns true with `F` before the operation: the device's cache is flushed first
    /// (`REQ_PREFLUSH`).
    pub fn is_preflush(&self) -> bool {
        self.split().0
    }

    /// Returns true with `F` after the operation: it is durable when it completes (`REQ_FUA`).
    pub fn is_fua(&self) -> bool {
        self.split().2.first() == Some(&b'F')
    }

    /// Returns true with `M` among the flags: the file system calls it metadata (`REQ_META`).
    pub fn is_meta(&self) -> bool {
        self.split().2.contains(&b'M')
    }

    /// Splits the letters into preflush, the operation, and the flags after it.
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

/// Event of a block tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEvent {
    /// Tracepoint of the event.
    pub point: BlockPoint,
    /// `dev`: the number of the whole disk (partitions are already resolved). For a remap it is the
    /// target device: that of the whole disk too, even where the sector counts from the start of a
    /// partition.
    pub dev: DevId,
    /// `sector`: first sector, in units of 512 bytes; `u64::MAX` for the empty flush completion.
    pub sector: u64,
    /// `nr_sector`: length in sectors of 512 bytes; 0 for flushes and for the end of a flush
    /// sequence. For a split it is the length of the front part (`new_sector` is the start of the
    /// rest).
    pub nr_sector: u32,
    /// `error`: a negative errno, 0 = no error; only completions have it.
    pub error: i32,
    /// `rwbs`: operation and flags.
    pub rwbs: Rwbs,
    /// `old_dev`, `old_sector`: the source; only `block_bio_remap` has them.
    pub from: Option<DevicePosition>,
    /// `comm`: the name of the running thread; kept only for `block_bio_queue`.
    pub comm: Option<Comm>,
    /// Call chain of the thread, if it was recorded; only for `block_bio_queue`.
    pub chain: Option<ChainId>,
}

/// Name of a thread, as the kernel stores it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Comm([u8; 16]);

impl Comm {
    /// Creates the value from the first 16 bytes of the name.
    pub fn new(name: &[u8]) -> Self {
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        Self(bytes)
    }

    /// Returns the name without its padding.
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
