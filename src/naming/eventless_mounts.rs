//! File systems whose opens fanotify does not report by handle.
//!
//! Files of procfs and sysfs have no handles. An open there has no event, so that the event at this
//! time is another call's.

/// File systems without handles.
const EVENTLESS: [&[u8]; 2] = [b"proc", b"sysfs"];

/// Links of procfs that lead to files elsewhere; sysfs has none.
const LINKS: [&[u8]; 6] = [b"cwd", b"exe", b"fd", b"map_files", b"ns", b"root"];

/// Mount points, and whether opens of files there have no events.
#[derive(Debug, Default)]
pub(super) struct EventlessMounts(Vec<(Box<[u8]>, bool)>);

impl EventlessMounts {
    /// Reads the content of `/proc/self/mountinfo`.
    pub(super) fn new(mountinfo: &[u8]) -> Self {
        let mount = |line: &[u8]| {
            let mut words = line.split(|byte| *byte == b' ');
            let mount_point = words.nth(4)?;
            let fs_type = words.skip_while(|word| *word != b"-").nth(1)?;
            Some((mount_point.into(), EVENTLESS.contains(&fs_type)))
        };
        Self(mountinfo.split(|byte| *byte == b'\n').filter_map(mount).collect())
    }

    /// True if this path leads to a file there.
    pub(super) fn has(&self, path: &[u8]) -> bool {
        let mut parts = path.split(|byte| *byte == b'/');
        let leads_out = parts.any(|part| part == b".." || LINKS.contains(&part));
        let is_in = |mount: &&(Box<[u8]>, bool)| {
            path.strip_prefix(&*mount.0).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with(b"/") || mount.0.ends_with(b"/")
            })
        };
        // The last of the mounts on one directory is on top.
        let mount = self.0.iter().filter(is_in).max_by_key(|mount| mount.0.len());
        !leads_out && mount.is_some_and(|mount| mount.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innermost_mount_decides() {
        let mounts = EventlessMounts::new(
            b"21 1 0:21 / /proc rw - proc proc rw\n\
              22 1 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
              23 22 0:13 / /sys/kernel/tracing rw - tracefs tracefs rw\n\
              25 1 254:0 / / rw - ext4 /dev/vda rw\n\
              damaged\n",
        );
        let eventless: Vec<&str> = [
            "/proc/stat",
            "/proc/self/maps",
            "/proc/self/fd/3",
            "/proc/1/cwd/passwd",
            "/proc/../etc/passwd",
            "/sys/block",
            "/sys",
            "/sys/kernel/tracing/trace",
            "/system",
            "/etc/passwd",
            "stat",
        ]
        .into_iter()
        .filter(|path| mounts.has(path.as_bytes()))
        .collect();
        assert_eq!(eventless, ["/proc/stat", "/proc/self/maps", "/sys/block", "/sys"]);
        assert!(!EventlessMounts::default().has(b"/proc/stat"));
    }
}
