//! What processes become, in the language of `tracker_tests`.

use expect_test::expect;

use super::tracker_tests::{check, told};

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

#[test]
fn also_behind_a_directory_that_the_exec_closes() {
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

/// What process 1 makes by such a call, then an exec: is it still there?
#[track_caller]
fn is_kept(call: &str, arguments: &str) -> bool {
    let told = told(&format!(
        "100 1/1 > {call} {arguments}
         101 1/1 < {call} 5 /a
         110 1/1 exec 1/1
         120 1/1 > read 5
         121 1/1 < read 1"
    ));
    let read = told.lines().last().expect("a line");
    !read.starts_with("1: read 5   ")
}

#[test]
fn an_exec_closes_what_was_made_to_be_closed() {
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
        // What is made by a `dup` has no name here.
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
fn of_a_pair_both() {
    let told = |flags: i32| {
        told(&format!(
            "100 1/1 > pipe2 4096 {flags}
             101 1/1 <pair pipe2 4096 5 6
             110 1/1 exec 1/1
             120 1/1 > read 6
             121 1/1 < read 1"
        ))
    };
    assert!(told(libc::O_CLOEXEC).ends_with("1: read 6   at ? = 1\n"));
    assert!(told(0).ends_with("1: read 6 pipe:[?] call at ? = 1\n"));
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
            1: signalfd4 -1   at ? = 7
        "#]],
    );
}
