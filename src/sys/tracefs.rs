//! Where tracefs is, and the `format` files in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

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
        let unreadable = |error: procfs::ProcError| TracefsError::Unreadable {
            path: "/proc/self/mountinfo".into(),
            source: io::Error::other(error),
        };
        let mounts =
            procfs::process::Process::myself().and_then(|it| it.mountinfo()).map_err(unreadable)?;
        let mount = mounts
            .into_iter()
            .find(|it| it.fs_type == "tracefs")
            .ok_or(TracefsError::NotMounted)?;
        Ok(Self { root: mount.mount_point })
    }

    /// Its mount point.
    pub fn root(&self) -> &Path {
        &self.root
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
