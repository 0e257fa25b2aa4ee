//! Headers of a file that the kernel reads to start it as a program, interpreter or loader.
//!
//! Only the bytes that the kernel reads are read.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// `BINPRM_BUF_SIZE` (`include/uapi/linux/binfmts.h`): bytes that `prepare_binprm()` in `fs/exec.c`
/// reads of each file.
pub(super) const HEAD_BYTES: usize = 256;

/// Largest size of a table of program headers (`load_elf_phdrs()` in `fs/binfmt_elf.c`).
pub(super) const TABLE_BYTES_MAX: usize = 65536;

/// Largest length of the path of a loader (`PATH_MAX`).
pub(super) const PATH_BYTES_MAX: usize = 4096;

/// `struct elf64_hdr` and `struct elf64_phdr` (`include/uapi/linux/elf.h`).
pub(super) const ELF_HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const PT_INTERP: u32 = 3;

/// Headers of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Headers {
    /// Time of the last change, ns of the wall clock.
    pub changed_ns: i64,
    /// Length of the read at the beginning of the file.
    pub head_bytes: usize,
    pub format: ProgramFormat,
}

/// Format of the file, with the next file that the kernel opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProgramFormat {
    /// A script, and its interpreter.
    Script { interpreter: PathBuf },
    /// A 64-bit ELF file, the length of its program headers, and its loader.
    Elf { table_bytes: usize, loader: Option<PathBuf> },
}

impl Headers {
    /// Returns the next file that the kernel opens.
    pub(super) fn next(&self) -> Option<&PathBuf> {
        match &self.format {
            ProgramFormat::Script { interpreter } => Some(interpreter),
            ProgramFormat::Elf { loader, .. } => loader.as_ref(),
        }
    }
}

/// Reads the headers of a file. `Ok(None)`: the file has another format.
///
/// # Errors
///
/// Errors of `fstat(2)` and `pread(2)`.
pub(super) fn read(file: &File) -> std::io::Result<Option<Headers>> {
    let found = file.metadata()?;
    let changed_ns = found.ctime().saturating_mul(1_000_000_000).saturating_add(found.ctime_nsec());
    let head = read_up_to(file, 0, HEAD_BYTES)?;
    let format = if head.starts_with(b"#!") {
        interpreter_of(&head).map(|interpreter| ProgramFormat::Script { interpreter })
    } else {
        elf(file, &head)?
    };
    Ok(format.map(|format| Headers { changed_ns, head_bytes: head.len(), format }))
}

fn read_up_to(file: &File, offset: u64, bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut buffer = vec![0; bytes];
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|it| !it.is_empty()) {
        match file.read_at(rest, offset.saturating_add(length as u64))? {
            0 => break,
            more => length += more,
        }
    }
    buffer.truncate(length);
    Ok(buffer)
}

/// Returns the interpreter of a script (`load_script()` in `fs/binfmt_script.c`), if it is
/// absolute.
fn interpreter_of(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|it| *it == b'\n').next()?;
    let start = line.iter().position(|it| !b" \t".contains(it))?;
    let name = line.get(start..)?.split(|it| b" \t\0".contains(it)).next()?;
    name.starts_with(b"/").then(|| Path::new(OsStr::from_bytes(name)).to_owned())
}

/// Reads the program headers and the path of the loader, as `load_elf_binary()` in
/// `fs/binfmt_elf.c` does.
fn elf(file: &File, head: &[u8]) -> std::io::Result<Option<ProgramFormat>> {
    let Some((offset, length)) = place_of_table(head) else { return Ok(None) };
    let table = read_up_to(file, offset, length)?;
    if table.len() != length {
        return Ok(None);
    }
    let found =
        table.chunks_exact(PROGRAM_HEADER_BYTES).find(|it| u32_at(it, 0) == Some(PT_INTERP));
    let Some(found) = found else {
        return Ok(Some(ProgramFormat::Elf { table_bytes: length, loader: None }));
    };
    let place = u64_at(found, 8).zip(u64_at(found, 32).and_then(|it| usize::try_from(it).ok()));
    let Some((offset, bytes)) = place.filter(|it| (2..=PATH_BYTES_MAX).contains(&it.1)) else {
        return Ok(None);
    };
    let path = read_up_to(file, offset, bytes)?;
    let path = path.strip_suffix(b"\0").filter(|it| it.len() + 1 == bytes);
    let path = path.map(|it| Path::new(OsStr::from_bytes(it))).filter(|it| it.is_absolute());
    Ok(path.map(|it| ProgramFormat::Elf { table_bytes: length, loader: Some(it.to_owned()) }))
}

/// Returns offset and length of the program headers of a 64-bit file.
fn place_of_table(head: &[u8]) -> Option<(u64, usize)> {
    // Class 64, little-endian.
    if !head.starts_with(b"\x7fELF\x02\x01") || head.len() < ELF_HEADER_BYTES {
        return None;
    }
    let (each, count) = (usize::from(u16_at(head, 54)?), usize::from(u16_at(head, 56)?));
    let length = each * count;
    let is_sound = each == PROGRAM_HEADER_BYTES && (1..=TABLE_BYTES_MAX).contains(&length);
    is_sound.then_some((u64_at(head, 32)?, length))
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
