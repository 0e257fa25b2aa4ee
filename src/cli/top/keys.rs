//! Keys from the bytes of a terminal.
//!
//! crossterm's own source of events is not used: it waits with an edge-triggered poll, and a key
//! that comes together with a new size of the terminal stays in the terminal until the next key.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// First byte of a sequence, and the key Esc.
const ESC: u8 = 0x1b;

/// Returns the keys that these bytes mean. Sequences of other keys are passed over.
pub(super) fn keys(bytes: &[u8]) -> Vec<KeyEvent> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
        match (*first, behind) {
            (ESC, [b'[' | b'O', sequence @ ..]) => {
                // Numbers and semicolons, then the letter that names the key.
                let is_end = |byte: &u8| matches!(byte, 0x40..=0x7e);
                let end = sequence.iter().position(is_end).map_or(sequence.len(), |end| end + 1);
                let (sequence, behind) = sequence.split_at(end);
                keys.extend(named(sequence).map(plain));
                rest = behind;
            }
            (ESC, _) => keys.push(plain(KeyCode::Esc)),
            (b'\r' | b'\n', _) => keys.push(plain(KeyCode::Enter)),
            (b'\t', _) => keys.push(plain(KeyCode::Tab)),
            (0x7f | 0x08, _) => keys.push(plain(KeyCode::Backspace)),
            (control @ 0x01..=0x1a, _) => {
                let letter = char::from(control - 1 + b'a');
                keys.push(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL));
            }
            (0x00..=0x1f, _) => {}
            (first, _) => {
                let length = match first {
                    0xf0.. => 4,
                    0xe0.. => 3,
                    0xc0.. => 2,
                    _ => 1,
                };
                let letter = bytes_of(first, behind, length);
                rest = behind.get(length - 1..).unwrap_or_default();
                keys.extend(letter.map(|letter| plain(KeyCode::Char(letter))));
            }
        }
    }
    keys
}

/// Returns the letter of this length, if the bytes are one.
fn bytes_of(first: u8, behind: &[u8], length: usize) -> Option<char> {
    let mut bytes = vec![first];
    bytes.extend(behind.iter().take(length - 1));
    std::str::from_utf8(&bytes).ok()?.chars().next()
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

    #[track_caller]
    fn check(bytes: &[u8], codes: &[KeyCode]) {
        let found: Vec<KeyCode> = keys(bytes).iter().map(|key| key.code).collect();
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
        check(b"\xe6x", &[]);
    }

    #[test]
    fn control_keys_have_their_modifier() {
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        assert_eq!(keys(b"\x03\x1a"), [control('c'), control('z')]);
    }
}
