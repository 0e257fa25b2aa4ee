//! Who listens on the socket: takes questions, bounded in length, number and time, and hands them on.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use super::protocol::{Answer, Asked, GREETING, LINE_MAX, Verb, head};
use super::target::{self, Target};
use super::{Questions, Request};
use crate::sys::socket::Socket;
use crate::sys::{clock, spawn};
use crate::units::KernelTime;

/// Connections at the same time: each has a thread.
const CLIENTS_MAX: usize = 8;

/// So long nobody may say anything, or a question may take to come.
const QUIET_NS: u64 = 10_000_000_000;

/// So long an answer may take to be read.
const READING_NS: u64 = 30_000_000_000;

/// How often we look whether it is over.
const LOOK_MS: u16 = 50;

/// The thread that listens.
pub(super) struct Server {
    over: Arc<AtomicBool>,
    listener: JoinHandle<()>,
}

impl Server {
    /// Starts it.
    pub(super) fn start(socket: Socket, to: Sender<Request>) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let its_over = Arc::clone(&over);
        let listen = move || listen(&socket, Arc::new(Questions(to.into())), &its_over);
        let listener = std::thread::Builder::new().name("iotrace-control".into()).spawn(listen)?;
        Ok(Self { over, listener })
    }

    /// Ends it; answers that are being read are given their time.
    pub(super) fn stop(self) {
        // ORDERING: nothing hangs on it but when they look.
        self.over.store(true, Ordering::Relaxed);
        let _ = self.listener.join();
    }
}

fn listen(socket: &Socket, questions: Arc<Questions>, over: &Arc<AtomicBool>) {
    let mut clients: Vec<JoinHandle<()>> = Vec::new();
    while !is_over(over) {
        spawn::wait_readable(socket.as_fd(), LOOK_MS);
        let Ok(stream) = socket.accept() else { continue };
        clients.retain(|it| !it.is_finished());
        let mut client = Client { stream, over: Arc::clone(over) };
        if clients.len() >= CLIENTS_MAX {
            // A line fits into any socket's buffer.
            let why = Err("too many connections at the same time".to_owned());
            let _ = client.write(GREETING.as_bytes()).and_then(|()| client.write(&head(&why)));
            continue;
        }
        let its_questions = Arc::clone(&questions);
        let serve = move || {
            // It went, or was cut off: nobody else minds.
            let _ = client.serve(&its_questions);
        };
        let thread = std::thread::Builder::new().name("iotrace-client".into()).spawn(serve);
        clients.extend(thread);
    }
    // Whoever waits for an answer has none any more.
    drop(questions);
    for client in clients {
        let _ = client.join();
    }
}

fn is_over(over: &AtomicBool) -> bool {
    // ORDERING: nothing hangs on it but when we look.
    over.load(Ordering::Relaxed)
}

/// Somebody who has connected.
struct Client {
    stream: UnixStream,
    over: Arc<AtomicBool>,
}

impl Client {
    fn serve(&mut self, questions: &Questions) -> io::Result<()> {
        let look = Duration::from_millis(LOOK_MS.into());
        self.stream.set_read_timeout(Some(look))?;
        self.stream.set_write_timeout(Some(look))?;
        self.write(GREETING.as_bytes())?;
        let mut read = Vec::new();
        loop {
            let answer = match self.read_line(&mut read)? {
                Line::Some(line) => answer(&line, questions),
                Line::TooLong => Err(format!("a question has at most {LINE_MAX} bytes")),
                Line::None => return Ok(()),
            };
            self.write(&head(&answer))?;
            match answer {
                Ok(lines) => self.write(&lines.text)?,
                // What is behind it is not looked at.
                Err(_) if read.len() > LINE_MAX => return Ok(()),
                Err(_) => {}
            }
        }
    }

    /// The next line, without its end; what was read behind it stays.
    fn read_line(&mut self, read: &mut Vec<u8>) -> io::Result<Line> {
        let deadline = after(QUIET_NS);
        let mut bytes = [0; 4096];
        loop {
            if let Some(end) = read.iter().position(|it| *it == b'\n') {
                let mut line: Vec<u8> = read.drain(..=end).collect();
                line.pop();
                return Ok(Line::Some(line));
            }
            if read.len() > LINE_MAX {
                return Ok(Line::TooLong);
            }
            if clock::now() > deadline || is_over(&self.over) {
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

    /// Writes all of it, in time.
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let deadline = after(READING_NS);
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if waits(&error) && clock::now() < deadline => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What comes from a connection.
enum Line {
    Some(Vec<u8>),
    TooLong,
    /// It has ended, or has been quiet for too long.
    None,
}

fn after(ns: u64) -> KernelTime {
    KernelTime(clock::now().0.saturating_add(ns))
}

fn waits(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Looks at the file that is meant, and asks.
fn answer(line: &[u8], questions: &Questions) -> Answer {
    let asked = Asked::parse(line)?;
    let found = match (asked.verb, &asked.file) {
        (Verb::Add, Some(file)) => Some(target::look(file)?),
        _ => None,
    };
    let target = asked.file.clone().map(|word| Target { word, found });
    questions.ask(asked, target)
}
