//! The names of real programs' files: call by call against strace in the same run, and in free runs
//! against what strace saw of another one, or what the program itself knows.
//!
//! A reader may come late, and then it reports so: a count of names may be tried again. A name
//! that is wrong and not marked may never be.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;

use crate::support::driver::json::JsonOperation;
use crate::support::driver::recording::{Recording, can_record, compile, default_calls, record};
use crate::support::driver::workloads::{Prepared, STORM_FILES, STORM_THREADS, Workload};
use crate::support::machine::cpu_hog::CpuHog;
use crate::support::machine::requirements::{Need, require, require_all};
use crate::support::machine::turns::alone;
use crate::support::oracle::name_compare::{Bags, Score, is_open};
use crate::support::oracle::strace::Log;
use crate::support::oracle::strace::compare::compare_counted;
use crate::support::scratch_dir;

/// Runs after which too few right names are a failure. Others load the machine.
const ATTEMPTS: usize = 4;

/// Number of right names, and the least number of 1000.
type Result = (Score, usize);

/// Repeats a run until enough names are right.
#[track_caller]
fn good_soon(what: &str, mut run: impl FnMut(usize) -> Result) {
    let mut said = Vec::new();
    for attempt in 0..ATTEMPTS {
        let (score, of_1000) = run(attempt);
        assert_eq!(score.wrong, Vec::<String>::new(), "{what}: wrong and not marked");
        if score.is_good(of_1000) {
            return;
        }
        said.push((score, of_1000));
    }
    panic!(
        "{what}: too few names are right in each of {ATTEMPTS} runs (which, and of 1000 how many must be): {said:?}"
    );
}

/// One run under strace: the names of its opens, and its log. All that is recorded is what strace
/// saw.
fn under_strace(
    prepared: &Prepared,
    number: usize,
    least: usize,
    rates: Rates,
    names: &[&str],
) -> (Result, Bags) {
    let (place, program) = prepared.next(number);
    let path = place.join("strace");
    let strace = ["strace", "-f", "-y", "-o", path.to_str().expect("text")];
    let program = strace.into_iter().chain(program.iter().map(String::as_str));
    let program: Vec<&str> = program.collect();
    let (finished, recording) = record(&place.join("trace"), names, &program);
    finished.success();
    recording.assert_whole();
    let log = Log::read(&path).expect("strace wrote a log");
    let found = compare_counted(&log, &recording.operations(), &default_calls());
    assert_eq!(found.differences, Vec::<String>::new(), "{}", prepared.workload.name);
    assert!(found.opens.opens >= least, "{:?}", found.opens);
    assert!(found.held > 0, "descriptors of other calls have names, too");
    let reported = recording.number("unverified") + recording.number("unnamed");
    assert!(found.opens.unknown as u64 <= reported, "{:?}, {reported} are reported", found.opens);
    (judged(found.opens, &recording, rates), Bags::of_log(&log, &place))
}

/// One run with nothing that slows it down.
fn free(prepared: &Prepared, number: usize, truth: &Bags, rates: Rates, names: &[&str]) -> Result {
    let (place, program) = prepared.next(number);
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let (finished, recording) = record(&place.join("trace"), names, &program);
    finished.success();
    recording.assert_whole();
    let score = truth.score(&Bags::of_operations(&recording.operations(), &place));
    judged(score, &recording, rates)
}

/// Of 1000 names so many must be right: of readers fewer than of probes, which cannot be late. What
/// failed opened no file, so fanotify has not reported it.
fn judged(score: Score, recording: &Recording, rates: Rates) -> Result {
    match recording.info["names"].as_str() {
        Some("reader") => (score, rates.readers),
        Some("fanotify") => (score.of_files(), MOST_OF_LISTENERS),
        _ => (score, rates.probes),
    }
}

/// Least number of right names of 1000.
const MOST: usize = 999;

/// Least numbers of right names of 1000, by their source.
#[derive(Clone, Copy, Debug)]
struct Rates {
    readers: usize,
    probes: usize,
}

/// Rates of programs without difficulties.
const PLAIN: Rates = Rates { readers: MOST, probes: MOST };

/// Options with which probes record the paths of opens, and fanotify the files.
const COMPOSED: [&str; 2] = ["--names", "uprobe+fanotify"];

/// The best that this kernel has for these programs. `auto` prefers readers to probes in libraries,
/// which do not see every program.
fn best_names() -> Vec<&'static str> {
    let has = |file: &str| Path::new("/sys/kernel/tracing").join(file).exists();
    if !has("kprobe_events") && has("uprobe_events") {
        return COMPOSED.to_vec();
    }
    Vec::new()
}

