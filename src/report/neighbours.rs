//! Report of `neighbours`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::grouping::{Grouping, ReportOptions, user_word};
use super::rows::{column, first_rows, key_column, left_out, others, titled};
use super::summary::device;
use crate::analysis::bounded_map::KEYS_MAX;
use crate::analysis::neighbours::{Blame, DiskWaiting, Neighbours};
use crate::analysis::process_names::ProcessNames;
use crate::analysis::request_owners::DiskCause;
use crate::operation::model::ProcessKey;
use crate::operation::{cgroup, disk};
use crate::pipeline::Summary;
use crate::text::quantity::{counted, time};
use crate::text::shares;
use crate::text::table::{Cell, Column, Report, Table};
use crate::units::{DevId, Pid};

/// Processes that share a row: those that waited, or those that they waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    Process(ProcessKey),
    Program(Vec<u8>),
    User(Option<u32>),
    Cgroup(Option<Arc<[u8]>>),
    Unseen(Pid),
    Kernel,
    Unknown,
}

impl Party {
    fn of(cause: DiskCause, names: &ProcessNames, by: Grouping) -> Self {
        let process = match cause {
            DiskCause::Process(process) => process,
            DiskCause::Unseen(pid) => return Self::Unseen(pid),
            DiskCause::Kernel => return Self::Kernel,
            DiskCause::Unknown => return Self::Unknown,
        };
        let info = names.info(process);
        match by {
            Grouping::Process => Self::Process(process),
            Grouping::Program => match (names.of(process), info) {
                (b"", Some(info)) => Self::Unseen(info.pid),
                (comm, _) => Self::Program(comm.to_vec()),
            },
            Grouping::User => {
                info.and_then(|info| info.user).map_or(Self::Unknown, |user| Self::User(Some(user)))
            }
            Grouping::Cgroup => match info.and_then(|info| info.cgroup.clone()) {
                Some(group) => Self::Cgroup(Some(group)),
                None => Self::Unknown,
            },
        }
    }

    /// Returns true for recorded processes.
    fn is_known(&self) -> bool {
        !matches!(self, Self::Unseen(_) | Self::Kernel | Self::Unknown)
    }

    /// Cells: name, process, user, control group.
    fn cells(&self, names: &ProcessNames) -> [Cell; 4] {
        let word = |word: &str| Cell::Word(word.to_owned());
        let mut cells = [word("(unknown)"), Cell::None, Cell::None, Cell::None];
        let [name, pid, user, path] = &mut cells;
        match self {
            Self::Process(process) => {
                *name = Cell::Name(names.of(*process).to_vec());
                if let Some(info) = names.info(*process) {
                    if names.of(*process).is_empty() {
                        *name = word(&format!("(process {})", info.pid));
                    }
                    *pid = Cell::Signed(info.pid.0.into());
                    *user = info.user.map_or(Cell::None, |user| Cell::Count(user.into()));
                    *path = bytes_cell(info.cgroup.as_deref());
                }
            }
            Self::Program(comm) => *name = Cell::Name(comm.clone()),
            Self::User(number) => {
                *name = Cell::Word(user_word(*number));
                *user = number.map_or(Cell::None, |user| Cell::Count(user.into()));
            }
            Self::Cgroup(group) => {
                *path = bytes_cell(group.as_deref());
                if let Some(group) = group {
                    *name = Cell::Name(cgroup::label(group).into_bytes());
                }
            }
            Self::Unseen(number) => *name = word(&format!("(process {number})")),
            Self::Kernel => *name = word("(kernel)"),
            Self::Unknown => {}
        }
        cells
    }

    /// Name of the processes in a sentence.
    fn text(&self, names: &ProcessNames) -> String {
        let [name, pid, ..] = self.cells(names);
        match pid {
            Cell::None => name.text(),
            pid => format!("{}[{}]", name.text(), pid.text()),
        }
    }
}

fn bytes_cell(bytes: Option<&[u8]>) -> Cell {
    bytes.map_or(Cell::None, |bytes| Cell::Name(bytes.to_vec()))
}

/// Sums by groups of processes.
struct Sums<'a> {
    fold: &'a Neighbours,
    by: Grouping,
    disks: Vec<(DevId, String)>,
    victims: BTreeMap<(DevId, Party), DiskWaiting>,
    cells: BTreeMap<(DevId, Party, Party), Blame>,
}

