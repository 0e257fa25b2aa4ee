//! `iotrace-perf top`: rates of processes, files, devices, calls and control groups, while they
//! happen.
//!
//! ```text
//!  recording ─► log without a name ─► follower thread ─► model ─┬─► tables for logs
//!  (main thread)                     (frees its space)          └─► screen thread ◄─ keys
//! ```
//!
//! The recording never waits for this code. The model is locked for the closing of an interval, and
//! for the making of a picture, never while a terminal is written.

mod follower;
mod interval_printer;
mod keys;
mod screen_thread;
mod terminal;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::analyse::private_log;
use super::args::{CaptureArgs, NamesArg};
use super::completeness::missing;
use super::error::CliError;
use super::message::{self, print_error, print_line};
use super::tailing_reader::{LogCompletion, TailingReader};
use super::top_args::TopArgs;
use super::{cgroup_target, recording};
use crate::analysis::top::{TopModel, TopView};
use crate::pipeline::Summary;
use crate::sys::clock;
use crate::text::quantity::counted;
use crate::text::table::incomplete_line;
use crate::tracer::error::TracerError;
use follower::{IntervalFollower, SharedModel};
use interval_printer::IntervalPrinter;
use screen_thread::{ScreenEnd, ScreenThread};

/// Length of an interval, unless another one is wanted.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time after the end of the screen for reading the rest of the log.
const REST_OF_LOG: Duration = Duration::from_secs(1);

/// Time for the screen to be drawn for the last time.
const LAST_PICTURE: Duration = Duration::from_secs(1);

/// Time for a terminal that takes no output to drop it.
const DROPPED_OUTPUT: Duration = Duration::from_secs(1);

/// Pause between two looks at a thread that is to end.
const LOOK: Duration = Duration::from_millis(10);

pub(super) fn run(args: &TopArgs) -> Result<ExitCode, CliError> {
    recording::refuse_stacks(&args.capture)?;
    let has_screen =
        args.screen || !(args.once || args.interval.is_some() || is_for_programs(args));
    let target = target(args, has_screen)?;
    let options = follower::FollowerOptions {
        scope: scope(args),
        length: args.interval.unwrap_or(INTERVAL),
        count_max: count(args).map(u64::from),
        events: args.capture.events.clone(),
    };
    match has_screen {
        true => draw(args, &target, options),
        false => print(args, &target, options),
    }
}

fn is_for_programs(args: &TopArgs) -> bool {
    args.json || args.csv || args.to.is_some() || args.rows.is_some()
}

/// Number of intervals after which `top` ends.
fn count(args: &TopArgs) -> Option<u32> {
    if args.once { Some(1) } else { args.count.map(std::num::NonZeroU32::get) }
}

/// Returns the arguments of the recording.
fn target(args: &TopArgs, is_silent: bool) -> Result<CaptureArgs, CliError> {
    let mut target = cgroup_target::resolved(&args.capture, &args.cgroup)?;
    target.all_cpus |= !target.has_target();
    target.is_silent = is_silent;
    if target.names == NamesArg::Auto && !args.all_names {
        target.names = NamesArg::Cheap;
    }
    let length = args.interval.unwrap_or(INTERVAL);
    let limit = count(args).map(|count| length.saturating_mul(count));
    target.duration = target.duration.into_iter().chain(limit).min();
    Ok(target)
}

/// Returns the scope of the recording, for people.
fn scope(args: &TopArgs) -> String {
    let capture = &args.capture;
    match (capture.command.first(), capture.pid.as_slice(), args.cgroup.as_slice()) {
        (Some(program), ..) if capture.all_cpus => {
            format!("the machine with {}", program.to_string_lossy())
        }
        (Some(program), ..) => program.to_string_lossy().into_owned(),
        (None, [], []) => "the whole machine".to_owned(),
        (None, [], groups) => groups.join(", "),
        (None, [pid], _) => format!("process {pid}"),
        (None, pids, _) => counted(pids.len() as u64, "process"),
    }
}

/// Prints a table for each interval.
fn print(
    args: &TopArgs,
    target: &CaptureArgs,
    options: follower::FollowerOptions,
) -> Result<ExitCode, CliError> {
    let mut printer = IntervalPrinter::new(args)?;
    let model = SharedModel::default();
    let closed = move |model: &TopModel| printer.print(model);
    let ended = LogCompletion::default();
    let failed = (target.command.is_empty()).then(|| ended.clone());
    let follower = IntervalFollower { options, model, closed, failed };
    let mut running = FollowedRecording::start(target, &ended, follower)?;
    if let (Ok(recorded), Some(follower)) = (&mut running.recorded, &running.follower) {
        recorded.wait_for(follower, &ended);
    }
    running.end()
}

