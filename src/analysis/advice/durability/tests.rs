//! Tests of the fold with operations made by hand. One line is one operation, in the order of the
//! ends; operations take one nanosecond each:
//!
//! ```text
//! open FILE FLAGS      flags: c (create), x (exclusive), t (truncate), s (O_DSYNC), u (unnamed)
//! write FILE [BYTES]   writes through the open file
//! fsync FILE           also fdatasync, sync_file_range, syncfs; of a directory: fsync DIR/
//! fail FILE            an fsync that fails with EIO
//! rename FROM TO       also link; remove FILE; close FILE; map FILE; store FILE
//! ```

use std::sync::Arc;

use super::*;
use crate::analysis::advice::rule::Severity;
use crate::event::FileStat;
use crate::event::syscall_table::CallId;
use crate::operation::fault::Fault;
use crate::operation::model::{PathArgument, PathArguments, PathSource, ProcessInfo, ThreadKey};
use crate::operation::mount_table::MountTable;
use crate::operation::test_fixtures;
use crate::units::{CpuId, DevId, Pid, Tid};

const MOUNTS: &[u8] = b"\
    22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
    23 22 0:30 / /mem rw - tmpfs tmpfs rw\n\
    24 22 0:31 / /net rw - nfs4 a:/x rw\n\
    25 22 8:2 / /always rw,sync - ext4 /dev/sdb1 rw\n";

/// Files by their names, with inodes of their own.
struct World {
    fold: Durability,
    files: BTreeMap<String, u64>,
    flags: BTreeMap<u64, u32>,
    next: u64,
    time: u64,
    process: u32,
    has_inodes: bool,
    is_selected: bool,
}

fn device(path: &str) -> DevId {
    match path.split('/').nth(1) {
        Some("mem") => DevId::new(0, 30),
        Some("net") => DevId::new(0, 31),
        Some("always") => DevId::new(8, 2),
        _ => DevId::new(8, 1),
    }
}

impl World {
    fn new(has_inodes: bool) -> Self {
        let mut fold = Durability::default();
        fold.take(&Step::MountsSeen(&MountTable::parse(MOUNTS)), None, true);
        let (files, flags) = (BTreeMap::new(), BTreeMap::new());
        Self { fold, files, flags, next: 100, time: 0, process: 0, has_inodes, is_selected: true }
    }

    fn open_file(&self, path: &str) -> Arc<OpenFile> {
        let is_directory = path.ends_with('/');
        let bare = Some(path.trim_end_matches('/')).filter(|bare| !bare.is_empty()).unwrap_or("/");
        // Directories have inodes by their names.
        let of_name = bare.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        let ino = self.files.get(bare).copied().unwrap_or(of_name);
        let mode = if is_directory { libc::S_IFDIR } else { libc::S_IFREG };
        let stat = FileStat { mode, dev: device(path), ino, size: 0 };
        Arc::new(OpenFile {
            id: ino,
            path: Some(FilePath::new(bare, PathSource::Link)),
            first_path: None,
            given: None,
            stat: (self.has_inodes || is_directory).then_some(stat),
            flags: Some(self.flags.get(&ino).copied().unwrap_or(2)),
            pre_created: false,
        })
    }

    fn operation(&mut self, name: &str, file: Option<Arc<OpenFile>>, ret: i64) -> SyscallOperation {
        self.time += 2;
        let any = Arc::new(OpenFile {
            id: 0,
            path: None,
            first_path: None,
            given: None,
            stat: None,
            flags: None,
            pre_created: false,
        });
        let times = [self.time, self.time + 1];
        let made =
            test_fixtures::call(name, Arc::clone(file.as_ref().unwrap_or(&any)), times, None, ret);
        let process = ProcessKey(self.process);
        SyscallOperation { file, process, thread: ThreadKey(self.process), ..made }
    }

    fn end(&mut self, operation: &SyscallOperation, effects: &[FdEffect]) {
        let step = Step::SyscallEnded(operation, effects);
        let done = CompletedOp::of(&step);
        self.fold.take(&step, done.as_ref(), self.is_selected);
    }

