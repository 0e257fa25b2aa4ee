//! Known values of registers and stack at one place of a function: which of them are equal.

use std::collections::BTreeMap;

use iced_x86::{
    Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

/// Location of a value when the function was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntrySlot {
    /// A register, by its number.
    Register(usize),
    /// Number of bytes above the stack pointer: 0 is the return address.
    Stack(i64),
}

/// Value in a register or in a stack slot. Equal values are the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TrackedValue {
    /// Value at this location when the function was entered.
    Entry(EntrySlot),
    /// A constant.
    Number(u64),
    /// The address this number of bytes above the stack pointer of the entry.
    StackAddress(i64),
    /// Result of the instruction at this address.
    Made(u64, EntrySlot),
    /// One of several values, where paths join.
    Met(u64, EntrySlot),
}

/// Values of registers and stack before an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MachineState {
    registers: [TrackedValue; 16],
    /// Slots of 8 bytes, by the distance from the stack pointer of the entry.
    stack: BTreeMap<i64, TrackedValue>,
}

const RAX: usize = 0;
const RCX: usize = 1;
const RSP: usize = 4;
const RBP: usize = 5;
const R11: usize = 11;

/// Registers that a function may change (System V ABI, AMD64): `rax`, `rcx`, `rdx`, `rsi`, `rdi`,
/// `r8` to `r11`.
const CHANGED_BY_CALLS: [usize; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];

/// Registers with the arguments of a system call.
pub(super) const ARGUMENTS: [usize; 6] = [7, 6, 2, 10, 8, 9];

/// The register with the number of a system call.
pub(super) const NUMBER: usize = RAX;

