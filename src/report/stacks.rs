//! The report of `stacks`: for people, as a table, as folded lines, as a flame graph.

use std::collections::BTreeMap;
use std::io;

use inferno::flamegraph;

use super::rows::{column, others, rest_of_keys};
use crate::analysis::keyed::KEYS_MAX;
use crate::analysis::stacks::{IoStacks, Of, StackKey, StackSum};
use crate::capture::fact::Symbol;
use crate::event::chain::CallChain;
use crate::operation::disk;
use crate::pipeline::Summary;
use crate::text::escape::shown;
use crate::text::table::{Cell, Column, Form, Report, Table};
use crate::units::{DevId, Pid};

/// What makes a stack large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Bytes read, written, discarded.
    Bytes,
    /// How many bios or calls.
    Count,
    /// How long they took, ns.
    Time,
}

impl Weight {
    fn of(self, sum: &StackSum) -> u64 {
        match self {
            Self::Bytes => sum.bytes(),
            Self::Count => sum.count,
            Self::Time => sum.time,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Count => "times",
            Self::Time => "ns",
        }
    }
}

/// What is wanted of stacks.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The kernel's functions.
    pub kernel: bool,
    /// The program's.
    pub user: bool,
    /// Which are large.
    pub by: Weight,
}

/// Stacks whose functions have the same names.
#[derive(Clone, Debug)]
struct Stack {
    of: String,
    comm: Option<Vec<u8>>,
    pid: Option<Pid>,
    /// The outermost first; `None`: not known.
    frames: Option<Vec<Vec<u8>>>,
    sum: StackSum,
}

/// All stacks, the largest first, and what is to be said of them.
#[derive(Clone, Debug)]
pub struct Stacks {
    all: Vec<Stack>,
    totals: Vec<(String, StackSum)>,
    /// What came when there were too many.
    further: Option<StackSum>,
    by: Weight,
    notes: Vec<String>,
}

type NamedKey = (Of, Option<Vec<u8>>, Option<Pid>, Option<Vec<Vec<u8>>>);

impl Stacks {
    /// Names the functions and joins what has the same names.
    pub fn new(fold: &IoStacks, summary: &Summary, shape: Shape) -> Self {
        let names = disk::names(&summary.disks());
        let of = |row: Of| match row {
            Of::Device(dev) => device(dev, &names),
            Of::Call(what) => what.to_string(),
        };
        let mut naming = Naming { summary, shape, found: Found::default() };
        let mut joined: BTreeMap<NamedKey, StackSum> = BTreeMap::new();
        for (key, sum) in fold.rows.iter() {
            let StackKey { of, comm, pid, chain } = *key;
            let chain = chain.and_then(|id| fold.chains.get(&id));
            let frames = naming.frames(chain, sum);
            let key = (of, comm.map(|comm| comm.as_bytes().to_vec()), pid, frames);
            joined.entry(key).or_default().merge(sum);
        }
        let mut all: Vec<Stack> = joined
            .into_iter()
            .map(|((dev, comm, pid, frames), sum)| Stack { of: of(dev), comm, pid, frames, sum })
            .collect();
        // Of equals the order of their names stays.
        all.sort_by_key(|stack| std::cmp::Reverse(shape.by.of(&stack.sum)));
        let totals = fold.totals.iter().map(|(it, sum)| (of(*it), *sum)).collect();
        let further = fold.rows.others().copied();
        let notes = notes(&naming.found, fold, summary, shape);
        Self { all, totals, further, by: shape.by, notes }
    }