    fn open(&mut self, path: &str, letters: &str) {
        let mut flags = libc::O_RDWR;
        for letter in letters.chars() {
            flags |= match letter {
                'c' => libc::O_CREAT,
                'x' => libc::O_EXCL,
                't' => libc::O_TRUNC,
                's' => libc::O_DSYNC,
                'u' => libc::O_TMPFILE,
                _ => 0,
            };
        }
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), self.next);
            self.next += 1;
        }
        self.flags.insert(self.files[path], flags.cast_unsigned());
        let file = self.open_file(path);
        let operation = self.operation("openat", Some(Arc::clone(&file)), 3);
        self.end(&operation, &[FdEffect::Created { fd: Fd(3), file }]);
    }

    fn on(&mut self, name: &str, path: &str, ret: i64) {
        let file = self.open_file(path);
        let operation = self.operation(name, Some(file), ret);
        self.end(&operation, &[]);
    }

    fn names(&mut self, name: &str, from: &str, to: Option<&str>) {
        let given = |path: &str| PathArgument {
            path: FilePath::new(path, PathSource::Argument),
            absolute: Some(path.as_bytes().to_vec()),
        };
        let operation = self.operation(name, None, 0);
        let named = PathArguments { first: Some(given(from)), second: to.map(given) };
        let operation = SyscallOperation { named: Some(Box::new(named)), fd: None, ..operation };
        self.end(&operation, &[]);
        let ino =
            if name == "link" { self.files.get(from).copied() } else { self.files.remove(from) };
        if let (Some(to), Some(ino)) = (to, ino) {
            self.files.insert(to.to_owned(), ino);
        }
    }

    /// Notes that an open found nothing.
    fn on_absent(&mut self, path: &str) {
        let (path, mounts) = (path.as_bytes().to_vec(), MountNamespace::default());
        self.fold.note_absent((mounts, path));
    }

    fn map(&mut self, path: &str) {
        let file = self.open_file(path);
        let operation = self.operation("mmap", Some(file), 4096);
        let args = [0, 4096, 3, 1, 3, 0];
        self.end(&SyscallOperation { args, ..operation }, &[]);
    }

    fn store(&mut self, path: &str) {
        self.time += 2;
        let fault = Fault {
            thread: ThreadKey(self.process),
            process: ProcessKey(self.process),
            pid: Pid(11),
            tid: Tid(11),
            cpu: CpuId(0),
            time: KernelTime(self.time),
            address: Some(1),
            write: Some(true),
            file: self.open_file(path),
            offset: 0,
        };
        self.fold.take(&Step::Fault(&fault), None, true);
    }

    fn end_process(&mut self) {
        let info = ProcessInfo::new(ProcessKey(self.process), Pid(11));
        self.fold.take(&Step::ProcessEnded(&info), None, true);
        self.process += 1;
    }

    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["open", path, flags] => self.open(path, flags),
            ["write", path] => self.on("write", path, 4099),
            ["write", path, bytes] => self.on("write", path, bytes.parse().expect("bytes")),
            ["fail", path] => self.on("fsync", path, -i64::from(libc::EIO)),
            ["sync"] => {
                let operation = self.operation("sync", None, 0);
                self.end(&operation, &[]);
            }
            ["map", path] => self.map(path),
            ["store", path] => self.store(path),
            ["cut", path] => {
                // By its path.
                let ino = self.files[*path];
                self.names("truncate", path, None);
                self.files.insert((*path).to_owned(), ino);
            }
            ["exec"] => self.end_process(),
            ["remove", path] => self.names("unlink", path, None),
            [name @ ("rename" | "link"), from, to] => self.names(name, from, Some(to)),
            [name, path] => self.on(name, path, 0),
            _ => panic!("{line}"),
        }
    }
}

fn findings(lines: &str, has_inodes: bool, is_ended: bool) -> Vec<String> {
    let mut world = World::new(has_inodes);
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        world.line(line);
    }
    if is_ended {
        world.end_process();
    }
    let DurabilityResult { cases, undecided } = world.fold.finish();
    let name = |event: &ProofEvent| match event.what {
        crate::analysis::completed_op::OpKind::Call(call) => CallId::call(call).name,
        crate::analysis::completed_op::OpKind::Async(_) => "async",
    };
    let case = |case: &DurabilityCase| {
        let severity = case.severity.map_or("?", Severity::as_str);
        let order: Vec<&str> = case.events.iter().map(name).collect();
        let path = String::from_utf8_lossy(&case.path).into_owned();
        format!("{severity} {} {path} {}", case.rule.rule().name, order.join(" "))
    };
    let cases = cases.iter().map(case);
    let doubt = |(rule, reason, count): (RuleId, DurabilityDoubt, u64)| {
        format!("? {} {count} {reason:?}", rule.rule().name)
    };
    cases.chain(undecided.into_iter().map(doubt)).collect()
}

