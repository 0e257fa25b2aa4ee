//! Unwound stacks: the call chains of programs, found at the end of the recording from copies of
//! their stacks.

use crate::units::{KernelTime, Pid, Tid};

/// Reason why unwinding stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StackEnd {
    /// Unwinding reached the outermost function.
    Outermost,
    /// The copy of the stack was too short.
    Short,
    /// The memory was not copied, because it is not a stack or was not to be read.
    Unreadable,
    /// The unwind information of the file is invalid, or there is no frame pointer where a file has
    /// none.
    Broken,
}

impl StackEnd {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Outermost, Self::Short, Self::Unreadable, Self::Broken];

    /// Returns its number in the log.
    pub fn number(self) -> u8 {
        let place = Self::ALL.iter().position(|it| *it == self);
        place.and_then(|it| u8::try_from(it).ok()).unwrap_or_default()
    }

    /// Returns the reason of this number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Maximum number of samples of a log with an unwound stack: as many copies of the usual size take
/// 64 GiB.
pub const HITS_MAX: usize = 8 << 20;

/// Maximum number of different stacks of a log.
pub const WAYS_MAX: usize = 1 << 17;

/// Maximum number of addresses in all stacks together.
pub const WORDS_MAX: usize = 16 << 20;

/// Unwound stack of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnwoundStack {
    /// Addresses, the innermost first: the sampled instruction, then return addresses.
    pub addresses: Box<[u64]>,
    /// Reason why there are no more.
    pub ending: StackEnd,
    /// True if some functions had no unwind information in any file: their frame pointers were
    /// followed, if they have any.
    pub is_guessed: bool,
}

/// Unwound stack of some samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserStack {
    /// Number of the stack, dense from 0.
    pub number: u32,
    /// Process of the functions.
    pub pid: Pid,
    /// Unwound stack.
    pub way: UnwoundStack,
}

/// Sample, and the number of its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnwoundHit {
    /// Time of the sample.
    pub time: KernelTime,
    /// Thread of the sample.
    pub tid: Tid,
    /// Number of the stack.
    pub stack: u32,
}