    /// For people: each stack by itself, the innermost function first; for programs: all in one
    /// table. `limit` stacks, 0 for all.
    pub fn report(&self, form: Form, limit: usize) -> Report {
        let mut report = Report { kind: "stacks", ..Report::default() };
        report.facts = vec![("by", "", Cell::Word(self.by.unit().to_owned()))];
        report.notes.clone_from(&self.notes);
        let total = |(of, sum): &(String, StackSum)| row(sum, [Cell::Name(of.clone().into())]);
        report.tables.push(Table {
            key: "totals",
            title: "All of it".into(),
            columns: SUM.iter().chain(&[column("of", "device or operation")]).copied().collect(),
            rows: self.totals.iter().map(total).collect(),
        });
        let limit = if limit == 0 { self.all.len() } else { limit };
        let (shown, rest) = self.all.split_at(limit.min(self.all.len()));
        let mut sums: Vec<(Cell, StackSum)> = Vec::new();
        if !rest.is_empty() {
            let mut sum = StackSum::default();
            rest.iter().for_each(|rest| sum.merge(&rest.sum));
            sums.push((others(rest.len()), sum));
        }
        sums.extend(self.further.map(|further| (rest_of_keys(), further)));
        if form == Form::Text {
            report.tables.extend(shown.iter().map(Stack::for_people));
            report.tables.extend(sums.into_iter().map(|(name, sum)| Table {
                key: "stacks",
                title: "Other stacks".into(),
                columns: SUM.iter().chain(&[column("of", "stacks")]).copied().collect(),
                rows: vec![row(&sum, [name])],
            }));
        } else {
            let rest = |(name, sum): (Cell, StackSum)| {
                row(&sum, [name, Cell::None, Cell::None, Cell::None])
            };
            report.tables.push(Table {
                key: "stacks",
                title: String::new(),
                columns: SUM.iter().chain(&STACK).copied().collect(),
                rows: shown.iter().map(Stack::row).chain(sums.into_iter().map(rest)).collect(),
            });
        }
        report
    }

    /// What is to be known of them.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A line for each stack, as flame graphs are made of: `of;comm;function;… weight`, the
    /// outermost function first. What weighs nothing has none.
    pub fn folded(&self) -> Vec<String> {
        let line = |stack: &Stack| {
            let mut line = Vec::new();
            element(&mut line, stack.of.as_bytes());
            line.push(b';');
            element(&mut line, stack.comm.as_deref().unwrap_or(UNKNOWN));
            if let Some(pid) = stack.pid {
                line.extend(format!("-{pid}").bytes());
            }
            let none = [NO_STACK.to_vec()];
            for frame in stack.frames.as_deref().unwrap_or(&none) {
                line.push(b';');
                element(&mut line, frame);
            }
            (line, self.by.of(&stack.sum))
        };
        let further =
            self.further.map(|further| (b"(further ones)".to_vec(), self.by.of(&further)));
        let lines = self.all.iter().map(line).chain(further).filter(|line| line.1 > 0);
        let text = |line: Vec<u8>| String::from_utf8_lossy(&line).into_owned();
        let mut lines: Vec<String> =
            lines.map(|(line, weight)| format!("{} {weight}", text(line))).collect();
        // Those who read them may take what stands together for one.
        lines.sort_unstable();
        lines
    }

    /// True if there is nothing that a flame graph could show.
    pub fn is_nothing(&self) -> bool {
        let further = self.further.iter();
        self.all.iter().map(|stack| &stack.sum).chain(further).all(|sum| self.by.of(sum) == 0)
    }

    /// A flame graph; `reversed`: from the innermost function on.
    ///
    /// # Errors
    ///
    /// Those of writing; and if nothing weighs anything.
    pub fn flame_graph(&self, reversed: bool, out: impl io::Write) -> io::Result<()> {
        let mut options = flamegraph::Options::default();
        options.title = format!("I/O by stack, {}", self.by.unit());
        options.count_name = self.by.unit().to_owned();
        options.reverse_stack_order = reversed;
        // The same stacks give the same picture.
        options.deterministic = true;
        let lines = self.folded();
        if lines.is_empty() {
            return Err(io::Error::other("there are no stacks to draw"));
        }
        flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out)
    }
}

/// A stack that is not known.
const NO_STACK: &[u8] = b"[no stack]";
/// A function or thread that has no name.
const UNKNOWN: &[u8] = b"[unknown]";

