//! Finds the code addresses where a uprobe can read the path of a system call, or the lists of
//! `io_submit` and `io_getevents`.
//!
//! In: the bytes of an ELF file for x86-64, and the calls that matter. Out: [`Site`]s: positions in
//! the file at which certain registers hold the addresses of the paths of the next system call.
//!
//! ```text
//!   every `syscall`  ──►  values before it  ──►  call and paths      ──►  a place on every path to
//! it
//!   (and functions        (flow, value:          (the number is           where a register has the
//! path,
//!   that make it          registers with         known, the table         preferably one that the
//! kernel
//!   for others)           equal values)          has its paths)           emulates
//! ```
//!
//! A correct name does not depend on this code: a path is assigned to a call only if it was at the
//! address that the call has (`operation::inside`). Errors here result in unknown names. This code
//! opens no file and makes no request to the kernel.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{InstructionInfoFactory, Mnemonic};

use crate::event::syscall_table::{CallId, Role};
pub use error::SitesError;

mod elf;
mod error;
mod flow;
mod lists;
mod site;
mod value;

use elf::CodeImage;
use flow::{Flow, FlowNode};
pub use site::{MACHINE, Site, Sites};
pub use value::NAMES as REGISTERS;
use value::{ARGUMENTS, EntrySlot, NAMES, NUMBER, TrackedValue};

/// Limit on the nesting of functions that make calls for others.
const FORWARDERS_DEEP: usize = 3;

/// Finds the sites of these calls in the bytes of an ELF file.
///
/// # Errors
///
/// The file is not one with code for x86-64.
pub fn find(bytes: &[u8], wanted: &[CallId]) -> Result<Sites, SitesError> {
    Ok(find_in(&CodeImage::parse(bytes)?, wanted))
}

fn find_in(code: &CodeImage<'_>, wanted: &[CallId]) -> Sites {
    let mut finder = SiteFinder {
        code,
        wanted,
        info: InstructionInfoFactory::new(),
        forwarders: BTreeMap::new(),
        found: BTreeMap::new(),
        sites: Sites::default(),
    };
    let syscalls = code.places([0x0f, 0x05]).filter(|place| finder.may_matter(*place));
    let places: Vec<Option<u64>> = syscalls.map(|syscall| code.function_of(syscall)).collect();
    // Without symbols and tables the entries of functions are unknown.
    finder.sites.unknown = places.iter().filter(|place| place.is_none()).count();
    let mut functions: BTreeSet<u64> = places.into_iter().flatten().collect();
    for _ in 0..FORWARDERS_DEEP {
        let known: BTreeSet<u64> = finder.forwarders.keys().copied().collect();
        functions.iter().for_each(|&function| finder.look_through(function));
        let is_new =
            |number: &u64| finder.forwarders.contains_key(number) && !known.contains(number);
        let calls = code.jumps().filter(|jump| is_new(&jump.1));
        functions = calls.filter_map(|call| code.function_of(call.0)).collect();
    }
    let SiteFinder { found, mut sites, .. } = finder;
    sites.sites = found.into_values().collect();
    sites.sites.extend(lists::sites(code, wanted));
    sites
}

/// Interpreter of a program, if the first bytes of its file have it.
pub fn interpreter(head: &[u8]) -> Option<String> {
    elf::interpreter(head)
}

/// A function that makes a call for others: the sources of number and arguments.
#[derive(Clone, Debug)]
struct Forwarder {
    number: EntrySlot,
    arguments: [Option<EntrySlot>; 6],
}

/// A place where a call is made, and the values with its paths there.
#[derive(Clone, Debug)]
struct Handover {
    at: u64,
    call: CallId,
    paths: Vec<TrackedValue>,
}

/// Search in one file.
struct SiteFinder<'a> {
    code: &'a CodeImage<'a>,
    wanted: &'a [CallId],
    info: InstructionInfoFactory,
    forwarders: BTreeMap<u64, Forwarder>,
    /// Sites by address.
    found: BTreeMap<u64, Site>,
    sites: Sites,
}

/// Number and arguments of a call that an instruction makes.
struct CallValues {
    number: Option<TrackedValue>,
    arguments: [Option<TrackedValue>; 6],
}

