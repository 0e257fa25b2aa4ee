//! Mounts in an archive: their names.

use super::text::printable;
use crate::operation::mount_table::MountEntry;

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
    use crate::operation::shared_files;

    #[test]
    fn properties_are_printable() {
        let table = MountTable::parse(
            b"30 22 0:40 / /home\\040\x1b rw - nfs4 server:/a rw\n31 22 8:1 / /data rw - ext4 /dev/sda1 rw\n",
        );
        let [home, data] = table.mounts() else { panic!("two mounts") };
        let are_shared = [home, data].map(shared_files::is_network);
        assert_eq!(are_shared, [true, false]);
        assert_eq!(properties(home), ["/home \\x1b", "server:/a", "nfs4"]);
    }
}
