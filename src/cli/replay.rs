//! `iotrace-perf replay`: what was captured, once more.

use std::convert::Infallible;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Seek};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::error::CliError;
use super::pick::Wish;
use super::replay_args::{
    ContentArg, InitArgs, LevelArg, OrderArg, PacingArg, PlanArgs, PurgeArgs, ReplayArgs,
    ReplayVerb, RunArgs, SpeedArg,
};
use super::{analyse, exit_lines, replay_places, say, signals};
use crate::replay::file::{
    FileBefore, FileKind, Fingerprint, Index, PlanReader, PlanWriter, finish,
};
use crate::replay::outcome::Outcome;
use crate::replay::planned::Planned;
use crate::replay::planner::{Linked, Out, Planner};
use crate::replayer::contents::Contents;
use crate::replayer::manifest::{Place, State};
use crate::replayer::places::{AllPurged, Places, purge_all};
use crate::replayer::run::{self, Machine, Options, Order, Pacing, Replayed};
use crate::replayer::window::Window;
use crate::replayer::{check, init};
use crate::report;
use crate::report::replay_run::Run;
use crate::sys::{caches, sandbox};

/// It was done, and not everything came as it was to come.
pub(super) const MISMATCH: u8 = 1;

/// Operations that nobody wants to have.
struct Nowhere;

impl Out for Nowhere {
    type Error = Infallible;

    fn planned(&mut self, _: &Planned) -> Result<(), Infallible> {
        Ok(())
    }
}

