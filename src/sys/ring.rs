//! perf ring of one CPU: the kernel writes records into it, and we read them through `mmap`.
//!
//! ```text
//!  page 0: struct perf_event_mmap_page      then 2^n pages of data
//!  ┌──────────────────────────────┐ ┌────────────────────────────────────────────┐
//!  │ … data_head   (kernel → us)  │ │ ......│ records not yet read     │.........│
//!  │   data_tail   (us → kernel)  │ │       ^ tail                      ^ head   │
//!  │   data_offset, data_size …   │ │   both only grow; place = count mod size   │
//!  └──────────────────────────────┘ └────────────────────────────────────────────┘
//! ```
//!
//! The kernel never writes between tail and head, so we may read those bytes until we move the
//! tail.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use perf_event_open_sys::bindings::perf_event_mmap_page;

use super::perf::PerfEvent;

/// One CPU's ring.
#[derive(Debug)]
pub struct Ring {
    map: MmapRaw,
    /// Offset of the data in the mapping, bytes.
    data_offset: usize,
    /// Length of the data, bytes; a power of two.
    data_size: usize,
    /// Position up to which the records were read.
    tail: u64,
}

impl Ring {
    /// Maps a ring of `data_bytes` (a power of two, at least a page) for `owner`.
    ///
    /// # Errors
    ///
    /// Those of `mmap(2)`: `EPERM` if it exceeds what the user may lock.
    pub fn map(owner: &PerfEvent, data_bytes: usize) -> io::Result<Self> {
        let page = page_bytes();
        let map = MmapOptions::new().len(page + data_bytes).map_raw(owner.as_fd().as_raw_fd())?;
        let header = map.as_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: the mapping is at least a page and begins with this struct (perf_event_open(2));
        // the field never changes after mmap.
        let offset = unsafe { &raw const (*header).data_offset };
        // SAFETY: as above.
        let size = unsafe { &raw const (*header).data_size };
        // SAFETY: points into the mapping, aligned.
        let offset = unsafe { offset.read() };
        // SAFETY: points into the mapping, aligned.
        let size = unsafe { size.read() };
        let as_usize = |it: u64| usize::try_from(it).unwrap_or(usize::MAX / 2);
        let ring = Self { data_offset: as_usize(offset), data_size: as_usize(size), map, tail: 0 };
        let fits =
            ring.data_size.is_power_of_two() && ring.data_offset + ring.data_size <= ring.map.len();
        if fits {
            Ok(ring)
        } else {
            Err(io::Error::other("the kernel describes a ring outside of its mapping"))
        }
    }

    /// Appends all records in the ring to `out` and frees their space for the kernel. Returns their
    /// number of bytes.
    pub fn take(&mut self, out: &mut Vec<u8>) -> usize {
        let head = self.head();
        let length = usize::try_from(head.wrapping_sub(self.tail)).unwrap_or(usize::MAX);
        if length == 0 || length > self.data_size {
            return 0;
        }
        let start = usize::try_from(self.tail % self.data_size as u64).unwrap_or_default();
        let first = length.min(self.data_size - start);
        self.copy(start, first, out);
        self.copy(0, length - first, out);
        self.tail = head;
        self.publish_tail();
        length
    }

    /// True if the ring has records.
    pub fn has_records(&self) -> bool {
        self.head() != self.tail
    }

    /// Bytes of data that the ring can hold.
    pub fn data_size(&self) -> usize {
        self.data_size
    }

    fn copy(&self, start: usize, length: usize, out: &mut Vec<u8>) {
        debug_assert!(start + length <= self.data_size, "inside the ring");
        // SAFETY: `data_offset + data_size` is inside the mapping (checked in `map`).
        let from = unsafe { self.map.as_ptr().add(self.data_offset + start) };
        // SAFETY: these bytes are between tail and head, where the kernel does not write until the
        // tail moves, and inside the mapping, which lives as long as `self`.
        let bytes = unsafe { std::slice::from_raw_parts(from, length) };
        out.extend_from_slice(bytes);
    }

    fn head(&self) -> u64 {
        let header = self.map.as_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: `header` points to the first page of a mapping that lives as long as `self`.
        let field = unsafe { &raw const (*header).data_head };
        // SAFETY: the field is eight byte aligned, and both sides access it only as a whole.
        let head = unsafe { AtomicU64::from_ptr(field.cast_mut()) };
        // ORDERING: pairs with the write barrier before the store of data_head in
        // perf_output_put_handle() (kernel/events/ring_buffer.c): the records before `head` are
        // visible after this load.
        head.load(Ordering::Acquire)
    }

    fn publish_tail(&self) {
        let header = self.map.as_mut_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: `header` points to the first page of a mapping that lives as long as `self`.
        let field = unsafe { &raw mut (*header).data_tail };
        // SAFETY: the field is eight byte aligned, and both sides access it only as a whole.
        let tail = unsafe { AtomicU64::from_ptr(field) };
        // ORDERING: pairs with the control dependency on data_tail in __perf_output_begin()
        // (kernel/events/ring_buffer.c): our copies are complete before the kernel may write there
        // again.
        tail.store(self.tail, Ordering::Release);
    }
}

/// Bytes of a page on this machine.
pub fn page_bytes() -> usize {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|it| usize::try_from(it).ok())
        .unwrap_or(4096)
}
