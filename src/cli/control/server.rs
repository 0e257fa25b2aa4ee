//! Server of the control socket: takes commands, limited in length, number and time, and queues
//! them for the follower.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::protocol::{Answer, ControlCommand, ControlVerb, GREETING, LINE_MAX, head};
use super::questions::Questions;
use super::watched_file::{self, WatchTarget};
use crate::sys::socket::Socket;
use crate::sys::{clock, spawn, thread};
use crate::units::KernelTime;

/// Limit on concurrent connections: each has a thread.
const CLIENTS_MAX: usize = 8;

/// Time after which a silent client is disconnected, ns; also the time for a command to arrive.
const QUIET_NS: u64 = 10_000_000_000;

/// Time that a client may take to read a response, ns.
const READING_NS: u64 = 30_000_000_000;

/// Interval of the checks for the end of the recording, ms.
const LOOK_MS: u16 = 50;
const LOOK: Duration = Duration::from_millis(LOOK_MS as u64);

/// Time that all responses together may take after the recording, ns.
const LAST_NS: u64 = 5_000_000_000;

/// Pause after a failed `accept`, such as with too many open files.
const NO_MORE: Duration = Duration::from_millis(100);

/// Thread that accepts connections.
pub(super) struct ControlServer {
    over: Arc<AtomicBool>,
    listener: JoinHandle<()>,
}

impl ControlServer {
    /// Starts the thread.
    pub(super) fn start(socket: Socket, questions: Arc<Questions>) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let its_over = Arc::clone(&over);
        let listen = move || listen(&socket, &questions, &its_over);
        let listener = std::thread::Builder::new().name("iotrace-control".into()).spawn(listen)?;
        Ok(Self { over, listener })
    }

    /// Ends the thread; clients that are reading a response get a short time.
    pub(super) fn stop(self) {
        // ORDERING: Relaxed: it only decides when the threads end.
        self.over.store(true, Ordering::Relaxed);
        let _ = self.listener.join();
    }
}

