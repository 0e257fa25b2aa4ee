//! Unwinder: finds the callers of a sampled function, from registers, a part of the stack, and the
//! unwind information of files.

use std::collections::{BTreeMap, BTreeSet};

use super::cfi::{
    CallFrames, Caller, FollowedRegisters, Memory, UnwindError, UnwindResult, dwarf, known,
};
use crate::capture::fact::{StackEnd, UnwoundStack};

/// Largest number of functions in a call chain: each takes at least eight bytes of a copy.
const FRAMES_MAX: usize = 8192;

/// Largest size of a stack, in bytes (`ulimit -s` is 8 MiB): an address further after the copy does
/// not belong to the stack.
const STACK_BYTES_MAX: u64 = 8 << 20;

/// Registers and stack of a program when it was sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SampledStack {
    pub registers: FollowedRegisters,
    pub stack: Vec<u8>,
    /// True if the stack may continue after the copy.
    pub is_full: bool,
}

/// Executable mapping of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeRange {
    pub end: u64,
    /// Offset in the file at the start of the mapping, in bytes.
    pub offset: u64,
    /// Number of the file; `None`: not a file.
    pub file: Option<usize>,
}

/// Executable mappings of a process, by their start.
#[derive(Clone, Debug, Default)]
pub(super) struct AddressSpace(BTreeMap<u64, CodeRange>);

impl AddressSpace {
    /// Adds a mapping; of existing mappings only the parts outside of the new one are kept.
    pub(super) fn map(&mut self, start: u64, mapped: CodeRange) {
        let before = self.0.range(..mapped.end).rev();
        let covered = before.take_while(|it| it.1.end > start).map(|it| (*it.0, *it.1));
        for (old, was) in covered.collect::<Vec<_>>() {
            self.0.remove(&old);
            if old < start {
                self.0.insert(old, CodeRange { end: start, ..was });
            }
            if was.end > mapped.end {
                let offset = was.offset.wrapping_add(mapped.end - old);
                self.0.insert(mapped.end, CodeRange { offset, ..was });
            }
        }
        self.0.insert(start, mapped);
    }

    /// Removes all mappings.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn at(&self, address: u64) -> Option<(u64, CodeRange)> {
        let (start, mapped) = self.0.range(..=address).next_back()?;
        (address < mapped.end).then_some((*start, *mapped))
    }
}

/// Unwind information of files, by their numbers, and the files whose information was needed and
/// not available.
#[derive(Debug)]
pub(super) struct FrameTables<'a> {
    frames: Vec<Option<CallFrames<'a>>>,
    missed: BTreeSet<usize>,
}

impl<'a> FrameTables<'a> {
    pub(super) fn new(frames: Vec<Option<CallFrames<'a>>>) -> Self {
        Self { frames, missed: BTreeSet::new() }
    }

    /// Returns the files whose unwind information was needed and not available.
    pub(super) fn missed(&self) -> impl Iterator<Item = usize> {
        self.missed.iter().copied()
    }

    /// Unwinds one frame, if the file has information about its code.
    fn back(
        &mut self,
        start: u64,
        mapped: CodeRange,
        address: u64,
        registers: &FollowedRegisters,
        memory: Memory<'_>,
    ) -> Option<UnwindResult> {
        let number = mapped.file?;
        let Some(frames) = self.frames.get_mut(number).and_then(Option::as_mut) else {
            self.missed.insert(number);
            return None;
        };
        let place = frames.address(mapped.offset.wrapping_add(address - start))?;
        let back = frames.back(place, registers, memory);
        (back != Err(UnwindError::NoInformation)).then_some(back)
    }
}

