//! Dry run: reads and compares everything that a replay reads of a plan, without executing it.
//! Tests feed hostile bytes to it.

use zstd::bulk::Decompressor;

use super::load::{NextFrame, PlanSource};
use super::run_error::RunError;
use super::steps::ReplayedResult;
use super::timestamps::Timestamps;
use crate::replay::comparison::Comparison;
use crate::replay::plan::plan_file::{Index, PlanError, PlanReader};

/// Loads operations until at least `most` of them are loaded or the plan ends, and compares them as
/// if each had returned 0.
///
/// # Errors
///
/// Errors of a replay: the plan is damaged, or has an unknown call.
pub fn read_through(
    reader: PlanReader,
    index: Index,
    most: u64,
) -> Result<(Index, Comparison), RunError> {
    let source = PlanSource::new(reader, index).map_err(RunError::UnknownCall)?;
    let mut zstd = Decompressor::new().map_err(PlanError::from)?;
    let (stamps, mut comparison, mut left) = (Timestamps::new(None), Comparison::default(), most);
    for worker in (0..).zip(&source.index.workers).map(|it| it.0) {
        let mut next = NextFrame::default();
        while left > 0
            && let Some(mut loaded) = source.load(worker, next, &mut zstd)?
        {
            let count = loaded.steps.len();
            (0..count).for_each(|_| loaded.results.push(ReplayedResult::default(), None));
            left = left.saturating_sub(count as u64);
            next = loaded.next;
            source.pairs(&loaded, &stamps).for_each(|it| comparison.add(&it));
        }
    }
    Ok((source.index, comparison))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::replay::execute::init;
    use crate::replay::plan::plan_file::{
        CallPlan, END_MAGIC, FILE_HEADER_BYTES, FILE_MAGIC, FRAME_MAGIC, Operation, VERSION,
        WorkerPlan,
    };
    use crate::units::Nanos;

    /// Distance between frames: a changed payload does not move the next frame.
    const FRAME_EVERY: u64 = 16 << 10;

    /// Kinds of frames, in the order of their payloads: operations, files, names, index.
    const KINDS: [u32; 4] = [1, 2, 4, 3];

    fn place(number: usize) -> u64 {
        FILE_HEADER_BYTES + number as u64 * FRAME_EVERY
    }

    fn file(payloads: &[Vec<u8>; 4]) -> std::fs::File {
        let mut bytes = [&FILE_MAGIC[..], &VERSION.to_le_bytes(), &[0; 6]].concat();
        for (number, (kind, payload)) in KINDS.into_iter().zip(payloads).enumerate() {
            bytes.resize(usize::try_from(place(number)).expect("short"), 0);
            let stored = zstd::bulk::compress(payload, 1).expect("memory");
            let length = |it: &[u8]| u32::try_from(it.len()).expect("short");
            let mut header = FRAME_MAGIC.to_vec();
            for it in [kind, length(&stored), length(payload), crc32fast::hash(&stored)] {
                header.extend(it.to_le_bytes());
            }
            header.extend(crc32fast::hash(&header).to_le_bytes());
            bytes.extend([header, stored].concat());
        }
        bytes.extend([place(3).to_le_bytes(), END_MAGIC].concat());
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&bytes).expect("space");
        file
    }

    fn operation(call: u16) -> Operation<'static> {
        Operation {
            call,
            args: [1, 1, 512, 3, 4, 5],
            handle: Some(0),
            target: Some(1),
            makes: (call == 0).then_some(0),
            file: Some(1),
            path: Some(b"/d/f"),
            second_path: Some(b"/d/g"),
            flags: Some(0o102),
            offset: Some(7),
            target_offset: None,
            bytes: Some(512),
            ret: 512,
            gap: Nanos(5),
            took: Nanos(7),
            others: 1,
            behind: Nanos(0),
            keeps_handle: call == 3,
            implicit: false,
            before: vec![(0, 0)],
        }
    }

    fn payloads() -> [Vec<u8>; 4] {
        const CALLS: [&str; 9] = [
            "openat",
            "read",
            "pwritev2",
            "close",
            "flock",
            "openat2",
            "copy_file_range",
            "dup2",
            "statx",
        ];
        let worker = WorkerPlan {
            pid: 7,
            tid: 8,
            comm: b"cat".into(),
            lane: None,
            before: Some((0, 1)),
            is_waited_for: true,
            operations: 9,
            frames: vec![place(0), place(0)],
        };
        let call = |it: &&str| CallPlan { name: (*it).into(), asynchronous: None };
        let index = Index {
            machine: std::env::consts::ARCH.into(),
            calls: CALLS.iter().map(call).collect(),
            workers: vec![worker.clone(), worker],
            longest: [512, 512],
            handles: 2,
            files_at: place(1),
            names_at: place(2),
            ..Index::default()
        };
        let operations =
            (0..9).flat_map(|it| postcard::to_allocvec(&operation(it)).expect("memory"));
        // A directory, and a file in it whose first bytes are in a hole.
        let directory = b"\x02\x02/d\x01\0\0\x01\0\0\0";
        let in_it = b"\x04/d/f\0\xaa\x01\x01\xa4\x03\0\0\x01\0\x07\x01\0";
        let files = [&directory[..], in_it].concat();
        let names = b"\x01\x01\x04/d/f".to_vec();
        [operations.collect(), files, names, postcard::to_allocvec(&index).expect("memory")]
    }

    fn read(payloads: &[Vec<u8>; 4]) -> Result<u64, RunError> {
        let (reader, index) = PlanReader::new(file(payloads))?;
        let files = reader.files(&index)?;
        // The result of the check does not matter here.
        let _ = init::check(&files);
        reader.names(&index)?;
        let (_, comparison) = read_through(reader, index, 1000)?;
        Ok(comparison.count(|_| true))
    }

    #[test]
    fn valid_plan_is_read_completely() {
        assert_eq!(read(&payloads()).expect("a plan"), 2 * 2 * 9);
    }

    #[test]
    fn frame_without_operations_is_refused() {
        let mut payloads = payloads();
        payloads[0].clear();
        let error = read(&payloads).expect_err("nothing in it").to_string();
        assert!(error.contains("it has no operations"), "{error}");
    }

    proptest! {
        /// Fails if bytes in the frames of a plan can crash the process.
        #[test]
        fn any_plan_is_read_or_refused(
            which in 0_usize..4,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let mut payloads = payloads();
            let payload = &mut payloads[which];
            for (at, byte) in &changes {
                let at = at.index(payload.len());
                payload[at] = *byte;
            }
            if let Some(it) = cut {
                payload.truncate(it.index(payload.len()));
            }
            let _ = read(&payloads);
        }
    }
}
