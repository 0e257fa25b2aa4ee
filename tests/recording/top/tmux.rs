//! `top` in tmux: keys are sent, the screen is read, and its rates are those of fio.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::number;
use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record, wait_until};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::{scratch_dir, text};

/// Program whose rates are read, a link to fio.
const PROGRAM: &str = "fio-in-tmux";

/// Screens from which rates are read, a second apart.
const SAMPLES: usize = 5;

/// A server of tmux with one session. It ends when dropped.
struct TmuxSession {
    socket: String,
}

impl TmuxSession {
    /// Starts a program on a screen of this size.
    #[track_caller]
    fn start(socket: &Path, columns: &str, rows: &str, program: &str) -> Self {
        let session = Self { socket: text(socket).to_owned() };
        session.run(&["-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, program]);
        session
    }

    /// Runs a command of tmux. Returns what it prints.
    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.args(["-S", &self.socket]).args(arguments);
        process::run(&mut tmux, TIMEOUT).expect("it ends").success().stdout()
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    fn keys(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }

    #[track_caller]
    fn sees(&self, text: &str) {
        wait_until(text, || self.screen().contains(text));
    }
}

impl Drop for TmuxSession {
    fn drop(&mut self) {
        // The server may have ended with its last program.
        let _ = Command::new("tmux").args(["-S", &self.socket, "kill-server"]).output();
    }
}

/// Operations and bytes read per second of the process of the program with most of them.
fn rates(screen: &str) -> Option<[f64; 2]> {
    let rows = screen.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>());
    let of_program = rows
        .filter(|words| words.len() > 4 && words[0].parse::<u32>().is_ok() && words[1] == PROGRAM);
    let rates = of_program.map(|words| [number(&words[2..3]), number(&words[3..5])]);
    rates.max_by(|a, b| a[0].total_cmp(&b[0]))
}

/// Reads the rates of several seconds. Returns the median of each.
fn median_rates(session: &TmuxSession) -> [f64; 2] {
    let samples: Vec<[f64; 2]> = (0..SAMPLES)
        .map(|_| {
            std::thread::sleep(Duration::from_secs(1));
            rates(&session.screen()).expect("a row of the program")
        })
        .collect();
    [0, 1].map(|place| {
        let mut sorted: Vec<f64> = samples.iter().map(|sample| sample[place]).collect();
        sorted.sort_by(f64::total_cmp);
        sorted[SAMPLES / 2]
    })
}

/// Fails if the rates on the screen differ from fio's own by more than 5 %, or if a line is wider
/// than the screen.
#[test]
fn rates_are_those_of_fio() {
    if !can_record(&["fio", "tmux"].map(Need::Program)) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("tmux");
    let file = dir.path().join("data");
    std::fs::write(&file, vec![7; 16 << 20]).expect("there is room");
    let found = Command::new("which").arg("fio").output().expect("it runs").stdout;
    let found = String::from_utf8(found).expect("a path");
    let link = dir.path().join(PROGRAM);
    std::os::unix::fs::symlink(found.trim(), &link).expect("a link");
    for [columns, rows] in [["80", "24"], ["200", "50"]] {
        // A socket's path is short; that of the build directory may not be.
        let place = tempfile::tempdir().expect("a directory");
        let top = format!("{BINARY} top -a");
        let session = TmuxSession::start(&place.path().join("tmux"), columns, rows, &top);
        session.sees("PROGRAM");
        session.keys(&["1", "/"]);
        session.keys(&["-l", PROGRAM]);
        session.keys(&["Enter"]);
        session.sees(&format!("filter: {PROGRAM}"));
        let mut fio = Command::new(&link);
        fio.args(["--name=job", "--rw=randread", "--bs=4099", "--size=16m", "--time_based"]);
        fio.args(["--runtime=12", "--rate_iops=400", "--ioengine=psync"]);
        fio.args(["--output-format=json", "--filename"]).arg(&file);
        let running = std::thread::spawn(move || {
            process::run(&mut fio, TIMEOUT).expect("it ends").success().stdout()
        });
        wait_until("fio reads", || {
            rates(&session.screen()).is_some_and(|[operations, _]| operations > 300.0)
        });
        let shown = median_rates(&session);
        let counted = running.join().expect("it ends");
        let counted: Value = serde_json::from_str(&counted).expect("JSON");
        let read = &counted["jobs"][0]["read"];
        let own = ["iops", "bw_bytes"].map(|key| read[key].as_f64().expect(key));
        for (shown, own) in shown.into_iter().zip(own) {
            assert!((shown / own - 1.0).abs() < 0.05, "{columns}: {shown} of {own}");
        }
        let screen = session.screen();
        let width: usize = columns.parse().expect("a number");
        assert!(screen.lines().all(|line| line.chars().count() <= width), "{screen}");
        // The wide screen has more columns.
        assert_eq!(screen.contains("COMMAND"), width > 80, "{screen}");
        session.keys(&["q"]);
        wait_until("the session ends", || {
            let mut tmux = Command::new("tmux");
            tmux.args(["-S", &session.socket, "has-session"]);
            !tmux.output().expect("it runs").status.success()
        });
    }
}
