//! An MPI job on three hosts under Open MPI: recordings of each, clocks that are compared before
//! and after it, and one archive.
//!
//! The hosts share a kernel, so the true offset of their clocks is known exactly: it is 0. One is
//! in a time namespace. Their wall clocks are made wrong in the recordings.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use iotrace_perf::capture::clock_exchange::{ClockFile, OffsetReading};
use iotrace_perf::capture::message_clock::MessageClock;
use iotrace_perf::units::KernelTime;

use crate::support::driver::process::run;
use crate::support::driver::recording::{BINARY, Recording, TIMEOUT, can_record, iotrace};
use crate::support::log_copy::copy_with_header;
use crate::support::machine::job_hosts::JobHosts;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::oracle::otf2_check;
use crate::support::{scratch_dir, text};

/// Starts a process on each host.
#[track_caller]
fn mpirun(hosts: &JobHosts, dir: &Path, command: &str) -> String {
    // Open MPI 5 finds no slots on addresses of --host.
    let slots = |number| format!("{} slots=1\n", JobHosts::address(number));
    fs::write(dir.join("hostfile"), (1..=3).map(slots).collect::<String>()).expect("space");
    let line = format!(
        "mpirun --allow-run-as-root --mca plm_rsh_agent {0}/agent --mca oob_tcp_if_include eth0 \
         --mca btl tcp,self --mca btl_tcp_if_include eth0 -n 3 --hostfile {0}/hostfile \
         --map-by ppr:1:node {command}",
        text(dir)
    );
    let finished = hosts.run(1, &line).success();
    finished.stdout() + &finished.stderr()
}

/// Copies a recording whose wall clock was off by this much.
fn with_wrong_wall_clock(log: &Path, to: &Path, ns: i64) {
    copy_with_header(log, to, |header| {
        let wall = &mut header.clock.start_realtime_ns;
        *wall = wall.saturating_add_signed(ns);
    });
}

/// Bytes that each rank has counted itself: rank, process, written, read.
fn counted(printed: &str) -> Vec<[u64; 4]> {
    let numbers = printed.lines().filter_map(|line| {
        let numbers: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
        <[u64; 4]>::try_from(numbers.ok()?).ok()
    });
    numbers.collect()
}

/// Checks that comparisons of two hosts show their common clock within the bound.
#[track_caller]
fn check_comparisons(clocks: &Path) {
    let entries = fs::read_dir(clocks).expect("a directory").map(|entry| entry.expect("one"));
    let parsed = entries.map(|entry| ClockFile::parse(&fs::read(entry.path()).expect("a file")));
    let mut readings: BTreeMap<String, Vec<OffsetReading>> = BTreeMap::new();
    for file in parsed.map(|file| file.expect("a comparison")) {
        readings.entry(file.host.hostname.clone()).or_default().extend(file.reading());
    }
    let counts: Vec<_> = readings.iter().map(|(name, of)| (name.as_str(), of.len())).collect();
    assert_eq!(counts, [("node1", 0), ("node2", 2), ("node3", 2)]);
    for (name, readings) in readings {
        for reading in &readings {
            let error = reading.offset_ns.unsigned_abs();
            assert!(error <= reading.bound_ns.into(), "{name}: {reading:?}");
        }
        let Some(clock) = MessageClock::of(&readings) else { continue };
        let [first, .., last] = readings.as_slice() else { panic!("{name}") };
        for part in 0..=16 {
            let (first, last) = (first.time.0.min(last.time.0), first.time.0.max(last.time.0));
            let time = KernelTime(first + (last - first) * part / 16);
            let error = clock.offset_ns(time).unsigned_abs();
            assert!(error <= clock.bound_ns(time).into(), "{name}: {error} ns, {clock:?}");
        }
    }
}

/// Time of the first event of each location of an archive, in the order of their numbers.
#[track_caller]
fn first_events(archive: &Path) -> Vec<u64> {
    let events = run(Command::new("otf2-print").arg(text(archive)), TIMEOUT);
    let mut first = BTreeMap::new();
    for line in events.expect("it ends").success().stdout().lines() {
        let mut words = line.split_whitespace().skip(1).map(str::parse::<u64>);
        if let (Some(Ok(location)), Some(Ok(time))) = (words.next(), words.next()) {
            first.entry(location).or_insert(time);
        }
    }
    first.into_values().collect()
}

