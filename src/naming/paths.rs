//! Paths as bytes: their parts, and the relation between directories and paths below them.

/// Suffix of the name of a removed file (`d_path()` in `fs/d_path.c`).
pub const DELETED: &[u8] = b" (deleted)";

/// Returns the name as the kernel reports it.
pub fn shown(path: &[u8], deleted: bool) -> Vec<u8> {
    [path, if deleted { DELETED } else { b"" }].concat()
}

/// Returns the common prefix of all paths below this one.
pub fn below(path: &[u8]) -> Vec<u8> {
    [path.strip_suffix(b"/").unwrap_or(path), b"/"].concat()
}

/// Returns true if `path` is below `directory`.
pub fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|it| it.starts_with(b"/"))
}

/// Returns everything before the last part, without the `/` between; empty for files in the root.
pub fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&it| it == b'/').unwrap_or(0);
    path.get(..end).unwrap_or_default()
}

/// Returns the last part.
pub fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|&it| it == b'/').find(|it| !it.is_empty()).unwrap_or_default()
}

/// Returns true if `name` is one of the parts.
pub fn has_part(path: &[u8], name: &[u8]) -> bool {
    path.split(|&it| it == b'/').any(|it| it == name)
}
