//! Open files whose names change, in the language of `tracker_tests`.

use expect_test::{Expect, expect};

use super::tracker_tests::check;

/// `/data/d/a` is open as 3, `/data/b` as 4; then `text`, then both are read.
#[track_caller]
fn after(text: &str, expected: &Expect) {
    let text = format!(
        "1 root 1 /
         1 cwd 1 /data
         10 1/1 > openat -100 0 2
         11 1/1 < openat 3 /data/d/a
         12 1/1 > openat -100 0 2
         13 1/1 < openat 4 /data/b
         {text}
         900 1/1 > read 3 0 1
         901 1/1 < read 1
         902 1/1 > read 4 0 1
         903 1/1 < read 1"
    );
    check(&text, expected);
}

#[test]
fn a_rename_gives_open_files_another_name() {
    after(
        "20 1/1 > read 3 0 1
         21 1/1 < read 1
         22 1/1 > rename 0 0
         23 1/1 < rename 0 d/a /data/d/new",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            1: read 3 /data/d/a fd-link at 0 = 1
            1: rename -1 d/a argument at ? = 0 [/data/d/a] [/data/d/new]
            1: read 3 /data/d/new renamed at 1 = 1
            1: read 4 /data/b fd-link at 0 = 1
        "#]],
    );
}

#[test]
fn so_does_that_of_a_directory_above() {
    after(
        "22 1/1 > rename 0 0
         23 1/1 < rename 0 d e
         24 1/1 > rename 0 0
         25 1/1 < rename 0 e/a e/c
         26 1/1 > rename 0 0
         27 1/1 < rename 0 e/other e/c2",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            1: rename -1 d argument at ? = 0 [/data/d] [/data/e]
            1: rename -1 e/a argument at ? = 0 [/data/e/a] [/data/e/c]
            1: rename -1 e/other argument at ? = 0 [/data/e/other] [/data/e/c2]
            1: read 3 /data/e/c renamed at 0 = 1
            1: read 4 /data/b fd-link at 0 = 1
        "#]],
    );
}

#[test]
fn what_is_renamed_onto_has_no_name_any_more() {
    after(
        "22 1/1 > rename 0 0
         23 1/1 < rename 0 other d/a",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            1: rename -1 other argument at ? = 0 [/data/other] [/data/d/a]
            1: read 3 /data/d/a (deleted) renamed at 0 = 1
            1: read 4 /data/b fd-link at 0 = 1
        "#]],
    );
}

#[test]
fn an_exchange_gives_each_the_place_of_the_other() {
    after(
        "22 1/1 > renameat2 -100 0 -100 0 2
         23 1/1 < renameat2 0 /data/d /data/b",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            1: renameat2 -1 /data/d argument at ? = 0 [/data/d] [/data/b]
            1: read 3 /data/b/a renamed at 0 = 1
            1: read 4 /data/d renamed at 0 = 1
        "#]],
    );
}

#[test]
fn a_removed_file_is_deleted_and_a_new_one_of_its_name_is_not() {
    after(
        "20 1/1 > unlink 0
         21 1/1 < unlink 0 b
         22 1/1 > openat -100 0 2
         23 1/1 < openat 5 /data/b
         24 1/1 > rename 0 0
         25 1/1 < rename 0 b c
         26 1/1 > read 5 0 1
         27 1/1 < read 1
         28 1/1 > rename 0 0
         29 1/1 < rename 0 /data /moved",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            1: unlink -1 b argument at ? = 0 [/data/b]
            1: openat 5 /data/b fd-link at ? = 5
            1: rename -1 b argument at ? = 0 [/data/b] [/data/c]
            1: read 5 /data/c renamed at 0 = 1
            1: rename -1 /data argument at ? = 0 [/data] [/moved]
            1: read 3 /moved/d/a renamed at 0 = 1
            1: read 4 /moved/b (deleted) renamed at 0 = 1
        "#]],
    );
}

#[test]
fn calls_that_fail_or_concern_others_change_nothing() {
    after(
        "20 1/1 > unlink 0
         21 1/1 < unlink -2 b
         22 1/1 > unlink 0
         23 1/1 < unlink 0 d/b
         24 1/1 > rename 0 0
         25 1/1 < rename 0 dd d2",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            1: unlink -1 b argument at ? = -2 [/data/b]
            1: unlink -1 d/b argument at ? = 0 [/data/d/b]
            1: rename -1 dd argument at ? = 0 [/data/dd] [/data/d2]
            1: read 3 /data/d/a fd-link at 0 = 1
            1: read 4 /data/b fd-link at 0 = 1
        "#]],
    );
}

#[test]
fn what_may_lead_through_a_link_makes_names_doubtful() {
    after(
        "20 1/1 > rename 0 0
         21 1/1 < rename 0 /link/d /link/x
         22 1/1 > unlink 0
         23 1/1 < unlink 0 link/../b",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            1: rename -1 /link/d argument at ? = 0 [/link/d] [/link/x]
            1: unlink -1 link/../b argument at ? = 0 [/data/link/../b]
            1: read 3 /data/d/a unverified at 0 = 1
            1: read 4 /data/b unverified at 0 = 1
        "#]],
    );
}

