//! Thread of the screen: keys, signals of job control, pictures.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::crossterm::event::KeyEvent;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::{flag, low_level};

use super::follower::{SharedModel, locked};
use super::keys::KeyParser;
use super::terminal::{TopTerminal, restore, restore_at_panics, tty};
use crate::analysis::top::TopView;
use crate::cli::signals::is_ignored;
use crate::cli::tailing_reader::LogCompletion;
use crate::report::top::{TopAction, TopScreen, TopSize, TopStatus, page, picture};
use crate::sys::{clock, signal};

/// Longest time between two looks at the size of the terminal, ms.
const LOOK_MS: u16 = 250;

/// Time for the rest of a key's bytes, ms: the key Esc is the beginning of others.
const REST_OF_KEY_MS: u16 = 50;

/// Bytes of keys that are taken at once.
const KEYS_BYTES: usize = 1024;

/// Number of looks after which the screen is drawn all the same: an interval may be late.
const LOOKS: u32 = 4;

/// Signals that end a recording without a program, and with it the screen.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// End of a screen.
pub(super) enum ScreenEnd {
    /// By a key, a signal, or with the recording.
    Quit,
    /// To begin again with the names of all files, and this view.
    Restart(TopView),
    /// By an error of the terminal.
    Failed(io::Error),
}

/// News for the screen.
#[derive(Clone)]
pub(super) struct News {
    wake: Arc<UnixStream>,
    flags: Arc<NewsFlags>,
}

/// Flags that are read when the screen is woken.
#[derive(Debug, Default)]
struct NewsFlags {
    is_over: AtomicBool,
    must_quit: AtomicBool,
}

impl News {
    /// An interval was closed.
    pub(super) fn interval(&self) {
        // A full socket wakes the screen, too.
        let _ = (&*self.wake).write(&[0]);
    }

    /// The program or the processes have ended.
    pub(super) fn over(&self) {
        // ORDERING: Relaxed: the flags guard no other data.
        self.flags.is_over.store(true, Ordering::Relaxed);
        self.interval();
    }

    /// The screen must end.
    pub(super) fn quit(&self) {
        // ORDERING: Relaxed: as above.
        self.flags.must_quit.store(true, Ordering::Relaxed);
        self.interval();
    }
}

/// Settings of the screen.
pub(super) struct ScreenThread {
    pub(super) model: SharedModel,
    pub(super) view: TopView,
    pub(super) has_program: bool,
    pub(super) can_restart: bool,
    pub(super) ended: LogCompletion,
}

/// A screen that can be started.
pub(super) struct PreparedScreen {
    settings: ScreenThread,
    woken: UnixStream,
    wake: Arc<UnixStream>,
    flags: Arc<NewsFlags>,
}

impl ScreenThread {
    /// Makes the way by which the screen gets news.
    pub(super) fn prepare(self) -> io::Result<(PreparedScreen, News)> {
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let (wake, flags) = (Arc::new(wake), Arc::new(NewsFlags::default()));
        let news = News { wake: Arc::clone(&wake), flags: Arc::clone(&flags) };
        Ok((PreparedScreen { settings: self, woken, wake, flags }, news))
    }
}

/// Signals that have come.
struct JobSignals {
    suspend: Arc<AtomicBool>,
    resume: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
}

impl JobSignals {
    fn new(wake: &UnixStream, has_program: bool) -> io::Result<Self> {
        let [suspend, resume, end] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        let mut wanted = vec![(SIGTSTP, &suspend), (SIGCONT, &resume)];
        if !has_program {
            // With a program, signals are for the program.
            wanted.extend(ENDING.map(|signal| (signal, &end)));
        }
        for (signal, seen) in wanted.into_iter().filter(|(signal, _)| !is_ignored(*signal)) {
            // In this order a signal is recorded before it wakes the screen.
            flag::register(signal, Arc::clone(seen))?;
            low_level::pipe::register(signal, wake.try_clone()?)?;
        }
        Ok(Self { suspend, resume, end })
    }
}

fn is_set(seen: &AtomicBool) -> bool {
    // ORDERING: Relaxed: the flags guard no other data.
    seen.load(Ordering::Relaxed)
}

fn take(seen: &AtomicBool) -> bool {
    // ORDERING: Relaxed: as above.
    seen.swap(false, Ordering::Relaxed)
}

impl PreparedScreen {
    /// Starts the thread.
    pub(super) fn start(self) -> io::Result<JoinHandle<ScreenEnd>> {
        let signals = JobSignals::new(&self.wake, self.settings.has_program)?;
        restore_at_panics();
        let terminal = TopTerminal::open()?;
        let keyboard = tty()?;
        let thread = RunningScreen {
            screen: TopScreen::new(self.settings.view),
            status: TopStatus { can_restart: self.settings.can_restart, ..TopStatus::default() },
            settings: self.settings,
            woken: self.woken,
            flags: self.flags,
            signals,
            terminal,
            keyboard,
            parser: KeyParser::default(),
        };
        std::thread::Builder::new().name("iotrace-screen".into()).spawn(move || thread.run())
    }
}

