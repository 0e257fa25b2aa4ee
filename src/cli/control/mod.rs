//! Control of a running recording, through a socket.
//!
//! ```text
//!  ctl ──► client threads ──(what, when)──► follower ──► watched files
//!      ◄──     (bounded)   ◄──── answer ───  reads the log as it grows
//! ```
//!
//! The follower is some tens of milliseconds late. So each command has the time of its arrival, and
//! is handled after all events before that time: a response is valid for the time of its command.
//! The recording never waits for this code: it writes its log, with or without readers. The
//! protocol of the socket is docs/control.md.

pub(super) mod client;
mod log_follower;
pub(super) mod protocol;
mod questions;
mod server;
mod watched_file;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use self::log_follower::{Follower, FollowerReport};
use self::questions::{Questions, QueueCloser};
use self::server::ControlServer;
use super::dump_requests::DumpRequests;
use super::error::CliError;
use super::message::print_line;
use super::recording::Recorded;
use super::summary_lines;
use super::tailing_reader::{LogCompletion, TailingReader};
use crate::analysis::watch::{NewWatch, Watch};
use crate::pipeline::{self, Summary};
use crate::sys::clock;
use crate::sys::socket::Socket;

/// Formats a line's command again, or the error of its parsing.
#[cfg(fuzzing)]
pub(super) fn repeat(line: &[u8]) -> Vec<u8> {
    use self::protocol::ControlCommand;

    match ControlCommand::parse(line) {
        Ok(command) => {
            let again = command.line();
            assert_eq!(
                ControlCommand::parse(again.strip_suffix(b"\n").expect("an end")),
                Ok(command)
            );
            again
        }
        Err(why) => protocol::head(&Err(why)),
    }
}

/// Controlled files, socket and output, before the recording begins.
pub(super) struct Control {
    socket: Socket,
    /// Files that are watched from the start.
    files: Vec<NewWatch>,
    /// Output of ended accesses, and whether the recording ends when its reader is gone.
    out: Option<(Box<dyn Write + Send>, bool)>,
    ended: LogCompletion,
}

/// Socket of a recorder with a ring, before the recording begins.
pub(super) struct DumpControl(Socket);

/// Thread of that socket.
pub(super) struct DumpControlled(ControlServer);

impl DumpControl {
    /// Creates the socket. To be called while there is one thread.
    pub(super) fn new(path: &Path) -> Result<Self, CliError> {
        let failed = |source| CliError::Create { path: path.into(), source };
        Socket::new(path).map(Self).map_err(failed)
    }

    /// Starts the thread.
    pub(super) fn start(self, recorder: DumpRequests) -> io::Result<DumpControlled> {
        let questions = Arc::new(Questions::of_ring(recorder));
        ControlServer::start(self.0, questions).map(DumpControlled)
    }
}

impl DumpControlled {
    /// Ends the thread.
    pub(super) fn stop(self) {
        self.0.stop();
    }
}

/// Threads of the control, during the recording.
pub(super) struct Controlled {
    server: ControlServer,
    follower: JoinHandle<Result<(Summary, FollowerReport), CliError>>,
}

impl Control {
    /// Creates the socket. To be called while there is one thread.
    pub(super) fn new(path: &Path) -> Result<Self, CliError> {
        let failed = |source| CliError::Create { path: path.into(), source };
        let socket = Socket::new(path).map_err(failed)?;
        Ok(Self { socket, files: Vec::new(), out: None, ended: LogCompletion::default() })
    }

