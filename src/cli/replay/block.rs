//! `iotrace-perf replay run LOG --level block`: the requests to one device, issued again to another
//! one.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use super::super::convert::{InputLog, open};
use super::super::error::CliError;
use super::super::exit_code::MISMATCH;
use super::super::{analyse, report_output, signals, summary_lines};
use super::args::{OrderArg, RunArgs};
use super::common::options;
use crate::operation::disk;
use crate::pipeline;
use crate::replay::block_comparison::BlockComparison;
use crate::replay::execute::block;
use crate::replay::execute::options::Pacing;
use crate::replay::plan::block::{Allowed, BlockPlan, BlockRequests, CapturedRequests};
use crate::replay::plan::plan_file::FILE_MAGIC;
use crate::report;
use crate::report::replay_block::BlockRun;
use crate::sys::regular;
use crate::sys::replay::block_device::BlockTarget;
use crate::text::quantity::counted;
use crate::units::DevId;

pub(super) fn run(args: &RunArgs, device: &Path) -> Result<ExitCode, CliError> {
    let options = options(args);
    if args.order != OrderArg::Deps {
        return Err(CliError::Usage(
            "--order is for system calls; of block requests, --pacing open begins each at its time, closed and max each after the requests that it \
             followed"
                .into(),
        ));
    }
    if is_plan(&args.plan) {
        return Err(CliError::Usage(format!(
            "{} is a plan, which has system calls only; block requests are in the capture log (.iocap)",
            args.plan.display()
        )));
    }
    let to = report_output::output(args.print.to.as_deref(), false)?;
    let target = BlockTarget::open(device, args.block.write).map_err(usage)?;
    let CapturedDevice { requests, dev, name } = captured(args)?;
    let allowed = Allowed { writes: args.block.write, discards: args.block.discard };
    let plan = BlockPlan::new(requests, allowed).map_err(|error| {
        usage(format!("{error} requests are more than a replay has numbers for"))
    })?;
    if plan.all.is_empty() {
        let left: u64 = plan.left.values().sum();
        return Err(usage(format!(
            "no requests to replay on {}: {} of {name} skipped{}",
            target.path.display(),
            counted(left, "request"),
            if args.block.write { "" } else { ", and writes need --write" }
        )));
    }
    block::check(&plan, target.size, target.block).map_err(usage)?;
    let is_over = signals::flag().map_err(CliError::Output)?;
    // ORDERING: only a flag.
    let go_on = &mut || !is_over.load(Ordering::Relaxed);
    let replayed = block::run(&plan, &target, options, go_on).map_err(usage)?;
    let comparison = BlockComparison::new(&plan, replayed.got);
    // Otherwise the rate depends on the device.
    let expected = options.pacing == Pacing::Open;
    let run = BlockRun {
        plan: &plan,
        comparison: &comparison,
        from: (dev, &name),
        to: (target.dev, &target.path),
        expected_span: expected.then(|| options.scaled(plan.span)),
        is_stopped: replayed.is_stopped,
        threads: (replayed.threads, block::THREADS_MAX),
        cpus: replayed.cpus,
        is_open: options.pacing == Pacing::Open,
    };
    let report = report::replay_block::report(&run, analyse::limit(&args.print));
    analyse::print(report, &args.print, to)?;
    let is_bad = comparison.mismatched() > args.max_mismatch || !run.is_whole();
    Ok(if is_bad { ExitCode::from(MISMATCH) } else { ExitCode::SUCCESS })
}

fn usage(what: impl std::fmt::Display) -> CliError {
    CliError::Usage(what.to_string())
}

fn is_plan(path: &Path) -> bool {
    let mut magic = [0; FILE_MAGIC.len()];
    regular::open_named(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == FILE_MAGIC
}

/// A device of the capture.
struct CapturedDevice {
    requests: CapturedRequests,
    dev: DevId,
    name: String,
}

/// Requests to the selected device.
fn captured(args: &RunArgs) -> Result<CapturedDevice, CliError> {
    let path = &args.plan;
    let InputLog { items, header, .. } = open(path, false)?;
    let names: BTreeMap<DevId, String> = disk::names(&header.disks).into_iter().collect();
    let mut sink = BlockRequests::default();
    let summary = pipeline::run_threaded(items, header, &mut sink, &mut || true)
        .map_err(|error| CliError::pipeline(path, &error))?;
    summary_lines::print_doubts(&summary);
    let called = |dev: &DevId| names.get(dev).cloned().unwrap_or_else(|| dev.to_string());
    let shown = |(dev, requests): (&DevId, &CapturedRequests)| {
        format!("{} ({dev}): {} requests", called(dev), requests.all.len())
    };
    let list = sink.devices.iter().map(shown).collect::<Vec<_>>().join("; ");
    let dev = match &args.block.from_device {
        Some(word) => {
            let bare = word.strip_prefix("/dev/").unwrap_or(word);
            let is_meant = |device: &&DevId| called(device) == bare || device.to_string() == bare;
            let found = sink.devices.keys().find(is_meant).copied();
            found.ok_or_else(|| {
                let has = match list.as_str() {
                    "" => "no block requests at all; record them with -e block",
                    list => list,
                };
                usage(format!("the log has no requests of {word}; it has {has}"))
            })
        }
        None => match sink.devices.len() {
            0 => Err(usage("the log has no block requests; record them with -e block".to_owned())),
            1 => Ok(sink.devices.keys().copied().next().unwrap_or_default()),
            _ => Err(usage(format!(
                "the log has requests of several devices: {list}; choose one with --from-device"
            ))),
        },
    }?;
    let requests = sink.devices.remove(&dev).unwrap_or_default();
    Ok(CapturedDevice { requests, dev, name: called(&dev) })
}
