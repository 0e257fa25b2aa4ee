//! Tests of the state after missing records, in the language of `tracker_tests`.

use expect_test::expect;

use super::context::Observability;
use super::tracker_tests::{after_open, check, steps_from};
use crate::units::KernelTime;

#[test]
fn after_a_loss_names_are_doubtful_and_positions_unknown() {
    after_open(
        "105 0/0 lost
         110 1/1 > read 3 0 10
         111 1/1 < read 10",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: read 3 /a unverified at ? = 10
        "#]],
    );
}

#[test]
fn an_exit_without_its_entry_may_have_moved_anything() {
    after_open(
        "105 1/2 < read 10
         110 1/1 > read 3 0 10
         111 1/1 < read 10",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: read 3 /a fd-link at ? = 10
        "#]],
    );
}

#[test]
fn an_entry_from_before_everything_was_on_is_not_missed() {
    let text = "101 1/1 < read 1
                102 1/1 < read 2
                103 1/1 > write
                104 1/1 < read 3
                111 1/1 < read 4
                112 1/1 < read 5";
    let expected = expect![[r#"
        1: write without its exit
        ! orphan-exit: read = 3 without its entry
        ! orphan-exit: read = 5 without its entry
    "#]];
    expected.assert_eq(&steps_from(KernelTime(110), Observability::ALL, text));
}

/// Fails if calls that were in progress at the switching on of all events count as lost.
#[test]
fn exit_after_the_end_is_not_missed() {
    let text = |off: &str| {
        format!(
            "100 1/1 > close 3
             101 1/1 < close 0
             105 1/1 > close 4
             105 1/2 > close 5
             {off}
             111 1/1 > openat -100 0 0
             112 1/2 < read 7
             113 1/3 > close 3
             114 1/3 < close 0
             115 1/3 < read 1"
        )
    };
    let steps = |text: &str| steps_from(KernelTime::MIN, Observability::ALL, text);
    expect![[r#"
        1: close 3   at ? = 0
        1: close without its exit
        2: close without its exit
        ! orphan-exit: read = 7 without its entry
        3: close 3   at ? = 0
        ! orphan-exit: read = 1 without its entry
    "#]]
    .assert_eq(&steps(&text("")));
    expect![[r#"
        1: close 3   at ? = 0
        ! orphan-exit: read = 7 without its entry
        3: close 3   at ? = 0
    "#]]
    .assert_eq(&steps(&text("110 off")));
}

#[test]
fn working_directory_is_unknown_after_a_loss() {
    check(
        "0 cwd 1 /data
         0 root 1 /
         100 1/1 > chdir 0
         101 1/1 <k chdir 0 here
         110 1/1 > openat -100 0 0
         111 1/1 <k openat 3 a
         112 1/1 lost
         120 1/1 > openat -100 0 0
         121 1/1 <k openat 4 a
         130 1/1 > chdir 0
         131 1/1 <k chdir 0 /there
         140 1/1 > openat -100 0 0
         141 1/1 <k openat 5 a",
        &expect![[r#"
            1: chdir -1 here kernel-string at ? = 0 [/data/here]
            1: openat 3 /data/here/a kernel-string at ? = 3
            1: openat 4 a kernel-string at ? = 4
            1: chdir -1 /there kernel-string at ? = 0 [/there]
            1: openat 5 /there/a kernel-string at ? = 5
        "#]],
    );
}

/// Fails if a call that a seccomp filter refuses, which has no entry, is taken for a lost record,
/// or if it makes the position of an open file doubtful.
#[test]
fn refused_call_has_no_entry() {
    check(
        "100 1/1 > openat -100 0 2
         101 1/1 < openat 3 /a
         110 1/1 < fcntl -1
         120 1/1 > read 3 0 10
         121 1/1 < read 10
         130 1/1 < fcntl 3",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            ! refused: fcntl = -1 without its entry
            1: read 3 /a fd-link at 0 = 10
            ! orphan-exit: fcntl = 3 without its entry
        "#]],
    );
}
