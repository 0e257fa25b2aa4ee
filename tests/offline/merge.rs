//! One archive of several recordings: sums, places, clocks, shared files, damage.
//!
//! The recordings are logs of the corpus with another host, rank and clock: their records are as
//! the kernel wrote them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use iotrace_perf::capture::fact::{Fact, FactsFrame, Text, facts};
use iotrace_perf::capture::format::FrameKind;
use iotrace_perf::capture::header::{End, Header, JobPlace};
use iotrace_perf::capture::reader::{Item, Reader, json};
use iotrace_perf::units::KernelTime;

use crate::support::driver::process::{Finished, run};
use crate::support::driver::recording::{BINARY, TIMEOUT, iotrace};
use crate::support::log_copy::{copy_frames, replace_header};
use crate::support::machine::requirements::{Need, require};
use crate::support::oracle::otf2_check;
use crate::support::{scratch_dir, text};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000_000_000;

/// A recording that is made of a log of the corpus.
#[derive(Clone, Copy)]
pub(crate) struct Made<'a> {
    pub(crate) log: &'a str,
    pub(crate) host: &'a str,
    pub(crate) rank: Option<u64>,
    /// Boot of the host: its wall clock less its own clock is this much larger than in the corpus.
    pub(crate) later_ns: i64,
    /// Change of the wall clock from start to end, ns.
    pub(crate) moved_ns: i64,
    pub(crate) mounts: Option<&'a str>,
    /// True for a recording of the whole machine.
    pub(crate) is_system: bool,
}

pub(crate) const DD: Made<'static> = Made {
    log: "v2/job.iocap",
    host: "alpha",
    rank: None,
    later_ns: 0,
    moved_ns: 0,
    mounts: None,
    is_system: false,
};

impl Made<'_> {
    fn change(&self, header: &mut Header) {
        header.host.hostname = self.host.to_owned();
        // Logs of the corpus are of several kernels.
        header.host.kernel_release = "6.18".to_owned();
        let wall = &mut header.clock.start_realtime_ns;
        *wall = wall.saturating_add_signed(self.later_ns);
        if self.is_system {
            header.scope.mode = "system".to_owned();
        }
        let job = JobPlace { rank: self.rank, size: Some(4), ..JobPlace::default() };
        header.job = self.rank.map(|_| job);
    }

    /// Writes the recording.
    #[track_caller]
    pub(crate) fn write(&self, dir: &Path, name: &str) -> PathBuf {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs");
        let path = dir.join(name).with_extension("iocap");
        copy_frames(&corpus.join(self.log), &path, |writer, frame, payload| {
            let time = KernelTime(frame.first_time);
            if let Some(end) = json::<End>(frame, payload, FrameKind::END) {
                let end = end.expect("an end");
                let end = End { wall_moved_ns: Some(self.moved_ns), ..end };
                writer.json(FrameKind::END, time, &end).expect("space");
                true
            } else if frame.kind == FrameKind::FACTS && self.mounts.is_some() {
                let mut changed = FactsFrame::default();
                facts(payload).for_each(|fact| changed.push(&self.with_mounts(fact)));
                writer.facts(time, &mut changed).expect("space");
                true
            } else {
                replace_header(writer, frame, payload, |header| self.change(header))
            }
        });
        path
    }

    fn with_mounts(&self, fact: Fact) -> Fact {
        match (fact, self.mounts) {
            (Fact::Text { time, which: Text::MOUNTINFO, pid, .. }, Some(mounts)) => {
                let text = mounts.as_bytes().to_vec();
                Fact::Text { time, which: Text::MOUNTINFO, pid, text }
            }
            (other, _) => other,
        }
    }
}

/// Header of a recording.
#[track_caller]
pub(crate) fn header_of(log: &Path) -> Header {
    let mut reader = Reader::new(File::open(log).expect("a file")).expect("a log");
    let first = reader.next_item().expect("memory");
    let Some(Item::Frame(frame, payload)) = first else { panic!("a damaged log") };
    json::<Header>(&frame, &payload, FrameKind::HEADER).expect("a header").expect("JSON")
}

pub(crate) fn merge(logs: &[&Path], archive: &Path, options: &[&str]) -> Finished {
    let mut arguments = vec!["merge", "-o", text(archive)];
    arguments.extend(options);
    arguments.extend(logs.iter().map(|log| text(log)));
    iotrace(&arguments)
}

