//! Compiled accessor of text.

/// Reads a string: bytes up to the first NUL, in the encoding that the traced program used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StringField {
    offset: usize,
    place: StringPlace,
}

/// Location of a string field's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StringPlace {
    /// `char name[N]`: in the field itself, with this many bytes.
    Inline(usize),
    /// `char name[]`: from the field to the end of the record.
    ToEnd,
    /// `__data_loc`: at an offset from the start of the payload.
    DataLoc,
    /// `__rel_loc`: at an offset from the end of the field.
    RelLoc,
}

/// Bytes of the word that locates dynamic data.
const LOCATION_SIZE: usize = 4;

impl StringField {
    pub(super) fn new(offset: usize, place: StringPlace) -> Self {
        Self { offset, place }
    }

    /// Returns the text without the NUL that ends it; without a NUL, all bytes of the field.
    /// Returns `None` when the payload does not hold the whole field.
    #[must_use]
    pub fn read<'p>(&self, payload: &'p [u8]) -> Option<&'p [u8]> {
        self.read_bytes(payload)?.split(|&byte| byte == 0).next()
    }

    /// Returns all bytes of the field, NULs included: for data that is not text, such as the buffer
    /// of a write call. Returns `None` when the payload does not hold the whole field.
    #[must_use]
    pub fn read_bytes<'p>(&self, payload: &'p [u8]) -> Option<&'p [u8]> {
        let at = payload.get(self.offset..)?;
        match self.place {
            StringPlace::Inline(size) => at.get(..size),
            StringPlace::ToEnd => Some(at),
            StringPlace::DataLoc => located(payload, at),
            StringPlace::RelLoc => located(at.get(LOCATION_SIZE..)?, at),
        }
    }
}

/// Returns the data that the word at the start of `word` locates inside `base`: its length in bytes
/// is in the upper half, its offset in the lower half.
fn located<'p>(base: &'p [u8], word: &[u8]) -> Option<&'p [u8]> {
    let [o0, o1, l0, l1] = *word.first_chunk::<LOCATION_SIZE>()?;
    let start = usize::from(u16::from_le_bytes([o0, o1]));
    let length = usize::from(u16::from_le_bytes([l0, l1]));
    base.get(start..)?.get(..length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(offset: usize, place: StringPlace, payload: &[u8], text: Option<&[u8]>) {
        assert_eq!(StringField::new(offset, place).read(payload), text);
    }

    #[test]
    fn text_in_place() {
        check(2, StringPlace::Inline(4), b"..ab\0.", Some(b"ab"));
        check(2, StringPlace::Inline(4), b"..abcd!", Some(b"abcd"));
        check(2, StringPlace::Inline(4), b"..abc", None);
        check(3, StringPlace::Inline(1), b"..", None);
        check(2, StringPlace::ToEnd, b"..abc\0", Some(b"abc"));
        check(2, StringPlace::ToEnd, b"..", Some(b""));
    }

    #[test]
    fn text_located_from_the_start() {
        // Four bytes of text at offset 5 (of 9 bytes in all).
        check(1, StringPlace::DataLoc, b".\x05\0\x04\0tmp\0", Some(b"tmp"));
        check(1, StringPlace::DataLoc, b".\x05\0\x04\0tmp", None);
        check(1, StringPlace::DataLoc, b".\x0a\0\0\0tmp", None);
        check(1, StringPlace::DataLoc, b".\x05\0\0\0tmp", Some(b""));
        check(1, StringPlace::DataLoc, b".\x05\0\x04", None);
    }

    #[test]
    fn text_located_from_the_fields_end() {
        check(1, StringPlace::RelLoc, b".\x01\0\x03\0-tmp", Some(b"tmp"));
        check(1, StringPlace::RelLoc, b".\x02\0\x03\0-tmp", None);
        check(1, StringPlace::RelLoc, b".\x01\0\x03", None);
    }

    #[test]
    fn data_keeps_its_nuls() {
        let field = StringField::new(0, StringPlace::DataLoc);
        assert_eq!(field.read_bytes(b"\x04\0\x03\0a\0b"), Some(b"a\0b".as_slice()));
    }
}
