//! Detection of the tool that has written a log, by its beginning.

use super::log_content::LogContent;
use super::{blkparse, blktrace, block_csv, dxt, perf_data, perf_script, strace};

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
    /// Text of blkparse.
    Blkparse,
    /// Text of `perf script`, or of the kernel's `trace` file.
    PerfScript,
    /// Recordings of `perf record`.
    PerfData,
    /// Block traces of Microsoft Research Cambridge.
    MsrCsv,
    /// Block traces in the format of the Storage Performance Council.
    SpcCsv,
    /// Block traces with described columns.
    Csv,
    /// Text of `darshan-dxt-parser`.
    DarshanDxt,
}

impl ImportFormat {
    /// Name of the tool.
    pub fn tool(self) -> &'static str {
        match self {
            Self::Strace => "strace",
            Self::Ioriot | Self::IoriotReplay => "ioriot",
            Self::FioIolog => "fio",
            Self::Blktrace => "blktrace",
            Self::Blkparse => "blkparse",
            Self::PerfScript | Self::PerfData => "perf",
            Self::MsrCsv | Self::SpcCsv | Self::Csv => "CSV",
            Self::DarshanDxt => "Darshan",
        }
    }

    /// Name of the log's units.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Blktrace | Self::PerfData => "records",
            _ => "lines",
        }
    }

    /// Returns the kinds of events that a log of this format may have.
    pub(super) fn content(self) -> LogContent {
        match self {
            Self::Blktrace | Self::Blkparse | Self::MsrCsv | Self::SpcCsv | Self::Csv => {
                LogContent::Requests
            }
            Self::PerfScript | Self::PerfData => LogContent::Both,
            Self::Strace
            | Self::Ioriot
            | Self::IoriotReplay
            | Self::FioIolog
            | Self::DarshanDxt => LogContent::Calls,
        }
    }

    /// Describes a log that begins like this.
    pub(super) fn described(self, head: &[u8]) -> String {
        match self {
            Self::Strace | Self::Blkparse => "text".into(),
            Self::PerfScript => "text of perf script".into(),
            Self::MsrCsv => "CSV of MSR Cambridge".into(),
            Self::SpcCsv => "CSV of SPC".into(),
            Self::Csv => "CSV with described columns".into(),
            Self::DarshanDxt => "text of darshan-dxt-parser".into(),
            Self::Ioriot => format!("capture log{}", version(head, b"capture_version=")),
            Self::IoriotReplay => format!("replay log{}", version(head, b"replay_version=")),
            Self::Blktrace | Self::PerfData => "binary".into(),
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
    if perf_data::is_recording(head) {
        return Some(ImportFormat::PerfData);
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
        } else if blkparse::is_line(line) {
            Some(ImportFormat::Blkparse)
        } else if perf_script::is_line(line) {
            Some(ImportFormat::PerfScript)
        } else if block_csv::is_msr_line(line) {
            Some(ImportFormat::MsrCsv)
        } else if dxt::is_heading(line) {
            Some(ImportFormat::DarshanDxt)
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
        assert_eq!(
            format("  8,0    1        2     0.000000310  4162  Q   R 2048 + 8 [cat]\n"),
            Some(ImportFormat::Blkparse)
        );
        assert_eq!(
            format(
                "# ========\n dd  7 [001] 12.5: block:block_rq_issue: 8,0 R 4096 () 2048 + 8 [dd]\n"
            ),
            Some(ImportFormat::PerfScript)
        );
        assert_eq!(
            format("128166372003061629,hm,1,Read,383496192,32768,413\n"),
            Some(ImportFormat::MsrCsv)
        );
        assert_eq!(format("# DXT, file_id: 7, file_name: /d/x\n"), Some(ImportFormat::DarshanDxt));
        assert_eq!(format("PERFILE2"), Some(ImportFormat::PerfData));
        assert_eq!(format("what(is this)\n"), None);
        assert_eq!(format(""), None);
        assert_eq!(
            ImportFormat::Ioriot.described(b"#|capture_version=4|\n"),
            "capture log version 4"
        );
    }
}
