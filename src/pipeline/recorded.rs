//! Facts that follow from the recorded system calls.

use crate::capture::header::Header;
use crate::event::syscall_table::CallId;
use crate::operation::context::Observability;

/// Changes of descriptors, positions and paths that the recorded calls show.
pub(super) fn followed(header: &Header) -> Observability {
    let calls: Vec<CallId> = header.calls.iter().filter_map(|call| CallId::by_name(call)).collect();
    let followed = Observability::with(
        &calls,
        &header.host.machine,
        header.exec_exits,
        header.host.page_bytes,
    );
    Observability { waits: header.records_waits(), ..followed }
}
