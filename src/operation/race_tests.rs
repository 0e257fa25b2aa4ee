//! Tests of concurrent changes of descriptors and directories by threads, in the language of
//! `tracker_tests`.

use expect_test::{Expect, expect};

use super::tracker_tests::check;

/// Setup: `/a` is open as 3, `/b` as 4, and process 1 has a second thread; then `text`.
#[track_caller]
fn after(text: &str, expected: &Expect) {
    let text = format!(
        "100 1/1 > openat -100 0 0
         101 1/1 < openat 3 /a
         102 1/1 > openat -100 0 0
         103 1/1 < openat 4 /b
         105 1/1 fork 1/1 1/2
         {text}"
    );
    check(&text, expected);
}

#[test]
fn concurrently_replaced_descriptor_is_neither_file() {
    after(
        "110 1/2 > dup2 4 3
         111 1/1 > read 3 0 10
         112 1/1 < read 10
         113 1/2 < dup2 3
         114 1/1 > read 3 0 10
         115 1/1 < read 10",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: openat 4 /b fd-link at ? = 4
            1: read 3   at ? = 10
            2: dup2 4 /b fd-link at ? = 3
            1: read 3 /b fd-link at ? = 10
        "#]],
    );
}

#[test]
fn concurrent_writes_and_dups_get_neither_file() {
    after(
        "106 1/1 > openat -100 0 0
         107 1/1 < openat 5 /c
         110 1/2 > dup2 4 3
         111 1/1 > sendfile64 3 5 0 10
         112 1/1 < sendfile64 10
         113 1/1 > dup 3
         114 1/1 < dup 6
         115 1/2 < dup2 3
         116 1/1 > read 6 0 10
         117 1/1 < read 10",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: openat 4 /b fd-link at ? = 4
            1: openat 5 /c fd-link at ? = 5
            1: sendfile64 5 /c fd-link at 0 = 10
            1: dup 3   at ? = 6
            2: dup2 4 /b fd-link at ? = 3
            1: read 6   at ? = 10
        "#]],
    );
}

#[test]
fn lost_exit_does_not_block_a_descriptor_for_ever() {
    after(
        "110 1/2 > dup2 4 3
         120 1/2 > close 9
         121 1/2 < close -9
         130 1/1 > read 3 0 10
         131 1/1 < read 10",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: openat 4 /b fd-link at ? = 4
            2: dup2 without its exit
            2: close 9   at ? = -9
            1: read 3 /a fd-link at 0 = 10
        "#]],
    );
}

#[test]
fn descriptor_reused_during_a_call_is_unknown() {
    after(
        "110 1/1 > read 3 0 10
         111 1/2 > close 3
         112 1/2 < close 0
         113 1/2 > openat -100 0 0
         114 1/2 < openat 3 /c
         115 1/1 < read 10
         116 1/1 > read 3 0 10
         117 1/1 < read 10",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: openat 4 /b fd-link at ? = 4
            2: close 3 /a fd-link at ? = 0
            2: openat 3 /c fd-link at ? = 3
            1: read 3 /a unverified at ? = 10
            1: read 3 /c fd-link at 0 = 10
        "#]],
    );
}

