//! Marks of accesses whose file was opened with flags that change what they do: `(direct, sync)`.

use super::super::flags::OpenFlagNames;

/// Flags and their marks, in the order of a line. `O_SYNC` contains `O_DSYNC`.
const MARKS: [(&str, &str); 4] =
    [("O_DIRECT", "direct"), ("O_SYNC", "sync"), ("O_DSYNC", "dsync"), ("O_APPEND", "append")];

/// Bits of these flags on any architecture: most files have none of them.
const ANY: u32 = 0o40000 | 0o200_000 | 0o4_010_000 | 0o2000;

/// Writes the marks of these flags; nothing without any.
pub(super) fn write(line: &mut Vec<u8>, names: &OpenFlagNames, flags: Option<u32>) {
    let Some(flags) = flags.filter(|flags| flags & ANY != 0) else { return };
    let bits = |name: &str| names.iter().find(|flag| flag.1 == name).map_or(0, |flag| flag.0);
    let mut left = flags;
    let mut separator: &[u8] = b" (";
    for (name, mark) in MARKS {
        let bits = bits(name);
        if bits == 0 || left & bits != bits {
            continue;
        }
        left &= !bits;
        line.extend_from_slice(separator);
        line.extend_from_slice(mark.as_bytes());
        separator = b", ";
    }
    if separator == b", " {
        line.push(b')');
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::flags::{OPEN_AARCH64, OPEN_GENERIC};
    use super::*;

    #[test]
    fn flags_that_change_accesses_have_marks() {
        let marks = |names: &OpenFlagNames, flags| {
            let mut line = Vec::new();
            write(&mut line, names, Some(flags));
            String::from_utf8(line).expect("UTF-8")
        };
        assert_eq!(marks(&OPEN_GENERIC, 0o40002), " (direct)");
        assert_eq!(marks(&OPEN_AARCH64, 0o200_001), " (direct)");
        assert_eq!(marks(&OPEN_GENERIC, 0o4_010_000 | 0o2001), " (sync, append)");
        assert_eq!(marks(&OPEN_GENERIC, 0o10000 | 0o2_000_000), " (dsync)");
        assert_eq!(marks(&OPEN_GENERIC, 0o102), "");
    }
}
