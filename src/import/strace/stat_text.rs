//! Metadata of a file as `fstat`, `newfstatat` and `statx` print it.

use super::call::{self, whole};
use super::prefix::name_of;
use super::value::{elements, number, string};
use crate::event::FileStat;
use crate::import::constants::ConstantTable;
use crate::units::DevId;

/// Calls for metadata, and the prefixes of their fields.
const CALLS: [(&[u8], &[u8]); 4] =
    [(b"fstat", b"st_"), (b"fstat64", b"st_"), (b"newfstatat", b"st_"), (b"statx", b"stx_")];

/// True if this line is the begin of a query for the file of a descriptor, whose result is in
/// another line.
pub(super) fn begins_query(line: &[u8], fd: i32) -> bool {
    let is_query = |(name, arguments): (&[u8], &[u8])| {
        CALLS.iter().any(|call| call.0 == name) && number(arguments) == u64::try_from(fd).ok()
    };
    line.ends_with(b"<unfinished ...>") && name_of(line).is_some_and(is_query)
}

/// Metadata of a descriptor's file, if this line is a query for it.
pub(super) fn stat(line: &[u8], fd: i32, words: &ConstantTable) -> Option<FileStat> {
    let (name, arguments) = name_of(line)?;
    let &(_, field) = CALLS.iter().find(|call| call.0 == name)?;
    let (texts, outcome) = whole(name, arguments, words)?;
    let target =
        texts.first().and_then(|text| number(text)).and_then(|text| i32::try_from(text).ok());
    // With a path the query is for an entry below the descriptor.
    let path = texts.get(1).and_then(|text| string(text)).map(|text| text.0);
    if target != Some(fd) || outcome.ret != Some(0) || path.is_some_and(|path| !path.is_empty()) {
        return None;
    }
    fields(texts.iter().find(|text| text.starts_with(b"{"))?, field, words)
}

/// Parses `{st_mode=S_IFREG|0644, st_size=12, ...}`; with `-v` there are device and inode, too.
fn fields(text: &[u8], prefix: &[u8], words: &ConstantTable) -> Option<FileStat> {
    let all = elements(text);
    let field = |name: &[u8]| {
        all.iter()
            .find_map(|field| field.strip_prefix(prefix)?.strip_prefix(name)?.strip_prefix(b"="))
    };
    let mode = call::sum(field(b"mode")?, words)?;
    let dev = field(b"dev").and_then(device).unwrap_or(DevId(0));
    Some(FileStat {
        mode: u32::try_from(mode).ok()?,
        dev,
        ino: field(b"ino").and_then(number).unwrap_or(0),
        size: field(b"size").and_then(number).unwrap_or(0),
    })
}

/// Parses `makedev(0xfe, 0x1)`
fn device(text: &[u8]) -> Option<DevId> {
    let inside = text.strip_prefix(b"makedev")?;
    let [major, minor] = elements(inside).try_into().ok()?;
    let part = |byte: &[u8]| u32::try_from(number(byte)?).ok();
    let (major, minor) = (part(major)?, part(minor)?);
    (major < 1 << 12 && minor < 1 << 20).then(|| DevId::new(major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_type_is_in_the_stat_text() {
        let metadata = |line: &str| {
            stat(line.as_bytes(), 3, &ConstantTable::new())
                .map(|stat| (stat.mode, stat.dev, stat.ino, stat.size))
        };
        let file = Some((0o100_644, DevId(0), 0, 12));
        assert_eq!(
            metadata(
                "newfstatat(3</x>, \"\", {st_mode=S_IFREG|0644, st_size=12, ...}, AT_EMPTY_PATH) = 0"
            ),
            file
        );
        assert_eq!(
            metadata("fstat(3</x>, {st_mode=S_IFREG|0644, st_size=12, ...}) = 0 <0.000010>"),
            file
        );
        assert_eq!(
            metadata(
                "statx(3</x>, \"\", 0, STATX_ALL, {stx_mask=STATX_ALL, stx_mode=S_IFREG|0644, stx_size=12, ...}) = 0"
            ),
            file
        );
        let whole = "fstat(3, {st_dev=makedev(0xfe, 0), st_ino=737, st_mode=S_IFDIR|0755, st_size=4096}) = 0";
        assert_eq!(metadata(whole), Some((0o40_755, DevId::new(0xfe, 0), 737, 4096)));
        assert_eq!(metadata("fstat(4</x>, {st_mode=S_IFREG|0644, st_size=12}) = 0"), None);
        assert_eq!(
            metadata("newfstatat(3</d>, \"x\", {st_mode=S_IFREG|0644, st_size=12}, 0) = 0"),
            None
        );
        assert_eq!(metadata("fstat(3</x>, 0x7f) = -1 EIO (Input/output error)"), None);
    }
}
