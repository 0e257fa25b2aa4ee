//! `top`: its lines for programs have the counts of the programs, and its screen is driven by keys
//! at a terminal.

mod tmux;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record, iotrace, wait_until};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::scratch_dir;

/// Reads the lines of `top --json`.
fn intervals(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("it was written");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Returns the sum of a number over the rows of all intervals that match.
fn sum(intervals: &[Value], table: &str, [key, value]: [&str; 2], number: &str) -> u64 {
    let rows = intervals.iter().flat_map(|interval| interval[table].as_array().expect(table));
    rows.filter(|row| row[key] == value).filter_map(|row| row[number].as_u64()).sum()
}

/// Returns a command that writes 1,009 times 4,099 bytes, and nothing else.
fn writes(out: &Path) -> String {
    let out = out.display();
    format!("dd if=/dev/zero of={out} bs=4099 count=1009 status=none conv=notrunc")
}

/// Runs `top --json` beside a script; returns its exit code and its objects.
fn beside_script(dir: &Path, options: &[&str], script: &str) -> (Option<i32>, Vec<Value>) {
    let lines = dir.join("lines");
    let mut top = Command::new(BINARY);
    top.args(["top", "--json"]).args(options).arg("--to").arg(&lines);
    top.args(["--", "sh", "-c", script]);
    let finished = process::run(&mut top, TIMEOUT).expect("it ends");
    (finished.status.code(), intervals(&lines))
}

/// Fails if the sums over the intervals are not what the programs have counted, or if the intervals
/// do not follow each other.
#[test]
fn sums_of_intervals_are_the_counts_of_the_program() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("top");
    let write = writes(&dir.path().join("out"));
    let script = format!("{write}; sleep 0.3; {write}; sleep 0.3; {write}; exit 7");
    let (code, intervals) = beside_script(dir.path(), &["-I", "200ms"], &script);
    assert_eq!(code, Some(7));
    assert!(intervals.len() >= 3, "{intervals:#?}");
    let bytes = sum(&intervals, "processes", ["program", "dd"], "written_bytes");
    assert_eq!(bytes, 3 * 1009 * 4099);
    assert_eq!(sum(&intervals, "calls", ["operation", "write"], "count"), 3 * 1009);
    let number = |interval: &Value, key: &str| interval[key].as_u64().expect("a number");
    for (place, interval) in intervals.iter().enumerate() {
        assert_eq!(number(interval, "interval"), place as u64 + 1);
        assert_eq!(number(interval, "lost"), 0);
        let of_rows = |table: &str| -> u64 {
            let rows = interval[table].as_array().expect(table);
            rows.iter().filter_map(|row| row["count"].as_u64()).sum()
        };
        for table in ["processes", "calls", "cgroups"] {
            assert_eq!(of_rows(table), number(interval, "count"), "{table}: {interval:#}");
        }
    }
    for pair in intervals.windows(2) {
        let end = number(&pair[0], "start_ns") + number(&pair[0], "duration_ns");
        assert_eq!(number(&pair[1], "start_ns"), end);
    }
}

/// Fails if the program does not run on after the last interval, or if its exit code is lost.
#[test]
fn program_runs_on_after_the_last_interval() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("top");
    let write = writes(&dir.path().join("out"));
    let made = dir.path().join("made");
    let script = format!("{write}; sleep 1.1; {write}; sleep 3; touch {}; exit 3", made.display());
    let (code, intervals) = beside_script(dir.path(), &["-I", "1s", "-n", "3"], &script);
    assert_eq!((code, intervals.len(), made.exists()), (Some(3), 3, true));
    let bytes = sum(&intervals, "processes", ["program", "dd"], "written_bytes");
    assert_eq!(bytes, 2 * 1009 * 4099);
}

/// Fails if `-n` ends after another number of intervals, or if the last one has not all.
#[test]
fn number_of_intervals_is_kept() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let own = std::process::id().to_string();
    let finished = iotrace(&["top", "-p", &own, "-I", "100ms", "-n", "3", "--json"]).success();
    let lines: Vec<Value> =
        finished.stdout().lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[2]["duration_ns"].as_u64() >= Some(100_000_000), "{}", lines[2]);
    let once = iotrace(&["top", "-p", &own, "--once", "-I", "100ms", "--csv"]).success().stdout();
    assert!(
        once.starts_with("interval,start_ns,duration_ns,lost,own_cpu_ns,delay_ns,count,"),
        "{once}"
    );
}

