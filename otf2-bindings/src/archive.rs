//! The archive: creation, strings, locations, and the order of work at the end.
//!
//! ```text
//!   create ─► [writing] ─► finish ─► [complete]      anchor file written
//!                │            │
//!                └─ error ────┴────► [abandoned]     nothing is written any more
//! ```
//!
//! After a failure of the library its objects are not even closed (see `memory`): their memory,
//! some MiB per open writer of the library, and their open files stay with the process.
//!
//! The library's archive is shared by [`Archive`] and its [`EvtWriter`]s and closed with the last
//! of them, so a writer can never outlive it.

use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::rc::Rc;

use crate::attributes::AttributeList;
use crate::constants::{OTF2_COMPRESSION_NONE, OTF2_FILEMODE_WRITE, OTF2_SUBSTRATE_POSIX};
use crate::definitions::GlobalDefs;
use crate::error::{Error, Result, catch_reports, checked, checked_pointer, is_existing};
use crate::events::EvtWriter;
use crate::ffi::{
    OTF2_Archive, OTF2_Archive_Close, OTF2_Archive_CloseDefFiles, OTF2_Archive_CloseDefWriter,
    OTF2_Archive_CloseEvtFiles, OTF2_Archive_GetDefWriter, OTF2_Archive_Open,
    OTF2_Archive_OpenDefFiles, OTF2_Archive_OpenEvtFiles, OTF2_Archive_SetCreator,
    OTF2_Archive_SetDescription, OTF2_Archive_SetFlushCallbacks, OTF2_Archive_SetMachineName,
    OTF2_Archive_SetMemoryCallbacks, OTF2_Archive_SetProperty,
    OTF2_Archive_SetSerialCollectiveCallbacks, OTF2_ErrorCode,
};
use crate::library::library;
use crate::memory::{CHUNK_BYTES, FLUSH_CALLBACKS, MEMORY_CALLBACKS, MemoryUse, Pool, Shares};
use crate::refs::StringRef;
use crate::spool::Spool;
use crate::strings::{Strings, terminated};

/// The anchor file is one buffer of 256 KiB in the library; this leaves room for the rest of it.
const ANCHOR_TEXT_BYTES_MAX: usize = 192 * 1024;

/// Limits on an archive's memory and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of memory for the events of all locations. A quarter is for locations without a writer
    /// of OTF2: events beyond that are in a nameless file in the archive's directory, about half as
    /// large as they are in the archive. The rest is for writers that stay open, 4.25 MiB each.
    /// Closing a location exceeds the budget by one such writer, and more than some four thousand
    /// locations by up to 2 KiB each. Default: 64 MiB.
    pub memory_budget_bytes: u64,
    /// Limit on open event files, best derived from `RLIMIT_NOFILE`; no more than the budget has
    /// room for. The locations without a writer need one file together, and closing one needs one
    /// more for a moment. Default: 512.
    pub open_files_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { memory_budget_bytes: 64 * 1024 * 1024, open_files_max: 512 }
    }
}

/// Totals of a location, kept after its writer was closed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LocationTotals {
    pub(crate) events: u64,
}

/// The library's archive with everything that its writers share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Empty before `open` and after `close`.
    raw: Cell<Option<NonNull<OTF2_Archive>>>,
    pub(crate) pool: Pool,
    pub(crate) spool: RefCell<Spool>,
    pub(crate) attributes: AttributeList,
    pub(crate) strings: RefCell<Strings>,
    pub(crate) locations: RefCell<Vec<LocationTotals>>,
    /// The first and the last time of any event.
    pub(crate) event_times: Cell<Option<(u64, u64)>>,
    /// The first failure of a writer that was dropped instead of closed.
    pub(crate) drop_error: RefCell<Option<Error>>,
}

impl Shared {
    /// The library's archive; an error once the archive was abandoned.
    pub(crate) fn archive(&self) -> Result<*mut OTF2_Archive> {
        match self.raw.get() {
            Some(raw) if !self.pool.is_abandoned() => Ok(raw.as_ptr()),
            _ => Err(Error::Abandoned),
        }
    }

    /// The library's archive to close a writer, which is right even in an abandoned archive, but
    /// not after a failure.
    pub(crate) fn archive_for_closing(&self) -> Option<*mut OTF2_Archive> {
        self.raw.get().filter(|_| !self.pool.is_failed()).map(NonNull::as_ptr)
    }

