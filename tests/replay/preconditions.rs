//! A replay begins only with the files that were made for its plan, as they were made.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::driver::process::Finished;
use crate::support::driver::recording::{BINARY, TIMEOUT, iotrace, plan_of_strace};
use crate::support::machine::requirements::{Need, require};
use crate::support::machine::turns::beside_others;
use crate::support::{scratch_dir, text};

/// A plan, and a directory for its replay.
struct Replay {
    plan: PathBuf,
    root: PathBuf,
}

impl Replay {
    /// Of a program that reads `/d/x` and `/d/y`, of the first so often.
    fn new(dir: &Path, name: &str, reads: usize) -> Self {
        let at = |ms: usize| format!("7 1700000000.{ms:03}000");
        let mut lines = vec![
            format!(r#"{} openat(AT_FDCWD, "/d/y", O_RDONLY) = 4</d/y> <0.000010>"#, at(0)),
            format!(r#"{} read(4</d/y>, ""..., 23) = 23 <0.000010>"#, at(1)),
            format!(r#"{} openat(AT_FDCWD, "/d/x", O_RDONLY) = 3</d/x> <0.000010>"#, at(2)),
        ];
        let read = |it| format!(r#"{} pread64(3</d/x>, ""..., 4099, 0) = 4099 <0.000010>"#, at(it));
        lines.extend((3..3 + reads).map(read));
        let plan = plan_of_strace(&(lines.join("\n") + "\n"), dir, name);
        Self { plan, root: dir.join("root") }
    }

    fn init(&self) {
        iotrace(&["replay", "init", text(&self.plan), "--root", text(&self.root)]).success();
    }

    fn run(&self) -> Finished {
        let (plan, root) = (text(&self.plan), text(&self.root));
        iotrace(&["replay", "run", plan, "--root", root, "--speed", "max"])
    }

    /// Checks that nothing was done, and that the message has the reason and what helps.
    #[track_caller]
    fn assert_refused(&self, why: &str) {
        let finished = self.run();
        assert_eq!(finished.status.code(), Some(125), "{}", finished.stdout());
        let init = format!("replay init {} --root {}", text(&self.plan), text(&self.root));
        for words in [why, &init] {
            assert!(finished.stderr().contains(words), "{}", finished.stderr());
        }
    }

    /// Path in the replay's directory of a path of the capture.
    fn inside(&self, path: &str) -> PathBuf {
        self.root.join("files").join(path)
    }
}

/// Fails if a plan is done on files that were made for another one, even where they are the same.
#[test]
fn files_of_another_plan_are_refused() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let [one, other] = [("one", 1), ("other", 2)].map(|it| Replay::new(dir.path(), it.0, it.1));
    one.init();
    other.assert_refused("made for another plan");
    // Nothing was done: they are still those of the first one. A plan is the same wherever it is,
    // and whenever it was made of a log.
    let again = Replay::new(dir.path(), "again", 1);
    again.run().success();
    again.assert_refused("(done)");
    // Used files stay those of their plan.
    other.assert_refused("make them again");
    other.init();
    other.run().success();
}

/// Fails if a replay begins with files that are not as long as they were made.
#[test]
fn files_of_other_lengths_are_refused() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::new(dir.path(), "one", 1);
    replay.init();
    let set = |path: &str, bytes: u64| {
        let file = fs::File::options().write(true).open(replay.inside(path)).expect("made");
        file.set_len(bytes).expect("space");
    };
    set("d/y", 24);
    replay.assert_refused("(/d/y has 24 bytes and was made with 23)");
    set("d/x", 4093);
    let why = "(/d/x has 4093 bytes and was made with 4099, and 1 more are not as they were made)";
    replay.assert_refused(why);
    // Nothing was done, so it is enough to mend them.
    set("d/x", 4099);
    set("d/y", 23);
    replay.run().success();
}

/// Fails if a replay begins with other files than were made.
#[test]
fn other_files_are_refused() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::new(dir.path(), "one", 1);
    replay.init();
    fs::rename(replay.inside("d/x"), replay.inside("d/z")).expect("made");
    replay.assert_refused("(/d/x is gone, and 1 more are not as they were made)");
    fs::create_dir(replay.inside("d/x")).expect("space");
    replay.assert_refused("(/d/x is of another type, and 1 more are not as they were made)");
    fs::remove_dir(replay.inside("d/x")).expect("empty");
    fs::rename(replay.inside("d/z"), replay.inside("d/x")).expect("made");
    fs::write(replay.inside("a"), "").expect("space");
    replay.assert_refused("(/a was not made by init); remove what init has not made, and make");
    fs::remove_file(replay.inside("a")).expect("made");
    replay.run().success();
}

/// Fails if a replay is not removed, or only in part, where it is named by a link to it or as the
/// working directory.
#[test]
fn replay_is_purged_by_any_of_its_names() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay_place");
    let replay = Replay::new(dir.path(), "one", 1);
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&replay.root, &link).expect("space");
    replay.init();
    iotrace(&["replay", "purge", "--root", text(&link)]).success();
    assert!(!replay.root.exists() && link.is_symlink());
    replay.init();
    let mut command = std::process::Command::new(BINARY);
    command.args(["replay", "purge", "--root", "."]).current_dir(&replay.root);
    crate::support::driver::process::run(&mut command, TIMEOUT).expect("it ends").success();
    assert!(!replay.root.exists());
}
