//! Addresses in call chains, collected so that they can be symbolized at the end.
//!
//! Input are the records and facts that go into the log. All tables have limits. Entries beyond a
//! limit are counted, and unknown rather than wrong.

use rustc_hash::{FxHashMap, FxHashSet};

#[cfg(test)]
use super::executable_mappings::CodeMapping;
use super::executable_mappings::MappingHistory;
use super::symbols::{self, Programs, UnresolvedAddress};
use crate::capture::fact::{Fact, Symbol};
use crate::capture::header::Unread;
use crate::record::abi::record_type;
use crate::record::{RecordKind, SampleLayout};
use crate::sys::cancellation::Cancellation;
use crate::units::{KernelTime, Pid};

/// Largest number of addresses that are remembered.
const ADDRESSES_MAX: usize = 1 << 20;

/// Largest number of meanings of one address, one after the other; the latest are kept.
const MEANINGS_MAX: usize = 16;

/// Largest number of meanings of all addresses.
const ALL_MEANINGS_MAX: usize = 4 << 20;

/// Largest number of changes that are examined to find the meanings of addresses: a few seconds'
/// work.
const LOOKS_MAX: u64 = 1 << 30;

/// Addresses of call chains, and the executable mappings of their processes.
#[derive(Debug, Default)]
pub struct SeenChains {
    /// True if executable mappings are noted, too.
    of_programs: bool,
    kernel: FxHashSet<u64>,
    user: FxHashSet<(Pid, u64)>,
    /// Executable mappings of the processes.
    pub(super) code: MappingHistory,
    /// Users of the processes with addresses; `None` if the process had ended.
    owners: FxHashMap<Pid, Option<u32>>,
    /// True if dropping addresses outside of code has not helped.
    only_code: bool,
    /// Number of addresses for which there was no room.
    left_out: u64,
}

/// State of the search for the meanings of addresses.
#[derive(Debug)]
struct Search {
    /// Number of changes that may still be examined.
    looks_left: u64,
    /// Number of addresses for which no changes were left to examine.
    given_up: u64,
    /// Number of meanings beyond the limits.
    left_out: u64,
    wanted: Vec<UnresolvedAddress>,
}

impl SeenChains {
    /// Returns an empty collection; `of_programs` is true if functions of programs are to be
    /// symbolized, too.
    pub(super) fn new(of_programs: bool) -> Self {
        Self { of_programs, ..Self::default() }
    }

    /// Stores the addresses or mappings of a record.
    pub(super) fn note(&mut self, record: &RecordKind<'_>, layout: &SampleLayout) {
        match record.kind {
            record_type::SAMPLE => self.note_chain(record, layout),
            _ if self.of_programs => self.code.note(record, layout),
            _ => {}
        }
    }

    /// Stores the mappings that a fact reports, if it contains some.
    pub(super) fn note_fact(&mut self, fact: &Fact) {
        self.code.note_fact(fact);
    }

    fn note_chain(&mut self, record: &RecordKind<'_>, layout: &SampleLayout) {
        let Some(chain) = record.chain(layout) else { return };
        let is_full = !self.has_room();
        for address in chain.kernel() {
            if !is_full {
                self.kernel.insert(address);
            } else if !self.kernel.contains(&address) {
                self.left_out += 1;
            }
        }
        let Some((pid, _)) = record.task(layout) else { return };
        let has_program = record.program(layout).is_some_and(|it| it.is_there());
        // The process may have ended when the recording ends.
        if !is_full && (has_program || chain.user().next().is_some()) {
            self.owners.entry(pid).or_insert_with(|| symbols::owner_of(pid));
        }
        self.note_user(pid, chain.user());
    }

    /// Stores addresses of a program.
    pub(super) fn note_user(&mut self, pid: Pid, addresses: impl Iterator<Item = u64>) {
        let is_full = !self.has_room();
        for key in addresses.map(|it| (pid, it)) {
            if !is_full {
                self.user.insert(key);
            } else if !self.user.contains(&key) {
                self.left_out += 1;
            }
        }
    }