fn listen(socket: &Socket, questions: &Arc<Questions>, over: &Arc<AtomicBool>) {
    let mut clients: Vec<(JoinHandle<()>, UnixStream)> = Vec::new();
    while !is_over(over) {
        spawn::wait_readable(socket.as_fd(), LOOK_MS);
        clients.retain(|client| !client.0.is_finished());
        let accepted = socket.accept().and_then(|stream| Ok((stream.try_clone()?, stream)));
        let (stream, its_end) = match accepted {
            Ok(it) => it,
            Err(error) => {
                // The waiting client would wake the loop again at once.
                if !waits(&error) {
                    thread::pause(NO_MORE);
                }
                continue;
            }
        };
        let mut client = Client { stream, over: Arc::clone(over) };
        if clients.len() >= CLIENTS_MAX {
            // A line fits into any socket's buffer.
            let why = Err("too many connections at the same time".to_owned());
            let _ = client.write(&[GREETING.as_bytes(), &head(&why)]);
            continue;
        }
        let its_questions = Arc::clone(questions);
        let serve = move || {
            // The client left or was disconnected; other clients are not affected.
            let _ = client.serve(&its_questions);
        };
        let thread = std::thread::Builder::new().name("iotrace-client".into()).spawn(serve);
        clients.extend(thread.ok().map(|thread| (thread, its_end)));
    }
    let deadline = after(LAST_NS);
    while clients.iter().any(|client| !client.0.is_finished()) && clock::now() < deadline {
        thread::pause(LOOK);
    }
    for (_, stream) in clients {
        // A thread that waits for a file system is not waited for.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn is_over(over: &AtomicBool) -> bool {
    // ORDERING: Relaxed: it only decides when the thread ends.
    over.load(Ordering::Relaxed)
}

/// A connected client.
struct Client {
    stream: UnixStream,
    over: Arc<AtomicBool>,
}

impl Client {
    fn serve(&mut self, questions: &Questions) -> io::Result<()> {
        self.stream.set_read_timeout(Some(LOOK))?;
        self.stream.set_write_timeout(Some(LOOK))?;
        self.write(&[GREETING.as_bytes()])?;
        let mut read = Vec::new();
        loop {
            let answer = match self.read_line(&mut read)? {
                Line::Some(line) => answer(&line, questions),
                Line::TooLong => Err(format!("a question has at most {LINE_MAX} bytes")),
                Line::None => return Ok(()),
            };
            let lines = answer.as_ref().map_or(&[][..], |answer| &answer.text);
            self.write(&[&head(&answer), lines])?;
            // Bytes after a line that is too long are not read.
            if read.len() > LINE_MAX {
                return Ok(());
            }
        }
    }

    /// Reads the next line, without its end; bytes after it stay in the buffer.
    fn read_line(&mut self, read: &mut Vec<u8>) -> io::Result<Line> {
        let deadline = after(QUIET_NS);
        let mut bytes = [0; 4096];
        loop {
            if is_over(&self.over) {
                return Ok(Line::None);
            }
            if let Some(end) = read.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = read.drain(..=end).collect();
                line.pop();
                return Ok(Line::Some(line));
            }
            if read.len() > LINE_MAX {
                return Ok(Line::TooLong);
            }
            if clock::now() > deadline {
                return Ok(Line::None);
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(Line::None),
                Ok(count) => read.extend_from_slice(bytes.get(..count).unwrap_or_default()),
                Err(error) if waits(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes all parts within the time limit.
    fn write(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let deadline = after(READING_NS);
        for part in parts {
            write_until(&mut self.stream, part, deadline)?;
        }
        Ok(())
    }
}

/// Writes all bytes before the deadline; `to` must not block for long.
fn write_until(to: &mut impl Write, mut bytes: &[u8], deadline: KernelTime) -> io::Result<()> {
    while !bytes.is_empty() {
        if clock::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match to.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if waits(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Input from a connection.
enum Line {
    Some(Vec<u8>),
    TooLong,
    /// The connection has ended, or was silent for too long.
    None,
}

fn after(ns: u64) -> KernelTime {
    KernelTime(clock::now().0.saturating_add(ns))
}

fn waits(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Looks up the named file, and queues the command.
fn answer(line: &[u8], questions: &Questions) -> Answer {
    let command = ControlCommand::parse(line)?;
    if command.verb == ControlVerb::Dump {
        return questions.dump();
    }
    let found = match (command.verb, &command.file) {
        (ControlVerb::Add, Some(file)) => Some(watched_file::look(file)?),
        _ => None,
    };
    let target = command.file.clone().map(|word| WatchTarget { word, found });
    questions.send(command, target)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a byte at a time, and never waits.
    struct Slow(usize);

    impl Write for Slow {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.0 += 1;
            Ok(1)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn slow_reader_of_an_answer_has_the_common_deadline() {
        let mut slow = Slow(0);
        let late = write_until(&mut slow, b"abc", KernelTime(0)).map_err(|error| error.kind());
        assert_eq!((late, slow.0), (Err(io::ErrorKind::TimedOut), 0));
        write_until(&mut slow, b"abc", KernelTime(u64::MAX)).expect("there is time");
        assert_eq!(slow.0, 3);
    }

    #[test]
    fn closed_recording_takes_no_queries() {
        let (stream, _other) = UnixStream::pair().expect("two ends");
        let over = Arc::new(AtomicBool::new(false));
        let mut client = Client { stream, over: Arc::clone(&over) };
        let mut read = b"reset\nlist\n".to_vec();
        let line = client.read_line(&mut read).expect("no error");
        assert!(matches!(line, Line::Some(it) if it == b"reset"));
        // ORDERING: there is one thread.
        over.store(true, Ordering::Relaxed);
        assert!(matches!(client.read_line(&mut read), Ok(Line::None)));
    }
}
