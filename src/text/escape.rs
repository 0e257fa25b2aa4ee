//! Lossless escapes of untrusted bytes.

use unicode_width::UnicodeWidthChar;

use super::number_format;

/// Letters that no output format has to escape. Most names consist of them, so this is checked for
/// each byte of every line. Quotes, commas, backslashes and the delimiters of names are not among
/// them.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        plain[byte as usize] = !matches!(byte, b'"' | b'\\' | b',' | b'<' | b'>' | b'[');
        byte += 1;
    }
    plain
};

/// True if no format has to escape anything.
#[inline]
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| PLAIN[usize::from(*byte)])
}

/// A JSON string, quotes included.
///
/// Beyond the requirements of JSON, control characters and all line ends of any reader (U+0085,
/// U+2028, U+2029) are written as `\uXXXX`: a line stays one line, and a terminal does not obey it.
pub(super) fn json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    if is_plain(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
    } else {
        for letter in text.chars() {
            json_letter(out, letter);
        }
    }
    out.push(b'"');
}

fn json_letter(out: &mut Vec<u8>, letter: char) {
    match letter {
        '"' | '\\' => {
            out.push(b'\\');
            push(out, letter);
        }
        letter if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') => {
            // All of them are below U+10000: no surrogates are needed.
            out.extend_from_slice(format!("\\u{:04x}", u32::from(letter)).as_bytes());
        }
        letter => push(out, letter),
    }
}

/// Escapes bytes that are not UTF-8: text stays, other bytes become `\xNN`, a backslash becomes
/// two.
pub(crate) fn lossless(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        out.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// Escapes bytes for a line for people: bytes that are not UTF-8, control characters, invisible
/// characters, marks on no letter, and those that change the direction of writing become `\xNN`
/// byte by byte, and so does each of `delimiters`; a backslash becomes two.
pub fn shown(out: &mut Vec<u8>, bytes: &[u8], delimiters: &[u8]) {
    let changed = |byte: &u8| PLAIN[usize::from(*byte)] && bytes.contains(byte);
    if is_plain(bytes) && !delimiters.iter().any(changed) {
        return out.extend_from_slice(bytes);
    }
    let mut marks = MarkedLetter::default();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let delimits = u8::try_from(letter).is_ok_and(|byte| delimiters.contains(&byte));
            if letter == '\\' {
                marks = MarkedLetter::default();
                out.extend_from_slice(b"\\\\");
            } else if delimits || !marks.shows(letter) {
                marks = MarkedLetter::default();
                hex_bytes(out, letter.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                push(out, letter);
            }
        }
        if !chunk.invalid().is_empty() {
            marks = MarkedLetter::default();
            hex_bytes(out, chunk.invalid());
        }
    }
}

