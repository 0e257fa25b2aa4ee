//! Programs that a shell would find.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// True if a shell would find this program, or try its path.
pub(super) fn is_program(program: &OsStr) -> bool {
    if program.as_bytes().contains(&b'/') {
        return true;
    }
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let found = |path: PathBuf| path.is_file() && access(&path, AccessFlags::X_OK).is_ok();
    std::env::split_paths(&directories).any(|directory| found(directory.join(Path::new(program))))
}
