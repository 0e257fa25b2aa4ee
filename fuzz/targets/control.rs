//! Lines of the control socket.
#![no_main]

use iotrace_perf::cli::fuzzing::control_line;
use iotrace_perf_fuzz::output::check;
use libfuzzer_sys::fuzz_target;

fn seeds() {
    iotrace_perf_fuzz::seeds(|give| {
        for line in [
            "add /a/b 10",
            "add /a\\x20b",
            "remove 8:1_77",
            "list",
            "status /x",
            "log /\\\\x",
            "counts",
            "stop",
            "start",
            "reset",
            "timereset",
        ] {
            give(line.as_bytes());
        }
    });
}

fuzz_target!(init: seeds(), |data: &[u8]| check(&control_line(data)));