/// Bytes before a `syscall` in which its number is usually loaded into `eax`.
const NUMBER_BYTES: u64 = 48;

/// `mov $imm32,%eax`.
const MOV_EAX: u8 = 0xb8;

/// Upper bound of the numbers of all calls.
const NUMBERS_END: u32 = 1024;

impl SiteFinder<'_> {
    /// False for a `syscall` directly after a number that is another call's: that is true for most,
    /// and following the code of all functions takes seconds.
    fn may_matter(&self, syscall: u64) -> bool {
        let before = self.code.before(syscall, NUMBER_BYTES);
        let numbers = before.windows(5).filter_map(|window| match window {
            &[MOV_EAX, a, b, c, d] => Some(u32::from_le_bytes([a, b, c, d])),
            _ => None,
        });
        let numbers: Vec<u32> = numbers.filter(|number| *number < NUMBERS_END).collect();
        let wanted: Vec<u32> =
            self.wanted.iter().filter_map(|wanted| wanted.call().number(MACHINE)).collect();
        numbers.is_empty() || numbers.iter().any(|number| wanted.contains(number))
    }

    fn look_through(&mut self, entry: u64) {
        let Some(flow) = Flow::of(self.code, entry, &mut self.info) else { return };
        let mut handovers = Vec::new();
        for (at, node) in flow.nodes().filter(|node| self.code.function_of(node.0) == Some(entry)) {
            let Some(values) = self.made_by(node) else { continue };
            let CallValues { number, arguments } = values;
            match number {
                Some(TrackedValue::Number(number)) => {
                    handovers.extend(self.handover(at, number, &arguments))
                }
                Some(TrackedValue::Entry(number)) => {
                    let slot = |value: Option<TrackedValue>| match value {
                        Some(TrackedValue::Entry(slot)) => Some(slot),
                        _ => None,
                    };
                    let forwarder = Forwarder { number, arguments: arguments.map(slot) };
                    self.add_exported(&flow, entry, &forwarder);
                    self.forwarders.entry(entry).or_insert(forwarder);
                }
                _ => self.sites.unknown += 1,
            }
        }
        let places: Vec<u64> = handovers.iter().map(|handover| handover.at).collect();
        let mut left = handovers;
        while let Some(first) = left.first() {
            let shared = shared(&flow, &left, &places);
            let (at, covered) = match shared {
                Some((at, covered)) => (vec![at], covered),
                None => (just_before(&flow, first, &places), vec![first.at]),
            };
            let (those, others) = left.into_iter().partition(|rest| covered.contains(&rest.at));
            left = others;
            if at.is_empty() {
                self.sites.hidden.extend(those.iter().map(|handover: &Handover| handover.call));
            }
            at.iter().filter_map(|at| flow.node(*at)).for_each(|at| self.add(at, &those));
        }
    }

    /// Call that an instruction makes: a `syscall`, or a call of a function that makes one for
    /// others.
    fn made_by(&self, node: &FlowNode) -> Option<CallValues> {
        let state = &node.before;
        if node.instruction.mnemonic() == Mnemonic::Syscall {
            let arguments = ARGUMENTS.map(|argument| Some(state.register(argument)));
            return Some(CallValues { number: Some(state.register(NUMBER)), arguments });
        }
        let is_call = node.instruction.mnemonic() == Mnemonic::Call;
        let forwarder = self.forwarders.get(&node.instruction.near_branch_target())?;
        let handed = |slot| state.handed(slot, is_call);
        Some(CallValues {
            number: handed(forwarder.number),
            arguments: forwarder.arguments.map(|argument| argument.and_then(handed)),
        })
    }

    /// Call of this number, if it matters and has paths.
    fn handover(
        &self,
        at: u64,
        number: u64,
        arguments: &[Option<TrackedValue>; 6],
    ) -> Option<Handover> {
        let is_it = |call: &&CallId| call.call().number(MACHINE).map(u64::from) == Some(number);
        let call = *self.wanted.iter().find(is_it)?;
        let paths: Option<Vec<TrackedValue>> =
            path_places(call).map(|place| arguments.get(place).copied().flatten()).collect();
        // A null pointer is not a path. A path of unknown origin counts as hidden.
        let paths = paths.unwrap_or_default();
        let is_there = !paths.contains(&TrackedValue::Number(0)) && call.call().has_path();
        is_there.then_some(Handover { at, call, paths })
    }

    /// Adds a site at the entry of a function that makes calls for others, if it is exported
    /// (`syscall(2)`).
    fn add_exported(&mut self, flow: &Flow, entry: u64, forwarder: &Forwarder) {
        let Some(node) = flow.node(entry).filter(|_| self.code.is_exported(entry)) else { return };
        let EntrySlot::Register(number) = forwarder.number else { return };
        let Some(offset) = self.code.file_offset(entry) else { return };
        let calls = self.wanted.iter().copied().filter(|wanted| wanted.call().has_path());
        let calls: BTreeSet<CallId> = calls.collect();
        let emulated = node.is_emulated();
        if calls.is_empty() || !emulated && !node.may_step() {
            return;
        }
        let places = calls.iter().flat_map(|call| path_places(*call));
        let slots = places.filter_map(|place| forwarder.arguments.get(place).copied().flatten());
        let names = slots.filter_map(|slot| match slot {
            EntrySlot::Register(slot) => NAMES.get(slot).copied(),
            EntrySlot::Stack(_) => None,
        });
        let mut registers: Vec<&str> = names.collect();
        registers.sort_unstable();
        registers.dedup();
        let number = NAMES.get(number).copied();
        self.found.insert(entry, Site { offset, registers, calls, emulated, number });
    }

    /// Adds a site at this instruction, for these calls.
    fn add(&mut self, node: &FlowNode, covered: &[Handover]) {
        let ip = node.instruction.ip();
        let Some(offset) = self.code.file_offset(ip) else { return };
        let emulated = node.is_emulated();
        let (registers, calls) = Default::default();
        let new = Site { offset, registers, calls, emulated, number: None };
        let site = self.found.entry(ip).or_insert(new);
        site.calls.extend(covered.iter().map(|covered| covered.call));
        let paths = covered.iter().flat_map(|covered| &covered.paths);
        let holders = paths.filter_map(|path| NAMES.get(node.before.holder(*path)?));
        site.registers.extend(holders);
        site.registers.sort_unstable();
        site.registers.dedup();
    }
}

