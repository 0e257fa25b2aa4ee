//! Tests of programs with calls of another table, in the language of `tracker_tests`.

use expect_test::{Expect, expect};

use super::context::Observability;
use super::tracker_tests::{OPEN, check_with, tracked};
use crate::units::KernelTime;

/// Setup: `/a` is open as 3, and process 2 has inherited it from process 1; then `text`, then
/// process 1 reads twice.
#[track_caller]
fn after(text: &str, expected: &Expect) {
    let text = format!(
        "100 1/1 > openat -100 0 2
         101 1/1 < openat 3 /a
         110 1/1 fork 1/1 2/2
         {text}
         900 1/1 > read 3 0 10
         901 1/1 < read 10
         902 1/1 > lseek 3 0 0
         903 1/1 < lseek 0
         904 1/1 > read 3 0 10
         905 1/1 < read 10"
    );
    check_with(Observability { execs: true, ..Observability::ALL }, &text, expected);
}

#[test]
fn exec_exit_record_shows_a_native_program() {
    after(
        "120 2/2 exec 2/2
         121 2/2 < execve 0
         130 2/2 > read 3 0 5
         131 2/2 < read 5",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            2: read 3 /a fd-link at 0 = 5
            1: read 3 /a fd-link at 5 = 10
            1: lseek 3 /a fd-link at ? = 0
            1: read 3 /a fd-link at 0 = 10
        "#]],
    );
}

#[test]
fn other_record_shows_a_foreign_program() {
    after(
        "120 2/2 exec 2/2
         121 2/2 < munmap 0
         130 2/2 > close 3
         131 2/2 < close 5
         132 2/2 fork 2/2 3/3
         133 3/3 > read 3 0 5
         134 3/3 < read 5",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: read 3 /a fd-link at ? = 10
            1: lseek 3 /a fd-link at ? = 0
            1: read 3 /a fd-link at ? = 10
            2 makes calls of another table
        "#]],
    );
}

/// Fails if the end that an exec of a set-user-ID program reports ends the process, or is counted
/// as a program of another table.
#[test]
fn end_inside_an_exec_is_no_end() {
    after(
        "120 2/2 exec 2/2
         121 2/2 end 2/2
         122 2/2 < execve 0
         130 2/2 > read 3 0 5
         131 2/2 < read 5
         132 2/2 end 2/2",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            2: read 3 /a fd-link at 0 = 5
            1: read 3 /a fd-link at 5 = 10
            1: lseek 3 /a fd-link at ? = 0
            1: read 3 /a fd-link at 0 = 10
        "#]],
    );
    after(
        "120 2/2 exec 2/2
         121 2/2 end 2/2
         130 2/2 end 2/2",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: read 3 /a fd-link at ? = 10
            1: lseek 3 /a fd-link at ? = 0
            1: read 3 /a fd-link at ? = 10
            2 makes calls of another table
        "#]],
    );
}

/// Checks the numbers of programs of another table, of processes that were not waited for, and of
/// living processes, after process 1 has made process 2.
#[track_caller]
fn check_counts(text: &str, expected: [u64; 3]) {
    let text = format!("{OPEN} 110 1/1 fork 1/1 2/2 \n {text}");
    let followed = Observability { execs: true, waits: true, ..Observability::ALL };
    let tracker = tracked(KernelTime::MIN, followed, &text).0;
    let ledger = tracker.ledger();
    assert_eq!([ledger.other.count, ledger.unwaited, tracker.alive()], expected, "{text}");
}

/// Fails if the only report of the end of a program that runs very briefly is dropped.
#[test]
fn single_end_inside_an_exec_is_an_end() {
    let ended = "120 2/2 exec 2/2 \n 121 2/2 end 2/2";
    check_counts(&format!("{ended} \n 130 1/1 waited 2"), [1, 0, 1]);
    check_counts(ended, [1, 1, 1]);
    // Its parent ended first, later, and waits of other processes are not its parent's.
    check_counts(&format!("115 1/1 end 1/1 \n {ended}"), [1, 1, 0]);
    check_counts(&format!("{ended} \n 130 1/1 waited 2 \n 131 1/1 end 1/1"), [1, 0, 0]);
    check_counts(&format!("{ended} \n 130 7/7 waited 2"), [1, 1, 2]);
    // Another process or thread has the number: those are alive, and process 2 was waited for.
    check_counts(&format!("{ended} \n 130 1/1 waited 2 \n 140 1/1 fork 1/1 2/2"), [1, 1, 2]);
    check_counts(&format!("{ended} \n 130 1/1 waited 2 \n 140 1/1 fork 1/1 1/2"), [1, 0, 1]);
    let unseen = "140 3/2 > close 7 \n 141 3/2 < close 0";
    check_counts(&format!("{ended} \n 130 1/1 waited 2 \n {unseen}"), [1, 0, 2]);
}

