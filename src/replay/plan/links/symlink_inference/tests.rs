use super::*;
use crate::operation::model::{FilePath, PathSource};

/// Checks the links that opens and other calls show, and their texts.
#[track_caller]
fn check(happens: impl FnOnce(&mut SymlinkEvidence), expected: &str) {
    let mut seen = SymlinkEvidence::default();
    happens(&mut seen);
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let links = seen.links();
    let lines: Vec<String> =
        links.iter().map(|(path, to)| format!("{} → {}", text(path), text(to))).collect();
    assert_eq!(lines.join(", "), expected);
}

fn open(seen: &mut SymlinkEvidence, given: &str, got: &str) {
    seen.opened(&OpenFile {
        id: 1,
        path: Some(FilePath::new(got, PathSource::Link)),
        first_path: None,
        given: (given != got).then(|| given.as_bytes().into()),
        stat: None,
        flags: None,
        pre_created: false,
    });
}

fn changed(seen: &mut SymlinkEvidence, path: &str) {
    seen.has_changed(path.as_bytes().to_vec());
}

#[test]
fn first_differing_name_is_a_link() {
    check(|seen| open(seen, "/a/l/t", "/a/d/t"), "/a/l → d");
    check(|seen| open(seen, "/lib/x/y", "/usr/lib/x/y"), "/lib → usr/lib");
    check(|seen| open(seen, "/a/f", "/b/g"), "/a/f → ../b/g");
    check(|seen| open(seen, "/a/l", "/a"), "/a/l → .");
    check(|seen| open(seen, "/a/l/t", "/t"), "/a/l → ..");
    check(|seen| open(seen, "/a/b", "/a/b"), "");
}

#[test]
fn known_directory_is_no_link() {
    check(
        |seen| {
            open(seen, "/a/l/x", "/a/l/x");
            open(seen, "/a/l/t", "/a/d/t");
        },
        "/a/l/t → ../d/t",
    );
}

#[test]
fn link_may_lead_to_another_link() {
    check(
        |seen| {
            open(seen, "/l/m/t", "/d/e/t");
            open(seen, "/l/x", "/d/x");
        },
        "/d/m → e, /l → d",
    );
    check(
        |seen| {
            open(seen, "/one/t", "/d/t");
            open(seen, "/two/t", "/d/t");
        },
        "/one → d, /two → d",
    );
}

#[test]
fn created_link_was_absent() {
    check(
        |seen| {
            changed(seen, "/a/l");
            open(seen, "/a/l/t", "/a/d/t");
            open(seen, "/b/l/t", "/b/d/t");
            changed(seen, "/b/l");
        },
        "/b/l → d",
    );
    check(
        |seen| {
            changed(seen, "/a/d/t");
            open(seen, "/a/l/t", "/a/d/t");
        },
        "/a/l → d",
    );
}

#[test]
fn dot_dot_and_proc_paths_show_no_links() {
    check(|seen| open(seen, "/a/l/../t", "/a/t"), "");
    check(|seen| open(seen, "/proc/self/cwd/t", "/a/t"), "");
    check(|seen| open(seen, "/a/l", "/dev/null"), "");
}

#[test]
fn link_length_is_that_of_readlink_by_any_path() {
    check(
        |seen| {
            open(seen, "/l/m/t", "/d/e/t");
            open(seen, "/l/x", "/d/x");
            seen.lengths.insert(b"/l/m".to_vec(), 4);
            seen.lengths.insert(b"/l".to_vec(), 2);
        },
        "/d/m → /d/e, /l → /d",
    );
}

/// Fails if a link that the program has made by a path through another link is taken for an initial
/// one.
#[test]
fn path_created_through_a_link_was_absent() {
    check(
        |seen| {
            open(seen, "/via/f", "/real/f");
            changed(seen, "/via/l");
            open(seen, "/real/l", "/real/f");
        },
        "/via → real",
    );
    check(
        |seen| {
            changed(seen, "/via/l");
            open(seen, "/real/l", "/real/f");
            open(seen, "/via/f", "/real/f");
        },
        "/via → real",
    );
    check(
        |seen| {
            open(seen, "/via/f", "/real/f");
            open(seen, "/real/l", "/real/f");
            changed(seen, "/via/l");
            open(seen, "/real/l", "/real/other");
        },
        "/real/l → f, /via → real",
    );
}

/// Fails if memory grows with the files that are opened through a link, or with names that are made
/// in a directory that the program has made.
#[test]
fn kept_state_does_not_grow_with_files() {
    let mut seen = SymlinkEvidence::default();
    for number in 0..3 * CHANGED_MAX {
        open(&mut seen, &format!("/l/{number}"), &format!("/d/{number}"));
        changed(&mut seen, "/made");
        changed(&mut seen, &format!("/made/{number}"));
        open(&mut seen, &format!("/made/{number}/x"), &format!("/made/{number}/x"));
        changed(&mut seen, &format!("/d/{number}"));
        assert!(seen.changed.len() <= CHANGED_MAX);
    }
    assert_eq!((seen.opened.len(), seen.directories.len()), (1, 1));
    assert!(seen.opened.values().all(|alike| alike.ends.len() == ALIKE_MAX));
    assert_eq!((seen.links().iter().count(), seen.links().unknown), (1, 0));
}

/// Fails if unknown links are not counted.
#[test]
fn links_of_an_unknown_directory_are_counted() {
    let mut seen = SymlinkEvidence::default();
    for number in 0..ALIKE_MAX + 23 {
        open(&mut seen, &format!("/farm/{number}"), &format!("/d/{number}"));
    }
    open(&mut seen, "/farm/x", "/farm/x");
    assert_eq!((seen.links().iter().count(), seen.links().unknown), (ALIKE_MAX, 23));
}

/// Fails if each directory of a path that is in no plan is kept with its own path: memory would
/// grow with the square of its length.
#[test]
fn overlong_path_shows_no_links() {
    let mut seen = SymlinkEvidence::default();
    let (long, other) = ("/a".repeat(2048), format!("/l{}", "/a".repeat(2047)));
    open(&mut seen, &long, &long);
    assert_eq!(seen.directories.len(), 0);
    // The path of the opened file is short enough.
    open(&mut seen, &other, &other[2..]);
    assert_eq!((seen.directories.len(), seen.opened.len()), (2046, 0));
}
