//! One recording: options, traced program, signals, and how it ends.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::JoinHandle;

use super::args::{ArgsArg, CaptureArgs, NamesArg, SourceArg, StacksArg};
use super::error::CliError;
use super::events::{EventSelection, wanted_events};
use super::exit_code;
use super::message::{print_error, print_line};
use super::signals::Signals;
use super::tailing_reader::LogCompletion;
use super::user_arg;
use crate::sys::cancellation::{Cancellation, Interrupts, Launched};
use crate::sys::output_dir::Users;
use crate::sys::perf::{Functions, Unwind};
use crate::sys::spawn::Running;
use crate::sys::{capabilities, clock, cpu_topology, disks, files, rlimits, spawn};
use crate::text::quantity::{counted, counted_with};
use crate::tracer::error::TracerError;
use crate::tracer::name_source::{NameSource, NameSourceOption};
use crate::tracer::node_ranks::NodeRanks;
use crate::tracer::options::{CallChainOptions, Follow, Options};
use crate::tracer::session::{self, RecordingOutcome};
use crate::tracer::source_selection::SourceOption;
use crate::tracer::thread_placement::ThreadPlacement;
use crate::tracer::tracepoint_plan::SourceKind;
use crate::units::DevId;

/// Location of a new log.
pub(super) struct LogPlace {
    /// Path by which the log is opened.
    pub(super) path: PathBuf,
    /// Path that messages show.
    pub(super) shown: String,
}

/// A recording that has ended.
pub(super) struct Recorded {
    pub(super) outcome: RecordingOutcome,
    signals: Signals,
    /// Path by which the log is opened.
    pub(super) log: PathBuf,
    /// Path that messages show.
    pub(super) shown: PathBuf,
    /// True if an error was already reported.
    failed: bool,
    /// True if the log could not be written completely.
    is_log_short: bool,
    /// Signal that cancelled the work on the log.
    interrupted: Option<i32>,
}

/// Records into a log that `create` makes at `place`.
pub(super) fn capture(
    args: &CaptureArgs,
    place: impl FnOnce(&Users) -> Result<LogPlace, CliError>,
    create: impl FnOnce(&Path) -> io::Result<File>,
) -> Result<Recorded, CliError> {
    capture_node(args, None, place, create)
}

/// Records into a log, with ranks of a parallel job that wait until the recording is on.
pub(super) fn capture_node(
    args: &CaptureArgs,
    ranks: Option<NodeRanks>,
    place: impl FnOnce(&Users) -> Result<LogPlace, CliError>,
    create: impl FnOnce(&Path) -> io::Result<File>,
) -> Result<Recorded, CliError> {
    let options = Options { node: ranks.as_ref().map(NodeRanks::joined), ..options(args)? };
    let mut gone = args.pid.iter().filter(|pid| !Path::new(&format!("/proc/{pid}")).exists());
    if let Some(gone) = gone.next().filter(|_| args.of_group.is_none()) {
        return Err(TracerError::NoProcess(*gone).into());
    }
    let user = args.as_user.as_deref();
    let user =
        user.map(|word| user_arg::named("--as-user", word, "start a program")).transpose()?;
    let LogPlace { path, shown } = place(&Users::with_program(user.as_ref()))?;
    // First of all, while there is one thread, with the caller's limits and signals.
    let held = match args.command.as_slice() {
        [] => None,
        command => Some(
            spawn::hold(command, user.as_ref())
                .map_err(|source| CliError::Usage(format!("cannot fork: {source}")))?,
        ),
    };
    files::keep_private();
    if let Err(error) = capabilities::keep_for_recording() {
        print_line(&format!(
            "warning: cannot give up the capabilities that are not needed: {error}"
        ));
    }
    let mut signals = Signals::new().map_err(CliError::Output)?;
    let log = match create(&path) {
        Ok(log) => log,
        Err(source) => {
            if let Some(held) = held {
                held.abandon();
            }
            return Err(CliError::Create { path: shown.into(), source });
        }
    };
    let mut late_ranks = None;
    let started = || {
        late_ranks = ranks.map(NodeRanks::release);
        greet(args, &shown);
    };
    let outcome = session::record(&options, &shown, log, held, &mut signals, started)
        .map_err(|error| CliError::of_recording(error, args.duration))?;
    drop(late_ranks);
    for warning in &outcome.end.warnings {
        print_line(&format!("warning: {warning}"));
    }
    if let Some(error) = &outcome.log_error {
        print_error(&format!(
            "error: cannot write {shown}: {error}; {} missing at the end, the rest is readable; {}",
            counted_with(outcome.end.unwritten, "record", ["is", "are"]),
            rlimits::of_write(error)
                .unwrap_or_else(|| "free some space or choose another place with -o".into())
        ));
    }
    if let Some(error) = &outcome.sync_error {
        print_error(&format!(
            "error: cannot flush the log {shown} to the disk: {error}; the log may be incomplete after a power loss; choose another \
             disk with -o"
        ));
    }
    let is_log_short = outcome.log_error.is_some() || outcome.sync_error.is_some();
    Ok(Recorded {
        outcome,
        signals,
        log: path,
        shown: shown.into(),
        failed: is_log_short,
        is_log_short,
        interrupted: None,
    })
}

