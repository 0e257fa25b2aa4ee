//! Parser of perf records: bytes → [`Record`].

use std::ops::Range;

use thiserror::Error;

use super::abi::{HEADER_BYTES, MISC_COMM_EXEC, MISC_MMAP_BUILD_ID, record_type};
use super::chain::Chain;
use super::layout::SampleLayout;
use super::program::UserState;
use crate::units::{KernelTime, Pid, Tid};

/// Reason why the bytes of a record are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The header claims less than a header's length, or more than there is.
    #[error("a record claims {claimed} bytes where {left} are left")]
    Size {
        /// Number of bytes that the header claims.
        claimed: usize,
        /// Number of bytes that are there.
        left: usize,
    },
    /// The body is shorter than its type requires.
    #[error("a record of type {kind} is too short: {bytes} bytes")]
    Short {
        /// Type of the record (`PERF_RECORD_*`).
        kind: u32,
        /// Length of the whole record in bytes.
        bytes: usize,
    },
}

/// Record that was found, but whose fields are not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordKind<'a> {
    /// Type of the record (`PERF_RECORD_*`).
    pub kind: u32,
    /// Flags of the record (`PERF_RECORD_MISC_*`).
    pub misc: u16,
    /// Bytes after the header.
    pub body: &'a [u8],
}

/// Record whose fields were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Process of the current task, in the tracer's namespace.
    pub pid: Pid,
    /// Thread of the current task.
    pub tid: Tid,
    /// Time of the record.
    pub time: KernelTime,
    /// Content of the record, by its type.
    pub body: RecordBody<'a>,
}

/// Mapping of a file's code into the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeMap<'a> {
    /// Process that has the mapping.
    pub pid: Pid,
    /// First address of the mapping.
    pub start: u64,
    /// Length of the mapping in bytes.
    pub bytes: u64,
    /// Offset in the file of the first mapped byte.
    pub offset: u64,
    /// Identity of the file: `u32 major, minor; u64 inode, generation`. If the kernel reports a
    /// build id instead: `u8 length`, three unused bytes, and a build id of that length.
    pub file: &'a [u8],
    /// True if `file` is a build id.
    pub has_build_id: bool,
    /// Path by which the process mapped the file.
    pub path: &'a [u8],
}

/// Content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordBody<'a> {
    /// Payload of a tracepoint.
    Sample(&'a [u8]),
    /// Number of records of this ring that were dropped before this one.
    Lost(u64),
    /// New name of a task.
    Comm {
        /// Process of the task.
        pid: Pid,
        /// Thread of the task.
        tid: Tid,
        /// Name without its padding.
        comm: &'a [u8],
        /// True if an exec set the name.
        exec: bool,
    },
    /// Creation of a task.
    Fork {
        /// Process of the task.
        pid: Pid,
        /// Thread of the task.
        tid: Tid,
        /// Process of the parent.
        ppid: Pid,
        /// Thread of the parent.
        ptid: Tid,
    },
    /// End of a task.
    Exit {
        /// Process of the task.
        pid: Pid,
        /// Thread of the task.
        tid: Tid,
    },
    /// New mapping of a file's code.
    Mmap(CodeMap<'a>),
    /// Record of another type, whose content is not read.
    Other(u32),
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(offset..offset.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(offset..offset.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(offset..offset.checked_add(8)?)?.try_into().ok()?))
}

fn i32_at(bytes: &[u8], offset: usize) -> Option<i32> {
    u32_at(bytes, offset).map(u32::cast_signed)
}

/// Returns the records in the bytes of a ring, in the order of the ring. No records follow an
/// error, because the beginning of the next one is unknown.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Result<(usize, RecordKind<'_>), RecordError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|it| !it.is_empty())?;
        let start = at;
        match RecordKind::first(rest) {
            Ok((record, size)) => {
                at += size;
                Some(Ok((start, record)))
            }
            Err(error) => {
                at = bytes.len();
                Some(Err(error))
            }
        }
    })
}

