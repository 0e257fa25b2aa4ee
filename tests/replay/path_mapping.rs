//! A replay whose directories are in several places: each has what the capture had there, and
//! nothing else is touched.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::support::driver::process::Finished;
use crate::support::driver::recording::{iotrace, plan_of_strace};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::{Need, require};
use crate::support::machine::turns::beside_others;
use crate::support::{scratch_dir, text};
use serde_json::Value;

/// Log of a program that worked below `/data`, `/data/x`, `/database` and `/d`; a rename from one
/// file system to another was refused.
const STRACE: &str = r#"7 1700000000.000000 openat(AT_FDCWD, "/data/a", O_RDONLY) = 3</data/a> <0.000010>
7 1700000000.001000 read(3</data/a>, ""..., 4099) = 4099 <0.000010>
7 1700000000.002000 openat(AT_FDCWD, "/data/x/b", O_RDONLY) = 4</data/x/b> <0.000010>
7 1700000000.003000 read(4</data/x/b>, ""..., 23) = 23 <0.000010>
7 1700000000.004000 openat(AT_FDCWD, "/database/c", O_RDONLY) = 5</database/c> <0.000010>
7 1700000000.005000 read(5</database/c>, ""..., 29) = 29 <0.000010>
7 1700000000.006000 openat(AT_FDCWD, "/d/e", O_WRONLY|O_CREAT|O_EXCL, 0644) = 6</d/e> <0.000010>
7 1700000000.007000 write(6</d/e>, ""..., 31) = 31 <0.000010>
7 1700000000.008000 rename("/data/a", "/d/a") = -1 EXDEV (Invalid cross-device link) <0.000010>
7 1700000000.009000 rename("/data/a", "/data/x/a") = 0 <0.000010>
7 1700000000.010000 openat(AT_FDCWD, "/data/new", O_WRONLY|O_CREAT|O_EXCL, 0644) = 7</data/new> <0.000010>
7 1700000000.011000 write(7</data/new>, ""..., 37) = 37 <0.000010>
"#;

/// A plan of that, and where its replay is.
struct Replay {
    plan: PathBuf,
    root: PathBuf,
}

impl Replay {
    fn new(dir: &Path) -> Self {
        Self { plan: plan_of_strace(STRACE, dir, "p"), root: dir.join("root") }
    }

    fn init(&self, maps: &[(&str, &Path)]) -> Finished {
        let maps: Vec<_> = maps.iter().map(|it| format!("--map={}={}", it.0, text(it.1))).collect();
        let mut arguments = vec!["replay", "init", text(&self.plan), "--root", text(&self.root)];
        arguments.extend(maps.iter().map(|it| &**it));
        iotrace(&arguments)
    }

    fn run(&self, options: &[&str]) -> Finished {
        let (plan, root) = (text(&self.plan), text(&self.root));
        let first = ["replay", "run", plan, "--root", root, "--speed", "max", "--json"];
        iotrace(&[&first, options].concat())
    }

    fn purge(&self) -> Finished {
        iotrace(&["replay", "purge", "--root", text(&self.root)])
    }
}

/// All that is below a directory, links not followed, with what files contain.
fn seen(directory: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(it) = left.pop() {
        for entry in fs::read_dir(&it).expect("readable") {
            let path = entry.expect("readable").path();
            let metadata = path.symlink_metadata().expect("there");
            if metadata.is_dir() {
                left.push(path.clone());
            }
            found.insert(path.clone(), metadata.is_file().then(|| fs::read(path).expect("there")));
        }
    }
    found
}

/// Paths of files and directories below a place's own.
fn names(place: &Path) -> Vec<String> {
    let files = place.join("files");
    let all = seen(&files).into_keys();
    all.map(|it| text(it.strip_prefix(&files).expect("below")).to_owned()).collect()
}

#[track_caller]
fn refused(finished: &Finished, words: &str) {
    assert_eq!(finished.status.code(), Some(125), "{}", finished.stdout());
    assert!(finished.stderr().contains(words), "{}", finished.stderr());
}

