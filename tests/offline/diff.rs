//! `diff`: logs of the corpus, and the summaries saved from them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT};
use crate::support::scratch_dir;

fn log(name: &str) -> PathBuf {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs/v2");
    logs.join(name).with_extension("iocap")
}

/// Exit status and output of a subcommand.
fn run(arguments: &[&str], paths: &[&Path]) -> (Option<i32>, String, String) {
    let mut command = Command::new(BINARY);
    command.args(arguments).args(paths);
    let output = process::run(&mut command, TIMEOUT).expect("it ends");
    (output.status.code(), output.stdout(), output.stderr())
}

fn json(arguments: &[&str], paths: &[&Path]) -> Value {
    let (_, text, error) = run(arguments, paths);
    serde_json::from_str(&text).unwrap_or_else(|cause| panic!("{cause}: {text} {error}"))
}

/// Names of the logs of the corpus.
fn names() -> Vec<String> {
    let logs = fs::read_dir(log("x").parent().expect("a folder")).expect("a folder");
    let paths = logs.map(|entry| entry.expect("readable").path());
    let logs = paths.filter(|path| path.extension().is_some_and(|ending| ending == "iocap"));
    let names =
        logs.map(|path| path.file_stem().expect("a name").to_str().expect("text").to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert!(names.len() >= 20, "{names:?}");
    names
}

/// Fails if a saved summary has other counts than the log that it is from.
#[test]
fn saved_summary_equals_its_log() {
    let dir = scratch_dir("diff");
    for name in names() {
        let (log, saved) = (log(&name), dir.path().join(&name).with_extension("json"));
        let (_, text, error) = run(&["summary", "--json"], &[&log]);
        assert!(!text.is_empty(), "{name}: {error}");
        fs::write(&saved, text).expect("written");
        let report = json(&["diff", "--json"], &[&log, &saved]);
        assert_eq!(report["different_counts"], 0, "{name}: {report:#}");
        assert_eq!(report["varying_counts"], 0, "{name}: {report:#}");
        let (status, _, error) = run(&["diff", "--exit-code"], &[&saved, &saved]);
        assert_eq!(status, Some(0), "{name}: {error}");
    }
}

/// Fails if the counts that differ are not those of the summaries.
#[test]
fn differences_are_those_of_the_summaries() {
    let names = names();
    let sum = |report: &Value, key: &str| -> i64 {
        let rows = report[key].as_array().expect("rows").iter();
        let rows = rows.filter(|row| row["metric"] == "operations");
        let change = |row: &Value| {
            let [before, after] = ["before_min", "after_min"].map(|key| row[key].as_i64());
            after.expect("a count") - before.expect("a count")
        };
        rows.map(change).sum()
    };
    for pair in names.windows(2) {
        let [one, other] = [&pair[0], &pair[1]].map(|name| log(name));
        let of_summary = |log: &Path| {
            let summary = json(&["summary", "--json"], &[log]);
            summary["operations"].as_i64().expect("a count")
        };
        let report = json(&["diff", "--json"], &[&one, &other]);
        let expected = of_summary(&other) - of_summary(&one);
        assert_eq!(sum(&report, "calls"), expected, "{pair:?}: {report:#}");
        assert_eq!(sum(&report, "programs"), expected, "{pair:?}: {report:#}");
        let different = report["different_counts"].as_u64().expect("a count");
        let (status, _, error) = run(&["diff", "--exit-code"], &[&one, &other]);
        assert_eq!(status, Some(i32::from(different > 0)), "{pair:?}: {error}");
    }
}

#[test]
fn wrong_inputs_are_named() {
    let dir = scratch_dir("diff");
    let file = dir.path().join("wrong.json");
    let log = log(&names()[0]);
    for (text, cause) in [("{", "EOF"), ("{\"kind\": 1}", "invalid type"), ("[]", "invalid")] {
        fs::write(&file, text).expect("written");
        let (status, _, error) = run(&["diff"], &[&file, &log]);
        assert_eq!(status, Some(125), "{error}");
        assert!(error.contains("wrong.json") && error.contains(cause), "{error}");
        assert!(error.contains("summary LOG --json"), "{error}");
    }
    let (status, _, error) = run(&["diff", "-F", "/etc/"], &[&file, &log]);
    assert!(status == Some(125) && error.contains("saved summary"), "{error}");
    let (status, _, error) = run(&["diff"], &[&dir.path().join("none"), &log]);
    assert!(status == Some(125) && error.contains("there is no file"), "{error}");
}

/// Makes the page that compares two logs.
fn page(one: &Path, other: &Path, to: &Path) -> String {
    let to = to.to_str().expect("text");
    let (status, _, error) = run(&["diff", "-o", to], &[one, other]);
    assert_eq!(status, Some(0), "{error}");
    fs::read_to_string(to).expect("a page")
}

/// Fails if a number of the report is not on the page, or the page needs something else.
#[test]
fn page_has_the_numbers_of_the_report_and_loads_nothing() {
    let dir = scratch_dir("diff");
    for (number, pair) in names().windows(2).enumerate() {
        let [one, other] = [&pair[0], &pair[1]].map(|name| log(name));
        let page = page(&one, &other, &dir.path().join(format!("{number}.html")));
        assert!(page.len() < 2_000_000, "{pair:?}: {} bytes", page.len());
        for reference in ["src=\"", "@import", "url(", "<iframe", "<object", "<embed", "<base"] {
            assert!(!page.contains(reference), "{pair:?} has {reference}");
        }
        let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let foreign: Vec<&str> =
            links.filter(|link| !link.starts_with('#') && *link != "data:,").collect();
        assert_eq!(foreign, Vec::<&str>::new(), "{pair:?}");
        let report = json(&["diff", "--json"], &[&one, &other]);
        let Value::Object(all) = &report else { panic!("{report}") };
        for (key, value) in all {
            let is_shown = |shown: &str| page.contains(shown);
            if let (Some(count), true) = (value.as_u64(), key != "version") {
                let fact = format!("data-fact=\"{key}\" data-v=\"{count}\"");
                assert!(is_shown(&fact), "{pair:?}: no {fact}");
            }
            let rows = value.as_array().into_iter().flatten().filter_map(Value::as_object);
            for (column, cell) in rows.flatten() {
                if let Some(count) = cell.as_u64() {
                    let cell = format!("<td>{count}</td>");
                    assert!(is_shown(&cell), "{pair:?}: {key}.{column} has no {cell}");
                }
            }
        }
    }
}

/// Fails if a file that exists is overwritten, or renamed without `--force`.
#[test]
fn page_needs_a_new_name() {
    let dir = scratch_dir("diff");
    let [one, other] = [&names()[0], &names()[1]].map(|name| log(name));
    let to = dir.path().join("a.html");
    let made = page(&one, &other, &to);
    let words = ["diff", "-o", to.to_str().expect("text")];
    let (status, _, error) = run(&words, &[&one, &other]);
    assert!(status == Some(125) && error.contains("a.html"), "{error}");
    let (status, _, error) = run(&[&words[..], &["--force"]].concat(), &[&one, &other]);
    assert_eq!(status, Some(0), "{error}");
    assert_eq!(fs::read_to_string(dir.path().join("a.html.old")).expect("renamed"), made);
}

/// Fails if a name of a file becomes an element of the page.
#[test]
fn page_escapes_hostile_names() {
    let dir = scratch_dir("diff");
    let import = |name: &str, file: &str| {
        let (text, log) = (dir.path().join(name), dir.path().join(name).with_extension("iocap"));
        let line = |call: &str| format!("7 1700000000.000100 {call} <0.000010>\n");
        let lines = [
            line(&format!("openat(AT_FDCWD, \"/srv/{file}\", O_RDONLY) = 3")),
            line("read(3, \"abcd\", 4) = 4"),
        ];
        fs::write(&text, lines.concat()).expect("written");
        let words = ["import", "--from", "strace", "-o", log.to_str().expect("text")];
        let (status, _, error) = run(&words, &[&text]);
        assert_eq!(status, Some(0), "{error}");
        log
    };
    let one = import("one", "plain");
    let other = import("other", "<img src=x onerror=alert(1)></script>");
    let page = page(&one, &other, &dir.path().join("a.html"));
    assert!(page.contains("&lt;img src=x"), "{page}");
    assert!(!page.contains("<img") && page.matches("</script>").count() == 1, "{page}");
}
