//! Pseudonyms of names: each has the length of its name, and the same name always has the same one.
//!
//! A pseudonym is made of a keyed hash (SHA-256 of a secret key and the name). The key comes from a
//! salt that is not stored, so names cannot be tried. A short hash may be that of two names; then
//! the later name gets another one, so that different names stay different.

use rustc_hash::{FxHashMap, FxHashSet};
use sha2::{Digest, Sha256};

use super::vocabulary::{
    ANONYMOUS, ANONYMOUS_INODES, DEVICE_NODES, EXTENSION_BYTES_MAX, EXTENSIONS, KERNEL_OBJECTS,
    PREFIXES, ROOTS,
};

/// Characters of pseudonyms.
const LETTERS: &[u8; 30] = b"0123456789BCDFGHJKLMNPQRSTVWXZ";

/// Characters of pseudonyms of one or two bytes, of which there are few.
const SHORT_LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Longest name whose pseudonym is remembered, in bytes: longer hashes are unique.
const REMEMBERED_BYTES_MAX: usize = 10;

/// Largest number of remembered pseudonyms. Later names may share one.
const REMEMBERED_MAX: usize = 1 << 20;

/// Number of hashes that are tried for a name.
const TRIES_MAX: u32 = 1000;

/// Largest number of a user of the system that stays: root.
const ROOT_USER: u32 = 0;

/// Number of no user.
const NO_USER: u32 = u32::MAX;

/// Pseudonyms of all names of a log.
#[derive(Debug)]
pub(super) struct Pseudonyms {
    key: [u8; 32],
    /// Kernel's names of disks and partitions, which stay.
    disks: FxHashSet<Vec<u8>>,
    short: FxHashMap<Vec<u8>, Vec<u8>>,
    used: FxHashSet<Vec<u8>>,
    /// Names that share a pseudonym with another one.
    pub(super) shared: u64,
}

impl Pseudonyms {
    /// Creates pseudonyms for a salt.
    pub(super) fn new(salt: &[u8]) -> Self {
        Self {
            key: Sha256::digest(salt).into(),
            disks: FxHashSet::default(),
            short: FxHashMap::default(),
            used: FxHashSet::default(),
            shared: 0,
        }
    }

    /// Keeps the kernel's name of a disk or a partition.
    pub(super) fn keep_disk(&mut self, name: &str) {
        self.disks.insert(name.as_bytes().to_vec());
    }

    /// Returns the pseudonym of the target of a descriptor: a path, or the kernel's name of an
    /// object without a path.
    pub(super) fn target(&mut self, target: &[u8]) -> Vec<u8> {
        if is_numbered_object(target) || ANONYMOUS_INODES.contains(&target) {
            return target.to_vec();
        }
        // The kernel's word for a file without a path; a driver gave the rest.
        match target.strip_prefix(ANONYMOUS) {
            Some(name) => [ANONYMOUS, &self.stem(name)].concat(),
            None => self.path(target),
        }
    }

    /// Returns the pseudonym of a path.
    pub(super) fn path(&mut self, path: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(path.len());
        let root = path.split(|byte| *byte == b'/').nth(1).filter(|_| path.starts_with(b"/"));
        for (place, part) in path.split(|byte| *byte == b'/').enumerate() {
            if place > 0 {
                out.push(b'/');
            }
            let is_root = place == 1 && root.is_some_and(|root| ROOTS.contains(&root));
            let is_node = place == 2
                && root == Some(b"dev")
                && (DEVICE_NODES.contains(&part) || self.disks.contains(part));
            match is_root || is_node {
                true => out.extend_from_slice(part),
                false => out.extend(self.part(part)),
            }
        }
        out
    }

    /// Returns the pseudonym of a part of a path, without a mark of the kernel.
    fn part(&mut self, part: &[u8]) -> Vec<u8> {
        const DELETED: &[u8] = b" (deleted)";
        if let Some(name) = part.strip_suffix(DELETED) {
            return [&self.part(name), DELETED].concat();
        }
        if let Some(prefix) = PREFIXES.iter().find(|prefix| part.starts_with(prefix)) {
            let name = part.get(prefix.len()..).unwrap_or_default();
            return [prefix, self.name(name).as_slice()].concat();
        }
        self.name(part)
    }

