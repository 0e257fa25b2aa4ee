//! Follower of a recording: reads the log as it grows, and handles each command after all events
//! before it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::Arc;

use super::super::values::WATCHED_MAX as DEFAULT_MAX;
use super::protocol::{Answer, AnswerLines, ControlCommand, ControlVerb, shown};
use super::questions::{ControlRequest, OVER, Questions};
use super::watched_file::{self, WatchTarget};
use crate::analysis::watch::{KeptAccess, NewWatch, Watch, WatchError, WatchedFile};
use crate::cli::message::print_line;
use crate::operation::{Sink, Step};
use crate::text::{escape, iotracer};
use crate::units::KernelTime;

/// State of the watched files, and the commands on them.
pub(super) struct Follower<'a> {
    watch: Watch,
    questions: Arc<Questions>,
    /// Time before which all commands were taken from the queue.
    taken_until: KernelTime,
    /// Commands whose time has not come, in the order of their times.
    waiting: VecDeque<ControlRequest>,
    out: Option<Box<dyn Write + Send>>,
    /// Lines that are not written yet.
    lines: Vec<u8>,
    /// Error after which lines are not written any more.
    failure: Option<io::Error>,
    /// Called when writing fails.
    failed: &'a dyn Fn(),
}

/// Result of a follower.
pub(super) struct FollowerReport {
    /// Counters of each file, and warnings about missing data.
    pub(super) lines: Vec<String>,
    /// Error after which accesses were not printed.
    pub(super) failure: Option<io::Error>,
}

/// Bytes after which lines are written; they are also written when no more events are available.
const LINES_BYTES: usize = 64 << 10;

impl<'a> Follower<'a> {
    /// Creates a follower with files that are watched from the start, each of which is valid; lines
    /// go to `out`.
    pub(super) fn new(
        files: Vec<NewWatch>,
        questions: Arc<Questions>,
        out: Option<Box<dyn Write + Send>>,
        failed: &'a dyn Fn(),
    ) -> Self {
        let mut watch = Watch::default();
        for file in files {
            let path = shown(&file.path);
            watch
                .add(file)
                .unwrap_or_else(|error| print_line(&format!("cannot watch {path}: {error}")));
        }
        let (waiting, lines) = (VecDeque::new(), Vec::new());
        let taken_until = KernelTime::default();
        Self { watch, questions, taken_until, waiting, out, lines, failure: None, failed }
    }

    /// Ends the follower after the recording: handles the remaining commands and returns the
    /// counters of each file.
    pub(super) fn finish(mut self) -> FollowerReport {
        self.answer_waiting(KernelTime::MAX);
        self.waiting.extend(self.questions.close(OVER));
        self.answer_waiting(KernelTime::MAX);
        for place in 0..self.watch.files().len() {
            self.query_places(place);
        }
        self.write_lines();
        let mut lines: Vec<String> =
            self.watch.files().iter().map(|file| summary(&self.watch, file)).collect();
        let Watch { unidentified, given_up, .. } = self.watch;
        let failure = self.failure;
        let count: u64 = unidentified.values().sum();
        if count > 0 {
            let by: Vec<String> = unidentified
                .iter()
                .map(|row| format!("{} {}", thread_label(row.0), row.1))
                .collect();
            lines.push(format!(
                "{count} reads and writes are of unknown files, which may include the watched ones: {}",
                by.join(", ")
            ));
        }
        if given_up > 0 {
            lines.push(format!(
                "{given_up} pieces of block requests with unknown contents were dropped for lack of room"
            ));
        }
        FollowerReport { lines, failure }
    }

    /// Handles the commands up to this time before the events of this time are processed.
    fn answer_until(&mut self, time: KernelTime) {
        if time >= self.taken_until {
            let (requests, until) = self.questions.take();
            self.waiting.extend(requests);
            self.taken_until = until;
        }
        self.answer_waiting(time);
    }

