//! Several outputs of one recording, and the place of the program in a parallel job.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, Recording, TIMEOUT, can_record, iotrace};
use crate::support::machine::requirements::{Need, require_all};
use crate::support::machine::turns::beside_others;
use crate::support::oracle::otf2_check;
use crate::support::{scratch_dir, text};

/// Names of the files of a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("an entry").file_name().into_string().expect("text")
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

/// Fails if an output is missing, or is not of its kind.
#[test]
fn one_recording_makes_all_outputs() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("outputs");
    let path = |name: &str| dir.path().join(name);
    let [log, archive, page, trace] = ["x.iocap", "y.otf2", "x.html", "x.pftrace"].map(path);
    let mut options = vec!["record"];
    for output in [&page, &archive, &log, &trace] {
        options.extend(["-o", text(output)]);
    }
    options.extend(["--", "cat", "/etc/hostname"]);
    let said = iotrace(&options).success().stderr();
    assert_eq!(names(dir.path()), ["x.html", "x.iocap", "x.pftrace", "y", "y.def", "y.otf2"]);
    for output in [&page, &archive, &trace] {
        assert!(said.contains(&format!("wrote {}", output.display())), "{said}");
    }
    let recording = Recording::open(&log);
    recording.assert_whole();
    assert!(recording.script(&[]).contains("/etc/hostname"));
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("/etc/hostname"));
    // Each packet of a Perfetto trace is field 1 of the trace, with a length.
    let trace = fs::read(trace).expect("a trace");
    assert_eq!(trace.first(), Some(&0x0a));
    if require_all(&[Need::Otf2Print]) {
        let archive = otf2_check::check(&archive).expect("an archive by the rules");
        assert!(archive.files.values().any(|file| file.contains("/etc/hostname")));
    }
}

/// Fails if a program runs although one of the outputs exists, or if files are left.
#[test]
fn existing_output_is_refused_before_the_program_runs() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    for existing in ["x.iocap", "x.otf2", "x.html", "x.pftrace"] {
        let dir = scratch_dir("outputs");
        let path = |name: &str| dir.path().join(name);
        fs::write(path(existing), "mine").expect("space");
        let ran = path("ran");
        let mut options = vec!["record".to_owned()];
        for name in ["x.html", "x.otf2", "x.iocap", "x.pftrace"] {
            options.extend(["-o".to_owned(), text(&path(name)).to_owned()]);
        }
        options.extend(["--".to_owned(), "touch".to_owned(), text(&ran).to_owned()]);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let finished = iotrace(&options);
        assert_eq!(finished.status.code(), Some(125), "{existing}");
        let said = finished.stderr();
        assert!(said.contains(&format!("{existing} is there already")), "{said}");
        assert_eq!(names(dir.path()), [existing], "nothing is left, and nothing ran");
        assert_eq!(fs::read_to_string(path(existing)).expect("a file"), "mine");
    }
}

/// Fails if an earlier output is lost, or moved although nothing can be recorded.
#[test]
fn earlier_outputs_are_kept_under_other_names() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("force");
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let record = |program: &str| {
        iotrace(&["record", "--force", "-o", &path("x/"), "-o", &path("x.html"), "--", program])
    };
    for earlier in ["", "renamed the earlier ", "renamed the earlier "] {
        let said = record("true").success().stderr();
        assert!(
            said.contains(earlier) && (earlier.is_empty() != said.contains("--force")),
            "{said}"
        );
    }
    let all = ["x", "x.html", "x.html.old", "x.html.old.2", "x.old", "x.old.2"];
    assert_eq!(names(dir.path()), all);
    for kept in ["x/", "x.old/", "x.old.2/"] {
        Recording::open(&dir.path().join(kept).join("traces.iocap")).assert_whole();
    }
    // Nothing is recorded, so nothing is renamed.
    let log = fs::read(path("x/traces.iocap")).expect("a log");
    assert_eq!(record("./no-such-program").status.code(), Some(127));
    assert_eq!(names(dir.path()), all);
    assert_eq!(fs::read(path("x/traces.iocap")).expect("a log"), log);
    // The archive can be opened afterwards.
    let archive = path("y.otf2");
    iotrace(&["convert", &path("x/"), "-o", &archive]).success();
    iotrace(&["convert", "--force", &path("x/"), "-o", &archive]).success();
    if require_all(&[Need::Otf2Print]) {
        for name in ["y.otf2", "y.old.otf2"] {
            otf2_check::check(&dir.path().join(name)).expect("an archive by the rules");
        }
    }
}

/// Fails if the rank of a launched program, or of a running one, is not in the log.
#[test]
fn place_in_a_job_comes_from_the_environment() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("job");
    let variables = [
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_SIZE", "8"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ("SLURM_JOB_ID", "4711"),
        ("SLURM_STEP_ID", "0"),
    ];
    let job = json!({"rank": 3, "size": 8, "local_rank": 1, "manager": "slurm", "id": "4711", "step": "0"});
    let launched = dir.path().join("launched.otf2");
    let mut command = Command::new(BINARY);
    command.args(["record", "-o", text(&launched), "--", "true"]).envs(variables);
    process::run(&mut command, TIMEOUT).expect("it ends").success();
    let mut running = Command::new("sleep");
    let mut running =
        running.arg("100").envs(variables).stdin(Stdio::null()).spawn().expect("it starts");
    let attached = dir.path().join("attached.iocap");
    let pid = running.id().to_string();
    iotrace(&["record", "-o", text(&attached), "-p", &pid, "-D", "100ms"]).success();
    running.kill().and_then(|()| running.wait()).expect("it is ours");
    for log in [launched.with_extension("iocap"), attached] {
        let recording = Recording::open(&log);
        assert_eq!(recording.info["job"], job);
        let line = "job       rank 3 of 8, local rank 1, slurm job 4711, step 0";
        assert!(recording.text_info().contains(line));
    }
    let mut print = Command::new("otf2-print");
    if require_all(&[Need::Otf2Print]) {
        let printed = process::run(print.arg("-A").arg(&launched), TIMEOUT).expect("it ends");
        let printed = printed.success().stdout();
        for property in ["IOTRACE::RANK", "IOTRACE::LOCAL_RANK", "IOTRACE::JOB_ID"] {
            assert!(printed.contains(property), "{property}: {printed}");
        }
    }
}

/// Fails if a recording needs the OTF2 library, or if the report of a missing one has no remedy.
#[test]
fn recording_works_without_the_otf2_library() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("outputs");
    let run = |output: &str, arguments: &[&str]| {
        let output = dir.path().join(output);
        let mut command = Command::new(BINARY);
        command.env("OTF2_DIR", "/nonexistent").arg("-o").arg(output).args(arguments);
        process::run(&mut command, TIMEOUT).expect("it ends")
    };
    let recorded = run("x/", &["--", "cat", "/etc/hostname"]);
    let said = recorded.success().stderr();
    assert_eq!(names(&dir.path().join("x")), ["traces.iocap"]);
    let remedy = "has none in lib or lib64; install it: apt install otf2-tools";
    assert!(said.contains("no OTF2 archive: cannot load") && said.contains(remedy), "{said}");
    Recording::open(&dir.path().join("x/traces.iocap")).assert_whole();

    // An archive that the user has named is refused before the program runs.
    let refused = run("y.otf2", &["--", "touch", text(&dir.path().join("ran"))]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(refused.stderr().contains(remedy), "{}", refused.stderr());
    assert_eq!(names(dir.path()), ["x"]);
}
