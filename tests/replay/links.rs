//! Links that were there before the capture: in the replay symbolic ones lead where they led, and
//! nothing is made through them; hard ones are names of one file.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use super::fixture::NAMED;
use crate::support::driver::recording::{can_record, iotrace, record};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::beside_others;
use crate::support::{scratch_dir, text};
use iotrace_perf::event::syscall_table::CallId;
use iotrace_perf::replay::plan::dependencies::{OpId, Worker};
use iotrace_perf::replay::plan::handles::Handle;
use iotrace_perf::replay::plan::links::SymlinkMap;
use iotrace_perf::replay::plan::plan_file::{PlanWriter, finish};
use iotrace_perf::replay::plan::planned_op::{PlannedOp, WorkerInfo};
use iotrace_perf::replay::plan::planner::{PlanOutput, Planner};
use iotrace_perf::units::ReplayTime;
use nix::libc::{O_CREAT, O_RDWR};
use serde_json::Value;

/// A plan, and a directory for its replay.
struct Replay {
    plan: PathBuf,
    root: PathBuf,
}

impl Replay {
    /// Of what a shell does in a directory where `l` is a link to the directory `d`, and others are
    /// links to that and to a file.
    fn of_shell(dir: &Path, commands: &str) -> (Self, Value) {
        let place = dir.join("place");
        fs::create_dir_all(place.join("d/sub/deep")).expect("directories");
        for (name, bytes) in [("d/y", 4099), ("d/sub/one", 23), ("d/sub/deep/two", 65_537)] {
            fs::write(place.join(name), vec![7; bytes]).expect("space");
        }
        for (name, text) in [("l", "d"), ("again", "./l/sub"), ("d/sub/file", "../y")] {
            symlink(text, place.join(name)).expect("a link");
        }
        symlink(place.join("d"), place.join("whole")).expect("a link");
        fs::hard_link(place.join("d/y"), place.join("hard")).expect("a link");
        let program = ["env", "-C", text(&place), "sh", "-c", commands];
        let (finished, recording) = record(&dir.join("trace"), &NAMED, &program);
        finished.success();
        recording.assert_whole();
        let (plan, log) = (dir.join("plan"), dir.join("trace/traces.iocap"));
        let finished = iotrace(&["replay", "plan", text(&log), "-o", text(&plan), "--json"]);
        let report = serde_json::from_str(&finished.success().stdout()).expect("a report");
        (Self { plan, root: dir.join("root") }, report)
    }

    fn init(&self) {
        iotrace(&["replay", "init", text(&self.plan), "--root", text(&self.root)]).success();
    }

    #[track_caller]
    fn report(&self) -> Value {
        let (plan, root) = (text(&self.plan), text(&self.root));
        let arguments = ["replay", "run", plan, "--root", root, "--speed", "max", "--json"];
        let finished = iotrace(&arguments);
        serde_json::from_str(&finished.stdout()).unwrap_or_else(|_| panic!("{}", finished.stderr()))
    }
}

/// Fails if what a shell does with links has another result in the replay, or is left out for what
/// it has found through them. A name that was read too late shows no links: then it is
/// recorded again.
#[track_caller]
fn check(commands: &str, links: &[(&str, &str)]) {
    const ATTEMPTS: usize = 5;
    if can_record(&[Need::Uprobes]) {
        let is_right = (0..ATTEMPTS).any(|_| is_replayed(commands, links));
        assert!(is_right, "{commands}: in no recording the links {links:?} are known");
    }
}

/// True if all links are known; then all results are the same.
#[track_caller]
fn is_replayed(commands: &str, links: &[(&str, &str)]) -> bool {
    let dir = scratch_dir("links");
    let (replay, planned) = Replay::of_shell(dir.path(), commands);
    replay.init();
    let place = dir.path().join("place");
    let place = replay.root.join("files").join(place.strip_prefix("/").expect("from the root"));
    let leads = |(name, text): &(&str, &str)| {
        fs::read_link(place.join(name)).is_ok_and(|it| it == Path::new(text))
    };
    let gaps = ["links_of_other_length", "links_as_directories", "unexplained"];
    if !links.iter().all(leads) || gaps.iter().any(|it| planned[it] != 0) {
        return false;
    }
    let left = planned["left_calls"].as_array().expect("a table");
    assert!(left.iter().all(|it| it["reason"] != "made-by-others"), "{left:#?}");
    let report = replay.report();
    assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
    assert_eq!(report["is_whole"], true);
    true
}

#[test]
fn file_opened_by_one_name_exists_by_the_other() {
    let _turn = beside_others();
    check("cd l; echo 1 > t; rm t; set -C; echo 2 > t; rm t", &[]);
    check("echo > l/new; rm l/new; ! test -e d/new", &[("l", "d")]);
    let by_others = "cat l/y whole/y; echo > d/new; test -e l/new; rm whole/new; ! test -e l/new";
    check(by_others, &[("l", "d")]);
}

#[test]
fn symbolic_links_are_created() {
    let _turn = beside_others();
    check("readlink l; cat l/y", &[("l", "d")]);
    check("cat again/one; readlink again", &[]);
    check("cat l/y; ! test -e d/new; ln -s y l/new; cat d/new", &[("l", "d")]);
    check("rm l; mkdir l; echo 1 > l/y; cat d/y", &[]);
    check(
        "cat l/y; mv l m; cat m/y; ! cat l/y; ln -s d l; cat l/y; echo 1 > l/new; rm d/new",
        &[("l", "d")],
    );
}

