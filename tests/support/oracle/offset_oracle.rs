//! File offsets of each call of `tests/programs/offsets.c`, compared with the recording.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;

use crate::support::driver::json::JsonOperation;

/// Words in the file that the program reads; each holds its own offset.
const WORDS: u64 = 8192;

/// The calls that the program reports.
const TRANSFERS: [&str; 10] = [
    "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2",
    "pwritev2",
];

/// One call, as the program reports it.
#[derive(Clone, Debug)]
struct Call {
    name: String,
    result: i64,
    /// `None` if the call moved nothing.
    offset: Option<u64>,
    /// A tracer can know the offset.
    must: bool,
}

/// Rule for the offsets that must be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffsetDemand {
    /// Offsets that the program marks so.
    WhereItMust,
    /// Offsets that the program marks so, in each thread and file from the second `lseek` on.
    AfterSeeks,
}

/// Numbers of compared calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Threads of the program with at least one call.
    pub threads: usize,
    /// Number of compared calls.
    pub compared: usize,
    /// Calls whose offset is known.
    pub known: usize,
    /// Of these, those whose offset had to be known.
    pub needed: usize,
}

/// Makes the file that the program reads.
pub(crate) fn make_words(dir: &Path) {
    let words: Vec<u8> = (0..WORDS).flat_map(|it| (it * 8).to_le_bytes()).collect();
    fs::write(dir.join("data.words"), words).expect("make the file of words");
}

/// Compares each thread's calls from the last one backwards: a recording that began in the middle
/// has the last ones.
///
/// # Panics
///
/// If a call is missing, differs, or has a wrong offset; or if one is unknown that must be known.
#[track_caller]
pub(crate) fn compare(dir: &Path, operations: &[JsonOperation], demand: OffsetDemand) -> Compared {
    let mut ours: BTreeMap<i32, Vec<&JsonOperation>> = BTreeMap::new();
    let prefix = dir.join("data.");
    let prefix = prefix.to_str().expect("a path that is text");
    let named_from =
        if demand == OffsetDemand::AfterSeeks { all_named_from(operations) } else { i64::MIN };
    for operation in operations {
        let on_data = operation.path.as_deref().is_some_and(|it| it.starts_with(prefix));
        if on_data
            && operation.start_ns > named_from
            && (TRANSFERS.contains(&operation.name.as_str()) || operation.name == "lseek")
        {
            ours.entry(operation.tid).or_default().push(operation);
        }
    }
    let truth = read(&dir.join("truth"));
    let mut compared = Compared::default();
    for (tid, mut calls) in truth {
        let ours = ours.remove(&tid).unwrap_or_default();
        let transfers = ours.iter().filter(|it| it.name != "lseek").count();
        assert!(transfers <= calls.len(), "thread {tid}: {transfers} calls, made {}", calls.len());
        if demand != OffsetDemand::AfterSeeks {
            assert_eq!(transfers, calls.len(), "calls of thread {tid}");
        }
        calls.drain(..calls.len() - transfers);
        compared.threads += usize::from(transfers > 0);
        thread(&ours, calls, demand, &mut compared);
    }
    // A call that only moves positions has no place of work.
    ours.retain(|_, calls| calls.iter().any(|it| it.name != "lseek"));
    assert!(ours.is_empty(), "threads that the program does not have: {:?}", ours.keys());
    compared
}

/// The last transfer on a file that has no name yet: the snapshot names one descriptor after the
/// other.
fn all_named_from(operations: &[JsonOperation]) -> i64 {
    let nameless = operations.iter().filter(|it| it.path.is_none());
    let transfers = nameless.filter(|it| TRANSFERS.contains(&it.name.as_str()));
    transfers.map(|it| it.start_ns).max().unwrap_or(i64::MIN)
}

fn thread(
    ours: &[&JsonOperation],
    mut calls: VecDeque<Call>,
    demand: OffsetDemand,
    compared: &mut Compared,
) {
    let mut seeks: BTreeMap<Option<i32>, usize> = BTreeMap::new();
    for operation in ours {
        if operation.name == "lseek" {
            *seeks.entry(operation.fd).or_default() += 1;
            continue;
        }
        let call = calls.pop_front().expect("as many as ours");
        let same = (operation.name.as_str(), operation.result) == (&call.name, Some(call.result));
        assert!(same, "the program made {call:?}, recorded is {operation:?}");
        compared.compared += 1;
        compared.known += usize::from(operation.offset.is_some());
        if let (Some(reported), Some(is)) = (operation.offset, call.offset) {
            assert_eq!(reported, is, "{call:?}: {operation:?}");
        }
        let settled = seeks.get(&operation.fd).is_some_and(|&it| it >= 2);
        let needed = match demand {
            OffsetDemand::WhereItMust => call.must,
            OffsetDemand::AfterSeeks => call.must && settled,
        };
        assert!(!needed || operation.offset.is_some(), "{call:?}: {operation:?}");
        compared.needed += usize::from(needed);
    }
}

/// Reads what the program wrote.
fn read(path: &Path) -> BTreeMap<i32, VecDeque<Call>> {
    let mut threads: BTreeMap<i32, VecDeque<Call>> = BTreeMap::new();
    let text = fs::read_to_string(path).expect("the program wrote the truth");
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [tid, name, result, offset, must] = words.as_slice() else { panic!("{line}") };
        let number = |it: &str| it.parse::<i64>().expect("a number");
        threads.entry(tid.parse().expect("a number")).or_default().push_back(Call {
            name: (*name).to_owned(),
            result: number(result),
            offset: u64::try_from(number(offset)).ok(),
            must: *must == "1",
        });
    }
    assert!(!threads.is_empty(), "the program made calls");
    threads
}
