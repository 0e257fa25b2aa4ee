//! Keys of a job: processes, devices and files of several captures in one fold.
//!
//! ```text
//!   fold of capture 1 ──┐                    a process of a capture  → a process of its own
//!   fold of capture 2 ──┼─ absorb, by keys ─► a device of a host     → a device of its own
//!   …                   │                    a file of a host        → HOST:PATH
//!   fold of capture n ──┘                    a file of a file server → one for all hosts
//! ```
//!
//! A job of one host keeps paths and device numbers as they are. Which files several hosts share is
//! the rule of [`crate::operation::shared_files`].

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::bounded_map::KEYS_MAX;
use super::file_key::KeyParts;
use crate::capture::wall_clock::WallClock;
use crate::operation::model::{MountNamespace, ProcessInfo, ProcessKey, ThreadKey};
use crate::operation::mount_table::MountTable;
use crate::operation::shared_files::shared_place;
use crate::units::{DevId, KernelTime};

/// Fold whose results for several captures are put together.
pub trait Absorb {
    /// Adds the fold of one more capture; `keys` translates its keys.
    fn absorb(&mut self, other: Self, keys: &mut CaptureKeys<'_>);
}

/// Major number of the devices of a job of several hosts: the kernel has none with it.
const MAJOR: u32 = 0xfff;

/// Keys of a job.
#[derive(Debug, Default)]
pub struct JobKeys {
    /// True if the job has several hosts.
    has_hosts: bool,
    /// Numbers of processes, threads and mount namespaces.
    processes: u32,
    threads: u32,
    namespaces: u32,
    /// Number of each device of each host.
    devices: FxHashMap<(usize, DevId), DevId>,
    /// Names of devices.
    pub device_names: Vec<(DevId, String)>,
    /// Key of each file that several hosts may have, by its place on the server.
    shared: FxHashMap<Vec<u8>, Vec<u8>>,
    /// Keys of these files.
    shared_keys: FxHashSet<Vec<u8>>,
}

impl JobKeys {
    /// Creates the keys of a job of one host, or of several ones.
    pub fn new(has_hosts: bool) -> Self {
        Self { has_hosts, ..Self::default() }
    }
}

/// A capture of a job.
#[derive(Clone, Debug)]
pub struct CaptureOrigin {
    /// Number of its host.
    pub host: usize,
    /// Name of its host.
    pub host_name: Arc<str>,
    /// Rank of all its processes, if it is of one rank.
    pub rank: Option<u64>,
    /// Clock of its times.
    pub clock: WallClock,
    /// Time 0 of the job on that clock, ns.
    pub zero_ns: i128,
}

/// Translation of the keys of one capture to those of its job.
#[derive(Debug)]
pub struct CaptureKeys<'a> {
    job: &'a mut JobKeys,
    /// The capture.
    pub place: CaptureOrigin,
    mounts: MountTable,
    disks: Vec<(DevId, String)>,
    processes: FxHashMap<ProcessKey, ProcessKey>,
    threads: FxHashMap<ThreadKey, ThreadKey>,
    namespaces: FxHashMap<MountNamespace, MountNamespace>,
}

impl<'a> CaptureKeys<'a> {
    /// Creates the translation for a capture with these mounts and names of disks.
    pub fn new(
        job: &'a mut JobKeys,
        place: CaptureOrigin,
        mounts: MountTable,
        disks: Vec<(DevId, String)>,
    ) -> Self {
        let (processes, threads, namespaces) = Default::default();
        Self { job, place, mounts, disks, processes, threads, namespaces }
    }

    /// Returns the key of a process.
    pub fn process(&mut self, process: ProcessKey) -> ProcessKey {
        let next = &mut self.job.processes;
        *self.processes.entry(process).or_insert_with(|| ProcessKey(counted_up(next)))
    }

    /// Returns the key of a thread.
    pub fn thread(&mut self, thread: ThreadKey) -> ThreadKey {
        let next = &mut self.job.threads;
        *self.threads.entry(thread).or_insert_with(|| ThreadKey(counted_up(next)))
    }

    /// Returns what is known of a process, with its host and rank.
    pub fn info(&mut self, info: &ProcessInfo) -> ProcessInfo {
        ProcessInfo {
            key: self.process(info.key),
            parent: None,
            rank: info.rank.or(self.place.rank),
            host: Some(Arc::from(self.place.host_name.as_bytes())),
            ..info.clone()
        }
    }