impl<'a> RecordKind<'a> {
    /// Returns the record at the start of `bytes` and its length in bytes.
    ///
    /// # Errors
    ///
    /// [`RecordError::Size`] if the header is incomplete or the length impossible.
    pub fn first(bytes: &'a [u8]) -> Result<(Self, usize), RecordError> {
        let misc = u16_at(bytes, 4).unwrap_or(0);
        let size = usize::from(u16_at(bytes, 6).unwrap_or(0));
        let (Some(kind), Some(body)) = (u32_at(bytes, 0), bytes.get(HEADER_BYTES..size)) else {
            return Err(RecordError::Size { claimed: size, left: bytes.len() });
        };
        Ok((Self { kind, misc, body }, size))
    }

    /// Returns the time of the record without reading the other fields.
    pub fn time(&self, layout: &SampleLayout) -> Option<KernelTime> {
        let at = match self.kind {
            record_type::SAMPLE => layout.time,
            _ => self.body.len().checked_sub(layout.trailer_time)?,
        };
        u64_at(self.body, at).map(KernelTime)
    }

    /// Returns the process and thread that were running, without reading the other fields.
    pub fn task(&self, layout: &SampleLayout) -> Option<(Pid, Tid)> {
        let at = match self.kind {
            record_type::SAMPLE => layout.tid,
            _ => self.body.len().checked_sub(layout.trailer_tid)?,
        };
        Some((Pid(i32_at(self.body, at)?), Tid(i32_at(self.body, at + 4)?)))
    }

