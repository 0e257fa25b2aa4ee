//! Ranks and hosts of a job: their sums, and how far the ranks differ.

use super::job::{last_io, left_out, of_parts};
use super::rows::{column, key_column};
use super::tallies::Tallies;
use crate::analysis::file_key::KeyParts;
use crate::analysis::group_stats::GroupStats;
use crate::analysis::rank_balance::{RankBalance, RankExtreme};
use crate::analysis::rank_rows::{RankPlace, RankRows, RankSum};
use crate::text::escape::shown;
use crate::text::quantity::{counted, size, time};
use crate::text::table::{Cell, Column, Report, Table, UNVERIFIED};
use crate::units::KernelTime;

/// Place in a job that the operations of a row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceDimension {
    /// The rank.
    Rank,
    /// The host.
    Host,
}

/// Form of the table, and what is known of the clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct RankOptions {
    /// Rows of the table; `None`: there is none.
    pub by: Option<PlaceDimension>,
    /// Rows of the table, the others are combined in one; 0: all.
    pub limit: usize,
    /// Largest difference of times of two hosts that has no order, ns; `None`: not known.
    pub bound_ns: Option<u64>,
}

/// Adds the table of ranks or hosts, and the findings about their differences.
pub fn add(report: &mut Report, ranks: &RankRows, options: RankOptions) {
    let balance = ranks.balance();
    if balance.ranks + balance.left_out.len() as u64 > 1 {
        facts(report, ranks, &balance);
        let sentences = findings(ranks, &balance, options.bound_ns);
        if let Some(table) = report.tables.iter_mut().find(|table| table.key == "findings") {
            let rows = sentences.into_iter().map(|(kind, time_ns, text)| {
                vec![Cell::Word(kind.to_owned()), Cell::ns(time_ns), Cell::Word(text)]
            });
            table.rows.splice(0..0, rows);
        }
    }
    let table = match options.by {
        Some(PlaceDimension::Rank) => rank_table(ranks, options.limit),
        Some(PlaceDimension::Host) => host_table(ranks, options.limit),
        None => return,
    };
    let place = usize::from(report.tables.first().is_some_and(|table| table.key == "findings"));
    report.tables.insert(place, table);
}

/// Columns of a row of a job that are the same for ranks and hosts.
const TIMES: [Column; 4] = [
    column("first_io_ns", "first I/O"),
    column("last_io_ns", "last I/O"),
    column("busiest_file_ns", ""),
    key_column(2, "busiest_file", "most time on"),
];

fn times(sum: &RankSum) -> [Cell; 4] {
    let time = |time: Option<KernelTime>| Cell::ns(time.map(|time| time.0));
    let (file, ns) = match &sum.busiest {
        Some((key, ns)) => (Cell::Name(KeyParts::of(key).path.to_vec()), Cell::Ns(*ns)),
        None => (Cell::None, Cell::None),
    };
    [time(sum.span.first), time(sum.span.last), ns, file]
}

fn host_name(ranks: &RankRows, host: usize) -> Cell {
    let name = ranks.hosts.get(&host).filter(|name| !name.is_empty());
    name.map_or(Cell::Word("(unknown)".to_owned()), |name| Cell::Name(name.as_bytes().to_vec()))
}

fn all(ranks: &RankRows) -> GroupStats {
    let mut all = GroupStats::default();
    ranks.rows.values().for_each(|sum| all.merge(&sum.stats));
    all
}

fn rank_table(ranks: &RankRows, limit: usize) -> Table {
    let names = [
        &TIMES[..],
        &[key_column(1, "host", "host"), column("rank", ""), key_column(0, "", "rank")],
    ];
    let names = names.concat();
    let row = |(place, sum): (&RankPlace, &RankSum)| {
        let rank = place.rank.map_or("(no rank)".to_owned(), |rank| rank.to_string());
        let last = [host_name(ranks, place.host), Cell::count(place.rank), Cell::Word(rank)];
        ([times(sum).to_vec(), last.to_vec()].concat(), sum.stats.clone())
    };
    let tables = Tallies { key: "ranks", title: "Ranks", names: &names, all: &all(ranks), limit };
    tables.table(ranks.rows.iter().map(row).collect())
}

fn host_table(ranks: &RankRows, limit: usize) -> Table {
    let names = [&TIMES[..], &[column("ranks", "ranks"), key_column(0, "host", "host")]].concat();
    let row = |(host, (count, sum)): (usize, (u64, RankSum))| {
        let last = [Cell::Count(count), host_name(ranks, host)];
        ([times(&sum).to_vec(), last.to_vec()].concat(), sum.stats)
    };
    let tables = Tallies { key: "hosts", title: "Hosts", names: &names, all: &all(ranks), limit };
    tables.table(ranks.of_hosts().into_iter().map(row).collect())
}

