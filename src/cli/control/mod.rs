//! Control of a recording while it runs, through a socket.
//!
//! ```text
//!  ctl ──► client threads ──(what, when)──► follower ──► watched files
//!      ◄──     (bounded)   ◄──── answer ───  reads the log as it grows
//! ```
//!
//! The follower is some tens of milliseconds behind. So a question has the time at which it came, and is dealt with when all that
//! happened before has been seen: an answer holds for the time of its question. Nothing here can hold up the recording: it writes its
//! log, whoever reads it. What is said on the socket is docs/control.md.

pub(super) mod client;
mod follower;
pub(super) mod protocol;
mod server;
mod target;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::thread::JoinHandle;

pub(super) use self::follower::DEFAULT_MAX;
use self::follower::Follower;
use self::protocol::{Answer, Asked};
use self::server::Server;
use self::target::Target;
use super::error::CliError;
use super::growing::{Ended, Growing};
use super::live::stop_recording;
use super::{exit_lines, say};
use crate::analysis::watch::New;
use crate::pipeline::{self, PipelineError, Summary};
use crate::sys::clock;
use crate::sys::socket::Socket;
use crate::units::KernelTime;

/// A question, when it came, and who waits for the answer.
struct Request {
    at: KernelTime,
    asked: Asked,
    /// The file that it is about, if it is about one.
    target: Option<Target>,
    answer: SyncSender<Answer>,
}

/// What is controlled and where, before the recording begins.
pub(super) struct Control {
    socket: Socket,
    /// Watched from the start.
    files: Vec<New>,
    /// Where accesses are printed when they have ended, and whether the recording ends when nobody reads that.
    out: Option<(Box<dyn Write + Send>, bool)>,
    ended: Ended,
}

/// The threads, while it runs.
pub(super) struct Controlled {
    server: Server,
    follower: JoinHandle<Result<(Summary, Vec<String>), CliError>>,
}

impl Control {
    /// Makes the socket. To be called while there is one thread.
    pub(super) fn new(path: &Path) -> Result<Self, CliError> {
        let failed = |source| CliError::Create { path: path.into(), source };
        let socket = Socket::new(path).map_err(failed)?;
        Ok(Self { socket, files: Vec::new(), out: None, ended: Ended::default() })
    }

    /// The same, with files that are watched from the start.
    pub(super) fn watching(self, files: &[PathBuf], max: usize) -> Result<Self, CliError> {
        let mut all = Vec::new();
        for path in files {
            let shown = path.display();
            let failed = |why: String| CliError::Usage(format!("cannot watch {shown}: {why}"));
            let absolute = std::path::absolute(path).map_err(|it| failed(it.to_string()))?;
            let bytes = std::os::unix::ffi::OsStrExt::as_bytes(absolute.as_os_str());
            let found = target::look(bytes).map_err(failed)?;
            all.push(found.watched(max, clock::now()));
        }
        Ok(Self { files: all, ..self })
    }

    /// The same, and accesses are printed.
    pub(super) fn printing(self, to: Box<dyn Write + Send>, ends_with_it: bool) -> Self {
        Self { out: Some((to, ends_with_it)), ..self }
    }

    /// Says when the log is complete.
    pub(super) fn ended(&self) -> Ended {
        self.ended.clone()
    }

    /// Starts the threads. `given_back`: the log to be written, if nobody else will read it.
    pub(super) fn start(self, log: &Path, given_back: Option<File>) -> io::Result<Controlled> {
        let input = Growing::open(log, given_back, &self.ended)?;
        let (to, requests) = channel();
        let Self { socket, files, out, ended } = self;
        let follow = move || follow(input, files, requests, out, &ended);
        let follower = std::thread::Builder::new().name("iotrace-follow".into()).spawn(follow)?;
        let server = Server::start(socket, to)?;
        Ok(Controlled { server, follower })
    }
}

impl Controlled {
    /// Waits until all was seen, when the log is complete; says what there was, if there is a recording.
    pub(super) fn finish(self, is_recorded: bool) -> Option<Summary> {
        let followed = self.follower.join().unwrap_or(Err(CliError::Interrupted));
        self.server.stop();
        match followed {
            _ if !is_recorded => None,
            Ok((summary, lines)) => {
                lines.iter().for_each(|it| say(it));
                Some(summary)
            }
            // Whoever read it had seen enough.
            Err(CliError::BrokenPipe) => None,
            Err(error) => {
                say(&format!("error: {error}"));
                None
            }
        }
    }
}

fn follow(
    input: Growing,
    files: Vec<New>,
    requests: Receiver<Request>,
    out: Option<(Box<dyn Write + Send>, bool)>,
    ended: &Ended,
) -> Result<(Summary, Vec<String>), CliError> {
    let path = Path::new("(the recording)");
    let (out, ends_with_it) = out.map_or((None, false), |it| (Some(it.0), it.1));
    let followed = pipeline::open(input).and_then(|(items, header)| {
        let mut follower = Follower::new(files, requests, out).map_err(PipelineError::Sink)?;
        let summary = pipeline::run(items, header, &mut follower, &mut || true)?;
        let lines = follower.finish().map_err(PipelineError::Sink)?;
        Ok((summary, lines))
    });
    if followed.is_err() && ends_with_it {
        stop_recording(ended);
    }
    followed.map_err(|error| match error {
        PipelineError::Sink(error) => CliError::output(error),
        error => CliError::pipeline(path, &error),
    })
}

/// The last lines of a recording that was only watched.
pub(super) fn say_doubts(summary: Option<&Summary>) {
    summary.into_iter().for_each(exit_lines::print_doubts);
}

/// Where questions go: each gets its time when it goes, so they arrive in the order of their times.
struct Questions(std::sync::Mutex<Sender<Request>>);

impl Questions {
    /// Asks, and waits until it is dealt with.
    fn ask(&self, asked: Asked, target: Option<Target>) -> Answer {
        let over = || Err("the recording is over".to_owned());
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        {
            let to = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if to.send(Request { at: clock::now(), asked, target, answer }).is_err() {
                return over();
            }
        }
        answered.recv().unwrap_or_else(|_| over())
    }
}