impl<'a> Sums<'a> {
    fn new(fold: &'a Neighbours, summary: &Summary, by: Grouping) -> Self {
        let names = &fold.owners.names;
        let party = |cause: &DiskCause| Party::of(*cause, names, by);
        let mut victims: BTreeMap<(DevId, Party), DiskWaiting> = BTreeMap::new();
        for ((dev, victim), waiting) in fold.victims.iter() {
            victims.entry((*dev, party(victim))).or_default().merge(waiting);
        }
        let mut cells: BTreeMap<(DevId, Party, Party), Blame> = BTreeMap::new();
        for ((dev, victim, aggressor), blame) in fold.cells.iter() {
            let mut blame = *blame;
            if !is_serial(fold, summary, *dev) {
                blame.shared_ns = blame.waited_ns();
                blame.caused_ns = 0;
            }
            let key = (*dev, party(victim), party(aggressor));
            // Members of one group wait for their own group.
            if key.1 == key.2 && key.1 != Party::Unknown {
                let waiting = victims.entry((key.0, key.1)).or_default();
                waiting.others_ns = waiting.others_ns.saturating_sub(blame.waited_ns());
                waiting.own_ns = waiting.own_ns.saturating_add(blame.waited_ns());
                continue;
            }
            cells.entry(key).or_default().merge(&blame);
        }
        Self { fold, by, disks: disk::names(&summary.disks()), victims, cells }
    }

    fn names(&self) -> &ProcessNames {
        &self.fold.owners.names
    }

    fn waited_ns(&self, dev: DevId, victim: &Party) -> u64 {
        let key = (dev, victim.clone());
        self.victims.get(&key).map_or(0, |waiting| waiting.waited_ns)
    }

