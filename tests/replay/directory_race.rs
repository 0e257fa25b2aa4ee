//! Another user may own the parent of a replay's directory, and so give its name to another
//! directory at any moment. Whatever is put there, nothing is made, given away or done in it.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::driver::recording::{BINARY, TIMEOUT, iotrace, plan_of_strace};
use crate::support::machine::requirements::{Need, require_all};
use crate::support::machine::turns::beside_others;
use crate::support::{scratch_dir, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Log of a program that read a file, and made another one.
const STRACE: &str = r#"7 1700000000.000000 openat(AT_FDCWD, "/sub/deep/x", O_RDONLY) = 3</sub/deep/x> <0.000010>
7 1700000000.001000 read(3</sub/deep/x>, ""..., 23) = 23 <0.000010>
7 1700000000.002000 mkdir("/sub/new", 0777) = 0 <0.000010>
"#;

/// A replay, and a directory that is none of its business.
struct Swap {
    plan: PathBuf,
    root: PathBuf,
    part: PathBuf,
    victim: PathBuf,
    log: PathBuf,
}

impl Swap {
    fn new(dir: &Path) -> Self {
        let plan = plan_of_strace(STRACE, dir, "p");
        let [root, part, victim, log] = ["root", "part", "victim", "calls"].map(|it| dir.join(it));
        fs::create_dir(&victim).expect("space");
        Self { plan, root, part, victim, log }
    }

    /// Stops a command after this call of it, puts a link to the other directory in the place of
    /// its files, and lets it go on. Returns its messages.
    #[track_caller]
    fn during(&self, call: &str, arguments: &[&str]) -> String {
        let mut command = Command::new("strace");
        command.args(["-f", "-o", text(&self.log), "-e", &format!("inject={call}:signal=SIGSTOP")]);
        command.arg(BINARY).args(arguments).args(["--root", text(&self.root)]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        let stopped = Pid::from_raw(self.stopped());
        fs::rename(&self.root, self.root.with_extension("moved")).expect("it is there");
        fs::create_dir(&self.root).expect("space");
        symlink(&self.victim, self.root.join("files")).expect("space");
        kill(stopped, Signal::SIGCONT).expect("it is there");
        let finished = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&finished.stderr).into_owned();
        assert_eq!(finished.status.code(), Some(125), "{call}: {said}");
        said
    }

    /// The number of the process, as soon as it is stopped.
    #[track_caller]
    fn stopped(&self) -> i32 {
        for _ in 0..TIMEOUT.as_millis() / 10 {
            let calls = fs::read_to_string(&self.log).unwrap_or_default();
            if let Some(line) = calls.lines().find(|it| it.ends_with("--- stopped by SIGSTOP ---"))
            {
                return line
                    .split_whitespace()
                    .next()
                    .and_then(|it| it.parse().ok())
                    .expect("a pid");
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("it never stops");
    }

    /// Entries of the other directory, and their owners.
    fn victims(&self) -> Vec<(PathBuf, u32)> {
        let mut found = vec![self.victim.clone()];
        let mut at = 0;
        while let Some(it) = found.get(at) {
            let inside = fs::read_dir(it).into_iter().flatten();
            let inside: Vec<_> = inside.map(|it| it.expect("a name").path()).collect();
            found.extend(inside);
            at += 1;
        }
        let owner = |path: PathBuf| {
            let owner = path.symlink_metadata().expect("there").uid();
            (path, owner)
        };
        found.into_iter().map(owner).collect()
    }
}

/// Fails if `init` uses the path of its directory after the moment in which it has checked whose
/// that is.
#[test]
fn init_creates_nothing_outside() {
    if !require_all(&[Need::Root, Need::Strace]) {
        return;
    }
    let _turn = beside_others();
    // The lists are written before the first directory is made; then the process gets mounts of its
    // own. With --map there is a directory that is made, or was there, on the way to another one.
    for (call, is_mapped) in [
        ("fsync:when=1", true),
        ("fsync:when=6", true),
        ("fsync:when=3", false),
        ("unshare", false),
    ] {
        for options in [&[][..], &["--user", "nobody"]] {
            let dir = scratch_dir("replay_swap");
            let swap = Swap::new(dir.path());
            let map = format!("--map=/sub/deep={}", text(&swap.part));
            let mut arguments = vec!["replay", "init", text(&swap.plan)];
            if is_mapped {
                fs::create_dir_all(swap.victim.join("sub/deep")).expect("space");
                arguments.push(&map);
            }
            let before = swap.victims();
            let said = swap.during(call, &[&arguments[..], options].concat());
            assert!(said.contains("is not the directory that was checked"), "{call}: {said}");
            assert_eq!(swap.victims(), before, "{call}");
        }
    }
}

/// Fails if calls are made in a directory that has the name of the replay's.
#[test]
fn run_changes_nothing_outside() {
    if !require_all(&[Need::Root, Need::Strace]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay_swap");
    let swap = Swap::new(dir.path());
    let (plan, root) = (text(&swap.plan), text(&swap.root));
    iotrace(&["replay", "init", plan, "--root", root]).success();
    // As if they had been made there.
    fs::create_dir_all(swap.victim.join("sub/deep")).expect("space");
    fs::write(swap.victim.join("sub/deep/x"), [7; 23]).expect("space");
    let before = swap.victims();
    let said = swap.during("unshare", &["replay", "run", plan]);
    assert!(said.contains("is not the directory that was checked"), "{said}");
    assert_eq!(swap.victims(), before);
}
