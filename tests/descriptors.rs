//! What descriptors mean, against what the program itself says of them.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use support::json::JsonOperation;
use support::process;
use support::recording::{
    Recording, TIMEOUT, can_record, compile, record, recorder, size, wait_until,
};
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

/// Assembles the 32-bit program; `None` if this machine has no such programs, or no assembler for them.
fn other_table(dir: &Path) -> Option<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/other_table.s");
    let [object, program] = ["other_table.o", "other_table"].map(|it| dir.join(it));
    let runs = |command: &mut Command| command.status().is_ok_and(|it| it.success());
    let is_made = cfg!(target_arch = "x86_64")
        && runs(Command::new("as").arg("--32").arg(&source).arg("-o").arg(&object))
        && runs(Command::new("ld").args(["-m", "elf_i386"]).arg(&object).arg("-o").arg(&program));
    let input = fs::File::open("/dev/zero").expect("it is there");
    let is_run = is_made
        && Command::new("sh")
            .args(["-c", &format!("{} 7<&0 >/dev/null", program.display())])
            .stdin(input)
            .status()
            .is_ok_and(|it| it.success());
    is_run.then(|| program.to_str().expect("text").to_owned())
}

/// Fails if calls of a 32-bit program are taken for those of the same number, if it is not told that there was one, or if
/// a position that it has moved is believed.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn calls_of_a_32_bit_program_are_left_out_and_told() {
    if !can_record(&[]) {
        return;
    }
    let dir = scratch_dir("table");
    let Some(program) = other_table(dir.path()) else {
        eprintln!("skipped: no 32-bit programs here");
        return;
    };
    let file = dir.path().join("file");
    fs::write(&file, [b'x'; 100]).expect("written");
    // The shell reads its line, the program ten bytes, `head` the rest of the shared position.
    let script = format!("exec 7<{0}; {program} <&7; head -c 5 <&7; {program} <&7", file.display());
    for source in ["perf", "tracefs"] {
        let output = dir.path().join(source);
        let options = ["--source", source];
        let (finished, recording) = record(&output, &options, &["sh", "-c", &script]);
        finished.success();
        recording.assert_whole();
        assert_eq!(recording.number("other_programs"), 2, "{:#}", recording.info);
        let operations = recording.operations();
        let of =
            |comm: &str| operations.iter().filter(|it| it.comm.as_deref() == Some(comm)).count();
        assert_eq!(of("other_table"), 0);
        let left_out = recording.info["ignored"]["other-table"].as_u64().unwrap_or(0);
        assert_eq!(left_out > 0, source == "perf", "{left_out} records of {source}");
        let moved: Vec<_> =
            operations.iter().filter(|it| it.name == "read" && it.result == Some(5)).collect();
        assert!(!moved.is_empty() && moved.iter().all(|it| it.offset.is_none()), "{moved:?}");
    }
}

/// Fails if a 32-bit program that runs already is not recognised.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn a_32_bit_program_that_runs_already_is_told() {
    if !can_record(&[]) {
        return;
    }
    let dir = scratch_dir("table");
    let Some(program) = other_table(dir.path()) else {
        eprintln!("skipped: no 32-bit programs here");
        return;
    };
    // It waits for its first byte.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let script = format!("exec {program} 7<&0");
    let mut child =
        Command::new("sh").args(["-c", &script]).stdin(reader).spawn().expect("it starts");
    let pid = child.id().to_string();
    let is_it =
        || fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it == "other_table\n");
    wait_until("it runs", is_it);
    let recorder = recorder(&dir.path().join("trace"), &["--source", "perf", "-p", &pid], &[]);
    let recorder = std::thread::spawn(move || {
        let mut recorder = recorder;
        process::run(&mut recorder, TIMEOUT).expect("it ends").success()
    });
    wait_until("the log begins", || size(&dir.path().join("trace/traces.iocap")) > 0);
    std::thread::sleep(std::time::Duration::from_millis(300));
    std::io::Write::write_all(&mut &writer, &[0; 10]).expect("it takes them");
    drop(writer);
    recorder.join().expect("it ends");
    child.wait().expect("it ends");
    let recording = Recording::open(&dir.path().join("trace/traces.iocap"));
    recording.assert_whole();
    assert_eq!(recording.number("other_programs"), 1);
    assert_eq!(recording.operations().len(), 0);
    assert!(recording.info["ignored"]["other-table"].as_u64() > Some(5), "{:#}", recording.info);
}

/// Fails if a descriptor that came over a socket is called by a wrong name, is not found again where what was received is
/// recorded, or if a position is believed that the receiver has moved.
#[test]
fn descriptors_that_come_over_a_socket_are_found_again_or_unknown() {
    if !can_record(&[]) {
        return;
    }
    for (options, known) in [(["-e", "%default"], 2), (["-e", "%default,%socket"], 5)] {
        let dir = scratch_dir("passes");
        let (recording, log) = recorded("passes.c", dir.path(), &options);
        recording.assert_archive(&dir.path().join("archive"));
        let operations = recording.operations();
        let mut right = 0;
        for line in log.lines() {
            let (offset, name) = line.split_once(' ').expect("OFFSET NAME");
            let is_it =
                |it: &&JsonOperation| it.name == "pread64" && it.offset == offset.parse().ok();
            let read = operations.iter().find(is_it).expect("it was recorded");
            assert!(read.path.as_deref().is_none_or(|it| it == name), "{name}: {read:?}");
            right += usize::from(read.path.is_some());
        }
        assert_eq!(right, known, "names with {options:?}");
        let moved = |it: &&JsonOperation| {
            it.name == "read" && it.path.as_deref().is_some_and(|it| it.ends_with("/c"))
        };
        let moved = operations.iter().find(moved).expect("the parent's read");
        assert!(known == 2 || moved.offset.is_none(), "{moved:?}");
    }
}
