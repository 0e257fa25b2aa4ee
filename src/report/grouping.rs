//! Groups of processes: the processes that share a row of a table.

use std::collections::HashMap;
use std::sync::Arc;

use super::rows::{column, key_column};
use crate::analysis::op_groups::OpDimension;
use crate::analysis::process_names::ProcessNames;
use crate::operation::cgroup;
use crate::operation::model::{ProcessInfo, ProcessKey};
use crate::text::table::{Cell, Column, Table};
use crate::units::Pid;

/// Property that the processes of a row have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// Name of the program.
    #[default]
    Program,
    /// Each process has a row of its own.
    Process,
    /// Real user.
    User,
    /// Control group: the container or unit.
    Cgroup,
}

/// Form of the tables of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportOptions {
    /// Rows of each table, the others are combined in one; 0: all.
    pub limit: usize,
    /// Property by which processes are combined.
    pub by: Grouping,
    /// Dimension with a table of its own, if one is wanted.
    pub dimension: Option<OpDimension>,
    /// True if the files of each pseudo file system share a row.
    pub folds_pseudo_files: bool,
    /// True for a report on all of a recording, false if a filter has selected a part.
    pub is_whole: bool,
}

/// Processes that share a row.
#[derive(Clone, Debug)]
pub(super) struct ProcessGroup<T> {
    by: Grouping,
    /// Number of the processes.
    processes: u64,
    /// Process, if there is one only; otherwise the properties that all processes share.
    shared: ProcessInfo,
    /// True if all are threads of the kernel, false if none is.
    is_kernel: Option<bool>,
    /// Sum over the processes.
    pub(super) sum: T,
}

#[derive(PartialEq, Eq, Hash)]
enum GroupKey {
    Program(Vec<u8>),
    Process(ProcessKey),
    User(Option<u32>),
    Cgroup(Option<Arc<[u8]>>),
}

/// Combines rows of processes.
pub(super) fn groups<T>(
    rows: impl Iterator<Item = (ProcessKey, Pid, T)>,
    names: &ProcessNames,
    by: Grouping,
    merge: impl Fn(&mut T, &T),
) -> Vec<ProcessGroup<T>> {
    let mut places: HashMap<GroupKey, usize> = HashMap::new();
    let mut groups: Vec<ProcessGroup<T>> = Vec::new();
    for (process, pid, sum) in rows {
        let unknown = || ProcessInfo::new(process, pid);
        let info = names.info(process).cloned().unwrap_or_else(unknown);
        let key = match by {
            Grouping::Program => GroupKey::Program(info.comm.clone()),
            Grouping::Process => GroupKey::Process(process),
            Grouping::User => GroupKey::User(info.user),
            Grouping::Cgroup => GroupKey::Cgroup(info.cgroup.clone()),
        };
        let place = *places.entry(key).or_insert(groups.len());
        if let Some(group) = groups.get_mut(place) {
            group.add(&info);
            merge(&mut group.sum, &sum);
        } else {
            let is_kernel = Some(info.is_kernel);
            groups.push(ProcessGroup { by, processes: 1, shared: info, is_kernel, sum });
        }
    }
    groups
}

/// Key of the column with the rank of the processes in a parallel job.
pub(super) const RANK: &str = "rank";

/// Column with the host of the processes of a job, which comes after the others.
pub(super) const HOST: Column = key_column(3, "host", "host");

/// Column with the rank of a process in a job, in tables whose rows have another rank.
const JOB_RANK: Column = key_column(4, "job_rank", "rank");

/// Adds host and rank of the process of each row to a table about a job; rows without a process
/// come last.
pub(super) fn add_places(
    table: &mut Table,
    names: &ProcessNames,
    processes: impl Iterator<Item = ProcessKey>,
) {
    let infos: Vec<Option<&ProcessInfo>> = processes.map(|process| names.info(process)).collect();
    if infos.iter().flatten().all(|info| info.host.is_none()) {
        return;
    }
    table.columns.extend([HOST, JOB_RANK]);
    let infos = infos.into_iter().chain(std::iter::repeat(None));
    for (row, info) in table.rows.iter_mut().zip(infos) {
        let host = info.and_then(|info| info.host.as_ref());
        row.push(host.map_or(Cell::None, |host| Cell::Name(host.to_vec())));
        row.push(Cell::count(info.and_then(|info| info.rank)));
    }
}

/// Columns of a group of processes; `has_commands`: a command line is known.
pub(super) fn columns(by: Grouping, has_commands: bool) -> [Column; 12] {
    let is_process = by == Grouping::Process;
    let is_program = is_process || by == Grouping::Program;
    let shown = |is_shown: bool, title: &'static str| if is_shown { title } else { "" };
    [
        column("processes", shown(!is_program, "processes")),
        column("user", ""),
        key_column(0, "", shown(by == Grouping::User, "user")),
        column("cgroup", ""),
        key_column(0, "", shown(by == Grouping::Cgroup, "container or unit")),
        column("parent_pid", ""),
        column("executable", ""),
        key_column(2, "command_line", shown(is_process && has_commands, "command line")),
        key_column(1, "pid", shown(is_program, "pid")),
        key_column(0, "comm", shown(is_program, if is_process { "process" } else { "program" })),
        column("is_kernel_thread", ""),
        column(RANK, ""),
    ]
}

/// Cells of a row that is not about processes of a group.
pub(super) fn cells_of(name: Cell) -> Vec<Cell> {
    let none = Cell::None;
    let names = [none.clone(), name.clone(), none.clone(), name.clone()];
    [vec![none.clone()], names.to_vec(), vec![none.clone(); 4], vec![name, none.clone(), none]]
        .concat()
}

