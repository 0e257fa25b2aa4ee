//! `pattern` calls the work of fio what it is, whichever way it is done; bytes and counts are those
//! of fio.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::driver::recording::{Recording, can_record, record};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::scratch_dir;
use serde_json::Value;

/// Knowledge of the file offsets of a test case's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OffsetsKnown {
    /// The offsets of all operations are known.
    Always,
    /// Some file systems report the offsets of operations past the page cache.
    Perhaps,
    /// No offset is known: the requests must show the pattern.
    Never,
}

/// A way in which fio reads and writes.
struct Engine {
    name: &'static str,
    options: &'static [&'static str],
    /// Operations in flight at most.
    depth: u64,
    offsets: OffsetsKnown,
}

const fn plain(name: &'static str) -> Engine {
    Engine { name, options: &[], depth: 1, offsets: OffsetsKnown::Always }
}

/// A new engine is a new row.
const ENGINES: [Engine; 8] = [
    plain("sync"),
    plain("psync"),
    plain("vsync"),
    plain("pvsync"),
    Engine { depth: 16, ..plain("posixaio") },
    Engine { depth: 16, ..plain("libaio") },
    Engine { depth: 16, offsets: OffsetsKnown::Perhaps, ..plain("io_uring") },
    // A thread of the kernel's begins them: not even the file system gives their owner.
    Engine {
        depth: 16,
        offsets: OffsetsKnown::Never,
        options: &["--sqthread_poll=1"],
        ..plain("io_uring")
    },
];

/// Patterns of each engine: 56 cases, and those of the second io_uring.
const CASES: usize = 8;

/// Bytes of a block: direct I/O takes no other ones. Blocks of a file: a prime.
const BLOCK_BYTES: u64 = 4096;
const BLOCKS: u64 = 211;

const DEVICE_BYTES: u64 = 64 << 20;

/// On a busy machine a name, or what `io_submit` is given, may be read too late, which is reported,
/// but not each time.
const RUNS_MAX: usize = 5;

/// One thing that fio does, to a file of its own.
#[derive(Clone, Copy, Debug)]
struct Case {
    is_random: bool,
    is_write: bool,
    is_direct: bool,
}

impl Case {
    fn all() -> [Self; CASES] {
        let bit = |number: usize, bit: usize| number >> bit & 1 == 1;
        std::array::from_fn(|it| Self {
            is_random: bit(it, 0),
            is_write: bit(it, 1),
            is_direct: bit(it, 2),
        })
    }

    fn name(self) -> String {
        let cache = if self.is_direct { "direct" } else { "cached" };
        format!("{}-{cache}", self.rw())
    }

    fn rw(self) -> &'static str {
        match (self.is_random, self.is_write) {
            (false, false) => "read",
            (false, true) => "write",
            (true, false) => "randread",
            (true, true) => "randwrite",
        }
    }

    fn direction(self) -> &'static str {
        if self.is_write { "write" } else { "read" }
    }

    fn class(self) -> &'static str {
        if self.is_random { "random" } else { "consecutive" }
    }
}

/// Operations and bytes that fio counts.
type Counted = BTreeMap<String, [u64; 2]>;

/// All that an engine does, one after the other, in a process for each: what was recorded, and what
/// fio says.
#[track_caller]
fn fio(engine: &Engine, place: &Path, run: usize, dir: &Path) -> (Recording, Counted) {
    let trace = dir.join(format!("{}{}-{run}", engine.name, engine.options.concat()));
    let global = format!(
        "--name=global --output-format=json --disk_util=0 --randrepeat=1 --bs={BLOCK_BYTES} \
         --size={} --ioengine={} --iodepth={}",
        BLOCK_BYTES * BLOCKS,
        engine.name,
        engine.depth
    );
    let mut program: Vec<String> = vec!["fio".into()];
    program.extend(global.split_whitespace().map(str::to_owned));
    program.extend(engine.options.iter().map(|&it| it.to_owned()));
    for case in Case::all() {
        program.push(format!("--name={}", case.name()));
        program.push("--stonewall".into());
        program.push(format!("--filename={}", place.join(case.name()).display()));
        program.push(format!("--rw={}", case.rw()));
        program.push(format!("--direct={}", u8::from(case.is_direct)));
    }
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let (finished, recording) = record(&trace, &[], &program);
    let said: Value = serde_json::from_str(&finished.success().stdout()).expect("JSON");
    recording.assert_whole();
    let jobs = said["jobs"].as_array().expect("jobs").iter().zip(Case::all());
    let counted = jobs.map(|(job, case)| {
        assert_eq!(job["jobname"], case.name());
        let side = &job[case.direction()];
        (case.name(), ["total_ios", "io_bytes"].map(|it| side[it].as_u64().expect("a number")))
    });
    let counted: Counted = counted.collect();
    assert_eq!(counted.len(), CASES);
    (recording, counted)
}

