//! BTF parser: offsets of the members of kernel structures, from the kernel's own description
//! `/sys/kernel/btf/vmlinux` (`Documentation/bpf/btf.rst`). Definitions of probes need them to
//! fetch memory.
//!
//! Pure: bytes in, offsets out. Any input is accepted.

/// Magic number (`BTF_MAGIC`).
const MAGIC: u16 = 0xeb9f;
/// Bytes of a `struct btf_header` that matter here.
const HEADER_BYTES: usize = 24;
/// Bytes of a `struct btf_type`.
const TYPE_BYTES: usize = 12;
/// Bytes of a `struct btf_member`.
const MEMBER_BYTES: usize = 12;
/// Largest depth of types: a chain of names, or structures in structures.
const DEPTH_MAX: u32 = 16;

/// Bytes that follow a type, by its `BTF_KIND_*`: a fixed number, and a number for each of its
/// `vlen`.
const BEHIND: [(usize, usize); 20] = [
    (0, 0),
    (4, 0),
    (0, 0),
    (12, 0),
    (0, 12),
    (0, 12),
    (0, 8),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 8),
    (4, 0),
    (0, 12),
    (0, 0),
    (4, 0),
    (0, 0),
    (0, 12),
];
const INT: u32 = 1;
const POINTER: u32 = 2;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
/// `typedef`, `volatile`, `const`, `restrict`, and tags: other names of a type.
const OTHER_NAMES: [u32; 5] = [8, 9, 10, 11, 18];

/// Types of the kernel.
#[derive(Debug)]
pub(super) struct Btf<'a> {
    strings: &'a [u8],
    types: &'a [u8],
    /// Start of each type; the first has the number 1.
    starts: Vec<usize>,
}

/// A member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Offset from the start of the structure, in bytes.
    pub(super) offset: u32,
    /// Size in bytes; 0: neither a number nor a pointer.
    pub(super) bytes: u32,
}

/// One type.
#[derive(Clone, Copy, Debug)]
struct Type<'a> {
    name: u32,
    kind: u32,
    /// True if members include bit fields, so that offsets are encoded differently.
    has_bits: bool,
    /// Size in bytes, or the number of another type.
    size_or_type: u32,
    members: &'a [u8],
}

impl<'a> Btf<'a> {
    /// Parses these bytes; `None`: their layout is unknown.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header = bytes.get(..HEADER_BYTES)?;
        if u16::from_le_bytes(*header.first_chunk()?) != MAGIC {
            return None;
        }
        let at = |place: usize| usize_at(header, place);
        let body = bytes.get(at(4)?..)?;
        let part = |from: usize, length: usize| body.get(from..)?.get(..length);
        let (types, strings) = (part(at(8)?, at(12)?)?, part(at(16)?, at(20)?)?);
        let mut starts = Vec::new();
        let mut place = 0;
        while place < types.len() {
            starts.push(place);
            let info = word(types, place + 4)?;
            let (fixed, each) = *BEHIND.get(usize::try_from(kind(info)).ok()?)?;
            place = place.checked_add(TYPE_BYTES + fixed + each * length(info))?;
        }
        Some(Self { strings, types, starts })
    }

    /// Returns a member of the first structure with this name that has it, also within members
    /// without a name.
    pub(super) fn member(&self, structure: &str, member: &str) -> Option<Member> {
        let numbers = 1..=u32::try_from(self.starts.len()).ok()?;
        numbers
            .filter_map(|it| self.get(it))
            .filter(|it| it.kind == STRUCT && self.is_called(it.name, structure))
            .find_map(|it| self.within(&it, member, DEPTH_MAX))
    }

    fn get(&self, number: u32) -> Option<Type<'a>> {
        let start = *self.starts.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
        let info = word(self.types, start + 4)?;
        let kind = kind(info);
        // Only members of structures and unions are examined.
        let members = if matches!(kind, STRUCT | UNION) { length(info) } else { 0 };
        Some(Type {
            name: word(self.types, start)?,
            kind,
            has_bits: info >> 31 == 1,
            size_or_type: word(self.types, start + 8)?,
            members: self.types.get(start + TYPE_BYTES..)?.get(..MEMBER_BYTES * members)?,
        })
    }

    fn is_called(&self, name: u32, wanted: &str) -> bool {
        let name = usize::try_from(name).ok().and_then(|it| self.strings.get(it..));
        name.and_then(|it| it.split(|&it| it == 0).next()) == Some(wanted.as_bytes())
    }

    fn within(&self, structure: &Type<'a>, wanted: &str, depth: u32) -> Option<Member> {
        let depth = depth.checked_sub(1)?;
        structure.members.chunks_exact(MEMBER_BYTES).find_map(|bytes| {
            let (name, of, place) = (word(bytes, 0)?, word(bytes, 4)?, word(bytes, 8)?);
            let bits = if structure.has_bits { place & 0xff_ffff } else { place };
            let offset = bits / 8;
            if name != 0 {
                let found = self.is_called(name, wanted);
                return found.then(|| Member { offset, bytes: self.bytes_of(of).unwrap_or(0) });
            }
            let inner = self.get(of).filter(|it| matches!(it.kind, STRUCT | UNION))?;
            let found = self.within(&inner, wanted, depth)?;
            Some(Member { offset: offset.checked_add(found.offset)?, ..found })
        })
    }

    fn bytes_of(&self, mut number: u32) -> Option<u32> {
        for _ in 0..DEPTH_MAX {
            let found = self.get(number)?;
            match found.kind {
                INT | ENUM => return Some(found.size_or_type),
                POINTER => return Some(8),
                other if OTHER_NAMES.contains(&other) => number = found.size_or_type,
                _ => return None,
            }
        }
        None
    }
}

