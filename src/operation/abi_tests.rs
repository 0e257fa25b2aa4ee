//! Tests of programs with calls of another table, in the language of `tracker_tests`.

use expect_test::{Expect, expect};

use super::context::Observability;
use super::tracker_tests::check_with;

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
