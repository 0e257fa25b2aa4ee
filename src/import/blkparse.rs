//! Text of blkparse in its default format (`-f "%D %2c %8s %5T.%9t %5p %2a %3d"`, and the words of
//! each action).
//!
//! ```text
//!   8,0    1        2     0.000000310  4162  Q   R 2048 + 8 [cat]
//!   8,0    0        1     0.000180211     0  C   R 2048 + 8 [0]
//! ```

use rustc_hash::FxHashMap;

use super::block_text::{RequestDevices, bracketed, comm_of, device, extent, word};
use super::decimal::{integer, seconds};
use super::import_report::ImportReport;
use super::imported_event::{Block, ImportedEvent, ImportedKind, ImportedTask};
use super::parser::Parser;
use crate::event::block::BlockPoint;
use crate::units::DevId;

/// Letters of actions, with our names for them.
const ACTIONS: [(&[u8], BlockPoint); 10] = [
    (b"Q", BlockPoint::BioQueue),
    (b"M", BlockPoint::BackMerge),
    (b"F", BlockPoint::FrontMerge),
    (b"G", BlockPoint::GetRq),
    (b"I", BlockPoint::Insert),
    (b"D", BlockPoint::Issue),
    (b"R", BlockPoint::Requeue),
    (b"C", BlockPoint::Complete),
    (b"X", BlockPoint::Split),
    (b"A", BlockPoint::Remap),
];

/// Letters of other actions: plugs, waits for requests, bounces, messages.
const OTHERS: [&[u8]; 8] = [b"P", b"U", b"T", b"UT", b"S", b"B", b"m", b"a"];

/// Limit on the threads whose names are kept.
const NAMES_MAX: usize = 1 << 20;

/// Parser of the text.
#[derive(Debug, Default)]
pub(super) struct Blkparse {
    devices: RequestDevices,
    names: FxHashMap<i32, Vec<u8>>,
    /// True after the first line of the totals at the end.
    is_over: bool,
}

/// Returns true for a line of an event.
pub(super) fn is_line(line: &[u8]) -> bool {
    BlkparseLine::read(line).is_some()
}

/// Words that all events have.
struct BlkparseLine<'a> {
    device: DevId,
    time: u64,
    pid: i32,
    action: &'a [u8],
    /// The operation's letters, and the words of the action.
    rest: &'a [u8],
}

impl<'a> BlkparseLine<'a> {
    fn read(line: &'a [u8]) -> Option<Self> {
        let mut rest = line;
        let device = device(word(&mut rest)?)?;
        let _cpu: u32 = integer(word(&mut rest)?)?;
        let _number: u64 = integer(word(&mut rest)?)?;
        let time = word(&mut rest)?;
        let time = seconds(time).filter(|_| time.contains(&b'.'))?;
        let pid = integer(word(&mut rest)?)?;
        let action = word(&mut rest)?;
        Some(Self { device, time, pid, action, rest })
    }
}

