//! Payloads of the tracepoints in the logs of the corpus, by their formats; the letters of block
//! requests.
#![no_main]

use std::sync::OnceLock;

use iotrace_perf::capture::header::Header;
use iotrace_perf::event::EventKind;
use iotrace_perf::event::block::Rwbs;
use iotrace_perf::event::decode::Decoder;
use iotrace_perf_fuzz::output::check;
use iotrace_perf_fuzz::{corpus, frames, integer};
use libfuzzer_sys::fuzz_target;

/// Decoder of each log, and the numbers of its tracepoints.
fn decoders() -> &'static [(Decoder, Vec<u16>)] {
    static DECODERS: OnceLock<Vec<(Decoder, Vec<u16>)>> = OnceLock::new();
    let of = |log: &Vec<u8>| {
        let header: Header =
            serde_json::from_slice(&frames::frames_of(log)[0].1).expect("a header");
        let mut decoder = Decoder::new(&header.host.machine);
        for it in &header.tracepoints {
            decoder.add(&it.system, &it.name, it.id, &it.format).expect("a kernel's format");
        }
        (decoder, header.tracepoints.iter().map(|it| it.id).collect())
    };
    DECODERS.get_or_init(|| corpus("logs", ".iocap").iter().map(of).collect())
}

fn seeds() {
    iotrace_perf_fuzz::seeds(|give| {
        for (log, (_, ids)) in (0..).zip(decoders()) {
            for tracepoint in 0..ids.len() as u8 {
                give(
                    &[&[log, tracepoint], &[0, 1, 2, 3, b'W', b'S', 0, 8].repeat(12)[..]].concat(),
                );
            }
        }
    });
}

fn letters(rwbs: Rwbs) {
    assert!(rwbs.as_bytes().len() <= 10);
    check(rwbs.op().as_str().as_bytes());
    check(rwbs.to_string().as_bytes());
    let _ = rwbs.is_preflush();
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let ((log, rest), decoders) = (integer::<1>(data), decoders());
    let (which, payload) = integer::<1>(rest);
    let (decoder, ids) = &decoders[log as usize % decoders.len()];
    let id = ids[which as usize % ids.len()].to_le_bytes();
    let payload = [&id[..], payload].concat();
    if let Ok(EventKind::Block(block)) = decoder.decode(&payload) {
        letters(block.rwbs);
    }
    let _ = (decoder.strings(&payload), decoder.thread(&payload));
    letters(Rwbs::new(rest));
});