    /// Returns a time on the clock of the job, ns since its time 0; a little earlier ones are 0.
    pub fn time(&self, time: KernelTime) -> KernelTime {
        let since = self.place.clock.at(time) - self.place.zero_ns;
        KernelTime(u64::try_from(since.max(0)).unwrap_or(u64::MAX))
    }

    /// Returns the number of a file system.
    pub fn file_system(&mut self, dev: DevId) -> DevId {
        if !self.job.has_hosts {
            return dev;
        }
        let next = u32::try_from(self.job.devices.len()).unwrap_or(u32::MAX);
        *self.job.devices.entry((self.place.host, dev)).or_insert(DevId::new(MAJOR, next))
    }

    /// Returns the number of a disk or partition, which gets a name.
    pub fn device(&mut self, dev: DevId) -> DevId {
        let of_job = self.file_system(dev);
        if self.job.device_names.iter().any(|(known, _)| *known == of_job) {
            return of_job;
        }
        let name = self.disks.iter().find(|(known, _)| *known == dev);
        let name = name.map_or_else(|| dev.to_string(), |(_, name)| name.clone());
        let name = match self.job.has_hosts {
            true => format!("{}:{name}", self.place.host_name),
            false => name,
        };
        self.job.device_names.push((of_job, name));
        of_job
    }

    /// Returns the key of a file ([`super::file_key::file_key`]): with several hosts that of a file
    /// of one host begins with the name of the host.
    pub fn file(&mut self, key: &[u8]) -> Vec<u8> {
        let parts = KeyParts::of(key);
        let mounts = parts.mounts.map(|mounts| self.namespace(mounts));
        if !self.job.has_hosts {
            return KeyParts { mounts, ..parts }.key();
        }
        let path = [self.place.host_name.as_bytes(), b":", parts.path].concat();
        let own = KeyParts { path: &path, mounts, ..parts }.key();
        let mount = self.mounts.of_path(parts.path).filter(|_| mounts.is_none());
        let Some(place) = mount.and_then(|mount| shared_place(mount, parts.path)) else {
            return own;
        };
        let place = match parts.is_doubtful {
            true => [place.as_slice(), b"\0"].concat(),
            false => place,
        };
        if let Some(known) = self.job.shared.get(&place) {
            return known.clone();
        }
        // Two servers may be mounted at the same place of two hosts.
        let shown = if self.job.shared_keys.contains(key) { own } else { key.to_vec() };
        // Beyond the limit of rows all files share one.
        if self.job.shared.len() < KEYS_MAX {
            self.job.shared.insert(place, shown.clone());
            self.job.shared_keys.insert(shown.clone());
        }
        shown
    }

    /// Returns the number of a mount namespace; an unknown one stays unknown.
    fn namespace(&mut self, mounts: MountNamespace) -> MountNamespace {
        if mounts == MountNamespace::OWN || mounts == MountNamespace::UNKNOWN {
            return mounts;
        }
        let next = &mut self.job.namespaces;
        *self.namespaces.entry(mounts).or_insert_with(|| MountNamespace(counted_up(next) + 1))
    }

    /// Returns the mount table of the capture in the form of `/proc/PID/mountinfo`, with the names
    /// of the job.
    pub fn mount_text(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        for mount in self.mounts.mounts().to_vec() {
            let dev = self.file_system(mount.dev).to_string();
            let is_root = mount.point == b"/";
            let point = match self.job.has_hosts {
                true if is_root => [self.place.host_name.as_bytes(), b":/"].concat(),
                true => [self.place.host_name.as_bytes(), b":", &mount.point].concat(),
                false => mount.point,
            };
            let fields: [&[u8]; 10] = [
                b"1",
                b"1",
                dev.as_bytes(),
                &escaped(&mount.root),
                &escaped(&point),
                mount.options.as_bytes(),
                b"-",
                &escaped(mount.fs_type.as_bytes()),
                &escaped(&mount.source),
                mount.fs_options.as_bytes(),
            ];
            text.extend(fields.join(&b' '));
            text.push(b'\n');
        }
        text
    }
}

/// Returns a number that was not returned before.
fn counted_up(next: &mut u32) -> u32 {
    let number = *next;
    *next = next.saturating_add(1);
    number
}

