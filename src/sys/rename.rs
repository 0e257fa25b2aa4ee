//! Renames that replace nothing. nix has the call for glibc only, and musl before 1.2.4 has
//! no function for it.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

/// Renames an entry of a directory to a name, perhaps of another directory, that does not exist.
///
/// # Errors
///
/// Those of `renameat2(2)`: `EEXIST` if the name exists, `EINVAL` if the file system cannot check
/// and rename in one step or if a name has a NUL in it.
pub fn without_replacing(
    directory: impl AsFd,
    name: &OsStr,
    to: impl AsFd,
    new: &OsStr,
) -> nix::Result<()> {
    let name = CString::new(name.as_bytes()).map_err(|_| Errno::EINVAL)?;
    let new = CString::new(new.as_bytes()).map_err(|_| Errno::EINVAL)?;
    let (from, to) = (directory.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
    let (old_name, new_name) = (name.as_ptr(), new.as_ptr());
    // SAFETY: both names end with a NUL and live until the call has returned; both descriptors are
    // borrowed for as long.
    let code = unsafe {
        libc::syscall(libc::SYS_renameat2, from, old_name, to, new_name, libc::RENAME_NOREPLACE)
    };
    Errno::result(code).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_name_stays() {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a"), "a").expect("a file");
        std::fs::write(at("b"), "b").expect("a file");
        let directory = std::fs::File::open(folder.path()).expect("the directory");
        let rename = |name: &str, new: &str| {
            without_replacing(&directory, OsStr::new(name), &directory, OsStr::new(new))
        };
        assert_eq!(rename("a", "b"), Err(Errno::EEXIST));
        assert_eq!(std::fs::read(at("b")).expect("readable"), b"b");
        assert_eq!(rename("a", "c"), Ok(()));
        assert_eq!(std::fs::read(at("c")).expect("readable"), b"a");
        assert_eq!(rename("a", "d"), Err(Errno::ENOENT));
    }
}
