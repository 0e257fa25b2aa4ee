//! A recording holds every call of a launched program once, with its name, result and place in the
//! file. The witnesses are the program itself, strace in the same run, and the data that it left.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use crate::support::driver::json::JsonOperation;
use crate::support::driver::recording::{Recording, Source, can_record, compile, default_calls};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::oracle::offset_oracle::{self, OffsetDemand};
use crate::support::oracle::strace::Log;
use crate::support::oracle::strace::compare::compare_counted;
use crate::support::scratch_dir;

for_each_source! {
    twenty_three_writes_of_4099_bytes,
    two_million_reads_and_writes,
    tar_into_a_file_matches_strace,
    tar_through_a_pipe_matches_strace,
    tar_without_strace_has_the_same_names,
    offsets_are_right_or_unknown,
    partial_call_set_gives_no_wrong_names,
    all_children_are_recorded,
    audit_of_a_copy_is_equal,
    blocking_open_is_one_operation,
}

/// `dd if=IN of=OUT bs=BYTES count=COUNT`, recorded.
fn dd(source: Source, output: &Path, from: &Path, to: &Path, bytes: u64, count: u64) -> Recording {
    let arguments = [
        format!("if={}", from.display()),
        format!("of={}", to.display()),
        format!("bs={bytes}"),
        format!("count={count}"),
    ];
    let program: Vec<&str> =
        std::iter::once("dd").chain(arguments.iter().map(String::as_str)).collect();
    let (finished, recording) = source.record(output, &[], &program);
    finished.success();
    recording.assert_whole();
    recording
}

fn on_file(operations: &[JsonOperation], name: &str, path: &Path) -> Vec<JsonOperation> {
    let path = path.to_str();
    operations.iter().filter(|it| it.name == name && it.path.as_deref() == path).cloned().collect()
}

/// Fails if a record is lost, counted twice, or put on another file; if a size is wrong; if the
/// books do not balance.
fn twenty_three_writes_of_4099_bytes(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("record");
    let (input, output) = (dir.path().join("in"), dir.path().join("out"));
    fs::write(&input, vec![7; 23 * 4099]).expect("write the input");
    let recording = dd(source, &dir.path().join("trace"), &input, &output, 4099, 23);
    assert!(recording.anomalies().is_empty(), "{:?}", recording.anomalies());
    let operations = recording.operations();
    for (name, path) in [("read", &input), ("write", &output)] {
        let found = on_file(&operations, name, path);
        assert_eq!(found.len(), 23, "{name} {found:#?}");
        for (operation, number) in found.iter().zip(0_u64..) {
            assert_eq!((operation.result, operation.bytes_requested), (Some(4099), Some(4099)));
            assert_eq!((operation.offset, operation.errno.as_deref()), (Some(number * 4099), None));
            let source = operation.path_source.as_deref();
            assert!(matches!(source, Some("fd-link" | "fanotify")), "{operation:?}");
        }
        assert_eq!(found.iter().filter_map(|it| it.result).sum::<i64>(), 94_277);
    }
    assert_eq!(recording.info["audit"]["agrees"], true, "{:#}", recording.info);
    recording.assert_archive(&dir.path().join("archive"));
    // The operations of the accounting are those that are printed.
    assert_eq!(recording.number("operations"), operations.len() as u64);
}

/// Fails if anything is lost at the highest rate of calls that a program can make.
fn two_million_reads_and_writes(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    const COUNT: u64 = 2_000_000;
    let dir = scratch_dir("record");
    let input = dir.path().join("in");
    // A sparse file: its reads are as fast as those of a cached one, and it costs no disk.
    fs::File::create(&input).and_then(|it| it.set_len(COUNT * 512)).expect("make the input");
    let recording =
        dd(source, &dir.path().join("trace"), &input, Path::new("/dev/null"), 512, COUNT);
    let text = recording.script(&["--json"]);
    let count = |name: &str, path: &str| {
        let parts = [format!("\"name\":\"{name}\""), format!("\"path\":\"{path}\"")];
        let all = |line: &&str| parts.iter().all(|part| line.contains(part.as_str()));
        text.lines().filter(all).filter(|it| it.contains("\"result\":512,")).count() as u64
    };
    let input = input.to_str().expect("a path that is text");
    assert_eq!((count("read", input), count("write", "/dev/null")), (COUNT, COUNT));
    assert_eq!(recording.info["anomalies"], serde_json::json!({}));
    let bytes_each = recording.number("bytes_on_disk") as f64 / (2 * COUNT) as f64;
    assert!(bytes_each <= 8.0, "{bytes_each} bytes for each operation");
}

