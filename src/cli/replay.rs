//! `iotrace-perf replay`: what was captured, once more.

use std::convert::Infallible;
use std::process::ExitCode;

use super::analyse;
use super::args::{ReplayArgs, ReplayVerb};
use super::error::CliError;
use crate::replay::planned::Planned;
use crate::replay::planner::{Out, Planner};
use crate::report;

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
        ReplayVerb::Plan(args) => {
            analyse::run(args, || Planner::new(Nowhere), report::replay::report)
        }
    }
}
