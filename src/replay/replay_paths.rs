//! Which name a file has in the replay: where it was, from the root; or why it has none.

use super::replayability::SkipReason;
use crate::operation::model::{FilePath, Given, OpenFile};

/// Where the kernel's own files are.
const KERNEL: [&[u8]; 3] = [b"/proc", b"/sys", b"/dev"];

/// Bytes of a path that a call is given, with the 0 behind it (`include/uapi/linux/limits.h`).
const PATH_MAX: usize = libc::PATH_MAX as usize;

/// What the kernel adds to the name of a file that has been removed (`d_path()` in `fs/d_path.c`).
const DELETED: &[u8] = b" (deleted)";

/// The name of an open file.
///
/// # Errors
///
/// Why it has none.
pub(super) fn of_file(file: &OpenFile) -> Result<&[u8], SkipReason> {
    of(file, file.path.as_ref())
}

/// The name that a file had at the start that was open then, whatever has become of it since.
///
/// # Errors
///
/// Why it has none.
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
    // Their own names say more than that they are devices.
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

/// The name that a call was given.
///
/// # Errors
///
/// Why it leads nowhere.
pub(super) fn of_given(given: &Given) -> Result<Vec<u8>, SkipReason> {
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

/// What stood behind the last name, and is not in the whole path: calls take it for something else (`rmdir .`, `mkdir x/`).
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

/// A path that a call of the replay can be given; all of them begin at the root.
///
/// # Errors
///
/// It is too long for that.
pub(super) fn short(path: Vec<u8>) -> Result<Vec<u8>, SkipReason> {
    if is_short(&path) { Ok(path) } else { Err(SkipReason::TooLong) }
}

/// True if a call can be given it.
pub(super) fn is_short(path: &[u8]) -> bool {
    path.len() < PATH_MAX
}

/// True for what lies there; shared memory is a file system like others.
pub(super) fn is_kernels(path: &[u8]) -> bool {
    let below = |folder: &[u8]| {
        path.strip_prefix(folder).is_some_and(|it| it.is_empty() || it.starts_with(b"/"))
    };
    KERNEL.into_iter().any(below) && !below(b"/dev/shm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_begins_alike_is_not_the_kernels() {
        let is = |path: &str| is_kernels(path.as_bytes());
        assert!(is("/proc/self/fd") && is("/dev/null") && is("/sys"));
        assert_eq!(
            ["a/.", ".", "a/", "a", "a."].map(|it| end(it.as_bytes())),
            [&b"/."[..], b"/.", b"/", b"", b""]
        );
        assert!(!is("/process") && !is("/device/x") && !is("/dev/shm/x") && !is("/data/proc"));
    }
}
