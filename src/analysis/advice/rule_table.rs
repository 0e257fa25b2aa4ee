//! Table of rules. The thresholds are the constants of [`super::judge`].

use super::rule::RuleNeed::{Block, Calls, Faults, Group, Layers, Names, Uring, Whole};
use super::rule::Severity::{Note, Problem, Warning};
use super::rule::{AdviceRule, RuleId, RuleNeed};

/// Calls without which the state of a file is not known.
const FILE_STATE: RuleNeed = Calls(&[
    "openat",
    "openat2",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "sendfile64",
    "copy_file_range",
    "splice",
    "io_submit",
    "ftruncate",
    "truncate",
    "close",
    "dup",
    "dup2",
    "dup3",
    "fcntl",
    "fsync",
    "fdatasync",
    "sync",
    "syncfs",
    "renameat2",
    "renameat",
    "linkat",
    "unlinkat",
    "rename",
    "link",
    "unlink",
    "open",
    "creat",
]);

/// Needs of the rules of durability.
const DURABILITY: &[RuleNeed] = &[Names, FILE_STATE, Whole, Uring];

/// All rules, those about lost data first.
pub const RULES: [AdviceRule; 25] = [
    AdviceRule {
        id: RuleId::WriteAfterSync,
        name: "write-after-sync",
        meaning: "A file was written after its last fsync, and then renamed or linked",
        threshold: "any; a note if the file was synced later, if its processes sync no file, or if the \
                    new name extends that of a file that was there before, as for a rotated log",
        severity: Problem,
        needs: DURABILITY,
        command: "script LOG -F FILE",
        action: "Call fsync after the last write and before the rename: a crash may leave the new \
                 name with old, partial or no data.",
        source: "fsync(2), rename(2); https://lwn.net/Articles/457667/ (Ensuring data reaches disk)",
    },
    AdviceRule {
        id: RuleId::RenameUnsynced,
        name: "rename-unsynced",
        meaning: "A file was renamed or linked before its data was synced",
        threshold: "any; a note if the file was synced later, if its processes sync no file, or if the \
                    new name extends that of a file that was there before, as for a rotated log",
        severity: Warning,
        needs: DURABILITY,
        command: "script LOG -F FILE",
        action: "If the content matters after a crash, call fsync before the rename. ext4 \
                 (auto_da_alloc) and btrfs write the data of a file that replaces another one; \
                 other file systems, and new names, have no such guarantee.",
        source: "fsync(2), rename(2); Documentation/admin-guide/ext4.rst (auto_da_alloc); \
                 https://lwn.net/Articles/322823/ (ext4 and data loss)",
    },
    AdviceRule {
        id: RuleId::DirectoryUnsynced,
        name: "directory-unsynced",
        meaning: "A file was synced, but not the directory that got its name",
        threshold: "a file of certain creation, rename or link that was synced itself; a note if \
                    its last fsync came after it got its name",
        severity: Warning,
        needs: DURABILITY,
        command: "script LOG -F FILE",
        action: "Open the directory and call fsync on it after the creation or rename: a crash may \
                 lose the name, or bring the old file back. ext4, xfs and btrfs keep the name of \
                 a new file that is synced itself.",
        source: "fsync(2) (\"an explicit fsync() on a file descriptor for the directory is also \
                 needed\")",
    },
    AdviceRule {
        id: RuleId::SyncFailed,
        name: "sync-failed",
        meaning: "An fsync failed, and the program went on",
        threshold: "EIO, ENOSPC, EDQUOT or ENOMEM, then a sync without a write between, a rename or \
                    a close of the file; a warning if the file was only closed",
        severity: Problem,
        needs: DURABILITY,
        command: "script LOG --failed -e %sync",
        action: "Write the data again, or stop: after a failed write the kernel marks the pages as \
                 clean, so a second fsync succeeds without them.",
        source: "fsync(2); https://lwn.net/Articles/752063/ (PostgreSQL's fsync() surprise)",
    },
    AdviceRule {
        id: RuleId::MmapUnsynced,
        name: "mmap-unsynced",
        meaning: "A file was changed through a mapping and not synced after",
        threshold: "a page fault for a store to a shared mapping, no msync(MS_SYNC) or fsync after",
        severity: Note,
        needs: &[Names, Group("map"), Faults, Calls(&["msync"]), FILE_STATE, Whole, Uring],
        command: "script LOG -F FILE",
        action: "Call msync(MS_SYNC) before the mapping is removed, unless the file is made again \
                 after a crash (an index, a cache, shared memory).",
        source: "msync(2)",
    },
    AdviceRule {
        id: RuleId::SmallReads,
        name: "small-reads",
        meaning: "Files are read in pieces smaller than a page",
        threshold: "at least 100 reads of a file, 4 for each of its opens, at most half a page \
                    on average",
        severity: Warning,
        needs: &[Names],
        command: "pattern LOG -F FILE",
        action: "Read larger pieces: a buffer of 64 KiB or more (setvbuf, BufReader, io.BufferedReader).",
        source: "setvbuf(3), read(2)",
    },
    AdviceRule {
        id: RuleId::SmallWrites,
        name: "small-writes",
        meaning: "Files are written in pieces smaller than a page",
        threshold: "at least 100 writes to a file, 4 for each of its opens, at most half a page \
                    on average",
        severity: Warning,
        needs: &[Names],
        command: "pattern LOG -F FILE",
        action: "Collect the data in a buffer, or write several pieces with one writev.",
        source: "setvbuf(3), writev(2)",
    },
    AdviceRule {
        id: RuleId::Reread,
        name: "reread",
        meaning: "The same bytes are read again",
        threshold: "at least 1 MiB that had been read before",
        severity: Note,
        needs: &[Names],
        command: "files LOG -F FILE",
        action: "Keep the data in the program, or map the file; `iotrace-perf cache` shows which of \
                 these reads came from a disk.",
        source: "mmap(2), read(2)",
    },
    AdviceRule {
        id: RuleId::MissingLookups,
        name: "missing-lookups",
        meaning: "Files are searched where they do not exist",
        threshold: "at least 100 calls with a path that fail with ENOENT, a tenth of all calls with \
                    a path",
        severity: Note,
        needs: &[Names],
        command: "script LOG --failed -F FILE/",
        action: "Shorten the search path (LD_LIBRARY_PATH, PYTHONPATH, -I), or keep the places that \
                 were found (ld.so.cache, compiled modules).",
        source: "ld.so(8), path_resolution(7)",
    },
    AdviceRule {
        id: RuleId::StatStorm,
        name: "stat-storm",
        meaning: "The same path is queried again and again",
        threshold: "at least 100 successful stat, access or readlink calls for one path",
        severity: Note,
        needs: &[Names, Group("stat")],
        command: "script LOG -e %stat -F FILE",
        action: "Keep the result, or let the kernel report changes.",
        source: "stat(2), inotify(7)",
    },
    AdviceRule {
        id: RuleId::OpenedUnused,
        name: "opened-unused",
        meaning: "Files are opened and closed without a use between",
        threshold: "at least 100 opens of regular files without a read, write, mapping or any other \
                    recorded call but stat before the close",
        severity: Note,
        needs: &[Names, Group("map"), Group("stat"), Group("attr")],
        command: "files LOG -F FILE",
        action: "Use stat or access for a check, or open a file where it is read.",
        source: "open(2), access(2)",
    },
    AdviceRule {
        id: RuleId::WrittenRemoved,
        name: "written-removed",
        meaning: "Files are written and removed",
        threshold: "at least 1 MiB written to files that were removed",
        severity: Note,
        needs: &[Names],
        command: "files LOG -F FILE",
        action: "Place temporary files on tmpfs, or use pipes or memfd_create.",
        source: "tmpfs(5), memfd_create(2)",
    },
    AdviceRule {
        id: RuleId::Overwritten,
        name: "overwritten",
        meaning: "Bytes are overwritten before a disk had them",
        threshold: "at least 1 MiB written over bytes that no fsync and no disk request had written",
        severity: Note,
        needs: &[Names, Block],
        command: "files LOG -F FILE",
        action: "Change the data in memory and write it once.",
        source: "Documentation/admin-guide/sysctl/vm.rst (dirty_writeback_centisecs)",
    },
    AdviceRule {
        id: RuleId::FsyncStorm,
        name: "fsync-storm",
        meaning: "A file is synced after little data each time",
        threshold: "at least 100 syncs of a file, less than 64 KiB written for each",
        severity: Warning,
        needs: &[Names, Group("sync")],
        command: "script LOG -e %sync -F FILE",
        action: "Collect several changes in one sync (group commit, a transaction around many \
                 statements), or use fdatasync where only data matters.",
        source: "fsync(2), fdatasync(2); https://www.sqlite.org/faq.html#q19",
    },
    AdviceRule {
        id: RuleId::SyncAll,
        name: "sync-all",
        meaning: "All files are synced, those of other programs too",
        threshold: "any sync() or syncfs()",
        severity: Note,
        needs: &[Group("sync")],
        command: "script LOG -e sync,syncfs",
        action: "Use fsync on the files that matter: sync waits for the data of all programs.",
        source: "sync(2)",
    },
    AdviceRule {
        id: RuleId::SyncTwice,
        name: "sync-twice",
        meaning: "Files that are opened with O_SYNC or O_DSYNC are synced as well",
        threshold: "at least 10 fsync or fdatasync calls on such files",
        severity: Note,
        needs: &[Group("sync"), Group("desc")],
        command: "script LOG -e %sync -F FILE",
        action: "Use one of both: with O_DSYNC each write is an fdatasync.",
        source: "open(2) (Synchronized I/O)",
    },
    AdviceRule {
        id: RuleId::JournalCommits,
        name: "journal-commits",
        meaning: "Syncs wait for commits of the journal",
        threshold: "at least 100 ms, half of the time of all syncs",
        severity: Warning,
        needs: &[Layers, Group("sync")],
        command: "slow LOG -e %sync",
        action: "Sync less often, use fdatasync on files of fixed size, or place the journal on a \
                 faster device.",
        source: "Documentation/filesystems/ext4/journal.rst",
    },
    AdviceRule {
        id: RuleId::UselessReadahead,
        name: "useless-readahead",
        meaning: "A disk reads parts of randomly read files that nothing reads",
        threshold: "random reads, at least 1 MiB read by a disk and not by a call, half of what the \
                    disk read of the file",
        severity: Warning,
        needs: &[Names, Block],
        command: "cache LOG -F FILE",
        action: "Announce it: posix_fadvise(POSIX_FADV_RANDOM), or a smaller read_ahead_kb of the \
                 device.",
        source: "posix_fadvise(2); Documentation/ABI/stable/sysfs-block (read_ahead_kb)",
    },
    AdviceRule {
        id: RuleId::DirectUnaligned,
        name: "direct-unaligned",
        meaning: "Direct I/O is not a multiple of 4096 bytes",
        threshold: "at least 100 reads or writes with O_DIRECT whose offset or length is not, or \
                    10 that fail with EINVAL",
        severity: Warning,
        needs: &[Group("data"), Group("desc")],
        command: "pattern LOG -F FILE",
        action: "Align offsets, lengths and memory: disks of 4096-byte sectors refuse or rewrite \
                 other sizes. statx tells the alignment (stx_dio_offset_align).",
        source: "open(2) (O_DIRECT), statx(2)",
    },
    AdviceRule {
        id: RuleId::OneAtATime,
        name: "one-at-a-time",
        meaning: "A device that takes many requests gets one at a time",
        threshold: "at least 1000 requests of a device with a queue of 32 or more, never two at once",
        severity: Note,
        needs: &[Block],
        command: "pattern LOG",
        action: "Keep several requests in flight: threads, io_uring, libaio, or read-ahead.",
        source: "io_uring(7); Documentation/ABI/stable/sysfs-block (nr_requests)",
    },
    AdviceRule {
        id: RuleId::SharedFile,
        name: "shared-file",
        meaning: "Threads write one file at the same time",
        threshold: "at least 100 writes that began before the write of another thread to the file \
                    ended, overlapping for 100 ms in all",
        severity: Note,
        needs: &[Names],
        command: "slow LOG -F FILE",
        action: "Give each thread a file of its own, or use direct I/O: most file systems allow one \
                 buffered writer of a file at a time.",
        source: "Documentation/filesystems/locking.rst (i_rwsem)",
    },
    AdviceRule {
        id: RuleId::MisalignedPartition,
        name: "misaligned-partition",
        meaning: "A partition does not begin at a physical block of its disk",
        threshold: "any partition whose first byte is no multiple of the physical block size, at \
                    least 4096",
        severity: Warning,
        needs: &[],
        command: "info LOG",
        action: "Make the partition again at a multiple of 1 MiB.",
        source: "fdisk(8); Documentation/ABI/stable/sysfs-block (alignment_offset)",
    },
    AdviceRule {
        id: RuleId::MetadataHeavy,
        name: "metadata-heavy",
        meaning: "Names and attributes take more time than data",
        threshold: "at least 1000 opens, closes, stats, renames and the like, with twice the time of \
                    reads and writes of files",
        severity: Note,
        needs: &[],
        command: "summary LOG",
        action: "Use fewer, larger files, or keep files open.",
        source: "path_resolution(7)",
    },
    AdviceRule {
        id: RuleId::CacheThrash,
        name: "cache-thrash",
        meaning: "Disks read the same file again and again",
        threshold: "at least twice the size of the file, and 1 MiB more than it, were read by disks",
        severity: Warning,
        needs: &[Names, Block],
        command: "cache LOG -F FILE",
        action: "Give the page cache more memory (a larger limit of the control group), read in \
                 another order, or drop what is not needed (POSIX_FADV_DONTNEED).",
        source: "posix_fadvise(2); Documentation/admin-guide/cgroup-v2.rst (memory.high)",
    },
    AdviceRule {
        id: RuleId::ThrottledWriters,
        name: "throttled-writers",
        meaning: "The kernel slows writers down, because too much data waits for the disk",
        threshold: "at least 100 ms in all",
        severity: Warning,
        needs: &[Layers],
        command: "latency LOG -T vfs",
        action: "Write less, earlier (sync_file_range) or to a faster disk; the limits are \
                 vm.dirty_ratio and vm.dirty_bytes.",
        source: "Documentation/admin-guide/sysctl/vm.rst (dirty_ratio)",
    },
];

impl RuleId {
    /// Returns the row of the table.
    pub fn rule(self) -> &'static AdviceRule {
        RULES.iter().find(|rule| rule.id == self).unwrap_or(&RULES[0])
    }

    /// Returns the rule with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        RULES.iter().find(|rule| rule.name == name).map(|rule| rule.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_each_rule_once_in_order() {
        assert!(RULES.windows(2).all(|pair| pair[0].id < pair[1].id));
        for rule in &RULES {
            assert_eq!(RuleId::by_name(rule.name), Some(rule.id));
            assert_eq!(rule.id.rule().name, rule.name);
            let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
            assert!(rule.name.bytes().all(is_name), "{}", rule.name);
            let texts = [rule.meaning, rule.threshold, rule.action, rule.source, rule.command];
            assert!(texts.iter().all(|text| !text.is_empty()), "{}", rule.name);
            assert!(rule.command.contains("LOG"), "{}", rule.name);
        }
    }
}
