//! Pages of logs with many files of long names: they are small, and so is the memory for them.

use nix::sys::resource::{UsageWho, getrusage};

use super::{PAGE_BYTES_MAX, data, log_of_files, page};
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
    let name = |number| {
        let step = format!("d{number:06}_{}", "x".repeat(211));
        [step.as_str(); 18].join("/")
    };
    let log = log_of_files(directory.path(), (0..FILES).map(name));
    let (_, page) = page(&log, directory.path(), &[]);
    assert!(page.len() <= PAGE_BYTES_MAX, "{} bytes", page.len());
    let (files, rows) = data(&page, "files");
    let shown = files["files"].as_array().expect("files").len();
    assert!(rows != "0" && shown >= 50, "{shown} of {rows}");
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).expect("it is always there").max_rss();
    assert!(peak < PEAK_KIB, "{peak} KiB");
}
