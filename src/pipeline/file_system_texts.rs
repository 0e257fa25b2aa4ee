//! Texts of the log about file systems.

use crate::event::fs::{AddressUnit, Extent};
use crate::units::DevId;

/// Parses lines `MAJOR:MINOR BYTES`, or `MAJOR:MINOR -` where events do not count in blocks.
pub(super) fn file_systems(text: &[u8]) -> Box<[(DevId, Option<u64>)]> {
    let line = |text: &str| {
        let (dev, bytes) = text.split_once(' ')?;
        Some((DevId::parse(dev)?, bytes.parse().ok()))
    };
    String::from_utf8_lossy(text).lines().filter_map(line).collect()
}

/// Parses lines of `Text::PLACES`.
pub(super) fn places(text: &[u8]) -> Box<[Extent]> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let (dev, ino) = (DevId::parse(words.next()?)?, words.next()?.parse().ok()?);
        let on = DevId::parse(words.next()?)?;
        let unit = if words.next()? == "blocks" { AddressUnit::Blocks } else { AddressUnit::Bytes };
        let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let &[offset, length, address, shared] = numbers.as_slice() else { return None };
        Some(Extent { dev, ino, on, unit, offset, length, address, is_shared: shared != 0 })
    };
    String::from_utf8_lossy(text).lines().filter_map(line).collect()
}
