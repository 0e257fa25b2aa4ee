//! End by a second signal: unfinished files are removed, and a line tells what stays.
//!
//! The first signal asks for an end in order. The second one ends this process whatever its other
//! threads do; a third one does not even wait for the removal.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use signal_hook::{SigId, flag, low_level};

use super::message::print_error;
use crate::sys::output_dir::OutputDirectory;
use crate::sys::spawn;
use crate::sys::thread::SIGNAL_THREAD;

/// Attempts to remove a directory in which another thread still creates files.
const ATTEMPTS: usize = 8;

/// Unfinished files and directories of this process.
static UNFINISHED: Mutex<Vec<(u64, UnfinishedEntry)>> = Mutex::new(Vec::new());

/// Log that stays, with the command that goes on with it.
static KEPT_LOG: Mutex<Option<String>> = Mutex::new(None);

/// State of the thread that removes what is unfinished, until it starts: a replay without
/// privileges needs a process of one thread.
static WAITER: Mutex<Option<SecondSignalWaiter>> = Mutex::new(None);

/// State of the thread that waits for the second signal.
struct SecondSignalWaiter {
    wake: UnixStream,
    is_third: Arc<AtomicBool>,
    last: Arc<AtomicUsize>,
    /// Handlers that end this process at the second signal while there is no thread.
    without_thread: Vec<SigId>,
}

impl SecondSignalWaiter {
    /// Starts the thread. Without it the second signal ends this process at once.
    fn start(self) {
        let Self { mut wake, is_third, last, without_thread } = self;
        let end = move || {
            for handler in without_thread {
                low_level::unregister(handler);
            }
            let mut two = [0; 2];
            if wake.read_exact(&mut two).is_err() {
                return;
            }
            // ORDERING: nothing else is published by this flag.
            is_third.store(true, Ordering::Relaxed);
            tell_and_remove();
            // ORDERING: the byte in the pipe came after the number, in the same handler.
            let signal = last.load(Ordering::Relaxed);
            spawn::die_by(i32::try_from(signal).unwrap_or(libc::SIGTERM));
        };
        let _ = thread::Builder::new().name(SIGNAL_THREAD.into()).spawn(end);
    }
}

/// Starts the thread, if signals are handled and it does not run yet.
fn start_waiter() {
    let waiter = WAITER.lock().unwrap_or_else(PoisonError::into_inner).take();
    waiter.into_iter().for_each(SecondSignalWaiter::start);
}

/// A file or directory that is being made.
#[derive(Debug)]
pub(super) struct UnfinishedEntry {
    pub(super) directory: OutputDirectory,
    pub(super) name: OsString,
    /// Path for messages.
    pub(super) shown: PathBuf,
    /// The file or directory itself: another one of that name is not removed.
    pub(super) file: File,
}

/// Entry of the registry of unfinished files, which a drop removes.
#[derive(Debug)]
pub(super) struct UnfinishedGuard(u64);

impl UnfinishedEntry {
    /// Registers the entry: a second signal removes it.
    pub(super) fn register(self) -> UnfinishedGuard {
        let mut all = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let number = all.last().map_or(0, |(last, _)| last + 1);
        all.push((number, self));
        drop(all);
        start_waiter();
        UnfinishedGuard(number)
    }

    /// Removes the entry. Returns a line about that; `None`: it was gone.
    fn removed(&self) -> Option<String> {
        let Self { directory, name, shown, file } = self;
        let shown = shown.display();
        let is_there = || directory.leads_to(name, file).unwrap_or(false);
        if !is_there() {
            return None;
        }
        let mut outcome = Ok(());
        for _ in 0..ATTEMPTS {
            outcome = directory.remove(name);
            if !is_there() {
                break;
            }
        }
        match outcome {
            Err(error) if is_there() => {
                Some(format!("the unfinished {shown} stays: {error}; remove it: rm -r {shown}"))
            }
            _ => Some(format!("removed the unfinished {shown}")),
        }
    }
}

impl Drop for UnfinishedGuard {
    fn drop(&mut self) {
        let mut all = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(number, _)| *number != self.0);
    }
}