    /// True if there is room for more addresses. Without frame pointers any value may be taken for
    /// an address, so addresses outside of code are dropped first.
    fn has_room(&mut self) -> bool {
        let is_full = |it: &Self| it.kernel.len() + it.user.len() >= ADDRESSES_MAX;
        if is_full(self) && !self.only_code {
            let code = self.code.code_of_all();
            let before = self.user.len();
            self.user.retain(|it| is_in(&code, it.1));
            // The drop is not repeated for a small gain.
            self.only_code = self.user.len() > before / 2;
        }
        !is_full(self)
    }

    /// Symbolizes all addresses. Returns a warning about addresses without names, and the files
    /// that could not be read.
    pub(super) fn name(
        mut self,
        cancellation: &mut Cancellation<'_>,
    ) -> (Vec<Fact>, Option<String>, Unread) {
        self.code.sort();
        let (mut found, mut warning) = (Vec::new(), None);
        match symbols::kernel::functions(&self.kernel.drain().collect()) {
            Ok(named) => found.extend(named),
            Err(why) => {
                warning = Some(format!("the kernel's functions were not symbolized: {why}"))
            }
        }
        let mut search = Search::new();
        let mut user: Vec<(Pid, u64)> = self.user.iter().copied().collect();
        user.sort_unstable();
        for (pid, address) in user {
            self.look_for(&mut search, pid, address);
        }
        let Programs { named, cut, unread } =
            symbols::of_programs(search.wanted, &self.owners, cancellation);
        let is_nothing =
            |it: &Symbol| it.since == KernelTime::MIN && it.name.is_empty() && it.module.is_empty();
        let before = found.len();
        found.extend(named.into_iter().filter(|it| !is_nothing(it)));
        let unknown = self.unknown_at_the_end(found.get(before..).unwrap_or_default());
        found.extend(unknown);
        let counted = [
            (
                self.left_out + self.code.left_out,
                "addresses or mappings were dropped: too many to store",
            ),
            (search.left_out, "mappings were dropped: too many for one address, or in total"),
            (search.given_up, "addresses were not symbolized: too many changes of memory"),
            (cut, "lists of compiled functions were cut off: too long"),
        ];
        let counted = counted.into_iter().filter(|it| it.0 > 0);
        let all: Vec<String> = warning
            .into_iter()
            .chain(counted.map(|(count, what)| format!("{count} {what}")))
            .collect();
        let fact = |it: Symbol| Fact::Symbol(Box::new(it));
        let warning = (!all.is_empty()).then(|| all.join("; "));
        (found.into_iter().map(fact).collect(), warning, unread)
    }

    /// Adds the known meanings of an address.
    fn look_for(&self, search: &mut Search, pid: Pid, address: u64) {
        let mut all = self.code.at(pid, address, &mut search.looks_left);
        if search.looks_left == 0 {
            search.given_up += 1;
            return;
        }
        all.retain(|it| self.code.known_until.is_none_or(|until| it.0 < until));
        // An address without any mapping may be in a list of functions that were compiled at run
        // time.
        if all.is_empty() {
            all.push((KernelTime::MIN, None));
        }
        let room = MEANINGS_MAX.min(ALL_MEANINGS_MAX - search.wanted.len());
        let too_many = all.len().saturating_sub(room);
        search.left_out += too_many as u64;
        let kept = all.drain(too_many..);
        search.wanted.extend(kept.map(|(since, code)| UnresolvedAddress {
            pid,
            address,
            since,
            code,
        }));
    }

    /// Returns symbols without names from the time on at which not everything could be stored.
    fn unknown_at_the_end(&self, named: &[Symbol]) -> Vec<Symbol> {
        let Some(since) = self.code.known_until else { return Vec::new() };
        let mut places: Vec<(Pid, u64)> = named.iter().map(|it| (it.pid, it.address)).collect();
        places.sort_unstable();
        places.dedup();
        let unknown = |(pid, address)| Symbol { pid, address, since, ..Symbol::default() };
        places.into_iter().map(unknown).collect()
    }
}