/// Test of the readers where many programs are started that live for a millisecond: a CPU that has
/// nothing to do takes them over, now and then before the reader has looked, which is noticed, and
/// then they have no name. Seen: 998 to 1000, on two CPUs.
const SHORT_LIVED: Rates = Rates { readers: 995, probes: MOST };

/// Python 3.13 and later open `/proc/sys/vm/overcommit_memory` through `syscall()`, which has no
/// probe: one open of some 360 has no name.
const PYTHON: Rates = Rates { readers: 995, probes: 995 };

/// Of fanotify, whose listener takes its turn like every thread: on a busy machine several opens of
/// a thread wait for it, and if one of them has no event it is not known which. Seen: 940 to 1000
/// on two CPUs, and 20 where others keep them busy: how many are right is in docs/names-table.md;
/// this test checks that none is wrong.
const MOST_OF_LISTENERS: usize = 20;

/// Options that select them.
const LISTENER: [&str; 2] = ["--names", "fanotify"];

/// Options with which probes record the paths of all calls.
const PROBES: [&str; 2] = ["--names", "uprobe"];

/// At least so many opens, all as in strace; then the same program alone; with the best names,
/// and with fanotify's.
fn check(name: &str, least: usize, rates: Rates) {
    check_with(name, least, rates, &best_names());
    check_with(name, least, rates, &LISTENER);
}

fn check_with(name: &str, least: usize, rates: Rates, names: &[&str]) {
    let workload = Workload::of(name);
    if !can_record(&[Need::Strace]) || !require_all(workload.needs) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("names");
    let prepared = workload.prepare(dir.path());
    let mut truth = Bags::default();
    good_soon(&format!("{name} under strace"), |attempt| {
        let (result, bags) = under_strace(&prepared, attempt, least, rates, names);
        truth = bags;
        result
    });
    let alone = |attempt| free(&prepared, ATTEMPTS + attempt, &truth, rates, names);
    good_soon(&format!("{name} alone"), alone);
}

/// Fails if the name of one of many files, opened and closed at once, is that of another; if
/// directories have none.
#[test]
fn tar_of_documents() {
    check("tar", 100, PLAIN);
}

/// Fails if lock files, renames, temporary names, or descriptors that went to a child have wrong
/// names.
#[test]
fn git_clone() {
    check("git clone", 300, SHORT_LIVED);
    if best_names() == COMPOSED {
        check_with("git clone", 300, SHORT_LIVED, &PROBES);
    }
}

/// Fails if the opens of a dynamic loader are not all there, each of 60 short processes anew.
#[test]
fn find_with_heads() {
    check("find -exec head", 300, SHORT_LIVED);
}

/// Fails if a path is reported that was put where the argument had stood, before that was read:
/// nothing that is recorded shows it. A thread that another CPU takes over before its argument is
/// read has no name, and of such opens there are many here.
#[test]
fn find_with_searching_heads() {
    check("the same, searching", 1000, Rates { readers: 980, ..SHORT_LIVED });
}

/// Fails if paths that lead nowhere have wrong names (most of an import are), or if descriptors
/// that end with an exec, or do not, are taken for one another.
#[test]
fn python_imports() {
    check("python3 imports", 200, PYTHON);
}

/// Fails if temporary files, or headers that are looked for in many places, have wrong names.
#[test]
fn compile_with_gcc() {
    check("gcc", 500, SHORT_LIVED);
}

/// Fails if an open among those of other threads, which use the same numbers at the same time, has
/// the name of another.
#[test]
fn storm_of_opens_is_named() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("names");
    let prepared = Workload::of("storm of 4 threads").prepare(dir.path());
    good_soon("storm alone", |attempt| storm(&prepared, attempt, &best_names()));
    good_soon("storm and a listener", |attempt| storm(&prepared, ATTEMPTS + attempt, &LISTENER));
}

