//! Report of `stacks`: for people, as a table, as folded lines, as a flame graph.

use std::collections::BTreeMap;
use std::io;

use inferno::flamegraph;

use super::rows::{column, key_column, others, rest_of_keys};
use crate::analysis::bounded_map::KEYS_MAX;
use crate::analysis::stacks::{IoStacks, StackKey, StackSubject, StackSum};
use crate::capture::fact::Symbol;
use crate::event::callchain::CallChain;
use crate::operation::disk;
use crate::pipeline::Summary;
use crate::text::escape::shown;
use crate::text::table::{Cell, Column, Report, Table, TableFormat};
use crate::units::{DevId, Pid};

/// Measure of a stack's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Bytes read, written, discarded.
    Bytes,
    /// Number of bios or calls.
    Count,
    /// Duration of the bios or calls, ns.
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

/// Shape of the stacks in the report.
#[derive(Clone, Copy, Debug)]
pub struct StackOptions {
    /// True for functions of the kernel.
    pub kernel: bool,
    /// True for functions of the program.
    pub user: bool,
    /// Measure by which stacks are sorted.
    pub by: Weight,
}

/// Stacks whose functions have the same names.
#[derive(Clone, Debug)]
struct Stack {
    of: String,
    comm: Option<Vec<u8>>,
    pid: Option<Pid>,
    /// Functions, the outermost first; `None`: not known.
    frames: Option<Vec<Vec<u8>>>,
    sum: StackSum,
}

/// All stacks, the largest first, and the notes on them.
#[derive(Clone, Debug)]
pub struct Stacks {
    all: Vec<Stack>,
    totals: Vec<(String, StackSum)>,
    /// Sum of the operations beyond the limit of stacks.
    further: Option<StackSum>,
    by: Weight,
    notes: Vec<String>,
}

type NamedKey = (StackSubject, Option<Vec<u8>>, Option<Pid>, Option<Vec<Vec<u8>>>);

impl Stacks {
    /// Resolves the functions, and joins stacks whose functions have the same names.
    pub fn new(fold: &IoStacks, summary: &Summary, shape: StackOptions) -> Self {
        let names = disk::names(&summary.disks());
        let of = |row: StackSubject| match row {
            StackSubject::Device(dev) => device(dev, &names),
            StackSubject::Call(what) => what.to_string(),
        };
        let mut naming = FunctionNaming { summary, shape, found: NamingCounts::default() };
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
        // Equal ones stay in the order of their names.
        all.sort_by_key(|stack| std::cmp::Reverse(shape.by.of(&stack.sum)));
        let totals = fold.totals.iter().map(|(it, sum)| (of(*it), *sum)).collect();
        let further = fold.rows.others().copied();
        let notes = notes(&naming.found, fold, summary, shape);
        Self { all, totals, further, by: shape.by, notes }
    }

