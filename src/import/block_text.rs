//! Words of block events that blkparse and the kernel's tracepoints print alike: `8,0`, `2048 + 8`,
//! and the name or error in brackets.

use rustc_hash::FxHashSet;

use super::decimal::integer;
use super::imported_event::Block;
use super::records::COMM_BYTES;
use crate::event::block::BlockPoint;
use crate::units::DevId;

/// Takes the next word of a line.
pub(super) fn word<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let line = rest.trim_ascii_start();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (word, after) = line.split_at_checked(end)?;
    *rest = after;
    (!word.is_empty()).then_some(word)
}

/// Parses `MAJOR,MINOR`, and `MAJOR:MINOR`.
pub(super) fn device(text: &[u8]) -> Option<DevId> {
    let text = std::str::from_utf8(text).ok()?;
    DevId::parse(&text.replacen(',', ":", 1))
}

/// Splits `TEXT [INSIDE]`; without brackets all is text. A name inside may have brackets itself.
pub(super) fn bracketed(text: &[u8]) -> (&[u8], &[u8]) {
    let open = text.iter().position(|byte| *byte == b'[');
    let close = text.iter().rposition(|byte| *byte == b']');
    let parts = open
        .zip(close)
        .and_then(|(open, close)| Some((text.get(..open)?, text.get(open + 1..close)?)));
    parts.unwrap_or((text, b""))
}

/// Parses the words before the brackets: `SECTOR + COUNT`, `SECTOR / REST` of a split, `SECTOR +
/// COUNT <- (MAJOR,MINOR) SECTOR` of a remap, or nothing of a flush. Other words before and after
/// are left out. Returns an event without its operation and thread.
pub(super) fn extent(text: &[u8], point: BlockPoint, dev: DevId) -> Option<Block> {
    let words: Vec<&[u8]> =
        text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let sign = words.iter().position(|word| *word == b"+" || *word == b"/");
    let next_to = |at: Option<usize>| integer::<u64>(words.get(at?)?);
    let (sector, sectors) = match (sign, words.as_slice()) {
        (Some(at), _) => (next_to(at.checked_sub(1))?, next_to(at.checked_add(1))?),
        (None, [.., sector]) => (integer(sector).unwrap_or(0), 0),
        (None, []) => (0, 0),
    };
    let arrow = words.iter().position(|word| *word == b"<-");
    let from = match arrow {
        Some(at) => {
            let source = words.get(at + 1)?.strip_prefix(b"(")?.strip_suffix(b")")?;
            Some((device(source)?, next_to(Some(at + 2))?))
        }
        None => None,
    };
    let (rwbs, comm) = (Vec::new(), Vec::new());
    Some(Block { point, dev, sector, sectors, error: 0, rwbs, from, comm })
}

/// Returns the name of a thread, cut to the kernel's length.
pub(super) fn comm_of(text: &[u8]) -> Vec<u8> {
    text.get(..COMM_BYTES).unwrap_or(text).to_vec()
}

/// Devices with issued requests. Logs of blktrace have one event for the completion of a request
/// and for that of a bio that never became one (for example of dm): on a device without issued
/// requests the completions are those of bios.
#[derive(Debug, Default)]
pub(super) struct RequestDevices(FxHashSet<DevId>);

impl RequestDevices {
    /// Returns what an event is a tracepoint of.
    pub(super) fn point(&mut self, point: BlockPoint, dev: DevId) -> BlockPoint {
        if matches!(point, BlockPoint::GetRq | BlockPoint::Insert | BlockPoint::Issue) {
            self.0.insert(dev);
        }
        let is_bio = point == BlockPoint::Complete && !self.0.contains(&dev);
        if is_bio { BlockPoint::BioComplete } else { point }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_read() {
        let dev = DevId::new(8, 0);
        let parts = |text: &str| {
            extent(text.as_bytes(), BlockPoint::Issue, dev)
                .map(|block| (block.sector, block.sectors, block.from))
        };
        assert_eq!(parts("2048 + 8 "), Some((2048, 8, None)));
        assert_eq!(parts("4096 () 2048 + 8 none,0,0"), Some((2048, 8, None)));
        assert_eq!(parts("2048 / 2056"), Some((2048, 2056, None)));
        assert_eq!(parts("9 + 8 <- (8,1) 7"), Some((9, 8, Some((DevId::new(8, 1), 7)))));
        assert_eq!(parts(""), Some((0, 0, None)));
        assert_eq!(parts("18446744073709551615 + 0"), Some((u64::MAX, 0, None)));
        assert_eq!(parts("x + 8"), None);
        assert_eq!(parts("+"), None);
        assert_eq!(parts("9 + 8 <- 8,1 7"), None);
        assert_eq!(bracketed(b"9 + 8 [a [b] c]"), (&b"9 + 8 "[..], &b"a [b] c"[..]));
        assert_eq!(bracketed(b"] ["), (&b"] ["[..], &b""[..]));
    }
}
