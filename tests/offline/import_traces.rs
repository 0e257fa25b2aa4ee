//! Traces of perf, blktrace, blkparse and Darshan, and CSV of block devices: the counts and bytes
//! of the tools themselves.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::import::record;
use crate::support::driver::process::run;
use crate::support::driver::recording::{Recording, TIMEOUT, iotrace};
use crate::support::machine::requirements::{Need, require};
use crate::support::{scratch_dir, text};

/// Writes a file of the corpus, which is stored compressed.
fn unpacked(dir: &Path, name: &str) -> PathBuf {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/import");
    let packed = File::open(corpus.join(format!("{name}.zst"))).expect("a file of the corpus");
    let path = dir.join(name);
    zstd::stream::copy_decode(packed, File::create(&path).expect("a file")).expect("intact");
    path
}

fn imported(input: &Path, options: &[&str]) -> (Recording, String) {
    let log = input.with_extension("iocap");
    let command = [&["import", text(input), "-o", text(&log)], options].concat();
    let said = iotrace(&command).success().stderr();
    (Recording::open(&log), said)
}

/// Events of each tracepoint, without the times that perf prints in microseconds.
fn events_of(printed: &str) -> BTreeMap<String, u64> {
    let mut events = BTreeMap::new();
    for line in printed.lines() {
        let words = line.split_whitespace();
        let event = words
            .map(|word| word.trim_end_matches(':'))
            .find(|word| ["block:", "syscalls:"].iter().any(|system| word.starts_with(system)));
        *events.entry(event.expect("an event").to_owned()).or_default() += 1;
    }
    events
}

