//! Logs of other tools, in each of their formats; the result is read as a log of ours.
#![no_main]

use std::io::{BufReader, Cursor};

use iotrace_perf::import::{CsvColumns, ImportFormat, ImportRequest, import, import_perf_data};
use iotrace_perf_fuzz::output::Outputs;
use iotrace_perf_fuzz::{corpus, frames};
use libfuzzer_sys::fuzz_target;

/// Formats by the first byte; larger values detect the format.
const FORMATS: [ImportFormat; 12] = [
    ImportFormat::Strace,
    ImportFormat::Ioriot,
    ImportFormat::IoriotReplay,
    ImportFormat::FioIolog,
    ImportFormat::Blktrace,
    ImportFormat::Blkparse,
    ImportFormat::PerfScript,
    ImportFormat::PerfData,
    ImportFormat::MsrCsv,
    ImportFormat::SpcCsv,
    ImportFormat::Csv,
    ImportFormat::DarshanDxt,
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

const BLKPARSE: &str = "  8,0 1 2 0.000000310 4162 Q R 2048 + 8 [cat]
  8,0 1 1 0.000000400 4162 A R 2048 + 8 <- (8,1) 0
  8,0 1 3 0.000003407 4162 D R 2048 + 8 [cat]
  8,0 0 1 0.000180211 0 C R 2048 + 8 [0]
";

const PERF_SCRIPT: &str = "cat 7/8 [001] 1.5: syscalls:sys_enter_read: fd: 0x3, buf: 0x7f, count: 0x1000
cat 7/8 [001] 1.6: raw_syscalls:sys_exit: NR 0 = -4
<idle>-0 [000] d.h1. 1.7: block_rq_complete: 8,0 WS () 2048 + 8 [-5]
";

const DXT: &str = "# DXT, file_id: 7, file_name: /d/x
 X_POSIX 0 write 0 0 23 0.0029 0.0032
 X_POSIX 0 read 1 23 23 0.0030 0.0031 [OST: 14]
";

fn seeds() {
    iotrace_perf_fuzz::seeds(|give| {
        let mut texts = corpus("import", ".log");
        texts.extend(corpus("import", ".capture"));
        texts.extend(corpus("import", ".replay"));
        texts.extend([STRACE.into(), blktrace()]);
        for text in texts {
            give(&[&[19], &text[..text.len().min(4096)]].concat());
        }
        give(&[&[4][..], &blktrace()].concat());
        give(&[&[5][..], BLKPARSE.as_bytes()].concat());
        give(&[&[6][..], PERF_SCRIPT.as_bytes()].concat());
        give(&[&[7][..], b"PERFILE2"].concat());
        give(&[&[8][..], b"128166372003061629,hm,1,Read,383496192,32768,413\n"].concat());
        give(&[&[9][..], b"0,20941264,8192,W,0.551706\n"].concat());
        give(&[&[11][..], DXT.as_bytes()].concat());
        give(&[&[0][..], STRACE.as_bytes()].concat());
    });
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some((first, data)) = data.split_first() else { return };
    let format = FORMATS.get(usize::from(*first)).copied();
    let columns: Option<CsvColumns> = "time=us,op,offset=bytes,size=KiB,device".parse().ok();
    let request = ImportRequest { format, file: "file".into(), columns };
    let imported = if format == Some(ImportFormat::PerfData) {
        import_perf_data(Cursor::new(data), &request, Vec::new())
    } else {
        let input = BufReader::with_capacity(READ_BYTES, data);
        import(vec![input], &request, Vec::new())
    };
    let Ok((log, ..)) = imported else { return };
    frames::run(&log, |header| Outputs::new(header, false));
});
