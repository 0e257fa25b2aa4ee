//! Arguments of `merge`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Arguments of `merge`.
#[derive(Debug, ClapArgs)]
pub(super) struct MergeArgs {
    /// The recordings: logs, directories of one recording, directories with several, or an index
    #[arg(required = true, value_name = "LOG")]
    pub(super) logs: Vec<PathBuf>,
    /// NAME.otf2, an archive; NAME.html, a page about the job; or DIR/, with the slash, for an
    /// index of the job that other subcommands take in place of a log
    #[arg(short, long, required = true, value_name = "NAME.otf2|NAME.html|DIR/")]
    pub(super) output: OsString,
    /// Rename an output that exists to NAME.old, then to NAME.old.2, …: nothing is deleted
    #[arg(long)]
    pub(super) force: bool,
    /// Move the times of a host by this much, if its wall clock was wrong by a known time:
    /// node7=+12.3ms if it was 12.3 ms behind, node8=-40us if it was ahead. Can be given several
    /// times
    #[arg(long, value_name = "HOST=TIME", value_parser = parse_clock_offset)]
    pub(super) clock_offset: Vec<ClockOffset>,
    /// Take the clocks of hosts from these comparisons by messages (`iotrace-perf clocks`) instead
    /// of their wall clocks: a directory or a file. Can be given several times
    #[arg(long, value_name = "DIR")]
    pub(super) clocks: Vec<PathBuf>,
}

/// Correction of the times of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClockOffset {
    pub(super) host: String,
    pub(super) ns: i64,
}

/// Units of a time: nanoseconds in each. A unit comes before those that end like it.
const UNITS: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

/// Largest correction, ns: a century. Larger ones would not fit into the times of an archive.
const OFFSET_NS_MAX: f64 = 3.2e18;

/// Parses `node7=+12.3ms`.
fn parse_clock_offset(text: &str) -> Result<ClockOffset, String> {
    let wanted = || "a host and a time with its unit are needed: node7=+12.3ms".to_owned();
    let (host, time) = text.rsplit_once('=').ok_or_else(wanted)?;
    let unit = UNITS.iter().find(|(unit, _)| time.ends_with(unit)).ok_or_else(wanted)?;
    let number = time.strip_suffix(unit.0).unwrap_or(time);
    let is_plain = |letter: char| letter.is_ascii_digit() || "+-.".contains(letter);
    let number: f64 = match number.chars().all(is_plain) {
        true => number.parse().map_err(|_| wanted())?,
        false => return Err(wanted()),
    };
    let ns = (number * unit.1).round();
    if host.is_empty() {
        return Err(wanted());
    }
    if ns.abs() > OFFSET_NS_MAX {
        return Err("a correction is at most a century".to_owned());
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    let ns = ns as i64;
    Ok(ClockOffset { host: host.to_owned(), ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_have_a_host_a_sign_and_a_unit() {
        for (text, host, ns) in [
            ("node7=+12.3ms", "node7", 12_300_000),
            ("node7=-40us", "node7", -40_000),
            ("a=b=2s", "a=b", 2_000_000_000),
            ("n=5ns", "n", 5),
            ("n=5µs", "n", 5000),
        ] {
            assert_eq!(parse_clock_offset(text), Ok(ClockOffset { host: host.into(), ns }));
        }
        for text in ["", "node7", "=1ms", "n=1", "n=ms", "n=1e3ms", "n=1 ms", "n=infs", "n=+-1ms"] {
            assert!(
                parse_clock_offset(text).is_err_and(|error| error.contains("node7=")),
                "{text}"
            );
        }
        assert!(parse_clock_offset("n=9999999999999999s").is_err());
    }
}