/// Unwinds the call chain that led to the sampled location.
pub(super) fn walk(
    code: &AddressSpace,
    files: &mut FrameTables<'_>,
    sampled: &SampledStack,
) -> UnwoundStack {
    let mut registers = sampled.registers;
    let mut way =
        UnwoundStack { addresses: Box::new([]), ending: StackEnd::Broken, is_guessed: false };
    let Some(bottom) = known(&registers, dwarf::SP) else { return way };
    let memory = |address: u64| {
        let place = usize::try_from(address.checked_sub(bottom)?).ok()?;
        sampled.stack.get(place..)?.first_chunk().map(|it| u64::from_le_bytes(*it))
    };
    let top = bottom.saturating_add(sampled.stack.len() as u64);
    let ran_out = |address: u64| {
        let behind = address.saturating_add(8).checked_sub(top);
        let goes_on = behind.is_some_and(|it| (1..=STACK_BYTES_MAX).contains(&it));
        if goes_on && sampled.is_full { StackEnd::Short } else { StackEnd::Unreadable }
    };
    let (mut addresses, mut is_exact) = (Vec::new(), true);
    way.ending = loop {
        let Some(address) = known(&registers, dwarf::RETURN) else { break StackEnd::Broken };
        if addresses.len() == FRAMES_MAX {
            break StackEnd::Broken;
        }
        // One byte earlier is inside the call instruction; the return address may be in another
        // function.
        let inside = if is_exact { address } else { address.wrapping_sub(1) };
        // The stored address is always one byte later, like a return address: all addresses are
        // looked up one byte earlier.
        addresses.push(inside.wrapping_add(1));
        let unwound = code
            .at(inside)
            .and_then(|(start, mapped)| files.back(start, mapped, inside, &registers, &memory));
        way.is_guessed |= unwound.is_none();
        let back = unwound.unwrap_or_else(|| by_frame_pointer(code, &registers, &memory));
        match back {
            Ok(None) => break StackEnd::Outermost,
            Ok(Some(caller)) => {
                let [now, before] = [&caller.registers, &registers].map(|it| known(it, dwarf::SP));
                // The frame of a caller has a higher address; an interrupted function may be on
                // another stack. Some leaf functions keep the return address in a register.
                let is_leaf = addresses.len() == 1 && now == before;
                if !caller.is_exact && now <= before && !is_leaf {
                    break StackEnd::Broken;
                }
                (registers, is_exact) = (caller.registers, caller.is_exact);
            }
            Err(UnwindError::Memory(address)) => break ran_out(address),
            Err(UnwindError::NoInformation | UnwindError::Broken) => break StackEnd::Broken,
        }
    };
    way.addresses = addresses.into();
    way
}

