//! Cache of the search for probe sites, for files that only root can change: the C library is
//! searched once, not at each start.
//!
//! A result belongs to a file with these contents, and to the program that searched. A probe at a
//! wrong place would end every process of the machine, so the contents are compared (as a hash),
//! not only device, inode, size, and the times of the last changes: file systems of images have
//! fixed times.

use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{FUSE_SUPER_MAGIC, fstatfs};
use serde::{Deserialize, Serialize};

use super::protocol::{self, SiteReply};
use crate::event::syscall_table::CallId;
use crate::sys::regular::open_found;
use crate::sys::root_cache::{self, Readers};

/// Name of the file.
const NAME: &str = "probe-sites";

/// Limit on the file: a result has some KiB.
const BYTES_MAX: u64 = 4 << 20;

/// Largest number of results; the oldest ones are dropped.
const RESULTS_MAX: usize = 256;

/// Limit on the size of a file whose contents are read.
const CONTENTS_MAX: u64 = 64 << 20;

/// Identity of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InodeVersion {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Times of the last change, s and ns: of the contents, and of the inode.
    changed: [(i64, i64); 2],
}

impl InodeVersion {
    /// Returns the version of the running program's file; `None`: it has none.
    pub(super) fn of_program() -> Option<Self> {
        Some(Self::of(&std::fs::metadata("/proc/self/exe").ok()?))
    }

    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            changed: [(file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec())],
        }
    }
}

/// Identity of a file and its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileVersion {
    identity: InodeVersion,
    /// Hash of the contents.
    contents: u64,
}

