//! Reads the recording as it grows, and deals with each question when all that happened before it has been seen.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::Receiver;

use super::Request;
use super::protocol::{Answer, Asked, Lines, Verb, shown};
use super::target::{self, Target};
use crate::analysis::watch::{File, Kept, New, Refused, Watch};
use crate::operation::{Sink, Step};
use crate::text::{escape, iotracer};
use crate::units::KernelTime;

/// Accesses that are kept of a file if nobody says how many.
pub(in crate::cli) const DEFAULT_MAX: usize = 10_000;

/// The watched files, and who asks about them.
pub(super) struct Follower {
    watch: Watch,
    requests: Receiver<Request>,
    /// Questions whose time has not come, in the order of their times.
    waiting: VecDeque<Request>,
    out: Option<Box<dyn Write + Send>>,
    /// Lines that are not written yet.
    lines: Vec<u8>,
}

/// Lines are written when there are so many bytes of them, or nothing more is known.
const LINES_BYTES: usize = 64 << 10;

impl Follower {
    /// With files that are watched from the start; lines go to `out`.
    pub(super) fn new(
        files: Vec<New>,
        requests: Receiver<Request>,
        out: Option<Box<dyn Write + Send>>,
    ) -> io::Result<Self> {
        let mut watch = Watch::default();
        for file in files {
            let path = shown(&file.path);
            let added = watch.add(file);
            added.map_err(|it| io::Error::other(format!("cannot watch {path}: {it}")))?;
        }
        Ok(Self { watch, requests, waiting: VecDeque::new(), out, lines: Vec::new() })
    }

    /// The recording is over: deals with what is still asked; what there was of each file.
    pub(super) fn finish(mut self) -> io::Result<Vec<String>> {
        self.waiting.extend(self.requests.try_iter());
        self.answer_until(KernelTime::MAX);
        for place in 0..self.watch.files().len() {
            self.ask_where(place);
        }
        self.write_lines()?;
        let mut lines: Vec<String> =
            self.watch.files().iter().map(|it| summary(&self.watch, it)).collect();
        let Watch { unidentified, given_up, .. } = self.watch;
        let count: u64 = unidentified.values().sum();
        if count > 0 {
            let by: Vec<String> =
                unidentified.iter().map(|it| format!("{} {}", who(it.0), it.1)).collect();
            lines.push(format!(
                "{count} reads and writes are of files that are not known, so some may be of those watched: {}",
                by.join(", ")
            ));
        }
        if given_up > 0 {
            lines.push(format!(
                "{given_up} pieces of block requests of which it was not known what lies there were given up for want of room"
            ));
        }
        Ok(lines)
    }

    /// Deals with the questions of before this time, and of it.
    fn answer_until(&mut self, time: KernelTime) {
        while self.waiting.front().is_some_and(|it| it.at <= time)
            && let Some(request) = self.waiting.pop_front()
        {
            let answer = self.answer(request.at, &request.asked, request.target);
            // Who asked may be gone.
            let _ = request.answer.send(answer);
        }
    }

    fn answer(&mut self, at: KernelTime, asked: &Asked, target: Option<Target>) -> Answer {
        let refused = |it: Refused| it.to_string();
        let mut lines = Lines::default();
        if asked.verb == Verb::Add {
            let found = target.and_then(|it| it.found).ok_or("there is no such file")?;
            let max = asked.max.unwrap_or(DEFAULT_MAX);
            self.watch.add(found.watched(max, at)).map_err(refused)?;
            let added = self.watch.files().len().saturating_sub(1);
            self.tell(&mut lines, Verb::List, added, false);
            return Ok(lines);
        }
        let is_of_one = target.is_some();
        for place in self.places(target)? {
            match asked.verb {
                Verb::Stop | Verb::Start => {
                    let is_on = asked.verb == Verb::Start;
                    let file = self.watch.file_mut(place);
                    file.map_or(Ok(()), |it| it.turn(at, is_on)).map_err(refused)?;
                }
                Verb::Reset => self.watch.file_mut(place).into_iter().for_each(|it| it.reset(at)),
                Verb::TimeReset => {
                    self.watch.file_mut(place).into_iter().for_each(|it| it.time_reset(at));
                }
                Verb::Remove => self.watch.remove(place),
                Verb::Status | Verb::Log | Verb::Counts => {
                    self.ask_where(place);
                    self.tell(&mut lines, asked.verb, place, !is_of_one);
                }
                Verb::List | Verb::Add => self.tell(&mut lines, Verb::List, place, false),
            }
        }
        Ok(lines)
    }

    /// The places of the file that is meant, or of all.
    fn places(&self, target: Option<Target>) -> Result<Vec<usize>, String> {
        let Some(Target { word, found }) = target else {
            return Ok((0..self.watch.files().len()).collect());
        };
        let key = found.map(|it| it.key).or_else(|| target::key_of(&word));
        let place = self.watch.find(key, &word);
        place.map(|it| vec![it]).ok_or_else(|| format!("{} is not watched", shown(&word)))
    }

