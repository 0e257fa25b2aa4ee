//! A replay on the captured files themselves: only when an option asks for it, and only if they are
//! as they were.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::driver::process::Finished;
use crate::support::driver::recording::{BINARY, TIMEOUT, iotrace, plan_of_strace};
use crate::support::machine::requirements::{Need, require};
use crate::support::machine::turns::beside_others;
use crate::support::{scratch_dir, text};
use serde_json::Value;

const OPTION: &str = "--in-place-overwriting-originals";

/// A plan of these calls, with `DIR` for the directory.
fn plan_of(dir: &Path, calls: &[&str]) -> PathBuf {
    let line = |(ms, call): (usize, &&str)| {
        format!("7 1700000000.{ms:03} {} <0.000010>\n", call.replace("DIR", text(dir)))
    };
    let lines: String = calls.iter().enumerate().map(line).collect();
    plan_of_strace(&lines, dir, "it")
}

/// A plan of a program that reads 4,099 bytes of a file, writes 23 after 8,209, and gives it
/// another name.
fn plan(dir: &Path) -> (PathBuf, PathBuf) {
    let calls = [
        r#"openat(AT_FDCWD, "DIR/x", O_RDWR) = 3<DIR/x>"#,
        r#"pread64(3<DIR/x>, ""..., 4099, 0) = 4099"#,
        r#"pwrite64(3<DIR/x>, ""..., 23, 8209) = 23"#,
        r#"rename("DIR/x", "DIR/y") = 0"#,
    ];
    (plan_of(dir, &calls), dir.join("x"))
}

fn run(plan: &Path) -> Finished {
    iotrace(&["replay", "run", text(plan), OPTION, "--speed", "max", "--json"])
}

/// Returns its report.
#[track_caller]
fn report(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout()).unwrap_or_else(|_| panic!("{}", finished.stderr()))
}

/// Checks that nothing was done, and that the message has these words.
#[track_caller]
fn assert_refused(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.status.code(), Some(125), "{}", finished.stdout());
    for words in words.iter().chain(&["nothing was done"]) {
        assert!(finished.stderr().contains(words), "{}", finished.stderr());
    }
}

