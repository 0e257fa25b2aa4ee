//! Tests of open files whose names change, in the language of `tracker_tests`.

use expect_test::{Expect, expect};

use super::tracker_tests::check;

/// Setup: `/data/d/a` is open as 3, `/data/b` as 4; then `text`, then both are read.
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
fn rename_of_a_parent_renames_open_files() {
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
fn replaced_file_has_no_name() {
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
fn exchange_swaps_the_names() {
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
fn failed_and_unrelated_calls_keep_names() {
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
fn possible_link_in_a_rename_makes_names_doubtful() {
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
fn parent_of_a_real_directory_is_known() {
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

/// Setup: `/x` is the working directory of 1; then `text`.
#[track_caller]
fn in_a_directory(text: &str, expected: &Expect) {
    check(&format!("1 root 1 /\n1 cwd 1 /x\n{text}"), expected);
}

#[test]
fn a_directory_that_was_removed_is_nowhere() {
    in_a_directory(
        "20 1/1 > rmdir 0
         21 1/1 < rmdir 0 /x
         22 1/1 > mkdir 0
         23 1/1 < mkdir 0 /x
         24 1/1 > unlink 0
         25 1/1 < unlink -2 data
         26 1/1 > chdir 0
         27 1/1 < chdir 0 /x
         28 1/1 > unlink 0
         29 1/1 < unlink 0 data
         30 1/1 > unlinkat -100 0 512
         31 1/1 < unlinkat 0 /x
         32 1/1 > unlink 0
         33 1/1 < unlink -2 data",
        &expect![[r#"
            1: rmdir -1 /x argument at ? = 0 [/x]
            1: mkdir -1 /x argument at ? = 0 [/x]
            1: unlink -1 data argument at ? = -2 [data]
            1: chdir -1 /x argument at ? = 0 [/x]
            1: unlink -1 data argument at ? = 0 [/x/data]
            1: unlinkat -1 /x argument at ? = 0 [/x]
            1: unlink -1 data argument at ? = -2 [data]
        "#]],
    );
}

#[test]
fn failed_rmdir_keeps_the_directory() {
    in_a_directory(
        "20 1/1 > unlinkat -100 0 0
         21 1/1 < unlinkat 0 /link/x
         22 1/1 > unlink 0
         23 1/1 < unlink 0 data
         24 1/1 > unlinkat -100 0 512
         25 1/1 < unlinkat 0 /link/x
         26 1/1 > unlink 0
         27 1/1 < unlink 0 data",
        &expect![[r#"
            1: unlinkat -1 /link/x argument at ? = 0 [/link/x]
            1: unlink -1 data argument at ? = 0 [/x/data]
            1: unlinkat -1 /link/x argument at ? = 0 [/link/x]
            1: unlink -1 data argument at ? = 0 [data]
        "#]],
    );
}

#[test]
fn below_an_open_directory_that_was_removed_there_is_no_path() {
    in_a_directory(
        "20 1/1 > openat -100 0 0
         21 1/1 < openat 3 /x/d
         22 1/1 > unlinkat 3 0 0
         23 1/1 < unlinkat 0 f
         24 1/1 > rmdir 0
         25 1/1 < rmdir 0 /x/d
         26 1/1 > unlinkat 3 0 0
         27 1/1 < unlinkat -2 f
         28 1/1 > fchdir 3
         29 1/1 < fchdir 0
         30 1/1 > unlink 0
         31 1/1 < unlink -2 f",
        &expect![[r#"
            1: openat 3 /x/d fd-link at ? = 3
            1: unlinkat -1 f argument at ? = 0 [/x/d/f]
            1: rmdir -1 /x/d argument at ? = 0 [/x/d]
            1: unlinkat -1 f argument at ? = -2 [f]
            1: fchdir 3 /x/d (deleted) renamed at ? = 0
            1: unlink -1 f argument at ? = -2 [f]
        "#]],
    );
}

#[test]
fn a_directory_may_be_what_was_renamed_unseen() {
    in_a_directory(
        "20 1/1 > rename 0 0
         21 1/1 < rename 0
         22 1/1 > unlink 0
         23 1/1 < unlink 0 data",
        &expect![[r#"
            1: rename -1   at ? = 0
            1: unlink -1 data argument at ? = 0 [data]
        "#]],
    );
}

#[test]
fn names_below_an_unknown_directory_may_change() {
    check(
        "1 root 1 /
         20 1/1 > openat -100 0 2
         21 1/1 <k openat 3 file
         22 1/1 > openat -100 0 2
         23 1/1 <k openat 4 other
         24 1/1 > read 3 0 1
         25 1/1 < read 1
         26 1/1 > rename 0 0
         27 1/1 <k rename 0 file new
         28 1/1 > read 3 0 1
         29 1/1 < read 1
         30 1/1 > read 4 0 1
         31 1/1 < read 1
         32 1/1 > unlink 0
         33 1/1 <k unlink 0 /a/other
         34 1/1 > read 4 0 1
         35 1/1 < read 1",
        &expect![[r#"
            1: openat 3 file kernel-string at ? = 3
            1: openat 4 other kernel-string at ? = 4
            1: read 3 file kernel-string at 0 = 1
            1: rename -1 file kernel-string at ? = 0 [file] [new]
            1: read 3 file unverified at 1 = 1
            1: read 4 other kernel-string at 0 = 1
            1: unlink -1 /a/other kernel-string at ? = 0 [/a/other]
            1: read 4 other unverified at 1 = 1
        "#]],
    );
}

#[test]
fn a_mount_that_is_moved_or_taken_away_takes_its_files_along() {
    in_a_directory(
        "10 1/1 > openat -100 0 2
         11 1/1 < openat 3 /x/f
         12 1/1 > openat -100 0 2
         13 1/1 < openat 4 /y/f
         14 1/1 > move_mount -100 0 -100 0 0
         15 1/1 < move_mount 0 /x /z
         16 1/1 > read 3 0 1
         17 1/1 < read 1
         18 1/1 > read 4 0 1
         19 1/1 < read 1
         20 1/1 > unlink 0
         21 1/1 < unlink 0 data
         22 1/1 > umount 0 2
         23 1/1 < umount 0 /y
         24 1/1 > read 4 0 1
         25 1/1 < read 1",
        &expect![[r#"
            1: openat 3 /x/f fd-link at ? = 3
            1: openat 4 /y/f fd-link at ? = 4
            1: move_mount -1 /x argument at ? = 0 [/x] [/z]
            1: read 3 /x/f unverified at 0 = 1
            1: read 4 /y/f fd-link at 0 = 1
            1: unlink -1 data argument at ? = 0 [data]
            1: umount -1 /y argument at ? = 0 [/y]
            1: read 4 /y/f unverified at 1 = 1
        "#]],
    );
}

#[test]
fn moved_mount_makes_names_unknown() {
    in_a_directory(
        "10 1/1 > openat -100 0 2
         11 1/1 < openat 3 /y/f
         14 1/1 > mount 0 0 0 8192
         15 1/1 < mount 0 /z
         16 1/1 > read 3 0 1
         17 1/1 < read 1
         20 1/1 > unlink 0
         21 1/1 < unlink 0 data",
        &expect![[r#"
            1: openat 3 /y/f fd-link at ? = 3
            1: mount -1 /z argument at ? = 0 [/z]
            1: read 3 /y/f unverified at 0 = 1
            1: unlink -1 data argument at ? = 0 [data]
        "#]],
    );
}

#[test]
fn in_a_tree_that_is_mounted_nowhere_names_are_no_paths() {
    in_a_directory(
        "10 1/1 > open_tree -100 0 1
         11 1/1 < open_tree 3 /
         12 1/1 > openat 3 0 2
         13 1/1 < openat 4 /f
         14 1/1 > openat 4 0 2
         15 1/1 < openat 5 /g
         16 1/1 > open_tree -100 0 0
         17 1/1 < open_tree 6 /x
         18 1/1 > openat 6 0 2
         19 1/1 < openat 7 /x/f
         20 1/1 > move_mount 3 0 -100 0 4
         21 1/1 < move_mount 0 tree /y
         22 1/1 > openat 3 0 2
         23 1/1 < openat 8 /y/f
         24 1/1 > unlink 0
         25 1/1 < unlink 0 data
         26 1/1 > move_mount 3 0 -100 0 4
         27 1/1 < move_mount 0 tree /z
         28 1/1 > read 8 0 1
         29 1/1 < read 1",
        &expect![[r#"
            1: open_tree 3 / unverified at ? = 3
            1: openat 4 /f unverified at ? = 4
            1: openat 5 /g unverified at ? = 5
            1: open_tree 6 /x fd-link at ? = 6
            1: openat 7 /x/f fd-link at ? = 7
            1: move_mount -1 tree argument at ? = 0 [tree] [/y]
            1: openat 8 /y/f fd-link at ? = 8
            1: unlink -1 data argument at ? = 0 [/x/data]
            1: move_mount -1 tree argument at ? = 0 [tree] [/z]
            1: read 8 /y/f unverified at 0 = 1
        "#]],
    );
}
