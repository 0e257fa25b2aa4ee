//! Paths of files in the replay: the captured path from the root, or the reason why a file has
//! none.

use super::replayability::SkipReason;
use crate::operation::model::{FilePath, OpenFile, PathArgument};

/// Directories of the kernel's own files.
const KERNEL: [&[u8]; 3] = [b"/proc", b"/sys", b"/dev"];

/// Bytes of a path that a call accepts, with the final NUL (`include/uapi/linux/limits.h`).
const PATH_MAX: usize = libc::PATH_MAX as usize;

/// Suffix that the kernel adds to the name of a removed file (`d_path()` in `fs/d_path.c`).
const DELETED: &[u8] = b" (deleted)";

/// Paths that an operation was given, from the root of the replay.
#[derive(Clone, Debug, Default)]
pub(super) struct OpPaths {
    pub(super) first: Option<Vec<u8>>,
    /// Second path; for a symbolic link its target.
    pub(super) second: Option<Vec<u8>>,
}

/// Returns the path of an open file.
///
/// # Errors
///
/// The reason why it has none.
pub(in super::super) fn of_file(file: &OpenFile) -> Result<&[u8], SkipReason> {
    of(file, file.path.as_ref())
}

/// Returns the initial path of a file that was open at the start, independent of later renames.
///
/// # Errors
///
/// The reason why it has none.
pub(super) fn at_start(file: &OpenFile) -> Result<&[u8], SkipReason> {
    of(file, file.first_path())
}

fn of<'a>(file: &OpenFile, path: Option<&'a FilePath>) -> Result<&'a [u8], SkipReason> {
    let kind = file.stat.map(|it| it.mode & libc::S_IFMT);
    let is_kept = kind.is_none_or(|it| it == libc::S_IFREG || it == libc::S_IFDIR);
    if file.is_made() {
        return Err(SkipReason::NotAFile);
    }
    let path = path.ok_or(SkipReason::NoName)?;
    // Checked first: the path is more precise than the fact that the file is a device.
    if is_kernels(&path.bytes) {
        return Err(SkipReason::Kernel);
    }
    if !is_kept {
        return Err(SkipReason::NotAFile);
    }
    sure(path)?;
    match path.bytes.first() {
        Some(b'/') => Ok(&path.bytes),
        // `pipe:[7]`, `anon_inode:[eventfd]`
        _ if path.bytes.contains(&b':') => Err(SkipReason::NotAFile),
        _ => Err(SkipReason::NoDirectory),
    }
}

/// Returns the path that a call was given.
///
/// # Errors
///
/// The reason why it cannot be used.
pub(super) fn of_given(given: &PathArgument) -> Result<Vec<u8>, SkipReason> {
    sure(&given.path)?;
    match given.whole() {
        path if is_kernels(path) => Err(SkipReason::Kernel),
        b"/" => Ok(b"/".to_vec()),
        path if path.starts_with(b"/") => {
            let end = end(&given.path.bytes);
            Ok([path.strip_suffix(end).unwrap_or(path), end].concat())
        }
        _ => Err(SkipReason::NoDirectory),
    }
}

/// Returns the end of a path as spelled that is not in the whole path, but changes the meaning of a
/// call (`rmdir .`, `mkdir x/`).
fn end(spelled: &[u8]) -> &[u8] {
    match spelled {
        b"." | [.., b'/', b'.'] => b"/.",
        [.., b'/'] => b"/",
        _ => b"",
    }
}

fn sure(path: &FilePath) -> Result<(), SkipReason> {
    let is_removed = path.is_resolved() && path.bytes.ends_with(DELETED);
    if path.source.is_doubtful() || is_removed { Err(SkipReason::NoName) } else { Ok(()) }
}

/// Checks that a call of the replay accepts a path; all of them begin at the root.
///
/// # Errors
///
/// The path is too long.
pub(super) fn short(path: Vec<u8>) -> Result<Vec<u8>, SkipReason> {
    if is_short(&path) { Ok(path) } else { Err(SkipReason::TooLong) }
}

/// Returns true if a call accepts the path.
pub(super) fn is_short(path: &[u8]) -> bool {
    path.len() < PATH_MAX
}

/// Returns true for files of the kernel. Shared memory is not one of them: it is a file system like
/// others.
pub(in super::super) fn is_kernels(path: &[u8]) -> bool {
    let below = |folder: &[u8]| {
        path.strip_prefix(folder).is_some_and(|it| it.is_empty() || it.starts_with(b"/"))
    };
    KERNEL.into_iter().any(below) && !below(b"/dev/shm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_prefix_is_not_a_kernel_path() {
        let is = |path: &str| is_kernels(path.as_bytes());
        assert!(is("/proc/self/fd") && is("/dev/null") && is("/sys"));
        assert_eq!(
            ["a/.", ".", "a/", "a", "a."].map(|it| end(it.as_bytes())),
            [&b"/."[..], b"/.", b"/", b"", b""]
        );
        assert!(!is("/process") && !is("/device/x") && !is("/dev/shm/x") && !is("/data/proc"));
    }
}
