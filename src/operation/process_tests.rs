//! Tests of forks, execs and ends of processes, in the language of `tracker_tests`.

use expect_test::{Expect, expect};

use super::context::Observability;
use super::tracker_tests::{check, check_with, step_text};

#[test]
fn a_program_has_the_path_that_the_exec_was_given() {
    check(
        "0 cwd 1 /data
         0 root 1 /
         100 1/1 > execve 0
         101 1/1 exec 1/1
         102 1/1 <x execve 0 bin/x
         110 1/1 > execve 0
         111 1/1 < execve -2",
        &expect![[r#"
            1: execve -1 bin/x exec-event at ? = 0 [/data/bin/x]
            1: execve -1   at ? = -2
        "#]],
    );
}

/// Fails if paths are followed from a place that the process may have left.
#[test]
fn where_moves_are_not_recorded_relative_paths_are_not_completed() {
    let text = "0 cwd 1 /data
         0 root 1 /
         100 1/1 > unlink 0
         101 1/1 < unlink 0 x
         102 1/1 > unlink 0
         103 1/1 < unlink 0 /x";
    check_with(
        Observability { directories: false, ..Observability::ALL },
        text,
        &expect![[r#"
        1: unlink -1 x argument at ? = 0 [x]
        1: unlink -1 /x argument at ? = 0 [/x]
    "#]],
    );
    check_with(
        Observability { roots: false, ..Observability::ALL },
        text,
        &expect![[r#"
        1: unlink -1 x argument at ? = 0 [/data/x]
        1: unlink -1 /x argument at ? = 0 [/x]
    "#]],
    );
}

#[test]
fn exec_path_below_a_close_on_exec_directory_is_known() {
    check(
        "100 1/1 > openat -100 0 524288
         101 1/1 < openat 3 /data
         102 1/1 > execveat 3 0
         103 1/1 exec 1/1
         104 1/1 <x execve 0 x
         110 1/1 > read 3 0 1
         111 1/1 < read -9",
        &expect![[r#"
            1: openat 3 /data fd-link at ? = 3
            1: execveat -1 x exec-event at ? = 0 [/data/x]
            1: read 3   at ? = -9
        "#]],
    );
}

/// Checks whether the descriptor that process 1 makes by such a call is still there after an exec.
#[track_caller]
fn is_kept(call: &str, arguments: &str) -> bool {
    let steps = step_text(&format!(
        "100 1/1 > {call} {arguments}
         101 1/1 < {call} 5 /a
         110 1/1 exec 1/1
         120 1/1 > read 5
         121 1/1 < read 1"
    ));
    let read = steps.lines().last().expect("a line");
    !read.starts_with("1: read 5   ")
}

#[test]
fn exec_closes_close_on_exec_descriptors() {
    let bit = libc::O_CLOEXEC;
    for (call, closed, kept) in [
        ("socket", format!("1 {}", bit | 1), "1 1"),
        ("accept4", format!("3 0 0 {bit}"), "3 0 0 0"),
        ("eventfd2", format!("0 {bit}"), "0 0"),
        ("epoll_create1", format!("{bit}"), "0"),
        ("inotify_init1", format!("{bit}"), "0"),
        ("signalfd4", format!("-1 0 8 {bit}"), "-1 0 8 0"),
        ("timerfd_create", format!("1 {bit}"), "1 0"),
        ("memfd_create", "0 1".to_owned(), "0 0"),
        ("userfaultfd", format!("{bit}"), "0"),
        ("memfd_secret", format!("{bit}"), "0"),
        ("perf_event_open", "0 0 0 0 8".to_owned(), "0 0 0 0 0"),
        ("fanotify_init", "1".to_owned(), "0"),
        ("open_tree", format!("-100 0 {bit}"), "-100 0 1"),
        ("open_tree_attr", format!("-100 0 {bit}"), "-100 0 1"),
        ("fsopen", "0 1".to_owned(), "0 0"),
        ("fsmount", "3 1".to_owned(), "3 0"),
        ("fspick", "-100 0 1".to_owned(), "-100 0 0"),
        ("dup3", format!("0 5 {bit}"), "0 5 0"),
    ] {
        assert!(!is_kept(call, &closed), "{call} {closed}");
        // A descriptor from `dup` has no name here.
        assert!(is_kept(call, kept) || call == "dup3", "{call} {kept}");
    }
    for call in
        ["mq_open", "pidfd_open", "pidfd_getfd", "io_uring_setup", "landlock_create_ruleset"]
    {
        assert!(!is_kept(call, "0"), "{call}");
    }
    for call in ["accept", "eventfd", "epoll_create", "inotify_init"] {
        assert!(is_kept(call, "0"), "{call}");
    }
}

#[test]
fn both_descriptors_of_a_pair_are_closed_by_exec() {
    let steps = |flags: i32| {
        step_text(&format!(
            "100 1/1 > pipe2 4096 {flags}
             101 1/1 <pair pipe2 4096 5 6
             110 1/1 exec 1/1
             120 1/1 > read 6
             121 1/1 < read 1"
        ))
    };
    assert!(steps(libc::O_CLOEXEC).ends_with("1: read 6   at ? = 1\n"));
    assert!(steps(0).ends_with("1: read 6 pipe:[?] call at ? = 1\n"));
}

#[test]
fn a_result_may_be_no_descriptor() {
    check(
        "100 1/1 > bpf 0
         101 1/1 < bpf 5
         102 1/1 > bpf 2
         103 1/1 < bpf 0
         104 1/1 > seccomp 1 8
         105 1/1 < seccomp 6
         106 1/1 > seccomp 1 0
         107 1/1 < seccomp 0
         108 1/1 > landlock_create_ruleset 0 0 1
         109 1/1 < landlock_create_ruleset 6
         110 1/1 > signalfd4 -1 0 8 0
         111 1/1 < signalfd4 7
         112 1/1 > signalfd4 7 0 8 0
         113 1/1 < signalfd4 7",
        &expect![[r#"
            1: bpf 5 bpf call at ? = 5
            1: bpf -1   at ? = 0
            1: seccomp 6 anon_inode:seccomp notify call at ? = 6
            1: seccomp -1   at ? = 0
            1: landlock_create_ruleset -1   at ? = 6
            1: signalfd4 7 anon_inode:[signalfd] call at ? = 7
            1: signalfd4 7 anon_inode:[signalfd] call at ? = 7
        "#]],
    );
}

/// Setup: `/a` is open as 3 in process 1, in `/data`, whose threads are 1 and 2, born with `flags`;
/// then `text`, then each thread reads 3 and opens `x`.
#[track_caller]
fn after(flags: u64, text: &str, expected: &Expect) {
    check(
        &format!(
            "0 cwd 1 /data
             0 root 1 /
             10 1/1 > openat -100 0 0
             11 1/1 < openat 3 /a
             20 1/1 fork 1/1 1/2
             21 1/1 born {flags}
             {text}
             900 1/1 > read 3 0 1
             901 1/1 < read 1
             902 1/2 > read 3 0 1
             903 1/2 < read 1
             904 1/1 > openat -100 0 0
             905 1/1 <k openat 8 x
             906 1/2 > openat -100 0 0
             907 1/2 <k openat 9 x"
        ),
        expected,
    );
}

/// `CLONE_VM`, `CLONE_SIGHAND` and `CLONE_THREAD`.
const THREAD: u64 = 0x10900;

/// Usual flags of threads: those, `CLONE_FS` and `CLONE_FILES`.
const ALL: u64 = THREAD | 0x600;

#[test]
fn threads_share_the_resources_of_their_clone_flags() {
    let text = "30 1/2 > close 3
                31 1/2 < close 0
                32 1/2 > chdir 0
                33 1/2 <k chdir 0 there";
    after(
        ALL,
        text,
        &expect![[r#"
        1: openat 3 /a fd-link at ? = 3
        2: close 3 /a fd-link at ? = 0
        2: chdir -1 there kernel-string at ? = 0 [/data/there]
        1: read 3   at ? = 1
        2: read 3   at ? = 1
        1: openat 8 /data/there/x kernel-string at ? = 8
        2: openat 9 /data/there/x kernel-string at ? = 9
    "#]],
    );
    after(
        THREAD,
        text,
        &expect![[r#"
        1: openat 3 /a fd-link at ? = 3
        2: close 3 /a fd-link at ? = 0
        2: chdir -1 there kernel-string at ? = 0 [/data/there]
        1: read 3 /a fd-link at 0 = 1
        2: read 3   at ? = 1
        1: openat 8 /data/x kernel-string at ? = 8
        2: openat 9 /data/there/x kernel-string at ? = 9
    "#]],
    );
}

#[test]
fn a_thread_may_leave_its_descriptors_and_its_directory() {
    after(
        ALL,
        "30 1/2 > unshare 1024
         31 1/2 < unshare 0
         32 1/2 > close 3
         33 1/2 < close 0
         34 1/1 > chdir 0
         35 1/1 <k chdir 0 here
         36 1/2 > unshare 131072
         37 1/2 < unshare 0
         38 1/2 > chdir 0
         39 1/2 <k chdir 0 there",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            2: unshare -1   at ? = 0
            2: close 3 /a fd-link at ? = 0
            1: chdir -1 here kernel-string at ? = 0 [/data/here]
            2: unshare -1   at ? = 0
            2: chdir -1 there@1 kernel-string at ? = 0 [/data/here/there]
            1: read 3 /a fd-link at 0 = 1
            2: read 3   at ? = 1
            1: openat 8 /data/here/x kernel-string at ? = 8
            2: openat 9 /data/here/there/x@1 kernel-string at ? = 9
        "#]],
    );
}

#[test]
fn close_range_unshare_separates_the_table() {
    after(
        ALL,
        "30 1/2 > close_range 3 9 2
         31 1/2 < close_range 0",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            2: close_range 3   at ? = 0
            1: read 3 /a fd-link at 0 = 1
            2: read 3   at ? = 1
            1: openat 8 /data/x kernel-string at ? = 8
            2: openat 9 /data/x kernel-string at ? = 9
        "#]],
    );
}

#[test]
fn concurrent_changes_make_the_copy_uncertain() {
    after(
        ALL,
        "30 1/2 > unshare 1024
         31 1/1 > openat -100 0 0
         32 1/1 < openat 4 /b
         33 1/2 < unshare 0
         34 1/2 > read 4 0 1
         35 1/2 < read 1",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: openat 4 /b fd-link at ? = 4
            2: unshare -1   at ? = 0
            2: read 4   at ? = 1
            1: read 3 /a fd-link at 0 = 1
            2: read 3 /a fd-link at 1 = 1
            1: openat 8 /data/x kernel-string at ? = 8
            2: openat 9 /data/x kernel-string at ? = 9
        "#]],
    );
}

#[test]
fn exec_keeps_the_resources_of_its_thread() {
    after(
        ALL,
        "30 1/2 > unshare 1024
         31 1/2 < unshare 0
         32 1/2 > openat -100 0 0
         33 1/2 < openat 4 /b
         34 1/2 > execve 0
         35 1/1 exec 1/1
         36 1/1 < execve 0
         40 1/1 > read 4 0 1
         41 1/1 < read 1",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            2: unshare -1   at ? = 0
            2: openat 4 /b fd-link at ? = 4
            1: read 4 /b fd-link at 0 = 1
            1: read 3 /a fd-link at 0 = 1
            2: read 3 /a fd-link at 1 = 1
            1: openat 8 /data/x kernel-string at ? = 8
            2: openat 9 /data/x kernel-string at ? = 9
        "#]],
    );
}

#[test]
fn processes_may_share_a_working_directory() {
    check(
        "0 cwd 1 /data
         0 root 1 /
         20 1/1 fork 1/1 2/2
         21 1/1 born 512
         30 2/2 > chdir 0
         31 2/2 <k chdir 0 there
         32 1/1 > openat -100 0 0
         33 1/1 <k openat 3 x
         34 2/2 > unshare 512
         35 2/2 < unshare 0
         36 2/2 > chdir 0
         37 2/2 <k chdir 0 ..
         38 1/1 > openat -100 0 0
         39 1/1 <k openat 3 x",
        &expect![[r#"
            2: chdir -1 there kernel-string at ? = 0 [/data/there]
            1: openat 3 /data/there/x kernel-string at ? = 3
            2: unshare -1   at ? = 0
            2: chdir -1 .. kernel-string at ? = 0 [/data/there/..]
            1: openat 3 /data/there/x kernel-string at ? = 3
        "#]],
    );
}

#[test]
fn setns_makes_the_working_directory_unknown() {
    for (call, is_lost) in [
        // Flags of mounts, of a network, or none. Without flags the descriptor decides: not known,
        // mounts, a network.
        ("setns 7 131072", true),
        ("setns 7 1073741824", false),
        ("setns 7 0", true),
        ("setns 5 0", true),
        ("setns 6 0", false),
    ] {
        let steps = step_text(&format!(
            "0 cwd 1 /data
             10 1/1 > openat -100 0 0
             11 1/1 < openat 5 mnt:[4026531841]
             12 1/1 > openat -100 0 0
             13 1/1 < openat 6 net:[4026531840]
             20 1/1 > {call}
             21 1/1 < setns 0
             30 1/1 > openat -100 0 0
             31 1/1 <k openat 8 x"
        ));
        let expected = if is_lost { "8 x@" } else { "8 /data/x kernel-string" };
        assert!(steps.contains(expected), "{call}: {steps}");
    }
}

#[test]
fn another_root_for_all_is_another_place_for_all() {
    check(
        "0 cwd 1 /data
         0 root 1 /
         20 1/1 fork 1/1 2/2
         30 2/2 > pivot_root 0 0
         31 2/2 <k pivot_root 0 . old
         32 1/1 > openat -100 0 0
         33 1/1 <k openat 3 x
         34 2/2 > openat -100 0 0
         35 2/2 <k openat 3 /x",
        &expect![[r#"
            2: pivot_root -1 . kernel-string at ? = 0 [/data] [/data/old]
            1: openat 3 x kernel-string at ? = 3
            2: openat 3 /x unverified at ? = 3
        "#]],
    );
}

/// Setup: processes 1 and 2 have mounts of their own, and `/data/a` open in them: another file in
/// each, or the same (`~` is another name of one). Then `text` in process 1, then both are read.
#[track_caller]
fn in_two_namespaces(second: &str, text: &str, expected: &Expect) {
    check(
        &format!(
            "0 mounts 0 mnt:[7]
             0 mounts 1 mnt:[7]
             0 cwd 1 /data
             0 root 1 /
             1 1/1 fork 1/1 2/2
             2 1/1 born 131072
             10 1/1 > openat -100 0 0
             11 1/1 < openat 3 /data/a
             12 2/2 > openat -100 0 0
             13 2/2 < openat 3 {second}
             {text}
             900 1/1 > read 3 0 1
             901 1/1 < read 1
             902 2/2 > read 3 0 1
             903 2/2 < read 1"
        ),
        expected,
    );
}

#[test]
fn a_removal_is_of_one_namespace() {
    let text = "20 1/1 > unlink 0
                21 1/1 < unlink 0 a";
    // Another file, which has the same name by chance.
    in_two_namespaces(
        "/data/a/",
        text,
        &expect![[r#"
        1: openat 3 /data/a fd-link at ? = 3
        2: openat 3 /data/a/@1 fd-link at ? = 3
        1: unlink -1 a argument at ? = 0 [/data/a]
        1: read 3 /data/a (deleted) renamed at 0 = 1
        2: read 3 /data/a/@1 fd-link at 0 = 1
    "#]],
    );
    // The same file: its name may be there or not.
    in_two_namespaces(
        "/data/a",
        text,
        &expect![[r#"
        1: openat 3 /data/a fd-link at ? = 3
        2: openat 3 /data/a@1 fd-link at ? = 3
        1: unlink -1 a argument at ? = 0 [/data/a]
        1: read 3 /data/a (deleted) renamed at 0 = 1
        2: read 3 /data/a@1 unverified at 0 = 1
    "#]],
    );
    // The same file under a name that was not touched.
    in_two_namespaces(
        "/b/a~",
        text,
        &expect![[r#"
        1: openat 3 /data/a fd-link at ? = 3
        2: openat 3 /b/a~@1 fd-link at ? = 3
        1: unlink -1 a argument at ? = 0 [/data/a]
        1: read 3 /data/a (deleted) renamed at 0 = 1
        2: read 3 /b/a~@1 fd-link at 0 = 1
    "#]],
    );
}

#[test]
fn rename_is_of_one_namespace() {
    in_two_namespaces(
        "/data/a",
        "20 1/1 > rename 0 0
         21 1/1 < rename 0 a c",
        &expect![[r#"
            1: openat 3 /data/a fd-link at ? = 3
            2: openat 3 /data/a@1 fd-link at ? = 3
            1: rename -1 a argument at ? = 0 [/data/a] [/data/c]
            1: read 3 /data/c renamed at 0 = 1
            2: read 3 /data/a@1 unverified at 0 = 1
        "#]],
    );
    in_two_namespaces(
        "/data/a",
        "20 1/1 > rename 0 0
         21 1/1 < rename 0 . /other
         30 2/2 > openat -100 0 0
         31 2/2 <k openat 4 x",
        &expect![[r#"
            1: openat 3 /data/a fd-link at ? = 3
            2: openat 3 /data/a@1 fd-link at ? = 3
            1: rename -1 . argument at ? = 0 [/data] [/other]
            2: openat 4 x@1 kernel-string at ? = 4
            1: read 3 /other/a renamed at 0 = 1
            2: read 3 /data/a@1 unverified at 0 = 1
        "#]],
    );
}

#[test]
fn unknown_mounts_are_not_followed() {
    in_two_namespaces(
        "/data/b",
        "20 2/2 > setns 9 131072
         21 2/2 < setns 0
         22 2/2 > openat -100 0 0
         23 2/2 < openat 4 /data/c
         24 2/2 > unlink 0
         25 2/2 < unlink 0 /data/a
         26 2/2 > read 4 0 1
         27 2/2 < read 1
         28 1/1 > unlink 0
         29 1/1 < unlink 0 c
         30 2/2 > read 4 0 1
         31 2/2 < read 1",
        &expect![[r#"
            1: openat 3 /data/a fd-link at ? = 3
            2: openat 3 /data/b@1 fd-link at ? = 3
            2: setns 9   at ? = 0
            2: openat 4 /data/c@4294967295 fd-link at ? = 4
            2: unlink -1 /data/a@4294967295 argument at ? = 0 [/data/a]
            2: read 4 /data/c@4294967295 fd-link at 0 = 1
            1: unlink -1 c argument at ? = 0 [/data/c]
            2: read 4 /data/c@4294967295 unverified at 1 = 1
            1: read 3 /data/a fd-link at 0 = 1
            2: read 3 /data/b@1 fd-link at 0 = 1
        "#]],
    );
}

#[test]
fn mount_over_a_file_hides_its_name() {
    in_two_namespaces(
        "/b",
        "20 1/1 > mount 0 0
         21 1/1 < mount 0 /data
         22 1/1 > unlink 0
         23 1/1 < unlink 0 /data/other
         24 1/1 > read 3 0 1
         25 1/1 < read 1
         26 1/1 > unlink 0
         27 1/1 < unlink 0 /data/a
         28 1/1 > openat -100 0 0
         29 1/1 <k openat 4 x",
        &expect![[r#"
            1: openat 3 /data/a fd-link at ? = 3
            2: openat 3 /b@1 fd-link at ? = 3
            1: mount -1 /data argument at ? = 0 [/data]
            1: unlink -1 /data/other argument at ? = 0 [/data/other]
            1: read 3 /data/a fd-link at 0 = 1
            1: unlink -1 /data/a argument at ? = 0 [/data/a]
            1: openat 4 x kernel-string at ? = 4
            1: read 3 /data/a unverified at 1 = 1
            2: read 3 /b@1 fd-link at 0 = 1
        "#]],
    );
}

#[test]
fn propagation_change_covers_nothing_and_sets_affected_namespaces() {
    let text = |flags: u64| {
        format!(
            "20 2/2 > mount 0 0 0 {flags}
             21 2/2 < mount 0 /
             22 2/2 > mount 0 0
             23 2/2 < mount 0 /data
             24 1/1 > unlink 0
             25 1/1 < unlink 0 /data/a"
        )
    };
    // MS_REC with MS_PRIVATE: mounts of 2 do not propagate to 1. MS_REC with MS_SHARED: they do.
    in_two_namespaces(
        "/b",
        &text(0x4_4000),
        &expect![[r#"
        1: openat 3 /data/a fd-link at ? = 3
        2: openat 3 /b@1 fd-link at ? = 3
        2: mount -1 /@1 argument at ? = 0 [/]
        2: mount -1 /data@1 argument at ? = 0 [/data]
        1: unlink -1 /data/a argument at ? = 0 [/data/a]
        1: read 3 /data/a (deleted) renamed at 0 = 1
        2: read 3 /b@1 fd-link at 0 = 1
    "#]],
    );
    in_two_namespaces(
        "/b",
        &text(0x10_4000),
        &expect![[r#"
        1: openat 3 /data/a fd-link at ? = 3
        2: openat 3 /b@1 fd-link at ? = 3
        2: mount -1 /@1 argument at ? = 0 [/]
        2: mount -1 /data@1 argument at ? = 0 [/data]
        1: unlink -1 /data/a argument at ? = 0 [/data/a]
        1: read 3 /data/a unverified at 0 = 1
        2: read 3 /b@1 fd-link at 0 = 1
    "#]],
    );
}