pub(super) fn run(args: &ReplayArgs) -> Result<ExitCode, CliError> {
    match &args.verb {
        ReplayVerb::Plan(args) => plan(args),
        ReplayVerb::Init(args) => make(args),
        ReplayVerb::Run(args) => match (args.block.level, &args.root, &args.block.device) {
            (LevelArg::Block, _, Some(device)) => super::replay_block::run(args, device),
            (LevelArg::Call, Some(root), _) => match (&args.trace, args.rounds) {
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

fn plan(args: &PlanArgs) -> Result<ExitCode, CliError> {
    let Some(path) = args.output.as_ref().filter(|_| !args.dry_run) else {
        return planned(args, || Ok(Nowhere), |_| Ok(()));
    };
    let failed = |source| CliError::Create { path: path.clone(), source };
    let mut file = analyse::new_file(path)?;
    let unfinished = Unfinished(Some(path));
    let writer = || {
        let from_start = file.set_len(0).and_then(|()| file.rewind());
        let writer = from_start.and_then(|()| PlanWriter::new(BufWriter::new(file.try_clone()?)));
        writer.map_err(failed)
    };
    planned(args, writer, |planner| {
        finish(planner).map_err(failed)?;
        unfinished.finish();
        Ok(())
    })
}

/// Plans, once more if there are links of which the first plan did not know; `out` begins anew each time, `end` is told of the last one.
fn planned<O: Out<Error: Display>>(
    args: &PlanArgs,
    mut out: impl FnMut() -> Result<O, CliError>,
    end: impl FnOnce(Planner<O>) -> Result<(), CliError>,
) -> Result<ExitCode, CliError> {
    let args = &args.analyse;
    // What cannot be is said before anything is recorded.
    let wish = Wish::of(&args.filter)?.on(args);
    let to = analyse::output(args.print.to.as_deref(), !args.capture.command.is_empty())?;
    analyse::on_log(args, |log, go_on| {
        let (first, converted) = analyse::fold_log(log, Linked::new(out()?), wish.clone(), go_on)?;
        let links = first.links();
        let (planner, converted) = if links.is_empty() {
            (first.planner, converted)
        } else {
            drop(first);
            analyse::fold_log(log, Planner::new(out()?).knowing(&links), wish, go_on)?
        };
        let limit = analyse::limit(&args.print);
        let mut report = report::replay::report(&planner, &converted.summary, limit);
        end(planner)?;
        report.notes.extend(exit_lines::notes(&converted));
        analyse::print(&report, analyse::form(&args.print), to)
    })
}

/// A file that goes if nobody says that it is whole.
struct Unfinished<'a>(Option<&'a Path>);

impl Unfinished<'_> {
    fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // Whoever reads what stays is told that it is not whole.
        let _ = self.0.map(std::fs::remove_file);
    }
}

fn make(args: &InitArgs) -> Result<ExitCode, CliError> {
    let (reader, index) = open(&args.plan)?;
    let before = reader.files(&index).map_err(|it| damaged(&args.plan, &it))?;
    let plan = reader.fingerprint(&index).map_err(|it| damaged(&args.plan, &it))?;
    let mut places = replay_places::make(args, plan, &before)?;
    let files = before.iter().filter(|it| it.kind == FileKind::File);
    let bytes = files.fold(0_u64, |sum, it| sum.saturating_add(it.size));
    let bar = bar(bytes, "{bar:40} {bytes}/{total_bytes} {bytes_per_sec}");
    let made = init::init(&mut places, &before, contents(args.content), &mut |it| bar.inc(it));
    bar.finish_and_clear();
    let init::Made { directories, files, names, links, bytes } = made.map_err(usage)?;
    say(&format!(
        "made {directories} directories, {files} files with {bytes} bytes, {names} more names of these and {links} symbolic links in {}; \
         now: iotrace-perf replay run {} --root {}",
        args.root.display(),
        args.plan.display(),
        args.root.display()
    ));
    for it in index.given.iter().filter(|it| before.iter().all(|file| file.path != it.path)) {
        say(&format!("{} was open before, and is not made", String::from_utf8_lossy(&it.path)));
    }
    Ok(ExitCode::SUCCESS)
}

fn again(args: &RunArgs, root: &Path) -> Result<ExitCode, CliError> {
    let options = options(args);
    let to = analyse::output(args.print.to.as_deref(), false)?;
    let (reader, index) = open(&args.plan)?;
    check_window(options.window, index.span)?;
    let before = reader.files(&index).map_err(|it| damaged(&args.plan, &it))?;
    let plan = reader.fingerprint(&index).map_err(|it| damaged(&args.plan, &it))?;
    let mut places = Places::open(root).map_err(usage)?;
    let init = replay_places::init_command(&args.plan, root, &places);
    places.all().try_for_each(|it| check_place(it, plan, &init))?;
    if args.drop_caches {
        caches::drop_all().map_err(CliError::Usage)?;
    }
    let (tree, mounts) = (places.tree(), places.mounts().map_err(usage)?);
    let notes = replay_places::notes(&places);
    let is_over = signals::flag().map_err(CliError::Output)?;
    let machine = Machine::new();
    if !sandbox::enter(&tree, &mounts).map_err(usage)?.is_mount {
        say(
            "nobody may mount here: devices in the replay's directory, if somebody puts any there, can be opened",
        );
    }
    check_files(&before, &init)?;
    places.set(State::Running).map_err(usage)?;
    let template = "{bar:40} {pos}/{len} operations {per_sec} {elapsed}";
    let bar = bar(report::replay_run::planned(&index), template);
    let mut go_on = |done| {
        bar.set_position(done);
        // ORDERING: only a flag.
        !is_over.load(Ordering::Relaxed)
    };
    let replayed = run::run(reader, index, options, machine, &mut go_on);
    bar.finish_and_clear();
    let told = replayed.map_err(usage).and_then(|it| tell(args, &options, &it, notes, to));
    // Also of one that failed: it may have made some.
    places.list_what_is_there().map_err(usage)?;
    places.set(State::Done).map_err(usage)?;
    told
}

/// It has to be ready, and for this plan; `init`: what makes it so.
fn check_place(place: &Place, plan: Fingerprint, init: &str) -> Result<(), CliError> {
    if place.state != State::Ready {
        return Err(CliError::Usage(format!(
            "the replay's files are not as they have to be before the first operation ({}); make them again: {init}",
            place.state.as_str()
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

fn tell(
    args: &RunArgs,
    options: &Options,
    replayed: &Replayed,
    notes: Vec<String>,
    to: Box<dyn io::Write + Send>,
) -> Result<ExitCode, CliError> {
    let Replayed { index, names, comparison, is_stopped, not_given, too_few, most, cpus } =
        replayed;
    let expected = options.pacing != Pacing::Max;
    let run = Run {
        index,
        comparison,
        names,
        expected_span: expected.then(|| options.scaled(comparison.captured_span())),
        is_stopped: *is_stopped,
        until: options.window.until,
        threads: (*most, *cpus),
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
    let file =
        File::open(path).map_err(|source| CliError::Open { path: path.to_owned(), source })?;
    PlanReader::new(file).map_err(|it| damaged(path, &it))
}

pub(super) fn damaged(path: &Path, what: &crate::replay::file::PlanError) -> CliError {
    CliError::Log { path: path.to_owned(), message: what.to_string() }
}

fn usage(what: impl std::fmt::Display) -> CliError {
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
    let [from, until] = [args.from, args.until]
        .map(|it| it.map(|it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX)));
    let window = Window { from, until };
    Options { order, pacing, speed, contents: contents(args.content), window }
}

/// There has to be something in it.
fn check_window(window: Window, span: u64) -> Result<(), CliError> {
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

fn contents(arg: ContentArg) -> Contents {
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
