//! Bytes are right: what real programs move, file by file, against what they count themselves, what
//! strace saw, and the kernel's own books.

mod audit;
mod bytes;
use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::driver::json::JsonOperation;
use crate::support::driver::process;
use crate::support::driver::recording::{
    Recording, Source, TIMEOUT, can_record, default_calls, size, wait_until,
};
use crate::support::machine::postgres::Server;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::oracle::proc_io::{ProcIo, add_asynchronous, by_file, class};
use crate::support::oracle::strace::Log;
use crate::support::oracle::strace::compare::compare_counted;
use crate::support::scratch_dir;
use iotrace_perf::event::syscall_table::CallClass;

for_each_source! {
    sqlite_with_a_wal,
    sqlite_with_a_rollback_journal,
    fio_counts_the_same_bytes,
    postgres_with_pgbench,
}

/// Fails unless the audit says that the only thing that is no recorded call is what the kernel
/// itself read to start one program, whose file was looked at.
#[track_caller]
fn assert_equal(recording: &Recording) {
    let audit = &recording.info["audit"];
    assert_eq!(audit["agrees"], true, "{audit:#}");
    let counted = [("programs_started", 1), ("programs_unknown", 0), ("doubtful_calls", 0)];
    for (key, expected) in counted {
        assert_eq!(audit[key], expected, "{key}: {audit:#}");
    }
    for key in ["bytes", "calls"] {
        assert_eq!(audit[format!("read_{key}_difference")], audit[format!("exec_read_{key}")]);
        assert_eq!(audit[format!("write_{key}_difference")], 0);
    }
}

// --- SQLite ---

/// Transactions of one row each. A prime: no right sum comes from wrong parts.
const TRANSACTIONS: usize = 211;

/// The method by which a database is kept whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journal {
    Wal,
    Rollback,
}

/// The script of these transactions; the log of a WAL is kept, and nothing is taken out of it
/// before the end.
fn transactions(journal: Journal, count: usize) -> String {
    let pragmas = match journal {
        Journal::Wal => {
            ".filectrl persist_wal 1\nPRAGMA journal_mode=WAL;\nPRAGMA wal_autocheckpoint=0;\n"
        }
        Journal::Rollback => "PRAGMA journal_mode=DELETE;\n",
    };
    let rows = (0..count).map(|it| format!("INSERT INTO entry(text) VALUES ('entry {it}');\n"));
    let rows: String = rows.collect();
    format!("{pragmas}CREATE TABLE entry(id INTEGER PRIMARY KEY, text TEXT);\n{rows}")
}