    /// Runs a call on the archive; a failure ends all writing.
    pub(crate) fn call(
        &self,
        doing: &'static str,
        object: impl FnOnce() -> String,
        call: impl FnOnce(*mut OTF2_Archive) -> OTF2_ErrorCode,
    ) -> Result<()> {
        let archive = self.archive()?;
        checked(doing, object, || call(archive)).inspect_err(|_| self.pool.fail())
    }

    /// Closes the library's archive, which writes the anchor file unless it was abandoned.
    fn close(&self) -> Result<()> {
        let Some(raw) = self.raw.take() else { return Ok(()) };
        if self.pool.is_failed() {
            // Data that the library holds are lost: closing might free it twice, see `memory`.
            return Err(Error::Abandoned);
        }
        checked(
            "write the anchor file of",
            || "the archive".into(),
            || {
                // SAFETY: opened by `open`; taken out of `raw`, so it is closed once and not used
                // after. No event writer is open: each holds a reference to `self`, and this runs
                // in `finish`, which checks that there is none, or in `drop`.
                unsafe { OTF2_Archive_Close(raw.as_ptr()) }
            },
        )
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.pool.abandon();
        // An abandoned archive writes nothing, so there is nothing to report.
        let _ = self.close();
    }
}

/// Abandons an unfinished archive: waiting events are not written out for it.
impl Drop for Archive {
    fn drop(&mut self) {
        self.shared.pool.abandon();
    }
}

/// An OTF2 archive that is being written.
#[derive(Debug)]
pub struct Archive {
    shared: Rc<Shared>,
    path: PathBuf,
    anchor_text_bytes: usize,
}

impl Archive {
    /// Creates `dir/name.otf2` with its parts `dir/name.def` and `dir/name/`. `dir` may exist and
    /// hold other archives; it is created with its parents if it does not.
    ///
    /// # Errors
    ///
    /// [`Error::NoLibrary`], [`Error::Exists`] if any of the three exists, [`Error::ArchiveName`],
    /// [`Error::ArchivePath`], or what the library reports.
    pub fn create(dir: &Path, name: &str, options: Options) -> Result<Self> {
        library()?;
        let path = dir.join(format!("{name}.otf2"));
        let (c_dir, c_name) = c_names(dir, name)?;
        refuse_existing(dir, name)?;
        catch_reports();
        let shares = Shares::of(options.memory_budget_bytes, options.open_files_max);
        let file = dir.join(name).join("events.waiting");
        let shared = Rc::new(Shared {
            raw: Cell::new(None),
            pool: Pool::new(shares.writers),
            spool: RefCell::new(Spool::new(shares.waiting_bytes, &file)),
            attributes: AttributeList::new()?,
            strings: RefCell::default(),
            locations: RefCell::default(),
            event_times: Cell::new(None),
            drop_error: RefCell::default(),
        });
        let raw = checked_pointer(
            "create",
            || path.display().to_string(),
            || {
                // SAFETY: both texts are NUL-terminated and copied by the library.
                unsafe {
                    OTF2_Archive_Open(
                        c_dir.as_ptr(),
                        c_name.as_ptr(),
                        OTF2_FILEMODE_WRITE,
                        CHUNK_BYTES,
                        // Each location has a file of definitions; larger chunks cost 2 ms each.
                        CHUNK_BYTES,
                        OTF2_SUBSTRATE_POSIX,
                        OTF2_COMPRESSION_NONE,
                    )
                }
            },
        )?;
        shared.raw.set(Some(raw));
        let archive = Self { shared, path, anchor_text_bytes: 0 };
        archive.prepare().map_err(|error| match error {
            error if is_existing(&error) => Error::Exists(dir.join(name)),
            error => error,
        })?;
        Ok(archive)
    }

    /// Registers the callbacks, which also creates the directories.
    fn prepare(&self) -> Result<()> {
        let object = || self.path.display().to_string();
        let pool = (&raw const self.shared.pool).cast_mut().cast();
        self.shared.call("set up", object, |archive| {
            // SAFETY: the callbacks are static; `pool` lives in the `Rc`, which does not move it,
            // until `Shared::drop` has closed the archive. The callbacks only read it as `&Pool`.
            unsafe { OTF2_Archive_SetFlushCallbacks(archive, &raw const FLUSH_CALLBACKS, pool) }
        })?;
        self.shared.call("set up", object, |archive| {
            // SAFETY: as for the flush callbacks.
            unsafe { OTF2_Archive_SetMemoryCallbacks(archive, &raw const MEMORY_CALLBACKS, pool) }
        })?;
        self.shared.call("create the directories of", object, |archive| {
            // SAFETY: the archive is open.
            unsafe { OTF2_Archive_SetSerialCollectiveCallbacks(archive) }
        })?;
        self.shared.call("open the event files of", object, |archive| {
            // SAFETY: the archive is open.
            unsafe { OTF2_Archive_OpenEvtFiles(archive) }
        })
    }