/// Notes the log that stays whatever ends this process.
pub(super) fn note_log(shown: &str) {
    *KEPT_LOG.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown.to_owned());
}

/// Ends this process by the second of these signals. The first one sets the returned flag.
///
/// # Errors
///
/// No descriptor or handler could be had.
pub(super) fn end_at_the_second(signals: &[i32]) -> io::Result<Arc<AtomicBool>> {
    let (wake, write) = UnixStream::pair()?;
    let mut without_thread = Vec::new();
    let is_first = Arc::new(AtomicBool::new(false));
    let is_third = Arc::new(AtomicBool::new(false));
    let last = Arc::new(AtomicUsize::new(0));
    for signal in signals {
        // In this order the second signal wakes the thread, or ends a process without it, and the
        // third one finds its flag set. All of the actions are valid for these signals.
        without_thread.push(flag::register_conditional_default(*signal, Arc::clone(&is_first))?);
        flag::register_conditional_default(*signal, Arc::clone(&is_third))?;
        flag::register(*signal, Arc::clone(&is_first))?;
        let number = usize::try_from(*signal).unwrap_or_default();
        flag::register_usize(*signal, Arc::clone(&last), number)?;
        low_level::pipe::register(*signal, write.try_clone()?)?;
    }
    let waiter = SecondSignalWaiter { wake, is_third, last, without_thread };
    *WAITER.lock().unwrap_or_else(PoisonError::into_inner) = Some(waiter);
    let is_needed = !UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
    if is_needed {
        start_waiter();
    }
    Ok(is_first)
}

/// Removes what is unfinished, and tells what stays.
fn tell_and_remove() {
    let unfinished =
        std::mem::take(&mut *UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner));
    let mut parts: Vec<String> =
        unfinished.iter().filter_map(|(_, entry)| entry.removed()).collect();
    let log = KEPT_LOG.lock().unwrap_or_else(PoisonError::into_inner).take();
    parts.extend(log.map(|log| {
        format!("the log {log} stays, with the records that were written: iotrace-perf info {log}")
    }));
    if !parts.is_empty() {
        print_error(&format!("ended by a second signal: {}", parts.join("; ")));
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use super::*;
    use crate::sys::output_dir::Users;

    fn entry(parent: &Path, name: &str) -> UnfinishedEntry {
        let directory = OutputDirectory::open(parent, &Users::none()).expect("a directory");
        let file = File::open(parent.join(name)).expect("it is there");
        let name = OsStr::new(name).to_owned();
        UnfinishedEntry { directory, shown: parent.join(&name), name, file }
    }

    #[test]
    fn only_own_entries_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let make = |name: &str| std::fs::write(dir.path().join(name), "").expect("written");
        std::fs::create_dir_all(dir.path().join("x.otf2.part/traces/y")).expect("made");
        ["a.part", "b.part"].into_iter().for_each(make);
        let own = ["x.otf2.part", "a.part"].map(|name| entry(dir.path(), name));
        let other = entry(dir.path(), "b.part");
        std::fs::remove_file(dir.path().join("b.part")).expect("removed");
        // Keeps the number of the removed file from being given to the new one.
        make("c.part");
        make("b.part");
        assert_ne!(
            other.file.metadata().map(|found| std::os::unix::fs::MetadataExt::ino(&found)).ok(),
            std::fs::metadata(dir.path().join("b.part"))
                .map(|found| std::os::unix::fs::MetadataExt::ino(&found))
                .ok()
        );
        let lines = own.each_ref().map(UnfinishedEntry::removed);
        assert!(lines.iter().flatten().all(|line| line.starts_with("removed the unfinished ")));
        let _ = other.removed();
        let left = OutputDirectory::open(dir.path(), &Users::none()).expect("a directory");
        let mut left = left.names().expect("names");
        left.sort();
        assert_eq!(left, ["b.part", "c.part"]);
    }

    #[test]
    fn finished_files_are_forgotten() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("d.part"), "").expect("written");
        let shown = dir.path().join("d.part");
        let is_known = || {
            let all = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().any(|(_, entry)| entry.shown == shown)
        };
        let guard = entry(dir.path(), "d.part").register();
        assert!(is_known());
        drop(guard);
        assert!(!is_known());
    }
}
