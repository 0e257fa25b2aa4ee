//! Images of virtual machines, watched while QEMU works on them.

use std::fs;
use std::process::Command;

use crate::support::driver::process::{self, Finished};
use crate::support::driver::recording::TIMEOUT;
use crate::support::driver::watch_session::{
    Line, RUNS_MAX, WatchDisk, WatchSession, bytes_of, may_run,
};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::{scratch_dir, text};

/// A way in which QEMU reads and writes images.
struct Way {
    aio: &'static str,
    cache: &'static str,
    is_direct: bool,
}

const WAYS: [Way; 4] = [
    Way { aio: "threads", cache: "writeback", is_direct: false },
    Way { aio: "threads", cache: "none", is_direct: true },
    Way { aio: "native", cache: "none", is_direct: true },
    Way { aio: "io_uring", cache: "none", is_direct: true },
];

/// Names of its threads.
const QEMU: [&str; 4] = ["qemu-io", "qemu-img", "worker", "iou-wrk"];

/// Ranges that are written to an image, and read.
const WRITTEN: [(u64, u64); 3] = [(1 << 20, 192 << 10), (5 << 20, 64 << 10), (9 << 20, 320 << 10)];

/// The program's output goes to a file: the other end of an earlier pipe is an unknown file.
#[track_caller]
fn qemu(words: &[&str]) -> Finished {
    let dir = scratch_dir("watch");
    let out = dir.path().join("out");
    let script = format!("exec \"$@\" > {} 2>&1", text(&out));
    let mut shell = Command::new("sh");
    let mut finished =
        process::run(shell.args(["-c", &script, "sh"]).args(words), TIMEOUT).expect("it ends");
    finished.stdout = fs::read(&out).expect("it is there");
    finished
}

/// Fails if of a virtual disk something is missing that was asked of it, at one of the levels.
#[test]
fn images_of_virtual_machines_are_watched_at_both_levels() {
    if !may_run(&[Need::Program("qemu-img"), Need::Program("qemu-io")]) {
        return;
    }
    let _alone = alone();
    for way in &WAYS {
        let is_done = (0..RUNS_MAX).any(|_| images(way));
        // On a busy machine some of what `io_submit` is given may be read too late each time; each
        // run has checked that it is reported.
        let may_miss = way.aio == "native";
        assert!(is_done || may_miss, "a name may be read too late, but not each time");
    }
}

/// False if a name, or what `io_submit` was given, was read too late.
#[track_caller]
fn images(way: &Way) -> bool {
    let place = WatchDisk::new(96 << 20);
    let images = [("raw", place.file("disk.raw")), ("qcow2", place.file("disk.qcow2"))];
    for (format, image) in &images {
        let how = if *format == "raw" { "full" } else { "off" };
        let how = format!("preallocation={how}");
        qemu(&["qemu-img", "create", "-q", "-f", format, "-o", &how, text(image), "16M"]).success();
    }
    qemu(&["sync"]).success();
    let watching = WatchSession::start("watch", &[text(&images[0].1), text(&images[1].1)]);
    let is_known = images.iter().all(|(format, image)| {
        let image = Image { watching: &watching, way, format, path: text(image) };
        image.is_written() && image.is_read() && image.is_benched()
    });
    let (_, said) = watching.end();
    let is_said = ["could not be read", "of unknown files"].iter().any(|it| said.contains(it));
    assert!(is_known || is_said, "what is unknown is reported: {said}");
    is_known
}

/// A virtual disk, and how it is used.
struct Image<'a> {
    watching: &'a WatchSession,
    way: &'a Way,
    format: &'a str,
    path: &'a str,
}

/// Accesses that were logged of an image.
struct Logged {
    lines: Vec<Line>,
    called: u64,
    at_device: u64,
    /// All operations have a known place in the image.
    is_reported: bool,
    /// Some names were read too late: it may be that of the image.
    is_in_doubt: bool,
    /// For people.
    text: String,
}

impl Logged {
    /// True if this holds; false if it need not, for what was done is not known for certain.
    #[track_caller]
    fn shows(&self, holds: bool) -> bool {
        assert!(holds || self.is_in_doubt, "{}", self.text);
        holds
    }
}

