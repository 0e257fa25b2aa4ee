//! Calls after which a file has another name, or a path leads elsewhere.

use crate::event::EventKind;
use crate::event::syscall_table::{CallClass, Role};

/// Returns true if a file may get another name or lose its name in this call.
pub(super) fn renames(kind: &EventKind) -> bool {
    let call = match kind {
        EventKind::SysEnter(enter) => enter.call,
        EventKind::SysExit(exit) => exit.call,
        _ => return false,
    };
    let call = call.call();
    // A call with two paths that makes no symbolic link is a rename, or a link that becomes a
    // rename with the next removal.
    call.class == CallClass::Remove || call.arg(Role::Path2).is_some() && !call.is_symlink()
}

/// Returns true if a path may lead elsewhere after this call.
pub(super) fn moves_places(kind: &EventKind) -> bool {
    let call = match kind {
        EventKind::SysEnter(enter) => enter.call,
        EventKind::SysExit(exit) => exit.call,
        // The lost record may be of such a call.
        EventKind::Lost(_) => return true,
        _ => return false,
    };
    call.call().moves_places()
}
