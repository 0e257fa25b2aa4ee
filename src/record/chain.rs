//! Call chain of a sample: the functions through which the task reached the sampled place.
//!
//! A chain is a sequence of `u64`s with the innermost function first. Numbers that are not
//! addresses (`PERF_CONTEXT_*`) name the owner of the functions that follow. Each address is the
//! return address of a call.

use super::abi::context;

/// Call chain of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chain<'a> {
    bytes: &'a [u8],
}

impl<'a> Chain<'a> {
    /// Creates a chain of these bytes. Bytes after the last whole address are left out.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the length of the chain in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns all numbers of the chain, contexts included.
    pub fn words(&self) -> impl Iterator<Item = u64> + use<'a> {
        let (words, _) = self.bytes.as_chunks::<8>();
        words.iter().map(|it| u64::from_le_bytes(*it))
    }

    /// Returns the kernel's functions, the innermost first.
    pub fn kernel(&self) -> impl Iterator<Item = u64> + use<'a> {
        frames(self.words(), context::KERNEL)
    }

    /// Returns the program's functions, the innermost first.
    pub fn user(&self) -> impl Iterator<Item = u64> + use<'a> {
        frames(self.words(), context::USER)
    }
}

/// Returns the addresses that follow the wanted context.
fn frames(words: impl Iterator<Item = u64>, wanted: u64) -> impl Iterator<Item = u64> {
    let mut is_wanted = false;
    words.filter(move |&word| {
        if word >= context::LOWEST {
            is_wanted = word == wanted;
            return false;
        }
        is_wanted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_marker_precedes_its_functions() {
        let words = [context::KERNEL, 1, 2, context::USER, 3, 0_u64.wrapping_sub(32), 4];
        let bytes: Vec<u8> = words.iter().flat_map(|it| it.to_le_bytes()).collect();
        let chain = Chain::new(&bytes);
        assert_eq!(chain.kernel().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(chain.user().collect::<Vec<_>>(), [3]);
    }
}
