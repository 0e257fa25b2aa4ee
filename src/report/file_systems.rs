//! File systems of a log, from the mount tables in it (`Documentation/filesystems/proc.rst`,
//! section 3.5).

use crate::capture::fact::Text;
use crate::pipeline::Summary;
use crate::units::DevId;

/// Mount tables of a log.
pub(super) struct FileSystems {
    /// Tables, the last one first: a number may be given to another file system later.
    tables: Vec<String>,
}

impl FileSystems {
    /// Returns those of a log.
    pub(super) fn of(summary: &Summary) -> Self {
        let tables = summary.texts.iter().rev().filter(|(which, ..)| *which == Text::MOUNTINFO);
        let tables = tables.map(|(.., text)| String::from_utf8_lossy(text).into_owned());
        Self { tables: tables.collect() }
    }

    /// Returns type and first mount point of a file system, or its number if no table has it.
    pub(super) fn name(&self, dev: DevId) -> String {
        let found = self.tables.iter().find_map(|table| type_and_place(table, dev));
        found.unwrap_or_else(|| format!("file system {dev}"))
    }
}

/// Returns type and first mount point of a file system in a mount table.
fn type_and_place(table: &str, dev: DevId) -> Option<String> {
    let number = dev.to_string();
    let line = table.lines().find(|line| line.split(' ').nth(2) == Some(number.as_str()))?;
    let (before, after) = line.split_once(" - ")?;
    Some(format!("{} ({})", after.split(' ').next()?, before.split(' ').nth(4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_type_and_first_mount_point() {
        let table = "21 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
                     22 21 0:20 / /proc rw,nosuid shared:5 - proc proc rw\n\
                     30 21 254:1 /home /srv rw - ext4 /dev/vda1 rw\n";
        let all = FileSystems { tables: vec![table.to_owned()] };
        let names =
            [DevId::new(254, 1), DevId::new(0, 20), DevId::new(0, 21)].map(|dev| all.name(dev));
        assert_eq!(names, ["ext4 (/)", "proc (/proc)", "file system 0:21"]);
    }
}
