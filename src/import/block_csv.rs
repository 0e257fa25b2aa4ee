//! Comma-separated traces of block devices, one line for each request, with described columns.
//!
//! ```text
//!   128166372003061629,hm,1,Read,383496192,32768,413     MSR Cambridge (SNIA IOTTA)
//!   0,20941264,8192,W,0.551706                           SPC
//! ```
//!
//! A line has a request's begin; its end is the begin and the latency. A trace without latencies
//! has no ends, and requests take [`LATENCY`].

use std::str::FromStr;

use rustc_hash::FxHashMap;

use super::decimal::{SECOND, scaled};
use super::import_report::ImportReport;
use super::imported_event::{Block, ImportedEvent, ImportedKind, ImportedTask};
use super::parser::Parser;
use crate::event::block::BlockPoint;
use crate::units::{DevId, SECTOR_BYTES};

/// Duration of a request whose latency is unknown, ns.
const LATENCY: u64 = 1000;

/// Nanoseconds of the unit of Windows' file times.
const FILETIME_UNIT: u64 = 100;

/// Nanoseconds from 1601, where Windows' file times begin, to 1970.
const FILETIME_EPOCH: u64 = 11_644_473_600 * SECOND;

/// Major number for devices whose numbers the trace does not have: one that the kernel leaves to
/// experiments (`Documentation/admin-guide/devices.txt`).
const MAJOR: u32 = 240;

/// Limit on the devices of a trace: the minor numbers.
const DEVICES_MAX: usize = 1 << 20;

/// Limit on the bytes of a device's name.
const NAME_BYTES: usize = 255;

/// Meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CsvColumn {
    /// Begin of the request, in these nanoseconds.
    Time(u64),
    /// Begin of the request as a file time of Windows.
    FileTime,
    /// Time from begin to end, in these nanoseconds.
    Latency(u64),
    /// First byte, in these bytes.
    Offset(u64),
    /// Length, in these bytes.
    Size(u64),
    Op,
    /// Device, or a part of its name.
    Device,
    Skipped,
}

/// Units of times, in ns.
const TIMES: [(&str, u64); 5] =
    [("s", SECOND), ("ms", 1_000_000), ("us", 1000), ("ns", 1), ("filetime", FILETIME_UNIT)];

/// Units of places and lengths, in bytes.
const SIZES: [(&str, u64); 3] = [("bytes", 1), ("sectors", SECTOR_BYTES), ("KiB", 1024)];

/// Columns of a trace, from the first to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvColumns(Vec<CsvColumn>);

impl CsvColumns {
    /// Returns the columns of the traces of Microsoft Research Cambridge: time, host, disk,
    /// operation, first byte, bytes, latency.
    pub fn msr() -> Self {
        use CsvColumn as C;
        let latency = C::Latency(FILETIME_UNIT);
        Self(vec![C::FileTime, C::Device, C::Device, C::Op, C::Offset(1), C::Size(1), latency])
    }

    /// Returns the columns of SPC traces: storage unit of the application, sector, bytes,
    /// operation, seconds.
    pub fn spc() -> Self {
        use CsvColumn as C;
        Self(vec![C::Device, C::Offset(SECTOR_BYTES), C::Size(1), C::Op, C::Time(SECOND)])
    }
}

impl FromStr for CsvColumns {
    type Err = String;

    /// Parses `COLUMN[=UNIT],…`.
    fn from_str(text: &str) -> Result<Self, String> {
        let columns = text.split(',').map(column).collect::<Result<Vec<_>, _>>()?;
        let has =
            |wanted: fn(&CsvColumn) -> bool| columns.iter().filter(|column| wanted(column)).count();
        let once = [
            ("time", has(|column| matches!(column, CsvColumn::Time(_) | CsvColumn::FileTime))),
            ("op", has(|column| matches!(column, CsvColumn::Op))),
            ("offset", has(|column| matches!(column, CsvColumn::Offset(_)))),
            ("size", has(|column| matches!(column, CsvColumn::Size(_)))),
        ];
        match once.iter().find(|(_, count)| *count != 1) {
            Some((name, 0)) => Err(format!("there is no column {name}")),
            Some((name, _)) => Err(format!("the column {name} is there more than once")),
            None => Ok(Self(columns)),
        }
    }
}

