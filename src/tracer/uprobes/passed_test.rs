//! Memory of a passed test of probes: it takes some 70 ms, and the same probes pass it again until
//! the machine is started anew.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::ProbedBinary;
use super::site_cache::{FileVersion, InodeVersion};
use crate::event::syscall_table::CallId;
use crate::sys::root_cache::{self, Readers};

/// Name of the file.
const NAME: &str = "passed-probe-test";

/// Limit on the file: a tested file has some hundred bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Identity of the running kernel.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Conditions of a test: the result depends on nothing else.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TestConditions {
    boot: String,
    program: InodeVersion,
    calls: Vec<u16>,
    /// Probed files, and the positions of their probes.
    files: Vec<(FileVersion, Vec<u64>)>,
}

impl TestConditions {
    /// Returns the conditions of a test of these probes; `None` if one is in a file that other
    /// users than root can change.
    pub(super) fn of(files: &[ProbedBinary], calls: &[CallId]) -> Option<Self> {
        let boot = std::fs::read_to_string(BOOT_ID).ok()?;
        let probed = files.iter().filter(|file| !file.sites.sites.is_empty());
        let conditions = probed.map(|file| {
            let offsets = file.sites.sites.iter().map(|site| site.offset).collect();
            Some((file.version?, offsets))
        });
        Some(Self {
            boot,
            program: InodeVersion::of_program()?,
            calls: calls.iter().map(|call| call.0).collect(),
            files: conditions.collect::<Option<_>>()?,
        })
    }

    /// Returns true if the last test that was passed had these conditions.
    pub(super) fn passed_before(&self) -> bool {
        let stored = root_cache::load(&path(), root_cache::ROOT, BYTES_MAX).unwrap_or_default();
        postcard::from_bytes(&stored).is_ok_and(|passed: Self| passed == *self)
    }

    /// Stores the conditions of a test that was passed. Without it the next start takes longer, so
    /// a failure is no error.
    pub(super) fn store(&self) {
        if let Ok(bytes) = postcard::to_allocvec(self) {
            let _ = root_cache::store(&path(), &bytes, Readers::Root);
        }
    }
}

fn path() -> PathBuf {
    Path::new(root_cache::DIRECTORY).join(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe_sites::{Site, Sites};
    use crate::tracer::uprobes::site_cache::testing::version;

    fn probed(version: Option<FileVersion>, offsets: &[u64]) -> ProbedBinary {
        let site = |offset: &u64| {
            let (registers, calls) = (vec!["di"], Default::default());
            Site { offset: *offset, registers, calls, emulated: true, number: None }
        };
        let sites = Sites { sites: offsets.iter().map(site).collect(), ..Sites::default() };
        let file = std::fs::File::open("/dev/null").expect("it exists");
        ProbedBinary { name: String::new(), file, version, sites, missed: None }
    }

    #[test]
    fn conditions_differ_by_file_position_and_call() {
        let calls: Vec<CallId> = CallId::all().take(2).collect();
        let of = |version, offsets: &[u64], calls: &[CallId]| {
            TestConditions::of(&[probed(version, offsets)], calls)
        };
        let first = of(Some(version(1)), &[7, 9], &calls);
        assert!(first.is_some());
        assert_eq!(first, of(Some(version(1)), &[7, 9], &calls));
        for other in [
            of(Some(version(2)), &[7, 9], &calls),
            of(Some(version(1)), &[7], &calls),
            of(Some(version(1)), &[7, 9], &calls[..1]),
        ] {
            assert!(other.is_some() && other != first);
        }
        assert_eq!(of(None, &[7], &calls), None);
        // A file without probes does not matter.
        assert!(of(None, &[], &calls).is_some());
    }
}
