//! Sums by interval for `top`: operations of each process, file, kind of call and device.
//!
//! ```text
//!  steps ─► TopFold ── interval ──► TopModel ──► lines of a view
//!           (one interval)          (totals, histories, ended processes)
//! ```
//!
//! An operation counts in the interval in which it ends. The fold has the sums of one interval and
//! knows no earlier one. The model adds closed intervals up, and has a limit on the rows of each
//! view: the rows beyond it are summed up, and counted.

mod amounts;
mod fold;
mod interval;
mod lines;
mod model;
mod rows;

pub use amounts::TopAmounts;
pub use fold::TopFold;
pub use interval::{TopFile, TopInterval, TopOperation, TopPair, TopProcess};
pub use lines::{TopKey, TopLine, TopLines, TopView};
pub use model::{ENDED_NS, TopFacts, TopModel};
pub use rows::{HISTORY, ROWS_MAX, TopRest, TopRow};

#[cfg(test)]
pub mod test_fixtures;
#[cfg(test)]
mod tests;