#[test]
fn shared_working_directory_changes_once() {
    check(
        "1 root 1 /
         1 cwd 1 /x
         10 1/1 fork 1/1 2/2
         11 1/1 born 512
         20 1/1 > renameat2 -100 0 -100 0 2
         21 1/1 < renameat2 0 /x /y
         30 1/1 > openat -100 0 0
         31 1/1 < openat 3 /y/f
         40 2/2 > unlink 0
         41 2/2 < unlink 0 f
         50 1/1 > read 3 0 1
         51 1/1 < read 1",
        &expect![[r#"
            1: renameat2 -1 /x argument at ? = 0 [/x] [/y]
            1: openat 3 /y/f fd-link at ? = 3
            2: unlink -1 f argument at ? = 0 [/y/f]
            1: read 3 /y/f (deleted) renamed at 0 = 1
        "#]],
    );
}

/// Setup: two threads share `/x`; then `text`.
#[track_caller]
fn in_one_directory(text: &str, expected: &Expect) {
    let text = format!("1 root 1 /\n1 cwd 1 /x\n10 1/1 fork 1/1 1/2\n11 1/1 born 1536\n{text}");
    check(&text, expected);
}

#[test]
fn a_directory_that_changes_during_a_call_is_neither() {
    in_one_directory(
        "20 1/1 > unlink 0
         21 1/2 > chdir 0
         22 1/2 < chdir 0 /y
         23 1/1 < unlink 0 f
         30 1/1 > unlink 0
         31 1/1 < unlink 0 f
         40 1/2 > chdir 0
         41 1/1 > unlink 0
         42 1/1 < unlink 0 f
         43 1/2 < chdir 0 z
         44 1/1 > unlink 0
         45 1/1 < unlink 0 f",
        &expect![[r#"
            2: chdir -1 /y argument at ? = 0 [/y]
            1: unlink -1 f argument at ? = 0 [f]
            1: unlink -1 f argument at ? = 0 [/y/f]
            1: unlink -1 f argument at ? = 0 [f]
            2: chdir -1 z argument at ? = 0 [/y/z]
            1: unlink -1 f argument at ? = 0 [/y/z/f]
        "#]],
    );
}

#[test]
fn failed_chdir_keeps_the_directory() {
    in_one_directory(
        "20 1/1 > unlink 0
         21 1/2 > chdir 0
         22 1/2 < chdir -2 /y
         23 1/1 < unlink 0 f",
        &expect![[r#"
            2: chdir -1 /y argument at ? = -2 [/y]
            1: unlink -1 f argument at ? = 0 [/x/f]
        "#]],
    );
}

#[test]
fn order_of_concurrent_chdirs_is_unknown() {
    in_one_directory(
        "20 1/1 > chdir 0
         21 1/2 > chdir 0
         22 1/2 < chdir 0 /y
         23 1/1 < chdir 0 /z
         24 1/1 > unlink 0
         25 1/1 < unlink 0 f
         26 1/1 > chdir 0
         27 1/1 < chdir 0 /z
         28 1/1 > unlink 0
         29 1/1 < unlink 0 f",
        &expect![[r#"
            2: chdir -1 /y argument at ? = 0 [/y]
            1: chdir -1 /z argument at ? = 0 [/z]
            1: unlink -1 f argument at ? = 0 [f]
            1: chdir -1 /z argument at ? = 0 [/z]
            1: unlink -1 f argument at ? = 0 [/z/f]
        "#]],
    );
}

#[test]
fn a_change_whose_end_was_not_seen_may_have_been_made() {
    in_one_directory(
        "20 1/2 > chdir 0
         21 1/2 > unlink 0
         22 1/2 < unlink 0 f
         23 1/2 > chdir 0
         24 1/2 < chdir 0 /y
         25 1/2 > unlink 0
         26 1/2 < unlink 0 f",
        &expect![[r#"
            2: chdir without its exit
            2: unlink -1 f argument at ? = 0 [f]
            2: chdir -1 /y argument at ? = 0 [/y]
            2: unlink -1 f argument at ? = 0 [/y/f]
        "#]],
    );
}

#[test]
fn a_directory_that_is_closed_during_a_call_may_be_another() {
    in_one_directory(
        "20 1/1 > openat -100 0 0
         21 1/1 < openat 3 /x/d
         22 1/1 > unlinkat 3 0 0
         23 1/2 > close 3
         24 1/2 < close 0
         25 1/2 > openat -100 0 0
         26 1/2 < openat 3 /x/e
         27 1/1 < unlinkat 0 f
         30 1/1 > unlinkat 3 0 0
         31 1/1 < unlinkat 0 f",
        &expect![[r#"
            1: openat 3 /x/d fd-link at ? = 3
            2: close 3 /x/d fd-link at ? = 0
            2: openat 3 /x/e fd-link at ? = 3
            1: unlinkat -1 f argument at ? = 0 [f]
            1: unlinkat -1 f argument at ? = 0 [/x/e/f]
        "#]],
    );
}

#[test]
fn a_descriptor_that_is_taken_has_an_unknown_file_and_moves_an_unknown_position() {
    in_one_directory(
        "20 1/1 > openat -100 0 2
         21 1/1 < openat 3 /x/a
         22 1/1 > openat -100 0 2
         23 1/1 < openat 4 /x/b
         24 1/1 > pidfd_getfd 9 3 0
         25 1/1 < pidfd_getfd 5
         26 1/1 > write 5 0 10
         27 1/1 < write 10
         28 1/1 > write 3 0 10
         29 1/1 < write 10
         30 1/1 > write 4 0 10
         31 1/1 < write 10",
        &expect![[r#"
            1: openat 3 /x/a fd-link at ? = 3
            1: openat 4 /x/b fd-link at ? = 4
            1: pidfd_getfd 5   at ? = 5
            1: write 5   at ? = 10
            1: write 3 /x/a fd-link at ? = 10
            1: write 4 /x/b fd-link at 0 = 10
        "#]],
    );
}
