//! Eviction of names and files. Of names that came and went, only their absence at the start is
//! kept.

use rustc_hash::FxHashSet;

use super::forgotten_numbers::key;
use super::fs_model::FsModel;
use super::model::{FileId, FirstId, NodeId, PlaceState};

impl FsModel {
    /// Returns the number of names and files that are known.
    pub fn count(&self) -> usize {
        let nodes = self.nodes.len() - self.spare_nodes.len();
        nodes + self.firsts.len() - self.spare_firsts.len() + self.sizes.len()
    }

    /// Forgets places without an entry of which no more must be known, except for those that
    /// `is_kept`. Returns for each place whether it is forgotten.
    pub fn forget_names(&mut self, is_kept: impl Fn(NodeId) -> bool) -> Vec<bool> {
        let mut order = vec![NodeId(0)];
        let mut next = 0;
        while let Some(place) = order.get(next).copied() {
            order.extend(self.node(place).children.values());
            next += 1;
        }
        let all = (0..).map(NodeId).take(self.nodes.len());
        let mut is_gone: Vec<bool> = all.map(|place| !is_kept(place)).collect();
        order.iter().for_each(|place| is_gone[place.0 as usize] = false);
        // Contents of a directory come before it.
        for parent in order.into_iter().rev() {
            let mut children = std::mem::take(&mut self.node_mut(parent).children);
            children.retain(|name, child| {
                let node = self.node(*child);
                let is_there =
                    matches!(node.now, PlaceState::There(_)) || !node.children.is_empty();
                let stays = is_there || is_kept(*child);
                if !stays {
                    is_gone[child.0 as usize] = true;
                    self.forget_child(parent, name, *child);
                }
                stays
            });
            children.shrink_to_fit();
            self.node_mut(parent).children = children;
        }
        self.spare_nodes.clear();
        for (place, is_gone) in (0..).map(NodeId).zip(&is_gone) {
            if *is_gone {
                self.spare_nodes.push(place);
                self.clear(place);
                self.put(place, PlaceState::Absent);
                self.node_mut(place).children.shrink_to_fit();
            }
        }
        self.forget_firsts();
        is_gone
    }

    /// Keeps the present absence of a name that is forgotten, so a later lookup finds nothing
    /// again.
    fn forget_child(&mut self, parent: NodeId, name: &[u8], child: NodeId) {
        let Some(parent) = self.node(parent).first else { return };
        if self.node(child).now != PlaceState::Absent {
            return;
        }
        let parent = self.first(parent);
        match parent.children.get(name).copied() {
            Some(first) => self.first_mut(first).is_gone = true,
            None => self.absent.add(key(parent.key, name)),
        }
    }

    /// Forgets initial entries of names where nothing was.
    fn forget_firsts(&mut self) {
        let mut is_used = vec![false; self.firsts.len()];
        for first in self.nodes.iter().filter_map(|node| node.first) {
            is_used[first.0 as usize] = true;
        }
        let mut order = vec![FirstId(0)];
        let mut next = 0;
        while let Some(first) = order.get(next).copied() {
            order.extend(self.first(first).children.values());
            next += 1;
        }
        for parent in order.into_iter().rev() {
            let mut children = std::mem::take(&mut self.first_mut(parent).children);
            let directory = self.first(parent).key;
            let count = children.len();
            children.retain(|name, child| {
                let first = self.first(*child);
                let was_there =
                    matches!(first.state, PlaceState::There(_)) || !first.children.is_empty();
                // An entry that was looked into is a directory, if it was there.
                let leads = first.had_lookups && first.state == PlaceState::Unasked;
                let stays = was_there || first.text.is_some() || is_used[child.0 as usize];
                if stays {
                    return true;
                }
                if first.is_gone || first.state == PlaceState::Absent {
                    self.absent.add(key(directory, name));
                } else if leads {
                    self.maybe_directories.add(key(directory, name));
                }
                self.spare_firsts.push(*child);
                false
            });
            children.shrink_to_fit();
            let parent = self.first_mut(parent);
            parent.had_lookups |= children.len() < count;
            parent.children = children;
        }
    }

    /// Forgets files that have no name, and had none at the start, but for those that `is_kept`.
    pub fn forget_files(&mut self, is_kept: impl Fn(FileId) -> bool) {
        let named: FxHashSet<FileId> =
            self.nodes.iter().filter_map(|node| node.now.file()).collect();
        self.settle_made(|file| named.contains(&file) || is_kept(file));
        let had_name: FxHashSet<FileId> =
            self.firsts.iter().filter_map(|first| first.state.file()).collect();
        let is_needed = |file| named.contains(&file) || had_name.contains(&file) || is_kept(file);
        self.sizes.retain(|file, _| is_needed(*file));
        self.sizes.shrink_to_fit();
        let sizes = &self.sizes;
        self.layouts.retain(|file, _| sizes.contains_key(file));
        self.inodes.retain(|file| sizes.contains_key(&file));
    }

    /// Settles files that an open may have made. Such a file was absent at the start if it is gone
    /// and has shown no contents of its own: nothing can show them any more.
    fn settle_made(&mut self, is_there: impl Fn(FileId) -> bool) {
        let Self { firsts, sizes, .. } = self;
        for first in firsts.iter_mut().filter(|first| first.perhaps) {
            let Some(file) = first.state.file().filter(|file| !is_there(*file)) else { continue };
            if sizes.get(&file).is_none_or(|size| size.first() == 0) {
                first.state = PlaceState::Absent;
                first.perhaps = false;
            }
        }
    }

    /// Returns true if a name in a directory was absent at the start and is forgotten.
    pub(super) fn has_forgotten(&self, directory: FirstId, name: &[u8]) -> bool {
        self.absent.has(key(self.first(directory).key, name))
    }

    /// Returns the number of names that are no longer known to have been absent at the start, or to
    /// have been directories if they were there.
    pub fn lost(&self) -> u64 {
        self.absent.lost() + self.maybe_directories.lost()
    }

    /// Returns true if a file is not forgotten.
    pub fn knows(&self, file: FileId) -> bool {
        self.sizes.contains_key(&file)
    }
}
