//! Lives of files of synthetic calls.

use std::sync::Arc;

use super::*;
use crate::event::FileStat;
use crate::operation::block::EventContext;
use crate::operation::model::{FilePath, PathArguments, PathSource};
use crate::operation::test_fixtures;
use crate::units::DevId;

const DEV: DevId = DevId(0x80_0001);

/// Calls of a process, 10 ns each, one after the other.
struct Story {
    fold: Biographies,
    time: u64,
    files: u64,
}

impl Story {
    fn of(path: &str) -> Self {
        let fold = Biographies::new(LifeTarget::Path(path.as_bytes().to_vec()));
        Self { fold, time: 100, files: 0 }
    }

    fn file(&mut self, path: &str, ino: u64, flags: i32) -> Arc<OpenFile> {
        self.files += 1;
        Arc::new(OpenFile {
            id: self.files,
            path: Some(FilePath::new(path, PathSource::Link)),
            first_path: None,
            given: None,
            stat: Some(FileStat { mode: libc::S_IFREG, dev: DEV, ino, size: 0 }),
            flags: Some(flags.cast_unsigned()),
            pre_created: false,
        })
    }

    fn end(&mut self, mut operation: SyscallOperation) {
        self.time += 20;
        operation.start = KernelTime(self.time);
        operation.end = Some(KernelTime(self.time + 10));
        let step = Step::SyscallEnded(&operation, &[]);
        let Ok(()) = self.fold.step(KernelTime(self.time + 10), &step);
    }

    fn open(&mut self, path: &str, ino: u64, flags: i32) -> Arc<OpenFile> {
        let file = self.file(path, ino, flags);
        self.end(test_fixtures::call("openat", Arc::clone(&file), [0, 0], None, 3));
        file
    }

    fn moved(&mut self, name: &str, file: &Arc<OpenFile>, offset: u64, bytes: i64) {
        self.end(test_fixtures::call(name, Arc::clone(file), [0, 0], Some(offset), bytes));
    }

    fn named(&mut self, name: &str, paths: [&str; 2], ret: i64) {
        let file = self.file("/", 2, 0);
        let given = |path: &str| {
            let path = FilePath::new(path, PathSource::Argument);
            let absolute = Some(path.bytes.clone());
            (!path.bytes.is_empty()).then_some(PathArgument { path, absolute })
        };
        let [first, second] = paths.map(given);
        let mut operation = test_fixtures::call(name, file, [0, 0], None, ret);
        operation.file = None;
        operation.named = Some(Box::new(PathArguments { first, second }));
        self.end(operation);
    }

    fn request(&mut self, ino: u64, offset: u64, sectors: u32) {
        let op = crate::event::block::RequestOp::Write;
        let times = [self.time + 12, self.time + 15];
        let request = test_fixtures::request(DEV, op, 0, sectors, times);
        let contents = BlockContents::File {
            key: (DEV, ino),
            offset: Some(offset),
            file: None,
            link: Link::Exact,
        };
        let piece = test_fixtures::piece(&request, contents);
        assert!(matches!(piece.queued, EventContext { .. }));
        let step = BlockStep::Ended(&request);
        let step = Step::Block { step: &step, thread: None, pieces: &[piece] };
        let Ok(()) = self.fold.step(KernelTime(self.time + 15), &step);
    }

    /// Returns each chosen life: its events with their counts, and its current names.
    fn lives(&self) -> Vec<String> {
        let event = |event: &LifeEvent| match event.count {
            1 => event.what.as_str().to_owned(),
            count => format!("{} {count}", event.what.as_str()),
        };
        let life = |life: &Life| {
            let events: Vec<String> = life.events.iter().map(event).collect();
            let names = life.names.iter().map(|name| String::from_utf8_lossy(name));
            format!("{} [{}]", events.join(" "), names.collect::<Vec<_>>().join(" "))
        };
        self.fold.chosen().map(life).collect()
    }
}

const NEW: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;

#[test]
fn file_that_is_renamed_brings_its_earlier_life() {
    let mut story = Story::of("/d/final");
    let file = story.open("/d/tmp", 7, NEW);
    story.moved("write", &file, 0, 4096);
    story.moved("write", &file, 4096, 4096);
    story.moved("fsync", &file, 0, 0);
    story.named("rename", ["/d/tmp", "/d/final"], 0);
    let again = story.open("/d/final", 7, 0);
    story.moved("read", &again, 0, 4096);
    story.named("unlink", ["/d/final", ""], 0);
    let expected = "born opened written 2 synced renamed opened read removed []";
    assert_eq!(story.lives(), [expected]);
    let life = story.fold.chosen().next().expect("a life");
    assert_eq!((life.read, life.written, life.inode), (4096, 8192, Some((DEV, 7))));
}

