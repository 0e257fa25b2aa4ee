//! Logs of other tools, in each of their formats; the result is read as a log of ours.
#![no_main]

use std::io::BufReader;

use iotrace_perf::import::{ImportFormat, import};
use iotrace_perf_fuzz::output::Outputs;
use iotrace_perf_fuzz::{corpus, frames};
use libfuzzer_sys::fuzz_target;

/// Formats by the first byte; larger values detect the format.
const FORMATS: [ImportFormat; 5] = [
    ImportFormat::Strace,
    ImportFormat::Ioriot,
    ImportFormat::IoriotReplay,
    ImportFormat::FioIolog,
    ImportFormat::Blktrace,
];

/// Bytes that are read at once: less than a line or record may have.
const READ_BYTES: usize = 1024;

/// Two records of blktrace: the issue and the completion of a request.
fn blktrace() -> Vec<u8> {
    let record = |action: u32, time: u64| {
        let mut bytes = 0x6561_7407_u32.to_le_bytes().to_vec();
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(time.to_le_bytes());
        bytes.extend(2048_u64.to_le_bytes());
        for it in [4096, action | 1 << 17, 7, 8 << 20 | 1, 0] {
            bytes.extend(u32::to_le_bytes(it));
        }
        bytes.extend([0; 4]);
        bytes
    };
    [record(7, 1000), record(8, 2000)].concat()
}

const STRACE: &str = r#"7 1700000000.000000 openat(AT_FDCWD, "/d/\n\303", O_RDWR|O_CREAT, 0644) = 3</d/x> <0.000010>
7 1700000000.001000 pwritev2(3</d/x>, [{iov_base="a"..., iov_len=4099}, {iov_base="", iov_len=1}], 2, 7, RWF_SYNC) = 4100 <0.000010>
8 1700000000.002000 clone(child_stack=NULL, flags=CLONE_FILES|SIGCHLD) = 9
8 1700000000.002100 read(3<pipe:[5]>,  <unfinished ...>
8 1700000000.003000 <... read resumed>""..., 23) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)
9 1700000000.004000 stat("/d", {st_mode=S_IFDIR|0755, st_size=4096, ...}) = 0 <0.000004>
9 1700000000.005000 +++ exited with 0 +++
"#;

fn seeds() {
    iotrace_perf_fuzz::seeds(|give| {
        let mut texts = corpus("import", ".log");
        texts.extend(corpus("import", ".capture"));
        texts.extend(corpus("import", ".replay"));
        texts.extend([STRACE.into(), blktrace()]);
        for text in texts {
            give(&[&[9], &text[..text.len().min(4096)]].concat());
        }
        give(&[&[4][..], &blktrace()].concat());
        give(&[&[0][..], STRACE.as_bytes()].concat());
    });
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some((first, data)) = data.split_first() else { return };
    let format = FORMATS.get(usize::from(*first)).copied();
    let input = BufReader::with_capacity(READ_BYTES, data);
    let Ok((log, ..)) = import(input, format, "file", Vec::new()) else { return };
    frames::run(&log, |header| Outputs::new(header, false));
});