    /// Returns the pseudonym of a name: that of a file, a thread, a function. A widely used
    /// extension stays.
    pub(super) fn name(&mut self, name: &[u8]) -> Vec<u8> {
        if matches!(name, b"" | b"." | b"..") {
            return name.to_vec();
        }
        let dot = name.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0);
        let extension = dot.and_then(|dot| name.get(dot..));
        let is_kept = |extension: &&[u8]| {
            extension.len() <= EXTENSION_BYTES_MAX + 1
                && extension
                    .get(1..)
                    .and_then(|word| std::str::from_utf8(word).ok())
                    .is_some_and(|word| EXTENSIONS.contains(&word.to_ascii_lowercase().as_str()))
        };
        match extension.filter(is_kept) {
            Some(extension) => {
                let stem = name.get(..name.len() - extension.len()).unwrap_or_default();
                // Files of one stem keep one.
                [self.stem(stem).as_slice(), extension].concat()
            }
            None => self.stem(name),
        }
    }

    fn stem(&mut self, stem: &[u8]) -> Vec<u8> {
        if stem.len() > REMEMBERED_BYTES_MAX {
            return self.hash(stem, 0);
        }
        if let Some(known) = self.short.get(stem) {
            return known.clone();
        }
        let mut pseudonym = self.hash(stem, 0);
        let is_free =
            |this: &Self, pseudonym: &[u8]| !this.used.contains(pseudonym) && pseudonym != stem;
        let mut tries = 1;
        while !is_free(self, &pseudonym) && tries < TRIES_MAX {
            pseudonym = self.hash(stem, tries);
            tries += 1;
        }
        self.shared += u64::from(self.used.contains(&pseudonym));
        if self.short.len() < REMEMBERED_MAX {
            self.used.insert(pseudonym.clone());
            self.short.insert(stem.to_vec(), pseudonym.clone());
        }
        pseudonym
    }

    /// Returns a hash of these bytes, of their length.
    fn hash(&self, bytes: &[u8], number: u32) -> Vec<u8> {
        let letters: &[u8] = if bytes.len() < 3 { SHORT_LETTERS } else { LETTERS };
        let mut out = Vec::with_capacity(bytes.len());
        let mut block: u32 = 0;
        while out.len() < bytes.len() {
            let mut hash = Sha256::new();
            hash.update(self.key);
            hash.update(number.to_le_bytes());
            hash.update(block.to_le_bytes());
            hash.update(bytes);
            let letter = |byte: u8| letters.get(usize::from(byte) % letters.len()).copied();
            out.extend(hash.finalize().into_iter().filter_map(letter));
            block += 1;
        }
        out.truncate(bytes.len());
        out
    }

    /// Returns the pseudonym of a user's number: root stays.
    pub(super) fn user(&self, user: u32) -> u32 {
        if matches!(user, ROOT_USER | NO_USER) {
            return user;
        }
        let mut hash = Sha256::new();
        hash.update(self.key);
        hash.update(b"user");
        hash.update(user.to_le_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        let [first, second, third, ..] = hash;
        // Numbers above those that systems give, with six or more digits.
        1_000_000 + u32::from_le_bytes([first, second, third, 0])
    }
}

/// Returns true for the kernel's name of an object with a number, such as `pipe:[7]`.
fn is_numbered_object(target: &[u8]) -> bool {
    let Some(colon) = target.iter().position(|byte| *byte == b':') else { return false };
    let (word, number) = target.split_at(colon);
    let digits = number.strip_prefix(b":[").and_then(|digits| digits.strip_suffix(b"]"));
    KERNEL_OBJECTS.contains(&word)
        && digits.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("letters")
    }

    #[test]
    fn pseudonym_keeps_tree_length_and_extension() {
        let mut names = Pseudonyms::new(b"salt");
        names.keep_disk("vda1");
        let mut path = |name: &str| text(names.path(name.as_bytes()));
        let first = path("/srv/customers/report.txt");
        assert_eq!(first.len(), "/srv/customers/report.txt".len());
        let second = path("/srv/customers/other.smith");
        let parts = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
        let (first, second) = (parts(&first), parts(&second));
        assert_eq!(first[..3], second[..3], "the tree keeps its shape");
        assert!(first[3].ends_with(".txt") && !first[3].starts_with("report"));
        assert!(!second[3].contains("smith"), "only widely used extensions stay");
        assert_eq!(path("srv"), first[1], "spelled names have the same pseudonym");
        for same in ["/dev/null", "/dev/vda1", "/dev/shm", "/dev/fd", "/proc", "..", "./", ""] {
            assert_eq!(path(same), same);
        }
        assert_ne!(path("/dev/mapper/home"), "/dev/mapper/home");
        assert!(path("/srv/a (deleted)").ends_with(" (deleted)"));
        assert!(path("/memfd:secret (deleted)").starts_with("/memfd:"));
        assert!(!path("/memfd:secret (deleted)").contains("secret"));
    }

    #[test]
    fn different_names_have_different_pseudonyms() {
        let mut names = Pseudonyms::new(b"salt");
        let mut all = FxHashSet::default();
        for number in 0..3000_u32 {
            let name = format!("{number:03}");
            all.insert(names.name(name.as_bytes()));
            assert_eq!(names.name(name.as_bytes()), names.name(name.as_bytes()));
        }
        assert_eq!((all.len(), names.shared), (3000, 0));
    }

    /// Fails if a name that looks like one of the kernel stays.
    #[test]
    fn only_names_of_the_kernel_stay_and_only_as_targets() {
        let mut names = Pseudonyms::new(b"salt");
        for same in ["pipe:[77]", "socket:[1]", "anon_inode:[eventfd]", "anon_inode:inotify"] {
            assert_eq!(text(names.target(same.as_bytes())), same);
            assert_ne!(text(names.path(same.as_bytes())), same);
        }
        let hostile = ["pipe:[mergerplan]", "pipe:[7]/mergerplan", "anon_inode:mergerplan"];
        for name in hostile.iter().chain(&["socket:[", "anon_inode:[eventfd]/mergerplan"]) {
            let target = text(names.target(name.as_bytes()));
            assert!(target != *name && !target.contains("mergerplan"), "{name}: {target}");
        }
    }

    #[test]
    fn salt_decides() {
        let mut names = [b"a", b"a", b"b"].map(|salt: &[u8; 1]| Pseudonyms::new(salt));
        let [first, again, other] = &mut names;
        assert_eq!(first.path(b"/some/name"), again.path(b"/some/name"));
        assert_ne!(first.path(b"/some/name"), other.path(b"/some/name"));
        assert_eq!((first.user(0), first.user(u32::MAX)), (0, u32::MAX));
        assert_eq!(first.user(1000), again.user(1000));
        assert_ne!(first.user(1000), first.user(1001));
    }
}
