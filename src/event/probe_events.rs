//! Events of the tracer's own probes: the names identify the probes, and the formats give the
//! offsets of their fields.

use super::model::{FileStat, ProbeObservation};
use super::syscall_table::{IO_EVENT_BYTES, IOCB_BYTES};
use crate::tracefs::{ArrayField, BindError, EventFormat, IntField, StringField};
use crate::units::{DevId, Fd};

pub use super::probe_names::{
    COMPLETED_PREFIX, FILE_PREFIX, GIVEN_PREFIX, GROUP_PREFIX, IOCB_FIELD, LIST_ADDRESS_FIELD,
    LIST_COUNT_FIELD, LIST_FIELD, NUMBER_FIELD, NUMBERED_PREFIX, PATH_PREFIX, SUBMITTED_PREFIX,
};

/// Fields of a probe.
#[derive(Debug)]
pub(super) enum ProbeShape {
    Path { name: StringField, copy: IntField, address: Option<IntField> },
    Given { name: StringField, address: IntField },
    File { fd: IntField, mode: IntField, ino: IntField, dev: IntField, size: IntField },
    Submitted { address: IntField, first: usize, pointers: ArrayField, iocbs: Vec<ArrayField> },
    Completed { address: IntField, count: IntField, first: usize, results: Vec<ArrayField> },
}

/// Limits of the elements in a record of the tracer's own probes: operations, words of each, arrays
/// of results, and words of each. Formats in logs may have any number.
const OPERATIONS_MAX: usize = 64;
const WORDS_MAX: usize = 7;
const RESULT_ARRAYS_MAX: usize = 4;
const RESULT_WORDS_MAX: usize = 64;

/// Words of a `struct io_event`; the second one is the address of the request.
const RESULT_WORDS: usize = IO_EVENT_BYTES / 8;

/// First word of a `struct iocb` that probes record: the word before is the program's own.
pub const IOCB_FIRST_WORD: usize = 1;

impl ProbeShape {
    /// Binds the fields of one of the tracer's probes; `None` for other tracepoints.
    pub(super) fn of(
        system: &str,
        name: &str,
        format: &EventFormat,
    ) -> Result<Option<Self>, BindError> {
        if !system.starts_with(GROUP_PREFIX) {
            return Ok(None);
        }
        if name.starts_with(PATH_PREFIX) {
            let (name, copy) = (format.string("name")?, format.int("copy")?);
            return Ok(Some(Self::Path { name, copy, address: format.int_opt("address")? }));
        }
        if name.starts_with(GIVEN_PREFIX) {
            let (name, address) = (format.string("name")?, format.int("address")?);
            return Ok(Some(Self::Given { name, address }));
        }
        if name.starts_with(FILE_PREFIX) {
            let int = |name| format.int(name);
            let (fd, mode, ino) = (int("fd")?, int("mode")?, int("ino")?);
            return Ok(Some(Self::File { fd, mode, ino, dev: int("dev")?, size: int("size")? }));
        }
        if let Some(first) = first_of_part(name, SUBMITTED_PREFIX) {
            let (address, pointers) = (format.int(LIST_ADDRESS_FIELD)?, format.array(LIST_FIELD)?);
            if pointers.count() > OPERATIONS_MAX {
                return Ok(None);
            }
            let iocb = |place| format.array(&format!("{IOCB_FIELD}{place}"));
            let iocbs: Vec<ArrayField> =
                (0..pointers.count()).map(iocb).collect::<Result<_, _>>()?;
            let is_small = iocbs.iter().all(|words| words.count() <= WORDS_MAX);
            return Ok(is_small.then_some(Self::Submitted { address, first, pointers, iocbs }));
        }
        if let Some(first) = first_of_part(name, COMPLETED_PREFIX) {
            let (address, count) = (format.int(LIST_ADDRESS_FIELD)?, format.int(LIST_COUNT_FIELD)?);
            let mut results = vec![format.array(LIST_FIELD)?];
            for number in 1..RESULT_ARRAYS_MAX {
                results.extend(format.array_opt(&format!("{LIST_FIELD}{number}"))?);
            }
            let is_small = results.iter().all(|words| words.count() <= RESULT_WORDS_MAX);
            return Ok(is_small.then_some(Self::Completed { address, count, first, results }));
        }
        Ok(None)
    }

