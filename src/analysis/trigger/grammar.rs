//! Grammar of triggers.
//!
//! ```text
//! trigger   = metric ">" limit
//! metric    = calls | "device.await" | "device.request" | "lost"
//!           | statistic "(" source [ "," window ] ")"
//! calls     = name of a system call | "%" group
//! source    = calls | "device"
//! statistic = "p" number | "max" | "mean" | "count"
//! limit     = number unit | number        (units: us, ms, s; a number alone for lost and count)
//! window    = number unit
//! ```

use thiserror::Error;

use crate::event::syscall_table::{CallId, GROUPS};

/// Window of a statistic, unless another one is given, ns.
const WINDOW_NS: u64 = 10_000_000_000;

/// Shortest window: a hundredth of it is still longer than the time between two rounds.
const WINDOW_NS_MIN: u64 = 1_000_000_000;

/// Longest window.
const WINDOW_NS_MAX: u64 = 3_600_000_000_000;

/// Reason why a text is no trigger.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}, at character {position}; write it like this: {example}")]
pub struct TriggerError {
    /// Mistake, in words.
    pub what: String,
    /// Place of the first wrong character, from 1 on.
    pub position: usize,
    /// A trigger of this kind.
    pub example: &'static str,
}

/// Condition at which a recorder keeps what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Trigger as it was given.
    pub text: String,
    /// Quantity that is compared.
    pub metric: Metric,
    /// Limit that the quantity exceeds: ns, or a number.
    pub limit: u64,
}

/// Quantity of a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Duration of each of these calls.
    Call(CallSet),
    /// Duration of each block request, from its issue to its completion.
    Request,
    /// Mean duration of a device's requests that completed within a second, as in iostat.
    Await,
    /// Records that the kernel lost.
    Lost,
    /// Statistic of the durations in a window.
    Window {
        /// Statistic that is compared.
        statistic: Statistic,
        /// Operations or requests.
        source: TriggerSource,
        /// Length of the window, ns.
        window_ns: u64,
    },
}

/// Statistic of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Percentile, in thousandths.
    Percentile(u64),
    /// Largest duration.
    Max,
    /// Mean duration.
    Mean,
    /// Number of operations.
    Count,
}

/// Operations of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerSource {
    /// System calls.
    Calls(CallSet),
    /// Block requests of all devices.
    Device,
}

/// System calls of a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSet {
    /// Word that names them.
    pub word: String,
    /// Calls that the word means.
    pub calls: Vec<CallId>,
}

/// Events of a recording.
#[derive(Clone, Copy, Debug)]
pub struct TriggerEvents<'a> {
    /// Recorded calls.
    pub calls: &'a [CallId],
    /// True if block requests are recorded.
    pub has_block: bool,
}

impl Trigger {
    /// Parses a trigger.
    ///
    /// # Errors
    ///
    /// [`TriggerError`], with the place of the mistake.
    pub fn parse(text: &str) -> Result<Self, TriggerError> {
        let mut parser = TriggerParser { text, at: 0, example: "fsync>200ms" };
        let metric = parser.metric()?;
        parser.expect('>')?;
        let limit = match metric {
            Metric::Lost => parser.number("a number of records")?,
            Metric::Window { statistic: Statistic::Count, .. } => {
                parser.number("a number of operations")?
            }
            _ => parser.time("a time")?,
        };
        match parser.rest() {
            "" => Ok(Self { text: text.to_owned(), metric, limit }),
            more => Err(parser.error(format!("{more:?} is too much"))),
        }
    }

    /// Returns the event that the trigger needs and the recording has not, as a word of `-e`.
    pub fn lacks(&self, events: TriggerEvents<'_>) -> Option<String> {
        let calls = |set: &CallSet| {
            let has_any = set.calls.iter().any(|call| events.calls.contains(call));
            (!has_any).then(|| set.word.clone())
        };
        match &self.metric {
            Metric::Call(set) | Metric::Window { source: TriggerSource::Calls(set), .. } => {
                calls(set)
            }
            Metric::Request
            | Metric::Await
            | Metric::Window { source: TriggerSource::Device, .. } => {
                (!events.has_block).then(|| "block".to_owned())
            }
            Metric::Lost => None,
        }
    }

    /// Returns the unit of its values.
    pub fn unit(&self) -> &'static str {
        match self.metric {
            Metric::Lost => "records",
            Metric::Window { statistic: Statistic::Count, .. } => "operations",
            _ => "ns",
        }
    }
}

/// Rest of a text, and the example for its errors.
struct TriggerParser<'a> {
    text: &'a str,
    at: usize,
    example: &'static str,
}

