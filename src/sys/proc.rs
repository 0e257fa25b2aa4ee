//! State of processes and of the host from `/proc` and `/sys`, as facts with their times.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::Mode;

use super::clock;
use super::spawn::{ProcessFd, same_open_file};
use crate::capture::clock_exchange::ClockedHost;
use crate::capture::fact::{Fact, Text};
use crate::capture::header::Host;
use crate::units::{Fd, KernelTime, Pid, Tid};

/// Description of this machine.
pub fn host() -> Host {
    let uname = nix::sys::utsname::uname().ok();
    let text = |name: Option<&std::ffi::OsStr>| {
        name.map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
    };
    Host {
        hostname: text(uname.as_ref().map(nix::sys::utsname::UtsName::nodename)),
        kernel_release: text(uname.as_ref().map(nix::sys::utsname::UtsName::release)),
        kernel_version: text(uname.as_ref().map(nix::sys::utsname::UtsName::version)),
        machine: text(uname.as_ref().map(nix::sys::utsname::UtsName::machine)),
        cpus: super::cpu_topology::online_cpus(),
        page_bytes: super::ring::page_bytes() as u64,
    }
}

/// Identity of this machine and of its boot, whose clock is compared with others.
pub fn clocked_host() -> ClockedHost {
    let host = host();
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    ClockedHost {
        hostname: host.hostname,
        kernel_release: host.kernel_release,
        kernel_version: host.kernel_version,
        machine: host.machine,
        boot_id: boot_id.trim_end().to_owned(),
    }
}

/// True if our pid namespace may hide processes.
pub fn is_namespaced() -> bool {
    // The number of the first namespace is fixed (PROC_PID_INIT_INO in include/linux/proc_ns.h).
    let own = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    own != Path::new("pid:[4026531836]")
}

/// True if this process has other mounts, or another root directory, than the first process of the
/// machine: these stay in use as long as a process has them. False if that cannot be read.
pub fn has_own_mounts() -> bool {
    let mounts = |process: &str| {
        let namespace = fs::read_link(format!("/proc/{process}/ns/mnt")).ok()?;
        let root = fs::metadata(format!("/proc/{process}/root")).ok()?;
        Some((namespace, root.dev(), root.ino()))
    };
    // The kernel's own threads have the same ones (kthreadd), and may be readable where process 1
    // is not.
    let first = mounts("1").or_else(|| mounts("2"));
    first.is_some() && first != mounts("self")
}

/// True if the process belongs to a service of systemd, whose other processes are killed when its
/// main process ends.
pub fn is_service() -> bool {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().any(|line| line.trim_end().ends_with(".service"))
}

/// Reads a file of the kernel whole.
///
/// # Errors
///
/// Those of reading it.
pub fn text(path: &str, which: Text, pid: Pid) -> io::Result<Fact> {
    let text = fs::read(path)?;
    Ok(Fact::Text { time: clock::now(), which, pid, text })
}

/// Directories and program of a process, as far as they can be read.
pub fn places(pid: Pid) -> Vec<Fact> {
    let place = |(name, which): (&str, Text)| {
        let link = fs::read_link(format!("/proc/{pid}/{name}")).ok()?;
        let text = link.into_os_string().into_vec();
        Some(Fact::Text { time: clock::now(), which, pid, text })
    };
    // A path has a meaning only in its mount namespace.
    let mounts = ("ns/mnt", Text::MOUNTS);
    let links = [mounts, ("cwd", Text::CWD), ("root", Text::ROOT), ("exe", Text::EXE)];
    links.into_iter().filter_map(place).chain(other_bits(pid)).collect()
}

/// Longest part of a command line and of a list of control groups that is read, in bytes.
const IDENTITY_BYTES_MAX: u64 = 4096;