/// Every open, read and close of the storm against what the program read from the file.
fn storm(prepared: &Prepared, number: usize, names: &[&str]) -> Result {
    let (place, program) = prepared.next(number);
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let (finished, recording) = record(&place.join("trace"), names, &program);
    finished.success();
    recording.assert_whole();
    let mut truth = read_storm(&place.join("log"));
    let mut score = Score::default();
    let mut current: BTreeMap<i32, (i32, String)> = BTreeMap::new();
    let operations = recording.operations();
    let storms = operations.iter().filter(|it| truth.contains_key(&it.tid)).collect::<Vec<_>>();
    for operation in storms {
        if is_open(&operation.name) {
            let opens = truth.get_mut(&operation.tid).expect("filtered");
            let (fd, path) = opens.pop_front().expect("as many opens as the program made");
            assert_eq!(operation.result, Some(i64::from(fd)), "{path}: {operation:?}");
            score.opens += 1;
            judge(&mut score, operation, &path);
            current.insert(operation.tid, (fd, path));
        } else if let Some((fd, path)) = current.get(&operation.tid)
            && operation.fd == Some(*fd)
        {
            // The open and its descriptor have the same name.
            let mut of_descriptor = Score::default();
            judge(&mut of_descriptor, operation, path);
            score.wrong.extend(of_descriptor.wrong);
        }
    }
    assert!(truth.values().all(VecDeque::is_empty), "opens that are not recorded: {truth:?}");
    assert_eq!(score.opens, STORM_THREADS * STORM_FILES);
    judged(score, &recording, PLAIN)
}

/// Fails if a name is reported that is another open's, where many are unknown or appear only once:
/// of files that are opened again and again, of devices, of paths without a file, of what is
/// renamed or removed at once.
#[test]
fn mix_of_opens_is_named() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("mix");
    let program = compile("mixed_opens.c", dir.path());
    let mut right = 0;
    for (number, threads) in [1, 2, 3].into_iter().enumerate() {
        for names in [best_names(), LISTENER.to_vec()] {
            let place = dir.path().join(format!("{number}-{}", names.join("")));
            fs::create_dir(&place).expect("make it");
            let score = mix(&program, &place, threads, &names);
            assert_eq!(score.wrong, Vec::<String>::new(), "{threads} threads, {names:?}");
            right += if names == LISTENER { score.right } else { 0 };
        }
    }
    assert!(right > 100, "of the listener's names {right} are right");
}

/// Calls of each thread of the mix.
const MIX_CALLS: usize = 1009;

fn mix(program: &str, place: &Path, threads: usize, names: &[&str]) -> Score {
    let log = place.join("log");
    let [threads, each] = [threads, MIX_CALLS].map(|it| it.to_string());
    let words = [place.to_str().expect("text"), &threads, &each, log.to_str().expect("text")];
    let program: Vec<&str> = std::iter::once(program).chain(words).collect();
    let (finished, recording) = record(&place.join("trace"), names, &program);
    finished.success();
    recording.assert_whole();
    let mut truth = read_storm(&log);
    let mut score = Score::default();
    for operation in recording.operations().iter().filter(|it| is_open(&it.name)) {
        let Some(opens) = truth.get_mut(&operation.tid) else { continue };
        let Some((result, path)) = opens.pop_front() else { continue };
        assert_eq!(operation.result, Some(i64::from(result)), "{path}: {operation:?}");
        score.opens += 1;
        judge(&mut score, operation, &path);
    }
    assert!(truth.values().all(VecDeque::is_empty), "opens that are not recorded: {truth:?}");
    score
}

/// The paths of the storm are from the root and lead through no link: what was given is what it
/// became.
fn judge(score: &mut Score, ours: &JsonOperation, path: &str) {
    let is_reported = !matches!(ours.path_source.as_deref(), None | Some("unverified"));
    match is_reported {
        true if ours.path.as_deref() == Some(path) => score.right += 1,
        true => score.wrong.push(format!("path {path:?}, ours {ours:?}")),
        false => score.unknown += 1,
    }
}

/// Descriptor and file of each open of a thread, in order.
fn read_storm(path: &Path) -> BTreeMap<i32, VecDeque<(i32, String)>> {
    let mut threads: BTreeMap<i32, VecDeque<(i32, String)>> = BTreeMap::new();
    for line in fs::read_to_string(path).expect("the program wrote it").lines() {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let [tid, fd, path] = words.as_slice() else { panic!("{line}") };
        let number = |it: &str| it.parse::<i32>().expect("a number");
        threads.entry(number(tid)).or_default().push_back((number(fd), (*path).to_owned()));
    }
    threads
}

/// Fails if a path is derived from a directory that was removed, moved with its mount, or changed
/// by another thread meanwhile; if a file below an unknown directory keeps a name that a rename may
/// have taken, one in a mount that is moved or taken away its old path, or the file of a descriptor
/// of another process is called, or placed, anyhow.
#[test]
fn path_below_a_changed_directory_is_uncertain() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("elsewhere");
    let program = compile("elsewhere.c", dir.path());
    for attempt in 0..ATTEMPTS {
        let place = dir.path().join(attempt.to_string());
        fs::create_dir(&place).expect("make it");
        let words = [program.as_str(), place.to_str().expect("text")];
        let recorded = |output: &str, options: &[&str]| {
            let output = dir.path().join(format!("{output}{attempt}"));
            let (finished, recording) = record(&output, options, &words);
            finished.success();
            recording.assert_whole();
            recording.operations()
        };
        check_elsewhere(&recorded("any", &[]));
        fs::remove_dir_all(&place).and_then(|()| fs::create_dir(&place)).expect("make it again");
        // Files of a mount namespace that the program makes have no name from fanotify.
        let operations = recorded("reader", &["--names", "reader"]);
        check_elsewhere(&operations);
        if are_certain(&operations, &fs::canonicalize(&place).expect("it is there")) {
            return;
        }
    }
    panic!("on a busy machine a name may be read too late, but not each time");
}

