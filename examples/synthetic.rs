//! Writes a capture log of a machine or length that is not available for tests:
//!
//! ```text
//! cargo run --release --example synthetic -- --cpus 256 --threads 10000 --processes 100 \
//!     --records 10000000 -o big.iocap
//! ```
//!
//! The exact contents are printed, for a comparison with `iotrace-perf info big.iocap`.

use std::error::Error;
use std::fs::File;
use std::path::PathBuf;

use clap::Parser;

#[path = "../tests/support/synthetic/mod.rs"]
mod synthetic;

use synthetic::Shape;

#[derive(Parser)]
struct Arguments {
    /// CPUs of the machine
    #[arg(long, default_value_t = Shape::default().cpus)]
    cpus: u32,
    /// Threads, all at the same time
    #[arg(long, default_value_t = Shape::default().threads)]
    threads: u32,
    /// Processes that they belong to
    #[arg(long, default_value_t = Shape::default().processes)]
    processes: u32,
    /// Records in the log, about
    #[arg(long, default_value_t = Shape::default().records)]
    records: u64,
    /// Records of the whole machine in a second, about
    #[arg(long, default_value_t = Shape::default().records_per_second)]
    records_per_second: u64,
    /// Files of each process
    #[arg(long, default_value_t = Shape::default().files)]
    files: u64,
    /// Only open, read and close
    #[arg(long)]
    opens: bool,
    /// Another one gives another capture
    #[arg(long, default_value_t = Shape::default().seed)]
    seed: u64,
    /// The log; must not exist
    #[arg(short, long)]
    output: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let Arguments { cpus, threads, processes, records, records_per_second, .. } = arguments;
    let Arguments { files, opens, seed, output, .. } = arguments;
    let late_disks = false;
    let shape = Shape {
        cpus,
        threads,
        processes,
        records,
        records_per_second,
        files,
        opens,
        late_disks,
        seed,
    };
    let truth = synthetic::write(&shape, File::create_new(output)?)?;
    #[expect(clippy::print_stdout, reason = "that is what it is for")]
    {
        println!("{truth:#?}");
    }
    Ok(())
}
