//! Rendezvous of `clocks`: a file in the shared directory by which the processes of a job find
//! rank 0, with the secret that both sides prove to know.
//!
//! Only its user can read the file, and readers take it from no other user. One that a killed
//! process has left names a port at which no process, or another one, answers: readers look again
//! until the deadline.

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::capture::clock_exchange::ClockedHost;
use crate::sys::clock_client::ClockConnection;
use crate::sys::clock_wire::ClockSecret;
use crate::sys::output_dir::OutputDirectory;
use crate::sys::{clock, files, regular, thread};
use crate::units::KernelTime;

/// Largest file, in bytes: it has some addresses.
const BYTES_MAX: u64 = 1 << 16;

/// Pause between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// Time in which a rank 0 that is still there answers, ns.
const ANSWER_NS: u64 = 2_000_000_000;

/// Place at which rank 0 is found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Rendezvous {
    /// `ADDRESS:PORT`, the best one first.
    pub(super) addresses: Vec<String>,
    /// Identifier of the comparison.
    pub(super) run: String,
    /// Host of rank 0.
    pub(super) reference: ClockedHost,
    pub(super) secret: ClockSecret,
}

/// File of a rendezvous; the drop removes it.
#[derive(Debug)]
pub(super) struct PublishedRendezvous<'a> {
    directory: &'a OutputDirectory,
    name: String,
    file: File,
}

/// Returns the name of the file for the processes of a job.
pub(super) fn name(job: u64) -> String {
    format!(".clocks-{job:016x}")
}

impl Rendezvous {
    /// Writes the file, in place of one that a killed process has left.
    pub(super) fn publish<'a>(
        &self,
        directory: &'a OutputDirectory,
        name: &str,
    ) -> io::Result<PublishedRendezvous<'a>> {
        let part = format!("{name}.{}", self.run);
        let mut file = directory.create(part.as_ref())?;
        // Before the secret is in it.
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        directory.replace(part.as_ref(), name.as_ref())?;
        Ok(PublishedRendezvous { directory, name: name.to_owned(), file })
    }

    /// Reads the file.
    ///
    /// # Errors
    ///
    /// Reason in words.
    fn read(directory: &Path, name: &str) -> Result<Self, String> {
        // A client of NFS asks its server anew when a directory is opened.
        let _ = std::fs::read_dir(directory);
        let path = directory.join(name);
        let Some((file, found)) = regular::open_regular(&path, false) else {
            return Err(format!(
                "rank 0 has left no file {name} in {}: all nodes must see the same directory",
                directory.display()
            ));
        };
        if !files::is_own(&found) || found.permissions().mode() & 0o077 != 0 {
            let path = path.display();
            return Err(format!("{path} is another user's, or others may read it: remove it"));
        }
        let mut text = Vec::new();
        let read = file.take(BYTES_MAX).read_to_end(&mut text);
        read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        serde_json::from_slice(&text).map_err(|_| format!("{} is damaged", path.display()))
    }

    /// True if its rank 0 still answers.
    fn is_answered(&self) -> bool {
        let deadline = KernelTime(clock::now().0.saturating_add(ANSWER_NS));
        let found = self.addresses.iter().filter_map(|address| address.to_socket_addrs().ok());
        found.flatten().any(|address| ClockConnection::is_answered(address, &self.secret, deadline))
    }

    /// Connects to rank 0 at the first address at which it answers.
    fn connect(&self, deadline: KernelTime) -> Result<ClockConnection, String> {
        let mut reason = "it has no address, or the time is over".to_owned();
        for address in &self.addresses {
            if clock::now() >= deadline {
                break;
            }
            let found = address.to_socket_addrs();
            let found: Vec<SocketAddr> = match found {
                Ok(found) => found.collect(),
                Err(error) => {
                    reason = format!("{address}: {error}");
                    continue;
                }
            };
            for found in found {
                match ClockConnection::open(found, &self.secret, deadline) {
                    Ok(connection) => return Ok(connection),
                    Err(error) => reason = format!("{found}: {error}"),
                }
            }
        }
        Err(format!("rank 0 on {} is not reached: {reason}", self.reference.hostname))
    }
}

/// Checks that no other rank 0 is found under a name: launchers without an identifier for a job
/// have the same name for all.
///
/// # Errors
///
/// Reason in words.
pub(super) fn check_unused(directory: &Path, name: &str) -> Result<(), String> {
    match Rendezvous::read(directory, name) {
        Ok(found) if found.is_answered() => Err(format!(
            "another comparison is under way in {}: its rank 0 on {} answers; wait for its end, or \
             choose another directory with -o",
            directory.display(),
            found.reference.hostname
        )),
        _ => Ok(()),
    }
}

/// Finds rank 0 and waits until it is this process's turn.
///
/// A name server that does not answer may make it a little longer than the deadline.
///
/// # Errors
///
/// Reason in words, at the deadline.
pub(super) fn meet(
    directory: &Path,
    name: &str,
    deadline: KernelTime,
) -> Result<(Rendezvous, ClockConnection), String> {
    loop {
        let met = Rendezvous::read(directory, name).and_then(|found| {
            let connection = found.connect(deadline)?;
            Ok((found, connection))
        });
        match met {
            Ok(met) => return Ok(met),
            Err(reason) if clock::now() >= deadline => return Err(reason),
            Err(_) => thread::pause(PAUSE),
        }
    }
}

impl Drop for PublishedRendezvous<'_> {
    fn drop(&mut self) {
        self.directory.remove_file(self.name.as_ref(), &self.file);
    }
}