/// Draws on the terminal until it is quit.
fn draw(
    args: &TopArgs,
    target: &CaptureArgs,
    options: follower::FollowerOptions,
) -> Result<ExitCode, CliError> {
    let has_program = !target.command.is_empty();
    check_terminal(has_program)?;
    let model = SharedModel::default();
    let ended = LogCompletion::default();
    let view = args.view.map_or(TopView::default(), TopView::from);
    let screen = ScreenThread {
        model: Arc::clone(&model),
        view,
        has_program,
        can_restart: !has_program && !args.all_names && target.names == NamesArg::Cheap,
        ended: ended.clone(),
    };
    let (screen, news) = screen.prepare().map_err(CliError::Output)?;
    let news_of_end = news.clone();
    let closed = move |_: &TopModel| {
        news.interval();
        Ok(())
    };
    message::hold();
    let failed = (!has_program).then(|| ended.clone());
    let follower = IntervalFollower { options, model, closed, failed };
    let (mut drawn, mut not_drawn) = (None, None);
    let started = FollowedRecording::start_with(target, &ended, follower, || {
        match screen.start() {
            Ok(thread) => drawn = Some(thread),
            Err(error) => {
                let cause = error.to_string();
                not_drawn = Some(error);
                return Err(io::Error::other(cause));
            }
        }
        Ok(())
    });
    if let Some(error) = not_drawn {
        message::release();
        return Err(CliError::Usage(format!(
            "cannot draw on the terminal ({error}): print tables with --once or -I 1s"
        )));
    }
    let mut running = match started {
        Ok(running) => running,
        Err(error) => {
            message::release();
            return Err(error);
        }
    };
    let screen_end = end_screen(&mut running, drawn, &news_of_end);
    message::release();
    if let Some(ScreenEnd::Restart(view)) = screen_end {
        running.settle(&ended, Duration::ZERO);
        running.discard();
        return Err(again(view));
    }
    running.settle(&ended, REST_OF_LOG);
    let result = running.end();
    match (screen_end, result) {
        (Some(ScreenEnd::Failed(error)), _) => Err(CliError::Output(error)),
        // A key can come before the recording has begun.
        (Some(ScreenEnd::Quit), Err(CliError::Tracer(TracerError::Interrupted(_))))
            if !has_program =>
        {
            Ok(ExitCode::SUCCESS)
        }
        (_, result) => result,
    }
}

/// Waits for the end of the screen: after that of the recording, it stays for a program that has
/// ended.
fn end_screen(
    running: &mut FollowedRecording,
    drawn: Option<JoinHandle<ScreenEnd>>,
    news: &screen_thread::News,
) -> Option<ScreenEnd> {
    let drawn = drawn?;
    let is_by_itself =
        running.recorded.as_ref().is_ok_and(|recorded| recorded.outcome.end.reason == "exit");
    if let (Ok(recorded), true) = (&mut running.recorded, is_by_itself) {
        news.over();
        recorded.linger(&drawn);
    }
    news.quit();
    let has_ended = || drawn.is_finished();
    if !within(LAST_PICTURE, has_ended) {
        // A terminal whose other side does not read holds the screen in a write.
        within(DROPPED_OUTPUT, || {
            has_ended() || {
                terminal::drop_output();
                false
            }
        });
        terminal::restore_at_once();
    }
    // A thread that is still held ends with this process.
    if has_ended() { drawn.join().ok() } else { None }
}

