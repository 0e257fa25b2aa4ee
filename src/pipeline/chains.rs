//! Registry of call chains: equal chains get the same number.

use rustc_hash::FxHashMap;

use crate::event::block::BlockPoint;
use crate::event::callchain::{CallChain, ChainId};
use crate::event::task::TaskEvent;
use crate::event::{Event, EventKind};
use crate::operation::symbols::Symbols;
use crate::operation::user_stacks::{UnwindStats, UserStacks};
use crate::record::abi::context;
use crate::record::{Layout, RecordKind};
use crate::units::{CpuId, KernelTime, Pid, Tid};

/// Limit on different chains with numbers: samples with further chains have none, and are counted.
const CHAINS_MAX: usize = 1 << 17;

/// Limit on the addresses and numbers of all chains together; it has the same effect.
const WORDS_MAX: usize = 16 << 20;

/// Registry of the chains so far.
#[derive(Debug, Default)]
pub(super) struct CallChainTable {
    /// Numbers by the addresses, followed, if functions of a program are among them, by the process
    /// and the number of programs that it has had.
    known: FxHashMap<Box<[u64]>, ChainId>,
    /// Sum of the chains' lengths.
    words: usize,
    /// Number of programs so far under the number of a process.
    programs: FxHashMap<Pid, u32>,
    /// Unwound call chains of stack copies.
    pub(super) ways: UserStacks,
    /// Results of the unwinding.
    pub(super) found: UnwindStats,
    /// Samples beyond the limits.
    pub(super) left_out: u64,
}

impl CallChainTable {
    /// Records an exec, or a new process with a used number: the meanings of its addresses change.
    pub(super) fn learn(&mut self, task: &TaskEvent) {
        let pid = match task {
            TaskEvent::Comm { pid, exec: true, .. } => pid,
            TaskEvent::Fork { pid, ppid, .. } if pid != ppid => pid,
            _ => return,
        };
        *self.programs.entry(*pid).or_default() += 1;
    }

    /// Gives an event the number of its chain, if its record has one; returns a further event with
    /// a chain that is new. In programs without frame pointers any value may be taken for an
    /// address: those that cannot be code by the known symbols become 0, so they do not make chains
    /// differ.
    pub(super) fn observe(
        &mut self,
        event: &mut Event,
        record: &[u8],
        layout: &Layout,
        symbols: &Symbols,
    ) -> Option<Event> {
        let Layout::Perf(layout) = layout else { return None };
        let place = match &mut event.kind {
            EventKind::SysExit(exit) => &mut exit.chain,
            EventKind::Block(block) if block.point == BlockPoint::BioQueue => &mut block.chain,
            _ => return None,
        };
        let (record, _) = RecordKind::first(record).ok()?;
        let chain = record.chain(layout)?;
        let (pid, time) = (event.pid, event.time);
        let kernel: Box<[u64]> = chain.kernel().collect();
        let user: Box<[u64]> = if layout.has_program() {
            // A kernel thread has none.
            let has_program = record.program(layout).is_none_or(|program| program.is_there());
            if has_program { self.way(event.tid, time) } else { Box::default() }
        } else {
            let known = |address| if symbols.may_be_code(pid, address, time) { address } else { 0 };
            chain.user().map(known).collect()
        };
        let mut key = [&kernel[..], &[context::USER], &user].concat();
        if !user.is_empty() {
            let programs = self.programs.get(&pid).copied().unwrap_or(0);
            key.extend([u64::from(pid.0.cast_unsigned()), u64::from(programs)]);
        }
        if let Some(known) = self.known.get(key.as_slice()) {
            *place = Some(*known);
            return None;
        }
        let number = u32::try_from(self.known.len()).ok()?;
        let words = self.words + key.len();
        if self.known.len() >= CHAINS_MAX || words > WORDS_MAX {
            self.left_out += 1;
            return None;
        }
        self.words = words;
        let id = ChainId(number);
        self.known.insert(key.into(), id);
        *place = Some(id);
        let kind = EventKind::Chain(Box::new(CallChain { id, pid, time, kernel, user }));
        Some(Event { time, cpu: CpuId(0), pid: Pid(-1), tid: Tid(-1), kind })
    }
}