    /// The anchor file, by which readers open the archive.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The reference of `text`. Equal texts get equal references. NULs are written as `\x00` and
    /// texts longer than [`STRING_BYTES_MAX`](crate::STRING_BYTES_MAX) are cut.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyStrings`].
    pub fn intern(&mut self, text: &str) -> Result<StringRef> {
        self.shared.strings.borrow_mut().intern(text)
    }

    /// Number of different strings that were cut because they are too long.
    #[must_use]
    pub fn strings_cut(&self) -> u64 {
        self.shared.strings.borrow().cut()
    }

    /// Current memory of events, and number of their open files.
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        let (waiting_bytes, waiting_bytes_max, waiting_file_bytes) =
            self.shared.spool.borrow().bytes();
        MemoryUse {
            waiting_bytes,
            waiting_bytes_max,
            waiting_file_bytes,
            ..self.shared.pool.counts()
        }
    }

    /// Opens a new location with its writer. Locations are numbered from 0 and never reopened.
    ///
    /// # Errors
    ///
    /// Errors of the library, such as a lack of memory.
    pub fn event_writer(&mut self) -> Result<EvtWriter> {
        EvtWriter::open(&self.shared)
    }

    /// Writes the rest of the writer's events and closes its file. Returns the number of the
    /// location's events.
    ///
    /// # Errors
    ///
    /// [`Error::Abandoned`] if the archive failed before, or what the library reports.
    pub fn close_event_writer(&mut self, mut writer: EvtWriter) -> Result<u64> {
        if !writer.belongs_to(&self.shared) {
            return Err(Error::ForeignWriter);
        }
        writer.close()
    }

    /// Sets the creator of the archive.
    ///
    /// # Errors
    ///
    /// [`Error::AnchorFull`], or what the library reports.
    pub fn set_creator(&mut self, creator: &str) -> Result<()> {
        self.anchor_text(creator, "creator", |archive, text| {
            // SAFETY: the archive is open; the text is NUL-terminated and copied by the library.
            unsafe { OTF2_Archive_SetCreator(archive, text) }
        })
    }

    /// Sets the description of the archive.
    ///
    /// # Errors
    ///
    /// [`Error::AnchorFull`], or what the library reports.
    pub fn set_description(&mut self, description: &str) -> Result<()> {
        self.anchor_text(description, "description", |archive, text| {
            // SAFETY: the archive is open; the text is NUL-terminated and copied by the library.
            unsafe { OTF2_Archive_SetDescription(archive, text) }
        })
    }

    /// Sets the machine on which the events happened.
    ///
    /// # Errors
    ///
    /// [`Error::AnchorFull`], or what the library reports.
    pub fn set_machine_name(&mut self, machine: &str) -> Result<()> {
        self.anchor_text(machine, "machine name", |archive, text| {
            // SAFETY: the archive is open; the text is NUL-terminated and copied by the library.
            unsafe { OTF2_Archive_SetMachineName(archive, text) }
        })
    }

    /// Sets a property, replacing an earlier value. `name` is `NAMESPACE::NAME` of `[A-Za-z0-9_]`;
    /// it is stored in upper case. An empty value cannot be stored and is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::PropertyName`], [`Error::AnchorFull`], or what the library reports.
    pub fn set_property(&mut self, name: &str, value: &str) -> Result<()> {
        if !is_property_name(name) {
            return Err(Error::PropertyName(name.into()));
        }
        if value.is_empty() {
            return Ok(());
        }
        let mut buffer = Vec::new();
        let c_name = terminated(&name.to_ascii_uppercase(), &mut buffer);
        self.anchor_text_bytes += c_name.count_bytes();
        self.anchor_text(value, "property", |archive, text| {
            // SAFETY: the archive is open; both texts are NUL-terminated and copied.
            unsafe { OTF2_Archive_SetProperty(archive, c_name.as_ptr(), text, true) }
        })
    }

    fn anchor_text(
        &mut self,
        text: &str,
        kind: &'static str,
        set: impl FnOnce(*mut OTF2_Archive, *const std::ffi::c_char) -> OTF2_ErrorCode,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        let text = terminated(text, &mut buffer);
        self.anchor_text_bytes += text.count_bytes();
        if self.anchor_text_bytes > ANCHOR_TEXT_BYTES_MAX {
            return Err(Error::AnchorFull(ANCHOR_TEXT_BYTES_MAX));
        }
        self.shared.call("set", || format!("the {kind}"), |archive| set(archive, text.as_ptr()))
    }

    /// Writes the definitions and closes the archive. All event writers must be closed.
    ///
    /// `define` gets the writer of the global definitions; strings are written before the call. If
    /// it or any other step fails, the archive is left without an anchor file.
    ///
    /// # Errors
    ///
    /// What `define` returns, [`Error::WritersOpen`], [`Error::NoClock`], [`Error::NoLocation`],
    /// [`Error::LocationUndefined`], or what the library reports.
    pub fn finish<E: From<Error>>(
        self,
        define: impl FnOnce(&mut GlobalDefs<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let writers = Rc::strong_count(&self.shared) - 1;
        if writers > 0 {
            return Err(Error::WritersOpen(writers).into());
        }
        if let Some(error) = self.shared.drop_error.take() {
            return Err(error.into());
        }
        self.write_local_definitions()?;
        let mut definitions = GlobalDefs::open(&self.shared)?;
        define(&mut definitions)?;
        definitions.close()?;
        Ok(self.shared.close()?)
    }

    /// Ends the event files and gives each location its file of definitions. It is empty, but
    /// readers complain about each missing one.
    fn write_local_definitions(&self) -> Result<()> {
        let shared = &self.shared;
        let object = || self.path.display().to_string();
        shared.call("close the event files of", object, |archive| {
            // SAFETY: the archive is open and has no event writers.
            unsafe { OTF2_Archive_CloseEvtFiles(archive) }
        })?;
        shared.call("open the definition files of", object, |archive| {
            // SAFETY: the archive is open.
            unsafe { OTF2_Archive_OpenDefFiles(archive) }
        })?;
        for location in 0..shared.locations.borrow().len() as u64 {
            shared.call(
                "write the definitions of",
                || format!("location {location}"),
                |archive| {
                    // SAFETY: the archive is open, and its definition files are.
                    let writer = unsafe { OTF2_Archive_GetDefWriter(archive, location) };
                    // SAFETY: the writer is of this archive and used only here. A null one, after a
                    // failure that was reported, is ignored by the library.
                    unsafe { OTF2_Archive_CloseDefWriter(archive, writer) }
                },
            )?;
        }
        shared.call("close the definition files of", object, |archive| {
            // SAFETY: the archive is open and has no definition writers.
            unsafe { OTF2_Archive_CloseDefFiles(archive) }
        })
    }
}

