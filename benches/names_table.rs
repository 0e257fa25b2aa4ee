//! Correctness of names and their cost for the program, for each source of names: the table of
//! docs/names-table.md. `scripts/names-table` builds and starts it.
//!
//! Each program of tests/recording/names.rs runs once under strace, which shows the opens, and
//! then in rounds: untraced, and recorded with each value of `--names`. Within a round each case
//! runs once, and each round begins with another.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::support::driver::process;
use crate::support::driver::recording::{
    BINARY, Recording, TIMEOUT, can_record, compile_file, recorder,
};
use crate::support::driver::workloads::{ALL, Prepared, Workload};
use crate::support::machine::requirements::{Need, require_all};
use crate::support::oracle::name_compare::{Bags, Score};
use crate::support::oracle::strace::Log;
use crate::support::scratch_dir;

const USAGE: &str = "usage: scripts/names-table [--rounds N] [--only PART OF A PROGRAM'S NAME]";
const ROUNDS: usize = 9;

/// Value of `--names` for no names: the other cases are compared with it.
const WITHOUT: &str = "off";

fn main() -> ExitCode {
    let Some((rounds, only)) = options() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if !can_record(&[Need::Strace]) {
        return ExitCode::FAILURE;
    }
    let values = values();
    println!(
        "Medians of {rounds} interleaved rounds; opens and names are those of all rounds together."
    );
    println!("{}\n", machine());
    println!(
        "| Program | `--names` | opens | right | wrong, not marked | unknown | time | to `{WITHOUT}` | to untraced |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|");
    for workload in ALL.iter().filter(|it| it.name.contains(&only)) {
        if require_all(workload.needs) {
            measure(*workload, &values, rounds);
        } else {
            println!("| {} | cannot run here | | | | | | | |", workload.name);
        }
    }
    ExitCode::SUCCESS
}

/// Rounds, and a part of the programs' names. Cargo adds `--bench`.
fn options() -> Option<(usize, String)> {
    let (mut rounds, mut only) = (ROUNDS, String::new());
    let mut words = std::env::args().skip(1).filter(|it| it != "--bench");
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rounds" => rounds = words.next()?.parse().ok().filter(|&it| it > 0)?,
            "--only" => only = words.next()?,
            _ => return None,
        }
    }
    Some((rounds, only))
}

/// Values of `--names`, as the program itself lists them; `auto` is one of the others.
fn values() -> Vec<String> {
    let mut command = Command::new(BINARY);
    let refused = process::run(command.args(["record", "--names", "?", "--", "true"]), TIMEOUT);
    let said = refused.expect("it ends").stderr();
    let listed = said.split_once("[possible values: ").and_then(|it| it.1.split_once(']'));
    let listed = listed.expect("the error lists them").0;
    let mut values: Vec<String> = listed.split(", ").map(str::to_owned).collect();
    assert!(values.iter().any(|it| it == WITHOUT), "{values:?}");
    values.retain(|it| it != "auto");
    // The reference comes first.
    values.sort_by_key(|it| it != WITHOUT);
    values
}

fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let (release, load) = (read("/proc/sys/kernel/osrelease"), read("/proc/loadavg"));
    let load = load.split(' ').next().unwrap_or_default();
    format!("Linux {}, {cpus} CPUs, load {load} before the first run.", release.trim())
}

/// Case of a row of the table; `None`: untraced.
struct Case {
    names: Option<String>,
    times_ns: Vec<f64>,
    score: Score,
    failure: Option<String>,
}

