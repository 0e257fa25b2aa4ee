//! Kprobe and uprobe events of our own (`Documentation/trace/kprobetrace.rst`, `uprobetracer.rst`):
//! a line in `kprobe_events` or `uprobe_events` defines one, another line removes it.
//!
//! They outlive their tracer. Its process number is in the name of their group, and while the
//! tracer lives it holds an instance (`super::instance`). So the next tracer recognizes leftover
//! probes and removes them.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use super::tracefs::Tracefs;
use crate::event::layer;
use crate::event::probe_events::{
    COMPLETED_PREFIX, FILE_PREFIX, GIVEN_PREFIX, GROUP_PREFIX, PATH_PREFIX, SUBMITTED_PREFIX,
};

/// Kind of code that has probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// Functions of the kernel.
    Kernel,
    /// Code of programs.
    User,
}

impl ProbeKind {
    /// Name of the file with all definitions.
    fn definitions(self) -> &'static str {
        match self {
            Self::Kernel => "kprobe_events",
            Self::User => "uprobe_events",
        }
    }

    /// Reason for which that file does not exist.
    fn missing(self) -> &'static str {
        match self {
            Self::Kernel => {
                "this kernel has no kprobe events (it is built without CONFIG_KPROBE_EVENTS)"
            }
            Self::User => {
                "this kernel has no uprobe events (it is built without CONFIG_UPROBE_EVENTS)"
            }
        }
    }
}

/// Limit on the threads inside a probed function: from entry to return each needs a slot, and
/// further calls are missed. Some threads wait in there for a disk.
const RETURNS_MAX: u32 = 1024;

/// Position of a probe in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbePosition {
    /// At the entry of the function.
    Entry,
    /// At its return.
    Return,
}

/// Our probes; the drop removes them. No instance may record them any more then.
#[derive(Debug)]
pub struct ProbeGroup {
    kind: ProbeKind,
    tracefs: PathBuf,
    name: String,
    /// Names of its events.
    events: Vec<String>,
}

impl ProbeGroup {
    /// Creates a group without probes.
    ///
    /// # Errors
    ///
    /// The kernel has no such events, or this process may not define them.
    pub fn new(tracefs: &Tracefs, kind: ProbeKind) -> io::Result<Self> {
        let path = tracefs.root().join(kind.definitions());
        let name = format!("{GROUP_PREFIX}{}", std::process::id());
        // Append: truncating the file would remove all probes of the machine.
        OpenOptions::new().append(true).open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::new(error.kind(), kind.missing()),
            _ => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
        })?;
        Ok(Self { kind, tracefs: tracefs.root().to_owned(), name, events: Vec::new() })
    }

    /// Name of the group: the system of its events.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of its events.
    pub fn events(&self) -> &[String] {
        &self.events
    }

    /// Defines a probe with the name `event` on a function, with these fields.
    ///
    /// # Errors
    ///
    /// Those of the kernel: `ENOENT`, `EINVAL`: unknown function or field; `EPERM`: locked down.
    pub fn define(
        &mut self,
        at: ProbePosition,
        event: &str,
        function: &str,
        fields: &str,
    ) -> io::Result<()> {
        let kind = match at {
            ProbePosition::Entry => "p".to_owned(),
            ProbePosition::Return => format!("r{RETURNS_MAX}"),
        };
        let (group, event) = (&self.name, format!("{event}_{}", std::process::id()));
        self.write(&format!("{kind}:{group}/{event} {function} {fields}\n"))?;
        self.events.push(event);
        Ok(())
    }

    /// Defines a probe in the code of a file, at this offset in bytes, with these fields. Probes of
    /// one name are one event at several places.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    pub fn define_in(
        &mut self,
        event: &str,
        file: &File,
        offset: u64,
        fields: &str,
    ) -> io::Result<()> {
        let (group, event) = (&self.name, format!("{event}_{}", std::process::id()));
        // The kernel follows the link, so the file's path, which may have any characters, is not in
        // the line.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        self.write(&format!("p:{group}/{event} {path}:{offset:#x} {fields}\n"))?;
        if !self.events.contains(&event) {
            self.events.push(event);
        }
        Ok(())
    }

    /// Removes all probes of the group.
    pub fn clear(&mut self) {
        for event in std::mem::take(&mut self.events) {
            // The next tracer removes a leftover probe.
            let _ = self.write(&format!("-:{}/{event}\n", self.name));
        }
    }

    /// Leaves the probes to another process.
    pub fn forget(mut self) {
        self.events.clear();
    }

    /// Samples that the kernel has missed. Uprobes miss none: their recording may sleep until there
    /// is room.
    ///
    /// # Errors
    ///
    /// Those of reading `kprobe_profile`.
    pub fn missed(&self) -> io::Result<u64> {
        if self.kind == ProbeKind::User {
            return Ok(0);
        }
        let text = fs::read_to_string(self.tracefs.join("kprobe_profile"))?;
        Ok(self.events.iter().map(|it| missed(&text, it)).sum())
    }

    fn write(&self, line: &str) -> io::Result<()> {
        let path = self.tracefs.join(self.kind.definitions());
        OpenOptions::new().append(true).open(path)?.write_all(line.as_bytes())
    }
}