impl Recorded {
    /// Processes the log until a signal stops it; prints errors.
    pub(super) fn work<T>(
        &mut self,
        with: impl FnOnce(&Path, &mut dyn FnMut() -> bool) -> Result<T, CliError>,
        if_interrupted: &str,
    ) -> Option<T> {
        let program = self.outcome.running.as_ref().map(Launched::from);
        let mut patience = Cancellation::new(&mut self.signals, program);
        let before = self.interrupted.or(self.outcome.interrupted);
        let result = match before {
            Some(_) => Err(CliError::Interrupted),
            None => with(&self.log, &mut || !patience.is_cancelled()),
        };
        if !matches!(result, Err(CliError::Interrupted)) {
            return self.check(result);
        }
        print_line(&format!("interrupted: {if_interrupted}"));
        self.interrupted = before.or(patience.ended_by());
        None
    }

    /// Waits for the reader of the log; a signal ends it early.
    pub(super) fn wait_for<T>(&mut self, reader: &JoinHandle<T>, ended: &LogCompletion) {
        let program = self.outcome.running.as_ref().map(Launched::from);
        let mut patience = Cancellation::new(&mut self.signals, program);
        // The signal may have come before, during the work at the end.
        let before = self.outcome.interrupted.filter(|_| !reader.is_finished());
        while before.is_none() && !reader.is_finished() && !patience.is_cancelled() {
            spawn::wait_readable(patience.fd(), READER_MS);
        }
        self.interrupted = before.or(patience.ended_by());
        if self.interrupted.is_some() {
            ended.give_up();
            print_line("interrupted: the output is incomplete");
            // Output that the reader holds is dropped after a second without progress.
            let until = clock::now().0.saturating_add(HELD_UP_NS);
            while !reader.is_finished() && clock::now().0 < until {
                spawn::wait_readable(self.signals.fd(), READER_MS);
            }
        }
    }

    /// Waits until a screen is closed after the recording, unless a signal has come or comes.
    pub(super) fn linger<T>(&mut self, screen: &JoinHandle<T>) {
        while self.signals.last().is_none() && !screen.is_finished() {
            spawn::wait_readable(self.signals.fd(), READER_MS);
            self.signals.take();
        }
    }

    /// Result of a reader of the log; `Interrupted` if its output is blocked and a signal ended the
    /// run.
    pub(super) fn result_of<T>(
        &self,
        reader: JoinHandle<Result<T, CliError>>,
    ) -> Result<T, CliError> {
        if self.is_interrupted() && !reader.is_finished() {
            return Err(CliError::Interrupted);
        }
        reader.join().unwrap_or(Err(CliError::Interrupted))
    }

    /// True if a signal cancelled the work; it was reported.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.is_some()
    }

    /// Reports an error of other work. It decides how this process ends, unless a program's status
    /// does.
    pub(super) fn check<T>(&mut self, result: Result<T, CliError>) -> Option<T> {
        let is_interrupted = self.is_interrupted();
        let success = result.map_err(|error| {
            if !is_interrupted {
                self.failed = true;
                print_error(&format!("error: {error}"));
            }
        });
        success.ok()
    }

    /// Ends without a message.
    pub(super) fn discard(self) {
        let _ = self.outcome.closing.map(JoinHandle::join);
    }

    /// Ends as the program did; without one, and if work was cancelled, by the signal.
    pub(super) fn end(mut self) -> Result<ExitCode, CliError> {
        let _ = self.outcome.closing.map(JoinHandle::join);
        let ended = match self.outcome.running {
            Some(program) => Some(wait_for(program, &mut self.signals)?),
            None => self.outcome.ended,
        };
        if let (None, Some(signal)) = (&ended, self.interrupted) {
            spawn::die_by(signal);
        }
        Ok(match ended {
            Some(spawn::ProgramEnd::Killed(signal)) => spawn::die_by(signal),
            // A short log must not end as a success.
            Some(spawn::ProgramEnd::Exited(0)) if self.is_log_short => {
                ExitCode::from(exit_code::FAILURE)
            }
            Some(spawn::ProgramEnd::Exited(code)) => {
                ExitCode::from(u8::try_from(code & 0xff).unwrap_or(u8::MAX))
            }
            None if self.failed => ExitCode::from(exit_code::FAILURE),
            None => ExitCode::SUCCESS,
        })
    }
}

