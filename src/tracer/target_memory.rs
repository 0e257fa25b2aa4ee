//! Memory of a traced thread, read from another process.

use std::io::IoSliceMut;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::event::syscall_table::{IOCB_BYTES, IOVEC_BYTES};
use crate::units::Tid;

/// The longest path that the kernel takes, with its NUL (`PATH_MAX`).
const PATH_BYTES_MAX: usize = 4096;

/// Bytes of one read of a string: short names need one call, and no read crosses into a page that
/// may not exist.
const ARGUMENT_CHUNK_BYTES: usize = 256;

/// Largest number of pieces in one read (`UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;

/// `IOCB_CMD_PREADV` and `_PWRITEV`: the buffer is a vector (`include/uapi/linux/aio_abi.h`).
const VECTORED: [u16; 2] = [7, 8];

/// Reads this number of bytes at this address of the thread's memory; fails if not all can be read.
pub(super) fn bytes_at(tid: Tid, address: u64, bytes: usize) -> nix::Result<Vec<u8>> {
    let base = usize::try_from(address).map_err(|_| nix::errno::Errno::EFAULT)?;
    let mut read = vec![0; bytes];
    let length = process_vm_readv(
        Pid::from_raw(tid.0),
        &mut [IoSliceMut::new(&mut read)],
        &[RemoteIoVec { base, len: bytes }],
    )?;
    if length < bytes { Err(nix::errno::Errno::EFAULT) } else { Ok(read) }
}

/// Reads the string at this address of the thread's memory, without its NUL.
pub(super) fn string_at(tid: Tid, pointer: u64) -> nix::Result<Vec<u8>> {
    let mut string = Vec::new();
    let mut address = usize::try_from(pointer).map_err(|_| nix::errno::Errno::EFAULT)?;
    while string.len() < PATH_BYTES_MAX {
        // Chunks are aligned: a chunk never crosses into a page that the string does not reach.
        let length = ARGUMENT_CHUNK_BYTES - address % ARGUMENT_CHUNK_BYTES;
        let mut chunk = [0; ARGUMENT_CHUNK_BYTES];
        let Some(part) = chunk.get_mut(..length) else { break };
        let read = process_vm_readv(
            Pid::from_raw(tid.0),
            &mut [IoSliceMut::new(part)],
            &[RemoteIoVec { base: address, len: length }],
        )?;
        let part = part.get(..read).unwrap_or_default();
        if let Some(end) = part.iter().position(|&it| it == 0) {
            string.extend_from_slice(part.get(..end).unwrap_or_default());
            return Ok(string);
        }
        string.extend_from_slice(part);
        address += read;
    }
    Err(nix::errno::Errno::ENAMETOOLONG)
}

/// Reads this number of `struct iocb` through an array of pointers, in the form of
/// [`ArgumentMemory::Iocbs`].
///
/// [`ArgumentMemory::Iocbs`]: crate::event::syscall_table::ArgumentMemory::Iocbs
pub(super) fn iocbs_at(tid: Tid, address: u64, count: usize) -> nix::Result<Vec<u8>> {
    let pointers: Vec<u64> = words(&bytes_at(tid, address, count * 8)?).collect();
    let mut iocbs = vec![0; count * IOCB_BYTES];
    for (pointers, read) in
        pointers.chunks(PIECES_MAX).zip(iocbs.chunks_mut(PIECES_MAX * IOCB_BYTES))
    {
        let piece = |pointer: &u64| {
            let base = usize::try_from(*pointer).map_err(|_| nix::errno::Errno::EFAULT)?;
            Ok(RemoteIoVec { base, len: IOCB_BYTES })
        };
        let pieces = pointers.iter().map(piece).collect::<nix::Result<Vec<_>>>()?;
        let wanted = read.len();
        let length = process_vm_readv(Pid::from_raw(tid.0), &mut [IoSliceMut::new(read)], &pieces)?;
        if length < wanted {
            return Err(nix::errno::Errno::EFAULT);
        }
    }
    let mut whole = Vec::new();
    for (pointer, iocb) in pointers.iter().zip(iocbs.chunks_exact(IOCB_BYTES)) {
        whole.extend_from_slice(&pointer.to_le_bytes());
        whole.extend_from_slice(iocb);
        whole.extend_from_slice(&buffers_of(tid, iocb).unwrap_or(u64::MAX).to_le_bytes());
    }
    Ok(whole)
}

/// Returns the bytes of all buffers of a vectored operation.
fn buffers_of(tid: Tid, iocb: &[u8]) -> Option<u64> {
    let words: Vec<u64> = words(iocb).collect();
    let (&command, &buffers, &count) = (words.get(2)?, words.get(3)?, words.get(4)?);
    if !VECTORED.contains(&((command & 0xffff) as u16)) {
        return None;
    }
    let count = usize::try_from(count).ok().filter(|it| *it <= PIECES_MAX)?;
    let vector = bytes_at(tid, buffers, count * usize::try_from(IOVEC_BYTES).ok()?).ok()?;
    // The words are address, length, address, length.
    Some(self::words(&vector).skip(1).step_by(2).fold(0, u64::saturating_add))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks().0.iter().map(|it| u64::from_le_bytes(*it))
}
