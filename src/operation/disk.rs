//! Disk properties for display, from the bare attributes in the log.

use crate::capture::header::{Disk, End, Header, Partition};
use crate::units::{DevId, SECTOR_BYTES};

/// Display form of an attribute.
#[derive(Clone, Copy)]
enum AttributeForm {
    /// The value as it is, without the spaces that some drivers pad it with.
    Plain,
    /// `1` or `0`.
    YesNo,
    /// Sectors of 512 bytes, as bytes.
    Sectors,
}

/// Attributes and their display names; of two with one name the first present one is used.
const PROPERTIES: [(&str, &str, AttributeForm); 31] = [
    ("device/vendor", "Vendor", AttributeForm::Plain),
    ("device/model", "Model", AttributeForm::Plain),
    ("device/rev", "Revision", AttributeForm::Plain),
    ("device/serial", "Serial number", AttributeForm::Plain),
    ("serial", "Serial number", AttributeForm::Plain),
    ("wwid", "World wide id", AttributeForm::Plain),
    ("device/wwid", "World wide id", AttributeForm::Plain),
    ("device/transport", "Transport", AttributeForm::Plain),
    ("size", "Size (bytes)", AttributeForm::Sectors),
    ("queue/rotational", "Rotational", AttributeForm::YesNo),
    ("removable", "Removable", AttributeForm::YesNo),
    ("ro", "Read-only", AttributeForm::YesNo),
    ("queue/logical_block_size", "Logical block size (bytes)", AttributeForm::Plain),
    ("queue/physical_block_size", "Physical block size (bytes)", AttributeForm::Plain),
    ("queue/nr_requests", "Requests in each queue", AttributeForm::Plain),
    ("queue/max_sectors_kb", "Largest request (KiB)", AttributeForm::Plain),
    ("queue/read_ahead_kb", "Reading ahead (KiB)", AttributeForm::Plain),
    ("queue/write_cache", "Write cache", AttributeForm::Plain),
    ("queue/fua", "Writes through the cache (FUA)", AttributeForm::YesNo),
    ("queue/discard_granularity", "Discard granularity (bytes)", AttributeForm::Plain),
    ("queue/discard_max_bytes", "Largest discard (bytes)", AttributeForm::Plain),
    ("queue/zoned", "Zones", AttributeForm::Plain),
    ("loop/backing_file", "Loop file", AttributeForm::Plain),
    ("loop/offset", "Loop offset (bytes)", AttributeForm::Plain),
    ("loop/sizelimit", "Loop size limit (bytes)", AttributeForm::Plain),
    ("loop/dio", "Loop with direct I/O", AttributeForm::YesNo),
    ("dm/name", "Device mapper name", AttributeForm::Plain),
    ("dm/uuid", "Device mapper UUID", AttributeForm::Plain),
    ("md/level", "RAID level", AttributeForm::Plain),
    ("md/raid_disks", "RAID members", AttributeForm::Plain),
    ("md/array_state", "RAID state", AttributeForm::Plain),
];

/// Returns the properties of a disk by name, without its number and its scheduler.
pub fn properties(disk: &Disk) -> Vec<(String, String)> {
    let mut properties: Vec<(String, String)> = Vec::new();
    for (attribute, name, form) in PROPERTIES {
        let value = disk.attributes.get(attribute).and_then(|it| shown(it, form));
        let is_known = properties.iter().any(|it| it.0 == name);
        properties.extend(value.filter(|_| !is_known).map(|it| (name.to_owned(), it)));
    }
    let others = [("Lies on", &disk.slaves), ("Below", &disk.holders)];
    let others = others.into_iter().filter(|it| !it.1.is_empty());
    properties.extend(others.map(|(name, disks)| (name.to_owned(), disks.join(" "))));
    properties.extend(disk.partitions.iter().map(partition));
    properties
}

fn shown(value: &str, form: AttributeForm) -> Option<String> {
    let value = value.trim();
    Some(match (form, value) {
        (_, "") => return None,
        (AttributeForm::YesNo, "0") => "no".to_owned(),
        (AttributeForm::YesNo, "1") => "yes".to_owned(),
        (AttributeForm::Sectors, _) => {
            value.parse::<u64>().ok()?.checked_mul(SECTOR_BYTES)?.to_string()
        }
        (AttributeForm::Plain | AttributeForm::YesNo, _) => value.to_owned(),
    })
}

