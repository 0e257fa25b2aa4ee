//! Errors of the crate, and of the C library.
//!
//! OTF2 returns a code from the outermost of several nested calls ("integrity fault") and prints
//! the cause ("no space left on device") to standard error on the way. The callback registered here
//! catches these reports and keeps the first one, which is the cause.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::path::PathBuf;
use std::sync::Once;

use crate::constants::{OTF2_ABORT, OTF2_ERROR_EEXIST, OTF2_ERROR_ENOSPC, OTF2_SUCCESS};
use crate::ffi::{
    OTF2_Error_GetDescription, OTF2_Error_GetName, OTF2_Error_RegisterCallback, OTF2_ErrorCode,
    va_list, vsnprintf,
};

/// The result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Ways to get the library.
const INSTALLATION: &str = "install it: apt install otf2-tools (Debian, Ubuntu), dnf install otf2 (Fedora), \
                            or scripts/install-otf2 of the source";

/// Cause and remedy of a static program. A log is the same in all builds.
const STATIC_PROGRAM: &str = "this is the static build, which loads no libraries; convert the log with the \
                              program of a package (.deb, .rpm) or of cargo install, on any machine";

/// Reason for which an archive could not be written. The text follows "failed to".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// There is no OTF2 library that can be loaded, for this cause.
    NoLibrary(String),
    /// The program is linked statically, and so cannot load a library.
    StaticProgram,
    /// The archive, or a part of one, exists already. Nothing was changed.
    Exists(PathBuf),
    /// The name of an archive is empty, or has a `/` or a NUL in it.
    ArchiveName(String),
    /// The directory's name has a NUL in it.
    ArchivePath(PathBuf),
    /// The OTF2 library failed.
    Library(LibraryError),
    /// An earlier call failed, so nothing more is written to this archive.
    Abandoned,
    /// `finish` was called while this many event writers were still open.
    WritersOpen(usize),
    /// The writer belongs to another archive.
    ForeignWriter,
    /// An event has more values or attributes than a record can have.
    TooMany {
        /// "attributes" or "metric values".
        what: &'static str,
        /// Number of values.
        given: usize,
        /// Limit on that number.
        max: usize,
    },
    /// The property's name is not of the form `NAMESPACE::NAME` with `[A-Za-z0-9_]`.
    PropertyName(String),
    /// The texts of the anchor file (creator, description, properties) exceed this many bytes.
    AnchorFull(usize),
    /// The archive cannot hold more strings (2^32 - 1).
    TooManyStrings,
    /// Definitions of a kind must have the ids 0, 1, 2, …
    NotDense {
        /// The kind of definition.
        kind: &'static str,
        /// The id that was given.
        given: u64,
        /// The id that comes next.
        expected: u64,
    },
    /// A definition refers to one that is not written yet.
    Dangling {
        /// The kind of definition referred to.
        kind: &'static str,
        /// The id referred to.
        id: u64,
    },
    /// The clock properties were not defined.
    NoClock,
    /// The archive has no location; readers refuse that.
    NoLocation,
    /// A location has events but no definition: the first one's id.
    LocationUndefined(u64),
    /// The clock properties do not cover the times of the events.
    ClockRange {
        /// The time of the first event, in ticks.
        first: u64,
        /// The time of the last event, in ticks.
        last: u64,
    },
}

/// A failure that the OTF2 library reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryError {
    /// Action that failed: "write an event of", "create", …
    pub doing: &'static str,
    /// Object of the action: "location 3", a path.
    pub object: String,
    /// OTF2's number of the cause (it depends on the version of OTF2).
    pub code: i32,
    /// OTF2's name of the cause (`INVALID_ARGUMENT`); for system calls the number in `errno`.
    pub name: String,
    /// OTF2's description of the cause: "No space left on device".
    pub description: String,
    /// Further report of OTF2, often a file name; may be empty.
    pub message: String,
}

impl Error {
    /// True if the file system is full.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        matches!(self, Self::Library(error) if error.code == OTF2_ERROR_ENOSPC)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibrary(cause) => {
                write!(f, "load the OTF2 library: {cause}; {INSTALLATION}")
            }
            Self::StaticProgram => write!(f, "load the OTF2 library: {STATIC_PROGRAM}"),
            Self::Exists(path) => write!(
                f,
                "create the archive: `{}` exists already; choose another name or remove it",
                path.display()
            ),
            Self::ArchiveName(name) => {
                write!(f, "create the archive: `{name}` cannot be the name of one")
            }
            Self::ArchivePath(path) => {
                write!(f, "create the archive: `{}` has a NUL in it", path.display())
            }
            Self::Library(error) => error.fmt(f),
            Self::Abandoned => f.write_str("write to the archive: an earlier write failed"),
            Self::WritersOpen(count) => {
                write!(f, "finish the archive: {count} event writers are still open")
            }
            Self::ForeignWriter => f.write_str("close the writer: it is of another archive"),
            Self::TooMany { what, given, max } => {
                write!(f, "write an event: {given} {what}, at most {max} are possible")
            }
            Self::PropertyName(name) => write!(
                f,
                "set the archive property `{name}`: its name is not NAMESPACE::NAME of [A-Za-z0-9_]"
            ),
            Self::AnchorFull(max) => {
                write!(f, "set an archive property: all of them together exceed {max} bytes")
            }
            Self::TooManyStrings => f.write_str("store a string: the archive is full"),
            Self::NotDense { kind, given, expected } => {
                write!(f, "define {kind} {given}: the next one must be {expected}")
            }
            Self::Dangling { kind, id } => {
                write!(f, "write a definition: it refers to {kind} {id}, which is not defined")
            }
            Self::NoClock => f.write_str("finish the archive: the clock is not defined"),
            Self::NoLocation => f.write_str("finish the archive: it has no location"),
            Self::LocationUndefined(id) => {
                write!(f, "finish the archive: location {id} has no definition")
            }
            Self::ClockRange { first, last } => {
                write!(
                    f,
                    "define the clock: its range does not cover the events, {first} to {last}"
                )
            }
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { doing, object, name, description, message, .. } = self;
        write!(f, "{doing} {object}: {description} (OTF2: {name})")?;
        if !message.is_empty() {
            write!(f, ": {message}")?;
        }
        Ok(())
    }
}

