//! Upgrades: what earlier versions wrote is read by each verb of this one. What is in such a log
//! `golden.rs` counts and `pipeline.rs` compares; here no verb is without one.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use iotrace_perf::replay::plan::plan_file::{OLDEST_VERSION, PlanReader, VERSION};

use crate::packaging::verbs;
use crate::support::{scratch_dir, text};

const PROGRAM: &str = env!("CARGO_BIN_EXE_iotrace-perf");

/// Logs of the oldest versions of the format: perf's rings, lost records, tracefs' rings.
const LOGS: &[&str] = &["v1/dd", "v1/lost", "v1/tracefs", "v2/tracefs"];

/// Verbs that read a log, with their arguments. `LOG` is the log, `OUT` a name of an output.
const READERS: &[&[&str]] = &[
    &["summary", "LOG"],
    &["report", "LOG", "-o", "OUT.html"],
    &["disk", "LOG"],
    &["neighbours", "LOG"],
    &["cache", "LOG"],
    &["what-if", "LOG"],
    &["files", "LOG"],
    &["slow", "LOG"],
    &["latency", "LOG"],
    &["pattern", "LOG"],
    &["stacks", "LOG"],
    &["script", "LOG"],
    &["info", "LOG"],
    &["diff", "LOG", "LOG"],
    &["check", "--budget", "BUDGET", "LOG"],
    &["advise", "LOG"],
    &["convert", "LOG", "-o", "OUT.pftrace"],
    &["convert", "LOG", "-o", "OUT.parquet"],
    &["convert", "LOG", "--capsule", "-o", "OUT.iocap"],
    &["merge", "LOG", "-o", "OUT-job.otf2"],
    &["replay", "plan", "LOG", "-o", "OUT.ioplan"],
    &["replay", "export", "LOG", "--fio", "OUT.fio"],
];

/// Verbs that read no log.
const OTHERS: &[&str] = &[
    "record",
    "live",
    "top",
    "watch",
    "ctl",
    "clocks",
    "import",
    "doctor",
    "list",
    "completions",
    "man",
];

/// Budget with a count that is in all logs.
const BUDGET: &str = "[[limit]]\nwritten_bytes = \"1G\"\n";

/// Exit status of `check` for such logs: not all calls that write are recorded in them.
const NOT_EXACT: i32 = 101;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn run(words: &[String]) -> Output {
    Command::new(PROGRAM).args(words).output().expect("the program starts")
}

#[test]
fn old_logs_are_read_by_every_verb_that_reads_logs() {
    let folder = scratch_dir("upgrade");
    let budget = folder.path().join("budget.toml");
    std::fs::write(&budget, BUDGET).expect("a file");
    for (number, name) in LOGS.iter().enumerate() {
        let log = corpus().join("logs").join(name).with_extension("iocap");
        let out = text(&folder.path().join(number.to_string())).to_owned();
        let words_of = |reader: &&[&str]| -> Vec<String> {
            let word = |word: &&str| match *word {
                "LOG" => text(&log).to_owned(),
                "BUDGET" => text(&budget).to_owned(),
                word => word.replace("OUT", &out),
            };
            reader.iter().map(word).collect()
        };
        for words in READERS.iter().map(words_of) {
            let got = run(&words);
            let error = String::from_utf8_lossy(&got.stderr);
            let expected = if words.contains(&"check".to_owned()) { NOT_EXACT } else { 0 };
            assert_eq!(got.status.code(), Some(expected), "{words:?}: {error}");
            assert!(got.stdout.len() + got.stderr.len() > 0, "{words:?} prints nothing");
        }
    }
}

#[test]
fn every_verb_is_tried_with_old_logs_or_reads_none() {
    let tried = READERS.iter().filter_map(|reader| reader.first().copied());
    let known: BTreeSet<&str> = tried.chain(OTHERS.iter().copied()).collect();
    let verbs = verbs();
    let verbs: BTreeSet<&str> =
        verbs.iter().map(String::as_str).filter(|verb| *verb != "iotrace-perf").collect();
    assert_eq!(known, verbs);
}

fn plan(version: u16) -> PathBuf {
    corpus().join(format!("plans/v{version}.ioplan"))
}

/// Fails if `replay init` makes other files than the plan has.
#[test]
fn files_of_old_plans_are_made() {
    if std::env::consts::ARCH != "x86_64" {
        return;
    }
    let folder = scratch_dir("upgrade-plans");
    for version in OLDEST_VERSION..=VERSION {
        let root = folder.path().join(version.to_string());
        let plan = plan(version);
        let words = ["replay", "init", text(&plan), "--root", text(&root)];
        let got = run(&words.map(str::to_owned));
        let error = String::from_utf8_lossy(&got.stderr);
        assert!(got.status.success(), "{version}: {error}");
        assert!(error.contains("made 9 directories, 14 files with 2,837,029 bytes"), "{error}");
        let made = root.join("files/tmp/iotrace-corpus/tree/one");
        assert!(made.is_file(), "{}", made.display());
    }
}

/// Fails if a version of plans that is said to be read has no plan here, or one is not read whole.
#[test]
fn plans_of_all_readable_versions_are_read_whole() {
    // Flags and error numbers in a plan are those of its machine; others refuse it.
    if std::env::consts::ARCH != "x86_64" {
        return;
    }
    for version in OLDEST_VERSION..=VERSION {
        let path = plan(version);
        let bytes = std::fs::read(&path).expect("a plan of each version");
        assert_eq!(bytes.get(8..10), Some(&version.to_le_bytes()[..]), "{}", path.display());
        let (reader, index) = PlanReader::new(File::open(&path).expect("a file")).expect("a plan");
        let files = reader.files(&index).expect("files");
        let names = reader.names(&index).expect("names");
        let mut zstd = zstd::bulk::Decompressor::new().expect("memory");
        let frames = index.workers.iter().flat_map(|worker| &worker.frames);
        let operations: Vec<usize> = frames
            .map(|frame| reader.operations(*frame, &mut zstd).expect("operations").len())
            .collect();
        assert!(!files.is_empty() && !names.is_empty() && !operations.is_empty(), "{version}");
    }
}