/// A shell at a terminal of its own, whose screen is read.
struct Desk {
    process: Child,
    keyboard: File,
    /// Terminal as the shell has it: it stays open until the screen was read.
    side: std::os::fd::OwnedFd,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Desk {
    /// Starts a script; `DIR` in it is this directory, `TRACER` ours.
    fn new(dir: &Path, (rows, columns): (u16, u16), script: &str) -> Self {
        let script = script.replace("DIR", dir.to_str().expect("text")).replace("TRACER", BINARY);
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(&size, None).expect("a terminal");
        // A child that has inherited its other side would keep it open.
        fcntl(&master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("it is ours");
        let side = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", "sh", "-mc", &script]).env("TERM", "xterm");
        let process = command.stdin(side()).stdout(side()).stderr(side()).spawn();
        let keyboard = File::from(master);
        let parser = vt100::Parser::new(size_of(rows), size_of(columns), 0);
        let screen = Arc::new(Mutex::new(parser));
        let (mut shown, parsed) =
            (keyboard.try_clone().expect("a descriptor"), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = shown.read(&mut bytes) {
                parsed.lock().expect("it does not panic").process(&bytes[..count]);
            }
        });
        Self { process: process.expect("it starts"), keyboard, side: slave, screen }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("it is open");
    }

    fn text(&self) -> String {
        self.screen.lock().expect("it does not panic").screen().contents()
    }

    fn is_alternate(&self) -> bool {
        self.screen.lock().expect("it does not panic").screen().alternate_screen()
    }

    /// Waits until the screen has this text.
    #[track_caller]
    fn sees(&self, text: &str) {
        let is_seen = || self.text().contains(text);
        if !(0..TIMEOUT.as_millis() / 20).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            is_seen()
        }) {
            panic!("{text} is not on the screen:\n{}", self.text());
        }
    }

    /// Changes the size of the terminal.
    fn resize(&self, rows: u16, columns: u16) {
        let mut parser = self.screen.lock().expect("it does not panic");
        parser.set_size(size_of(rows), size_of(columns));
        drop(parser);
        self.stty((rows, columns));
    }

    /// Changes the size that the terminal tells.
    fn stty(&self, (rows, columns): (u16, u16)) {
        let side = self.side.try_clone().expect("a descriptor");
        let mut stty = Command::new("stty");
        stty.args(["rows", &rows.to_string(), "cols", &columns.to_string()]);
        assert!(stty.stdin(Stdio::from(side)).status().expect("it runs").success());
    }

    fn end(&mut self) -> ExitStatus {
        process::wait(&mut self.process, TIMEOUT).expect("it ends")
    }
}

fn size_of(cells: u16) -> NonZeroU16 {
    NonZeroU16::new(cells).expect("more than none")
}

/// Parses a number as the screen has it: `1,234`, `1.23 M`, `25.1 MB`.
fn number(words: &[&str]) -> f64 {
    let number: f64 = words[0].replace(',', "").parse().expect(words[0]);
    let unit = words.get(1).map_or("", |word| word.trim_end_matches('B'));
    let scale = match unit {
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => 1.0,
    };
    number * scale
}

/// Operations and bytes read of the process of a program with most operations, from totals on a
/// wide screen. The process that starts the others reads files of its own.
fn totals(text: &str, program: &str) -> (f64, f64) {
    let mut most = (0.0, 0.0);
    for line in text.lines().skip(4) {
        let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "†").collect();
        let is_row = words.first().is_some_and(|word| word.parse::<i32>().is_ok());
        if is_row && words.get(1) == Some(&program) {
            let row = (number(&words[2..3]), number(&words[3..5]));
            most = if row.0 > most.0 { row } else { most };
        }
    }
    most
}

