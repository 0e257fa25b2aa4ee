//! Pages in a real browser: without errors and requests, labels and contrast in both colour
//! schemes, sorting and the selection of a time.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::markup::element;
use super::{data, page};
use crate::support::driver::process;
use crate::support::machine::requirements::browser;

/// Time for one page.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(120);

/// Adds a script to a page that works on it as a reader does.
fn with_probe(page: &str) -> String {
    let probe = include_str!("probe.js");
    with_errors(page).replacen("</body>", &format!("<script>{probe}</script></body>"), 1)
}

/// Adds a script to a page that notes its errors, and one that looks for what every page has.
pub(crate) fn with_errors(page: &str) -> String {
    let errors = "<script>window.pageErrors = []; \
                  addEventListener('error', (event) => pageErrors.push(event.message)); \
                  addEventListener('securitypolicyviolation', (event) => \
                  pageErrors.push(event.violatedDirective));</script>";
    let common = include_str!("common_probe.js");
    page.replacen("<style>", &format!("{errors}<script>{common}</script><style>"), 1)
}

/// Opens a page in a browser. Returns the document as the browser has it in the end.
pub(crate) fn opened(path: &Path, options: &[&str]) -> String {
    let profile = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(browser().expect("a browser"));
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    command.args(["--disable-dev-shm-usage", "--window-size=1280,900"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.args(options).arg("--virtual-time-budget=5000").arg("--dump-dom");
    command.arg(format!("file://{}", path.display()));
    process::run(&mut command, BROWSER_TIMEOUT).expect("it ends").success().stdout()
}

/// Results of the probe on the page of a log.
pub(crate) fn probed(log: &Path, options: &[&str]) -> (Value, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, page) = page(log, directory.path(), &[]);
    fs::write(&path, with_probe(&page)).expect("written");
    let dom = opened(&path, options);
    let (_, result) = element(&dom, "pre", "id=\"probe-result\"");
    let result = result.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    (serde_json::from_str(&result).expect("JSON"), page)
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Checks what holds for every page.
pub(crate) fn check(log: &str, found: &Value) {
    for list in ["errors", "unlabeled", "repeated", "pale"] {
        assert!(is_empty(&found[list]), "{log}: {list}: {}", found[list]);
    }
    assert_eq!(found["requests"], 0, "{log}");
    assert_eq!(found["landmarks"].as_array().map(Vec::len), Some(4), "{log}");
    let headings: Vec<u64> = numbers(&found["headings"]);
    assert_eq!(headings.iter().filter(|level| **level == 1).count(), 1, "{log}");
    assert!(headings.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{log}: {headings:?}");
}

fn numbers(list: &Value) -> Vec<u64> {
    let list = list.as_array().expect("a list").iter();
    list.map(|number| number.as_u64().expect("a number")).collect()
}

/// Begin and end of the rows of a list.
fn spans(list: &Value) -> Vec<[u64; 2]> {
    let list = list.as_array().expect("a list").iter().map(numbers);
    list.map(|span| [span[0], span[1]]).collect()
}

/// Opens the page of a log in a browser, and checks what a reader does with it: sorting, a
/// selection with the pointer and with keys. Returns the numbers of files that the selection
/// leaves and hides.
#[track_caller]
pub(crate) fn check_page(path: &Path) -> [usize; 2] {
    let log = &path.display().to_string();
    let (found, page) = probed(path, &[]);
    check(log, &found);
    let (ascending, descending) = (numbers(&found["ascending"]), numbers(&found["descending"]));
    assert!(ascending.is_sorted() && ascending.len() > 1, "{log}: {ascending:?}");
    assert!(descending.is_sorted_by(|a, b| a >= b), "{log}: {descending:?}");
    // The selection shows the operations that it touches, and no other.
    let hash = found["hash"].as_str().and_then(|hash| hash.strip_prefix("#t="));
    let (from, to) = hash.and_then(|range| range.split_once('-')).expect("a range");
    let [from, to] = [from, to].map(|time| time.parse::<u64>().expect("a time"));
    let touches = |span: &[u64; 2]| span[0] < to && span[1] > from;
    assert!(spans(&found["shown"]).iter().all(touches), "{log}: {found}");
    assert!(!spans(&found["hidden"]).iter().any(touches), "{log}: {found}");
    assert_eq!(found["hiddenAfterReset"], 0, "{log}");
    // What is printed says that it is a part.
    assert_eq!([&found["isPart"], &found["isPartAfterReset"]], [true, false], "{log}");
    let notes = found["unfollowed"].as_array().expect("a list");
    for block in ["findings", "layers", "files", "histograms", "appendix"] {
        assert!(notes.contains(&block.into()), "{log}: {block}: {notes:?}");
    }
    assert!(!notes.contains(&"slowest".into()) && is_empty(&found["unfollowedAfterReset"]));
    let text = found["selected"].as_str().expect("text");
    assert!(text.contains(" to ") && text.contains("--until"), "{log}: {text}");
    let (timeline, _) = data(&page, "timeline");
    let end = timeline["to_ns"].as_u64().expect("an end");
    assert!(from.abs_diff(end / 4) <= end / 50 && to.abs_diff(end / 2) <= end / 50, "{log}");
    check_keys(log, &found, [from, to]);
    check_files(log, &found, &page, [from, to])
}

/// Checks the table of files against the data: files without an operation in the selection are
/// hidden, the others have their sums. Returns the numbers of both.
fn check_files(log: &str, found: &Value, page: &str, [from, to]: [u64; 2]) -> [usize; 2] {
    let ((rows, _), (timeline, _)) = (data(page, "file-rows"), data(page, "timeline"));
    let number = |key: &str| timeline[key].as_u64().expect(key);
    let (origin, width) = (number("origin_ns"), number("column_ns"));
    let shown = found["files"].as_array().expect("rows");
    let rows = rows.as_array().expect("rows");
    assert_eq!(shown.len(), rows.len(), "{log}");
    let mut counts = [0; 2];
    for (shown, cells) in shown.iter().zip(rows) {
        let mut sums = [0; 3];
        let known = cells.as_array().map(|_| numbers(cells));
        for cell in known.iter().flatten().copied().collect::<Vec<u64>>().chunks(4) {
            let begin = origin + cell[0] * width;
            if begin < to && begin + width > from {
                sums.iter_mut().zip(&cell[1..]).for_each(|(sum, amount)| *sum += amount);
            }
        }
        let is_hidden = known.is_some() && sums[0] + sums[2] == 0;
        assert_eq!(shown["isHidden"], is_hidden, "{log}: {shown} {cells}");
        assert_eq!(shown["isPale"], known.is_none(), "{log}: {shown} {cells}");
        if known.is_some() {
            assert_eq!(numbers(&shown["chosen"]), sums, "{log}");
            counts[usize::from(is_hidden)] += 1;
        }
    }
    let [left, _] = counts;
    let caption = found["fileCaption"].as_str().expect("text");
    assert!(rows.is_empty() || caption.contains(&format!(", {left} of them in the selection")));
    counts
}

/// Checks the selections that keys lead to: the first ones from this one.
fn check_keys(log: &str, found: &Value, [from, to]: [u64; 2]) {
    assert_eq!(found["hasFocus"], true, "{log}");
    let hashes = found["moves"].as_array().expect("addresses");
    let range = |hash: &Value| -> Option<[u64; 2]> {
        let (from, to) = hash.as_str()?.strip_prefix("#t=")?.split_once('-')?;
        Some([from.parse().ok()?, to.parse().ok()?])
    };
    let moves: Vec<[u64; 2]> = hashes.iter().filter_map(range).collect();
    let [right, longer, first] = moves[..] else { panic!("{log}: {hashes:?}") };
    assert!(right[0] > from && (right[1] - right[0]).abs_diff(to - from) <= 1, "{log}: {moves:?}");
    assert!(longer[0] == right[0] && longer[1] > right[1], "{log}: {moves:?}");
    assert!(first[0] == 0 && first[1].abs_diff(longer[1] - longer[0]) <= 1, "{log}: {moves:?}");
    // From the beginning to the end is everything.
    assert_eq!([&hashes[3], &hashes[4]], ["#timeline"; 2], "{log}");
}
