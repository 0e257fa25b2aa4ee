//! Initial files inferred from results, and results that no replay can repeat. Captures are made
//! up: logs of strace.

use std::fs;
use std::path::Path;

use crate::support::driver::process::Finished;
use crate::support::driver::recording::{Recording, can_record, iotrace, plan_of_strace};
use crate::support::machine::requirements::{Need, require};
use crate::support::machine::turns::beside_others;
use crate::support::{scratch_dir, text};
use serde_json::Value;

/// A capture: of each call its thread, when it began (ms), how long it took (ms), and what strace
/// writes of it.
type Line<'a> = (u32, u32, u32, &'a str);

/// Plans it, and makes its files.
fn made(dir: &Path, lines: &[Line<'_>]) {
    let line = |(tid, start, took, call): &Line<'_>| {
        let (s, ms) = (1_700_000_000 + start / 1000, start % 1000);
        format!("{tid} {s}.{ms:03}000 {call} <{}.{:03}000>\n", took / 1000, took % 1000)
    };
    let plan = plan_of_strace(&lines.iter().map(line).collect::<String>(), dir, "it");
    iotrace(&["replay", "init", text(&plan), "--root", text(&dir.join("root"))]).success();
}

fn run(dir: &Path, options: &[&str]) -> Finished {
    let (plan, root) = (dir.join("it.ioplan"), dir.join("root"));
    let first = ["replay", "run", text(&plan), "--root", text(&root), "--json"];
    iotrace(&[&first, options].concat())
}

/// All calls of one thread, one after the other, have the same results, but for those that are left
/// out for these reasons.
#[track_caller]
fn check(calls: &[&str], left: &[&str]) {
    check_with(calls, left, 0);
}

/// Checks a plan; `followed`: number of calls that are not replayed because other calls have their
/// effects.
#[track_caller]
fn check_with(calls: &[&str], left: &[&str], followed: usize) {
    if !require(Need::Root) {
        return;
    }
    let dir = scratch_dir("replay_results");
    let lines: Vec<Line<'_>> = (0..).zip(calls).map(|(at, call)| (7, at * 10, 1, *call)).collect();
    made(dir.path(), &lines);
    let finished = run(dir.path(), &["--speed", "max"]);
    let report: Value = serde_json::from_str(&finished.stdout()).expect("JSON");
    let reasons = report["left_calls"].as_array().expect("a list").iter();
    let reasons: Vec<&str> = reasons.map(|it| it["reason"].as_str().expect("text")).collect();
    assert_eq!(reasons, left, "{report:#}");
    assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
    assert_eq!(report["operations"], calls.len() - left.len() - followed, "{report:#}");
}

/// Fails if a file that was renamed before anybody was seen with it is opened by its new name.
#[test]
fn initially_open_file_has_its_initial_name() {
    let _turn = beside_others();
    check(
        &[
            r#"rename("/d/log", "/d/log.1") = 0"#,
            r#"openat(AT_FDCWD, "/d/log", O_WRONLY|O_CREAT|O_EXCL, 0644) = 4</d/log>"#,
            r#"write(3</d/log.1>, ""..., 3) = 3"#,
            r#"write(4</d/log>, ""..., 3) = 3"#,
            r#"rename("/d/a", "/d/b") = 0"#,
            r#"fsync(5</d/b/x>) = 0"#,
            // The call that made it is not captured.
            r#"mkdir("/d/c", 0777) = 0"#,
            r#"fsync(6</d/c/x>) = 0"#,
        ],
        &["name-unknown"],
    );
}