fn measure(workload: Workload, values: &[String], rounds: usize) {
    let dir = scratch_dir("names-table");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/workloads/timed.c");
    let timed = compile_file(&source, dir.path());
    let prepared = workload.prepare(dir.path());
    let mut numbers = 0..;
    let mut next = || timed_run(&prepared, &timed, numbers.next().expect("endless"));
    let (place, program) = next();
    let truth = truth(&place, &program);
    let names = std::iter::once(None).chain(values.iter().cloned().map(Some));
    let mut cases: Vec<Case> = names
        .map(|names| Case { names, times_ns: vec![], score: Score::default(), failure: None })
        .collect();
    for round in 0..rounds {
        eprintln!("names-table: {}, round {} of {rounds}", workload.name, round + 1);
        for number in 0..cases.len() {
            let count = cases.len();
            let case = &mut cases[(number + round) % count];
            let (place, program) = next();
            if case.failure.is_none() {
                case.run(&place, &program, &truth);
            }
            std::fs::remove_dir_all(&place).expect("it is ours");
        }
    }
    let [untraced, without] = [None, Some(WITHOUT)]
        .map(|it| cases.iter().find(|case| case.names.as_deref() == it).and_then(Case::median_ns));
    for case in &cases {
        println!("{}", case.row(workload.name, without, untraced));
    }
}

/// Directory of a run, and its program below the one that reports its duration.
fn timed_run(prepared: &Prepared, timed: &str, number: usize) -> (std::path::PathBuf, Vec<String>) {
    let (place, program) = prepared.next(number);
    let mut command = vec![timed.to_owned(), "1".to_owned(), "/dev/null".to_owned()];
    command.extend(program);
    (place, command)
}

/// Opens of a run as strace shows them.
fn truth(place: &Path, program: &[String]) -> Bags {
    let path = place.join("strace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-o"]).arg(&path).args(program);
    process::run(&mut strace, TIMEOUT).expect("it ends").success();
    let log = Log::read(&path).expect("strace wrote a log");
    assert_eq!(log.unknown, Vec::<String>::new());
    Bags::of_log(&log, place)
}

impl Case {
    fn run(&mut self, place: &Path, program: &[String], truth: &Bags) {
        let trace = place.join("trace");
        let words: Vec<&str> = program.iter().map(String::as_str).collect();
        let mut command = match &self.names {
            Some(names) => recorder(&trace, &["--names", names], &words),
            None => {
                let mut command = Command::new(words[0]);
                command.args(&words[1..]);
                command
            }
        };
        let finished = process::run(&mut command, TIMEOUT).expect("it ends");
        if !finished.status.success() {
            let said = finished.stderr();
            self.failure = Some(said.lines().next().unwrap_or("it failed").replace('|', "\\|"));
            return;
        }
        let said = finished.stdout();
        let time = said.lines().find_map(|it| it.strip_prefix("ns/op: ")?.parse().ok());
        self.times_ns.push(time.expect("the program says how long it took"));
        if self.names.is_some() {
            let recording = Recording::open(&trace.join("traces.iocap"));
            recording.assert_whole();
            self.score.add(truth.score(&Bags::of_operations(&recording.operations(), place)));
        }
    }

    fn median_ns(&self) -> Option<f64> {
        let mut times = self.times_ns.clone();
        times.sort_by(f64::total_cmp);
        let middle = |at: usize| times.get(at).copied();
        match times.len() {
            0 => None,
            odd if odd % 2 == 1 => middle(odd / 2),
            even => Some((middle(even / 2 - 1)? + middle(even / 2)?) / 2.0),
        }
    }

    fn row(&self, program: &str, without: Option<f64>, untraced: Option<f64>) -> String {
        let name = self.names.as_ref().map_or("untraced".to_owned(), |it| format!("`{it}`"));
        if let Some(failure) = &self.failure {
            return format!("| {program} | {name} | {failure} | | | | | | |");
        }
        for wrong in &self.score.wrong {
            eprintln!("names-table: {program}, {name}: {wrong}");
        }
        let Score { opens, right, unknown, failed, wrong } = &self.score;
        let counts = match self.names {
            Some(_) => {
                let wrong = wrong.len();
                format!("{opens} | {right} | {wrong} | {unknown} ({failed} failed)")
            }
            None => " | | | ".to_owned(),
        };
        let median = self.median_ns();
        let to = |other: Option<f64>| {
            median.zip(other).map_or(String::new(), |(own, other)| format!("{:.2}", own / other))
        };
        let time = median.map_or(String::new(), |it| format!("{:.1} ms", it / 1e6));
        let to_without = if self.names.is_some() { to(without) } else { String::new() };
        format!("| {program} | {name} | {counts} | {time} | {to_without} | {} |", to(untraced))
    }
}
