//! ELF files: search for the code that passes paths to the kernel.
#![no_main]

use std::sync::OnceLock;

use iotrace_perf::event::syscall_table::CallId;
use libfuzzer_sys::fuzz_target;

fn wanted() -> &'static [CallId] {
    static WANTED: OnceLock<Vec<CallId>> = OnceLock::new();
    WANTED.get_or_init(|| CallId::all().filter(|it| it.call().has_path()).collect())
}

fn seeds() {
    iotrace_perf_fuzz::seeds(|give| give(&iotrace_perf_fuzz::program()));
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let _ = iotrace_perf::probe_sites::interpreter(data);
    let _ = iotrace_perf::probe_sites::find(data, wanted());
});