/// Waits for a program that outlived its recording; signals to this process are forwarded
/// meanwhile.
fn wait_for(program: Running, signals: &mut Signals) -> Result<spawn::ProgramEnd, CliError> {
    loop {
        if program.has_ended().map_err(CliError::Output)? {
            return program.reap().map_err(CliError::Output);
        }
        spawn::wait_readable(signals.fd(), WAIT_MS);
        signals.take().iter().for_each(|signal| signal.forward(Launched::from(&program)));
    }
}

/// Time for a reader to write its pending output after a signal, ns.
const HELD_UP_NS: u64 = 1_000_000_000;

/// Interval of the checks whether a reader of the log has ended, ms.
const READER_MS: u16 = 10;

/// Interval of the checks on a program that outlived its recording, ms.
const WAIT_MS: u16 = 50;

fn options(args: &CaptureArgs) -> Result<Options, CliError> {
    let follow = match (args.all_cpus, args.pid.as_slice(), args.command.is_empty()) {
        (true, ..) => Follow::System,
        (false, [], false) => Follow::Launched,
        (false, [], true) => {
            return Err(CliError::Usage(
                "nothing to record: give a program (iotrace-perf -- ./app), a process (-p PID), a control group (-G NAME) or the \
                 whole machine (-a)"
                    .into(),
            ));
        }
        (false, pids, _) => Follow::Attached(pids.to_vec()),
    };
    let EventSelection { calls, block, extents, uring, layers, faults } =
        wanted_events(&args.events)?;
    let (devices, chains) = (devices(&args.device)?, chains(&args.stacks, args.call_graph)?);
    check_machine(args)?;
    if !block && (args.all_block || !devices.is_empty()) {
        let text = "-d and --all-block are about block requests: add `block` to -e";
        return Err(CliError::Usage(text.into()));
    }
    if !args.excluded.is_empty() && args.stacks.contains(&StacksArg::Calls) {
        return Err(CliError::Usage(
            "--exclude-pid does not leave out the stacks of system calls: leave out `calls` of --stacks, or --exclude-pid"
                .into(),
        ));
    }
    if !block && chains.is_some_and(|chain| !chain.calls) {
        return Err(CliError::Usage(
            "--stacks is about block requests, and with `calls` about system calls: add `block` to -e, or `calls` to --stacks"
                .into(),
        ));
    }
    Ok(Options {
        follow,
        follows_children: !args.target.no_follow && args.threads.is_empty(),
        threads: args.threads.clone(),
        excluded: args.excluded.clone(),
        calls: calls.into_iter().collect(),
        is_default: args.events.is_empty(),
        block,
        extents,
        devices,
        all_block: args.all_block,
        uring,
        layers,
        faults,
        chains,
        names: name_source(args.names),
        exact_args: args.args == ArgsArg::Exact,
        leaves_nothing: args.leaves_nothing,
        source: match args.source {
            SourceArg::Auto => SourceOption::Auto,
            SourceArg::Perf => SourceOption::Only(SourceKind::Perf),
            SourceArg::Tracefs => SourceOption::Only(SourceKind::Tracefs),
            SourceArg::Inherited => SourceOption::Only(SourceKind::Inherited),
        },
        place: ThreadPlacement {
            cpus: args.tracer_cpus.clone().map_or_else(Vec::new, |cpus| cpus.0),
            realtime: args.realtime.map(i32::from),
        },
        ring_bytes: args.buffer_size,
        duration: args.duration,
        log_bytes_max: args.max_log,
        operations_max: args.target.max_operations,
        group: args.of_group.clone(),
        keep_foreign: args.keep_foreign,
        segments: args.segments.clone(),
        node: None,
        command: args.command.iter().map(escaped).collect(),
    })
}

