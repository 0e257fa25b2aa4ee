//! Explained opens: assignment of events of fanotify to calls by their paths, where the order of
//! events and calls leaves a choice.
//!
//! An order leaves a choice if there are more calls than events: a call opened a device, or the
//! kernel merged its event into an older one, of the same thread and file. If every event has a
//! call whose path is the reported name, the paths explain all events:
//!
//! ```text
//!  calls of the thread    /a/x   /dev/null   /a/y   /a/x
//!  events                 /a/x               /a/y           the event of the last call was merged
//! ```
//!
//! A call with an absolute path that is the reported name has opened that file, unless the name has
//! led to another file for a moment. (Renames and removals make the name unverified. The name of a
//! removed file is no path, so nothing explains its event.) A relative path is the end of the
//! reported name; its call has opened the file if all others that the event may belong to have
//! opened other files.

use crate::units::DevId;

/// File of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReportedFile<'a> {
    pub(super) name: &'a [u8],
    pub(super) inode: Option<(DevId, u64)>,
}

/// Path that a call has opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenedPath(pub(super) Box<[u8]>);

impl OpenedPath {
    fn is_absolute(&self) -> bool {
        self.0.first() == Some(&b'/')
    }

    /// True if a file with this resolved name may have been opened by the path without symbolic
    /// links.
    fn leads_to(&self, name: &[u8]) -> bool {
        let mut path = &*self.0;
        while let [b'.', b'/', rest @ ..] = path {
            path = rest;
        }
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let parts = path.strip_prefix(b"/").unwrap_or(path).split(|byte| *byte == b'/');
        let is_plain = parts.into_iter().all(|part| !matches!(part, b"" | b"." | b".."));
        match name.strip_suffix(path) {
            _ if !is_plain => false,
            Some(before) if self.is_absolute() => before.is_empty(),
            Some(before) => before.last() == Some(&b'/'),
            None => false,
        }
    }
}

/// Returns the event of each call, as an index. `possible` are the calls that each event may belong
/// to by its time and order.
pub(super) fn by_paths(
    files: &[ReportedFile<'_>],
    paths: &[Option<&OpenedPath>],
    possible: &[Vec<usize>],
) -> Vec<Option<usize>> {
    let named = |index: usize, is_absolute: bool| {
        let file = files.get(index);
        let places = possible.get(index).into_iter().flatten().copied();
        places.filter(move |place| {
            let path = paths.get(*place).copied().flatten();
            let path = path.filter(|path| path.is_absolute() == is_absolute);
            path.zip(file).is_some_and(|(path, file)| path.leads_to(file.name))
        })
    };
    let mut of_calls = vec![Vec::new(); paths.len()];
    for index in 0..files.len() {
        for place in named(index, true) {
            of_calls.get_mut(place).into_iter().for_each(|events| events.push(index));
        }
    }
    let one_file = |events: Vec<usize>| {
        let first = *events.first()?;
        events.iter().all(|event| files.get(*event) == files.get(first)).then_some(first)
    };
    let absolute: Vec<Option<usize>> = of_calls.into_iter().map(one_file).collect();
    let mut all = absolute.clone();
    for (index, places) in possible.iter().enumerate() {
        if named(index, true).next().is_some() {
            continue;
        }
        let [place] = *named(index, false).collect::<Vec<_>>() else {
            return vec![None; paths.len()];
        };
        let is_known = |other: &usize| absolute.get(*other).is_some_and(Option::is_some);
        if !places.iter().all(|other| *other == place || is_known(other)) {
            return vec![None; paths.len()];
        }
        all.get_mut(place).into_iter().for_each(|event| *event = Some(index));
    }
    all
}
