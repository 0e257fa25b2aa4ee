//! Page faults of programs: what is touched in memory and is not there yet.
//!
//! `exceptions:page_fault_user` tells the address and what was wanted (x86-64, riscv64). Kernels without it have
//! `filemap:mm_filemap_fault`, which tells file and page instead, and not every fault: what is in memory is mapped around
//! another page without one.

use crate::tracefs::{BindError, EventFormat, IntField};
use crate::units::DevId;

/// One hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultEvent {
    /// What was touched.
    pub place: FaultPlace,
    /// It was to be written to; `None`: the tracepoint does not tell.
    pub write: Option<bool>,
}

/// What was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPlace {
    /// An address of the program's.
    Address(u64),
    /// A page of a file, by number.
    Page {
        /// The device that the file lies on.
        dev: DevId,
        /// Its inode number.
        ino: u64,
        /// The page.
        index: u64,
    },
}

/// The tracepoints, the better one first.
pub const FAULT_POINTS: [(&str, &str); 2] =
    [("exceptions", "page_fault_user"), ("filemap", "mm_filemap_fault")];

/// `X86_PF_WRITE` (`arch/x86/include/asm/trap_pf.h`); other machines have no `error_code`.
const WRITE: u64 = 2;

/// Where the fields of one tracepoint are.
#[derive(Debug)]
pub(super) enum FaultShape {
    Address { address: IntField, error_code: Option<IntField> },
    Page { dev: IntField, ino: IntField, index: IntField },
}

impl FaultShape {
    /// `None`: no such tracepoint.
    pub(super) fn of(name: &str, format: &EventFormat) -> Result<Option<Self>, BindError> {
        Ok(match name {
            "page_fault_user" => Some(Self::Address {
                address: format.int("address")?,
                error_code: format.int_opt("error_code")?,
            }),
            "mm_filemap_fault" => Some(Self::Page {
                dev: format.int("s_dev")?,
                ino: format.int("i_ino")?,
                index: format.int("index")?,
            }),
            _ => None,
        })
    }

    /// `None`: the payload is too short.
    pub(super) fn read(&self, payload: &[u8]) -> Option<FaultEvent> {
        match self {
            Self::Address { address, error_code } => {
                let write = match error_code {
                    Some(field) => Some(field.read_u64(payload)? & WRITE != 0),
                    None => None,
                };
                Some(FaultEvent { place: FaultPlace::Address(address.read_u64(payload)?), write })
            }
            Self::Page { dev, ino, index } => {
                let dev = DevId(u32::try_from(dev.read_u64(payload)? & 0xffff_ffff).ok()?);
                let (ino, index) = (ino.read_u64(payload)?, index.read_u64(payload)?);
                Some(FaultEvent { place: FaultPlace::Page { dev, ino, index }, write: None })
            }
        }
    }
}
