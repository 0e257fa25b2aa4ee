//! The rules of OTF2 that `otf2-print` does not check: regions nest, operations begin and end once
//! and in order, and only active handles are used. For archives without two events of different
//! locations at one time.

use std::collections::{BTreeMap, BTreeSet};

/// An operation that has begun.
struct OpenOperation<'a> {
    handle: u64,
    location: &'a str,
    issued: bool,
}

#[derive(Default)]
struct HandleBalance<'a> {
    group_of: BTreeMap<&'a str, u64>,
    pre_created: BTreeSet<u64>,
    /// Destroyed handles, by group and handle.
    destroyed: BTreeSet<(u64, u64)>,
    created: BTreeSet<(u64, u64)>,
    regions: BTreeMap<&'a str, Vec<u64>>,
    open: BTreeMap<&'a str, OpenOperation<'a>>,
}

/// Checks the events that follow from these definitions.
#[track_caller]
pub(super) fn check(definitions: &str, events: &str) {
    let mut books = HandleBalance::default();
    for line in definitions.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match *words.as_slice() {
            ["LOCATION", id, ..] => {
                books.group_of.insert(id, ids(line).pop().expect("a group"));
            }
            ["IO_HANDLE", id, ..] if line.contains("{PRE_CREATED}") => {
                books.pre_created.insert(id.parse().expect("an id"));
            }
            _ => {}
        }
    }
    for line in events.lines().filter(|line| !line.starts_with(' ')) {
        books.event(line);
    }
    assert!(books.open.is_empty(), "not ended: {:?}", books.open.keys());
    assert!(books.regions.values().all(Vec::is_empty), "not left: {:?}", books.regions);
}

impl<'a> HandleBalance<'a> {
    #[track_caller]
    fn event(&mut self, line: &'a str) {
        let mut words = line.split(' ');
        let (kind, location) = (words.next().expect("a kind"), words.next().expect("a location"));
        let ids = ids(line);
        let Some(&first) = ids.first() else { panic!("{line}") };
        let regions = self.regions.entry(location).or_default();
        match kind {
            "ENTER" => regions.push(first),
            "LEAVE" => assert_eq!(regions.pop(), Some(first), "{line}"),
            "METRIC" => {}
            // The event belongs to a file, not to a handle.
            "IO_DELETE_FILE" => assert!(!regions.is_empty(), "outside of a call: {line}"),
            _ => {
                assert!(
                    !regions.is_empty() || !kind.starts_with("IO_CREATE"),
                    "outside of a call: {line}"
                );
                self.handles(kind, location, &ids, line);
                self.operation(kind, location, first, line);
            }
        }
    }

    #[track_caller]
    fn handles(&mut self, kind: &str, location: &str, ids: &[u64], line: &str) {
        let group = *self.group_of.get(location).expect("a location");
        let is_active = |books: &Self, id| {
            let is_pre_created =
                books.pre_created.contains(&id) && !books.destroyed.contains(&(group, id));
            is_pre_created || books.created.contains(&(group, id))
        };
        let (used, new) = match (kind, ids) {
            ("IO_CREATE_HANDLE", [new]) => (None, Some(*new)),
            ("IO_DUPLICATE_HANDLE", [old, new]) => (Some(*old), Some(*new)),
            // The descriptor may be closed while a call on it goes on.
            ("IO_OPERATION_COMPLETE" | "IO_OPERATION_CANCELLED" | "IO_OPERATION_ISSUED", _) => {
                (None, None)
            }
            (_, [used]) => (Some(*used), None),
            other => panic!("{other:?}: {line}"),
        };
        assert!(used.is_none_or(|used| is_active(self, used)), "not active: {line}");
        assert!(new.is_none_or(|made| !is_active(self, made)), "active already: {line}");
        self.created.extend(new.map(|made| (group, made)));
        if kind == "IO_DESTROY_HANDLE" {
            self.destroyed.extend(used.map(|used| (group, used)));
            used.map(|used| self.created.remove(&(group, used)));
        }
    }

    #[track_caller]
    fn operation(&mut self, kind: &str, location: &'a str, handle: u64, line: &'a str) {
        let Some((_, id)) = line.split_once("Matching Id: ") else { return };
        match kind {
            "IO_OPERATION_BEGIN" => {
                let open =
                    OpenOperation { handle, location, issued: !line.contains("NON_BLOCKING") };
                assert!(self.open.insert(id, open).is_none(), "the id is in use: {line}");
            }
            "IO_OPERATION_ISSUED" => {
                let open = self.open.get_mut(id).unwrap_or_else(|| panic!("not begun: {line}"));
                assert!(!std::mem::replace(&mut open.issued, true), "issued before: {line}");
            }
            _ => {
                let open = self.open.remove(id).unwrap_or_else(|| panic!("not begun: {line}"));
                assert_eq!(
                    (open.handle, open.location, open.issued),
                    (handle, location, true),
                    "{line}"
                );
            }
        }
    }
}

/// Numbers of the form `"name" <number>`.
fn ids(line: &str) -> Vec<u64> {
    line.split("\" <").skip(1).filter_map(|part| part.split_once('>')?.0.parse().ok()).collect()
}
