//! Mounts of `/proc/PID/mountinfo` (`Documentation/filesystems/proc.rst`, section 3.5): the file
//! system of a path, and of a device number.

use rustc_hash::FxHashMap;

use super::model::MountNamespace;
use crate::units::DevId;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Device number of its files, unless the file system gives them other ones.
    pub dev: DevId,
    /// Directory of the file system that is mounted.
    pub root: Vec<u8>,
    /// Mount point.
    pub point: Vec<u8>,
    /// Options of the mount: `rw,relatime`.
    pub options: String,
    /// Type of the file system: `ext4`, `nfs4`, `fuse.sshfs`.
    pub fs_type: String,
    /// Mounted device or directory: `/dev/sda2`, `server:/export`.
    pub source: Vec<u8>,
    /// Options of the file system, which all of its mounts share.
    pub fs_options: String,
}

/// File systems that only show the kernel's state: no disk has their files.
const PSEUDO: [&str; 22] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "mqueue",
    "nfsd",
    "nsfs",
    "proc",
    "pstore",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

/// File systems whose files have other device numbers than their mounts: each subvolume or layer
/// has one.
const NUMBERED_WITHIN: [&str; 3] = ["bcachefs", "btrfs", "overlay"];

/// Links of procfs that lead to files of other file systems.
const LINKS: [&[u8]; 6] = [b"cwd", b"exe", b"fd", b"map_files", b"ns", b"root"];

impl MountEntry {
    /// True for a file system that only shows the kernel's state.
    pub fn is_pseudo(&self) -> bool {
        PSEUDO.contains(&self.fs_type.as_str())
    }

    /// True if no block device has the files: those of tmpfs, FUSE, NFS and the like.
    pub fn has_no_device(&self) -> bool {
        let is_numbered = NUMBERED_WITHIN.contains(&self.fs_type.as_str());
        self.dev.major() == 0 && !is_numbered && !self.source.starts_with(b"/dev/")
    }
}

/// Mount of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMount<'a> {
    /// The mount.
    pub mount: &'a MountEntry,
    /// True if only the path shows it: the device of the file is not known, or not in the table.
    pub is_by_path: bool,
}

/// Mounts of the tracer's mount namespace at the start of a recording.
#[derive(Clone, Debug, Default)]
pub struct MountTable {
    mounts: Vec<MountEntry>,
    /// Last mount of each mount point, which covers the others.
    by_point: FxHashMap<Vec<u8>, usize>,
}

impl MountTable {
    /// Returns the number of its mounts.
    pub fn count(&self) -> usize {
        self.mounts.len()
    }

    /// Parses the text; invalid lines are skipped.
    pub fn parse(text: &[u8]) -> Self {
        let lines = text.split(|byte| *byte == b'\n');
        let mounts: Vec<MountEntry> = lines.filter_map(entry).collect();
        let points = mounts.iter().enumerate().map(|(place, mount)| (mount.point.clone(), place));
        Self { by_point: points.collect(), mounts }
    }

    /// Returns all mounts in the order of the table.
    pub fn mounts(&self) -> &[MountEntry] {
        &self.mounts
    }

    /// Returns the mount on this mount point.
    pub fn at(&self, point: &[u8]) -> Option<&MountEntry> {
        self.mounts.get(*self.by_point.get(point)?)
    }

    /// Returns the mount with the longest mount point above a path; `None`: the path does not begin
    /// at the root, or it may lead to another file system through a link of procfs. In the table of
    /// a job of several hosts, paths and mount points begin with the name of a host.
    pub fn of_path(&self, path: &[u8]) -> Option<&MountEntry> {
        let root = path.iter().position(|byte| *byte == b'/')?;
        let mut above = path;
        let mount = loop {
            if let Some(mount) = self.at(above) {
                break mount;
            }
            let slash = above.iter().rposition(|byte| *byte == b'/')?;
            // The root is the last directory above all others.
            above = match slash == root {
                true if above.len() > root + 1 => above.get(..=root)?,
                true => return None,
                false => above.get(..slash)?,
            };
        };
        let mut parts = path.split(|byte| *byte == b'/');
        let leads_out = parts.any(|part| LINKS.contains(&part)) && mount.fs_type == "proc";
        (!leads_out).then_some(mount)
    }

    /// Returns the mount of a file with this path, in the mounts of `namespace`, and this device
    /// number, as far as they are known.
    pub fn of_file(
        &self,
        path: &[u8],
        namespace: MountNamespace,
        dev: Option<DevId>,
    ) -> Option<FileMount<'_>> {
        let is_own = namespace == MountNamespace::OWN;
        let by_path = || self.of_path(path).filter(|_| is_own);
        let Some(dev) = dev else {
            return by_path().map(|mount| FileMount { mount, is_by_path: true });
        };
        let by_path = by_path();
        if let Some(mount) = by_path.filter(|mount| mount.dev == dev).or_else(|| self.of_dev(dev)) {
            return Some(FileMount { mount, is_by_path: false });
        }
        let is_numbered = |mount: &&MountEntry| NUMBERED_WITHIN.contains(&mount.fs_type.as_str());
        by_path.filter(is_numbered).map(|mount| FileMount { mount, is_by_path: true })
    }

    /// Returns the first mount of a file system.
    pub fn of_dev(&self, dev: DevId) -> Option<&MountEntry> {
        self.mounts.iter().find(|mount| mount.dev == dev)
    }
}