/// Unwinds by frame pointer, where there is no unwind information: rbp points to the caller's rbp,
/// and the return address follows, if it is in code.
fn by_frame_pointer(
    code: &AddressSpace,
    registers: &FollowedRegisters,
    memory: Memory<'_>,
) -> UnwindResult {
    let (frame, stack) = (known(registers, dwarf::BP), known(registers, dwarf::SP));
    // A zero marks the outermost frame (System V ABI, AMD64 supplement, 3.4.1).
    if frame == Some(0) {
        return Ok(None);
    }
    let frame = frame.filter(|it| Some(*it) >= stack && it % 8 == 0).ok_or(UnwindError::Broken)?;
    let read = |at: u64| memory(at).ok_or(UnwindError::Memory(at));
    let (caller, goes_on) = (read(frame)?, read(frame.wrapping_add(8))?);
    if goes_on == 0 {
        return Ok(None);
    }
    if code.at(goes_on.wrapping_sub(1)).is_none() {
        return Err(UnwindError::Broken);
    }
    let mut back = FollowedRegisters::default();
    let found =
        [(dwarf::BP, caller), (dwarf::SP, frame.wrapping_add(16)), (dwarf::RETURN, goes_on)];
    for (number, value) in found {
        back.get_mut(usize::from(number)).into_iter().for_each(|it| *it = Some(value));
    }
    Ok(Some(Caller { registers: back, is_exact: false }))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::cfi::CallFrames;
    use super::*;

    /// Returns a sample of three functions, each called at the beginning of the next one, with the
    /// return addresses on top of the stack; and their addresses in a call chain.
    pub(in super::super) fn called_at_their_beginnings() -> (SampledStack, Vec<u64>) {
        let functions: [fn(); 3] = [
            file_gives_the_unwind_rules,
            uncopied_stack_ends_the_unwinding,
            missing_rules_fall_back_to_frame_pointers,
        ];
        let [first, second, third] = functions.map(|it| it as usize as u64);
        let addresses = vec![first + 1, second + 1, third + 1];
        (sampled(first, &[second + 1, third + 1, 0]), addresses)
    }

    const STACK: u64 = 0x7000_0000;

    fn sampled(address: u64, stack: &[u64]) -> SampledStack {
        let mut registers = FollowedRegisters::default();
        registers[usize::from(dwarf::SP)] = Some(STACK);
        registers[usize::from(dwarf::RETURN)] = Some(address);
        let stack = stack.iter().flat_map(|it| it.to_le_bytes()).collect();
        SampledStack { registers, stack, is_full: true }
    }

    /// Unwinds with the test program's own file, at its load addresses.
    fn walked(sampled: &SampledStack) -> UnwoundStack {
        let file = std::fs::read("/proc/self/exe").expect("our own");
        let mut code = AddressSpace::default();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("our own");
        let own = std::fs::read_link("/proc/self/exe").expect("our own");
        for line in maps.lines().filter(|it| it.ends_with(&own.display().to_string())) {
            let words: Vec<&str> = line.split(' ').collect();
            let hex = |it: &str| u64::from_str_radix(it, 16).expect("hexadecimal");
            let (start, end) = words[0].split_once('-').expect("a range");
            code.map(hex(start), CodeRange { end: hex(end), offset: hex(words[2]), file: Some(0) });
        }
        walk(&code, &mut FrameTables::new(vec![CallFrames::of(&file)]), sampled)
    }

    #[track_caller]
    fn check(sampled: &SampledStack, addresses: &[u64], ending: StackEnd, is_guessed: bool) {
        let unwound = walked(sampled);
        let found = (&*unwound.addresses, unwound.ending, unwound.is_guessed);
        assert_eq!(found, (addresses, ending, is_guessed));
    }

    #[test]
    fn file_gives_the_unwind_rules() {
        let (sampled, addresses) = called_at_their_beginnings();
        check(&sampled, &addresses, StackEnd::Outermost, false);
    }

    /// Fails if an unwound stack that ends where the copy ends is taken for complete, or the other
    /// way round.
    #[test]
    fn uncopied_stack_ends_the_unwinding() {
        let (mut sampled, addresses) = called_at_their_beginnings();
        sampled.stack.truncate(16);
        check(&sampled, &addresses, StackEnd::Short, false);
        sampled.is_full = false;
        check(&sampled, &addresses, StackEnd::Unreadable, false);
        sampled.stack.clear();
        check(&sampled, &addresses[..1], StackEnd::Unreadable, false);
        sampled.registers[usize::from(dwarf::SP)] = None;
        check(&sampled, &[], StackEnd::Broken, false);
    }

    #[test]
    fn missing_rules_fall_back_to_frame_pointers() {
        let (_, addresses) = called_at_their_beginnings();
        // Last byte of a region outside of any function, then the first function.
        let (unknown, first) = (0x10_0000, addresses[0] - 1);
        let mut sampled = sampled(unknown, &[9, 1, first, 0]);
        let shown = unknown + 1;
        check(&sampled, &[shown], StackEnd::Broken, true);
        // Stores one word of the stack.
        let put = |sampled: &mut SampledStack, at: usize, word: u64| {
            sampled.stack[8 * at..][..8].copy_from_slice(&word.to_le_bytes());
        };
        sampled.registers[usize::from(dwarf::BP)] = Some(STACK + 8);
        put(&mut sampled, 2, first + 1);
        check(&sampled, &[shown, first + 1], StackEnd::Outermost, true);
        // An address outside of code is not a caller.
        put(&mut sampled, 2, 0x20_0000);
        check(&sampled, &[shown], StackEnd::Broken, true);
        put(&mut sampled, 2, 0);
        check(&sampled, &[shown], StackEnd::Outermost, true);
        // A frame pointer must point to a higher address; 0 marks the outermost frame.
        sampled.registers[usize::from(dwarf::BP)] = Some(STACK - 8);
        check(&sampled, &[shown], StackEnd::Broken, true);
        sampled.registers[usize::from(dwarf::BP)] = Some(0);
        check(&sampled, &[shown], StackEnd::Outermost, true);
        // Too far away to be on the same stack.
        sampled.registers[usize::from(dwarf::BP)] = Some(STACK + (64 << 20));
        check(&sampled, &[shown], StackEnd::Unreadable, true);
        sampled.registers[usize::from(dwarf::BP)] = Some(STACK + (4 << 20));
        check(&sampled, &[shown], StackEnd::Short, true);
    }

    #[test]
    fn missing_wanted_file_is_reported() {
        let mapped = CodeRange { end: 0x20_0000, offset: 0, file: Some(1) };
        let mut code = AddressSpace::default();
        code.map(0x10_0000, mapped);
        let mut files = FrameTables::new(vec![None, None]);
        let way = walk(&code, &mut files, &sampled(0x10_0007, &[]));
        assert!(way.is_guessed);
        assert_eq!(files.missed().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn unrelated_bytes_are_ignored() {
        let mapped = |end, file| CodeRange { end, offset: 100, file: Some(file) };
        let mut code = AddressSpace::default();
        for (start, end, file) in [(10, 20, 0), (20, 30, 1), (40, 60, 2), (15, 22, 3), (45, 50, 4)]
        {
            code.map(start, mapped(end, file));
        }
        let at = |address| {
            let (start, mapped) = code.at(address)?;
            Some((mapped.file?, mapped.offset + address - start))
        };
        let found = [10, 15, 21, 25, 30, 44, 49, 50, 60].map(at);
        let expected = [
            Some((0, 100)),
            Some((3, 100)),
            Some((3, 106)),
            Some((1, 105)),
            None,
            Some((2, 104)),
            Some((4, 104)),
            Some((2, 110)),
            None,
        ];
        assert_eq!(found, expected);
        code.clear();
        assert_eq!(code.at(44), None);
    }
}
