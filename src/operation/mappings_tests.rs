//! Files in memory, in the language of `tracker_tests`.

use expect_test::{Expect, expect};

use super::tracker_tests::check;

/// `/a` is open as 3, its bytes from 4096 to 16384 are at 65536, and 3 is closed; then `text`.
#[track_caller]
fn after(text: &str, expected: &Expect) {
    let text = format!(
        "100 1/1 > openat -100 0 2
         101 1/1 < openat 3 /a
         102 1/1 > mmap 0 12000 1 1 3 4096
         103 1/1 < mmap 65536
         104 1/1 > close 3
         105 1/1 < close 0
         {text}"
    );
    check(&text, expected);
}

#[test]
fn an_address_leads_to_a_file_also_when_its_descriptor_is_closed() {
    after(
        "110 1/1 > msync 65536 12288 4
         111 1/1 < msync 0
         112 1/1 > madvise 69632 10 4
         113 1/1 < madvise 0
         114 1/1 > msync 77824 1 4
         115 1/1 < msync -12
         116 1/1 > msync 61440 1 4
         117 1/1 < msync -12",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: mmap 3 /a fd-link at 4096 = 65536
            1: close 3 /a fd-link at ? = 0
            1: msync -1 /a fd-link at 4096 = 0
            1: madvise -1 /a fd-link at 8192 = 0
            1: msync -1   at ? = -12
            1: msync -1   at ? = -12
        "#]],
    );
}

#[test]
fn a_part_may_go_or_be_mapped_over() {
    after(
        "110 1/1 > munmap 69632 4096
         111 1/1 < munmap 0
         112 1/1 > msync 69632 1 4
         113 1/1 < msync -12
         114 1/1 > msync 73728 1 4
         115 1/1 < msync 0
         116 1/1 > mmap 65536 4096 3 50 -1 0
         117 1/1 < mmap 65536
         118 1/1 > madvise 65536 1 4
         119 1/1 < madvise 0
         120 1/1 > munmap 73729 4096
         121 1/1 < munmap -22
         122 1/1 > madvise 73728 1 4
         123 1/1 < madvise 0",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: mmap 3 /a fd-link at 4096 = 65536
            1: close 3 /a fd-link at ? = 0
            1: munmap -1 /a fd-link at 8192 = 0
            1: msync -1   at ? = -12
            1: msync -1 /a fd-link at 12288 = 0
            1: mmap -1   at ? = 65536
            1: madvise -1   at ? = 0
            1: munmap -1 /a fd-link at 12289 = -22
            1: madvise -1 /a fd-link at 12288 = 0
        "#]],
    );
}

#[test]
fn a_mapping_moves() {
    after(
        "110 1/1 > mremap 65536 12288 20480 1
         111 1/1 < mremap 1048576
         112 1/1 > msync 65536 1 4
         113 1/1 < msync -12
         114 1/1 > msync 1064960 1 4
         115 1/1 < msync 0
         116 1/1 > mremap 1048576 20480 4096000 0
         117 1/1 < mremap -12
         118 1/1 > msync 1048577 1 4
         119 1/1 < msync -22",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: mmap 3 /a fd-link at 4096 = 65536
            1: close 3 /a fd-link at ? = 0
            1: mremap -1 /a fd-link at 4096 = 1048576
            1: msync -1   at ? = -12
            1: msync -1 /a fd-link at 20480 = 0
            1: mremap -1 /a fd-link at 4096 = -12
            1: msync -1 /a fd-link at 4097 = -22
        "#]],
    );
}

#[test]
fn a_child_has_a_copy_and_a_new_program_nothing() {
    after(
        "110 1/1 fork 1/1 2/2
         111 1/1 > munmap 65536 12288
         112 1/1 < munmap 0
         113 2/2 > msync 65536 1 4
         114 2/2 < msync 0
         115 2/2 exec 2/2
         116 2/2 > msync 65536 1 4
         117 2/2 < msync -12",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: mmap 3 /a fd-link at 4096 = 65536
            1: close 3 /a fd-link at ? = 0
            1: munmap -1 /a fd-link at 4096 = 0
            2: msync -1 /a fd-link at 4096 = 0
            2: msync -1   at ? = -12
        "#]],
    );
}

#[test]
fn addresses_that_another_thread_gets_before_the_end_stay_its_own() {
    after(
        "108 1/1 > openat -100 0 2
         109 1/1 < openat 3 /b
         110 1/1 > munmap 65536 12288
         111 1/2 > mmap 0 4096 1 1 3 0
         112 1/2 < mmap 65536
         113 1/1 < munmap 0
         114 1/2 > msync 65536 1 4
         115 1/2 < msync 0",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: mmap 3 /a fd-link at 4096 = 65536
            1: close 3 /a fd-link at ? = 0
            1: openat 3 /b fd-link at ? = 3
            2: mmap 3 /b fd-link at 0 = 65536
            1: munmap -1 /a fd-link at 4096 = 0
            2: msync -1 /b fd-link at 0 = 0
        "#]],
    );
}

#[test]
fn after_a_loss_nothing_is_known() {
    after(
        "110 0/0 lost
         111 1/1 > msync 65536 1 4
         112 1/1 < msync 0",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: mmap 3 /a fd-link at 4096 = 65536
            1: close 3 /a fd-link at ? = 0
            1: msync -1   at ? = 0
        "#]],
    );
}
