//! Judgement of the names of opens.

use std::path::Path;

use crate::support::driver::json::JsonOperation;
use crate::support::oracle::name_compare::{Bags, NameJudgement, Score, Truth, normal};
use crate::support::oracle::strace::Log;

const LOG: &str = r#"7 openat(AT_FDCWD</w>, "a", O_RDONLY) = 3</w/a>
7 openat(AT_FDCWD</w>, "./no", O_RDONLY) = -1 ENOENT (No such file or directory)
7 openat(AT_FDCWD</w>, "/w/tmp_obj_a1B2c3", O_RDONLY) = 4</w/tmp_obj_a1B2c3>
"#;

fn ours(name: &str, path: Option<&str>, source: Option<&str>) -> JsonOperation {
    JsonOperation {
        name: name.to_owned(),
        path: path.map(str::to_owned),
        path_source: source.map(str::to_owned),
        ..JsonOperation::default()
    }
}

#[track_caller]
fn check(at: usize, path: Option<&str>, source: Option<&str>, expected: NameJudgement) {
    let log = Log::parse(LOG);
    let call = log.all().nth(at).expect("a call").1.clone();
    let named = JsonOperation { result: call.ret, ..ours("openat", path, source) };
    assert_eq!(Truth::of(&call).verdict(&named), expected);
}

#[test]
fn name_verdict_depends_on_its_source() {
    check(0, Some("/w/a"), Some("fd-link"), NameJudgement::Right);
    check(0, Some("a"), Some("argument"), NameJudgement::Right);
    check(0, Some("b"), Some("argument"), NameJudgement::Wrong);
    check(0, Some("a"), Some("fd-link"), NameJudgement::Wrong);
    check(0, Some("/w/a"), Some("argument"), NameJudgement::Right);
    check(0, Some("/w/b"), Some("fd-link"), NameJudgement::Wrong);
    check(0, Some("/w/b"), Some("unverified"), NameJudgement::Unknown);
    check(0, None, None, NameJudgement::Unknown);
    check(1, Some("./no"), Some("argument"), NameJudgement::Right);
    check(1, None, Some("fd-link"), NameJudgement::Wrong);
}

#[test]
fn where_a_relative_path_begins_counts() {
    let log = Log::parse(LOG);
    let call = log.all().nth(1).expect("a call").1.clone();
    let truth = Truth::of(&call);
    let mut named = ours("openat", Some("./no"), Some("argument"));
    for (absolute, expected) in [("/w/no", NameJudgement::Right), ("/x/no", NameJudgement::Wrong)] {
        named.path_absolute = Some(absolute.to_owned());
        assert_eq!(truth.verdict(&named), expected);
    }
}

#[test]
fn bags_of_two_runs() {
    let truth = Bags::of_log(&Log::parse(LOG), Path::new("/w"));
    let mut operations = vec![
        ours("openat", Some("/v/tmp_obj_zzzzzz"), Some("fd-link")),
        ours("openat", Some("/v/a"), Some("fd-link")),
        JsonOperation {
            path_absolute: Some("/v/no".to_owned()),
            ..ours("openat", Some("./no"), Some("argument"))
        },
    ];
    let score = |it: &[JsonOperation]| truth.score(&Bags::of_operations(it, Path::new("/v")));
    let all = Score { opens: 3, right: 3, ..Score::default() };
    assert_eq!(score(&operations), all);
    operations[1].path_source = Some("unverified".to_owned());
    assert_eq!(score(&operations), Score { right: 2, unknown: 1, failed: 1, ..all.clone() });
    operations[1] = ours("openat", Some("/v/tmp_obj_yyyyyy"), Some("fd-link"));
    assert_eq!((score(&operations).right, score(&operations).wrong.len()), (2, 1));
    operations[2].path_absolute = None;
    assert_eq!(score(&operations).right, 2, "where it begins need not be known");
    operations.pop();
    assert_eq!(score(&operations).wrong.len(), 2, "one too often, one too few");
}

#[test]
fn opens_that_differ_between_runs_are_left_out() {
    let check = |path: &str, expected: &str| {
        assert_eq!(normal(path.as_bytes(), Path::new("/w/x")), expected);
    };
    check("/w/x/ccAb12Cd.s", "PLACE/cc*.s");
    check("/w/x/ccoptions.h", "PLACE/ccoptions.h");
    check("/w/x/.git/tmp_idx_Ab12Cd", "PLACE/.git/tmp_idx_*");
    check("/w/x/.git/tAb12Cd", "PLACE/.git/t*");
    check("/w/x/tAb12Cd", "PLACE/tAb12Cd");
    check("/w/x/tmp_py_a_12bcde", "PLACE/tmp_py_*");
    check("/proc/812/fd/3", "/proc/PID/fd/3");
    check("/usr/812", "/usr/812");
}
