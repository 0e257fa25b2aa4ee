//! Call frame information of a file (`.eh_frame`, `.debug_frame`): rules that lead from a function
//! to its caller.

use std::rc::Rc;

use gimli::{
    BaseAddresses, CfaRule, DebugFrame, EhFrame, EhFrameHdr, Encoding, EndianSlice, Evaluation,
    EvaluationResult, Format, FrameDescriptionEntry, LittleEndian, ParsedEhFrameHdr, Register,
    RegisterRule, UnwindContext, UnwindExpression, UnwindSection, Value,
};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, elf};
use rustc_hash::FxHashMap;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Numbers of registers in DWARF (System V ABI, AMD64 supplement, figure 3.36).
pub(super) mod dwarf {
    pub(in super::super) const BP: u16 = 6;
    pub(in super::super) const SP: u16 = 7;
    /// Return address.
    pub(in super::super) const RETURN: u16 = 16;
}

/// Values of registers by their DWARF numbers; `None`: unknown.
pub(super) type FollowedRegisters = [Option<u64>; 17];

/// Registers that a function preserves for its caller, unless a rule defines otherwise: rbx, rbp,
/// r12 to r15.
const KEPT: [u16; 6] = [3, dwarf::BP, 12, 13, 14, 15];

/// Largest number of rows that are remembered of a file.
const ROWS_MAX: usize = 1 << 16;

/// Largest number of operations in one expression.
const EXPRESSION_STEPS_MAX: u32 = 1000;

/// Encoding of all expressions: that of this machine.
const ENCODING: Encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };

/// Call frame information of a file.
#[derive(Debug)]
pub(super) struct CallFrames<'a> {
    /// Loaded segments: offset in the file, bytes, and address.
    segments: Vec<(u64, u64, u64)>,
    eh_frame: EhFrame<Bytes<'a>>,
    index: Option<ParsedEhFrameHdr<Bytes<'a>>>,
    debug_frame: DebugFrame<Bytes<'a>>,
    bases: BaseAddresses,
    context: UnwindContext<usize>,
    rows: FxHashMap<u64, Option<Rc<UnwindRule>>>,
}

/// Unwind rules of one address.
#[derive(Debug)]
struct UnwindRule {
    frame: CfaRule<usize>,
    /// Rules by the numbers of registers.
    rules: [Option<RegisterRule<usize>>; 17],
    in_debug_frame: bool,
    /// True if the caller was interrupted by a signal: its address is not a return address.
    is_signal: bool,
}

/// The caller of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub registers: FollowedRegisters,
    /// True if the address is not a return address.
    pub is_exact: bool,
}

/// Result of unwinding one frame; `None`: this is the outermost function.
pub(super) type UnwindResult = Result<Option<Caller>, UnwindError>;

/// Reason why a frame cannot be unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnwindError {
    /// The file has no information about this address.
    NoInformation,
    /// The content of the stack at this address is unknown.
    Memory(u64),
    /// The information is invalid, or needs an unknown value.
    Broken,
}

/// Reads eight bytes of the program's memory; `None`: unknown.
pub(super) type Memory<'m> = &'m dyn Fn(u64) -> Option<u64>;

