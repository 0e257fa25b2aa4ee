//! Balance of a job: `summary` of its index and its page answer alike which rank has most, which
//! one ended its I/O last, and which ranks are left out.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::merge::{DD, Made};
use crate::support::driver::recording::iotrace;
use crate::support::page::data;
use crate::support::{scratch_dir, text};

const MS: i64 = 1_000_000;

/// Answers to the same questions: of the summary, and of the page.
struct BothReports {
    summary: Value,
    page: Value,
}

impl BothReports {
    /// Makes an index and the page of recordings; `change` changes the recordings between them.
    #[track_caller]
    fn of(dir: &Path, logs: &[PathBuf], change: impl Fn()) -> Self {
        let index = format!("{}/", text(&dir.join("job")));
        let page = dir.join("job.html");
        let merge = |output: &str| {
            let mut arguments = vec!["merge", "-o", output];
            arguments.extend(logs.iter().map(|log| text(log)));
            let finished = iotrace(&arguments);
            assert!(matches!(finished.status.code(), Some(0 | 1)), "{}", finished.stderr());
        };
        merge(&index);
        change();
        merge(text(&page));
        let summary = iotrace(&["summary", "--json", &index]).stdout();
        let page = fs::read_to_string(&page).expect("a page");
        Self { summary: serde_json::from_str(&summary).expect("JSON"), page: data(&page, "job").0 }
    }

    /// Finding of a kind in each report; empty: there is none.
    fn findings(&self, kind: &str) -> [String; 2] {
        [&self.summary, &self.page].map(|report| {
            let rows = report["findings"].as_array().expect("a table").iter();
            let text = rows.filter(|row| row["finding"] == kind).map(|row| row["text"].as_str());
            text.flatten().collect::<Vec<_>>().join("; ")
        })
    }
}

/// Writes recordings of ranks: log of the corpus, host, rank, and how much later it is.
#[track_caller]
fn recordings(dir: &Path, all: &[(&'static str, &'static str, u64, i64)]) -> Vec<PathBuf> {
    let write =
        |(at, &(log, host, rank, later_ns)): (usize, &(&'static str, &'static str, u64, i64))| {
            Made { log, host, rank: Some(rank), later_ns, ..DD }.write(dir, &format!("r{at}"))
        };
    all.iter().enumerate().map(write).collect()
}

const LOG: &str = "v2/job.iocap";

/// Fails if a rank is the last one though another may be, or if the reports name different ones.
#[test]
fn both_reports_name_the_same_last_rank() {
    for (name, late, alone) in
        [("near", [900 * MS, 900 * MS + 5000], false), ("far", [900 * MS, 1300 * MS], true)]
    {
        let dir = scratch_dir(name);
        let logs = recordings(
            dir.path(),
            &[
                (LOG, "alpha", 0, 0),
                (LOG, "alpha", 1, 0),
                (LOG, "beta", 2, late[0]),
                (LOG, "gamma", 3, late[1]),
            ],
        );
        let both = BothReports::of(dir.path(), &logs, || {});
        let names = [["rank 2 (beta)", "rank 3 (gamma)"], ["rank 2 on beta", "rank 3 on gamma"]];
        for (found, [second, first]) in both.findings("straggler").iter().zip(names) {
            let expected = match alone {
                true => format!("{first} ended its I/O last: "),
                false => format!("{second} and {first} are the last to end their I/O, which"),
            };
            assert!(found.starts_with(&expected), "{name}: {found}");
        }
        let distance =
            both.summary["last_io_ns"].as_i64().zip(both.summary["last_io_next_ns"].as_i64());
        let distance = distance.map(|(last, next)| last - next).expect("numbers");
        assert!(distance.abs_diff(late[1] - late[0]) < 200_000, "{name}: {distance}");
    }
}

/// Fails if one of two ranks is never the last.
#[test]
fn later_one_of_two_ranks_is_the_last() {
    let dir = scratch_dir("two");
    let logs = recordings(dir.path(), &[(LOG, "alpha", 0, 900 * MS), (LOG, "beta", 1, 0)]);
    let both = BothReports::of(dir.path(), &logs, || {});
    let [summary, page] = both.findings("straggler");
    assert!(summary.starts_with("rank 0 (alpha) ended its I/O last"), "{summary}");
    assert!(page.starts_with("rank 0 on alpha ended its I/O last"), "{page}");
}

