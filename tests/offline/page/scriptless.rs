//! The page without its scripts: all tables and numbers are in the HTML, and nothing is hidden but
//! what only scripts use.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{data, page, printed, root, unbalanced};

/// Tables of the page: report, key, and the column whose exact numbers each row has.
const TABLES: &[(&str, &str, &str)] = &[
    ("summary", "calls", "time_ns"),
    ("summary", "processes", "time_ns"),
    ("summary", "devices", "bytes"),
    ("files", "files", "time_ns"),
    ("files", "directories", "time_ns"),
    ("disk", "disks", "written_bytes"),
    ("disk", "causes", "written_bytes"),
    ("latency", "layers", "time_ns"),
    ("latency", "split", "time_ns"),
    ("slow", "slowest", "duration_ns"),
    ("slow", "groups", "max_ns"),
];

/// The page without the elements of its scripts.
fn without_scripts(page: &str) -> String {
    let mut rest = page;
    let mut text = String::new();
    while let Some((before, script)) = rest.split_once("<script") {
        text.push_str(before);
        rest = script.split_once("</script>").expect("its end").1;
    }
    text + rest
}

/// Exact numbers of the cells: those of attributes, and those that are texts.
fn numbers(page: &str) -> BTreeSet<&str> {
    let exact = page.split("data-v=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let shown = page.split('>').skip(1).filter_map(|rest| rest.split('<').next());
    exact.chain(shown).collect()
}

#[test]
fn all_numbers_are_in_the_html() {
    let directory = tempfile::tempdir().expect("a directory");
    for log in ["v2/questions", "v2/block-xfs", "v2/layers-kprobe", "v1/tar"] {
        let path = root().join("tests/corpus/logs").join(log).with_extension("iocap");
        let (_, page) = page(&path, directory.path(), &[]);
        let html = without_scripts(&page);
        assert_eq!(unbalanced(&html), None, "{log}");
        let numbers = numbers(&html);
        let mut rows = 0;
        for (report, table, column) in TABLES {
            let text = printed(&[report, "--json", "-n", "100"], &path);
            let report_json: Value = serde_json::from_str(&text).expect("JSON");
            for row in report_json[table].as_array().expect("a table") {
                let number = row[column].to_string();
                let is_there = numbers.contains(number.as_str()) || number == "0";
                assert!(is_there, "{log}: {report} {table}: no {number} of {row}");
                rows += 1;
            }
        }
        assert!(rows > 50, "{log}: {rows}");
        let (_, limit) = data(&page, "summary");
        assert!(!limit.is_empty());
        check_hidden(&html, log);
        // Closed parts open without a script.
        assert_eq!(html.matches("<details>").count(), html.matches("<summary>").count(), "{log}");
    }
}

/// Checks that only the fields of the selection, and its column, are hidden.
fn check_hidden(html: &str, log: &str) {
    let tags = html.split('<').filter_map(|tag| tag.split('>').next());
    let hidden = tags.filter(|tag| tag.split('"').step_by(2).any(|part| part.contains(" hidden")));
    for tag in hidden {
        let is_of_selection = tag.starts_with("form id=\"selection\"")
            || tag.starts_with("th scope=\"col\" class=\"n chosen\"")
            || tag.starts_with("td class=\"n chosen\"");
        assert!(is_of_selection, "{log}: <{tag}>");
    }
    assert!(!html.contains("<noscript"), "{log}");
}
