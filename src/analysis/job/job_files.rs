//! Files of a job: which ranks use each of them.
//!
//! Two hosts have the same file if the mount tables of both say so (`operation::shared_files`); a
//! file that is local to a host counts for that host.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::file_uses::RankFileUse;
use super::row_set::RowSet;
use crate::analysis::summary::KeyParts;
use crate::operation::model::MountNamespace;
use crate::operation::mount_table::MountTable;
use crate::operation::shared_files::shared_place;

/// Largest number of files; if there are more, those of one rank with the least time are left out.
pub const FILES_MAX: usize = 50_000;

/// A file of the job.
#[derive(Clone, Debug, Default)]
pub struct JobFile {
    /// Key of its name ([`crate::analysis::summary::file_key`]), as the first rank has it.
    pub name: Vec<u8>,
    /// Host of a local file; `None`: its file system is shared by hosts.
    pub host: Option<usize>,
    /// Rows of the ranks that use it.
    pub rows: RowSet,
    /// Sum of their uses.
    pub all: RankFileUse,
}

/// Files of the job.
#[derive(Clone, Debug, Default)]
pub struct JobFiles {
    places: FxHashMap<Vec<u8>, usize>,
    files: Vec<JobFile>,
    /// Files that were left out.
    pub left_out: u64,
}

impl JobFiles {
    /// Adds a use of a file on a host with these mounts.
    pub(super) fn add(
        &mut self,
        host: usize,
        mounts: &MountTable,
        key: &[u8],
        row: usize,
        of_rank: &RankFileUse,
    ) {
        let shared = shared_key(mounts, key);
        let is_shared = shared.is_some();
        let identity = shared.unwrap_or_else(|| [&(host as u64).to_le_bytes(), key].concat());
        if self.files.len() >= FILES_MAX && !self.places.contains_key(&identity) {
            self.limit();
        }
        let place = *self.places.entry(identity).or_insert(self.files.len());
        if place == self.files.len() {
            let host = (!is_shared).then_some(host);
            self.files.push(JobFile { name: key.to_vec(), host, ..JobFile::default() });
        }
        if let Some(file) = self.files.get_mut(place) {
            file.rows.insert(u32::try_from(row).unwrap_or(u32::MAX));
            file.all.merge(of_rank);
        }
    }

    /// Leaves half of the files out: those of one rank with the least time.
    fn limit(&mut self) {
        let mut order: Vec<usize> = (0..self.files.len()).collect();
        order.sort_by_key(|place| {
            let file = self.files.get(*place);
            Reverse(file.map(|file| (file.rows.len() > 1, file.all.ns)))
        });
        let mut is_kept = vec![false; self.files.len()];
        for place in order.into_iter().take(FILES_MAX / 2) {
            is_kept.iter_mut().skip(place).take(1).for_each(|kept| *kept = true);
        }
        self.left_out += (self.files.len() - FILES_MAX / 2) as u64;
        let mut new_places = Vec::with_capacity(is_kept.len());
        let mut kept = 0;
        for is_kept in &is_kept {
            new_places.push(is_kept.then_some(kept));
            kept += usize::from(*is_kept);
        }
        let place_of = |place: usize| new_places.get(place).copied().flatten();
        self.places.retain(|_, place| match place_of(*place) {
            Some(new) => {
                *place = new;
                true
            }
            None => false,
        });
        let mut places = is_kept.into_iter();
        self.files.retain(|_| places.next().unwrap_or(false));
    }

    /// Returns the files of several ranks, those with most ranks first, then with most time.
    pub fn shared(&self) -> Vec<&JobFile> {
        let mut files: Vec<&JobFile> =
            self.files.iter().filter(|file| file.rows.len() > 1).collect();
        files.sort_by_key(|file| (Reverse((file.rows.len(), file.all.ns)), &file.name, file.host));
        files
    }
}

/// Identity of a file that several hosts may have; `None`: it is local, or its mount is not known.
fn shared_key(mounts: &MountTable, key: &[u8]) -> Option<Vec<u8>> {
    let KeyParts { path, mounts: namespace, is_doubtful } = KeyParts::of(key);
    if namespace.is_some_and(|namespace| namespace != MountNamespace::OWN) {
        return None;
    }
    let place = shared_place(mounts.of_path(path)?, path)?;
    // No key of a local file is as long as the number of its host and begins with these.
    Some([b"\xff\xffshared", [u8::from(is_doubtful)].as_slice(), &place].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str =
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:40 / /net rw - nfs4 server:/export rw\n";

    #[test]
    fn shared_files_have_the_ranks_of_all_hosts() {
        let mounts = MountTable::parse(MOUNTS.as_bytes());
        let mut files = JobFiles::default();
        let of_rank = RankFileUse { operations: 2, moved: [3, 5], ns: 7 };
        for (host, row) in [(0, 0), (0, 1), (1, 2)] {
            files.add(host, &mounts, b"/net/a", row, &of_rank);
            files.add(host, &mounts, b"/etc/hosts", row, &of_rank);
        }
        let shared: Vec<(&[u8], Option<usize>, u64, u64)> = files
            .shared()
            .iter()
            .map(|file| (file.name.as_slice(), file.host, file.rows.len(), file.all.moved[1]))
            .collect();
        assert_eq!(shared, [(b"/net/a".as_slice(), None, 3, 15), (b"/etc/hosts", Some(0), 2, 10)]);
    }

    #[test]
    fn files_of_one_rank_with_least_time_are_left_out() {
        let mounts = MountTable::default();
        let mut files = JobFiles::default();
        let shared = RankFileUse { operations: 1, moved: [0; 2], ns: 0 };
        for row in 0..2 {
            files.add(0, &mounts, b"/shared", row, &shared);
        }
        for number in 0..FILES_MAX {
            assert!(files.files.len() <= FILES_MAX);
            let key = format!("/{number}");
            let of_rank = RankFileUse { ns: 1 + number as u64, ..shared };
            files.add(0, &mounts, key.as_bytes(), 0, &of_rank);
        }
        // The last one is added after half of the others were left out.
        assert_eq!(files.files.len(), FILES_MAX / 2 + 1);
        assert_eq!(files.left_out, FILES_MAX as u64 / 2);
        assert_eq!(files.shared()[0].name, b"/shared");
        files.add(0, &mounts, format!("/{}", FILES_MAX - 1).as_bytes(), 1, &shared);
        assert_eq!(files.shared().len(), 2, "a kept file is found again");
    }
}
