//! Page of a job: the report of its ranks, and maps of rank and time.
//!
//! The maps are SVG, one for each measure; the script adds the selection of a field. A line of a
//! map has one rank, or some neighbouring ones of a host.

mod document;
mod heat_map;
mod line_layout;
mod map_data;
mod measure;
mod strip;

pub use document::{JOB_PAGE_BYTES_MAX, job_page};
