//! Files that only root writes, in a directory of root: what later runs of this program trust.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::output_dir::{OutputDirectory, Users};

/// Directory of caches.
pub const DIRECTORY: &str = "/var/cache/iotrace-perf";
/// Owner of the files.
pub const ROOT: u32 = 0;

/// Users that may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// All users.
    All,
    /// Only root.
    Root,
}

/// Stores a file. The new file replaces an older one as a whole: no reader sees half of a file. The
/// directory is created if it is missing; its parent must exist.
///
/// # Errors
///
/// Those of writing; `PermissionDenied` if others than root may write to the directory.
pub fn store(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let directory = open_own(directory)?;
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let new = new.file_name().unwrap_or_default();
    let mode = match readers {
        Readers::All => 0o644,
        Readers::Root => 0o600,
    };
    let mut file = directory.create(new)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| file.sync_all())
        .and_then(|()| directory.replace(new, name));
    if written.is_err() {
        directory.remove_file(new, &file);
    }
    written
}

/// Opens the directory, or creates it: only root may write to it, all users may read it.
fn open_own(path: &Path) -> io::Result<OutputDirectory> {
    let (parent, name) = OutputDirectory::parent_of(path, &Users::none())?;
    let directory = match parent.make_own(&name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => parent.open_own(&name)?,
        made => made?,
    };
    let opened = directory.readable()?;
    only_of(ROOT, &opened.metadata()?)?;
    // Independent of the umask.
    opened.set_permissions(Permissions::from_mode(0o755))?;
    Ok(directory)
}

/// Loads a file that only this user can have written, of at most `limit` bytes.
///
/// # Errors
///
/// Those of reading; `PermissionDenied` if others can have written the file, `FileTooLarge`.
pub fn load(path: &Path, owner: u32, limit: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    only_of(owner, &file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Fails if other users can have written the file, as its contents are trusted.
fn only_of(owner: u32, metadata: &Metadata) -> io::Result<()> {
    let is_ours = metadata.uid() == owner && metadata.mode() & 0o022 == 0 && !metadata.is_symlink();
    if is_ours {
        Ok(())
    } else {
        let why = "others than root may have written it";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}
