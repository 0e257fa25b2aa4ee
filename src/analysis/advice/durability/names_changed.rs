//! Renames, links and removals of files.

use std::rc::Rc;

use super::Durability;
use super::deed::Deed;
use super::doubt::DurabilityDoubt;
use super::file_state::NameEntry;
use super::path_index::{PlacedPath, directory, normal, whole};
use super::state_key::StateKey;
use super::syncs::is_descriptor;
use crate::analysis::advice::rule::RuleId;
use crate::event::registers::fd_argument;
use crate::event::syscall_table::Role;
use crate::naming::paths::is_below;
use crate::operation::model::{MountNamespace, PathArgument, SyscallOperation};
use crate::operation::renaming::exchanges;
use crate::units::Fd;

/// Prefixes of paths that stand for a descriptor of the process itself.
const OWN_DESCRIPTORS: [&[u8]; 2] = [b"/proc/self/fd/", b"/dev/fd/"];

/// Paths of a rename or link.
struct BothPaths {
    from: PlacedPath,
    to: PlacedPath,
}

impl Durability {
    pub(super) fn renamed(&mut self, deed: &Deed<'_>) {
        if deed.done.errno.is_some() {
            return;
        }
        let Some((call, BothPaths { from, to })) = self.both_paths(deed) else { return };
        let is_exchange = exchanges(call);
        let (key, other) = (self.file_at(&from), self.file_at(&to));
        let Some(key) = key else {
            if is_exchange && let Some(other) = other {
                self.move_name(other, &to, &from);
                self.got_name(other, &to, &from, deed);
            } else {
                // The file that had the name is gone.
                self.lose_name(&to);
                self.doubt_below(&from, deed);
                match is_exchange {
                    true => self.exchange_directories(&from, &to, deed),
                    false => self.move_directory(&from, &to),
                }
            }
            self.absent.remove(&to);
            return self.note_absent_unless(is_exchange, from);
        };
        if other == Some(key) {
            return;
        }
        match other.filter(|_| is_exchange) {
            Some(other) => {
                self.take_name(key, &from);
                self.take_name(other, &to);
                self.give_name(key, &to);
                self.give_name(other, &from);
                self.got_name(other, &to, &from, deed);
            }
            None => {
                self.lose_name(&to);
                self.move_name(key, &from, &to);
            }
        }
        self.absent.remove(&to);
        self.got_name(key, &from, &to, deed);
        self.note_absent_unless(is_exchange, from);
    }

    pub(super) fn linked(&mut self, deed: &Deed<'_>) {
        let Some(call) = deed.call.filter(|_| deed.done.errno.is_none()) else {
            // The paths of an asynchronous link are not in the log.
            if deed.call.is_none() && deed.done.errno.is_none() {
                self.lose_path(deed);
            }
            return;
        };
        if !matches!(call.call.call().name, "link" | "linkat") {
            return;
        }
        let named = call.named.as_ref();
        let to = named.and_then(|named| whole(named.second.as_ref()?));
        let Some(to) = to.map(|to| self.paths.resolved(to)) else {
            return self.lose_path(deed);
        };
        let first = named.and_then(|named| named.first.as_ref());
        let from = first.and_then(whole).map(|from| self.paths.resolved(from));
        let by_path = || self.file_at(from.as_ref()?);
        let key = self.unnamed_source(call, first).or_else(by_path);
        self.absent.remove(&to);
        let Some(key) = key else {
            if first.is_some_and(|first| first.path.bytes.is_empty() || is_descriptor(&first.path))
            {
                self.doubt_of(deed, RuleId::RenameUnsynced, DurabilityDoubt::UnknownSource);
            }
            return;
        };
        self.lose_name(&to);
        self.give_name(key, &to);
        let from = from.unwrap_or_else(|| (to.0, to.1.clone()));
        self.got_name(key, &from, &to, deed);
    }

    pub(super) fn removed(&mut self, deed: &Deed<'_>) {
        if deed.done.errno.is_some() {
            return;
        }
        let first = deed.call.and_then(|call| call.named.as_ref()?.first.as_ref());
        let Some(path) = first.and_then(whole) else {
            self.lost_names = self.lost_names.max(Some(deed.done.end));
            return;
        };
        let path = self.paths.resolved(path);
        self.epochs.forget_directory(&path);
        self.lose_name(&path);
        self.note_absent(path);
    }

    /// Handles a rename or link of an unknown file.
    fn lose_path(&mut self, deed: &Deed<'_>) {
        self.lost_names = self.lost_names.max(Some(deed.done.end));
        for rule in [RuleId::WriteAfterSync, RuleId::RenameUnsynced, RuleId::DirectoryUnsynced] {
            self.doubt_of(deed, rule, DurabilityDoubt::UnknownPath);
        }
    }

    fn note_absent_unless(&mut self, is_exchange: bool, path: PlacedPath) {
        if !is_exchange {
            self.note_absent(path);
        }
    }