/// Parses `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`; any
/// number of fields precede the `-`.
fn entry(line: &[u8]) -> Option<MountEntry> {
    let text = |field: &[u8]| String::from_utf8_lossy(&unescaped(field)).into_owned();
    let mut fields = line.split(|byte| *byte == b' ');
    let dev = DevId::parse(std::str::from_utf8(fields.nth(2)?).ok()?)?;
    let (root, point) = (unescaped(fields.next()?), unescaped(fields.next()?));
    let options = text(fields.next()?);
    let mut behind = fields.skip_while(|field| field != b"-").skip(1);
    let fs_type = text(behind.next()?);
    let source = unescaped(behind.next()?);
    let fs_options = behind.next().map(text).unwrap_or_default();
    Some(MountEntry { dev, root, point, options, fs_type, source, fs_options })
}

/// Reverses the escapes of blanks, tabs, line ends and backslashes: `\` and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
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
        22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=continue\n\
        23 22 0:20 / /proc rw,nosuid shared:5 - proc proc rw\n\
        30 22 0:40 / /pub rw - nfs4 server:/export\\040a rw\n\
        31 22 0:41 / /mnt/a\\040b rw shared:5 master:2 - tmpfs tmpfs rw\n\
        32 22 8:1 / /data rw - ext4 /dev/sda1 rw\n\
        33 32 8:2 / /data rw - xfs /dev/sdb1 rw\n\
        34 22 0:50 /@ /sub rw - btrfs /dev/sdc rw\n\
        35 22 254:1 /srv /bind ro - ext4 /dev/vda1 rw\n\
        nonsense\n";

    #[test]
    fn longest_prefix_of_whole_names_is_the_mount() {
        let table = MountTable::parse(TEXT);
        let point = |path: &str| {
            let mount = table.of_path(path.as_bytes());
            mount
                .map(|mount| format!("{} {}", String::from_utf8_lossy(&mount.point), mount.fs_type))
        };
        for (path, expected) in [
            ("/etc/passwd", Some("/ ext4")),
            ("/", Some("/ ext4")),
            ("/pub", Some("/pub nfs4")),
            ("/pubs/x", Some("/ ext4")),
            ("/mnt/a b/c", Some("/mnt/a b tmpfs")),
            ("/data/x", Some("/data xfs")),
            ("/proc/7/stat", Some("/proc proc")),
            ("/proc/self/fd/7", None),
            ("relative", None),
            ("pipe:[7]", None),
        ] {
            assert_eq!(point(path).as_deref(), expected, "{path}");
        }
        assert_eq!(MountTable::default().of_path(b"/a"), None);
    }

    #[test]
    fn device_number_decides_before_the_path() {
        let table = MountTable::parse(TEXT);
        let own = MountNamespace::OWN;
        let found = |path: &str, namespace, dev| {
            let found = table.of_file(path.as_bytes(), namespace, dev)?;
            Some((String::from_utf8_lossy(&found.mount.point).into_owned(), found.is_by_path))
        };
        let place = |point: &str, is_by_path| Some((point.to_owned(), is_by_path));
        let root = Some(DevId::new(254, 1));
        assert_eq!(found("/bind/x", own, root), place("/bind", false));
        assert_eq!(found("/bind/x", own, None), place("/bind", true));
        // The path goes through a link to another file system.
        assert_eq!(found("/pub/x", own, root), place("/", false));
        assert_eq!(found("/sub/x", own, Some(DevId::new(0, 99))), place("/sub", true));
        assert_eq!(found("/etc/x", own, Some(DevId::new(7, 0))), None);
        assert_eq!(found("/etc/x", MountNamespace(1), None), None);
        assert_eq!(found("/etc/x", MountNamespace(1), root), place("/", false));
    }

    #[test]
    fn all_fields_are_read() {
        let table = MountTable::parse(TEXT);
        assert_eq!(table.mounts().len(), 8);
        let first = &table.mounts()[0];
        assert_eq!((&*first.options, &*first.fs_options), ("rw,relatime", "rw,errors=continue"));
        assert_eq!((first.source.as_slice(), first.is_pseudo()), (&b"/dev/vda1"[..], false));
        assert!(table.at(b"/proc").is_some_and(MountEntry::is_pseudo));
        assert_eq!(table.at(b"/pub").map(|mount| &*mount.source), Some(&b"server:/export a"[..]));
    }
}
