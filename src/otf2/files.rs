//! Files and directories, one per path.

use std::borrow::Cow;
use std::rc::Rc;

use otf2_sys::{Archive, IoFileRef, StringRef};
use rustc_hash::FxHashMap;

use super::error::OtfError;
use super::job_files::{FileOrigin, FilePlacement};
use super::text::printable;
use crate::operation::model::{MountNamespace, OpenFile, PathSource};

/// Limit on the files that an archive names. `otf2-print` (OTF2 3.0 to 3.2) distributes definitions
/// over 32 lists and searches one for each that an event names: its time grows with the square of
/// the names. Further files are shown as their directories, and counted.
const FILES_MAX: usize = 1 << 16;
/// Limit on the directories that represent files; one more represents all others.
const DIRECTORIES_MAX: usize = 1 << 12;
/// Name of that one.
const OTHERS: &[u8] = b"(other files)";

/// Certainty of a name. The same path with another certainty is another file here: a guess never
/// adds to the sums of a file that it may not have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Certainty {
    /// The kernel's own path.
    Resolved,
    /// The program's spelling: it may be relative or lead through symbolic links.
    Spelled,
    /// Possibly another file's name.
    Unverified,
}

impl Certainty {
    /// Certainty of a file's name, if it has one.
    pub(super) fn of(file: &OpenFile) -> Option<Self> {
        file.path.as_ref().map(|path| match path.source {
            // A name that changes keeps its first certainty here.
            PathSource::Link
            | PathSource::Opened
            | PathSource::Snapshot
            | PathSource::Renamed
            | PathSource::Call => Self::Resolved,
            PathSource::Argument
            | PathSource::Kernel
            | PathSource::Uprobe
            | PathSource::Exec
            | PathSource::Event => Self::Spelled,
            PathSource::Unverified | PathSource::EventCut => Self::Unverified,
        })
    }

    /// Value of the file's property "Name certainty"; resolved names have none.
    pub(super) fn remark(self) -> Option<&'static str> {
        match self {
            Self::Resolved => None,
            Self::Spelled => Some("as spelled by the program"),
            Self::Unverified => Some("unverified"),
        }
    }
}

/// Definition of a file.
#[derive(Debug)]
pub(super) struct FileDefinition {
    pub(super) path: Rc<[u8]>,
    pub(super) name: StringRef,
    pub(super) certainty: Certainty,
    pub(super) is_directory: bool,
    /// True if it represents files in it for which the archive had no room.
    pub(super) is_collective: bool,
    pub(super) mounts: MountNamespace,
    /// Host and mount, in an archive of several captures.
    pub(super) origin: Option<FileOrigin>,
}

impl FileDefinition {
    /// Value of its property "Mount namespace"; files of the tracer's namespace have none.
    pub(super) fn mount_namespace(&self) -> Option<String> {
        match self.mounts {
            MountNamespace::OWN => None,
            MountNamespace::UNKNOWN => Some("unknown".to_owned()),
            MountNamespace(number) => Some(number.to_string()),
        }
    }
}

/// All files.
#[derive(Debug, Default)]
pub(super) struct FileDefinitions {
    resolved: FxHashMap<Rc<[u8]>, u32>,
    spelled: FxHashMap<Rc<[u8]>, u32>,
    unverified: FxHashMap<Rc<[u8]>, u32>,
    /// Directories that represent files.
    collective: FxHashMap<Rc<[u8]>, u32>,
    list: Vec<FileDefinition>,
    /// Place of the current capture in an archive of several ones.
    pub(super) placement: Option<FilePlacement>,
    /// Opens and similar calls on files that are shown as their directory, and removals of those
    /// that are not shown.
    pub(super) left_out: u64,
}

/// Directory of a path as it is spelled.
fn directory_of(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&path| path == b'/') {
        None => b".",
        Some(0) => b"/",
        Some(end) => path.get(..end).unwrap_or(path),
    }
}

/// Key of a file of the only capture: its path, followed by a NUL, which no path contains, and the
/// mounts if they are not the tracer's.
fn key_in_capture(path: &[u8], mounts: MountNamespace) -> Cow<'_, [u8]> {
    if mounts == MountNamespace::OWN {
        return Cow::Borrowed(path);
    }
    Cow::Owned([path, b"\0", &mounts.0.to_le_bytes()].concat())
}

