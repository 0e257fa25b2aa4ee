//! Reasons for which a call cannot be made.

/// Reason for which a call cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRefusal {
    /// The architecture has no such call.
    NoSuchCall,
    /// The call needs a longer buffer than there is.
    TooLong,
}
