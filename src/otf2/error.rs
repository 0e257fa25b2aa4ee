//! Errors of writing an archive.

/// Reason for which there is no archive. The text follows "failed to".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OtfError {
    /// Error of the writer, mostly a full disk or an archive that exists already.
    #[error(transparent)]
    Archive(#[from] otf2_sys::Error),
    /// Too many definitions of this kind: OTF2 numbers them with 32 bits.
    #[error("define one more {0}: the archive holds as many as it can")]
    Full(&'static str),
}

impl OtfError {
    /// True if the file system is full.
    pub fn is_out_of_space(&self) -> bool {
        matches!(self, Self::Archive(error) if error.is_out_of_space())
    }
}
