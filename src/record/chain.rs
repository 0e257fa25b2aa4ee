//! Through which functions a task came to where it was sampled.
//!
//! A row of `u64`s, the innermost function first; numbers that are no addresses say whose functions follow
//! (`PERF_CONTEXT_*`). Each address is that behind a call.

use super::abi::context;

/// A chain of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chain<'a> {
    bytes: &'a [u8],
}

impl<'a> Chain<'a> {
    /// Of these bytes; what is behind the last whole address is left out.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// How many bytes it has.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// All numbers.
    pub fn words(&self) -> impl Iterator<Item = u64> + use<'a> {
        let (words, _) = self.bytes.as_chunks::<8>();
        words.iter().map(|it| u64::from_le_bytes(*it))
    }

    /// The kernel's functions, the innermost first.
    pub fn kernel(&self) -> impl Iterator<Item = u64> + use<'a> {
        frames(self.words(), context::KERNEL)
    }

    /// The program's functions, the innermost first.
    pub fn user(&self) -> impl Iterator<Item = u64> + use<'a> {
        frames(self.words(), context::USER)
    }
}

/// The addresses that follow this context.
fn frames(words: impl Iterator<Item = u64>, wanted: u64) -> impl Iterator<Item = u64> {
    let mut is_wanted = false;
    words.filter(move |&it| {
        if it >= context::LOWEST {
            is_wanted = it == wanted;
            return false;
        }
        is_wanted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_functions_follow_is_said_before_them() {
        let words = [context::KERNEL, 1, 2, context::USER, 3, 0_u64.wrapping_sub(32), 4];
        let bytes: Vec<u8> = words.iter().flat_map(|it| it.to_le_bytes()).collect();
        let chain = Chain::new(&bytes);
        assert_eq!(chain.kernel().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(chain.user().collect::<Vec<_>>(), [3]);
    }
}