impl<'a> TriggerParser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn error(&self, what: String) -> TriggerError {
        let before = self.text.get(..self.at).unwrap_or_default();
        TriggerError { what, position: before.chars().count() + 1, example: self.example }
    }

    /// Takes the letters that belong to a word.
    fn word(&mut self) -> &'a str {
        let is_end = |letter: char| !(letter.is_ascii_alphanumeric() || "%_.".contains(letter));
        let rest = self.rest();
        let word = rest.get(..rest.find(is_end).unwrap_or(rest.len())).unwrap_or_default();
        self.at += word.len();
        word
    }

    fn takes(&mut self, sign: char) -> bool {
        let is_there = self.rest().starts_with(sign);
        self.at += if is_there { sign.len_utf8() } else { 0 };
        is_there
    }

    fn expect(&mut self, sign: char) -> Result<(), TriggerError> {
        if self.takes(sign) {
            return Ok(());
        }
        let found = match self.rest().chars().next() {
            Some(letter) => format!("{letter:?}"),
            None => "the end".to_owned(),
        };
        Err(self.error(format!("{sign:?} is missing before {found}")))
    }

    fn metric(&mut self) -> Result<Metric, TriggerError> {
        let start = self.at;
        let word = self.word();
        match word {
            "device.await" => {
                self.example = "device.await>100ms";
                return Ok(Metric::Await);
            }
            "device.request" => {
                self.example = "device.request>1s";
                return Ok(Metric::Request);
            }
            "lost" => {
                self.example = "lost>0";
                return Ok(Metric::Lost);
            }
            _ => {}
        }
        if self.takes('(') {
            self.example = "p99(read,10s)>50ms";
            let Some(statistic) = statistic(word) else {
                self.at = start;
                return Err(
                    self.error(format!("{word} is none of p50, p99, p99.9, max, mean, count"))
                );
            };
            let source = self.source()?;
            let window_ns = if self.takes(',') { self.window()? } else { WINDOW_NS };
            self.expect(')')?;
            return Ok(Metric::Window { statistic, source, window_ns });
        }
        self.calls(start, word).map(Metric::Call)
    }

    fn source(&mut self) -> Result<TriggerSource, TriggerError> {
        let start = self.at;
        match self.word() {
            "device" => Ok(TriggerSource::Device),
            word => self.calls(start, word).map(TriggerSource::Calls),
        }
    }

    /// Returns the calls of a word that begins at `start`.
    fn calls(&mut self, start: usize, word: &str) -> Result<CallSet, TriggerError> {
        let calls: Vec<CallId> = match word.strip_prefix('%') {
            None => CallId::by_common_name(word).into_iter().collect(),
            Some(group) => {
                CallId::all().filter(|call| call.call().class.group() == group).collect()
            }
        };
        if !calls.is_empty() {
            return Ok(CallSet { word: word.to_owned(), calls });
        }
        self.at = start;
        let groups: Vec<String> = GROUPS.iter().map(|(group, _)| format!("%{group}")).collect();
        Err(self.error(match word {
            "" => "a call, device.await, device.request, lost or a statistic is missing".to_owned(),
            group if group.starts_with('%') => {
                format!("{group} is no group of calls; there are {}", groups.join(" "))
            }
            _ => format!("{word} is no system call, nor device.await, device.request or lost"),
        }))
    }

    fn number(&mut self, what: &str) -> Result<u64, TriggerError> {
        let start = self.at;
        let word = self.word();
        word.parse().map_err(|_| {
            self.at = start;
            self.error(format!("{what} is needed here, not {word:?}"))
        })
    }

    fn window(&mut self) -> Result<u64, TriggerError> {
        let start = self.at;
        let ns = self.time("the length of a window")?;
        if (WINDOW_NS_MIN..=WINDOW_NS_MAX).contains(&ns) {
            return Ok(ns);
        }
        self.at = start;
        Err(self.error("a window has from 1s to 3600s".to_owned()))
    }

    /// Parses a number with a unit, in ns.
    fn time(&mut self, what: &str) -> Result<u64, TriggerError> {
        let start = self.at;
        let word = self.word();
        let unit_at = word.find(|letter: char| letter.is_ascii_alphabetic() || letter == '%');
        let (number, unit) = word.split_at(unit_at.unwrap_or(word.len()));
        let scale = match unit {
            "us" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => {
                self.at = start + number.len();
                let found = if unit.is_empty() { "nothing" } else { unit };
                return Err(self.error(format!("a unit is needed here (us, ms, s), not {found}")));
            }
        };
        let valid = number.parse::<f64>().ok().filter(|number| *number < 1e6);
        match valid.map(|number| (number * scale).round()) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "at least 0 and below 10^15"
            )]
            Some(ns) if ns >= 0.0 => Ok(ns as u64),
            _ => {
                self.at = start;
                Err(self.error(format!("{what} is needed here, not {number:?}")))
            }
        }
    }
}

/// Returns the statistic of a word.
fn statistic(word: &str) -> Option<Statistic> {
    match word {
        "max" => return Some(Statistic::Max),
        "mean" => return Some(Statistic::Mean),
        "count" => return Some(Statistic::Count),
        _ => {}
    }
    let (whole, tenths) = match word.strip_prefix('p')?.split_once('.') {
        Some((whole, tenths)) if tenths.len() == 1 => (whole, tenths.parse().ok()?),
        Some(_) => return None,
        None => (word.strip_prefix('p')?, 0),
    };
    let whole: u64 = whole.parse().ok().filter(|percent| *percent < 100)?;
    let per_mille = whole * 10 + tenths;
    (per_mille > 0).then_some(Statistic::Percentile(per_mille))
}
