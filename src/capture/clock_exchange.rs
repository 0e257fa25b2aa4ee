//! Clocks of two hosts, compared by messages: files of `clocks`, one for each host and comparison.
//!
//! ```text
//!   clock of the host        t1 ●──────╮          ╭──────● t4
//!                                       ╲        ╱
//!   clock of the reference            t2 ●──────● t3
//! ```
//!
//! A message takes some time, and none arrives before it was sent: the clock of the reference less
//! that of the host is at most t2 − t1, and at least t3 − t4. How the delay is divided over both
//! ways does not matter. The exchange with the smallest delay says most.

use serde::{Deserialize, Serialize};

use super::wall_clock::ClockReading;
use crate::units::KernelTime;

/// Name of the format, in each file.
pub const FORMAT: &str = "iotrace-perf clocks";

/// Version of the format.
pub const VERSION: u32 = 1;

/// Number of exchanges that a file keeps.
pub const KEPT: usize = 16;

/// Largest difference of the rates of two clocks, in parts of 1,000,000,000: an assumption. Each
/// oscillator is within 100 ppm of the truth, and no daemon slews the clock by more.
pub const RATE_PPB: u64 = 200_000;

/// Comparison of the clock of a host with that of the reference. This struct is the format: fields
/// are only ever added, and readers take a missing one for its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockFile {
    /// Name of the format: [`FORMAT`].
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Identifier of the comparison, the same for all of its hosts.
    pub run: String,
    /// Name of the clock: `CLOCK_MONOTONIC`, as in logs.
    pub clock: String,
    /// Host of the file.
    pub host: ClockedHost,
    /// Host with whose clock it was compared; that of the file in the reference's own file.
    pub reference: ClockedHost,
    /// Wall clock of the host, read before and after.
    pub wall: Vec<WallReading>,
    /// Number of exchanges that were made.
    pub exchanges: u64,
    /// Exchanges with the smallest delays, in their order.
    pub shortest: Vec<Exchange>,
}

/// Identity of a host, and of its boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockedHost {
    /// Output of `uname -n`.
    pub hostname: String,
    /// Output of `uname -r`.
    pub kernel_release: String,
    /// Output of `uname -v`.
    pub kernel_version: String,
    /// Output of `uname -m`.
    pub machine: String,
    /// Content of `/proc/sys/kernel/random/boot_id`; the clock begins anew with a boot.
    pub boot_id: String,
}

/// Both clocks of a host at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WallReading {
    /// Clock of the file, ns.
    pub time_ns: u64,
    /// `CLOCK_REALTIME`, ns since 1970.
    pub realtime_ns: u64,
}

/// Message to the reference and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Exchange {
    /// Clock of the host before it sent the message, ns.
    pub sent_ns: u64,
    /// Clock of the reference when it had the message, ns.
    pub received_ns: u64,
    /// Clock of the reference before it sent the answer, ns.
    pub answered_ns: u64,
    /// Clock of the host when it had the answer, ns.
    pub returned_ns: u64,
}

/// Clock of the reference less that of a host, at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetReading {
    /// Clock of the host.
    pub time: KernelTime,
    /// Clock of the reference less that of the host, ns.
    pub offset_ns: i128,
    /// Largest error of the offset, ns.
    pub bound_ns: u64,
}

impl Exchange {
    /// Returns the offset that the exchange shows; `None`: no two clocks have such readings.
    pub fn reading(&self) -> Option<OffsetReading> {
        if self.returned_ns < self.sent_ns || self.answered_ns < self.received_ns {
            return None;
        }
        let high = i128::from(self.received_ns) - i128::from(self.sent_ns);
        let low = i128::from(self.answered_ns) - i128::from(self.returned_ns);
        let delay_ns = u64::try_from(high - low).ok()?;
        let drift_ns = (self.returned_ns - self.sent_ns) / (1_000_000_000 / RATE_PPB);
        Some(OffsetReading {
            time: KernelTime(self.sent_ns.midpoint(self.returned_ns)),
            offset_ns: low + i128::from(delay_ns / 2),
            // The clocks drift while the messages are under way.
            bound_ns: delay_ns.div_ceil(2).saturating_add(drift_ns).saturating_add(1),
        })
    }
}

/// Returns the exchanges with the smallest delays, at most this many, in their order.
pub fn shortest(mut exchanges: Vec<Exchange>, kept: usize) -> Vec<Exchange> {
    let delay = |exchange: &Exchange| exchange.reading().map_or(u64::MAX, |found| found.bound_ns);
    exchanges.sort_by_key(delay);
    exchanges.truncate(kept);
    exchanges.sort_by_key(|exchange| exchange.sent_ns);
    exchanges
}