/// Fails if a wait is taken for the proof of an end: a tracer may have stopped the process in its
/// exec.
#[test]
fn record_after_a_wait_shows_that_the_process_lives() {
    after(
        "120 2/2 exec 2/2
         121 2/2 end 2/2
         122 1/1 waited 2
         123 2/2 < execve 0
         130 2/2 > read 3 0 5
         131 2/2 < read 5",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            2: read 3 /a fd-link at 0 = 5
            1: read 3 /a fd-link at 5 = 10
            1: lseek 3 /a fd-link at ? = 0
            1: read 3 /a fd-link at 0 = 10
        "#]],
    );
}

/// Fails if a program that is inside its exec when events are switched off counts as one of another
/// table, or if the end of one that has had time for a record does not.
#[test]
fn end_inside_the_last_exec_allows_no_conclusion() {
    let exec = "120 2/2 exec 2/2";
    check_counts(&format!("{exec} \n 121 2/2 end 2/2 \n 122 off"), [0, 1, 2]);
    check_counts(&format!("{exec} \n 121 off \n 122 2/2 end 2/2"), [0, 1, 1]);
    check_counts(&format!("{exec} \n 121 2/2 end 2/2 \n 1000121 off"), [1, 1, 1]);
    let waited = "130 1/1 waited 2 \n 140 off";
    check_counts(&format!("{exec} \n 121 2/2 end 2/2 \n {waited}"), [1, 0, 1]);
}

#[test]
fn missing_record_shows_a_foreign_program() {
    after(
        "120 2/2 exec 2/2
         130 2/2 end 2/2",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: read 3 /a fd-link at ? = 10
            1: lseek 3 /a fd-link at ? = 0
            1: read 3 /a fd-link at ? = 10
            2 makes calls of another table
        "#]],
    );
    after(
        "120 2/2 exec 2/2",
        &expect![[r#"
        1: openat 3 /a fd-link at ? = 3
        1: read 3 /a fd-link at ? = 10
        1: lseek 3 /a fd-link at ? = 0
        1: read 3 /a fd-link at ? = 10
        2 makes calls of another table
    "#]],
    );
}

#[test]
fn descriptors_of_a_foreign_program_are_unknown() {
    after(
        "120 2/2 exec 2/2
         121 2/2 > newstat 3
         130 2/2 exec 2/2
         131 2/2 < execve 0
         140 2/2 > read 3 0 5
         141 2/2 < read 5",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            2: read 3   at ? = 5
            1: read 3 /a fd-link at ? = 10
            1: lseek 3 /a fd-link at ? = 0
            1: read 3 /a fd-link at ? = 10
            2 makes calls of another table
        "#]],
    );
}

#[test]
fn losses_and_kernel_threads_allow_no_conclusion() {
    after(
        "120 2/2 exec 2/2
         121 0/0 lost
         130 2/2 > read 3 0 5
         131 2/2 < read 5
         140 7/7 exec 7/7
         141 7/7 > read 3 0 5
         142 7/7 < read 5",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            2: read 3 /a unverified at ? = 5
            7: read 3   at ? = 5
            1: read 3 /a unverified at ? = 10
            1: lseek 3 /a unverified at ? = 0
            1: read 3 /a unverified at 0 = 10
        "#]],
    );
}

/// Fails if a 32-bit program is not reported when another program follows in the same process.
#[test]
fn foreign_program_that_execs_is_reported() {
    after(
        "120 2/2 exec 2/2
         130 2/2 exec 2/2
         131 2/2 < execve 0
         140 2/2 > read 3 0 5
         141 2/2 < read 5",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            2: read 3   at ? = 5
            1: read 3 /a fd-link at ? = 10
            1: lseek 3 /a fd-link at ? = 0
            1: read 3 /a fd-link at ? = 10
            2 makes calls of another table
        "#]],
    );
}

/// Fails if a program is reported as a 32-bit one that was started after or during the switching
/// off of the ends of calls.
#[test]
fn switching_off_calls_allows_no_conclusion() {
    let text = "100 1/1 fork 1/1 2/2
        120 2/2 exec 2/2
        121 1/1 fork 1/1 3/3
        125 off
        130 2/2 end 2/2
        131 3/3 exec 3/3
        132 3/3 end 3/3
        140 1/1 fork 1/1 4/4
        145 4/4 exec 4/4";
    check_with(Observability { execs: true, ..Observability::ALL }, text, &expect![[""]]);
}

/// Fails if two programs of one process, both started while calls were being switched off, are
/// counted as 32-bit ones.
#[test]
fn exec_after_the_last_call_allows_no_conclusion() {
    let text = "100 1/1 fork 1/1 2/2
        120 2/2 exec 2/2
        125 off
        130 2/2 exec 2/2
        135 2/2 fork 2/2 3/3
        140 3/3 exec 3/3
        145 3/3 end 3/3";
    check_with(Observability { execs: true, ..Observability::ALL }, text, &expect![[""]]);
}
