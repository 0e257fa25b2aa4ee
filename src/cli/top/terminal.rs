//! Terminal of the screen: raw, on the alternate screen, and as it was before at any end.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::termios::{FlushArg, SetArg, tcflush, tcgetattr, tcsetattr};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::text::{Line, Text};

use crate::report::top::TopSize;

/// True while the terminal is ours.
static IS_OURS: AtomicBool = AtomicBool::new(false);

/// The terminal of this process, which need not be its standard output.
pub(super) struct TopTerminal {
    terminal: Terminal<CrosstermBackend<BufWriter<File>>>,
}

impl TopTerminal {
    /// Opens the terminal, and begins to draw on it.
    pub(super) fn open() -> io::Result<Self> {
        let terminal = Terminal::new(CrosstermBackend::new(BufWriter::new(tty()?)))?;
        let mut opened = Self { terminal };
        opened.enter()?;
        Ok(opened)
    }

    /// Makes the terminal ours, at the beginning and when this process continues.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        // ORDERING: Relaxed: the flag guards no other data.
        IS_OURS.store(true, Ordering::Relaxed);
        // A shell may have changed the modes while this process was stopped: crossterm sets them
        // only once.
        disable_raw_mode()?;
        enable_raw_mode()?;
        execute!(self.terminal.backend_mut(), EnterAlternateScreen)?;
        self.terminal.hide_cursor()?;
        // Not `clear()`, which asks the terminal for the place of its cursor, and waits.
        let area = self.terminal.size()?.into();
        self.terminal.resize(area)
    }

    /// Returns the cells and lines of the terminal.
    pub(super) fn size(&self) -> io::Result<TopSize> {
        let size = self.terminal.size()?;
        Ok(TopSize { width: size.width.into(), height: size.height.into() })
    }

    /// Draws these lines, unless a panic has given the terminal back.
    pub(super) fn draw(&mut self, lines: Vec<Line<'static>>) -> io::Result<()> {
        // ORDERING: Relaxed: as above.
        if IS_OURS.load(Ordering::Relaxed) {
            self.terminal.draw(|frame| frame.render_widget(Text::from(lines), frame.area()))?;
        }
        Ok(())
    }
}

impl Drop for TopTerminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Opens the terminal of this process.
pub(super) fn tty() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}

/// Makes the terminal as it was before, once.
pub(super) fn restore() {
    // ORDERING: Relaxed: as in enter().
    if IS_OURS.swap(false, Ordering::Relaxed) {
        // A terminal that is gone needs nothing.
        let _ = disable_raw_mode();
        if let Ok(mut tty) = tty() {
            let _ = execute!(tty, LeaveAlternateScreen, Show);
        }
    }
}

/// Drops output that the terminal has not taken, so that a write to it can go on.
pub(super) fn drop_output() {
    // A terminal that is gone holds nothing up.
    let Ok(tty) = tty_without_waiting() else { return };
    let _ = tcflush(&tty, FlushArg::TCOFLUSH);
    // The kernel wakes writers when modes are set (n_tty_set_termios()), not when output is
    // dropped.
    if let Ok(modes) = tcgetattr(&tty) {
        let _ = tcsetattr(&tty, SetArg::TCSANOW, &modes);
    }
}

/// Makes the terminal as it was before, even if another thread is held in a write to it.
pub(super) fn restore_at_once() {
    // ORDERING: Relaxed: as in enter().
    IS_OURS.store(false, Ordering::Relaxed);
    let _ = disable_raw_mode();
    // Again, as the output of that thread may have been dropped.
    if let Ok(mut tty) = tty_without_waiting() {
        let _ = execute!(tty, LeaveAlternateScreen, Show);
    }
}

fn tty_without_waiting() -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open("/dev/tty")
}

/// Restores the terminal before the message of a panic, of any thread.
pub(super) fn restore_at_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        print(panic);
    }));
}
