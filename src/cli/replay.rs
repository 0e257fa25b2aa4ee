//! `iotrace-perf replay`: what was captured, once more.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::error::CliError;
use super::replay_args::{
    ContentArg, EngineArg, LevelArg, OrderArg, PacingArg, PurgeArgs, ReplayArgs, ReplayVerb,
    RunArgs, SpeedArg,
};
use super::{analyse, replay_places, say, signals};
use crate::replay::file::{FileBefore, Fingerprint, Index, PlanReader};
use crate::replay::outcome::Outcome;
use crate::replayer::check;
use crate::replayer::contents::Contents;
use crate::replayer::manifest::{Place, State};
use crate::replayer::places::{AllPurged, Places, purge_all};
use crate::replayer::run::{self, Engine, Machine, Options, Order, Pacing, Replayed};
use crate::replayer::window::Window;
use crate::report;
use crate::report::replay_run::Run;
use crate::sys::again::Rules;
use crate::sys::user::{self, Identity};
use crate::sys::{caches, regular, sandbox};

/// It was done, and not everything came as it was to come.
pub(super) const MISMATCH: u8 = 1;

pub(super) fn run(args: &ReplayArgs) -> Result<ExitCode, CliError> {
    match &args.verb {
        ReplayVerb::Plan(args) => super::replay_plan::run(args),
        ReplayVerb::Init(args) => super::replay_init::run(args),
        ReplayVerb::Run(args) if args.in_place => super::replay_in_place::run(args),
        ReplayVerb::Run(args) => match (args.block.level, &args.root, &args.block.device) {
            (LevelArg::Block, _, Some(device)) => super::replay_block::run(args, device),
            (LevelArg::Call, Some(root), _) => match (&args.trace, args.rounds) {
                (Some(_), _) if args.engine == EngineArg::IoUring => Err(CliError::Usage(
                    "--trace compares the calls of a replay with the plan, and what an io_uring does is no call; try: --engine calls".into(),
                )),
                (Some(trace), _) => super::replay_trace::run(args, trace, root),
                (None, Some(rounds)) => super::replay_loop::run(args, rounds, root),
                (None, None) => again(args, root),
            },
            _ => {
                Err(CliError::Usage("--level block needs --device, and --level call --root".into()))
            }
        },
        ReplayVerb::Compare(args) => super::replay_trace::compare(args),
        ReplayVerb::Export(args) => super::replay_export::run(args),
        ReplayVerb::Purge(args) => remove(args),
    }
}

fn again(args: &RunArgs, root: &Path) -> Result<ExitCode, CliError> {
    let options = options(args);
    let to = analyse::output(args.print.to.as_deref(), false)?;
    let (reader, index) = open(&args.plan)?;
    check_window(options.window, index.span)?;
    let before = reader.files(&index).map_err(|error| damaged(&args.plan, &error))?;
    let plan = reader.fingerprint(&index).map_err(|error| damaged(&args.plan, &error))?;
    let mut places = Places::open(root).map_err(usage)?;
    let init = replay_places::init_command(&args.plan, root, &places);
    places.all().try_for_each(|place| check_place(place, plan, &init))?;
    if args.drop_caches {
        caches::drop_all().map_err(CliError::Usage)?;
    }
    let (directory, mounts) = (places.root().map_err(usage)?, places.mounts().map_err(usage)?);
    let user = replay_places::user(&places, &args.plan, root)?;
    let notes = replay_places::notes(&places, user.as_ref());
    let is_over = signals::flag().map_err(CliError::Output)?;
    let machine = Machine::new();
    if !sandbox::enter(&directory, &mounts, user.as_ref()).map_err(usage)?.is_mount {
        say(
            "nobody may mount here: devices in the replay's directory, if somebody puts any there, can be opened",
        );
    }
    check_files(&before, &init)?;
    run::check(options.engine).map_err(usage)?;
    places.set(State::Running).map_err(usage)?;
    user.as_ref().map_or(Ok(()), Identity::begin).map_err(usage)?;
    let replayed = all((reader, index), options, machine, &is_over);
    user::end().map_err(usage)?;
    let told = replayed.and_then(|replayed| tell(args, &options, &replayed, notes, to));
    // Also of one that failed: it may have made some.
    let kept = places.list_what_is_there().and_then(|()| places.set(State::Done));
    if let Err(it) = kept {
        // The disk may be full. What has the state of a replay at work is removed without a list.
        say(&format!(
            "what the replay has left could not be listed ({it}); purge removes all that is in its directory"
        ));
    }
    told
}

/// All operations, and how far they are on a terminal.
pub(super) fn all(
    (reader, index): (PlanReader, Index),
    options: Options,
    machine: Machine,
    is_over: &AtomicBool,
) -> Result<Replayed, CliError> {
    let template = "{bar:40} {pos}/{len} operations {per_sec} {elapsed}";
    let bar = bar(report::replay_run::planned(&index), template);
    let mut go_on = |done| {
        bar.set_position(done);
        // ORDERING: only a flag.
        !is_over.load(Ordering::Relaxed)
    };
    let replayed = run::run(reader, index, options, machine, &mut go_on);
    bar.finish_and_clear();
    replayed.map_err(usage)
}