/// Fails if a record of perf is lost, doubled, or read differently from its text.
#[test]
fn recording_of_perf_and_its_text_are_equal() {
    let dir = scratch_dir("import");
    let printed = unpacked(dir.path(), "perf-script.txt");
    let events = events_of(&fs::read_to_string(&printed).expect("text"));
    let (of_data, said) = imported(&unpacked(dir.path(), "perf-data"), &[]);
    assert!(said.contains("imported from perf:"), "{said}");
    let (of_text, _) = imported(&printed, &[]);
    for recording in [&of_data, &of_text] {
        let info = &recording.info;
        // The program wrote 23 times 4,099 bytes.
        assert_eq!(recording.calls("pwrite64"), 23, "{info:#}");
        assert_eq!(info["calls"]["pwrite64"]["bytes"], 23 * 4099, "{info:#}");
        assert_eq!(recording.calls("fsync"), 1, "{info:#}");
        let tracepoints = info["tracepoints"].as_array().expect("a list");
        for (event, count) in events.iter().filter(|event| event.0.starts_with("block:")) {
            let row = tracepoints.iter().find(|row| row["name"] == **event).expect("a row");
            assert_eq!(row["samples"].as_u64(), Some(*count), "{event}");
        }
    }
    let requests = |recording: &Recording| {
        let of = recording.requests();
        of.iter()
            .map(|it| (it.dev.clone(), it.sector, it.bytes, it.rwbs.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(requests(&of_data), requests(&of_text));
    assert!(requests(&of_data).len() > 100);
}

/// CPUs of the trace.
const CPUS: u64 = 16;
/// Requests of the trace.
const REQUESTS: u64 = 211;

/// Writes the files of a trace: each request is issued on one CPU and completed on another.
fn trace(dir: &Path) -> PathBuf {
    let mut files = vec![Vec::new(); 16];
    let mut place = |at: u64, time: u64, action: u32| {
        let kind = if at.is_multiple_of(3) { 1 << 16 } else { 1 << 17 };
        let cpu = usize::try_from((at + time) % (CPUS - 1)).expect("small");
        let extent = (2048 + 64 * at, 4096);
        let name = usize::try_from(at % 7 + 1).expect("small");
        let thread = if action == 8 { 0 } else { u32::try_from(name).expect("small") };
        files[cpu].push((time, record(time, kind | action, extent, thread, &[])));
    };
    for at in 0..REQUESTS {
        for (after, action) in [(0, 1), (100, 4), (200, 7), (7100, 8)] {
            place(at, 1_000_000 + 1000 * at + after, action);
        }
    }
    for (cpu, mut records) in files.into_iter().enumerate() {
        records.sort();
        for (number, (_, record)) in (1_u32..).zip(&mut records) {
            // blkparse needs the numbers of the records and of the CPU.
            record[4..8].copy_from_slice(&number.to_le_bytes());
            record[40..44].copy_from_slice(&u32::try_from(cpu).expect("small").to_le_bytes());
        }
        let bytes: Vec<u8> = records.into_iter().flat_map(|record| record.1).collect();
        fs::write(dir.join(format!("sda.blktrace.{cpu}")), bytes).expect("written");
    }
    dir.join("sda")
}

/// Fails if the files of several CPUs are not one trace, or if blkparse counts other requests.
#[test]
fn trace_of_sixteen_cpus_is_one_log() {
    let dir = scratch_dir("import");
    let base = trace(dir.path());
    let (whole, said) = imported(&base, &[]);
    // The last CPU has an empty file.
    assert!(dir.path().join("sda.blktrace.15").metadata().is_ok_and(|it| it.len() == 0));
    assert!(said.contains(&format!("imported from blktrace: {} records", 4 * REQUESTS)), "{said}");
    assert_eq!((whole.number("requests"), whole.number("unmatched")), (REQUESTS, 0));
    let bytes =
        |recording: &Recording| recording.requests().iter().map(|it| it.bytes_done).sum::<u64>();
    assert_eq!(bytes(&whole), 4096 * REQUESTS);
    if !require(Need::Program("blkparse")) {
        return;
    }
    let mut blkparse = Command::new("blkparse");
    let printed = run(blkparse.arg("sda").current_dir(dir.path()), TIMEOUT).expect("it ends");
    let printed = printed.success().stdout();
    let reads = REQUESTS.div_ceil(3);
    let totals = printed.lines().rfind(|line| line.contains("Reads Completed")).expect("totals");
    let numbers: Vec<u64> = totals
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!((numbers[0], numbers[2]), (reads, REQUESTS - reads), "{totals}");
    let file = dir.path().join("blkparse.txt");
    fs::write(&file, printed).expect("written");
    let (of_text, said) = imported(&file, &[]);
    assert!(said.contains("imported from blkparse"), "{said}");
    assert!(!said.contains("not understood"), "{said}");
    assert_eq!((of_text.number("requests"), of_text.number("unmatched")), (REQUESTS, 0));
    assert_eq!(bytes(&of_text), bytes(&whole));
}

/// Fails if several files of another tool are taken for one log.
#[test]
fn only_blktrace_has_several_files() {
    let dir = scratch_dir("import");
    let names = ["a.log", "b.log"].map(|name| dir.path().join(name));
    for name in &names {
        fs::write(name, "fio version 2 iolog\n/x add\n/x open\n/x read 0 8\n").expect("written");
    }
    let log = dir.path().join("log.iocap");
    let [first, second] = &names;
    let refused = iotrace(&["import", text(first), text(second), "-o", text(&log)]);
    assert!(refused.stderr().contains("only for blktrace"), "{}", refused.stderr());
    assert!(!log.exists());
}

/// Fails if a unit or a column of a CSV is taken for another one.
#[test]
fn columns_of_csv_are_requests() {
    let dir = scratch_dir("import");
    let msr = dir.path().join("msr.csv");
    fs::write(
        &msr,
        "128166372003061629,hm,1,Read,383496192,32768,413
128166372016382155,hm,1,Write,2822144000,65536,1302
128166372026382245,hm,0,Read,0,512,88
",
    )
    .expect("written");
    let (recording, said) = imported(&msr, &[]);
    assert!(said.contains("imported from CSV: 3 lines"), "{said}");
    let requests: Vec<_> = recording
        .requests()
        .iter()
        .map(|it| {
            let took = it.completed_ns.zip(it.issued_ns).map(|(end, begin)| end - begin);
            (it.disk.clone().unwrap_or_default(), it.op.clone(), it.sector, it.bytes, took)
        })
        .collect();
    let row = |disk: &str, op: &str, sector, bytes, took| {
        (disk.to_owned(), op.to_owned(), sector, bytes, Some(took))
    };
    let wanted = [
        row("hm.1", "read", 749_016, 32_768, 41_300),
        row("hm.1", "write", 5_512_000, 65_536, 130_200),
        row("hm.0", "read", 0, 512, 8800),
    ];
    assert_eq!(requests, wanted);
    let other = dir.path().join("other.csv");
    fs::write(&other, "7,W,8,0.001,x\n").expect("written");
    let columns = ["--from", "csv", "--columns", "time=ms,op,offset=sectors,latency=s,-"];
    let log = dir.path().join("log.iocap");
    let command = [&["import", text(&other), "-o", text(&log)], &columns[..]].concat();
    let refused = iotrace(&command).stderr();
    assert!(refused.contains("there is no column size"), "{refused}");
    let columns = ["--from", "csv", "--columns", "time=ms,op,size=sectors,latency=s,offset=KiB"];
    fs::write(&other, "7,W,8,0.001,3\n").expect("written");
    let (recording, _) = imported(&other, &columns);
    assert_eq!(recording.requests().first().map(|it| (it.sector, it.bytes)), Some((6, 4096)));
}

/// Fails if a segment of Darshan is lost, or belongs to another rank.
#[test]
fn segments_of_darshan_are_calls_of_ranks() {
    let dir = scratch_dir("import");
    let mut printed = "# darshan log version: 3.41\n# start_time: 1700000000\n".to_owned();
    for rank in 0..4 {
        printed += &format!(
            "# DXT, file_id: 77, file_name: /scratch/out\n# DXT, rank: {rank}, hostname: n1\n"
        );
        for segment in 0..23 {
            let (offset, start) = (4099 * (rank + 4 * segment), 0.01 * f64::from(segment));
            let end = start + 0.0021;
            printed += &format!(
                " X_POSIX {rank:7} write {segment:8} {offset:15} {:12} {start:12.4} {end:12.4}\n",
                4099
            );
        }
    }
    let file = dir.path().join("dxt.txt");
    fs::write(&file, printed).expect("written");
    let (recording, said) = imported(&file, &[]);
    assert!(said.contains("imported from Darshan"), "{said}");
    assert_eq!(recording.calls("pwrite64"), 4 * 23);
    let mut by_rank = BTreeMap::new();
    for operation in recording.operations() {
        assert_eq!(operation.path.as_deref(), Some("/scratch/out"));
        *by_rank.entry(operation.comm).or_insert(0) += operation.result.unwrap_or(0);
    }
    let ranks: Vec<_> = (0..4).map(|rank| (Some(format!("rank {rank}")), 23 * 4099)).collect();
    assert_eq!(by_rank.into_iter().collect::<Vec<_>>(), ranks);
}
