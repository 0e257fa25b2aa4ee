//! Decoder of the perf ABI: bytes of a ring → fields. It is pure: bytes in, values out, and no
//! bytes cause a panic.
//!
//! A ring, and therefore a data frame of the capture log, is a sequence of records. Each record has
//! a header of eight bytes (`struct perf_event_header` in `include/uapi/linux/perf_event.h`: type,
//! misc, size) and a body, whose layout depends on the event's `sample_type`.
//!
//! Decoding has two steps on purpose. The first finds a record and its time, which is cheap and
//! sufficient to order it. The second reads its fields, once, and only if a consumer needs them.

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
pub use program::UserState;

/// Layout of the bytes of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Perf records in sequence.
    Perf(SampleLayout),
    /// Pages of a tracefs ring.
    Pages(PageLayout),
}

impl Layout {
    /// Selects the layout by the source's name and the description of its rings. For perf these are
    /// `sample_type` and the mask of the registers in its samples; for tracefs
    /// `events/header_page`. Returns `None` for anything that this version does not read.
    pub fn of(source: &str, sample_type: u64, registers: u64, header_page: &str) -> Option<Self> {
        match source {
            "perf" => SampleLayout::new(sample_type, registers).map(Self::Perf),
            "tracefs" => PageLayout::parse(header_page).map(Self::Pages),
            _ => None,
        }
    }

    /// Returns the layout of the same bytes in a log whose pages continue one another.
    #[must_use]
    pub fn continued(self) -> Self {
        match self {
            Self::Pages(layout) => Self::Pages(layout.continued()),
            Self::Perf(_) => self,
        }
    }
}
