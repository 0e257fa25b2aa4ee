//! A `format` file, and a record that is read by it.
#![no_main]

use iotrace_perf::event::decode::Decoder;
use iotrace_perf::tracefs::EventFormat;
use iotrace_perf_fuzz::{corpus, halves};
use libfuzzer_sys::fuzz_target;

/// Systems of the tracepoints.
const SYSTEMS: [&str; 8] =
    ["syscalls", "raw_syscalls", "block", "io_uring", "task", "sched", "exceptions", "ext4"];
/// Number of the tracepoint.
const ID: u16 = 7;

fn seeds() {
    iotrace_perf_fuzz::seeds(|give| {
        let payload: Vec<u8> =
            [ID as u8, 0].into_iter().chain((2..120).map(|it| it % 16)).collect();
        for text in corpus("tracefs", "/format") {
            give(&[&text[..], &[0], &payload].concat());
        }
    });
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let (text, payload) = halves(data);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Ok(format) = EventFormat::parse(text) else { return };
    assert_eq!(format.to_string(), text);
    for field in &format.fields {
        if let Ok(it) = format.int(&field.name) {
            let _ = (it.read_u64(payload), it.read_i64(payload));
        }
        if let Ok(it) = format.array(&field.name) {
            let _ = (it.read_u64(payload, it.count()), it.read_u64(payload, usize::MAX), it.read_first::<6>(payload));
        }
        if let Ok(it) = format.string(&field.name) {
            let _ = (it.read(payload), it.read_bytes(payload));
        }
    }
    for system in SYSTEMS {
        let mut decoder = Decoder::new("x86_64");
        if decoder.add(system, &format.name, ID, text).is_ok() {
            let _ = (decoder.decode(payload), decoder.strings(payload), decoder.thread(payload));
        }
    }
});
