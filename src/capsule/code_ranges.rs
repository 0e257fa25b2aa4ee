//! Addresses of the code of the recorded programs: other words of a call chain may be data.

use rangemap::RangeSet;

/// Largest number of remembered ranges of code; addresses in later ones are left out.
const RANGES_MAX: usize = 1 << 20;

/// Addresses of executable mappings.
#[derive(Debug, Default)]
pub(super) struct CodeRanges(RangeSet<u64>);

impl CodeRanges {
    /// Adds a mapping.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        if start < end && self.0.len() < RANGES_MAX {
            self.0.insert(start..end);
        }
    }

    /// Returns true if the address is one of code.
    pub(super) fn contains(&self, address: u64) -> bool {
        self.0.contains(&address)
    }

    /// Adds the executable ones of `/proc/PID/maps`.
    pub(super) fn add_maps(&mut self, text: &[u8]) {
        for line in text.split(|byte| *byte == b'\n') {
            if let Some((start, end)) = mapping(line) {
                self.add(start, end);
            }
        }
    }
}

/// Returns the addresses of a line of `/proc/PID/maps` if the mapping is executable.
fn mapping(line: &[u8]) -> Option<(u64, u64)> {
    let mut words = line.split(|byte| *byte == b' ');
    let (place, permissions) = (words.next()?, words.next()?);
    let (start, end) = std::str::from_utf8(place).ok()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    (permissions.get(2) == Some(&b'x')).then_some((number(start)?, number(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_mappings_are_code() {
        let mut code = CodeRanges::default();
        code.add_maps(
            b"400000-402000 r-xp 0 08:01 7 /bin/a\n402000-403000 rw-p 0 08:01 7 /bin/a\n\
              ffffffffff600000-ffffffffff601000 --xp 0 00:00 0 [vsyscall]\nno line\n",
        );
        let found = [0x3f_ffff, 0x40_0000, 0x40_1fff, 0x40_2000, 0xffff_ffff_ff60_0000];
        let found = found.map(|address| code.contains(address));
        assert_eq!(found, [false, true, true, false, true]);
    }
}