impl Image<'_> {
    /// True if its requests are in memory, which may be read too late.
    fn may_miss(&self) -> bool {
        self.way.aio == "native"
    }

    /// Output of QEMU.
    #[track_caller]
    fn io(&self, commands: &[String]) -> String {
        let Way { aio, cache, .. } = self.way;
        let mut words = vec!["qemu-io", "-f", self.format, "-i", aio, "-t", cache];
        words.extend(commands.iter().flat_map(|it| ["-c", it]));
        words.push(self.path);
        let said = qemu(&words).success().stdout();
        assert!(!said.contains("failed"), "{said}");
        said
    }

    /// Bytes of one direction.
    #[track_caller]
    fn logged(&self, is_write: bool) -> Logged {
        let Way { aio, cache, .. } = self.way;
        let lines = self.watching.log(self.path);
        let is_reported = self.watching.count(self.path, "without_line") == 0;
        let is_in_doubt = self.watching.is_in_doubt(&QEMU);
        let text = format!("{} {aio} {cache} reported {is_reported}: {lines:#?}", self.format);
        // A thread of the kernel's may do it then: no event has the place, but a counter does, and
        // the device shows it.
        assert!(is_reported || *aio == "io_uring" || self.may_miss(), "{text}");
        let (called, at_device) =
            (bytes_of(&lines, "VFS", is_write), bytes_of(&lines, "BLK", is_write));
        Logged { lines, called, at_device, is_reported, is_in_doubt, text }
    }

    #[track_caller]
    fn is_written(&self) -> bool {
        let write = |it: &(u64, u64)| format!("write -P 7 {} {}", it.0, it.1);
        let mut commands: Vec<String> = WRITTEN.iter().map(write).collect();
        commands.push("flush".into());
        self.io(&commands);
        let logged = self.logged(true);
        let Logged { lines, called, at_device, is_reported, .. } = &logged;
        let all: u64 = WRITTEN.iter().map(|it| it.1).sum();
        let is_good = if self.format == "raw" {
            let found = lines.iter().filter(|it| it.level == "VFS" && it.is_write);
            let found: Vec<(u64, u64)> = found.map(|it| (it.address, it.bytes)).collect();
            if self.may_miss() && (!is_reported || found.len() < WRITTEN.len()) {
                return false;
            }
            *at_device == all && (!is_reported || found == WRITTEN)
        } else if self.may_miss() && (!is_reported || *called < all) {
            return false;
        } else {
            // The tables of the image count, too; new parts of it are written in whole blocks.
            (*called > all || !is_reported) && *at_device >= all
        };
        if !logged.shows(is_good) {
            return false;
        }
        // While it is stopped nothing is logged; what was stays.
        self.watching.ctl(&["stop", self.path]);
        self.io(&["read -P 7 1M 64k".to_owned()]);
        assert_eq!(&self.watching.log(self.path), lines);
        self.watching.ctl(&["start", self.path]);
        true
    }

    #[track_caller]
    fn is_read(&self) -> bool {
        qemu(&["sync"]).success();
        self.watching.ctl(&["reset", self.path]);
        fs::write("/proc/sys/vm/drop_caches", "1").expect("root");
        self.io(&["read -P 7 9M 320k".to_owned()]);
        let logged = self.logged(false);
        let Logged { lines, called, at_device, is_reported, .. } = &logged;
        if self.may_miss() && (!is_reported || *called < 320 << 10) {
            return false;
        }
        let is_it = |it: &&Line| it.level == "VFS" && it.address >= 9 << 20;
        let found: u64 = lines.iter().filter(is_it).map(|it| it.bytes).sum();
        let is_exact = self.format != "raw" || !is_reported || found == 320 << 10;
        // QEMU looks at the image, too; and the kernel reads ahead.
        logged.shows((*called >= 320 << 10 || !is_reported) && *at_device >= 320 << 10 && is_exact)
    }

    #[track_caller]
    fn is_benched(&self) -> bool {
        let Way { aio, cache, is_direct } = *self.way;
        self.watching.ctl(&["reset", self.path]);
        let bench = "qemu-img bench -q -w -c 53 -d 8 -s 16k -S 32k";
        let mut words: Vec<&str> = bench.split(' ').collect();
        words.extend(["-f", self.format, "-i", aio, "-t", cache, self.path]);
        qemu(&words).success();
        let logged = self.logged(true);
        let Logged { called, at_device, is_reported, .. } = logged;
        let all = 53 * (16 << 10);
        let is_raw = self.format == "raw";
        if self.may_miss() && (!is_reported || called < all) {
            return false;
        }
        logged.shows(
            (!is_reported || called == all || !is_raw && called > all)
                && (!is_direct || at_device == all || !is_raw && at_device > all),
        )
    }
}