/// Fails if a byte of a database is not there, is counted twice, or is put on another file; if a
/// synchronisation is missing: under strace call by call, then alone against the kernel's books,
/// that of `SQLite` and the first run.
#[track_caller]
fn sqlite(source: Source, journal: Journal, count: usize) {
    if !can_record(&[Need::Strace, Need::Program("sqlite3")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("accounts");
    let script = dir.path().join("script");
    fs::write(&script, transactions(journal, count)).expect("write it");
    let read = format!(".read {}", script.display());
    let place = |name: &str| {
        let place = dir.path().join(name);
        fs::create_dir(&place).expect("make it");
        place
    };

    let watched = place("watched");
    let [log, database] = ["strace", "data"].map(|it| watched.join(it));
    let [log_text, database] = [&log, &database].map(|it| it.to_str().expect("text"));
    let program = ["strace", "-f", "-y", "-o", log_text, "sqlite3", database, &read];
    let (finished, recording) = source.record(&watched.join("trace"), &[], &program);
    finished.success();
    recording.assert_whole();
    let log = Log::read(&log).expect("strace wrote a log");
    let operations = recording.operations();
    let found = compare_counted(&log, &operations, &default_calls());
    assert_eq!(found.differences, Vec::<String>::new());
    assert!(found.held > 4 * count, "names of descriptors: {}", found.held);
    let first = of_database(&operations, &watched);

    let free = place("free");
    let database = free.join("data");
    let program = ["sqlite3", database.to_str().expect("text"), &read];
    let (finished, recording) = source.record(&free.join("trace"), &[], &program);
    finished.success();
    recording.assert_whole();
    assert_equal(&recording);
    let operations = recording.operations();
    let second = of_database(&operations, &free);
    assert_eq!(first, second, "the same work, the same bytes on the same files");
    let log = if journal == Journal::Wal { "data-wal" } else { "data-journal" };
    let on_log = |it: &&JsonOperation| it.path.as_deref() == free.join(log).to_str();
    let synced = operations.iter().filter(on_log).filter(|it| it.name.ends_with("sync")).count();
    assert!(synced >= count, "{synced} of {log}");
    if journal == Journal::Wal {
        // Each frame is written once, after the one before.
        let length = fs::metadata(free.join(log)).expect("it was kept").len();
        assert_eq!(second[log][1], length, "{second:?}");
    }
}

/// Bytes on the files of the database.
fn of_database(operations: &[JsonOperation], place: &Path) -> BTreeMap<String, [u64; 2]> {
    let prefix = format!("{}/", place.display());
    let files = by_file(operations).into_iter();
    let named = files.filter_map(|it| Some((it.0.strip_prefix(&prefix)?.to_owned(), it.1)));
    named.filter(|it| it.0.starts_with("data")).collect()
}

fn sqlite_with_a_wal(source: Source) {
    sqlite(source, Journal::Wal, TRANSACTIONS);
}

fn sqlite_with_a_rollback_journal(source: Source) {
    sqlite(source, Journal::Rollback, TRANSACTIONS);
}

// --- fio ---

/// A way in which fio reads and writes.
struct Engine {
    name: &'static str,
    options: &'static [&'static str],
}

/// A new engine is a new row: whatever moves its bytes, they must be those that fio counts.
const ENGINES: &[Engine] = &[
    Engine { name: "sync", options: &[] },
    Engine { name: "psync", options: &[] },
    // With a larger depth fio does not count the last blocks itself: here 7 of 509 with 8 at a
    // time, which were written.
    Engine { name: "vsync", options: &[] },
    Engine { name: "pvsync", options: &[] },
    Engine { name: "pvsync2", options: &[] },
    Engine { name: "posixaio", options: &["--iodepth=4"] },
    Engine { name: "libaio", options: &["--iodepth=4"] },
    Engine { name: "io_uring", options: &["--iodepth=4"] },
];

/// Bytes of a block, blocks of a file; primes.
const BLOCK_BYTES: usize = 4099;
const BLOCKS: usize = 509;

/// Fails if the bytes of an engine, in either direction, on either of two files, are not those that
/// fio counted, or if the kernel counted others.
fn fio_counts_the_same_bytes(source: Source) {
    if !can_record(&[Need::Fio]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("accounts");
    for engine in ENGINES {
        let place = dir.path().join(engine.name);
        fs::create_dir(&place).expect("make it");
        let (recording, jobs) = fio_in_time(source, engine, &place);
        assert_counted(&recording, &jobs, engine.name);
        assert_eq!(recording.info["audit"]["agrees"], true, "{}", engine.name);
        assert_eq!(recording.info["audit"]["programs_unknown"], 0, "{}", engine.name);
    }
}

/// Arguments of `io_submit` are in memory: on a busy machine they may be read too late, which is
/// counted. Then the run is repeated.
fn fio_in_time(
    source: Source,
    engine: &Engine,
    place: &Path,
) -> (Recording, Vec<(String, [u64; 2])>) {
    let run = |attempt: u32| {
        let place = place.join(attempt.to_string());
        fs::create_dir(&place).expect("make it");
        fio(source, engine, &place)
    };
    let in_time = (1..4).map(run).find(|it| it.0.number("async_unread") == 0);
    in_time.unwrap_or_else(|| run(4))
}

/// Fails unless each missing operation is reported as unread, and none has bytes that fio does not
/// count.
#[track_caller]
fn assert_counted(recording: &Recording, jobs: &[(String, [u64; 2])], engine: &str) {
    let mut found = by_file(&recording.operations());
    add_asynchronous(&mut found, &recording.asynchronous());
    let mut missing = 0;
    for (file, counted) in jobs {
        assert_eq!(counted[0] + counted[1], (BLOCK_BYTES * BLOCKS) as u64, "{engine}");
        assert!(counted.iter().all(|&it| it > 0), "{engine}: {counted:?}");
        let ours = found.get(file).copied().unwrap_or_default();
        for (ours, counted) in ours.into_iter().zip(*counted) {
            assert!(ours > 0 && ours <= counted, "{engine}: {file}: {ours}, fio counts {counted}");
            missing += counted - ours;
        }
    }
    let unread = recording.number("async_unread") + recording.number("async_unseen");
    let blocks = missing / BLOCK_BYTES as u64;
    assert_eq!(missing % BLOCK_BYTES as u64, 0, "{engine}: {missing} bytes are missing");
    assert!(blocks <= unread, "{engine}: {blocks} operations are missing, {unread} reported");
}

/// Two jobs, each on a file of its own: the recording, and what fio says it has read and written.
fn fio(source: Source, engine: &Engine, place: &Path) -> (Recording, Vec<(String, [u64; 2])>) {
    let names = ["first", "second"];
    let files = names.map(|it| place.join(it).to_str().expect("text").to_owned());
    for file in &files {
        fs::write(file, vec![7; BLOCK_BYTES * BLOCKS]).expect("write it");
    }
    let says = place.join("says");
    let mut program = vec!["fio".to_owned(), format!("--output={}", says.display())];
    let size = BLOCK_BYTES * BLOCKS;
    let global = format!(
        "--output-format=json --name=global --rw=randrw --bs={BLOCK_BYTES} --size={size} --randrepeat=1 \
         --disk_util=0 --ioengine={}",
        engine.name
    );
    program.extend(global.split_whitespace().map(str::to_owned));
    program.extend(engine.options.iter().map(|&it| it.to_owned()));
    for (name, file) in names.iter().zip(&files) {
        program.extend([format!("--name={name}"), format!("--filename={file}")]);
    }
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let (finished, recording) = source.record(&place.join("trace"), &[], &program);
    finished.success();
    recording.assert_whole();
    let text = fs::read_to_string(says).expect("fio wrote it");
    let said: Value = serde_json::from_str(&text).expect("JSON");
    let bytes = |job: &Value, side: &str| job[side]["io_bytes"].as_u64().expect("a number");
    let jobs = said["jobs"].as_array().expect("jobs").iter();
    let counted = jobs.map(|it| [bytes(it, "read"), bytes(it, "write")]);
    let jobs: Vec<_> = files.into_iter().zip(counted).collect();
    assert_eq!(jobs.len(), names.len());
    (recording, jobs)
}

// --- PostgreSQL ---

/// Bytes of a page of a table.
const PAGE_BYTES: u64 = 8192;
const CLIENTS: u32 = 4;
/// Transactions of each client.
const EACH: u32 = 53;

/// A recording of a server that runs, while something is done with it. The kernel's books of all
/// its processes are the same before it is on and after, and when it ends: so their difference is
/// what was recorded.
fn attached(
    source: Source,
    pid: u32,
    trace: &Path,
    work: impl FnOnce(),
) -> (Vec<JsonOperation>, ProcIo, Recording) {
    let before = quiet(pid);
    let log = trace.join("traces.iocap");
    let mut command = source.recorder(trace, &[], &[]);
    command.args(["-p", &pid.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut tracer = command.stderr(Stdio::null()).spawn().expect("it starts");
    // The log begins when everything is on.
    wait_until("the log begins", || size(&log) > 0);
    assert_eq!(ProcIo::of_tree(pid), before, "the server did something by itself");
    work();
    let after = quiet(pid);
    end(&mut tracer);
    assert_eq!(ProcIo::of_tree(pid), after, "the server did something by itself");
    let recording = Recording::open(&log);
    recording.assert_whole();
    (recording.operations(), after.since(before), recording)
}

fn end(tracer: &mut Child) {
    kill(Pid::from_raw(tracer.id().try_into().expect("a pid")), Signal::SIGINT).expect("it runs");
    let status = process::wait(tracer, TIMEOUT).expect("it ends");
    assert_eq!(status.code(), Some(0));
}

/// The books when nothing has changed for a while.
#[track_caller]
fn quiet(pid: u32) -> ProcIo {
    let mut last = ProcIo::of_tree(pid);
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(400));
        let now = ProcIo::of_tree(pid);
        if now == last {
            return now;
        }
        last = now;
    }
    panic!("the server is never quiet");
}

/// Fails if a byte or call of any backend is missing or made up, of those that ran before the
/// attach or came later; if reads of a table are not the pages that the server counted; if writes
/// and synchronisations of its log are not.
fn postgres_with_pgbench(source: Source) {
    if !can_record(&[Need::Postgres]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("accounts");
    let mut server = Server::create();
    server.start();
    server.run("pgbench", &["-i", "-q", "-s", "3"]);
    server.query("VACUUM ANALYZE");
    // Nothing of the tables is in its buffers after that.
    server.stop();
    let pid = server.start();

    let [clients, each] = [CLIENTS, EACH].map(|it| it.to_string());
    let run = ["-n", "-c", &clients, "-j", "2", "-t", &each];
    server.query("SELECT pg_stat_reset()");
    // One backend: PostgreSQL 17 counts a page that two want at once as read by both, though only
    // one of them reads it.
    let reads = (CLIENTS * EACH).to_string();
    let select = || drop(server.run("pgbench", &["-n", "-S", "-c", "1", "-t", &reads]));
    let (operations, books, _) = attached(source, pid, &dir.path().join("reads"), select);
    assert_eq!(ProcIo::of_operations(&operations), books);
    for (table, column) in
        [("pgbench_accounts", "heap_blks_read"), ("pgbench_accounts_pkey", "idx_blks_read")]
    {
        let pages = pages_read(&server, &operations, table);
        assert!(*pages.start() > 50, "{table}: {pages:?}");
        let view = if column.starts_with("heap") { "tables" } else { "indexes" };
        let key = if column.starts_with("heap") { "relname" } else { "indexrelname" };
        let query = format!("SELECT {column} FROM pg_statio_user_{view} WHERE {key} = '{table}'");
        let counted = server.query(&query).parse().expect("a number");
        assert!(pages.contains(&counted), "{table}: {counted}, and we have {pages:?}");
    }

    server.query("SELECT pg_stat_reset_shared('wal')");
    let mut said = String::new();
    let write = || said = server.run("pgbench", &run).stdout();
    let (operations, books, recording) = attached(source, pid, &dir.path().join("writes"), write);
    assert_eq!(ProcIo::of_operations(&operations), books);
    let done = format!("actually processed: {0}/{0}", CLIENTS * EACH);
    assert!(said.contains(&done), "{said}");
    let new: std::collections::BTreeSet<i32> = operations.iter().map(|it| it.pid).collect();
    assert!(new.len() > CLIENTS as usize, "all its backends: {new:?}");
    log_is_as_counted(&server, &operations);
    drop(recording);
}

/// Pages of a table (or index) that were read from its files: at least, and including those whose
/// file is unknown.
fn pages_read(server: &Server, operations: &[JsonOperation], table: &str) -> RangeInclusive<u64> {
    let file = server.file(&server.query(&format!("SELECT pg_relation_filepath('{table}')")));
    let file = file.to_str().expect("text");
    let forks = ["", "_fsm", "_vm"].map(|it| format!("{file}{it}"));
    let reads = |it: &&JsonOperation| class(it) == Some(CallClass::Read);
    let bytes = |it: &JsonOperation| it.result.and_then(|it| u64::try_from(it).ok()).unwrap_or(0);
    let sums = of_files(operations, &|name| forks.iter().any(|it| it == name))
        .map(|it| it.into_iter().filter(reads).map(bytes).sum::<u64>());
    assert_eq!(sums[0] % PAGE_BYTES, 0, "{table}");
    sums[0] / PAGE_BYTES..=(sums[0] + sums[1]) / PAGE_BYTES
}

/// Operations on such files, and those on files that may be such ones: without a certain name. A
/// name may be missing, but not many.
#[track_caller]
fn of_files<'a>(
    operations: &'a [JsonOperation],
    is_one: &dyn Fn(&str) -> bool,
) -> [Vec<&'a JsonOperation>; 2] {
    let on_files = operations.iter().filter(|it| it.fd.is_some());
    let is_certain =
        |it: &&JsonOperation| it.path.is_some() && it.path_source.as_deref() != Some("unverified");
    let (certain, doubtful): (Vec<_>, Vec<_>) = on_files.partition(is_certain);
    assert!(doubtful.len() * 50 < certain.len(), "{} without a name", doubtful.len());
    let certain = certain.into_iter().filter(|it| it.path.as_deref().is_some_and(is_one));
    [certain.collect(), doubtful]
}

/// Writes and synchronisations of the log against what the server counted, where it counts them
/// there: from 14 to 17.
fn log_is_as_counted(server: &Server, operations: &[JsonOperation]) {
    let version: u32 = server.query("SHOW server_version_num").parse().expect("a number");
    if !(140_000..180_000).contains(&version) {
        return;
    }
    // A segment's name is 24 digits; one that is being made has another.
    let in_log = |name: &str| {
        let name = name.split_once("/pg_wal/").map(|it| it.1);
        name.is_some_and(|it| it.len() == 24 && it.bytes().all(|it| it.is_ascii_hexdigit()))
    };
    let [certain, doubtful] = of_files(operations, &in_log);
    let writes = |it: &&&JsonOperation| class(it) == Some(CallClass::Write);
    let syncs = |it: &&&JsonOperation| it.name == "fdatasync";
    let wal = server.query("SELECT wal_write, wal_sync FROM pg_stat_wal");
    let (written, synced) = wal.split_once('|').expect("two numbers");
    let between = |reported: &str, least: usize, more: usize| {
        let counted: usize = reported.parse().expect("a number");
        assert!(least > 50, "{least}");
        assert!((least..=least + more).contains(&counted), "{counted} of {least} and {more}");
    };
    let count = |it: &[&JsonOperation], is_one: &dyn Fn(&&&JsonOperation) -> bool| {
        it.iter().filter(|it| is_one(it)).count()
    };
    between(written, count(&certain, &writes), count(&doubtful, &writes));
    between(synced, count(&certain, &syncs), count(&doubtful, &syncs));
}
