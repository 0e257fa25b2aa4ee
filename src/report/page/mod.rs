//! The page: one self-contained HTML file about a recording, for a browser without a network.
//!
//! ```text
//!   Overview (one pass) ──► reports (tables, the same as those of the other subcommands)
//!         │                    │
//!         └─► charts (SVG)     └─► tables (HTML), data (JSON)
//!                    └─────► document ◄─────┘    ≤ 2 MB: fewer rows if it would be larger
//! ```
//!
//! The pages of `diff` and of a job have the tables of their reports, in the same style.
//!
//! All content is in the HTML; the script only adds selection and sorting. Names are untrusted:
//! `maud` escapes all texts, and [`data`] those in JSON.

mod activity;
mod appendix;
mod chart;
mod comparison;
mod data;
mod disks;
mod document;
mod files;
mod findings;
mod flame;
mod heat;
mod histograms;
mod input;
mod job;
mod latency_heat;
mod layers;
mod matrix;
mod mirror;
mod offsets;
mod page_table;
mod reports;
mod slowest;
mod time_scale;
mod timeline;
mod timeline_svg;
mod timeline_table;
mod verdict;

pub use comparison::comparison_page;
pub use document::{PAGE_BYTES_MAX, render};
pub use input::PageInput;
pub use job::{JOB_PAGE_BYTES_MAX, job_page};
pub use timeline_svg::timeline_svg;
