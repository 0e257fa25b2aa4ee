//! Perf ABI bytes → fields. Pure: bytes in, values out, no panic on any bytes.
//!
//! A ring, and so a data frame of the capture log, is a row of records: an eight byte header (`struct
//! perf_event_header` in `include/uapi/linux/perf_event.h`: type, misc, size) and a body whose layout the event's
//! `sample_type` decides. Two steps on purpose: finding a record and its time is cheap and enough to order it; its
//! fields are read once, and only if somebody wants them.

pub mod abi;
pub mod chain;
pub mod layout;
pub mod page;
pub mod parse;
pub mod program;

pub use chain::Chain;
pub use layout::SampleLayout;
pub use page::PageLayout;
pub use parse::{Record, RecordError, RecordKind, records};
pub use program::Program;

/// How the bytes of a ring are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Perf's records, one behind the other.
    Perf(SampleLayout),
    /// Pages of a tracefs ring.
    Pages(PageLayout),
}

impl Layout {
    /// By the source's name and what describes the bytes of its rings: perf's `sample_type` and the mask of the registers that its
    /// samples have, tracefs' `events/header_page`. `None` for what this version does not read.
    pub fn of(source: &str, sample_type: u64, registers: u64, header_page: &str) -> Option<Self> {
        match source {
            "perf" => SampleLayout::new(sample_type, registers).map(Self::Perf),
            "tracefs" => PageLayout::parse(header_page).map(Self::Pages),
            _ => None,
        }
    }

    /// As they are in a log whose pages continue one another.
    #[must_use]
    pub fn continued(self) -> Self {
        match self {
            Self::Pages(layout) => Self::Pages(layout.continued()),
            Self::Perf(_) => self,
        }
    }
}
