//! Mounts of `/proc/PID/mountinfo`: the file system of a path.

use super::text::printable;

/// One mount.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MountPoint {
    point: Vec<u8>,
    /// The file system type: `ext4`, `nfs4`, `fuse.sshfs`.
    pub(super) file_system: String,
    /// Mounted device or directory: `/dev/sda2`, `server:/export`.
    pub(super) source: String,
}

impl MountPoint {
    /// Mount point.
    pub(super) fn point(&self) -> String {
        printable(&self.point).into_owned()
    }

    /// True if other machines see the same files under it. FUSE does not count: only its daemon
    /// knows.
    pub(super) fn is_network(&self) -> bool {
        const TYPES: &[&str] = &[
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
        TYPES.contains(&self.file_system.as_str())
    }
}

/// Mounts of the capture's mount namespace.
#[derive(Debug, Default)]
pub(super) struct MountTable(Vec<MountPoint>);

impl MountTable {
    /// Parses the text (`Documentation/filesystems/proc.rst`, section 3.5); invalid lines are
    /// skipped.
    pub(super) fn parse(text: &[u8]) -> Self {
        Self(text.split(|&text| text == b'\n').filter_map(line).collect())
    }

    /// Mount that contains this path: the longest prefix, and of several at one point the last,
    /// which covers the others.
    pub(super) fn of(&self, path: &[u8]) -> Option<&MountPoint> {
        self.0
            .iter()
            .filter(|mount| is_below(path, &mount.point))
            .max_by_key(|mount| mount.point.len())
    }
}

/// Parses `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`; any
/// number of fields precede the `-`.
fn line(line: &[u8]) -> Option<MountPoint> {
    let mut fields = line.split(|&line| line == b' ');
    let point = unescape(fields.nth(4)?);
    let mut behind = fields.skip_while(|field| field != b"-").skip(1);
    let file_system = printable(behind.next()?).into_owned();
    let source = printable(&unescape(behind.next()?)).into_owned();
    Some(MountPoint { point, file_system, source })
}

fn is_below(path: &[u8], point: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(point) else { return false };
    rest.first().is_none_or(|&rest| rest == b'/') || point == b"/"
}

/// Reverses the escapes of blanks, tabs, line ends and backslashes: `\` and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        match (first, behind) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => out.push(first),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
        22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
        30 22 0:40 / /home rw - nfs4 server:/export\\040a rw\n\
        31 22 0:41 / /mnt/a\\040b rw shared:5 master:2 - tmpfs tmpfs rw\n\
        32 22 8:1 / /data rw - ext4 /dev/sda1 rw\n\
        33 32 8:2 / /data rw - xfs /dev/sdb1 rw\n\
        nonsense\n";

    #[track_caller]
    fn check(path: &str, expected: Option<(&str, &str, &str, bool)>) {
        let mounts = MountTable::parse(TEXT);
        let found = mounts.of(path.as_bytes());
        let found = found.map(|found| {
            (found.point(), found.file_system.clone(), found.source.clone(), found.is_network())
        });
        let expected = expected.map(|expected| {
            (expected.0.to_owned(), expected.1.to_owned(), expected.2.to_owned(), expected.3)
        });
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn the_longest_prefix_of_whole_names_wins() {
        check("/etc/passwd", Some(("/", "ext4", "/dev/vda1", false)));
        check("/home", Some(("/home", "nfs4", "server:/export a", true)));
        check("/homes/x", Some(("/", "ext4", "/dev/vda1", false)));
        check("/mnt/a b/c", Some(("/mnt/a b", "tmpfs", "tmpfs", false)));
        check("/data/x", Some(("/data", "xfs", "/dev/sdb1", false)));
        check("relative", None);
    }
}
