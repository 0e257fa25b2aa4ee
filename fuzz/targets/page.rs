//! Pages of a tracefs ring.
#![no_main]

use iotrace_perf::capture::format::FrameKind;
use iotrace_perf::capture::header::Header;
use iotrace_perf::record::PageLayout;
use iotrace_perf::record::page::{PageEntry, entries, payload};
use iotrace_perf_fuzz::{corpus, frames, halves};
use libfuzzer_sys::fuzz_target;

/// Limit on the bytes of a seed.
const SEED_BYTES: usize = 4 << 10;

/// Contents of `events/header_page` on x86-64.
const USUAL: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

fn seeds() {
    iotrace_perf_fuzz::seeds(|give| {
        for log in corpus("logs", ".iocap") {
            let frames = frames::frames_of(&log);
            let header: Header = serde_json::from_slice(&frames[0].1).expect("a header");
            for (number, (frame, payload)) in frames.iter().enumerate() {
                let layout = &header.layouts[usize::from(frame.layout)];
                if frame.kind == FrameKind::DATA && layout.source == "tracefs" {
                    let page = if number % 4 == 0 { layout.header_page.as_str() } else { "" };
                    let payload = &payload[..payload.len().min(SEED_BYTES)];
                    give(&[page.as_bytes(), &[0], payload].concat());
                }
            }
        }
    });
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let (page, bytes) = halves(data);
    let page = if page.is_empty() { USUAL } else { std::str::from_utf8(page).unwrap_or(USUAL) };
    let Some(layout) = PageLayout::parse(page) else { return };
    let before: Vec<_> = entries(bytes, layout).collect();
    for entry in before.iter().flatten() {
        if let PageEntry::Hit(start, _) = entry {
            assert!(payload(&bytes[*start..]).is_some());
        }
    }
    let mut changed = bytes.to_vec();
    layout.continue_times(&mut changed);
    assert_eq!(entries(&changed, layout.continued()).collect::<Vec<_>>(), before);
    let _ = layout.used_bytes(bytes);
    let mut cut = bytes.to_vec();
    layout.cut(&mut cut, 0);
    assert!(cut.len() <= bytes.len());
});