fn column(text: &str) -> Result<CsvColumn, String> {
    let (name, unit) = text.trim().split_once('=').unwrap_or((text.trim(), ""));
    let unit_of = |units: &[(&str, u64)]| {
        let found = units.iter().find(|row| row.0 == unit).map(|row| row.1);
        found.ok_or_else(|| {
            let names: Vec<&str> = units.iter().map(|row| row.0).collect();
            format!("{name} needs a unit, as in {name}={}: one of {}", names[0], names.join(", "))
        })
    };
    Ok(match name {
        "time" if unit == "filetime" => CsvColumn::FileTime,
        "time" => CsvColumn::Time(unit_of(&TIMES)?),
        "latency" => CsvColumn::Latency(unit_of(&TIMES)?),
        "offset" => CsvColumn::Offset(unit_of(&SIZES)?),
        "size" => CsvColumn::Size(unit_of(&SIZES)?),
        "op" => CsvColumn::Op,
        "device" => CsvColumn::Device,
        "-" => CsvColumn::Skipped,
        _ => {
            return Err(format!(
                "there is no column {name:?}; columns are time, latency, offset, size, op, device, \
                 and - for others"
            ));
        }
    })
}

/// Parser of the lines.
#[derive(Debug)]
pub(super) struct BlockCsv {
    columns: CsvColumns,
    devices: FxHashMap<Vec<u8>, DevId>,
    /// Lines that were parsed.
    lines: u64,
}

impl BlockCsv {
    pub(super) fn new(columns: CsvColumns) -> Self {
        Self { columns, devices: FxHashMap::default(), lines: 0 }
    }
}

/// Request of one line.
#[derive(Debug, Default)]
struct CsvRequest {
    time: u64,
    latency: Option<u64>,
    offset: u64,
    size: u64,
    rwbs: &'static [u8],
    device: Vec<u8>,
}

/// Operations by their first letter, or their number.
fn operation(text: &[u8]) -> Option<&'static [u8]> {
    Some(match text.trim_ascii().first()?.to_ascii_lowercase() {
        b'r' | b'0' => b"R",
        b'w' | b'1' => b"W",
        b'd' | b't' | b'u' => b"D",
        b'f' => b"FF",
        _ => return None,
    })
}

impl CsvRequest {
    fn read(line: &[u8], columns: &[CsvColumn]) -> Option<Self> {
        let mut request = Self::default();
        let mut fields = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        for column in columns {
            let field = fields.next()?;
            match *column {
                CsvColumn::Time(unit) => request.time = scaled(field, unit)?,
                CsvColumn::FileTime => {
                    request.time = scaled(field, FILETIME_UNIT)?.checked_sub(FILETIME_EPOCH)?;
                }
                CsvColumn::Latency(unit) => request.latency = Some(scaled(field, unit)?),
                CsvColumn::Offset(unit) => request.offset = scaled(field, unit)?,
                CsvColumn::Size(unit) => request.size = scaled(field, unit)?,
                CsvColumn::Op => request.rwbs = operation(field)?,
                CsvColumn::Device => {
                    if !request.device.is_empty() {
                        request.device.push(b'.');
                    }
                    request.device.extend_from_slice(field);
                }
                CsvColumn::Skipped => {}
            }
        }
        Some(request)
    }
}

/// Returns true for a line of MSR's traces.
pub(super) fn is_msr_line(line: &[u8]) -> bool {
    let CsvColumns(columns) = CsvColumns::msr();
    let count = line.split(|byte| *byte == b',').count();
    count == columns.len() && CsvRequest::read(line, &columns).is_some()
}

impl Parser for BlockCsv {
    fn line(
        &mut self,
        line: &[u8],
        out: &mut Vec<ImportedEvent>,
        notes: &mut ImportReport,
    ) -> bool {
        if line.trim_ascii().is_empty() {
            return true;
        }
        self.lines += 1;
        let Some(request) = CsvRequest::read(line, &self.columns.0) else {
            // A heading has no numbers.
            let is_heading = self.lines == 1 && !line.iter().any(u8::is_ascii_digit);
            if is_heading {
                notes.count("heading: skipped");
            }
            return is_heading;
        };
        let Some(dev) = self.device(&request.device, out) else { return false };
        if !request.offset.is_multiple_of(SECTOR_BYTES)
            || !request.size.is_multiple_of(SECTOR_BYTES)
        {
            notes.count("requests that do not begin and end at sectors: extended to them");
        }
        if request.latency.is_none() {
            notes.count("requests without a latency: each takes 1 µs");
        }
        let sector = request.offset / SECTOR_BYTES;
        let end = request.offset.saturating_add(request.size).div_ceil(SECTOR_BYTES);
        let block = |point| Block {
            point,
            dev,
            sector,
            sectors: end.saturating_sub(sector),
            error: 0,
            rwbs: request.rwbs.to_vec(),
            from: None,
            comm: Vec::new(),
        };
        let task = ImportedTask::leader(0);
        let over = request.time.saturating_add(request.latency.unwrap_or(LATENCY).max(1));
        for (time, point) in [(request.time, BlockPoint::Issue), (over, BlockPoint::Complete)] {
            out.push(ImportedEvent { time, task, what: ImportedKind::Block(block(point)) });
        }
        true
    }
}

