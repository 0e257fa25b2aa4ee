//! Positions in libaio at which the lists of `io_submit` and `io_getevents` are known.
//!
//! ```text
//!   io_submit:        the entry of the exported function has the list in its third argument
//!   io_getevents:     mov $208,%edi … call syscall        the kernel's fourth argument, r10, has
//!   io_pgetevents:    mov $333,%eax … syscall             the list, until r10 is written again
//! ```
//!
//! A record is used only if its address is the argument of the thread's call, so errors here result
//! in lists that are not known.

use std::collections::BTreeMap;

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register,
};

use super::elf::CodeImage;
use super::flow::{is_emulated, may_step};
use super::site::{MACHINE, Site};
use crate::event::syscall_table::{CallId, Role};

/// Limit on the instructions between the load of a call's number and the call.
const CALL_WITHIN: usize = 12;

/// Limit on the instructions of a function of libaio.
const FUNCTION_WITHIN: usize = 400;

/// Limit on the instructions that are searched for one that the kernel emulates.
const EMULATED_WITHIN: usize = 6;

/// `mov $imm32` to `eax`, and to `edi`, the first argument of `syscall(3)`.
const MOVES: [u8; 2] = [0xb8, 0xbf];

/// Returns the sites of those of the wanted calls that take or fill a list.
pub(super) fn sites(code: &CodeImage<'_>, wanted: &[CallId]) -> Vec<Site> {
    let mut info = InstructionInfoFactory::new();
    let mut found: BTreeMap<u64, Site> = BTreeMap::new();
    let mut add = |at: Option<Instruction>, register, call: CallId| {
        let Some((at, offset)) = at.and_then(|at| Some((at, code.file_offset(at.ip())?))) else {
            return;
        };
        let emulated = is_emulated(&at);
        let (registers, calls) = (vec![register], Default::default());
        let new = Site { offset, registers, calls, emulated, number: None };
        found.entry(offset).or_insert(new).calls.insert(call);
    };
    for &id in wanted {
        let call = id.call();
        if call.arg(Role::Iocbs).is_some() {
            for entry in code.exported_as(call.name) {
                let at = best(code, entry, &[Register::RDX], &mut info);
                add(at, "dx", id);
            }
        }
        if call.arg(Role::IoEvents).is_some() {
            for made in call.number(MACHINE).into_iter().flat_map(|number| returns(code, number)) {
                let at = best(code, made, &[Register::RAX, Register::R10], &mut info);
                add(at, "r10", id);
            }
        }
    }
    found.into_values().collect()
}

/// Addresses to which calls of this number return.
fn returns(code: &CodeImage<'_>, number: u32) -> Vec<u64> {
    let loaded = MOVES.into_iter().flat_map(|opcode| {
        let mut bytes = vec![opcode];
        bytes.extend(number.to_le_bytes());
        code.after(&bytes).collect::<Vec<_>>()
    });
    let made = loaded.filter(|address| follows_instruction(code, *address)).filter_map(|address| {
        let mut next = decoded(code, address).take(CALL_WITHIN);
        next.find(|at| matches!(at.mnemonic(), Mnemonic::Call | Mnemonic::Syscall))
    });
    made.map(|call| call.next_ip()).collect()
}

/// True if one of the instructions of [`MOVES`] ends at this address, and not only bytes that look
/// like one: a probe in the middle of an instruction would change it.
fn follows_instruction(code: &CodeImage<'_>, address: u64) -> bool {
    let Some(entry) = code.function_of(address.saturating_sub(1)) else { return false };
    let before = decoded(code, entry).take(FUNCTION_WITHIN).take_while(|at| at.ip() < address);
    let last = before.last();
    last.is_some_and(|at| at.mnemonic() == Mnemonic::Mov && at.next_ip() == address)
}

/// Returns the first emulated instruction from here on before which these registers are unchanged;
/// if there is none, the instruction here.
fn best(
    code: &CodeImage<'_>,
    from: u64,
    kept: &[Register],
    info: &mut InstructionInfoFactory,
) -> Option<Instruction> {
    let mut first = None;
    for at in decoded(code, from).take(EMULATED_WITHIN) {
        // The emulation of a call does not write the shadow stack that some programs have.
        if is_emulated(&at) && at.mnemonic() != Mnemonic::Call {
            return Some(at);
        }
        first = first.or(may_step(&at).then_some(at));
        if !may_step(&at) || writes(&at, kept, info) {
            break;
        }
    }
    first
}

/// True if the instruction writes one of these registers, or a part of it.
fn writes(at: &Instruction, kept: &[Register], info: &mut InstructionInfoFactory) -> bool {
    let used = info.info(at).used_registers().iter();
    let mut written = used.filter(|register| {
        use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
        matches!(register.access(), Write | CondWrite | ReadWrite | ReadCondWrite)
    });
    written.any(|register| kept.contains(&register.register().full_register()))
}

