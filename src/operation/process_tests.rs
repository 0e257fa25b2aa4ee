//! What processes become, in the language of `tracker_tests`.

use expect_test::expect;

use super::tracker_tests::check;

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
