//! Detection of the tool that has written a log, by its beginning.

use super::{blktrace, strace};

/// Tool of a log, and its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFormat {
    /// Output of `strace`.
    Strace,
    /// Captures of `ioriot -c`.
    Ioriot,
    /// Replay logs that `ioriot -r` generates.
    IoriotReplay,
    /// Logs of fio's `write_iolog`.
    FioIolog,
    /// Traces of blktrace.
    Blktrace,
}

impl ImportFormat {
    /// Name of the tool.
    pub fn tool(self) -> &'static str {
        match self {
            Self::Strace => "strace",
            Self::Ioriot | Self::IoriotReplay => "ioriot",
            Self::FioIolog => "fio",
            Self::Blktrace => "blktrace",
        }
    }

    /// Name of the log's units.
    pub fn unit(self) -> &'static str {
        if self == Self::Blktrace { "records" } else { "lines" }
    }

    /// Describes a log that begins like this.
    pub(super) fn described(self, head: &[u8]) -> String {
        match self {
            Self::Strace => "text".into(),
            Self::Ioriot => format!("capture log{}", version(head, b"capture_version=")),
            Self::IoriotReplay => format!("replay log{}", version(head, b"replay_version=")),
            Self::Blktrace => "binary".into(),
            Self::FioIolog => format!("iolog{}", version(head, b"fio version ")),
        }
    }
}

/// ` version N`, if the first line has a number after this text.
fn version(head: &[u8], before: &[u8]) -> String {
    let line = head.split(|head| *head == b'\n').next().unwrap_or_default();
    let place = line.windows(before.len()).position(|window| window == before);
    let digits = place.and_then(|place| line.get(place + before.len()..)).unwrap_or_default();
    let digits: String = digits
        .iter()
        .map_while(|digit| digit.is_ascii_digit().then_some(char::from(*digit)))
        .take(4)
        .collect();
    if digits.is_empty() { digits } else { format!(" version {digits}") }
}

/// Limit on the lines that are inspected.
const LINES: usize = 50;

/// Detects the format of a log that begins like this.
pub fn detect(head: &[u8]) -> Option<ImportFormat> {
    if blktrace::is_trace(head) {
        return Some(ImportFormat::Blktrace);
    }
    let mut lines = head.split(|head| *head == b'\n').take(LINES).map(<[u8]>::trim_ascii);
    let first = lines.clone().next()?;
    if first.starts_with(b"fio version ") {
        return Some(ImportFormat::FioIolog);
    }
    lines.find_map(|line| {
        let has = |part: &[u8]| line.windows(part.len()).any(|window| window == part);
        if line.starts_with(b"#|") && has(b"capture_version=")
            || line.starts_with(b"t=") && has(b";:,")
        {
            Some(ImportFormat::Ioriot)
        } else if line.starts_with(b"#|") && has(b"replay_version=") {
            Some(ImportFormat::IoriotReplay)
        } else if strace::is_line(line) {
            Some(ImportFormat::Strace)
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_known_by_its_first_lines() {
        let format = |text: &str| detect(text.as_bytes());
        assert_eq!(format("fio version 3 iolog\n"), Some(ImportFormat::FioIolog));
        assert_eq!(format("#|capture_version=4|\n"), Some(ImportFormat::Ioriot));
        assert_eq!(format("t=15;:,i=1:1;:,o=close;:,d=3;:,s=0;:,\n"), Some(ImportFormat::Ioriot));
        assert_eq!(format("#|replay_version=3|init_offset=9|\n"), Some(ImportFormat::IoriotReplay));
        assert_eq!(format("12  1.5 close(3</x>) = 0 <0.000001>\n"), Some(ImportFormat::Strace));
        assert_eq!(
            format("strace: Process 7 attached\n[pid 7] read(0,  <unfinished ...>\n"),
            Some(ImportFormat::Strace)
        );
        assert_eq!(format("what(is this)\n"), None);
        assert_eq!(format(""), None);
        assert_eq!(
            ImportFormat::Ioriot.described(b"#|capture_version=4|\n"),
            "capture log version 4"
        );
    }
}
