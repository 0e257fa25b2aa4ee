//! Random bytes of the kernel.

use std::fs::File;
use std::io::{self, Read};

/// Returns bytes that cannot be guessed.
///
/// # Errors
///
/// Errors of `/dev/urandom`.
pub fn bytes() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
