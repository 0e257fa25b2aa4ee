//! From where a program was back to its outermost function, by its registers, a piece of its stack, and what its files say.

use std::collections::{BTreeMap, BTreeSet};

use super::cfi::{Back, CallFrames, Caller, Memory, NoWay, Registers, dwarf, known};
use crate::capture::fact::{Ending, Unwound};

/// No chain has more functions than this: each takes eight bytes of a copy at least.
const FRAMES_MAX: usize = 8192;

/// A stack goes on for so many bytes at most (`ulimit -s` is 8 MiB): what is further behind the copy is none of it.
const STACK_BYTES_MAX: u64 = 8 << 20;

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
    /// Number of the file; `None`: there is none.
    pub file: Option<usize>,
}

/// What code a process has in its memory, by where it starts.
#[derive(Clone, Debug, Default)]
pub(super) struct Code(BTreeMap<u64, Mapped>);

impl Code {
    /// Something came; of what was there only what lies beside it is left.
    pub(super) fn map(&mut self, start: u64, mapped: Mapped) {
        let before = self.0.range(..mapped.end).rev();
        let covered = before.take_while(|it| it.1.end > start).map(|it| (*it.0, *it.1));
        for (old, was) in covered.collect::<Vec<_>>() {
            self.0.remove(&old);
            if old < start {
                self.0.insert(old, Mapped { end: start, ..was });
            }
            if was.end > mapped.end {
                let offset = was.offset.wrapping_add(mapped.end - old);
                self.0.insert(mapped.end, Mapped { offset, ..was });
            }
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

/// What files say, by their numbers; and of which nothing could be had, but was wanted.
#[derive(Debug)]
pub(super) struct Files<'a> {
    frames: Vec<Option<CallFrames<'a>>>,
    missed: BTreeSet<usize>,
}

impl<'a> Files<'a> {
    pub(super) fn new(frames: Vec<Option<CallFrames<'a>>>) -> Self {
        Self { frames, missed: BTreeSet::new() }
    }

    /// Those that could not be had.
    pub(super) fn missed(&self) -> impl Iterator<Item = usize> {
        self.missed.iter().copied()
    }

    /// The way back from there, if its file tells one.
    fn back(
        &mut self,
        (start, mapped): (u64, Mapped),
        address: u64,
        registers: &Registers,
        memory: Memory<'_>,
    ) -> Option<Back> {
        let number = mapped.file?;
        let Some(frames) = self.frames.get_mut(number).and_then(Option::as_mut) else {
            self.missed.insert(number);
            return None;
        };
        let place = frames.address(mapped.offset.wrapping_add(address - start))?;
        let back = frames.back(place, registers, memory);
        (back != Err(NoWay::NotTold)).then_some(back)
    }
}

/// The functions through which a program came to where it was sampled.
pub(super) fn walk(code: &Code, files: &mut Files<'_>, sampled: &Sampled) -> Unwound {
    let mut registers = sampled.registers;
    let mut way = Unwound { addresses: Box::new([]), ending: Ending::Broken, is_guessed: false };
    let Some(bottom) = known(&registers, dwarf::SP) else { return way };
    let memory = |address: u64| {
        let place = usize::try_from(address.checked_sub(bottom)?).ok()?;
        sampled.stack.get(place..)?.first_chunk().map(|it| u64::from_le_bytes(*it))
    };
    let top = bottom.saturating_add(sampled.stack.len() as u64);
    let ran_out = |address: u64| {
        let behind = address.saturating_add(8).checked_sub(top);
        let goes_on = behind.is_some_and(|it| (1..=STACK_BYTES_MAX).contains(&it));
        if goes_on && sampled.is_full { Ending::Short } else { Ending::Unreadable }
    };
    let (mut addresses, mut is_exact) = (Vec::new(), true);
    way.ending = loop {
        let Some(address) = known(&registers, dwarf::RETURN) else { break Ending::Broken };
        if addresses.len() == FRAMES_MAX {
            break Ending::Broken;
        }
        // In the call, not behind it: that may be in another function.
        let inside = if is_exact { address } else { address.wrapping_sub(1) };
        // As if it were behind a call: so all are looked for one byte before.
        addresses.push(inside.wrapping_add(1));
        let told = code.at(inside).and_then(|it| files.back(it, inside, &registers, &memory));
        way.is_guessed |= told.is_none();
        let back = told.unwrap_or_else(|| by_frame_pointer(code, &registers, &memory));
        match back {
            Ok(None) => break Ending::Outermost,
            Ok(Some(caller)) => {
                let [now, before] = [&caller.registers, &registers].map(|it| known(it, dwarf::SP));
                // A caller's frame lies behind; one that was interrupted may be on another stack. Some leaves keep their caller's address in
                // a register.
                let is_leaf = addresses.len() == 1 && now == before;
                if !caller.is_exact && now <= before && !is_leaf {
                    break Ending::Broken;
                }
                (registers, is_exact) = (caller.registers, caller.is_exact);
            }
            Err(NoWay::Memory(address)) => break ran_out(address),
            Err(NoWay::NotTold | NoWay::Broken) => break Ending::Broken,
        }
    };
    way.addresses = addresses.into();
    way
}

/// Where nothing is told: where rbp points lies the caller's rbp, and behind it where the caller goes on, if that is code.
fn by_frame_pointer(code: &Code, registers: &Registers, memory: Memory<'_>) -> Back {
    let (frame, stack) = (known(registers, dwarf::BP), known(registers, dwarf::SP));
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
    if code.at(goes_on.wrapping_sub(1)).is_none() {
        return Err(NoWay::Broken);
    }
    let mut back = Registers::default();
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

    /// Three functions, each called at the beginning of the one before, where its caller's address lies on top of the stack. With
    /// what their addresses are in a chain.
    pub(in super::super) fn called_at_their_beginnings() -> (Sampled, Vec<u64>) {
        let functions: [fn(); 3] = [
            a_way_back_is_told_by_the_file,
            what_is_not_copied_ends_the_way,
            where_nothing_is_told_frame_pointers_are_followed,
        ];
        let [first, second, third] = functions.map(|it| it as usize as u64);
        let addresses = vec![first + 1, second + 1, third + 1];
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
            code.map(hex(start), Mapped { end: hex(end), offset: hex(words[2]), file: Some(0) });
        }
        walk(&code, &mut Files::new(vec![CallFrames::of(&file)]), sampled)
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
        let (_, addresses) = called_at_their_beginnings();
        // The last byte of what is in no function, then the first.
        let (unknown, first) = (0x10_0000, addresses[0] - 1);
        let mut sampled = sampled(unknown, &[9, 1, first, 0]);
        let shown = unknown + 1;
        check(&sampled, (&[shown], Ending::Broken, true));
        // The caller's and where it goes on.
        let put = |sampled: &mut Sampled, at: usize, word: u64| {
            sampled.stack[8 * at..][..8].copy_from_slice(&word.to_le_bytes());
        };
        sampled.registers[usize::from(dwarf::BP)] = Some(STACK + 8);
        put(&mut sampled, 2, first + 1);
        check(&sampled, (&[shown, first + 1], Ending::Outermost, true));
        // What is no code is no caller.
        put(&mut sampled, 2, 0x20_0000);
        check(&sampled, (&[shown], Ending::Broken, true));
        put(&mut sampled, 2, 0);
        check(&sampled, (&[shown], Ending::Outermost, true));
        // A frame pointer must lead outwards; 0 marks the outermost one.
        sampled.registers[usize::from(dwarf::BP)] = Some(STACK - 8);
        check(&sampled, (&[shown], Ending::Broken, true));
        sampled.registers[usize::from(dwarf::BP)] = Some(0);
        check(&sampled, (&[shown], Ending::Outermost, true));
        // Too far to be the same stack.
        sampled.registers[usize::from(dwarf::BP)] = Some(STACK + (64 << 20));
        check(&sampled, (&[shown], Ending::Unreadable, true));
        sampled.registers[usize::from(dwarf::BP)] = Some(STACK + (4 << 20));
        check(&sampled, (&[shown], Ending::Short, true));
    }

    #[test]
    fn a_file_that_could_not_be_had_is_told_if_it_was_wanted() {
        let mapped = Mapped { end: 0x20_0000, offset: 0, file: Some(1) };
        let mut code = Code::default();
        code.map(0x10_0000, mapped);
        let mut files = Files::new(vec![None, None]);
        let way = walk(&code, &mut files, &sampled(0x10_0007, &[]));
        assert!(way.is_guessed);
        assert_eq!(files.missed().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn what_lies_beside_what_came_is_left() {
        let mapped = |end, file| Mapped { end, offset: 100, file: Some(file) };
        let mut code = Code::default();
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
