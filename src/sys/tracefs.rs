//! Where tracefs is, and the `format` files in it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
use thiserror::Error;

use super::kept_formats::{self, Formats};
use super::mounts::mounts_of;

/// Why a tracepoint's description cannot be had. Each says what would help.
#[derive(Debug, Error)]
pub enum TracefsError {
    /// No tracefs in the mount table.
    #[error("tracefs is not mounted; mount it: sudo mount -t tracefs tracefs /sys/kernel/tracing")]
    NotMounted,
    /// It is there, but not for us.
    #[error("cannot read {path}: {source}; it is for root: sudo iotrace-perf …")]
    Unreadable {
        /// What was to be read.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It is there, but not for us, and nobody keeps what stands in it.
    #[error(
        "tracefs is for root only, and what it says of this kernel is not kept ({0}): have it kept once for all users: \
         sudo iotrace-perf doctor --cache; or record as root: sudo iotrace-perf …"
    )]
    NotKept(String),
    /// This kernel has no such tracepoint.
    #[error("this kernel has no tracepoint {system}:{name} (it is not in {})", .root.join("events").display())]
    Missing {
        /// The tracepoint's system.
        system: String,
        /// Its name.
        name: String,
        /// Where tracefs is.
        root: PathBuf,
    },
}

/// Longer than the texts that describe a ring.
const TEXT_BYTES_MAX: usize = 4096;

/// A mounted tracefs, or what is kept of it.
#[derive(Clone, Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// For whoever may not read it.
    kept: Option<Arc<Formats>>,
}

impl Tracefs {
    /// Finds it in the mount table.
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

    /// Finds it; if it is not for us, what is kept of it.
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
        match kept_formats::load() {
            Ok(formats) => Ok(Self { root, kept: Some(Arc::new(formats)) }),
            Err(not_kept) => Err(why.unwrap_or(TracefsError::NotKept(not_kept))),
        }
    }

    /// True if formats can be read in it.
    pub fn is_readable(&self) -> bool {
        let (events, mode) = (self.root.join("events"), AccessFlags::R_OK | AccessFlags::X_OK);
        faccessat(AT_FDCWD, &events, mode, AtFlags::AT_EACCESS).is_ok()
    }

    /// Its mount point.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The text of a file in `events`: `header_page`, `header_event`.
    ///
    /// # Errors
    ///
    /// [`TracefsError::Unreadable`].
    pub fn text(&self, name: &str) -> Result<String, TracefsError> {
        let path = self.root.join("events").join(name);
        // The kernel gives them by the first read only, whatever its length (show_header_page_file() in
        // kernel/trace/trace_events.c).
        let mut bytes = vec![0; TEXT_BYTES_MAX];
        let read = File::open(&path).and_then(|mut it| it.read(&mut bytes));
        bytes.truncate(read.map_err(|source| TracefsError::Unreadable { path, source })?);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The text of a tracepoint's `format` file.
    ///
    /// # Errors
    ///
    /// [`TracefsError::Missing`] if the kernel does not have it, [`TracefsError::Unreadable`] if we may not read it.
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
        fs::read_to_string(&path).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound {
                let root = self.root.clone();
                TracefsError::Missing { system: system.into(), name: name.into(), root }
            } else {
                TracefsError::Unreadable { path, source }
            }
        })
    }
}
