//! A complete log: reading damaged bytes, decompression, and the search for facts at its end.
#![no_main]

use std::io::Cursor;

use iotrace_perf::capture::trailing_facts;
use iotrace_perf_fuzz::output::Outputs;
use iotrace_perf_fuzz::{corpus, frames};
use libfuzzer_sys::fuzz_target;

/// Limit on seeds: longer logs are too slow.
const SEED_BYTES: usize = 20 << 10;

fn seeds() {
    iotrace_perf_fuzz::seeds(|give| {
        corpus("logs", ".iocap").iter().filter(|it| it.len() <= SEED_BYTES).for_each(|it| give(it));
    });
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let last = trailing_facts::look(Cursor::new(data)).expect("memory").count();
    assert!(last <= data.len());
    frames::run(data, |header| Outputs::new(header, false));
});
