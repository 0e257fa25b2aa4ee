//! Payloads of tracepoints without names.
//!
//! Only what a `format` describes is kept: numbers as they are, texts as pseudonyms of the same
//! length, so that everything stays at its place. All other bytes become 0: buffers, structures,
//! and remains of earlier records between the fields.

use std::ops::Range;

use super::arities;
use super::pseudonyms::Pseudonyms;
use crate::tracefs::{EventFormat, Field, FieldKind};

/// Bytes of the word that locates dynamic data.
const LOCATION_BYTES: usize = 4;

/// Treatment of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextKind {
    /// Letters of the kernel.
    Letters,
    /// Name of a thread.
    Comm,
    /// Path, or any other name.
    Path,
}

/// Place and treatment of a field.
#[derive(Clone, Debug)]
enum FieldRule {
    /// Number, kept.
    Number(Range<usize>),
    /// Number of a user.
    User(Range<usize>),
    /// Text in place.
    Text(Range<usize>, TextKind),
    /// Text up to the end of the record.
    TextToEnd(usize, TextKind),
    /// Number of a system call, and its six arguments.
    Call(Range<usize>, Range<usize>),
    /// Text at the offset that a word has, from the start of the payload or from this place.
    Located(usize, usize, TextKind),
}

/// Rules for the payloads of one tracepoint.
#[derive(Clone, Debug)]
pub(super) struct PayloadRules {
    fields: Vec<FieldRule>,
    /// Kind of the machine, which decides on the numbers of calls.
    machine: String,
    /// True if the payload has contents that are left out.
    pub(super) leaves_out: bool,
}

impl PayloadRules {
    pub(super) fn of(system: &str, format: &EventFormat, machine: &str) -> Self {
        let machine = machine.to_owned();
        let mut rules = Self { fields: Vec::new(), machine, leaves_out: false };
        let is_entry = system == "raw_syscalls" && format.name == "sys_enter";
        let sets_user = system == "syscalls"
            && format.name.starts_with("sys_enter_set")
            && format.name.ends_with("uid");
        let all = format.common_fields().iter().map(|field| (field, false));
        let own = format.event_fields().iter();
        let own = own.map(|field| (field, sets_user && field.name.ends_with("uid")));
        for (field, is_user) in all.chain(own) {
            let rule = match is_entry && field.name == "args" {
                true => call_rule(format, field),
                false => rule(field, is_user),
            };
            match rule {
                Some(rule) => rules.fields.push(rule),
                None => rules.leaves_out = true,
            }
        }
        rules
    }

    /// Replaces a payload.
    pub(super) fn apply(&self, payload: &mut [u8], names: &mut Pseudonyms) {
        let mut out = vec![0; payload.len()];
        for rule in &self.fields {
            match rule {
                FieldRule::Call(number, args) => {
                    arguments(payload, &mut out, number.clone(), args.clone(), &self.machine);
                }
                rule => apply(rule, payload, &mut out, names),
            }
        }
        payload.copy_from_slice(&out);
    }
}

/// Returns the rule of the arguments of any system call.
fn call_rule(format: &EventFormat, args: &Field) -> Option<FieldRule> {
    let number = format.event_fields().iter().find(|field| field.name == "id")?;
    Some(FieldRule::Call(place_of(number)?, place_of(args)?))
}

/// Copies the arguments that a call uses. The other registers hold remains of the program.
fn arguments(
    payload: &[u8],
    out: &mut [u8],
    number: Range<usize>,
    args: Range<usize>,
    machine: &str,
) {
    let number = payload.get(number).and_then(|number| number.first_chunk::<8>());
    let words = payload.get(args.clone()).and_then(|args| args.as_chunks::<8>().0.first_chunk());
    let (Some(number), Some(words)) = (number, words) else { return };
    let words: [u64; 6] = words.map(u64::from_le_bytes);
    let call = arities::call(machine, u64::from_le_bytes(*number));
    let used = call.map_or(0, |call| arities::used(call, words));
    copy(payload, out, args.start..args.start + 8 * used);
}

fn place_of(field: &Field) -> Option<Range<usize>> {
    let at = usize::try_from(field.offset).ok()?;
    Some(at..at.checked_add(usize::try_from(field.size).ok()?)?)
}

/// Returns the rule of a field; `None`: its contents are left out.
fn rule(field: &Field, is_user: bool) -> Option<FieldRule> {
    let place = place_of(field)?;
    let at = place.start;
    let is_text = field.declaration.contains("char");
    let text = text_kind(&field.name);
    Some(match field.kind {
        FieldKind::Int | FieldKind::Pointer if is_user => FieldRule::User(place),
        FieldKind::Int | FieldKind::Pointer => FieldRule::Number(place),
        FieldKind::Array { element_size, .. } if element_size > 1 => FieldRule::Number(place),
        FieldKind::CharArray => FieldRule::Text(place, text),
        FieldKind::DataLoc { .. } if is_text => FieldRule::Located(at, 0, text),
        FieldKind::RelLoc { .. } if is_text => FieldRule::Located(at, place.end, text),
        FieldKind::Flexible { .. } if is_text => FieldRule::TextToEnd(at, text),
        _ => return None,
    })
}

fn text_kind(name: &str) -> TextKind {
    match name {
        "rwbs" => TextKind::Letters,
        name if name.contains("comm") => TextKind::Comm,
        _ => TextKind::Path,
    }
}