impl CallChainTable {
    /// Functions of the program that were unwound from a copy of its stack.
    fn way(&mut self, tid: Tid, time: KernelTime) -> Box<[u64]> {
        let way = self.ways.of(tid, time);
        self.found.add(way);
        way.map(|way| way.addresses.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::fact::Symbol;
    use crate::event::{SysExit, syscall_table::CallId};
    use crate::record::abi::{record_type, sample_type as bit};
    use crate::units::{KernelTime, Tid};

    fn layout() -> Layout {
        let bits = bit::TID | bit::TIME | bit::CALLCHAIN | bit::RAW;
        Layout::of("perf", bits, 0, "").expect("it is read")
    }

    /// Creates a sample with this chain.
    fn record(pid: i32, words: &[u64]) -> (Event, Vec<u8>) {
        let mut body: Vec<u8> =
            [pid, pid, 9, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend((words.len() as u64).to_le_bytes());
        body.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        body.extend([0; 8]);
        let size = u16::try_from(body.len() + 8).expect("short");
        let head = [&record_type::SAMPLE.to_le_bytes()[..], &[0, 0], &size.to_le_bytes()];
        let exit = SysExit { call: CallId(0), ret: 0, names: None, chain: None };
        let (time, cpu, kind) = (KernelTime(9), CpuId(0), EventKind::SysExit(exit));
        let event = Event { time, cpu, pid: Pid(pid), tid: Tid(pid), kind };
        (event, [head.concat(), body].concat())
    }

    fn symbols() -> Symbols {
        let mut symbols = Symbols::default();
        for pid in [Pid(7), Pid(8)] {
            symbols.add(Symbol { pid, address: 3, module: b"/x".to_vec(), ..Symbol::default() });
        }
        symbols
    }

    /// Number of the chain, and whether it is new.
    fn look(chains: &mut CallChainTable, pid: i32, words: &[u64]) -> (Option<u32>, bool) {
        let (mut event, bytes) = record(pid, words);
        let is_new = chains.observe(&mut event, &bytes, &layout(), &symbols()).is_some();
        let EventKind::SysExit(exit) = event.kind else { panic!("it stays what it is") };
        (exit.chain.map(|exit| exit.0), is_new)
    }

    #[test]
    fn functions_of_programs_are_those_of_one_process_and_one_program() {
        let mut chains = CallChainTable::default();
        let kernel = [context::KERNEL, 1, 2];
        let both = [context::KERNEL, 1, 2, context::USER, 3];
        assert_eq!(look(&mut chains, 7, &kernel), (Some(0), true));
        assert_eq!(look(&mut chains, 8, &kernel), (Some(0), false));
        assert_eq!(look(&mut chains, 7, &both), (Some(1), true));
        assert_eq!(look(&mut chains, 7, &both), (Some(1), false));
        assert_eq!(look(&mut chains, 8, &both), (Some(2), true));
        let (pid, tid) = (Pid(7), Tid(7));
        chains.learn(&TaskEvent::Comm { pid, tid, comm: b"x".to_vec(), exec: true });
        assert_eq!(look(&mut chains, 7, &both), (Some(3), true));
        chains.learn(&TaskEvent::Fork { pid, tid, ppid: Pid(1), ptid: Tid(1) });
        assert_eq!(look(&mut chains, 7, &both), (Some(4), true));
        chains.learn(&TaskEvent::Fork { pid, tid: Tid(70), ppid: pid, ptid: tid });
        assert_eq!(look(&mut chains, 7, &both), (Some(4), false));
        assert_eq!(look(&mut chains, 7, &kernel), (Some(0), false));
    }

    #[test]
    fn non_code_addresses_do_not_change_a_chain() {
        let mut chains = CallChainTable::default();
        let through = |address| [context::KERNEL, 1, context::USER, 3, address];
        assert_eq!(look(&mut chains, 7, &through(0x7777)), (Some(0), true));
        assert_eq!(look(&mut chains, 7, &through(0x8888)), (Some(0), false));
        assert_eq!(look(&mut chains, 7, &through(3)), (Some(1), true));
        // Without room for more addresses, known chains are still recognized.
        chains.words = WORDS_MAX - 1;
        assert_eq!(look(&mut chains, 7, &[context::KERNEL, 9]), (None, false));
        assert_eq!(look(&mut chains, 7, &through(3)), (Some(1), false));
        assert_eq!(chains.left_out, 1);
        chains.words = 0;
        // The kernel's addresses keep their meaning.
        assert_eq!(look(&mut chains, 7, &[context::KERNEL, 9]), (Some(2), true));
    }
}
