//! Identities of processes: command lines, parents, programs and control groups.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::driver::recording::{can_record, record, wait_until};
use crate::support::machine::requirements::{Need, make_cgroup};
use crate::support::machine::turns::beside_others;
use crate::support::scratch_dir;

/// Two programs of one name that run for a while, with different arguments.
const SCRIPT: &str = "for name in first second; do
        sh -c 'read line < /etc/hostname; sleep 1; read line < /etc/hostname' $name &
    done; wait";

fn processes(report: &Value) -> Vec<Value> {
    report["processes"].as_array().expect("processes").clone()
}

#[test]
fn processes_of_one_name_have_their_own_command_lines() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    for options in [&[][..], &["-a"]] {
        let dir = scratch_dir("identity");
        let (finished, recording) =
            record(&dir.path().join("trace"), options, &["sh", "-c", SCRIPT]);
        finished.success();
        let all = processes(&recording.report("summary"));
        let ends = |row: &&Value, end: &str| {
            row["command_line"].as_str().is_some_and(|line| line.ends_with(end))
        };
        let of = |end: &str| {
            let found: Vec<&Value> = all.iter().filter(|row| ends(row, end)).collect();
            assert_eq!(found.len(), 1, "{end}: {all:#?}");
            found[0].clone()
        };
        let [first, second] = ["/etc/hostname first", "/etc/hostname second"].map(of);
        let root = of("done; wait");
        assert_ne!(first["pid"], second["pid"]);
        for child in [&first, &second] {
            assert_eq!(child["parent_pid"], root["pid"], "{child}");
            assert_eq!(child["comm"], "sh", "{child}");
            let executable = child["executable"].as_str().expect("a program");
            assert!(executable.ends_with("sh"), "{child}");
            assert_eq!(child["cgroup"], root["cgroup"], "{child}");
        }
    }
}

/// A control group that ends with its value.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn operations_of_one_control_group_are_selected() {
    if !can_record(&[Need::Cgroup]) {
        return;
    }
    let _turn = beside_others();
    let names = ["wanted", "other"].map(|name| format!("iotrace-{}-{name}", std::process::id()));
    let [wanted, other] =
        names.each_ref().map(|name| Group(make_cgroup(name).expect("a control group")));
    // Not at once: on two busy CPUs a reader of names may be late.
    let enter = |group: &Group, file: &str, delay: f32| {
        format!(
            "sh -c 'echo $$ > {}/cgroup.procs; sleep 0.5; exec sh -c \"sleep {delay}; cat {file}\"' > /dev/null &",
            group.0.display()
        )
    };
    let (first, second) = (enter(&wanted, "/etc/hostname", 0.7), enter(&other, "/etc/passwd", 1.0));
    let script = format!("{first} {second} wait");
    let dir = scratch_dir("cgroup");
    let (finished, recording) = record(&dir.path().join("trace"), &["-a"], &["sh", "-c", &script]);
    finished.success();
    let lines = recording.script(&["-G", &names[0]]);
    assert!(lines.contains("/etc/hostname"), "{lines}");
    assert!(!lines.contains("/etc/passwd"), "{lines}");
    let nothing = recording.script(&["-G", "no-such-group"]);
    assert!(!nothing.contains("/etc/hostname"), "{nothing}");
    let by = recording.report_with(&["summary", "--by", "cgroup"]);
    let groups: Vec<Value> = processes(&by).iter().map(|row| row["cgroup"].clone()).collect();
    for name in &names {
        assert!(groups.contains(&Value::String(format!("/{name}"))), "{groups:?}");
    }
}

/// Fails if a recording of a control group has operations of another one, or does not say that
/// processes that enter the group later are not recorded.
#[test]
fn processes_of_one_control_group_are_recorded() {
    if !can_record(&[Need::Cgroup]) {
        return;
    }
    let _turn = beside_others();
    let names = ["only", "beside"].map(|name| format!("iotrace-{}-{name}", std::process::id()));
    let groups = names.each_ref().map(|name| Group(make_cgroup(name).expect("a control group")));
    let files = ["/etc/hostname", "/etc/passwd"];
    let start = |(group, file): (&Group, &str)| {
        let line = format!(
            "echo $$ > {}/cgroup.procs; while sleep 0.02; do cat {file}; done",
            group.0.display()
        );
        let process = Command::new("sh").args(["-c", &line]).stdout(Stdio::null()).spawn();
        process.expect("a shell")
    };
    let mut running: Vec<Child> = groups.iter().zip(files).map(start).collect();
    let has_member = |group: &Group| {
        let members = fs::read_to_string(group.0.join("cgroup.procs"));
        members.is_ok_and(|members| !members.is_empty())
    };
    wait_until("both groups have processes", || groups.iter().all(has_member));
    let dir = scratch_dir("cgroup-target");
    let (finished, recording) =
        record(&dir.path().join("trace"), &["-G", &names[0], "-D", "700ms"], &[]);
    for process in &mut running {
        process.kill().expect("it runs");
        process.wait().expect("it ends");
    }
    wait_until("both groups are empty", || !groups.iter().any(has_member));
    let finished = finished.success();
    let lines = recording.script(&[]);
    assert!(lines.contains(files[0]), "{lines}");
    assert!(!lines.contains(files[1]), "{lines}");
    let warnings = recording.info["warnings"].to_string();
    assert!(warnings.contains("processes that entered it later"), "{warnings}");
    // A loop and, at most moments, the command in it.
    let count = recording.info["roots"].as_array().map_or(0, Vec::len);
    assert!((1..=4).contains(&count), "{}", recording.info);
    assert_eq!(recording.info["group"], Value::String(names[0].clone()));
    let noun = if count == 1 { "process" } else { "processes" };
    let subject = format!("{count} {noun} of {} for", names[0]);
    assert!(finished.stderr().contains(&subject), "{}", finished.stderr());
}