fn apply(rule: &FieldRule, payload: &[u8], out: &mut [u8], names: &mut Pseudonyms) {
    match rule {
        FieldRule::Number(place) => copy(payload, out, place.clone()),
        FieldRule::Call(..) => {}
        FieldRule::User(place) => {
            copy(payload, out, place.clone());
            if let Some(bytes) = out.get_mut(place.clone())
                && let Some(low) = bytes.first_chunk_mut::<4>()
            {
                *low = names.user(u32::from_le_bytes(*low)).to_le_bytes();
            }
        }
        FieldRule::Text(place, kind) => text(payload, out, place.clone(), *kind, names),
        FieldRule::TextToEnd(at, kind) => text(payload, out, *at..payload.len(), *kind, names),
        FieldRule::Located(at, base, kind) => {
            let word = *at..at.saturating_add(LOCATION_BYTES);
            let location = payload.get(word.clone()).and_then(|word| word.first_chunk::<4>());
            let Some([offset_low, offset_high, length_low, length_high]) = location.copied() else {
                return;
            };
            copy(payload, out, word);
            let begin = usize::from(u16::from_le_bytes([offset_low, offset_high]));
            let begin = begin.saturating_add(*base);
            let length = usize::from(u16::from_le_bytes([length_low, length_high]));
            text(payload, out, begin..begin.saturating_add(length), *kind, names);
        }
    }
}

fn copy(payload: &[u8], out: &mut [u8], place: Range<usize>) {
    if let (Some(from), Some(to)) = (payload.get(place.clone()), out.get_mut(place)) {
        to.copy_from_slice(from);
    }
}

/// Writes the pseudonym of a text, which ends at its first NUL.
fn text(
    payload: &[u8],
    out: &mut [u8],
    place: Range<usize>,
    kind: TextKind,
    names: &mut Pseudonyms,
) {
    let Some(bytes) = payload.get(place.clone()) else { return };
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let pseudonym = match kind {
        TextKind::Letters => name.to_vec(),
        TextKind::Comm => names.name(name),
        TextKind::Path => names.path(name),
    };
    let to = out.get_mut(place).into_iter().flatten();
    to.zip(pseudonym).for_each(|(to, from)| *to = from);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(fields: &str) -> EventFormat {
        let text = format!(
            "name: sys_enter_setuid\nID: 7\nformat:\n\
             \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n{fields}\nprint fmt: \"\"\n"
        );
        EventFormat::parse(&text).expect("parses")
    }

    fn applied(fields: &str, payload: &[u8]) -> Vec<u8> {
        let rules = PayloadRules::of("syscalls", &format(fields), "x86_64");
        let mut payload = payload.to_vec();
        rules.apply(&mut payload, &mut Pseudonyms::new(b"x"));
        payload
    }

    #[test]
    fn texts_become_pseudonyms_and_unknown_bytes_zero() {
        let fields = "\tfield:char comm[8];\toffset:8;\tsize:8;\tsigned:0;\n\
            \tfield:__data_loc char[] filename;\toffset:16;\tsize:4;\tsigned:0;\n\
            \tfield:char rwbs[4];\toffset:20;\tsize:4;\tsigned:0;\n";
        // Bytes 2 and 3 belong to no field, nor do the last three.
        let payload = b"\x07\0xy\x2a\0\0\0bash\0old\x1c\0\x0b\0WS\0z\
            pad!/tmp/a.txt\0oldold";
        let mut payload = payload.to_vec();
        let length = u16::try_from(b"/tmp/a.txt\0".len()).expect("short");
        payload[18..20].copy_from_slice(&length.to_le_bytes());
        let out = applied(fields, &payload);
        assert_eq!(out.len(), payload.len());
        assert_eq!(out[..8], *b"\x07\0\0\0\x2a\0\0\0");
        assert_eq!((out[12], &out[13..16]), (0, &[0; 3][..]));
        assert!(!out[8..12].eq(b"bash") && out[8..12].iter().all(|byte| *byte > b' '));
        assert_eq!(out[20..24], *b"WS\0\0");
        assert_eq!(out[24..28], [0; 4]);
        assert_eq!((out[28], &out[34..39]), (b'/', &b".txt\0"[..]));
        assert!(!out[28..].starts_with(b"/tmp/a") && out[39..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn users_become_other_numbers() {
        let fields = "\tfield:uid_t uid;\toffset:8;\tsize:8;\tsigned:0;\n";
        let payload =
            |user: u64| [b"\x07\0\0\0\x2a\0\0\0".as_slice(), &user.to_le_bytes()].concat();
        assert_eq!(applied(fields, &payload(0)), payload(0));
        assert_ne!(applied(fields, &payload(1000)), payload(1000));
    }

    /// Fails if registers that a call does not use stay.
    #[test]
    fn arguments_beyond_the_arity_are_cleared() {
        let text = "name: sys_enter\nID: 7\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
            \tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n\nprint fmt: \"\"\n";
        let format = EventFormat::parse(text).expect("parses");
        let rules = PayloadRules::of("raw_syscalls", &format, "x86_64");
        // read, close, a call without a row.
        for (number, kept) in [(0_u64, 3), (3, 1), (9999, 0)] {
            let mut payload = [&[0; 8], &*number.to_le_bytes().to_vec(), &[b'A'; 48]].concat();
            rules.apply(&mut payload, &mut Pseudonyms::new(b"x"));
            let letters = payload.iter().filter(|byte| **byte == b'A').count();
            assert_eq!(letters, 8 * kept, "{number}");
        }
    }

    #[test]
    fn any_payload_can_be_replaced() {
        let fields = "\tfield:__rel_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;\n\
            \tfield:char rest[];\toffset:12;\tsize:0;\tsigned:0;\n\
            \tfield:u64 words[3];\toffset:16;\tsize:24;\tsigned:0;\n";
        let full: Vec<u8> = (0..60).map(|number| 255 - number).collect();
        for length in 0..full.len() {
            assert_eq!(applied(fields, &full[..length]).len(), length);
        }
    }
}