impl<T> ProcessGroup<T> {
    /// Adds a process: a property that it does not share with the others becomes unknown.
    fn add(&mut self, info: &ProcessInfo) {
        let shared = &mut self.shared;
        self.processes += 1;
        shared.user = shared.user.filter(|user| info.user == Some(*user));
        shared.rank = shared.rank.filter(|rank| info.rank == Some(*rank));
        shared.host.take_if(|host| info.host.as_ref() != Some(host));
        shared.parent_pid = shared.parent_pid.filter(|pid| info.parent_pid == Some(*pid));
        self.is_kernel = self.is_kernel.filter(|is_kernel| *is_kernel == info.is_kernel);
        for (known, of_this) in [
            (&mut shared.cgroup, &info.cgroup),
            (&mut shared.command, &info.command),
            (&mut shared.program, &info.program),
        ] {
            known.take_if(|bytes| of_this.as_ref() != Some(bytes));
        }
    }

    /// True if the command line of the processes is known.
    pub(super) fn has_command(&self) -> bool {
        self.shared.command.is_some()
    }

    /// True if the rank of the processes in a parallel job is known.
    pub(super) fn has_rank(&self) -> bool {
        self.shared.rank.is_some()
    }

    /// Host of the processes in a job; none if they are of several, or of no job.
    pub(super) fn host(&self) -> Cell {
        self.shared.host.as_ref().map_or(Cell::None, |host| Cell::Name(host.to_vec()))
    }

    /// Cells of the group, in the order of [`columns`].
    pub(super) fn cells(&self) -> Vec<Cell> {
        let info = &self.shared;
        let is_program = matches!(self.by, Grouping::Program | Grouping::Process);
        let number = |number: Option<i64>| number.map_or(Cell::None, Cell::Signed);
        let bytes =
            |bytes: Option<&[u8]>| bytes.map_or(Cell::None, |bytes| Cell::Name(bytes.to_vec()));
        let name = match self.processes {
            _ if !is_program => Cell::None,
            1 => Cell::Name(info.comm.clone()),
            count => Cell::Group(info.comm.clone(), count),
        };
        let cgroup = info.cgroup.as_deref();
        let pid = Some(info.pid.0.into()).filter(|_| is_program && self.processes == 1);
        vec![
            Cell::Count(self.processes),
            number(info.user.map(i64::from)),
            Cell::Word(user_word(info.user)),
            bytes(cgroup),
            Cell::Name(cgroup.map_or_else(|| "(unknown)".to_owned(), cgroup::label).into_bytes()),
            number(info.parent_pid.map(|pid| pid.0.into())),
            bytes(info.program.as_deref()),
            bytes(info.command_line().as_deref()),
            number(pid),
            name,
            self.is_kernel.map_or(Cell::None, Cell::Flag),
            info.rank.map_or(Cell::None, Cell::Count),
        ]
    }
}

/// Name of a user: the names of a machine's users are not in its logs.
pub(super) fn user_word(user: Option<u32>) -> String {
    match user {
        Some(0) => "root".to_owned(),
        Some(user) => user.to_string(),
        None => "(unknown)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Step;
    use crate::operation::model::ProcessInfo;

    /// Returns the groups of three processes, as for people, and their sums.
    fn grouped(by: Grouping) -> Vec<(String, u64)> {
        let mut names = ProcessNames::default();
        let process = |number: u32, comm: &str, user, command: &str| ProcessInfo {
            comm: comm.as_bytes().to_vec(),
            user,
            command: Some(Arc::from(command.as_bytes())),
            cgroup: Some(Arc::from(format!("/a/u{}.service", number / 2).into_bytes())),
            ..ProcessInfo::new(ProcessKey(number), Pid(7))
        };
        let all = [
            process(0, "cc1", Some(0), "cc1\0a.c\0"),
            process(1, "cc1", Some(8), "cc1\0b.c\0"),
            process(2, "as", None, "as\0"),
        ];
        all.iter().for_each(|info| names.look(&Step::ProcessSeen(info)));
        let rows = all.iter().zip([1, 10, 100]).map(|(info, sum)| (info.key, info.pid, sum));
        let groups = groups(rows, &names, by, |sum: &mut u64, more| *sum += more);
        let text = |group: &ProcessGroup<u64>| {
            let shown = columns(by, group.has_command()).into_iter().zip(group.cells());
            let shown = shown.filter(|(column, _)| !column.title.is_empty());
            shown.map(|(_, cell)| cell.text()).collect::<Vec<_>>().join(" | ")
        };
        groups.iter().map(|group| (text(group), group.sum)).collect()
    }

    #[track_caller]
    fn check(by: Grouping, expected: &[(&str, u64)]) {
        let groups = grouped(by);
        let groups: Vec<(&str, u64)> = groups.iter().map(|(text, sum)| (&**text, *sum)).collect();
        assert_eq!(groups, expected);
    }

    #[test]
    fn processes_share_rows() {
        check(Grouping::Program, &[("- | cc1 ×2", 11), ("7 | as", 100)]);
        let all = [("cc1 a.c | 7 | cc1", 1), ("cc1 b.c | 7 | cc1", 10), ("as | 7 | as", 100)];
        check(Grouping::Process, &all);
        check(Grouping::User, &[("1 | root", 1), ("1 | 8", 10), ("1 | (unknown)", 100)]);
        check(Grouping::Cgroup, &[("2 | u0.service", 11), ("1 | u1.service", 100)]);
    }
}
