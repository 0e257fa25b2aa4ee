//! Names of the files for fio: the captured paths below a directory of the export.

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::plan::replay_paths::of_file;
use super::super::plan::replayability::SkipReason;
use super::not_exported::NotExported;
use crate::event::OpenFlags;
use crate::operation::model::OpenFile;
use crate::text::escape::drives_terminal;

/// Directories of the export: one for files by path, and one for files by number, whose path fio
/// cannot read.
pub const DIRECTORIES: [&str; 2] = ["files", "flat"];

/// Bytes of a name in a log at most (`%256s`).
pub const NAME_BYTES_MAX: usize = 256;

/// Bytes that end or change a name in fio's logs or job files: white space, `strip_blank_end()` in
/// `parse.c`, the list of `filename=`, `${VARIABLE}`.
const SPECIAL: &[u8] = b";#$:\\\"'";

/// File of the export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileName {
    /// Path in the capture.
    pub path: Vec<u8>,
    /// Name in fio's logs.
    pub name: Vec<u8>,
    /// True if fio cannot read the path.
    pub is_flat: bool,
    /// End of the furthest read, in bytes.
    pub read_end: u64,
    /// End of the furthest write, in bytes.
    pub write_end: u64,
    /// Size when the file was first opened, if known.
    pub first_size: Option<u64>,
    /// Numbers of reads and writes in the logs.
    pub operations: [u64; 2],
    /// Bytes that they move.
    pub bytes: [u64; 2],
}

impl FileName {
    /// Returns the size that the file needs before the replay, in bytes: each read finds the bytes
    /// that it got, and overwritten data is overwritten again.
    pub fn size(&self) -> u64 {
        self.read_end.max(self.first_size.unwrap_or(0).min(self.write_end))
    }
}

/// Files of the export, by number.
#[derive(Debug, Default)]
pub(super) struct ExportNames {
    pub(super) all: Vec<FileName>,
    numbers: FxHashMap<Vec<u8>, usize>,
    /// Directories of the files.
    folders: FxHashSet<Vec<u8>>,
}

impl ExportNames {
    /// Returns the number of an open file's name.
    ///
    /// # Errors
    ///
    /// The reason why it has no name.
    pub(super) fn of(&mut self, file: &OpenFile) -> Result<usize, NotExported> {
        let path = of_file(file).map_err(NotExported::Replay)?;
        let is_directory = file.stat.is_some_and(|it| it.is_directory());
        let needs_directory = file.flags.is_some_and(|flags| OpenFlags(flags).is_directory());
        if is_directory || needs_directory {
            return Err(NotExported::NoCounterpart);
        }
        // Opened with `O_PATH`, so no call on it moves bytes.
        if file.flags.is_some_and(|flags| OpenFlags(flags).is_path_only()) {
            return Err(NotExported::Replay(SkipReason::NotAFile));
        }
        Ok(self.number(path))
    }

    fn number(&mut self, path: &[u8]) -> usize {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        let number = self.all.len();
        let is_flat = !self.is_readable(path);
        let name = if is_flat {
            format!("{}/{number}", DIRECTORIES[1]).into_bytes()
        } else {
            self.folders.extend(folders(path).map(<[u8]>::to_vec));
            [DIRECTORIES[0].as_bytes(), path].concat()
        };
        self.all.push(FileName { path: path.to_vec(), name, is_flat, ..FileName::default() });
        self.numbers.insert(path.to_vec(), number);
        number
    }

    /// Returns true if fio can read the path, and it leads to no other file and stays inside the
    /// directory.
    fn is_readable(&self, path: &[u8]) -> bool {
        let is_special =
            |it: &u8| it.is_ascii_whitespace() || it.is_ascii_control() || SPECIAL.contains(it);
        let is_own = |it: &[u8]| !matches!(it, b"" | b"." | b"..");
        let is_file = |it: &[u8]| self.numbers.get(it).is_some_and(|it| !self.all[*it].is_flat);
        path.len() + DIRECTORIES[0].len() <= NAME_BYTES_MAX
            && !path.iter().any(is_special)
            && std::str::from_utf8(path).is_ok()
            && !drives_terminal(path)
            && path.strip_prefix(b"/").is_some_and(|it| it.split(|it| *it == b'/').all(is_own))
            // One name was that of a file and that of a directory.
            && !self.folders.contains(path)
            && !folders(path).any(is_file)
    }
}

/// Returns the directories above a path.
fn folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(at, it)| **it == b'/' && *at > 0).map(|(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_names_become_numbers_for_fio() {
        let mut names = ExportNames::default();
        let mut name = |path: &str| {
            let number = names.number(path.as_bytes());
            String::from_utf8(names.all[number].name.clone()).expect("text")
        };
        assert_eq!(name("/data/a"), "files/data/a");
        assert_eq!(name("/data/a"), "files/data/a");
        assert_eq!(name("/data/a b"), "flat/1");
        assert_eq!(name("/data/a\nb"), "flat/2");
        assert_eq!(name("/data/../etc/passwd"), "flat/3");
        assert_eq!(name("/a:b"), "flat/4");
        assert_eq!(name("/${HOME}"), "flat/5");
        assert_eq!(name(&format!("/{}", "x".repeat(250))), format!("files/{}", "x".repeat(250)));
        assert_eq!(name(&format!("/{}", "x".repeat(251))), "flat/7");
        assert_eq!(name("/data/a/b"), "flat/8");
        assert_eq!(name("/data"), "flat/9");
        assert_eq!(name("relative"), "flat/10");
        for (number, letter) in (11..).zip(["\u{9b}", "\u{202e}", "\u{2028}", "\u{e0041}"]) {
            assert_eq!(name(&format!("/{letter}")), format!("flat/{number}"));
        }
    }
}