    /// Columns that name a group of processes.
    fn party_columns(&self, keys: [&'static str; 4], title: &'static str) -> [Column; 4] {
        let [name, pid, user, cgroup] = keys;
        let pid_title = if self.by == Grouping::Process { "pid" } else { "" };
        [
            key_column(0, name, title),
            key_column(0, pid, pid_title),
            column(user, ""),
            column(cgroup, ""),
        ]
    }

    /// Table of victims and aggressors.
    fn matrix(&self, limit: usize) -> Table {
        let mut rows: Vec<_> = self.cells.iter().collect();
        rows.sort_by_key(|(_, blame)| Reverse(blame.waited_ns()));
        let total = rows.len();
        let (rows, rest) = first_rows(rows, limit);
        let figures = |blame: &Blame, whole_ns: u64| {
            let [exact, inferred, unknown] = blame.by_link;
            let mut cells = vec![Cell::Ns(blame.waited_ns())];
            cells.push(Cell::share(blame.waited_ns(), whole_ns));
            let times = [blame.caused_ns, blame.shared_ns, exact, inferred, unknown];
            cells.extend(times.map(Cell::Ns));
            cells
        };
        let names = self.names();
        let row = |((dev, victim, aggressor), blame): (&(DevId, Party, Party), &Blame)| {
            let mut cells = figures(blame, self.waited_ns(*dev, victim));
            cells.extend(victim.cells(names));
            cells.extend(aggressor.cells(names));
            cells.push(device(*dev, &self.disks));
            cells
        };
        let mut table_rows: Vec<Vec<Cell>> = rows.into_iter().map(row).collect();
        if !rest.is_empty() {
            let mut sum = Blame::default();
            rest.iter().for_each(|(_, blame)| sum.merge(blame));
            let mut cells = figures(&sum, 0);
            cells.push(others(rest.len()));
            cells.extend(vec![Cell::None; 8]);
            table_rows.push(cells);
        }
        let mut columns = vec![
            column("waited_ns", "waited"),
            column("share", "of its waiting"),
            column("caused_ns", "caused"),
            column("shared_ns", "shared"),
            column("exact_ns", ""),
            column("inferred_ns", "inferred"),
            column("unknown_ns", "unknown"),
        ];
        let victim = ["victim", "victim_pid", "victim_user", "victim_cgroup"];
        columns.extend(self.party_columns(victim, "waited"));
        let aggressor = ["aggressor", "aggressor_pid", "aggressor_user", "aggressor_cgroup"];
        columns.extend(self.party_columns(aggressor, "for"));
        columns.push(key_column(0, "disk", "disk"));
        let title = titled("Waiting while a disk worked for others", total);
        Table { key: "matrix", title, columns, rows: table_rows }
    }

    /// Table of those that waited.
    fn waiting(&self, limit: usize) -> Table {
        let mut rows: Vec<_> = self.victims.iter().collect();
        rows.sort_by_key(|(_, waiting)| Reverse(waiting.waited_ns));
        let total = rows.len();
        let (rows, rest) = first_rows(rows, limit);
        let names = self.names();
        let figures = |waiting: &DiskWaiting| {
            let DiskWaiting { waited_ns, own_ns, others_ns, idle_ns, unknown_ns, .. } = *waiting;
            let mut cells =
                [waited_ns, own_ns, others_ns, idle_ns, unknown_ns].map(Cell::Ns).to_vec();
            for timed in [&waiting.alone, &waiting.beside] {
                cells.extend([Cell::Count(timed.requests), Cell::ns(timed.mean_ns())]);
            }
            cells
        };
        let row = |((dev, victim), waiting): (&(DevId, Party), &DiskWaiting)| {
            let mut cells = figures(waiting);
            cells.extend(victim.cells(names));
            cells.push(device(*dev, &self.disks));
            cells
        };
        let mut table_rows: Vec<Vec<Cell>> = rows.into_iter().map(row).collect();
        if !rest.is_empty() {
            let mut sum = DiskWaiting::default();
            rest.iter().for_each(|(_, waiting)| sum.merge(waiting));
            let mut cells = figures(&sum);
            cells.push(others(rest.len()));
            cells.extend(vec![Cell::None; 4]);
            table_rows.push(cells);
        }
        let mut columns = vec![
            column("waited_ns", "waited"),
            column("own_ns", "for itself"),
            column("others_ns", "for others"),
            column("idle_ns", "disk idle"),
            column("unknown_ns", "unknown"),
            column("alone_requests", ""),
            column("alone_mean_ns", "mean alone"),
            column("beside_requests", ""),
            column("beside_mean_ns", "mean beside"),
        ];
        let keys = ["victim", "victim_pid", "victim_user", "victim_cgroup"];
        columns.extend(self.party_columns(keys, "waited"));
        columns.push(key_column(0, "disk", "disk"));
        let title = titled("Waiting for disks", total);
        Table { key: "victims", title, columns, rows: table_rows }
    }

    /// Sentence about the largest part of the matrix.
    fn findings(&self) -> Table {
        let is_candidate = |(_, victim, aggressor): &(DevId, Party, Party)| {
            victim != aggressor && victim.is_known() && *aggressor != Party::Unknown
        };
        let cells = self.cells.iter().filter(|(key, _)| is_candidate(key));
        let first = cells.max_by_key(|(_, blame)| blame.waited_ns());
        let sentence = |((dev, victim, aggressor), blame): (&(DevId, Party, Party), &Blame)| {
            let [victim_name, aggressor_name] =
                [victim, aggressor].map(|party| party.text(self.names()));
            let name = device(*dev, &self.disks).text();
            let is_caused = blame.caused_ns > blame.shared_ns;
            let part = if is_caused { blame.caused_ns } else { blame.waited_ns() };
            let whole = self.waited_ns(*dev, victim);
            let share = shares::of(part, whole);
            let (part, whole) = (time(part), time(whole));
            let mut text = match is_caused {
                true => format!(
                    "{aggressor_name} kept {name} busy for {part} of the {whole} that {victim_name} waited ({share})"
                ),
                false => format!(
                    "{aggressor_name} shared {name}: its requests were next to complete for {part} of the {whole} that {victim_name} waited ({share})"
                ),
            };
            text.push_str(&self.certainty(*dev, victim, blame));
            vec![Cell::Word(text)]
        };
        let mut rows: Vec<Vec<Cell>> = first.map(sentence).into_iter().collect();
        // The requests of a group count as beside those of its own members.
        if self.by == Grouping::Process {
            rows.extend(first.and_then(|((dev, victim, _), _)| self.means(*dev, victim)));
        }
        Table {
            key: "findings",
            title: "Findings".into(),
            columns: vec![column("text", "finding")],
            rows,
        }
    }

    /// End of a sentence: how certain the owners are, and what is not known of the waiting.
    fn certainty(&self, dev: DevId, victim: &Party, blame: &Blame) -> String {
        let [exact, inferred, unknown] = blame.by_link;
        let owners = [(exact, "exact"), (inferred, "inferred"), (unknown, "unknown")];
        let known = owners.iter().filter(|(duration_ns, _)| *duration_ns > 0);
        let parts: Vec<String> =
            known.map(|(duration_ns, link)| format!("{link} for {}", time(*duration_ns))).collect();
        let mut text = format!("; the owner is {}", parts.join(", "));
        let waiting = self.victims.get(&(dev, victim.clone()));
        if let Some(waiting) = waiting.filter(|waiting| waiting.unknown_ns > 0) {
            let unknown = time(waiting.unknown_ns);
            text.push_str(&format!("; the owner is not known for {unknown}"));
        }
        text
    }

    /// Sentence about the requests of those that waited: beside those of others, and without them.
    fn means(&self, dev: DevId, victim: &Party) -> Option<Vec<Cell>> {
        let waiting = self.victims.get(&(dev, victim.clone()))?;
        let (alone, beside) = (&waiting.alone, &waiting.beside);
        let text = format!(
            "requests of {} took {} in the mean while those of others were in service ({}), otherwise {} ({})",
            victim.text(self.names()),
            time(beside.mean_ns()?),
            counted(beside.requests, "request"),
            time(alone.mean_ns()?),
            alone.requests,
        );
        Some(vec![Cell::Word(text)])
    }
}

/// True if a disk is known to serve one request after the other: it has one queue, and never had
/// more than one request in service.
fn is_serial(fold: &Neighbours, summary: &Summary, dev: DevId) -> bool {
    hardware_queues(summary, dev) == Some(1) && fold.depth_max(dev) <= 1
}

fn hardware_queues(summary: &Summary, dev: DevId) -> Option<u64> {
    let disks = summary.disks();
    let all = disks.iter();
    all.filter(|disk| DevId::parse(&disk.dev) == Some(dev)).find_map(|disk| disk.hardware_queues)
}

/// Table of the disks that were waited for.
fn disks(fold: &Neighbours, summary: &Summary, names: &[(DevId, String)]) -> Table {
    let mut devices: Vec<DevId> = fold.victims.iter().map(|((dev, _), _)| *dev).collect();
    devices.sort_unstable();
    devices.dedup();
    let row = |dev: &DevId| {
        vec![
            Cell::Count(fold.depth_max(*dev).into()),
            Cell::count(hardware_queues(summary, *dev)),
            device(*dev, names),
        ]
    };
    Table {
        key: "disks",
        title: format!("Disks: requests in service at once ({})", devices.len()),
        columns: vec![
            column("in_service_max", "at most"),
            column("hardware_queues", "queues"),
            key_column(0, "disk", "disk"),
        ],
        rows: devices.iter().map(row).collect(),
    }
}

/// All of `neighbours` except for the last lines of the capture.
pub fn report(fold: &Neighbours, summary: &Summary, options: ReportOptions) -> Report {
    let sums = Sums::new(fold, summary, options.by);
    let mut report = Report { kind: "neighbours", ..Report::default() };
    report.tables = vec![
        sums.findings(),
        sums.matrix(options.limit),
        sums.waiting(options.limit),
        disks(fold, summary, &sums.disks),
    ];
    let facts =
        [("requests_without_issue", fold.without_issue), ("requests_without_end", fold.lost_ends)];
    report.facts = facts.map(|(key, count)| (key, "", Cell::Count(count))).to_vec();
    if let Some(rest) = fold.cells.others() {
        report.notes.push(format!(
            "matrix: {} of waiting beyond the limit of {KEYS_MAX} pairs are in no row",
            time(rest.waited_ns())
        ));
    }
    if let Some(rest) = fold.victims.others() {
        left_out(&mut report, "victims", KEYS_MAX, rest.alone.requests + rest.beside.requests);
    }
    let unrecorded: u64 = summary.others().values().map(requests_of).sum();
    if unrecorded > 0 {
        report.notes.push(format!(
            "{} of programs that were not recorded may have been in service while a disk is called idle; record them with -a",
            counted(unrecorded, "request")
        ));
    }
    if fold.without_issue > 0 {
        report.notes.push(format!(
            "{} ended without a recorded begin of their service: the disk is called idle meanwhile",
            counted(fold.without_issue, "request")
        ));
    }
    if fold.lost_ends > 0 {
        report.notes.push(format!(
            "the ends of {} were lost: they are not in the tables",
            counted(fold.lost_ends, "request")
        ));
    }
    if sums.cells.values().any(|blame| blame.shared_ns > 0) {
        report.notes.push(
            "shared: several requests were in service at once; the time until a completion counts for the request that completes, and the disk may have worked on others, too"
                .to_owned(),
        );
    }
    if sums.victims.is_empty() && options.is_whole {
        let has_block = summary.header.tracepoints.iter().any(|point| point.system == "block");
        let text = match has_block {
            true => "no process waited for a disk",
            false => "block requests were not recorded; record them with -e %default",
        };
        report.notes.push(text.to_owned());
    }
    report
}

fn requests_of(others: &crate::pipeline::OtherRequests) -> u64 {
    others.operations.values().map(|(requests, _)| requests).sum()
}
