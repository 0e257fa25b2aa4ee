//! From where a program was back to its outermost function, by its registers, a piece of its stack, and what its files say.

use std::collections::BTreeMap;

use super::cfi::{Back, CallFrames, Caller, NoWay, Registers, dwarf};
use crate::capture::fact::{Ending, Unwound};

/// No chain has more functions than this: each takes 16 bytes of a stack at least.
const FRAMES_MAX: usize = 8192;

/// Registers and stack of a program when it was sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sampled {
    pub registers: Registers,
    pub stack: Vec<u8>,
    /// The stack may go on behind the copy.
    pub is_full: bool,
}

/// Code in the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub end: u64,
    /// What of the file stands at its start, in bytes.
    pub offset: u64,
    /// Number of the file.
    pub file: usize,
}

/// What code a process has in its memory, by where it starts.
#[derive(Clone, Debug, Default)]
pub(super) struct Code(BTreeMap<u64, Mapped>);

impl Code {
    /// Something came; of what was there nothing is left.
    pub(super) fn map(&mut self, start: u64, mapped: Mapped) {
        let before = self.0.range(..mapped.end).rev();
        let gone: Vec<u64> = before.take_while(|it| it.1.end > start).map(|it| *it.0).collect();
        for it in gone {
            self.0.remove(&it);
        }
        self.0.insert(start, mapped);
    }

    /// Nothing is there any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn at(&self, address: u64) -> Option<(u64, Mapped)> {
        let (start, mapped) = self.0.range(..=address).next_back()?;
        (address < mapped.end).then_some((*start, *mapped))
    }
}

