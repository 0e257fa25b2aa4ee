//! Strings that the kernel copies into the entries of system calls (from Linux 6.19 on):
//! `__filename_val` for `filename`.
//!
//! The strings are hints. The kernel copies a limited number of bytes (63, unless it was built or
//! configured otherwise) and appends three dots to a string that was cut off. It shows a dot for
//! each byte that it cannot print. A string that it cannot read is empty.

use super::model::StringFrom;
use super::syscall_table::{CallId, Role};
use crate::tracefs::{BindError, EventFormat, FieldKind, IntField, StringField};

/// Mark at the end of a string that was cut off.
const CUT_MARK: &[u8] = b"...";

/// Path that the entry of a call carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventString {
    /// Address in the program's memory.
    pub address: u64,
    /// Bytes as the kernel shows them.
    pub bytes: Vec<u8>,
    /// [`StringFrom::Event`], or [`StringFrom::EventCut`] if the string ends like one that was cut
    /// off.
    pub from: StringFrom,
}

/// Returns a byte of a path as the kernel shows it: itself if Latin-1 can print it (`isprint()` in
/// `lib/ctype.c`), else a dot.
pub fn event_byte(byte: u8) -> u8 {
    if matches!(byte, 0x20..=0x7e | 0xa0..=0xff) { byte } else { b'.' }
}

/// Paths of a call, and the copies of them.
#[derive(Debug, Default)]
pub(super) struct EventStrings(Vec<(IntField, StringField)>);

impl EventStrings {
    pub(super) fn of(call: CallId, format: &EventFormat) -> Result<Self, BindError> {
        let is_argument = |field: &&crate::tracefs::Field| {
            matches!(field.kind, FieldKind::Int | FieldKind::Pointer)
                && !field.name.starts_with("__")
        };
        let arguments = format.event_fields().iter().filter(is_argument).zip(call.call().args);
        let mut strings = Vec::new();
        for (field, _) in arguments.filter(|it| matches!(it.1, Role::Path | Role::Path2)) {
            let copy = format.string_opt(&format!("__{}_val", field.name))?;
            strings.extend(copy.map(|it| Ok((format.int(&field.name)?, it))).transpose()?);
        }
        Ok(Self(strings))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn read(&self, payload: &[u8]) -> Vec<EventString> {
        let strings = self.0.iter().filter_map(|(address, string)| {
            let (address, bytes) = (address.read_u64(payload)?, string.read(payload)?);
            let cut = bytes.strip_suffix(CUT_MARK);
            let from = if cut.is_some() { StringFrom::EventCut } else { StringFrom::Event };
            let bytes = cut.unwrap_or(bytes).to_vec();
            (!bytes.is_empty()).then_some(EventString { address, bytes, from })
        });
        strings.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENAT: &str = include_str!(
        "../../tests/corpus/tracefs/7.2.12+deb13-cloud-amd64/events/syscalls/sys_enter_openat/format"
    );

    #[track_caller]
    fn check(copied: &[u8], expected: Option<(&[u8], StringFrom)>) {
        let format = EventFormat::parse(OPENAT).expect("parses");
        let call = CallId::by_name("openat").expect("in the table");
        let strings = EventStrings::of(call, &format).expect("bound");
        let mut payload = vec![0; 52];
        payload[24..32].copy_from_slice(&0x1000_u64.to_le_bytes());
        let length = u32::try_from(copied.len()).expect("short");
        payload[48..52].copy_from_slice(&(length << 16 | 52).to_le_bytes());
        payload.extend(copied);
        let expected = expected.map(|(bytes, from)| {
            let bytes = bytes.to_vec();
            EventString { address: 0x1000, bytes, from }
        });
        assert_eq!(strings.read(&payload), expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn string_copied_by_the_kernel_is_a_hint() {
        check(b"/tmp/short.txt\0", Some((b"/tmp/short.txt", StringFrom::Event)));
        check(b"/tmp/so long...\0", Some((b"/tmp/so long", StringFrom::EventCut)));
        check(b"\0", None);
        check(b"", None);
    }
}
