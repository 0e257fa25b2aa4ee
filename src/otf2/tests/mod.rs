//! Events through the tracker and the sink to the output of `otf2-print`.

mod balance;
mod calls;
mod definitions;
mod histories;
mod language;
mod requests;

use expect_test::Expect;

use super::OtfOptions;
use language::{make, otf2_print, printed};

/// Checks the events of the archive, one per line: kind, location, time, details.
#[track_caller]
fn check(text: &str, expected: Expect) {
    check_with(OtfOptions::default(), text, &[], |_| true, expected);
}

#[track_caller]
fn check_with(
    options: OtfOptions,
    text: &str,
    arguments: &[&str],
    wanted: impl Fn(&str) -> bool,
    expected: Expect,
) {
    let made = make(text, options, MOUNTS).expect("an archive");
    assert_eq!((made.summary.clamped, made.summary.after_end), (0, 0));
    let Some(program) = otf2_print() else {
        skip();
        return;
    };
    balance::check(&printed(&program, &made, &["-G"]), &printed(&program, &made, &[]));
    let text = printed(&program, &made, arguments);
    let lines: Vec<&str> = text.lines().filter(|line| wanted(line)).collect();
    expected.assert_eq(&(lines.join("\n") + "\n"));
}

#[expect(clippy::print_stdout, reason = "a skipped test is reported")]
fn skip() {
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI has otf2-print");
    println!("skipped: otf2-print is not installed (package otf2-tools)");
}

const MOUNTS: &str =
    "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n30 22 0:40 / /net rw - nfs4 server:/export rw\n";

#[test]
fn an_archive_is_not_overwritten() {
    let made = make("", OtfOptions::default(), "").expect("an archive");
    let again = super::OtfSink::create(
        made.directory.path(),
        "traces",
        &language::header(),
        OtfOptions::default(),
    );
    assert!(matches!(again, Err(super::OtfError::Archive(otf2_sys::Error::Exists(_)))));
}
