//! Parser of one `field:` line.

use std::fmt;

/// Field of an event's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// C declaration as the kernel prints it, such as `unsigned long args[6]`.
    pub declaration: String,
    /// Declared name, such as `args`.
    pub name: String,
    /// Bytes from the start of the payload to the field.
    pub offset: u32,
    /// Bytes of the field; 0 for an array without a length at the record's end.
    pub size: u32,
    /// True if the kernel declares the field's type (for arrays: its elements) signed.
    pub signed: bool,
    /// Way to read the field, as its declaration and size determine it.
    pub kind: FieldKind,
    /// True if the line has a `signed:` column; kernels before 2.6.33 had none.
    pub(super) signed_column: bool,
}

/// Way to read the bytes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Integer or enumeration of 1, 2, 4 or 8 bytes.
    Int,
    /// Address of the kernel or of the traced program.
    Pointer,
    /// Array in place, of integers or addresses.
    Array {
        /// Bytes per element: 1, 2, 4 or 8.
        element_size: u32,
        /// Number of elements, at least 1.
        count: u32,
    },
    /// `char name[N]`: text in place, up to the first NUL or to the array's end.
    CharArray,
    /// `__data_loc T[] name`: a 32-bit word, length in bytes << 16 | offset of the data from the
    /// start of the payload.
    DataLoc {
        /// Bytes per element; `None` for types of unknown size.
        element_size: Option<u32>,
    },
    /// `__rel_loc T[] name`: a 32-bit word as for `DataLoc`, but the offset counts from the end of
    /// this field.
    RelLoc {
        /// Bytes per element; `None` for types of unknown size.
        element_size: Option<u32>,
    },
    /// `T name[]` of size 0: elements up to the end of the record.
    Flexible {
        /// Bytes per element; `None` for types of unknown size.
        element_size: Option<u32>,
    },
    /// Structure, or anything else without an accessor.
    Opaque,
}

impl Field {
    /// Creates a field from the columns of its line; `None` when the declaration lacks the type or
    /// the name.
    pub(super) fn new(
        declaration: &str,
        offset: u32,
        size: u32,
        signed: Option<bool>,
    ) -> Option<Self> {
        let parts = Declaration::split(declaration)?;
        Some(Self {
            declaration: declaration.to_owned(),
            name: parts.name.to_owned(),
            offset,
            size,
            signed: signed.unwrap_or(false),
            kind: parts.kind(size),
            signed_column: signed.is_some(),
        })
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { declaration, offset, size, .. } = self;
        write!(f, "\tfield:{declaration};\toffset:{offset};\tsize:{size};")?;
        if self.signed_column {
            write!(f, "\tsigned:{};", u8::from(self.signed))?;
        }
        writeln!(f)
    }
}

/// Parts of a declaration.
struct Declaration<'a> {
    /// Text before the name, such as `const char *` or `__data_loc char[]`.
    type_text: &'a str,
    name: &'a str,
    /// Text between the brackets after the name, if there are brackets.
    length: Option<&'a str>,
}

impl<'a> Declaration<'a> {
    fn split(text: &'a str) -> Option<Self> {
        let (rest, length) = match text.strip_suffix(']').and_then(|t| t.split_once('[')) {
            Some((rest, length)) => (rest, Some(length)),
            None => (text, None),
        };
        let name_start = rest.rfind([' ', '*'])? + 1;
        let (type_text, name) = rest.split_at_checked(name_start)?;
        let type_text = type_text.trim_end_matches(' ');
        (!type_text.is_empty() && !name.is_empty()).then_some(Self { type_text, name, length })
    }

    fn kind(&self, size: u32) -> FieldKind {
        if let Some(dynamic) = self.dynamic_kind(size) {
            return dynamic;
        }
        let Some(length) = self.length else { return self.scalar_kind(size) };
        let known_size = type_size(self.type_text);
        if size == 0 {
            return FieldKind::Flexible { element_size: known_size };
        }
        if is_char(self.type_text) {
            return FieldKind::CharArray;
        }
        // Kernels differ in the text that they print between the brackets: a number, the name of a
        // C constant, or nothing. The number is the best source of the element's size; without it
        // the type's name must be a known one.
        let element_size = match length.parse::<u32>() {
            Ok(count) => size.checked_div(count),
            Err(_) => known_size,
        };
        match element_size {
            Some(element_size @ (1 | 2 | 4 | 8)) if size.is_multiple_of(element_size) => {
                FieldKind::Array { element_size, count: size / element_size }
            }
            _ => FieldKind::Opaque,
        }
    }

    fn scalar_kind(&self, size: u32) -> FieldKind {
        let by_value = !self.type_text.contains('*');
        let compound = ["struct ", "union "].iter().any(|word| self.type_text.starts_with(word));
        match size {
            1 | 2 | 4 | 8 if !by_value => FieldKind::Pointer,
            1 | 2 | 4 | 8 if !compound && !self.type_text.contains('[') => FieldKind::Int,
            _ => FieldKind::Opaque,
        }
    }

