//! Symbols of the addresses in call chains, stored at the end of the recording, when the files
//! still existed.

use std::collections::BTreeMap;

use crate::capture::fact::Symbol;
use crate::units::{KernelTime, Pid};

/// Limit of stored symbols.
const SYMBOLS_MAX: usize = 1 << 20;

/// Limit of a name, in bytes.
const NAME_BYTES_MAX: usize = 4096;

/// Functions by process, address, and begin of validity.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    all: BTreeMap<(Pid, u64, KernelTime), Symbol>,
    /// Symbols beyond the limit: their addresses have no names.
    pub left_out: u64,
    /// Names of functions and files that were cut at the limit.
    pub cut: u64,
}

impl Symbols {
    /// Adds a symbol.
    pub fn add(&mut self, mut symbol: Symbol) {
        let key = (symbol.pid, symbol.address, symbol.since);
        if self.all.len() < SYMBOLS_MAX || self.all.contains_key(&key) {
            for name in [&mut symbol.name, &mut symbol.module] {
                self.cut += u64::from(name.len() > NAME_BYTES_MAX);
                name.truncate(NAME_BYTES_MAX);
                name.shrink_to_fit();
            }
            self.all.insert(key, symbol);
        } else {
            self.left_out += 1;
        }
    }

    /// Returns the symbol of an address of the kernel.
    pub fn kernel(&self, address: u64) -> Option<&Symbol> {
        self.at(Pid(0), address, KernelTime::MAX)
    }

    /// Returns the symbol of an address in the process at that time.
    pub fn at(&self, pid: Pid, address: u64, time: KernelTime) -> Option<&Symbol> {
        let until = self.all.range((pid, address, KernelTime::MIN)..=(pid, address, time));
        until.last().map(|it| it.1)
    }

    /// Returns false if the address was in no mapping of the process, as far as the mappings are
    /// known: the value is then not a code address.
    pub fn may_be_code(&self, pid: Pid, address: u64, time: KernelTime) -> bool {
        let is_something = |it: &Symbol| !it.name.is_empty() || !it.module.is_empty();
        self.all.is_empty() || self.at(pid, address, time).is_some_and(is_something)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_before_the_hit_holds() {
        let mut symbols = Symbols::default();
        for (pid, since, name) in
            [(7, 0, "old"), (7, 50, "new"), (8, 0, "other"), (0, 0, "vfs_read")]
        {
            let (pid, since, name) = (Pid(pid), KernelTime(since), name.into());
            symbols.add(Symbol { pid, address: 0x1000, since, name, ..Symbol::default() });
        }
        let name = |pid, time| {
            let found = symbols.at(Pid(pid), 0x1000, KernelTime(time))?;
            Some(String::from_utf8_lossy(&found.name).into_owned())
        };
        assert_eq!(name(7, 49).as_deref(), Some("old"));
        assert_eq!(name(7, 50).as_deref(), Some("new"));
        assert_eq!(name(9, 50), None);
        assert_eq!(symbols.kernel(0x1000).map(|it| it.name.as_slice()), Some(&b"vfs_read"[..]));
        assert_eq!(symbols.kernel(0x1001), None);
        let may_be_code = |pid| symbols.may_be_code(Pid(pid), 0x1000, KernelTime(9));
        assert_eq!((may_be_code(7), may_be_code(9)), (true, false));
        assert!(Symbols::default().may_be_code(Pid(9), 0x1000, KernelTime(9)));
    }

    #[test]
    fn overlong_name_keeps_its_start() {
        let mut symbols = Symbols::default();
        for (address, bytes) in [(1, NAME_BYTES_MAX), (2, NAME_BYTES_MAX + 1)] {
            symbols.add(Symbol { address, name: vec![b'x'; bytes], ..Symbol::default() });
            assert_eq!(symbols.kernel(address).map(|it| it.name.len()), Some(NAME_BYTES_MAX));
        }
        assert_eq!(symbols.cut, 1);
    }
}
