//! `stacks`: bytes of each stack against the kernel's own counters, functions against those that a
//! program has.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::driver::process;
use crate::support::driver::recording::{
    BINARY, Recording, TIMEOUT, can_record, compile, record, wait_until,
};
use crate::support::machine::block_stack::{Backing, Stack};
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::oracle::diskstats::DiskStats;
use crate::support::scratch_dir;

/// Log of a machine without load (`scripts/capture-corpus`).
const CORPUS: &str = "tests/corpus/logs/v2/stacks.iocap";

/// `iotrace-perf stacks OPTIONS`; what it writes to this file.
#[track_caller]
fn stacks(to: &Path, options: &[&str], program: &[&str]) -> String {
    let mut command = Command::new(BINARY);
    command.arg("stacks").args(options).arg("--to").arg(to);
    if !program.is_empty() {
        command.arg("--").args(program);
    }
    process::run(&mut command, TIMEOUT).expect("it ends").success();
    std::fs::read_to_string(to).expect("it was written")
}

/// A loop device in memory, and what holds its file.
#[track_caller]
fn device(bytes: u64) -> (LoopDevice, tempfile::TempDir) {
    let memory =
        tempfile::Builder::new().prefix("stacks").tempdir_in("/dev/shm").expect("a directory");
    (LoopDevice::new(memory.path(), bytes).expect("a loop device"), memory)
}

#[track_caller]
fn idle(device: &LoopDevice) -> DiskStats {
    DiskStats::wait_idle(device.name(), TIMEOUT).expect("it comes to rest")
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"))
}

/// The rows of one device.
fn of<'a>(rows: &'a Value, device: &str) -> Vec<&'a Value> {
    rows.as_array().expect("a table").iter().filter(|it| it["of"] == device).collect()
}

/// Bytes read and written by these rows.
fn sums(rows: &[&Value]) -> (u64, u64) {
    let sum = |key: &str| rows.iter().map(|it| number(it, key)).sum();
    (sum("read_bytes"), sum("written_bytes"))
}

/// The notes state that nothing was lost.
#[track_caller]
fn assert_whole(report: &Value) {
    let notes = report["notes"].as_array().expect("a list");
    let whole = |it: &Value| it.as_str().is_some_and(|it| it.starts_with("complete: nothing lost"));
    assert!(notes.iter().any(whole), "{notes:#?}");
}

