//! `convert --capsule`: reports of the capsules of the corpus are those of the originals, but for
//! the names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::driver::process::{self, Finished};
use crate::support::driver::recording::{BINARY, TIMEOUT};
use crate::support::scratch_dir;

fn logs() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs");
    let mut logs: Vec<PathBuf> = ["v1", "v2"]
        .iter()
        .flat_map(|version| fs::read_dir(corpus.join(version)).expect("a folder"))
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "iocap"))
        .collect();
    logs.sort();
    assert!(logs.len() >= 30, "{logs:?}");
    logs
}

fn run(arguments: &[&str], paths: &[&Path]) -> Finished {
    let mut command = Command::new(BINARY);
    command.args(arguments).args(paths);
    process::run(&mut command, TIMEOUT).expect("it ends")
}

/// Text without what a pseudonym changes: its letters. Names that are no text have another length.
fn shape(text: &str) -> Value {
    if text.contains('\\') || !text.is_ascii() {
        return Value::String(format!("{} slashes", text.matches('/').count()));
    }
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { 'x' } else { letter };
    let text: String = text.chars().map(letter).collect();
    // A name may have had other characters than letters.
    let parts = text.split('/').map(|part| part.len().to_string());
    Value::String(parts.collect::<Vec<_>>().join("/"))
}

/// Value without names, and without the texts for people that a capsule leaves out. Rows of
/// equal figures are in the order of their names, so all lists are sorted.
fn shaped(value: &Value) -> Value {
    match value {
        Value::String(text) => shape(text),
        Value::Array(all) => {
            let mut all: Vec<Value> = all.iter().map(shaped).collect();
            all.sort_by_cached_key(Value::to_string);
            Value::Array(all)
        }
        Value::Object(all) => {
            let is_compared = |key: &str| {
                let is_left_out = ["notes", "command_line", "incomplete", "user", "findings"];
                !is_left_out.contains(&key) && !key.ends_with("_bytes")
                    || matches!(all.get(key), Some(Value::Number(_)))
            };
            let kept = all.iter().filter(|(key, _)| is_compared(key));
            Value::Object(kept.map(|(key, value)| (key.clone(), shaped(value))).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn reports_of_capsules_have_the_figures_of_the_originals() {
    let dir = scratch_dir("capsule");
    for (number, log) in logs().iter().enumerate() {
        let capsule = dir.path().join(format!("{number}.iocap"));
        let words = ["convert", "--capsule", "--salt", "0123456789abcdef", "-o"];
        run(&words, &[&capsule, log]).success();
        for report in
            ["summary", "files", "disk", "latency", "pattern", "slow", "neighbours", "what-if"]
        {
            let json = |log: &Path| {
                let text = run(&[report, "--json"], &[log]).success().stdout();
                serde_json::from_str::<Value>(&text).expect("JSON")
            };
            let [original, anonymous] = [json(log), json(&capsule)].map(|value| shaped(&value));
            let (Value::Object(original), Value::Object(anonymous)) = (original, anonymous) else {
                panic!("{report}")
            };
            for (key, value) in &original {
                assert_eq!(anonymous.get(key), Some(value), "{}: {report}: {key}", log.display());
            }
        }
    }
}

#[test]
fn capsules_of_one_salt_are_equal_and_others_are_not() {
    let dir = scratch_dir("capsule");
    let log = logs().remove(0);
    let capsule = |name: &str, salt: &[&str]| {
        let path = dir.path().join(name);
        run(&[&["convert", "--capsule"], salt, &["-o"]].concat(), &[&path, &log]).success();
        fs::read(path).expect("a capsule")
    };
    let salt: [&str; 2] = ["--salt", "a text of one project"];
    assert!(capsule("1.iocap", &salt) == capsule("2.iocap", &salt));
    assert!(capsule("3.iocap", &[]) != capsule("4.iocap", &[]));
    let error = run(&["convert", "--capsule", "-o"], &[Path::new("x.otf2"), &log]).stderr();
    assert!(error.contains("a capsule is a log; name it x.iocap"), "{error}");
    let again = dir.path().join("5.iocap");
    let error = run(&["convert", "--capsule", "-o"], &[&again, &dir.path().join("1.iocap")]);
    assert!(error.stderr().contains("an anonymised capsule already"), "{}", error.stderr());
    assert!(!again.exists());
}

/// Fails if `info` does not count what is left out.
#[test]
fn info_counts_the_parts_that_are_left_out() {
    let dir = scratch_dir("capsule");
    let log = logs().into_iter().find(|path| path.ends_with("v2/identity.iocap")).expect("there");
    let capsule = dir.path().join("a.iocap");
    run(&["convert", "--capsule", "-o"], &[&capsule, &log]).success();
    let text = run(&["info", "--json"], &[&capsule]).success().stdout();
    let info: Value = serde_json::from_str(&text).expect("JSON");
    assert!(info["capsule"]["command_lines"].as_u64() > Some(1), "{info:#}");
    let command = info["command"].as_array().expect("the program's pseudonym alone");
    assert!(command.len() == 1 && command[0] != "sh", "{command:?}");
    for report in ["info", "summary"] {
        let text = run(&[report], &[&capsule]).success().stdout();
        assert!(text.contains("anonymised capsule"), "{report}: {text}");
    }
}
