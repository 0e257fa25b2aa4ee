//! Texts of links: each leads from a link to its target, and is as long as the captured one if that
//! is possible.

/// Maximum length of a link's text (`PATH_MAX` without its terminator).
pub const TEXT_BYTES_MAX: usize = 4095;

/// Returns the names in a path.
pub(super) fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

/// Returns the text of a link to `target`, of this many bytes if the length is known and possible.
/// Both paths are from the root, without links.
pub fn text(link: &[u8], target: &[u8], is_directory: bool, bytes: Option<usize>) -> Vec<u8> {
    let relative = relative(link, target);
    let Some(bytes) = bytes.filter(|bytes| *bytes <= TEXT_BYTES_MAX) else { return relative };
    // The longest text that is not too long needs the least padding.
    let mut all = [relative.clone(), target.to_vec()];
    all.sort_by_key(|text| (text.len() != bytes, std::cmp::Reverse(text.len())));
    all.iter().find_map(|text| padded(text, is_directory, bytes)).unwrap_or(relative)
}

/// Returns the path of a target from the directory of a link.
fn relative(link: &[u8], target: &[u8]) -> Vec<u8> {
    let above: Vec<&[u8]> = names(link).collect();
    let above = above.split_last().map_or(&[][..], |(_, above)| above);
    let to: Vec<&[u8]> = names(target).collect();
    let same = above.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = above[same..].iter().map(|_| &b".."[..]);
    let way: Vec<&[u8]> = up.chain(to[same..].iter().copied()).collect();
    if way.is_empty() { b".".to_vec() } else { way.join(&b'/') }
}

/// Pads a text to this many bytes so that it leads to the same place, if that is possible.
fn padded(text: &[u8], is_directory: bool, bytes: usize) -> Option<Vec<u8>> {
    let missing = bytes.checked_sub(text.len())?;
    if text.starts_with(b"/") {
        return Some([&b"/".repeat(missing), text].concat());
    }
    let whole = b"./".repeat(missing / 2);
    let one = if missing % 2 == 0 { &b""[..] } else { b"/" };
    if !whole.is_empty() {
        // `.//d`
        return Some([&*whole, one, text].concat());
    }
    // `../d` is `..//d`; `d` may be called `d/` if it is a directory.
    let end = Some(text.len()).filter(|_| is_directory || one.is_empty());
    let (front, back) = text.split_at(text.iter().position(|byte| *byte == b'/').or(end)?);
    Some([front, one, back].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(link: &str, target: &str, bytes: usize, expected: &str) {
        let bytes = Some(bytes).filter(|bytes| *bytes > 0);
        let is_directory = !target.ends_with("file");
        let text = text(link.as_bytes(), target.as_bytes(), is_directory, bytes);
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }

    #[test]
    fn link_text_starts_at_directory_of_link() {
        check("/a/l", "/a/d", 0, "d");
        check("/a/l", "/b/c", 0, "../b/c");
        check("/a/b/l", "/a", 0, "..");
        check("/a/l", "/a", 0, ".");
        check("/l", "/usr/lib", 0, "usr/lib");
        check("/a/b/l", "/", 0, "../..");
    }

    #[test]
    fn link_text_has_captured_length() {
        check("/a/l", "/a/d", 4, "/a/d");
        check("/a/l", "/a/d", 1, "d");
        check("/a/l", "/a/d", 2, "d/");
        check("/a/l", "/a/d", 3, "./d");
        check("/a/l", "/b/d", 6, "../b/d");
        check("/a/l", "/b/d", 5, "//b/d");
        check("/away/b/l", "/away/c/d", 7, "..//c/d");
        check("/a/l", "/a/d", 7, "////a/d");
        check("/here/there/l", "/here/there/d", 4, ".//d");
    }

    #[test]
    fn link_text_may_exceed_the_captured_length() {
        check("/a/l", "/b/long", 2, "../b/long");
        check("/a/l", "/a/d", TEXT_BYTES_MAX + 1, "d");
        check("/a/l", "/a/file", 5, "file");
        check("/a/l", "/a/file", 6, "./file");
    }
}