/// Returns the source of names that an argument names.
fn name_source(names: NamesArg) -> NameSourceOption {
    match names {
        NamesArg::Auto => NameSourceOption::Auto,
        NamesArg::Cheap => NameSourceOption::Cheap,
        NamesArg::Kprobe => NameSourceOption::Only(NameSource::Kprobe),
        NamesArg::UprobeFanotify => NameSourceOption::Only(NameSource::UprobeFanotify),
        NamesArg::Uprobe => NameSourceOption::Only(NameSource::Uprobe),
        NamesArg::Reader => NameSourceOption::Only(NameSource::Reader),
        NamesArg::Fanotify => NameSourceOption::Only(NameSource::Fanotify),
        NamesArg::Event => NameSourceOption::Only(NameSource::Event),
        NamesArg::Links => NameSourceOption::Only(NameSource::Links),
        NamesArg::Snapshot => NameSourceOption::Only(NameSource::Snapshot),
        NamesArg::Off => NameSourceOption::Only(NameSource::Off),
    }
}

/// Refuses CPUs that this machine does not have, and a source that cannot have the whole machine.
fn check_machine(args: &CaptureArgs) -> Result<(), CliError> {
    if args.source == SourceArg::Inherited && args.all_cpus {
        return Err(CliError::Usage(
            "--source inherited follows a program or processes, not the whole machine: leave out -a"
                .into(),
        ));
    }
    let online = cpu_topology::online_cpus();
    let wanted = args.tracer_cpus.iter().flat_map(|cpus| &cpus.0);
    match wanted.into_iter().find(|cpu| !online.contains(cpu)) {
        Some(cpu) => Err(CliError::Usage(format!(
            "--tracer-cpus: there is no CPU {cpu}; the last one is {}",
            online.iter().max().copied().unwrap_or_default()
        ))),
        None => Ok(()),
    }
}

/// Parses `--stacks`. Call chains of system calls have only the program's functions.
fn chains(wanted: &[StacksArg], unwind: Unwind) -> Result<Option<CallChainOptions>, CliError> {
    let has = |part| wanted.contains(&part);
    let calls = has(StacksArg::Calls);
    let user = (has(StacksArg::User) || calls).then_some(unwind);
    if unwind != Unwind::FramePointers {
        if user.is_none() {
            return Err(CliError::Usage(
                "--call-graph needs call chains of programs: add --stacks user, or stacks -U"
                    .into(),
            ));
        }
        if std::env::consts::ARCH != "x86_64" {
            return Err(CliError::Usage("--call-graph dwarf: only on x86-64 so far".into()));
        }
    }
    let functions = Functions { kernel: has(StacksArg::Kernel), user };
    Ok((!wanted.is_empty()).then_some(CallChainOptions { functions, calls }))
}

/// Refuses `--stacks` for subcommands that print operations while they happen: functions are
/// resolved at the end.
pub(super) fn refuse_stacks(args: &CaptureArgs) -> Result<(), CliError> {
    if args.stacks.is_empty() {
        return Ok(());
    }
    let why = "--stacks: no stacks are shown here; record, then `iotrace-perf stacks LOG`";
    Err(CliError::Usage(why.into()))
}

/// Disks that `-d` names, each once.
fn devices(words: &[String]) -> Result<Vec<DevId>, CliError> {
    let found = words.iter().map(|word| disks::find(word));
    let mut found =
        found.collect::<Result<Vec<_>, _>>().map_err(|error| CliError::Usage(error.to_string()))?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// An argument for the header; bytes that are not UTF-8 as `\xNN`.
fn escaped(argument: &OsString) -> String {
    use std::os::unix::ffi::OsStrExt;
    match argument.to_str() {
        Some(text) => text.to_owned(),
        None => argument.as_bytes().escape_ascii().to_string(),
    }
}

/// Reports what is recorded and how to stop, where no other output does.
fn greet(args: &CaptureArgs, log: &str) {
    if args.command.is_empty() && args.duration.is_none() && !args.is_silent {
        let numbers = |ids: &[i32]| ids.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
        let scope = match (&args.of_group, args.pid.as_slice(), args.threads.as_slice()) {
            (_, [], _) => "the whole machine".to_owned(),
            (Some(group), pids, _) => {
                format!("{} of {group}", counted(pids.len() as u64, "process"))
            }
            (None, pids, []) => format!("process {}", numbers(pids)),
            (None, pids, tids) => {
                format!("thread {} of process {}", numbers(tids), numbers(pids))
            }
        };
        print_line(&format!("recording {scope} to {log}; stop with Ctrl-C"));
    }
}