#[test]
fn number_that_is_used_again_begins_another_life() {
    let mut story = Story::of("/a");
    for _ in 0..2 {
        let file = story.open("/a", 7, NEW);
        story.moved("write", &file, 0, 100);
        story.named("unlink", ["/a", ""], 0);
        // The file is still open.
        story.moved("write", &file, 100, 100);
    }
    assert_eq!(story.lives(), ["born opened written removed written []"; 2]);
    // A failed removal changes nothing.
    let mut story = Story::of("/a");
    story.open("/a", 7, NEW);
    story.named("unlink", ["/a", ""], -13);
    assert_eq!(story.lives(), ["born opened [/a]"]);
}

#[test]
fn name_that_another_file_takes_ends_the_life() {
    let mut story = Story::of("/a");
    story.open("/a", 7, 0);
    story.open("/b", 8, NEW);
    story.named("rename", ["/b", "/a"], 0);
    assert_eq!(story.lives(), ["opened replaced []", "born opened renamed [/a]"]);
}

#[test]
fn links_and_renamed_directories_are_followed() {
    let mut story = Story::of("/e/a");
    story.open("/d/a", 7, NEW);
    story.named("link", ["/d/a", "/d/b"], 0);
    story.named("rename", ["/d", "/e"], 0);
    story.named("unlink", ["/e/b", ""], 0);
    story.named("unlink", ["/e/a", ""], 0);
    assert_eq!(story.lives(), ["born opened linked unlinked removed []"]);
}

#[test]
fn birth_after_an_absence_is_inferred() {
    let mut story = Story::of("/a");
    story.named("newstat", ["/a", ""], -2);
    story.open("/a", 7, libc::O_CREAT | libc::O_WRONLY);
    let life = story.fold.chosen().next().expect("a life");
    assert_eq!(life.first(LifeStep::Born).map(|born| born.link), Some(Link::Inferred));
    // Without that knowledge the file may have been there.
    let mut story = Story::of("/a");
    story.open("/a", 7, libc::O_CREAT | libc::O_WRONLY);
    assert_eq!(story.lives(), ["opened [/a]"]);
}

/// Fails if an open that may have made the file is shown as a truncation.
#[test]
fn open_that_creates_and_truncates_an_unseen_file_is_uncertain() {
    let mut story = Story::of("/a");
    let flags = libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY;
    story.open("/a", 7, flags);
    story.open("/a", 7, flags);
    assert_eq!(story.lives(), ["born or truncated opened truncated opened [/a]"]);
    let life = story.fold.chosen().next().expect("a life");
    let first = life.first(LifeStep::BornOrTruncated).map(|event| event.link);
    assert_eq!(first, Some(Link::Unknown));
}

/// Fails if the limit of events hides the end of a life.
#[test]
fn end_of_a_long_life_is_kept() {
    let mut story = Story::of("/a");
    for _ in 0..300 {
        story.named("truncate", ["/a", ""], 0);
    }
    story.named("unlink", ["/a", ""], 0);
    let life = story.fold.chosen().next().expect("a life");
    assert_eq!(life.events.last().map(|event| event.what), Some(LifeStep::Removed));
    assert_eq!((life.events.len(), life.more_events), (257, 44));
}

#[test]
fn removed_bytes_never_reach_the_disk_unless_a_request_carried_them() {
    let mut story = Story::of("/a");
    let file = story.open("/a", 7, NEW);
    story.moved("write", &file, 0, 8192);
    story.request(7, 0, 8);
    story.named("unlink", ["/a", ""], 0);
    let fates = story.fold.chosen().next().expect("a life").fates();
    assert_eq!((fates.reached, fates.removed), ([4096, 0, 0], 4096));
}

#[test]
fn inode_chooses_a_file_whatever_its_name() {
    let mut story = Story::of("/");
    story.fold = Biographies::new(LifeTarget::Inode((DEV, 8)));
    story.open("/a", 7, NEW);
    story.open("/b", 8, NEW);
    assert_eq!(story.lives(), ["born opened [/b]"]);
}
