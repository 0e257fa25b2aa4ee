//! Numbers of the perf ABI (`include/uapi/linux/perf_event.h`, Linux 6.18), which never change.

/// `PERF_RECORD_*`: the type in the header of a record.
pub mod record_type {
    /// Records for which the ring had no space.
    pub const LOST: u32 = 2;
    /// New name of a task.
    pub const COMM: u32 = 3;
    /// End of a task.
    pub const EXIT: u32 = 4;
    /// Creation of a task.
    pub const FORK: u32 = 7;
    /// Sample: here always of a tracepoint.
    pub const SAMPLE: u32 = 9;
    /// Code of a file in the memory of a process.
    pub const MMAP2: u32 = 10;
}

/// `PERF_RECORD_MISC_COMM_EXEC`: the name was set by an exec.
pub const MISC_COMM_EXEC: u16 = 1 << 13;

/// `PERF_RECORD_MISC_MMAP_BUILD_ID`: the file is identified by its build id, not by device and
/// inode.
pub const MISC_MMAP_BUILD_ID: u16 = 1 << 14;

/// `PERF_SAMPLE_*`: the fields of a sample.
pub mod sample_type {
    /// Instruction pointer.
    pub const IP: u64 = 1 << 0;
    /// Process and thread.
    pub const TID: u64 = 1 << 1;
    /// Time of the sample.
    pub const TIME: u64 = 1 << 2;
    /// Data address.
    pub const ADDR: u64 = 1 << 3;
    /// Event id.
    pub const ID: u64 = 1 << 6;
    /// Call chain of the task.
    pub const CALLCHAIN: u64 = 1 << 5;
    /// CPU number.
    pub const CPU: u64 = 1 << 7;
    /// Sampling period.
    pub const PERIOD: u64 = 1 << 8;
    /// Stream id.
    pub const STREAM_ID: u64 = 1 << 9;
    /// Payload of the tracepoint.
    pub const RAW: u64 = 1 << 10;
    /// Registers of the program.
    pub const REGS_USER: u64 = 1 << 12;
    /// Stack of the program.
    pub const STACK_USER: u64 = 1 << 13;
    /// Event id at a fixed place.
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// `PERF_CONTEXT_*`: the owner of the functions that follow in a call chain. These values are among
/// the addresses, as the highest numbers.
pub mod context {
    /// Functions of the kernel.
    pub const KERNEL: u64 = 0_u64.wrapping_sub(128);
    /// Functions of the program.
    pub const USER: u64 = 0_u64.wrapping_sub(512);
    /// Lowest number that is not an address (`PERF_CONTEXT_MAX`).
    pub const LOWEST: u64 = 0_u64.wrapping_sub(4095);
}

/// Bytes of `struct perf_event_header`.
pub const HEADER_BYTES: usize = 8;
