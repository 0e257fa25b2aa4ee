//! Files that an index leads to: linked directories, hostile indexes, indexes of other users.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use nix::sys::stat::Mode;

use super::{NAME, index};
use crate::merge::{DD, Made};
use crate::support::driver::process::{Finished, run};
use crate::support::driver::recording::{BINARY, TIMEOUT, iotrace};
use crate::support::machine::requirements::{Need, require};
use crate::support::{scratch_dir, text};

/// Another user than root.
const OTHER: u32 = 65534;

/// Fails if an index that is reached through a linked directory checks one file and reads another.
#[test]
fn linked_directories_lead_to_the_checked_recordings() {
    let dir = scratch_dir("job-linked");
    let job = dir.path().join("a");
    fs::create_dir(&job).expect("a directory");
    let log = Made { rank: Some(3), ..DD }.write(&job, "t");
    index(&job, std::slice::from_ref(&log));
    let link = dir.path().join("x");
    symlink(job.join("job"), &link).expect("a link");
    // What the words `x` and `../t.iocap` would lead to.
    fs::write(dir.path().join("t.iocap"), "a secret").expect("space");
    let link = text(&link);
    let at = |name: &str| text(&dir.path().join(name)).to_owned();
    let (page, other, archive, tables, again) =
        (at("p.html"), at("q.html"), at("all.otf2"), at("t.parquet"), at("again/"));
    for arguments in [
        &["summary", link][..],
        &["info", link],
        &["script", link],
        &["disk", link],
        &["pattern", link],
        &["advise", link],
        &["what-if", link],
        &["files", "--life", "part", link],
        &["report", link, "-o", &page],
        &["merge", link, "-o", &other],
        &["merge", link, "-o", &again],
        &["convert", link, "-o", &archive],
        &["convert", link, "-o", &tables],
    ] {
        let finished = iotrace(arguments).success();
        let said = finished.stdout() + &finished.stderr();
        assert!(!said.contains("/proc/self/fd"), "{arguments:?}: {said}");
        assert!(!said.contains("NOT READ") && !said.contains("LEFT OUT"), "{arguments:?}: {said}");
    }
    let index = fs::read_to_string(dir.path().join("again").join(NAME)).expect("an index");
    assert!(index.contains("\"path\": \"../a/t.iocap\""), "{index}");
    for page in [&page, &other] {
        let page = fs::read_to_string(page).expect("a page");
        assert!(page.contains("rank 3") && !page.contains("/proc/self/fd"), "{page}");
    }
}

/// Runs a report in a directory, with its recording or without an argument.
#[track_caller]
fn summary_in(dir: &Path, arguments: &[&str]) -> Finished {
    let mut command = Command::new(BINARY);
    command.arg("summary").args(arguments).current_dir(dir);
    run(&mut command, TIMEOUT).expect("it ends")
}

/// Fails if an index that another user has put into a shared directory is taken for the newest
/// recording there.
#[test]
fn indexes_of_other_users_are_taken_only_if_they_are_named() {
    if !require(Need::Root) {
        return;
    }
    let dir = scratch_dir("job-shared");
    let logs = dir.path().join("logs");
    fs::create_dir(&logs).expect("a directory");
    let log = DD.write(&logs, "a");
    index(dir.path(), std::slice::from_ref(&log));
    let shared = dir.path().join("job");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("ours");
    for path in [&log, &shared.join(NAME)] {
        chown(path, Some(OTHER), None).expect("root may do this");
    }
    for arguments in [&[][..], &["."], &[text(&shared)]] {
        let refused = summary_in(&shared, arguments);
        assert_eq!(refused.status.code(), Some(125), "{arguments:?}");
        let said = refused.stderr();
        assert!(said.contains("one of another user is read by its name"), "{said}");
        assert!(said.contains(NAME), "{said}");
    }
    summary_in(&shared, &[NAME]).success();
    Made { host: "ours", ..DD }.write(&shared, "ours");
    let found = summary_in(&shared, &[]).success().stderr();
    assert!(found.contains("ours.iocap (the newest recording"), "{found}");
    fs::remove_file(shared.join("ours.iocap")).expect("ours");
    // In a directory of that user the index is found if the directory is named.
    chown(&shared, Some(OTHER), None).expect("root may do this");
    summary_in(dir.path(), &["job"]).success();
    assert_eq!(summary_in(&shared, &[]).status.code(), Some(125));
}

/// Fails if an index leads a reader to something else than a recording beside it.
#[test]
fn hostile_indexes_lead_nowhere() {
    let dir = scratch_dir("job-hostile");
    let log = DD.write(dir.path(), "a");
    let job = index(dir.path(), std::slice::from_ref(&log));
    let file = job.join(NAME);
    let good = fs::read_to_string(&file).expect("text");
    nix::unistd::mkfifo(&dir.path().join("fifo"), Mode::S_IRUSR).expect("a FIFO");
    symlink(&log, dir.path().join("link")).expect("a link");
    symlink(dir.path(), dir.path().join("way")).expect("a link");
    for (path, code, part) in [
        ("/etc/passwd", 1, "another length than the recording of the index"),
        ("../fifo", 1, "not a regular file"),
        ("../link", 1, "it is a link, which is not followed"),
        ("../way/a.iocap", 1, "a part of its path is a link"),
        ("/dev/zero", 1, "not a regular file"),
        ("/proc/self/maps", 1, "a part of its path is a link"),
        ("/proc/1/maps", 1, "kernel's own"),
        ("../../etc/passwd", 125, "not one of an index"),
        ("", 125, "not one of an index"),
    ] {
        let bad = good.replace("../a.iocap", path);
        assert!(bad != good, "{good}");
        fs::write(&file, bad).expect("space");
        let finished = iotrace(&["summary", "--json", text(&job)]);
        let said = finished.stdout() + &finished.stderr();
        assert_eq!(finished.status.code(), Some(code), "{path}: {said}");
        assert!(said.contains(part), "{path}: {said}");
    }
    for (from, to, part) in [
        ("\"version\": 1", "\"version\": 2", "version 2 is not known"),
        ("\"host\": 0", "\"host\": 7", "of host 7"),
        ("\"times_ns\": [", "\"times_ns\": [18446744073709551615,", "not an index"),
        ("\"captures\": [", "\"captures\": 5, \"x\": [", "not an index"),
    ] {
        fs::write(&file, good.replace(from, to)).expect("space");
        let finished = iotrace(&["summary", text(&job)]);
        assert_eq!(finished.status.code(), Some(125), "{to}");
        assert!(finished.stderr().contains(part), "{to}: {}", finished.stderr());
    }
}

/// Fails if an index of another user makes root read a recording of root.
#[test]
fn index_of_another_user_names_only_files_of_that_user() {
    if !require(Need::Root) {
        return;
    }
    let dir = scratch_dir("job-owner");
    let log = DD.write(dir.path(), "a");
    let job = index(dir.path(), std::slice::from_ref(&log));
    for path in [&job, &job.join(NAME)] {
        chown(path, Some(OTHER), None).expect("root may do this");
    }
    let finished = iotrace(&["summary", "--json", text(&job)]);
    assert_eq!(finished.status.code(), Some(1));
    assert!(finished.stdout().contains("it belongs to user 0"), "{}", finished.stdout());
    chown(&log, Some(OTHER), None).expect("root may do this");
    iotrace(&["summary", text(&job)]).success();
}
