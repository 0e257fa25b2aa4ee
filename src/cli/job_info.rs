//! `iotrace-perf info DIR/`: recordings of a job, their hosts, ranks and clocks, and whether they
//! are still those of the index. Their operations are not read.

use std::path::Path;
use std::process::ExitCode;

use super::args::InfoArgs;
use super::error::CliError;
use super::exit_code::INCOMPLETE;
use super::job_index::{IndexedCapture, JobIndex};
use super::job_overlap::overlap;
use super::report_args::PrintArgs;
use super::report_output::output;
use crate::text::quantity::{counted, time};
use crate::text::table::{Cell, Column, Report, Table, TableFormat};

/// Prints what the index has.
pub(super) fn run(args: &InfoArgs, path: &Path) -> Result<ExitCode, CliError> {
    let index = JobIndex::read(path)?;
    let states: Vec<Option<String>> =
        index.captures.iter().map(|capture| index.open(capture).err()).collect();
    let is_whole = index.left_out.is_empty() && states.iter().all(Option::is_none);
    let report = report(&index, &states);
    let form = if args.json { TableFormat::Json } else { TableFormat::Text };
    let print = PrintArgs::default();
    output(None, false)?.print(&report, form, &print).map_err(CliError::output)?;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}

/// Times of a recording on the wall clock, ns since 1970.
fn span(capture: &IndexedCapture) -> [u64; 2] {
    let wall = |time| u64::try_from(capture.clock.at(time).max(0)).unwrap_or(u64::MAX);
    [wall(capture.start), wall(capture.end.max(capture.start))]
}

fn report(index: &JobIndex, states: &[Option<String>]) -> Report {
    let spans = || index.captures.iter().map(span);
    let start = spans().map(|span| span[0]).min().unwrap_or(0);
    let end = spans().map(|span| span[1]).max().unwrap_or(0);
    let mut ranks: Vec<u64> = index.captures.iter().flat_map(IndexedCapture::ranks).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let size = index.captures.iter().filter_map(|capture| capture.job_size).max();
    let bad = states.iter().flatten().count() as u64;
    let mut report = Report { kind: "job", ..Report::default() };
    report.facts = vec![
        ("recordings", "recordings", Cell::Count(index.captures.len() as u64)),
        ("recordings_not_usable", if bad > 0 { "not usable" } else { "" }, Cell::Count(bad)),
        ("host_count", "hosts", Cell::Count(index.hosts.len() as u64)),
        ("rank_count", "ranks", Cell::Count(ranks.len() as u64)),
        ("job_size", "ranks of the job", Cell::count(size)),
        ("wall_ns", "recorded", Cell::Ns(end.saturating_sub(start))),
        ("start_realtime_ns", "", Cell::Count(start)),
        ("clock_error_bound_ns", "clocks agree to", Cell::ns(index.order_bound_ns())),
        ("overlapping_hosts", "", Cell::Count(index.overlapping_hosts().len() as u64)),
    ];
    report.tables = vec![recordings(index, states, start), hosts(index)];
    let named = |(capture, state): (&IndexedCapture, &Option<String>)| {
        let reason = state.as_ref()?;
        Some(format!("{}: {}: {reason}", index.label(capture), capture.shown.display()))
    };
    let unusable = index.captures.iter().zip(states).filter_map(named);
    let left_out = index.left_out.iter().map(|text| format!("left out of the index: {text}"));
    report.incomplete = unusable.chain(left_out).collect();
    report.notes.push(clock_note(index));
    report.notes.extend(overlap(&index.overlapping_hosts()));
    report.notes.push(format!(
        "sums of all recordings: iotrace-perf summary --by rank {}",
        JobIndex::named(&index.path).display()
    ));
    report
}

fn clock_note(index: &JobIndex) -> String {
    match index.order_bound_ns() {
        Some(0) => "clock: all recordings are of one clock, their order is exact".to_owned(),
        Some(bound) => format!(
            "clock: events of different hosts that are less than {} apart have no known order, if \
             the wall clocks are right",
            time(bound)
        ),
        None => {
            let undated =
                index.captures.iter().filter(|capture| capture.clock.bound_ns().is_none());
            format!(
                "clock: {} without dates: the order of its events and those of others is not known",
                counted(undated.count() as u64, "recording")
            )
        }
    }
}

const fn column(key: &'static str, title: &'static str) -> Column {
    Column { key, title, rank: None }
}

const fn key_column(rank: u8, key: &'static str, title: &'static str) -> Column {
    Column { key, title, rank: Some(rank) }
}

fn recordings(index: &JobIndex, states: &[Option<String>], start: u64) -> Table {
    let row = |(capture, state): (&IndexedCapture, &Option<String>)| {
        let [from, to] = span(capture);
        let path = capture.shown.as_os_str().as_encoded_bytes().to_vec();
        let ranks: Vec<String> = capture.ranks().map(|rank| rank.to_string()).collect();
        vec![
            Cell::Ns(from.saturating_sub(start)),
            Cell::Ns(to.saturating_sub(from)),
            Cell::Count(capture.bytes()),
            Cell::ns(capture.clock.bound_ns()),
            Cell::Flag(capture.is_system),
            Cell::Flag(state.is_none()),
            Cell::Word(ranks.join(" ")),
            Cell::Name(index.host(capture).as_bytes().to_vec()),
            Cell::Name(path),
        ]
    };
    Table {
        key: "captures",
        title: format!("Recordings ({})", index.captures.len()),
        columns: vec![
            column("begin_ns", "begins"),
            column("duration_ns", "recorded"),
            column("bytes", "size"),
            column("clock_error_bound_ns", "clock ±"),
            column("is_system", ""),
            column("is_usable", ""),
            key_column(1, "ranks", "rank"),
            key_column(0, "host", "host"),
            key_column(2, "path", "recording"),
        ],
        rows: index.captures.iter().zip(states).map(row).collect(),
    }
}

fn hosts(index: &JobIndex) -> Table {
    let row = |(number, (name, given)): (usize, &(String, i64))| {
        let of_host = || index.captures.iter().filter(|capture| capture.host == number);
        let bound = of_host().filter_map(|capture| capture.clock.bound_ns()).max();
        let ranks = of_host().flat_map(IndexedCapture::ranks).count() as u64;
        vec![
            Cell::Count(of_host().count() as u64),
            Cell::Count(ranks),
            Cell::ns(bound),
            Cell::Signed(*given),
            Cell::Name(name.as_bytes().to_vec()),
        ]
    };
    Table {
        key: "hosts",
        title: format!("Hosts ({})", index.hosts.len()),
        columns: vec![
            column("captures", "recordings"),
            column("ranks", "ranks"),
            column("clock_error_bound_ns", "clock ±"),
            column("clock_offset_given_ns", ""),
            key_column(0, "host", "host"),
        ],
        rows: index.hosts.iter().enumerate().map(row).collect(),
    }
}
