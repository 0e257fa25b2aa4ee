//! Tests of the state after missing records, in the language of `tracker_tests`.

use expect_test::expect;

use super::context::Observability;
use super::tracker_tests::{OPEN, after_open, check, steps_from, tracked};
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
        ! refused: read = 5 without its entry
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
        ! refused: read = 1 without its entry
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

/// Fails if a call that the kernel does not execute, because of a seccomp filter, is taken for a
/// lost record, or if it makes the position of an open file doubtful without need.
#[test]
fn refused_call_has_no_entry() {
    // Refused, trapped (the result is the call's number), and refused with success.
    let refused = "110 1/1 < fcntl -1
                   111 1/1 < openat 257
                   112 1/1 < lseek 8
                   113 1/1 < fchownat 0
                   114 1/1 < execve -1";
    after_open(
        &format!(
            "{refused}
             120 1/1 > read 3 0 10
             121 1/1 < read 10
             130 1/1 < fcntl 3
             140 1/1 > read 3 0 10
             141 1/1 < read 10"
        ),
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            ! refused: fcntl = -1 without its entry
            ! refused: openat = 257 without its entry
            ! refused: lseek = 8 without its entry
            ! refused: fchownat = 0 without its entry
            ! refused: execve = -1 without its entry
            1: read 3 /a fd-link at 0 = 10
            ! refused: fcntl = 3 without its entry
            1: read 3 /a fd-link at ? = 10
        "#]],
    );
    let ledger = |followed| {
        let text = format!("{OPEN}{refused}");
        tracked(KernelTime::MIN, followed, &text).0
    };
    let all = ledger(Observability::ALL);
    assert_eq!((all.ledger().refused(), all.started().failed), (5, 0));
    // Only the ends of execs are recorded.
    let ends = ledger(Observability { exec_entries: false, ..Observability::ALL });
    assert_eq!((ends.ledger().refused(), ends.started().failed), (4, 1));
}

/// Fails if an entry that was lost, or came too late, makes its exit that of a refused call.
#[test]
fn call_is_refused_only_where_nothing_was_lost() {
    let counts = |text: &str| {
        let text = format!("{OPEN}{text}");
        let tracker = tracked(KernelTime::MIN, Observability::ALL, &text).0;
        let ledger = tracker.ledger();
        assert_eq!(ledger.exits, ledger.pairs + ledger.orphan_exits + ledger.refused());
        (ledger.refused(), ledger.orphan_exits)
    };
    assert_eq!(counts("110 1/1 < fcntl -1"), (1, 0));
    assert_eq!(counts("105 late \n 110 1/1 < fcntl -1"), (0, 1));
    // The ring of another CPU reports its loss later.
    assert_eq!(counts("110 1/1 < fcntl -1 \n 115 0/0 lost"), (0, 1));
    // A loss from before all events were on is of no importance.
    let text = "105 late \n 111 1/1 > close 3 \n 112 1/1 < close 0 \n 113 1/1 < fcntl -1";
    let tracker = tracked(KernelTime(110), Observability::ALL, text).0;
    assert_eq!((tracker.ledger().refused(), tracker.ledger().orphan_exits), (1, 0));
}