fn partition(partition: &Partition) -> (String, String) {
    let number = |it: Option<u64>| it.map_or("unknown".to_owned(), |it| it.to_string());
    let (start, sectors) = (number(partition.start_sectors), number(partition.sectors));
    (
        format!("Partition {}", partition.name),
        format!("{}, from sector {start}, {sectors} sectors of 512 bytes", partition.dev),
    )
}

/// Returns the bytes of a disk; `None`: not known, or there is no medium in it.
pub fn size_bytes(disk: &Disk) -> Option<u64> {
    let sectors: u64 = disk.attributes.get("size")?.parse().ok()?;
    sectors.checked_mul(SECTOR_BYTES).filter(|&it| it > 0)
}

/// Returns the disks of a recording: those at the start in their initial state, and those that came
/// later in their final state.
pub fn all(header: &Header, end: Option<&End>) -> Vec<Disk> {
    let mut disks = header.disks.clone();
    for late in end.into_iter().flat_map(|it| &it.disks) {
        match disks.iter_mut().find(|it| it.dev == late.dev) {
            // A medium was inserted meanwhile, such as a file into a loop device.
            Some(early) if size_bytes(early).is_none() => *early = late.clone(),
            Some(_) => {}
            None => disks.push(late.clone()),
        }
    }
    disks
}

/// Returns the names of these disks and their partitions, by number.
pub fn names(disks: &[Disk]) -> Vec<(DevId, String)> {
    let named = |dev: &str, name: &str| Some((DevId::parse(dev)?, name.to_owned()));
    let of_disk = |disk: &Disk| -> Vec<(DevId, String)> {
        let partitions = disk.partitions.iter().filter_map(|it| named(&it.dev, &it.name));
        named(&disk.dev, &disk.name).into_iter().chain(partitions).collect()
    };
    disks.iter().flat_map(of_disk).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn disk(name: &str, attributes: &[(&str, &str)]) -> Disk {
        let text = |it: &&str| (*it).to_owned();
        Disk {
            dev: "8:0".into(),
            name: name.into(),
            attributes: attributes.iter().map(|(name, value)| (text(name), text(value))).collect(),
            ..Disk::default()
        }
    }

    #[test]
    fn known_attributes_are_shown_and_others_left_out() {
        let mut it = disk(
            "sda",
            &[
                ("size", "2048"),
                ("device/model", "Disk 7   "),
                ("device/vendor", "   "),
                ("serial", "b"),
                ("device/serial", "a"),
                ("queue/rotational", "1"),
                ("queue/fua", "maybe"),
                ("loop/dio", "0"),
                ("unlisted/attribute", "1"),
            ],
        );
        it.holders = vec!["dm-0".into(), "md1".into()];
        let (dev, name) = ("8:1".into(), "sda1".into());
        it.partitions = vec![Partition { dev, name, start_sectors: Some(64), sectors: None }];
        let lines: Vec<String> =
            properties(&it).into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        expect![[r#"
            Model: Disk 7
            Serial number: a
            Size (bytes): 1048576
            Rotational: yes
            Writes through the cache (FUA): maybe
            Loop with direct I/O: no
            Below: dm-0 md1
            Partition sda1: 8:1, from sector 64, unknown sectors of 512 bytes"#]]
        .assert_eq(&lines.join("\n"));
        assert_eq!(
            names(&[it]),
            [(DevId::new(8, 0), "sda".into()), (DevId::new(8, 1), "sda1".into())]
        );
    }

    #[test]
    fn a_disk_without_medium_at_the_start_is_shown_as_it_was_at_the_end() {
        let sized = |name: &str, size: &str| disk(name, &[("size", size)]);
        let other = |it: Disk| Disk { dev: "8:16".into(), ..it };
        let header = Header { disks: vec![sized("loop0", "0")], ..Header::default() };
        let end =
            End { disks: vec![sized("loop0", "8"), other(sized("new", "8"))], ..End::default() };
        assert_eq!(all(&header, Some(&end)), end.disks);
        let header = Header { disks: vec![sized("loop0", "16")], ..Header::default() };
        assert_eq!(all(&header, Some(&end)), [sized("loop0", "16"), other(sized("new", "8"))]);
        assert_eq!(all(&header, None), header.disks);
    }
}
