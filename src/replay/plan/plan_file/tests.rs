use std::io::Write;

use super::format::KIND_INDEX;
use super::*;
use crate::event::syscall_table::CallId;
use crate::replay::plan::dependencies::{OpId, Worker};
use crate::replay::plan::handles::Handle;
use crate::replay::plan::planned_op::{PlannedOp, WorkerInfo};
use crate::replay::plan::planner::{PlanOutput, Planner};
use crate::units::ReplayTime;

fn planned(worker: u32, number: u32) -> PlannedOp {
    let start = u64::from(number) * 100 + u64::from(worker);
    PlannedOp {
        at: OpId { worker: Worker(worker), number },
        call: CallId::by_name("pread64").expect("a row"),
        asynchronous: None,
        args: [3, 0xdead, 512, u64::from(number), 0, 0],
        handle: Some(Handle(7)),
        target: None,
        makes: None,
        file: None,
        path: None,
        second_path: None,
        flags: None,
        offset: Some(u64::from(number)),
        target_offset: None,
        bytes: Some(512),
        ret: 512,
        start: ReplayTime(start),
        end: ReplayTime(start + 5),
        keeps_handle: false,
        implicit: false,
        before: vec![OpId { worker: Worker(1 - worker), number }],
    }
}

/// Returns the bytes of a plan of two workers with this many operations each.
fn plan(operations: u32) -> Vec<u8> {
    plan_for(operations, std::env::consts::ARCH)
}

fn plan_for(operations: u32, machine: &str) -> Vec<u8> {
    let out = PlanWriter::new(Vec::new()).expect("memory");
    let mut planner = Planner::new(out);
    for number in 0..operations {
        for worker in 0..2 {
            planner.out.planned(&planned(worker, number)).expect("memory");
        }
    }
    let who =
        |worker| WorkerInfo { worker: Worker(worker), pid: 1, tid: 2, ..WorkerInfo::default() };
    planner.workers = vec![who(0), who(1)];
    finish(planner, machine).expect("memory")
}

fn open(bytes: &[u8]) -> Result<(PlanReader, Index), PlanError> {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("space");
    PlanReader::new(file)
}

