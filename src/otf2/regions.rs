//! Regions: one per system call that occurred, and one for a busy device.

use otf2_sys::{RegionRef, RegionRole};

use crate::event::syscall_table::{CALLS, CallClass, CallId};

/// Subject of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegionKey {
    /// A system call.
    Call(CallId),
    /// A page fault on a file.
    Fault,
    /// A device whose driver has a request.
    Busy,
}

impl RegionKey {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Call(call) => call.call().name,
            Self::Fault => "page fault",
            Self::Busy => "busy",
        }
    }

    /// Source file of the region, by which viewers group regions.
    pub(super) fn source_file(self) -> &'static str {
        match self {
            Self::Call(_) | Self::Fault => "POSIX I/O",
            Self::Busy => "block layer I/O",
        }
    }

    pub(super) fn role(self) -> RegionRole {
        match self {
            Self::Busy | Self::Fault => RegionRole::FILE_IO,
            Self::Call(call) => match call.call().class {
                CallClass::Read
                | CallClass::Write
                | CallClass::Sync
                | CallClass::Transfer
                | CallClass::Pipe => RegionRole::FILE_IO,
                _ => RegionRole::FILE_IO_METADATA,
            },
        }
    }
}

/// Regions that occurred, numbered by their first use.
#[derive(Debug)]
pub(super) struct Regions {
    of_call: Vec<Option<RegionRef>>,
    busy: Option<RegionRef>,
    fault: Option<RegionRef>,
    list: Vec<RegionKey>,
}

impl Regions {
    pub(super) fn new() -> Self {
        // The last element is for numbers beyond the table, which all have the same name.
        Self { of_call: vec![None; CALLS.len() + 1], busy: None, fault: None, list: Vec::new() }
    }

    pub(super) fn call(&mut self, call: CallId) -> RegionRef {
        let index = usize::from(call.0).min(CALLS.len());
        match self.of_call.get(index).copied().flatten() {
            Some(known) => known,
            None => {
                let this = self.add(RegionKey::Call(call));
                self.of_call.get_mut(index).into_iter().for_each(|call| *call = Some(this));
                this
            }
        }
    }

    pub(super) fn busy(&mut self) -> RegionRef {
        let known = self.busy.unwrap_or_else(|| self.add(RegionKey::Busy));
        *self.busy.insert(known)
    }

    pub(super) fn fault(&mut self) -> RegionRef {
        let known = self.fault.unwrap_or_else(|| self.add(RegionKey::Fault));
        *self.fault.insert(known)
    }

    #[cold]
    fn add(&mut self, region: RegionKey) -> RegionRef {
        // At most one per row of the table, and three more.
        let this = RegionRef::new(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        self.list.push(region);
        this
    }

    /// Regions in the order of their numbers.
    pub(super) fn list(&self) -> &[RegionKey] {
        &self.list
    }
}