/// First report of the library since the last check.
#[derive(Debug)]
pub(crate) struct Report {
    code: OTF2_ErrorCode,
    message: String,
}

thread_local! {
    static FIRST_REPORT: RefCell<Option<Report>> = const { RefCell::new(None) };
    /// True if `FIRST_REPORT` has a value, for a cheap check.
    static REPORTED: Cell<bool> = const { Cell::new(false) };
}

/// Makes the library report to this crate instead of to standard error, once per process.
pub(crate) fn catch_reports() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: `on_report` has the signature of the C type (checked by tests/abi.rs), lives as
        // long as the program and ignores the null user data. `Once` makes this the only store to
        // the library's unsynchronised variable that comes from this crate.
        unsafe { OTF2_Error_RegisterCallback(Some(on_report), std::ptr::null_mut()) };
    });
}

/// Called by the library for each error on the way out of its nested functions.
unsafe extern "C" fn on_report(
    _user_data: *mut c_void,
    _file: *const c_char,
    _line: u64,
    _function: *const c_char,
    code: OTF2_ErrorCode,
    format: *const c_char,
    arguments: va_list,
) -> OTF2_ErrorCode {
    if code == OTF2_ABORT {
        let message = formatted(format, arguments);
        #[expect(clippy::print_stderr, reason = "the library calls abort() after this report")]
        {
            eprintln!("OTF2 gives up: {message}");
        }
    } else if code > OTF2_SUCCESS && !REPORTED.get() {
        let report = Report { code, message: formatted(format, arguments) };
        FIRST_REPORT.set(Some(report));
        REPORTED.set(true);
    }
    code
}

/// Fills the arguments into `format`; the result is truncated to 1 KiB.
fn formatted(format: *const c_char, arguments: va_list) -> String {
    if format.is_null() {
        return String::new();
    }
    let mut buffer = [0_u8; 1024];
    // SAFETY: the library passes a format string of its own and the arguments for it, which are
    // used once; the buffer is writable for the length given.
    let length: c_int =
        unsafe { vsnprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, arguments) };
    if length < 0 {
        return String::new();
    }
    CStr::from_bytes_until_nul(&buffer).unwrap_or_default().to_string_lossy().into_owned()
}

/// Takes the first report since the last call of this function.
fn take_report() -> Option<Report> {
    REPORTED.set(false);
    FIRST_REPORT.take()
}

/// Runs a call of the library whose result code reports success.
///
/// A report counts as a failure even if the code is "success": closing an archive, for example,
/// reports that the anchor file could not be written and returns success.
pub(crate) fn checked(
    doing: &'static str,
    object: impl FnOnce() -> String,
    call: impl FnOnce() -> OTF2_ErrorCode,
) -> Result<()> {
    let code = call();
    if code == OTF2_SUCCESS && !REPORTED.get() {
        return Ok(());
    }
    Err(failure(doing, object(), code))
}

/// Runs a call of the library that returns a null pointer on failure.
pub(crate) fn checked_pointer<T>(
    doing: &'static str,
    object: impl FnOnce() -> String,
    call: impl FnOnce() -> *mut T,
) -> Result<std::ptr::NonNull<T>> {
    std::ptr::NonNull::new(call()).ok_or_else(|| failure(doing, object(), 1))
}

/// Error for a failed call: the first report, or the returned code if there was no report.
#[cold]
pub(crate) fn failure(doing: &'static str, object: String, returned: OTF2_ErrorCode) -> Error {
    let (code, message) =
        take_report().map_or((returned, String::new()), |report| (report.code, report.message));
    Error::Library(LibraryError {
        doing,
        object,
        code,
        name: static_text(error_name(code)),
        description: static_text(error_description(code)),
        message,
    })
}

/// Error for events that could not be kept until the library takes them, mostly because the disk is
/// full.
#[cold]
pub(crate) fn not_kept(object: String, error: &std::io::Error) -> Error {
    let is_full = error.kind() == std::io::ErrorKind::StorageFull;
    Error::Library(LibraryError {
        doing: "keep the events of",
        object,
        code: if is_full { OTF2_ERROR_ENOSPC } else { 1 },
        name: error.raw_os_error().map(|number| number.to_string()).unwrap_or_default(),
        description: error.to_string(),
        message: String::new(),
    })
}

/// True if the error is that a file or directory exists.
pub(crate) fn is_existing(error: &Error) -> bool {
    matches!(error, Error::Library(error) if error.code == OTF2_ERROR_EEXIST)
}

fn error_name(code: OTF2_ErrorCode) -> *const c_char {
    // SAFETY: the function accepts any number and returns a static string.
    unsafe { OTF2_Error_GetName(code) }
}

fn error_description(code: OTF2_ErrorCode) -> *const c_char {
    // SAFETY: the function accepts any number and returns a static string.
    unsafe { OTF2_Error_GetDescription(code) }
}

/// Copies a text of the library, which is static.
fn static_text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the two callers get it from a table of NUL-terminated strings in the library.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
