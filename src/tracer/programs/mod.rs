//! What the kernel reads of a program to start it, found at the end from the program's file.
//!
//! In: the paths of execs, as they pass. Out: a text for each file that could be read ([`Text::PROGRAM`]). The table of these
//! reads is in `docs/accounting.md`. Only regular files are opened, and no more is read of them than the kernel reads.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::source::Described;
use crate::capture::fact::{Fact, Text};
use crate::event::decode::common_type;
use crate::sys::patience::Patience;
use crate::sys::{clock, regular};
use crate::tracefs::{EventFormat, IntField, StringField};
use crate::units::Pid;

/// Paths that are remembered.
const PATHS_MAX: usize = 1 << 12;

/// `BINPRM_BUF_SIZE` (`include/uapi/linux/binfmts.h`): what `prepare_binprm()` in `fs/exec.c` reads of each file.
const HEAD_BYTES: usize = 256;

/// Interpreters of interpreters that the kernel follows (`exec_binprm()` in `fs/exec.c`).
const DEPTH_MAX: usize = 5;

/// Most bytes of a table of program headers (`load_elf_phdrs()` in `fs/binfmt_elf.c`).
const TABLE_BYTES_MAX: usize = 65536;

/// `struct elf64_hdr` and `struct elf64_phdr` (`include/uapi/linux/elf.h`).
const ELF_HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const PT_INTERP: u32 = 3;

/// Programs that were started, by the path that the exec was given.
#[derive(Debug, Default)]
pub struct SeenPrograms {
    point: Option<(u16, IntField, StringField)>,
    /// Absolute paths. A relative path may begin at one of two directories.
    paths: BTreeSet<PathBuf>,
    directory: PathBuf,
}

impl SeenPrograms {
    /// Those that these tracepoints tell of; `None` if execs are not recorded.
    pub fn of(tracepoints: &[Described]) -> Option<Self> {
        let point = tracepoints.iter().find(|it| it.planned.name == "sched_process_exec")?;
        let format = EventFormat::parse(&point.format).ok()?;
        let fields = (format.int("common_pid").ok()?, format.string("filename").ok()?);
        let directory = std::env::current_dir().unwrap_or_default();
        Some(Self {
            point: Some((point.id, fields.0, fields.1)),
            paths: BTreeSet::new(),
            directory,
        })
    }

    /// Takes note of a payload, if it is of an exec.
    pub fn note(&mut self, payload: &[u8]) {
        let Some((id, pid, filename)) = &self.point else { return };
        if common_type(payload) != Some(*id) || self.paths.len() >= PATHS_MAX {
            return;
        }
        let Some(path) = filename.read(payload).map(|it| Path::new(OsStr::from_bytes(it))) else {
            return;
        };
        // What the tracer finds there is its own.
        if path.starts_with("/dev/fd") || path.starts_with("/proc") {
            return;
        }
        self.paths.insert(self.directory.join(path));
        if path.is_relative()
            && let Some(pid) = pid.read_i64(payload)
            && let Ok(directory) = std::fs::read_link(format!("/proc/{pid}/cwd"))
        {
            self.paths.insert(directory.join(path));
        }
    }

    /// Reads the files. A path whose file cannot be read, or is of another format, has no fact.
    pub fn describe(self, patience: &mut Patience<'_>) -> Vec<Fact> {
        // aarch64 reads a note, too, if the kernel is built so (`parse_elf_properties()` in `fs/binfmt_elf.c`).
        if cfg!(not(target_arch = "x86_64")) {
            return Vec::new();
        }
        let mut facts = Vec::new();
        for path in self.paths {
            if patience.is_over() {
                break;
            }
            if let Some((changed_ns, reads)) = reads_of(&path) {
                let reads: Vec<String> = reads.iter().map(usize::to_string).collect();
                let mut text = format!("{changed_ns}\n{}\n", reads.join(" ")).into_bytes();
                text.extend_from_slice(without_dots(&path).as_os_str().as_bytes());
                let (time, which) = (clock::now(), Text::PROGRAM);
                facts.push(Fact::Text { time, which, pid: Pid(0), text });
            }
        }
        facts
    }
}

/// Without `.` and empty parts, as the path of an operation is put together.
fn without_dots(path: &Path) -> PathBuf {
    path.components().collect()
}

/// When one of the files was last changed, ns of the wall clock, and the length of each read of the kernel.
fn reads_of(path: &Path) -> Option<(i64, Vec<usize>)> {
    let mut reads = Vec::new();
    let mut changed_ns = 0;
    let mut path = path.to_owned();
    for _ in 0..=DEPTH_MAX {
        let file = open_program(&path, &mut changed_ns)?;
        let head = read_up_to(&file, 0, HEAD_BYTES)?;
        reads.push(head.len());
        match interpreter_of(&head) {
            Some(interpreter) => path = interpreter,
            None if head.starts_with(b"#!") => return None,
            None => {
                of_elf(&file, &head, &mut reads, &mut changed_ns)?;
                return Some((changed_ns, reads));
            }
        }
    }
    None
}

