//! Opening of a recording: events from the chosen source, probes for names, for layers and for
//! asynchronous operations.

use super::call_counter::CallCounter;
use super::environment::Environment;
use super::error::TracerError;
use super::layers::Layers;
use super::name_source::NameSource;
use super::name_source_selection::{self, Naming};
use super::options::{Follow, Options};
use super::probes::Probes;
use super::source::{self, OpenedSource, RingSizes};
use super::source_selection::{SourceChoice, SourceOption, choose};
use super::tracepoint_plan::{self, CallChainRequest, PlanRequest, SourceKind};
use super::uprobes::aio::AioProbes;
use super::{inherited_source, perf_source, tracefs_source};
use crate::capture::header::Host;
use crate::sys::cancellation::Cancellation;
use crate::sys::instance_pool::{self, FreeInstances};
use crate::sys::perf::Functions;
use crate::sys::socket;
use crate::sys::tracefs::Tracefs;
use crate::units::Pid;

/// All probes of a recording.
pub(super) struct AllProbes {
    /// Probes that report names, if they are the source of names.
    pub naming: Naming,
    /// Probes that report layers, if wanted.
    pub layers: Option<Layers>,
    /// Probes that record asynchronous operations.
    pub aio: AioProbes,
}

/// Opened events, the chosen source, and the probes.
pub(super) type OpenedEvents = (OpenedSource, SourceChoice, AllProbes);

/// Environment in which events are opened.
#[derive(Clone, Copy)]
pub(super) struct OpeningContext<'a> {
    /// The machine.
    pub host: &'a Host,
    /// Followed processes; empty for the whole system.
    pub followed: &'a [Pid],
    /// Name of the tracer's own threads.
    pub own_name: &'a str,
    /// Tracefs, which describes the tracepoints.
    pub tracefs: &'a Tracefs,
    /// Sizes of the rings.
    pub sizes: RingSizes,
}

/// Opens all events from the best available source, or from the requested one.
///
/// # Errors
///
/// [`TracerError`]; all that was opened is closed in that case.
pub(super) fn open_events(
    options: &Options,
    context: OpeningContext<'_>,
    warnings: &mut Vec<String>,
    cancellation: &mut Cancellation<'_>,
) -> Result<OpenedEvents, TracerError> {
    // Stale instances are removed whatever the source: their rings hold memory, and may be written
    // to. Where there are no instances there is nothing to remove.
    let _ = instance_pool::remove_stale(context.tracefs, FreeInstances::Keep);
    socket::remove_left();
    warnings.extend(options.group_warning(context.followed.len()));
    let choice = choose(options.source, context.tracefs).map_err(TracerError::Source)?;
    let mut open = |source: SourceKind, warnings: &mut Vec<String>| {
        open_from(source, options, context, warnings, cancellation)
    };
    let mut source_warnings = Vec::new();
    let ((opened, probes), choice) = match open(choice.source, &mut source_warnings) {
        // Memory for another set of rings, or a kernel that forbids instances: only trying shows
        // that.
        Err(why)
            if choice.source == SourceKind::Tracefs && options.source == SourceOption::Auto =>
        {
            let source = SourceKind::Perf;
            source_warnings.clear();
            let reason = match why {
                TracerError::Instance(error) => error.to_string(),
                // The failure has another cause than the source.
                TracerError::Names(_) | TracerError::Interrupted(_) => return Err(why),
                other => other.to_string(),
            };
            (open(source, &mut source_warnings)?, SourceChoice { source, reason })
        }
        opened => (opened?, choice),
    };
    warnings.append(&mut source_warnings);
    Ok((opened, choice, probes))
}

/// Warning if arguments in memory are wanted, and cannot be read in time.
const NO_PRIORITY: &str = "no real-time priority (SCHED_FIFO), so memory that arguments point to is not read; run as root outside of a \
     container without CAP_SYS_NICE";

/// Opens all events from this source.
fn open_from(
    source: SourceKind,
    options: &Options,
    context: OpeningContext<'_>,
    warnings: &mut Vec<String>,
    cancellation: &mut Cancellation<'_>,
) -> Result<(OpenedSource, AllProbes), TracerError> {
    let OpeningContext { host, followed, own_name, tracefs, sizes } = context;
    let (machine, calls) = (host.machine.as_str(), options.calls.as_slice());
    let (follow, command, recalls) = (&options.follow, options.command.as_slice(), true);
    let ground =
        Environment { tracefs, source, machine, own_name, calls, follow, command, recalls };
    let naming = name_source_selection::choose(options.names, ground, warnings, cancellation);
    if let Some(signal) = cancellation.ended_by() {
        return Err(TracerError::Interrupted(signal));
    }
    let naming = naming.map_err(TracerError::Names)?;
    let layers = options.layers.then(|| Layers::find(tracefs, source));
    let aio = AioProbes::find(ground, naming.names, cancellation);
    if let Some(signal) = cancellation.ended_by() {
        return Err(TracerError::Interrupted(signal));
    }
    let of_layers = layers.iter().flat_map(Layers::tracepoints);
    let probes = naming.probes.iter().flat_map(Probes::tracepoints).chain(of_layers);
    let owned = |(group, name): (&str, &str)| (group.to_owned(), name.to_owned());
    let probes: Vec<_> = probes.chain(aio.tracepoints()).map(owned).collect();
    let wanted = PlanRequest {
        calls,
        machine,
        own_name,
        names_ring: naming.names.has_ring(),
        links: naming.names.links(),
        listens: naming.names.listens(),
        lists: naming.names.reads(),
        pairs: naming.names.reads_pairs(),
        exact_args: options.reads_exact_args(),
        programs: naming.names != NameSource::Off,
        accounting: matches!(options.follow, Follow::Launched) && !options.records_all_processes(),
        block: options.block,
        extents: options.extents,
        devices: &options.devices,
        uring: options.uring,
        layers: layers.as_ref().map(Layers::has_probes),
        chains: CallChainRequest {
            bios: options.chains.is_some(),
            calls: options.chains.is_some_and(|it| it.calls),
        },
        faults: options.faults.then(|| source::fault_point(tracefs)),
        source,
        system: options.records_all_processes(),
        excludes: !options.excluded.is_empty(),
        probes: &probes,
    };
    let planned = tracepoint_plan::plan(&wanted);
    let described = source::describe(planned, tracefs, options.is_default, warnings)?;
    let functions = options.chains.map_or(Functions::default(), |it| it.functions);
    let mut opened = match source {
        SourceKind::Perf => perf_source::open(described, &host.cpus, sizes, functions, warnings)?,
        SourceKind::Inherited => {
            inherited_source::open(described, &host.cpus, sizes, followed, options, warnings)?
        }
        SourceKind::Tracefs => {
            let (cpus, names) = (&host.cpus, naming.names);
            let counter =
                options.counts_calls().then(|| CallCounter::open(tracefs, calls)).flatten();
            tracefs_source::open(described, tracefs, cpus, sizes, names, functions, counter)?
        }
    };
    if options.exact_args && !options.reads_exact_args() {
        warnings.push(NO_PRIORITY.to_owned());
    }
    if naming.names == NameSource::Event && !options.reads_exact_args() {
        // The entries carry the paths, so no reader is needed.
        let rings = opened.names.drain(..).flat_map(|rings| [Some(rings.waking), rings.entries]);
        opened.drained.extend(rings.flatten());
    }
    Ok((opened, AllProbes { naming, layers, aio }))
}
