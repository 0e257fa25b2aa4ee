//! Where tracefs is, and the `format` files in it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::mounts::mounts_of;

/// Why a tracepoint's description cannot be had. Each says what would help.
#[derive(Debug, Error)]
pub enum TracefsError {
    /// No tracefs in the mount table.
    #[error("tracefs is not mounted; mount it: sudo mount -t tracefs tracefs /sys/kernel/tracing")]
    NotMounted,
    /// It is there, but not for us.
    #[error("cannot read {path}: {source}; iotrace-perf needs root to record: sudo iotrace-perf …")]
    Unreadable {
        /// What was to be read.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
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

/// A mounted tracefs.
#[derive(Clone, Debug)]
pub struct Tracefs {
    root: PathBuf,
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
        Ok(Self { root: mount.mount_point })
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
