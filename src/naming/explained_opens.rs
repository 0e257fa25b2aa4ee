//! Explained opens: assignment of events of fanotify to calls by their paths, where the order of
//! events and calls leaves a choice.
//!
//! An order leaves a choice if there are more calls than events: a call opened a device, or the
//! kernel merged its event into an older one, of the same thread and file. A call with an absolute
//! path that is a reported name has opened that file, and so has one whose path led to that file
//! when the order left no choice ([`KnownPaths`]): through symbolic links, or by another of the
//! file's names. Calls with one path have opened one file, so the order is that of the different
//! paths and files. An event whose name is no path belongs to the only call that it may belong to
//! and whose file is not known:
//!
//! ```text
//!  calls of the thread    /a/x   link   /a/y   /a/x
//!  events                 /a/x   /b/z   /a/y           the event of the last call was merged
//! ```
//!
//! The name of a removed file is no path. Where there is one, a name may have led to two files, and
//! no path explains anything. (Recorded renames and removals make such an assignment void later.)

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::units::{DevId, KernelTime, Tid};

/// Device and inode of a file.
type ReportedInode = (DevId, u64);

/// Limit of known paths, in bytes. Beyond it they are learned anew.
const KNOWN_BYTES_MAX: usize = 4 << 20;

/// Files to which paths led when the order of events and calls left no choice, since the last
/// rename.
#[derive(Debug, Default)]
pub(super) struct KnownPaths {
    files: FxHashMap<OpenedPath, ReportedInode>,
    bytes: usize,
    renamed: KernelTime,
}

impl KnownPaths {
    /// Forgets all paths: they may lead to other files from now on.
    pub(super) fn renamed(&mut self, time: KernelTime) {
        if !self.files.is_empty() {
            *self = Self::default();
        }
        self.renamed = time;
    }

    /// Learns the file that a call with this path has opened, which began at this time.
    pub(super) fn learn(&mut self, path: &OpenedPath, start: KernelTime, file: ReportedInode) {
        if !path.is_fixed() || start <= self.renamed {
            return;
        }
        if let Some(known) = self.files.get_mut(path) {
            *known = file;
            return;
        }
        let bytes = path.bytes.len() + 2 * size_of::<(OpenedPath, ReportedInode)>();
        if self.bytes + bytes > KNOWN_BYTES_MAX {
            (self.files, self.bytes) = Default::default();
        }
        self.bytes += bytes;
        self.files.insert(path.clone(), file);
    }

    fn inode(&self, path: &OpenedPath) -> Option<ReportedInode> {
        self.files.get(path).copied().filter(|_| path.is_fixed())
    }
}

/// End of the name of a removed file.
const DELETED: &[u8] = b" (deleted)";

/// File of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReportedFile<'a> {
    pub(super) name: &'a [u8],
    pub(super) inode: Option<ReportedInode>,
    /// Calls that the event may belong to by time and order. Begins and ends are ascending.
    pub(super) calls: Range<usize>,
}

/// Directory at which a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PathBase {
    Root,
    /// The working directory of a thread, and the number of changes of working directories before.
    WorkingDirectory(Tid, u64),
    /// An open directory: its number may be another's the next time.
    Descriptor,
    /// The path depends on the calling process, or no path leads to the file.
    Unknown,
}

/// Path that a call has opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OpenedPath {
    pub(super) bytes: Box<[u8]>,
    base: PathBase,
    /// Number of renames, removals, mounts and changes of roots before.
    name_changes: u64,
}

impl OpenedPath {
    /// Returns the path of a call; `relative` is the base of a path that does not begin at the
    /// root, or [`PathBase::Unknown`] if no path of the call leads to the file. `name_changes` is
    /// the number of renames, removals, mounts and changes of roots before the call.
    pub(super) fn new(bytes: &[u8], relative: PathBase, name_changes: u64) -> Self {
        // These lead to files of the process.
        let is_of_process = ["/proc/", "/dev/fd", "/dev/std", "/dev/tty"];
        let base = match bytes {
            _ if is_of_process.iter().any(|start| bytes.starts_with(start.as_bytes())) => {
                PathBase::Unknown
            }
            [b'/', ..] if relative != PathBase::Unknown => PathBase::Root,
            _ => relative,
        };
        Self { bytes: bytes.into(), base, name_changes }
    }