/// The rows of a file in a table, in this direction.
fn rows<'a>(report: &'a Value, table: &str, file: &Path, direction: &str) -> Vec<&'a Value> {
    let rows = report[table].as_array().expect("a table").iter();
    rows.filter(|it| it["path"].as_str().map(Path::new) == Some(file))
        .filter(|it| it["direction"] == direction && it["bytes"] != 0)
        .collect()
}

#[track_caller]
fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"))
}

/// True if everything that was read beside the program was read in time.
fn is_in_time(recording: &Recording, report: &Value, place: &Path) -> bool {
    let is_there = |case: Case| {
        let file = place.join(case.name());
        let rows = rows(report, "streams", &file, case.direction());
        rows.len() == 1 && rows[0]["doubtful_names"] == 0
    };
    recording.number("async_unread") == 0 && Case::all().into_iter().all(is_there)
}

#[track_caller]
fn check_stream(engine: &Engine, case: Case, row: &Value, [count, bytes]: [u64; 2], unread: u64) {
    let what = format!("{} {}: {row}", engine.name, case.name());
    assert_eq!((count, bytes), (BLOCKS, BLOCKS * BLOCK_BYTES), "{what}");
    let (found, unknown) = (number(row, "count"), number(row, "unknown"));
    let missing = count.checked_sub(found).expect("not more than fio counts");
    assert!(missing <= unread, "{what}: {missing} are missing, {unread} reported");
    assert_eq!(number(row, "bytes"), found * BLOCK_BYTES, "{what}");
    for key in ["size_p50_bytes", "size_max_bytes", "size_common_bytes"] {
        assert_eq!(number(row, key), BLOCK_BYTES, "{what}");
    }
    assert_eq!(row["direct"], case.is_direct, "{what}");
    let depth = number(row, "depth_max");
    assert!((1..=engine.depth).contains(&depth), "{what}");
    let by = row["decided_by"].as_str();
    match (engine.offsets, case.is_direct) {
        (OffsetsKnown::Always, _) => {
            assert_eq!((unknown, by), (0, Some("vfs")), "{what}");
            assert_eq!(number(row, "alignment_bytes"), BLOCK_BYTES, "{what}");
        }
        (OffsetsKnown::Perhaps, true) => assert!(by.is_some(), "{what}"),
        (OffsetsKnown::Never, true) => assert_eq!((unknown, by), (found, Some("block")), "{what}"),
        (_, false) => assert_eq!((unknown, by), (found, None), "{what}"),
    }
    // A missing operation is a jump, or two.
    if missing * 40 <= count {
        assert_eq!(row["class"], if by.is_some() { case.class() } else { "unknown" }, "{what}");
    }
}

#[track_caller]
fn check(engine: &Engine, recording: &Recording, report: &Value, counted: &Counted, place: &Path) {
    let unread = recording.number("async_unread") + recording.number("async_unseen");
    for case in Case::all() {
        let file = place.join(case.name());
        let counted = counted[&case.name()];
        let streams = rows(report, "streams", &file, case.direction());
        assert_eq!(streams.len(), 1, "{} {}: {streams:?}", engine.name, case.name());
        check_stream(engine, case, streams[0], counted, unread);
        let other = if case.is_write { "read" } else { "write" };
        assert!(rows(report, "streams", &file, other).is_empty(), "{}", case.name());
        if case.is_direct {
            let pieces = rows(report, "device_files", &file, case.direction());
            assert_eq!(pieces.len(), 1, "{} {}: {pieces:?}", engine.name, case.name());
            assert_eq!(pieces[0]["class"], case.class(), "{}: {}", engine.name, pieces[0]);
            assert_eq!(number(pieces[0], "bytes"), counted[1], "{}: {}", engine.name, pieces[0]);
        }
    }
}

/// Fails if one of these ways to read or write is called anything but what it is, or if one byte or
/// operation of it is missing that is not reported as missing.
#[test]
fn access_patterns_of_fio_are_recognised() {
    if !can_record(&[Need::Fio, Need::Loop]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("pattern");
    let mounted = Mounted::new(dir.path(), "ext4", DEVICE_BYTES);
    let place: PathBuf = fs::canonicalize(mounted.path()).expect("it is there");
    for case in Case::all() {
        let length = usize::try_from(BLOCK_BYTES * BLOCKS).expect("small");
        fs::write(place.join(case.name()), vec![7; length]).expect("written");
    }
    nix::unistd::sync();
    let mut cases = 0;
    for engine in &ENGINES {
        let recorded = |run| {
            let (recording, counted) = fio(engine, &place, run, dir.path());
            let report = recording.report("pattern");
            (recording, report, counted)
        };
        let in_time = (1..RUNS_MAX).map(recorded).find(|it| is_in_time(&it.0, &it.1, &place));
        let (recording, report, counted) = in_time.unwrap_or_else(|| recorded(RUNS_MAX));
        check(engine, &recording, &report, &counted, &place);
        cases += counted.len();
    }
    assert_eq!(cases, 56 + CASES);
}
