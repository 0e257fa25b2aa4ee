//! Location of tracefs, and its `format` files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
use thiserror::Error;

use super::format_cache::{self, Formats};
use super::mounts::mounts_of;

/// Reason for which a tracepoint's description cannot be read. Each message has a remedy.
#[derive(Debug, Error)]
pub enum TracefsError {
    /// The mount table has no tracefs.
    #[error("tracefs is not mounted; mount it: sudo mount -t tracefs tracefs /sys/kernel/tracing")]
    NotMounted,
    /// The user may not read tracefs.
    #[error("cannot read {path}: {source}; it is for root: sudo iotrace-perf …")]
    Unreadable {
        /// File that was to be read.
        path: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The user may not read tracefs, and its formats are not cached.
    #[error(
        "tracefs is for root only, and its formats for this kernel are not cached ({0}): cache them once for all users: \
         sudo iotrace-perf doctor --cache; or record as root: sudo iotrace-perf …"
    )]
    NotKept(String),
    /// The kernel has no such tracepoint.
    #[error("this kernel has no tracepoint {system}:{name} (it is not in {})", .root.join("events").display())]
    Missing {
        /// System of the tracepoint.
        system: String,
        /// Name of the tracepoint.
        name: String,
        /// Mount point of tracefs.
        root: PathBuf,
    },
}

/// Limit on the texts that describe a ring, and usual limit on those that describe an event.
const TEXT_BYTES_MAX: usize = 4096;

/// A mounted tracefs, or its cached formats.
#[derive(Clone, Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Cached formats, for users that may not read tracefs.
    kept: Option<Arc<Formats>>,
}

impl Tracefs {
    /// Finds tracefs in the mount table.
    ///
    /// # Errors
    ///
    /// [`TracefsError::NotMounted`], or unreadable `/proc`.
    pub fn find() -> Result<Self, TracefsError> {
        let unreadable =
            |source| TracefsError::Unreadable { path: "/proc/self/mountinfo".into(), source };
        let mount = mounts_of("/proc/self")
            .map_err(unreadable)?
            .into_iter()
            .find(|it| it.fs_type == "tracefs")
            .ok_or(TracefsError::NotMounted)?;
        Ok(Self { root: mount.mount_point, kept: None })
    }

    /// Finds tracefs; if this user may not read it, loads the cached formats.
    ///
    /// # Errors
    ///
    /// [`TracefsError::NotMounted`], [`TracefsError::NotKept`], or unreadable `/proc`.
    pub fn find_or_kept() -> Result<Self, TracefsError> {
        let mounted = Self::find();
        let (root, why) = match mounted {
            Ok(it) if it.is_readable() => return Ok(it),
            Ok(it) => (it.root, None),
            Err(why) => (PathBuf::from("/sys/kernel/tracing"), Some(why)),
        };
        match format_cache::load() {
            Ok(formats) => Ok(Self { root, kept: Some(Arc::new(formats)) }),
            Err(not_kept) => Err(why.unwrap_or(TracefsError::NotKept(not_kept))),
        }
    }

    /// True if this user may read formats in it.
    pub fn is_readable(&self) -> bool {
        let (events, mode) = (self.root.join("events"), AccessFlags::R_OK | AccessFlags::X_OK);
        faccessat(AT_FDCWD, &events, mode, AtFlags::AT_EACCESS).is_ok()
    }

    /// Mount point of tracefs.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads a file in `events`: `header_page`, `header_event`.
    ///
    /// # Errors
    ///
    /// [`TracefsError::Unreadable`].
    pub fn text(&self, name: &str) -> Result<String, TracefsError> {
        let path = self.root.join("events").join(name);
        // The kernel returns these texts only in the first read, whatever its length
        // (show_header_page_file() in kernel/trace/trace_events.c).
        let mut bytes = vec![0; TEXT_BYTES_MAX];
        let read = File::open(&path).and_then(|mut it| it.read(&mut bytes));
        bytes.truncate(read.map_err(|source| TracefsError::Unreadable { path, source })?);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads a tracepoint's `format` file.
    ///
    /// # Errors
    ///
    /// [`TracefsError::Missing`] if the kernel does not have it, [`TracefsError::Unreadable`] if we
    /// may not read it.
    pub fn format(&self, system: &str, name: &str) -> Result<String, TracefsError> {
        if let Some(kept) = &self.kept {
            let missing = || TracefsError::Missing {
                system: system.into(),
                name: name.into(),
                root: self.root.clone(),
            };
            return kept.get(&format!("{system}:{name}")).cloned().ok_or_else(missing);
        }
        let path = self.root.join("events").join(system).join(name).join("format");
        // With room for the text it is read by one call, not in small parts.
        let mut text = String::with_capacity(TEXT_BYTES_MAX);
        let read = File::open(&path).and_then(|mut file| file.read_to_string(&mut text));
        read.map(|_| text).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound {
                let root = self.root.clone();
                TracefsError::Missing { system: system.into(), name: name.into(), root }
            } else {
                TracefsError::Unreadable { path, source }
            }
        })
    }
}
