//! Entries that other users put into the directory of a replay, and plans that were made to do
//! harm: nothing outside is touched, nothing takes for ever, and remains are reported.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::driver::process::{Finished, run};
use crate::support::driver::recording::{BINARY, TIMEOUT, iotrace};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::{Need, require, require_all};
use crate::support::machine::turns::beside_others;
use crate::support::{copy_program, scratch_dir, text};
use iotrace_perf::event::syscall_table::CallId;
use iotrace_perf::replay::plan::dependencies::{OpId, Worker};
use iotrace_perf::replay::plan::plan_file::{PlanWriter, finish};
use iotrace_perf::replay::plan::planned_op::{PlannedOp, WorkerInfo};
use iotrace_perf::replay::plan::planner::{PlanOutput, Planner};
use iotrace_perf::units::ReplayTime;
use nix::fcntl::{AT_FDCWD, OFlag, RenameFlags, openat, renameat2};
use nix::sys::stat::{Mode, mkdirat};

/// More levels than a path has room for.
const LEVELS: usize = 3001;

/// A plan, and a directory for its replay.
struct Replay {
    plan: PathBuf,
    root: PathBuf,
}

impl Replay {
    /// Creates a replay of so many threads, each of which makes a directory.
    fn new(dir: &Path, threads: u32) -> Self {
        Self::with(dir, threads, |_, _| {})
    }

    /// Creates a replay of a changed plan.
    fn with(dir: &Path, threads: u32, change: impl Fn(&mut PlannedOp, &mut WorkerInfo)) -> Self {
        let [plan, root] = ["plan", "root"].map(|it| dir.join(it));
        fs::write(&plan, plan_of(threads, std::env::consts::ARCH, change)).expect("space");
        Self { plan, root }
    }

    fn init(&self) -> Finished {
        iotrace(&["replay", "init", text(&self.plan), "--root", text(&self.root)])
    }

    fn run(&self) -> Finished {
        self.run_with(&[])
    }

    fn run_with(&self, options: &[&str]) -> Finished {
        let (plan, root) = (text(&self.plan), text(&self.root));
        let first = ["replay", "run", plan, "--root", root, "--speed", "max", "--json"];
        iotrace(&[&first, options].concat())
    }

    fn purge(&self) -> Finished {
        iotrace(&["replay", "purge", "--root", text(&self.root)])
    }

    fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// Writes the state file, as a replay that ended in this state would have left it.
    fn set(&self, state: &str) {
        let line = format!("iotrace-perf replay 1: {state}\n");
        fs::write(self.root.join("iotrace-perf.state"), line).expect("space");
    }
}

/// The bytes of a plan.
fn plan_of(
    threads: u32,
    machine: &str,
    change: impl Fn(&mut PlannedOp, &mut WorkerInfo),
) -> Vec<u8> {
    let mut planner = Planner::new(PlanWriter::new(Vec::new()).expect("memory"));
    for number in 0..threads {
        let mut planned = PlannedOp {
            at: OpId { worker: Worker(number), number: 0 },
            call: CallId::by_name("mkdir").expect("a row"),
            asynchronous: None,
            args: [1, 0o777, 0, 0, 0, 0],
            handle: None,
            target: None,
            makes: None,
            file: None,
            path: Some(format!("/new-{number}").into()),
            second_path: None,
            flags: None,
            offset: None,
            target_offset: None,
            bytes: None,
            ret: 0,
            start: ReplayTime(number.into()),
            end: ReplayTime(u64::from(number) + 1),
            keeps_handle: false,
            implicit: false,
            before: Vec::new(),
        };
        let mut who =
            WorkerInfo { worker: Worker(number), pid: 1, tid: 1, ..WorkerInfo::default() };
        change(&mut planned, &mut who);
        planner.out.planned(&planned).expect("memory");
        planner.workers.push(who);
    }
    finish(planner, machine).expect("memory")
}

/// Directories in each other, all with the same name of one letter.
fn deep(below: &Path) {
    let mut inner = fs::File::open(below).expect("there");
    for _ in 0..LEVELS {
        mkdirat(&inner, "d", Mode::S_IRWXU).expect("space");
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        inner = openat(&inner, "d", flags, Mode::empty()).expect("made").into();
    }
}

/// Fails if a tree that is deeper than any path is in the way of `run` and `purge`, or if an entry
/// is removed that is not listed.
#[test]
fn deep_trees_are_removed() {
    if !require_all(&[Need::Root]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("hostile");
    let replay = Replay::new(dir.path(), 1);
    replay.init().success();
    deep(&replay.files());
    let finished = replay.run();
    assert!(finished.stderr().contains("was not made by init"), "{}", finished.stderr());
    // No replay has made it: it stays.
    let finished = replay.purge();
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr());
    assert!(finished.stderr().contains("not empty"), "{}", finished.stderr());
    // The state that a killed replay has left.
    replay.set("running");
    let finished = replay.purge().success();
    assert!(finished.stderr().contains("removed 3,001 "), "{}", finished.stderr());
    // And what it has listed.
    replay.init().success();
    deep(&replay.files());
    let path = |levels: usize| format!("d{}\0", "/d".repeat(levels));
    let list: String = (1..=LEVELS).map(path).collect();
    fs::write(replay.root.join("iotrace-perf.files"), list).expect("space");
    replay.set("done");
    replay.purge().success();
    assert!(!replay.root.exists());
}