/// Names of the registers in the kernel's probes, by their numbers.
pub const NAMES: [&str; 16] = [
    "ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];

/// Number of a general register, for any part of it.
fn number(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}

impl MachineState {
    /// State at the entry of a function.
    pub(super) fn entry() -> Self {
        let mut registers = [TrackedValue::Number(0); 16];
        for (number, register) in registers.iter_mut().enumerate() {
            *register = TrackedValue::Entry(EntrySlot::Register(number));
        }
        let mut state = Self { registers, stack: BTreeMap::new() };
        state.set(RSP, TrackedValue::StackAddress(0));
        state
    }

    pub(super) fn register(&self, number: usize) -> TrackedValue {
        // There are 16.
        self.registers.get(number).copied().unwrap_or(TrackedValue::Number(0))
    }

    fn set(&mut self, number: usize, value: TrackedValue) {
        if let Some(register) = self.registers.get_mut(number) {
            *register = value;
        }
    }

    /// Register that holds a value.
    pub(super) fn holder(&self, value: TrackedValue) -> Option<usize> {
        self.registers.iter().position(|&register| register == value)
    }

    /// Value that a function finds there when it is entered now: by a `call`, or by a jump.
    pub(super) fn handed(&self, slot: EntrySlot, is_call: bool) -> Option<TrackedValue> {
        match slot {
            EntrySlot::Register(number) => Some(self.register(number)),
            EntrySlot::Stack(above) => {
                let TrackedValue::StackAddress(at) = self.register(RSP) else { return None };
                self.loaded(at + above - if is_call { 8 } else { 0 })
            }
        }
    }

    fn loaded(&self, at: i64) -> Option<TrackedValue> {
        let kept = self.stack.get(&at).copied();
        // Slots above belong to the caller.
        kept.or((at >= 8).then_some(TrackedValue::Entry(EntrySlot::Stack(at))))
    }

    /// Joins another path to the instruction at `ip`. True if that changes the state.
    pub(super) fn meet(&mut self, other: &Self, ip: u64) -> bool {
        let before = self.clone();
        for (number, (ours, theirs)) in self.registers.iter_mut().zip(&other.registers).enumerate()
        {
            if ours != theirs {
                *ours = TrackedValue::Met(ip, EntrySlot::Register(number));
            }
        }
        self.stack.retain(|at, ours| other.loaded(*at) == Some(*ours));
        *self != before
    }

    /// Stack slot of an instruction's memory operand, if it is known.
    fn stack_place(&self, instruction: &Instruction) -> Option<i64> {
        let is_plain = instruction.memory_index() == Register::None
            && !matches!(instruction.memory_segment(), Register::FS | Register::GS);
        let base = number(instruction.memory_base()).filter(|_| is_plain)?;
        let TrackedValue::StackAddress(at) = self.register(base) else { return None };
        Some(at.wrapping_add(instruction.memory_displacement64().cast_signed()))
    }

    /// Writes this number of bytes; the value is known for at most 8.
    fn store(&mut self, at: i64, bytes: usize, value: Option<TrackedValue>) {
        let end = at.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.stack.retain(|place, _| *place + 8 <= at || *place >= end);
        if let Some(value) = value {
            self.stack.insert(at, value);
        }
    }

    fn move_stack(&mut self, ip: u64, by: i64) {
        let moved = match self.register(RSP) {
            TrackedValue::StackAddress(at) => TrackedValue::StackAddress(at.wrapping_add(by)),
            _ => TrackedValue::Made(ip, EntrySlot::Register(RSP)),
        };
        self.set(RSP, moved);
    }

    fn push(&mut self, ip: u64, value: Option<TrackedValue>) {
        self.move_stack(ip, -8);
        if let TrackedValue::StackAddress(at) = self.register(RSP) {
            self.store(at, 8, value);
        }
    }

    fn pop(&mut self, ip: u64, into: usize) {
        let value = match self.register(RSP) {
            TrackedValue::StackAddress(at) => self.loaded(at),
            _ => None,
        };
        self.move_stack(ip, 8);
        self.set(into, value.unwrap_or(TrackedValue::Made(ip, EntrySlot::Register(into))));
    }

    /// Value of an operand with 64 bits or a constant.
    fn operand(&self, instruction: &Instruction, operand: u32) -> Option<TrackedValue> {
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = instruction.op_register(operand);
                number(register).filter(|_| register.is_gpr64()).map(|number| self.register(number))
            }
            OpKind::Memory if instruction.memory_size().size() == 8 => {
                self.loaded(self.stack_place(instruction)?)
            }
            OpKind::Memory | OpKind::NearBranch64 => None,
            _ => instruction.try_immediate(operand).ok().map(TrackedValue::Number),
        }
    }

    /// Advances the state over this instruction, to the next one.
    pub(super) fn step(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        let ip = instruction.ip();
        let made = |number: usize| TrackedValue::Made(ip, EntrySlot::Register(number));
        let target = (instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register)
            .then(|| number(instruction.op0_register()))
            .flatten();
        let is_wide = instruction.op_count() > 0 && instruction.op0_register().is_gpr64();
        match (instruction.mnemonic(), target) {
            (Mnemonic::Push, _) => self.push(ip, self.operand(instruction, 0)),
            (Mnemonic::Pop, Some(target)) => self.pop(ip, target),
            (Mnemonic::Leave, _) => {
                self.set(RSP, self.register(RBP));
                self.pop(ip, RBP);
            }
            (Mnemonic::Call, _) => CHANGED_BY_CALLS
                .iter()
                .for_each(|&changed_by_call| self.set(changed_by_call, made(changed_by_call))),
            (Mnemonic::Syscall, _) => {
                [RAX, RCX, R11].iter().for_each(|&register| self.set(register, made(register)))
            }
            (Mnemonic::Xor, Some(target))
                if instruction.op0_register() == instruction.op1_register() =>
            {
                self.set(target, TrackedValue::Number(0));
            }
            (Mnemonic::Lea, Some(target)) => {
                let place = self.stack_place(instruction).map(TrackedValue::StackAddress);
                self.set(target, place.unwrap_or(made(target)));
            }
            (Mnemonic::Add | Mnemonic::Sub, Some(target)) if is_wide => {
                let moved = match (self.register(target), self.operand(instruction, 1)) {
                    (TrackedValue::StackAddress(at), Some(TrackedValue::Number(by))) => {
                        let by = by.cast_signed();
                        let by = if instruction.mnemonic() == Mnemonic::Sub { -by } else { by };
                        TrackedValue::StackAddress(at.wrapping_add(by))
                    }
                    _ => made(target),
                };
                self.set(target, moved);
            }
            (Mnemonic::Mov, Some(target)) => {
                let value = self.operand(instruction, 1);
                // Half of a register: only a constant is known.
                let is_known = is_wide || instruction.op0_register().is_gpr32();
                let value = value.filter(|value| {
                    is_known && (is_wide || matches!(value, TrackedValue::Number(_)))
                });
                self.set(target, value.unwrap_or(made(target)));
            }
            (Mnemonic::Mov, None) if self.stack_place(instruction).is_some() => {
                let bytes = instruction.memory_size().size();
                let value = self.operand(instruction, 1).filter(|_| bytes == 8);
                if let Some(at) = self.stack_place(instruction) {
                    self.store(at, bytes, value);
                }
            }
            _ => self.change(instruction, info),
        }
    }

    /// Advances over an instruction of which only the written operands are known.
    fn change(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        let writes = |access: OpAccess| {
            use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
            matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
        };
        let info = info.info(instruction);
        let registers = info.used_registers().iter().filter(|register| writes(register.access()));
        let written: Vec<usize> =
            registers.filter_map(|register| number(register.register())).collect();
        let memory: Vec<UsedMemory> =
            info.used_memory().iter().filter(|memory| writes(memory.access())).copied().collect();
        if !memory.is_empty()
            && let Some(at) = self.stack_place(instruction)
        {
            let bytes = memory.iter().map(|memory| memory.memory_size().size()).max().unwrap_or(8);
            self.store(at, bytes, None);
        }
        for number in written {
            self.set(number, TrackedValue::Made(instruction.ip(), EntrySlot::Register(number)));
        }
    }
}