/// It has to be ready, and for this plan; `init`: what makes it so.
fn check_place(place: &Place, plan: Fingerprint, init: &str) -> Result<(), CliError> {
    if place.state != State::Ready {
        return Err(CliError::Usage(format!(
            "the replay's files are not as they have to be before the first operation ({}); make them again: {init}",
            place.state.as_str()
        )));
    }
    if place.tree_file().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Err(CliError::Usage(format!(
            "the replay's files are gone from {}: a purge has not come to its end; make them again: {init}",
            place.directory().display()
        )));
    }
    if place.plan == Some(plan) {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "the replay's files were made for another plan, and may be other ones than this one needs; make them for this one: {init}"
    )))
}

/// What is there has to be what was made.
fn check_files(before: &[FileBefore], init: &str) -> Result<(), CliError> {
    match check::changed(Path::new("/"), before).map_err(usage)? {
        None => Ok(()),
        Some(it) => {
            let first = if it.in_the_way > 0 { "remove what init has not made, and " } else { "" };
            Err(CliError::Usage(format!(
                "somebody has changed the files of the replay ({it}); {first}make them again: {init}"
            )))
        }
    }
}

pub(super) fn tell(
    args: &RunArgs,
    options: &Options,
    replayed: &Replayed,
    notes: Vec<String>,
    to: Box<dyn io::Write + Send>,
) -> Result<ExitCode, CliError> {
    let Replayed { index, names, comparison, is_stopped, not_given, too_few, most, rings, .. } =
        replayed;
    let expected = options.pacing != Pacing::Max;
    let run = Run {
        index,
        comparison,
        names,
        expected_span: expected.then(|| options.scaled(comparison.captured_span())),
        is_stopped: *is_stopped,
        until: options.window.until,
        threads: (*most, replayed.cpus),
        rings: (options.engine != Engine::Calls).then_some(*rings),
    };
    let mut report = report::replay_run::report(&run, analyse::limit(&args.print));
    report.notes.extend(notes);
    for (path, source) in not_given {
        let note = format!("{} was open before and could not be opened: {source}", path.display());
        report.notes.push(note);
    }
    if let Some((needed, may_have)) = too_few {
        report.notes.push(format!(
            "{needed} files may have to be open at once and {may_have} may be: some opens may have failed by that; try: ulimit -n {needed}"
        ));
    }
    if analyse::is_brief(&args.print, args.details) {
        report = report::replay_brief::brief(&run, &report);
    }
    analyse::print(&report, analyse::form(&args.print), to)?;
    let is_bad = comparison.count(Outcome::is_mismatch) > args.max_mismatch
        || !report::replay_run::is_whole(&run);
    Ok(if is_bad { ExitCode::from(MISMATCH) } else { ExitCode::SUCCESS })
}

fn remove(args: &PurgeArgs) -> Result<ExitCode, CliError> {
    let AllPurged { purged, absent } = purge_all(&args.root).map_err(usage)?;
    say(&format!("removed {} files and directories", purged.removed));
    for it in &absent {
        say(&format!(
            "{0} has nothing of this replay; if it is on a disk that is not mounted: iotrace-perf replay purge --root {0}",
            it.display()
        ));
    }
    for (path, source) in &purged.left {
        say(&format!("left {}: {source}", path.display()));
    }
    Ok(if purged.left.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(MISMATCH) })
}

pub(super) fn open(path: &Path) -> Result<(PlanReader, Index), CliError> {
    let file = regular::open_named(path)
        .map_err(|source| CliError::Open { path: path.to_owned(), source })?;
    PlanReader::new(file).map_err(|error| damaged(path, &error))
}

pub(super) fn damaged(path: &Path, what: &crate::replay::file::PlanError) -> CliError {
    CliError::Log { path: path.to_owned(), message: what.to_string() }
}

pub(super) fn usage(what: impl std::fmt::Display) -> CliError {
    CliError::Usage(what.to_string())
}

pub(super) fn options(args: &RunArgs) -> Options {
    let (pacing, speed) = match (args.speed, args.pacing) {
        (SpeedArg::Max, _) | (_, PacingArg::Max) => (Pacing::Max, 1.0),
        (SpeedArg::Times(speed), PacingArg::Open) => (Pacing::Open, speed),
        (SpeedArg::Times(speed), PacingArg::Closed) => (Pacing::Closed, speed),
    };
    let order = match args.order {
        OrderArg::Total => Order::Total,
        OrderArg::Deps => Order::Dependencies,
        OrderArg::Thread => Order::Thread,
        OrderArg::None => Order::None,
    };
    let engine = match args.engine {
        EngineArg::Calls => Engine::Calls,
        EngineArg::IoUring => Engine::IoUring(Rules::new()),
    };
    let [from, until] = [args.from, args.until]
        .map(|time| time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
    let window = Window { from, until };
    let contents = contents(args.content);
    Options { order, pacing, speed, engine, contents, window, ends_at_names: false }
}

/// There has to be something in it.
pub(super) fn check_window(window: Window, span: u64) -> Result<(), CliError> {
    let from = window.from.unwrap_or(0);
    let until = window.until.unwrap_or(span).min(span);
    if window.from.is_none() || from < until {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "nothing is left between --from and the end: what is to be done ends {:?} after the first operation began",
        Duration::from_nanos(until)
    )))
}

pub(super) fn contents(arg: ContentArg) -> Contents {
    match arg {
        ContentArg::Sparse => Contents::Sparse,
        ContentArg::Zero => Contents::Zero,
        ContentArg::Random(seed) => Contents::Random(seed),
        ContentArg::Compressible(percent) => Contents::Compressible(0, percent),
    }
}

/// How far something is, on a terminal.
pub(super) fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