    /// Returns the paths of a rename, if they are known.
    fn both_paths<'a>(&mut self, deed: &Deed<'a>) -> Option<(&'a SyscallOperation, BothPaths)> {
        let paths = deed.call.and_then(|call| {
            let named = call.named.as_ref()?;
            let [from, to] = [named.first.as_ref(), named.second.as_ref()];
            Some((call, whole(from?)?, whole(to?)?))
        });
        let Some((call, from, to)) = paths else {
            self.lose_path(deed);
            return None;
        };
        let [from, to] = [from, to].map(|path| self.paths.resolved(path));
        Some((call, BothPaths { from, to }))
    }

    fn file_at(&self, placed: &PlacedPath) -> Option<StateKey> {
        let (mounts, path) = placed;
        self.paths.get(*mounts, path)
    }

    /// Returns the file without a name that a link names by its descriptor.
    fn unnamed_source(
        &self,
        call: &SyscallOperation,
        given: Option<&PathArgument>,
    ) -> Option<StateKey> {
        let path = given.map(|given| given.path.bytes.as_slice()).unwrap_or_default();
        let number = OWN_DESCRIPTORS.iter().find_map(|prefix| path.strip_prefix(*prefix));
        let number = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let by_number = number.map(Fd);
        let by_argument = || {
            let fd = fd_argument(call.call.call(), Role::DirFd, &call.args);
            fd.filter(|_| path.is_empty())
        };
        let fd = by_number.or_else(by_argument)?;
        self.unnamed.get(&(call.process, fd)).copied().or_else(|| {
            let file = call.file.as_ref().filter(|_| path.is_empty())?;
            self.key_of(file).filter(|key| self.files.contains_key(key))
        })
    }

    /// Handles that a file got a name: its data and its directory count from now on.
    fn got_name(&mut self, key: StateKey, from: &PlacedPath, to: &PlacedPath, deed: &Deed<'_>) {
        if deed.is_selected {
            self.select(key);
        }
        self.after_failure(key, deed);
        let path: Rc<[u8]> = to.1.as_slice().into();
        self.named(key, &from.1, &path, deed);
        let Some(state) = self.files.get_mut(&key) else { return };
        state.entry = Some(Box::new(NameEntry {
            directory: (to.0, directory(&to.1)),
            event: deed.event(&path),
            process: deed.done.process,
            is_selected: deed.is_selected,
            is_birth: false,
        }));
        for case in &state.cases {
            if let Some(case) = self.cases.get_mut(*case) {
                case.path = Rc::clone(&path);
            }
        }
    }

    /// Selects what is known of a file by its earlier names.
    fn select(&mut self, key: StateKey) {
        let Some(state) = self.files.get_mut(&key) else { return };
        if let Some(failed) = &mut state.failed {
            failed.is_selected = true;
        }
        if let Some(stored) = &mut state.stored {
            stored.1 = true;
        }
        for case in &state.cases {
            if let Some(case) = self.cases.get_mut(*case) {
                case.is_selected = true;
            }
        }
    }

    fn give_name(&mut self, key: StateKey, placed: &PlacedPath) {
        let (mounts, path) = placed;
        let Some(state) = self.files.get_mut(&key) else { return };
        state.add_name(*mounts, path);
        self.paths.insert(*mounts, path, key);
    }

    fn take_name(&mut self, key: StateKey, placed: &PlacedPath) {
        let (mounts, path) = placed;
        self.paths.remove(*mounts, path);
        if let Some(state) = self.files.get_mut(&key) {
            state.remove_name(*mounts, path);
        }
    }

    fn move_name(&mut self, key: StateKey, from: &PlacedPath, to: &PlacedPath) {
        self.take_name(key, from);
        self.give_name(key, to);
    }

    /// Handles that a name is removed, or belongs to another file.
    fn lose_name(&mut self, path: &PlacedPath) {
        let Some(key) = self.file_at(path) else { return };
        self.take_name(key, path);
        let Some(state) = self.files.get(&key).filter(|state| state.names.is_empty()) else {
            return;
        };
        for case in state.cases.clone() {
            if let Some(case) = self.cases.get_mut(case) {
                case.is_withdrawn = true;
            }
        }
        self.forget(key);
    }

    /// Returns the file that a call names by its path.
    pub(super) fn named_file(&self, deed: &Deed<'_>) -> Option<StateKey> {
        let first = deed.call?.named.as_ref()?.first.as_ref();
        self.file_at(&self.paths.resolved(first.and_then(whole)?))
    }

    /// Counts the unsynced files of a directory that gets another name.
    fn doubt_below(&mut self, directory: &PlacedPath, deed: &Deed<'_>) {
        for (_, key) in self.paths.below(directory) {
            let state = self.files.get(&key);
            if state.is_some_and(|state| state.is_dirty(&self.epochs) && !state.is_reported) {
                self.doubt_of(deed, RuleId::RenameUnsynced, DurabilityDoubt::DirectoryRenamed);
            }
        }
    }

    /// Exchanges the names of two directories.
    fn exchange_directories(&mut self, from: &PlacedPath, to: &PlacedPath, deed: &Deed<'_>) {
        self.doubt_below(to, deed);
        // No file has such a name.
        let between = (from.0, [from.1.as_slice(), b"\0"].concat());
        self.move_directory(from, &between);
        self.move_directory(to, from);
        self.move_directory(&between, to);
    }

    /// Moves the names below a directory.
    fn move_directory(&mut self, from: &PlacedPath, to: &PlacedPath) {
        self.epochs.move_directory(from, to);
        // What was absent by these names may be there now.
        let start = (to.0, [to.1.as_slice(), b"/"].concat());
        let below = self.absent.range(start..);
        let below = below.take_while(|(of, path)| *of == to.0 && is_below(path, &to.1));
        let below: Vec<PlacedPath> = below.cloned().collect();
        for path in &below {
            self.absent.remove(path);
        }
        for (path, key) in self.paths.below(from) {
            let rest = path.get(from.1.len()..).unwrap_or_default();
            let moved = normal(&[to.1.as_slice(), rest].concat());
            let mounts: MountNamespace = from.0;
            self.move_name(key, &(mounts, path.clone()), &(to.0, moved));
            if let Some(state) = self.files.get_mut(&key)
                && let Some(entry) = &mut state.entry
                && entry.directory == (mounts, directory(&path))
            {
                let name = state.names.last().map(|name| directory(&name.1));
                entry.directory = (to.0, name.unwrap_or_default());
            }
        }
    }
}
