//! Byte map of a capture log (`.iocap`), version 2.4. All integers are little-endian.
//!
//! # The file
//!
//! ```text
//! offset  bytes
//!      0      8  magic "IOTRCAP\n"
//!      8      2  major version: a reader refuses one that it does not know; this one reads 1, too
//!     10      2  minor version: grows with every addition that an older reader may skip
//!     12      4  reserved, 0
//!     16         frames, one after the other, until the end of the file
//! ```
//!
//! The file is only ever appended to, a whole frame at a time. It needs neither an index nor an
//! end: everything that was written can be read.
//!
//! # A frame
//!
//! ```text
//! offset  bytes
//!      0      4  magic "IOFR": to find the next frame after damaged bytes
//!      4      1  kind (below)
//!      5      1  codec: 0 = stored, 1 = zstd, 2 = zstd of records or facts with differences for
//!                times ([`super::delta`])
//!      6      2  layout of a data frame: index into the header's `layouts`; 0 otherwise
//!      8      4  CPU of a data frame; u32::MAX otherwise
//!     12      4  stream of a data frame: index into the header's `rings`; 0 otherwise
//!     16      8  first time: data: the earliest record, ROUND: its T, others: the time of writing
//!                (ns, the capture's clock)
//!     24      8  last time: data: the latest record; otherwise as above
//!     32      4  number of records (data) or facts (facts); 0 otherwise
//!     36      4  bytes of the payload as stored in the file
//!     40      4  bytes of the payload decoded
//!     44      4  CRC-32 (IEEE) of the stored payload
//!     48      4  CRC-32 (IEEE) of the 48 bytes before
//!     52         the payload
//! ```
//!
//! # Kinds
//!
//! | kind | name | payload |
//! |---|---|---|
//! | 1 | HEADER | JSON, see [`super::header::Header`]; the first frame |
//! | 2 | DATA | whole records of one ring, as the kernel wrote them; for tracefs its pages, cut |
//! | 3 | ROUND | empty; T = first time: all rings were taken after the clock showed T |
//! | 4 | FACTS | facts, see [`super::fact`] |
//! | 6 | `LAST_FACTS` | facts found at the end, for the whole recording; before END |
//! | 5 | END | JSON, see [`super::header::End`]; the last frame of a complete recording |
//!
//! A page of a tracefs ring is cut after its data. `LAST_FACTS` follow all rounds. A reader skips
//! kinds that it does not know.

/// First bytes of the file.
pub const FILE_MAGIC: [u8; 8] = *b"IOTRCAP\n";
/// Bytes before the first frame.
pub const FILE_HEADER_BYTES: usize = 16;
/// Major version that this code writes and reads: it changes when an older reader would misread the
/// log. (2: names share parts, times of facts and of pages are differences.)
pub const MAJOR: u16 = 2;
/// Oldest major version that this code reads.
pub const MAJOR_OLDEST: u16 = 1;
/// Minor version that this code writes: additions.
pub const MINOR: u16 = 4;
/// First bytes of a frame.
pub const FRAME_MAGIC: [u8; 4] = *b"IOFR";
/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: usize = 52;
/// Maximum bytes of a payload, decoded or stored. A ring has at most 512 MiB and is cut into frames
/// of a few MiB. A reader allocates no more than this, whatever a damaged file claims.
pub const PAYLOAD_BYTES_MAX: u32 = 64 << 20;
/// CPU number of frames that belong to no CPU.
pub const NO_CPU: u32 = u32::MAX;

/// Kind of a frame; an open set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameKind(pub u8);

impl FrameKind {
    /// Description of the capture, and of how to read its bytes.
    pub const HEADER: Self = Self(1);
    /// Records of one ring.
    pub const DATA: Self = Self(2);
    /// Time before which all rings were taken.
    pub const ROUND: Self = Self(3);
    /// Names, snapshots, counters.
    pub const FACTS: Self = Self(4);
    /// Totals of a recording that ended in order.
    pub const END: Self = Self(5);
    /// Facts that were found at the end and hold for the whole recording.
    pub const LAST_FACTS: Self = Self(6);
}

/// Storage form of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec(pub u8);

impl Codec {
    /// Payload stored as it is.
    pub const STORED: Self = Self(0);
    /// Payload in one zstd frame.
    pub const ZSTD: Self = Self(1);
    /// Payload of records or facts whose times are differences, see [`super::delta`], in one zstd
    /// frame.
    pub const ZSTD_DELTA: Self = Self(2);
}

