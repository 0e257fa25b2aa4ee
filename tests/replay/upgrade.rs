//! Plans of earlier versions are replayed by this one.

use std::path::Path;

use serde_json::Value;

use crate::support::driver::recording::iotrace;
use crate::support::machine::requirements::{Need, require_all};
use crate::support::machine::turns::beside_others;
use crate::support::{scratch_dir, text};

/// Fails if an operation of an earlier version's plan is not done as it was captured.
#[test]
fn plans_of_earlier_versions_have_the_captured_results() {
    // Flags and error numbers in a plan are those of its machine; others refuse it.
    if std::env::consts::ARCH != "x86_64" || !require_all(&[Need::Root]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("upgrade");
    for plan in ["v4.ioplan", "v5.ioplan"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/plans").join(plan);
        let root = dir.path().join(plan);
        iotrace(&["replay", "init", text(&path), "--root", text(&root)]).success();
        let run = ["replay", "run", text(&path), "--root", text(&root), "--json"];
        let finished = iotrace(&[&run[..], &["--speed", "max"]].concat());
        let report: Value = serde_json::from_str(&finished.stdout())
            .unwrap_or_else(|_| panic!("{}", finished.stderr()));
        assert_eq!(
            (&report["mismatches"], &report["operations"]),
            (&0.into(), &63.into()),
            "{plan}"
        );
        assert_eq!(report["is_whole"], true, "{plan}");
    }
}
