//! Tests of binding: names, kinds, and a record read through bound accessors.

use super::*;

/// `block/block_rq_issue` of Linux 6.18, with some odd fields more.
const RQ_ISSUE: &str = "\
name: block_rq_issue
ID: 1190
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:char rwbs[4];\toffset:28;\tsize:4;\tsigned:0;
\tfield:__data_loc char[] cmd;\toffset:32;\tsize:4;\tsigned:0;
\tfield:__rel_loc char name[];\toffset:36;\tsize:4;\tsigned:0;
\tfield:u16 pair[2];\toffset:40;\tsize:4;\tsigned:0;
\tfield:__data_loc u64[] wide;\toffset:44;\tsize:4;\tsigned:0;
\tfield:struct timespec64 ts;\toffset:48;\tsize:16;\tsigned:0;

print fmt: \"%d\", REC->dev
";

fn rq_issue() -> EventFormat {
    EventFormat::parse(RQ_ISSUE).expect("a format the kernel prints")
}

fn payload() -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend(1190_u16.to_le_bytes());
    payload.extend([0, 0]);
    payload.extend((-2_i32).to_le_bytes()); // common_pid
    payload.extend(0x0080_0001_u32.to_le_bytes());
    payload.extend([0; 4]);
    payload.extend(u64::MAX.to_le_bytes()); // sector
    payload.extend(8_u32.to_le_bytes());
    payload.extend(*b"WS\0x"); // rwbs
    payload.extend([64, 0, 4, 0]); // cmd: 4 bytes at 64
    payload.extend([28, 0, 5, 0]); // name: 5 bytes at 36 + 4 + 28
    payload.extend([1, 0, 2, 1]); // pair
    payload.extend([0; 20]);
    payload.extend(*b"cmd\0name\0");
    payload
}

#[test]
fn a_record_through_its_accessors() -> Result<(), BindError> {
    let (format, payload) = (rq_issue(), payload());
    assert_eq!(format.int("common_type")?.read_u64(&payload), Some(1190));
    assert_eq!(format.int("common_pid")?.read_i64(&payload), Some(-2));
    assert_eq!(format.int("dev")?.read_u64(&payload), Some(0x0080_0001));
    assert_eq!(format.int("sector")?.read_u64(&payload), Some(u64::MAX));
    assert_eq!(format.int("nr_sector")?.read_u64(&payload), Some(8));
    assert_eq!(format.string("rwbs")?.read(&payload), Some(b"WS".as_slice()));
    assert_eq!(format.string("cmd")?.read(&payload), Some(b"cmd".as_slice()));
    assert_eq!(format.string("name")?.read(&payload), Some(b"name".as_slice()));

    let pair = format.array("pair")?;
    assert_eq!(pair.count(), 2);
    assert_eq!(pair.read_u64(&payload, 1), Some(0x102));
    assert_eq!(pair.read_u64(&payload, 2), None);
    Ok(())
}

#[test]
fn a_missing_field_is_named_with_its_event() {
    let format = rq_issue();
    let error = format.int("bytes").expect_err("no such field");
    assert_eq!(error, BindError::Missing { event: "block_rq_issue".into(), field: "bytes".into() });
    assert_eq!(error.to_string(), "the event `block_rq_issue` of this kernel has no field `bytes`");
    assert_eq!(format.array("bytes").expect_err("no such field"), error);
    assert_eq!(format.string("bytes").expect_err("no such field"), error);

    assert_eq!(format.int_opt("bytes"), Ok(None));
    assert_eq!(format.array_opt("bytes"), Ok(None));
    assert_eq!(format.string_opt("bytes"), Ok(None));
}

#[test]
fn a_field_of_another_kind_is_an_error_even_when_optional() {
    let format = rq_issue();
    let error = format.int_opt("rwbs").expect_err("text, not an integer");
    assert_eq!(
        error.to_string(),
        "the field `char rwbs[4]` (4 bytes) of the event `block_rq_issue` of this kernel is not \
         an integer"
    );
    for name in ["pair", "cmd", "name", "wide", "ts"] {
        assert!(format.int_opt(name).is_err(), "{name} is no integer");
    }
    for name in ["sector", "rwbs", "cmd", "wide", "ts"] {
        assert!(format.array_opt(name).is_err(), "{name} is no array of integers");
    }
    for name in ["sector", "pair", "wide", "ts"] {
        assert!(format.string_opt(name).is_err(), "{name} is no string");
    }
}
