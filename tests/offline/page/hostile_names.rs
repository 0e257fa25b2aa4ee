//! Names of files and programs that look like markup.

use std::fs;

use super::{data, page, printed, unbalanced};

/// Names that would change the page if they were not escaped.
const NAMES: &[&str] = &[
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "\\\" onmouseover=alert(3) x=\\\"",
    "<!--",
    "]]>&lt;b&gt;",
];

#[test]
fn names_are_text() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut lines = String::new();
    for (number, name) in NAMES.iter().enumerate() {
        let time = 1_700_000_000 + number;
        lines.push_str(&format!(
            "7 {time}.000100 openat(AT_FDCWD, \"/srv/{name}\", O_RDONLY) = 3 <0.000010>\n\
             7 {time}.000200 read(3, \"abcd\", 4) = 4 <0.000020>\n\
             7 {time}.000300 close(3) = 0 <0.000005>\n"
        ));
    }
    let (text, log) = (directory.path().join("a.txt"), directory.path().join("a.iocap"));
    fs::write(&text, lines).expect("written");
    let output = log.to_str().expect("UTF-8");
    printed(&["import", "--from", "strace", "-o", output], &text);
    let (_, page) = page(&log, directory.path(), &[]);
    assert_eq!(unbalanced(&page), None);
    for part in ["<script>alert", "<img", "<!--"] {
        assert!(!page.contains(part), "{part}");
    }
    // In the data quotes are escaped by a backslash; elsewhere there are none.
    let (shown, _) = page.split_once("<script type").expect("data");
    assert!(!shown.contains("\" onmouseover"));
    // The names are there, as text and as data.
    assert!(page.contains("&lt;img src=x onerror=alert(2)&gt;"));
    let (files, _) = data(&page, "files");
    let paths = files["files"].as_array().expect("files").iter();
    let mut paths = paths.map(|file| file["path"].as_str().expect("a path"));
    assert!(paths.any(|path| path == "/srv/</script><script>alert(1)</script>"), "{files}");
}