/// Fails if `purge` empties what it has not made (through links, in mounts), stops at strange
/// names, or does not report what it leaves.
#[test]
fn odd_entries_are_removed_or_reported() {
    if !require_all(&[Need::Root, Need::Program("chattr")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("hostile");
    let replay = Replay::new(dir.path(), 1);
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).expect("space");
    fs::write(outside.join("mine"), "kept").expect("space");
    replay.init().success();
    let files = replay.files();
    symlink(&outside, files.join("link")).expect("space");
    fs::hard_link(outside.join("mine"), files.join("second name")).expect("space");
    fs::write(files.join(std::ffi::OsStr::from_bytes(b"\n\xff\x1b[31m")), "").expect("space");
    fs::create_dir_all(files.join("d/mount")).expect("space");
    fs::write(files.join("d/fixed"), "").expect("space");
    let chattr = |how: &str| {
        let mut command = Command::new("chattr");
        run(command.arg(how).arg(files.join("d/fixed")), TIMEOUT).expect("it ends").status.success()
    };
    let is_fixed = chattr("+i");
    let mount = Mounted::of_kernel(&files.join("d/mount"), "tmpfs", "size=1m");
    fs::write(mount.path().join("mine"), "kept").expect("space");
    replay.set("running");
    let finished = replay.purge();
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr());
    let says = finished.stderr();
    assert!(says.contains("left /d/mount: ") && says.contains("left /d: "), "{says}");
    assert_eq!(says.contains("left /d/fixed: "), is_fixed, "{says}");
    for it in [mount.path().join("mine"), outside.join("mine")] {
        assert_eq!(fs::read_to_string(&it).expect("kept"), "kept");
    }
    let left = fs::read_dir(&files).expect("there").count();
    assert_eq!(left, 1, "{says}");
    drop(mount);
    assert!(!is_fixed || chattr("-i"));
    // Over all files the same.
    let over = Mounted::of_kernel(&files, "tmpfs", "size=1m");
    fs::write(over.path().join("mine"), "kept").expect("space");
    let finished = replay.purge();
    assert_eq!(finished.status.code(), Some(125), "{}", finished.stderr());
    assert!(finished.stderr().contains("umount "), "{}", finished.stderr());
    assert!(over.path().join("mine").exists());
    drop(over);
    replay.purge().success();
    assert!(!replay.root.exists() && outside.join("mine").exists());
}

/// Fails if `purge` follows a link that is put in the place of a directory while it works.
#[test]
fn concurrent_renames_do_not_redirect_the_removal() {
    if !require_all(&[Need::Root]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("hostile");
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).expect("space");
    let names: Vec<String> = (0..211).map(|it| it.to_string()).collect();
    names.iter().for_each(|it| fs::write(outside.join(it), "kept").expect("space"));
    let replay = Replay::new(dir.path(), 1);
    let link = dir.path().join("link");
    symlink(&outside, &link).expect("space");
    let mut exchanged = 0;
    for state in ["running", "done"].into_iter().cycle().take(6) {
        replay.init().success();
        let inside = replay.files().join("d");
        fs::create_dir(&inside).expect("space");
        names.iter().for_each(|it| fs::write(inside.join(it), "").expect("space"));
        let list: String = names.iter().map(|it| format!("f/d/{it}\0")).collect();
        fs::write(replay.root.join("iotrace-perf.files"), format!("d/d\0{list}")).expect("space");
        replay.set(state);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let exchange = scope.spawn(|| {
                let mut times = 0;
                // ORDERING: only a flag.
                while !is_over.load(Ordering::Relaxed) {
                    let flags = RenameFlags::RENAME_EXCHANGE;
                    let result = renameat2(AT_FDCWD, &link, AT_FDCWD, &inside, flags);
                    times += u32::from(result.is_ok());
                }
                times
            });
            replay.purge();
            // ORDERING: only a flag.
            is_over.store(true, Ordering::Relaxed);
            exchanged += exchange.join().expect("no panic");
        });
        assert_eq!(fs::read_dir(&outside).expect("there").count(), names.len());
        // Whichever of them is where: each becomes what it was.
        let _ =
            (fs::remove_dir_all(&replay.root), fs::remove_file(&link), fs::remove_dir_all(&link));
        symlink(&outside, &link).expect("space");
    }
    assert!(exchanged > 6, "{exchanged}");
}

