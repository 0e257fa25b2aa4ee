//! Facts that follow from the recorded system calls.

use crate::capture::header::Header;
use crate::event::syscall_table::CallId;
use crate::operation::context::Followed;

/// Changes of descriptors, positions and paths that the recorded calls show.
pub(super) fn followed(header: &Header) -> Followed {
    let calls: Vec<CallId> = header.calls.iter().filter_map(|call| CallId::by_name(call)).collect();
    let followed =
        Followed::with(&calls, &header.host.machine, header.exec_exits, header.host.page_bytes);
    Followed { waits: header.records_waits(), ..followed }
}