    /// Report for people: each stack by itself, the innermost function first; for programs: all in
    /// one table. `limit` stacks, 0 for all.
    pub fn report(&self, form: TableFormat, limit: usize) -> Report {
        let mut report = Report { kind: "stacks", ..Report::default() };
        report.facts = vec![("by", "", Cell::Word(self.by.unit().to_owned()))];
        report.notes.clone_from(&self.notes);
        let total = |(of, sum): &(String, StackSum)| row(sum, [Cell::Name(of.clone().into())]);
        report.tables.push(Table {
            key: "totals",
            title: "All of it".into(),
            columns: SUM
                .iter()
                .chain(&[key_column(0, "of", "device or operation")])
                .copied()
                .collect(),
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
        if form == TableFormat::Text {
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

    /// Notes on the stacks.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Lines for flame graphs, one for each stack: `of;comm;function;… weight`, the outermost
    /// function first. A stack without weight has none.
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
        // Readers may join adjacent equal lines.
        lines.sort_unstable();
        lines
    }

    /// True if a flame graph would be empty.
    pub fn is_nothing(&self) -> bool {
        let further = self.further.iter();
        self.all.iter().map(|stack| &stack.sum).chain(further).all(|sum| self.by.of(sum) == 0)
    }

    /// Draws a flame graph; `reversed`: from the innermost function on.
    ///
    /// # Errors
    ///
    /// Errors of writing; and an error if no stack has a weight.
    pub fn flame_graph(&self, reversed: bool, out: impl io::Write) -> io::Result<()> {
        let mut options = flamegraph::Options::default();
        options.title = format!("I/O by stack, {}", self.by.unit());
        options.count_name = self.by.unit().to_owned();
        options.reverse_stack_order = reversed;
        // The same stacks result in the same picture.
        options.deterministic = true;
        let lines = self.folded();
        if lines.is_empty() {
            return Err(io::Error::other("there are no stacks to draw"));
        }
        flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out)
    }
}

/// Name of a stack that is not known.
const NO_STACK: &[u8] = b"[no stack]";
/// Name of a function or thread that has none.
const UNKNOWN: &[u8] = b"[unknown]";

/// Appends an element of a folded line. Readers split lines at `;`. A number after the last blank
/// is the weight, and one before it is another weight.
fn element(out: &mut Vec<u8>, name: &[u8]) {
    let last = name.rsplit(|name| *name == b' ').next().unwrap_or_default();
    let looks_like_weight = last.len() < name.len()
        && !last.is_empty()
        && last.iter().all(|letter| letter.is_ascii_digit() || *letter == b'.');
    shown(out, name, if looks_like_weight { b"; " } else { b";" });
}

const SUM: [Column; 5] = [
    column("count", "count"),
    column("read_bytes", "read"),
    column("written_bytes", "written"),
    column("discarded_bytes", "discarded"),
    column("time_ns", "time"),
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

/// Counts of the resolution of functions.
#[derive(Debug, Default)]
struct NamingCounts {
    /// Addresses that were looked up, including those without a name.
    looked_up: u64,
    nameless: u64,
    /// Bios or calls without a stack.
    without: u64,
    /// Bios or calls whose stack may be truncated.
    cut: u64,
}

struct FunctionNaming<'a> {
    summary: &'a Summary,
    shape: StackOptions,
    found: NamingCounts,
}

impl FunctionNaming<'_> {
    /// Names of the functions, the outermost first.
    fn frames(&mut self, chain: Option<&CallChain>, sum: &StackSum) -> Option<Vec<Vec<u8>>> {
        let Some(chain) = chain else {
            self.found.without += sum.count;
            return None;
        };
        let recorded = self.summary.header.chains.clone().unwrap_or_default();
        // Stacks that are unwound later have their own limit.
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

/// Text for a function without a name: its file and the offset in it; for the kernel its address.
fn nameless(address: u64, symbol: Option<&Symbol>, of_kernel: bool) -> Vec<u8> {
    let Some(symbol) = symbol.filter(|symbol| !symbol.module.is_empty()) else {
        return if of_kernel { format!("0x{address:x}").into() } else { UNKNOWN.to_vec() };
    };
    let file = symbol.module.rsplit(|module| *module == b'/').next().unwrap_or_default();
    [file, format!("+0x{:x}", symbol.place).as_bytes()].concat()
}

fn notes(
    found: &NamingCounts,
    fold: &IoStacks,
    summary: &Summary,
    shape: StackOptions,
) -> Vec<String> {
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
            "programs are unwound by frame pointers: in code that was compiled without them functions are missing, and the outermost may be unknown or wrong: --call-graph dwarf finds those, too"
                .to_owned(),
        );
    }
    let of = |part: u64, whole: &str| (part > 0).then(|| format!("{part} {whole}"));
    let total: u64 = fold.totals.values().map(|value| value.count).sum();
    notes.extend(of(found.without, &format!("of {total} {what} have no stack")));
    let unended = "did not end in the recording: their bytes count, their time is not known";
    notes.extend(of(fold.unended, &format!("of {total} {what} {unended}")));
    notes.extend(of(fold.stillborn, "bios did not become requests of their device: not counted"));
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
        "events have no stack here: there were too many different ones",
    ));
    notes.extend(of(summary.symbols.left_out, "names of functions exceeded the limit"));
    notes.extend(of(summary.symbols.cut, "names of functions or files are too long: cut off"));
    if let Some(further) = fold.rows.others() {
        let count = further.count;
        notes.push(format!(
            "{count} {what} beyond the limit of {KEYS_MAX} rows are combined in one"
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
