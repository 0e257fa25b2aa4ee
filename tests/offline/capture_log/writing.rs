//! The reader reads all that the writer writes; a failed write costs nothing that was written
//! before.

use std::io::{self, Read, Seek, Write};

use iotrace_perf::capture::fact::FactsFrame;
use iotrace_perf::capture::format::{Codec, FILE_HEADER_BYTES, FrameKind, PAYLOAD_BYTES_MAX};
use iotrace_perf::capture::reader::Item;
use iotrace_perf::capture::writer::{DataFrame, Writer};
use iotrace_perf::units::KernelTime;
use proptest::prelude::*;

use super::items;

/// Input of the writer in a test.
#[derive(Clone, Debug)]
enum Written {
    Data(DataFrame, Vec<u8>),
    Round(u64),
    Facts(u64, u32, Vec<u8>),
    Json(Vec<String>),
}

/// A frame of these bytes, whatever they are.
fn facts(count: u32, bytes: Vec<u8>) -> FactsFrame {
    let mut frame = FactsFrame::default();
    (frame.count, frame.bytes) = (count, bytes);
    frame
}

impl Written {
    fn write<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<()> {
        match self {
            Self::Data(frame, bytes) => writer.data(frame, &mut bytes.clone()),
            Self::Round(time) => writer.round(KernelTime(*time)),
            Self::Facts(time, count, bytes) => {
                writer.facts(KernelTime(*time), &mut facts(*count, bytes.clone()))
            }
            Self::Json(value) => writer.json(FrameKind::END, KernelTime(7), value),
        }
    }

    #[track_caller]
    fn check(&self, item: &Item) {
        let Item::Frame(header, payload) = item else { panic!("{self:?} became {item:?}") };
        match self {
            Self::Data(frame, bytes) => {
                assert_eq!((header.kind, payload), (FrameKind::DATA, bytes));
                assert_eq!(
                    (header.cpu, header.stream, header.layout),
                    (frame.cpu, frame.stream, frame.layout)
                );
                assert_eq!(
                    (header.first_time, header.last_time),
                    (frame.first_time.0, frame.last_time.0)
                );
                assert_eq!(header.items, frame.records);
            }
            Self::Round(time) => {
                assert_eq!(
                    (header.kind, header.first_time, payload.len()),
                    (FrameKind::ROUND, *time, 0)
                );
            }
            Self::Facts(time, count, bytes) => {
                assert_eq!(
                    (header.kind, header.first_time, header.items),
                    (FrameKind::FACTS, *time, *count)
                );
                assert_eq!(payload, bytes);
            }
            Self::Json(value) => {
                assert_eq!(header.kind, FrameKind::END);
                assert_eq!(
                    serde_json::from_slice::<Vec<String>>(payload).expect("the JSON written"),
                    *value
                );
            }
        }
    }
}

/// Rows of records with times, and bytes that are none.
fn any_records() -> impl Strategy<Value = Vec<u8>> {
    let sample = (any::<u64>(), 0usize..40, any::<u8>()).prop_map(|(time, rest, filler)| {
        let size = u16::try_from(24 + rest).expect("short");
        [
            &9u32.to_le_bytes()[..],
            &[1, 0],
            &size.to_le_bytes(),
            &[filler; 8],
            &time.to_le_bytes(),
            &vec![filler; rest],
        ]
        .concat()
    });
    let rows = prop::collection::vec(sample, 0..40).prop_map(|it| it.concat());
    prop_oneof![3 => rows, 1 => any::<Vec<u8>>(), 1 => prop::collection::vec(any::<u8>(), 0..3000)]
}

fn any_written() -> impl Strategy<Value = Written> {
    let data = (any::<[u32; 4]>(), any::<u16>(), any::<[u64; 2]>(), any_records()).prop_map(
        |(numbers, layout, times, bytes)| {
            let [cpu, stream, records, codec] = numbers;
            let codec = if codec % 2 == 0 { Codec::ZSTD_DELTA } else { Codec::ZSTD };
            let [first_time, last_time] = times.map(KernelTime);
            let frame = DataFrame { cpu, stream, layout, codec, first_time, last_time, records };
            Written::Data(frame, bytes)
        },
    );
    prop_oneof![
        4 => data,
        2 => any::<u64>().prop_map(Written::Round),
        2 => (any::<u64>(), any::<u32>(), any_records()).prop_map(|(time, count, bytes)| Written::Facts(time, count, bytes)),
        1 => any::<Vec<String>>().prop_map(Written::Json),
    ]
}

