//! The audit: what the kernel counts call by call, lines of daily use, and what cannot be compared.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use iotrace_perf::analysis::accounting;
use iotrace_perf::event::syscall_table::CallId;
use iotrace_perf::operation::model::{ProcessKey, SyscallOperation, ThreadKey};
use iotrace_perf::units::{CpuId, KernelTime, Pid, Tid};
use serde_json::Value;

use crate::support::driver::daily::{self, Line, LineDirectories};
use crate::support::driver::process;
use crate::support::driver::recording::{Source, TIMEOUT, can_record, compile};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::scratch_dir;

for_each_source! {
    all_calls_together_are_equal,
    daily_use_is_equal,
    unreaped_processes_explain_the_difference,
    core_dump_is_named,
    btrfs_stream_is_named,
    copy_on_overlayfs_counts_twice,
}

// --- each call ---

/// A call as `tests/programs/accounting.c` prints it: the call itself, and the kernel's count.
fn reported(line: &str) -> (SyscallOperation, [u64; 4]) {
    let mut words = line.split(' ');
    let name = words.next().expect("a name");
    let mut number = || words.next().expect("a number").parse::<i64>().expect("a number");
    let args = std::array::from_fn(|_| number().cast_unsigned());
    let result = number();
    let counted = std::array::from_fn(|_| number().cast_unsigned());
    let operation = SyscallOperation {
        call: CallId::by_common_name(name).expect(name),
        thread: ThreadKey(0),
        process: ProcessKey(0),
        pid: Pid(1),
        tid: Tid(1),
        cpu: CpuId(0),
        start: KernelTime(0),
        end: Some(KernelTime(1)),
        args,
        ret: Some(result),
        fd: None,
        file: None,
        named: None,
        target: None,
        offset: None,
        target_offset: None,
        flags_in_memory: None,
        resolve_in_memory: None,
        bytes_requested: None,
        spans: Vec::new(),
        chain: None,
    };
    (operation, counted)
}

/// Compares what a kernel counted for each call with the table.
fn assert_counted_as_the_table_says(kernel: &str, text: &str) {
    let mut doubtful = 0;
    for line in text.lines() {
        let (operation, counted) = reported(line);
        let accounting::Accounted { read, write } = accounting::of(&operation);
        let [read_bytes, write_bytes, read_calls, write_calls] = counted;
        assert_eq!([read.bytes, write.bytes], [read_bytes, write_bytes], "{kernel}: {line}");
        let may_be = |it: accounting::IoCounts| it.calls..=it.calls + it.doubtful;
        assert!(may_be(read).contains(&read_calls), "{kernel}: {line}");
        assert!(may_be(write).contains(&write_calls), "{kernel}: {line}");
        doubtful += read.doubtful.max(write.doubtful);
    }
    assert!(text.lines().count() > 90, "{kernel}: {text}");
    // EINVAL of a file without a read function, of a length that is not allowed, of O_DIRECT, and
    // of transfers.
    assert!(doubtful <= 9, "{kernel}: {doubtful}");
}

/// Fails if a call, or a kind of failure of it, is counted by the kernel in another way than the
/// table says.
#[test]
fn each_call_is_counted_as_the_table_says() {
    let _turn = beside_others();
    let dir = scratch_dir("accounts");
    let program = compile("accounting.c", dir.path());
    let other = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
    let place = dir.path().to_str().expect("text");
    let mut command = Command::new(program);
    let counted = process::run(command.args([place, other]), TIMEOUT).expect("it ends");
    assert_counted_as_the_table_says("this kernel", &counted.success().stdout());
}

/// The records that `scripts/vm/check-accounting` made on other kernels.
#[test]
fn other_kernels_count_as_the_table_says() {
    let _turn = beside_others();
    let recorded = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/recording/both_sources/byte_accounting/kernels"
    );
    let files = fs::read_dir(recorded).expect("recorded answers");
    let kernels = files.map(|it| it.expect("a file").path()).map(|path| {
        let text = fs::read_to_string(&path).expect("text");
        assert_counted_as_the_table_says(&path.display().to_string(), &text);
    });
    assert!(kernels.count() >= 4);
}

/// A recorded program that makes all of them: the sums are equal, too.
fn all_calls_together_are_equal(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("accounts");
    let program = compile("accounting.c", dir.path());
    let place = dir.path().to_str().expect("text");
    let (finished, recording) =
        source.record(&dir.path().join("trace"), &[], &[&program, place, "/dev/shm"]);
    finished.success();
    let audit = &recording.info["audit"];
    assert_eq!(audit["agrees"], true, "{audit:#}");
    assert_eq!(audit["programs_unknown"], 0, "{audit:#}");
}

// --- daily use ---

/// Lines that run at the same time.
const AT_ONCE: usize = 3;

/// Fails if the audit of any line of daily use is not equal, and has no reason that the table
/// expects. Each source has every other line: what a line does is the same for both, and all lines
/// with both took five minutes.
fn daily_use_is_equal(source: Source) {
    if !can_record(&[Need::Program("git")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("accounts");
    let model = dir.path().join("model");
    daily::make_place(&model);
    let table = fs::read_to_string(daily::table()).expect("it is there");
    let lines: Vec<Line<'_>> = Line::all(&table).into_iter().filter(Line::can_run).collect();
    assert!(lines.len() >= 200, "{}", lines.len());
    let first = usize::from(source == Source::Perf);
    let lines: Vec<Line<'_>> = lines.into_iter().skip(first).step_by(2).collect();
    let next = AtomicUsize::new(0);
    let bad = Mutex::new(Vec::new());
    let run = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&line) = lines.get(number) else { return };
            let place = dir.path().join(number.to_string());
            fs::create_dir(&place).expect("make it");
            let other = Path::new("/dev/shm")
                .join(format!("iotrace-daily-{number}-{}", std::process::id()));
            fs::create_dir(&other).expect("make it");
            let audit = daily::audit_of(
                source,
                line,
                &model,
                &LineDirectories { dir: &place, other: &other },
            );
            let is_right =
                audit.contains("audit: equal") || line.leaves && audit.contains("not waited for");
            if !is_right {
                bad.lock().expect("no panic").push(format!("{}: {audit}", line.script));
            }
            let _ = fs::remove_dir_all(&other);
            let _ = fs::remove_dir_all(&place);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(run);
        }
    });
    let bad = bad.into_inner().expect("no panic");
    assert_eq!(bad, Vec::<String>::new());
}