#[test]
fn readlink_finds_captured_links() {
    let _turn = beside_others();
    check("cd l; tar cf ../all.tar sub; rm -r sub; tar xf ../all.tar; ls -l sub", &[]);
    check("realpath again/one whole/y l; cat again/one whole/y", &[]);
    check("find -L l whole -type f -exec cat {} +", &[]);
    check("cat l/y; mkdir copy; cp -a l d copy; ls -lR copy", &[("l", "d")]);
}

/// Fails if what is done by one name of a file is not seen by the other, or a rename of one to the
/// other takes it away.
#[test]
fn hard_links_are_created() {
    let _turn = beside_others();
    let by_both =
        "cat d/y hard; printf 23 > hard; test $(wc -c < d/y) = 2; printf 4567 >> d/y; cat hard";
    // Both names are open until a busy machine has looked what they are.
    let held = "sleep 0.2 < d/y; sleep 0.2 < hard";
    is_one_file(&format!(
        "{held}; {by_both}; mv -T d/y again.y; echo > hard; cat again.y; rm again.y; cat hard"
    ));
    is_one_file(&format!(
        "{held}; exec 3< d/y; read -r line < hard; flock 3; ! flock -n hard true; : > hard; cat <&3"
    ));
}

#[track_caller]
fn is_one_file(commands: &str) {
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let dir = scratch_dir("links");
    let (replay, planned) = Replay::of_shell(dir.path(), commands);
    assert_eq!(planned["hard_links"], 1, "{planned:#}");
    assert_eq!(planned["unexplained"], 0, "{planned:#}");
    replay.init();
    let place = dir.path().join("place");
    let place = replay.root.join("files").join(place.strip_prefix("/").expect("from the root"));
    let inode = |name: &str| fs::metadata(place.join(name)).expect("it was made").ino();
    assert_eq!(inode("d/y"), inode("hard"));
    let left = planned["left_calls"].as_array().expect("a table");
    let is_known =
        |it: &Value| it["reason"] != "made-by-others" && it["reason"] != "lock-unexplained";
    assert!(left.iter().all(is_known), "{left:#?}");
    let report = replay.report();
    assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
    assert_eq!(report["is_whole"], true);
}

/// Fails if files of a plan, or calls, go through a link to what is outside of the replay's
/// directory.
#[test]
fn links_of_a_hostile_plan_stay_inside() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("links");
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("victim"), "kept").expect("space");
    let up = format!("{}{}", "../".repeat(20), text(&outside));
    let targets = [text(&outside).to_owned(), up, "../../../..".to_owned(), "/etc".to_owned()];
    let path = |number: usize| format!("/l{number}");
    let links: SymlinkMap = (0..)
        .zip(&targets)
        .map(|(number, it)| (path(number).into_bytes(), it.clone().into_bytes()))
        .collect();
    let plan = dir.path().join("plan");
    fs::write(&plan, hostile(&links, targets.len())).expect("space");
    let replay = Replay { plan, root: dir.path().join("root") };
    replay.init();
    let seen = || {
        let all = fs::read_dir(&outside).expect("there").map(|it| it.expect("there").file_name());
        (all.collect::<Vec<_>>(), fs::read(outside.join("victim")).expect("there"))
    };
    let expected = (vec!["victim".into()], b"kept".to_vec());
    for (number, target) in targets.iter().enumerate() {
        let link = replay.root.join("files").join(path(number).trim_start_matches('/'));
        assert_eq!(fs::read_link(link).expect("a link"), Path::new(target));
    }
    assert_eq!(seen(), expected);
    let report = replay.report();
    assert_eq!(report["operations"], 3 * targets.len());
    assert_eq!(seen(), expected);
    assert!(!Path::new("/etc/iotrace-perf-new").exists());
    iotrace(&["replay", "purge", "--root", text(&replay.root)]).success();
    assert_eq!(seen(), expected);
}

/// A plan that makes, writes to and removes files through links that are there before.
fn hostile(links: &SymlinkMap, count: usize) -> Vec<u8> {
    let out = PlanWriter::new(Vec::new()).expect("memory");
    let mut planner = Planner::new(out).knowing(links);
    let creates = u64::from((O_CREAT | O_RDWR).cast_unsigned());
    let mut number = 0;
    for link in 0..count {
        let name = if link == 3 { "iotrace-perf-new" } else { "victim" };
        let path = format!("/l{link}/{name}").into_bytes();
        let mut via = Vec::new();
        planner.world.reach(&path, false, &mut via).expect("from the root");
        planner.world.record_traversed_links(&via);
        for (call, args, has_path) in [
            ("openat", [0, 1, creates, 0o666, 0, 0], true),
            ("write", [0, 1, 512, 0, 0, 0], false),
            ("unlink", [1; 6], true),
        ] {
            planner
                .out
                .planned(&PlannedOp {
                    at: OpId { worker: Worker(0), number },
                    call: CallId::by_name(call).expect("a row"),
                    asynchronous: None,
                    args,
                    handle: (call == "write").then_some(Handle(0)),
                    target: None,
                    makes: (call == "openat").then_some(Handle(0)),
                    file: None,
                    path: has_path.then(|| path.clone()),
                    second_path: None,
                    flags: None,
                    offset: None,
                    target_offset: None,
                    bytes: None,
                    ret: 0,
                    start: ReplayTime(u64::from(number) * 10),
                    end: ReplayTime(u64::from(number) * 10 + 5),
                    keeps_handle: false,
                    implicit: false,
                    before: Vec::new(),
                })
                .expect("memory");
            number += 1;
        }
    }
    planner.workers.push(WorkerInfo { pid: 1, tid: 1, ..WorkerInfo::default() });
    finish(planner, std::env::consts::ARCH).expect("memory")
}
