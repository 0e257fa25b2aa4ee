//! Writer of one JSON object on one line, member by member. [`key!`] creates the keys, which need
//! no escapes.

use super::super::{escape, number_format};
use crate::event::FileStat;
use crate::operation::model::{FilePath, MountNamespace};

/// Begin of a member, in one piece: most of a line is keys.
macro_rules! key {
    ($key:literal) => {
        concat!(",\"", $key, "\":")
    };
}
pub(super) use key;

/// An object that is being written into a buffer.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Object<'a> {
    /// Empties the buffer and begins an object whose first member is its kind.
    pub(super) fn begin(out: &'a mut Vec<u8>, kind: &str) -> Self {
        out.clear();
        out.extend_from_slice(b"{\"kind\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.push(b'"');
        Self { out }
    }

    /// Ends the object and the line.
    pub(super) fn end(self) {
        self.out.extend_from_slice(b"}\n");
    }

    /// Writes members that were formatted before.
    pub(super) fn members(&mut self, members: &[u8]) {
        self.out.extend_from_slice(members);
    }

    /// Writes an unsigned number.
    #[inline]
    pub(super) fn unsigned(&mut self, key: &str, value: Option<u64>) {
        self.out.extend_from_slice(key.as_bytes());
        match value {
            Some(value) => number_format::unsigned(self.out, value),
            None => null(self.out),
        }
    }

    /// Writes the mounts of a path, if they are not the tracer's.
    pub(super) fn mounts(&mut self, key: &str, path: Option<&FilePath>) {
        let mounts = path.map_or(MountNamespace::OWN, |path| path.mounts);
        if mounts != MountNamespace::OWN {
            let known = Some(u64::from(mounts.0)).filter(|_| mounts != MountNamespace::UNKNOWN);
            self.unsigned(key, known);
        }
    }

    /// Writes file system and inode of a file, if they are known.
    pub(super) fn file(&mut self, stat: Option<FileStat>) {
        if let Some(stat) = stat {
            self.out.extend_from_slice(key!("fs_dev").as_bytes());
            self.out.push(b'"');
            number_format::unsigned(self.out, stat.dev.major().into());
            self.out.push(b':');
            number_format::unsigned(self.out, stat.dev.minor().into());
            self.out.push(b'"');
            self.unsigned(key!("ino"), Some(stat.ino));
        }
    }

    /// Writes a number that may be negative.
    #[inline]
    pub(super) fn signed(&mut self, key: &str, value: Option<i64>) {
        self.out.extend_from_slice(key.as_bytes());
        match value {
            Some(value) => number_format::signed(self.out, value),
            None => null(self.out),
        }
    }

    /// Writes `true` or `false`.
    pub(super) fn boolean(&mut self, key: &str, value: bool) {
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// Writes one of our own words, which needs no escapes.
    #[inline]
    pub(super) fn word(&mut self, key: &str, value: Option<&str>) {
        self.out.extend_from_slice(key.as_bytes());
        match value {
            Some(value) => quoted(self.out, value.as_bytes()),
            None => null(self.out),
        }
    }

    /// Writes a list of our own words.
    pub(super) fn words(&mut self, key: &str, values: &[&str]) {
        self.out.extend_from_slice(key.as_bytes());
        self.out.push(b'[');
        for (index, value) in values.iter().enumerate() {
            let join: &[u8] = if index == 0 { b"\"" } else { b",\"" };
            self.out.extend_from_slice(join);
            self.out.extend_from_slice(value.as_bytes());
            self.out.push(b'"');
        }
        self.out.push(b']');
    }

    /// Writes a list of objects.
    pub(super) fn objects<T>(
        &mut self,
        key: &str,
        items: &[T],
        write: impl Fn(&mut Object<'_>, &T),
    ) {
        self.out.extend_from_slice(key.as_bytes());
        self.out.push(b'[');
        for (index, item) in items.iter().enumerate() {
            self.out.extend_from_slice(if index == 0 { b"{" } else { b",{" });
            let begin = self.out.len();
            write(&mut Object { out: self.out }, item);
            // Each member begins with a comma.
            self.out.remove(begin);
            self.out.push(b'}');
        }
        self.out.push(b']');
    }

    /// Writes any text.
    pub(super) fn text(&mut self, key: &str, value: Option<&str>) {
        self.out.extend_from_slice(key.as_bytes());
        match value {
            Some(value) => escape::json_string(self.out, value),
            None => null(self.out),
        }
    }

    /// Writes bytes that are mostly text, see [`bytes_members`].
    pub(super) fn bytes(&mut self, key: &str, bytes_key: &str, value: Option<&[u8]>) {
        bytes_members(self.out, key, bytes_key, value);
    }
}

/// Writes a member with the text; if the bytes are not UTF-8, it is escaped, and a second member
/// has them in hexadecimal.
pub(super) fn bytes_members(out: &mut Vec<u8>, key: &str, bytes_key: &str, value: Option<&[u8]>) {
    out.extend_from_slice(key.as_bytes());
    let Some(bytes) = value else { return null(out) };
    if escape::is_plain(bytes) {
        return quoted(out, bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return escape::json_string(out, text);
    }
    escape::json_string(out, &escape::lossless(bytes));
    out.extend_from_slice(bytes_key.as_bytes());
    out.push(b'"');
    for byte in bytes {
        number_format::hex_byte(out, *byte);
    }
    out.push(b'"');
}

/// Writes text that needs no escapes.
#[inline]
fn quoted(out: &mut Vec<u8>, plain: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(plain);
    out.push(b'"');
}

fn null(out: &mut Vec<u8>) {
    out.extend_from_slice(b"null");
}