/// Command line, control groups and program of a process, as far as they can be read. A process may
/// delay the reader of its command line.
pub fn identity(pid: Pid) -> Vec<Fact> {
    // An exec that happens meanwhile is later: it clears what was read.
    let time = clock::now();
    // A later process of the same number is not in the directory that was opened.
    let Ok(directory) = File::open(format!("/proc/{pid}")) else { return Vec::new() };
    let text = |name: &str, which: Text| {
        let file = openat(&directory, name, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty());
        let mut text = Vec::new();
        File::from(file.ok()?).take(IDENTITY_BYTES_MAX).read_to_end(&mut text).ok()?;
        (!text.is_empty()).then_some(Fact::Text { time, which, pid, text })
    };
    let executable = readlinkat(&directory, "exe").ok().map(|path| Fact::Text {
        time,
        which: Text::EXECUTABLE,
        pid,
        text: path.into_vec(),
    });
    let parts = [("cmdline", Text::COMMAND), ("cgroup", Text::CGROUP)];
    parts.into_iter().filter_map(|(name, which)| text(name, which)).chain(executable).collect()
}

/// Mount namespace of the tracer, as that of process 0.
pub fn own_mounts() -> Option<Fact> {
    let text = fs::read_link("/proc/self/ns/mnt").ok()?.into_os_string().into_vec();
    Some(Fact::Text { time: clock::now(), which: Text::MOUNTS, pid: Pid(0), text })
}

/// Mappings of a process; the time is that before the read.
pub fn maps(pid: Pid) -> Option<Fact> {
    let time = clock::now();
    let text = maps_of(&pid.to_string()).ok()?;
    Some(Fact::Text { time, which: Text::MAPS, pid, text })
}

/// A file that a process has mapped as code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedCode {
    /// Name of the file.
    pub name: String,
    /// Link to the file, valid after a rename and from any mount namespace.
    pub link: PathBuf,
}

/// Reads the mappings of a process up to a limit: whole lines.
fn maps_of(pid: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(format!("/proc/{pid}/maps"))?.take(MAPS_BYTES_MAX).read_to_end(&mut text)?;
    let whole = text.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
    text.truncate(whole);
    Ok(text)
}

/// Limit on the mappings that are read of a process, in bytes. There may be 65,530 of them
/// (`vm.max_map_count`). A line has 100 bytes, but the process may give its file a path of 4,096.
const MAPS_BYTES_MAX: u64 = 16 << 20;

/// Files that a process has mapped as code.
pub fn mapped_code(pid: &str) -> Vec<MappedCode> {
    let text = maps_of(pid).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mapped = text.lines().filter_map(|line| {
        let mut words = line.splitn(6, ' ');
        let (range, rights) = (words.next()?, words.next()?);
        let name = words.nth(3)?.trim_start();
        let (start, end) = range.split_once('-')?;
        // The link's name has no leading zeros.
        let [start, end] = [start, end].map(|it| it.trim_start_matches('0'));
        let link = PathBuf::from(format!("/proc/{pid}/map_files/{start}-{end}"));
        let is_code = rights.contains('x') && name.starts_with('/');
        is_code.then(|| MappedCode { name: name.to_owned(), link })
    });
    mapped.collect()
}

/// Word size of the program that the process runs, if it differs from our own.
fn other_bits(pid: Pid) -> Option<Fact> {
    let auxv = fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let text = b"32".to_vec();
    is_32_bit(&auxv).then(|| Fact::Text { time: clock::now(), which: Text::BITS, pid, text })
}

/// `AT_PHENT`: bytes of a program header (`include/uapi/linux/auxvec.h`,
/// `include/uapi/linux/elf.h`).
const AT_PHENT: u32 = 4;

/// Bytes of an `Elf32_Phdr`; an `Elf64_Phdr` has 56.
const PROGRAM_HEADER_32: u32 = 32;

/// True for the auxiliary vector of a 32-bit program: pairs of 4 bytes, not of 8.
fn is_32_bit(auxv: &[u8]) -> bool {
    let (words, _) = auxv.as_chunks::<4>();
    let mut pairs = words.chunks_exact(2).map(<[[u8; 4]]>::concat);
    let wanted = [AT_PHENT, PROGRAM_HEADER_32].map(u32::to_le_bytes).concat();
    pairs.any(|it| it == wanted)
}

