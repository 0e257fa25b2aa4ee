//! Keys from the bytes of a terminal.
//!
//! crossterm's own source of events is not used: it waits with an edge-triggered poll, and a key
//! that comes together with a new size of the terminal stays in the terminal until the next key.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// First byte of a sequence, and the key Esc.
const ESC: u8 = 0x1b;

/// Longest sequence of a key in bytes; what goes on for longer is none.
const SEQUENCE_BYTES: usize = 32;

/// Parser of keys, whose bytes may come in several reads.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyParser {
    /// Beginning of a key.
    begun: Vec<u8>,
}

/// Beginning of bytes.
enum ParsedKey {
    /// A key, or none that is known, and the number of its bytes.
    Key(Option<KeyEvent>, usize),
    /// A part of a key.
    Part,
}

impl KeyParser {
    /// Returns the keys that these bytes mean after those before them. Sequences of other keys are
    /// passed over.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<KeyEvent> {
        self.begun.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.begun);
        let mut keys = Vec::new();
        let mut rest = all.as_slice();
        while !rest.is_empty() {
            match parsed(rest) {
                ParsedKey::Key(key, length) => {
                    keys.extend(key);
                    rest = rest.get(length..).unwrap_or_default();
                }
                ParsedKey::Part => {
                    if rest.len() < SEQUENCE_BYTES {
                        self.begun = rest.to_vec();
                    }
                    break;
                }
            }
        }
        keys
    }

    /// True if a key has begun.
    pub(super) fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Returns the key of bytes that nothing follows: Esc is the beginning of others.
    pub(super) fn finish(&mut self) -> Vec<KeyEvent> {
        match std::mem::take(&mut self.begun).as_slice() {
            [ESC] => vec![plain(KeyCode::Esc)],
            _ => Vec::new(),
        }
    }
}

fn plain(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// Parses the beginning of bytes.
fn parsed(bytes: &[u8]) -> ParsedKey {
    let Some((first, behind)) = bytes.split_first() else { return ParsedKey::Part };
    let one = |code| ParsedKey::Key(Some(plain(code)), 1);
    match (*first, behind) {
        (ESC, []) => ParsedKey::Part,
        (ESC, [b'[' | b'O', sequence @ ..]) => {
            // Numbers and semicolons, then the letter that names the key.
            let is_end = |byte: &u8| matches!(byte, 0x40..=0x7e);
            let Some(end) = sequence.iter().position(is_end) else { return ParsedKey::Part };
            let named = sequence.get(..=end).and_then(named);
            ParsedKey::Key(named.map(plain), end + 3)
        }
        (ESC, _) => one(KeyCode::Esc),
        (b'\r' | b'\n', _) => one(KeyCode::Enter),
        (b'\t', _) => one(KeyCode::Tab),
        (0x7f | 0x08, _) => one(KeyCode::Backspace),
        (control @ 0x01..=0x1a, _) => {
            let letter = KeyCode::Char(char::from(control - 1 + b'a'));
            ParsedKey::Key(Some(KeyEvent::new(letter, KeyModifiers::CONTROL)), 1)
        }
        (0x00..=0x1f, _) => ParsedKey::Key(None, 1),
        _ => letter(bytes),
    }
}

/// Parses the letter at the beginning of bytes.
fn letter(bytes: &[u8]) -> ParsedKey {
    let chunk = bytes.utf8_chunks().next();
    let Some(chunk) = chunk else { return ParsedKey::Part };
    if let Some(letter) = chunk.valid().chars().next() {
        return ParsedKey::Key(Some(plain(KeyCode::Char(letter))), letter.len_utf8());
    }
    let invalid = chunk.invalid().len();
    // Bytes at the end that can begin a letter.
    let is_begun = invalid == bytes.len()
        && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none());
    if is_begun { ParsedKey::Part } else { ParsedKey::Key(None, invalid.max(1)) }
}

/// Returns the key that a sequence names; `None`: another one.
fn named(sequence: &[u8]) -> Option<KeyCode> {
    Some(match sequence {
        [.., b'A'] => KeyCode::Up,
        [.., b'B'] => KeyCode::Down,
        [.., b'C'] => KeyCode::Right,
        [.., b'D'] => KeyCode::Left,
        [.., b'H'] | b"1~" | b"7~" => KeyCode::Home,
        [.., b'F'] | b"4~" | b"8~" => KeyCode::End,
        [.., b'Z'] => KeyCode::BackTab,
        b"5~" => KeyCode::PageUp,
        b"6~" => KeyCode::PageDown,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the keys of these reads, after which nothing follows.
    fn keys(reads: &[&[u8]]) -> Vec<KeyEvent> {
        let mut parser = KeyParser::default();
        let mut keys: Vec<KeyEvent> = reads.iter().flat_map(|bytes| parser.push(bytes)).collect();
        keys.extend(parser.finish());
        assert!(!parser.has_begun());
        keys
    }

    #[track_caller]
    fn check(bytes: &[u8], codes: &[KeyCode]) {
        // At once, and in two reads that end anywhere.
        for place in 0..=bytes.len() {
            let (first, second) = bytes.split_at(place);
            let found: Vec<KeyCode> = keys(&[first, second]).iter().map(|key| key.code).collect();
            assert_eq!(found, codes, "{} | {}", first.escape_ascii(), second.escape_ascii());
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let found: Vec<KeyCode> = keys(&single).iter().map(|key| key.code).collect();
        assert_eq!(found, codes, "{}", bytes.escape_ascii());
    }

    #[test]
    fn bytes_are_keys() {
        use KeyCode::{
            BackTab, Backspace, Char, Down, Enter, Esc, Left, PageDown, PageUp, Tab, Up,
        };
        check(b"q", &[Char('q')]);
        check("/ü日\r".as_bytes(), &[Char('/'), Char('ü'), Char('日'), Enter]);
        check(b"\x1b", &[Esc]);
        check(b"\x1b\x1b", &[Esc, Esc]);
        check(b"\x1b[A\x1bOB\x1b[D\x1b[Z", &[Up, Down, Left, BackTab]);
        check(b"\x1b[5~\x1b[6~t", &[PageUp, PageDown, Char('t')]);
        check(b"\x1b[1;5A", &[Up]);
        check(b"\t\x7f", &[Tab, Backspace]);
    }

    #[test]
    fn unknown_and_broken_bytes_are_passed_over() {
        check(b"\x1b[15~x", &[KeyCode::Char('x')]);
        check(b"\x1b[", &[]);
        check(b"\x00\x1f\xff\xc3", &[]);
        check(b"\xe6x", &[KeyCode::Char('x')]);
    }

    #[test]
    fn control_keys_have_their_modifier() {
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        assert_eq!(keys(&[b"\x03\x1a"]), [control('c'), control('z')]);
    }

    #[test]
    fn sequence_without_an_end_is_dropped() {
        let mut parser = KeyParser::default();
        assert!(parser.push(b"\x1b[").is_empty() && parser.has_begun());
        for _ in 0..100 {
            parser.push(b"1;1;1;1;1;1;1;");
            assert!(parser.begun.len() < SEQUENCE_BYTES + 14, "{}", parser.begun.len());
        }
    }
}