/// Compares the findings of operations, with and without inodes.
#[track_caller]
fn check(lines: &str, expected: &[&str]) {
    for has_inodes in [true, false] {
        assert_eq!(findings(lines, has_inodes, true), expected, "inodes: {has_inodes}");
    }
}

/// Another file, so that the process is one that syncs.
const SYNCER: &str = "open /s cx\n write /s\n fsync /s\n fsync /\n";

#[track_caller]
fn check_of_syncer(lines: &str, expected: &[&str]) {
    check(&format!("{SYNCER}{lines}"), expected);
}

#[test]
fn rename_of_unsynced_data_is_found() {
    let expected = "rename-unsynced /d/a openat write write rename";
    let lines = "open /d/a.tmp cx\n write /d/a.tmp\n write /d/a.tmp\n close /d/a.tmp\n rename /d/a.tmp /d/a";
    check(lines, &[&format!("note {expected}")]);
    check_of_syncer(lines, &[&format!("warning {expected}")]);
    // sync_file_range promises nothing.
    let lines =
        "open /d/a.tmp cx\n write /d/a.tmp\n sync_file_range /d/a.tmp\n rename /d/a.tmp /d/a";
    check_of_syncer(lines, &["warning rename-unsynced /d/a openat write rename"]);
}

#[test]
fn synced_data_is_no_finding() {
    for sync in ["fsync /d/a.tmp", "fdatasync /d/a.tmp", "sync", "syncfs /d/a.tmp", "syncfs /s"] {
        let lines = format!(
            "open /s c\n open /d/a.tmp cx\n write /d/a.tmp\n {sync}\n rename /d/a.tmp /d/a\n fsync /d/"
        );
        // Without an inode the device of a file is not known, so any counts.
        check(&lines, &[]);
    }
    // Nothing was written, or every write is synced.
    check_of_syncer("open /d/a.tmp cx\n rename /d/a.tmp /d/a", &[]);
    check_of_syncer("open /d/a.tmp cxs\n write /d/a.tmp\n rename /d/a.tmp /d/a", &[]);
}

#[test]
fn write_after_the_sync_is_found() {
    check_of_syncer(
        "open /d/a.tmp cx\n write /d/a.tmp\n fsync /d/a.tmp\n write /d/a.tmp\n rename /d/a.tmp /d/a\n fsync /d/",
        &["problem write-after-sync /d/a openat write fsync write rename"],
    );
    check_of_syncer(
        "open /d/a.tmp cx\n write /d/a.tmp\n fsync /d/a.tmp\n write /d/a.tmp\n fsync /d/a.tmp\n \
         rename /d/a.tmp /d/a\n fsync /d/",
        &[],
    );
}

#[test]
fn later_sync_makes_a_note() {
    check_of_syncer(
        "open /d/a.tmp cx\n write /d/a.tmp\n rename /d/a.tmp /d/a\n fsync /d/a\n fsync /d/",
        &["note rename-unsynced /d/a openat write rename fsync"],
    );
    check_of_syncer(
        "open /d/a.tmp cx\n write /d/a.tmp\n rename /d/a.tmp /d/a\n sync",
        &["note rename-unsynced /d/a openat write rename"],
    );
}

#[test]
fn name_that_extends_the_old_one_is_a_note() {
    check_of_syncer(
        "open /d/log c\n write /d/log\n rename /d/log /d/log.1",
        &["note rename-unsynced /d/log.1 write rename"],
    );
}

