//! Views of `top`: selection and order of lines, tables for logs, and the picture of a terminal.
//!
//! ```text
//!  TopModel ─┬─► interval_report ─► text, JSON Lines, CSV
//!            └─► TopScreen ─► picture ─► lines of a terminal
//!                   ▲ keys
//! ```
//!
//! Nothing here knows a terminal: keys come as values, and pictures are lines of styled text.

mod cells;
mod columns;
mod interval_report;
mod operation_lines;
mod order;
mod picture;
mod screen;
#[cfg(test)]
mod screen_tests;
mod status;
#[cfg(test)]
mod test_model;

pub use columns::TopColumn;
pub use interval_report::{IntervalReportOptions, interval_report};
pub use order::{TopOrder, ordered};
pub use picture::{TopSize, page, picture};
pub use screen::{TopAction, TopScreen};
pub use status::TopStatus;
