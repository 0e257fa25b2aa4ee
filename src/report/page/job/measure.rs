//! Measures of the maps: what the colour of a field means.

use crate::analysis::job::sums::MapCell;
use crate::text::quantity::{counted, size};

/// Measure of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MapMeasure {
    Time,
    Read,
    Written,
    Other,
}

impl MapMeasure {
    /// All measures, in the order of the page.
    pub(super) const ALL: [Self; 4] = [Self::Time, Self::Read, Self::Written, Self::Other];

    /// Word for identifiers.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Read => "read",
            Self::Written => "written",
            Self::Other => "other",
        }
    }

    /// Identifier of its chart.
    pub(super) fn chart(self) -> &'static str {
        match self {
            Self::Time => "map-time",
            Self::Read => "map-read",
            Self::Written => "map-written",
            Self::Other => "map-other",
        }
    }

    /// Label of its button.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Time => "time in I/O",
            Self::Read => "bytes read",
            Self::Written => "bytes written",
            Self::Other => "metadata",
        }
    }

    /// Title of its chart.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Time => "Share of time in operations on files",
            Self::Read => "Bytes read from files per second",
            Self::Written => "Bytes written to files per second",
            Self::Other => "Operations on files that neither read nor write",
        }
    }

    /// Amount of a cell.
    pub(super) fn amount(self, cell: &MapCell) -> u64 {
        match self {
            Self::Time => cell.ns,
            Self::Read => cell.moved[0],
            Self::Written => cell.moved[1],
            Self::Other => cell.other_operations,
        }
    }

    /// Text of the largest amount of a rank in a column of this width.
    pub(super) fn text(self, amount: u64, column_ns: u64) -> String {
        let per = |whole: u64| {
            let rate = u128::from(amount) * u128::from(whole) / u128::from(column_ns.max(1));
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        match self {
            Self::Time => format!("{} % of the time", per(100)),
            Self::Read | Self::Written => format!("{} per second", size(per(1_000_000_000))),
            Self::Other => format!("{} in a field", counted(amount, "operation")),
        }
    }
}
