//! Mounts in `info`: type, device and options of each.

use serde_json::{Value, json};

use crate::capture::fact::Text;
use crate::operation::mount_table::{MountEntry, MountTable};
use crate::pipeline::Summary;
use crate::text::escape::lossless;
use crate::text::quantity::counted;

fn table(summary: &Summary) -> Option<MountTable> {
    summary.text(Text::MOUNTINFO).map(MountTable::parse)
}

/// Returns the mounts at the start of the recording; null: they are not in the log.
pub(super) fn as_json(summary: &Summary) -> Value {
    let mount = |mount: &MountEntry| {
        json!({
            "mount": lossless(&mount.point),
            "fs_type": mount.fs_type,
            "source": lossless(&mount.source),
            "fs_dev": mount.dev.to_string(),
            "root": lossless(&mount.root),
            "options": mount.options,
            "fs_options": mount.fs_options,
        })
    };
    let mounts: Option<Vec<Value>> =
        table(summary).map(|table| table.mounts().iter().map(mount).collect());
    json!(mounts)
}

/// Returns a line for each mount that is not of a pseudo file system, and the number of the others.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    let Some(table) = table(summary) else { return Vec::new() };
    let (pseudo, others): (Vec<&MountEntry>, Vec<&MountEntry>) =
        table.mounts().iter().partition(|mount| mount.is_pseudo());
    let line = |mount: &&MountEntry| {
        let MountEntry { point, fs_type, source, dev, options, fs_options, .. } = *mount;
        let (point, source) = (lossless(point), lossless(source));
        format!("mount     {point} ({fs_type} on {source}, {dev}): {options}; {fs_options}")
    };
    let mut lines: Vec<String> = others.iter().map(line).collect();
    if !pseudo.is_empty() {
        let count = counted(pseudo.len() as u64, "mount");
        lines.push(format!("mount     {count} of pseudo file systems: --json"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Pid;

    #[test]
    fn mounts_have_their_options() {
        let text = b"22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw,errors=continue\n\
            23 22 0:20 / /proc rw,nosuid - proc proc rw\n";
        let texts = vec![(Text::MOUNTINFO, Pid(0), text.to_vec())];
        let summary = Summary { texts, ..Summary::default() };
        let expected = [
            "mount     / (ext4 on /dev/vda1, 254:1): rw,relatime; rw,errors=continue",
            "mount     1 mount of pseudo file systems: --json",
        ];
        assert_eq!(lines(&summary), expected);
        let json = as_json(&summary);
        assert_eq!(json[1]["fs_type"], "proc");
        assert_eq!(
            (&json[0]["options"], &json[0]["fs_dev"]),
            (&"rw,relatime".into(), &"254:1".into())
        );
        assert!(as_json(&Summary::default()).is_null());
        assert!(lines(&Summary::default()).is_empty());
    }
}
