//! Frames of a log, through the pipeline into an OTF2 archive; see `iotrace_perf_fuzz::frames` for
//! the bytes.
#![no_main]

use std::path::PathBuf;

use iotrace_perf::capture::fact::Text;
use iotrace_perf::otf2::{EndFacts, OtfOptions, OtfSink};
use iotrace_perf_fuzz::frames;
use libfuzzer_sys::fuzz_target;

/// Temporary directory, in memory if the machine has one there.
fn directory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    parent.join(format!("iotrace-fuzz-{}", std::process::id()))
}

fuzz_target!(init: iotrace_perf_fuzz::seeds(frames::seeds), |data: &[u8]| {
    let log = frames::log_of(data);
    let directory = directory();
    let options = OtfOptions { block_on_threads: data.len() % 2 == 0, ..OtfOptions::default() };
    let create = |header: &_| OtfSink::create(&directory, "trace", header, options).expect("a new archive");
    if let Some((summary, mut sink)) = frames::run(&log, create) {
        if let Some(mounts) = summary.text(Text::MOUNTINFO) {
            sink.set_mounts(mounts);
        }
        let properties = vec![("lost".to_owned(), summary.lost().to_string())];
        let end = EndFacts { end_time: summary.end_time(), properties, disks: summary.disks() };
        sink.finish(&end).expect("an archive");
    }
    let _ = std::fs::remove_dir_all(&directory);
});
