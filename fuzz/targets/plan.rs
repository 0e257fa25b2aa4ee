//! Plans of replays: the bytes are a complete one, or (after an even first byte) the payloads of
//! its frames.
#![no_main]

use iotrace_perf::replay::comparison::Comparison;
use iotrace_perf::replay::execute::{init, validate_plan};
use iotrace_perf::replay::plan::hole_map::{KnownRegion, RegionKind};
use iotrace_perf::replay::plan::plan_file::{
    CallPlan, FileBefore, FileKind, Index, InheritedFdPlan, Operation, PlanReader, SkippedOps,
    WorkerPlan,
};
use iotrace_perf::replay::verify_recording::{PlanSide, compare};
use iotrace_perf::report::replay_run::{ReplayRun, report};
use iotrace_perf::text::table::{TableFormat, TextStyle};
use iotrace_perf::units::Nanos;
use iotrace_perf_fuzz::output::check;
use iotrace_perf_fuzz::plans;
use libfuzzer_sys::fuzz_target;

/// Smallest number of operations that are prepared.
const OPERATIONS: u64 = 2000;

fn operation(call: u16, args: [u64; 6], ret: i64) -> Operation<'static> {
    Operation {
        call,
        args,
        handle: Some(0),
        target: None,
        makes: None,
        file: Some(1),
        path: None,
        second_path: None,
        flags: None,
        offset: Some(7),
        target_offset: None,
        bytes: Some(512),
        ret,
        gap: Nanos(5),
        took: Nanos(7),
        others: 1,
        behind: Nanos(0),
        keeps_handle: false,
        implicit: false,
        before: vec![(0, 0)],
    }
}

fn seeds() {
    const CALLS: [&str; 12] = [
        "openat",
        "read",
        "pwritev2",
        "close",
        "flock",
        "openat2",
        "copy_file_range",
        "dup2",
        "fcntl",
        "rename",
        "mknodat",
        "statx",
    ];
    let bytes = |it: Result<Vec<u8>, _>| -> Vec<u8> {
        it.unwrap_or_else(|it: postcard::Error| panic!("{it}"))
    };
    let before = |path: &str, kind, same_as| FileBefore {
        size: 4099,
        mode: Some(0o644),
        has_more: kind == FileKind::Directory,
        same_as,
        ..FileBefore::new(path.as_bytes(), kind)
    };
    iotrace_perf_fuzz::seeds(|give| {
        let mut operations = Vec::new();
        for call in 0..12 {
            let mut it = operation(call, [1, 1, 512, 3, 4, 5], 512);
            (it.path, it.second_path) = (Some(&b"/d/f"[..]), Some(&b"/d/g"[..]));
            (it.makes, it.target, it.flags) = ((call == 0).then_some(0), Some(1), Some(0o102));
            operations.extend(bytes(postcard::to_allocvec(&it)));
        }
        let mut files = [
            before("/d", FileKind::Directory, None),
            before("/d/f", FileKind::File, None),
            before("/d/g", FileKind::File, Some(1)),
            before("/d/l", FileKind::Link, None),
        ];
        let part = |from_byte, to_byte, kind| KnownRegion { from_byte, to_byte, kind };
        files[1].parts = vec![part(0, 23, RegionKind::Data), part(23, 4096, RegionKind::Hole)];
        files[3].text = Some(b"../f".into());
        let files = bytes(postcard::to_allocvec(&files[..]));
        let names = bytes(postcard::to_allocvec(&[(1_u32, b"/d/f".to_vec())][..]));
        let mut parts = [&operations[..], &files, &names, &[]];
        let worker = |lane| WorkerPlan {
            pid: 7,
            tid: 8,
            comm: b"cat".into(),
            lane,
            before: Some((0, 1)),
            is_waited_for: true,
            operations: 12,
            frames: vec![plans::place(parts, 0)],
        };
        let index = Index {
            machine: std::env::consts::ARCH.into(),
            calls: CALLS
                .iter()
                .map(|it| CallPlan { name: (*it).into(), asynchronous: None })
                .collect(),
            workers: vec![worker(None), worker(Some(0))],
            given: vec![InheritedFdPlan {
                handle: 1,
                path: b"/d/f".into(),
                flags: Some(2),
                offset: 9,
            }],
            left: vec![SkippedOps { reason: "device".into(), call: "read".into(), count: 3 }],
            longest: [512, 512],
            handles: 2,
            files_at: plans::place(parts, 1),
            names_at: plans::place(parts, 2),
            ..Index::default()
        };
        let index = bytes(postcard::to_allocvec(&index));
        parts[3] = &index;
        give(&[&[0][..], &plans::input(parts)].concat());
        let mut whole = Vec::new();
        std::io::Read::read_to_end(&mut plans::plan(&plans::input(parts)), &mut whole)
            .expect("memory");
        give(&[&[1][..], &whole].concat());
    });
}

fn tell(index: &Index, comparison: &Comparison, names: Option<Vec<(u32, Vec<u8>)>>) {
    let names = names.unwrap_or_default().into_iter().collect();
    let run = ReplayRun {
        index,
        comparison,
        names: &names,
        expected_span: Some(index.span),
        is_stopped: false,
        until: None,
        threads: (2, 2),
        rings: Some(1),
    };
    for form in [TableFormat::Text, TableFormat::Json, TableFormat::Csv] {
        let mut out = Vec::new();
        report(&run, 20).print(form, TextStyle { width: Some(40), has_color: true }, &mut out).expect("memory");
        check(&out);
    }
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some((first, data)) = data.split_first() else { return };
    let file = || if first % 2 == 0 { plans::plan(data) } else { plans::file(data) };
    let Ok((reader, index)) = PlanReader::new(file()) else { return };
    let _ = reader.fingerprint(&index);
    if let Ok(files) = reader.files(&index) {
        let _ = init::check(&files);
    }
    let names = reader.names(&index).ok().map(|it| it.into_iter().collect());
    if let Ok((index, comparison)) = validate_plan::read_through(reader, index, OPERATIONS) {
        tell(&index, &comparison, names);
    }
    let side = || PlanReader::new(file()).and_then(|(reader, index)| PlanSide::new(reader, index));
    if let (Ok(plan), Ok(recording)) = (side(), side()) {
        let _ = compare(&plan, &recording, b"/r");
    }
});
