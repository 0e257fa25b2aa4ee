//! Names as readers return them.

use crate::capture::fact::NameOf;
use crate::event::{FileStat, Name, ReadNames};
use crate::units::{Fd, KernelTime};

/// A name from a reader, with the circumstances of the read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadName {
    /// Kind of the name.
    pub of: NameOf,
    /// Clock after the read.
    pub end: KernelTime,
    /// 0, or the error of a failed read.
    pub errno: i32,
    /// Address of an argument: it must be the one with which the call was entered.
    pub address: u64,
    /// Type and inode of the descriptor's file (for a link).
    pub stat: Option<FileStat>,
    /// The name.
    pub bytes: Vec<u8>,
}

impl ReadName {
    /// Returns the approximate memory that it needs while it waits.
    pub(super) fn held_bytes(&self) -> usize {
        2 * size_of::<Self>() + self.bytes.len()
    }
}

/// Collects the names that could be read.
pub(super) fn collected(
    read: Vec<ReadName>,
    entered: [Option<u64>; 2],
    pair: Option<[u64; 2]>,
) -> ReadNames {
    let mut names = ReadNames::default();
    for it in read.into_iter().filter(|it| it.errno == 0) {
        let name = Name { bytes: it.bytes, verified: false };
        match it.of {
            NameOf::Argument => {
                // A file may be renamed to itself.
                let [first, second] = entered.map(|address| address == Some(it.address));
                if second {
                    names.second = Some(name.clone());
                }
                if first {
                    names.argument = Some(name);
                }
            }
            NameOf::Memory => names.memory.push((it.address, name)),
            NameOf::Link if pair.is_some() => {
                let fd = i32::try_from(it.address).ok().map(Fd);
                names.pair.extend(fd.map(|fd| (fd, name, it.stat)));
            }
            NameOf::Link => {
                names.link = Some(name);
                names.stat = it.stat;
            }
        }
    }
    names
}