/// Header of a frame, which precedes its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Kind of the payload.
    pub kind: FrameKind,
    /// Storage form of the payload.
    pub codec: Codec,
    /// Index into the header's layouts (data frames).
    pub layout: u16,
    /// CPU number, or [`NO_CPU`].
    pub cpu: u32,
    /// Index among the CPU's rings (data frames).
    pub stream: u32,
    /// First time, in nanoseconds of the capture's clock.
    pub first_time: u64,
    /// Last time, in nanoseconds of the capture's clock.
    pub last_time: u64,
    /// Number of records or facts in the frame.
    pub items: u32,
    /// Bytes of the payload in the file.
    pub stored_bytes: u32,
    /// Bytes of the decoded payload.
    pub payload_bytes: u32,
    /// Checksum of the stored payload.
    pub payload_crc: u32,
}

impl FrameHeader {
    /// Creates a header of this kind for an empty frame of CPU 0.
    #[cfg(test)]
    pub fn bare(kind: FrameKind) -> Self {
        Self {
            kind,
            codec: Codec::STORED,
            layout: 0,
            cpu: 0,
            stream: 0,
            first_time: 0,
            last_time: 0,
            items: 0,
            stored_bytes: 0,
            payload_bytes: 0,
            payload_crc: 0,
        }
    }

    /// Returns the bytes in the file, checksum included.
    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        let fields: [&[u8]; 12] = [
            &FRAME_MAGIC,
            &[self.kind.0, self.codec.0],
            &self.layout.to_le_bytes(),
            &self.cpu.to_le_bytes(),
            &self.stream.to_le_bytes(),
            &self.first_time.to_le_bytes(),
            &self.last_time.to_le_bytes(),
            &self.items.to_le_bytes(),
            &self.stored_bytes.to_le_bytes(),
            &self.payload_bytes.to_le_bytes(),
            &self.payload_crc.to_le_bytes(),
            &[],
        ];
        for (to, from) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        let (covered, crc) = bytes.split_at_mut(FRAME_HEADER_BYTES - 4);
        crc.copy_from_slice(&crc32fast::hash(covered).to_le_bytes());
        bytes
    }

    /// Decodes the bytes in the file; `None` if they are not a frame header or damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; FRAME_HEADER_BYTES] = bytes.get(..FRAME_HEADER_BYTES)?.try_into().ok()?;
        let (covered, crc) = bytes.split_last_chunk::<4>()?;
        if !bytes.starts_with(&FRAME_MAGIC) || u32::from_le_bytes(*crc) != crc32fast::hash(covered)
        {
            return None;
        }
        let mut fields = Cursor(covered.get(4..)?);
        let header = Self {
            kind: FrameKind(fields.u8()?),
            codec: Codec(fields.u8()?),
            layout: fields.u16()?,
            cpu: fields.u32()?,
            stream: fields.u32()?,
            first_time: fields.u64()?,
            last_time: fields.u64()?,
            items: fields.u32()?,
            stored_bytes: fields.u32()?,
            payload_bytes: fields.u32()?,
            payload_crc: fields.u32()?,
        };
        let sane =
            header.stored_bytes <= PAYLOAD_BYTES_MAX && header.payload_bytes <= PAYLOAD_BYTES_MAX;
        sane.then_some(header)
    }
}

/// Reads integers and byte strings from the front of a slice; `None` once there are too few bytes
/// left.
#[derive(Debug)]
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[it]| it)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a `u32` length and this many bytes.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_header_is_what_the_map_says() {
        let header = FrameHeader {
            kind: FrameKind::DATA,
            codec: Codec::ZSTD,
            layout: 1,
            cpu: 3,
            stream: 1,
            first_time: 0x0102_0304,
            last_time: 0x0506_0708,
            items: 9,
            stored_bytes: 10,
            payload_bytes: 11,
            payload_crc: 12,
        };
        let bytes = header.encode();
        assert_eq!(&bytes[..16], b"IOFR\x02\x01\x01\0\x03\0\0\0\x01\0\0\0");
        assert_eq!(bytes[16..20], [4, 3, 2, 1]);
        assert_eq!(bytes[36..40], [10, 0, 0, 0]);
        assert_eq!(FrameHeader::decode(&bytes), Some(header));
        for position in 0..bytes.len() {
            let mut damaged = bytes;
            damaged[position] ^= 0x10;
            assert_eq!(FrameHeader::decode(&damaged), None, "byte {position}");
        }
    }
}
