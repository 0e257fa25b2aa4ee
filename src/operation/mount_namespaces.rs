//! Mount namespaces and their numbers.

use rustc_hash::{FxHashMap, FxHashSet};

use super::model::MountNamespace;

/// Known mount namespaces.
#[derive(Debug, Default)]
pub struct MountNamespaces {
    /// Numbers by the kernel's inode numbers; the inodes of namespaces made during the capture are
    /// not known.
    by_inode: FxHashMap<u64, MountNamespace>,
    /// Number of namespaces besides the tracer's.
    others: u32,
    /// Namespaces whose mounts do not propagate to others: all of their mounts were made
    /// private.
    isolated: FxHashSet<MountNamespace>,
}

/// Limit of distinct namespaces; further ones are unknown.
const SPACES_MAX: u32 = 1 << 16;

impl MountNamespaces {
    /// Sets the inode of the tracer's namespace.
    pub fn is_own(&mut self, inode: u64) {
        self.by_inode.insert(inode, MountNamespace::OWN);
    }

    /// Returns the namespace with this inode.
    pub fn of(&mut self, inode: u64) -> MountNamespace {
        if let Some(&known) = self.by_inode.get(&inode) {
            return known;
        }
        let new = self.made();
        if new != MountNamespace::UNKNOWN {
            self.by_inode.insert(inode, new);
        }
        new
    }

    /// Sets whether the mounts of a namespace are private, or may be shared.
    pub fn isolate(&mut self, mounts: MountNamespace, isolated: bool) {
        if isolated
            && mounts != MountNamespace::UNKNOWN
            && self.isolated.len() < SPACES_MAX as usize
        {
            self.isolated.insert(mounts);
        } else {
            self.isolated.remove(&mounts);
        }
    }

    /// Returns true if mounts there do not propagate to other namespaces.
    pub fn is_isolated(&self, mounts: MountNamespace) -> bool {
        self.isolated.contains(&mounts)
    }

    /// Returns a namespace that was made just now.
    pub fn made(&mut self) -> MountNamespace {
        if self.others >= SPACES_MAX {
            return MountNamespace::UNKNOWN;
        }
        self.others += 1;
        MountNamespace(self.others)
    }
}

/// Returns the number in `mnt:[4026531841]`.
pub fn namespace_inode(link: &[u8]) -> Option<u64> {
    let number = link.strip_prefix(b"mnt:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_inode_is_the_same_namespace() {
        let mut spaces = MountNamespaces::default();
        spaces.is_own(7);
        assert_eq!(
            (spaces.of(7), spaces.of(8), spaces.made()),
            (MountNamespace::OWN, MountNamespace(1), MountNamespace(2))
        );
        assert_eq!((spaces.of(8), spaces.of(9)), (MountNamespace(1), MountNamespace(3)));
        spaces.others = SPACES_MAX;
        assert_eq!(
            (spaces.made(), spaces.of(10)),
            (MountNamespace::UNKNOWN, MountNamespace::UNKNOWN)
        );
    }

    #[test]
    fn a_link_tells_its_number() {
        assert_eq!(namespace_inode(b"mnt:[4026531841]"), Some(4_026_531_841));
        assert_eq!(namespace_inode(b"net:[4026531841]"), None);
        assert_eq!(namespace_inode(b"mnt:[]"), None);
    }
}