impl FileVersion {
    /// Reads a file that was found, not opened; `None`: the file is too large, cannot be read, or a
    /// process makes its contents (FUSE).
    pub(super) fn of(place: &File, about: &Metadata) -> Option<Self> {
        let is_local =
            fstatfs(place).is_ok_and(|found| found.filesystem_type() != FUSE_SUPER_MAGIC);
        let file = (is_local && about.len() <= CONTENTS_MAX).then(|| open_found(place, 0))?;
        let mut contents = Vec::new();
        file.ok()?.take(CONTENTS_MAX).read_to_end(&mut contents).ok()?;
        let mut hasher = DefaultHasher::new();
        hasher.write(&contents);
        Some(Self { identity: InodeVersion::of(about), contents: hasher.finish() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CachedSearch {
    file: FileVersion,
    only_static: bool,
    calls: Vec<u16>,
    /// The answer of the helper.
    reply: Vec<u8>,
}

/// Results of earlier searches.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SiteCache {
    /// Program that searched: another one may number calls differently.
    program: InodeVersion,
    results: Vec<CachedSearch>,
    #[serde(skip)]
    has_new: bool,
}

impl SiteCache {
    /// Loads the cache; an empty one without a trusted file of this program. `None`: the program
    /// is no file.
    pub(super) fn load() -> Option<Self> {
        let program = InodeVersion::of_program()?;
        let stored = root_cache::load(&path(), root_cache::ROOT, BYTES_MAX).ok();
        Some(Self::of(stored.as_deref().unwrap_or_default(), program))
    }

    fn of(stored: &[u8], program: InodeVersion) -> Self {
        let cache = postcard::from_bytes(stored).ok().filter(|it: &Self| it.program == program);
        cache.unwrap_or(Self { program, results: Vec::new(), has_new: false })
    }

    /// Returns the result of an earlier search for these calls.
    pub(super) fn find(
        &self,
        file: &FileVersion,
        only_static: bool,
        wanted: &[CallId],
    ) -> Option<SiteReply> {
        let is_same = |known: &&CachedSearch| {
            let calls = || known.calls.iter().copied().eq(wanted.iter().map(|call| call.0));
            known.file == *file && known.only_static == only_static && calls()
        };
        let found = self.results.iter().find(is_same)?;
        protocol::decode_reply(&found.reply, wanted, file.identity.bytes)
    }

    /// Adds a result. What a later search may find otherwise is not kept.
    pub(super) fn add(
        &mut self,
        file: FileVersion,
        only_static: bool,
        wanted: &[CallId],
        reply: &SiteReply,
    ) {
        let mut bytes = Vec::new();
        if *reply == SiteReply::Closed || protocol::end(&mut bytes, reply).is_err() {
            return;
        }
        let calls = wanted.iter().map(|call| call.0).collect();
        self.results.push(CachedSearch { file, only_static, calls, reply: bytes });
        let surplus = self.results.len().saturating_sub(RESULTS_MAX);
        self.results.drain(..surplus);
        self.has_new = true;
    }

    /// Stores the cache if it has new results. Without it the next start takes longer, so a failure
    /// is no error.
    pub(super) fn store(&self) {
        if self.has_new
            && let Ok(bytes) = postcard::to_allocvec(self)
        {
            let _ = root_cache::store(&path(), &bytes, Readers::Root);
        }
    }
}

fn path() -> PathBuf {
    Path::new(root_cache::DIRECTORY).join(NAME)
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Version of a file with this inode number.
    pub(crate) const fn version(inode: u64) -> FileVersion {
        let identity = InodeVersion { device: 1, inode, bytes: 1 << 20, changed: [(1, 2), (3, 4)] };
        FileVersion { identity, contents: 5 }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::version;
    use super::*;
    use crate::probe_sites::{Site, Sites};

    const PROGRAM: InodeVersion = version(1).identity;

    fn calls() -> Vec<CallId> {
        CallId::all().filter(|call| call.call().has_path()).take(2).collect()
    }

    fn reply() -> SiteReply {
        let calls = calls().into_iter().collect();
        let site =
            Site { offset: 9, registers: vec!["di"], calls, emulated: true, number: Some("ax") };
        SiteReply::Read(Sites { sites: vec![site], hidden: Vec::new(), unknown: 1 })
    }

    #[test]
    fn results_are_those_of_the_same_file_calls_and_program() {
        let mut cache = SiteCache::of(b"", PROGRAM);
        cache.add(version(2), false, &calls(), &reply());
        cache.add(version(3), true, &calls(), &SiteReply::Linked);
        cache.add(version(4), false, &calls(), &SiteReply::Closed);
        let stored = postcard::to_allocvec(&cache).expect("memory");
        let cache = SiteCache::of(&stored, PROGRAM);
        assert!(!cache.has_new);
        assert_eq!(cache.find(&version(2), false, &calls()), Some(reply()));
        assert_eq!(cache.find(&version(3), true, &calls()), Some(SiteReply::Linked));
        for other in [cache.find(&version(2), true, &calls()), cache.find(&version(4), false, &[])]
        {
            assert_eq!(other, None);
        }
        assert_eq!(cache.find(&version(2), false, &calls()[..1]), None);
        let mut changed = version(2);
        changed.identity.changed = [(1, 2), (3, 5)];
        for other in [changed, FileVersion { contents: 6, ..version(2) }] {
            assert_eq!(cache.find(&other, false, &calls()), None);
        }
        assert_eq!(SiteCache::of(&stored, version(8).identity).results, []);
    }

    #[test]
    fn damaged_cache_is_empty() {
        let mut cache = SiteCache::of(b"", PROGRAM);
        cache.add(version(2), false, &calls(), &reply());
        let stored = postcard::to_allocvec(&cache).expect("memory");
        for length in 0..stored.len() {
            assert_eq!(SiteCache::of(&stored[..length], PROGRAM).results, []);
        }
    }

    #[test]
    fn oldest_results_are_dropped() {
        let mut cache = SiteCache::of(b"", PROGRAM);
        for inode in 0..=RESULTS_MAX as u64 {
            cache.add(version(inode), false, &calls(), &SiteReply::Linked);
        }
        assert_eq!(cache.find(&version(0), false, &calls()), None);
        assert_eq!(cache.find(&version(1), false, &calls()), Some(SiteReply::Linked));
    }
}