#[test]
fn name_of_a_new_file_is_no_backup() {
    for (name, severity) in [("segment.done", "warning"), ("segment-1", "warning")] {
        check_of_syncer(
            &format!("open /d/segment cx\n write /d/segment\n rename /d/segment /d/{name}"),
            &[&format!("{severity} rename-unsynced /d/{name} openat write rename")],
        );
    }
    check_of_syncer(
        "open /d/log c\n write /d/log\n rename /d/log /d/logs",
        &["warning rename-unsynced /d/logs write rename"],
    );
}

/// Fails if a directory is known by one name only.
#[test]
fn directory_has_more_than_one_name() {
    let made = "open /t/a.tmp cx\n write /t/a.tmp\n fsync /t/a.tmp\n";
    // Another directory was synced, that may be this one.
    check(
        &format!("{made} rename /t/a.tmp /link/a\n fsync /out/"),
        &["? directory-unsynced 1 OtherDirectory"],
    );
    // The directory got another name after its sync.
    check(&format!("{made} rename /t/a.tmp /t/a\n fsync /t/\n rename /t /d\n fsync /"), &[]);
    let before = format!("{made} rename /t/a.tmp /t/a\n rename /t /d\n");
    check(&format!("{before} fsync /d/\n fsync /"), &[]);
}

/// Fails if a descriptor's name in `/proc` counts as a file of its own.
#[test]
fn sync_by_a_descriptor_in_proc_is_one_of_an_unknown_file() {
    let expected = ["? rename-unsynced 1 UnknownSync"];
    let lines = "open /d/a.tmp cx\n write /d/a.tmp\n fsync /proc/self/fd/3\n rename /d/a.tmp /d/a";
    assert_eq!(findings(&format!("{SYNCER}{lines}"), false, true), expected);
    assert_eq!(
        findings(&format!("{SYNCER}{}", lines.replace("/proc/self", "/dev")), false, true),
        expected
    );
}

/// Fails if a file counts as never synced where the log cannot tell.
#[test]
fn unsynced_file_of_a_running_process_is_not_judged() {
    let lines = format!("{SYNCER}open /d/a cx\n write /d/a\n rename /d/a /d/b");
    assert_eq!(findings(&lines, true, false), ["? rename-unsynced 1 RecordingEnd"]);
    let removed = format!("{lines}\n unlink /none");
    assert_eq!(findings(&removed, true, true), ["? rename-unsynced 1 UnknownPath"]);
}

/// Fails if a link to one file hides the names of its directory.
#[test]
fn link_to_a_file_is_no_other_name_of_its_directory() {
    let mut index = path_index::PathIndex::default();
    let mounts = MountNamespace::default();
    let resolved = |index: &path_index::PathIndex| index.resolved((mounts, b"/d/a".to_vec())).1;
    index.note_alias(mounts, b"/d/link", b"/e/file");
    assert_eq!(resolved(&index), b"/d/a");
    index.note_alias(mounts, b"/d/x", b"/e/x");
    assert_eq!(resolved(&index), b"/e/a");
    index.note_alias(mounts, b"/d/y", b"/d/y");
    assert_eq!(resolved(&index), b"/d/a");
}

/// Fails if a truncation by the path of a file is forgotten.
#[test]
fn truncation_by_path_is_a_change() {
    check_of_syncer(
        "open /d/a cx\n write /d/a\n fsync /d/a\n cut /d/a\n rename /d/a /d/b\n fsync /d/",
        &["problem write-after-sync /d/b openat write fsync truncate rename"],
    );
}

/// Fails if cases that the filter does not select count as not judged.
#[test]
fn doubts_are_about_selected_operations() {
    let mut world = World::new(true);
    world.is_selected = false;
    let lines = "open /net/a cx\n write /net/a\n rename /net/a /net/b\n unlink /none";
    lines.lines().for_each(|line| world.line(line));
    world.end_process();
    assert_eq!(world.fold.finish().undecided, []);
}