    fn answer_waiting(&mut self, time: KernelTime) {
        while self.waiting.front().is_some_and(|front| front.at <= time)
            && let Some(request) = self.waiting.pop_front()
        {
            let answer = self.answer(request.at, &request.command, request.target);
            // The client may have left.
            let _ = request.answer.send(answer);
        }
    }

    fn answer(
        &mut self,
        at: KernelTime,
        command: &ControlCommand,
        target: Option<WatchTarget>,
    ) -> Answer {
        let refused = |refused: WatchError| refused.to_string();
        let mut lines = AnswerLines::default();
        if command.verb == ControlVerb::Add {
            let found = target.and_then(|target| target.found).ok_or("there is no such file")?;
            let max = command.max.unwrap_or(DEFAULT_MAX);
            self.watch.add(found.watched(max, at)).map_err(refused)?;
            let added = self.watch.files().len().saturating_sub(1);
            self.add_lines(&mut lines, ControlVerb::List, added, false);
            return Ok(lines);
        }
        let is_of_one = target.is_some();
        for place in self.places(target)? {
            match command.verb {
                ControlVerb::Stop | ControlVerb::Start => {
                    let is_on = command.verb == ControlVerb::Start;
                    let file = self.watch.file_mut(place);
                    file.map_or(Ok(()), |file| file.turn(at, is_on)).map_err(refused)?;
                }
                ControlVerb::Reset => {
                    self.watch.file_mut(place).into_iter().for_each(|file| file.reset(at))
                }
                ControlVerb::TimeReset => {
                    self.watch.file_mut(place).into_iter().for_each(|file| file.time_reset(at));
                }
                ControlVerb::Remove => self.watch.remove(place),
                ControlVerb::Status | ControlVerb::Log | ControlVerb::Counts => {
                    self.query_places(place);
                    self.add_lines(&mut lines, command.verb, place, !is_of_one);
                }
                // Answered before it is queued.
                ControlVerb::Dump => {}
                ControlVerb::List | ControlVerb::Add => {
                    self.add_lines(&mut lines, ControlVerb::List, place, false)
                }
            }
        }
        Ok(lines)
    }

    /// Indices of the named file, or of all files.
    fn places(&self, target: Option<WatchTarget>) -> Result<Vec<usize>, String> {
        let Some(WatchTarget { word, found }) = target else {
            return Ok((0..self.watch.files().len()).collect());
        };
        let key = found.map(|found| found.key).or_else(|| watched_file::key_of(&word));
        let place = self.watch.find(key, &word);
        place.map(|place| vec![place]).ok_or_else(|| format!("{} is not watched", shown(&word)))
    }

    /// Queries the file system for the file's extents, if there are pieces of requests with unknown
    /// contents.
    fn query_places(&mut self, place: usize) {
        let Some(file) = self.watch.files().get(place) else { return };
        if self.watch.unknown_bytes(file) == 0 {
            return;
        }
        let Some(runs) = watched_file::places(&file.path, file.key) else { return };
        let lines = &mut self.lines;
        let prints = self.out.is_some();
        self.watch.lies(place, runs, &mut |file, kept| {
            if prints {
                print(lines, file, kept);
            }
        });
    }