/// One element of a folded line. Readers part them at `;` and take a number behind the last blank
/// for the weight, and one before it for another weight.
fn element(out: &mut Vec<u8>, name: &[u8]) {
    let last = name.rsplit(|name| *name == b' ').next().unwrap_or_default();
    let looks_like_weight = last.len() < name.len()
        && !last.is_empty()
        && last.iter().all(|letter| letter.is_ascii_digit() || *letter == b'.');
    shown(out, name, if looks_like_weight { b"; " } else { b";" });
}

const SUM: [Column; 5] = [
    column("count", "count"),
    column("read_bytes", "read bytes"),
    column("written_bytes", "written bytes"),
    column("discarded_bytes", "discarded bytes"),
    column("time_ns", "time us"),
];

const STACK: [Column; 4] =
    [column("of", ""), column("comm", ""), column("pid", ""), column("stack", "")];

fn row<const N: usize>(sum: &StackSum, more: [Cell; N]) -> Vec<Cell> {
    let StackSum { count, read, written, discarded, time } = *sum;
    let sums = [count, read, written, discarded].map(Cell::Count);
    sums.into_iter().chain([Cell::Ns(time)]).chain(more).collect()
}

impl Stack {
    fn for_people(&self) -> Table {
        let mut title = Vec::new();
        shown(&mut title, self.of.as_bytes(), b"");
        let none = [NO_STACK.to_vec()];
        for frame in self.frames.as_deref().unwrap_or(&none).iter().rev() {
            title.extend_from_slice(b"\n    ");
            shown(&mut title, frame, b"");
        }
        title.extend_from_slice(b"\n        ");
        shown(&mut title, self.comm.as_deref().unwrap_or(UNKNOWN), b"[");
        if let Some(pid) = self.pid {
            title.extend(format!(" [{pid}]").bytes());
        }
        let is_shown = |column: &Column| column.key != "discarded_bytes" || self.sum.discarded > 0;
        let cells = SUM.iter().zip(row(&self.sum, [])).filter(|sum| is_shown(sum.0));
        let (columns, row) = cells.map(|(column, cell)| (*column, cell)).unzip();
        let title = String::from_utf8_lossy(&title).into_owned();
        Table { key: "stacks", title, columns, rows: vec![row] }
    }

    fn row(&self) -> Vec<Cell> {
        let stack = self.frames.as_ref().map_or(Cell::None, |frames| {
            let mut line = Vec::new();
            for (number, frame) in frames.iter().enumerate() {
                if number > 0 {
                    line.push(b';');
                }
                element(&mut line, frame);
            }
            Cell::Word(String::from_utf8_lossy(&line).into_owned())
        });
        let comm = self.comm.clone().map_or(Cell::None, Cell::Name);
        let pid = self.pid.map_or(Cell::None, |pid| Cell::Signed(pid.0.into()));
        row(&self.sum, [Cell::Name(self.of.clone().into()), comm, pid, stack])
    }
}

/// What was found while functions were named.
#[derive(Debug, Default)]
struct Found {
    /// Addresses that were looked up, with those that have no name.
    looked_up: u64,
    nameless: u64,
    /// Bios or calls without a stack.
    without: u64,
    /// Those whose stack may be cut off.
    cut: u64,
}

struct Naming<'a> {
    summary: &'a Summary,
    shape: Shape,
    found: Found,
}

impl Naming<'_> {
    /// The names of the functions, the outermost first.
    fn frames(&mut self, chain: Option<&CallChain>, sum: &StackSum) -> Option<Vec<Vec<u8>>> {
        let Some(chain) = chain else {
            self.found.without += sum.count;
            return None;
        };
        let recorded = self.summary.header.chains.clone().unwrap_or_default();
        // What is unwound later has its own limit.
        let by_kernel = if recorded.stack_bytes > 0 { 0 } else { chain.user.len() };
        let frames = (chain.kernel.len() + by_kernel) as u64;
        if recorded.frames_max > 0 && frames >= recorded.frames_max {
            self.found.cut += sum.count;
        }
        let symbols = &self.summary.symbols;
        let of_user = |number: &u64| symbols.at(chain.pid, *number, chain.time);
        let user = chain.user.iter().rev().filter(|_| self.shape.user);
        let user = user.map(|user| (*user, of_user(user), false));
        let kernel = chain.kernel.iter().rev().filter(|_| self.shape.kernel);
        let kernel = kernel.map(|kernel| (*kernel, symbols.kernel(*kernel), true));
        let found = &mut self.found;
        let name = |(address, symbol, of_kernel): (u64, Option<&Symbol>, bool)| {
            found.looked_up += 1;
            symbol
                .filter(|symbol| !symbol.name.is_empty())
                .map(|symbol| symbol.name.clone())
                .unwrap_or_else(|| {
                    found.nameless += 1;
                    nameless(address, symbol, of_kernel)
                })
        };
        Some(user.chain(kernel).map(name).collect())
    }
}

