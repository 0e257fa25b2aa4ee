//! Memory of a passed validation of probes: it takes some 70 ms, and the same probes pass it again
//! until the machine restarts.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::ProbedBinary;
use super::site_cache::{FileVersion, InodeVersion};
use crate::event::syscall_table::CallId;
use crate::sys::root_cache::{self, Readers};

/// Name of the file.
const NAME: &str = "passed-probe-validation";

/// Limit on the file: a probed file has some hundred bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Identity of the running kernel.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Conditions of a validation: the result depends on nothing else.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ValidationKey {
    boot: String,
    program: InodeVersion,
    calls: Vec<u16>,
    /// Probed files, and the positions of their probes.
    files: Vec<(FileVersion, Vec<u64>)>,
}

impl ValidationKey {
    /// Returns the key of these probes; `None` if one is in a file that other users than root can
    /// change.
    pub(super) fn of(files: &[ProbedBinary], calls: &[CallId]) -> Option<Self> {
        let boot = std::fs::read_to_string(BOOT_ID).ok()?;
        let probed = files.iter().filter(|file| !file.sites.sites.is_empty());
        let versions = probed.map(|file| {
            let offsets = file.sites.sites.iter().map(|site| site.offset).collect();
            Some((file.version?, offsets))
        });
        Some(Self {
            boot,
            program: InodeVersion::of_program()?,
            calls: calls.iter().map(|call| call.0).collect(),
            files: versions.collect::<Option<_>>()?,
        })
    }

    /// Returns true if the last validation that was passed has this key.
    pub(super) fn has_passed(&self) -> bool {
        self.has_passed_in(&path(), root_cache::ROOT)
    }

    fn has_passed_in(&self, path: &Path, owner: u32) -> bool {
        let stored = root_cache::load(path, owner, BYTES_MAX).unwrap_or_default();
        postcard::from_bytes(&stored).is_ok_and(|passed: Self| passed == *self)
    }

    /// Stores the key of a validation that was passed. Without it the next start takes longer, so a
    /// failure is no error.
    pub(super) fn store(&self) {
        self.store_in(&path());
    }

    fn store_in(&self, path: &Path) {
        if let Ok(bytes) = postcard::to_allocvec(self) {
            let _ = root_cache::store(path, &bytes, Readers::Root);
        }
    }
}

fn path() -> PathBuf {
    Path::new(root_cache::DIRECTORY).join(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracer::uprobes::files::testing::probed;
    use crate::tracer::uprobes::site_cache::testing::version;

    fn calls() -> Vec<CallId> {
        CallId::all().take(2).collect()
    }

    fn key(inode: u64, offsets: &[u64], calls: &[CallId]) -> ValidationKey {
        ValidationKey::of(&[probed(Some(version(inode)), offsets)], calls).expect("files of root")
    }

    #[test]
    fn keys_differ_by_file_position_and_call() {
        let calls = calls();
        let first = key(1, &[7, 9], &calls);
        assert_eq!(first, key(1, &[7, 9], &calls));
        for other in [key(2, &[7, 9], &calls), key(1, &[7], &calls), key(1, &[7, 9], &calls[..1])] {
            assert_ne!(other, first);
        }
        assert_eq!(ValidationKey::of(&[probed(None, &[7])], &calls), None);
        // A file without probes does not matter.
        assert!(ValidationKey::of(&[probed(None, &[])], &calls).is_some());
    }

    #[test]
    fn only_the_last_passed_key_has_passed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, owner) = (dir.path().join(NAME), nix::unistd::geteuid().as_raw());
        let (first, second) = (key(1, &[7], &calls()), key(2, &[7], &calls()));
        assert!(!first.has_passed_in(&path, owner), "there is no file");
        first.store_in(&path);
        assert!(first.has_passed_in(&path, owner));
        assert!(!first.has_passed_in(&path, owner + 1), "the file of another user");
        assert!(!second.has_passed_in(&path, owner));
        let others = [
            ValidationKey { boot: "another boot".to_owned(), ..key(1, &[7], &calls()) },
            ValidationKey { calls: Vec::new(), ..key(1, &[7], &calls()) },
        ];
        assert!(others.iter().all(|other| !other.has_passed_in(&path, owner)));
        second.store_in(&path);
        assert!(second.has_passed_in(&path, owner) && !first.has_passed_in(&path, owner));
    }
}
