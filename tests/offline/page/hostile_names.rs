//! Names of files and programs that look like markup.

use super::{data, log_of_files, page, unbalanced};

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
    let log = log_of_files(directory.path(), NAMES);
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