/// Escapes what separates fields, as the kernel does.
fn escaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    for byte in field {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => out.extend(format!("\\{byte:03o}").into_bytes()),
            _ => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::completed_op::NamedPath;
    use crate::analysis::file_key::file_key;

    const MOUNTS: &str = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                          30 22 0:40 / /net rw - nfs4 server:/export rw\n";
    const OTHER: &str = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                         30 22 0:41 / /net rw - nfs4 second:/export rw\n";
    const ELSEWHERE: &str = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                             30 22 0:41 / /mnt/a\\040b rw - nfs4 server:/export rw\n";

    fn keys<'a>(job: &'a mut JobKeys, host: usize, mounts: &str) -> CaptureKeys<'a> {
        let place = CaptureOrigin {
            host,
            host_name: format!("n{host}").into(),
            rank: Some(7),
            clock: WallClock::without_dates(KernelTime(100), 5000),
            zero_ns: 4000,
        };
        CaptureKeys::new(job, place, MountTable::parse(mounts.as_bytes()), Vec::new())
    }

    fn of(path: &str, number: u32) -> Vec<u8> {
        let mounts = MountNamespace(number);
        file_key(&NamedPath { path: path.as_bytes(), mounts, is_doubtful: false })
    }

    #[test]
    fn equal_numbers_of_hosts_are_different() {
        let mut job = JobKeys::new(true);
        let mut seen = FxHashSet::default();
        for host in 0..2 {
            let mut keys = keys(&mut job, host, MOUNTS);
            let device = keys.device(DevId::new(8, 1));
            assert_eq!(keys.device(DevId::new(8, 1)), device);
            assert!(seen.insert((keys.process(ProcessKey(0)), keys.thread(ThreadKey(0)), device)));
        }
        let names: Vec<&str> = job.device_names.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["n0:8:1", "n1:8:1"]);
        let mut job = JobKeys::new(false);
        assert_eq!(keys(&mut job, 0, MOUNTS).device(DevId::new(8, 1)), DevId::new(8, 1));
    }

    #[test]
    fn shared_files_are_one_and_local_ones_have_their_host() {
        let mut job = JobKeys::new(true);
        let mut key = |host, mounts, path| {
            let key = keys(&mut job, host, mounts).file(&of(path, 0));
            String::from_utf8(key).expect("text")
        };
        assert_eq!(key(0, MOUNTS, "/net/x"), "/net/x");
        assert_eq!(key(1, MOUNTS, "/net/x"), "/net/x");
        assert_eq!(key(2, ELSEWHERE, "/mnt/a b/x"), "/net/x");
        // Another server at the same place.
        assert_eq!(key(3, OTHER, "/net/x"), "n3:/net/x");
        assert_eq!(key(4, OTHER, "/net/x"), "n3:/net/x");
        assert_eq!(key(0, MOUNTS, "/tmp/x"), "n0:/tmp/x");
        assert_eq!(key(1, MOUNTS, "/tmp/x"), "n1:/tmp/x");
        assert_eq!(key(1, MOUNTS, "pipe:[7]"), "n1:pipe:[7]");
    }

    #[test]
    fn names_of_other_namespaces_belong_to_their_capture() {
        let mut job = JobKeys::new(false);
        let one = keys(&mut job, 0, MOUNTS).file(&of("/net/x", 5));
        let other = keys(&mut job, 0, MOUNTS).file(&of("/net/x", 5));
        assert_ne!(one, other);
        let own = keys(&mut job, 0, MOUNTS).file(&of("/net/x", 0));
        assert_eq!(own, b"/net/x");
    }

    #[test]
    fn times_are_those_of_the_job() {
        let mut job = JobKeys::new(false);
        let keys = keys(&mut job, 0, MOUNTS);
        assert_eq!(keys.time(KernelTime(150)), KernelTime(1050));
        assert_eq!(keys.time(KernelTime(0)), KernelTime(900));
    }

    #[test]
    fn mounts_of_all_hosts_are_found_by_their_names() {
        let mut job = JobKeys::new(true);
        let mut text = keys(&mut job, 0, MOUNTS).mount_text();
        text.extend(keys(&mut job, 1, ELSEWHERE).mount_text());
        let table = MountTable::parse(&text);
        let point = |path: &str| {
            let mount = table.of_path(path.as_bytes()).map(|mount| mount.point.clone());
            mount.map(|point| String::from_utf8(point).expect("text"))
        };
        assert_eq!(point("n0:/net/x").as_deref(), Some("n0:/net"));
        assert_eq!(point("n0:/etc/x").as_deref(), Some("n0:/"));
        assert_eq!(point("n1:/mnt/a b/x").as_deref(), Some("n1:/mnt/a b"));
        assert_eq!(point("n1:/").as_deref(), Some("n1:/"));
        assert_eq!(point("n2:/etc/x"), None);
        assert_eq!(point("n1:pipe:[7]"), None);
    }
}
