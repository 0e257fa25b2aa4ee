//! A replay changes nothing outside of its directory, whatever its plan and its surroundings.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::fixture::{Hostile, Replay, seen, sizes};
use crate::support::driver::process::run;
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record, iotrace};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::beside_others;
use crate::support::{copy_program, scratch_dir, text};

/// Fails if a replay does to the files of the capture what the capture did.
#[test]
fn originals_are_not_changed_by_a_replay() {
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let [place, other] = ["data", "database"].map(|it| dir.path().join(it));
    let line = format!(
        "cd {} && mkdir d && echo new > d/f && echo more >> ../database/f && ln -s {} l && echo through > l/g && cat l/f && mv d/f e && \
         chmod 600 e && rm -r d && echo up > ../up && rm ../up",
        text(&place),
        text(&other)
    );
    for it in [&place, &other] {
        fs::create_dir(it).expect("a directory");
        fs::write(it.join("f"), "kept").expect("space");
    }
    let replay = Replay::of(dir.path(), &["sh", "-c", &line]);
    // As it was before, for the replay to find if it looks there.
    for it in ["e", "l"] {
        fs::remove_file(place.join(it)).expect("it was made");
    }
    let before = [&place, &other].map(|it| seen(it));
    replay.assert_same(&["--speed", "max"], 20);
    assert_eq!([&place, &other].map(|it| seen(it)), before);
    assert!(!dir.path().join("up").exists());
    assert!(replay.inside(&place).join("e").exists());
    iotrace(&["replay", "purge", "--root", text(&replay.root)]).success();
    assert_eq!([&place, &other].map(|it| seen(it)), before);
    assert!(!replay.root.exists());
}

/// Fails if a plan that was made to do harm can make, write, change or remove anything outside of
/// the directory of its replay.
#[test]
fn hostile_plan_stays_inside() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("victim"), "kept").expect("space");
    symlink(&outside, dir.path().join("link")).expect("a link");
    let up = format!("{}{}", "/..".repeat(20), text(&outside));
    let creates =
        u64::from((nix::libc::O_CREAT | nix::libc::O_RDWR | nix::libc::O_TRUNC).cast_unsigned());
    let open = |path: &str| Hostile::new("openat", [0, 1, creates, 0o6777, 0, 0], path);
    let write = || Hostile {
        call: "write",
        args: [0, 1, 512, 0, 0, 0],
        path: None,
        second: None,
        makes: false,
    };
    let mut operations = Vec::new();
    for path in
        [format!("{up}/victim"), format!("{up}/new"), text(&outside.join("victim")).to_owned()]
    {
        operations.extend([
            open(&path),
            write(),
            Hostile::new("truncate", [1, 3, 0, 0, 0, 0], &path),
        ]);
        operations.push(Hostile::new("chmod", [1, 0o4777, 0, 0, 0, 0], &path));
        operations.push(Hostile::new("unlink", [1; 6], &path));
    }
    // Links that lead out, and what is done through them.
    for (number, target) in [text(&outside), &up, "../../../../.."].into_iter().enumerate() {
        operations.push(Hostile::pair("symlink", &format!("/l{number}"), target));
        operations.extend([open(&format!("/l{number}/victim")), write()]);
        operations.push(Hostile::new("mkdir", [1, 0o777, 0, 0, 0, 0], &format!("/l{number}/made")));
        operations.push(Hostile::new("unlink", [1; 6], &format!("/l{number}/victim")));
    }
    operations.extend([open("/suid"), Hostile::new("chmod", [1, 0o6755, 0, 0, 0, 0], "/suid")]);
    operations.push(open("/\n\u{1b}[31m"));
    operations.push(open("/proc/1/cwd/etc/passwd"));
    let replay = Replay::by_hand(dir.path(), &operations);
    let before = seen(&outside);
    let report = replay.report(&["--speed", "max"]);
    assert_eq!(report["operations"], operations.len());
    assert_eq!(seen(&outside), before);
    let made = seen(&replay.root.join("files"));
    assert!(made.len() > 3, "{made:?}");
    for (path, mode, ..) in &made {
        let kind = mode & 0o170_000;
        assert!([0o040_000, 0o100_000, 0o120_000].contains(&kind), "{path:?} {mode:o}");
        assert_eq!(mode & 0o6000, 0, "{path:?} {mode:o}");
    }
    iotrace(&["replay", "purge", "--root", text(&replay.root)]).success();
    assert_eq!(seen(&outside), before);
}

