//! Cache of tracefs `format` files of the running kernel, which an administrator keeps for users
//! that may not read tracefs.
//!
//! One world-readable file for each kernel, valid only while exactly that kernel runs: the numbers
//! of built-in tracepoints are assigned at its boot, in the order in which it was linked. (Modules
//! get theirs when they are loaded.)

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{proc, root_cache};

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
    Path::new(root_cache::DIRECTORY).join(format!("formats-{release}.json"))
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
    let kernel = KernelBuild::running();
    let path = path_of(&kernel);
    let text = serde_json::to_vec(&CachedFormats { version: VERSION, kernel, formats })?;
    root_cache::store(&path, &text, root_cache::Readers::All)?;
    Ok(path)
}

/// Loads the formats of the running kernel.
///
/// # Errors
///
/// The reason for which the cache is not usable, in words.
pub fn load() -> Result<Formats, String> {
    let kernel = KernelBuild::running();
    load_from(&path_of(&kernel), &kernel, root_cache::ROOT)
}

fn load_from(path: &Path, kernel: &KernelBuild, owner: u32) -> Result<Formats, String> {
    let unusable = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let text = root_cache::load(path, owner, BYTES_MAX).map_err(|it| unusable(&it))?;
    let kept: CachedFormats = serde_json::from_slice(&text).map_err(|it| unusable(&it))?;
    if kept.version != VERSION {
        return Err(unusable(&format!("it has version {}, not {VERSION}", kept.version)));
    }
    if kept.kernel != *kernel {
        return Err(unusable(&"it is of another build of this kernel"));
    }
    Ok(kept.formats)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

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

    /// Fails if an upgrade makes users without privileges lose the cache that root has saved.
    #[test]
    fn file_of_the_first_version_is_read() {
        let text = r##"{"version":1,"kernel":{"release":"6.1","version":"#1","machine":"x86_64",
            "notes":"00"},"formats":{"raw_syscalls:sys_enter":"name: sys_enter\n"}}"##;
        let formats = loaded(text, 0o644).expect("it is read");
        let format = formats.get("raw_syscalls:sys_enter").map(String::as_str);
        assert_eq!(format, Some("name: sys_enter\n"));
    }
}
