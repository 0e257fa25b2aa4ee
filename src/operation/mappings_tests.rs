//! Tests of mapped files, in the language of `tracker_tests`.

use expect_test::{Expect, expect};

use super::mappings::{MappedFile, mapped_files};
use super::tracker_tests::check;
use crate::units::DevId;

/// Setup: `/a` is open as 3, its bytes from 4096 to 16384 are mapped at 65536, and 3 is closed;
/// then `text`.
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

#[test]
fn a_fault_is_reported_where_a_file_is_known() {
    after(
        "110 1/1 fault 65537 read
         111 1/2 fault 77823 write
         112 1/1 fault 77824 write
         113 1/1 page /a
         114 1/1 page /other
         117 1/1 fault 65536
         118 1/1 exec 1/1
         119 1/1 fault 65536 read",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: mmap 3 /a fd-link at 4096 = 65536
            1: close 3 /a fd-link at ? = 0
            1: fault /a at 4097 read
            2: fault /a at 16383 write
            1: fault /a at 12288 ?
            1: fault /a at 4096 ?
        "#]],
    );
}

#[test]
fn a_look_at_the_memory_counts_from_its_time_on() {
    after(
        "1 root 1 /
         108 1/1 fault 1048576 read
         110 maps 1 00100000-00102000 r--s 00003000 00:01 7 /with blanks
         111 1/1 fault 1048577 read
         112 1/1 fault 65536 read
         113 1/1 > munmap 1048576 4096
         114 1/1 < munmap 0
         115 1/1 fault 1048577 read
         116 1/1 fault 1052672 write",
        &expect![[r#"
            1: openat 3 /a fd-link at ? = 3
            1: mmap 3 /a fd-link at 4096 = 65536
            1: close 3 /a fd-link at ? = 0
            1: fault /with blanks at 12289 read
            1: munmap -1 /with blanks snapshot at 12288 = 0
            1: fault /with blanks at 16384 write
        "#]],
    );
}

#[test]
fn lines_of_maps_that_are_no_files_are_passed_over() {
    let text = b"00400000-00401000 r-xp 00001000 fd:01 42 /bin/a b (deleted)\n\
        7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0 [stack]\n\
        00500000-00501000 rw-p 00000000 00:00 0 \n\
        nonsense /x\n";
    let found: Vec<MappedFile<'_>> = mapped_files(text).collect();
    let expected = MappedFile {
        start: 0x40_0000,
        end: 0x40_1000,
        offset: 4096,
        dev: DevId::new(0xfd, 1),
        ino: 42,
        path: b"/bin/a b (deleted)",
    };
    assert_eq!(found, [expected]);
}
