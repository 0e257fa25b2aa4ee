//! Mounts in an archive: their names, and whether other machines see the same files.

use super::text::printable;
use crate::operation::mount_table::MountEntry;

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

/// True if other machines see the same files under the mount.
pub(super) fn is_network(mount: &MountEntry) -> bool {
    NETWORK.contains(&mount.fs_type.as_str())
}

/// Returns mount point, source and type of the file system, as an archive has them.
pub(super) fn properties(mount: &MountEntry) -> [String; 3] {
    let bytes = [&mount.point, &mount.source].map(|bytes| printable(bytes).into_owned());
    let [point, source] = bytes;
    [point, source, printable(mount.fs_type.as_bytes()).into_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::mount_table::MountTable;

    #[test]
    fn properties_are_printable() {
        let table = MountTable::parse(
            b"30 22 0:40 / /home\\040\x1b rw - nfs4 server:/a rw\n31 22 8:1 / /data rw - ext4 /dev/sda1 rw\n",
        );
        let [home, data] = table.mounts() else { panic!("two mounts") };
        assert_eq!((is_network(home), is_network(data)), (true, false));
        assert_eq!(properties(home), ["/home \\x1b", "server:/a", "nfs4"]);
    }
}
