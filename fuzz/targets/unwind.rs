//! A request for unwinding, and a file with unwind tables of its functions.
//!
//! `u16` length, the bytes of the helper's request, the file.
#![no_main]

use iotrace_perf::tracer::unwinding::fuzzing::go_back;
use iotrace_perf_fuzz::integer;
use libfuzzer_sys::fuzz_target;

/// Request for two stacks of a program at this address, with return addresses in this range of its
/// code.
fn question(base: u64, from: u64, to: u64) -> Vec<u8> {
    let mut out = vec![7, 0, 0, 0, 0, 0, 0, 0, 0];
    [base, base + (1 << 20), 0].iter().for_each(|it| out.extend(it.to_le_bytes()));
    out.extend([0; 4]);
    for address in [from, (from + to) / 2] {
        out.push(2);
        out.extend((1_u32 << 6 | 1 << 7 | 1 << 16).to_le_bytes());
        [0x7010, 0x7000, base + address].iter().for_each(|it: &u64| out.extend(it.to_le_bytes()));
        let stack: Vec<u8> =
            (0..32).flat_map(|it| (base + from + (to - from) * it / 32).to_le_bytes()).collect();
        out.push(1);
        out.extend((stack.len() as u32).to_le_bytes());
        out.extend(stack);
    }
    out
}

fn seeds() {
    iotrace_perf_fuzz::seeds(|give| {
        let program = iotrace_perf_fuzz::program();
        for place in 1..12 {
            let question = question(0x40_0000, place << 10, (place + 4) << 10);
            give(&[&(question.len() as u16).to_le_bytes()[..], &question, &program].concat());
        }
    });
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let (length, rest) = integer::<2>(data);
    let (question, file) = rest.split_at(rest.len().min(length as usize));
    go_back(question, file);
});