/// What is shown of a function without a name: its file and the place in it; of the kernel its
/// address.
fn nameless(address: u64, symbol: Option<&Symbol>, of_kernel: bool) -> Vec<u8> {
    let Some(symbol) = symbol.filter(|symbol| !symbol.module.is_empty()) else {
        return if of_kernel { format!("0x{address:x}").into() } else { UNKNOWN.to_vec() };
    };
    let file = symbol.module.rsplit(|module| *module == b'/').next().unwrap_or_default();
    [file, format!("+0x{:x}", symbol.place).as_bytes()].concat()
}

fn notes(found: &Found, fold: &IoStacks, summary: &Summary, shape: Shape) -> Vec<String> {
    let mut notes = Vec::new();
    let what = if fold.which.calls { "system calls" } else { "bios" };
    let Some(recorded) = &summary.header.chains else {
        notes.push(
            "the log has no stacks: record with `iotrace-perf stacks`, or with --stacks kernel,user"
                .to_owned(),
        );
        return notes;
    };
    if fold.which.calls && !recorded.calls {
        notes.push("the log has no stacks of system calls: record with --stacks calls".to_owned());
    }
    for (wanted, has, whose) in
        [(shape.kernel, recorded.kernel, "kernel"), (shape.user, recorded.user, "user")]
    {
        if wanted && !has && !fold.which.calls {
            notes.push(format!("the functions of the {whose} were not recorded: --stacks {whose}"));
        }
    }
    if shape.user && recorded.user && recorded.stack_bytes == 0 {
        notes.push(
            "functions of programs are found by frame pointers: where code was compiled without them, some are left out, and the outermost may be unknown or wrong: --call-graph dwarf finds those, too"
                .to_owned(),
        );
    }
    let of = |part: u64, whole: &str| (part > 0).then(|| format!("{part} {whole}"));
    let total: u64 = fold.totals.values().map(|value| value.count).sum();
    notes.extend(of(found.without, &format!("of {total} {what} have no stack")));
    let unended = "did not end in the recording: their bytes count, their time is not known";
    notes.extend(of(fold.unended, &format!("of {total} {what} {unended}")));
    notes.extend(of(fold.stillborn, "bios became no request of their device: not counted"));
    notes.extend(of(fold.commands, "driver commands, which no disk counts: not counted"));
    notes.extend(of(
        found.cut,
        &format!(
            "of {total} {what} have {} functions or more: the outermost may be missing",
            recorded.frames_max
        ),
    ));
    notes.extend(of(
        found.nameless,
        &format!(
            "of {} functions in the stacks have no name: shown as [unknown], file+place or address",
            found.looked_up
        ),
    ));
    notes.extend(of(
        summary.chains_left_out,
        "hits have no stack here: there were too many different ones",
    ));
    notes.extend(of(summary.symbols.left_out, "names of functions were too many to be kept"));
    notes.extend(of(summary.symbols.cut, "names of functions or files are too long: cut off"));
    if let Some(further) = fold.rows.others() {
        let count = further.count;
        notes.push(format!(
            "{count} {what} came when there were {KEYS_MAX} rows already: they are in one"
        ));
    }
    notes
}

fn device(dev: DevId, names: &[(DevId, String)]) -> String {
    names.iter().find(|name| name.0 == dev).map_or_else(|| dev.to_string(), |name| name.1.clone())
}

#[cfg(test)]
#[path = "stacks_tests.rs"]
mod tests;
