//! The string table: each text once, numbered in the order of its first use.
//!
//! Events refer to strings by number, so the numbers are assigned while events are written and the
//! definitions follow at the end. Memory: one copy of each text and two pointers to it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use crate::error::{Error, Result};
use crate::refs::StringRef;

/// Limit on the bytes of a text; longer ones are truncated (and then end in `…`): a record must fit
/// into one definition chunk of 256 KiB.
pub const STRING_BYTES_MAX: usize = 64 * 1024;

/// End of a text that was truncated.
const CUT_MARK: &str = "…";

/// All strings of an archive.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    ids: HashMap<Rc<str>, u32>,
    texts: Vec<Rc<str>>,
    cut: u64,
}

impl Strings {
    /// The number of `text`, which is stored if it is new.
    pub(crate) fn intern(&mut self, text: &str) -> Result<StringRef> {
        let text = storable(text);
        if let Some(&id) = self.ids.get(&*text.stored) {
            return Ok(StringRef::new(id));
        }
        let id = u32::try_from(self.texts.len()).ok().filter(|&id| id < u32::MAX);
        let id = id.ok_or(Error::TooManyStrings)?;
        let stored: Rc<str> = Rc::from(&*text.stored);
        self.ids.insert(Rc::clone(&stored), id);
        self.texts.push(stored);
        self.cut += u64::from(text.cut);
        Ok(StringRef::new(id))
    }

    /// The text with this number.
    pub(crate) fn text(&self, index: usize) -> Option<&str> {
        self.texts.get(index).map(|text| &**text)
    }

    /// Number of different texts that were truncated.
    pub(crate) fn cut(&self) -> u64 {
        self.cut
    }
}

/// A text as it can be stored: without NUL, not too long.
struct Storable<'a> {
    stored: Cow<'a, str>,
    cut: bool,
}

fn storable(text: &str) -> Storable<'_> {
    let escaped =
        if text.contains('\0') { text.replace('\0', "\\x00").into() } else { Cow::Borrowed(text) };
    if escaped.len() <= STRING_BYTES_MAX {
        return Storable { stored: escaped, cut: false };
    }
    let mut shortened = escaped.into_owned();
    let fits = STRING_BYTES_MAX - CUT_MARK.len();
    // A character has at most four bytes.
    let end = (fits - 3..=fits).rev().find(|&end| shortened.is_char_boundary(end)).unwrap_or(0);
    shortened.truncate(end);
    shortened.push_str(CUT_MARK);
    Storable { stored: shortened.into(), cut: true }
}

/// Converts `text` for C: no NUL inside, not longer than `STRING_BYTES_MAX`, and a NUL at the end.
///
/// `buffer` is overwritten; it saves an allocation per string.
pub(crate) fn terminated<'a>(text: &str, buffer: &'a mut Vec<u8>) -> &'a std::ffi::CStr {
    buffer.clear();
    buffer.extend_from_slice(storable(text).stored.as_bytes());
    buffer.push(0);
    std::ffi::CStr::from_bytes_until_nul(buffer).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_a_number() -> Result<()> {
        let mut strings = Strings::default();
        let first = strings.intern("read")?;
        assert_eq!(strings.intern("write")?.id(), 1);
        assert_eq!(strings.intern("read")?, first);
        assert_eq!((strings.text(1), strings.text(2)), (Some("write"), None));
        Ok(())
    }

    #[test]
    fn a_nul_is_spelled_out() -> Result<()> {
        let mut strings = Strings::default();
        strings.intern("a\0b")?;
        assert_eq!(strings.text(0), Some("a\\x00b"));
        Ok(())
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() -> Result<()> {
        let mut strings = Strings::default();
        strings.intern(&"é".repeat(STRING_BYTES_MAX))?;
        let text = strings.text(0).unwrap_or_default();
        assert!(text.len() <= STRING_BYTES_MAX && text.len() > STRING_BYTES_MAX - 5);
        assert!(text.ends_with("é…"));
        assert_eq!(strings.cut(), 1);
        Ok(())
    }
}