/// Fails if the reports count different bytes, or compare different ranks.
#[test]
fn both_reports_have_the_same_means() {
    let dir = scratch_dir("means");
    let logs = recordings(
        dir.path(),
        &[
            (LOG, "alpha", 0, 0),
            ("v2/questions.iocap", "alpha", 1, 0),
            ("v2/block-xfs.iocap", "beta", 2, 0),
            ("v2/asynchronous.iocap", "beta", 3, 0),
            // The same rank on two hosts.
            (LOG, "beta", 0, 0),
        ],
    );
    let BothReports { summary, page } = BothReports::of(dir.path(), &logs, || {});
    assert_eq!((&summary["compared_ranks"], &page["rank_count"]), (&4.into(), &4.into()));
    assert_eq!((&summary["left_out_ranks"], &page["left_out_ranks"]), (&0.into(), &0.into()));
    for amount in ["file_ns", "file_bytes"] {
        let number = |key: &str| summary[format!("{amount}_{key}")].as_f64().expect(key);
        let ratio = page[format!("{amount}_ratio")].as_f64().expect("a ratio");
        let expected = number("max") / number("mean");
        assert!((ratio - expected).abs() < 0.01 * expected, "{amount}: {ratio} {expected}");
    }
    let ranks = page["ranks"].as_array().expect("a table");
    let bytes = |rank: u64| -> u64 {
        let rows = ranks.iter().filter(|row| row["rank"] == rank);
        let sides = rows.flat_map(|row| [&row["file_read_bytes"], &row["file_written_bytes"]]);
        sides.filter_map(Value::as_u64).sum()
    };
    let all = [0, 1, 2, 3].map(bytes);
    let most = all.iter().max().copied();
    assert_eq!(summary["file_bytes_max"].as_u64(), most, "{all:?}");
    assert_eq!(summary["file_bytes_mean"].as_u64(), Some(all.iter().sum::<u64>() / 4));
}

/// Fails if ranks whose recordings are missing or torn are in a mean, or if that is not said.
#[test]
fn ranks_without_a_whole_recording_are_left_out_of_means() {
    let dir = scratch_dir("left-out");
    let all: Vec<(&str, &str, u64, i64)> = (0..4).map(|rank| (LOG, "alpha", rank, 0)).collect();
    let logs = recordings(dir.path(), &all);
    let bytes = fs::read(&logs[3]).expect("a log");
    fs::write(&logs[3], &bytes[..bytes.len() * 3 / 4]).expect("space");
    let both = BothReports::of(dir.path(), &logs, || {});
    for (report, found) in [&both.summary, &both.page].into_iter().zip(both.findings("left-out")) {
        assert_eq!(report["left_out_ranks"], 1, "{found}");
        let expected = "1 rank is in no mean and not compared (3): its recording was not read, or";
        assert!(found.starts_with(expected), "{found}");
    }
    assert_eq!(both.summary["compared_ranks"], 3);
    // Equal ranks have the mean.
    assert_eq!(both.summary["file_ns_max"], both.summary["file_ns_mean"]);
    assert_eq!(both.page["file_ns_ratio"], 1.0);
    let rank = |number: u64| {
        let rows = both.page["ranks"].as_array().expect("a table").iter();
        rows.clone().find(|row| row["rank"] == number).expect("a row").clone()
    };
    assert!(rank(3)["file_ns_ratio"].is_null() && rank(2)["file_ns_ratio"] == 1.0, "{}", rank(3));

    fs::remove_file(&logs[1]).expect("ours");
    let summary = iotrace(&["summary", "--json", text(&dir.path().join("job"))]);
    let summary: Value = serde_json::from_str(&summary.stdout()).expect("JSON");
    assert_eq!((&summary["compared_ranks"], &summary["left_out_ranks"]), (&2.into(), &2.into()));
    assert!(
        summary["findings"].to_string().contains("2 ranks are in no mean and not compared (1, 3)")
    );
}

/// Fails if a comparison of parts is shown as one of whole recordings.
#[test]
fn comparison_of_parts_is_called_one() {
    let dir = scratch_dir("parts");
    let logs = recordings(dir.path(), &[(LOG, "alpha", 0, 0), (LOG, "alpha", 1, 0)]);
    for log in &logs {
        // The end of the recording is cut off.
        let bytes = fs::read(log).expect("a log");
        fs::write(log, &bytes[..bytes.len() - 9]).expect("space");
    }
    let both = BothReports::of(dir.path(), &logs, || {});
    for found in both.findings("left-out") {
        assert!(found.contains("their readable parts"), "{found}");
    }
    assert_eq!(both.findings("straggler"), ["", ""]);
    assert!(both.summary["file_ns_max"].as_u64().is_some_and(|ns| ns > 0));
}
