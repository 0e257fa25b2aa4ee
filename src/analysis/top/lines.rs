//! Lines of a view.

use std::sync::Arc;

use super::interval::{TopFile, TopOperation, TopPair};
use super::model::TopModel;
use super::rows::{TopRest, TopRow, TopRows};
use crate::analysis::completed_op::OpKind;
use crate::operation::io_class::IoClass;
use crate::operation::model::ProcessKey;
use crate::units::{DevId, Pid};

/// View with rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TopView {
    /// Each process.
    #[default]
    Processes,
    /// Files of all processes.
    Files,
    /// Block devices.
    Devices,
    /// Kinds of operations.
    Calls,
    /// Control groups.
    Cgroups,
}

impl TopView {
    /// All views, in the order of their keys.
    pub const ALL: [Self; 5] =
        [Self::Processes, Self::Files, Self::Devices, Self::Calls, Self::Cgroups];

    /// Returns the name in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Files => "files",
            Self::Devices => "devices",
            Self::Calls => "calls",
            Self::Cgroups => "cgroups",
        }
    }
}

/// Subject of a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TopKey {
    /// A process.
    Process(ProcessKey),
    /// A file, of any process.
    File(TopFile),
    /// A file of one process.
    Pair(TopPair),
    /// A device.
    Device(DevId),
    /// A kind of operation in a class of I/O.
    Call(OpKind, IoClass),
    /// A control group; `None`: not known.
    Cgroup(Option<Arc<[u8]>>),
}

/// Line of a view.
#[derive(Clone, Debug)]
pub struct TopLine {
    /// Subject of the line.
    pub key: TopKey,
    /// Name of the subject: bytes of the traced system; empty: not known.
    pub name: Vec<u8>,
    /// Process number, of a process.
    pub pid: Option<Pid>,
    /// Command line, of a process.
    pub command: Option<Arc<[u8]>>,
    /// True for a process that has ended.
    pub is_ended: bool,
    /// Amounts and history.
    pub row: TopRow,
}

/// Lines of a view, and the operations without one.
#[derive(Clone, Debug, Default)]
pub struct TopLines {
    /// The lines, in no order.
    pub lines: Vec<TopLine>,
    /// Operations without a line.
    pub rest: TopRest,
}

impl TopModel {
    /// Returns the lines of a view.
    pub fn lines(&self, view: TopView) -> TopLines {
        match view {
            TopView::Processes => TopLines {
                lines: self.processes.iter().map(|(key, row)| self.process(*key, row)).collect(),
                rest: *self.processes.rest(),
            },
            TopView::Files => lines(&self.files, |file| (TopKey::File(file.clone()), path(file))),
            TopView::Devices => lines(&self.devices, |dev| (TopKey::Device(*dev), self.disk(*dev))),
            TopView::Calls => lines(&self.calls, |(what, io)| {
                (TopKey::Call(*what, *io), what.to_string().into_bytes())
            }),
            TopView::Cgroups => lines(&self.cgroups, |group| {
                (TopKey::Cgroup(group.clone()), group.as_deref().unwrap_or_default().to_vec())
            }),
        }
    }

    /// Returns the lines of the files of a process.
    pub fn files_of(&self, process: ProcessKey) -> TopLines {
        let own = self.pairs.iter().filter(|(pair, _)| pair.process == process);
        let line = |(pair, row): (&TopPair, &TopRow)| {
            line(TopKey::Pair(pair.clone()), path(&pair.file), row)
        };
        TopLines { lines: own.map(line).collect(), rest: TopRest::default() }
    }

    /// Returns the last operations of a process on a file, the newest last.
    pub fn operations_of(&self, pair: &TopPair) -> impl DoubleEndedIterator<Item = &TopOperation> {
        let own = self.operations.iter().filter(move |(other, _)| other == pair);
        own.map(|(_, operation)| operation)
    }

    /// Returns the number and the name of a process with a row.
    pub fn process_name(&self, process: ProcessKey) -> Option<(Pid, &[u8])> {
        let known = &self.known.get(&process)?.process;
        Some((known.pid, &known.comm))
    }

    fn process(&self, key: ProcessKey, row: &TopRow) -> TopLine {
        let known = self.known.get(&key);
        let process = known.map(|known| &known.process);
        TopLine {
            pid: process.map(|process| process.pid),
            command: process.and_then(|process| process.command.clone()),
            is_ended: known.is_some_and(|known| known.ended.is_some()),
            ..line(
                TopKey::Process(key),
                process.map_or_else(Vec::new, |process| process.comm.clone()),
                row,
            )
        }
    }

    fn disk(&self, dev: DevId) -> Vec<u8> {
        let name = self.facts.disks.iter().find(|(other, _)| *other == dev);
        name.map_or_else(|| dev.to_string(), |(_, name)| name.clone()).into_bytes()
    }
}

fn lines<K: Clone + Eq + std::hash::Hash + Ord>(
    rows: &TopRows<K>,
    subject: impl Fn(&K) -> (TopKey, Vec<u8>),
) -> TopLines {
    let line = |(key, row): (&K, &TopRow)| {
        let (key, name) = subject(key);
        line(key, name, row)
    };
    TopLines { lines: rows.iter().map(line).collect(), rest: *rows.rest() }
}

fn line(key: TopKey, name: Vec<u8>, row: &TopRow) -> TopLine {
    TopLine { key, name, pid: None, command: None, is_ended: false, row: row.clone() }
}

/// Returns the path of a file; empty: not known.
fn path(file: &TopFile) -> Vec<u8> {
    match file {
        TopFile::Named(key) => crate::analysis::summary::KeyParts::of(key).path.to_vec(),
        TopFile::Nameless(_) => Vec::new(),
    }
}
