//! Notes of a fold of a job: mount tables that are not kept, filters that cannot be resolved.

use rustc_hash::FxHashSet;

use super::error::CliError;
use crate::text::quantity::{count, counted};

/// Number of hosts whose mount tables are kept: files of later ones are shown one by one.
const MOUNT_TABLES_MAX: usize = 1024;

/// Hosts whose mount tables are kept, and how many others there are.
#[derive(Debug, Default)]
pub(super) struct MountedHosts {
    kept: FxHashSet<usize>,
    others: FxHashSet<usize>,
}

impl MountedHosts {
    /// Adds a host. Returns true if its mount table is to be kept: it is new, and there is room.
    pub(super) fn add(&mut self, host: usize) -> bool {
        if self.kept.contains(&host) {
            return false;
        }
        if self.kept.len() < MOUNT_TABLES_MAX {
            return self.kept.insert(host);
        }
        self.others.insert(host);
        false
    }

    /// Returns the note on hosts without a mount table.
    pub(super) fn note(&self) -> Option<String> {
        let others = self.others.len() as u64;
        (others > 0).then(|| {
            format!(
                "mounts: the tables of {} are kept, and those of {} more are not: their files on \
                 pseudo file systems are shown one by one",
                counted(MOUNT_TABLES_MAX as u64, "host"),
                count(others)
            )
        })
    }
}

/// Recordings for which the filter cannot be resolved: one has no disk of the wanted name.
#[derive(Debug, Default)]
pub(super) struct UnresolvedFilters {
    recordings: u64,
    /// Reason of the first one.
    reason: String,
}

impl UnresolvedFilters {
    /// Notes a recording.
    pub(super) fn note(&mut self, reason: String) {
        if self.recordings == 0 {
            self.reason = reason;
        }
        self.recordings += 1;
    }

    /// Returns the note on these recordings; `is_resolved`: there is one with the filter.
    ///
    /// # Errors
    ///
    /// Usage: the filter fits no recording.
    pub(super) fn note_of(&self, is_resolved: bool) -> Result<Option<String>, CliError> {
        if self.recordings == 0 {
            return Ok(None);
        }
        if !is_resolved {
            return Err(CliError::Usage(self.reason.clone()));
        }
        let recordings = counted(self.recordings, "recording");
        Ok(Some(format!("filter: nothing of {recordings} is selected: {}", self.reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if hosts lose their mount tables without a word, or count twice.
    #[test]
    fn hosts_without_a_mount_table_are_counted() {
        let mut hosts = MountedHosts::default();
        let kept = (0..MOUNT_TABLES_MAX).filter(|host| hosts.add(*host)).count();
        assert_eq!((kept, hosts.add(3), hosts.note()), (MOUNT_TABLES_MAX, false, None));
        for host in [5000, 5001, 5000, 7] {
            assert!(!hosts.add(host));
        }
        let note = hosts.note().expect("two hosts are over");
        assert!(note.contains("1,024 hosts are kept, and those of 2 more are not"), "{note}");
    }

    #[test]
    fn filter_that_fits_no_recording_is_a_usage_error() {
        let mut unresolved = UnresolvedFilters::default();
        assert!(unresolved.note_of(false).is_ok_and(|note| note.is_none()));
        unresolved.note("the log has no disk sdx".to_owned());
        unresolved.note("the log has no disk sdx; it has vda".to_owned());
        let note = unresolved.note_of(true).ok().flatten().expect("two recordings");
        assert_eq!(note, "filter: nothing of 2 recordings is selected: the log has no disk sdx");
        assert!(matches!(unresolved.note_of(false), Err(CliError::Usage(_))));
    }
}
