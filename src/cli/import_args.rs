//! Arguments of `iotrace-perf import`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use crate::import::CsvColumns;

#[derive(Debug, ClapArgs)]
pub(super) struct ImportArgs {
    /// The log of another tool; `-`: standard input. The files of one trace of blktrace, or what
    /// their names begin with: `sda` for sda.blktrace.0, sda.blktrace.1, …
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// The capture log to write
    #[arg(short, long, value_name = "LOG.iocap")]
    pub(super) output: PathBuf,
    /// Rename an output that exists to NAME.old, then to NAME.old.2, …: nothing is deleted
    #[arg(long)]
    pub(super) force: bool,
    /// Format of the log [default: detected]
    #[arg(long, value_name = "FORMAT")]
    pub(super) from: Option<FromArg>,
    /// Columns of a CSV of block requests: time, latency, offset and size with their units, op,
    /// device, and - for others; as in time=us,device,op,offset=bytes,size=bytes,latency=us
    #[arg(long, value_name = "COLUMN[=UNIT],…")]
    pub(super) columns: Option<CsvColumns>,
}

/// Formats that can be imported.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum FromArg {
    /// Output of strace, at best with -f -ttt -T -y
    Strace,
    /// Capture logs of ioriot, or ioreplay as it was called (versions 1 to 4)
    Ioriot,
    /// Replay logs of ioriot, or ioreplay
    IoriotReplay,
    /// Logs that fio writes with `write_iolog`, and reads with `read_iolog` (versions 2 and 3)
    Fio,
    /// Binary traces of blktrace: the files of all CPUs, or what `blkparse -d` makes of them
    Blktrace,
    /// Text of blkparse in its default format
    Blkparse,
    /// Text of perf script, at best with -F +pid, or of the kernel's trace file
    PerfScript,
    /// Recordings of perf record with tracepoints of calls or block requests
    PerfData,
    /// CSV of block devices as MSR Cambridge's traces have it
    Msr,
    /// CSV of block devices in the format of the SPC
    Spc,
    /// CSV of block devices with --columns
    Csv,
    /// Text of darshan-dxt-parser
    Dxt,
}