    /// Returns the kind of a `__data_loc` or `__rel_loc` field. The kernel prints the brackets of
    /// the first after its type and those of the second after its name (`f_show()` moves them for
    /// every type but `__data_loc`).
    ///
    /// Two uncommon forms have eight bytes and are left opaque: a kprobe's array of strings
    /// (`__data_loc char[][2]`, one word per string), and the dynamic string of a synthetic event.
    fn dynamic_kind(&self, size: u32) -> Option<FieldKind> {
        let (place, element) = self.type_text.split_once(' ')?;
        let element = element.strip_suffix("[]").unwrap_or(element);
        let element_size = type_size(element);
        let kind = match place {
            "__data_loc" => FieldKind::DataLoc { element_size },
            "__rel_loc" => FieldKind::RelLoc { element_size },
            _ => return None,
        };
        Some(if size == 4 && !element.contains('[') { kind } else { FieldKind::Opaque })
    }
}

fn is_char(type_text: &str) -> bool {
    type_text.strip_prefix("const ").unwrap_or(type_text) == "char"
}

/// Returns the size in bytes of the C types whose arrays come without a number of elements. `long`
/// has 8 bytes: captures come from 64-bit kernels.
fn type_size(type_text: &str) -> Option<u32> {
    if type_text.ends_with('*') {
        return Some(8);
    }
    Some(match type_text.strip_prefix("const ").unwrap_or(type_text) {
        "char" | "signed char" | "unsigned char" | "bool" | "u8" | "s8" | "__u8" | "__s8"
        | "uint8_t" | "int8_t" => 1,
        "short" | "unsigned short" | "u16" | "s16" | "__u16" | "__s16" | "__le16" | "__be16"
        | "uint16_t" | "int16_t" => 2,
        "int" | "unsigned int" | "unsigned" | "u32" | "s32" | "__u32" | "__s32" | "__le32"
        | "__be32" | "uint32_t" | "int32_t" => 4,
        "long" | "unsigned long" | "long long" | "unsigned long long" | "u64" | "s64" | "__u64"
        | "__s64" | "__le64" | "__be64" | "uint64_t" | "int64_t" => 8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(declaration: &str, size: u32, name: &str, kind: FieldKind) {
        let field = Field::new(declaration, 0, size, Some(false)).expect("a declaration");
        assert_eq!((field.name.as_str(), field.kind), (name, kind), "{declaration}");
    }

    #[test]
    fn scalars() {
        check("unsigned short common_type", 2, "common_type", FieldKind::Int);
        check("const char * filename", 8, "filename", FieldKind::Pointer);
        check("const struct landlock_ruleset_attr *const attr", 8, "attr", FieldKind::Pointer);
        check("void *ptr", 8, "ptr", FieldKind::Pointer);
        check("struct timespec64 ts", 16, "ts", FieldKind::Opaque);
        check("struct small s", 8, "s", FieldKind::Opaque);
        check("u128 wide", 16, "wide", FieldKind::Opaque);
    }

    #[test]
    fn arrays_in_place() {
        let array = |element_size, count| FieldKind::Array { element_size, count };
        check("unsigned long args[6]", 48, "args", array(8, 6));
        check("u8 fsid[16]", 16, "fsid", array(1, 16));
        check("char comm[16]", 16, "comm", FieldKind::CharArray);
        check("char comm[TASK_COMM_LEN]", 16, "comm", FieldKind::CharArray);
        check("__u8 saddr[sizeof(struct sockaddr_in6)]", 28, "saddr", array(1, 28));
        // A kprobe's array on kernels before 6.6 has brackets without a number.
        check("u64 words[]", 48, "words", array(8, 6));
        // Sizes that do not fit.
        check("unsigned int x[3]", 13, "x", FieldKind::Opaque);
        check("unsigned int x[0]", 12, "x", FieldKind::Opaque);
        check("struct s x[2]", 24, "x", FieldKind::Opaque);
        check("struct s x[MAX]", 24, "x", FieldKind::Opaque);
    }

    #[test]
    fn arrays_elsewhere() {
        let element_size = Some(1);
        check("__data_loc char[] name", 4, "name", FieldKind::DataLoc { element_size });
        check("__rel_loc char name[]", 4, "name", FieldKind::RelLoc { element_size });
        check("__rel_loc char[] name", 4, "name", FieldKind::RelLoc { element_size });
        check("char buf[]", 0, "buf", FieldKind::Flexible { element_size });
        check("__data_loc u64[] a", 4, "a", FieldKind::DataLoc { element_size: Some(8) });
        check("__data_loc cpumask_t cpus", 4, "cpus", FieldKind::DataLoc { element_size: None });
        check("__data_loc char[][2] names", 8, "names", FieldKind::Opaque);
        check("__data_loc char[] odd", 8, "odd", FieldKind::Opaque);
    }

    #[test]
    fn declarations_without_type_or_name() {
        for text in ["", " ", "int", "int ", "[]", "int [4]", " x", "]"] {
            assert_eq!(Field::new(text, 0, 4, None), None, "{text:?}");
        }
    }
}