impl ClockFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Reason in words: the bytes are no such file, or one of a later version.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let no_file = || "it is no file of iotrace-perf clocks".to_owned();
        let file: Self = serde_json::from_slice(bytes).map_err(|_| no_file())?;
        if file.format != FORMAT {
            return Err(no_file());
        }
        if file.version > VERSION {
            let version = file.version;
            return Err(format!("its version {version} is newer than this iotrace-perf"));
        }
        let is_named = !file.host.hostname.is_empty() && !file.host.boot_id.is_empty();
        let is_compared = file.is_reference() || file.reading().is_some();
        if !is_named || !is_compared {
            return Err("it has no usable reading of a clock".to_owned());
        }
        Ok(file)
    }

    /// True if the file is that of the reference.
    pub fn is_reference(&self) -> bool {
        self.host == self.reference
    }

    /// Returns the offset that the exchange with the smallest delay shows.
    pub fn reading(&self) -> Option<OffsetReading> {
        let readings = self.shortest.iter().filter_map(Exchange::reading);
        readings.min_by_key(|reading| reading.bound_ns)
    }

    /// Returns the readings of the wall clock.
    pub fn wall_readings(&self) -> impl Iterator<Item = ClockReading> {
        let read = self.wall.iter().filter(|reading| reading.realtime_ns > 0);
        read.map(|reading| ClockReading {
            time: KernelTime(reading.time_ns),
            wall_ns: reading.realtime_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(sent_ns: u64, ways: [u64; 2], offset: i64) -> Exchange {
        let received_ns = (sent_ns + ways[0]).saturating_add_signed(offset);
        let answered_ns = received_ns + 700;
        let returned_ns = sent_ns + ways[0] + 700 + ways[1];
        Exchange { sent_ns, received_ns, answered_ns, returned_ns }
    }

    fn file(shortest: Vec<Exchange>) -> ClockFile {
        let host = |name: &str| ClockedHost {
            hostname: name.into(),
            boot_id: "b".into(),
            ..ClockedHost::default()
        };
        ClockFile {
            format: FORMAT.into(),
            version: VERSION,
            host: host("node2"),
            reference: host("node1"),
            shortest,
            ..ClockFile::default()
        }
    }

    #[test]
    fn offset_is_within_half_the_delay_however_the_delay_is_divided() {
        for offset in [0, 50_000_000, -50_000_000] {
            for ways in [[0, 0], [9_000, 9_000], [0, 9_001], [9_001, 0], [1, 2]] {
                let reading = exchange(80_000_000, ways, offset).reading().expect("a reading");
                let error = reading.offset_ns.abs_diff(offset.into());
                assert!(error <= reading.bound_ns.into(), "{ways:?}: {reading:?}");
                let expected = (ways[0] + ways[1]).div_ceil(2);
                assert!((expected..expected + 6).contains(&reading.bound_ns), "{reading:?}");
            }
        }
    }

    #[test]
    fn impossible_exchanges_show_nothing() {
        let good = exchange(5, [1, 1], 0);
        for bad in [
            Exchange { returned_ns: 4, ..good },
            Exchange { answered_ns: 0, ..good },
            Exchange { answered_ns: u64::MAX, ..good },
        ] {
            assert_eq!(bad.reading(), None, "{bad:?}");
        }
    }

    #[test]
    fn exchanges_with_the_smallest_delays_are_kept_in_their_order() {
        let made = |delays: &[u64]| -> Vec<Exchange> {
            let numbered = delays.iter().enumerate();
            numbered.map(|(at, delay)| exchange(at as u64 * 1000, [*delay, 0], 7)).collect()
        };
        let all = made(&[50, 3, 40, 2, 60, 9]);
        let kept = shortest(all.clone(), 3);
        assert_eq!(kept, [all[1], all[3], all[5]]);
        assert_eq!(file(kept).reading().map(|reading| reading.bound_ns), Some(2));
        assert_eq!(shortest(made(&[5]), 3).len(), 1);
    }

    #[test]
    fn files_that_are_none_are_refused_with_the_reason() {
        let good = file(vec![exchange(5, [1, 1], 0)]);
        let text = |file: &ClockFile| serde_json::to_vec(file).expect("memory");
        assert_eq!(ClockFile::parse(&text(&good)), Ok(good.clone()));
        let refused = |bytes: &[u8]| ClockFile::parse(bytes).expect_err("not usable");
        assert!(refused(b"{}").contains("no file of"));
        assert!(refused(b"\x00\xff").contains("no file of"));
        let later = ClockFile { version: VERSION + 1, ..good.clone() };
        assert!(refused(&text(&later)).contains("newer"));
        let bad = Exchange { returned_ns: 0, ..good.shortest[0] };
        assert!(refused(&text(&file(vec![bad]))).contains("no usable reading"));
        assert!(refused(&text(&file(Vec::new()))).contains("no usable reading"));
        let unnamed = ClockFile { host: ClockedHost::default(), ..good };
        assert!(refused(&text(&unnamed)).contains("no usable reading"));
    }
}
