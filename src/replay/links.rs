//! Symbolic links that were there before the first operation, and where they led.
//!
//! A capture tells how long the text of a link is (`readlink`), not what it is. But an open is told twice: by the path that it was given, and
//! by what the kernel calls its file. Where these differ, a link is on the way ([`seen`]). The text that it gets in the replay leads there and
//! is as long as it was, if one can be that leads there; so what asks for it gets the same result.

mod seen;

use std::collections::BTreeMap;

pub use seen::Seen;

/// The longest text of a link (`PATH_MAX` without its end).
pub const TEXT_BYTES_MAX: usize = 4095;

/// Links by their paths from the root, none of which leads through another one, and what they contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    all: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Opens that have shown others, of which it is not known any more which.
    pub unknown: u64,
}

impl Links {
    /// True if there are none, for all that is known.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.unknown == 0
    }

    /// All of them, and what they contain.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.all.iter().map(|(path, text)| (&**path, &**text))
    }
}

impl FromIterator<(Vec<u8>, Vec<u8>)> for Links {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, Vec<u8>)>>(all: I) -> Self {
        Self { all: all.into_iter().collect(), unknown: 0 }
    }
}

/// The names in a path.
fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|it| *it == b'/').filter(|it| !it.is_empty())
}

/// What a link contains that leads to `target` and is so long, if it is known how long and such a text can be; both paths are from the root,
/// without links.
pub fn text(link: &[u8], (target, is_directory): (&[u8], bool), bytes: Option<usize>) -> Vec<u8> {
    let relative = relative(link, target);
    let Some(bytes) = bytes.filter(|it| *it <= TEXT_BYTES_MAX) else { return relative };
    // The longest one that is not too long needs the least to be put before it.
    let mut all = [relative.clone(), target.to_vec()];
    all.sort_by_key(|it| (it.len() != bytes, std::cmp::Reverse(it.len())));
    all.iter().find_map(|it| padded(it, is_directory, bytes)).unwrap_or(relative)
}

/// From the directory of a link.
fn relative(link: &[u8], target: &[u8]) -> Vec<u8> {
    let above: Vec<&[u8]> = names(link).collect();
    let above = above.split_last().map_or(&[][..], |it| it.1);
    let to: Vec<&[u8]> = names(target).collect();
    let same = above.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = above[same..].iter().map(|_| &b".."[..]);
    let way: Vec<&[u8]> = up.chain(to[same..].iter().copied()).collect();
    if way.is_empty() { b".".to_vec() } else { way.join(&b'/') }
}

/// The same place in so many bytes, if it is not in fewer.
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
    let (front, back) = text.split_at(text.iter().position(|it| *it == b'/').or(end)?);
    Some([front, one, back].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(link: &str, target: &str, bytes: usize, expected: &str) {
        let bytes = Some(bytes).filter(|it| *it > 0);
        let is_directory = !target.ends_with("file");
        let text = text(link.as_bytes(), (target.as_bytes(), is_directory), bytes);
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }

    #[test]
    fn a_text_leads_from_the_directory_of_its_link() {
        check("/a/l", "/a/d", 0, "d");
        check("/a/l", "/b/c", 0, "../b/c");
        check("/a/b/l", "/a", 0, "..");
        check("/a/l", "/a", 0, ".");
        check("/l", "/usr/lib", 0, "usr/lib");
        check("/a/b/l", "/", 0, "../..");
    }

    #[test]
    fn a_text_is_as_long_as_it_was() {
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
    fn where_no_text_is_that_short_it_leads_there_all_the_same() {
        check("/a/l", "/b/long", 2, "../b/long");
        check("/a/l", "/a/d", TEXT_BYTES_MAX + 1, "d");
        check("/a/l", "/a/file", 5, "file");
        check("/a/l", "/a/file", 6, "./file");
    }
}