    /// Returns the payload of the tracepoint if the record is a sample.
    pub fn payload(&self, layout: &SampleLayout) -> Option<&'a [u8]> {
        let (start, size) = self.raw(layout)?;
        self.body.get(start..start.checked_add(size)?)
    }

    /// Returns the place of that payload in the whole record, in bytes.
    pub fn payload_place(&self, layout: &SampleLayout) -> Option<Range<usize>> {
        let (start, size) = self.raw(layout)?;
        let begin = HEADER_BYTES.checked_add(start)?;
        Some(begin..begin.checked_add(size)?)
    }

    /// Returns the program's registers and stack if the record is a sample that has them.
    pub fn program(&self, layout: &SampleLayout) -> Option<UserState<'a>> {
        let mask = layout.program?;
        let (start, size) = self.raw(layout)?;
        UserState::read(self.body.get(start.checked_add(size)?..)?, mask)
    }

    /// Returns the offset of the program's registers and stack in the whole record, in bytes.
    pub fn program_at(&self, layout: &SampleLayout) -> Option<usize> {
        layout.program?;
        let (start, size) = self.raw(layout)?;
        HEADER_BYTES.checked_add(start)?.checked_add(size)
    }

    /// Returns the offset of the payload and its size.
    fn raw(&self, layout: &SampleLayout) -> Option<(usize, usize)> {
        if self.kind != record_type::SAMPLE {
            return None;
        }
        let raw = layout.raw.checked_add(match layout.has_chain {
            true => 8 + self.chain(layout)?.bytes(),
            false => 0,
        })?;
        let size = usize::try_from(u32_at(self.body, raw)?).ok()?;
        Some((raw.checked_add(4)?, size))
    }

    /// Returns the call chain of the task if the record is a sample that has it.
    pub fn chain(&self, layout: &SampleLayout) -> Option<Chain<'a>> {
        if self.kind != record_type::SAMPLE || !layout.has_chain {
            return None;
        }
        let bytes = usize::try_from(u64_at(self.body, layout.raw)?).ok()?.checked_mul(8)?;
        let start = layout.raw + 8;
        self.body.get(start..start.checked_add(bytes)?).map(Chain::new)
    }

    /// Returns the place of the numbers of that chain in the whole record, in bytes.
    pub fn chain_place(&self, layout: &SampleLayout) -> Option<Range<usize>> {
        let begin = HEADER_BYTES + layout.raw + 8;
        self.chain(layout).map(|chain| begin..begin + chain.bytes())
    }

    /// Returns the addresses of a new mapping if the record is one and the mapping is executable.
    pub fn executable_mapping(&self) -> Option<(u64, u64)> {
        let is_executable = u32_at(self.body, 56)? & libc::PROT_EXEC.cast_unsigned() != 0;
        let start = u64_at(self.body, 8)?;
        let end = start.checked_add(u64_at(self.body, 16)?)?;
        (self.kind == record_type::MMAP2 && is_executable).then_some((start, end))
    }

    /// Reads all fields of the record.
    ///
    /// # Errors
    ///
    /// [`RecordError::Short`] if the body is too short for them.
    pub fn parse(&self, layout: &SampleLayout) -> Result<Record<'a>, RecordError> {
        self.fields(layout)
            .ok_or(RecordError::Short { kind: self.kind, bytes: HEADER_BYTES + self.body.len() })
    }

    fn fields(&self, layout: &SampleLayout) -> Option<Record<'a>> {
        let time = self.time(layout)?;
        let (pid, tid) = self.task(layout)?;
        let body = match self.kind {
            record_type::SAMPLE => RecordBody::Sample(self.payload(layout)?),
            record_type::LOST => RecordBody::Lost(u64_at(self.body, 8)?),
            record_type::COMM => self.comm(layout)?,
            record_type::FORK => {
                let (pid, ppid, tid, ptid) = self.relation()?;
                RecordBody::Fork { pid, tid, ppid, ptid }
            }
            record_type::EXIT => {
                let (pid, _, tid, _) = self.relation()?;
                RecordBody::Exit { pid, tid }
            }
            record_type::MMAP2 => RecordBody::Mmap(self.code_map(layout)?),
            other => RecordBody::Other(other),
        };
        Some(Record { pid, tid, time, body })
    }

    /// Reads the body of MMAP2: `u32 pid, tid; u64 addr, len, pgoff; 24 bytes for the file; u32
    /// prot, flags; char filename[]`.
    fn code_map(&self, layout: &SampleLayout) -> Option<CodeMap<'a>> {
        let text = self.body.get(64..self.body.len().checked_sub(layout.trailer_tid)?)?;
        Some(CodeMap {
            pid: Pid(i32_at(self.body, 0)?),
            start: u64_at(self.body, 8)?,
            bytes: u64_at(self.body, 16)?,
            offset: u64_at(self.body, 24)?,
            file: self.body.get(32..56)?,
            has_build_id: self.misc & MISC_MMAP_BUILD_ID != 0,
            path: text.split(|it| *it == 0).next().unwrap_or_default(),
        })
    }

    /// Reads `u32 pid, ppid, tid, ptid` of FORK and EXIT.
    fn relation(&self) -> Option<(Pid, Pid, Tid, Tid)> {
        let field = |at| i32_at(self.body, at);
        Some((Pid(field(0)?), Pid(field(4)?), Tid(field(8)?), Tid(field(12)?)))
    }

    /// Reads the body of COMM: `u32 pid, tid; char comm[]`, padded with NUL to eight bytes.
    fn comm(&self, layout: &SampleLayout) -> Option<RecordBody<'a>> {
        let trailer = layout.trailer_tid;
        let text = self.body.get(8..self.body.len().checked_sub(trailer)?)?;
        let end = text.iter().position(|&it| it == 0).unwrap_or(text.len());
        Some(RecordBody::Comm {
            pid: Pid(i32_at(self.body, 0)?),
            tid: Tid(i32_at(self.body, 4)?),
            comm: text.get(..end)?,
            exec: self.misc & MISC_COMM_EXEC != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::abi::sample_type as bit;
    use super::*;

    fn layout() -> SampleLayout {
        SampleLayout::new(bit::TID | bit::TIME | bit::RAW, 0).expect("complete")
    }

    fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(HEADER_BYTES + body.len()).expect("short");
        [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|it| it.to_le_bytes()).collect()
    }

    #[test]
    fn a_sample_has_task_time_and_payload() {
        let bytes = record(record_type::SAMPLE, 0, &words(&[7, 8, 1000, 0, 4, 0xabcd]));
        let (record, size) = RecordKind::first(&bytes).expect("whole");
        assert_eq!(size, bytes.len());
        let expected = Record {
            pid: Pid(7),
            tid: Tid(8),
            time: KernelTime(1000),
            body: RecordBody::Sample(&[0xcd, 0xab, 0, 0]),
        };
        assert_eq!(record.parse(&layout()), Ok(expected));
    }

    #[test]
    fn a_chain_stands_before_the_payload() {
        let bits = bit::TID | bit::TIME | bit::CALLCHAIN | bit::RAW;
        let layout = SampleLayout::new(bits, 0).expect("complete");
        let chain = words(&[3, 0, 0xffff_ff80, 0xffff_ffff, 0x10, 0xffff_ffff, 0x20, 0xffff_ffff]);
        let body = [words(&[7, 8, 1000, 0]), chain, words(&[4, 0xabcd])].concat();
        let bytes = record(record_type::SAMPLE, 0, &body);
        let (whole, _) = RecordKind::first(&bytes).expect("whole");
        assert_eq!(whole.payload(&layout), Some(&[0xcd, 0xab, 0, 0][..]));
        let chain = whole.chain(&layout).expect("a chain");
        let kernel = [0xffff_ffff_0000_0010, 0xffff_ffff_0000_0020];
        assert_eq!(chain.kernel().collect::<Vec<_>>(), kernel);
        // The chain claims more addresses than there are bytes.
        let body = [words(&[7, 8, 1000, 0, 9, 0x2000_0000]), words(&[0; 8])].concat();
        let bytes = record(record_type::SAMPLE, 0, &body);
        let (cut, _) = RecordKind::first(&bytes).expect("whole");
        assert_eq!((cut.payload(&layout), cut.chain(&layout)), (None, None));
        assert!(cut.parse(&layout).is_err());
    }

    #[test]
    fn a_mapping_has_a_file_and_a_place() {
        let file = words(&[8, 1, 77, 0, 0, 0, 5, 2]);
        let place = words(&[5, 5, 0x1000, 0, 0x2000, 0, 0x3000, 0]);
        let body = [
            place,
            file[..24].to_vec(),
            words(&[5, 2]),
            b"/bin/x\0\0".to_vec(),
            words(&[5, 5, 9, 0]),
        ];
        let bytes = record(record_type::MMAP2, 0, &body.concat());
        let (record, _) = RecordKind::first(&bytes).expect("whole");
        let Ok(RecordBody::Mmap(map)) = record.parse(&layout()).map(|it| it.body) else {
            panic!("a mapping")
        };
        assert_eq!((map.pid, map.start, map.bytes, map.offset), (Pid(5), 0x1000, 0x2000, 0x3000));
        assert_eq!((map.path, map.has_build_id), (&b"/bin/x"[..], false));
        assert_eq!(map.file[..16], words(&[8, 1, 77, 0]));
    }

    #[test]
    fn exec_is_distinguished_from_a_rename() {
        let body = [words(&[5, 5]), b"tar\0\0\0\0\0".to_vec(), words(&[5, 5, 9, 0])].concat();
        for (misc, exec) in [(0, false), (MISC_COMM_EXEC, true)] {
            let bytes = record(record_type::COMM, misc, &body);
            let (record, _) = RecordKind::first(&bytes).expect("whole");
            let comm = RecordBody::Comm { pid: Pid(5), tid: Tid(5), comm: b"tar", exec };
            assert_eq!(record.parse(&layout()).map(|it| it.body), Ok(comm));
        }
    }

    #[test]
    fn the_rest_after_a_cut_record_is_an_error_once() {
        let mut bytes = record(record_type::EXIT, 0, &words(&[1, 0, 1, 0, 0, 0, 1, 1, 2, 0]));
        let whole = bytes.len();
        bytes.extend_from_slice(&[9, 0, 0, 0, 0, 0, 99]);
        let found: Vec<_> = records(&bytes).collect();
        assert_eq!(found.len(), 2);
        assert!(matches!(found[0], Ok((0, _))));
        assert_eq!(found[1], Err(RecordError::Size { claimed: 0, left: bytes.len() - whole }));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_give_records_or_errors(bytes: Vec<u8>) {
            let with_chain = SampleLayout::new(bit::TID | bit::TIME | bit::CALLCHAIN | bit::RAW, 0);
            for (_, record) in records(&bytes).flatten() {
                let _ = record.parse(&layout());
                let _ = record.parse(&with_chain.expect("complete"));
            }
        }
    }
}