/// The calls that were given this path, or have a file whose name ends so.
fn named<'a>(operations: &'a [JsonOperation], name: &str) -> Vec<&'a JsonOperation> {
    let ends = |it: &&JsonOperation| it.path.as_ref().is_some_and(|it| it.ends_with(name));
    operations.iter().filter(ends).collect()
}

/// The write of so many bytes.
#[track_caller]
fn write_of(operations: &[JsonOperation], bytes: i64) -> &JsonOperation {
    let mut found = operations.iter().filter(|it| it.name == "write" && it.result == Some(bytes));
    found.next().expect("it is recorded")
}

/// Checks one run.
#[track_caller]
fn check_elsewhere(operations: &[JsonOperation]) {
    for name in ["removed", "moved", "fifo"] {
        let known = |it: &&&JsonOperation| it.result.is_some_and(|it| it < 0);
        for it in named(operations, name).iter().filter(known) {
            assert_eq!(it.path_absolute, None, "{it:?}");
        }
    }
    // Behind the rename, the move and the end of the mount.
    for it in [2, 19, 23].map(|it| write_of(operations, it)) {
        let is_certain = it.path.is_some() && it.path_source.as_deref() != Some("unverified");
        assert!(!is_certain, "{it:?}");
    }
    let (taken, own) = (write_of(operations, 11), write_of(operations, 13));
    assert_eq!((&taken.path, taken.offset, own.offset), (&None, None, None), "{taken:?} {own:?}");
}

/// True if what is certain was read in time; it is right then.
#[track_caller]
fn are_certain(operations: &[JsonOperation], place: &Path) -> bool {
    let is_read =
        |it: &JsonOperation| !matches!(it.path_source.as_deref(), None | Some("unverified"));
    let rows = [("w", "certain-1"), ("d1/../d2", "certain-2"), ("from", "certain-3")];
    let paths = rows.iter().all(|(directory, name)| {
        let expected = place.join(directory).join(name);
        let found = named(operations, name);
        found
            .iter()
            .any(|it| is_read(it) && it.path_absolute.as_deref().map(Path::new) == Some(&expected))
    });
    let first = write_of(operations, 17);
    let reported = first.path.as_deref().map(Path::new);
    paths && is_read(first) && reported == Some(&place.join("from/file")) && first.offset == Some(0)
}

/// Fails if the path of a rename or a removal is missed on busy CPUs, or if `auto` takes another
/// source for the whole machine than for one program.
#[test]
fn renames_and_removals_on_busy_cpus_are_named() {
    if !can_record(&[Need::Uprobes, Need::Program("python3")]) {
        return;
    }
    let _alone = alone();
    let _hogs = CpuHog::competing(4);
    let script = "import os, sys
os.chdir(sys.argv[1])
for number in range(1000):
    open(f'a{number}', 'w').close()
    os.rename(f'a{number}', f'b{number}')
    os.unlink(f'b{number}')";
    // Probes of the whole machine are not used beside processes with other mounts.
    let all: &[&[&str]] = &[&[], &["-a"]];
    let scopes = if require(Need::FirstMounts) { all } else { &all[..1] };
    for options in scopes {
        let dir = scratch_dir("removals");
        let place = dir.path().to_str().expect("text");
        let (finished, recording) = record(dir.path(), options, &["python3", "-c", script, place]);
        finished.success();
        recording.assert_whole();
        if best_names() == COMPOSED {
            assert_eq!(recording.info["names"], "uprobe+fanotify", "{}", recording.text_info());
        }
        let operations = recording.operations();
        let named = |call: &str, letter: u8| {
            let is_named = |operation: &&JsonOperation| {
                let path = operation.path().unwrap_or_default();
                path.rsplit(|byte| *byte == b'/')
                    .next()
                    .is_some_and(|file| file.first() == Some(&letter))
            };
            operations.iter().filter(|operation| operation.name == call).filter(is_named).count()
        };
        assert_eq!([named("rename", b'a'), named("unlink", b'b')], [1000, 1000]);
    }
}
