//! Settings of `replay init` that `run` and `purge` need, stored as entries of a letter, a text and
//! NUL.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Settings of a replay, stored beside its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Captured directories that are created elsewhere, each with its place.
    pub maps: Vec<(Vec<u8>, PathBuf)>,
    /// Directory of the replay that this one is a part of.
    pub part_of: Option<PathBuf>,
    /// ID of the user who owns the files and runs the replay.
    pub user: Option<u32>,
    /// Contents of the files, as the option was typed.
    pub content: Option<String>,
}

impl Settings {
    /// Encodes the settings. A map is two entries.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut push = |letter: u8, text: &[u8]| {
            bytes.push(letter);
            bytes.extend_from_slice(text);
            bytes.push(0);
        };
        for (captured, directory) in &self.maps {
            push(b'm', captured);
            push(b't', directory.as_os_str().as_bytes());
        }
        if let Some(it) = &self.part_of {
            push(b'p', it.as_os_str().as_bytes());
        }
        if let Some(it) = self.user {
            push(b'u', it.to_string().as_bytes());
        }
        if let Some(it) = &self.content {
            push(b'c', it.as_bytes());
        }
        bytes
    }

    /// Decodes settings; `None`: they are damaged.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut settings = Self::default();
        let mut captured = None;
        let path = |text: &[u8]| PathBuf::from(OsStr::from_bytes(text));
        let words = |text: &[u8]| String::from_utf8(text.to_vec()).ok();
        for entry in bytes.split_inclusive(|it| *it == 0) {
            let (letter, text) = entry.strip_suffix(b"\0")?.split_first()?;
            match letter {
                b'm' => captured = Some(text.to_vec()),
                b't' => settings.maps.push((captured.take()?, path(text))),
                b'p' => settings.part_of = Some(path(text)),
                b'u' => settings.user = Some(words(text)?.parse().ok()?),
                b'c' => settings.content = Some(words(text)?),
                _ => return None,
            }
        }
        captured.is_none().then_some(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_settings_are_read_back() {
        let all = Settings {
            maps: vec![(b"/data=\n".to_vec(), "/mnt/x".into()), (b"/e".to_vec(), "/mnt/y".into())],
            part_of: Some("/mnt/r".into()),
            user: Some(7),
            content: Some("original".to_owned()),
        };
        for it in [all, Settings::default()] {
            assert_eq!(Settings::parse(&it.to_bytes()), Some(it));
        }
    }

    #[test]
    fn damaged_settings_are_ignored() {
        let wrong = [&b"x"[..], b"\0", b"z\0", b"m/data\0", b"t/mnt\0", b"m/data\0t/mnt", b"w7\0"];
        for wrong in wrong.into_iter().chain([&b"u\0"[..], b"u-7\0", b"uroot\0", b"c\xff\0"]) {
            assert_eq!(Settings::parse(wrong), None, "{wrong:?}");
        }
    }
}