    /// True if each call with this path has opened the same file, as long as nothing is renamed.
    pub(super) fn is_fixed(&self) -> bool {
        matches!(self.base, PathBase::Root | PathBase::WorkingDirectory(..))
    }

    /// Returns the resolved name of the file, if the path begins at the root, has no `.` and `..`,
    /// and leads through no symbolic link.
    fn as_name(&self) -> Option<&[u8]> {
        let path = match &*self.bytes {
            [path @ .., b'/'] if !path.is_empty() => path,
            path => path,
        };
        let parts = path.strip_prefix(b"/")?;
        let mut parts = parts.split(|byte| *byte == b'/');
        let is_plain = parts.all(|part| !matches!(part, b"" | b"." | b".."));
        (is_plain || path == b"/").then_some(path)
    }
}

/// Returns the event of each call, as an index. `may_be` is true for an event and a call that can
/// belong together by the kind of file.
pub(super) fn by_paths(
    files: &[ReportedFile<'_>],
    paths: &[Option<&OpenedPath>],
    known: &KnownPaths,
    may_be: impl Fn(usize, usize) -> bool,
) -> Vec<Option<usize>> {
    let mut events = vec![None; paths.len()];
    if files.iter().any(|file| file.name.ends_with(DELETED)) {
        return events;
    }
    let mut by_name: FxHashMap<&[u8], Vec<usize>> = FxHashMap::default();
    let mut by_inode: FxHashMap<ReportedInode, Vec<usize>> = FxHashMap::default();
    for (event, file) in files.iter().enumerate() {
        by_name.entry(file.name).or_default().push(event);
        if let Some(inode) = file.inode {
            by_inode.entry(inode).or_default().push(event);
        }
    }
    let same_file = |path: &OpenedPath| {
        let of_name = path.as_name().and_then(|name| by_name.get(name));
        of_name.or_else(|| by_inode.get(&known.inode(path)?))
    };
    let calls_of = |event: &usize| files.get(*event).map_or(0..0, |file| file.calls.clone());
    let mut named: FxHashSet<usize> = FxHashSet::default();
    for (call, (path, found)) in paths.iter().zip(&mut events).enumerate() {
        let same = path.and_then(same_file).map_or(&[][..], Vec::as_slice);
        let passed = same.partition_point(|event| calls_of(event).end <= call);
        let rest = same.iter().skip(passed).take_while(|event| calls_of(event).start <= call);
        let its: Vec<usize> = rest.copied().filter(|event| may_be(*event, call)).collect();
        named.extend(&its);
        *found = one_file(files, &its);
    }
    let is_unknown = |(call, event): (usize, &Option<usize>)| event.is_none().then_some(call);
    let unknown: Vec<usize> = events.iter().enumerate().filter_map(is_unknown).collect();
    for (event, file) in files.iter().enumerate() {
        if named.contains(&event) {
            continue;
        }
        let first = unknown.partition_point(|call| *call < file.calls.start);
        let end = unknown.partition_point(|call| *call < file.calls.end);
        if let Some([call]) = unknown.get(first..end)
            && may_be(event, *call)
        {
            events.get_mut(*call).into_iter().for_each(|found| *found = Some(event));
        }
    }
    events
}

/// Returns the first of these events if all are about one file and one of its names.
fn one_file(files: &[ReportedFile<'_>], events: &[usize]) -> Option<usize> {
    let first = *events.first()?;
    // A file may have been opened by several of its names.
    let file = |event: &usize| files.get(*event).map(|file| (file.inode, file.name));
    events.iter().all(|event| file(event) == file(&first)).then_some(first)
}
