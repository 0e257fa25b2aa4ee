//! Table of the commits of journals that slow operations waited for.

use super::rows::{column, key_column};
use super::summary::device;
use crate::analysis::commit_waits::{CommitWaiter, CommitWaits};
use crate::analysis::slowest::{SlowOperation, Slowest};
use crate::text::quantity::count;
use crate::text::table::{Cell, Table};
use crate::units::DevId;

/// Number of other operations that are named.
const NAMED: usize = 3;

/// Returns the table of the shown operations; times count from `start`.
pub(super) fn table(
    shown: &[&SlowOperation],
    fold: &Slowest,
    names: &[(DevId, String)],
    start: u64,
) -> Table {
    let mut rows = Vec::new();
    for (place, slow) in shown.iter().enumerate() {
        let known = slow.commits.iter().filter_map(|number| fold.commits.get(*number));
        rows.extend(known.map(|waits| row(place, slow, waits, names, start)));
    }
    Table {
        key: "commits",
        title: "Commits of the journal that they waited for".into(),
        columns: vec![
            key_column(0, "rank", "#"),
            key_column(1, "comm", "written by"),
            column("commit_ns", "commit"),
            column("waited_ns", "waited"),
            column("begin_ns", "begin"),
            column("transaction", "transaction"),
            column("disk", "device"),
            column("tid", ""),
            column("other_waiters", "others"),
            column("others", "other waiters"),
        ],
        rows,
    }
}

fn row(
    place: usize,
    slow: &SlowOperation,
    waits: &CommitWaits,
    names: &[(DevId, String)],
    start: u64,
) -> Vec<Cell> {
    let commit = &waits.commit;
    let comm = commit.comm.clone().filter(|comm| !comm.is_empty());
    let comm = comm.unwrap_or_else(|| format!("(thread {})", commit.tid).into_bytes());
    let end = slow.start.0.saturating_add(slow.ns);
    let waited = commit.end.0.min(end).saturating_sub(commit.begin.0.max(slow.start.0));
    vec![
        Cell::Count(place as u64 + 1),
        Cell::Name(comm),
        Cell::Ns(commit.end.0.saturating_sub(commit.begin.0)),
        Cell::Ns(waited),
        Cell::Ns(commit.begin.0.saturating_sub(start)),
        Cell::count(commit.transaction.map(u64::from)),
        device(commit.dev, names),
        Cell::Signed(commit.tid.0.into()),
        Cell::Count(waits.count.saturating_sub(1)),
        others(slow, waits),
    ]
}

/// Returns the first other operations that waited for a commit.
fn others(slow: &SlowOperation, waits: &CommitWaits) -> Cell {
    let mut waiters: Vec<&CommitWaiter> = waits.waiters.iter().collect();
    let is_slow =
        |waiter: &&CommitWaiter| (waiter.process, waiter.what) == (slow.process, slow.what);
    if let Some(own) = waiters.iter().position(is_slow) {
        waiters.remove(own);
    }
    let named = waiters.iter().take(NAMED).map(|waiter| {
        let comm = Cell::Name(waiter.comm.clone()).text();
        format!("{} by {comm}[{}]", waiter.what, waiter.pid)
    });
    let mut named: Vec<String> = named.collect();
    let others = waits.count.saturating_sub(1);
    let left_out = others.saturating_sub(named.len() as u64);
    if left_out > 0 && !named.is_empty() {
        named.push(format!("{} more", count(left_out)));
    }
    if named.is_empty() { Cell::None } else { Cell::Word(named.join(", ")) }
}
