//! Attributes of events: one table, and a list of them that needs no allocation.

use otf2_sys::{AttributeRef, AttributeType, AttributeValue, StringRef};

/// One attribute.
pub(super) struct Attribute {
    pub(super) this: AttributeRef,
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) value_type: AttributeType,
}

macro_rules! attributes {
    ($($id:literal $constant:ident = $name:literal $value_type:ident $description:literal;)*) => {
        $(const $constant: AttributeRef = AttributeRef::new($id);)*

        /// All attributes, by their numbers.
        pub(super) const ATTRIBUTES: &[Attribute] = &[$(Attribute {
            this: $constant, name: $name, description: $description, value_type: AttributeType::$value_type,
        }),*];
    };
}

attributes! {
    0 ERRNO       = "errno"      INT32  "Error number of a call or request that failed.";
    // Score-P's name and description.
    1 OFFSET      = "Offset"     UINT64 "Absolute read/write offset within a file.";
    2 TRUNCATED   = "truncated"  UINT32 "1: the end of this was not recorded; it is shown when nothing more could come.";
    3 PATH        = "path"       STRING "The path that the call was given.";
    4 SECTOR      = "Sector"     UINT64 "First sector of the request, in units of 512 bytes.";
    5 PID         = "pid"        INT32  "The process that issued the request.";
    6 TID         = "tid"        INT32  "The thread that issued the request.";
    7 OPERATION   = "operation"  STRING "Operation of the request, if it is neither a read, a write nor a flush; kind of an asynchronous operation.";
    8 MERGED_INTO = "MergedInto" UINT64 "Matching id, on the device's location, of the request that this one became part of.";
    9 SECOND_PATH = "path2"      STRING "The second path that the call was given: a new name, the contents of a symbolic link.";
    10 LINK       = "link"       STRING "Certainty of the file of the request: exact, inferred, unknown; or the contents, if they are no file.";
    11 PIECES     = "pieces"     UINT32 "Number of pieces of the request: of other files, places or bios; path and offset are those of the first.";
    12 VIA        = "via"        STRING "Devices that the request passed before this one, the nearest first: a partition, a stacked device.";
    13 PROGRAM    = "program"    STRING "Certainty of the program of the first piece: exact (pid requested it), inferred (writer wrote it), unknown; none: the kernel for itself.";
    14 WRITER     = "writer"     INT32  "The process that wrote the bytes of the first piece last, if another brings them to the device.";
    15 INODE      = "inode"      UINT64 "Inode of the file of the first piece, if its path is not known.";
}

/// Attributes of one event, on the stack.
#[derive(Debug)]
pub(super) struct AttributeList {
    list: [(AttributeRef, AttributeValue); Self::MAX],
    length: usize,
}

impl AttributeList {
    /// Limit on the attributes of an event.
    const MAX: usize = 10;

    pub(super) fn new() -> Self {
        Self { list: [(ERRNO, AttributeValue::Int32(0)); Self::MAX], length: 0 }
    }

    fn add(&mut self, attribute: AttributeRef, value: Option<AttributeValue>) -> &mut Self {
        debug_assert!(self.length < Self::MAX || value.is_none(), "room for {attribute:?}");
        if let (Some(value), Some(place)) = (value, self.list.get_mut(self.length)) {
            *place = (attribute, value);
            self.length += 1;
        }
        self
    }

    pub(super) fn errno(&mut self, errno: Option<i32>) -> &mut Self {
        self.add(ERRNO, errno.map(AttributeValue::Int32))
    }

    pub(super) fn offset(&mut self, bytes: Option<u64>) -> &mut Self {
        self.add(OFFSET, bytes.map(AttributeValue::Uint64))
    }

    pub(super) fn truncated(&mut self) -> &mut Self {
        self.add(TRUNCATED, Some(AttributeValue::Uint32(1)))
    }

    pub(super) fn path(&mut self, path: Option<StringRef>) -> &mut Self {
        self.add(PATH, path.map(AttributeValue::String))
    }

    pub(super) fn second_path(&mut self, path: Option<StringRef>) -> &mut Self {
        self.add(SECOND_PATH, path.map(AttributeValue::String))
    }

    pub(super) fn sector(&mut self, sector: u64) -> &mut Self {
        self.add(SECTOR, Some(AttributeValue::Uint64(sector)))
    }

    pub(super) fn task(&mut self, pid: i32, tid: i32) -> &mut Self {
        self.add(PID, Some(AttributeValue::Int32(pid))).add(TID, Some(AttributeValue::Int32(tid)))
    }

    pub(super) fn operation(&mut self, word: Option<StringRef>) -> &mut Self {
        self.add(OPERATION, word.map(AttributeValue::String))
    }

    pub(super) fn merged_into(&mut self, id: Option<u64>) -> &mut Self {
        self.add(MERGED_INTO, id.map(AttributeValue::Uint64))
    }

    /// Attribution of a request.
    pub(super) fn attribution(
        &mut self,
        link: StringRef,
        pieces: u32,
        via: Option<StringRef>,
    ) -> &mut Self {
        self.add(LINK, Some(AttributeValue::String(link)))
            .add(PIECES, Some(AttributeValue::Uint32(pieces)))
            .add(VIA, via.map(AttributeValue::String))
    }

    /// Adds the attribution of a request to a program.
    pub(super) fn program(&mut self, program: StringRef, writer: Option<i32>) -> &mut Self {
        self.add(PROGRAM, Some(AttributeValue::String(program)))
            .add(WRITER, writer.map(AttributeValue::Int32))
    }

    /// Adds the inode of a file without a name.
    pub(super) fn inode(&mut self, ino: u64) -> &mut Self {
        self.add(INODE, Some(AttributeValue::Uint64(ino)))
    }

    pub(super) fn list(&self) -> &[(AttributeRef, AttributeValue)] {
        self.list.get(..self.length).unwrap_or_default()
    }
}