/// True if one of these ranges contains a call instruction that ends right before this address.
fn is_in(code: &[(u64, u64)], address: u64) -> bool {
    let place = code.partition_point(|it| it.0 < address);
    place.checked_sub(1).and_then(|it| code.get(it)).is_some_and(|it| address <= it.1)
}

impl Search {
    fn new() -> Self {
        Self { looks_left: LOOKS_MAX, given_up: 0, left_out: 0, wanted: Vec::new() }
    }
}

#[cfg(test)]
impl SeenChains {
    /// Returns the last mapping that the process had at an address.
    pub(super) fn at_for_tests(&self, pid: Pid, address: u64) -> Option<CodeMapping> {
        self.code.at(pid, address, &mut { LOOKS_MAX }).pop()?.1
    }
}

#[cfg(test)]
mod tests {
    use super::super::executable_mappings;
    use super::*;
    use crate::sys::cancellation::testing::endless;

    fn seen(changes: &[(i32, u64, &str)]) -> SeenChains {
        SeenChains { code: executable_mappings::made(changes), ..SeenChains::default() }
    }

    #[test]
    fn a_sorted_row_of_places_is_searched() {
        let code = [(1, 3), (5, 9)];
        let inside: Vec<u64> = (0..12).filter(|it| is_in(&code, *it)).collect();
        assert_eq!(inside, [2, 3, 6, 7, 8, 9]);
    }

    #[test]
    fn non_code_addresses_are_dropped() {
        let mut seen = seen(&[(7, 10, "map /nowhere/a")]);
        seen.user.extend((0..ADDRESSES_MAX as u64).map(|it| (Pid(7), it << 8)));
        assert!(seen.has_room());
        // 16 times 256 bytes.
        assert_eq!(seen.user.len(), 16);
        seen.user.insert((Pid(7), 0x7777));
        let (facts, warning, _) = seen.name(endless());
        assert_eq!((facts.len(), warning), (16, None));
    }

    fn resolved(seen: &SeenChains, search: &mut Search) -> Vec<u64> {
        seen.look_for(search, Pid(7), 0x1800);
        search.wanted.drain(..).map(|it| it.since.0).collect()
    }

    #[test]
    fn latest_meanings_are_reported_and_others_counted() {
        let changes: Vec<_> = (1..=20).map(|it| (7, it, "map /a")).collect();
        let mut search = Search::new();
        assert_eq!(resolved(&seen(&changes), &mut search), (5..=20).collect::<Vec<u64>>());
        assert_eq!((search.left_out, search.given_up), (4, 0));
        search.looks_left = 19;
        assert_eq!(resolved(&seen(&changes), &mut search), [0_u64; 0]);
        assert_eq!((search.left_out, search.given_up), (4, 1));
    }

    /// Fails if a mapping created after the table was full is named by an earlier mapping.
    #[test]
    fn nothing_is_known_from_when_there_was_no_room_on() {
        let mut seen = seen(&[(7, 10, "map /nowhere/a"), (7, 40, "map /nowhere/b")]);
        seen.code.forget_from(KernelTime(30));
        seen.user.insert((Pid(7), 0x1800));
        let (facts, warning, _) = seen.name(endless());
        let symbol = |fact: &Fact| match fact {
            Fact::Symbol(symbol) => {
                (symbol.since.0, String::from_utf8_lossy(&symbol.module).into_owned())
            }
            other => panic!("{other:?}"),
        };
        let found: Vec<_> = facts.iter().map(symbol).collect();
        assert_eq!(found, [(10, "/nowhere/a".to_owned()), (30, String::new())]);
        assert!(warning.is_some_and(|it| it.starts_with("1 addresses or mappings")));
    }
}
