//! Fingerprint that identifies a plan.

use std::fmt;

/// Checksums of a plan's FILES frame and of its INDEX frame. Plans of different captures differ,
/// and a plan that is created again from the same capture is equal. Protects against mistakes only:
/// an attacker can create a plan with any fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    /// CRC-32 of the stored payload of FILES.
    pub files: u32,
    /// CRC-32 of the stored payload of INDEX.
    pub index: u32,
}

impl Fingerprint {
    /// Parses the printed form.
    pub fn parse(text: &str) -> Option<Self> {
        let (files, index) = text.split_once('-')?;
        let number = |it| u32::from_str_radix(it, 16).ok();
        Some(Self { files: number(files)?, index: number(index)? })
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{:08x}", self.files, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_fingerprint_is_read_back() {
        let it = Fingerprint { files: 0x1f, index: u32::MAX };
        assert_eq!(it.to_string(), "0000001f-ffffffff");
        assert_eq!(Fingerprint::parse(&it.to_string()), Some(it));
        for wrong in ["", "-", "0000001f", "0000001f-", "0000001f-g", "0000001f-fffffffff"] {
            assert_eq!(Fingerprint::parse(wrong), None, "{wrong}");
        }
    }
}
