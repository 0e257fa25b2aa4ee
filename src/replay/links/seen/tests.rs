use super::*;
use crate::operation::model::{FilePath, PathSource};

/// The links that opens and other calls show, and what they contain.
#[track_caller]
fn check(happens: impl FnOnce(&mut Seen), expected: &str) {
    let mut seen = Seen::default();
    happens(&mut seen);
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    let links = seen.links();
    let lines: Vec<String> =
        links.iter().map(|(path, to)| format!("{} → {}", text(path), text(to))).collect();
    assert_eq!(lines.join(", "), expected);
}

fn open(seen: &mut Seen, given: &str, got: &str) {
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

fn changed(seen: &mut Seen, path: &str) {
    seen.changed.insert(path.as_bytes().into());
}

#[test]
fn the_first_name_that_differs_is_a_link() {
    check(|seen| open(seen, "/a/l/t", "/a/d/t"), "/a/l → d");
    check(|seen| open(seen, "/lib/x/y", "/usr/lib/x/y"), "/lib → usr/lib");
    check(|seen| open(seen, "/a/f", "/b/g"), "/a/f → ../b/g");
    check(|seen| open(seen, "/a/l", "/a"), "/a/l → .");
    check(|seen| open(seen, "/a/l/t", "/t"), "/a/l → ..");
    check(|seen| open(seen, "/a/b", "/a/b"), "");
}

#[test]
fn a_directory_is_no_link() {
    check(
        |seen| {
            open(seen, "/a/l/x", "/a/l/x");
            open(seen, "/a/l/t", "/a/d/t");
        },
        "/a/l/t → ../d/t",
    );
}

#[test]
fn a_link_may_lead_to_another_one() {
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
fn what_the_program_has_made_was_not_there() {
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
fn two_dots_and_the_kernels_files_say_nothing() {
    check(|seen| open(seen, "/a/l/../t", "/a/t"), "");
    check(|seen| open(seen, "/proc/self/cwd/t", "/a/t"), "");
    check(|seen| open(seen, "/a/l", "/dev/null"), "");
}

#[test]
fn a_text_is_as_long_as_readlink_said_by_whatever_path() {
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