    /// Adds the lines about a file.
    fn add_lines(&self, lines: &mut AnswerLines, verb: ControlVerb, place: usize, is_of_all: bool) {
        let Some(file) = self.watch.files().get(place) else { return };
        let status = file.status();
        match verb {
            ControlVerb::Log => {
                for kept in file.log() {
                    let comm = kept.comm.as_deref();
                    iotracer::line(&mut lines.text, &kept.access, status.start, comm);
                    lines.end_line();
                }
            }
            ControlVerb::Status => {
                let name = if is_of_all { format!("{} ", file.name) } else { String::new() };
                let is_logging = u8::from(status.is_logging);
                lines.text.extend_from_slice(format!("{name}{is_logging} ").as_bytes());
                iotracer::time(&mut lines.text, status.start);
                lines.text.extend_from_slice(format!(" {} {}", status.max, status.kept).as_bytes());
                lines.end_line();
            }
            ControlVerb::Counts => {
                for (name, count) in counts(&self.watch, file) {
                    let of = if is_of_all { format!("{} ", file.name) } else { String::new() };
                    lines.text.extend_from_slice(format!("{of}{name} {count}").as_bytes());
                    lines.end_line();
                }
                for (comm, count) in &self.watch.unidentified {
                    let of = if is_of_all { format!("{} ", file.name) } else { String::new() };
                    let line = format!("{of}unidentified {count} {}", thread_label(comm));
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

    /// Writes the pending lines. After an error no lines are printed any more, but commands are
    /// still handled.
    fn write_lines(&mut self) {
        if let Some(out) = &mut self.out
            && !self.lines.is_empty()
            && let Err(error) = out.write_all(&self.lines).and_then(|()| out.flush())
        {
            (self.out, self.failure) = (None, Some(error));
            (self.failed)();
        }
        self.lines.clear();
    }
}

impl Sink for Follower<'_> {
    type Error = Infallible;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        self.answer_until(time);
        let lines = &mut self.lines;
        let prints = self.out.is_some();
        self.watch.look(step, &mut |file, kept| {
            if prints {
                print(lines, file, kept);
            }
        });
        if self.lines.len() > LINES_BYTES {
            self.write_lines();
        }
        Ok(())
    }

    fn complete_until(&mut self, time: KernelTime) -> Result<(), Infallible> {
        self.answer_until(time);
        self.write_lines();
        Ok(())
    }
}

/// Formats an access as the log of its file has it, with the thread.
fn print(lines: &mut Vec<u8>, file: &WatchedFile, kept: &KeptAccess) {
    let start = file.status().start;
    iotracer::line(lines, &kept.access, start, kept.comm.as_deref());
    lines.extend_from_slice(format!(";{}\n", file.name).as_bytes());
}

/// Counters of a file, and of missing data.
fn counts(watch: &Watch, file: &WatchedFile) -> [(&'static str, u64); 13] {
    let accounting = file.accounting();
    [
        ("vfs", accounting.called.0),
        ("vfs_bytes", accounting.called.1),
        ("vfs_asked", accounting.without_result.0),
        ("vfs_by_name", accounting.by_name.0),
        ("blk_exact", accounting.exact.0),
        ("blk_exact_bytes", accounting.exact.1),
        ("blk_inferred", accounting.inferred.0),
        ("blk_inferred_bytes", accounting.inferred.1),
        ("not_kept", accounting.beyond),
        ("without_line", accounting.without_line),
        ("device_unknown_bytes", watch.unknown_bytes(file)),
        ("given_up", watch.given_up),
        ("lost_records", watch.lost),
    ]
}

/// Name of threads, or of those beyond the limit.
fn thread_label(comm: &[u8]) -> String {
    if comm.is_empty() { "others".to_owned() } else { shown(comm) }
}

fn summary(watch: &Watch, file: &WatchedFile) -> String {
    let accounting = file.accounting();
    let mut line = format!(
        "{}: VFS {} ({} bytes), BLK exact {} ({} bytes), inferred {} ({} bytes)",
        shown(&file.path),
        accounting.called.0,
        accounting.called.1,
        accounting.exact.0,
        accounting.exact.1,
        accounting.inferred.0,
        accounting.inferred.1
    );
    let rest = [
        (accounting.beyond, "not kept: only the first accesses are kept, as many as -n says"),
        (
            accounting.without_result.0,
            "of the VFS lines have the requested bytes, as the results were not seen",
        ),
        (accounting.by_name.0, "of the VFS lines are attributed to the file by its name only"),
        (
            accounting.without_line,
            "calls and operations without a line: their offset or their bytes are unknown",
        ),
        (watch.unknown_bytes(file), "bytes of requests on its device whose contents are unknown"),
    ];
    for (count, what) in rest.iter().filter(|rest| rest.0 > 0) {
        line += &format!("; {count} {what}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anomaly::{Anomaly, AnomalyKind};
    use crate::sys::{clock, thread};
    use crate::units::{CpuId, DevId, Pid, Tid};

    fn command(verb: ControlVerb) -> ControlCommand {
        ControlCommand { verb, file: None, max: None }
    }

    fn watched(at: u64) -> NewWatch {
        let (key, at) = ((DevId(1), 7), KernelTime(at));
        NewWatch { key, name: "d_7".to_owned(), path: b"/f".to_vec(), max: 9, at, runs: Vec::new() }
    }

    /// Sends a command, while the follower runs this function.
    fn send_during(questions: &Arc<Questions>, verb: ControlVerb, does: impl FnOnce()) -> Answer {
        std::thread::scope(|scope| {
            let answer = scope.spawn(|| questions.send(command(verb), None));
            while questions.lock().requests.is_empty() {
                thread::pause(std::time::Duration::from_millis(1));
            }
            does();
            answer.join().expect("it does not panic")
        })
    }

    fn step(follower: &mut Follower<'_>, time: KernelTime) {
        let (cpu, pid, tid) = (CpuId(0), Pid(0), Tid(0));
        let (kind, detail) = (AnomalyKind::Lost, String::new());
        let nothing = Anomaly { kind, time, cpu, pid, tid, count: 0, detail };
        follower.step(time, &Step::Anomaly(&nothing)).unwrap_or_else(|error| match error {});
    }

    /// A snapshot of the machine does not advance the time of the follower.
    #[test]
    fn query_is_answered_before_later_events() {
        let questions = Arc::new(Questions::default());
        let mut follower =
            Follower::new(vec![watched(1)], Arc::clone(&questions), None, &|| panic!("no output"));
        let before = clock::now();
        let answer = send_during(&questions, ControlVerb::TimeReset, || {
            step(&mut follower, before);
            assert_eq!(follower.waiting.len(), 1, "its time has not come");
            assert_eq!(follower.watch.files()[0].status().start, KernelTime(1));
            step(&mut follower, clock::now());
            assert!(follower.waiting.is_empty());
            assert!(follower.watch.files()[0].status().start >= before);
        });
        assert_eq!(answer, Ok(AnswerLines::default()));
        let FollowerReport { lines, failure } = follower.finish();
        assert!(lines.len() == 1 && failure.is_none());
        assert_eq!(questions.send(command(ControlVerb::List), None), Err(OVER.to_owned()));
    }

    struct FullDisk;

    impl Write for FullDisk {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn questions_are_answered_when_nothing_can_be_printed() {
        let questions = Arc::new(Questions::default());
        let calls = std::cell::Cell::new(0);
        let failed = || calls.set(calls.get() + 1);
        let out: Option<Box<dyn Write + Send>> = Some(Box::new(FullDisk));
        let mut follower = Follower::new(vec![watched(1)], Arc::clone(&questions), out, &failed);
        for _ in 0..2 {
            follower.lines.extend_from_slice(b"a line\n");
            follower.write_lines();
        }
        assert_eq!(calls.get(), 1);
        let answer = send_during(&questions, ControlVerb::List, || {
            let now = clock::now();
            follower.complete_until(now).unwrap_or_else(|error| match error {});
        });
        assert_eq!(answer.map(|answer| answer.text), Ok(b"d_7 /f\n".to_vec()));
        let failure = follower.finish().failure.expect("it failed");
        assert_eq!(failure.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn first_error_is_reported_to_later_clients() {
        let questions = Arc::new(Questions::default());
        let answer = send_during(&questions, ControlVerb::List, || {
            drop(questions.close("the disk is gone"))
        });
        assert_eq!(answer, Err("the disk is gone".to_owned()));
        questions.close(OVER);
        assert_eq!(
            questions.send(command(ControlVerb::List), None),
            Err("the disk is gone".to_owned())
        );
    }
}