impl<'a> CallFrames<'a> {
    /// Reads the information of an ELF file; `None` if the bytes are not an ELF file for x86-64.
    pub(super) fn of(file: &'a [u8]) -> Option<Self> {
        let elf = ElfFile64::<Endianness>::parse(file).ok()?;
        let endian = elf.endian();
        if elf.elf_header().e_machine(endian) != elf::EM_X86_64 {
            return None;
        }
        let loaded =
            elf.elf_program_headers().iter().filter(|it| it.p_type(endian) == elf::PT_LOAD);
        let segments = loaded
            .map(|it| (it.p_offset(endian), it.p_filesz(endian), it.p_vaddr(endian)))
            .collect();
        let section = |name: &str| elf.section_by_name(name);
        let address = |name| section(name).map_or(0, |it| it.address());
        let data = |name| section(name).and_then(|it| it.data().ok());
        let bases = BaseAddresses::default()
            .set_eh_frame(address(".eh_frame"))
            .set_eh_frame_hdr(address(".eh_frame_hdr"))
            .set_text(address(".text"))
            .set_got(address(".got"));
        let eh_frame = data(".eh_frame").unwrap_or_default();
        let index = data(".eh_frame_hdr")
            .and_then(|it| EhFrameHdr::new(it, LittleEndian).parse(&bases, 8).ok());
        let debug_frame = data(".debug_frame").unwrap_or_default();
        let mut debug_frame = DebugFrame::new(debug_frame, LittleEndian);
        debug_frame.set_address_size(8);
        Some(Self {
            segments,
            eh_frame: EhFrame::new(eh_frame, LittleEndian),
            index,
            debug_frame,
            bases,
            context: UnwindContext::new(),
            rows: FxHashMap::default(),
        })
    }

    /// Returns the file's own address of this offset in the file, in bytes.
    pub(super) fn address(&self, place: u64) -> Option<u64> {
        let segment = |&&(offset, bytes, _): &&(u64, u64, u64)| {
            place.checked_sub(offset).is_some_and(|it| it < bytes)
        };
        let (offset, _, address) = self.segments.iter().find(segment)?;
        Some(address.wrapping_add(place - offset))
    }

    /// Unwinds the frame at this address of the file, with these registers.
    pub(super) fn back(
        &mut self,
        address: u64,
        registers: &FollowedRegisters,
        memory: Memory<'_>,
    ) -> UnwindResult {
        let row = match self.rows.get(&address) {
            Some(known) => known.clone(),
            None => {
                let found = self.find(address).map(Rc::new);
                if self.rows.len() >= ROWS_MAX {
                    self.rows.clear();
                }
                self.rows.insert(address, found.clone());
                found
            }
        };
        let row = row.ok_or(UnwindError::NoInformation)?;
        if row.in_debug_frame {
            follow(&row, &self.debug_frame, registers, memory)
        } else {
            follow(&row, &self.eh_frame, registers, memory)
        }
    }

    fn find(&mut self, address: u64) -> Option<UnwindRule> {
        let Self { eh_frame, index, debug_frame, bases, context, .. } = self;
        let table = index.as_ref().and_then(ParsedEhFrameHdr::table);
        let entry = match table {
            Some(table) => {
                table.fde_for_address(eh_frame, bases, address, EhFrame::cie_from_offset)
            }
            None => eh_frame.fde_for_address(bases, address, EhFrame::cie_from_offset),
        };
        if let Ok(entry) = entry {
            return row(&entry, eh_frame, bases, context, address);
        }
        let entry = debug_frame.fde_for_address(bases, address, DebugFrame::cie_from_offset);
        let found = row(&entry.ok()?, debug_frame, bases, context, address)?;
        Some(UnwindRule { in_debug_frame: true, ..found })
    }
}

fn row<'a, S: UnwindSection<Bytes<'a>>>(
    entry: &FrameDescriptionEntry<Bytes<'a>>,
    section: &S,
    bases: &BaseAddresses,
    context: &mut UnwindContext<usize>,
    address: u64,
) -> Option<UnwindRule> {
    let row = entry.unwind_info_for_address(section, bases, context, address).ok()?;
    let mut rules = [const { None }; 17];
    for (number, rule) in (0..).zip(&mut rules) {
        *rule = row.register(Register(number));
    }
    let is_signal = entry.is_signal_trampoline();
    Some(UnwindRule { frame: row.cfa().clone(), rules, in_debug_frame: false, is_signal })
}