impl Drop for ProbeGroup {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Removes the probes of tracers that have ended: `is_alive` returns whether a tracer with this
/// process number exists. Returns false if a probe could not be removed: an instance records the
/// probe.
pub fn remove_stale(tracefs: &Tracefs, is_alive: impl Fn(u32) -> bool) -> bool {
    let mut are_removed = true;
    for kind in [ProbeKind::Kernel, ProbeKind::User] {
        let path = tracefs.root().join(kind.definitions());
        let text = fs::read_to_string(&path).unwrap_or_default();
        let dead = text.lines().filter_map(ours).filter(|it| !is_alive(it.0)).map(|it| it.1);
        // One event may have many definitions.
        for event in dead.collect::<BTreeSet<_>>() {
            let file = OpenOptions::new().append(true).open(&path);
            let removed = file.and_then(|mut it| it.write_all(format!("-:{event}\n").as_bytes()));
            are_removed &= removed.is_ok();
        }
    }
    are_removed
}

/// Process number and `GROUP/EVENT` of a line of definitions, if a tracer has written it: both
/// names follow our scheme.
fn ours(line: &str) -> Option<(u32, &str)> {
    let event = line.split_once(':')?.1.split_whitespace().next()?;
    let (group, name) = event.split_once('/')?;
    let number = group.strip_prefix(GROUP_PREFIX)?;
    let name = name.strip_suffix(number)?.strip_suffix('_')?;
    let is_ours = OUR_EVENTS.iter().any(|it| name.starts_with(it));
    is_ours.then(|| Some((process_number(number)?, event)))?
}

/// Prefixes of the names of our probes.
const OUR_EVENTS: [&str; 7] = [
    PATH_PREFIX,
    GIVEN_PREFIX,
    FILE_PREFIX,
    SUBMITTED_PREFIX,
    COMPLETED_PREFIX,
    layer::ENTER_PREFIX,
    layer::LEAVE_PREFIX,
];

/// Parses a process number as the kernel and we write it.
pub(super) fn process_number(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|it| it.is_ascii_digit()) && !text.starts_with('0');
    is_plain.then(|| text.parse().ok())?
}

/// Missed samples: the last column of an event's line in `kprobe_profile`.
fn missed(profile: &str, event: &str) -> u64 {
    let lines = profile.lines().map(|it| it.split_whitespace().collect::<Vec<_>>());
    let of_event = lines.filter(|it| it.first() == Some(&event));
    of_event.filter_map(|it| it.get(2)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_probes_match() {
        let line = "r1024:iotrace_42/path_42 do_getname name=+0(+0($retval)):string";
        assert_eq!(ours(line), Some((42, "iotrace_42/path_42")));
        assert_eq!(ours("p:kprobes/vfs_read vfs_read"), None);
        assert_eq!(ours("p:iotrace_x/path vfs_read"), None);
        assert_eq!(ours("p:iotrace_42 vfs_read"), None);
        let given = "p:iotrace_7/given_nr_7 /lib/libc.so.6:0x10 name=+0(%si):ustring";
        assert_eq!(ours(given), Some((7, "iotrace_7/given_nr_7")));
        let entry = "p:iotrace_7/enter_vfs_read_7 vfs_read";
        assert_eq!(ours(entry), Some((7, "iotrace_7/enter_vfs_read_7")));
        for others in ["mine", "path", "path_43", "mine_42", "path42"] {
            assert_eq!(ours(&format!("p:iotrace_42/{others} vfs_read")), None, "{others}");
        }
        assert_eq!(ours("p:iotrace_042/path_042 vfs_read"), None);
        assert_eq!(ours(""), None);
    }

    #[test]
    fn misses_stand_in_the_last_column() {
        let profile = "  path_42          1200        3\n  path_421          7        9\n";
        assert_eq!(missed(profile, "path_42"), 3);
        assert_eq!(missed(profile, "file_42"), 0);
    }
}
