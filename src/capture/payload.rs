//! Unpacking of stored payloads.

use zstd::bulk::Decompressor;

use super::delta;
use super::format::{Codec, FrameHeader};

/// Unpacks payloads, one after the other; creating one costs as much as unpacking a few KiB.
#[derive(Default)]
pub(super) struct Unpacker(Decompressor<'static>);

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unpacker")
    }
}

impl Unpacker {
    /// Returns the payload; `None` if it does not match the header.
    pub(super) fn unpack(&mut self, header: &FrameHeader, stored: &[u8]) -> Option<Vec<u8>> {
        let length = usize::try_from(header.payload_bytes).ok()?;
        let payload = match header.codec {
            Codec::STORED => stored.to_vec(),
            Codec::ZSTD => self.0.decompress(stored, length).ok()?,
            Codec::ZSTD_DELTA => {
                let mut records = self.0.decompress(stored, length).ok()?;
                delta::decode(header.kind, &mut records);
                records
            }
            _ => return None,
        };
        (payload.len() == length).then_some(payload)
    }
}
