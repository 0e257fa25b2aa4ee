//! Containers of podman: are they found by their names, and recorded alone?

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::driver::recording::{can_record, iotrace, record};
use crate::support::machine::turns::beside_others;
use crate::support::scratch_dir;

/// A container that runs in the background. Removed when dropped.
struct Container(String);

impl Container {
    /// Starts a container on a root file system that has nothing but busybox; it writes a file of
    /// its own again and again. `None`: podman cannot run one here.
    fn start(root: &Path, name: &str) -> Option<Self> {
        let script = format!(
            "while :; do dd if=/dev/zero of=/tmp/{name} bs=4099 count=7; cat /etc/passwd; sleep 0.05; done"
        );
        let container = Self(name.to_owned());
        // Not every kernel and runtime can have the limits and control groups of the defaults.
        for runtime in ["crun", "runc"] {
            let options = [
                "--runtime",
                runtime,
                "run",
                "--rm",
                "-d",
                "--network",
                "none",
                "--ulimit",
                "nofile=1024:1024",
                "--ulimit",
                "nproc=1000:1000",
                "--name",
                name,
                "--rootfs",
            ];
            let mut podman = Command::new("podman");
            podman.args(options).arg(root).args(["/bin/sh", "-c", &script]);
            if podman.stdin(Stdio::null()).output().is_ok_and(is_good) {
                return Some(container);
            }
        }
        None
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The container may not have been started.
        let _ = Command::new("podman").args(["rm", "-f", "-t", "0", &self.0]).output();
    }
}

fn is_good(output: Output) -> bool {
    output.status.success()
}

/// Makes a root file system with busybox; false: the busybox of this machine needs libraries.
fn make_root(root: &Path) -> bool {
    ["bin", "etc", "tmp", "proc", "sys", "dev"]
        .iter()
        .for_each(|name| fs::create_dir_all(root.join(name)).expect("made"));
    fs::write(root.join("etc/passwd"), "root:x:0:0::/:/bin/sh\n").expect("written");
    ["sh", "dd", "cat", "sleep"]
        .iter()
        .for_each(|name| symlink("busybox", root.join("bin").join(name)).expect("a link"));
    let is_copied = fs::copy("/bin/busybox", root.join("bin/busybox")).is_ok();
    is_copied
        && Command::new("chroot").arg(root).args(["/bin/sh", "-c", ":"]).output().is_ok_and(is_good)
}

/// Fails if a container is not found by its name, if one of its operations is missing, or if those
/// of another one are recorded.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn container_of_podman_is_recorded_alone() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("containers");
    let root = dir.path().join("root");
    let names = ["wanted", "other"].map(|name| format!("iotrace-{}-{name}", std::process::id()));
    let started = make_root(&root)
        .then(|| names.each_ref().map(|name| Container::start(&root, name)))
        .filter(|all| all.iter().all(Option::is_some));
    let Some(_containers) = started else {
        eprintln!("skipped: no container of podman on a static busybox can be run here");
        return;
    };
    let [wanted, other] = names.each_ref().map(|name| format!("/tmp/{name}"));
    let trace = dir.path().join("trace");
    let (finished, recording) = record(&trace, &["--container", &names[0], "-D", "1s"], &[]);
    let said = finished.success().stderr();
    assert!(said.contains(&format!("of {}", names[0])), "{said}");
    let operations = recording.operations();
    let paths: BTreeSet<&str> = operations.iter().filter_map(|call| call.path.as_deref()).collect();
    assert!(paths.contains(wanted.as_str()) && !paths.contains(other.as_str()), "{paths:?}");
    let writes = operations.iter().filter(|call| call.path.as_deref() == Some(&wanted));
    let sizes: BTreeSet<Option<i64>> =
        writes.filter(|call| call.name == "write").map(|call| call.result).collect();
    assert_eq!(sizes, BTreeSet::from([Some(4099)]));
    // The same as a filter of a recording of the whole machine.
    let (finished, recording) = record(&dir.path().join("all"), &["-a", "-D", "1s"], &[]);
    finished.success();
    let lines = recording.script(&["--container", &names[1]]);
    assert!(lines.contains(&other) && !lines.contains(&wanted), "{}", lines.len());
    // A name that is not there is answered with those that are.
    let refused = iotrace(&["record", "--container", "no-such-container", "-D", "1s"]);
    let said = refused.stderr();
    assert!(names.iter().all(|name| said.contains(name)), "{said}");
}
