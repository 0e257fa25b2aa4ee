//! Names from fanotify: for which opens they exist, in which mounts, and when they are uncertain.
//! The share of right names is checked by tests/recording/names.rs.

use std::process::Command;

use crate::support::driver::process;
use crate::support::driver::recording::{Recording, TIMEOUT, can_record, record, recorder};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::scratch_dir;

/// Source and name of each open that made a descriptor, of files whose names end like this.
fn opened(recording: &Recording, end: &str) -> Vec<(String, String)> {
    let operations = recording.operations();
    let made = operations.iter().filter(|it| it.name.starts_with("open") && it.result >= Some(0));
    made.filter_map(|it| Some((it.path_source.clone()?, it.path.clone()?)))
        .filter(|it| it.1.ends_with(end))
        .collect()
}

/// Fails if what an overlay opens itself, below it, is taken for what the program opened; of mounts
/// that are made later, too, and in a namespace of their own.
#[test]
fn files_of_an_overlay_have_its_names() {
    if !can_record(&[Need::KernelFile("/sys/module/overlay"), Need::Program("unshare")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("overlay");
    let script = "cd \"$0\"; mkdir low up work over low/d; mount -t tmpfs t up; mkdir up/u up/w
        echo 1 > low/of_overlay; echo 1 > low/d/of_overlay
        mount -t overlay o -o lowerdir=low,upperdir=up/u,workdir=up/w over
        for round in 1 2 3 4 5; do
            cat over/of_overlay over/d/of_overlay; sleep 0.1; cat /dev/null over/of_overlay; ls over/d
            echo 2 >> over/of_overlay
        done";
    let place = dir.path().to_str().expect("text");
    let program = ["unshare", "-m", "sh", "-c", script, place];
    let (finished, recording) =
        record(&dir.path().join("trace"), &["--names", "fanotify"], &program);
    finished.success();
    recording.assert_whole();
    let reported = opened(&recording, "/of_overlay");
    let made = ["low/of_overlay", "low/d/of_overlay", "over/of_overlay", "over/d/of_overlay"];
    let made = made.map(|it| format!("{place}/{it}"));
    assert!(reported.iter().any(|it| it.0 == "fanotify"), "some are certain: {reported:?}");
    for (source, path) in &reported {
        assert!(source != "fanotify" || made.contains(path), "{reported:?}");
    }
}

/// Fails if a name counts as certain although not all calls were recorded that open and rename; if
/// no message is printed.
#[test]
fn unrecorded_calls_make_names_doubtful() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("fanotify");
    let options = ["--names", "fanotify", "-e", "openat,read"];
    let (finished, recording) = record(dir.path(), &options, &["cat", "/etc/passwd"]);
    let said = finished.success().stderr();
    assert!(said.contains("none of fanotify's names is certain"), "{said}");
    let reported = opened(&recording, "/etc/passwd");
    assert!(!reported.is_empty() && reported.iter().all(|it| it.0 == "unverified"), "{reported:?}");
    let (finished, recording) = record(&dir.path().join("all"), &LISTENER, &["cat", "/etc/passwd"]);
    let said = finished.success().stderr();
    assert!(!said.contains("warning"), "{said}");
    assert_eq!(recording.info["names_unheard"].as_array().map(Vec::len), Some(0));
}

const LISTENER: [&str; 2] = ["--names", "fanotify"];

/// Fails if a path is reported that fanotify cannot know: that of a failed call, or of another one.
#[test]
fn calls_without_an_open_have_no_path() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("fanotify");
    let script =
        "cat /nowhere/of/all; [ -e /nowhere/of/all ]; rm -f /nowhere/of/all; : < /dev/null";
    let (_, recording) = record(dir.path(), &LISTENER, &["sh", "-c", script]);
    let operations = recording.operations();
    let failed = operations.iter().filter(|it| it.name == "openat" && it.result < Some(0));
    let others =
        operations.iter().filter(|it| it.name.contains("access") || it.name.contains("unlink"));
    let mut checked = 0;
    for it in failed.chain(others) {
        checked += 1;
        assert_eq!((&it.path, it.path_source.as_deref()), (&None, None), "{it:?}");
    }
    assert!(checked >= 3, "{checked}");
    assert_eq!(opened(&recording, "/dev/null"), []);
    let unnamed = recording.number("unnamed");
    assert!(unnamed >= checked, "{unnamed} are counted of {checked}");
}

/// Fails if the listener is chosen without the capability, or the error does not name that.
#[test]
fn fanotify_without_privilege_is_refused() {
    if !can_record(&[Need::Program("setpriv")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("fanotify");
    let tracer = recorder(&dir.path().join("trace"), &LISTENER, &["true"]);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]);
    command.arg(tracer.get_program()).args(tracer.get_args());
    let finished = process::run(&mut command, TIMEOUT).expect("it ends");
    let said = finished.stderr();
    assert!(!finished.status.success() && said.contains("CAP_SYS_ADMIN"), "{said}");
}

/// Fails if without real-time priority, and where no probe can read paths (perf), something worse
/// is taken; doctor names the source.
#[test]
fn fanotify_is_the_fallback_without_readers() {
    if !can_record(&[Need::Program("setpriv")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("fanotify");
    let trace = dir.path().join("trace");
    let tracer = recorder(&trace, &["--source", "perf"], &["cat", "/etc/passwd"]);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice"]);
    command.arg(tracer.get_program()).args(tracer.get_args());
    process::run(&mut command, TIMEOUT).expect("it ends").success();
    let recording = Recording::open(&trace.join("traces.iocap"));
    assert_eq!(recording.info["names"], "fanotify", "{:?}", recording.info["names_reason"]);
    recording.assert_whole();
}