#[test]
fn written_plan_is_read_back() {
    let (reader, index) = open(&plan(1000)).expect("a plan");
    let mut zstd = zstd::bulk::Decompressor::new().expect("memory");
    let calls: Vec<_> = index.calls.iter().map(CallPlan::captured_name).collect();
    assert_eq!(calls, ["pread64"]);
    assert_eq!(index.longest, [0, 512]);
    for worker in &index.workers {
        assert_eq!(worker.operations, 1000);
        let (mut count, mut end, mut ended) = (0, 0, 0);
        for at in &worker.frames {
            let payload = reader.operations(*at, &mut zstd).expect("a frame");
            let mut left = &payload[..];
            while !left.is_empty() {
                let (operation, rest): (Operation<'_>, _) =
                    postcard::take_from_bytes(left).expect("an operation");
                left = rest;
                let start = end + operation.gap.0;
                end = start + operation.took.0;
                ended += operation.others;
                assert_eq!(start / 100, count);
                assert_eq!(ended / 2, count);
                assert_eq!(operation.args[3], count);
                count += 1;
            }
        }
        assert_eq!(count, 1000);
    }
}

#[test]
fn same_operations_give_same_bytes() {
    assert_eq!(plan(700), plan(700));
}

#[test]
fn truncated_plan_is_refused() {
    let bytes = plan(10);
    for length in [0, 7, 15, 16, 17, 31, 32, bytes.len() - 1] {
        assert!(open(&bytes[..length]).is_err(), "{length}");
    }
}

/// Fails if a changed byte is not noticed, or crashes the reader.
#[test]
fn every_changed_byte_is_detected() {
    let bytes = plan(3);
    for at in 0..bytes.len() {
        // The reserved bytes are not checked.
        if (10..16).contains(&at) {
            continue;
        }
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        let read = open(&changed).and_then(|(reader, index)| {
            reader.files(&index)?;
            reader.names(&index)?;
            let mut zstd = zstd::bulk::Decompressor::new()?;
            let frames = index.workers.iter().flat_map(|it| &it.frames);
            frames
                .map(|it| reader.operations(*it, &mut zstd).map(drop))
                .collect::<Result<Vec<_>, _>>()
        });
        assert!(read.is_err(), "{at}");
    }
}

/// Fails if a plan of the previous version is refused, or one of an unknown version is read.
#[test]
fn plans_of_the_version_before_are_read() {
    for (version, is_read) in [(3, false), (4, true), (5, true), (6, false)] {
        let mut bytes = plan(3);
        bytes[8] = version;
        assert_eq!(open(&bytes).is_ok(), is_read, "{version}");
    }
}

/// Fails if a plan with flags and error numbers of another machine is accepted.
#[test]
fn plan_for_another_machine_is_refused() {
    let error = open(&plan_for(3, "m68k")).expect_err("another machine").to_string();
    assert!(error.contains("it is for m68k machines"), "{error}");
}

/// Fails if a plan can send control characters to a terminal.
#[test]
fn invalid_names_are_refused() {
    let error = open(&plan_for(3, "\u{1b}[2J")).expect_err("no name").to_string();
    assert!(error.contains("a name in it is not valid"), "{error}");
}

/// Returns a plan with nothing but an INDEX frame, whose header has these lengths.
fn with_index(stored: &[u8], stored_bytes: u32, payload_bytes: u32) -> Vec<u8> {
    let mut bytes = [&FILE_MAGIC[..], &VERSION.to_le_bytes(), &[0; 6]].concat();
    let mut header = FRAME_MAGIC.to_vec();
    for it in [KIND_INDEX, stored_bytes, payload_bytes, crc32fast::hash(stored)] {
        header.extend(it.to_le_bytes());
    }
    header.extend(crc32fast::hash(&header).to_le_bytes());
    bytes.extend([&header[..], stored, &FILE_HEADER_BYTES.to_le_bytes(), &END_MAGIC].concat());
    bytes
}

/// Fails if a few bytes can take more memory than a plan may.
#[test]
fn overlong_value_is_refused_before_allocation() {
    let check = |bytes: &[u8], expected: &str| {
        let error = open(bytes).expect_err("too long").to_string();
        assert!(error.contains(expected), "{error}");
    };
    let index = |payload: &[u8], size: u32| {
        let stored = zstd::bulk::compress(payload, 1).expect("memory");
        let length = u32::try_from(stored.len()).expect("short");
        with_index(&stored, length, size)
    };
    let zeros = vec![0; INDEX_BYTES_MAX as usize + 1];
    check(&index(&zeros, INDEX_BYTES_MAX + 1), "longer than a frame of its kind");
    // The header states less than the payload becomes.
    check(&index(&zeros, 100), "cannot be decompressed");
    check(&with_index(&[], 7, 0), "longer than the file");
    // As many workers as fit, each of the fewest bytes: each takes a hundred bytes in memory.
    let counts = [1, b'm', 0, 0xff, 0xff, 0xff, 0x1f];
    let mut workers = vec![0; 9 * (WORKERS_MAX + 1)];
    workers[..counts.len()].copy_from_slice(&counts);
    let length = u32::try_from(workers.len()).expect("short");
    check(&index(&workers, length), "more than a plan may have");
}

/// Fails if frames of a worker grow with the dependencies of its operations.
#[test]
fn frames_are_bounded_for_any_content() {
    let out = PlanWriter::new(Vec::new()).expect("memory");
    let mut planner = Planner::new(out);
    let before = |number| OpId { worker: Worker(1), number };
    for number in 0..40 {
        let before = (0..70_000).map(before).collect();
        planner.out.planned(&PlannedOp { before, ..planned(0, number) }).expect("memory");
    }
    let who =
        |worker| WorkerInfo { worker: Worker(worker), pid: 1, tid: 2, ..WorkerInfo::default() };
    planner.workers = vec![who(0), who(1)];
    let bytes = finish(planner, std::env::consts::ARCH).expect("memory");
    let (reader, index) = open(&bytes).expect("a plan");
    let mut zstd = zstd::bulk::Decompressor::new().expect("memory");
    let frames = &index.workers[0].frames;
    assert!(frames.len() > 1);
    for at in frames {
        let length = reader.operations(*at, &mut zstd).expect("a frame").len();
        assert!(length < OPERATIONS_BYTES + (1 << 20), "{length}");
    }
}
