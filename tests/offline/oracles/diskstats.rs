//! The counters of a device.

use crate::support::oracle::diskstats::DiskStats;

const TEXT: &str = "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17
   8       1 sda1 21 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17
   7       0 loop0 100 0 800 5 50 0 400 6 0 7 11
   7       1 loop1 1 x 3
";

#[test]
fn devices_are_found_by_their_whole_name() {
    let sda = DiskStats::parse(TEXT, "sda").expect("it is there");
    let expected = DiskStats {
        reads: 1,
        reads_merged: 2,
        read_sectors: 3,
        read_ms: 4,
        writes: 5,
        writes_merged: 6,
        written_sectors: 7,
        write_ms: 8,
        in_flight: 9,
        busy_ms: 10,
        weighted_ms: 11,
        discards: 12,
        discards_merged: 13,
        discarded_sectors: 14,
        discard_ms: 15,
        flushes: 16,
        flush_ms: 17,
    };
    assert_eq!(sda, expected);
    assert_eq!(DiskStats::parse(TEXT, "sda1").map(|it| it.reads), Some(21));
    assert_eq!(DiskStats::parse(TEXT, "loop0").map(|it| (it.writes, it.flushes)), Some((50, 0)));
    assert_eq!(DiskStats::parse(TEXT, "loop1"), None);
    assert_eq!(DiskStats::parse(TEXT, "sd"), None);
    let later = DiskStats { reads: 4, written_sectors: 17, in_flight: 0, flushes: 18, ..sda };
    let change = DiskStats { reads: 3, written_sectors: 10, flushes: 2, ..DiskStats::default() };
    assert_eq!(later - sda, change);
}
