//! Disk of a test, which no other program uses.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::scratch_dir;

/// File system on a loop device of its own, for the programs of `habits.py`.
pub(super) struct OwnDisk {
    /// Mount point, without links in its path.
    pub(super) place: PathBuf,
    pub(super) mounted: Mounted,
    _directory: TempDir,
}

impl OwnDisk {
    /// Needs of a test with one, and with a program of `habits.py`.
    pub(super) const NEEDS: [Need; 3] =
        [Need::Program("python3"), Need::Loop, Need::Program("mkfs.ext4")];

    /// Makes it, with a directory of this name.
    #[track_caller]
    pub(super) fn new(name: &str, bytes: u64) -> Self {
        let directory = scratch_dir(name);
        let mounted = Mounted::new(directory.path(), "ext4", bytes);
        let place = mounted.path().canonicalize().expect("there");
        Self { place, mounted, _directory: directory }
    }
}