/// Instructions from this address on, to the first bytes that are none.
fn decoded<'a>(code: &CodeImage<'a>, address: u64) -> impl Iterator<Item = Instruction> + use<'a> {
    let mut decoder = Decoder::with_ip(64, code.at(address), address, DecoderOptions::NONE);
    std::iter::from_fn(move || {
        let is_there = decoder.can_decode();
        is_there.then(|| decoder.decode()).filter(|at| !at.is_invalid())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: u64 = 0x1000;

    fn found(code: &[&[u8]], exported: Option<&str>) -> Vec<String> {
        let bytes = code.concat();
        let mut image = CodeImage::of(CODE, &bytes, &[CODE]);
        if let Some(name) = exported {
            image = image.exporting(CODE, name);
        }
        let wanted: Vec<CallId> = CallId::all().filter(|call| call.call().is_list()).collect();
        let site = |site: &Site| {
            let calls: Vec<&str> = site.calls.iter().map(|call| call.call().name).collect();
            let star = if site.emulated { "*" } else { "" };
            format!("{}{star} {} {}", site.offset, site.registers.join(","), calls.join(","))
        };
        sites(&image, &wanted).iter().map(site).collect()
    }

    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    const PUSH_R14: &[u8] = &[0x41, 0x56];
    const MOV_RDX_R14: &[u8] = &[0x49, 0x89, 0xd6];
    const XOR_EDX_EDX: &[u8] = &[0x31, 0xd2];
    const RET: &[u8] = &[0xc3];
    const CALL: &[u8] = &[0xe8, 0x00, 0x01, 0x00, 0x00];
    const SYSCALL: &[u8] = &[0x0f, 0x05];
    /// `mov %eax,%edx; test %eax,%eax; jns .`
    const CHECK: &[u8] = &[0x89, 0xc2, 0x85, 0xc0, 0x79, 0x00];

    #[test]
    fn submitted_list_is_the_third_argument() {
        assert_eq!(found(&[PUSH_R14, RET], Some("io_submit")), ["0* dx io_submit"]);
        assert_eq!(found(&[ENDBR64, PUSH_R14], Some("io_submit")), ["4* dx io_submit"]);
        assert_eq!(
            found(&[MOV_RDX_R14, XOR_EDX_EDX, PUSH_R14], Some("io_submit")),
            ["0 dx io_submit"]
        );
        assert_eq!(found(&[PUSH_R14, RET], Some("io_cancel")), [""; 0]);
        assert_eq!(found(&[PUSH_R14, RET], None), [""; 0]);
    }

    #[test]
    fn filled_list_is_in_r10_after_the_call() {
        let getevents: &[u8] = &[0xbf, 0xd0, 0, 0, 0];
        let pgetevents: &[u8] = &[0xb8, 0x4d, 0x01, 0, 0];
        let clear: &[u8] = &[0x31, 0xc0];
        assert_eq!(found(&[getevents, clear, CALL, CHECK], None), ["16* r10 io_getevents"]);
        // The same bytes as a part of `cmpl $208,0xd0(%rdi)`.
        let inside: &[u8] = &[0x81, 0xbf, 0xd0, 0, 0, 0, 0xd0, 0, 0, 0];
        assert_eq!(found(&[inside, CALL, CHECK], None), [""; 0]);
        assert_eq!(found(&[pgetevents, SYSCALL, RET], None), [""; 0]);
        let moved: &[u8] = &[0x48, 0x89, 0xc2];
        assert_eq!(found(&[pgetevents, SYSCALL, moved, RET], None), ["7 r10 io_pgetevents"]);
        // After r10 is overwritten, the list is unknown.
        let lost: &[u8] = &[0x4d, 0x31, 0xd2];
        assert_eq!(found(&[getevents, CALL, lost, CHECK], None), ["10 r10 io_getevents"]);
    }

    #[test]
    fn libaio_of_this_machine_has_sites() {
        let directories = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
        let mut files =
            directories.iter().map(|directory| std::path::Path::new(directory).join("libaio.so.1"));
        let Some(bytes) = files.find_map(|file| std::fs::read(file).ok()) else { return };
        let wanted: Vec<CallId> = CallId::all().filter(|call| call.call().is_list()).collect();
        let sites = super::super::find(&bytes, &wanted).expect("it is for this machine");
        let calls = sites.sites.iter().flat_map(|site| &site.calls);
        let mut calls: Vec<&str> = calls.map(|call| call.call().name).collect();
        calls.sort_unstable();
        assert_eq!(calls, ["io_getevents", "io_pgetevents", "io_submit"], "{sites:?}");
    }
}
