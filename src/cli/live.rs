//! `iotrace-perf live … -- COMMAND`: operations are printed while they happen.
//!
//! The recording goes into a log as always, one without a name. Another thread reads it as it grows, through the same stages as any
//! log, and gives its room back to the disk.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::analyse::{output, private_log};
use super::args::LiveArgs;
use super::error::CliError;
use super::pick::Wish;
use super::script::{Log, Shape};
use super::{exit_lines, record, say};
use crate::pipeline::{self, Summary};
use crate::sys::{files, spawn, thread};

/// How long nothing may be new before we look again.
const PAUSE: Duration = Duration::from_millis(20);

/// So much of the log is given back at once, in bytes.
const GIVEN_BACK: u64 = 16 << 20;

pub(super) fn run(args: &LiveArgs) -> Result<ExitCode, CliError> {
    let wish = Wish::of(&args.filter)?;
    let shape = Shape::of(&args.shape)?;
    let has_program = !args.capture.command.is_empty();
    let to = (output(args.to.as_deref(), has_program)?, has_program);
    let (log, place) = private_log()?;
    let has_ended = Arc::new(AtomicBool::new(false));
    let failed = |source| CliError::Open { path: place.path.clone(), source };
    let input = Growing {
        file: File::open(&place.path).map_err(failed)?,
        log: log.try_clone().map_err(failed)?,
        has_ended: Arc::clone(&has_ended),
        offset: 0,
        given_back: 0,
    };
    let mut printer = None;
    let start_printing = |_: &Path| {
        // The program has been forked by now: until then there must be one thread.
        let print = move || follow(input, wish, shape, to);
        printer = Some(std::thread::Builder::new().name("iotrace-live".into()).spawn(print)?);
        log.try_clone()
    };
    let recorded = record::capture(&args.capture, || Ok(place), start_printing);
    // ORDERING: Release: who sees it, and then the end of the file, has seen all of the log.
    has_ended.store(true, Ordering::Release);
    let printed = printer.map(|it| it.join().unwrap_or(Err(CliError::Interrupted)));
    let recorded = recorded?;
    match printed {
        Some(Ok(summary)) => exit_lines::print_doubts(&summary),
        // Whoever read it had seen enough.
        Some(Err(CliError::BrokenPipe)) | None => {}
        Some(Err(error)) => say(&format!("error: {error}")),
    }
    recorded.end()
}

/// Prints what comes until the recording has ended.
fn follow(
    input: Growing,
    wish: Wish<'static>,
    shape: Shape,
    (to, has_program): (Box<dyn Write + Send>, bool),
) -> Result<Summary, CliError> {
    let path = Path::new("(the recording)");
    let has_ended = Arc::clone(&input.has_ended);
    let out = Shared(Rc::new(RefCell::new(BufWriter::new(to))));
    let flushed = out.clone();
    let printed = pipeline::open::<_, io::Error>(input)
        .map_err(|it| CliError::pipeline(path, &it))
        .and_then(|(items, header)| {
            let filter = wish.filter(&header)?;
            let mut failure = None;
            let go_on = &mut || {
                failure = flushed.clone().flush().err();
                failure.is_none()
            };
            let printed = Log { path, items, header, filter, go_on }.print(shape, out);
            failure.map_or(printed, |it| Err(CliError::output(it)))
        });
    // Nobody sees any more what is recorded: that is over as by Ctrl-C. A program goes on.
    // ORDERING: only whether that is needed; at most it is done once too often.
    if printed.is_err() && !has_program && !has_ended.load(Ordering::Relaxed) {
        let _ = spawn::send_signal(std::process::id().cast_signed(), libc::SIGINT);
    }
    printed
}

/// A log that is still written.
struct Growing {
    file: File,
    /// The same, to be written.
    log: File,
    has_ended: Arc<AtomicBool>,
    offset: u64,
    given_back: u64,
}

impl Read for Growing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // ORDERING: Acquire, before reading: what was written before it was set is read below.
            let has_ended = self.has_ended.load(Ordering::Acquire);
            let count = self.file.read(buffer)?;
            if count > 0 || has_ended {
                self.offset += count as u64;
                self.give_back();
                return Ok(count);
            }
            thread::pause(PAUSE);
        }
    }
}

impl Growing {
    /// Nobody reads it again. Where the file system cannot do that the file grows.
    fn give_back(&mut self) {
        if self.offset - self.given_back >= 2 * GIVEN_BACK {
            let end = self.offset - GIVEN_BACK;
            let _ = files::give_back(&self.log, self.given_back, end - self.given_back);
            self.given_back = end;
        }
    }
}

/// A writer that is flushed by another one than who writes.
#[derive(Clone)]
struct Shared(Rc<RefCell<BufWriter<Box<dyn Write + Send>>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}