/// Fails if what was below a directory is not where it was sent, if `/data` and `/database` are
/// confused, or if anything stays.
#[test]
fn replay_with_mappings_is_in_several_directories() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::new(dir.path());
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).expect("space");
    let disk = Mounted::of_kernel(&disk, "tmpfs", "size=4m");
    fs::write(disk.path().join("mine"), "kept").expect("space");
    let before = seen(disk.path());
    let (one, two) = (disk.path().join("one"), dir.path().join("two"));
    fs::create_dir(&two).expect("space");
    let maps: [(&str, &Path); 2] = [("/data/x", &two), ("/data/", &one)];
    replay.init(&maps).success();
    assert_eq!(names(&one), ["a", "x"]);
    assert_eq!(names(&two), ["b"]);
    assert_eq!(names(&replay.root), ["d", "data", "database", "database/c"]);
    let finished = replay.run(&[]);
    let report: Value = serde_json::from_str(&finished.stdout())
        .unwrap_or_else(|_| panic!("{}", finished.stderr()));
    // The capture had no mount at /data/x: what went from one to the other there cannot here.
    assert_eq!(report["mismatches"], 1, "{report:#}");
    assert_eq!(report["first_mismatches"][0]["captured"], 0);
    assert_eq!(report["first_mismatches"][0]["replayed"], -18);
    let notes = report["notes"].to_string();
    for (captured, place) in [("/data", &one), ("/data/x", &two)] {
        let note = format!("{captured} of the capture was in {}", text(place));
        assert!(notes.contains(&note), "{notes}");
    }
    assert_eq!(names(&one), ["a", "new", "x"]);
    assert_eq!(names(&replay.root), ["d", "d/e", "data", "database", "database/c"]);
    // The command that made them is repeated with all of its options.
    refused(&replay.run(&[]), &format!("--map=/data={} --map=/data/x={}", text(&one), text(&two)));
    replay.purge().success();
    assert!(!one.exists() && !two.exists() && !replay.root.exists());
    assert_eq!(seen(disk.path()), before);
    // With one map, or with none, everything is as it was captured, also a second time: what could
    // not go to another file system is left out.
    let one: (&str, &Path) = ("/data", &one);
    replay.init(&[one]).success();
    replay.run(&["--loop", "2"]).success();
    assert_eq!(names(one.1), ["new", "x", "x/a", "x/b"]);
    replay.init(&[]).success();
    assert!(!one.1.exists());
    let finished = replay.run(&[]);
    let report: Value = serde_json::from_str(&finished.stdout()).expect("JSON");
    finished.success();
    let left = &report["left_calls"][0];
    assert_eq!((&left["reason"], &left["call"]), (&"file-systems".into(), &"rename".into()));
    replay.purge().success();
    assert_eq!(seen(disk.path()), before);
}

/// Fails if a directory is taken that is not new, empty or ours, or if a refused init leaves
/// anything.
#[test]
fn foreign_directories_are_refused() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::new(dir.path());
    let [full, empty, link, file, owned] =
        ["full", "empty", "link", "file", "owned"].map(|it| dir.path().join(it));
    for it in [&full, &empty, &owned] {
        fs::create_dir(it).expect("space");
    }
    fs::write(full.join("mine"), "kept").expect("space");
    fs::write(&file, "kept").expect("space");
    symlink(&empty, &link).expect("space");
    std::os::unix::fs::chown(&owned, Some(65534), None).expect("we are root");
    let before = seen(dir.path());
    let new = dir.path().join("new");
    let check = |maps: &[(&str, &Path)], words: &str| {
        refused(&replay.init(maps), words);
        assert!(seen(dir.path()) == before, "{words}");
    };
    check(&[("/data", &full)], "is not empty");
    check(&[("/database", &new), ("/data", &full)], "is not empty");
    check(&[("/data", &link)], "is a symbolic link");
    check(&[("/data", &file)], "Not a directory");
    check(&[("/data", &owned)], "belongs to another user");
    check(&[("/data", &dir.path().join("no/new"))], "No such file");
    check(&[("/dat", &new)], "the plan has no such directory");
    check(&[("/data/a", &new)], "the plan has no such directory");
    check(&[("data", &new)], "is an absolute path");
    check(&[("/", &new)], "is an absolute path");
    check(&[("/data", &new), ("/data/", &empty)], "is given two places");
    check(&[("/data", &new), ("/database", &new)], "are nested");
    check(&[("/data", &new), ("/database", &new.join("x"))], "No such file");
    check(&[("/data", &replay.root.join("x"))], "No such file");
    check(&[("/data", dir.path())], "are nested");
    check(&[("/data", Path::new(""))], "it is a captured directory");
}

