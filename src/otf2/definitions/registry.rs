//! Definitions that events refer to, numbered while events are written, and written at the end.

use otf2_sys::{
    Archive, EvtWriter, IoAccessMode, IoFileRef, IoStatusFlags, LocationRef, StringRef,
};
use rustc_hash::FxHashMap;

use crate::operation::io_class::IoClass;
use crate::operation::model::{FilePath, MountNamespace, OpenFile, PathSource, ThreadKey};
use crate::otf2::error::OtfError;
use crate::otf2::files::{Certainty, FileDefinitions};
use crate::otf2::handles::{HandleKey, HandleLayer, HandleTable};
use crate::otf2::regions::Regions;
use crate::otf2::text::printable;
use crate::units::{DevId, Fd};

/// Limit on the different paths of failed opens. A search along a path fails for some thousand
/// names; a program that generates names must not fill the archive with them.
const GIVEN_PATHS_MAX: usize = 1 << 16;

/// Owner of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::otf2) enum LocationOwner {
    Thread(ThreadKey),
    Device(DevId),
    /// No owner, in a trace without events; readers refuse a trace without a location.
    None,
}

/// The archive and the tables of its names.
#[derive(Debug)]
pub(in crate::otf2) struct Definitions {
    pub(in crate::otf2) archive: Archive,
    pub(in crate::otf2) files: FileDefinitions,
    pub(in crate::otf2) handles: HandleTable,
    pub(in crate::otf2) regions: Regions,
    /// Owners of the locations, in the order of their numbers.
    pub(in crate::otf2) owners: Vec<(LocationRef, LocationOwner)>,
    /// Empty text.
    pub(in crate::otf2) empty: StringRef,
    given_paths: FxHashMap<Box<[u8]>, StringRef>,
    /// See [`crate::otf2::OtfSummary`].
    pub(in crate::otf2) paths_left_out: u64,
    pub(in crate::otf2) events: u64,
    pub(in crate::otf2) clamped: u64,
    /// Number of the host of the current capture; 0 in an archive of one capture.
    pub(in crate::otf2) host: u32,
}

impl Definitions {
    pub(in crate::otf2) fn new(mut archive: Archive) -> Result<Self, OtfError> {
        let empty = archive.intern("")?;
        Ok(Self {
            archive,
            files: FileDefinitions::default(),
            handles: HandleTable::default(),
            regions: Regions::new(),
            owners: Vec::new(),
            empty,
            given_paths: FxHashMap::default(),
            paths_left_out: 0,
            events: 0,
            clamped: 0,
            host: 0,
        })
    }

    /// Opens a location.
    pub(in crate::otf2) fn open(&mut self, owner: LocationOwner) -> Result<EvtWriter, OtfError> {
        let writer = self.archive.event_writer()?;
        self.owners.push((writer.location(), owner));
        Ok(writer)
    }

    /// Closes a location.
    pub(in crate::otf2) fn close(&mut self, writer: EvtWriter) -> Result<(), OtfError> {
        self.clamped += writer.clamped();
        self.events += self.archive.close_event_writer(writer)?;
        Ok(())
    }

    /// Handle of a descriptor, without its slot.
    pub(in crate::otf2) fn descriptor(
        &mut self,
        fd: Fd,
        file: &OpenFile,
        pre_created: Option<(IoAccessMode, IoStatusFlags)>,
    ) -> Result<HandleKey, OtfError> {
        let certainty = Certainty::of(file);
        let waits = file.io_class() == IoClass::Waiting;
        let layer = if waits { HandleLayer::Waiting } else { HandleLayer::Posix };
        let (name, host) = (self.empty, self.host);
        let mut handle = HandleKey { layer, number: 0, file: None, name, pre_created, host };
        match (file.first_path(), certainty) {
            (Some(path), Some(certainty)) if is_file(path) => {
                let is_directory = file.stat.is_some_and(|stat| stat.is_directory());
                handle.host = 0;
                handle.file = Some(self.files.file(
                    &path.bytes,
                    path.mounts,
                    certainty,
                    is_directory,
                    &mut self.archive,
                )?);
            }
            (Some(path), _) => handle.name = self.archive.intern(&printable(&path.bytes))?,
            (None, _) => handle.name = self.nameless(fd)?,
        }
        Ok(handle)
    }

    /// Definition of the file that was removed under this path.
    pub(in crate::otf2) fn removed(
        &mut self,
        path: &[u8],
        mounts: MountNamespace,
    ) -> Result<Option<IoFileRef>, OtfError> {
        self.files.removed(path, mounts, &mut self.archive)
    }

    fn nameless(&mut self, fd: Fd) -> Result<StringRef, OtfError> {
        Ok(match fd.0 {
            0 => self.archive.intern("stdin")?,
            1 => self.archive.intern("stdout")?,
            2 => self.archive.intern("stderr")?,
            other => self.archive.intern(&format!("fd {other}"))?,
        })
    }

    /// Path argument of a failed call; `None`: there are too many.
    pub(in crate::otf2) fn given_path(
        &mut self,
        path: &[u8],
    ) -> Result<Option<StringRef>, OtfError> {
        if let Some(&known) = self.given_paths.get(path) {
            return Ok(Some(known));
        }
        if self.given_paths.len() >= GIVEN_PATHS_MAX {
            self.paths_left_out += 1;
            return Ok(None);
        }
        let name = self.archive.intern(&printable(path))?;
        self.given_paths.insert(path.into(), name);
        Ok(Some(name))
    }
}

/// False for `pipe:[7]`, `socket:[8]`, `anon_inode:[eventpoll]`, which have no path.
fn is_file(path: &FilePath) -> bool {
    if path.source == PathSource::Call {
        return false;
    }
    path.bytes.first() == Some(&b'/')
        || path.source.is_spelled()
        || !path.bytes.windows(2).any(|window| window == b":[")
            && !path.bytes.starts_with(b"anon_inode:")
}
