//! `iotrace-perf what-if`: the recorded I/O with another amount of memory, or on another device.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::analyse::run_filtered;
use super::args::AnalyseArgs;
use super::error::CliError;
use super::filter_args::FilterSpec;
use super::values::{parse_bytes, parse_limit, parse_rounds};
use crate::analysis::what_if::{DeviceWish, WhatIf};
use crate::capture::header::Header;
use crate::pipeline::Summary;
use crate::report::what_if::{WhatIfOptions, report};
use crate::text::direct_flag;

/// Arguments of `what-if`.
#[derive(Debug, ClapArgs)]
pub(super) struct WhatIfArgs {
    #[command(flatten)]
    pub(super) analyse: AnalyseArgs,
    /// Memory of the page cache (64M, 1G), several with commas [default: powers of two up to all
    /// pages]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_memory, help_heading = "What if")]
    pub(super) memory: Vec<u64>,
    /// Read-ahead of the page cache (0, 128K, 1M), several with commas: what it reads from the disk
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_read_ahead, help_heading = "What if")]
    pub(super) read_ahead: Vec<u64>,
    /// Time of each request on another device (100us, 8ms) [default: the median of the recording,
    /// where a number of requests is given]
    #[arg(long, value_name = "TIME", value_parser = parse_limit, help_heading = "What if")]
    pub(super) device_latency: Option<Duration>,
    /// Requests that another device serves at once [default: 32, where a time is given]
    #[arg(long, value_name = "N", value_parser = parse_rounds, help_heading = "What if")]
    pub(super) device_depth: Option<std::num::NonZeroU32>,
}

/// Smallest memory of a page cache that is predicted.
const MEMORY_BYTES_MIN: u64 = 16 << 10;

/// Parses an amount of memory.
fn parse_memory(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        bytes if bytes < MEMORY_BYTES_MIN => Err("a page cache has at least 16K".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Largest read-ahead that is predicted.
const READ_AHEAD_BYTES_MAX: u64 = 1 << 30;

/// Parses a read-ahead: a number of kilobytes, as `read_ahead_kb` has it.
fn parse_read_ahead(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        bytes if bytes > READ_AHEAD_BYTES_MAX => Err("a read-ahead has at most 1G".to_owned()),
        bytes if bytes % 1024 != 0 => Err("a read-ahead has whole kilobytes (K)".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Predicts hit rates, read-ahead, and times of requests.
pub(super) fn run(args: &WhatIfArgs) -> Result<ExitCode, CliError> {
    let wish = FilterSpec::of(&args.analyse.filter)?.on(&args.analyse);
    let latency = args.device_latency.map(|latency| latency.as_nanos());
    let device = DeviceWish {
        latency_ns: latency.map(|latency| u64::try_from(latency).unwrap_or(u64::MAX)),
        depth: args.device_depth.map(std::num::NonZeroU32::get),
    };
    let options = WhatIfOptions {
        has_sizes: !args.memory.is_empty(),
        device: Some(device).filter(|device| *device != DeviceWish::default()),
    };
    let fold = |header: &Header| {
        let direct_flag = direct_flag(&header.host.machine);
        WhatIf::new(header, direct_flag, &args.memory, &args.read_ahead)
    };
    run_filtered(&args.analyse, wish, fold, |fold: &WhatIf, summary: &Summary, _| {
        report(fold, summary, options)
    })
}