#[test]
fn in_place_replay_changes_the_captured_files() {
    let _turn = beside_others();
    let dir = scratch_dir("replay_in_place");
    let (plan, file) = plan(dir.path());
    fs::write(&file, [b'a'; 8209]).expect("space");
    let finished = run(&plan);
    let report = report(&finished);
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
fn changed_files_are_refused() {
    let _turn = beside_others();
    let dir = scratch_dir("replay_in_place");
    let (plan, file) = plan(dir.path());
    let check = |why: &str| assert_refused(&run(&plan), &[why, text(&file)]);
    check("is not there");
    fs::write(&file, [b'a'; 4098]).expect("space");
    check("is shorter than it was");
    assert_eq!(fs::read(&file).expect("there"), [b'a'; 4098]);
    fs::remove_file(&file).expect("there");
    fs::create_dir(&file).expect("space");
    check("is not a regular file");
    assert!(!dir.path().join("y").exists());
}

/// Directories `v1` and `v2` with a file each.
fn two_versions(dir: &Path) -> [PathBuf; 2] {
    ["v1", "v2"].map(|name| {
        fs::create_dir(dir.join(name)).expect("space");
        let file = dir.join(name).join("f");
        fs::write(&file, [b'a'; 4099]).expect("space");
        file
    })
}

/// Fails if a link that leads elsewhere than in the capture has other files changed, or if one is
/// refused that only has other words.
#[test]
fn links_lead_to_their_captured_targets() {
    let _turn = beside_others();
    let dir = scratch_dir("replay_in_place");
    let calls = [
        r#"openat(AT_FDCWD, "DIR/cur/f", O_RDONLY) = 3<DIR/v1/f>"#,
        r#"pread64(3<DIR/v1/f>, ""..., 4099, 0) = 4099"#,
        r#"close(3<DIR/v1/f>) = 0"#,
        r#"truncate("DIR/cur/f", 101) = 0"#,
        r#"unlink("DIR/cur/f") = 0"#,
    ];
    let plan = plan_of(dir.path(), &calls);
    let [one, other] = two_versions(dir.path());
    let cur = dir.path().join("cur");
    symlink("v2", &cur).expect("space");
    assert_refused(&run(&plan), &["leads elsewhere than it did", text(&cur)]);
    assert_eq!(fs::read(&other).expect("there"), [b'a'; 4099]);
    fs::remove_file(&cur).expect("a link");
    symlink("./v2/../v1", &cur).expect("space");
    run(&plan).success();
    assert!(!one.exists() && other.exists());
}

/// Fails if something is changed through a link that may not have been there: neither its name nor
/// what it led to is known.
#[test]
fn files_reached_through_new_links_are_unchanged() {
    let _turn = beside_others();
    let dir = scratch_dir("replay_in_place");
    let cur = dir.path().join("cur");
    let [_, other] = two_versions(dir.path());
    let check = |calls: &[&str], link: &str, words: &[&str]| {
        let plan = plan_of(dir.path(), calls);
        for it in ["it.strace", "it.iocap"] {
            fs::remove_file(dir.path().join(it)).expect("ours");
        }
        symlink(link, &cur).expect("space");
        let finished = run(&plan);
        match words {
            [] => drop(finished.success()),
            _ => assert_refused(&finished, words),
        }
        fs::remove_file(&plan).expect("ours");
        fs::remove_file(&cur).expect("a link");
        assert_eq!(fs::read(&other).expect("there"), [b'a'; 4099]);
    };
    let words = ["that is not in the capture", text(&cur)];
    check(&[r#"truncate("DIR/cur/f", 101) = 0"#], "v2", &words);
    check(&[r#"truncate("DIR/cur", 101) = 0"#], "v2/f", &words);
    let write = r#"pwrite64(3<DIR/cur/f>, ""..., 23, 0) = 23"#;
    check(&[r#"openat(AT_FDCWD, "DIR/cur/f", O_WRONLY) = 3<DIR/cur/f>"#, write], "v2", &words);
    check(&[write], "v2", &["is reached through, a symbolic link"]);
    // Files that are only read may differ.
    check(&[r#"access("DIR/cur/f", R_OK) = 0"#], "v2", &[]);
}

/// Fails if a replay begins where something is that the capture has made: right after it, for
/// example.
#[test]
fn initially_absent_paths_must_be_absent() {
    let _turn = beside_others();
    let dir = scratch_dir("replay_in_place");
    let calls = [r#"symlink("v1", "DIR/cur") = 0"#, r#"truncate("DIR/cur/f", 101) = 0"#];
    let plan = plan_of(dir.path(), &calls);
    let [one, other] = two_versions(dir.path());
    let cur = dir.path().join("cur");
    symlink("v2", &cur).expect("space");
    let why = format!(
        "1 names are not as they were before the capture ({} is there, and was not)",
        text(&cur)
    );
    assert_refused(&run(&plan), &[&why]);
    assert!([&one, &other].iter().all(|it| fs::read(it).expect("there") == [b'a'; 4099]));
    fs::remove_file(&cur).expect("a link");
    run(&plan).success();
    assert_eq!([&one, &other].map(|it| it.metadata().expect("there").len()), [101, 4099]);
}

/// Fails if something is done after an operation on names that has another result: here a rename
/// over a file that was never looked at.
#[test]
fn in_place_replay_ends_at_a_different_name() {
    let _turn = beside_others();
    let dir = scratch_dir("replay_in_place");
    let calls = [r#"rename("DIR/x", "DIR/y") = 0"#, r#"truncate("DIR/z", 101) = 0"#];
    let plan = plan_of(dir.path(), &calls);
    let [x, y, z] = ["x", "y", "z"].map(|it| dir.path().join(it));
    fs::write(&x, "x").expect("space");
    fs::write(&z, [b'z'; 4099]).expect("space");
    fs::create_dir(&y).expect("space");
    for order in ["deps", "total", "none"] {
        let mut arguments = vec!["replay", "run", text(&plan), OPTION, "--speed", "max", "--json"];
        arguments.extend(["--max-mismatch", "1", "--order", order]);
        let finished = iotrace(&arguments);
        let report = report(&finished);
        assert_eq!(finished.status.code(), Some(1), "{report:#}");
        assert_eq!((&report["mismatches"], &report["is_whole"]), (&1.into(), &false.into()));
        assert!(report["notes"].to_string().contains("ended after its current call"), "{report:#}");
        assert_eq!(fs::read(&z).expect("there"), [b'z'; 4099]);
    }
    fs::remove_dir(&y).expect("empty");
    run(&plan).success();
    assert_eq!(z.metadata().expect("there").len(), 101);
}

/// Fails if an option that means nothing here is taken, or one that cannot be had is found out only
/// when something was done.
#[test]
fn other_options_are_refused() {
    let _turn = beside_others();
    let dir = scratch_dir("replay_in_place");
    let (plan, file) = plan(dir.path());
    fs::write(&file, [b'a'; 8209]).expect("space");
    for options in [
        &["--level", "block"][..],
        &["--write"],
        &["--write", "--discard"],
        &["--discard"],
        &["--from-device", "sda"],
        &["--device", "/dev/null"],
        &["--root", "r"],
        &["--loop", "2"],
    ] {
        let finished = iotrace(&[&["replay", "run", text(&plan), OPTION], options].concat());
        assert_eq!(finished.status.code(), Some(125), "{options:?}: {}", finished.stderr());
    }
    if require(Need::Strace) {
        let mut command = Command::new("strace");
        command.args(["-f", "-o", "/dev/null", "-e", "inject=io_uring_setup:error=EPERM", BINARY]);
        command.args(["replay", "run", text(&plan), OPTION, "--engine", "io_uring"]);
        let finished =
            crate::support::driver::process::run(&mut command, TIMEOUT).expect("it ends");
        assert_eq!(finished.status.code(), Some(125), "{}", finished.stdout());
        assert!(finished.stderr().contains("io_uring"), "{}", finished.stderr());
    }
    assert_eq!(fs::read(&file).expect("there"), [b'a'; 8209]);
    let first = ["replay", "run", text(&plan), OPTION, "--speed", "max"];
    iotrace(&[&first[..], &["--level", "call", "--engine", "calls"]].concat()).success();
}

/// Fails if a file is created through a link of which the capture knows nothing, wherever that
/// leads.
#[test]
fn files_are_not_created_through_new_links() {
    let _turn = beside_others();
    let all = [
        ("victim", "access", "is there, and was not"),
        ("none", "access", "is a symbolic link"),
        ("victim", "openat", "is a symbolic link"),
        ("none", "openat", "is a symbolic link"),
    ];
    for (target, first, why) in all {
        let dir = scratch_dir("replay_in_place");
        let calls = [
            r#"access("DIR/out", F_OK) = -1 ENOENT (No such file or directory)"#,
            r#"openat(AT_FDCWD, "DIR/out", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 3<DIR/out>"#,
            r#"write(3<DIR/out>, ""..., 29) = 29"#,
            r#"close(3<DIR/out>) = 0"#,
        ];
        let plan = plan_of(dir.path(), &calls[usize::from(first == "openat")..]);
        fs::write(dir.path().join("victim"), "what it was").expect("space");
        symlink(target, dir.path().join("out")).expect("a link");
        assert_refused(&run(&plan), &[why, text(&dir.path().join("out"))]);
        assert_eq!(fs::read(dir.path().join("victim")).expect("there"), b"what it was");
        assert!(!dir.path().join("none").exists());
    }
}
