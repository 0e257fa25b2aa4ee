//! Conversion of `O_*` flags into OTF2's. Some of the kernel's constants have several bits and
//! contain others: `O_TMPFILE` contains `O_DIRECTORY`, `O_SYNC` contains `O_DSYNC`.

use otf2_sys::{IoAccessMode, IoCreationFlags, IoStatusFlags, SeekOption};

use crate::event::{AccessMode, OpenFlags};

/// Permitted accesses. Unknown flags permit all; 3 (for `ioctl` only) does so, too.
pub(super) fn access_mode(flags: Option<u32>) -> IoAccessMode {
    match flags.map(|flags| OpenFlags(flags).access_mode()) {
        Some(AccessMode::Read) => IoAccessMode::READ_ONLY,
        Some(AccessMode::Write) => IoAccessMode::WRITE_ONLY,
        Some(AccessMode::ReadWrite | AccessMode::Neither) | None => IoAccessMode::READ_WRITE,
    }
}

/// Creation flags of an open. `O_LARGEFILE` is omitted: 64-bit kernels set it on every file.
pub(super) fn creation(flags: Option<u32>) -> IoCreationFlags {
    let flags = OpenFlags(flags.unwrap_or(0));
    let table = [
        (libc::O_CREAT, IoCreationFlags::CREATE),
        (libc::O_TRUNC, IoCreationFlags::TRUNCATE),
        (libc::O_EXCL, IoCreationFlags::EXCLUSIVE),
        (libc::O_NOCTTY, IoCreationFlags::NO_CONTROLLING_TERMINAL),
        (libc::O_NOFOLLOW, IoCreationFlags::NO_FOLLOW),
        (libc::O_PATH, IoCreationFlags::PATH),
    ];
    let directory = match (flags.is_unnamed(), flags.is_directory()) {
        (true, _) => IoCreationFlags::TEMPORARY_FILE,
        (false, true) => IoCreationFlags::DIRECTORY,
        (false, false) => IoCreationFlags::NONE,
    };
    table.iter().filter(|row| flags.has(row.0)).fold(directory, |all, it| all.with(it.1))
}

/// Status flags of an open file.
pub(super) fn status(flags: Option<u32>) -> IoStatusFlags {
    let flags = OpenFlags(flags.unwrap_or(0));
    let table = [
        (libc::O_CLOEXEC, IoStatusFlags::CLOSE_ON_EXEC),
        (libc::O_APPEND, IoStatusFlags::APPEND),
        (libc::O_NONBLOCK, IoStatusFlags::NON_BLOCKING),
        (libc::O_ASYNC, IoStatusFlags::ASYNC),
        (libc::O_DIRECT, IoStatusFlags::AVOID_CACHING),
        (libc::O_NOATIME, IoStatusFlags::NO_ACCESS_TIME),
    ];
    let sync = match (flags.syncs(), flags.syncs_data()) {
        (true, _) => IoStatusFlags::SYNC,
        (false, true) => IoStatusFlags::DATA_SYNC,
        (false, false) => IoStatusFlags::NONE,
    };
    table.iter().filter(|row| flags.has(row.0)).fold(sync, |all, it| all.with(it.1))
}

/// Removes close-on-exec, which belongs to a descriptor and not to the open file.
pub(super) fn without_cloexec(flags: Option<u32>) -> Option<u32> {
    flags.map(|flags| OpenFlags(flags).without_cloexec().0)
}

/// Sets close-on-exec to its current value.
pub(super) fn with_cloexec(status: IoStatusFlags, cloexec: bool) -> IoStatusFlags {
    if cloexec { status.with(IoStatusFlags::CLOSE_ON_EXEC) } else { status }
}

/// Converts `SEEK_*`; `None`: the kernel refuses the value.
pub(super) fn whence(whence: u32) -> Option<SeekOption> {
    Some(match i32::try_from(whence).ok()? {
        libc::SEEK_SET => SeekOption::FROM_START,
        libc::SEEK_CUR => SeekOption::FROM_CURRENT,
        libc::SEEK_END => SeekOption::FROM_END,
        libc::SEEK_DATA => SeekOption::DATA,
        libc::SEEK_HOLE => SeekOption::HOLE,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(flags: i32, mode: IoAccessMode, creates: IoCreationFlags, behaves: IoStatusFlags) {
        let flags = Some(flags.cast_unsigned());
        assert_eq!((access_mode(flags), creation(flags), status(flags)), (mode, creates, behaves));
    }

    #[test]
    fn multi_bit_constants_precede_their_subsets() {
        use {IoAccessMode as A, IoCreationFlags as C, IoStatusFlags as S};
        check(libc::O_RDONLY, A::READ_ONLY, C::NONE, S::NONE);
        check(libc::O_DIRECTORY, A::READ_ONLY, C::DIRECTORY, S::NONE);
        check(libc::O_TMPFILE | libc::O_RDWR, A::READ_WRITE, C::TEMPORARY_FILE, S::NONE);
        check(libc::O_DSYNC | libc::O_WRONLY, A::WRITE_ONLY, C::NONE, S::DATA_SYNC);
        check(libc::O_SYNC | libc::O_WRONLY, A::WRITE_ONLY, C::NONE, S::SYNC);
        check(
            libc::O_CREAT | libc::O_EXCL | libc::O_APPEND | libc::O_CLOEXEC | libc::O_DIRECT,
            A::READ_ONLY,
            C::CREATE | C::EXCLUSIVE,
            S::APPEND | S::CLOSE_ON_EXEC | S::AVOID_CACHING,
        );
        assert_eq!(access_mode(None), A::READ_WRITE);
    }
}
