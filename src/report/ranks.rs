//! Ranks and hosts of a job: their sums, and how far the ranks differ.

use super::rows::{column, key_column};
use super::tallies::Tallies;
use crate::analysis::file_key::KeyParts;
use crate::analysis::group_stats::GroupStats;
use crate::analysis::rank_rows::{Imbalance, LastRank, RankExtreme, RankPlace, RankRows, RankSum};
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
    if let Some(imbalance) = ranks.imbalance() {
        facts(report, ranks, &imbalance);
        let sentences = findings(ranks, &imbalance, options.bound_ns);
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
fn facts(report: &mut Report, ranks: &RankRows, imbalance: &Imbalance) {
    let Imbalance { ranks: _, file_ns, bytes, last } = imbalance;
    let by_rank = ranks.ranks();
    let host = |rank: u64| by_rank.get(&rank).map_or(Cell::None, |row| host_name(ranks, row.0));
    report.facts.extend([
        ("file_ns_max", "", Cell::Ns(file_ns.max)),
        ("file_ns_mean", "", Cell::Ns(file_ns.mean)),
        ("file_ns_max_rank", "", Cell::Count(file_ns.rank)),
        ("file_ns_max_host", "", host(file_ns.rank)),
        ("bytes_max", "", Cell::Count(bytes.max)),
        ("bytes_mean", "", Cell::Count(bytes.mean)),
        ("bytes_max_rank", "", Cell::Count(bytes.rank)),
        ("bytes_max_host", "", host(bytes.rank)),
        ("last_io_ns", "", Cell::ns(last.map(|last| last.end_ns))),
        ("last_io_median_ns", "", Cell::ns(last.map(|last| last.median_ns))),
        ("last_io_rank", "", Cell::count(last.map(|last| last.rank))),
        ("last_io_host", "", last.map_or(Cell::None, |last| host(last.rank))),
    ]);
}

/// Sentences about the differences: kind, time that it concerns, text.
fn findings(
    ranks: &RankRows,
    imbalance: &Imbalance,
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
    let RankExtreme { rank, max, mean } = imbalance.file_ns;
    if max > 0 {
        let details = by_rank.get(&rank).map_or(String::new(), |row| details(&row.1));
        let text = format!(
            "{} has the most time on files of {}: {}, {} the mean{details}",
            name(rank),
            counted(imbalance.ranks, "rank"),
            time(max),
            ratio(max, mean)
        );
        sentences.push(("imbalance", Some(max), text));
    }
    let RankExtreme { rank, max, mean } = imbalance.bytes;
    if max > 0 {
        let text = format!(
            "{} has moved the most bytes: {}, {} the mean",
            name(rank),
            size(max),
            ratio(max, mean)
        );
        sentences.push(("imbalance-bytes", None, text));
    }
    if let Some(last) = imbalance.last {
        sentences.push(last_rank(&name(last.rank), last, bound_ns));
    }
    sentences
}

/// Sentence about the rank whose I/O ended last. What the clocks do not show is not claimed.
fn last_rank(
    name: &str,
    last: LastRank,
    bound_ns: Option<u64>,
) -> (&'static str, Option<u64>, String) {
    let LastRank { end_ns, median_ns, .. } = last;
    let later = end_ns.saturating_sub(median_ns);
    let text = match bound_ns {
        Some(bound) if later > bound => format!(
            "{name} ended its I/O last: {} after the start, {} after the median of the ranks",
            time(end_ns),
            time(later)
        ),
        Some(0) => format!("the ranks ended their I/O together, {} after the start", time(end_ns)),
        Some(bound) => format!(
            "which rank ended its I/O last is not known: half of them within {}, and the clocks \
             agree to {}",
            time(later),
            time(bound)
        ),
        None => "which rank ended its I/O last is not known: a recording has no dates".to_owned(),
    };
    ("straggler", Some(later), text)
}

/// File on which a rank spent most of its time, and the span of its I/O.
fn details(sum: &RankSum) -> String {
    let busiest = sum.busiest.as_ref().filter(|(_, ns)| *ns > 0).map(|(key, ns)| {
        let KeyParts { path, is_doubtful, .. } = KeyParts::of(key);
        let mark = if is_doubtful { UNVERIFIED } else { "" };
        format!("; most of it on {}{mark} ({})", harmless(path), time(*ns))
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

    #[test]
    fn order_of_hosts_is_claimed_only_beyond_the_bound_of_their_clocks() {
        let last = LastRank { rank: 3, end_ns: 5_000_000, median_ns: 4_000_000 };
        let text = |bound| last_rank("rank 3", last, bound).2;
        let claim = "rank 3 ended its I/O last: 5.00 ms after the start, 1.00 ms after the median";
        for bound in [Some(999_999), Some(0)] {
            assert!(text(bound).starts_with(claim), "{}", text(bound));
        }
        for bound in [Some(1_000_000), Some(9_000_000), None] {
            assert!(text(bound).contains("is not known"), "{}", text(bound));
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
