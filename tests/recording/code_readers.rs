//! Programs that read the instructions of others, as valgrind does: a probe in a library would be
//! an instruction to them, and kill what they run.

use std::fs;
use std::process::Command;

use crate::support::driver::recording::{can_record, record};
use crate::support::machine::turns::alone;
use crate::support::{scratch_dir, text};

/// Fails if probes are in libraries while such a program runs, or if the command names one.
#[test]
fn probes_are_left_out_beside_valgrind() {
    if !can_record(&[]) {
        return;
    }
    let _turn = alone();
    let dir = scratch_dir("code-readers");
    let tool = dir.path().join("box64");
    fs::copy("/bin/sleep", &tool).expect("a copy");
    let reason = |name: &str, command: &[&str]| {
        let (_, recording) = record(&dir.path().join(name), &[], command);
        recording.assert_whole();
        let names = recording.info["names"].as_str().expect("a source").to_owned();
        assert!(!names.contains("uprobe"), "{names}");
        recording.info["names_reason"].as_str().expect("a reason").to_owned()
    };
    let named = reason("named", &[text(&tool), "0.1"]);
    assert!(named.contains("box64 reads the instructions"), "{named}");
    let mut running = Command::new(&tool).arg("60").spawn().expect("it starts");
    let beside = reason("beside", &["true"]);
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    assert!(beside.contains("box64 (process "), "{beside}");
}