impl FileDefinitions {
    /// Key of a file: equal for the same file.
    fn key<'a>(&self, path: &'a [u8], mounts: MountNamespace) -> Cow<'a, [u8]> {
        match &self.placement {
            None => key_in_capture(path, mounts),
            Some(placement) => Cow::Owned(placement.key(path, mounts)),
        }
    }

    /// Definition of the file that was removed under this path: the file that was open under it, if
    /// there is one. `None`: the archive has no room for its name.
    pub(super) fn removed(
        &mut self,
        path: &[u8],
        mounts: MountNamespace,
        archive: &mut Archive,
    ) -> Result<Option<IoFileRef>, OtfError> {
        let key = self.key(path, mounts);
        let known = self.resolved.get(&*key).or_else(|| self.spelled.get(&*key));
        match known {
            Some(&index) => Ok(Some(IoFileRef::new(index))),
            None if self.list.len() >= FILES_MAX => {
                self.left_out += 1;
                Ok(None)
            }
            None => self.file(path, mounts, Certainty::Spelled, false, archive).map(Some),
        }
    }

    /// File of this path, or the directory that represents it.
    pub(super) fn file(
        &mut self,
        path: &[u8],
        mounts: MountNamespace,
        certainty: Certainty,
        is_directory: bool,
        archive: &mut Archive,
    ) -> Result<IoFileRef, OtfError> {
        let map = match certainty {
            Certainty::Resolved => &self.resolved,
            Certainty::Spelled => &self.spelled,
            Certainty::Unverified => &self.unverified,
        };
        let index = match map.get(&*self.key(path, mounts)) {
            Some(&known) => known,
            None if self.list.len() >= FILES_MAX => {
                return self.collective(directory_of(path), mounts, archive);
            }
            None => self.define(path, mounts, certainty, archive)?,
        };
        if is_directory
            && let Some(file) =
                usize::try_from(index).ok().and_then(|number| self.list.get_mut(number))
        {
            file.is_directory = true;
        }
        Ok(IoFileRef::new(index))
    }

    fn define(
        &mut self,
        path: &[u8],
        mounts: MountNamespace,
        certainty: Certainty,
        archive: &mut Archive,
    ) -> Result<u32, OtfError> {
        let path: Rc<[u8]> = Rc::from(path);
        let name = archive.intern(&printable(&path))?;
        let key = match self.key(&path, mounts) {
            Cow::Borrowed(_) => Rc::clone(&path),
            Cow::Owned(key) => Rc::from(key),
        };
        let origin = self.origin(&path, mounts);
        let index = self.push(FileDefinition {
            path,
            name,
            certainty,
            is_directory: false,
            is_collective: false,
            mounts,
            origin,
        })?;
        match certainty {
            Certainty::Resolved => self.resolved.insert(key, index),
            Certainty::Spelled => self.spelled.insert(key, index),
            Certainty::Unverified => self.unverified.insert(key, index),
        };
        Ok(index)
    }

    /// Definition that represents all files of a directory for which there is no room.
    fn collective(
        &mut self,
        directory: &[u8],
        mounts: MountNamespace,
        archive: &mut Archive,
    ) -> Result<IoFileRef, OtfError> {
        self.left_out += 1;
        if let Some(&known) = self.collective.get(&*self.key(directory, mounts)) {
            return Ok(IoFileRef::new(known));
        }
        let has_room = self.collective.len() < DIRECTORIES_MAX;
        let (path, mounts) =
            if has_room { (directory, mounts) } else { (OTHERS, MountNamespace::OWN) };
        let key = self.key(path, mounts);
        if let Some(&known) = self.collective.get(&*key) {
            return Ok(IoFileRef::new(known));
        }
        let name = archive.intern(&printable(path))?;
        let origin = self.origin(path, mounts);
        let index = self.push(FileDefinition {
            path: Rc::from(path),
            name,
            certainty: Certainty::Spelled,
            is_directory: true,
            is_collective: true,
            mounts,
            origin,
        })?;
        self.collective.insert(Rc::from(&*key), index);
        Ok(IoFileRef::new(index))
    }

    /// Host and mount of a file, in an archive of several captures.
    fn origin(&mut self, path: &[u8], mounts: MountNamespace) -> Option<FileOrigin> {
        self.placement.as_mut().map(|placement| placement.origin(path, mounts))
    }

    fn push(&mut self, file: FileDefinition) -> Result<u32, OtfError> {
        let index = u32::try_from(self.list.len()).ok().filter(|&id| id < u32::MAX);
        self.list.push(file);
        index.ok_or(OtfError::Full("file"))
    }

    /// Definitions in the order of their numbers.
    pub(super) fn list(&self) -> &[FileDefinition] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use otf2_sys::{Archive, Options};

    use super::{Certainty, DIRECTORIES_MAX, FILES_MAX, FileDefinitions, directory_of};
    use crate::operation::model::MountNamespace;

    #[test]
    fn the_directory_of_a_path() {
        let directories = [&b"/a/b"[..], b"/a", b"a/b", b"a"].map(directory_of);
        assert_eq!(directories, [&b"/a"[..], b"/", b"a", b"."]);
    }

    #[test]
    fn names_of_an_archive_are_bounded() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut archive = Archive::create(directory.path(), "bounded", Options::default())
            .expect("a new archive");
        let mut files = FileDefinitions::default();
        let mut open = |files: &mut FileDefinitions, path: &str| {
            let path = path.as_bytes();
            let file =
                files.file(path, MountNamespace::OWN, Certainty::Resolved, false, &mut archive);
            file.expect("there is room")
        };
        for number in 0..FILES_MAX {
            open(&mut files, &format!("/named/{number}"));
        }
        let named = open(&mut files, "/named/0");
        assert_eq!((files.list.len(), files.left_out), (FILES_MAX, 0));

        let first = open(&mut files, "/d/1");
        assert_eq!(open(&mut files, "/d/2"), first);
        assert_ne!(open(&mut files, "/named/more"), named, "sums are not mixed");
        for number in 0..2 * DIRECTORIES_MAX {
            open(&mut files, &format!("/{number}/x"));
        }
        assert_eq!(files.list.len(), FILES_MAX + DIRECTORIES_MAX + 1);
        assert_eq!(files.left_out, 3 + 2 * DIRECTORIES_MAX as u64);
        assert_eq!(open(&mut files, "/named/0"), named);
        assert_eq!(open(&mut files, "/d/3"), first);
        drop(archive);
    }
}
