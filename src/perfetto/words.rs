//! Words that every trace interns at its beginning: categories of events and names of arguments.

/// Category of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventCategory {
    /// System call.
    Syscall,
    /// Asynchronous operation.
    Async,
    /// Block request.
    Block,
    /// Part of a block request: its time in the queue, or at the device.
    BlockPart,
    /// Page fault.
    Fault,
    /// Span of a layer inside a call or a kernel thread.
    Layer,
    /// New name of a thread.
    Rename,
    /// Input that could not be interpreted.
    Anomaly,
    /// Begin and end of the capture.
    Capture,
}

/// Categories in the order of their numbers.
pub(super) const CATEGORIES: [(EventCategory, &str); 9] = [
    (EventCategory::Syscall, "syscall"),
    (EventCategory::Async, "async"),
    (EventCategory::Block, "block"),
    (EventCategory::BlockPart, "block.part"),
    (EventCategory::Fault, "fault"),
    (EventCategory::Layer, "layer"),
    (EventCategory::Rename, "rename"),
    (EventCategory::Anomaly, "anomaly"),
    (EventCategory::Capture, "capture"),
];

impl EventCategory {
    /// Returns the interned number of the category.
    #[inline]
    pub(super) fn iid(self) -> u64 {
        self as u64 + 1
    }
}

macro_rules! argument_names {
    ($($variant:ident $word:literal,)*) => {
        /// Name of an argument.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum ArgumentName {
            $(#[doc = concat!("Argument `", $word, "`.")] $variant,)*
        }

        /// Names of arguments in the order of their numbers.
        pub(super) const ARGUMENT_NAMES: &[(ArgumentName, &str)] =
            &[$((ArgumentName::$variant, $word),)*];
    };
}

argument_names! {
    Path "path",
    PathSource "path_source",
    PathAbsolute "path_absolute",
    Path2 "path2",
    Fd "fd",
    Fd2 "fd2",
    Offset "offset",
    Offset2 "offset2",
    BytesRequested "bytes_requested",
    Bytes "bytes",
    Result "result",
    Errno "errno",
    Unfinished "unfinished",
    Requests "requests",
    DurationNs "duration_ns",
    StartNs "start_ns",
    Address "address",
    Access "access",
    Interface "interface",
    Opcode "opcode",
    UserData "user_data",
    Tid "tid",
    Pid "pid",
    Comm "comm",
    DoneBy "done_by",
    File "file",
    Layer "layer",
    Request "request",
    Device "device",
    Sector "sector",
    BytesDone "bytes_done",
    Ending "ending",
    Into "into",
    Flush "flush",
    Rwbs "rwbs",
    Merges "merges",
    Requeues "requeues",
    Contents "contents",
    Link "link",
    Program "program",
    Inode "ino",
    Pieces "pieces",
    Writer "writer_pid",
    WriterComm "writer_comm",
    Cpu "cpu",
    Count "count",
    Detail "detail",
    Text "text",
}

impl ArgumentName {
    /// Returns the interned number of the name.
    #[inline]
    pub(super) fn iid(self) -> u64 {
        self as u64 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_the_order_of_their_numbers() {
        for (place, (category, _)) in CATEGORIES.iter().enumerate() {
            assert_eq!(category.iid(), place as u64 + 1);
        }
        for (place, (name, _)) in ARGUMENT_NAMES.iter().enumerate() {
            assert_eq!(name.iid(), place as u64 + 1);
        }
    }
}
