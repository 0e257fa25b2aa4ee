//! Explained opens: assignment of events of fanotify to calls by their paths, where the order of
//! events and calls leaves a choice.
//!
//! An order leaves a choice if there are more calls than events: a call opened a device, or the
//! kernel merged its event into an older one, of the same thread and file. A call with an absolute
//! path that is a reported name has opened that file. An event whose name is no path belongs to the
//! only call that it may belong to and whose file is not known:
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

use crate::units::DevId;

/// End of the name of a removed file.
const DELETED: &[u8] = b" (deleted)";

/// File of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReportedFile<'a> {
    pub(super) name: &'a [u8],
    pub(super) inode: Option<(DevId, u64)>,
    /// Calls that the event may belong to by time and order. Begins and ends are ascending.
    pub(super) calls: Range<usize>,
}

/// Path that a call has opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenedPath(pub(super) Box<[u8]>);

impl OpenedPath {
    /// Returns the resolved name of the file, if the path begins at the root, has no `.` and `..`,
    /// and leads through no symbolic link.
    fn as_name(&self) -> Option<&[u8]> {
        let path = match &*self.0 {
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
    may_be: impl Fn(usize, usize) -> bool,
) -> Vec<Option<usize>> {
    let mut events = vec![None; paths.len()];
    if files.iter().any(|file| file.name.ends_with(DELETED)) {
        return events;
    }
    let mut by_name: FxHashMap<&[u8], Vec<usize>> = FxHashMap::default();
    for (event, file) in files.iter().enumerate() {
        by_name.entry(file.name).or_default().push(event);
    }
    let calls_of = |event: &usize| files.get(*event).map_or(0..0, |file| file.calls.clone());
    let mut named: FxHashSet<usize> = FxHashSet::default();
    for (call, (path, found)) in paths.iter().zip(&mut events).enumerate() {
        let name = path.and_then(OpenedPath::as_name);
        let same = name.and_then(|name| by_name.get(name)).map_or(&[][..], Vec::as_slice);
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

/// Returns the first of these events if all are about one file.
fn one_file(files: &[ReportedFile<'_>], events: &[usize]) -> Option<usize> {
    let first = *events.first()?;
    let inode = |event: &usize| files.get(*event).map(|file| file.inode);
    events.iter().all(|event| inode(event) == inode(&first)).then_some(first)
}
