//! Tests of pages, entry by entry.

use super::*;

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
     \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
     \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
     \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

fn layout() -> PageLayout {
    PageLayout::parse(HEADER_PAGE).expect("the kernel's own")
}

fn page(time: u64, flags: u64, data: &[u32], lost: Option<u64>) -> Vec<u8> {
    let data: Vec<u8> = data.iter().flat_map(|it| it.to_le_bytes()).collect();
    let commit = flags | data.len() as u64;
    let lost = lost.map(u64::to_le_bytes);
    let parts: [&[u8]; 4] = [
        &time.to_le_bytes(),
        &commit.to_le_bytes(),
        &data,
        lost.as_ref().map_or(&[], <[u8; 8]>::as_slice),
    ];
    parts.concat()
}

fn entry(type_len: u32, delta: u32) -> u32 {
    type_len | delta << 5
}

#[test]
fn the_layout_is_the_kernels() {
    assert_eq!(
        layout(),
        PageLayout { commit: 8, long: 8, data: 16, capacity: 4080, is_continued: false }
    );
    assert_eq!(layout().page_bytes(), 4096);
    assert_eq!(PageLayout::parse("field: u64 timestamp;\toffset:8;\tsize:8;"), None);
    assert_eq!(PageLayout::parse(""), None);
}

/// Fails if a sample that stays has another time or payload, or if a sample to remove stays.
#[test]
fn hits_that_are_not_kept_leave_the_times_of_the_others() {
    let data = [
        entry(1, 5),
        0xaaaa,
        entry(30, 3),
        1,
        entry(0, 7),
        12,
        0xbbbb,
        0xcccc,
        entry(1, 11),
        0xdddd,
        entry(31, 9),
        2,
        entry(2, 0),
        0xeeee,
        0xffff,
    ];
    let of = |bytes: &[u8]| -> Vec<(u64, Vec<u8>)> {
        let all: Vec<PageEntry> =
            entries(bytes, layout()).collect::<Result<_, _>>().expect("whole");
        let hit = |entry: &PageEntry| match *entry {
            PageEntry::Hit(at, time) => {
                Some((time.0, payload(&bytes[at..]).expect("a sample").to_vec()))
            }
            PageEntry::Lost(..) => None,
        };
        all.iter().filter_map(hit).collect()
    };
    let one = page(1000, 0, &data, None);
    let whole = [one.clone(), page(5000, MISSED_EVENTS | MISSED_STORED, &data, Some(7))].concat();
    let all = of(&whole);
    assert_eq!(all.len(), 8);
    for chosen in 0_u32..256 {
        let mut number = 0;
        let mut keeps = |_: &[u8]| {
            number += 1;
            chosen >> (number - 1) & 1 == 1
        };
        let mut bytes = whole.clone();
        layout().retain(&mut bytes, &mut keeps);
        let kept = all.iter().enumerate().filter(|it| chosen >> it.0 & 1 == 1);
        assert_eq!(of(&bytes), kept.map(|it| it.1.clone()).collect::<Vec<_>>(), "{chosen:b}");
        let lost = entries(&bytes, layout())
            .flatten()
            .filter(|it| matches!(it, PageEntry::Lost(_, Some(7))));
        assert_eq!(lost.count(), 1, "the loss is still reported");
    }
    let mut bytes = one;
    layout().retain(&mut bytes, |_| false);
    assert_eq!(bytes, [0_u8; 0], "a page without samples goes");
}

#[test]
fn times_add_up_over_hits_extensions_and_padding() {
    let data = [
        entry(1, 5),
        0xaaaa,
        entry(30, 3),
        1,
        entry(0, 7),
        12,
        0xbbbb,
        0xcccc,
        entry(29, 1),
        8,
        0,
        entry(31, 9),
        2,
        entry(2, 0),
        0xdddd,
        0xeeee,
        entry(29, 0),
        99,
    ];
    let bytes = page(1000, 0, &data, None);
    let found: Vec<_> = entries(&bytes, layout()).collect::<Result<_, _>>().expect("whole");
    let long = 1005 + 3 + (1 << 27) + 7;
    let expected = [
        PageEntry::Hit(16, KernelTime(1005)),
        PageEntry::Hit(32, KernelTime(long)),
        PageEntry::Hit(68, KernelTime((2 << 27) + 9)),
    ];
    assert_eq!(found, expected);
    assert_eq!(payload(&bytes[16..]), Some(&0xaaaa_u32.to_le_bytes()[..]));
    assert_eq!(payload(&bytes[32..]).map(<[u8]>::len), Some(8));
    assert_eq!(payload(&bytes[24..]), None, "an extension");
}

