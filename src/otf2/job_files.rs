//! Files of several captures in one archive: which of them are the same file.
//!
//! - On a network file system whose mount names its server or cluster: the file with the same type,
//!   source and path below the source, on any host.
//! - Any other file: the one with the same path on the same file system of the same host.
//!
//! [`crate::operation::shared_files`] has the rule.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::mounts;
use crate::operation::model::MountNamespace;
use crate::operation::mount_table::{MountEntry, MountTable};
use crate::operation::shared_files::shared_place;

/// Host and mount of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileOrigin {
    /// Number of the host; `None`: all hosts have the file.
    pub(super) host: Option<u32>,
    /// Mount point, source and type of the file system, if they are known.
    pub(super) mount: Option<Rc<[String; 3]>>,
}

/// Host and mounts of the current capture.
#[derive(Debug, Default)]
pub(super) struct FilePlacement {
    host: u32,
    mounts: MountTable,
    /// Texts of the mounts that have files, by mount point.
    texts: FxHashMap<Vec<u8>, Rc<[String; 3]>>,
}

impl FilePlacement {
    pub(super) fn new(host: u32, mounts: MountTable) -> Self {
        Self { host, mounts, texts: FxHashMap::default() }
    }

    /// Mount of a path; the tracer's mounts are not valid in other namespaces.
    fn mount(&self, path: &[u8], namespace: MountNamespace) -> Option<&MountEntry> {
        self.mounts.of_path(path).filter(|_| namespace == MountNamespace::OWN)
    }

    /// Key of a file, equal for the same file in all captures.
    pub(super) fn key(&self, path: &[u8], namespace: MountNamespace) -> Vec<u8> {
        let mount = self.mount(path, namespace);
        if let Some(place) = mount.and_then(|mount| shared_place(mount, path)) {
            // No path begins with a NUL.
            return [b"\0shared\0", place.as_slice()].concat();
        }
        let dev = mount.map_or(u32::MAX, |mount| mount.dev.0);
        let (host, namespace) = (self.host.to_le_bytes(), namespace.0.to_le_bytes());
        [path, b"\0", &host, &namespace, &dev.to_le_bytes()].concat()
    }

    /// Host and mount of a file.
    pub(super) fn origin(&mut self, path: &[u8], namespace: MountNamespace) -> FileOrigin {
        let Some(mount) = self.mount(path, namespace) else {
            return FileOrigin { host: Some(self.host), mount: None };
        };
        let host = shared_place(mount, path).is_none().then_some(self.host);
        if let Some(known) = self.texts.get(&mount.point) {
            return FileOrigin { host, mount: Some(Rc::clone(known)) };
        }
        let (point, text) = (mount.point.clone(), Rc::new(mounts::properties(mount)));
        self.texts.insert(point, Rc::clone(&text));
        FileOrigin { host, mount: Some(text) }
    }
}

/// Shared file systems of an archive: type and source of each.
pub(super) fn shared_sources<'a>(
    origins: impl Iterator<Item = &'a FileOrigin>,
) -> BTreeSet<(String, String)> {
    let shared = origins.filter(|origin| origin.host.is_none());
    let mounts = shared.filter_map(|origin| origin.mount.as_deref());
    mounts.map(|[_, source, fs_type]| (fs_type.clone(), source.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: MountNamespace = MountNamespace::OWN;

    fn placement(host: u32, lines: &str) -> FilePlacement {
        let root = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
        FilePlacement::new(host, MountTable::parse(format!("{root}{lines}").as_bytes()))
    }

    /// Checks whether two hosts have the same file.
    #[track_caller]
    fn check(one: [&str; 2], other: [&str; 2], is_same: bool) {
        let key =
            |host, [mounts, path]: [&str; 2]| placement(host, mounts).key(path.as_bytes(), OWN);
        assert_eq!(key(0, one) == key(1, other), is_same, "{one:?} {other:?}");
    }

    #[test]
    fn files_of_a_proxy_on_the_host_stay_with_the_host() {
        for source in
            ["127.0.0.1:/", "localhost:/export", "[::1]:/", "//localhost/share", "user@s:"]
        {
            let mounts = format!("30 22 0:40 / /net rw - nfs4 {source} rw\n");
            check([&mounts, "/net/a"], [&mounts, "/net/a"], false);
        }
    }

    #[test]
    fn shared_files_are_those_of_the_same_server_and_place() {
        let home = "30 22 0:40 / /net rw - nfs4 server:/export rw\n";
        let elsewhere = "31 22 0:55 / /mnt/h rw - nfs server:/export rw\n";
        let below = "31 22 0:55 / /b rw - nfs4 server:/export/b rw\n";
        let bound = "31 22 0:55 /b /c rw - nfs4 server:/export rw\n";
        let other = "30 22 0:40 / /net rw - nfs4 second:/export rw\n";
        check([home, "/net/a"], [home, "/net/a"], true);
        check([home, "/net/a"], [elsewhere, "/mnt/h/a"], true);
        check([home, "/net/b/a"], [below, "/b/a"], true);
        check([home, "/net/b/a"], [bound, "/c/a"], true);
        check([home, "/net/a"], [other, "/net/a"], false);
        check([home, "/net/a"], [home, "/net/b"], false);
        check([home, "/etc/hosts"], [home, "/etc/hosts"], false);
    }

    #[test]
    fn sources_without_a_server_count_with_their_mount_points() {
        let [one, two] = ["/one", "/two"]
            .map(|point| format!("30 22 0:40 / {point} rw - beegfs beegfs_nodev rw\n"));
        check([&one, "/one/a"], [&one, "/one/a"], true);
        check([&one, "/one/a"], [&two, "/two/a"], false);
        for kind in ["9p share0", "gfs2 /dev/sdb1", "ocfs2 /dev/sdb1"] {
            let line = format!("30 22 0:40 / /s rw - {kind} rw\n");
            check([&line, "/s/a"], [&line, "/s/a"], false);
        }
    }

    #[test]
    fn files_of_a_host_differ_by_file_system_and_namespace() {
        let other = "23 22 0:41 / /tmp rw - tmpfs tmpfs rw\n";
        let keys = [
            placement(0, "").key(b"/tmp/a", OWN),
            placement(0, other).key(b"/tmp/a", OWN),
            placement(1, "").key(b"/tmp/a", OWN),
            placement(0, "").key(b"/tmp/a", MountNamespace(7)),
        ];
        let different: BTreeSet<&Vec<u8>> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
        assert_eq!(placement(0, other).key(b"/tmp/a", OWN), keys[1]);
        let mut placement = placement(4, other);
        let origin = placement.origin(b"/tmp/a", OWN);
        let mount = ["/tmp", "tmpfs", "tmpfs"].map(str::to_owned);
        assert_eq!(origin, FileOrigin { host: Some(4), mount: Some(Rc::new(mount)) });
        assert_eq!(placement.origin(b"relative", OWN).mount, None);
    }
}