/// Fails if the numbers on the screen are not those of fio, if keys have not their effects, if a
/// size of the terminal is not followed, or if the terminal is not as it was.
#[test]
fn screen_beside_fio_is_driven_by_keys() {
    let needs = ["fio", "setsid", "stty"].map(Need::Program);
    if !can_record(&needs) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("top");
    let script = "stty -g > DIR/before; TRACER top -a --view calls; code=$?; \
                  stty -g > DIR/after; exit $code";
    let mut desk = Desk::new(dir.path(), (50, 200), script);
    desk.sees("OPERATION");
    desk.types("1");
    desk.sees("PROGRAM");
    desk.sees("COMMAND");
    // A file that exists, so that fio only reads.
    let file = dir.path().join("data");
    std::fs::write(&file, vec![7; 16 << 20]).expect("there is room");
    // A name of its own, as another fio may run beside.
    let renamed = dir.path().join("fio-of-top");
    let found = Command::new("which").arg("fio").output().expect("it runs").stdout;
    let found = String::from_utf8(found).expect("a path");
    std::os::unix::fs::symlink(found.trim(), &renamed).expect("a link");
    let mut fio = Command::new(&renamed);
    fio.args(["--name=job", "--rw=randread", "--bs=4099", "--size=16m", "--loops=5"]);
    fio.args(["--ioengine=psync", "--output-format=json", "--filename"]).arg(&file);
    let counted = process::run(&mut fio, TIMEOUT).expect("it ends").success().stdout();
    let counted: Value = serde_json::from_str(&counted).expect("JSON");
    let read = &counted["jobs"][0]["read"];
    let [ios, bytes] = ["total_ios", "io_bytes"].map(|key| read[key].as_f64().expect(key));
    desk.types("t/fio-of-top\r");
    desk.sees("filter: fio-of-top");
    wait_until("totals are those of fio", || {
        let (shown_ios, shown_bytes) = totals(&desk.text(), "fio-of-top");
        (shown_ios / ios - 1.0).abs() < 0.05 && (shown_bytes / bytes - 1.0).abs() < 0.05
    });
    desk.types("\r");
    desk.sees("files of ");
    desk.resize(24, 80);
    desk.sees("Esc back");
    desk.types("\x1b");
    desk.sees("1 processes");
    for (key, heading) in [("2", "FILE"), ("3", "DEVICE"), ("4", "OPERATION"), ("5", "CGROUP")] {
        desk.types(key);
        desk.sees(heading);
    }
    desk.types("?");
    desk.sees("Memory mappings are not counted");
    assert!(desk.is_alternate());
    desk.types("q");
    assert_eq!(desk.end().code(), Some(0), "{}", desk.text());
    wait_until("the screen is left", || !desk.is_alternate());
    let state = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("written");
    assert_eq!(state("after"), state("before"));
}

