//! Pages of logs with many files of long names: they are small, and so is the memory for them.

use std::fmt::Write as _;
use std::fs;

use nix::sys::resource::{UsageWho, getrusage};

use super::{PAGE_BYTES_MAX, data, page, printed};
use crate::support::driver::process::is_own_process;

const FILES: u32 = 4003;
/// Limit of the memory, KiB: the names take 16 MiB, and each of the folds has them.
const PEAK_KIB: i64 = 290 << 10;

#[test]
fn memory_is_bounded_by_the_size_of_the_page() {
    if !is_own_process("page::many_files::memory_is_bounded_by_the_size_of_the_page") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut lines = String::new();
    for number in 0..FILES {
        let step = format!("d{number:06}_{}", "x".repeat(211));
        let path = [step.as_str(); 18].join("/");
        let time = 1_700_000_000 + number;
        let _ = write!(
            lines,
            "7 {time}.000100 openat(AT_FDCWD, \"/srv/{path}\", O_RDONLY) = 3 <0.000010>\n\
             7 {time}.000200 read(3, \"abcd\", 4) = 4 <0.000020>\n\
             7 {time}.000300 close(3) = 0 <0.000005>\n"
        );
    }
    let (text, log) = (directory.path().join("a.txt"), directory.path().join("a.iocap"));
    fs::write(&text, lines).expect("written");
    let output = log.to_str().expect("UTF-8");
    printed(&["import", "--from", "strace", "-o", output], &text);
    let (_, page) = page(&log, directory.path(), &[]);
    assert!(page.len() <= PAGE_BYTES_MAX, "{} bytes", page.len());
    let (files, rows) = data(&page, "files");
    let shown = files["files"].as_array().expect("files").len();
    assert!(rows != "0" && shown >= 50, "{shown} of {rows}");
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).expect("it is always there").max_rss();
    assert!(peak < PEAK_KIB, "{peak} KiB");
}
