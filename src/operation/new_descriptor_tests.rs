//! Tests of calls that make descriptors without files, in the language of `tracker_tests`.

use expect_test::expect;

use super::tracker_tests::check;

/// Fails if a `signalfd` that changes a descriptor is not reported with it, or with its kind.
#[test]
fn a_descriptor_that_is_changed_is_the_one_that_was_given() {
    check(
        "100 1/1 > signalfd4 -1 0 8 0
         101 1/1 < signalfd4 3
         102 1/1 > signalfd4 3 0 8 0
         103 1/1 < signalfd4 3
         104 1/1 > signalfd4 4 0 8 0
         105 1/1 < signalfd4 -9
         106 1/1 > signalfd4 -1 0 8 0
         107 1/1 < signalfd4 -24",
        &expect![[r#"
            1: signalfd4 3 anon_inode:[signalfd] call at ? = 3
            1: signalfd4 3 anon_inode:[signalfd] call at ? = 3
            1: signalfd4 4   at ? = -9
            1: signalfd4 -1   at ? = -24
        "#]],
    );
}

#[test]
fn file_without_a_path_is_named_by_its_creating_call() {
    let text = "
        100 1/1 > socket 1 1 0
        101 1/1 < socket 3
        110 1/1 > read 3 0 10
        111 1/1 < read 4
        120 1/1 > eventfd2 0 0
        121 1/1 < eventfd2 -24";
    check(
        text,
        &expect![[r#"
        1: socket 3 socket:[?] call at ? = 3
        1: read 3 socket:[?] call at ? = 4
        1: eventfd2 -1   at ? = -24
    "#]],
    );
}
