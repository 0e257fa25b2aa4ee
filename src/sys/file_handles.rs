//! Files by handle (`open_by_handle_at(2)`): a handle names a file for as long as its inode exists,
//! under whatever names, and keeps nothing in use.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

/// Largest handle of the kernel, in bytes (`MAX_HANDLE_SZ`).
const HANDLE_BYTES_MAX: usize = 128;

/// Number of words of a `struct file_handle`: length, type, and the handle itself.
const WORDS: usize = 2 + HANDLE_BYTES_MAX / 4;

// Not `syscall(2)`: where programs are probed, that function is, too, and each of its calls costs
// two traps.
unsafe extern "C" {
    /// That of the C library (glibc 2.14, musl 0.9.15).
    fn open_by_handle_at(
        mount: libc::c_int,
        handle: *mut libc::c_void,
        flags: libc::c_int,
    ) -> libc::c_int;

    /// That of the C library, of the same versions.
    fn name_to_handle_at(
        directory: libc::c_int,
        path: *const libc::c_char,
        handle: *mut libc::c_void,
        mount: *mut libc::c_int,
        flags: libc::c_int,
    ) -> libc::c_int;
}

/// Handle of a file, within its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileHandle {
    /// A `struct file_handle`, whose contents are aligned as the kernel expects.
    words: [u32; WORDS],
}

impl FileHandle {
    /// Returns the handle of this type; `None` if it is longer than handles of the kernel are.
    pub(super) fn new(kind: i32, bytes: &[u8]) -> Option<Self> {
        let mut words = [0; WORDS];
        let (head, rest) = words.split_at_mut(2);
        head.copy_from_slice(&[u32::try_from(bytes.len()).ok()?, kind.cast_unsigned()]);
        if bytes.len() > HANDLE_BYTES_MAX {
            return None;
        }
        for (word, part) in rest.iter_mut().zip(bytes.chunks(4)) {
            let mut padded = [0; 4];
            padded.get_mut(..part.len())?.copy_from_slice(part);
            *word = u32::from_ne_bytes(padded);
        }
        Some(Self { words })
    }

    /// Returns the handle of an open file.
    ///
    /// # Errors
    ///
    /// Those of `name_to_handle_at(2)`; `EOPNOTSUPP`: its file system has no handles.
    pub(super) fn of(file: BorrowedFd<'_>) -> nix::Result<Self> {
        let Self { mut words } = Self::new(0, &[0; HANDLE_BYTES_MAX]).ok_or(Errno::EINVAL)?;
        let mut mount = 0;
        // SAFETY: the path ends with NUL; `words` is as long as its first word says, is exclusively
        // ours, and has the alignment of a `struct file_handle`; `mount` is exclusively ours.
        let code = unsafe {
            let handle = words.as_mut_ptr().cast();
            let (path, flags) = (c"".as_ptr(), libc::AT_EMPTY_PATH);
            name_to_handle_at(file.as_raw_fd(), path, handle, &raw mut mount, flags)
        };
        Errno::result(code).map(|_| Self { words })
    }

    /// Finds the file in the file system of `mount`. Nothing is opened (`O_PATH`): no lease is
    /// broken, and no event is reported.
    ///
    /// # Errors
    ///
    /// `ESTALE`: the file does not exist any more.
    pub(super) fn find(&self, mount: BorrowedFd<'_>) -> nix::Result<OwnedFd> {
        let mut words = self.words;
        let flags = libc::O_PATH | libc::O_CLOEXEC;
        // SAFETY: `words` is as long as its first word says, is exclusively ours, and has the
        // alignment of a `struct file_handle`, whose two members are of 4 bytes.
        let fd = unsafe { open_by_handle_at(mount.as_raw_fd(), words.as_mut_ptr().cast(), flags) };
        let fd = Errno::result(fd)?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_has_length_type_and_contents() {
        let handle = FileHandle::new(1, &[1, 0, 0, 0, 2, 0, 0, 0, 3]).expect("short");
        let expected = [9, 1].into_iter().chain([1_u32, 2, 3].map(u32::to_le).map(u32::from_le));
        assert_eq!(handle.words.get(..5), Some(expected.collect::<Vec<_>>().as_slice()));
        assert!(FileHandle::new(1, &[0; HANDLE_BYTES_MAX + 1]).is_none());
    }
}