/// Fails if what is done with a file is left out whose name was given away meanwhile.
#[test]
fn initially_open_file_may_be_unlinked_at_once() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    for [change, after] in
        [[r#"rename("/d/log", "/d/log.1") = 0"#, "/d/log.1"], [r#"unlink("/d/log") = 0"#, "/d/log"]]
    {
        let dir = scratch_dir("replay_results");
        let write = format!(r#"write(3<{after}>, ""..., 3) = 3"#);
        let lines = [(7, 0, 20, "fsync(3</d/log>) = 0"), (8, 5, 1, change), (7, 30, 1, &*write)];
        made(dir.path(), &lines);
        let finished = run(dir.path(), &["--speed", "max"]);
        let report: Value = serde_json::from_str(&finished.stdout()).expect("JSON");
        assert_eq!((&report["operations"], &report["mismatches"]), (&3.into(), &0.into()));
    }
}

/// Fails if a name that an open file got is taken for one that was there.
#[test]
fn linked_open_file_gets_a_name() {
    let _turn = beside_others();
    check(
        &[
            r#"openat(AT_FDCWD, "/d/y", O_RDWR) = 3</d/y>"#,
            r#"linkat(3</d/y>, "", AT_FDCWD, "/d/x", AT_EMPTY_PATH) = 0"#,
            r#"openat(AT_FDCWD, "/d/x", O_RDWR) = 4</d/x>"#,
            r#"ftruncate(4</d/x>, 101) = 0"#,
            r#"lseek(3</d/y>, 0, SEEK_END) = 101"#,
            r#"linkat(3</d/y>, "", AT_FDCWD, "/d/z", AT_EMPTY_PATH) = -1 EEXIST (File exists)"#,
        ],
        &[],
    );
}

/// Fails if a file that is made longer without a write is taken for one that was that long.
#[test]
fn zeroed_range_exists() {
    let _turn = beside_others();
    check(
        &[
            r#"openat(AT_FDCWD, "/d/f", O_RDWR|O_CREAT, 0600) = 3</d/f>"#,
            r#"lseek(3</d/f>, 0, SEEK_END) = 0"#,
            r#"fallocate(3</d/f>, FALLOC_FL_ZERO_RANGE|FALLOC_FL_KEEP_SIZE, 0, 20000) = 0"#,
            r#"lseek(3</d/f>, 0, SEEK_END) = 0"#,
            r#"fallocate(3</d/f>, FALLOC_FL_ZERO_RANGE, 5000, 5000) = 0"#,
            r#"lseek(3</d/f>, 0, SEEK_END) = 10000"#,
            r#"pread64(3</d/f>, ""..., 100, 9950) = 50"#,
        ],
        &[],
    );
}

/// Fails if a read that found the end of a truncated file does not come before the write that makes
/// it longer.
#[test]
fn truncated_file_has_its_new_length() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay_results");
    let mut lines: Vec<Line<'_>> = vec![
        (7, 0, 1, r#"openat(AT_FDCWD, "/d/f", O_RDWR) = 3</d/f>"#),
        (8, 0, 1, r#"openat(AT_FDCWD, "/d/f", O_RDWR) = 4</d/f>"#),
        (7, 5, 1, r#"pread64(3</d/f>, ""..., 4096, 3000000) = 4096"#),
        (7, 10, 1, r#"ftruncate(3</d/f>, 0) = 0"#),
    ];
    let nothing = r#"access("/d/none", F_OK) = -1 ENOENT (No such file or directory)"#;
    lines.extend((0..5000).map(|it| (7, 20 + it, 1, nothing)));
    lines.extend([
        (7, 6000, 1, r#"pread64(3</d/f>, ""..., 4096, 1000000) = 0"#),
        (8, 6010, 1, r#"pwrite64(4</d/f>, ""..., 4096, 2000000) = 4096"#),
    ]);
    made(dir.path(), &lines);
    run(dir.path(), &["--speed", "max"]).success();
}

#[test]
fn path_with_a_trailing_slash_is_a_directory() {
    let _turn = beside_others();
    check(
        &[
            r#"newfstatat(AT_FDCWD, "/d/.", {st_mode=S_IFDIR|0755, st_size=4096, ...}, 0) = 0"#,
            r#"access("/e/", F_OK) = 0"#,
            r#"mkdir("/f/", 0777) = 0"#,
            r#"access("/f/.", F_OK) = 0"#,
            r#"rmdir("/f/") = 0"#,
        ],
        &[],
    );
}

/// Fails if a directory that was opened without a look at what it is becomes a file, in which
/// nothing can be.
#[test]
fn parent_of_a_file_is_a_directory() {
    let _turn = beside_others();
    check(
        &[
            r#"openat(AT_FDCWD, "/d/e", O_RDONLY) = 3</d/e>"#,
            r#"openat(AT_FDCWD, "/d/e/f", O_RDONLY) = 4</d/e/f>"#,
            r#"read(4</d/e/f>, ""..., 4099) = 23"#,
        ],
        &[],
    );
}

#[test]
fn errors_imply_the_initial_files() {
    let _turn = beside_others();
    check(
        &[
            r#"openat(AT_FDCWD, "/link", O_RDONLY|O_NOFOLLOW) = -1 ELOOP (Too many levels of symbolic links)"#,
            r#"openat(AT_FDCWD, "/f1/x", O_RDONLY) = -1 ENOTDIR (Not a directory)"#,
            r#"mkdir("/f2/x", 0777) = -1 ENOTDIR (Not a directory)"#,
            r#"access("/f3/x", F_OK) = -1 ENOTDIR (Not a directory)"#,
            r#"openat(AT_FDCWD, "/f4", O_RDONLY|O_DIRECTORY) = -1 ENOTDIR (Not a directory)"#,
            r#"rename("/d5", "/f5") = -1 ENOTDIR (Not a directory)"#,
            r#"rename("/f6", "/d6") = -1 EISDIR (Is a directory)"#,
            r#"rename("/d7", "/d8") = -1 ENOTEMPTY (Directory not empty)"#,
            r#"link("/f9", "/f10") = -1 EEXIST (File exists)"#,
        ],
        &[],
    );
}

/// Fails if what is left out is not known to have changed nothing: the file that could not be moved
/// is read all the same.
#[test]
fn circumstances_are_left_out() {
    let _turn = beside_others();
    check(
        &[
            r#"rename("/a", "/mnt/a") = -1 EXDEV (Invalid cross-device link)"#,
            r#"openat(AT_FDCWD, "/a", O_RDONLY) = 3</a>"#,
            r#"read(3</a>, ""..., 4099) = 23"#,
            r#"openat(AT_FDCWD, "/mnt/a", O_WRONLY|O_CREAT|O_EXCL, 0644) = 4</mnt/a>"#,
            r#"write(4</mnt/a>, ""..., 23) = 23"#,
            r#"write(4</mnt/a>, ""..., 23) = -1 ENOSPC (No space left on device)"#,
            r#"openat(AT_FDCWD, "/fifo", O_WRONLY|O_NONBLOCK) = -1 ENXIO (No such device or address)"#,
        ],
        &["not-a-file", "file-systems", "circumstances"],
    );
}

/// Fails if a directory is removed in the replay that only a device, which the replay does not
/// make, had kept.
#[test]
fn directory_with_a_device_is_not_removed() {
    let _turn = beside_others();
    check(
        &[
            r#"mkdir("/d", 0755) = 0"#,
            r#"mknod("/d/n", S_IFCHR|0600, makedev(0x1, 0x3)) = 0"#,
            r#"rmdir("/d") = -1 ENOTEMPTY (Directory not empty)"#,
            r#"openat(AT_FDCWD, "/d/f", O_RDWR|O_CREAT, 0644) = 3</d/f>"#,
            r#"close(3</d/f>) = 0"#,
            r#"openat(AT_FDCWD, "/d/n", O_RDWR|O_CREAT|O_EXCL, 0644) = -1 EEXIST (File exists)"#,
            r#"rmdir("/d") = -1 ENOTEMPTY (Directory not empty)"#,
            r#"unlink("/d/f") = 0"#,
            r#"unlink("/d/n") = 0"#,
            r#"rmdir("/d") = 0"#,
        ],
        &["makes-a-device", "made-by-others", "made-by-others", "made-by-others"],
    );
}

/// Fails if the same is so of a socket, of which no call that is recorded says where it is.
#[test]
fn directory_with_a_socket_is_not_removed() {
    let _turn = beside_others();
    check(
        &[
            r#"mkdir("/d", 0755) = 0"#,
            r#"rmdir("/d") = -1 ENOTEMPTY (Directory not empty)"#,
            r#"openat(AT_FDCWD, "/d/s", O_RDWR|O_CREAT|O_EXCL, 0644) = -1 EEXIST (File exists)"#,
            r#"unlink("/d/s") = 0"#,
            r#"rmdir("/d") = 0"#,
        ],
        &["made-by-others", "made-by-others", "made-by-others"],
    );
}

/// Fails if a directory that was found full keeps something after the removal of its entries.
#[test]
fn full_directory_contains_its_known_files() {
    let _turn = beside_others();
    check(
        &[
            r#"rmdir("/d") = -1 ENOTEMPTY (Directory not empty)"#,
            r#"unlink("/d/f") = 0"#,
            r#"rmdir("/d") = 0"#,
        ],
        &[],
    );
}

/// Fails if a working directory leads through names that are gone by then; or if names that a
/// program has spelled are left out.
#[test]
fn working_directory_is_the_entered_one() {
    let _turn = beside_others();
    check_with(
        &[
            r#"mkdir("/d", 0755) = 0"#,
            r#"chdir("/d") = 0"#,
            r#"mkdir("e", 0755) = 0"#,
            r#"chdir("e") = 0"#,
            r#"mkdir("f", 0755) = 0"#,
            r#"chdir("f") = 0"#,
            r#"chdir("..") = 0"#,
            r#"rmdir("f") = 0"#,
            r#"rmdir("f/../g") = -1 ENOENT (No such file or directory)"#,
            r#"chdir("..") = 0"#,
            r#"rmdir("e") = 0"#,
            r#"chdir("..") = 0"#,
            r#"rmdir("d") = 0"#,
        ],
        &[],
        6,
    );
}

/// Checks the same through a link, whose directory is elsewhere.
#[test]
fn working_directory_may_be_reached_through_a_link() {
    let _turn = beside_others();
    check_with(
        &[
            r#"mkdir("/d", 0755) = 0"#,
            r#"mkdir("/d/e", 0755) = 0"#,
            r#"symlink("/d/e", "/l") = 0"#,
            r#"chdir("/l") = 0"#,
            r#"chdir("..") = 0"#,
            r#"rmdir("e") = 0"#,
            r#"unlink("/l") = 0"#,
            r#"rmdir("/d") = 0"#,
        ],
        &[],
        2,
    );
}

/// Fails if what `openat2` was refused for is not asked for in the replay, and the call is done
/// again all the same.
#[test]
fn refused_open_how_is_left_out() {
    let _turn = beside_others();
    check_with(
        &[
            r#"chdir("/d") = 0"#,
            r#"openat2(AT_FDCWD, "f", {flags=O_RDWR|O_CREAT|O_EXCL, mode=0644, resolve=RESOLVE_BENEATH}, 24) = 3</d/f>"#,
            r#"write(3</d/f>, ""..., 5) = 5"#,
            r#"symlink("f", "l") = 0"#,
            r#"openat2(AT_FDCWD, "l", {flags=O_RDONLY, resolve=RESOLVE_NO_SYMLINKS}, 24) = -1 ELOOP (Too many levels of symbolic links)"#,
            r#"openat2(AT_FDCWD, "l", {flags=O_RDONLY|O_NOFOLLOW, resolve=0}, 24) = -1 ELOOP (Too many levels of symbolic links)"#,
            r#"openat2(AT_FDCWD, "f", {flags=O_RDONLY, mode=0700, resolve=0}, 24) = -1 EINVAL (Invalid argument)"#,
            r#"openat2(AT_FDCWD, "f", {flags=O_RDONLY, resolve=0}, 128) = -1 E2BIG (Argument list too long)"#,
            r#"openat2(AT_FDCWD, "n", {flags=O_RDONLY, resolve=RESOLVE_BENEATH}, 24) = -1 ENOENT (No such file or directory)"#,
        ],
        // One row is of three calls.
        &["open-how"],
        1 + 2,
    );
}

/// Fails if a file whose `open_how` was not read is reported as made by others.
#[test]
fn unread_open_how_is_left_out() {
    let _turn = beside_others();
    check_with(
        &[
            r#"chdir("/d") = 0"#,
            r#"access("f", F_OK) = -1 ENOENT (No such file or directory)"#,
            r#"openat2(AT_FDCWD, "f", 0x7ffd00001000, 24) = 3</d/f>"#,
            r#"write(3</d/f>, ""..., 5) = 5"#,
            r#"close(3</d/f>) = 0"#,
            r#"openat(AT_FDCWD, "f", O_RDONLY) = 3</d/f>"#,
        ],
        &["made-by-others", "argument-unread", "argument-unread", "argument-unread"],
        1,
    );
}

/// Fails if direct I/O is done again that was refused for where its buffer lay.
#[test]
fn buffers_in_the_wrong_place_are_left_out() {
    let _turn = beside_others();
    check(
        &[
            r#"openat(AT_FDCWD, "/d/f", O_RDONLY|O_DIRECT) = 3</d/f>"#,
            r#"pread64(3</d/f>, ""..., 4096, 0) = 4096"#,
            r#"pread64(3</d/f>, 0x7ffd00001001, 4096, 0) = -1 EINVAL (Invalid argument)"#,
            r#"openat(AT_FDCWD, "/d/f", O_RDONLY) = 4</d/f>"#,
            r#"pread64(4</d/f>, 0x7ffd00001001, 4096, -7) = -1 EINVAL (Invalid argument)"#,
        ],
        &["buffer-address"],
    );
}

/// Fails if `close_range` does not mark descriptors in the replay.
#[test]
fn descriptors_are_marked_in_a_range() {
    let _turn = beside_others();
    check_with(
        &[
            r#"openat(AT_FDCWD, "/d", O_RDONLY|O_DIRECTORY) = 3</d>"#,
            r#"close_range(3, 4, CLOSE_RANGE_CLOEXEC) = 0"#,
            r#"fcntl(3</d>, F_GETFD) = 0x1 (flags FD_CLOEXEC)"#,
            r#"fcntl(3</d>, F_SETFD, 0) = 0"#,
            r#"fcntl(3</d>, F_GETFD) = 0"#,
        ],
        &[],
        1,
    );
}

/// A file that goes to a socket and a pipe.
const SENDS: [&str; 8] = [
    r#"openat(AT_FDCWD, "/d/f", O_RDONLY) = 3</d/f>"#,
    r#"sendfile(4<socket:[7]>, 3</d/f>, NULL, 1000000) = 65536"#,
    r#"lseek(3</d/f>, 0, SEEK_CUR) = 65536"#,
    r#"splice(3</d/f>, NULL, 5<pipe:[8]>, NULL, 1000000, 0) = 4096"#,
    r#"lseek(3</d/f>, 0, SEEK_CUR) = 69632"#,
    r#"sendfile(4<socket:[7]>, 3</d/f>, [0] => [4096], 1000000) = 4096"#,
    r#"lseek(3</d/f>, 0, SEEK_CUR) = 69632"#,
    r#"sendfile(4<socket:[7]>, 3</d/f>, NULL, 1000000) = -1 EAGAIN (Resource temporarily unavailable)"#,
];

/// Fails if a file that goes to a socket or a pipe is not read: its position would be another.
#[test]
fn file_sent_to_a_socket_is_read() {
    let _turn = beside_others();
    check(&SENDS, &["not-a-file"]);
}

/// Fails if the replay reads other bytes than the program did, as a recording of it shows.
#[test]
fn replay_reads_a_file_sent_to_a_socket() {
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay_results");
    // Arguments in memory are not read from a recording of a replay.
    let calls = SENDS.iter().take(5);
    let lines: Vec<Line<'_>> = (0..).zip(calls).map(|(at, call)| (7, at * 10, 1, *call)).collect();
    made(dir.path(), &lines);
    let again = format!("{}/", text(&dir.path().join("again")));
    let finished = run(dir.path(), &["--speed", "max", "--trace", &again]);
    let report: Value = serde_json::from_str(&finished.stdout()).expect("JSON");
    assert_eq!(report["trace"]["is_same"], true, "{:#}", report["trace"]);
    let recording = Recording::open(&dir.path().join("again/traces.iocap"));
    let sent = recording.operations().into_iter().filter(|it| it.name == "sendfile64");
    let sent: Vec<(Option<i64>, Option<u64>)> = sent.map(|it| (it.result, it.offset)).collect();
    assert_eq!(sent, [(Some(65536), Some(0)), (Some(4096), Some(65536))]);
}

/// Fails if the flag of one process's descriptor is taken for that of another's.
#[test]
fn flags_of_shared_descriptors_are_left_out() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay_results");
    let fork = "clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f0000000a10) = 8";
    made(
        dir.path(),
        &[
            (7, 0, 1, r#"openat(AT_FDCWD, "/a", O_RDWR|O_CREAT, 0644) = 3</a>"#),
            (7, 10, 1, "fcntl(3</a>, F_GETFD) = 0"),
            (7, 20, 1, fork),
            (8, 30, 1, "fcntl(3</a>, F_SETFD, FD_CLOEXEC) = 0"),
            (7, 40, 1, "fcntl(3</a>, F_GETFD) = 0"),
            (7, 50, 1, "close(3</a>) = 0"),
            (8, 60, 1, "fcntl(3</a>, F_GETFD) = 0x1 (flags FD_CLOEXEC)"),
            (8, 70, 1, "fcntl(3</a>, F_SETFD, 0) = 0"),
            (8, 80, 1, "fcntl(3</a>, F_GETFD) = 0"),
        ],
    );
    let finished = run(dir.path(), &["--speed", "max"]);
    let report: Value = serde_json::from_str(&finished.stdout()).expect("JSON");
    assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
    let left = &report["left_calls"][0];
    assert_eq!((&left["reason"], &left["count"]), (&"descriptor-shared".into(), &3.into()));
    assert_eq!(report["operations"], 5, "{report:#}");
}

/// Fails if a part of a replay waits for operations after its end: a seek that was put before an
/// operation, which ends later.
#[test]
fn part_ends_despite_entries_between() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay_results");
    let thread = "clone(child_stack=0x7f0000001000, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD|CLONE_SYSVSEM) = 8";
    let lines = [
        (7, 0, 1, r#"openat(AT_FDCWD, "/a", O_RDWR|O_CREAT, 0644) = 3</a>"#),
        (7, 10, 1, thread),
        (7, 20, 1, r#"write(3</a>, ""..., 23) = 23"#),
        (7, 30, 1, "splice(5<pipe:[7]>, NULL, 3</a>, NULL, 10, 0) = 10"),
        (7, 1000, 100, r#"write(3</a>, ""..., 23) = 23"#),
        (8, 1070, 10, r#"pwrite64(3</a>, ""..., 23, 4099) = 23"#),
        (7, 1200, 1, "close(3</a>) = 0"),
    ];
    for order in ["total", "deps"] {
        for (part, operations) in [("--until", 2), ("--from", 5)] {
            let _ = fs::remove_dir_all(dir.path().join("root"));
            for it in ["iocap", "ioplan"] {
                let _ = fs::remove_file(dir.path().join("it").with_extension(it));
            }
            made(dir.path(), &lines);
            let finished = run(dir.path(), &["--order", order, part, "1050ms"]);
            let report: Value = serde_json::from_str(&finished.stdout()).expect("JSON");
            assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
            assert_eq!(report["operations"], operations, "{order} {part}: {report:#}");
        }
    }
}