/// Records `script` under strace, and compares the two call by call.
fn compared_with_strace(source: Source, dir: &Path, script: &str) -> Recording {
    // Other tests load the machine, and a thread that an idle CPU takes over before the reader runs
    // has a late name: that is reported, and does not happen again and again.
    let mut late = 0;
    for attempt in 0..4 {
        let (recording, late_names) = compared_once(source, &dir.join(attempt.to_string()), script);
        if late_names == 0 {
            return recording;
        }
        late = late_names;
    }
    panic!("in each of 4 runs names were late, {late} in the last");
}

/// Records once under strace. How many successful opens are not named and verified; all else is
/// call by call the same.
fn compared_once(source: Source, dir: &Path, script: &str) -> (Recording, u64) {
    fs::create_dir(dir).expect("make it");
    let log = dir.join("strace");
    let log_text = log.to_str().expect("text");
    let program = ["strace", "-f", "-y", "-o", log_text, "sh", "-c", script];
    let (finished, recording) = source.record(&dir.join("trace"), &[], &program);
    finished.success();
    recording.assert_whole();
    let log = Log::read(&log).expect("strace wrote a log");
    let operations = recording.operations();
    let found = compare_counted(&log, &operations, &default_calls());
    assert_eq!(found.differences, Vec::<String>::new());
    let opens = log.all().filter(|(_, call)| {
        matches!(call.name.as_str(), "open" | "openat" | "creat")
            && call.ret.is_some_and(|it| it >= 0)
    });
    let late = (opens.count() - found.paths) as u64;
    let reported = recording.number("unverified") + recording.number("unnamed");
    assert!(late <= reported, "{late} opens are not named and verified, {reported} are reported");
    (recording, late)
}

/// A tree of files, some of them large, some with odd names.
fn make_tree(dir: &Path) {
    for number in 0..300 {
        let place = dir.join(format!("directory {}", number % 7)).join(format!("{}", number % 3));
        fs::create_dir_all(&place).expect("make a directory");
        let content = vec![b'x'; (number * number) % 70_000];
        fs::write(place.join(format!("file \"{number}\"\n\\é")), content).expect("make a file");
    }
}

