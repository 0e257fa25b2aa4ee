//! Lists of names in messages.

use crate::text::quantity::count;

/// Largest number of hosts, recordings and names in messages; further ones are counted.
pub(super) const SHOWN_MAX: usize = 16;

/// First names, and the number of the others.
pub(super) fn first_of(names: &[&str]) -> String {
    let shown = names.iter().take(SHOWN_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} and {} more", count(more as u64)),
    }
}