/// The functions through which a program came to where it was sampled.
pub(super) fn walk(
    code: &Code,
    files: &mut [Option<CallFrames<'_>>],
    sampled: &Sampled,
) -> Unwound {
    let mut registers = sampled.registers;
    let Some(bottom) = at(&registers, dwarf::SP) else {
        return Unwound { addresses: Box::new([]), ending: Ending::Broken, is_guessed: false };
    };
    let memory = |address: u64| {
        let place = usize::try_from(address.checked_sub(bottom)?).ok()?;
        sampled.stack.get(place..)?.first_chunk().map(|it| u64::from_le_bytes(*it))
    };
    let top = bottom.saturating_add(sampled.stack.len() as u64);
    let ran_out = |address: u64| {
        let is_behind = address.saturating_add(8) > top;
        if is_behind && sampled.is_full { Ending::Short } else { Ending::Unreadable }
    };
    let (mut addresses, mut is_guessed, mut is_exact) = (Vec::new(), false, true);
    let ending = loop {
        let Some(address) = at(&registers, dwarf::RETURN) else { break Ending::Broken };
        if addresses.len() == FRAMES_MAX {
            break Ending::Broken;
        }
        addresses.push(address);
        // In the call, not behind it: that may be in another function.
        let inside = if is_exact { address } else { address.wrapping_sub(1) };
        let told = code.at(inside).and_then(|(start, mapped)| {
            let frames = files.get_mut(mapped.file)?.as_mut()?;
            let place = frames.address(mapped.offset.wrapping_add(inside - start))?;
            Some(frames.back(place, &registers, &memory))
        });
        let back = match told {
            None | Some(Err(NoWay::NotTold)) => {
                is_guessed = true;
                by_frame_pointer(&registers, &memory)
            }
            Some(told) => told,
        };
        match back {
            Ok(None) => break Ending::Outermost,
            Ok(Some(Caller { registers: back, is_exact: exact })) => {
                // A caller's frame lies behind.
                if at(&back, dwarf::SP) <= at(&registers, dwarf::SP) {
                    break Ending::Broken;
                }
                (registers, is_exact) = (back, exact);
            }
            Err(NoWay::Memory(address)) => break ran_out(address),
            Err(NoWay::NotTold | NoWay::Broken) => break Ending::Broken,
        }
    };
    Unwound { addresses: addresses.into(), ending, is_guessed }
}

/// Where nothing is told: where rbp points lies the caller's rbp, and behind it where the caller goes on.
fn by_frame_pointer(registers: &Registers, memory: &dyn Fn(u64) -> Option<u64>) -> Back {
    let (frame, stack) = (at(registers, dwarf::BP), at(registers, dwarf::SP));
    // So the outermost frame is marked (System V ABI, AMD64 supplement, 3.4.1).
    if frame == Some(0) {
        return Ok(None);
    }
    let frame = frame.filter(|it| Some(*it) >= stack && it % 8 == 0).ok_or(NoWay::Broken)?;
    let read = |at: u64| memory(at).ok_or(NoWay::Memory(at));
    let (caller, goes_on) = (read(frame)?, read(frame.wrapping_add(8))?);
    if goes_on == 0 {
        return Ok(None);
    }
    let mut back = Registers::default();
    let known =
        [(dwarf::BP, caller), (dwarf::SP, frame.wrapping_add(16)), (dwarf::RETURN, goes_on)];
    for (number, value) in known {
        back.get_mut(usize::from(number)).into_iter().for_each(|it| *it = Some(value));
    }
    Ok(Some(Caller { registers: back, is_exact: false }))
}

fn at(registers: &Registers, number: u16) -> Option<u64> {
    registers.get(usize::from(number)).copied().flatten()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::cfi::CallFrames;
    use super::*;

    /// Three functions, each called at the beginning of the one before, where its caller's address lies on top of the stack. With
    /// what their addresses are in a chain.
    pub(in super::super) fn called_at_their_beginnings() -> (Sampled, Vec<u64>) {
        let functions: [fn(); 3] = [
            a_way_back_is_told_by_the_file,
            what_is_not_copied_ends_the_way,
            where_nothing_is_told_frame_pointers_are_followed,
        ];
        let [first, second, third] = functions.map(|it| it as usize as u64);
        let addresses = vec![first, second + 1, third + 1];
        (sampled(first, &[second + 1, third + 1, 0]), addresses)
    }

    const STACK: u64 = 0x7000_0000;

    fn sampled(address: u64, stack: &[u64]) -> Sampled {
        let mut registers = Registers::default();
        registers[usize::from(dwarf::SP)] = Some(STACK);
        registers[usize::from(dwarf::RETURN)] = Some(address);
        let stack = stack.iter().flat_map(|it| it.to_le_bytes()).collect();
        Sampled { registers, stack, is_full: true }
    }

    /// By what our own file says, loaded as it is.
    fn walked(sampled: &Sampled) -> Unwound {
        let file = std::fs::read("/proc/self/exe").expect("our own");
        let mut code = Code::default();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("our own");
        let own = std::fs::read_link("/proc/self/exe").expect("our own");
        for line in maps.lines().filter(|it| it.ends_with(&own.display().to_string())) {
            let words: Vec<&str> = line.split(' ').collect();
            let hex = |it: &str| u64::from_str_radix(it, 16).expect("hexadecimal");
            let (start, end) = words[0].split_once('-').expect("a range");
            code.map(hex(start), Mapped { end: hex(end), offset: hex(words[2]), file: 0 });
        }
        walk(&code, &mut [CallFrames::of(&file)], sampled)
    }

    #[track_caller]
    fn check(sampled: &Sampled, expected: (&[u64], Ending, bool)) {
        let Unwound { addresses, ending, is_guessed } = walked(sampled);
        assert_eq!((&*addresses, ending, is_guessed), expected);
    }

    #[test]
    fn a_way_back_is_told_by_the_file() {
        let (sampled, addresses) = called_at_their_beginnings();
        check(&sampled, (&addresses, Ending::Outermost, false));
    }

    /// Fails if a way that ends where the copy ends is taken for whole, or the other way round.
    #[test]
    fn what_is_not_copied_ends_the_way() {
        let (mut sampled, addresses) = called_at_their_beginnings();
        sampled.stack.truncate(16);
        check(&sampled, (&addresses, Ending::Short, false));
        sampled.is_full = false;
        check(&sampled, (&addresses, Ending::Unreadable, false));
        sampled.stack.clear();
        check(&sampled, (&addresses[..1], Ending::Unreadable, false));
        sampled.registers[usize::from(dwarf::SP)] = None;
        check(&sampled, (&[], Ending::Broken, false));
    }

    #[test]
    fn where_nothing_is_told_frame_pointers_are_followed() {
        let (known, addresses) = called_at_their_beginnings();
        let unknown = 0x10_0000;
        let mut sampled = sampled(unknown, &[9, 1, addresses[0], 0]);
        check(&sampled, (&[unknown], Ending::Broken, true));
        // The caller's and where it goes on.
        sampled.registers[usize::from(dwarf::BP)] = Some(STACK + 8);
        check(&sampled, (&[unknown, addresses[0]], Ending::Broken, true));
        // Zero marks the outermost one.
        sampled.stack[8..16].fill(0);
        check(&sampled, (&[unknown, addresses[0]], Ending::Outermost, true));
        let first = known.registers[usize::from(dwarf::RETURN)].expect("it is known");
        sampled.stack[16..24].copy_from_slice(&(first + 1).to_le_bytes());
        check(&sampled, (&[unknown, first + 1], Ending::Outermost, true));
        // A frame pointer must lead outwards.
        sampled.registers[usize::from(dwarf::BP)] = Some(STACK - 8);
        check(&sampled, (&[unknown], Ending::Broken, true));
    }

    #[test]
    fn of_what_was_there_nothing_is_left() {
        let mapped = |end, file| Mapped { end, offset: 0, file };
        let mut code = Code::default();
        for (start, end, file) in [(10, 20, 0), (20, 30, 1), (40, 50, 2), (15, 22, 3)] {
            code.map(start, mapped(end, file));
        }
        let file = |address| code.at(address).map(|it| it.1.file);
        let found = [10, 15, 21, 25, 40, 49, 50].map(file);
        assert_eq!(found, [None, Some(3), Some(3), None, Some(2), Some(2), None]);
        code.clear();
        assert_eq!(code.at(40), None);
    }
}