/// Escapes a sentence with untrusted words, some of which [`shown`] may have escaped already:
/// characters that a terminal obeys or does not show become `\xNN` byte by byte. Backslashes stay,
/// so the result cannot be parsed back.
pub fn harmless(sentence: &str) -> String {
    let mut out = Vec::with_capacity(sentence.len());
    let mut marks = MarkedLetter::default();
    for letter in sentence.chars() {
        if !marks.shows(letter) {
            hex_bytes(&mut out, letter.encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            push(&mut out, letter);
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Escapes JSON on any number of lines, so that a terminal obeys only its line ends: letters that
/// JSON need not escape, and [`json_string`] does, become `\uXXXX`. Such letters occur in strings
/// only.
pub fn json_lines(json: &str) -> String {
    let mut out = Vec::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '"' | '\\' | '\n' => push(&mut out, letter),
            _ => json_letter(&mut out, letter),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Original bytes of a line from [`shown`] or [`lossless`]; `None`: neither returns such a line.
pub fn unshown(line: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((first, behind)) = rest.split_first() {
        rest = match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => {
                bytes.push(b'\\');
                behind
            }
            (b'\\', [b'x', high, low, behind @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push(u8::try_from(digit(high)? << 4 | digit(low)?).ok()?);
                behind
            }
            (b'\\', _) => return None,
            _ => {
                bytes.push(*first);
                behind
            }
        };
    }
    Some(bytes)
}

/// Writes bytes of the traced system as a field of CSV: escaped by [`shown`], in quotes if
/// necessary.
pub(super) fn csv(out: &mut Vec<u8>, bytes: &[u8]) {
    if is_plain(bytes) {
        return out.extend_from_slice(bytes);
    }
    let from = out.len();
    shown(out, bytes, b"");
    quote(out, from);
}

/// Writes a word of ours as a field of CSV.
pub(super) fn csv_word(out: &mut Vec<u8>, word: &str) {
    let from = out.len();
    out.extend_from_slice(word.as_bytes());
    if !is_plain(word.as_bytes()) {
        quote(out, from);
    }
}

/// Quotes the text from this position by RFC 4180.
fn quote(out: &mut Vec<u8>, from: usize) {
    let written = out.get(from..).unwrap_or_default();
    if written.iter().any(|written| matches!(written, b',' | b'"' | b'\n' | b'\r')) {
        let quoted = written.iter().flat_map(|written| {
            std::iter::repeat_n(*written, if *written == b'"' { 2 } else { 1 })
        });
        let quoted: Vec<u8> = [b'"'].into_iter().chain(quoted).chain([b'"']).collect();
        out.truncate(from);
        out.extend_from_slice(&quoted);
    }
}

/// True if the bytes contain a character that [`misleads`], or a byte that is not UTF-8 and that an
/// eight-bit terminal obeys.
pub(crate) fn drives_terminal(bytes: &[u8]) -> bool {
    bytes.utf8_chunks().any(|chunk| {
        chunk.valid().contains(misleads)
            || chunk.invalid().iter().any(|invalid| matches!(invalid, 0x80..=0x9f))
    })
}

/// True for a character that a terminal obeys or does not show: controls, and those that Unicode
/// calls ignorable.
fn misleads(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Marks on a letter that are shown: no script needs more, and a pile of them covers other lines.
const MARKS_MAX: usize = 4;

/// Last shown letter, as far as combining marks need it: they have no width of their own.
#[derive(Clone, Copy, Debug, Default)]
struct MarkedLetter {
    /// True if a mark can be on it.
    takes_marks: bool,
    marks: usize,
}

impl MarkedLetter {
    /// Returns whether the next letter is shown as it is. A mark needs a letter that it is on.
    fn shows(&mut self, letter: char) -> bool {
        if misleads(letter) {
            return false;
        }
        if letter.is_ascii() || letter.width() != Some(0) {
            *self = Self { takes_marks: letter.is_alphanumeric(), marks: 0 };
            return true;
        }
        self.marks += 1;
        self.takes_marks && self.marks <= MARKS_MAX
    }
}

fn hex_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.extend_from_slice(b"\\x");
        number_format::hex_byte(out, *byte);
    }
}

fn push(out: &mut Vec<u8>, letter: char) {
    out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn shown(bytes: &[u8], delimiters: &[u8]) -> String {
        let mut out = Vec::new();
        super::shown(&mut out, bytes, delimiters);
        String::from_utf8(out).expect("UTF-8 comes out, whatever goes in")
    }

    fn json(text: &str) -> String {
        let mut out = Vec::new();
        super::json_string(&mut out, text);
        String::from_utf8(out).expect("UTF-8 comes out")
    }

    #[track_caller]
    fn unescape(text: &str) -> Vec<u8> {
        super::unshown(text.as_bytes()).expect("it was escaped")
    }

    #[test]
    fn invalid_escape_has_no_meaning() {
        for line in ["\\", "\\x1", "\\xg0", "\\n", "a\\"] {
            assert_eq!(super::unshown(line.as_bytes()), None, "{line}");
        }
    }

    #[track_caller]
    fn check(bytes: &[u8], delimiters: &[u8], expected: Expect) {
        expected.assert_eq(&shown(bytes, delimiters));
    }

    #[test]
    fn misleading_characters_are_escaped() {
        check(b"/etc/passwd", b"\"", expect!["/etc/passwd"]);
        check("/tmp/Übung ☃".as_bytes(), b"\"", expect!["/tmp/Übung ☃"]);
        check(b"\x1b[2J\r\nroot\x7f", b"\"", expect![r"\x1b[2J\x0d\x0aroot\x7f"]);
        check("\u{9b}2J".as_bytes(), b"\"", expect![r"\xc2\x9b2J"]);
        check("a\u{202e}txt.exe".as_bytes(), b"\"", expect![r"a\xe2\x80\xaetxt.exe"]);
        check(
            "a\u{e0000}\u{e0041}\u{e007f}".as_bytes(),
            b"",
            expect![r"a\xf3\xa0\x80\x80\xf3\xa0\x81\x81\xf3\xa0\x81\xbf"],
        );
        check(br#"a\x1b"b"#, b"\"", expect![r"a\\x1b\x22b"]);
        check(b"a> = 5 <b", b"<>", expect![r"a\x3e = 5 \x3cb"]);
        check(b"\xff\xc3(", b"\"", expect![r"\xff\xc3("]);
    }

    /// Fails if a character that has no width is shown where nothing shows it.
    #[test]
    fn marks_are_shown_on_letters_only() {
        check("e\u{301}te\u{301} กิ่".as_bytes(), b"", expect!["e\u{301}te\u{301} กิ่"]);
        check("\u{301}a/\u{338}b".as_bytes(), b"", expect![r"\xcc\x81a/\xcc\xb8b"]);
        check("\x1b\u{301}".as_bytes(), b"", expect![r"\x1b\xcc\x81"]);
        check(b"\xff\xcc\x81", b"", expect![r"\xff\xcc\x81"]);
        check(
            "z\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}.".as_bytes(),
            b"",
            expect!["z\u{301}\u{302}\u{303}\u{304}\\xcc\\x85\\xcc\\x86."],
        );
        check(
            "a\u{fe0f}b\u{34f}c\u{ad}".as_bytes(),
            b"",
            expect![r"a\xef\xb8\x8fb\xcd\x8fc\xc2\xad"],
        );
        assert_eq!(super::harmless("a \u{301}"), r"a \xcc\x81");
    }

    #[test]
    fn sentence_with_foreign_text_is_escaped() {
        expect![[r"a\x1b \x0a\x1b[2J\xc2\x9bü\xe2\x80\xae"]]
            .assert_eq(&super::harmless("a\\x1b \n\x1b[2J\u{9b}ü\u{202e}"));
    }

    #[test]
    fn json_of_many_lines_is_the_same_and_harmless() {
        let value = serde_json::json!({"a": "\u{9b}2J\u{2028}\n\"\\\x7f", "ü": [1]});
        let text = super::json_lines(&format!("{value:#}"));
        assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
    }

    #[test]
    fn json_strings_stay_on_one_line() {
        expect![[r#""a\"\\\u000a\u001b\u007f\u009b\u0085\u2028ü☃""#]]
            .assert_eq(&json("a\"\\\n\x1b\x7f\u{9b}\u{85}\u{2028}ü☃"));
    }

    proptest! {
        #[test]
        fn nothing_is_lost(bytes in prop::collection::vec(any::<u8>(), 0..40), text in ".*") {
            for input in [&bytes[..], text.as_bytes()] {
                let line = shown(input, b"<>");
                prop_assert_eq!(unescape(&line), input);
                prop_assert!(!line.contains(|letter: char| letter.is_control() || letter == '<' || letter == '>'));
                prop_assert_eq!(unescape(&super::lossless(input)), input);
            }
            let parsed: String = serde_json::from_str(&json(&text)).expect("valid JSON");
            prop_assert_eq!(parsed, text);
        }
    }
}
