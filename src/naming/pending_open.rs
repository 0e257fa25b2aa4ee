//! Opens whose names are being judged.

use super::read_name::ReadName;
use crate::capture::fact::NameOf;
use crate::event::registers::{fd_argument, low_half};
use crate::event::syscall_table::Role;
use crate::event::{FileStat, ReadNames, StringFrom, SysEnter};
use crate::units::{KernelTime, Pid, Tid};

/// Calls that are recorded without exception: those that are not show nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedCalls {
    /// True if every call that closes was recorded; if not, nothing shows that a link was read too
    /// late.
    pub(super) closes: bool,
    /// True if links were read at once, or every call that renames or removes was recorded; if not,
    /// nothing shows that a file was renamed after its opening.
    pub(super) renames: bool,
    /// True if every call was recorded that changes the files to which paths lead; if not, nothing
    /// shows that a path was looked up too late.
    pub(super) places: bool,
}

/// An open whose names are being judged.
#[derive(Debug)]
pub(super) struct PendingOpen {
    /// Number of its event.
    pub(super) number: u64,
    /// Process, thread, and the new descriptor, twice; or the two of a pair.
    pub(super) of: (Pid, Tid, [u64; 2]),
    /// True if two descriptors may have been made, whose numbers were read too late to be certain.
    pub(super) is_pair: bool,
    pub(super) argument_end: KernelTime,
    pub(super) link_end: KernelTime,
    pub(super) argument_good: bool,
    /// True while the descriptor was still the one that the open had made.
    pub(super) link_good: bool,
    /// True while its file had not been renamed.
    pub(super) name_good: bool,
    /// True if type and inode were read, not seen by a probe.
    pub(super) stat_is_read: bool,
    /// True while the report of fanotify is not known yet.
    pub(super) awaits_report: bool,
    /// True if the report is known, and nothing contradicts it.
    pub(super) report_good: bool,
    /// Lookup of the path argument, if there was one.
    pub(super) lookup: Option<PendingLookup>,
    /// List of results that a probe will record, if the thread reaches it.
    pub(super) results: Option<PendingResults>,
}

/// File to which the path of an open led some time after the call.
#[derive(Debug)]
pub(super) struct PendingLookup {
    /// Resolved path.
    pub(super) name: Vec<u8>,
    pub(super) stat: FileStat,
    pub(super) end: KernelTime,
    /// Descriptor at which the path begins, if it begins at one.
    pub(super) base: Option<u64>,
    /// True while no event could have changed where the path leads.
    pub(super) good: bool,
}

/// List of results of a call that has returned, which a probe records soon after.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingResults {
    /// Address of the list, and number of results in it.
    pub(super) list: (u64, i64),
    /// Time until which the record is waited for.
    pub(super) until: KernelTime,
}

impl PendingOpen {
    /// Returns the end of the last read.
    pub(super) fn read_until(&self) -> KernelTime {
        let lookup_end = self.lookup.as_ref().map_or(KernelTime::MIN, |lookup| lookup.end);
        self.argument_end.max(self.link_end).max(lookup_end)
    }
}

impl PendingLookup {
    /// Returns the lookup of the path of this open. The path that was looked up is the one that a
    /// probe has recorded right before the call.
    pub(super) fn of(
        read: &[ReadName],
        entered: Option<&SysEnter>,
        seen: Option<&ReadNames>,
        sees: RecordedCalls,
    ) -> Option<Self> {
        let (call, args) = entered.map(|enter| (enter.call.call(), &enter.args))?;
        let [address, _] = call.paths(args);
        let is_found = |name: &&ReadName| match name.of {
            NameOf::Lookup => name.errno == 0,
            NameOf::Link => name.address != 0 && Some(name.address) == address,
            NameOf::Argument | NameOf::Memory => false,
        };
        let found = read.iter().find(is_found)?;
        let is_recorded = seen?.from[0] == StringFrom::Uprobe;
        let path = seen?.argument.as_ref().filter(|_| is_recorded)?;
        let directory = fd_argument(call, Role::DirFd, args).map_or(libc::AT_FDCWD, |fd| fd.0);
        let is_at_descriptor = !path.bytes.starts_with(b"/") && directory != libc::AT_FDCWD;
        Some(Self {
            name: found.bytes.clone(),
            stat: found.stat?,
            end: found.end,
            base: is_at_descriptor.then(|| low_half(i64::from(directory).cast_unsigned()).into()),
            good: sees.places && (sees.closes || !is_at_descriptor),
        })
    }
}
