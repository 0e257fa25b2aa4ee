//! Symbolic links: calls that follow a final link, and calls that work on the link itself.

use super::infer_initial_state::flags_of;
use crate::event::syscall_table::{Call, CallClass, Role};

/// Returns true if a call with these registers follows a symbolic link at its first path.
/// `in_memory`: flags that the call has in memory.
pub(super) fn follows(call: &Call, args: &[u64; 6], in_memory: Option<u32>) -> bool {
    let register = |after: usize| {
        let at = call.arg(Role::Path).map(|path| path + after);
        at.and_then(|at| args.get(at)).copied().unwrap_or(0)
    };
    let is_set = |flags: u64, flag: i32| flags & u64::from(flag.cast_unsigned()) != 0;
    match (call.class, call.name) {
        (CallClass::Open, _) => {
            let flags = flags_of(call, args, in_memory);
            !(flags.is_nofollow() || flags.creates() && flags.is_exclusive())
        }
        (CallClass::Rename | CallClass::Remove, _) => false,
        (_, "linkat") => is_set(args[4], libc::AT_SYMLINK_FOLLOW),
        (CallClass::Name, _) | (_, "newlstat" | "readlink" | "readlinkat") => false,
        (_, "statx") => !is_set(register(1), libc::AT_SYMLINK_NOFOLLOW),
        (_, "newfstatat" | "utimensat" | "faccessat2" | "fchmodat2") => {
            !is_set(register(2), libc::AT_SYMLINK_NOFOLLOW)
        }
        _ => true,
    }
}
