//! Cache of tracefs `format` files of the running kernel, which an administrator keeps for users
//! that may not read tracefs.
//!
//! One world-readable file for each kernel, valid only while exactly that kernel runs: the numbers
//! of built-in tracepoints are assigned at its boot, in the order in which it was linked. (Modules
//! get theirs when they are loaded.)

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::output_dir::{OutputDirectory, Users};
use super::proc;

/// Directory of the cache.
const DIRECTORY: &str = "/var/cache/iotrace-perf";
/// Required owner of the cache.
const ROOT: u32 = 0;
/// Version of the file's format.
const VERSION: u32 = 1;
/// Limit on the file: a few hundred texts have a few KiB each.
const BYTES_MAX: u64 = 16 << 20;

/// Texts by `system:name`.
pub type Formats = BTreeMap<String, String>;

#[derive(Debug, Serialize, Deserialize)]
struct CachedFormats {
    version: u32,
    kernel: KernelBuild,
    formats: Formats,
}

/// Identity of a kernel, down to the build.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KernelBuild {
    release: String,
    version: String,
    machine: String,
    /// `/sys/kernel/notes` in hexadecimal, which has the build id
    /// (`Documentation/ABI/testing/sysfs-kernel-notes`).
    notes: String,
}

impl KernelBuild {
    fn running() -> Self {
        let host = proc::host();
        let notes = fs::read("/sys/kernel/notes").unwrap_or_default();
        let notes = notes.iter().map(|it| format!("{it:02x}")).collect();
        let (release, version, machine) = (host.kernel_release, host.kernel_version, host.machine);
        Self { release, version, machine, notes }
    }
}

fn path_of(kernel: &KernelBuild) -> PathBuf {
    // A kernel's release may have any characters.
    let release: String =
        kernel.release.chars().map(|it| if it == '/' { '_' } else { it }).collect();
    Path::new(DIRECTORY).join(format!("formats-{release}.json"))
}

/// Stores these formats for the running kernel, and returns the path.
///
/// # Errors
///
/// Those of writing; `PermissionDenied` for users other than root, and if others may write to the
/// directory.
pub fn keep(formats: Formats) -> io::Result<PathBuf> {
    if !nix::unistd::geteuid().is_root() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "only root may keep them"));
    }
    let directory = open_own(Path::new(DIRECTORY))?;
    let kernel = KernelBuild::running();
    let path = path_of(&kernel);
    let name = path.file_name().unwrap_or_default();
    let text = serde_json::to_vec(&CachedFormats { version: VERSION, kernel, formats })?;
    // Written under another name first: no reader sees half of it.
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let new = new.file_name().unwrap_or_default();
    let mut file = directory.create(new)?;
    let written = file
        .write_all(&text)
        .and_then(|()| file.set_permissions(Permissions::from_mode(0o644)))
        .and_then(|()| file.sync_all())
        .and_then(|()| directory.replace(new, name));
    if written.is_err() {
        directory.remove_file(new, &file);
    }
    written.map(|()| path)
}

/// Opens the directory, or creates it: only root may write to it, all users may read it.
fn open_own(path: &Path) -> io::Result<OutputDirectory> {
    let (parent, name) = OutputDirectory::parent_of(path, &Users::none())?;
    let directory = match parent.make_own(&name) {
        Err(it) if it.kind() == io::ErrorKind::AlreadyExists => parent.open_own(&name)?,
        made => made?,
    };
    let opened = directory.readable()?;
    only_of(ROOT, &opened.metadata()?)?;
    // Independent of the umask.
    opened.set_permissions(Permissions::from_mode(0o755))?;
    Ok(directory)
}

/// Loads the formats of the running kernel.
///
/// # Errors
///
/// The reason for which the cache is not usable, in words.
pub fn load() -> Result<Formats, String> {
    let kernel = KernelBuild::running();
    load_from(&path_of(&kernel), &kernel, ROOT)
}

fn load_from(path: &Path, kernel: &KernelBuild, owner: u32) -> Result<Formats, String> {
    let unusable = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let file = File::open(path).map_err(|it| unusable(&it))?;
    let metadata = file.metadata().map_err(|it| unusable(&it))?;
    only_of(owner, &metadata).map_err(|it| unusable(&it))?;
    let mut text = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(|it| unusable(&it))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(unusable(&"it is too large"));
    }
    let kept: CachedFormats = serde_json::from_slice(&text).map_err(|it| unusable(&it))?;
    if kept.version != VERSION {
        return Err(unusable(&format!("it has version {}, not {VERSION}", kept.version)));
    }
    if kept.kernel != *kernel {
        return Err(unusable(&"it is of another build of this kernel"));
    }
    Ok(kept.formats)
}

/// Fails if other users can have written the file, as its texts are trusted like the kernel's.
fn only_of(owner: u32, metadata: &fs::Metadata) -> io::Result<()> {
    let is_ours = metadata.uid() == owner && metadata.mode() & 0o022 == 0 && !metadata.is_symlink();
    if is_ours {
        Ok(())
    } else {
        let why = "others than root may have written it";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> KernelBuild {
        let text = |it: &str| it.to_owned();
        KernelBuild {
            release: text("6.1"),
            version: text("#1"),
            machine: text("x86_64"),
            notes: text("00"),
        }
    }

    /// Loads a file with this text and these permissions.
    fn loaded(text: &str, mode: u32) -> Result<Formats, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("formats");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
        load_from(&path, &kernel(), nix::unistd::geteuid().as_raw())
    }

    #[test]
    fn only_formats_by_root_for_this_kernel_are_used() {
        let formats = Formats::from([("a:b".to_owned(), "name: b".to_owned())]);
        let kept = CachedFormats { version: VERSION, kernel: kernel(), formats: formats.clone() };
        let text = serde_json::to_string(&kept).expect("JSON");
        assert_eq!(loaded(&text, 0o644), Ok(formats));
        let other = text.replace("#1", "#2");
        assert!(loaded(&other, 0o644).expect_err("refused").contains("another build"));
        let later = text.replace("\"version\":1", "\"version\":2");
        assert!(loaded(&later, 0o644).expect_err("refused").contains("version 2"));
        assert!(loaded("{", 0o644).is_err());
        assert!(loaded(&text, 0o666).expect_err("refused").contains("others than root"));
    }
}
