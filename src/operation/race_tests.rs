//! What threads do to descriptors and directories at the same time, in the language of `tracker_tests`.

use expect_test::{Expect, expect};

use super::tracker_tests::check;

/// `/a` is open as 3, `/b` as 4, and process 1 has a second thread; then `text`.
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
fn what_another_thread_replaces_is_neither_file() {
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
fn nor_is_it_for_who_writes_there_or_duplicates_it() {
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
fn a_lost_end_replaces_nothing_for_ever() {
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
fn what_was_closed_and_opened_meanwhile_may_be_another_file() {
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
fn directories_that_change_places_do_so_once_for_all_who_share_one() {
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
