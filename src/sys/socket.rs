//! Control socket of a recording: a Unix stream socket that only its owner may connect to.
//!
//! A socket outlives a killed owner. So a new owner first checks whether the old socket has a
//! listener; a socket without one is removed. Meanwhile the directory is locked (`flock`), so that
//! two processes that want the same path do not remove each other's socket.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{Mode, umask};

use super::output_dir::{OutputDirectory, Users};
use super::thread;

/// Path of the socket without `--control`.
pub const DEFAULT: &str = "/run/iotrace-perf/control";

/// Limit on the attempts to lock a directory: it is locked for less than that.
const LOCK_ATTEMPTS: u32 = 100;
/// Pause between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A listening socket; the drop removes it.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    /// Open directory of the socket: nothing is created or removed by its path.
    directory: OutputDirectory,
    name: OsString,
    /// Device and inode of the socket's file.
    identity: (u64, u64),
    /// The directory, if it was created for the socket.
    made: Option<PathBuf>,
}

impl Socket {
    /// Creates the socket. To be called while this process has one thread, because the umask is
    /// changed meanwhile.
    ///
    /// # Errors
    ///
    /// `AddrInUse`: another recording listens there. `AlreadyExists`: the existing file is not a
    /// socket, or is another user's. `PermissionDenied`: others could create files in the
    /// directory. Those of `mkdir(2)`, `bind(2)`.
    pub fn new(path: &Path) -> io::Result<Self> {
        match Self::try_new(path) {
            // The directory was removed between two steps, with a stale socket in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound && path == Path::new(DEFAULT) => {
                Self::try_new(path)
            }
            tried => tried,
        }
    }

    fn try_new(path: &Path) -> io::Result<Self> {
        let directory = match path.parent() {
            Some(it) if it != Path::new("") => it,
            _ => Path::new("."),
        };
        let is_ours = path == Path::new(DEFAULT);
        let made = is_ours && make(directory)?;
        let made = made.then(|| directory.to_owned());
        let (held, lock) = lock(directory, is_ours)?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let path = held.path().join(&name);
        remove_stale(&path)?;
        let before = umask(Mode::from_bits_truncate(0o177));
        let bound = UnixListener::bind(&path);
        umask(before);
        let listener = bound?;
        listener.set_nonblocking(true)?;
        let found = fs::symlink_metadata(&path)?;
        drop(lock);
        let identity = (found.dev(), found.ino());
        Ok(Self { listener, directory: held, name, identity, made })
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: there is none; those of `accept(2)`.
    pub fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let found = self.directory.find(&self.name).ok().flatten();
        if found.is_some_and(|it| (it.st_dev, it.st_ino) == self.identity) {
            // If that fails, the next owner finds that the socket has no listener.
            let _ = self.directory.remove(&self.name);
        }
        if let Some(directory) = &self.made {
            // The directory stays if another recording's socket is in it by now.
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Creates the directory for this user alone; false if the path exists.
fn make(directory: &Path) -> io::Result<bool> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Locks the directory, which must be ours alone, or one where no other user can replace our files.
fn lock(directory: &Path, is_ours: bool) -> io::Result<(OutputDirectory, Flock<File>)> {
    let held = OutputDirectory::open(directory, &Users::none())?;
    let opened = held.readable()?;
    let found = opened.metadata()?;
    let (mode, owner) = (found.permissions().mode(), found.uid());
    let is_own = owner == nix::unistd::geteuid().as_raw();
    // Like `/tmp`: all users may create files there, but not replace ours.
    let is_shared = owner == 0 && mode & libc::S_ISVTX != 0;
    let is_good = if is_ours {
        is_own && mode & 0o077 == 0
    } else {
        is_shared || is_own && mode & 0o022 == 0
    };
    if !is_good {
        let why = if is_ours {
            "is not ours alone (mode 0700)"
        } else {
            "is another user's, or others may write to it"
        };
        let what = format!("the directory {} {why}", directory.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    let mut file = opened;
    for _ in 0..LOCK_ATTEMPTS {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok((held, lock)),
            Err((back, Errno::EWOULDBLOCK)) => file = back,
            Err((_, errno)) => return Err(errno.into()),
        }
        thread::pause(LOCK_PAUSE);
    }
    let what = format!("the directory {} is locked by another process", directory.display());
    Err(io::Error::new(io::ErrorKind::WouldBlock, what))
}

/// Removes a stale socket at the default path. True if there was a socket.
pub fn remove_left() -> bool {
    let path = Path::new(DEFAULT);
    let Some(directory) = path.parent().filter(|it| it.exists()) else { return false };
    // If another recording uses it, or it cannot be removed, the next owner reports that.
    let Ok((held, _lock)) = lock(directory, true) else { return false };
    let path = held.path().join(path.file_name().unwrap_or_default());
    let was_there = fs::symlink_metadata(&path).is_ok();
    let is_gone = remove_stale(&path).is_ok();
    if is_gone {
        let _ = fs::remove_dir(directory);
    }
    was_there && is_gone
}

/// Removes a stale socket at this path.
fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let own = found.uid() == nix::unistd::geteuid().as_raw();
    if !found.file_type().is_socket() || !own {
        let what = "the existing file is not a socket of ours, and is not removed";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    // The check connects a socket of another type: a socket with a listener reports that
    // (EPROTOTYPE) and never blocks, even if its queue is full. One without a listener refuses
    // (unix(7)).
    match UnixDatagram::unbound()?.connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another recording is controlled there; give this one another path with --control",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    #[track_caller]
    fn check(path: &Path, expected: Option<ErrorKind>) {
        let made = Socket::new(path);
        assert_eq!(made.as_ref().err().map(io::Error::kind), expected, "{made:?}");
    }

    #[test]
    fn a_live_one_stays_and_a_dead_one_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let socket = Socket::new(&path).expect("it is made");
        let mode = fs::symlink_metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        check(&path, Some(ErrorKind::AddrInUse));
        drop(socket);
        assert!(!path.exists(), "it goes with its owner");
        // A leftover of a killed process.
        drop(UnixListener::bind(&path).expect("bound"));
        check(&path, None);
    }

    #[test]
    fn nothing_else_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "kept").expect("written");
        check(&file, Some(ErrorKind::AlreadyExists));
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "kept");
        let elsewhere = dir.path().join("elsewhere");
        drop(UnixListener::bind(&elsewhere).expect("bound"));
        symlink(&elsewhere, &link).expect("a link");
        check(&link, Some(ErrorKind::AlreadyExists));
        check(&dir.path().join("no/s"), Some(ErrorKind::NotFound));
        let long = dir.path().join("s".repeat(200));
        check(&long, Some(ErrorKind::InvalidInput));
    }

    #[test]
    fn socket_directory_is_not_writable_by_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let open = dir.path().join("open");
        fs::create_dir(&open).expect("a directory");
        let is_root = nix::unistd::geteuid().is_root();
        let sticky = (!is_root).then_some(ErrorKind::PermissionDenied);
        let refused = Some(ErrorKind::PermissionDenied);
        let modes = [(0o777, refused), (0o770, refused), (0o1777, sticky), (0o755, None)];
        for (mode, expected) in modes {
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).expect("its mode");
            check(&open.join("s"), expected);
        }
        if is_root {
            std::os::unix::fs::chown(&open, Some(65534), None).expect("given away");
            check(&open.join("s"), refused);
        }
    }

    /// Fails, or does not end, if the check waits for a place in the queue.
    #[test]
    fn socket_with_a_full_queue_is_alive() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let socket = Socket::new(&path).expect("it is made");
        // SAFETY: listen(2) takes numbers only, and the socket is open.
        let code = unsafe { libc::listen(socket.as_fd().as_raw_fd(), 0) };
        assert_eq!(code, 0);
        let _first = UnixStream::connect(&path).expect("there is room for one");
        check(&path, Some(ErrorKind::AddrInUse));
    }

    #[test]
    fn created_directory_is_removed_with_the_socket() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = dir.path().join("made");
        assert!(make(&place).expect("made") && !make(&place).expect("it is there"));
        let path = place.join("s");
        let mut socket = Socket::new(&path).expect("it is made");
        socket.made = Some(place.clone());
        fs::write(place.join("other"), "").expect("written");
        drop(socket);
        assert!(!path.exists() && place.exists(), "another file is in it");
        fs::remove_file(place.join("other")).expect("removed");
        let mut socket = Socket::new(&path).expect("it is made");
        socket.made = Some(place.clone());
        drop(socket);
        assert!(!place.exists());
    }

    #[test]
    fn replacement_socket_is_not_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let socket = Socket::new(&path).expect("it is made");
        fs::rename(&path, dir.path().join("old")).expect("moved");
        let next = Socket::new(&path).expect("it is made");
        drop(socket);
        assert!(path.exists());
        drop(next);
    }
}
