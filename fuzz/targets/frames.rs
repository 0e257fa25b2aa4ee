//! Frames of a log, through the pipeline into all text formats; see `iotrace_perf_fuzz::frames` for
//! the bytes.
#![no_main]

use iotrace_perf_fuzz::frames;
use iotrace_perf_fuzz::output::Outputs;
use libfuzzer_sys::fuzz_target;

#[path = "../../tests/offline/pipeline/checked.rs"]
mod checked;

use checked::Checked;

fuzz_target!(init: iotrace_perf_fuzz::seeds(frames::seeds), |data: &[u8]| {
    let log = frames::log_of(data);
    let ran = frames::run(&log, |header| Checked::new(Outputs::new(header, false)));
    if let Some((summary, sink)) = ran {
        let outputs = sink.finish(&summary.ledger);
        outputs.iotracer.finish().expect("memory");
    }
});
