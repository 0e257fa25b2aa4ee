//! Entries that have the names of outputs: what they are, and whether `--force` may rename them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::CliError;
use crate::sys::output_dir::OutputDirectory;

/// Options that help if an output exists.
pub(super) const WITH_FORCE: &str = "-o, or rename the old one to NAME.old: --force";

/// Suffixes of files in the directory of an archive.
const OF_ARCHIVES: [&[u8]; 3] = [b"evt", b"def", b"snap"];

/// Kind of a directory entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExistingKind {
    File,
    Directory,
    Other,
}

/// Checks that what has the names of an archive is one; false: nothing has them.
///
/// # Errors
///
/// A part is something else, or the anchor is missing.
pub(super) fn is_archive(
    directory: &OutputDirectory,
    parts: &[PathBuf; 3],
) -> Result<bool, CliError> {
    let mut kinds = Vec::new();
    for path in parts {
        kinds.push(kind(directory, name_of(path)).map_err(created(path))?);
    }
    let expected = [ExistingKind::File, ExistingKind::File, ExistingKind::Directory];
    let mut wrong = parts.iter().zip(&kinds).zip(expected);
    match kinds.as_slice() {
        [None, None, None] => return Ok(false),
        _ => {
            if let Some(((path, _), _)) = wrong.find(|((_, is), should)| **is != Some(*should)) {
                let [anchor, ..] = parts;
                let why = format!("{} is not a part of an archive", path.display());
                return Err(refused(anchor, &why));
            }
        }
    }
    let [.., events] = parts;
    let inside = directory.open_own(name_of(events)).map_err(created(events))?;
    let names = inside.names().map_err(created(events))?;
    match names.iter().find(|name| !has_suffix(name, &OF_ARCHIVES)) {
        None => Ok(true),
        Some(other) => {
            let why = format!(
                "it has something else than parts of an archive: {}",
                other.to_string_lossy().escape_debug()
            );
            Err(refused(events, &why))
        }
    }
}

fn name_of(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

/// Returns true if the name ends with one of these suffixes.
pub(super) fn has_suffix(name: &OsStr, suffixes: &[&[u8]]) -> bool {
    Path::new(name).extension().is_some_and(|suffix| suffixes.contains(&suffix.as_bytes()))
}

/// Returns the kind of an entry; `None`: there is none.
pub(super) fn kind(directory: &OutputDirectory, name: &OsStr) -> io::Result<Option<ExistingKind>> {
    Ok(directory.find(name)?.map(|found| match found.st_mode & libc::S_IFMT {
        libc::S_IFREG => ExistingKind::File,
        libc::S_IFDIR => ExistingKind::Directory,
        _ => ExistingKind::Other,
    }))
}

/// Returns the conversion of errors about a file that is to be made.
pub(super) fn created(path: &Path) -> impl Fn(io::Error) -> CliError {
    let path = path.to_owned();
    move |source| CliError::Create { path: path.clone(), source }
}

/// Returns the error about an output that is not renamed.
pub(super) fn refused(path: &Path, why: &str) -> CliError {
    CliError::Usage(format!(
        "--force does not rename {}: {why}; choose another name with -o",
        path.display()
    ))
}