/// All processes of this pid namespace.
pub fn processes() -> Vec<Pid> {
    numbers_in(Path::new("/proc")).into_iter().map(Pid).collect()
}

/// `roots` and all their current descendants.
pub fn with_descendants(roots: &[Pid]) -> Vec<Pid> {
    let mut tree: Vec<Pid> = roots.to_vec();
    let parents: Vec<(Pid, Pid)> =
        processes().into_iter().filter_map(|it| Some((it, stat(it)?.1))).collect();
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        let children: Vec<Pid> = parents
            .iter()
            .filter(|it| it.1 == parent && !tree.contains(&it.0))
            .map(|it| it.0)
            .collect();
        tree.extend(children);
        next += 1;
    }
    tree
}

/// Text of `/proc/PID/cgroup`; `None`: the process has ended, or another user owns it.
pub fn cgroups(pid: Pid) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/cgroup")).ok()
}

/// Threads of a process with their names, and the user of the process.
pub fn tasks(pid: Pid) -> Vec<Fact> {
    let Some((_, ppid)) = stat(pid) else { return Vec::new() };
    let task = |tid: i32| {
        let mut comm = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
        comm.pop_if(|it| *it == b'\n');
        Some(Fact::Task { time: clock::now(), pid, tid: Tid(tid), ppid, comm })
    };
    let tasks = numbers_in(Path::new(&format!("/proc/{pid}/task"))).into_iter().filter_map(task);
    tasks.chain(user(pid)).collect()
}

/// User of a process.
fn user(pid: Pid) -> Option<Fact> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|it| it.strip_prefix("Uid:"))?;
    let user = line.split_whitespace().next()?.parse().ok()?;
    Some(Fact::User { time: clock::now(), pid, user })
}

/// The threads of these processes, by number.
pub fn threads(processes: &[Pid]) -> Vec<Tid> {
    let of = |pid: &Pid| numbers_in(Path::new(&format!("/proc/{pid}/task")));
    processes.iter().flat_map(of).map(Tid).collect()
}

/// Number and parent of a process, from `/proc/PID/stat`. The name in it may have any characters,
/// so the text is parsed from the last parenthesis.
fn stat(pid: Pid) -> Option<(Pid, Pid)> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = text.iter().rposition(|&it| it == b')')?;
    let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
    Some((pid, Pid(rest.split_whitespace().nth(1)?.parse().ok()?)))
}

/// Returns the parent of a process.
pub fn parent(pid: Pid) -> Option<Pid> {
    Some(stat(pid)?.1)
}

/// Returns the time of a process's start, in ticks since the start of the machine: together with
/// its number it names one process (`proc_pid_stat(5)`, field 22).
pub fn start_ticks(pid: Pid) -> Option<u64> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// An open descriptor of a process, and the target of its link `/proc/PID/fd/N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The process.
    pub pid: Pid,
    /// The descriptor.
    pub fd: Fd,
    /// Target of its link.
    pub link: Vec<u8>,
}

/// An open descriptor of a process.
pub fn descriptor(pid: Pid, fd: Fd) -> Option<Descriptor> {
    let link = fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
    Some(Descriptor { pid, fd, link: link.into_os_string().into_vec() })
}

/// The process of a thread.
pub fn process_of(tid: Tid) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("Tgid:"))?;
    line.trim().parse().ok().map(Pid)
}

/// The open descriptors of a process.
pub fn descriptors(pid: Pid) -> Vec<Descriptor> {
    let all = numbers_in(Path::new(&format!("/proc/{pid}/fd"))).into_iter();
    all.filter_map(|it| descriptor(pid, Fd(it))).collect()
}

/// Limit on the `fdinfo` that is read of a descriptor, in bytes. Flags and position come first; the
/// rest (locks, watches) has no limit.
const FDINFO_BYTES_MAX: u64 = 4096;

