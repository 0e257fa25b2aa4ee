//! Which calls work on what a symbolic link leads to, and which on the link itself.

use super::infer_initial_state::flags_of;
use crate::event::syscall_table::{Call, Class, Role};

/// True if a call with these registers works on what a link leads to, if its first path is one. `in_memory`: its flags, if they stand there.
pub(super) fn follows(call: &Call, args: &[u64; 6], in_memory: Option<u32>) -> bool {
    let register = |behind: usize| {
        let at = call.arg(Role::Path).map(|it| it + behind);
        at.and_then(|it| args.get(it)).copied().unwrap_or(0)
    };
    let is_set = |flags: u64, flag: i32| flags & u64::from(flag.cast_unsigned()) != 0;
    match (call.class, call.name) {
        (Class::Open, _) => {
            let flags = flags_of(call, args, in_memory);
            let has = |flag: i32| flags & flag.cast_unsigned() != 0;
            !(has(libc::O_NOFOLLOW) || has(libc::O_CREAT) && has(libc::O_EXCL))
        }
        (Class::Rename | Class::Remove, _) => false,
        (_, "linkat") => is_set(args[4], libc::AT_SYMLINK_FOLLOW),
        (Class::Name, _) | (_, "newlstat" | "readlink" | "readlinkat") => false,
        (_, "statx") => !is_set(register(1), libc::AT_SYMLINK_NOFOLLOW),
        (_, "newfstatat" | "utimensat" | "faccessat2" | "fchmodat2") => {
            !is_set(register(2), libc::AT_SYMLINK_NOFOLLOW)
        }
        _ => true,
    }
}