/// Waits until the condition holds; false: it does not hold after this time.
fn within(time: Duration, holds: impl Fn() -> bool) -> bool {
    let length_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let until = clock::now().0.saturating_add(length_ns);
    while !holds() {
        if clock::now().0 >= until {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}

/// Refuses terminals on which nothing can be drawn, or on which a program writes as well.
fn check_terminal(has_program: bool) -> Result<(), CliError> {
    let is_shared =
        io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
    if has_program && is_shared {
        return Err(CliError::Usage(
            "top and the program would use the same terminal: redirect the program's input and output \
             (iotrace-perf top -- ./app < /dev/null > app.out 2>&1), or print tables (--once, -I 1s)"
                .into(),
        ));
    }
    if !has_program && !io::stdout().is_terminal() {
        return Err(CliError::Usage(
            "standard output is no terminal: print tables with --once or -I 1s, or lines with --json or --csv".into(),
        ));
    }
    if let Err(error) = terminal::tty() {
        return Err(CliError::Usage(format!(
            "there is no terminal to draw on ({error}): print tables with --once or -I 1s"
        )));
    }
    if std::env::var_os("TERM").is_none_or(|kind| kind.is_empty() || kind == "dumb") {
        return Err(CliError::Usage(
            "TERM names no terminal on which top can draw: print tables with --once or -I 1s"
                .into(),
        ));
    }
    Ok(())
}

/// Begins again with the names of all files. Returns only if that fails: a process that has begun a
/// recording has given up the capabilities to open another one, and gets them by executing.
fn again(view: TopView) -> CliError {
    let mut own: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Directly after the subcommand: words after `--` are a program's.
    let place = own.len().min(1);
    let options = ["--all-names", "--screen", "--view", view.as_str()].map(OsString::from);
    own.splice(place..place, options);
    let mut command = Command::new(own_program());
    command.args(own);
    CliError::Usage(format!("cannot begin again with --all-names: {}", command.exec()))
}

/// Returns the path of this program: its own, so that its name stays, unless there is another file
/// by now.
fn own_program() -> PathBuf {
    let running = PathBuf::from("/proc/self/exe");
    let file = |path: &Path| path.metadata().map(|facts| (facts.dev(), facts.ino())).ok();
    let path = std::env::current_exe().ok();
    path.filter(|path| file(path).is_some() && file(path) == file(&running)).unwrap_or(running)
}

/// A recording, and the thread that follows it.
struct FollowedRecording {
    recorded: Result<recording::Recorded, CliError>,
    follower: Option<JoinHandle<Result<Summary, CliError>>>,
    /// True if the rest of the log was not read.
    is_cut: bool,
}

impl FollowedRecording {
    /// Records until the end.
    fn start<F>(
        target: &CaptureArgs,
        ended: &LogCompletion,
        follower: IntervalFollower<F>,
    ) -> Result<Self, CliError>
    where
        F: FnMut(&TopModel) -> io::Result<()> + Send + 'static,
    {
        Self::start_with(target, ended, follower, || Ok(()))
    }

    /// Records until the end; `also` starts another thread.
    fn start_with<F>(
        target: &CaptureArgs,
        ended: &LogCompletion,
        follower: IntervalFollower<F>,
        also: impl FnOnce() -> io::Result<()>,
    ) -> Result<Self, CliError>
    where
        F: FnMut(&TopModel) -> io::Result<()> + Send + 'static,
    {
        let (log, place) = private_log()?;
        let failed = |source| CliError::Open { path: place.path.clone(), source };
        let written = log.try_clone().map_err(failed)?;
        let input = TailingReader::open(&place.path, Some(written), ended).map_err(failed)?;
        let mut thread = None;
        let create = |_: &Path| {
            // The program has been forked by now: before that, there must be one thread.
            let builder = std::thread::Builder::new().name("iotrace-top".into());
            thread = Some(builder.spawn(move || follower.follow(input))?);
            also()?;
            log.try_clone()
        };
        let recorded = recording::capture(target, |_| Ok(place), create);
        ended.set();
        Ok(Self { recorded, follower: thread, is_cut: false })
    }

    /// Waits for the follower to read the rest of the log; after this time it is not read.
    fn settle(&mut self, ended: &LogCompletion, time: Duration) {
        let Some(follower) = &self.follower else { return };
        if !within(time, || follower.is_finished()) {
            ended.give_up();
            self.is_cut = true;
        }
    }

    /// Ends as the program did.
    fn end(self) -> Result<ExitCode, CliError> {
        let followed = self.follower.map(|follower| match &self.recorded {
            Ok(recorded) => recorded.result_of(follower),
            Err(_) => follower.join().unwrap_or(Err(CliError::Interrupted)),
        });
        let mut recorded = self.recorded?;
        match followed {
            Some(Ok(summary)) => {
                incomplete_line(&missing(&summary)).iter().for_each(|line| print_error(line));
            }
            // The reader of the output has closed it.
            Some(Err(CliError::BrokenPipe)) | None => {}
            Some(Err(_)) if recorded.is_interrupted() => {}
            Some(Err(_)) if self.is_cut => print_line(
                "the last operations were not read any more: losses among them are not known",
            ),
            Some(Err(error)) => {
                recorded.check::<()>(Err(error));
            }
        }
        if recorded.outcome.running.is_some() {
            print_line("the program runs on; its end is awaited");
        }
        recorded.end()
    }

    /// Ends the recording without a message.
    fn discard(self) {
        if let Some(follower) = self.follower {
            let _ = follower.join();
        }
        if let Ok(recorded) = self.recorded {
            recorded.discard();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if the end of the screen waits until all of a long log has been read.
    #[test]
    fn rest_of_a_long_log_is_not_read() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), vec![7; 1 << 16]).expect("there is room");
        let ended = LogCompletion::default();
        ended.set();
        let mut input = TailingReader::open(file.path(), None, &ended).expect("it is there");
        // A reader that would need ten minutes.
        let follower = std::thread::spawn(move || {
            while io::Read::read(&mut input, &mut [0]).map_err(CliError::Output)? > 0 {
                std::thread::sleep(LOOK);
            }
            Ok(Summary::default())
        });
        let recorded = Err(CliError::Interrupted);
        let mut running = FollowedRecording { recorded, follower: Some(follower), is_cut: false };
        running.settle(&ended, LOOK);
        assert!(running.is_cut);
        let follower = running.follower.take().expect("it was given");
        assert!(matches!(follower.join().expect("it does not panic"), Err(CliError::Output(_))));
    }
}
