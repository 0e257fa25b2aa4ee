//! First screens of reports, 80 columns by 24 lines: each answers a question of a newcomer.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::expect_file;

use crate::support::scratch_dir;

/// Lines of a terminal.
const LINES: usize = 24;

/// Columns of a terminal.
const COLUMNS: usize = 80;

/// Exit status of `check` if a count is larger than its limit.
const EXCEEDED: i32 = 100;

/// Budget of the screen about a test in CI.
const BUDGET: &str = "[[limit]]\nopens = 300\nfailed_opens = 310\n";

/// A question, the command that answers it, and words of the answer.
struct Screen {
    /// Name of the file with the screen.
    name: &'static str,
    /// Words of the command; a log is `NAME.iocap`.
    arguments: &'static [&'static str],
    /// Logs below `tests` without their suffix, which the command finds in its directory.
    logs: &'static [&'static str],
    /// Parts of the answer, which are on the first screen.
    answer: &'static [&'static str],
    /// Exit status.
    status: i32,
}

/// Returns a screen of a command that succeeds.
const fn screen(
    name: &'static str,
    arguments: &'static [&'static str],
    logs: &'static [&'static str],
    answer: &'static [&'static str],
) -> Screen {
    Screen { name, arguments, logs, answer, status: 0 }
}

const QUESTIONS: &[&str] = &["corpus/logs/v2/questions"];

const SCREENS: &[Screen] = &[
    screen(
        "why-is-the-build-slow",
        &["files", "questions.iocap"],
        QUESTIONS,
        &["41 of ", "failed", "include/a 20", "include/b 20"],
    ),
    screen(
        "which-program-writes-to-the-disk",
        &["disk", "block-two.iocap"],
        &["corpus/logs/v2/block-two"],
        &["written", "by dd", "dd ×2"],
    ),
    screen(
        "what-happens-at-a-commit",
        &["slow", "-F", "*t.db*", "sq.iocap"],
        &["documents/logs/sq"],
        &["the slowest: fdatasync of /tmp/demo/t.db-journal by sqlite3", "device ms"],
    ),
    screen(
        "which-process-is-the-checkpointer",
        &["summary", "--by", "process", "--table", "processes", "questions.iocap"],
        QUESTIONS,
        &["postgres: checkpointer", "postgres: walwriter"],
    ),
    screen(
        "which-file-is-opened-again-and-again",
        &["files", "--table", "files", "--sort", "opens", "-n", "3", "questions.iocap"],
        QUESTIONS,
        &["app.conf", "60"],
    ),
    screen(
        "which-file-is-opened-300-times",
        &["files", "py.iocap"],
        &["documents/logs/py"],
        &["opens failed", "/tmp/demo 300", "/tmp/demo/cfg.json was opened 300 times"],
    ),
    screen(
        "is-there-a-picture-for-a-colleague",
        &["report", "questions.iocap", "-o", "page.html"],
        QUESTIONS,
        &["page.html", "xdg-open page.html"],
    ),
    screen(
        "what-changed-between-two-runs",
        &["diff", "before.iocap", "after.iocap"],
        &["documents/logs/before", "documents/logs/after"],
        &["openat operations 634 234 −400", "the program ran"],
    ),
    screen(
        "what-happened-in-the-incident",
        &["info", "excerpt.iocap"],
        &["corpus/logs/v2/excerpt"],
        &["trigger fsync>200ms: 412 ms, fsync by dd 4711 on /srv/a"],
    ),
    screen(
        "only-the-container",
        &["summary", "-G", "3f2a1b", "--by", "cgroup", "--table", "processes", "questions.iocap"],
        QUESTIONS,
        &["docker 3f2a1b0c9d8e"],
    ),
    screen(
        "which-filter-was-meant",
        &["summary", "-F", "*.config", "questions.iocap"],
        QUESTIONS,
        &["no operation of the recording matches the filter", "app.conf"],
    ),
    Screen {
        name: "are-there-more-opens-than-allowed",
        arguments: &["check", "--budget", "io.toml", "py.iocap"],
        logs: &["documents/logs/py"],
        answer: &["opens 326, more than the 300 that are allowed"],
        status: EXCEEDED,
    },
    screen(
        "where-are-the-data-for-pandas",
        &["files", "--csv", "--table", "files", "--sort", "opens", "-n", "5", "questions.iocap"],
        QUESTIONS,
        &["opens,", "app.conf"],
    ),
    screen(
        "where-is-the-trace-for-perfetto",
        &["convert", "questions.iocap", "-o", "questions.pftrace"],
        QUESTIONS,
        &["questions.pftrace", "https://ui.perfetto.dev"],
    ),
    screen(
        "which-rank-is-this",
        &["info", "job.iocap"],
        &["corpus/logs/v2/job"],
        &["rank 3 of 16, local rank 1, slurm job 4711, step 0"],
    ),
    screen(
        "can-it-be-replayed",
        &["replay", "plan", "rp.iocap", "-o", "app.ioplan"],
        &["documents/logs/rp"],
        &["operations replayed 393", "not replayed 17"],
    ),
    screen(
        "do-reads-come-from-memory",
        &["cache", "block-reads.iocap"],
        &["corpus/logs/v2/block-reads"],
        &["came from memory", "read ahead"],
    ),
    screen(
        "which-operation-was-slowest",
        &["slow", "block-xfs.iocap"],
        &["corpus/logs/v2/block-xfs"],
        &["the slowest:", "Block requests that they waited for"],
    ),
    screen(
        "what-took-the-time",
        &["summary", "questions.iocap"],
        QUESTIONS,
        &["Findings", "of the time of all file I/O"],
    ),
];