/// Fails if a signal does not end the screen as a key does, or if Ctrl-Z does not give the terminal
/// back until `fg`.
#[test]
fn terminal_is_restored_after_signals() {
    if !can_record(&[Need::Program("setsid"), Need::Program("stty")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("top");
    let script = "stty -g > DIR/before; sh -c 'echo $$ > DIR/tracer; exec TRACER top -p $PPID --names off'; \
                  stty -g > DIR/meanwhile; touch DIR/suspended; \
                  while ! [ -e DIR/go ]; do sleep 0.05; done; \
                  fg; stty -g > DIR/after; exit 5";
    let mut desk = Desk::new(dir.path(), (24, 80), script);
    let state = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap_or_default();
    desk.sees("PROGRAM");
    desk.types("\x1a");
    wait_until("it is suspended", || dir.path().join("suspended").exists());
    wait_until("the screen is left", || !desk.is_alternate());
    assert_eq!(state("meanwhile"), state("before"));
    std::fs::write(dir.path().join("go"), "").expect("write it");
    wait_until("it goes on", || desk.is_alternate());
    desk.sees("PROGRAM");
    send(state("tracer").trim().parse().expect("a number"), Signal::SIGTERM);
    assert_eq!(desk.end().code(), Some(5), "{}", desk.text());
    wait_until("the screen is left", || !desk.is_alternate());
    assert_eq!(state("after"), state("before"));
}

/// Fails if Ctrl-Z stops a screen that no shell could continue, as that of `ssh -t HOST`.
#[test]
fn screen_without_a_shell_is_not_suspended() {
    if !can_record(&[Need::Program("setsid")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("top");
    let mut desk = Desk::new(dir.path(), (24, 80), "exec TRACER top -p $PPID --names off");
    desk.sees("PROGRAM");
    desk.types("\x1a");
    desk.types("?");
    desk.types("q");
    desk.types("q");
    assert!(desk.end().success(), "{}", desk.text());
    wait_until("the screen is left", || !desk.is_alternate());
}

fn send(process: i32, signal: Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), signal).expect("it is ours");
}

/// Fails if keys come only after Enter when the shell has changed the terminal while the tracer was
/// stopped: by SIGSTOP the tracer knows nothing of that.
#[test]
fn keys_work_after_a_stop_from_outside() {
    if !can_record(&[Need::Program("setsid"), Need::Program("stty")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("top");
    let script = "sh -c 'echo $$ > DIR/tracer; exec TRACER top -p $PPID --names off'; \
                  stty sane; touch DIR/stopped; fg; exit 5";
    let mut desk = Desk::new(dir.path(), (24, 80), script);
    desk.sees("PROGRAM");
    let tracer = std::fs::read_to_string(dir.path().join("tracer")).expect("written");
    send(tracer.trim().parse().expect("a number"), Signal::SIGSTOP);
    wait_until("it goes on", || dir.path().join("stopped").exists());
    // The second line of help is drawn only if a key came without Enter.
    desk.types("?");
    desk.sees("Memory mappings are not counted");
    desk.types("q");
    assert_eq!(desk.end().code(), Some(5), "{}", desk.text());
}

/// Fails if a terminal whose output nothing reads keeps a signal from ending the tracer.
#[test]
fn stalled_terminal_does_not_hold_the_tracer() {
    if !can_record(&[Need::Program("setsid"), Need::Program("stty")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("top");
    let script = "stty -g > DIR/before; \
                  sh -c 'echo $$ > DIR/tracer; exec TRACER top -p $PPID --names off'; \
                  echo $? > DIR/code; stty -g > DIR/after; exit 5";
    let mut desk = Desk::new(dir.path(), (24, 80), script);
    desk.sees("PROGRAM");
    let state = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap_or_default();
    let tracer: i32 = state("tracer").trim().parse().expect("a number");
    let screen = Arc::clone(&desk.screen);
    // Its reader waits for this.
    let held = screen.lock().expect("it does not panic");
    let mut is_wide = false;
    wait_until("the screen is held in a write", || {
        is_wide = !is_wide;
        desk.stty(if is_wide { (200, 500) } else { (190, 490) });
        is_writing(tracer, "iotrace-screen") && {
            std::thread::sleep(std::time::Duration::from_secs(1));
            is_writing(tracer, "iotrace-screen")
        }
    });
    send(tracer, Signal::SIGTERM);
    wait_until("it has ended", || dir.path().join("after").exists());
    drop(held);
    assert_eq!(desk.end().code(), Some(5));
    assert_eq!((state("code"), state("after")), ("0\n".to_owned(), state("before")));
    wait_until("the screen is left", || !desk.is_alternate());
}

/// Returns whether a thread of a process is in `write(2)`.
fn is_writing(process: i32, thread: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let mut named = tasks.flatten().map(|task| task.path()).filter(|task| {
        let comm = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        comm.trim() == thread
    });
    named.any(|task| {
        let call = std::fs::read_to_string(task.join("syscall")).unwrap_or_default();
        call.split(' ').next() == Some(&libc::SYS_write.to_string())
    })
}

/// Fails if `n` cannot begin again when the program's file has been replaced meanwhile.
#[test]
fn names_are_turned_on_after_an_update_of_the_tracer() {
    if !can_record(&[Need::Program("setsid")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("top");
    let copy = dir.path().join("tracer");
    if std::fs::hard_link(BINARY, &copy).is_err() {
        std::fs::copy(BINARY, &copy).expect("there is room");
    }
    let mut desk = Desk::new(dir.path(), (24, 120), "exec DIR/tracer top -p $PPID");
    desk.sees("(n: all)");
    std::fs::remove_file(&copy).expect("it is there");
    std::fs::write(&copy, "another version").expect("there is room");
    desk.types("n");
    wait_until("it has begun again", || {
        let text = desk.text();
        text.contains("PROGRAM") && text.contains("every") && !text.contains("(n: all)")
    });
    desk.types("q");
    assert!(desk.end().success(), "{}", desk.text());
}

/// Fails if a program and the screen share a terminal, or if a screen is drawn into a file.
#[test]
fn screen_needs_a_terminal_for_itself() {
    let finished = iotrace(&["top"]);
    assert!(!finished.status.success());
    assert!(
        finished.stderr().contains("print tables with --once or -I 1s"),
        "{}",
        finished.stderr()
    );
    let dir = scratch_dir("top");
    let mut desk = Desk::new(dir.path(), (24, 80), "TRACER top -- touch DIR/made; exit $?");
    assert_eq!(desk.end().code(), Some(125), "{}", desk.text());
    desk.sees("redirect");
    assert!(!dir.path().join("made").exists());
}
