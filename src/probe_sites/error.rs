//! Errors of the search.

use thiserror::Error;

/// Reasons why a file has no sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SitesError {
    /// Not an ELF file of 64 bits, or a damaged one.
    #[error("not a 64-bit ELF file")]
    NoElf,
    /// Code of another architecture.
    #[error("not for x86-64")]
    Machine,
}