/// Fails if a user cannot remove directories from which a replay of that user has taken all rights.
#[test]
fn directories_without_permissions_are_removed() {
    if !require_all(&[Need::Root, Need::Program("setpriv")]) {
        return;
    }
    let _turn = beside_others();
    let dir = tempfile::tempdir().expect("a directory that all users can reach");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("ours");
    let binary = dir.path().join("iotrace-perf");
    copy_program(BINARY, &binary);
    let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let root = dir.path().join("root");
    let as_user = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(user)
            .arg(program)
            .args(arguments)
            .env_remove("SUDO_UID")
            .env_remove("SUDO_GID");
        run(&mut command, TIMEOUT).expect("it ends")
    };
    for state in ["running", "done"] {
        let make = "mkdir -p r/files/d/e && echo x > r/files/d/e/f && chmod 0 r/files/d/e r/files/d r/files";
        let make = make.replace("r/", &format!("{}/", text(&root)));
        as_user(Path::new("/bin/sh"), &["-c", &make]).success();
        let set = format!(
            "printf 'd/d\\0d/d/e\\0f/d/e/f\\0' > {0}/iotrace-perf.files && echo 'iotrace-perf replay 1: {state}' > {0}/iotrace-perf.state",
            text(&root)
        );
        as_user(Path::new("/bin/sh"), &["-c", &set]).success();
        as_user(&binary, &["replay", "purge", "--root", text(&root)]).success();
        assert!(!root.exists());
    }
}

/// Fails if a plan for another kind of machine is done.
#[test]
fn plans_for_other_machines_are_refused() {
    if !require_all(&[Need::Root]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("hostile");
    let replay = Replay::new(dir.path(), 1);
    fs::write(&replay.plan, plan_of(1, "m68k", |_, _| {})).expect("space");
    for finished in [replay.init(), replay.run()] {
        assert!(!finished.status.success());
        assert!(finished.stderr().contains("it is for m68k machines"), "{}", finished.stderr());
    }
    assert!(!replay.root.exists());
}

/// Fails if more threads than a process may have end it in another way than by saying so.
#[test]
fn too_many_threads_are_refused() {
    if !require_all(&[Need::Root]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("hostile");
    let replay = Replay::new(dir.path(), 10_007);
    replay.init().success();
    let finished = replay.run();
    assert_eq!(finished.status.code(), Some(125), "{}", finished.stderr());
    assert!(
        finished.stderr().contains("the plan needs 10007 threads at once"),
        "{}",
        finished.stderr()
    );
    replay.init().success();
    replay.purge().success();
}

/// Fails if lanes that few threads serve are counted as so many threads.
#[test]
fn many_lanes_need_no_threads() {
    if !require_all(&[Need::Root, Need::IoUring]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("hostile");
    let replay = Replay::with(dir.path(), 10_007, |planned, who| {
        (who.lane, who.tid) = (Some(planned.at.worker.0), i32::from(planned.at.worker.0 % 2 == 0));
    });
    replay.init().success();
    let report = replay.run_with(&["--engine", "io_uring"]).success().stdout();
    let report: serde_json::Value = serde_json::from_str(&report).expect("a report");
    assert_eq!((&report["operations"], &report["rings"]), (&10_007.into(), &2.into()));
    assert_eq!((&report["mismatches"], &report["threads_at_once"]), (&0.into(), &2.into()));
}

/// Fails if a plan whose threads wait for each other, or for what it does not have, is replayed for
/// ever without a word.
#[test]
fn circular_dependency_is_reported() {
    if !require_all(&[Need::Root]) {
        return;
    }
    let _turn = beside_others();
    let check = |options: &[&str], before: fn(u32) -> Option<(u32, u32)>, waiting: usize| {
        let dir = scratch_dir("hostile");
        let replay = Replay::with(dir.path(), 3, |planned, who| {
            let at = |(worker, number)| OpId { worker: Worker(worker), number };
            planned.before.extend(before(planned.at.worker.0).map(at));
            who.lane = Some(planned.at.worker.0).filter(|it| *it == 1);
        });
        replay.init().success();
        let finished = replay.run_with(options);
        assert_eq!(finished.status.code(), Some(125), "{}", finished.stderr());
        let reported =
            format!(": {waiting} of its threads wait for each other, or for operations that");
        assert!(finished.stderr().contains(&reported), "{}", finished.stderr());
        // The others have done what they had to do.
        let done = fs::read_dir(replay.files()).expect("there").count();
        assert_eq!(done, 3 - waiting, "{options:?}");
        replay.purge().success();
    };
    let rings: &[&str] = &["--engine", "io_uring"];
    for options in [&[][..], rings].into_iter().filter(|it| it.is_empty() || require(Need::IoUring))
    {
        check(options, |it| (it == 1).then_some((0, 1)), 1);
        check(options, |it| (it < 2).then(|| (1 - it, 0)), 2);
    }
}
