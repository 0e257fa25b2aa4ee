//! fio runs what is exported for it: the same bytes of the same files, and nothing outside of the
//! directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::fixture::NAMED;
use crate::support::driver::process::{Finished, run};
use crate::support::driver::recording::{BINARY, Recording, TIMEOUT, can_record, record};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::beside_others;
use crate::support::scratch_dir;
use serde_json::Value;

/// Writers in a row, three threads that read and write at random places, a file that is opened
/// without the page cache, and a name that fio cannot read.
const PROGRAM: &str = "
    dd if=/dev/urandom of=one bs=64k count=40 status=none
    dd if=one of=two bs=4099 count=23 conv=fsync status=none
    fio --name=j --directory=. --size=1m --rw=randrw --bs=4k --numjobs=3 --ioengine=psync --fsync=50 --thread --output=/dev/null
    dd if=one of=three bs=4k count=17 iflag=direct oflag=direct status=none
    dd if=three 'of=with space' bs=3k status=none
    rm one";

fn export(log: &Path, options: &[&str]) -> Finished {
    let mut command = Command::new(BINARY);
    command.args(["replay", "export"]).arg(log).args(options);
    run(&mut command, TIMEOUT).expect("it ends")
}

/// fio's own report of a job file of a directory.
#[track_caller]
fn fio(directory: &Path, jobs: &str) -> Value {
    let mut command = Command::new("fio");
    command.args(["--output-format=json", jobs]).current_dir(directory);
    let finished = run(&mut command, TIMEOUT).expect("it ends");
    let text = finished.success().stdout();
    serde_json::from_str(text.get(text.find('{').expect("an object")..).expect("text"))
        .expect("JSON")
}

/// Bytes read and written of each file below a directory, as recorded.
fn moved(recording: &Recording, below: &Path) -> BTreeMap<String, [u64; 2]> {
    let report = recording.report("files");
    let mut found: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for row in report["files"].as_array().expect("a table") {
        let path = row["path"].as_str().unwrap_or("");
        let bytes = ["read_bytes", "written_bytes"].map(|it| row[it].as_u64().expect("a number"));
        if let Ok(name) = Path::new(path).strip_prefix(below)
            && bytes != [0, 0]
        {
            // Opens whose file was not identified in time have a row of their own.
            let sums = found.entry(name.display().to_string()).or_insert([0; 2]);
            sums.iter_mut().zip(bytes).for_each(|(sum, count)| *sum += count);
        }
    }
    found
}

#[test]
fn fio_moves_the_captured_bytes() {
    if !can_record(&[Need::Uprobes, Need::Fio]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("fio");
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("a directory");
    let line = format!("cd {}; {PROGRAM}", place.display());
    let (finished, recording) = record(&dir.path().join("trace"), &NAMED, &["sh", "-c", &line]);
    finished.success();
    recording.assert_whole();
    let captured = moved(&recording, Path::new("/"));
    let log = dir.path().join("trace/traces.iocap");
    let out = dir.path().join("out");
    let to = out.to_str().expect("text");

    // A name that fio cannot read is refused, and nothing is left.
    let refused = export(&log, &["--fio", to]);
    assert_eq!(refused.status.code(), Some(125), "{}", refused.stderr());
    assert!(
        refused.stderr().contains("with space") && refused.stderr().contains("--flatten-names")
    );
    assert!(!out.exists());

    let report = export(&log, &["--fio", to, "--flatten-names", "--json"]).success().stdout();
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let again = export(&log, &["--fio", to, "--flatten-names"]);
    assert!(again.stderr().contains("is there already"), "{}", again.stderr());

    // Each file has in the logs what was recorded of it.
    let mut exported = BTreeMap::new();
    for it in report["files_exported"].as_array().expect("a table") {
        let bytes = ["read_bytes", "written_bytes"].map(|key| it[key].as_u64().expect("a number"));
        let [path, name] = ["path", "name"].map(|key| it[key].as_str().expect("text").to_owned());
        if bytes != [0, 0] {
            assert_eq!(captured.get(&path[1..]), Some(&bytes), "{path}");
            exported.insert(name, bytes);
        }
    }
    let inside = place.strip_prefix("/").expect("from the root");
    for name in ["one", "two", "three", "j.0.0", "j.1.0", "j.2.0"] {
        let name = Path::new("files").join(inside).join(name).display().to_string();
        assert!(exported.contains_key(&name), "{name}: {exported:#?}");
    }
    assert_eq!(exported.keys().filter(|it| it.starts_with("flat/")).count(), 1);
    let total = |place: usize| exported.values().map(|it| it[place]).sum::<u64>();
    assert_eq!(
        [total(0), total(1)],
        ["read_bytes", "written_bytes"].map(|it| report[it].as_u64().expect("a number"))
    );
    assert!(total(1) > 40 * 65536);

    // fio reports that it has done so, and so do its own system calls.
    fio(&out, "prepare.fio");
    let original = fs::read(place.join("two")).expect("there");
    let line = format!("cd {to}; exec fio --output-format=json --output=../fio.json replay.fio");
    let (finished, replayed) = record(&dir.path().join("again"), &NAMED, &["sh", "-c", &line]);
    finished.success();
    let text = fs::read_to_string(dir.path().join("fio.json")).expect("there");
    let reported: Value = serde_json::from_str(&text).expect("JSON");
    let jobs = reported["jobs"].as_array().expect("a list");
    let sum = |direction: &str| {
        jobs.iter().map(|job| job[direction]["io_bytes"].as_u64().expect("a number")).sum::<u64>()
    };
    assert_eq!([sum("read"), sum("write")], [total(0), total(1)]);
    assert!(jobs.iter().all(|it| it["error"] == 0));
    assert_eq!(Some(jobs.len() as u64), report["jobs"].as_u64());
    let mut again = moved(&replayed, &out);
    again.retain(|name, _| name.starts_with("files/") || name.starts_with("flat/"));
    assert_eq!(again, exported);
    // Captured files are unchanged.
    assert!(!place.join("one").exists());
    assert!(fs::read(place.join("two")).expect("there") == original);
}