impl Parser for Blkparse {
    fn line(
        &mut self,
        line: &[u8],
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> bool {
        self.is_over |= line.starts_with(b"CPU") || line.starts_with(b"Total (");
        if self.is_over {
            notes.count("lines of the totals at the end: skipped");
            return true;
        }
        line.trim_ascii().is_empty() || self.event(line, out, notes).is_some()
    }
}

/// Parses an error: blkparse prints the negative number as one of 16 bits without a sign.
fn error(text: &[u8]) -> Option<i32> {
    let printed: i32 = integer(text)?;
    let number = if printed > i32::from(i16::MAX) { printed - (1 << 16) } else { printed };
    Some(number.min(0))
}

impl Blkparse {
    fn event(
        &mut self,
        line: &[u8],
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> Option<()> {
        let BlkparseLine { device, time, pid, action, mut rest } = BlkparseLine::read(line)?;
        let Some(&(_, point)) = ACTIONS.iter().find(|row| row.0 == action) else {
            let is_other = OTHERS.contains(&action);
            return is_other.then(|| notes.count("lines of plugs, waits and messages: skipped"));
        };
        let rwbs = word(&mut rest)?.to_vec();
        let (extent_words, inside) = bracketed(rest);
        // `D N 36 (12 00 …) [comm]`: a command of the driver, without a place on the disk.
        let has_place = extent_words.contains(&b'+') || extent_words.contains(&b'/');
        if !has_place && rwbs.contains(&b'N') && !rwbs.contains(&b'F') {
            notes.count("commands of drivers, without a place on the disk: skipped");
            return Some(());
        }
        let block = extent(extent_words, self.devices.point(point, device), device)?;
        let task = ImportedTask::leader(pid);
        let (comm, error) = match point {
            BlockPoint::Complete | BlockPoint::Requeue => (Vec::new(), error(inside)?),
            _ => (comm_of(inside), 0),
        };
        if pid > 0 && !comm.is_empty() && self.is_new_name(pid, &comm) {
            out.push(ImportedEvent { time, task, what: ImportedKind::Named(comm.clone(), false) });
        }
        let block = Block { rwbs, comm, error, ..block };
        out.push(ImportedEvent { time, task, what: ImportedKind::Block(block) });
        Some(())
    }

    fn is_new_name(&mut self, pid: i32, comm: &[u8]) -> bool {
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        let known = self.names.entry(pid).or_default();
        let is_new = known != comm;
        if is_new {
            comm.clone_into(known);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::super::parser::parse_lines;
    use super::*;

    fn parsed(text: &str) -> (Vec<ImportedEvent>, ImportReport) {
        parse_lines(&mut Blkparse::default(), text)
    }

    fn blocks(events: &[ImportedEvent]) -> Vec<&Block> {
        events
            .iter()
            .filter_map(|event| match &event.what {
                ImportedKind::Block(block) => Some(block),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn events_and_totals_are_read() {
        let (events, notes) = parsed(
            "  8,0    1        1     0.000000000  4162  A   R 2048 + 8 <- (8,1) 0
  8,0    1        2     0.000000310  4162  Q   R 2048 + 8 [cat [1]]
  8,0    1        3     0.000003407  4162  P   N [cat [1]]
  8,0    1        3     0.000003407  4162  D   R 2048 + 8 [cat [1]]
  8,0    0        1     0.000180211     0  C   R 2048 + 8 [65531]
  8,0    0        1     0.000180311     0  D  FN [kworker/0:1H]
  8,0    0        1     0.000180311     0  D   N 36 (12 00 00 00 24 00 ..) [smartctl]
253,0    0        1     1.000180211     0  C  WS 64 + 8 [0]
  8,0    0        1     0.000250000  4170  what
CPU0 (8,0):
 Reads Queued:           1,        4KiB\t Writes Queued:           0,        0KiB
",
        );
        let found = blocks(&events);
        let points: Vec<BlockPoint> = found.iter().map(|block| block.point).collect();
        use BlockPoint as B;
        assert_eq!(
            points,
            [B::Remap, B::BioQueue, B::Issue, B::Complete, B::Issue, B::BioComplete]
        );
        assert_eq!(found[0].from, Some((DevId::new(8, 1), 0)));
        assert_eq!((found[1].sector, found[1].sectors), (2048, 8));
        assert_eq!(found[1].comm, b"cat [1]");
        assert_eq!((found[3].error, found[4].rwbs.as_slice()), (-5, &b"FN"[..]));
        assert_eq!(events[1].what, ImportedKind::Named(b"cat [1]".to_vec(), false));
        assert_eq!((events[1].time, notes.unparsed()), (310, 1));
        assert_eq!(notes.messages("lines").len(), 4, "{:?}", notes.messages("lines"));
    }

    #[test]
    fn lines_of_other_tools_are_none() {
        assert!(is_line(b"  8,0    1        2     0.000000310  4162  Q   R 2048 + 8 [cat]"));
        for other in
            ["8,0 1 2 3 4 Q R 1 + 8", "12 1.5 close(3) = 0", "128166372003061629,hm,1,Read"]
        {
            assert!(!is_line(other.as_bytes()), "{other}");
        }
    }
}