/// Fails if only the name of the first rename selects a file, and not its last name.
#[test]
fn selected_name_selects_what_is_known_by_earlier_ones() {
    let mut world = World::new(true);
    let all = [
        (false, SYNCER),
        (false, "open /d/a cx\n write /d/a\n rename /d/a /d/b\n open /d/x cx\n write /d/x"),
        (false, "open /d/f cx\n write /d/f\n fail /d/f\n rename /d/x /d/y"),
        (true, "rename /d/b /d/c\n rename /d/f /d/g"),
    ];
    for (is_selected, lines) in all {
        world.is_selected = is_selected;
        lines.lines().for_each(|line| world.line(line.trim()));
    }
    world.end_process();
    let cases = world.fold.finish().cases;
    let cases: Vec<_> =
        cases.iter().map(|case| (case.rule, String::from_utf8_lossy(&case.path))).collect();
    let expected = [
        (RuleId::RenameUnsynced, "/d/c".into()),
        (RuleId::RenameUnsynced, "/d/g".into()),
        (RuleId::SyncFailed, "/d/g".into()),
    ];
    assert_eq!(cases, expected);
}

/// Fails if a name that was absent once stays so when its directory gets another name.
#[test]
fn name_in_a_moved_directory_is_not_absent() {
    let mut world = World::new(true);
    for line in [SYNCER, "open /t/f cx\n write /t/f"] {
        line.lines().for_each(|line| world.line(line));
    }
    world.on_absent("/u/f");
    ["rename /t /u"].iter().for_each(|line| world.line(line));
    world.files.insert("/u/f".to_owned(), world.files["/t/f"]);
    ["open /u/f c", "rename /u/f /u/g"].iter().for_each(|line| world.line(line));
    world.end_process();
    assert_eq!(world.fold.finish().cases.len(), 1);
}

#[test]
fn chains_of_renames_and_links_are_one_case() {
    check_of_syncer(
        "open /d/a cx\n write /d/a\n rename /d/a /d/b\n rename /d/b /d/c",
        &["warning rename-unsynced /d/c openat write rename"],
    );
    check_of_syncer(
        "open /d/a cx\n write /d/a\n link /d/a /d/b\n remove /d/a",
        &["warning rename-unsynced /d/b openat write link"],
    );
    // A directory above it got another name.
    check_of_syncer(
        "open /d/a cx\n write /d/a\n rename /d /e\n rename /e/a /e/b",
        &[
            "warning rename-unsynced /e/b openat write rename",
            "? rename-unsynced 1 DirectoryRenamed",
        ],
    );
}

#[test]
fn removed_files_have_no_finding() {
    check_of_syncer("open /d/a cx\n write /d/a\n rename /d/a /d/b\n remove /d/b", &[]);
    check_of_syncer("open /d/a cx\n write /d/a\n fsync /d/a\n remove /d/a", &[]);
    check_of_syncer("open /d/a cx\n fail /d/a\n write /d/a\n remove /d/a", &[]);
    // The other name is still there.
    check_of_syncer(
        "open /d/a cx\n write /d/a\n link /d/a /d/b\n remove /d/b",
        &["warning rename-unsynced /d/b openat write link"],
    );
}

#[test]
fn directory_without_a_sync_is_found() {
    let made = "open /d/a.tmp cx\n write /d/a.tmp\n fsync /d/a.tmp\n";
    check(made, &["note directory-unsynced /d/a.tmp openat write fsync"]);
    check(&format!("{made} fsync /d/"), &[]);
    let renamed = format!("{made} rename /d/a.tmp /d/a\n");
    check(&renamed, &["warning directory-unsynced /d/a openat write fsync rename"]);
    check(&format!("{renamed} fsync /d/"), &[]);
    check(&format!("{renamed} sync"), &[]);
    // The sync of another directory, or before the rename, does not help.
    check(
        &format!("{made} fsync /d/\n rename /d/a.tmp /d/a\n fsync /e/"),
        &["warning directory-unsynced /d/a openat write fsync rename"],
    );
    check(
        &format!("{renamed} fsync /d/a"),
        &["note directory-unsynced /d/a openat write rename fsync"],
    );
    // A file that is never synced need not be durable; one that existed has its name.
    check("open /d/a cx\n write /d/a", &[]);
    check("open /d/a c\n write /d/a\n fsync /d/a", &[]);
}

#[test]
fn process_that_runs_on_may_sync_later() {
    let lines = "open /d/a.tmp cx\n write /d/a.tmp\n fsync /d/a.tmp\n rename /d/a.tmp /d/a";
    assert_eq!(findings(lines, true, false), ["? directory-unsynced 1 RecordingEnd"]);
}