/// Reads a descriptor's flags and position, as a fact with the times between which they were valid.
pub fn descriptor_fact(descriptor: &Descriptor, shared: bool) -> Option<Fact> {
    let Descriptor { pid, fd, link } = descriptor;
    let begin = clock::now();
    let mut text = Vec::new();
    let file = File::open(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    file.take(FDINFO_BYTES_MAX).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The link again: the descriptor may have been reused for another file meanwhile.
    let link_after =
        fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?.into_os_string().into_vec();
    let end = clock::now();
    if link_after != *link {
        return None;
    }
    let field = |name: &str| text.lines().find_map(|it| it.strip_prefix(name)).map(str::trim);
    let flags = u32::from_str_radix(field("flags:")?, 8).ok()?;
    let position = field("pos:")?.parse().ok()?;
    let stat = super::files::stat_behind(&format!("/proc/{pid}/fd/{fd}"));
    Some(Fact::Fd {
        begin,
        end,
        pid: *pid,
        fd: *fd,
        flags,
        position,
        shared,
        stat,
        link: link.clone(),
    })
}

/// Reads facts about the open descriptors of `tree`, until this time; `all` is all processes that
/// could share one of them. Also returns the number of descriptors, or processes with some, that
/// were skipped.
pub fn descriptor_facts(tree: &[Pid], all: &[Pid], until: KernelTime) -> (Vec<Fact>, u64) {
    let mut by_link: HashMap<Vec<u8>, Vec<ProcessFd>> = HashMap::new();
    let mut wanted = Vec::new();
    let mut left_out = 0;
    for &pid in all {
        let is_wanted = tree.contains(&pid);
        if clock::now() >= until {
            left_out += u64::from(is_wanted);
            continue;
        }
        for descriptor in descriptors(pid) {
            // Only a file with a path has a position that matters.
            if descriptor.link.starts_with(b"/") {
                let same_path = by_link.entry(descriptor.link.clone()).or_default();
                same_path.push(ProcessFd { pid, fd: descriptor.fd });
            }
            if is_wanted {
                wanted.push(descriptor);
            }
        }
    }
    let mut facts = Vec::new();
    for descriptor in &wanted {
        if clock::now() >= until {
            left_out += 1;
            continue;
        }
        facts.extend(descriptor_fact(descriptor, is_shared(descriptor, &by_link)));
    }
    (facts, left_out)
}

/// Limit on the descriptors of one path that are compared with each other. A program may have any
/// number of them.
const COMPARED_MAX: usize = 256;

/// True if another descriptor, of any process, refers to the same open file, or may.
fn is_shared(descriptor: &Descriptor, by_link: &HashMap<Vec<u8>, Vec<ProcessFd>>) -> bool {
    let this = ProcessFd { pid: descriptor.pid, fd: descriptor.fd };
    let others = by_link.get(&descriptor.link).map(Vec::as_slice).unwrap_or_default();
    let is_same =
        |other: &ProcessFd| *other != this && same_open_file(this, *other).unwrap_or(true);
    others.len() > COMPARED_MAX || others.iter().any(is_same)
}

/// Entries of a directory that are numbers.
fn numbers_in(directory: &Path) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut numbers: Vec<i32> =
        entries.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a process with many descriptors delays its reader: all of one path would be
    /// compared with each other.
    #[test]
    fn descriptors_are_looked_at_within_bounds() {
        let own = [Pid(std::process::id().cast_signed())];
        let path = "/proc/self/limits";
        let open = |count: usize| -> Vec<File> {
            (0..count).map(|_| File::open(path).expect("it is there")).collect()
        };
        let shared = || {
            let (facts, left_out) = descriptor_facts(&own, &own, KernelTime(u64::MAX));
            assert_eq!(left_out, 0);
            let its = facts.iter().filter_map(|fact| match fact {
                Fact::Fd { link, shared, .. } if link.ends_with(b"/limits") => Some(*shared),
                _ => None,
            });
            its.collect::<Vec<bool>>()
        };
        let few = open(2);
        assert_eq!(shared(), [false; 2]);
        let many = open(COMPARED_MAX);
        assert_eq!(shared(), [true; COMPARED_MAX + 2]);
        drop((few, many));
        assert!(
            matches!(descriptor_facts(&own, &own, KernelTime(0)), (facts, 1) if facts.is_empty())
        );
    }
}
