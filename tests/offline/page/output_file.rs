//! The file of a page: it has its name only when it is whole, and an existing one stays.

use std::fs;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{page, root};
use crate::scale::synthetic::{self, Shape};
use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT, wait_until};

/// Makes a log whose page takes some time.
fn large_log(directory: &Path) -> std::path::PathBuf {
    let log = directory.join("large.iocap");
    let shape = Shape { records: 300_007, ..Shape::default() };
    synthetic::write(&shape, File::create_new(&log).expect("a new file")).expect("written");
    log
}

/// True if a process has a handler of SIGINT.
fn handles_interrupts(child: &Child) -> bool {
    let path = format!("/proc/{}/status", child.id());
    let status = fs::read_to_string(path).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask >> (libc::SIGINT - 1) & 1 == 1)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("readable").file_name();
    entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect()
}

#[test]
fn interrupted_page_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let (log, place) = (large_log(directory.path()), directory.path().join("pages"));
    fs::create_dir(&place).expect("a directory");
    let path = place.join("page.html");
    let mut command = Command::new(BINARY);
    command.args(["report", "-o"]).arg(&path).arg(&log);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    wait_until("signals are handled", || handles_interrupts(&child));
    assert_eq!(names(&place), [""; 0]);
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process"));
    kill(pid, Signal::SIGINT).expect("it lives");
    let status = process::wait(&mut child, TIMEOUT).expect("it ends");
    assert_eq!(status.signal(), Some(libc::SIGINT), "{status}");
    let said = child.stderr.take().map(std::io::read_to_string).expect("a pipe").expect("text");
    assert!(said.contains("interrupted: no page was made"), "{said}");
    assert_eq!(names(&place), [""; 0]);
    // The next run finds the name free.
    command.stderr(Stdio::null());
    assert!(command.status().expect("it runs").success());
    assert_eq!(names(&place), ["page.html"]);
}

#[test]
fn existing_file_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = root().join("tests/corpus/logs/v2/event.iocap");
    let path = directory.path().join("there.html");
    fs::write(&path, "mine").expect("written");
    let mut command = Command::new(BINARY);
    command.args(["report", "-o"]).arg(&path).arg(&log);
    let finished = process::run(&mut command, TIMEOUT).expect("it ends");
    assert!(!finished.status.success(), "{finished:?}");
    assert_eq!(fs::read_to_string(&path).expect("readable"), "mine");
}

#[test]
fn missing_directory_is_refused_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("none/page.html");
    let mut command = Command::new(BINARY);
    // The program must not run.
    let mark = directory.path().join("ran");
    command.args(["report", "-o"]).arg(&path).args(["--", "touch"]).arg(&mark);
    let finished = process::run(&mut command, TIMEOUT).expect("it ends");
    assert!(finished.stderr().contains("there is no directory"), "{}", finished.stderr());
    assert!(!mark.exists());
}

#[test]
fn page_has_no_other_name_beside_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = root().join("tests/corpus/logs/v2/event.iocap");
    page(&log, directory.path(), &[]);
    assert_eq!(names(directory.path()), ["page.html"]);
}
