//! Encoder of protobuf's wire format: the few field types that trace packets need.
//!
//! ```text
//!   field  = varint (number << 3 | type) · value
//!   value  = varint | 8 bytes, little endian | varint (length) · bytes
//! ```

/// Type of a value on the wire.
#[derive(Clone, Copy)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
}

/// Encoded fields of a message.
#[derive(Debug, Default)]
pub(super) struct ProtoBuffer {
    bytes: Vec<u8>,
}

/// Place of a nested message that is not complete.
#[derive(Debug)]
pub(super) struct OpenMessage(usize);

impl ProtoBuffer {
    /// Returns the encoded fields.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if there is no field.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes all fields; the memory is kept.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            let [low, ..] = value.to_le_bytes();
            self.bytes.push(low | 0x80);
            value >>= 7;
        }
        let [low, ..] = value.to_le_bytes();
        self.bytes.push(low);
    }

    #[inline]
    fn tag(&mut self, field: u32, kind: WireType) {
        self.varint(u64::from(field << 3 | kind as u32));
    }

    /// Appends a number.
    #[inline]
    pub(super) fn unsigned(&mut self, field: u32, value: u64) {
        self.tag(field, WireType::Varint);
        self.varint(value);
    }

    /// Appends a signed number; a negative one takes ten bytes.
    #[inline]
    pub(super) fn signed(&mut self, field: u32, value: i64) {
        self.unsigned(field, value.cast_unsigned());
    }

    /// Appends a number of eight bytes.
    #[inline]
    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, WireType::Fixed64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends bytes, a text, or a message that is already encoded.
    #[inline]
    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag(field, WireType::Bytes);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// Begins a nested message: the fields until [`Self::end`] belong to it.
    #[inline]
    pub(super) fn begin(&mut self, field: u32) -> OpenMessage {
        self.tag(field, WireType::Bytes);
        self.bytes.push(0);
        OpenMessage(self.bytes.len())
    }

    /// Ends a nested message. One that is longer than 127 bytes is moved: most are shorter.
    #[inline]
    pub(super) fn end(&mut self, message: OpenMessage) {
        let OpenMessage(start) = message;
        let length = self.bytes.len() - start;
        if let (Ok(short @ 0..0x80), Some(place)) =
            (u8::try_from(length), self.bytes.get_mut(start - 1))
        {
            *place = short;
        } else {
            let mut head = Self::default();
            head.varint(length as u64);
            self.bytes.splice(start - 1..start, head.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_bytes_of_the_documentation() {
        let mut buffer = ProtoBuffer::default();
        buffer.unsigned(1, 150);
        assert_eq!(buffer.as_slice(), [0x08, 0x96, 0x01]);
        buffer.clear();
        buffer.signed(2, -1);
        assert_eq!(buffer.as_slice()[0], 0x10);
        assert_eq!(
            buffer.as_slice()[1..],
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]
        );
        buffer.clear();
        buffer.fixed64(47, 3);
        assert_eq!(buffer.as_slice(), [0xf9, 0x02, 3, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn nested_messages_have_their_length() {
        let mut buffer = ProtoBuffer::default();
        let message = buffer.begin(3);
        buffer.unsigned(1, 150);
        buffer.end(message);
        assert_eq!(buffer.as_slice(), [0x1a, 3, 0x08, 0x96, 0x01]);
        buffer.clear();
        let message = buffer.begin(3);
        buffer.bytes(2, &[7; 200]);
        buffer.end(message);
        assert_eq!(buffer.as_slice()[..6], [0x1a, 0xcb, 0x01, 0x12, 0xc8, 0x01]);
        assert_eq!(buffer.as_slice().len(), 3 + 203);
    }
}