/// The screen, in its thread.
struct RunningScreen {
    screen: TopScreen,
    status: TopStatus,
    settings: ScreenThread,
    woken: UnixStream,
    flags: Arc<NewsFlags>,
    signals: JobSignals,
    terminal: TopTerminal,
    keyboard: std::fs::File,
    parser: KeyParser,
}

impl RunningScreen {
    fn run(mut self) -> ScreenEnd {
        let end = self.show().unwrap_or_else(ScreenEnd::Failed);
        let Self { settings, terminal, signals, flags, .. } = self;
        drop(terminal);
        // A second signal would end this process before the recording has ended in order.
        let ends_already = is_set(&signals.end) || is_set(&flags.must_quit);
        if !settings.has_program && !ends_already {
            settings.ended.stop_recording();
        }
        end
    }

    fn show(&mut self) -> io::Result<ScreenEnd> {
        loop {
            let size = self.terminal.size()?;
            // The model is not locked while the terminal is written.
            let lines = {
                let model = locked(&self.settings.model);
                let last = model.last.map(|[_, end]| clock::now().0.saturating_sub(end.0));
                self.status.since_ns = last.unwrap_or(0);
                picture(&mut self.screen, &model, &self.status, size)
            };
            self.terminal.draw(lines)?;
            if let Some(end) = self.wait(size)? {
                return Ok(end);
            }
        }
    }

    /// Waits for news, keys, signals, or another size.
    fn wait(&mut self, size: TopSize) -> io::Result<Option<ScreenEnd>> {
        for _ in 0..LOOKS {
            let has_begun = self.parser.has_begun();
            let wait_ms = if has_begun { REST_OF_KEY_MS } else { LOOK_MS };
            let [has_keys, is_gone] = readable(self.keyboard.as_fd(), self.woken.as_fd(), wait_ms);
            let has_news = matches!(self.woken.read(&mut [0; 256]), Ok(1..));
            if is_gone || is_set(&self.flags.must_quit) || is_set(&self.signals.end) {
                return Ok(Some(ScreenEnd::Quit));
            }
            if take(&self.signals.suspend) {
                self.stop()?;
                return Ok(None);
            }
            if take(&self.signals.resume) {
                self.terminal.enter()?;
                return Ok(None);
            }
            if is_set(&self.flags.is_over) && self.status.over.is_none() {
                self.status.over = Some("ENDED: q quits".to_owned());
                self.status.can_restart = false;
            }
            if has_keys {
                return self.keys(size);
            }
            if has_begun && !has_news {
                let keys = self.parser.finish();
                return self.act(keys, size);
            }
            if has_news || self.terminal.size()? != size {
                break;
            }
        }
        Ok(None)
    }

    fn keys(&mut self, size: TopSize) -> io::Result<Option<ScreenEnd>> {
        let mut bytes = [0; KEYS_BYTES];
        let count = self.keyboard.read(&mut bytes)?;
        if count == 0 {
            return Ok(Some(ScreenEnd::Quit));
        }
        let keys = self.parser.push(bytes.get(..count).unwrap_or_default());
        self.act(keys, size)
    }

    fn act(&mut self, keys: Vec<KeyEvent>, size: TopSize) -> io::Result<Option<ScreenEnd>> {
        for key in keys {
            let action = {
                let mut model = locked(&self.settings.model);
                self.screen.key(key, &mut model, page(size.height))
            };
            match action {
                TopAction::Draw => {}
                TopAction::Quit => return Ok(Some(ScreenEnd::Quit)),
                TopAction::Interrupt
                    if !self.settings.has_program || self.status.over.is_some() =>
                {
                    return Ok(Some(ScreenEnd::Quit));
                }
                TopAction::Interrupt => {
                    // The recording forwards it to the program.
                    let own = std::process::id().cast_signed();
                    signal::send(own, SIGINT)?;
                }
                // All processes of the job, as the terminal does.
                TopAction::Suspend => signal::send(0, SIGTSTP)?,
                TopAction::Names if self.status.can_restart => {
                    return Ok(Some(ScreenEnd::Restart(self.screen.view())));
                }
                TopAction::Names => {}
            }
        }
        Ok(None)
    }

    /// Stops this process until it is continued.
    fn stop(&mut self) -> io::Result<()> {
        restore();
        signal::suspend()?;
        take(&self.signals.resume);
        self.terminal.enter()
    }
}

/// Waits a while for keys or news. Returns whether there are keys, and whether the terminal is
/// gone.
fn readable(keyboard: BorrowedFd<'_>, news: BorrowedFd<'_>, wait_ms: u16) -> [bool; 2] {
    let mut fds = [PollFd::new(keyboard, PollFlags::POLLIN), PollFd::new(news, PollFlags::POLLIN)];
    // An interrupted wait counts as a completed one: the caller looks at everything.
    let _ = poll(&mut fds, PollTimeout::from(wait_ms));
    let [keyboard, _] = &fds;
    let events = keyboard.revents().unwrap_or(PollFlags::empty());
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    [events.contains(PollFlags::POLLIN), events.intersects(gone)]
}
