//! A replay on the captured files themselves: only when it is told so in words, and only if they are as they were.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use support::process::Finished;
use support::recording::iotrace;
use support::{scratch_dir, text};

const OPTION: &str = "--in-place-overwriting-originals";

/// A plan of a program that reads 4,099 bytes of a file, writes 23 behind 8,209, and gives it another name.
fn plan(dir: &Path) -> (PathBuf, PathBuf) {
    let (file, renamed) = (dir.join("x"), dir.join("y"));
    let name = text(&file);
    let lines = [
        format!(r#"7 1700000000.001 openat(AT_FDCWD, "{name}", O_RDWR) = 3<{name}> <0.000010>"#),
        format!(r#"7 1700000000.002 pread64(3<{name}>, ""..., 4099, 0) = 4099 <0.000010>"#),
        format!(r#"7 1700000000.003 pwrite64(3<{name}>, ""..., 23, 8209) = 23 <0.000010>"#),
        format!(r#"7 1700000000.004 rename("{name}", "{}") = 0 <0.000010>"#, text(&renamed)),
    ];
    let [strace, log, plan] =
        ["strace", "iocap", "ioplan"].map(|it| dir.join("it").with_extension(it));
    fs::write(&strace, lines.join("\n") + "\n").expect("space");
    iotrace(&["import", text(&strace), "-o", text(&log)]).success();
    iotrace(&["replay", "plan", text(&log), "-o", text(&plan)]).success();
    (plan, file)
}

fn run(plan: &Path) -> Finished {
    iotrace(&["replay", "run", text(plan), OPTION, "--speed", "max", "--json"])
}

#[test]
fn it_is_done_to_the_files_themselves() {
    let dir = scratch_dir("replay_in_place");
    let (plan, file) = plan(dir.path());
    fs::write(&file, [b'a'; 8209]).expect("space");
    let finished = run(&plan);
    let report: serde_json::Value = serde_json::from_str(&finished.stdout()).expect("JSON");
    finished.success();
    assert_eq!(
        (&report["operations"], &report["mismatches"]),
        (&4.into(), &0.into()),
        "{report:#}"
    );
    assert!(!file.exists());
    let there = fs::read(dir.path().join("y")).expect("it has this name now");
    assert!(there.len() == 8209 + 23 && there[..8209].iter().all(|it| *it == b'a'));
}

/// Fails if files that are not those of the capture are written to.
#[test]
fn what_is_not_as_it_was_is_left_alone() {
    let dir = scratch_dir("replay_in_place");
    let (plan, file) = plan(dir.path());
    let check = |why: &str| {
        let finished = run(&plan);
        assert_eq!(finished.status.code(), Some(125), "{}", finished.stdout());
        for words in [why, text(&file), "nothing was done"] {
            assert!(finished.stderr().contains(words), "{}", finished.stderr());
        }
    };
    check("is not there");
    fs::write(&file, [b'a'; 4098]).expect("space");
    check("is shorter than it was");
    assert_eq!(fs::read(&file).expect("there"), [b'a'; 4098]);
    fs::remove_file(&file).expect("there");
    fs::create_dir(&file).expect("space");
    check("is no regular file");
    assert!(!dir.path().join("y").exists());
}
