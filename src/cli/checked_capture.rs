//! Recording of an index that was checked: held open, or closed and opened again.
//!
//! A path that is typed may lead elsewhere than the path that was checked: its directory may be a
//! link, and names change meanwhile. So a recording is read by its descriptor, and one that is
//! opened later must be the same file.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::job_index_format::ContentPrint;
use crate::sys::error_text::plain;
use crate::sys::regular;

/// A recording, open.
#[derive(Debug)]
pub(super) struct OpenCapture {
    /// Held while its path is used; `None`: the user gave the path.
    held: Option<File>,
    /// Path that leads to the open file, whatever its name leads to by now.
    pub(super) path: PathBuf,
}

impl OpenCapture {
    /// Returns the recording in an open file.
    pub(super) fn of(file: File) -> Self {
        let path = regular::own_path(&file);
        Self { held: Some(file), path }
    }

    /// Returns the recording at a path that the user gave.
    pub(super) fn named(path: &Path) -> Self {
        Self { held: None, path: path.to_owned() }
    }

    /// Returns the recording, closed: the file at this path without links has this content.
    pub(super) fn closed(self, place: &Path, content: ContentPrint) -> io::Result<CheckedPlace> {
        let file = self.held.map_or_else(|| regular::open_named(&self.path), Ok)?;
        Ok(CheckedPlace { place: place.to_owned(), id: id_of(&file.metadata()?), content })
    }
}

/// A checked recording, closed: a job has more of them than a process may have open files.
#[derive(Clone, Debug)]
pub(super) struct CheckedPlace {
    /// Absolute path without links.
    place: PathBuf,
    id: FileStamp,
    content: ContentPrint,
}

/// Device, number and owner of a file.
type FileStamp = [u64; 3];

fn id_of(found: &Metadata) -> FileStamp {
    [found.dev(), found.ino(), found.uid().into()]
}

impl CheckedPlace {
    /// Opens the recording again.
    ///
    /// # Errors
    ///
    /// Reason, in words, why it is not read.
    pub(super) fn open(&self) -> Result<OpenCapture, String> {
        let unread = |error: io::Error| format!("it cannot be read: {}", plain(&error));
        let place = regular::find_without_links(&self.place).map_err(unread)?;
        if id_of(&place.metadata().map_err(unread)?) != self.id {
            return Err("another file has its name by now".to_owned());
        }
        let file = regular::open_found(&place, 0).map_err(unread)?;
        if ContentPrint::of(&file).map_err(unread)? != self.content {
            return Err("it has changed meanwhile".to_owned());
        }
        Ok(OpenCapture::of(file))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Fails if a file that has taken the name of a checked one is read.
    #[test]
    fn replaced_files_are_not_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("it is there");
        let at = |name: &str| root.join(name);
        fs::write(at("a"), "text").expect("space");
        let file = File::open(at("a")).expect("it is ours");
        let content = ContentPrint::of(&file).expect("readable");
        let checked = OpenCapture::of(file).closed(&at("a"), content).expect("it is there");
        let read = |checked: &CheckedPlace| {
            checked.open().map(|opened| fs::read_to_string(&opened.path).expect("text"))
        };
        assert_eq!(read(&checked), Ok("text".to_owned()));
        fs::rename(at("a"), at("b")).expect("one file system");
        fs::write(at("a"), "text").expect("space");
        assert!(read(&checked).is_err_and(|reason| reason.contains("another file")));
        fs::remove_file(at("a")).expect("it is ours");
        symlink(at("b"), at("a")).expect("a link");
        assert!(read(&checked).is_err());
        fs::remove_file(at("a")).expect("it is ours");
        fs::rename(at("b"), at("a")).expect("one file system");
        fs::write(at("a"), "other").expect("space");
        assert!(read(&checked).is_err_and(|reason| reason.contains("has changed")));
    }
}