    pub(super) fn read(&self, payload: &[u8]) -> Option<Box<ProbeObservation>> {
        Some(Box::new(match self {
            Self::Path { name, copy, address } => {
                // An error is not a pointer, and the other fields are then undefined.
                let copied = !is_error(copy.read_u64(payload)?);
                let bytes = name.read_bytes(payload)?;
                // A string that could not be fetched is empty; others have their NUL.
                let whole = bytes.strip_suffix(b"\0").filter(|_| copied).map(<[u8]>::to_vec);
                let address = match address.as_ref().filter(|_| copied) {
                    Some(address) => Some(address.read_u64(payload)?),
                    None => None,
                };
                ProbeObservation::Path { address, bytes: whole }
            }
            Self::Given { name, address } => {
                let bytes = name.read_bytes(payload)?.strip_suffix(b"\0").map(<[u8]>::to_vec);
                ProbeObservation::Given { address: address.read_u64(payload)?, bytes }
            }
            Self::File { fd, mode, ino, dev, size } => {
                let small = |field: &IntField| u32::try_from(field.read_u64(payload)?).ok();
                let fd = Fd(i32::try_from(fd.read_i64(payload)?).ok()?);
                let (ino, size) = (ino.read_u64(payload)?, size.read_u64(payload)?);
                let stat = FileStat { mode: small(mode)?, dev: DevId(small(dev)?), ino, size };
                ProbeObservation::File { fd, stat }
            }
            Self::Submitted { address, first, pointers, iocbs } => {
                let mut bytes = Vec::new();
                for (place, words) in iocbs.iter().enumerate() {
                    let pointer = pointers.read_u64(payload, place)?;
                    // The list ends here, or could not be read: the words are of an earlier event.
                    if pointer == 0 {
                        break;
                    }
                    bytes.extend(pointer.to_le_bytes());
                    bytes.extend(iocb(words, payload)?);
                    // The sum of the buffers of a vectored operation is not recorded.
                    bytes.extend(u64::MAX.to_le_bytes());
                }
                let address = address.read_u64(payload)?;
                ProbeObservation::Submitted { address, first: *first, bytes }
            }
            Self::Completed { address, count, first, results } => {
                let words = results.iter().flat_map(|array| {
                    (0..array.count()).map(move |place| array.read_u64(payload, place))
                });
                let words: Vec<u64> = words.collect::<Option<_>>()?;
                // A result without the address of its request could not be read.
                let results = words.as_chunks::<RESULT_WORDS>().0.iter();
                let results = results.take_while(|result| result[1] != 0).flatten();
                let bytes = results.flat_map(|word| word.to_le_bytes()).collect();
                let (address, count) = (address.read_u64(payload)?, count.read_i64(payload)?);
                ProbeObservation::Completed { address, count, first: *first, bytes }
            }
        }))
    }
}

/// Returns the index of the first element that a probe of lists records, from its name:
/// `PREFIX_PID` or `PREFIX<index>_PID`; `None`: another probe.
pub fn first_of_part(name: &str, prefix: &str) -> Option<usize> {
    let (first, _) = name.strip_prefix(prefix)?.split_once('_')?;
    let first = if first.is_empty() { Some(0) } else { first.parse().ok() };
    first.filter(|first| *first < OPERATIONS_MAX)
}

/// Bytes of a `struct iocb` of which these words were recorded; the others are 0.
fn iocb(words: &ArrayField, payload: &[u8]) -> Option<[u8; IOCB_BYTES]> {
    let mut bytes = [0; IOCB_BYTES];
    let places = bytes.as_chunks_mut::<8>().0.iter_mut().skip(IOCB_FIRST_WORD);
    for (place, word) in places.zip(0..words.count()) {
        *place = words.read_u64(payload, word)?.to_le_bytes();
    }
    Some(bytes)
}

