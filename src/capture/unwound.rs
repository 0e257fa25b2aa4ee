//! Through which functions of its program a thread came to a hit, found at the end of the recording from a copy of its stack.

use crate::units::{KernelTime, Pid, Tid};

/// What stopped the way back from function to caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ending {
    /// It came to the outermost function.
    Outermost,
    /// The copy of the stack was too short.
    Short,
    /// Memory that was not copied, for it is no stack or was not to be read.
    Unreadable,
    /// What the file says makes no sense, or there is no frame pointer where a file says nothing.
    Broken,
}

impl Ending {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Outermost, Self::Short, Self::Unreadable, Self::Broken];

    /// Its number in the log.
    pub fn number(self) -> u8 {
        let place = Self::ALL.iter().position(|it| *it == self);
        place.and_then(|it| u8::try_from(it).ok()).unwrap_or_default()
    }

    /// Of this number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Hits of a log that may have a way: as many copies of the usual size have 64 GiB.
pub const HITS_MAX: usize = 8 << 20;

/// Different ways of a log.
pub const WAYS_MAX: usize = 1 << 17;

/// Addresses of all of them together.
pub const WORDS_MAX: usize = 16 << 20;

/// A way back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unwound {
    /// The addresses, the innermost first: where the program was, then those behind calls.
    pub addresses: Box<[u64]>,
    /// Why there are no more.
    pub ending: Ending,
    /// On the way were functions of which no file says how to go back: their frame pointers were followed, if they have any.
    pub is_guessed: bool,
}

/// A way that some hits had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserStack {
    /// Dense from 0.
    pub number: u32,
    /// Whose the functions are.
    pub pid: Pid,
    /// The way.
    pub way: Unwound,
}

/// A hit, and the number of its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnwoundHit {
    /// When.
    pub time: KernelTime,
    /// Whose.
    pub tid: Tid,
    /// The way's.
    pub stack: u32,
}