/// Merges recordings, all of which are whole; returns what was said.
#[track_caller]
fn merged(logs: &[PathBuf], archive: &Path, options: &[&str]) -> String {
    let logs: Vec<&Path> = logs.iter().map(PathBuf::as_path).collect();
    merge(&logs, archive, options).success().stderr()
}

#[track_caller]
pub(crate) fn definitions(archive: &Path) -> String {
    run(Command::new("otf2-print").args(["-G", text(archive)]), TIMEOUT)
        .expect("it ends")
        .success()
        .stdout()
}

/// Times of the first and the last event of each location.
#[track_caller]
pub(crate) fn spans(archive: &Path) -> BTreeMap<u64, (u64, u64)> {
    let events = run(Command::new("otf2-print").arg(text(archive)), TIMEOUT);
    let mut spans = BTreeMap::new();
    for line in events.expect("it ends").success().stdout().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers = words.get(1).zip(words.get(2));
        let numbers = numbers.and_then(|(one, two)| Some((one.parse().ok()?, two.parse().ok()?)));
        if let Some((location, time)) = numbers {
            spans.entry(location).or_insert((time, time)).1 = time;
        }
    }
    spans
}

/// Fails if an event, a byte, a location or a process of a recording is not in the archive, or is
/// there twice: four ranks with the same process numbers on two hosts, and block requests.
#[test]
fn merged_archive_has_the_sums_of_its_recordings() {
    if !require(Need::Otf2Print) {
        return;
    }
    let dir = scratch_dir("merge");
    let rank = |rank, host| Made { host, rank: Some(rank), later_ns: 70_000_000, ..DD };
    let logs = [
        rank(0, "alpha").write(dir.path(), "r0"),
        Made { later_ns: 70_000_000 + 5, ..rank(1, "alpha") }.write(dir.path(), "r1"),
        rank(2, "beta").write(dir.path(), "r2"),
        rank(3, "beta").write(dir.path(), "r3"),
        Made { log: "v2/block-two.iocap", host: "beta", ..DD }.write(dir.path(), "disk"),
        Made { log: "v2/block-two.iocap", host: "alpha", ..DD }.write(dir.path(), "disk2"),
    ];
    let archive = dir.path().join("job.otf2");
    let said = merged(&logs, &archive, &[]);
    for part in [
        "merged 6 recordings of 2 hosts",
        "alpha: 3 recordings, ranks 0-1",
        "beta: 3 recordings, ranks 2-3",
        "have no known order",
        "a path on two hosts is two files",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }

    let whole = otf2_check::check(&archive).expect("an archive by the rules");
    let mut operations = BTreeMap::new();
    let (mut events, mut locations, mut processes) = (0, 0, 0);
    let is_process = |group: &&String| !group.ends_with(" queue");
    for (number, log) in logs.iter().enumerate() {
        let single = dir.path().join(format!("single{number}.otf2"));
        iotrace(&["convert", text(log), "-o", text(&single)]).success();
        let single = otf2_check::check(&single).expect("an archive by the rules");
        events += single.events;
        locations += single.locations.len();
        processes += single.groups.values().filter(is_process).count();
        for (key, totals) in single.operations {
            let sum: &mut [u64; 4] = operations.entry(key).or_default();
            let parts = [totals.count, totals.bytes, totals.without_result, totals.cancelled];
            sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
    }
    let found: BTreeMap<_, _> = whole
        .operations
        .iter()
        .map(|(key, of)| (key.clone(), [of.count, of.bytes, of.without_result, of.cancelled]))
        .collect();
    assert_eq!(found, operations);
    assert_eq!((whole.events, whole.locations.len()), (events, locations));
    let found = whole.groups.values().filter(is_process).count();
    assert_eq!(found, processes, "{:?}", whole.groups);
    for rank in 0..4 {
        let name = format!("rank {rank}: dd [5779]");
        let count = whole.groups.values().filter(|group| **group == name).count();
        assert_eq!(count, 1, "{name}: {:?}", whole.groups);
    }
    let definitions = definitions(&archive);
    for part in [
        "SYSTEM_TREE_NODE 1 Name: \"alpha\"",
        "SYSTEM_TREE_NODE 2 Name: \"beta\"",
        "Name: \"alpha:loop",
        "Name: \"Rank\"",
        "Name: \"Clock error bound (ns)\"",
    ] {
        assert!(definitions.split('\n').any(|line| unpadded(line).contains(part)), "{part}");
    }
}

/// A line with one space between words.
pub(crate) fn unpadded(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Fails if a clock that was ahead or behind by a known time, or that moved during the recording,
/// is not where it was within the stated bound.
#[test]
fn clocks_are_found_within_the_stated_bound() {
    if !require(Need::Otf2Print) {
        return;
    }
    let dir = scratch_dir("clock");
    // The same moments of hosts that booted at other times.
    for (number, later_ns, moved_ns) in
        [(0, 50 * MS, 0), (1, 3600 * S, 0), (2, 50 * MS, 3 * MS), (3, 40 * S, 700)]
    {
        let [later_ns, moved_ns] = [later_ns, moved_ns].map(u64::cast_signed);
        let one = DD.write(dir.path(), &format!("a{number}"));
        let other = Made { host: "beta", later_ns, moved_ns, ..DD };
        let other = other.write(dir.path(), &format!("b{number}"));
        let archive = dir.path().join(format!("job{number}.otf2"));
        let said = merged(&[one, other], &archive, &[]);
        let times: Vec<(u64, u64)> = spans(&archive).into_values().collect();
        let half = times.len() / 2;
        let bound = bound(&archive);
        let [first, last] = [times[half].0 - times[0].0, times[half].1 - times[0].1];
        let truth = [later_ns, later_ns + moved_ns].map(i64::cast_unsigned);
        for (found, range) in [(first, truth), (last, truth)] {
            let range = range[0].saturating_sub(bound)..=range[1] + bound;
            assert!(range.contains(&found), "{number}: {found} not in {range:?}\n{said}");
        }
        let expected = 2 * 10_000 + if moved_ns > 20_000 { moved_ns.cast_unsigned() } else { 0 };
        assert!((expected..expected + 1000).contains(&bound), "{number}: {bound}\n{said}");
        assert_eq!(said.contains("moved by +3.00 ms meanwhile"), number == 2, "{said}");
    }
}

/// Value of the archive's property.
#[track_caller]
pub(crate) fn bound(archive: &Path) -> u64 {
    property(archive, "IOTRACE::CLOCK_ERROR_BOUND_NS")
}

/// Number in a property of an archive.
#[track_caller]
pub(crate) fn property(archive: &Path, name: &str) -> u64 {
    let info = run(Command::new("otf2-print").args(["-I", text(archive)]), TIMEOUT);
    let info = info.expect("it ends").success().stdout();
    let after = info.split(name).nth(1);
    let after = after.unwrap_or_else(|| panic!("no {name}: {info}"));
    let digits = after.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().expect("a number")
}

/// Fails if the offset that a user knows is not added to the times of its host.
#[test]
fn known_offsets_move_their_host() {
    let dir = scratch_dir("offset");
    let logs = [DD.write(dir.path(), "a"), Made { host: "beta", ..DD }.write(dir.path(), "b")];
    let paths: Vec<&Path> = logs.iter().map(PathBuf::as_path).collect();
    let archive = dir.path().join("none.otf2");
    let refused = merge(&paths, &archive, &["--clock-offset", "gamma=1ms"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(refused.stderr().contains("hosts: alpha, beta"), "{}", refused.stderr());
    assert!(!archive.exists());
    if !require(Need::Otf2Print) {
        return;
    }
    for (offset, shown, ns) in [
        ("beta=+12.3ms", "moved by +12.3 ms", 12_300_000),
        ("beta=-2s", "moved by -2.00 s", -2 * 1_000_000_000_i64),
    ] {
        let archive = dir.path().join(format!("{}.otf2", ns < 0));
        let said = merged(&logs, &archive, &["--clock-offset", offset]);
        assert!(said.contains(shown), "{said}");
        let times: Vec<(u64, u64)> = spans(&archive).into_values().collect();
        let (alpha, beta) = (times[0].0, times[times.len() / 2].0);
        assert_eq!(beta.cast_signed() - alpha.cast_signed(), ns, "{offset}");
    }
}

/// Fails if a file on a network file system is defined for each host, or a local one for both.
#[test]
fn shared_files_are_defined_once_and_local_ones_for_each_host() {
    if !require(Need::Otf2Print) {
        return;
    }
    let dir = scratch_dir("shared");
    let mounts = |point: &str, source: &str| {
        format!(
            "22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 0:40 / {point} rw - nfs4 {source} rw\n"
        )
    };
    let shared = mounts("/tmp/iotrace-corpus", "server:/export");
    let other = mounts("/tmp/iotrace-corpus", "second:/export");
    let (first, second) = (shared.as_str(), other.as_str());
    for (name, one, two, count, scope) in [
        ("same", first, first, 1, "machine::Linux"),
        ("different", first, second, 2, "machine::Linux"),
    ] {
        let logs = [
            Made { mounts: Some(one), ..DD }.write(dir.path(), &format!("{name}-a")),
            Made { mounts: Some(two), host: "beta", ..DD }.write(dir.path(), &format!("{name}-b")),
        ];
        let archive = dir.path().join(name).with_extension("otf2");
        let said = merged(&logs, &archive, &[]);
        assert!(
            said.contains("by type, source and path): nfs4 server:/export") || count > 1,
            "{said}"
        );
        otf2_check::check(&archive).expect("an archive by the rules");
        let definitions = definitions(&archive);
        let of = |path: &str| {
            let name = format!("Name: \"{path}\"");
            let files = definitions.lines().map(unpadded);
            files
                .filter(|line| line.starts_with("IO_REGULAR_FILE") && line.contains(&name))
                .collect()
        };
        let part: Vec<String> = of("/tmp/iotrace-corpus/part.3");
        assert_eq!(part.len(), count, "{name}: {part:?}");
        assert!(part.iter().all(|line| line.contains(scope)), "{name}: {part:?}");
        let libc: Vec<String> = of("/usr/lib/x86_64-linux-gnu/libc.so.6");
        assert_eq!(libc.len(), 2, "{name}: {libc:?}");
        let of_host = |host: &str| libc.iter().any(|line| line.contains(&format!("node::{host}")));
        assert!(of_host("alpha") && of_host("beta"), "{name}: {libc:?}");
    }
}

/// Fails if one bad recording costs the others, or is not in the exit status.
#[test]
fn bad_recordings_are_reported_and_the_rest_is_merged() {
    let dir = scratch_dir("bad");
    let whole = DD.write(dir.path(), "whole");
    let beta = Made { host: "beta", ..DD }.write(dir.path(), "beta");
    let copy = dir.path().join("copy.iocap");
    fs::copy(&whole, &copy).expect("space");
    let bytes = fs::read(&beta).expect("a log");
    let [torn, cut, no_log] = ["torn", "cut", "no-log"].map(|name| dir.path().join(name));
    fs::write(&torn, &bytes[..bytes.len() * 3 / 4]).expect("space");
    fs::write(&cut, &bytes[..100]).expect("space");
    fs::write(&no_log, "no log\n").expect("space");
    let missing = dir.path().join("missing.iocap");
    let archive = dir.path().join("job.otf2");

    let all: [&Path; 6] = [&whole, &missing, &copy, &torn, &cut, &no_log];
    let finished = merge(&all, &archive, &[]);
    let said = finished.stderr();
    assert_eq!(finished.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("LEFT OUT:").count(), 4, "{said}");
    assert!(said.contains("copy.iocap: it is the same recording as"), "{said}");
    assert!(said.contains("there is no file"), "{said}");
    assert!(said.contains("INCOMPLETE:") && said.contains("did not end in order"), "{said}");
    assert!(said.contains("merged 2 recordings of 2 hosts"), "{said}");
    if require(Need::Otf2Print) {
        otf2_check::check(&archive).expect("an archive by the rules");
    }

    // The end of a recording is better than its first part, in any order.
    let second = dir.path().join("second.otf2");
    let finished = merge(&[&torn, &beta], &second, &[]);
    let said = finished.stderr();
    assert_eq!(finished.status.code(), Some(1), "{said}");
    assert!(said.contains("torn: it is the same recording as"), "{said}");
    assert!(!said.contains("INCOMPLETE"), "{said}");

    let third = dir.path().join("third.otf2");
    let finished = merge(&[&missing, &no_log], &third, &[]);
    assert_eq!(finished.status.code(), Some(125), "{}", finished.stderr());
    assert!(!third.exists());
    let again = merge(&[&whole], &archive, &[]);
    assert_eq!(again.status.code(), Some(125), "{}", again.stderr());
    assert!(again.stderr().contains("is there already"), "{}", again.stderr());
}

/// Fails if recordings of other users in a directory are read, or passed over in silence.
#[test]
fn recordings_of_other_users_are_passed_over_with_a_warning() {
    if !require(Need::Root) {
        return;
    }
    let dir = scratch_dir("others");
    let theirs = Made { host: "beta", ..DD }.write(dir.path(), "theirs");
    chown(&theirs, Some(65534), None).expect("root may do this");
    let archive = dir.path().join("job.otf2");
    let finished = merge(&[dir.path()], &archive, &[]);
    let said = finished.stderr();
    assert!(said.contains("of another user is read by its name") && !archive.exists(), "{said}");
    DD.write(dir.path(), "own");
    let said = merged(&[dir.path().to_owned()], &archive, &[]);
    assert!(said.contains("another user owns them: 1 recording"), "{said}");
    assert!(said.contains("merged 1 recording"), "{said}");
}

/// Fails if open files grow with the number of recordings.
#[test]
fn many_recordings_need_few_open_files() {
    let dir = scratch_dir("many");
    let count = 80;
    for number in 0..count {
        let host = format!("node{number:03}");
        let rank = Some(number);
        Made { host: &host, rank, ..DD }.write(dir.path(), &host);
    }
    let archive = dir.path().join("out").with_extension("otf2");
    let limited = "ulimit -n 64; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited, BINARY, "merge", text(dir.path()), "-o", text(&archive)]);
    let said = run(&mut command, TIMEOUT).expect("it ends").success().stderr();
    assert!(said.contains("merged 80 recordings of 80 hosts"), "{said}");
    assert!(said.contains("… and 64 more (host)"), "{said}");
}

/// Fails if nothing says that operations are in the archive twice.
#[test]
fn overlapping_recordings_of_a_machine_are_reported() {
    let dir = scratch_dir("overlap");
    let whole = Made { is_system: true, ..DD }.write(dir.path(), "whole");
    let one = Made { rank: Some(0), ..DD }.write(dir.path(), "one");
    let far = Made { host: "beta", ..DD }.write(dir.path(), "far");
    let said = merged(&[whole.clone(), far.clone()], &dir.path().join("a.otf2"), &[]);
    assert!(!said.contains("overlap with"), "{said}");
    let said = merged(&[whole, one, far], &dir.path().join("b.otf2"), &[]);
    assert!(said.contains("overlap with others of alpha:"), "{said}");
}

/// Fails if a log without dates stops a merge, or is given a place in the order.
#[test]
fn logs_without_dates_have_no_order() {
    let dir = scratch_dir("dates");
    let strace = dir.path().join("s.txt");
    fs::write(&strace, "7 openat(AT_FDCWD, \"/etc/hosts\", O_RDONLY) = 3\n7 close(3) = 0\n")
        .expect("space");
    let undated = dir.path().join("undated.iocap");
    iotrace(&["import", text(&strace), "-o", text(&undated)]).success();
    let archive = dir.path().join("job.otf2");
    let said = merged(&[DD.write(dir.path(), "a"), undated], &archive, &[]);
    assert!(said.contains("1 recording has no dates"), "{said}");
    if require(Need::Otf2Print) {
        otf2_check::check(&archive).expect("an archive by the rules");
    }
}

/// Fails if a machine whose clock was never set takes the dates of all others.
#[test]
fn clock_of_1970_counts_as_none() {
    let dir = scratch_dir("unset-clock");
    let set = DD.write(dir.path(), "set");
    let wall = header_of(&set).clock.start_realtime_ns;
    let later_ns = 5_000_000_000 - i64::try_from(wall).expect("in this century");
    let unset = Made { host: "beta", later_ns, ..DD }.write(dir.path(), "unset");
    let archive = dir.path().join("job.otf2");
    let said = merged(&[set, unset.clone()], &archive, &[]);
    assert!(said.contains("1 recording has no dates"), "{said}");
    // The recording alone keeps its dates.
    let said = merged(&[unset], &dir.path().join("alone.otf2"), &[]);
    assert!(!said.contains("no dates"), "{said}");
}
