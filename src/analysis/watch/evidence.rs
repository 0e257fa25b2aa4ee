//! Evidence that an access belongs to a watched file.

/// Evidence that an access belongs to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessEvidence {
    /// A call or an asynchronous operation on the file.
    Called {
        /// True if the result of the operation was not seen: the bytes are the requested ones.
        lacks_result: bool,
        /// True if the kernel did not report the file, which was identified by its name.
        is_named: bool,
    },
    /// A piece of a request that the kernel's records attribute to the file.
    Exact,
    /// A piece of a request that probably belongs to the file.
    Inferred,
}