/// Fails if a byte of a rank is not recorded, if the archive breaks the format's rules, or if
/// messages do not put right what wrong wall clocks have moved.
#[test]
fn job_on_three_hosts_has_one_clock() {
    let tools = [Need::Program("mpirun"), Need::Program("mpicc"), Need::Program("nsenter")];
    if !can_record(&[&tools[..], &[Need::Otf2Print, Need::JobHosts]].concat()) {
        return;
    }
    let _turn = alone();
    let scratch = scratch_dir("mpi-hosts");
    let dir = scratch.path();
    let program = dir.join("mpi_io");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/mpi_io.c");
    let mut compiler = Command::new("mpicc");
    compiler.args(["-O1", "-o", text(&program), text(&source)]);
    run(&mut compiler, TIMEOUT).expect("it ends").success();
    let (data, clocks) = (dir.join("data"), dir.join("clocks"));
    fs::create_dir(&data).expect("space");
    let hosts = JobHosts::new(dir, 3);

    let compare = format!("{BINARY} clocks -o {}", text(&clocks));
    let said = mpirun(&hosts, dir, &compare);
    assert!(said.contains("2 other processes compared with the clock of node1"), "{said}");
    let log = format!("{}/job_{{HOSTNAME}}.iocap", text(dir));
    let record = format!(
        "{BINARY} record --per-node --no-archive -o '{log}' -- {} {}",
        text(&program),
        text(&data)
    );
    let printed = counted(&mpirun(&hosts, dir, &record));
    mpirun(&hosts, dir, &compare);
    drop(hosts);
    check_comparisons(&clocks);

    assert_eq!(printed.len(), 3, "{printed:?}");
    let mut wrong: Vec<PathBuf> = Vec::new();
    for (number, ns) in [(1, 0), (2, 50_000_000), (3, -50_000_000)] {
        let log = dir.join(format!("job_node{number}.iocap"));
        let recording = Recording::open(&log);
        recording.assert_whole();
        check_bytes(&recording, &printed, number - 1);
        let copy = dir.join(format!("wrong_node{number}.iocap"));
        with_wrong_wall_clock(&log, &copy, ns);
        wrong.push(copy);
    }
    check_archive(dir, &wrong, &clocks);
}

/// Compares the bytes of the file of a rank with those that its program has counted.
#[track_caller]
fn check_bytes(recording: &Recording, printed: &[[u64; 4]], rank: u64) {
    let [_, pid, _, read] =
        *printed.iter().find(|numbers| numbers[0] == rank).expect("a line of each rank");
    let operations = recording.operations();
    let sum = |name: &str, bytes: i64| -> u64 {
        let its = operations.iter().filter(|operation| {
            u64::from(operation.pid.cast_unsigned()) == pid
                && operation.name == name
                && operation.result == Some(bytes)
        });
        its.count() as u64 * bytes.cast_unsigned()
    };
    assert_eq!(sum("pread64", 1009), read, "rank {rank}");
    assert_eq!(sum("write", 4099), (7 + rank) * 4099, "rank {rank}");
}

/// Merges recordings with wrong wall clocks, and compares the places of their events.
#[track_caller]
fn check_archive(dir: &Path, wrong: &[PathBuf], clocks: &Path) {
    let archive = dir.join("job.otf2");
    let mut arguments = vec!["merge", "-o", text(&archive), "--clocks", text(clocks)];
    arguments.extend(wrong.iter().map(|log| text(log)));
    let said = iotrace(&arguments).success().stderr();
    for part in [
        "merged 3 recordings of 3 hosts",
        "node1: 1 recording, rank 0, its clock is the reference",
        "node2: 1 recording, rank 1, clock ±",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    otf2_check::check(&archive).expect("an archive by the rules");
    let silent =
        run(Command::new("otf2-print").args(["--silent", "-Werror", text(&archive)]), TIMEOUT);
    silent.expect("it ends").success();
    let mut rest = first_events(&archive);
    let mut moves = Vec::new();
    for (number, log) in wrong.iter().enumerate() {
        let single = dir.join(format!("single{number}.otf2"));
        iotrace(&["convert", text(log), "-o", text(&single)]).success();
        let single = first_events(&single);
        let later = rest.split_off(single.len());
        let first = |times: &[u64]| times.iter().copied().min().expect("events");
        moves.push(i128::from(first(&rest)) - i128::from(first(&single)));
        rest = later;
    }
    assert_eq!(rest, [0_u64; 0], "each location is of a host");
    let bound = stated_bound(&archive);
    // Far less than what is wrong, on a busy machine, too.
    assert!(bound < 20_000_000, "{bound} ns: {said}");
    for (host, side) in [("node2", "ahead of"), ("node3", "behind")] {
        let error = wall_error_ns(&said, host, side);
        // The line has three digits.
        assert!(error.abs_diff(50_000_000) <= bound + 60_000, "{error} ns, bound {bound}: {said}");
    }
    for other in &moves[1..] {
        // Both hosts have the kernel's clock.
        let error = other.abs_diff(moves[0]);
        assert!(error <= bound.into(), "{error} ns, bound {bound} ns: {said}");
    }
}

/// Error of a host's wall clock in the line about it: `the wall clock of HOST was 50.0 ms SIDE`.
#[track_caller]
fn wall_error_ns(said: &str, host: &str, side: &str) -> u64 {
    let begin = format!("the wall clock of {host} was ");
    let line = said.lines().find_map(|line| Some(line.split_once(&begin)?.1));
    let line = line.unwrap_or_else(|| panic!("{host}: {said}"));
    let (ms, rest) = line.split_once(" ms ").unwrap_or_else(|| panic!("{line}"));
    assert!(rest.starts_with(side), "{line}");
    let ms: f64 = ms.parse().expect("a number");
    Duration::from_secs_f64(ms / 1000.0).as_nanos().try_into().expect("small")
}

/// Value of the archive's property.
#[track_caller]
fn stated_bound(archive: &Path) -> u64 {
    let info = run(Command::new("otf2-print").args(["-I", text(archive)]), TIMEOUT);
    let info = info.expect("it ends").success().stdout();
    let after = info.split("IOTRACE::CLOCK_ERROR_BOUND_NS").nth(1).expect("the property");
    let digits: String = after
        .chars()
        .skip_while(|letter| !letter.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().expect("a number")
}