#[test]
fn an_absolute_time_keeps_the_five_highest_bits() {
    let high = 0x10 << 56;
    let bytes = page(high + 5, 0, &[entry(31, 9), 0, entry(1, 1), 0], None);
    let found: Vec<_> = entries(&bytes, layout()).flatten().collect();
    assert_eq!(found, [PageEntry::Hit(24, KernelTime(high + 10))]);
}

#[test]
fn a_hit_has_the_word_with_its_length() {
    let hits = |length: u32| {
        let bytes = page(1, 0, &[entry(0, 0), length, 0xaaaa], None);
        entries(&bytes, layout()).filter(|it| matches!(it, Ok(PageEntry::Hit(..)))).count()
    };
    assert_eq!([hits(0), hits(4), hits(8)], [0, 1, 1]);
}

#[test]
fn loss_precedes_its_page() {
    let hit = [entry(1, 0), 0];
    let stored = page(7, MISSED_EVENTS | MISSED_STORED, &hit, Some(23));
    let unknown = page(9, MISSED_EVENTS, &hit, None);
    let bytes = [page(1, 0, &hit, None), stored, unknown].concat();
    let found: Vec<_> = entries(&bytes, layout()).flatten().collect();
    let expected = [
        PageEntry::Hit(16, KernelTime(1)),
        PageEntry::Lost(KernelTime(7), Some(23)),
        PageEntry::Hit(40, KernelTime(7)),
        PageEntry::Lost(KernelTime(9), None),
        PageEntry::Hit(72, KernelTime(9)),
    ];
    assert_eq!(found, expected);
    assert_eq!(layout().used_bytes(&bytes[24..]), Some(32));
}

#[test]
fn whole_pages_are_cut_after_their_data() {
    let used = [page(7, 0, &[entry(1, 0), 0], None), page(8, 0, &[], None)];
    let mut bytes = vec![0xee; 3];
    for page in &used {
        bytes.extend(page);
        bytes.resize(bytes.len() + 4096 - page.len(), 0xee);
    }
    layout().cut(&mut bytes, 3);
    assert_eq!(bytes, [vec![0xee; 3], used.concat()].concat());
}

#[test]
fn a_cut_page_is_an_error_once() {
    let bytes = page(7, 0, &[entry(1, 0), 0, entry(9, 0)], None);
    let found: Vec<_> = entries(&bytes, layout()).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(found[1], Err(PageError { offset: 24, left: 4 }));
    let cut: Vec<_> = entries(&bytes[..20], layout()).collect();
    assert_eq!(cut, [Err(PageError { offset: 0, left: 20 })]);
    assert_eq!(layout().used_bytes(&bytes[..20]), None);
}

#[test]
fn the_times_of_a_page_continue_those_of_the_page_before() {
    let hit = [entry(1, 5), 0];
    let mut bytes = [page(1000, 0, &hit, None), page(1005, 0, &hit, None)].concat();
    let before: Vec<_> = entries(&bytes, layout()).collect();
    layout().continue_times(&mut bytes);
    assert_eq!(bytes, [page(1000, 0, &hit, None), page(0, 0, &hit, None)].concat());
    assert_eq!(entries(&bytes, layout().continued()).collect::<Vec<_>>(), before);
}

proptest::proptest! {
    #[test]
    fn continued_times_are_the_same(
        pages in proptest::collection::vec((
            proptest::prelude::any::<u64>(),
            proptest::collection::vec(proptest::prelude::any::<u32>(), 0..20),
        ), 0..6),
        tail: Vec<u8>,
    ) {
        let mut bytes: Vec<u8> =
            pages.iter().flat_map(|(time, data)| page(*time, 0, data, None)).collect();
        bytes.extend(tail);
        let before: Vec<_> = entries(&bytes, layout()).collect();
        layout().continue_times(&mut bytes);
        let after: Vec<_> = entries(&bytes, layout().continued()).collect();
        proptest::prop_assert_eq!(after, before);
    }

    #[test]
    fn any_bytes_give_entries_or_errors(bytes: Vec<u8>) {
        for entry in entries(&bytes, layout()).flatten() {
            if let PageEntry::Hit(start, _) = entry {
                let _ = payload(&bytes[start..]);
            }
        }
    }
}
