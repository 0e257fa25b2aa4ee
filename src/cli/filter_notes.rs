//! Notes on filters: that they select nothing, and what they could not decide.

use crate::analysis::filter::Picker;
use crate::text::quantity::counted_as;

/// Notes on a filter that has selected nothing.
pub(super) fn notes_of_names(picker: &Picker) -> Vec<String> {
    picker.unknown_mounts().into_iter().chain(picker.unmatched()).collect()
}

/// Note on operations that are not in the output because their user is unknown.
pub(super) fn unknown_users(count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "{} not in the output: the user is unknown",
            counted_as(count, ["operation or request is", "operations and requests are"])
        )
    })
}
