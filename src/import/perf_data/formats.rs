//! Tracing data of a `perf.data` file: the `format` files of the recorded tracepoints
//! (`tools/perf/util/trace-event-info.c` writes them).
//!
//! ```text
//!   17 08 44 "tracing" │ version, NUL │ u8 endian │ u8 long │ u32 page
//!   "header_page" NUL u64 size … │ "header_event" NUL u64 size …
//!   u32 count, (u64 size, format) …          events of ftrace
//!   u32 systems, (name NUL, u32 count, (u64 size, format) …) …
//! ```

use super::refusal::Refusal;

/// First bytes of the data.
const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Limit on the tracepoints.
const FORMATS_MAX: usize = 1 << 16;

/// `format` file of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TracepointFormat {
    pub(super) system: String,
    pub(super) name: String,
    pub(super) id: u16,
    pub(super) text: String,
}

/// Reads the formats of all systems.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<TracepointFormat>, Refusal> {
    DataCursor(bytes).formats().ok_or_else(|| Refusal::damaged("its tracing data is incomplete"))
}

/// Bytes that are left.
struct DataCursor<'a>(&'a [u8]);

impl<'a> DataCursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// Takes `u64 size` and as many bytes.
    fn sized(&mut self) -> Option<&'a [u8]> {
        let size = self.take(8)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
        self.take(usize::try_from(size).ok()?)
    }

    /// Takes a text and its NUL.
    fn text(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(end)?;
        self.take(1)?;
        Some(text)
    }

    fn formats(&mut self) -> Option<Vec<TracepointFormat>> {
        (self.take(MAGIC.len())? == MAGIC).then_some(())?;
        self.text()?;
        // Byte order, size of a long, size of a page.
        self.take(6)?;
        for _ in 0..2 {
            self.text()?;
            self.sized()?;
        }
        for _ in 0..self.u32()? {
            self.sized()?;
        }
        let mut formats = Vec::new();
        for _ in 0..self.u32()? {
            let system = String::from_utf8_lossy(self.text()?).into_owned();
            for _ in 0..self.u32()? {
                let text = String::from_utf8_lossy(self.sized()?).into_owned();
                if formats.len() < FORMATS_MAX {
                    formats.push(TracepointFormat::new(&system, text)?);
                }
            }
        }
        Some(formats)
    }
}

impl TracepointFormat {
    /// Reads the name and the number in the first lines of a `format` file.
    fn new(system: &str, text: String) -> Option<Self> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let (name, id) = (value("name: ")?.trim().to_owned(), value("ID: ")?.trim().parse().ok()?);
        Some(Self { system: system.to_owned(), name, id, text })
    }
}
