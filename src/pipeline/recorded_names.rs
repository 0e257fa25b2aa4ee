//! Join of names by the header of a recording: what its source of names reads, and when.

use super::recorded::followed;
use crate::capture::fact::NameOf;
use crate::capture::header::Header;
use crate::event::syscall_table::{Call, CallClass, CallId};
use crate::naming::fanotify_join::FanotifyJoin;
use crate::naming::name_join::NameJoin;
use crate::units::KernelTime;

/// True if names of this kind were read while the program went on. (Beside probes and a listener,
/// readers read the paths of other calls before the program goes on.)
pub(super) fn is_read_late(of: NameOf, header: &Header) -> bool {
    header.names == "fanotify" || of == NameOf::Link && looks_late(header)
}

/// True if opened files were looked at while the program went on.
fn looks_late(header: &Header) -> bool {
    header.names == "links"
}

/// True if a listener reported opens.
fn listens(header: &Header) -> bool {
    matches!(header.names.as_str(), "fanotify" | "uprobe+fanotify")
}

/// Returns the join of names with the calls of a recording.
pub(super) fn name_join(header: &Header) -> NameJoin {
    let all_recorded = |is_needed: fn(&Call) -> bool| {
        let needed = CallId::all().map(CallId::call).filter(|call| is_needed(call));
        let mut needed = needed.filter(|needed| needed.number(&header.host.machine).is_some());
        needed.all(|needed| header.calls.iter().any(|name| *name == needed.name))
    };
    let sees_renames = !looks_late(header) || all_recorded(Call::changes_names);
    let mut join = NameJoin::new(followed(header).descriptors, sees_renames);
    if looks_late(header) {
        join = join.with_late_links(KernelTime(header.clock.all_on_ns));
    }
    if !listens(header) {
        return join;
    }
    let all_seen = all_recorded(Call::bears_on_opens);
    let seen_since = if all_seen { KernelTime(header.clock.all_on_ns) } else { KernelTime::MAX };
    let has_handles = header.names == "uprobe+fanotify";
    let mut opens = FanotifyJoin::new(seen_since, &header.host.machine);
    if all_recorded(|call| call.class == CallClass::Place) {
        opens = opens.with_directory_changes();
    }
    join.with_fanotify(opens, has_handles)
}
