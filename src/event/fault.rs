//! Page faults of programs: accesses to memory that is not present yet.
//!
//! `exceptions:page_fault_user` reports the address and the kind of access (x86-64, riscv64).
//! Kernels without it have `filemap:mm_filemap_fault`, which reports file and page instead, but not
//! every fault: pages that are in memory are mapped around another page without one.

use super::registers::low_half;
use crate::tracefs::{BindError, EventFormat, IntField};
use crate::units::DevId;

/// Page fault of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultEvent {
    /// Address or page of the access.
    pub place: FaultPlace,
    /// True for a write access; `None` if the tracepoint does not report it.
    pub write: Option<bool>,
}

/// Address or page of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPlace {
    /// Address in the program's memory.
    Address(u64),
    /// Page of a file, by number.
    Page {
        /// Device of the file.
        dev: DevId,
        /// Inode number of the file.
        ino: u64,
        /// Number of the page.
        index: u64,
    },
}

/// Tracepoints of page faults, the better one first.
pub const FAULT_POINTS: [(&str, &str); 2] =
    [("exceptions", "page_fault_user"), ("filemap", "mm_filemap_fault")];

/// Error code bit `X86_PF_WRITE` (`arch/x86/include/asm/trap_pf.h`); other machines have no
/// `error_code`.
const WRITE: u64 = 2;

/// Fields of one tracepoint.
#[derive(Debug)]
pub(super) enum FaultShape {
    Address { address: IntField, error_code: Option<IntField> },
    Page { dev: IntField, ino: IntField, index: IntField },
}

impl FaultShape {
    /// Binds the fields; `None` if the tracepoint is not one of page faults.
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

    /// Reads an event; `None` if the payload is too short.
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
                let dev = DevId(low_half(dev.read_u64(payload)?));
                let (ino, index) = (ino.read_u64(payload)?, index.read_u64(payload)?);
                Some(FaultEvent { place: FaultPlace::Page { dev, ino, index }, write: None })
            }
        }
    }
}
