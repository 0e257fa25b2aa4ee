//! The threads of the names readers. As root each reader works in a process of its own (`sys::apart`): one that waits in the kernel for a server
//! of a file system is given up, and another one started, by a thread that kept the rights to that.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::names::NamesReaders;
use crate::sys::{apart, capabilities, clock, thread};

/// How long a thread may take to end, ns. A reader that waits for a server is left.
const END_NS: u64 = 2_000_000_000;

type ReaderThreads = Vec<JoinHandle<io::Result<()>>>;

/// The readers' threads; they end when this goes.
#[derive(Debug)]
pub struct NamesThreads {
    readers: Arc<NamesReaders>,
    threads: Arc<Mutex<ReaderThreads>>,
    replacing: Option<JoinHandle<()>>,
}

impl NamesThreads {
    /// Starts a thread on each CPU, and one for the watch, called `name`.
    ///
    /// # Errors
    ///
    /// Those of starting a thread; then none runs.
    pub fn start(readers: &Arc<NamesReaders>, name: &str) -> io::Result<Self> {
        let threads = Arc::default();
        let mut started = Self { readers: Arc::clone(readers), threads, replacing: None };
        let (begun, begins) = channel();
        for index in 0..readers.cpus() {
            started.push(reader(readers, (name, index), begun.clone())?);
        }
        // From here on it is known which processes are ours.
        for _ in 0..readers.cpus() {
            let _ = begins.recv_timeout(Duration::from_nanos(END_NS));
        }
        if readers.has_watch() {
            let readers = Arc::clone(readers);
            let builder = std::thread::Builder::new().name(name.to_owned());
            started.push(builder.spawn(move || readers.watch_opens())?);
        }
        if readers.cpus() > 0 {
            let (replace, replaced) = channel();
            readers.replace_by(Some(replace));
            let (readers, threads) = (Arc::clone(readers), Arc::clone(&started.threads));
            let own_name = name.to_owned();
            let builder = std::thread::Builder::new().name(name.to_owned());
            let work = move || replace_readers(&readers, &threads, &own_name, &replaced);
            started.replacing = Some(builder.spawn(work)?);
        }
        Ok(started)
    }

    fn push(&self, thread: JoinHandle<io::Result<()>>) {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }

    /// Ends them. What went wrong in them.
    pub fn stop(mut self) -> Vec<io::Error> {
        self.end()
    }

    fn end(&mut self) -> Vec<io::Error> {
        self.readers.stop();
        self.readers.replace_by(None);
        let until = clock::now().0.saturating_add(END_NS);
        // It starts at most one more.
        let _ = self.replacing.take().map(JoinHandle::join);
        let mut threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let left = |it: &ReaderThreads| it.iter().filter(|it| !it.is_finished()).count();
        // Those that were given up are not waited for.
        while left(&threads) > self.readers.given_up() && clock::now().0 < until {
            thread::pause(Duration::from_millis(1));
        }
        let ended = threads.extract_if(.., |it| it.is_finished()).map(JoinHandle::join);
        ended.filter_map(|it| it.ok()?.err()).collect()
    }
}

impl Drop for NamesThreads {
    fn drop(&mut self) {
        if self.replacing.is_some() {
            self.end();
        }
    }
}

/// Starts the reader of one CPU.
fn reader(
    readers: &Arc<NamesReaders>,
    (name, index): (&str, usize),
    begun: Sender<()>,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let readers = Arc::clone(readers);
    let builder = std::thread::Builder::new().name(name.to_owned());
    // Without the right, Yama may allow a process to read the memory of processes that it has started, and of no others: a reader that is a
    // process of its own has started none (`ptrace_scope` 1).
    let is_apart = capabilities::may_read_memory();
    builder.spawn(move || {
        let read = || {
            // The receiver may be gone.
            let _ = begun.send(());
            readers.read_cpu(index)
        };
        if is_apart { apart::run(read)? } else { read() }
    })
}

/// Starts another reader for each CPU whose reader was given up.
fn replace_readers(
    readers: &Arc<NamesReaders>,
    threads: &Mutex<ReaderThreads>,
    name: &str,
    replaced: &Receiver<usize>,
) {
    while let Ok(index) = replaced.recv() {
        let (begun, _) = channel();
        match reader(readers, (name, index), begun) {
            Ok(it) => threads.lock().unwrap_or_else(PoisonError::into_inner).push(it),
            // It is told with what its calls were given.
            Err(_) => readers.has_none(index),
        }
    }
}