/// Names as NUL-terminated strings.
fn c_names(dir: &Path, name: &str) -> Result<(CString, CString)> {
    let bytes = match dir.as_os_str().as_bytes() {
        // The library would take an empty path for the root directory.
        [] => b".",
        bytes => bytes,
    };
    let c_dir = CString::new(bytes).map_err(|_| Error::ArchivePath(dir.into()))?;
    let unusable = name.is_empty() || name.contains('/') || name == "." || name == "..";
    let c_name = CString::new(name).ok().filter(|_| !unusable);
    Ok((c_dir, c_name.ok_or_else(|| Error::ArchiveName(name.into()))?))
}

/// Refuses existing parts: the library notices only an existing directory `name/`, and then goes on
/// to overwrite files.
fn refuse_existing(dir: &Path, name: &str) -> Result<()> {
    for part in [format!("{name}.otf2"), format!("{name}.def"), name.to_owned()] {
        let path = dir.join(part);
        // A dangling symbolic link counts, too: the library would write through it.
        if path.symlink_metadata().is_ok() {
            return Err(Error::Exists(path));
        }
    }
    Ok(())
}

/// True if `name` is `A::B` or `A::B::C`, … of letters, digits and `_`, which every version
/// accepts.
fn is_property_name(name: &str) -> bool {
    let usable = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    name.contains("::") && name.split("::").all(usable)
}
