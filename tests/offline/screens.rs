//! First screens of reports, 80 columns by 24 lines: each answers a question of a newcomer.

use std::path::Path;
use std::process::Command;

use expect_test::expect_file;

/// Lines of a terminal.
const LINES: usize = 24;

/// Columns of a terminal.
const COLUMNS: usize = 80;

/// A question, the command that answers it, and words of the answer.
struct Screen {
    /// Name of the file with the screen.
    name: &'static str,
    arguments: &'static [&'static str],
    log: &'static str,
    /// Parts of the answer, which are on the first screen.
    answer: &'static [&'static str],
}

const SCREENS: &[Screen] = &[
    Screen {
        name: "why-is-the-build-slow",
        arguments: &["files"],
        log: "v2/questions",
        answer: &["41 of ", "failed", "include/a 20", "include/b 20"],
    },
    Screen {
        name: "which-file-is-opened-again-and-again",
        arguments: &["files", "--table", "files", "--sort", "opens", "-n", "3"],
        log: "v2/questions",
        answer: &["app.conf", "60"],
    },
    Screen {
        name: "which-process-is-the-checkpointer",
        arguments: &["summary", "--by", "process", "--table", "processes"],
        log: "v2/questions",
        answer: &["postgres: checkpointer", "postgres: walwriter"],
    },
    Screen {
        name: "only-the-container",
        arguments: &["summary", "-G", "3f2a1b", "--by", "cgroup", "--table", "processes"],
        log: "v2/questions",
        answer: &["docker 3f2a1b0c9d8e"],
    },
    Screen {
        name: "which-filter-was-meant",
        arguments: &["summary", "-F", "*.config"],
        log: "v2/questions",
        answer: &["no operation of the recording matches the filter", "app.conf"],
    },
    Screen {
        name: "which-program-writes-to-the-disk",
        arguments: &["disk"],
        log: "v2/block-two",
        answer: &["written", "by dd", "dd ×2"],
    },
    Screen {
        name: "do-reads-come-from-memory",
        arguments: &["cache"],
        log: "v2/block-reads",
        answer: &["came from memory", "read ahead"],
    },
    Screen {
        name: "which-operation-was-slowest",
        arguments: &["slow"],
        log: "v2/block-xfs",
        answer: &["the slowest:", "Block requests that they waited for"],
    },
    Screen {
        name: "what-took-the-time",
        arguments: &["summary"],
        log: "v2/questions",
        answer: &["Findings", "of the time of all file I/O"],
    },
];

#[test]
fn first_screens_answer_the_questions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for screen in SCREENS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace-perf"));
        command.args(screen.arguments).env("COLUMNS", COLUMNS.to_string());
        command.arg(root.join("tests/corpus/logs").join(screen.log).with_extension("iocap"));
        let output = command.output().expect("it runs");
        let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
        assert!(output.status.success(), "{}: {output:?}", screen.name);
        let first: Vec<&str> = text.lines().take(LINES).collect();
        let first = first.join("\n") + "\n";
        for line in first.lines() {
            assert!(unicode_width::UnicodeWidthStr::width(line) <= COLUMNS, "{line}");
        }
        // Lines are broken between words.
        let words = first.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in screen.answer {
            assert!(words.contains(part), "{}: no {part}:\n{first}", screen.name);
        }
        let file = root.join("tests/screens").join(screen.name).with_extension("txt");
        expect_file![file].assert_eq(&first);
    }
}