/// Takes so many bytes, then there is no room.
struct Disk {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let length = from.len().min(self.room - self.bytes.len());
        if length == 0 && !from.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(&from[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn written_values_are_read_back(all in prop::collection::vec(any_written(), 0..12)) {
        let mut writer = Writer::new(Vec::new()).expect("memory takes all");
        for it in &all {
            it.write(&mut writer).expect("memory takes all");
        }
        prop_assert_eq!(writer.written(), writer.get_ref().len() as u64);
        let items = items(writer.get_ref());
        prop_assert_eq!(items.len(), all.len());
        for (written, item) in all.iter().zip(&items) {
            written.check(item);
        }
    }
}

#[test]
fn full_disk_loses_only_what_did_not_fit() {
    let records: Vec<u8> = (0..=255).collect();
    let frame = DataFrame {
        cpu: 1,
        stream: 0,
        layout: 0,
        codec: Codec::ZSTD_DELTA,
        first_time: KernelTime(1),
        last_time: KernelTime(9),
        records: 3,
    };
    let all = [
        Written::Json(vec!["header".into()]),
        Written::Data(frame, records.clone()),
        Written::Round(10),
        Written::Facts(11, 2, records),
        Written::Round(20),
    ];
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    all.iter().for_each(|it| it.write(&mut writer).expect("memory takes all"));
    let needed = writer.get_ref().len();
    for room in 0..=needed {
        let disk = Disk { bytes: Vec::new(), room };
        let Ok(mut writer) = Writer::new(disk) else {
            assert!(room < FILE_HEADER_BYTES, "{room} bytes");
            continue;
        };
        let written = all.iter().take_while(|it| it.write(&mut writer).is_ok()).count();
        assert_eq!(written == all.len(), room == needed, "{room} bytes");
        let good = usize::try_from(writer.written()).expect("small");
        let items = items(&writer.get_ref().bytes);
        for (written, item) in all.iter().zip(&items[..written]) {
            written.check(item);
        }
        let torn = Item::Damaged { offset: good as u64, bytes: (room - good) as u64, at_end: true };
        let expected = if room == good { vec![] } else { vec![torn] };
        assert_eq!(items[written..], expected, "{room} bytes");
    }
}

/// Fails if a part of a frame that found no space stays.
#[test]
fn partial_frame_is_cut_off_and_the_log_continues() {
    let mut file = tempfile::tempfile().expect("a temporary file");
    let mut writer = Writer::new(file.try_clone().expect("a second descriptor")).expect("room");
    writer.round(KernelTime(1)).expect("room");
    let mut disk = file.try_clone().expect("a third descriptor");
    let full = |_: &mut Writer<_>| {
        disk.write_all(b"IOFR\x02half a frame")?;
        Err(io::ErrorKind::StorageFull.into())
    };
    let error = writer.write_atomically(full).expect_err("it is full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    writer.write_atomically(|it| it.round(KernelTime(2))).expect("room");
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("readable");
    assert_eq!(bytes.len() as u64, writer.written());
    let items = items(&bytes);
    assert_eq!(items.len(), 2);
    for (item, time) in items.iter().zip([1, 2]) {
        Written::Round(time).check(item);
    }
}

#[test]
fn payload_beyond_the_limit_is_not_written() {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    let mut too_long = facts(1, vec![0; PAYLOAD_BYTES_MAX as usize + 1]);
    let error = writer.facts(KernelTime(1), &mut too_long).expect_err("too long");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    writer.round(KernelTime(2)).expect("goes on");
    let items = items(writer.get_ref());
    assert_eq!(items.len(), 1);
    Written::Round(2).check(&items[0]);
}
