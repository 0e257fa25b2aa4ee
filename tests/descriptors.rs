//! What descriptors mean, against what the program itself says of them.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use support::json::JsonOperation;
use support::recording::{Recording, can_record, compile, record};
use support::scratch_dir;

/// Records this program of `tests/programs`, which works in a directory of its own and writes what it knows to a file.
fn recorded(program: &str, dir: &Path, options: &[&str]) -> (Recording, String) {
    let program = compile(program, dir);
    let (place, log) = (dir.join("place"), dir.join("log"));
    fs::create_dir(&place).expect("make it");
    let [place, log_text] = [&place, &log].map(|it| it.to_str().expect("text"));
    let (finished, recording) =
        record(&dir.join("trace"), options, &[program.as_str(), place, log_text]);
    finished.success();
    recording.assert_whole();
    (recording, fs::read_to_string(log).expect("the program wrote a log"))
}

/// Steps from this offset on go through symbolic links.
const DOUBTFUL: u64 = 1000;

/// Fails if a file has another name, after a rename or removal, than the kernel gave it at that moment; or is called
/// doubtful where it is not.
#[test]
fn open_files_are_called_what_the_kernel_calls_them() {
    if !can_record(&[]) {
        return;
    }
    let dir = scratch_dir("renames");
    let (recording, log) = recorded("renames.c", dir.path(), &["--source", "tracefs"]);
    recording.assert_archive(&dir.path().join("archive"));
    assert_eq!(recording.number("unfollowed"), 0);
    let operations = recording.operations();
    let reads: BTreeMap<u64, &JsonOperation> = operations
        .iter()
        .filter(|it| it.name == "pread64" && it.comm.as_deref() == Some("renames"))
        .filter_map(|it| Some((it.offset?, it)))
        .collect();
    let (mut renamed, mut doubtful) = (0, 0);
    for line in log.lines() {
        let (offset, name) = line.split_once(' ').expect("OFFSET NAME");
        let offset: u64 = offset.parse().expect("a number");
        let read = reads.get(&offset).unwrap_or_else(|| panic!("no read at {offset}"));
        let source = read.path_source.as_deref().unwrap_or_default();
        if source == "unverified" {
            assert!(offset > DOUBTFUL, "{name}: {read:?}");
            doubtful += 1;
        } else {
            assert_eq!(read.path.as_deref(), Some(name), "at {offset}: {read:?}");
        }
        renamed += usize::from(source == "renamed");
    }
    assert!(renamed > 40, "{renamed} names were followed");
    assert!(doubtful > 0, "nothing went through a link");
}
