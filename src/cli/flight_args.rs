//! Arguments of a recording that keeps only the last part of its log, or keeps it in several.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::values::{parse_bytes, parse_duration, parse_limit, parse_log_size};
use crate::analysis::trigger::Trigger;

/// Recorder with a ring, and rotation of logs.
#[derive(Debug, Default, ClapArgs)]
pub(super) struct FlightArgs {
    /// Keep only the last part of the log, in memory: a time, a size, or both (30s, 512M). A
    /// trigger, SIGUSR2 and `ctl dump` write what the ring holds to a log of its own [default size:
    /// 512M]
    #[arg(long, value_name = "TIME|SIZE", value_parser = parse_ring, help_heading = "Ring")]
    pub(super) ring: Vec<RingArg>,
    /// Write the ring when this happens: CALL>TIME, %GROUP>TIME, device.await>TIME,
    /// device.request>TIME, lost>N, or a statistic of a window: p99(read,10s)>50ms, max, mean,
    /// count. Can be given several times
    #[arg(long, value_name = "CONDITION", value_parser = parse_trigger, requires = "ring", help_heading = "Ring")]
    pub(super) trigger: Vec<Trigger>,
    /// Time that is recorded after a trigger, before the ring is written [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "ring", help_heading = "Ring")]
    pub(super) after: Option<Duration>,
    /// Number of incidents that triggers may write; later ones are counted. Those by hand are
    /// always written [default: 20]
    #[arg(long, value_name = "N", requires = "ring", help_heading = "Ring")]
    pub(super) max_incidents: Option<u64>,
    /// Keep the ring in a file without a name in this directory, not in memory
    #[arg(long, value_name = "DIR", requires = "ring", help_heading = "Ring")]
    pub(super) ring_dir: Option<PathBuf>,
    /// Begin a new log when the current one has this size; each can be read on its own
    #[arg(long, value_name = "SIZE", value_parser = parse_log_size, conflicts_with = "ring", help_heading = "Rotation")]
    pub(super) rotate: Option<u64>,
    /// Number of logs that are kept with --rotate; older ones are removed [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "rotate", help_heading = "Rotation")]
    pub(super) keep: Option<u64>,
}

/// Limit of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingArg {
    Time(Duration),
    Size(u64),
}

/// Smallest size of a ring: less than a round of a busy machine would be no use.
const RING_BYTES_MIN: u64 = 1 << 20;

/// Parses `30s`, `10m`, `512M`, `2G`.
fn parse_ring(text: &str) -> Result<RingArg, String> {
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    match unit {
        "" => Err("a ring needs a unit: a time such as 30s, or a size such as 512M".to_owned()),
        "ms" | "s" | "m" | "min" | "h" => match parse_limit(text)? {
            time if time < Duration::from_secs(1) => Err("a ring holds at least 1s".to_owned()),
            time => Ok(RingArg::Time(time)),
        },
        _ => match parse_bytes(text) {
            Ok(bytes) if bytes < RING_BYTES_MIN => Err("a ring has at least 1M".to_owned()),
            Ok(bytes) => Ok(RingArg::Size(bytes)),
            Err(_) => Err(format!(
                "{text} is neither a time nor a size: write a time such as 30s, or a size such as 512M"
            )),
        },
    }
}

fn parse_trigger(text: &str) -> Result<Trigger, String> {
    Trigger::parse(text).map_err(|error| error.to_string())
}

impl FlightArgs {
    /// Returns true if the recording keeps no single log.
    pub(super) fn is_wanted(&self) -> bool {
        !self.ring.is_empty() || self.rotate.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_is_a_time_or_a_size() {
        assert_eq!(parse_ring("30s"), Ok(RingArg::Time(Duration::from_secs(30))));
        assert_eq!(parse_ring("2m"), Ok(RingArg::Time(Duration::from_secs(120))));
        assert_eq!(parse_ring("512M"), Ok(RingArg::Size(512 << 20)));
        assert_eq!(parse_ring("2G"), Ok(RingArg::Size(2 << 30)));
        for wrong in ["30", "100ms", "10K", "soon", "-3s", ""] {
            assert!(parse_ring(wrong).is_err(), "{wrong}");
        }
    }
}