#[test]
fn behind_a_real_directory_the_way_back_is_known() {
    after(
        "20 1/1 > unlink 0
         21 1/1 < unlink 0 d/../b
         22 1/1 > unlink 0
         23 1/1 < unlink 0 /link/other",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            1: unlink -1 d/../b argument at ? = 0 [/data/d/../b]
            1: unlink -1 /link/other argument at ? = 0 [/link/other]
            1: read 3 /data/d/a fd-link at 0 = 1
            1: read 4 /data/b (deleted) renamed at 0 = 1
        "#]],
    );
}

#[test]
fn a_name_that_was_read_during_the_call_is_doubtful() {
    after(
        "20 1/2 > rename 0 0
         22 1/1 > openat -100 0 2
         23 1/1 < openat 5 /data/c
         24 1/2 < rename 0 /data/b /data/c
         26 1/1 > read 5 0 1
         27 1/1 < read 1",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            1: openat 5 /data/c fd-link at ? = 5
            2: rename -1 /data/b argument at ? = 0 [/data/b] [/data/c]
            1: read 5 /data/c unverified at 0 = 1
            1: read 3 /data/d/a fd-link at 0 = 1
            1: read 4 /data/c renamed at 0 = 1
        "#]],
    );
}

#[test]
fn one_name_of_a_file_onto_another_is_no_rename() {
    after(
        "22 1/1 > openat -100 0 2
         23 1/1 < openat 5 /data/b~
         24 1/1 > rename 0 0
         25 1/1 < rename 0 /data/b /data/b~",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            1: openat 5 /data/b~ fd-link at ? = 5
            1: rename -1 /data/b argument at ? = 0 [/data/b] [/data/b~]
            1: read 3 /data/d/a fd-link at 0 = 1
            1: read 4 /data/b fd-link at 0 = 1
        "#]],
    );
}

#[test]
fn two_renames_at_the_same_time_have_no_order() {
    after(
        "20 1/1 > rename 0 0
         21 1/2 > rename 0 0
         24 1/2 < rename 0 /data/b /data/c
         26 1/1 < rename 0 /data/c /data/e",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            2: rename -1 /data/b argument at ? = 0 [/data/b] [/data/c]
            1: rename -1 /data/c argument at ? = 0 [/data/c] [/data/e]
            1: read 3 /data/d/a fd-link at 0 = 1
            1: read 4 /data/c unverified at 0 = 1
        "#]],
    );
}

#[test]
fn the_working_directory_moves_with_its_directory() {
    after(
        "20 1/1 > chdir 0
         21 1/1 < chdir 0 d
         22 1/1 > rename 0 0
         23 1/1 < rename 0 /data /moved
         24 1/1 > unlink 0
         25 1/1 < unlink 0 a
         26 1/1 > rename 0 0
         27 1/1 < rename 0 /elsewhere/d /elsewhere/x
         28 1/1 > unlink 0
         29 1/1 < unlink 0 a",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            1: chdir -1 d argument at ? = 0 [/data/d]
            1: rename -1 /data argument at ? = 0 [/data] [/moved]
            1: unlink -1 a argument at ? = 0 [/moved/d/a]
            1: rename -1 /elsewhere/d argument at ? = 0 [/elsewhere/d] [/elsewhere/x]
            1: unlink -1 a argument at ? = 0 [a]
            1: read 3 /moved/d/a (deleted) unverified at 0 = 1
            1: read 4 /moved/b renamed at 0 = 1
        "#]],
    );
}

#[test]
fn after_a_loss_directories_may_be_other_ones() {
    after(
        "20 0/0 lost
         21 1/1 > rename 0 0
         22 1/1 < rename 0 e d",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            1: rename -1 e argument at ? = 0 [e] [d]
            1: read 3 /data/d/a unverified at ? = 1
            1: read 4 /data/b unverified at ? = 1
        "#]],
    );
}

#[test]
fn of_two_names_of_one_file_both_stay() {
    after(
        "20 1/1 > openat -100 0 2
         21 1/1 < openat 5 /data/b~
         22 1/1 > rename 0 0
         23 1/1 < rename 0 b b~
         24 1/1 > read 5 0 1
         25 1/1 < read 1",
        &expect![[r#"
            1: openat 3 /data/d/a fd-link at ? = 3
            1: openat 4 /data/b fd-link at ? = 4
            1: openat 5 /data/b~ fd-link at ? = 5
            1: rename -1 b argument at ? = 0 [/data/b] [/data/b~]
            1: read 5 /data/b~ fd-link at 0 = 1
            1: read 3 /data/d/a fd-link at 0 = 1
            1: read 4 /data/b fd-link at 0 = 1
        "#]],
    );
}
