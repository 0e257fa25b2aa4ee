//! Control flow of one function: the possible successors of each instruction, and the known values
//! before each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use iced_x86::{
    Code as Opcode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    Register,
};

use super::elf::CodeImage;
use super::value::MachineState;

/// Limit on the instructions of one function. Functions of the C libraries that pass paths to the
/// kernel have some hundreds at most.
const INSTRUCTIONS_MAX: usize = 4000;

/// Limit on the steps of the analysis; the rest is not used.
const STEPS_MAX: usize = 60_000;

/// A function from its entry on, as far as its code can be followed.
#[derive(Debug)]
pub(super) struct Flow {
    entry: u64,
    nodes: BTreeMap<u64, FlowNode>,
}

/// An instruction.
#[derive(Debug)]
pub(super) struct FlowNode {
    pub(super) instruction: Instruction,
    /// Possible successors.
    pub(super) next: Vec<u64>,
    /// True if there may be other successors.
    pub(super) leaves: bool,
    pub(super) before: MachineState,
}

impl FlowNode {
    /// True if the kernel emulates the instruction instead of executing it out of line, which needs
    /// two traps (`branch_setup_xol_ops()` and `push_setup_xol_ops()` in
    /// `arch/x86/kernel/uprobes.c`, from 4.18 on).
    pub(super) fn is_emulated(&self) -> bool {
        is_emulated(&self.instruction)
    }

    /// True if the instruction may be executed out of line and cannot block there: a signal would
    /// be delayed (`uprobe_deny_signal()` in `kernel/events/uprobes.c`).
    pub(super) fn may_step(&self) -> bool {
        may_step(&self.instruction)
    }
}

/// As [`FlowNode::is_emulated`].
pub(super) fn is_emulated(instruction: &Instruction) -> bool {
    let code = instruction.code();
    instruction.is_jcc_short_or_near()
        || instruction.is_jmp_short_or_near()
        || matches!(code, Opcode::Call_rel32_64 | Opcode::Push_r64)
        || code == Opcode::Nopd && instruction.len() == 1
}

/// As [`FlowNode::may_step`].
pub(super) fn may_step(instruction: &Instruction) -> bool {
    // `is_prefix_bad()` in `arch/x86/kernel/uprobes.c`: such instructions cannot have a probe.
    let is_refused = instruction.has_lock_prefix()
        || matches!(
            instruction.segment_prefix(),
            Register::ES | Register::CS | Register::SS | Register::DS
        );
    instruction.flow_control() == FlowControl::Next && !is_refused
}

impl Flow {
    /// Follows the code from this address on; `None`: there are too many instructions.
    pub(super) fn of(
        code: &CodeImage<'_>,
        entry: u64,
        info: &mut InstructionInfoFactory,
    ) -> Option<Self> {
        let mut nodes: BTreeMap<u64, FlowNode> = BTreeMap::new();
        let mut waiting = VecDeque::from([(entry, MachineState::entry())]);
        let mut steps = 0;
        while let Some((ip, incoming)) = waiting.pop_front() {
            steps += 1;
            if steps > STEPS_MAX || nodes.len() > INSTRUCTIONS_MAX {
                return None;
            }
            let is_new = !nodes.contains_key(&ip);
            let node =
                nodes.entry(ip).or_insert_with(|| FlowNode::decode(code, ip, incoming.clone()));
            if !is_new && !node.before.meet(&incoming, ip) {
                continue;
            }
            // A call that does not return is followed by the next function.
            let behind = node.instruction.next_ip();
            if behind != node.instruction.near_branch_target()
                && code.function_of(behind) == Some(behind)
            {
                node.next.retain(|&node| node != behind);
            }
            let mut after = node.before.clone();
            after.step(&node.instruction, info);
            waiting.extend(node.next.iter().map(|&next| (next, after.clone())));
        }
        Some(Self { entry, nodes })
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (u64, &FlowNode)> {
        self.nodes.iter().map(|node| (*node.0, node.1))
    }

    pub(super) fn node(&self, ip: u64) -> Option<&FlowNode> {
        self.nodes.get(&ip)
    }

    /// True if every path to `target` leads through `through`.
    pub(super) fn is_on_every_way(&self, through: u64, target: u64) -> bool {
        through == target || !self.reach(self.entry, |node| node == through).0.contains(&target)
    }

    /// True if every path from `from` reaches one of these, and none leaves the function before.
    pub(super) fn always_comes_to(&self, from: u64, targets: &[u64]) -> bool {
        !self.reach(from, |node| targets.contains(&node)).1
    }

    /// Number of instructions from one to these.
    pub(super) fn distance(&self, from: u64, targets: &[u64]) -> usize {
        self.reach(from, |node| targets.contains(&node)).0.len()
    }

    /// Predecessors of an instruction.
    pub(super) fn before(&self, ip: u64) -> impl Iterator<Item = (u64, &FlowNode)> {
        self.nodes().filter(move |node| node.1.next.contains(&ip))
    }

    /// Instructions that are reachable from `from`, not beyond those for which `ends` is true; and
    /// whether the function may be left on a path.
    fn reach(&self, from: u64, ends: impl Fn(u64) -> bool) -> (BTreeSet<u64>, bool) {
        let (mut seen, mut leaves) = (BTreeSet::new(), false);
        let mut waiting = vec![from];
        while let Some(ip) = waiting.pop() {
            if ends(ip) || !seen.insert(ip) {
                continue;
            }
            let Some(node) = self.nodes.get(&ip) else { continue };
            leaves |= node.leaves;
            waiting.extend(&node.next);
        }
        (seen, leaves)
    }
}

impl FlowNode {
    fn decode(code: &CodeImage<'_>, ip: u64, before: MachineState) -> Self {
        let instruction = Decoder::with_ip(64, code.at(ip), ip, DecoderOptions::NONE).decode();
        let behind = instruction.next_ip();
        let target = instruction.near_branch_target();
        let (next, leaves) = match instruction.flow_control() {
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {
                (vec![behind], false)
            }
            FlowControl::UnconditionalBranch => (vec![target], false),
            FlowControl::ConditionalBranch => (vec![behind, target], false),
            _ => (Vec::new(), true),
        };
        // Beyond the code, or an invalid instruction. (`syscall` is a call for the decoder.)
        let leaves = leaves || instruction.is_invalid();
        Self {
            instruction,
            next: if instruction.is_invalid() { Vec::new() } else { next },
            leaves,
            before,
        }
    }
}