// --- processes that are not in the numbers ---

/// Fails if processes that were not waited for, or whose accounting the kernel threw away, are not
/// the reason.
fn unreaped_processes_explain_the_difference(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("accounts");
    let program = compile("unwaited.c", dir.path());
    let expected = [("none", 1), ("ignored", 1), ("waited", 0), ("parent", 20)];
    for (mode, unwaited) in expected {
        let (finished, recording) = source.record(&dir.path().join(mode), &[], &[&program, mode]);
        finished.success();
        let audit = &recording.info["audit"];
        assert_eq!(audit["unwaited"], unwaited, "{mode}: {audit:#}");
        let agrees = if unwaited == 0 { Value::Bool(true) } else { Value::Null };
        assert_eq!(audit["agrees"], agrees, "{mode}: {audit:#}");
    }
}

/// Fails if what the kernel writes into a core dump has no name.
fn core_dump_is_named(source: Source) {
    if !can_record(&[Need::Program("bash")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("accounts");
    // A pattern that leads to a program has the dump written into a pipe, which counts as well.
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").expect("it is there");
    let script = "ulimit -c unlimited; cd \"$0\"; bash -c 'kill -ABRT $$'; true";
    let place = dir.path().to_str().expect("text");
    let trace = dir.path().join("trace");
    let (finished, recording) = source.record(&trace, &[], &["bash", "-c", script, place]);
    finished.success();
    let audit = &recording.info["audit"];
    assert_eq!(audit["agrees"], true, "{audit:#}");
    assert!(audit["core_dump_bytes"].as_u64() > Some(4096), "{pattern}: {audit:#}");
}

/// Fails if the stream that the kernel writes inside an `ioctl` has no name, or a recording without
/// `ioctl` does not tell how to see it.
fn btrfs_stream_is_named(source: Source) {
    let mkfs = Need::Program("mkfs.btrfs");
    if !can_record(&[Need::Root, Need::Loop, Need::KernelFile("/sys/fs/btrfs"), mkfs]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("accounts");
    let mounted = Mounted::new(dir.path(), "btrfs", 200 << 20);
    let prepare = "btrfs subvolume create a && head -c 300000 /dev/zero > a/file && btrfs subvolume snapshot -r a b";
    let mut shell = Command::new("sh");
    shell.args(["-c", prepare]).current_dir(mounted.path());
    process::run(&mut shell, TIMEOUT).expect("it ends").success();
    let to = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (stream, from) = (to("stream"), to("mounted/b"));
    let send = ["btrfs", "send", "-q", "-f", &stream, &from];

    let (finished, recording) =
        source.record(&dir.path().join("with"), &["-e", "%default,ioctl"], &send);
    let text = finished.success().stderr();
    let audit = &recording.info["audit"];
    assert_eq!(audit["agrees"], true, "{audit:#}");
    assert_eq!(audit["btrfs_sends"], 1, "{audit:#}");
    assert!(text.contains("writes by the kernel itself inside ioctl for btrfs send"), "{text}");

    fs::remove_file(&stream).expect("the stream");
    let (finished, recording) = source.record(&dir.path().join("without"), &[], &send);
    let text = finished.success().stderr();
    assert_eq!(recording.info["audit"]["agrees"], false, "{text}");
    assert!(text.contains("ioctl was not recorded: btrfs send writes inside it"), "{text}");
}

/// Bytes of the file that is copied.
const COPIED: i64 = 50_021;

/// A mounted overlayfs; it is unmounted when dropped.
struct Overlay<'a>(&'a Path);

impl Drop for Overlay<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.join("merged")).status();
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// Fails if a copy inside overlayfs, which the kernel counts twice, is not the reason for exactly
/// that.
fn copy_on_overlayfs_counts_twice(source: Source) {
    let systems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let overlay = if systems.contains("overlay") { "/proc/filesystems" } else { "/overlayfs" };
    if !can_record(&[Need::KernelFile(overlay)]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("accounts");
    let place = dir.path().join("overlay");
    fs::create_dir(&place).expect("make it");
    let script = format!(
        "mount -t tmpfs none . && cd . && cd $PWD && mkdir lower upper work merged \
         && head -c {COPIED} /dev/zero > lower/a \
         && mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged"
    );
    let mounted = Overlay(&place);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(&place);
    process::run(&mut shell, TIMEOUT).expect("it ends").success();
    let [from, to] = ["a", "b"].map(|it| place.join("merged").join(it).display().to_string());
    let (finished, recording) = source.record(&dir.path().join("trace"), &[], &["cp", &from, &to]);
    finished.success();
    drop(mounted);
    let audit = &recording.info["audit"];
    assert_eq!(audit["agrees"], true, "{audit:#}");
    let number = |key: &str| audit[key].as_i64().expect("a number");
    assert_eq!(number("overlay_copies") + number("overlay_copies_doubtful"), 1, "{audit:#}");
    assert_eq!(number("read_bytes_difference") - number("exec_read_bytes"), COPIED, "{audit:#}");
    assert_eq!(number("write_bytes_difference"), COPIED, "{audit:#}");
}
