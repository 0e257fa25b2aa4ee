//! Test calls with known paths, and the check whether probes show them.
//!
//! A thread of the tracer makes the calls. All but one of them fail, because the files do not
//! exist.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open, readlink, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, stat};
use nix::unistd::{AccessFlags, access, chdir, execve, linkat, mkdir, symlinkat, truncate, unlink};

use super::named_thread::spawn_named;
use super::ring_stream::{RingStream, Take};
use crate::event::decode::Decoder;
use crate::event::syscall_table::CallId;
use crate::event::{EventKind, ProbeObservation};
use crate::record::PageLayout;
use crate::record::page::{self, PageEntry};
use crate::sys::trace_ring::PagePipe;
use crate::units::{Fd, Tid};

/// File that always exists: its inode number is that of the kernel's inode.
const FILE: &str = "/proc/self/status";

/// A call that fails, with its paths; few calls use the second one.
type FailingCall = fn(&CStr, &CStr);

/// One call for each way in which the kernel takes paths: name, system calls that C libraries make
/// for it, number of paths, function.
const FAILING: &[(&str, &[&str], usize, FailingCall)] = &[
    ("open", &["open", "openat"], 1, |path, _| {
        let _ = open(path, OFlag::O_RDONLY, Mode::empty());
    }),
    ("stat", &["newstat", "newfstatat", "statx"], 1, |path, _| {
        let _ = stat(path);
    }),
    ("access", &["access", "faccessat", "faccessat2"], 1, |path, _| {
        let _ = access(path, AccessFlags::F_OK);
    }),
    ("readlink", &["readlink", "readlinkat"], 1, |path, _| {
        let _ = readlink(path);
    }),
    ("chdir", &["chdir"], 1, |path, _| {
        let _ = chdir(path);
    }),
    ("truncate", &["truncate"], 1, |path, _| {
        let _ = truncate(path, 0);
    }),
    ("chmod", &["chmod", "fchmodat"], 1, |path, _| {
        let _ = fchmodat(AT_FDCWD, path, Mode::empty(), FchmodatFlags::FollowSymlink);
    }),
    ("unlink", &["unlink", "unlinkat"], 1, |path, _| {
        let _ = unlink(path);
    }),
    ("mkdir", &["mkdir", "mkdirat"], 1, |path, _| {
        let _ = mkdir(path, Mode::empty());
    }),
    ("rename", &["rename", "renameat", "renameat2"], 2, |path, to| {
        let _ = renameat(AT_FDCWD, path, AT_FDCWD, to);
    }),
    ("link", &["link", "linkat"], 2, |path, to| {
        let _ = linkat(AT_FDCWD, path, AT_FDCWD, to, AtFlags::empty());
    }),
    ("symlink", &["symlink", "symlinkat"], 2, |path, to| {
        let _ = symlinkat(path, AT_FDCWD, to);
    }),
    ("execve", &["execve"], 1, |path, _| {
        let _ = execve::<&CStr, &CStr>(path, &[], &[]);
    }),
];

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TrialCall {
    /// Name of the call in this table.
    pub name: &'static str,
    /// Address and text of each path.
    paths: Vec<(u64, Vec<u8>)>,
}

/// Calls that a thread has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Calls {
    /// Thread that made the calls.
    pub tid: Tid,
    pub list: Vec<TrialCall>,
    /// The file that the thread has opened.
    pub file: TrialFile,
}

/// Descriptor and metadata of the file that the test opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrialFile {
    pub fd: Fd,
    /// Type and permissions.
    pub mode: u32,
    pub ino: u64,
}

/// Makes those calls for which one of the wanted system calls is used.
///
/// # Errors
///
/// If no thread can be started, or the one file that must exist does not.
pub(super) fn make_calls(own_name: &str, wanted: &[CallId]) -> io::Result<Calls> {
    let is_wanted = |calls: &[&str]| wanted.iter().any(|it| calls.contains(&it.call().name));
    let wanted: Vec<_> = FAILING.iter().filter(|it| is_wanted(it.1)).collect();
    let thread = spawn_named(own_name, move || {
        let list = wanted.into_iter().map(|&(name, _, paths, call)| make(name, paths, call));
        let list = list.collect();
        let file = File::open(FILE)?;
        let (fd, about) = (Fd(file.as_raw_fd()), file.metadata()?);
        let file = TrialFile { fd, mode: about.mode(), ino: about.ino() };
        let tid = Tid(nix::unistd::gettid().as_raw());
        Ok(Calls { tid, list, file })
    });
    thread.map_err(io::Error::other)?.join().map_err(|_| io::Error::other("its thread failed"))?
}

fn make(name: &'static str, paths: usize, call: FailingCall) -> TrialCall {
    // No file can be created or found below /proc. The kernel examines the second path of a link
    // only if the first exists.
    let path = |which: &str| match (name, which) {
        ("link", "first") => CString::new(FILE),
        _ => CString::new(format!("/proc/iotrace-trial/{name}-{which}")),
    };
    let (first, second) = (path("first").unwrap_or_default(), path("second").unwrap_or_default());
    call(&first, &second);
    let given = [&first, &second].into_iter().take(paths);
    let address = |it: &CStr| it.as_ptr().addr() as u64;
    TrialCall { name, paths: given.map(|it| (address(it), it.to_bytes().to_vec())).collect() }
}