#[test]
fn other_file_systems_are_left_out() {
    let lines = |place: &str| {
        format!(
            "{SYNCER} open {place}/a.tmp cx\n write {place}/a.tmp\n rename {place}/a.tmp {place}/a"
        )
    };
    assert_eq!(findings(&lines("/mem"), true, true), [""; 0]);
    assert_eq!(findings(&lines("/always"), true, true), [""; 0]);
    assert_eq!(findings(&lines("/net"), true, true), ["? rename-unsynced 1 Remote"]);
}

#[test]
fn failed_sync_needs_a_consequence() {
    let start = format!("{SYNCER} open /d/a cx\n write /d/a\n fail /d/a\n");
    let found = |end: &str| findings(&format!("{start}{end}"), true, true);
    assert_eq!(found("fsync /d/a\n fsync /d/"), ["problem sync-failed /d/a write fsync fsync"]);
    // The data is written again, and a sync succeeds: what the rule advises.
    assert_eq!(found("write /d/a\n fsync /d/a\n fsync /d/"), [""; 0]);
    assert_eq!(found("write /d/a 5\n fsync /d/a\n fsync /d/"), ["? sync-failed 1 PartlyRewritten"]);
    assert_eq!(found("write /d/a"), ["? sync-failed 1 PartlyRewritten"]);
    assert_eq!(
        found("rename /d/a /d/b\n fsync /d/"),
        [
            "warning rename-unsynced /d/b openat write rename",
            "problem sync-failed /d/b write fsync rename"
        ]
    );
    assert_eq!(found("close /d/a"), ["warning sync-failed /d/a fsync close"]);
    // The process ends, or makes the file again.
    assert_eq!(found(""), [""; 0]);
    assert_eq!(found("close /d/a\n open /d/a ct\n write /d/a\n fsync /d/a\n fsync /d/"), [""; 0]);
}

#[test]
fn stores_through_mappings_need_a_sync() {
    let found = |lines: &str| findings(lines, true, true);
    let mapped = "open /d/a c\n map /d/a\n";
    assert_eq!(found(mapped), ["? mmap-unsynced 1 UnseenStore"]);
    assert_eq!(found(&format!("{mapped} store /d/a")), ["note mmap-unsynced /d/a mmap mmap"]);
    assert_eq!(found(&format!("{mapped} store /d/a\n fsync /d/a")), [""; 0]);
    assert_eq!(found(&format!("{mapped} fsync /d/a")), [""; 0]);
    for sync in ["fsync /d/a", "sync"] {
        let lines = format!("{mapped} store /d/a\n {sync}\n store /d/a");
        assert_eq!(found(&lines), ["note mmap-unsynced /d/a mmap mmap"], "{sync}");
    }
}

#[test]
fn new_file_may_have_the_inode_of_a_removed_one() {
    let mut world = World::new(true);
    let lines = "open /s cx\n write /s\n fsync /s\n fsync /\n open /d/a cx\n write /d/a\n fsync /d/a\n remove /d/a";
    lines.lines().for_each(|line| world.line(line));
    world.next -= 1;
    let lines = "open /d/b cx\n write /d/b\n rename /d/b /d/c\n fsync /d/c\n fsync /d/";
    lines.lines().for_each(|line| world.line(line));
    world.end_process();
    let cases = world.fold.finish().cases;
    assert_eq!(cases.len(), 1);
    assert_eq!(cases[0].rule, RuleId::RenameUnsynced);
}

#[test]
fn memory_is_bounded() {
    let mut world = World::new(true);
    for number in 0..FILES_MAX + 5000 {
        let path = format!("/d/{number}");
        world.open(&path, "cx");
        world.on("write", &path, 1);
    }
    assert!(world.fold.files.len() <= FILES_MAX, "{}", world.fold.files.len());
    let undecided = world.fold.finish().undecided;
    assert!(matches!(
        undecided.as_slice(),
        [(RuleId::RenameUnsynced, DurabilityDoubt::NoRoom, 1..)]
    ));
}

/// Flags of an unnamed file contain that of a directory; its sync is one of a file all the same.
#[test]
fn unnamed_file_is_no_directory() {
    check_of_syncer(
        "open /d/#7 u\n write /d/#7\n fsync /d/#7\n rename /d/#7 /d/a\n fsync /d/",
        &[],
    );
}
