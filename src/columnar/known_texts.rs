//! Different texts of a column in a row group, and their numbers: names repeat.

use std::fmt::Write as _;

use parquet::data_type::ByteArray;
use rustc_hash::FxHashMap;

/// Texts of a column, each once.
#[derive(Debug, Default)]
pub(super) struct KnownTexts {
    /// Texts as they are stored, by their numbers.
    stored: Vec<ByteArray>,
    numbers: FxHashMap<Vec<u8>, u32>,
    /// The latest text, and its number.
    latest: Option<(Vec<u8>, u32)>,
    /// The latest text of the program itself, and its number.
    latest_word: Option<(&'static str, u32)>,
}

impl KnownTexts {
    /// Texts as they are stored, all different, by their numbers.
    pub(super) fn stored(&self) -> &[ByteArray] {
        &self.stored
    }

    pub(super) fn number(&mut self, text: &[u8]) -> u32 {
        if let Some((latest, number)) = &self.latest
            && latest == text
        {
            return *number;
        }
        let number = self.looked_up(text);
        let (latest, number_of_latest) = self.latest.get_or_insert_default();
        latest.clear();
        latest.extend_from_slice(text);
        *number_of_latest = number;
        number
    }

    pub(super) fn number_of_word(&mut self, word: &'static str) -> u32 {
        if let Some((latest, number)) = self.latest_word
            && std::ptr::eq(latest, word)
        {
            return number;
        }
        let number = self.looked_up(word.as_bytes());
        self.latest_word = Some((word, number));
        number
    }

    fn looked_up(&mut self, text: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let stored = utf8(text).into_bytes();
        let is_escaped = stored != text;
        let number = self.number_of_stored(stored);
        if is_escaped {
            self.numbers.insert(text.to_vec(), number);
        }
        number
    }

    /// Number of a text in UTF-8. Texts with other bytes can be stored as the same one.
    fn number_of_stored(&mut self, text: Vec<u8>) -> u32 {
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        // A row group has fewer rows, so the numbers are unique.
        let number = u32::try_from(self.stored.len()).unwrap_or(u32::MAX);
        self.stored.push(ByteArray::from(text.clone()));
        self.numbers.insert(text, number);
        number
    }

    /// Forgets the texts. No row may have their numbers.
    pub(super) fn clear(&mut self) {
        self.stored.clear();
        self.numbers.clear();
        self.latest = None;
        self.latest_word = None;
    }
}

/// Returns a text with bytes that are not UTF-8 as `\xNN`.
fn utf8(text: &[u8]) -> String {
    let mut valid = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        valid.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a String does not fail.
            let _ = write!(valid, "\\x{byte:02x}");
        }
    }
    valid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number_until_they_are_forgotten() {
        let mut known = KnownTexts::default();
        let word: &'static str = "read";
        let numbers = [
            known.number(b"/a"),
            known.number_of_word(word),
            known.number(b"/a"),
            known.number(b"read"),
            known.number_of_word(word),
            known.number(b"/a"),
        ];
        assert_eq!(numbers, [0, 1, 0, 1, 1, 0]);
        let stored: Vec<&[u8]> = known.stored().iter().map(ByteArray::data).collect();
        assert_eq!(stored, [b"/a".as_slice(), b"read"]);
        known.clear();
        assert!(known.stored().is_empty());
        assert_eq!((known.number_of_word(word), known.number(b"/a")), (0, 1));
    }

    #[test]
    fn bytes_that_are_no_text_are_escaped() {
        assert_eq!(utf8("ä\n".as_bytes()), "ä\n");
        assert_eq!(utf8(b"a\xff\xc3b"), "a\\xff\\xc3b");
    }

    #[test]
    fn texts_that_are_stored_as_one_have_one_number() {
        let mut known = KnownTexts::default();
        let numbers = [b"\xff".as_slice(), b"\\xff", b"b", b"\xff"].map(|text| known.number(text));
        assert_eq!((numbers, known.stored().len()), ([0, 0, 1, 0], 2));
    }
}