/// Checks for an error: the kernel's functions return one as a pointer into the last page of all.
fn is_error(pointer: u64) -> bool {
    pointer >= u64::MAX - 4094
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMON: &str = "name: probe\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

    fn shape(name: &str, fields: &str) -> ProbeShape {
        let text = format!("{COMMON}{fields}\nprint fmt: \"\"\n");
        let format = EventFormat::parse(&text).expect("parses");
        ProbeShape::of("iotrace_42", name, &format).expect("bound").expect("a probe of ours")
    }

    /// Checks an event of a path: the string (with or without its NUL), and the kernel's pointer to
    /// its copy.
    #[track_caller]
    fn path(string: &[u8], copy: u64, address: Option<u64>, bytes: Option<&[u8]>) {
        let fields = "\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:u64 copy;\toffset:12;\tsize:8;\tsigned:0;\n\
            \tfield:u64 address;\toffset:20;\tsize:8;\tsigned:0;\n";
        let mut payload = vec![7, 0, 0, 0, 42, 0, 0, 0];
        let length = u32::try_from(string.len()).expect("short");
        payload.extend((length << 16 | 28).to_le_bytes());
        payload.extend(copy.to_le_bytes());
        payload.extend(0x1000_u64.to_le_bytes());
        payload.extend(string);
        let bytes = bytes.map(<[u8]>::to_vec);
        let read = shape("path_42", fields).read(&payload).expect("long enough");
        assert_eq!(*read, ProbeObservation::Path { address, bytes });
    }

    #[test]
    fn path_is_the_string_copied_by_the_kernel() {
        let kernel = 0xffff_8926_8138_4000;
        path(b"/etc\0", kernel, Some(0x1000), Some(b"/etc"));
        path(b"\0", kernel, Some(0x1000), Some(b""));
        path(b"(fault)\0", kernel, Some(0x1000), Some(b"(fault)"));
    }

    #[test]
    fn uncopied_string_is_not_a_path() {
        let efault = u64::MAX - 13;
        path(b"", efault, None, None);
        path(b"(fault)\0", efault, None, None);
        path(b"", 0xffff_8926_8138_4000, Some(0x1000), None);
        path(b"/cut off", 0xffff_8926_8138_4000, Some(0x1000), None);
    }

    #[test]
    fn path_argument_is_at_its_address() {
        let fields = "\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:u64 address;\toffset:12;\tsize:8;\tsigned:0;\n";
        for (string, bytes) in
            [(&b"/etc\0"[..], Some(b"/etc".to_vec())), (b"/cut", None), (b"", None)]
        {
            let mut payload = vec![7, 0, 0, 0, 42, 0, 0, 0];
            let length = u32::try_from(string.len()).expect("short");
            payload.extend((length << 16 | 20).to_le_bytes());
            payload.extend(0x1000_u64.to_le_bytes());
            payload.extend(string);
            let read = shape("given_42", fields).read(&payload).expect("long enough");
            assert_eq!(*read, ProbeObservation::Given { address: 0x1000, bytes });
        }
    }

    #[test]
    fn a_descriptor_gets_its_file() {
        let fields = "\tfield:s32 fd;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:u16 mode;\toffset:12;\tsize:2;\tsigned:0;\n\
            \tfield:u64 ino;\toffset:14;\tsize:8;\tsigned:0;\n\
            \tfield:u32 dev;\toffset:22;\tsize:4;\tsigned:0;\n\
            \tfield:u64 size;\toffset:26;\tsize:8;\tsigned:0;\n";
        let mut payload = vec![7, 0, 0, 0, 42, 0, 0, 0, 3, 0, 0, 0, 0xa4, 0x81];
        payload.extend(99_u64.to_le_bytes());
        payload.extend((254_u32 << 20 | 1).to_le_bytes());
        payload.extend(4096_u64.to_le_bytes());
        let read = shape("file_42", fields).read(&payload).expect("long enough");
        let stat = FileStat { mode: 0o100_644, dev: DevId::new(254, 1), ino: 99, size: 4096 };
        assert!(stat.has_position());
        assert_eq!(*read, ProbeObservation::File { fd: Fd(3), stat });
        assert_eq!(shape("file_42", fields).read(&payload[..30]), None);
    }

    /// Fields of a probe with a list: address, words, and the words of two `struct iocb`.
    fn words(values: impl Iterator<Item = u64>) -> Vec<u8> {
        let head = [7, 0, 0, 0, 42, 0, 0, 0];
        head.into_iter().chain(values.flat_map(u64::to_le_bytes)).collect()
    }

    const SUBMITTED: &str = "\tfield:u64 address;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:u64 list[2];\toffset:16;\tsize:16;\tsigned:0;\n\
        \tfield:u64 iocb0[5];\toffset:32;\tsize:40;\tsigned:0;\n\
        \tfield:u64 iocb1[5];\toffset:72;\tsize:40;\tsigned:0;\n";

    #[test]
    fn submitted_list_is_that_of_a_reader_without_sums() {
        let payload = words([0x10, 0x20, 0x30, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].into_iter());
        let read = shape("submitted_42", SUBMITTED).read(&payload).expect("long enough");
        let expected =
            [[0x20, 0, 1, 2, 3, 4, 5, 0, 0, u64::MAX], [0x30, 0, 6, 7, 8, 9, 10, 0, 0, u64::MAX]];
        let bytes = expected.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(*read, ProbeObservation::Submitted { address: 0x10, first: 0, bytes });
        assert_eq!(shape("submitted_42", SUBMITTED).read(&payload[..110]), None);
    }

    #[test]
    fn list_that_could_not_be_read_is_empty() {
        let payload = words([0x10, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].into_iter());
        let read = shape("submitted_42", SUBMITTED).read(&payload).expect("long enough");
        let expected = ProbeObservation::Submitted { address: 0x10, first: 0, bytes: Vec::new() };
        assert_eq!(*read, expected);
    }

    #[test]
    fn name_of_a_part_has_the_index_of_its_first_element() {
        let payload = words([0x10, 0x20, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].into_iter());
        let read = shape("submitted16_42", SUBMITTED).read(&payload).expect("long enough");
        assert!(matches!(*read, ProbeObservation::Submitted { address: 0x10, first: 16, .. }));
        for (name, first) in [("completed_42", Some(0)), ("completed16_42", Some(16))] {
            assert_eq!(first_of_part(name, COMPLETED_PREFIX), first);
            assert_eq!(first_of_part(name, SUBMITTED_PREFIX), None);
        }
        assert_eq!(first_of_part("completedx_42", COMPLETED_PREFIX), None);
    }

    const COMPLETED: &str = "\tfield:u64 address;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:s64 count;\toffset:16;\tsize:8;\tsigned:1;\n\
        \tfield:u64 list[8];\toffset:24;\tsize:64;\tsigned:0;\n";

    #[test]
    fn completed_list_ends_before_a_result_without_request() {
        for (second, length) in [(6, 64), (0, 32)] {
            let payload = words([9, 1, 1, 2, 3, 4, 5, second, 7, 8].into_iter());
            let read = shape("completed_42", COMPLETED).read(&payload).expect("long enough");
            let all = [1, 2, 3, 4, 5, 6, 7, 8_u64].into_iter().flat_map(u64::to_le_bytes);
            let bytes = all.take(length).collect();
            assert_eq!(
                *read,
                ProbeObservation::Completed { address: 9, count: 1, first: 0, bytes }
            );
        }
    }

    #[test]
    fn results_of_all_arrays_are_one_list() {
        let fields =
            format!("{COMPLETED}{}", "\tfield:u64 list1[4];\toffset:88;\tsize:32;\tsigned:0;\n");
        let payload = words([9, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12].into_iter());
        let read = shape("completed16_42", &fields).read(&payload).expect("long enough");
        let bytes = (1..=12_u64).flat_map(u64::to_le_bytes).collect();
        assert_eq!(*read, ProbeObservation::Completed { address: 9, count: 3, first: 16, bytes });
        assert_eq!(shape("completed16_42", &fields).read(&payload[..112]), None);
    }

    /// A log may have a format with any number of elements, which would need much memory.
    #[test]
    fn lists_of_other_lengths_are_no_probes_of_ours() {
        let fields = COMPLETED.replace("list[8]", "list[65]").replace("size:64;", "size:520;");
        let text = format!("{COMMON}{fields}\nprint fmt: \"\"\n");
        let format = EventFormat::parse(&text).expect("parses");
        assert!(ProbeShape::of("iotrace_42", "completed_42", &format).expect("bound").is_none());
    }

    #[test]
    fn probes_of_other_tools_are_ignored() {
        let format = EventFormat::parse(&format!("{COMMON}\nprint fmt: \"\"\n")).expect("parses");
        assert!(ProbeShape::of("kprobes", "path_42", &format).expect("no error").is_none());
        assert!(ProbeShape::of("iotrace_42", "path_42", &format).is_err());
    }
}