/// Fails if a call is missing, made up, in the wrong order, on the wrong descriptor or of the wrong
/// result; if an open is not named, or not as strace names it.
fn tar_into_a_file_matches_strace(source: Source) {
    if !can_record(&[Need::Strace, Need::Program("tar")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("record");
    let tree = dir.path().join("tree");
    make_tree(&tree);
    let archive = dir.path().join("archive.tar");
    let script = format!("exec tar cf {} {}", archive.display(), tree.display());
    let recording = compared_with_strace(source, dir.path(), &script);
    let written = on_file(&recording.operations(), "write", &archive);
    let bytes: i64 = written.iter().filter_map(|it| it.result).sum();
    assert_eq!(bytes, fs::metadata(&archive).expect("tar wrote it").len().cast_signed());
    assert!(written.iter().all(|it| it.offset.is_some()), "no other process moves its position");
}

/// As above, for several processes and a pipe.
fn tar_through_a_pipe_matches_strace(source: Source) {
    if !can_record(&[Need::Strace, Need::Program("tar")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("record");
    let tree = dir.path().join("tree");
    make_tree(&tree);
    let archive = dir.path().join("archive.tar");
    let script = format!("tar cf - {} | cat > {}", tree.display(), archive.display());
    let recording = compared_with_strace(source, dir.path(), &script);
    let operations = recording.operations();
    let bytes = |comm: &str, name: &str, fd: i32| {
        let of = |it: &&JsonOperation| it.comm.as_deref() == Some(comm) && it.name == name;
        operations.iter().filter(of).filter(|it| it.fd == Some(fd)).filter_map(|it| it.result).sum()
    };
    let expected = fs::metadata(&archive).expect("cat wrote it").len().cast_signed();
    let moved: [i64; 3] =
        [bytes("tar", "write", 1), bytes("cat", "read", 0), bytes("cat", "write", 1)];
    assert_eq!(moved, [expected; 3]);
    assert_eq!(
        on_file(&operations, "write", &archive).len(),
        operations
            .iter()
            .filter(|it| { it.comm.as_deref() == Some("cat") && it.name == "write" })
            .count(),
        "what the shell opened for cat has its name there"
    );
}

/// In a free run, nothing slows the program down: fails if a name comes from a file that was opened
/// later under the same number, or if counts differ from what tar must do.
fn tar_without_strace_has_the_same_names(source: Source) {
    if !can_record(&[Need::Program("tar")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("record");
    let tree = dir.path().join("tree");
    make_tree(&tree);
    let archive = dir.path().join("archive.tar");
    // On a busy machine names may be read too late, but not each time.
    let missed =
        (0..3).map(|run| files_missed(source, &dir.path().join(run.to_string()), &tree, &archive));
    assert!(missed.into_iter().any(|it| it < 20), "many of 300 files have no name, each time");
}

/// Archives a tree; how many of its files were not read, as far as reported.
fn files_missed(source: Source, trace: &Path, tree: &Path, archive: &Path) -> u64 {
    let program = ["tar", "cf", archive.to_str().expect("text"), tree.to_str().expect("text")];
    let (finished, recording) = source.record(trace, &[], &program);
    finished.success();
    recording.assert_whole();
    let operations = recording.operations();
    let mut read: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    let mut uncertain = 0;
    for operation in operations.iter().filter(|it| it.name == "read") {
        // A name may be read too late, that of a directory too, which is reported.
        let is_certain = operation.path_source.as_deref() != Some("unverified");
        let path = operation.path().filter(|it| is_certain && it.starts_with(b"/"));
        let bytes = operation.result.and_then(|it| u64::try_from(it).ok()).unwrap_or(0);
        match path {
            Some(path) => *read.entry(path).or_default() += bytes,
            None => uncertain += u64::from(bytes > 0),
        }
    }
    let (mut files, mut missed) = (0, 0);
    for place in fs::read_dir(tree)
        .expect("the tree")
        .flatten()
        .flat_map(|it| fs::read_dir(it.path()))
        .flatten()
        .flatten()
    {
        for file in fs::read_dir(place.path()).expect("a directory").flatten() {
            let length = file.metadata().expect("it is there").len();
            let found = read.get(file.path().into_os_string().as_encoded_bytes()).copied();
            assert!(found.is_none_or(|it| it == length), "{}", file.path().display());
            missed += u64::from(found.is_none() && length > 0);
            files += 1;
        }
    }
    assert_eq!(files, 300);
    assert!(missed <= uncertain, "{missed} files were not read, {uncertain} reads of no file");
    let bytes: i64 = on_file(&operations, "write", archive).iter().filter_map(|it| it.result).sum();
    assert_eq!(bytes, fs::metadata(archive).expect("tar wrote it").len().cast_signed());
    assert_eq!(recording.info["audit"]["agrees"], true, "{:#}", recording.info["audit"]);
    missed
}

/// Fails if an offset is reported that is not where the call worked, or is not reported where
/// nothing speaks against it: duplicates, children, threads, appends, positions moved inside the
/// kernel.
fn offsets_are_right_or_unknown(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("record");
    offset_oracle::make_words(dir.path());
    let program = compile("offsets.c", dir.path());
    let place = dir.path().to_str().expect("a path that is text");
    let (finished, recording) =
        source.record(&dir.path().join("trace"), &[], &[program.as_str(), "launch", place]);
    finished.success();
    recording.assert_whole();
    let known =
        offset_oracle::compare(dir.path(), &recording.operations(), OffsetDemand::WhereItMust);
    recording.assert_archive(&dir.path().join("archive"));
    // Races leave as much unknown as the scheduler likes, but never all: what did not overlap is
    // known.
    assert!(known.needed > 2000 && known.known > known.needed, "{known:?}");
}

/// Fails if names and offsets are reported that were right before a call that is not recorded: dd
/// opens its files, puts them on 0 and 1, and seeks; of these only the opens are seen here.
fn partial_call_set_gives_no_wrong_names(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("record");
    offset_oracle::make_words(dir.path());
    let (input, output) = (dir.path().join("data.words"), dir.path().join("out"));
    let arguments = [format!("if={}", input.display()), format!("of={}", output.display())];
    let [from, to] = arguments.each_ref().map(String::as_str);
    let program = ["dd", from, to, "bs=8", "skip=100", "count=3"];
    let options = ["-e", "openat,read,write"];
    let (finished, recording) = source.record(&dir.path().join("trace"), &options, &program);
    finished.success();
    let operations = recording.operations();
    let copied = operations.iter().filter(|it| it.bytes_requested == Some(8));
    let copied: Vec<_> = copied.collect();
    assert_eq!(copied.len(), 6, "{copied:#?}");
    for (operation, number) in copied.into_iter().zip(0..) {
        let (path, offset) = match operation.name.as_str() {
            "read" => (&input, 800 + number / 2 * 8),
            _ => (&output, number / 2 * 8),
        };
        let doubtful =
            operation.path.is_none() || operation.path_source.as_deref() == Some("unverified");
        assert!(doubtful || operation.path.as_deref() == path.to_str(), "{operation:?}");
        assert!(operation.offset.is_none_or(|it| it == offset), "{operation:?}");
    }
}

/// A call on this file with this result. A process that is gone before its name could be read has
/// none, and that is reported.
fn is_on(operation: &JsonOperation, name: &str, path: &Path, result: i64) -> bool {
    let on = operation.path.is_none() || operation.path.as_deref() == path.to_str();
    on && operation.name == name && operation.result == Some(result)
}

/// Fails if a thread or process of the tree is missing: each of 3 × 5 processes writes its number
/// once.
fn all_children_are_recorded(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("record");
    let out = dir.path().join("out");
    // Background children of background children, some of which outlive their parents; the last one
    // ends last.
    let script = format!(
        "for i in 1 2 3; do (for j in 1 2 3 4 5; do (exec 5>>{0}; echo $i$j >&5) & done; wait) & done; wait",
        out.display()
    );
    let (finished, recording) =
        source.record(&dir.path().join("trace"), &[], &["sh", "-c", &script]);
    finished.success();
    recording.assert_whole();
    let operations = recording.operations();
    let writes: Vec<_> = operations.iter().filter(|it| is_on(it, "write", &out, 3)).collect();
    let nameless = writes.iter().filter(|it| it.path.is_none()).count() as u64;
    assert!(nameless <= recording.number("unnamed"), "{nameless} without a name");
    let pids: HashMap<i32, i64> =
        writes.iter().map(|it| (it.pid, it.result.unwrap_or(-1))).collect();
    assert_eq!((writes.len(), pids.len()), (15, 15), "{writes:#?}");
    assert!(pids.values().all(|&it| it == 3), "{pids:?}");
}

/// Fails if the audit's rules for calls that copy by themselves are not the kernel's: cp ends with
/// a `copy_file_range` that finds nothing more to copy, which the kernel does not count.
fn audit_of_a_copy_is_equal(source: Source) {
    if !can_record(&[Need::Program("cp")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("record");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::write(&from, vec![7; 94_277]).expect("a file");
    let [original, copy] = [&from, &to].map(|it| it.to_str().expect("text"));
    let (finished, recording) =
        source.record(&dir.path().join("trace"), &[], &["cp", original, copy]);
    finished.success();
    recording.assert_whole();
    assert_eq!(recording.info["audit"]["agrees"], true, "{:#}", recording.info["audit"]);
    let copies: Vec<_> =
        recording.operations().into_iter().filter(|it| it.name == "copy_file_range").collect();
    assert!(copies.iter().any(|it| it.result == Some(0)), "{copies:#?}");
    assert_eq!(fs::metadata(&to).expect("a copy").len(), 94_277);
}

/// Fails if an open that waits longer than the rounds of a recording is not whole, or has no name.
fn blocking_open_is_one_operation(source: Source) {
    if !can_record(&[Need::Program("mkfifo")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("record");
    let pipe = dir.path().join("pipe");
    let script = "mkfifo $0; (sleep 0.5; echo x >$0) & cat $0; wait";
    let program = ["sh", "-c", script, pipe.to_str().expect("text")];
    let (finished, recording) = source.record(&dir.path().join("trace"), &[], &program);
    finished.success();
    recording.assert_whole();
    assert_eq!(recording.number("orphan_exits"), 0, "{:#}", recording.info);
    let operations = recording.operations();
    let waited = operations.iter().find(|it| it.duration_ns.is_some_and(|it| it > 300_000_000));
    let waited = waited.expect("the open of cat");
    assert_eq!((waited.name.as_str(), waited.path.as_deref()), ("openat", pipe.to_str()));
}