/// Fails if a plan can have calls done that no planner writes.
#[test]
fn calls_that_leave_the_directory_are_refused() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let device = |mode: u64| Hostile::new("mknodat", [0, 1, mode, 0x0103, 0, 0], "/device");
    let socket = device(0o140_666);
    let others = ["chroot", "mount", "umount", "ioctl", "execve", "chown", "setxattr", "sync"];
    let others = others.into_iter().map(|it| Hostile::new(it, [1, 1, 0, 0, 0, 0], "/"));
    // The result would be taken for a descriptor: that of our standard input.
    let mut forged = Hostile::new("access", [1, 0, 0, 0, 0, 0], "/");
    forged.makes = true;
    for it in others.chain([device(0o20_666), device(0o60_666), socket, forged]) {
        let dir = scratch_dir("replay");
        let replay = Replay::by_hand(dir.path(), std::slice::from_ref(&it));
        replay.init().success();
        let finished = replay.run(&["--speed", "max"]);
        assert_eq!(finished.status.code(), Some(125), "{}", it.call);
        assert!(finished.stderr().contains("cannot be done"), "{}", finished.stderr());
        assert_eq!(sizes(&replay.root.join("files")), BTreeMap::new());
    }
}

/// Directories that a replay has not made are not touched by it.
#[test]
fn foreign_directories_are_refused() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::of_mkdir(dir.path());
    fs::create_dir(&replay.root).expect("a directory");
    fs::write(replay.root.join("mine"), "kept").expect("space");
    let purge = || iotrace(&["replay", "purge", "--root", text(&replay.root)]);
    for (finished, words) in [
        (replay.init(), "is not empty"),
        (replay.run(&[]), "has not been made by"),
        (purge(), "has not been made by"),
    ] {
        assert_eq!(finished.status.code(), Some(125));
        assert!(finished.stderr().contains(words), "{}", finished.stderr());
    }
    assert_eq!(fs::read(replay.root.join("mine")).expect("there"), b"kept");
    fs::remove_file(replay.root.join("mine")).expect("ours");
    // Files have to be made again after a replay, and after another process has changed them.
    replay.assert_same(&["--speed", "max"], 1);
    assert!(replay.run(&[]).stderr().contains("make them again"));
    replay.init().success();
    fs::write(replay.root.join("files/mine"), "kept").expect("space");
    assert!(replay.run(&[]).stderr().contains("were changed after they were made"));
    let finished = purge();
    assert!(finished.stderr().contains("left"), "{}", finished.stderr());
    assert_eq!(fs::read(replay.root.join("files/mine")).expect("there"), b"kept");
}

/// Fails if what another user can change is trusted.
#[test]
fn directories_of_other_users_are_refused() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::of_mkdir(dir.path());
    fs::create_dir(&replay.root).expect("a directory");
    std::os::unix::fs::chown(&replay.root, Some(65534), None).expect("we are root");
    assert!(replay.init().stderr().contains("belongs to another user"));
    // A link in the place of the files.
    fs::remove_dir(&replay.root).expect("empty");
    replay.init().success();
    let outside = dir.path().join("outside");
    fs::rename(replay.root.join("files"), &outside).expect("ours");
    fs::write(outside.join("kept"), "kept").expect("space");
    symlink(&outside, replay.root.join("files")).expect("a link");
    fs::write(replay.root.join("iotrace-perf.state"), "iotrace-perf replay 1: running\n")
        .expect("space");
    let purge = || iotrace(&["replay", "purge", "--root", text(&replay.root)]);
    for finished in [purge(), replay.run(&[])] {
        assert!(finished.stderr().contains("has not been made by"), "{}", finished.stderr());
    }
    assert_eq!(fs::read(outside.join("kept")).expect("there"), b"kept");
}

/// Whatever a replay was killed in, the next command knows.
#[test]
fn remains_of_a_killed_replay_are_recognised() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::of_mkdir(dir.path());
    for state in ["beginning", "running"] {
        replay.init().success();
        let line = format!("iotrace-perf replay 1: {state}\n");
        fs::write(replay.root.join("iotrace-perf.state"), line).expect("space");
        // Made by what was killed.
        fs::create_dir(replay.root.join("files/d")).expect("a directory");
        let finished = replay.run(&[]);
        assert!(finished.stderr().contains("make them again"), "{}", finished.stderr());
        if state == "running" {
            replay.assert_same(&["--speed", "max"], 1);
        } else {
            fs::remove_dir(replay.root.join("files/d")).expect("ours");
        }
        iotrace(&["replay", "purge", "--root", text(&replay.root)]).success();
        assert!(!replay.root.exists());
    }
}

/// Without any privilege the same, in a user namespace, where that is allowed.
#[test]
fn replay_of_a_user_runs_in_a_namespace() {
    if !can_record(&[Need::UserNamespace]) {
        return;
    }
    let _turn = beside_others();
    let dir = tempfile::tempdir().expect("a directory that all users can reach");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("ours");
    let binary = dir.path().join("iotrace-perf");
    copy_program(BINARY, &binary);
    let Replay { plan, root } = Replay::of_mkdir(dir.path());
    let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let as_user = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(user).arg(&binary).arg("replay").args(arguments);
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        run(&mut command, TIMEOUT).expect("it ends")
    };
    fs::set_permissions(&plan, fs::Permissions::from_mode(0o644)).expect("ours");
    as_user(&["init", text(&plan), "--root", text(&root)]).success();
    as_user(&["run", text(&plan), "--root", text(&root), "--speed", "max"]).success();
    assert!(root.join("files/d").is_dir());
    as_user(&["purge", "--root", text(&root)]).success();
    assert!(!root.exists());
}
