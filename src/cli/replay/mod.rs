//! `iotrace-perf replay`: one module for each of its subcommands.

pub(super) mod args;
mod block;
mod common;
mod dirs;
mod export;
mod in_place;
mod init;
mod plan;
mod purge;
mod rounds;
mod run;
mod trace;

use std::process::ExitCode;

use self::args::{EngineArg, LevelArg, ReplayArgs, ReplayVerb};
use super::error::CliError;

/// Runs the subcommand.
pub(super) fn run(args: &ReplayArgs) -> Result<ExitCode, CliError> {
    match &args.verb {
        ReplayVerb::Plan(args) => plan::run(args),
        ReplayVerb::Init(args) => init::run(args),
        ReplayVerb::Run(args) if args.in_place => in_place::run(args),
        ReplayVerb::Run(args) => match (args.block.level, &args.root, &args.block.device) {
            (LevelArg::Block, _, Some(device)) => block::run(args, device),
            (LevelArg::Call, Some(root), _) => match (&args.trace, args.rounds) {
                (Some(_), _) if args.engine == EngineArg::IoUring => Err(CliError::Usage(
                    "--trace compares the calls of a replay with the plan, and io_uring operations are not calls; try: --engine calls".into(),
                )),
                (Some(trace), _) => trace::run(args, trace, root),
                (None, Some(rounds)) => rounds::run(args, rounds, root),
                (None, None) => run::run(args, root),
            },
            (LevelArg::Call, _, Some(_)) => Err(CliError::Usage(
                "--device is for the block requests of a log: add --level block".into(),
            )),
            _ => Err(CliError::Usage("--level block needs --device DEVICE".into())),
        },
        ReplayVerb::Compare(args) => trace::compare(args),
        ReplayVerb::Export(args) => export::run(args),
        ReplayVerb::Purge(args) => purge::run(args),
    }
}