/// Fails if a replay takes the directory of another one, or works with a part only.
#[test]
fn parts_of_other_replays_are_refused() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::new(dir.path());
    let other = Replay { plan: replay.plan.clone(), root: dir.path().join("other") };
    let [one, two] = ["one", "two"].map(|it| dir.path().join(it));
    replay.init(&[("/data", &one)]).success();
    other.init(&[("/data", &two)]).success();
    let before = seen(dir.path());
    let purge = format!("purge --root {}", text(&other.root));
    refused(&replay.init(&[("/data", &one), ("/database", &two)]), &purge);
    refused(&replay.init(&[("/data", &other.root)]), &purge);
    let part = Replay { plan: replay.plan.clone(), root: two.clone() };
    let all = format!("--root {}", text(&other.root));
    refused(&part.init(&[]), &all);
    refused(&part.run(&[]), &all);
    let untouched = |(path, what): (&PathBuf, &Option<Vec<u8>>)| before.get(path) == Some(what);
    assert!(seen(&two).iter().chain(&seen(&other.root)).all(untouched));
    other.run(&[]).success();
    // Remains of a replay whose own directory is gone can be removed.
    fs::remove_dir_all(&other.root).expect("there");
    part.purge().success();
    assert!(!two.exists());
}

/// Fails if a link, or another directory, in the place of one that was made leads anybody
/// elsewhere.
#[test]
fn foreign_entries_in_the_directory_are_not_touched() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::new(dir.path());
    let (above, outside) = (dir.path().join("above"), dir.path().join("outside"));
    let one = above.join("one");
    let swaps: [(&dyn Fn(), &str); 4] = [
        (&|| symlink(&outside, &one).expect("space"), "symbolic link"),
        (
            &|| {
                fs::remove_dir(&above).expect("empty");
                fs::create_dir(outside.join("one")).expect("space");
                fs::write(outside.join("one/b"), "kept").expect("space");
                symlink(&outside, &above).expect("space");
            },
            "symbolic link",
        ),
        (
            &|| {
                fs::create_dir(&one).expect("space");
                fs::write(one.join("mine"), "kept").expect("space");
            },
            "has not been made by",
        ),
        (
            &|| {
                fs::rename(dir.path().join("moved"), &one).expect("there");
                fs::rename(one.join("files"), outside.join("files")).expect("there");
                fs::write(outside.join("files/mine"), "kept").expect("space");
                symlink(outside.join("files"), one.join("files")).expect("space");
            },
            "has not been made by",
        ),
    ];
    for (swap, words) in swaps {
        for it in [&above, &outside] {
            fs::create_dir(it).expect("space");
        }
        fs::write(outside.join("a"), "kept").expect("space");
        replay.init(&[("/data", &one)]).success();
        fs::rename(&one, dir.path().join("moved")).expect("there");
        swap();
        let before = seen(dir.path());
        refused(&replay.run(&[]), words);
        assert!(seen(dir.path()) == before, "{words}");
        let finished = replay.purge();
        assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr());
        assert!(finished.stderr().contains(words), "{}", finished.stderr());
        // The rest is gone, and it is still known where the others are.
        let rest = |it: &(&PathBuf, &Option<Vec<u8>>)| !it.0.starts_with(&replay.root);
        let kept: Vec<_> = before.iter().filter(rest).collect();
        assert!(seen(dir.path()).iter().filter(rest).collect::<Vec<_>>() == kept, "{words}");
        assert!(replay.root.join("iotrace-perf.given").exists());
        if above.symlink_metadata().expect("there").is_symlink() {
            fs::remove_file(&above).expect("a link");
        } else {
            fs::remove_dir_all(&above).expect("there");
        }
        fs::remove_dir_all(&outside).expect("there");
        let moved = dir.path().join("moved");
        if moved.exists() {
            fs::remove_dir_all(&moved).expect("there");
        }
        // Without its parts it can be removed as well: another process has removed them.
        replay.purge().success();
        assert!(!replay.root.exists());
    }
}

/// Fails if something in the root that became a link leads a mount elsewhere, or a disk without
/// room is begun to be filled.
#[test]
fn mounts_stay_inside_and_disks_have_room() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::new(dir.path());
    let (one, outside, disk) =
        (dir.path().join("one"), dir.path().join("outside"), dir.path().join("disk"));
    fs::create_dir(&outside).expect("space");
    replay.init(&[("/data", &one)]).success();
    fs::remove_dir(replay.root.join("files/data")).expect("empty");
    symlink(&outside, replay.root.join("files/data")).expect("space");
    let before = seen(dir.path());
    refused(&replay.run(&[]), "cannot mount");
    assert!(seen(dir.path()) == before);
    fs::remove_file(replay.root.join("files/data")).expect("a link");
    replay.purge().success();
    fs::create_dir(&disk).expect("space");
    let disk = Mounted::of_kernel(&disk, "tmpfs", "size=12k");
    let small = disk.path().join("one");
    refused(&replay.init(&[("/data", &small)]), "4122 bytes and");
    replay.init(&[("/data", &small)]);
    replay.purge().success();
    assert!(!small.exists());
}
