//! Texts that are written once and then referred to by number, until the table is full.

use rustc_hash::FxHashMap;

use super::schema::interned;
use super::wire::ProtoBuffer;
use crate::text::escape::shown;

/// Limit on texts of one state.
const TEXTS_MAX: usize = 1 << 16;

/// Limit on the bytes of all texts of one state.
const BYTES_MAX: usize = 8 << 20;

/// Texts of one state of the sequence.
#[derive(Debug, Default)]
pub(super) struct InternedTexts {
    names: FxHashMap<&'static str, u64>,
    texts: FxHashMap<Box<[u8]>, u64>,
    bytes: usize,
    /// Entries that no packet contains yet.
    pending: ProtoBuffer,
    /// Buffer of an escaped text.
    escaped: Vec<u8>,
}

/// Appends an entry of `InternedData`.
pub(super) fn push_entry(data: &mut ProtoBuffer, field: u32, iid: u64, text: &[u8]) {
    let entry = data.begin(field);
    data.unsigned(interned::IID, iid);
    data.bytes(interned::TEXT, text);
    data.end(entry);
}

impl InternedTexts {
    /// Returns true if the next event needs a new state.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.texts.len() >= TEXTS_MAX || self.bytes >= BYTES_MAX
    }

    /// Forgets all texts.
    pub(super) fn clear(&mut self) {
        self.names.clear();
        self.texts.clear();
        self.bytes = 0;
        self.pending.clear();
    }

    /// Returns the number of an event's name.
    #[inline]
    pub(super) fn name(&mut self, name: &'static str) -> u64 {
        if let Some(known) = self.names.get(name) {
            return *known;
        }
        let iid = self.names.len() as u64 + 1;
        self.names.insert(name, iid);
        push_entry(&mut self.pending, interned::EVENT_NAMES, iid, name.as_bytes());
        iid
    }

    /// Returns the number of an argument's text.
    #[inline]
    pub(super) fn text(&mut self, text: &[u8]) -> u64 {
        match self.texts.get(text) {
            Some(known) => *known,
            None => self.add(text),
        }
    }

    #[cold]
    fn add(&mut self, text: &[u8]) -> u64 {
        let iid = self.texts.len() as u64 + 1;
        self.texts.insert(text.into(), iid);
        self.bytes += text.len();
        self.escaped.clear();
        shown(&mut self.escaped, text, b"");
        push_entry(&mut self.pending, interned::ANNOTATION_STRINGS, iid, &self.escaped);
        iid
    }

    /// Returns the entries that the next packet has to contain.
    #[inline]
    pub(super) fn pending(&self) -> &ProtoBuffer {
        &self.pending
    }

    /// Takes note that a packet contains the entries.
    #[inline]
    pub(super) fn written(&mut self) {
        self.pending.clear();
    }
}
