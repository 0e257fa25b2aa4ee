//! Files that several hosts have: which of them are the same file.
//!
//! `server:/a` with the file `/b/c` and `server:/a/b` with `/c` are the same place. A source that
//! names no server (`beegfs_nodev`, `gpfs0`) counts together with the mount point. The tag of a 9p
//! file system and the device of gfs2 or ocfs2 name none of both: their files are of their host.

use super::mount_table::MountEntry;

/// File systems of several machines. FUSE does not count: only its daemon knows.
const NETWORK: &[&str] = &[
    "9p",
    "afs",
    "beegfs",
    "beegfs_nodev",
    "ceph",
    "cifs",
    "fuse.ceph",
    "fuse.glusterfs",
    "fuse.sshfs",
    "gfs2",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "ocfs2",
    "orangefs",
    "panfs",
    "pvfs2",
    "smb3",
    "wekafs",
];

/// Network file systems whose source is a name of the host alone.
const NAMED_BY_HOST: [&str; 3] = ["9p", "gfs2", "ocfs2"];

/// Returns true if other machines see the same files under the mount.
pub fn is_network(mount: &MountEntry) -> bool {
    NETWORK.contains(&mount.fs_type.as_str())
}

/// Returns type and place of a file that several hosts have; `None`: no other host is known to have
/// it.
pub fn shared_place(mount: &MountEntry, path: &[u8]) -> Option<Vec<u8>> {
    let fs_type = mount.fs_type.as_str();
    if !is_network(mount) || NAMED_BY_HOST.contains(&fs_type) {
        return None;
    }
    let fs_type = match fs_type {
        "nfs4" => "nfs",
        "smb3" => "cifs",
        other => other,
    };
    let below = path.strip_prefix(mount.point.as_slice())?;
    if is_of_this_host(&mount.source) {
        return None;
    }
    let names_server = mount.source.contains(&b':') || mount.source.starts_with(b"//");
    let point: &[u8] = if names_server { b"" } else { &mount.point };
    let mut place = [fs_type.as_bytes(), b"\0", point, b"\0", &mount.source].concat();
    for part in [mount.root.as_slice(), below] {
        for name in part.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            if place.last() != Some(&b'/') {
                place.push(b'/');
            }
            place.extend_from_slice(name);
        }
    }
    Some(place)
}

/// Returns true if the server of a source is the host itself: a proxy leads to the server, and
/// another host's proxy may lead to another one. The same is said of a home directory of `sshfs`,
/// which is that of the user who mounts it.
fn is_of_this_host(source: &[u8]) -> bool {
    let source = source.strip_prefix(b"//").unwrap_or(source);
    let is_home = source.ends_with(b":");
    let is_local =
        [&b"localhost"[..], b"127.", b"[::1]", b"::1"].iter().any(|name| source.starts_with(name));
    is_home || is_local
}