fn kind(info: u32) -> u32 {
    info >> 24 & 0x1f
}

fn length(info: u32) -> usize {
    usize::from(u16::try_from(info & 0xffff).unwrap_or(u16::MAX))
}

fn word(bytes: &[u8], place: usize) -> Option<u32> {
    bytes.get(place..)?.first_chunk().map(|it| u32::from_le_bytes(*it))
}

fn usize_at(bytes: &[u8], place: usize) -> Option<usize> {
    usize::try_from(word(bytes, place)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `struct file { union { struct inode *f_inode; int other; }; int flags : 3; }`, as a
    /// compiler describes it.
    fn sample() -> Vec<u8> {
        let strings = b"\0file\0f_inode\0flags\0int\0other\0fmode_t\0";
        let name = |text: &str| {
            let found = strings.windows(text.len()).position(|it| it == text.as_bytes());
            u32::try_from(found.expect("there")).expect("short")
        };
        let info = |kind: u32, length: u32| kind << 24 | length;
        let words = [
            // 1: int; 2: a pointer; 3: a typedef of 1.
            vec![name("int"), info(INT, 0), 4, 0],
            vec![0, info(POINTER, 0), 0],
            vec![name("fmode_t"), info(8, 0), 1],
            // 4: the union; 5: the structure, with bit fields.
            vec![0, info(UNION, 2), 8, name("f_inode"), 2, 0, name("other"), 1, 0],
            vec![
                name("file"),
                info(STRUCT, 2) | 1 << 31,
                24,
                0,
                4,
                64,
                name("flags"),
                3,
                3 << 24 | 128,
            ],
        ];
        let types: Vec<u8> = words.concat().iter().flat_map(|it| it.to_le_bytes()).collect();
        let length = |it: usize| u32::try_from(it).expect("short").to_le_bytes();
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        bytes.extend(24_u32.to_le_bytes());
        bytes.extend(
            [[0; 4], length(types.len()), length(types.len()), length(strings.len())].concat(),
        );
        bytes.extend(types);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn members_are_found_by_their_names() {
        let bytes = sample();
        let btf = Btf::parse(&bytes).expect("parses");
        let member = |it| btf.member("file", it).map(|it| (it.offset, it.bytes));
        assert_eq!(member("f_inode"), Some((8, 8)));
        assert_eq!(member("other"), Some((8, 4)));
        assert_eq!(member("flags"), Some((16, 4)));
        assert_eq!(member("none"), None);
        assert_eq!(btf.member("inode", "flags"), None);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let bytes = sample();
        for end in 0..bytes.len() {
            if let Some(btf) = Btf::parse(&bytes[..end]) {
                btf.member("file", "f_inode");
            }
        }
        for place in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = bytes.clone();
                bytes[place] = value;
                if let Some(btf) = Btf::parse(&bytes) {
                    btf.member("file", "f_inode");
                }
            }
        }
    }
}
