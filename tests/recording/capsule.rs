//! `convert --capsule` of a recording of the whole machine with stacks: none of the secrets of a
//! program is in it.

use std::fs;
use std::path::Path;
use std::process::Command;

use iotrace_perf::capture::reader::{Item, Reader};

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record, compile, iotrace};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::{scratch_dir, text};

/// Secrets of the program that its recording has: directories, files, the thread, the command, a
/// function, a buffer on the stack.
const RECORDED: [&str; 12] = [
    "manatee",
    "axolotl",
    "numbat",
    "quokka",
    "echidna",
    "bandicoot",
    "wombat",
    "jerboa",
    "kinkajou",
    "aardwolf",
    "okapi",
    "pangolin",
];

/// Further secrets, which may be recorded: of links, memory, sockets, attributes, the environment.
const OTHERS: [&str; 9] = [
    "tapir",
    "serval",
    "fossa",
    "caracal",
    "gerenuk",
    "binturong",
    "dugong",
    "zorilla",
    "capybara",
];

/// All bytes of a log, as text: those of the file, and of each frame after decompression.
fn bytes_of(log: &Path) -> String {
    let file = fs::read(log).expect("a log");
    let mut reader = Reader::new(&file[..]).expect("a log");
    let mut all = file.clone();
    while let Some(item) = reader.next_item().expect("memory") {
        match item {
            Item::Frame(_, payload) => all.extend(payload),
            other => panic!("{other:?}"),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn no_secret_of_a_program_is_in_the_capsule_of_the_machine() {
    // Beside processes with other mounts, names are read from memory, and a few are missed.
    if !can_record(&[Need::Program("cc"), Need::FirstMounts]) {
        return;
    }
    let _turn = alone();
    let dir = scratch_dir("capsule-secrets");
    let place = dir.path().join("manatee");
    fs::create_dir(&place).expect("a directory");
    let program = compile("secrets.c", dir.path());
    let log = dir.path().join("a.iocap");
    let mut record = Command::new(BINARY);
    record.args(["record", "-a", "-e", "%default,%stat,%attr,%map", "--stacks", "calls"]);
    record.args(["--call-graph", "dwarf", "-o"]).arg(&log).arg("--").arg(&program);
    record.arg(&place).arg("--password=aardwolf").env("TOKEN", "capybara-capybara");
    process::run(&mut record, TIMEOUT).expect("it ends").success();
    let original = bytes_of(&log);
    let absent: Vec<&str> = RECORDED.into_iter().filter(|word| !original.contains(*word)).collect();
    assert_eq!(absent, [""; 0], "in the original");
    let capsule = dir.path().join("b.iocap");
    iotrace(&["convert", "--capsule", "-o", text(&capsule), text(&log)]).success();
    let anonymous = bytes_of(&capsule);
    let all = RECORDED.into_iter().chain(OTHERS);
    let found: Vec<&str> = all.filter(|word| anonymous.contains(*word)).collect();
    assert_eq!(found, [""; 0], "in the capsule");
}