/// Fails if a bio is missing or counted twice, if the kernel's functions have no names, or if what
/// several requests are made of is not distinguished: the reference's workload, 16 KiB random
/// writes of 8 jobs 32 deep.
#[test]
fn bytes_of_all_stacks_are_those_of_the_disk() {
    if !can_record(&[Need::Loop, Need::Fio]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("stacks");
    let (device, _memory) = device(64 << 20);
    let name = format!("--filename={}", device.path().display());
    let jobs = ["--rw=randwrite", "--bs=16k", "--ioengine=libaio", "--iodepth=32", "--numjobs=8"];
    let rest = ["--direct=1", "--size=64M", "--io_size=4M", "--randseed=7", "--output=/dev/null"];
    let fio = [&["fio", "--name=job", &name][..], &jobs, &rest].concat();
    for source in ["tracefs", "perf"] {
        let before = idle(&device);
        let options = ["-K", "-a", "-d", device.name(), "--source", source, "--json"];
        let text = stacks(&dir.path().join(source), &options, &fio);
        let done = idle(&device) - before;
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let rows = of(&report["stacks"], device.name());
        assert_eq!(sums(&rows), (done.read_sectors * 512, done.written_sectors * 512), "{source}");
        assert_eq!(sums(&of(&report["totals"], device.name())), sums(&rows), "{source}");
        let by_fio: Vec<&Value> = rows.into_iter().filter(|it| it["comm"] == "fio").collect();
        assert_eq!(sums(&by_fio).1, 8 * (4 << 20), "{source}");
        for row in by_fio.iter().filter(|it| number(it, "written_bytes") > 0) {
            let stack = row["stack"].as_str().unwrap_or_default();
            let functions: Vec<&str> = stack.split(';').collect();
            let has = |part: &str| functions.iter().any(|it| it.contains(part));
            assert!(has("io_submit") && has("submit_bio") && functions.len() > 4, "{stack}");
            assert!(!stack.contains("0x") && !stack.contains("[unknown]"), "{stack}");
        }
        assert_whole(&report);
    }
}

/// Fails if functions of a program are not found, or are another's; if the same log gives other
/// numbers in another form.
#[test]
fn functions_of_a_program_are_named() {
    if !can_record(&[Need::Loop, Need::Program("cc")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("stacks");
    let program = compile("stacks.c", dir.path());
    let (device, _memory) = device(4 << 20);
    let path = device.path().to_str().expect("text");
    let log = dir.path().join("traces.iocap");
    let options = ["-e", "block,pwrite64", "-d", device.name(), "--stacks", "kernel,user,calls"];
    let (finished, recording) = record(dir.path(), &options, &[&program, path]);
    finished.success();
    recording.assert_whole();
    assert_eq!(recording.info["stacks"]["user"], true);
    let log = log.to_str().expect("text");
    let folded = |name: &str, options: &[&str]| {
        let text = stacks(&dir.path().join(name), &[options, &["-f", log]].concat(), &[]);
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let weight = |lines: &[String], parts: &[&str]| -> u64 {
        let has =
            |it: &&String| parts.iter().all(|part| it.split([';', ' ']).any(|it| it == *part));
        lines
            .iter()
            .filter(has)
            .map(|it| it.rsplit(' ').next()?.parse::<u64>().ok())
            .map(|it| it.expect("a weight"))
            .sum()
    };
    let user = folded("user", &["-U"]);
    // `one` has called the C library, which may keep no frame, so that its own is not seen.
    let writers = [device.name(), "stacks", "main", "outer", "inner"];
    assert_eq!(weight(&user, &writers), 101 * 4096, "{user:#?}");
    assert_eq!(weight(&user, &["main"]), 101 * 4096 + 53 * 8192, "{user:#?}");
    let counted = folded("counted", &["-K", "-U", "--by", "count", "-P"]);
    assert_eq!(weight(&counted, &["inner"]), 101, "{counted:#?}");
    assert_eq!(weight(&counted, &["main"]), 101 + 53, "{counted:#?}");
    let pid = recording.info["roots"][0].as_i64().expect("a number");
    assert_eq!(weight(&counted, &[&format!("stacks-{pid}")]), 101 + 53, "{counted:#?}");
    let reads = folded("reads", &["-U", "--io", "r", "--by", "count"]);
    assert_eq!((weight(&reads, &["main"]), weight(&reads, &["inner"])), (53, 0), "{reads:#?}");
    let calls = folded("calls", &["--calls", "--by", "count"]);
    assert_eq!(weight(&calls, &["pwrite64", "inner", "outer", "main"]), 101, "{calls:#?}");
}

/// Fails if the functions that cause requests of a device and of the one below it are mixed up.
#[test]
fn each_device_has_stacks_of_its_own() {
    if !can_record(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    let _alone = alone();
    let stack = Stack::new(Backing::Ext4);
    let devices = stack.devices();
    let [upper, lower] = devices.as_slice() else { panic!("two devices") };
    let dir = scratch_dir("stacks");
    let before = [idle(upper), idle(lower)];
    let to = format!("of={}", upper.path().display());
    let both = format!("{},{}", upper.name(), lower.name());
    let options = ["-a", "-d", &both, "--json"];
    // The writes reach the lower device before the recording is over.
    let script = format!("dd if=/dev/zero {to} bs=4096 count=101 oflag=direct; sync");
    let text = stacks(&dir.path().join("report"), &options, &["sh", "-c", &script]);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_whole(&report);
    for (device, before) in devices.iter().zip(before) {
        let done = idle(device) - before;
        let rows = of(&report["stacks"], device.name());
        let all = (done.read_sectors * 512, done.written_sectors * 512);
        assert_eq!(sums(&rows), all, "{}: {report:#}", device.name());
    }
    let by_dd = |device: &LoopDevice| {
        let rows = of(&report["stacks"], device.name());
        sums(&rows.into_iter().filter(|it| it["comm"] == "dd").collect::<Vec<_>>()).1
    };
    assert_eq!(by_dd(upper), 101 * 4096);
    assert_eq!(by_dd(lower), 0, "a thread of the kernel's writes the file of the upper one");
}

/// Fails if a log of today is read in another way some day, or if one form has other numbers than
/// the others.
#[test]
fn recorded_log_gives_the_same_in_all_forms() {
    let _turn = beside_others();
    let dir = scratch_dir("stacks");
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join(CORPUS);
    let log = log.to_str().expect("text");
    let print = |name: &str, options: &[&str]| {
        stacks(&dir.path().join(name), &[options, &["-K", "-U", log]].concat(), &[])
    };
    let (written, read) = ((101 * 4096).to_string(), (53 * 8192).to_string());
    let report: Value = serde_json::from_str(&print("json", &["--json"])).expect("JSON");
    let total = &report["totals"][0];
    assert_eq!(number(total, "count"), 154);
    assert_eq!(sums(&[total]), (53 * 8192, 101 * 4096));
    let stacks = report["stacks"].as_array().expect("a table");
    let of_inner = |it: &&Value| it["stack"].as_str().is_some_and(|it| it.contains("outer;inner;"));
    let inner: Vec<&Value> = stacks.iter().filter(of_inner).collect();
    assert_eq!(sums(&inner), (0, 101 * 4096));
    let csv = print("csv", &["--csv"]);
    let is_inner = |it: &&str| it.starts_with("stacks,") && it.contains("outer;inner;");
    assert!(
        csv.lines()
            .find(is_inner)
            .is_some_and(|it| it.starts_with(&format!("stacks,101,0,{written},0,"))),
        "{csv}"
    );
    let text = print("text", &[]);
    let has = |number: &str| text.split_whitespace().any(|it| it == number);
    assert!(has("154") && has("101") && has("53"), "{text}");
    assert!(csv.contains(&written) && csv.contains(&read), "{csv}");
    let folded = print("folded", &["-f"]);
    assert!(
        folded
            .lines()
            .any(|it| it.contains("outer;inner;") && it.ends_with(&format!(" {written}"))),
        "{folded}"
    );
}

/// Fails if what is there is overwritten, or a picture is drawn of nothing.
#[test]
fn flame_graphs_are_new_files() {
    let _turn = beside_others();
    let dir = scratch_dir("stacks");
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join(CORPUS);
    let svg = dir.path().join("flames.svg");
    let draw = || {
        let mut command = Command::new(BINARY);
        command.args(["stacks", "-U", "--reversed", "--svg"]).arg(&svg).arg(&log);
        process::run(&mut command, TIMEOUT).expect("it ends")
    };
    draw().success();
    let text = std::fs::read_to_string(&svg).expect("it was drawn");
    assert!(text.contains("<svg") && text.contains("<title>inner ("), "{text}");
    assert_eq!(draw().status.code(), Some(125));
    assert_eq!(std::fs::read_to_string(&svg).expect("it is as it was"), text);
}

/// Fails if the report is lost because there is nothing to draw, or if an empty picture is left.
#[test]
fn empty_stacks_give_no_flame_graph() {
    let _turn = beside_others();
    let dir = scratch_dir("stacks");
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join(CORPUS);
    let svg = dir.path().join("flames.svg");
    let log = log.to_str().expect("text");
    let options = ["-K", "--json", "--svg", svg.to_str().expect("text"), "--comm", "nobody", log];
    let report = stacks(&dir.path().join("report"), &options, &[]);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let notes = report["notes"].as_array().expect("a list");
    assert!(notes.iter().any(|it| it == "no flame graph: there is nothing to draw"), "{notes:#?}");
    assert!(!svg.exists());
}

/// Reads a number of an ELF file.
fn word<const N: usize>(elf: &[u8], at: usize) -> usize {
    let bytes = elf[at..at + N].iter().rev();
    bytes.fold(0, |sum, it| sum << 8 | usize::from(*it))
}

/// Offset of the header of its symbol table (`SHT_SYMTAB` is 2).
fn symtab(elf: &[u8]) -> usize {
    let (table, bytes, count) = (word::<8>(elf, 0x28), word::<2>(elf, 0x3a), word::<2>(elf, 0x3c));
    let mut headers = (0..count).map(|it| table + it * bytes);
    headers.find(|it| word::<4>(elf, it + 4) == 2).expect("a table of symbols")
}

/// Damage to a copy of a program that the kernel does not notice: it reads no sections.
#[derive(Clone, Copy, Debug)]
enum Trap {
    /// An image with this many symbols, which are empty and in a hole, and this mode.
    Symbols(u64, u32),
    /// `inner` is called so, in as many bytes.
    Name(&'static [u8; 5]),
}

/// 6 GiB of symbols, for which a reader wants 2 GiB of memory.
const MEMORY: Trap = Trap::Symbols(256 << 20, 0o755);

/// 2.7 GiB of symbols: to read them takes some seconds.
const TIME: Trap = Trap::Symbols(120 << 20, 0o755);

impl Trap {
    /// A copy of `stacks` with it; its path.
    fn set(self, program: &str) -> String {
        let mut elf = std::fs::read(program).expect("it is there");
        // No other user may read it: it is read all the same.
        let (mut mode, mut length) = (0o700, elf.len() as u64);
        match self {
            Self::Symbols(count, of_mode) => {
                let (header, start, bytes) = (symtab(&elf), 1_u64 << 20, 24 * count);
                elf[header + 0x18..][..8].copy_from_slice(&start.to_le_bytes());
                elf[header + 0x20..][..8].copy_from_slice(&bytes.to_le_bytes());
                (mode, length) = (of_mode, start + bytes);
            }
            Self::Name(name) => {
                let at = elf.windows(7).position(|it| it == b"\0inner\0").expect("a name");
                elf[at + 1..][..5].copy_from_slice(name);
            }
        }
        let copy = Path::new(program).with_file_name("trap");
        std::fs::write(&copy, elf).expect("it is written");
        let file = std::fs::File::options().write(true).open(&copy).expect("it is there");
        file.set_len(length).expect("holes need no room");
        file.set_permissions(PermissionsExt::from_mode(mode)).expect("it is ours");
        copy.into_os_string().into_string().expect("text")
    }
}

/// The process that is reading this file; and is still at it a moment later.
fn reader_of(path: &str) -> Option<i32> {
    let reads = |pid: i32| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.ends_with("name-functions\0") && maps.contains(path)
    };
    let all = std::fs::read_dir("/proc").expect("it is there").flatten();
    let mut pids = all.filter_map(|it| it.file_name().to_str()?.parse().ok());
    let reader = pids.find(|it| reads(*it))?;
    std::thread::sleep(std::time::Duration::from_millis(200));
    reads(reader).then_some(reader)
}

/// Records a program with a trap and then one without; meanwhile the reader of the first one is
/// acted on.
#[track_caller]
fn trapped(
    trap: Trap,
    meanwhile: impl FnOnce(&str) + Send,
) -> (tempfile::TempDir, String, process::Finished, Recording) {
    let dir = scratch_dir("stacks");
    let good = compile("stacks.c", dir.path());
    let bad = trap.set(&good);
    let (device, _memory) = device(4 << 20);
    let path = device.path().to_str().expect("text");
    let script = format!("{bad} {path} && {good} {path}");
    let options = ["-e", "block", "-d", device.name(), "--stacks", "user"];
    let (finished, recording) = std::thread::scope(|it| {
        it.spawn(|| meanwhile(&bad));
        record(dir.path(), &options, &["sh", "-c", &script])
    });
    let finished = finished.success();
    recording.assert_whole();
    (dir, bad, finished, recording)
}

/// The lines of folded stacks of this program.
fn folded_of(dir: &Path, program: &str) -> Vec<String> {
    let log = dir.join("traces.iocap");
    let options = ["-U", "-f", log.to_str().expect("text")];
    let text = stacks(&dir.join(format!("folded-{program}")), &options, &[]);
    let part = format!(";{program};");
    text.lines().filter(|it| it.contains(&part)).map(str::to_owned).collect()
}

#[track_caller]
fn check_trap(trap: Trap, meanwhile: impl FnOnce(&str) + Send, reason: &str) {
    let (dir, bad, finished, recording) = trapped(trap, meanwhile);
    let unread = &recording.info["unread"];
    assert_eq!(unread["files"], 1, "{unread:#}");
    assert!(number(unread, "addresses") >= 4, "{unread:#}");
    assert_eq!(
        (&unread["first"][0]["path"], &unread["first"][0]["reason"]),
        (&bad.as_str().into(), &reason.into())
    );
    let reported = " in programs without a name: 1 file could not be read: ";
    let notes = recording.report("stacks")["notes"].to_string();
    for text in [finished.stderr(), recording.text_info(), notes] {
        assert!(text.contains(reported) && text.contains(reason), "{text}");
    }
    let (trapped, whole) = (folded_of(dir.path(), "trap"), folded_of(dir.path(), "stacks"));
    assert!(trapped.iter().all(|it| it.contains("trap+0x") && !it.contains("main")), "{trapped:?}");
    assert!(whole.iter().any(|it| it.contains(";main;outer;inner;")), "{whole:?}");
    assert_eq!(reader_of(&bad), None, "nothing is left behind");
}

/// Fails if the tracer is ended by what a program has made for that, if it is not reported, or if
/// others lose their names by it.
#[test]
fn trapped_reader_loses_only_names_of_that_program() {
    if !can_record(&[Need::Loop, Need::Program("cc")]) {
        return;
    }
    let _alone = alone();
    check_trap(MEMORY, |_| {}, "it took too much memory, or is damaged (SIGABRT)");
    let reason = "it cannot be opened without privileges, and was not copied before";
    check_trap(Trap::Symbols(256 << 20, 0o700), |_| {}, reason);
    let kill = |path: &str| {
        let mut reader = None;
        wait_until("it is read", || {
            reader = reader_of(path);
            reader.is_some()
        });
        let reader = nix::unistd::Pid::from_raw(reader.expect("it was there"));
        nix::sys::signal::kill(reader, nix::sys::signal::Signal::SIGKILL).expect("it is there");
    };
    check_trap(TIME, kill, "the process for it was killed by SIGKILL");
    let cut = |path: &str| {
        wait_until("it is read", || reader_of(path).is_some());
        let file = std::fs::File::options().write(true).open(path).expect("it is there");
        file.set_len(0).expect("no process runs it any more");
    };
    check_trap(TIME, cut, "it was cut off meanwhile (SIGBUS)");
}

/// Fails if what a program calls its functions drives a terminal, makes one line two, or one
/// function two.
#[test]
fn names_of_functions_are_harmless() {
    if !can_record(&[Need::Loop, Need::Program("cc")]) {
        return;
    }
    let _turn = beside_others();
    let (dir, _, _, recording) = trapped(Trap::Name(b"i;\n\x1b7"), |_| {});
    assert_eq!(recording.info["unread"]["files"], 0, "{:#}", recording.info["unread"]);
    let lines = folded_of(dir.path(), "trap");
    let shown = r";main;outer;i\x3b\x0a\x1b7;";
    assert!(lines.iter().any(|it| it.contains(shown)), "{lines:#?}");
    let log = dir.path().join("traces.iocap");
    for form in [&[][..], &["--json"], &["--csv"], &["-f"]] {
        let options = [&["-U"], form, &[log.to_str().expect("text")]].concat();
        let text = stacks(&dir.path().join(format!("form{}", form.concat())), &options, &[]);
        assert!(!text.contains('\x1b') && !text.contains("i;\n"), "{text}");
    }
    // A name is text.
    let (dir, ..) = trapped(Trap::Name(b"i\xffner"), |_| {});
    let lines = folded_of(dir.path(), "trap");
    assert!(lines.iter().any(|it| it.contains(";main;outer;trap+0x")), "{lines:#?}");
}
