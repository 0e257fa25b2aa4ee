//! Files and directories, one per path.

use std::borrow::Cow;
use std::rc::Rc;

use otf2_sys::{Archive, IoFileRef, StringRef};
use rustc_hash::FxHashMap;

use super::error::OtfError;
use super::text::printable;
use crate::operation::model::{Mounts, OpenFile, PathSource};

/// How sure a name is. The same path with another certainty is another file here: a guess never adds to the sums of
/// the file that it may not have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Certainty {
    /// The kernel's own path.
    Resolved,
    /// As the program spelled it: it may be relative or lead through symbolic links.
    Spelled,
    /// Maybe another file's name.
    Unverified,
}

impl Certainty {
    /// That of a file's name, if it has one.
    pub(super) fn of(file: &OpenFile) -> Option<Self> {
        file.path.as_ref().map(|it| match it.source {
            // A name that changes stays here what it was at first.
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

    /// The value of the file's property "Name certainty"; nothing is said of names that are what they seem.
    pub(super) fn remark(self) -> Option<&'static str> {
        match self {
            Self::Resolved => None,
            Self::Spelled => Some("as spelled by the program"),
            Self::Unverified => Some("unverified"),
        }
    }
}

/// One definition.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: Rc<[u8]>,
    pub(super) name: StringRef,
    pub(super) certainty: Certainty,
    pub(super) is_directory: bool,
    pub(super) mounts: Mounts,
}

impl File {
    /// The value of its property "Mount namespace"; nothing is said of the tracer's.
    pub(super) fn mount_namespace(&self) -> Option<String> {
        match self.mounts {
            Mounts::OWN => None,
            Mounts::UNKNOWN => Some("unknown".to_owned()),
            Mounts(number) => Some(number.to_string()),
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Files {
    resolved: FxHashMap<Rc<[u8]>, u32>,
    spelled: FxHashMap<Rc<[u8]>, u32>,
    unverified: FxHashMap<Rc<[u8]>, u32>,
    list: Vec<File>,
}

/// What a file is found by: its path, and behind a NUL, which is in no path, the mounts that are not the tracer's.
fn key(path: &[u8], mounts: Mounts) -> Cow<'_, [u8]> {
    if mounts == Mounts::OWN {
        return Cow::Borrowed(path);
    }
    Cow::Owned([path, b"\0", &mounts.0.to_le_bytes()].concat())
}

impl Files {
    /// The definition of what was removed under this path: the file that was open under it, if one was.
    pub(super) fn removed(
        &mut self,
        path: &[u8],
        mounts: Mounts,
        archive: &mut Archive,
    ) -> Result<IoFileRef, OtfError> {
        let known = self.resolved.contains_key(&*key(path, mounts));
        let certainty = if known { Certainty::Resolved } else { Certainty::Spelled };
        self.file((path, mounts), certainty, false, archive)
    }

    /// The file of this path.
    pub(super) fn file(
        &mut self,
        (path, mounts): (&[u8], Mounts),
        certainty: Certainty,
        is_directory: bool,
        archive: &mut Archive,
    ) -> Result<IoFileRef, OtfError> {
        let map = match certainty {
            Certainty::Resolved => &mut self.resolved,
            Certainty::Spelled => &mut self.spelled,
            Certainty::Unverified => &mut self.unverified,
        };
        let key = key(path, mounts);
        let index = match map.get(&*key) {
            Some(&known) => known,
            None => {
                let path: Rc<[u8]> = Rc::from(path);
                let index = u32::try_from(self.list.len()).ok().filter(|&it| it < u32::MAX);
                let index = index.ok_or(OtfError::Full("file"))?;
                let name = archive.intern(&printable(&path))?;
                let key = if mounts == Mounts::OWN { Rc::clone(&path) } else { Rc::from(&*key) };
                map.insert(key, index);
                self.list.push(File { path, name, certainty, is_directory: false, mounts });
                index
            }
        };
        if is_directory
            && let Some(file) = usize::try_from(index).ok().and_then(|it| self.list.get_mut(it))
        {
            file.is_directory = true;
        }
        Ok(IoFileRef::new(index))
    }

    /// In the order of their numbers.
    pub(super) fn list(&self) -> &[File] {
        &self.list
    }
}