/// Probe events of one thread.
#[derive(Debug, Default)]
pub(super) struct TrialObservations(Vec<ProbeObservation>);

impl TrialObservations {
    /// Takes all probe events of this thread from the rings.
    ///
    /// # Errors
    ///
    /// Errors of reading a ring.
    pub(super) fn take(
        rings: &mut [RingStream],
        decoder: &Decoder,
        layout: PageLayout,
        tid: Tid,
    ) -> io::Result<Self> {
        let mut pipe = PagePipe::new()?;
        let mut seen = Vec::new();
        for ring in rings {
            let mut bytes = Vec::new();
            ring.take(Take::All, &mut pipe, &mut bytes)?;
            for entry in page::entries(&bytes, layout).flatten() {
                let PageEntry::Hit(start, _) = entry else { continue };
                let payload = page::payload(bytes.get(start..).unwrap_or_default());
                let payload = payload.filter(|it| decoder.thread(it) == Some(tid));
                if let Some(Ok(EventKind::Probed(probed))) = payload.map(|it| decoder.decode(it)) {
                    seen.push(*probed);
                }
            }
        }
        Ok(Self(seen))
    }

    /// True if all paths of the call are shown, each with its address.
    pub(super) fn shows(&self, call: &TrialCall) -> bool {
        // Without addresses two paths cannot be distinguished.
        let is_path = |probed: &ProbeObservation, (at, text): &(u64, Vec<u8>)| match probed {
            ProbeObservation::Path { address, bytes } => {
                let is_there = address.map_or(call.paths.len() == 1, |it| it == *at);
                is_there && bytes.as_ref() == Some(text)
            }
            ProbeObservation::Given { address, bytes } => {
                address == at && bytes.as_ref() == Some(text)
            }
            ProbeObservation::Submitted { .. } | ProbeObservation::Completed { .. } => false,
            ProbeObservation::File { .. } | ProbeObservation::Program(_) => false,
            ProbeObservation::Waited(_) | ProbeObservation::CoreSignal => false,
        };
        call.paths.iter().all(|path| self.0.iter().any(|it| is_path(it, path)))
    }

    /// True if the descriptor is shown with the metadata of its file.
    pub(super) fn shows_file(&self, file: &TrialFile) -> bool {
        let is_it = |probed: &ProbeObservation| {
            matches!(probed, ProbeObservation::File { fd, stat }
            if *fd == file.fd && stat.mode == file.mode && stat.ino == file.ino)
        };
        self.0.iter().any(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FileStat;

    fn path(address: Option<u64>, text: &str) -> ProbeObservation {
        ProbeObservation::Path { address, bytes: Some(text.into()) }
    }

    #[test]
    fn each_path_must_be_at_its_address() {
        let paths = vec![(10, b"/a".to_vec()), (20, b"/b".to_vec())];
        let rename = TrialCall { name: "rename", paths };
        let shows = |seen: Vec<ProbeObservation>| TrialObservations(seen).shows(&rename);
        assert!(shows(vec![path(Some(20), "/b"), path(Some(10), "/a")]));
        assert!(!shows(vec![path(Some(20), "/a"), path(Some(10), "/b")]));
        assert!(!shows(vec![path(Some(10), "/a")]));
        assert!(!shows(vec![path(None, "/a"), path(None, "/b")]));
        let open = TrialCall { name: "open", paths: vec![(10, b"/a".to_vec())] };
        assert!(TrialObservations(vec![path(None, "/a")]).shows(&open));
        assert!(
            !TrialObservations(vec![ProbeObservation::Path { address: Some(10), bytes: None }])
                .shows(&open)
        );
    }

    #[test]
    fn a_file_must_be_the_same() {
        let stat = FileStat { mode: 0o100_444, dev: Default::default(), ino: 7, size: 0 };
        let seen = TrialObservations(vec![ProbeObservation::File { fd: Fd(3), stat }]);
        let file = TrialFile { fd: Fd(3), mode: 0o100_444, ino: 7 };
        assert!(seen.shows_file(&file));
        assert!(!seen.shows_file(&TrialFile { fd: Fd(4), ..file }));
        assert!(!seen.shows_file(&TrialFile { ino: 8, ..file }));
    }

    #[test]
    fn the_calls_are_made_and_fail() {
        let all: Vec<CallId> = CallId::all().collect();
        let calls = make_calls("iotrace:test", &all).expect("a thread");
        assert_eq!(calls.list.len(), FAILING.len());
        assert!(calls.list.iter().all(|it| it.paths.iter().all(|it| it.0 != 0)));
        assert_eq!(calls.file.mode & libc::S_IFMT, libc::S_IFREG);
    }
}