/// Opens a regular file of a file system that is not the kernel's own, and nothing else. Its time of access stays.
fn open_program(path: &Path, changed_ns: &mut i64) -> Option<File> {
    let (place, found) = regular::find_regular(path, true)?;
    let changed = found.ctime().checked_mul(1_000_000_000)?.checked_add(found.ctime_nsec())?;
    *changed_ns = changed.max(*changed_ns);
    regular::open_found(&place, libc::O_NOATIME).or_else(|_| regular::open_found(&place, 0)).ok()
}

fn read_up_to(file: &File, offset: u64, bytes: usize) -> Option<Vec<u8>> {
    let mut buffer = vec![0; bytes];
    let mut length = 0;
    while length < bytes {
        let at = offset.checked_add(u64::try_from(length).ok()?)?;
        match file.read_at(buffer.get_mut(length..)?, at).ok()? {
            0 => break,
            more => length += more,
        }
    }
    buffer.truncate(length);
    Some(buffer)
}

/// The interpreter of a script (`load_script()` in `fs/binfmt_script.c`), if it is absolute.
fn interpreter_of(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|it| *it == b'\n').next()?;
    let start = line.iter().position(|it| !b" \t".contains(it))?;
    let name = line.get(start..)?.split(|it| b" \t\0".contains(it)).next()?;
    name.starts_with(b"/").then(|| Path::new(OsStr::from_bytes(name)).to_owned())
}

/// `load_elf_binary()` in `fs/binfmt_elf.c`: the program headers; of a program with a loader its path, its header and its program
/// headers.
fn of_elf(file: &File, head: &[u8], reads: &mut Vec<usize>, changed_ns: &mut i64) -> Option<()> {
    let table = program_headers(file, head)?;
    reads.push(table.len());
    let loader =
        table.chunks_exact(PROGRAM_HEADER_BYTES).find(|it| u32_at(it, 0) == Some(PT_INTERP));
    let Some(loader) = loader else { return Some(()) };
    let (offset, length) = (u64_at(loader, 8)?, usize::try_from(u64_at(loader, 32)?).ok()?);
    if !(2..=4096).contains(&length) {
        return None;
    }
    let path = read_up_to(file, offset, length).filter(|it| it.len() == length)?;
    reads.push(length);
    let path = Path::new(OsStr::from_bytes(path.strip_suffix(b"\0")?));
    let loader = open_program(path.is_absolute().then_some(path)?, changed_ns)?;
    let header = read_up_to(&loader, 0, ELF_HEADER_BYTES)?;
    reads.push(header.len());
    reads.push(program_headers(&loader, &header)?.len());
    Some(())
}

/// The program headers of a 64-bit file.
fn program_headers(file: &File, header: &[u8]) -> Option<Vec<u8>> {
    // Class 64, little-endian.
    if !header.starts_with(b"\x7fELF\x02\x01") || header.len() < ELF_HEADER_BYTES {
        return None;
    }
    let (each, count) = (usize::from(u16_at(header, 54)?), usize::from(u16_at(header, 56)?));
    let length = each * count;
    let is_sound = each == PROGRAM_HEADER_BYTES && (1..=TABLE_BYTES_MAX).contains(&length);
    let table = read_up_to(file, u64_at(header, 32)?, is_sound.then_some(length)?)?;
    (table.len() == length).then_some(table)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|it| u16::from_le_bytes(*it))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|it| u32::from_le_bytes(*it))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|it| u64::from_le_bytes(*it))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_script_is_read_once_more_than_its_interpreter() {
        let dir = tempfile::tempdir().expect("a directory");
        let script = dir.path().join("script");
        std::fs::write(&script, "#! /bin/sh -e\n").expect("write it");
        let (_, of_script) = reads_of(&script).expect("it is there");
        let (_, of_shell) = reads_of(Path::new("/bin/sh")).expect("it is there");
        assert_eq!(of_script.first(), Some(&14));
        assert_eq!(of_script.get(1..), Some(of_shell.as_slice()));
        assert_eq!((of_shell.len(), of_shell.first()), (5, Some(&256)));
    }

    #[test]
    fn what_is_no_program_is_not_described() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        for text in ["", "text", "#!", "#!sh\n", "\x7fELF\x02\x01"] {
            std::fs::write(&file, text).expect("write it");
            assert_eq!(reads_of(&file), None, "{text:?}");
        }
        let fifo = dir.path().join("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status().expect("it runs");
        assert!(made.success());
        assert_eq!(reads_of(&fifo), None);
        assert_eq!(reads_of(dir.path()), None);
    }
}
