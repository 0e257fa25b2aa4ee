//! Line on recordings of a job that have the same operations.

use super::shown_names::first_of;

/// Line on hosts of which a recording of the whole machine overlaps with another one.
pub(super) fn overlap(hosts: &[&str]) -> Option<String> {
    (!hosts.is_empty()).then(|| {
        format!(
            "recordings of the whole machine overlap with others of {}: their common operations \
             count twice",
            first_of(hosts)
        )
    })
}