/// Adds the exact numbers.
fn facts(report: &mut Report, ranks: &RankRows, balance: &RankBalance) {
    let by_rank = ranks.ranks();
    let host = |rank: u64| by_rank.get(&rank).map_or(Cell::None, |row| host_name(ranks, row.0));
    report.facts.extend([
        ("compared_ranks", "", Cell::Count(balance.ranks)),
        ("left_out_ranks", "", Cell::Count(balance.left_out.len() as u64)),
    ]);
    if balance.ranks < 2 {
        return;
    }
    let RankBalance { file_ns, file_bytes, last, .. } = balance;
    report.facts.extend([
        ("file_ns_max", "", Cell::Ns(file_ns.max)),
        ("file_ns_mean", "", Cell::Ns(file_ns.mean())),
        ("file_ns_max_rank", "", Cell::Count(file_ns.rank)),
        ("file_ns_max_host", "", host(file_ns.rank)),
        ("file_bytes_max", "", Cell::Count(file_bytes.max)),
        ("file_bytes_mean", "", Cell::Count(file_bytes.mean())),
        ("file_bytes_max_rank", "", Cell::Count(file_bytes.rank)),
        ("file_bytes_max_host", "", host(file_bytes.rank)),
        ("last_io_ns", "", Cell::ns(last.as_ref().map(|last| last.end.ns))),
        ("last_io_next_ns", "", Cell::ns(last.as_ref().map(|last| last.next.ns))),
        ("last_io_median_ns", "", Cell::ns(last.as_ref().map(|last| last.median_ns))),
        ("last_io_rank", "", Cell::count(last.as_ref().map(|last| last.end.rank))),
        ("last_io_host", "", last.as_ref().map_or(Cell::None, |last| host(last.end.rank))),
    ]);
}

/// Sentences about the differences: kind, time that it concerns, text.
fn findings(
    ranks: &RankRows,
    balance: &RankBalance,
    bound_ns: Option<u64>,
) -> Vec<(&'static str, Option<u64>, String)> {
    let by_rank = ranks.ranks();
    let has_hosts = ranks.hosts.len() > 1;
    let name = |rank: u64| {
        let host = by_rank.get(&rank).and_then(|row| ranks.hosts.get(&row.0));
        match host.filter(|host| has_hosts && !host.is_empty()) {
            Some(host) => format!("rank {rank} ({})", harmless(host.as_bytes())),
            None => format!("rank {rank}"),
        }
    };
    let mut sentences = Vec::new();
    let file_ns @ RankExtreme { rank, max, .. } = balance.file_ns;
    if max > 0 && balance.ranks > 1 {
        let details = by_rank.get(&rank).map_or(String::new(), |row| details(&row.1));
        let text = format!(
            "{} has the most time on files of {}: {}, {} the mean{details}",
            name(rank),
            counted(balance.ranks, "rank"),
            time(max),
            ratio(max, file_ns.mean())
        );
        sentences.push(("imbalance", Some(max), text));
    }
    let file_bytes @ RankExtreme { rank, max, .. } = balance.file_bytes;
    if max > 0 && balance.ranks > 1 {
        let text = format!(
            "{} has moved the most bytes of files: {}, {} the mean",
            name(rank),
            size(max),
            ratio(max, file_bytes.mean())
        );
        sentences.push(("imbalance-bytes", None, text));
    }
    if let Some(last) = &balance.last {
        let later = last.end.ns.saturating_sub(last.median_ns);
        sentences.push(("straggler", Some(later), last_io(last, bound_ns, 0, "rank", &name)));
    }
    sentences.extend(left_out(balance, "rank").map(|text| ("left-out", None, text)));
    sentences.extend(of_parts(balance, "rank").map(|text| ("left-out", None, text)));
    sentences
}

/// File on which a rank spent most time, and the span of its I/O.
fn details(sum: &RankSum) -> String {
    let busiest = sum.busiest.as_ref().filter(|(_, ns)| *ns > 0).map(|(key, ns)| {
        let KeyParts { path, is_doubtful, .. } = KeyParts::of(key);
        let mark = if is_doubtful { UNVERIFIED } else { "" };
        let is_most = ns.saturating_mul(2) > sum.stats.own_time();
        let part = if is_most { "most of it" } else { "the longest" };
        format!("; {part} on {}{mark} ({})", harmless(path), time(*ns))
    });
    let span = sum.span.first.zip(sum.span.last).map(|(first, last)| {
        format!("; between {} and {} after the start", time(first.0), time(last.0))
    });
    busiest.unwrap_or_default() + &span.unwrap_or_default()
}

/// Returns how many times as much the maximum is: `2.1 times`.
fn ratio(max: u64, mean: u64) -> String {
    if mean == 0 {
        return "more than".to_owned();
    }
    let tenths = (u128::from(max) * 10 + u128::from(mean) / 2) / u128::from(mean);
    format!("{}.{} times", tenths / 10, tenths % 10)
}

fn harmless(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    shown(&mut out, bytes, b"");
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if the longest file of many is said to have most of the time.
    #[test]
    fn file_has_most_of_the_time_only_beyond_half_of_it() {
        let mut sum = RankSum::default();
        sum.stats.time.add(1000);
        for (ns, part) in [(501, "; most of it on /f ("), (500, "; the longest on /f (")] {
            sum.busiest = Some((b"/f".to_vec(), ns));
            assert!(details(&sum).starts_with(part), "{}", details(&sum));
        }
    }

    #[test]
    fn ratios_are_rounded() {
        assert_eq!(ratio(21, 10), "2.1 times");
        assert_eq!(ratio(1999, 1000), "2.0 times");
        assert_eq!(ratio(u64::MAX, 1), format!("{}.0 times", u64::MAX));
        assert_eq!(ratio(5, 0), "more than");
    }
}
