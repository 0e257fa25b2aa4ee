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
use std::fs::{self, File};
use std::path::PathBuf;

use clap::Parser;
use iotrace_perf::capture::format::FrameKind;
use iotrace_perf::capture::header::{Header, JobPlace};
use iotrace_perf::capture::reader::{Item, Reader, json};
use iotrace_perf::capture::writer::Writer;
use iotrace_perf::units::KernelTime;

/// Length of the beginning of a log, bytes.
const MAGIC_BYTES: usize = 16;
/// Length of the header of a frame, bytes.
const FRAME_HEADER_BYTES: usize = 52;

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
    let bytes = fs::read(&arguments.log)?;
    fs::create_dir(&arguments.output)?;
    for rank in 0..arguments.ranks {
        let host = rank * arguments.hosts / arguments.ranks;
        let name = format!("rank{rank:05}.iocap");
        let file = File::create_new(arguments.output.join(name))?;
        copy(&bytes, file, |header| {
            header.host.hostname = format!("node{host:04}");
            // Hosts started at different times, so their own clocks differ.
            let shift = host * 1_000_000_000;
            header.clock.start_realtime_ns += shift + rank;
            let size = Some(arguments.ranks);
            header.job = Some(JobPlace { rank: Some(rank), size, ..JobPlace::default() });
        })?;
    }
    Ok(())
}

/// Copies a recording with another header.
fn copy(bytes: &[u8], file: File, change: impl Fn(&mut Header)) -> Result<(), Box<dyn Error>> {
    let mut reader = Reader::new(bytes)?;
    let mut writer = Writer::new(file)?;
    let mut offset = MAGIC_BYTES;
    while let Some(item) = reader.next_item()? {
        let Item::Frame(frame, payload) = item else { return Err("the log is damaged".into()) };
        let end = offset + FRAME_HEADER_BYTES + frame.stored_bytes as usize;
        let stored = bytes.get(offset..end).ok_or("the log is not complete")?;
        offset = end;
        match json::<Header>(&frame, &payload, FrameKind::HEADER) {
            Some(header) => {
                let mut header = header?;
                change(&mut header);
                writer.json(FrameKind::HEADER, KernelTime(frame.first_time), &header)?;
            }
            None => writer.frames(stored)?,
        }
    }
    Ok(())
}
