//! Comparison of `/proc/diskstats` with recordings: the tables of docs/block-matrix.md.
//! `scripts/block-matrix` builds and starts it.
//!
//! Every job runs with every scheduler on every stack of devices, with idle and with busy CPUs, for
//! a number of rounds.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::process::ExitCode;

use crate::support::driver::block_jobs::{JOBS, Job};
use crate::support::driver::recording::can_record;
use crate::support::machine::block_stack::{Backing, Stack};
use crate::support::machine::cpu_hog::CpuHog;
use crate::support::machine::loop_device::LoopDevice;
use crate::support::machine::requirements::{Need, require, require_all};
use crate::support::oracle::diskstats_check::{Compared, Counts, compare_undisturbed};

const USAGE: &str = "usage: scripts/block-matrix [--rounds N] [--source tracefs|perf] [--only PART OF A JOB'S NAME]";
const ROUNDS: usize = 10;
const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "bfq", "kyber"];

struct Options {
    rounds: usize,
    source: String,
    only: String,
}

/// Row of a table: the counts of several recordings with the same job or place.
#[derive(Default)]
struct Row {
    name: String,
    devices: u64,
    equal: u64,
    disturbed: u64,
    kernel: Counts,
    missing_requests: u64,
    missing: u64,
    differences: Vec<String>,
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if !can_record(&[Need::Loop, Need::Fio]) {
        return ExitCode::FAILURE;
    }
    let (mut by_job, mut by_place) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        for backing in Backing::ALL {
            for is_busy in [false, true] {
                eprintln!(
                    "block-matrix: round {} of {}, {}, CPUs {}",
                    round + 1,
                    options.rounds,
                    backing.name(),
                    load(is_busy)
                );
                round_of(&options, backing, is_busy, (&mut by_job, &mut by_place));
            }
        }
        // A user who stops the program has the results so far.
        print(&options, round + 1, &by_job, &by_place);
    }
    let is_good = by_job.iter().all(|it: &Row| it.equal == it.devices);
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn load(is_busy: bool) -> &'static str {
    if is_busy { "busy" } else { "idle" }
}

fn round_of(
    options: &Options,
    backing: Backing,
    is_busy: bool,
    (by_job, by_place): (&mut Vec<Row>, &mut Vec<Row>),
) {
    let stack = Stack::new(backing);
    let _busy = is_busy.then(CpuHog::all_cpus);
    let offered = SCHEDULERS.into_iter().filter(|&it| require(Need::Scheduler(it)));
    for scheduler in offered {
        stack.set_scheduler(scheduler);
        let wanted = JOBS.iter().filter(|it| it.name.contains(&options.only));
        for &job in wanted.filter(|it| require_all(&it.needs())) {
            let place = format!("{} | {scheduler} | {}", backing.name(), load(is_busy));
            let (devices, missing, disturbed) = one(options, &stack, job);
            for (row, other) in
                [(row(by_job, job.name), &*place), (row(by_place, &place), job.name)]
            {
                row.disturbed += disturbed;
                row.add(other, &devices, missing);
            }
        }
    }
}

/// Makes one recording. Also returns the hits of the devices that never reached a ring, 0 if the
/// kernel does not count them; and how often the recording was repeated because another process
/// used a device while it was being switched on or off.
fn one(options: &Options, stack: &Stack, job: Job) -> (Vec<Compared>, u64, u64) {
    let names: Vec<&str> = stack.devices().into_iter().map(LoopDevice::name).collect();
    let names = names.join(",");
    let words = ["--source", &options.source, "-d", &names];
    let (devices, recording, disturbed) = compare_undisturbed(stack, job, &words);
    let missing = &recording.info["missing"]["block:block_rq_complete"];
    (devices, missing.as_u64().unwrap_or(0), disturbed)
}

/// Finds the row of this name, or adds it.
fn row<'a>(rows: &'a mut Vec<Row>, name: &str) -> &'a mut Row {
    let place = rows.iter().position(|it| it.name == name).unwrap_or_else(|| {
        rows.push(Row { name: name.to_owned(), ..Row::default() });
        rows.len() - 1
    });
    &mut rows[place]
}

impl Row {
    fn add(&mut self, other: &str, devices: &[Compared], missing: u64) {
        let residual = |it: &Compared| it.kernel.requests().saturating_sub(it.ours.requests());
        self.missing += missing;
        self.missing_requests += devices.iter().map(residual).sum::<u64>();
        for it in devices {
            self.devices += 1;
            self.equal += u64::from(it.is_equal());
            self.kernel = self.kernel + it.kernel;
            if !it.is_equal() {
                eprintln!("block-matrix: {}, {other}: missing {missing}: {it}", self.name);
                self.differences.push(format!("{other}: missing {missing}: {it}"));
            }
        }
    }
}

fn print(options: &Options, rounds: usize, by_job: &[Row], by_place: &[Row]) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    println!(
        "Linux {}, {cpus} CPUs, source {}, {rounds} rounds.\n",
        release.trim(),
        options.source
    );
    let columns = "devices | equal | disturbed | requests | sectors | merges | discards | flushes | not seen | `missing` |";
    let line = "--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";
    println!("| Job | {columns}\n|---|{line}");
    by_job.iter().for_each(|it| println!("| {} | {}", it.name, it.counts()));
    println!("\n| File on | scheduler | CPUs | {columns}\n|---|---|---|{line}");
    by_place.iter().for_each(|it| println!("| {} | {}", it.name, it.counts()));
    println!();
}

impl Row {
    fn counts(&self) -> String {
        let Self { devices, equal, disturbed, kernel, missing_requests, missing, .. } = self;
        format!(
            "{devices} | {equal} | {disturbed} | {} | {} | {} | {} | {} | {missing_requests} | {missing} |",
            kernel.requests(),
            kernel.sectors(),
            kernel.merges(),
            kernel.discards.requests,
            kernel.flushes
        )
    }
}

/// Cargo adds `--bench`.
fn options() -> Option<Options> {
    let mut options = Options { rounds: ROUNDS, source: "tracefs".to_owned(), only: String::new() };
    let mut words = std::env::args().skip(1).filter(|it| it != "--bench");
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rounds" => options.rounds = words.next()?.parse().ok().filter(|&it| it > 0)?,
            "--source" => {
                options.source = words.next().filter(|it| it == "tracefs" || it == "perf")?;
            }
            "--only" => options.only = words.next()?,
            _ => return None,
        }
    }
    Some(options)
}
