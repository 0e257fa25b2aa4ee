//! Records of perf, as in a ring.
#![no_main]

use iotrace_perf::capture::delta;
use iotrace_perf::capture::format::FrameKind;
use iotrace_perf::capture::header::Header;
use iotrace_perf::record::abi::sample_type as bit;
use iotrace_perf::record::program::take_out;
use iotrace_perf::record::{SampleLayout, records};
use iotrace_perf_fuzz::{corpus, frames, integer};
use libfuzzer_sys::fuzz_target;

/// Limit on the bytes of a seed.
const SEED_BYTES: usize = 4 << 10;

fn seeds() {
    iotrace_perf_fuzz::seeds(|give| {
        for log in corpus("logs", ".iocap") {
            let frames = frames::frames_of(&log);
            let header: Header = serde_json::from_slice(&frames[0].1).expect("a header");
            let data = frames.iter().filter(|it| it.0.kind == FrameKind::DATA);
            for (frame, payload) in data {
                let layout = &header.layouts[usize::from(frame.layout)];
                if layout.source == "perf" {
                    let payload = &payload[..payload.len().min(SEED_BYTES)];
                    let layout =
                        [layout.sample_type, layout.regs_user].map(u64::to_le_bytes).concat();
                    give(&[&layout[..], payload].concat());
                }
            }
        }
    });
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let (bits, rest) = integer::<8>(data);
    let (registers, bytes) = integer::<8>(rest);
    for kind in [FrameKind::DATA, FrameKind::FACTS] {
        let mut changed = bytes.to_vec();
        delta::encode(kind, &mut changed);
        delta::decode(kind, &mut changed);
        assert_eq!(changed, bytes);
    }
    let needed = bit::TID | bit::TIME | bit::RAW;
    let Some(layout) = SampleLayout::new(bits, registers).or_else(|| SampleLayout::new(bits | needed, registers)) else {
        return;
    };
    for (start, record) in records(bytes).flatten() {
        let _ = (record.time(&layout), record.task(&layout), record.payload(&layout), record.parse(&layout));
        if let Some(chain) = record.chain(&layout) {
            assert!(chain.kernel().count() + chain.user().count() <= chain.words().count());
        }
        if let Some(program) = record.program(&layout) {
            let _ = (program.is_there(), (0..70).filter_map(|it| program.register(it)).count());
        }
        if let Some(at) = record.program_at(&layout) {
            let mut whole = bytes[start..].to_vec();
            let length = take_out(&mut whole, at);
            assert!(length.is_none_or(|it| it <= whole.len()));
        }
    }
});