/// Returns the first lines that a command prints on a terminal.
fn first_lines(screen: &Screen) -> String {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let directory = scratch_dir("screens");
    for log in screen.logs {
        let log = tests.join(log).with_extension("iocap");
        let copy = directory.path().join(log.file_name().expect("a name"));
        fs::copy(&log, copy).expect("a log");
    }
    fs::write(directory.path().join("io.toml"), BUDGET).expect("space");
    // Both outputs of a command are on one terminal.
    let shown = directory.path().join("screen");
    let file = fs::File::create(&shown).expect("space");
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace-perf"));
    command.args(screen.arguments).current_dir(directory.path());
    command.env("COLUMNS", COLUMNS.to_string()).stdin(Stdio::null());
    command.stdout(file.try_clone().expect("a descriptor")).stderr(file);
    let status = command.status().expect("it runs");
    let text = fs::read_to_string(&shown).expect("UTF-8");
    assert_eq!(status.code(), Some(screen.status), "{}: {text}", screen.name);
    let first: Vec<&str> = text.lines().take(LINES).collect();
    first.join("\n") + "\n"
}

#[test]
fn first_screens_answer_the_questions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for screen in SCREENS {
        let first = first_lines(screen);
        let is_data = screen.arguments.contains(&"--csv");
        for line in first.lines().filter(|_| !is_data) {
            assert!(unicode_width::UnicodeWidthStr::width(line) <= COLUMNS, "{line}");
        }
        // Lines are broken between words.
        let words = first.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in screen.answer {
            assert!(words.contains(part), "{}: no {part}:\n{first}", screen.name);
        }
        let shown = format!("$ iotrace-perf {}\n{first}", screen.arguments.join(" "));
        let file = root.join("tests/screens").join(screen.name).with_extension("txt");
        expect_file![file].assert_eq(&shown);
    }
}

/// Fails if the help of the program does not fit a terminal, or its columns are not aligned.
#[test]
fn verbs_are_in_two_columns() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace-perf"));
    let output = command.arg("--help").stdin(Stdio::null()).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let verbs = text.lines().take_while(|line| !line.starts_with("Options "));
    let verbs: Vec<&str> =
        verbs.filter(|line| line.starts_with("  ") && !line.starts_with("   ")).collect();
    assert!(verbs.len() > 20, "{text}");
    for verb in verbs {
        assert!(verb.chars().count() <= COLUMNS, "{verb}");
        let (name, about) = verb.split_at(14);
        assert!(name.ends_with(' ') && !about.starts_with(' '), "{verb}");
    }
}

/// Fails if a misspelled column has no near one.
#[test]
fn misspelled_column_has_a_nearest_one() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs/v2/questions.iocap");
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace-perf"));
    command.args(["summary", "--sort", "byts"]).arg(log).stdin(Stdio::null());
    let output = command.output().expect("it runs");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(text.contains("this report has no column byts, did you mean bytes?"), "{text}");
}
