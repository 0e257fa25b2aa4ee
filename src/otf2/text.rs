//! Conversion of untrusted bytes into text that every reader of OTF2 accepts.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Converts to UTF-8, with all other bytes and control characters as `\xNN`. A backslash stays as
/// it is: names stay readable, and a name with a literal `\x41` is rarer than a user who copies a
/// path.
pub(super) fn printable(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.chars().any(char::is_control)
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() {
                escape(&mut out, letter.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                out.push(letter);
            }
        }
        escape(&mut out, chunk.invalid());
    }
    Cow::Owned(out)
}

fn escape(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(out, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn only_characters_that_readers_refuse_are_escaped() {
        for (bytes, text) in [
            (&b"/tmp/a b"[..], "/tmp/a b"),
            ("/tmp/\u{fc}".as_bytes(), "/tmp/\u{fc}"),
            (b"/tmp/\xff\xfe.dat", "/tmp/\\xff\\xfe.dat"),
            (b"a\nb\0c\x7f", "a\\x0ab\\x00c\\x7f"),
            ("c1 \u{85}".as_bytes(), "c1 \\xc2\\x85"),
        ] {
            assert_eq!(printable(bytes), text);
        }
    }
}
