//! Bytes and positions of single calls: what pipes and sockets move, and registers as the kernel
//! sees them.

use crate::support::driver::json::JsonOperation;
use crate::support::driver::recording::{Source, can_record, compile};
use crate::support::machine::turns::alone;
use crate::support::scratch_dir;

for_each_source! {
    registers_and_bytes_are_the_kernels,
}

/// Fails if a call that is given no position has one, if a length is taken from more than its
/// `int`, or if what pipes and sockets move counts as nothing.
fn registers_and_bytes_are_the_kernels(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("accounts");
    let program = compile("registers.c", dir.path());
    let script = format!("cd {} && exec {program}", dir.path().display());
    let options = ["-e", "%default,%socket,%stat,%attr"];
    let (finished, recording) =
        source.record(&dir.path().join("trace"), &options, &["sh", "-c", &script]);
    finished.success();
    recording.assert_whole();
    let operations = recording.operations();
    let last = |name: &str| -> &JsonOperation {
        operations.iter().rfind(|it| it.name == name).unwrap_or_else(|| panic!("no {name}"))
    };
    for name in ["preadv", "pwritev", "pread64", "fadvise64"] {
        assert_eq!(last(name).offset, None, "{name}");
    }
    assert_eq!(last("preadv2").offset, Some(4));
    let requested = |name: &str| last(name).bytes_requested;
    assert_eq!(requested("getdents64"), Some(2048));
    assert_eq!(requested("readlink"), Some(64));

    let moved = |name: &str| recording.info["calls"][name]["bytes"].as_u64();
    let expected: [(&str, u64); 7] = [
        ("vmsplice", 4096),
        ("sendto", 100),
        ("recvfrom", 100),
        ("sendmsg", 30),
        ("recvmsg", 30),
        // Messages are no bytes, and their numbers of bytes are in memory.
        ("sendmmsg", 0),
        ("recvmmsg", 0),
    ];
    for (name, bytes) in expected {
        assert_eq!(moved(name), Some(bytes), "{name}");
    }
    let summary = recording.report("summary");
    let rows = summary["calls"].as_array().expect("a list");
    for (name, bytes) in expected {
        let is_it = |it: &&serde_json::Value| {
            it.as_object().is_some_and(|it| it.values().any(|it| it == name))
        };
        let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("{name}: {summary:#}"));
        let is_read = name.starts_with("recv");
        let expected = if is_read { [bytes, 0] } else { [0, bytes] };
        for (key, bytes) in ["read_bytes", "written_bytes"].into_iter().zip(expected) {
            assert_eq!(row[key], bytes, "{name}: {row:#}");
        }
    }
}
