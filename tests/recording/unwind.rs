//! `--call-graph dwarf`: functions of programs that keep no frame pointers, against those that the
//! program has.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, Recording, TIMEOUT, can_record, compile, record};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::beside_others;
use crate::support::scratch_dir;

/// Functions of the program `frameless`.
const FUNCTIONS: [&str; 13] = [
    "main",
    "plain",
    "varies",
    "aligned",
    "sorts",
    "compare",
    "signals",
    "handler",
    "starts",
    "elsewhere",
    "untold",
    "put_31",
    "put",
];

fn recorded(dir: &Path, how: &str) -> Recording {
    let program = compile("frameless.c", dir);
    let out = dir.join("out");
    let options = ["-e", "write", "--stacks", "calls", "--call-graph", how];
    let (finished, recording) = record(dir, &options, &[&program, out.to_str().expect("text")]);
    finished.success();
    recording.assert_whole();
    assert_eq!(recording.calls("write"), 7 + 11 + 13 + 17 + 19 + 23 + 29 + 31);
    recording
}

/// The program's own functions of each stack, the outermost first, and how many writes came through
/// them.
fn ways(dir: &Path) -> BTreeMap<String, u64> {
    let mut command = Command::new(BINARY);
    command.args(["stacks", "-U", "--calls", "--by", "count", "-f"]).arg(dir.join("traces.iocap"));
    let finished = process::run(&mut command, TIMEOUT).expect("it ends").success();
    let mut ways = BTreeMap::new();
    for line in finished.stdout().lines() {
        let (stack, count) = line.rsplit_once(' ').expect("a weight");
        let own: Vec<&str> = stack.split(';').filter(|it| FUNCTIONS.contains(it)).collect();
        *ways.entry(own.join(" ")).or_default() += count.parse::<u64>().expect("a number");
    }
    ways
}

fn doubts(recording: &Recording) -> BTreeMap<String, u64> {
    let doubts = recording.info["user_stacks"].as_object().expect("a map");
    doubts.iter().map(|(key, it)| (key.clone(), it.as_u64().expect("a number"))).collect()
}

/// Fails if a function of a stack is missing or made up, however its frame is described; or if what
/// is unknown is not reported.
#[test]
fn functions_without_frame_pointers_are_found() {
    if !can_record(&[Need::Program("cc")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("unwind");
    let recording = recorded(dir.path(), "dwarf");
    let expected = [
        ("main plain put", 7),
        ("main varies put", 11),
        ("main aligned put", 13),
        ("main sorts compare put", 17),
        ("main signals handler put", 19),
        ("starts put", 23),
        // The stack of the interrupted code is another one, which was not copied.
        ("handler put", 29),
        ("main untold put_31 put", 31),
    ];
    let expected = expected.map(|(way, count)| (way.to_owned(), count));
    assert_eq!(ways(dir.path()), expected.into());
    let doubts = doubts(&recording);
    let reported = [("broken", 0), ("copied", 150), ("guessed", 31), ("not_unwound", 0)];
    let reported = reported.into_iter().chain([("too_short", 0), ("unreadable", 29)]);
    assert_eq!(doubts, reported.map(|(key, it)| (key.to_owned(), it)).collect());
}

/// Fails if stacks that were not copied whole are taken for whole.
#[test]
fn uncopied_stack_is_reported() {
    if !can_record(&[Need::Program("cc")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("unwind");
    // `plain` alone takes more.
    let recording = recorded(dir.path(), "dwarf,256");
    assert_eq!(ways(dir.path()).get("plain put"), Some(&7), "{:#?}", ways(dir.path()));
    let short = doubts(&recording)["too_short"];
    let reported = format!("{short} longer than that");
    let notes = recording.report("stacks")["notes"].to_string();
    for text in [recording.text_info(), notes] {
        assert!(text.contains(&reported) && text.contains("--call-graph dwarf,512"), "{text}");
    }
    assert_eq!(recording.info["stacks"]["stack_bytes"], Value::from(256));
}

/// Fails if a wrong value of `--call-graph`, or a verb without stacks, is accepted.
#[test]
fn wrong_options_are_refused() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    for (options, said) in [
        (["--stacks", "user", "--call-graph", "lbr"].as_slice(), "the method is fp or dwarf"),
        (&["--stacks", "user", "--call-graph", "dwarf,0"], "8 to 65000 bytes"),
        (&["--stacks", "user", "--call-graph", "dwarf,65001"], "8 to 65000 bytes"),
        (&["--stacks", "kernel", "--call-graph", "dwarf"], "call chains of programs"),
    ] {
        let dir = scratch_dir("unwind");
        let mut command = Command::new(BINARY);
        command.args(["--no-archive", "-o"]).arg(dir.path().join("trace/")).args(options);
        let finished = process::run(command.args(["--", "true"]), TIMEOUT).expect("it ends");
        assert_ne!(finished.status.code(), Some(0), "{options:?}");
        assert!(finished.stderr().contains(said), "{}", finished.stderr());
    }
    for verb in ["live", "watch"] {
        let mut command = Command::new(BINARY);
        let finished =
            process::run(command.args([verb, "--stacks", "user", "--", "true"]), TIMEOUT);
        let finished = finished.expect("it ends");
        assert!(finished.stderr().contains("no stacks are shown here"), "{}", finished.stderr());
    }
}

/// Fails if the stack of another program is in the log of a program.
#[test]
fn stacks_of_other_programs_are_not_kept() {
    if !can_record(&[Need::Loop, Need::Program("cc")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("unwind");
    let disk = Mounted::new(dir.path(), "ext4", 64 << 20);
    // Direct writes beside the program, and some of its own.
    let write = |to: &str, count: u32| {
        let to = disk.path().join(to).display().to_string();
        format!(
            "dd if=/dev/zero of={to} bs=4096 count={count} oflag=direct conv=notrunc status=none"
        )
    };
    let mut other = Command::new("sh");
    let mut other = other
        .args(["-c", &format!("while :; do {}; done", write("other", 100))])
        .spawn()
        .expect("it starts");
    let options = [
        "-e",
        "block",
        "--all-block",
        "-d",
        disk.device().name(),
        "--stacks",
        "user",
        "--call-graph",
        "dwarf",
    ];
    let (finished, recording) = record(
        dir.path(),
        &options,
        &["sh", "-c", &format!("sleep 1; {}; sleep 1", write("own", 101))],
    );
    other.kill().expect("it runs");
    other.wait().expect("it is ours");
    finished.success();
    recording.assert_books_balance();
    let requests = recording.requests().len() as u64;
    let copied = doubts(&recording)["copied"];
    assert!((101..200).contains(&copied) && requests > 2 * copied, "{copied} of {requests}");
}
