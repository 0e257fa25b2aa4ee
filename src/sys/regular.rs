//! Untrusted file names, opened so that the open has no side effect.
//!
//! An open of a FIFO waits, an open of a device may do anything (a watchdog starts, a tape
//! rewinds), and a link leads anywhere. So a name is first resolved (`O_PATH`: the file is not
//! opened). Then the file's type is checked, and only then that very file is opened.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::Mode;
use nix::sys::statfs::{FsType, fstatfs};

use super::files::is_of_kernel;

/// `PIPEFS_MAGIC` (`include/uapi/linux/magic.h`): pipes without a name. A FIFO belongs to the file
/// system of its name.
const PIPES: FsType = FsType(0x5049_5045);

/// Finds a regular file, except in the kernel's own file systems: there an open or close may have
/// side effects (`free_buffer` of tracefs empties a ring). The file is not opened: its metadata can
/// be read, and it can be opened later.
pub fn find_regular(path: &Path, through_links: bool) -> Option<(File, Metadata)> {
    let links = if through_links { 0 } else { libc::O_NOFOLLOW };
    let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH | links).open(path).ok()?;
    let found = place.metadata().ok().filter(Metadata::is_file)?;
    (!is_of_kernel(&place).ok()?).then_some((place, found))
}

/// Opens a regular file; other files are refused.
pub fn open_regular(path: &Path, through_links: bool) -> Option<(File, Metadata)> {
    let (place, found) = find_regular(path, through_links)?;
    Some((open_found(&place, 0).ok()?, found))
}

/// Opens a file with an untrusted name for reading. Accepts regular files, and the end of a pipe
/// that our caller has opened for us: files whose open may wait are refused.
///
/// # Errors
///
/// Those of `open(2)`; `InvalidInput`: the file has another type.
pub fn open_named(path: &Path) -> io::Result<File> {
    let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?;
    let kind = place.metadata()?.file_type();
    if kind.is_file() && !is_of_kernel(&place)? {
        return open_found(&place, 0);
    }
    // A pipe that our caller has made (`/dev/stdin`, `<(…)` of a shell) has no name: an open of it
    // never waits.
    if kind.is_fifo() && fstatfs(&place)?.filesystem_type() == PIPES {
        return File::open(own_path(&place));
    }
    let what = match () {
        () if kind.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        () if kind.is_fifo() => "it is a FIFO: give it a regular file, or a pipe (<(cat FIFO))",
        () if kind.is_file() => "it is a file of the kernel's own: copy it first",
        () => "it is not a regular file",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Opens a file that was found, even if its name leads elsewhere by now. The open does not wait for
/// a lease.
///
/// # Errors
///
/// Those of `open(2)`.
pub fn open_found(place: &File, flags: i32) -> io::Result<File> {
    let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags).open(own_path(place))
}

/// Finds the file at this absolute path without following links.
///
/// # Errors
///
/// Those of `openat2(2)`: `ELOOP`, `ENOTDIR` where there is a link; `EINVAL`: the path is not
/// absolute, or goes up.
pub fn find_without_links(path: &Path) -> io::Result<File> {
    let mut parts = path.components();
    let is_absolute = parts.next() == Some(Component::RootDir);
    if !is_absolute || !parts.all(|part| matches!(part, Component::Normal(_))) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    match openat2(AT_FDCWD, path, how) {
        // Before Linux 5.6, or refused by a filter of calls.
        Err(Errno::ENOSYS | Errno::EPERM) => find_by_directories(path),
        found => Ok(File::from(found?)),
    }
}

/// Finds the file as [`find_without_links`] does, directory by directory.
fn find_by_directories(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut root = OpenOptions::new();
    let mut place = root.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open("/")?;
    let mut parts = path.components().skip(1).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let flags = if is_last { flags } else { flags | OFlag::O_DIRECTORY };
        place = File::from(openat(&place, part.as_os_str(), flags, Mode::empty())?);
    }
    Ok(place)
}

/// A path that leads to this open file and to no other.
pub fn own_path(file: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    /// Fails if a file that is not regular is opened, or if a link is followed where none may be.
    #[test]
    fn only_files_are_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "x").expect("it is written");
        symlink(at("file"), at("link")).expect("a link");
        nix::unistd::mkfifo(&at("fifo"), Mode::S_IRUSR).expect("a FIFO");
        let is_opened = |name: &str, through_links| {
            let opened = open_regular(&at(name), through_links);
            opened.is_some_and(|it| it.0.metadata().expect("it is open").ino() == it.1.ino())
        };
        assert!(is_opened("file", false) && is_opened("link", true));
        assert!(!is_opened("link", false) && !is_opened("fifo", true) && !is_opened(".", true));
        assert!(open_regular(Path::new("/dev/null"), true).is_none());
        // A regular file by its type, but of the kernel.
        symlink("/proc/self/maps", at("maps")).expect("a link");
        assert!(std::fs::metadata(at("maps")).expect("it is there").is_file());
        assert!(!is_opened("maps", true) && open_named(&at("maps")).is_err());
    }

    /// Fails if a FIFO without a name is taken for a pipe of our caller: an open of a FIFO waits
    /// for its other end.
    #[test]
    fn a_fifo_without_its_name_is_no_pipe() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("fifo");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).expect("a FIFO");
        // With both ends open the test cannot wait.
        let both = OpenOptions::new().read(true).write(true).open(&path).expect("it is ours");
        std::fs::remove_file(&path).expect("it is ours");
        assert!(open_named(&own_path(&both)).is_err());
        let (end, _other) = nix::unistd::pipe().expect("a pipe");
        open_named(&own_path(&File::from(end))).expect("our caller has made it");
    }

    /// Fails if a link is followed anywhere on the path, or if a FIFO or a device is opened.
    #[test]
    fn links_on_the_way_are_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("it is there");
        let at = |name: &str| root.join(name);
        std::fs::create_dir(at("d")).expect("a directory");
        std::fs::write(at("d/file"), "x").expect("it is written");
        symlink(at("d"), at("link")).expect("a link");
        symlink(at("d/file"), at("d/link")).expect("a link");
        let found = find_without_links(&at("d/file")).expect("it is there");
        let opened = open_found(&found, 0).expect("we may");
        assert_eq!(std::io::read_to_string(opened).expect("text"), "x");
        assert!(find_without_links(&at("link/file")).is_err());
        let link = find_without_links(&at("d/link")).expect("found, not followed");
        assert!(link.metadata().expect("it is open").is_symlink());
        assert!(find_without_links(&at("d/../d/file")).is_err());
        assert!(find_without_links(Path::new("d/file")).is_err());
        nix::unistd::mkfifo(&at("fifo"), Mode::S_IRUSR).expect("a FIFO");
        // An open would wait for its other end.
        let fifo = find_without_links(&at("fifo")).expect("found");
        assert!(!fifo.metadata().expect("it is open").is_file());
    }
}
