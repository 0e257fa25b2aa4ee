//! `FS_IOC_FIEMAP`: location of a file's contents on its device
//! (`Documentation/filesystems/fiemap.rst`).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A run of a file's contents on its device. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiemapRun {
    /// Position in the file.
    pub offset: u64,
    /// Position on the device.
    pub address: u64,
    /// Length of the run.
    pub length: u64,
}

/// Number of `struct fiemap_extent` for which [`Fiemap`] has room (`include/uapi/linux/fiemap.h`).
const ROOM: u32 = 256;

#[repr(C)]
#[derive(Clone, Copy)]
struct FiemapExtent {
    fe_logical: u64,
    fe_physical: u64,
    fe_length: u64,
    fe_reserved64: [u64; 2],
    fe_flags: u32,
    fe_reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    fm_start: u64,
    fm_length: u64,
    fm_flags: u32,
    fm_mapped_extents: u32,
    fm_extent_count: u32,
    fm_reserved: u32,
    fm_extents: [FiemapExtent; ROOM as usize],
}

/// Size of `struct fiemap` without its extents, which the number of the ioctl has.
const HEAD_BYTES: usize = 32;

const FIEMAP_EXTENT_LAST: u32 = 0x1;
/// `_UNKNOWN`, `_DELALLOC`, `_ENCODED`, `_NOT_ALIGNED`, `_DATA_INLINE`, `_DATA_TAIL`: the extent's
/// bytes are not plainly stored at its address.
const HAS_NO_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400;

/// Limit on the runs that are read of a file.
const RUNS_MAX: usize = 1 << 16;

/// Runs of a file, as far as they are allocated: nothing is written back for this (no
/// `FIEMAP_FLAG_SYNC`).
///
/// # Errors
///
/// `EOPNOTSUPP`, `ENOTTY`: the file system does not report runs; those of reading its metadata.
pub fn runs(file: &File) -> io::Result<Vec<FiemapRun>> {
    let mut runs = Vec::new();
    let mut start = 0;
    while runs.len() < RUNS_MAX {
        let map = query(file, start)?;
        let count = usize::try_from(map.fm_mapped_extents.min(ROOM)).unwrap_or(0);
        let extents = map.fm_extents.get(..count).unwrap_or_default();
        let placed = extents.iter().filter(|it| it.fe_flags & HAS_NO_PLACE == 0);
        runs.extend(placed.map(|extent| FiemapRun {
            offset: extent.fe_logical,
            address: extent.fe_physical,
            length: extent.fe_length,
        }));
        match extents.last() {
            Some(last) if last.fe_flags & FIEMAP_EXTENT_LAST == 0 && last.fe_length > 0 => {
                start = last.fe_logical.saturating_add(last.fe_length);
            }
            _ => break,
        }
    }
    Ok(runs)
}

fn query(file: &File, start: u64) -> io::Result<Box<Fiemap>> {
    let none = FiemapExtent {
        fe_logical: 0,
        fe_physical: 0,
        fe_length: 0,
        fe_reserved64: [0; 2],
        fe_flags: 0,
        fe_reserved: [0; 3],
    };
    let mut map = Box::new(Fiemap {
        fm_start: start,
        fm_length: u64::MAX - start,
        fm_flags: 0,
        fm_mapped_extents: 0,
        fm_extent_count: ROOM,
        fm_reserved: 0,
        fm_extents: [none; ROOM as usize],
    });
    let request = nix::request_code_readwrite!(b'f', 11, HEAD_BYTES);
    // SAFETY: the kernel writes the head and, after it, at most `fm_extent_count` extents
    // (`fiemap_fill_next_extent()` in fs/ioctl.c); `map` has room for as many, is plain integers,
    // and is exclusively ours.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request, &raw mut *map) };
    nix::errno::Errno::result(result)?;
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    #[test]
    fn the_structures_are_the_kernels() {
        assert_eq!(std::mem::offset_of!(Fiemap, fm_extents), HEAD_BYTES);
        assert_eq!(size_of::<FiemapExtent>(), 56);
        assert_eq!(size_of::<Fiemap>(), HEAD_BYTES + ROOM as usize * 56);
    }

    /// Fails if runs are out of order, outside of the file or in its hole. A file system without
    /// the ioctl must return an error.
    #[test]
    fn runs_of_a_file_with_a_hole() {
        let mut file = tempfile::tempfile().expect("a file");
        let bytes = [1; 1 << 16];
        file.write_all(&bytes).expect("written");
        file.seek(SeekFrom::Start(1 << 20)).expect("moved");
        file.write_all(&bytes).expect("written");
        file.sync_all().expect("on the disk");
        match runs(&file) {
            Ok(runs) => {
                let is_sound = |run: &FiemapRun| {
                    run.length > 0 && run.offset + run.length <= (1 << 20) + (1 << 16)
                };
                assert!(
                    runs.iter().all(is_sound) && runs.is_sorted_by_key(|it| it.offset),
                    "{runs:?}"
                );
                let in_hole =
                    |it: &&FiemapRun| it.offset < 1 << 20 && it.offset + it.length > 1 << 19;
                assert_eq!(runs.iter().find(in_hole), None);
            }
            Err(error) => assert!(
                matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY)),
                "{error}"
            ),
        }
    }
}