    /// Adds files that are watched from the start.
    pub(super) fn watching(self, files: &[PathBuf], max: usize) -> Result<Self, CliError> {
        let mut all = Vec::new();
        // The watch for the recording is created by its thread, from the same files: their errors
        // are reported here.
        let mut rehearsal = Watch::default();
        for path in files {
            let shown = path.display();
            let failed = |why: String| CliError::Usage(format!("cannot watch {shown}: {why}"));
            if !path.exists() {
                return Err(CliError::Usage(format!(
                    "there is no file {shown}; a watched file must exist before: touch {shown}"
                )));
            }
            let absolute = std::path::absolute(path).map_err(|error| failed(error.to_string()))?;
            let bytes = std::os::unix::ffi::OsStrExt::as_bytes(absolute.as_os_str());
            let found = watched_file::look(bytes).map_err(failed)?;
            let new = found.watched(max, clock::now());
            rehearsal.add(new.clone()).map_err(|error| failed(error.to_string()))?;
            all.push(new);
        }
        Ok(Self { files: all, ..self })
    }

    /// Prints accesses to `to`. `ends_with_it`: the recording ends when the reader of `to` is gone.
    pub(super) fn printing(self, to: Box<dyn Write + Send>, ends_with_it: bool) -> Self {
        Self { out: Some((to, ends_with_it)), ..self }
    }

    /// Returns the signal that the log is complete.
    pub(super) fn ended(&self) -> LogCompletion {
        self.ended.clone()
    }

    /// Starts the threads. `given_back`: the log's descriptor for writing, if it has no other
    /// reader.
    pub(super) fn start(self, log: &Path, given_back: Option<File>) -> io::Result<Controlled> {
        let input = TailingReader::open(log, given_back, &self.ended)?;
        let questions = Arc::new(Questions::default());
        let Self { socket, files, out, ended } = self;
        let queue = Arc::clone(&questions);
        let follow = move || follow(input, files, queue, out, &ended);
        let follower = std::thread::Builder::new().name("iotrace-follow".into()).spawn(follow)?;
        let server = ControlServer::start(socket, questions)?;
        Ok(Controlled { server, follower })
    }
}

impl Controlled {
    /// Waits until the follower has read all of the log, or a signal ends it.
    pub(super) fn wait_with(&self, recorded: &mut Recorded, ended: &LogCompletion) {
        recorded.wait_for(&self.follower, ended);
    }

    /// Waits until the complete log was read; prints the counters, if there is a recording.
    ///
    /// # Errors
    ///
    /// The log could not be followed, or accesses could not be printed.
    pub(super) fn finish(self, recorded: Option<&Recorded>) -> Result<Option<Summary>, CliError> {
        let Some(recorded) = recorded else {
            let _ = self.follower.join();
            self.server.stop();
            return Ok(None);
        };
        let followed = recorded.result_of(self.follower);
        self.server.stop();
        let (summary, report) = followed?;
        let failure = report.failure.map(CliError::output);
        if matches!(failure, Some(CliError::BrokenPipe)) {
            // The reader of the output has closed it.
            return Ok(None);
        }
        report.lines.iter().for_each(|line| print_line(line));
        failure.map_or(Ok(Some(summary)), Err)
    }
}

fn follow(
    input: TailingReader,
    files: Vec<NewWatch>,
    questions: Arc<Questions>,
    out: Option<(Box<dyn Write + Send>, bool)>,
    ended: &LogCompletion,
) -> Result<(Summary, FollowerReport), CliError> {
    let path = Path::new("(the recording)");
    let (out, ends_with_it) = out.map_or((None, false), |out| (Some(out.0), out.1));
    let stop = || {
        if ends_with_it {
            ended.stop_recording();
        }
    };
    let _closing = QueueCloser(&questions);
    let mut follower = Follower::new(files, Arc::clone(&questions), out, &stop);
    let followed = pipeline::open(input)
        .and_then(|(items, header)| pipeline::run(items, header, &mut follower, &mut || true));
    match followed {
        Ok(summary) => Ok((summary, follower.finish())),
        Err(error) => {
            let error = CliError::pipeline(path, &error);
            // Later commands of this recording get the error.
            questions.close(&error.to_string());
            stop();
            Err(error)
        }
    }
}

/// Prints the warnings of a recording without other output.
pub(super) fn print_doubts(summary: Option<&Summary>) {
    summary.into_iter().for_each(summary_lines::print_doubts);
}
