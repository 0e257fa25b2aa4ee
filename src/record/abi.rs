//! Numbers of the perf ABI (`include/uapi/linux/perf_event.h`, Linux 6.18; they never change).

/// `PERF_RECORD_*`: the type in a record's header.
pub mod record_type {
    /// Records that the ring had no room for.
    pub const LOST: u32 = 2;
    /// A task's new name.
    pub const COMM: u32 = 3;
    /// A task's end.
    pub const EXIT: u32 = 4;
    /// A task's birth.
    pub const FORK: u32 = 7;
    /// A sample: here always a tracepoint hit.
    pub const SAMPLE: u32 = 9;
    /// A file's code in a process's memory.
    pub const MMAP2: u32 = 10;
}

/// `PERF_RECORD_MISC_COMM_EXEC`: the name comes from an exec.
pub const MISC_COMM_EXEC: u16 = 1 << 13;

/// `PERF_RECORD_MISC_MMAP_BUILD_ID`: the file is told by its build id, not by device and inode.
pub const MISC_MMAP_BUILD_ID: u16 = 1 << 14;

/// `PERF_SAMPLE_*`: which fields a sample has.
pub mod sample_type {
    /// Instruction pointer.
    pub const IP: u64 = 1 << 0;
    /// Process and thread.
    pub const TID: u64 = 1 << 1;
    /// Time.
    pub const TIME: u64 = 1 << 2;
    /// Data address.
    pub const ADDR: u64 = 1 << 3;
    /// Event id.
    pub const ID: u64 = 1 << 6;
    /// Through which functions the task came there.
    pub const CALLCHAIN: u64 = 1 << 5;
    /// CPU.
    pub const CPU: u64 = 1 << 7;
    /// Period.
    pub const PERIOD: u64 = 1 << 8;
    /// Stream id.
    pub const STREAM_ID: u64 = 1 << 9;
    /// Payload of the tracepoint.
    pub const RAW: u64 = 1 << 10;
    /// Registers of the program.
    pub const REGS_USER: u64 = 1 << 12;
    /// Its stack.
    pub const STACK_USER: u64 = 1 << 13;
    /// Event id at a fixed place.
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// `PERF_CONTEXT_*`: whose functions follow in a chain. They stand among the addresses, as the highest numbers.
pub mod context {
    /// The kernel's.
    pub const KERNEL: u64 = 0_u64.wrapping_sub(128);
    /// The program's.
    pub const USER: u64 = 0_u64.wrapping_sub(512);
    /// The lowest number that is no address (`PERF_CONTEXT_MAX`).
    pub const LOWEST: u64 = 0_u64.wrapping_sub(4095);
}

/// Bytes of `struct perf_event_header`.
pub const HEADER_BYTES: usize = 8;