impl BlockCsv {
    /// Returns the number of a device: its own, if it is written as one, or the next free one.
    fn device(&mut self, name: &[u8], out: &mut Vec<ImportedEvent>) -> Option<DevId> {
        if let Some(known) = self.devices.get(name) {
            return Some(*known);
        }
        if name.len() > NAME_BYTES {
            return None;
        }
        let number = u32::try_from(self.devices.len()).ok()?;
        let text = std::str::from_utf8(name).unwrap_or_default();
        let own = DevId::parse(text);
        let dev = own.unwrap_or_else(|| DevId::new(MAJOR, number));
        if self.devices.len() >= DEVICES_MAX {
            return None;
        }
        self.devices.insert(name.to_vec(), dev);
        if own.is_none() {
            let name = if name.is_empty() { b"disk".to_vec() } else { name.to_vec() };
            let (time, task) = (0, ImportedTask::leader(0));
            out.push(ImportedEvent { time, task, what: ImportedKind::Disk(dev, name) });
        }
        Some(dev)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parser::parse_lines;
    use super::*;

    fn parsed(mut parser: BlockCsv, text: &str) -> (Vec<ImportedEvent>, ImportReport) {
        parse_lines(&mut parser, text)
    }

    #[test]
    fn traces_of_msr_are_read() {
        let text = "128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,0,Write,0,65536,1302\n";
        let (events, notes) = parsed(BlockCsv::new(CsvColumns::msr()), text);
        assert_eq!(events[0].what, ImportedKind::Disk(DevId::new(240, 0), b"hm.1".to_vec()));
        let ImportedKind::Block(issued) = &events[1].what else { panic!("{events:?}") };
        assert_eq!(
            (issued.sector, issued.sectors, issued.rwbs.as_slice()),
            (749_016, 64, &b"R"[..])
        );
        // 2007-02-22 17:00:00 UTC, and a fraction.
        assert_eq!(events[1].time, 1_172_163_600_306_162_900);
        assert_eq!(events[2].time - events[1].time, 41_300);
        assert_eq!(events.len(), 6);
        assert_eq!(notes.messages("lines"), Vec::<String>::new());
        assert!(is_msr_line(text.lines().next().expect("a line").as_bytes()));
        assert!(!is_msr_line(b"1,2,3,4,5,6,7"));
    }

    #[test]
    fn described_columns_are_read() {
        let columns =
            "device,op,offset=KiB,size=sectors,time=us,-,latency=ms".parse().expect("columns");
        let text =
            "dev,op,off,len,t,x,lat\n8:16,W,3,2,7.5,what,0.25\n8:16,trim,3,2,8,,1\nx,?,1,1,1,1,1\n";
        let (events, notes) = parsed(BlockCsv::new(columns), text);
        let ImportedKind::Block(issued) = &events[0].what else { panic!("{events:?}") };
        assert_eq!((issued.dev, issued.sector, issued.sectors), (DevId::new(8, 16), 6, 2));
        assert_eq!((events[0].time, events[1].time), (7500, 257_500));
        assert_eq!((events.len(), notes.unparsed()), (4, 1));
        let (events, notes) =
            parsed(BlockCsv::new(CsvColumns::spc()), "0,20941264,8191,W,0.551706\n");
        let ImportedKind::Block(issued) = &events[1].what else { panic!("{events:?}") };
        assert_eq!((issued.sector, issued.sectors), (20_941_264, 16));
        assert_eq!(notes.messages("lines").len(), 2);
    }

    #[test]
    fn wrong_columns_are_refused() {
        let error = |text: &str| text.parse::<CsvColumns>().expect_err("wrong");
        assert_eq!(error("time=s,op,size=bytes"), "there is no column offset");
        assert!(error("time,op").contains("time needs a unit"));
        assert!(error("when").contains("there is no column \"when\""));
        assert!(error("time=s,time=s,op,offset=bytes,size=bytes").contains("more than once"));
    }
}