/// Indices of a call's path arguments.
fn path_places(call: CallId) -> impl Iterator<Item = usize> {
    [Role::Path, Role::Path2].into_iter().filter_map(move |role| call.call().arg(role))
}

/// True if registers hold the paths of the call before this instruction.
fn holds(node: &FlowNode, handover: &Handover) -> bool {
    let mut paths = handover.paths.iter();
    !handover.paths.is_empty() && paths.all(|path| node.before.holder(*path).is_some())
}

/// Emulated instruction that certainly precedes most of these calls, the nearest of several; and
/// those calls.
fn shared(flow: &Flow, left: &[Handover], places: &[u64]) -> Option<(u64, Vec<u64>)> {
    let emulated = flow.nodes().filter(|node| node.1.is_emulated());
    let candidates = emulated.filter_map(|(at, node)| {
        let held: Vec<&Handover> = left.iter().filter(|rest| holds(node, rest)).collect();
        let held = held.into_iter().filter(|held| flow.is_on_every_way(at, held.at));
        let covered: Vec<u64> = held.map(|held| held.at).collect();
        let is_sure = !covered.is_empty() && flow.always_comes_to(at, places);
        is_sure.then_some((at, covered))
    });
    candidates
        .max_by_key(|(at, covered)| (covered.len(), std::cmp::Reverse(flow.distance(*at, places))))
}

/// All instructions directly before a call; none if one of them is not suitable.
fn just_before(flow: &Flow, handover: &Handover, places: &[u64]) -> Vec<u64> {
    let before: Vec<(u64, &FlowNode)> = flow.before(handover.at).collect();
    let will_do = |number: &(u64, &FlowNode)| {
        (number.1.is_emulated() || number.1.may_step())
            && holds(number.1, handover)
            && flow.always_comes_to(number.0, places)
    };
    let all = before.iter().all(will_do);
    before.into_iter().filter(|_| all).map(|file| file.0).collect()
}

#[cfg(test)]
mod tests;
