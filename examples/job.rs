//! Makes the recordings of a job from one recording, for measurements of `merge`:
//!
//! ```text
//! iotrace-perf -o dd.iocap --no-archive -- dd if=/dev/zero of=/dev/null count=500000
//! cargo run --release --example job -- dd.iocap --hosts 64 --ranks 512 -o job/
//! iotrace-perf merge job/*.iocap -o job.otf2
//! ```
//!
//! Each copy has another host, rank, boot and start; its records are those of the recording.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use clap::Parser;
use iotrace_perf::capture::header::JobPlace;

#[path = "../tests/support/log_copy.rs"]
mod log_copy;

use log_copy::copy_with_header;

#[derive(Parser)]
struct Arguments {
    /// The recording that is copied
    log: PathBuf,
    /// Hosts of the job
    #[arg(long, default_value_t = 1)]
    hosts: u64,
    /// Ranks, in blocks on the hosts
    #[arg(long)]
    ranks: u64,
    /// The directory of the recordings; must not exist
    #[arg(short, long)]
    output: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    fs::create_dir(&arguments.output)?;
    for rank in 0..arguments.ranks {
        let host = rank * arguments.hosts / arguments.ranks;
        let name = format!("rank{rank:05}.iocap");
        copy_with_header(&arguments.log, &arguments.output.join(name), |header| {
            header.host.hostname = format!("node{host:04}");
            // Hosts started at different times, so their own clocks differ.
            let shift = host * 1_000_000_000;
            header.clock.start_realtime_ns += shift + rank;
            let size = Some(arguments.ranks);
            header.job = Some(JobPlace { rank: Some(rank), size, ..JobPlace::default() });
        });
    }
    Ok(())
}
