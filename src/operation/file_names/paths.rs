//! Paths as bytes: their parts, and what lies below what.

/// Behind the name of a file that has none any more (`d_path()` in `fs/d_path.c`).
pub(in crate::operation) const DELETED: &[u8] = b" (deleted)";

/// The name as the kernel tells it.
pub(in crate::operation) fn shown(path: &[u8], deleted: bool) -> Vec<u8> {
    [path, if deleted { DELETED } else { b"" }].concat()
}

/// What every path below this one begins with.
pub(super) fn below(path: &[u8]) -> Vec<u8> {
    [path.strip_suffix(b"/").unwrap_or(path), b"/"].concat()
}

/// True if `path` lies below `directory`.
pub(in crate::operation) fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|it| it.starts_with(b"/"))
}

/// Everything before the last part, without the `/` between; empty for what is in the root.
pub(super) fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&it| it == b'/').unwrap_or(0);
    path.get(..end).unwrap_or_default()
}

/// The last part.
pub(in crate::operation) fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|&it| it == b'/').find(|it| !it.is_empty()).unwrap_or_default()
}

/// True if it is one of the parts.
pub(in crate::operation) fn has_part(path: &[u8], name: &[u8]) -> bool {
    path.split(|&it| it == b'/').any(|it| it == name)
}