    /// If there are pieces of which it is not known what lies there, the file system is asked whether it is this file.
    fn ask_where(&mut self, place: usize) {
        let Some(file) = self.watch.files().get(place) else { return };
        if self.watch.unknown_bytes(file) == 0 {
            return;
        }
        let Some(runs) = target::places(&file.path, file.key) else { return };
        let lines = &mut self.lines;
        let prints = self.out.is_some();
        self.watch.lies(place, runs, &mut |file, kept| {
            if prints {
                print(lines, file, kept);
            }
        });
    }

    /// What is told of a file.
    fn tell(&self, lines: &mut Lines, verb: Verb, place: usize, is_of_all: bool) {
        let Some(file) = self.watch.files().get(place) else { return };
        let status = file.status();
        match verb {
            Verb::Log => {
                for kept in file.log() {
                    let comm = kept.comm.as_deref();
                    iotracer::line(&mut lines.text, &kept.access, status.start, comm);
                    lines.end_line();
                }
            }
            Verb::Status => {
                let name = if is_of_all { format!("{} ", file.name) } else { String::new() };
                let is_logging = u8::from(status.is_logging);
                lines.text.extend_from_slice(format!("{name}{is_logging} ").as_bytes());
                iotracer::time(&mut lines.text, status.start);
                lines.text.extend_from_slice(format!(" {} {}", status.max, status.kept).as_bytes());
                lines.end_line();
            }
            Verb::Counts => {
                for (name, count) in counts(&self.watch, file) {
                    let of = if is_of_all { format!("{} ", file.name) } else { String::new() };
                    lines.text.extend_from_slice(format!("{of}{name} {count}").as_bytes());
                    lines.end_line();
                }
                for (comm, count) in &self.watch.unidentified {
                    let of = if is_of_all { format!("{} ", file.name) } else { String::new() };
                    let line = format!("{of}unidentified {count} {}", who(comm));
                    lines.text.extend_from_slice(line.as_bytes());
                    lines.end_line();
                }
            }
            _ => {
                lines.text.extend_from_slice(format!("{} ", file.name).as_bytes());
                escape::shown(&mut lines.text, &file.path, b"");
                lines.end_line();
            }
        }
    }

    fn write_lines(&mut self) -> io::Result<()> {
        if let Some(out) = &mut self.out
            && !self.lines.is_empty()
        {
            out.write_all(&self.lines)?;
            out.flush()?;
        }
        self.lines.clear();
        Ok(())
    }
}

impl Sink for Follower {
    type Error = io::Error;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> io::Result<()> {
        self.answer_until(time);
        let lines = &mut self.lines;
        let prints = self.out.is_some();
        self.watch.look(step, &mut |file, kept| {
            if prints {
                print(lines, file, kept);
            }
        });
        if self.lines.len() > LINES_BYTES { self.write_lines() } else { Ok(()) }
    }

    fn told_until(&mut self, time: KernelTime) -> io::Result<()> {
        // What was asked before this time is here: questions come at once, records some tens of milliseconds later.
        self.waiting.extend(self.requests.try_iter());
        self.answer_until(time);
        self.write_lines()
    }
}

/// The line of an access as its file's log has it, and whose it is.
fn print(lines: &mut Vec<u8>, file: &File, kept: &Kept) {
    let start = file.status().start;
    iotracer::line(lines, &kept.access, start, kept.comm.as_deref());
    lines.extend_from_slice(format!(";{}\n", file.name).as_bytes());
}

/// What there was of a file, and what is not known.
fn counts(watch: &Watch, file: &File) -> [(&'static str, u64); 12] {
    let books = file.books();
    [
        ("vfs", books.called.0),
        ("vfs_bytes", books.called.1),
        ("vfs_asked", books.asked.0),
        ("vfs_by_name", books.by_name.0),
        ("blk_exact", books.exact.0),
        ("blk_exact_bytes", books.exact.1),
        ("blk_inferred", books.inferred.0),
        ("blk_inferred_bytes", books.inferred.1),
        ("not_kept", books.beyond),
        ("without_line", books.without_line),
        ("device_unknown_bytes", watch.unknown_bytes(file)),
        ("lost_records", watch.lost),
    ]
}

/// The name of threads, or of those that were too many.
fn who(comm: &[u8]) -> String {
    if comm.is_empty() { "others".to_owned() } else { shown(comm) }
}

fn summary(watch: &Watch, file: &File) -> String {
    let books = file.books();
    let mut line = format!(
        "{}: VFS {} ({} bytes), BLK exact {} ({} bytes), inferred {} ({} bytes)",
        shown(&file.path),
        books.called.0,
        books.called.1,
        books.exact.0,
        books.exact.1,
        books.inferred.0,
        books.inferred.1
    );
    let rest = [
        (books.beyond, "not kept: the first were as many as -n says"),
        (books.asked.0, "of the VFS lines tell what was asked for, as the results were not seen"),
        (books.by_name.0, "of the VFS lines are the file's by its name only"),
        (
            books.without_line,
            "calls and operations without a line: it is not known where in the file, or how many bytes",
        ),
        (
            watch.unknown_bytes(file),
            "bytes of requests on its device of which nobody says what lies there",
        ),
    ];
    for (count, what) in rest.iter().filter(|it| it.0 > 0) {
        line += &format!("; {count} {what}");
    }
    line
}