fn follow<'a, S: UnwindSection<Bytes<'a>>>(
    UnwindRule { frame, rules, is_signal, .. }: &UnwindRule,
    section: &S,
    registers: &FollowedRegisters,
    memory: Memory<'_>,
) -> UnwindResult {
    if rules.get(usize::from(dwarf::RETURN)) == Some(&Some(RegisterRule::Undefined)) {
        return Ok(None);
    }
    let read = |at: u64| memory(at).ok_or(UnwindError::Memory(at));
    let expression = |expression: &UnwindExpression<usize>, given: Option<u64>| {
        let bytes = expression.get(section).map_err(|_| UnwindError::Broken)?.0;
        evaluate(bytes, given, registers, memory)
    };
    let frame = match frame {
        CfaRule::RegisterAndOffset { register, offset } => {
            let base = known(registers, register.0).ok_or(UnwindError::Broken)?;
            base.wrapping_add_signed(*offset)
        }
        CfaRule::Expression(it) => expression(it, None)?,
    };
    let value = |number: u16,
                 rule: Option<&RegisterRule<usize>>|
     -> Result<Option<u64>, UnwindError> {
        Ok(match rule {
            // By convention the canonical frame address is the caller's stack pointer.
            None if number == dwarf::SP => Some(frame),
            None | Some(RegisterRule::SameValue) if KEPT.contains(&number) => {
                known(registers, number)
            }
            Some(RegisterRule::SameValue) => known(registers, number),
            Some(RegisterRule::Offset(offset)) => Some(read(frame.wrapping_add_signed(*offset))?),
            Some(RegisterRule::ValOffset(offset)) => Some(frame.wrapping_add_signed(*offset)),
            Some(RegisterRule::Register(other)) => known(registers, other.0),
            Some(RegisterRule::Expression(it)) => Some(read(expression(it, Some(frame))?)?),
            Some(RegisterRule::ValExpression(it)) => Some(expression(it, Some(frame))?),
            Some(RegisterRule::Constant(it)) => Some(*it),
            None | Some(RegisterRule::Undefined | RegisterRule::Architectural) => None,
        })
    };
    let mut back = FollowedRegisters::default();
    for ((number, rule), register) in (0..).zip(rules).zip(&mut back) {
        *register = match value(number, rule.as_ref()) {
            // Only the return address and the stack pointer must be known.
            Err(_) if number != dwarf::RETURN && number != dwarf::SP => None,
            other => other?,
        };
    }
    match known(&back, dwarf::RETURN) {
        None => Err(UnwindError::Broken),
        // The outermost function of a thread has no caller.
        Some(0) => Ok(None),
        Some(_) => Ok(Some(Caller { registers: back, is_exact: *is_signal })),
    }
}

/// Returns the value of a register, by its number.
pub(super) fn known(registers: &FollowedRegisters, number: u16) -> Option<u64> {
    registers.get(usize::from(number)).copied().flatten()
}

/// Evaluates an expression; `given` is the initial value on its stack.
fn evaluate(
    bytes: Bytes<'_>,
    given: Option<u64>,
    registers: &FollowedRegisters,
    memory: Memory<'_>,
) -> Result<u64, UnwindError> {
    let mut evaluation = Evaluation::new(bytes, ENCODING);
    evaluation.set_max_iterations(EXPRESSION_STEPS_MAX);
    if let Some(given) = given {
        evaluation.set_initial_value(given);
    }
    let broken = |_| UnwindError::Broken;
    let mut state = evaluation.evaluate().map_err(broken)?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = known(registers, register.0).ok_or(UnwindError::Broken)?;
                evaluation.resume_with_register(Value::Generic(value)).map_err(broken)?
            }
            EvaluationResult::RequiresMemory { address, size, .. } => {
                let value = memory(address).ok_or(UnwindError::Memory(address))?;
                let unused = 64_u32.saturating_sub(8 * u32::from(size));
                let value = value.checked_shl(unused).map_or(0, |it| it >> unused);
                evaluation.resume_with_memory(Value::Generic(value)).map_err(broken)?
            }
            _ => return Err(UnwindError::Broken),
        };
    }
    let value = evaluation.value_result().ok_or(UnwindError::Broken)?;
    value.to_u64(u64::MAX).map_err(broken)
}
