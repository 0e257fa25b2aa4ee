//! Conversion of a call as strace prints it into registers, and data that was read from memory.
//!
//! The one table of system calls decides the meaning of each argument. strace prints the target of
//! a pointer but not its address, so each argument gets an address of our own.

use super::value::{arguments, begun, elements, is_cut_off, link, number, string};
use crate::capture::fact::NameOf;
use crate::event::syscall_table::{Call, CallClass, CallId, Role};
use crate::import::constants::ConstantTable;
use crate::import::decimal::seconds;
use crate::import::import_report::ImportReport;
use crate::import::imported_event::MemoryRead;
use crate::units::Fd;

/// Address of the first argument in memory.
const MEMORY: u64 = 0x7000_0000_0000;
/// Distance between the addresses of two arguments.
const APART: u64 = 0x1_0000;

/// Bits of `clone`'s flags that are a signal's number (`CSIGNAL`, `include/uapi/linux/sched.h`).
const SIGNAL_BITS: u64 = 0xff;

/// Calls whose names in strace and the kernel's tracepoints differ, or that only 32-bit programs
/// call (`arch/x86/entry/syscalls/syscall_32.tbl`). Their arguments have the same order, as strace
/// prints them. The offset of `mmap2` is printed in bytes.
const NAMES: &[(&[u8], &str)] = &[
    (b"umount2", "umount"),
    (b"_llseek", "lseek"),
    (b"chown32", "chown"),
    (b"fadvise64_64", "fadvise64"),
    (b"fchown32", "fchown"),
    (b"fcntl64", "fcntl"),
    (b"fstat64", "fstat"),
    (b"fstatat64", "newfstatat"),
    (b"fstatfs64", "fstatfs"),
    (b"ftruncate64", "ftruncate"),
    (b"lchown32", "lchown"),
    (b"lstat64", "lstat"),
    (b"mmap2", "mmap"),
    (b"stat64", "stat"),
    (b"statfs64", "statfs"),
    (b"truncate64", "truncate"),
];

/// End of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CallResult {
    /// Result; `None`: not printed.
    pub(super) ret: Option<i64>,
    /// Link of the descriptor that is the result.
    pub(super) link: Option<Vec<u8>>,
    /// Duration, ns.
    pub(super) took: Option<u64>,
}

/// A descriptor among the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GivenDescriptor {
    pub(super) fd: Fd,
    pub(super) link: Vec<u8>,
    /// True if the descriptor must be a directory.
    pub(super) is_directory: bool,
}

/// Contents of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) args: [u64; 6],
    pub(super) reads: Vec<MemoryRead>,
    pub(super) given: Vec<GivenDescriptor>,
    /// Working directory of the process.
    pub(super) directory: Option<Vec<u8>>,
}

/// Finds a call by name.
pub(super) fn row(name: &[u8]) -> Option<CallId> {
    let alias = NAMES.iter().find(|row| row.0 == name).map(|name| name.1);
    let name = alias.or_else(|| std::str::from_utf8(name).ok())?;
    CallId::by_common_name(name)
}

/// Splits the text after `(` into the arguments and the end of the call.
pub(super) fn whole<'a>(
    name: &[u8],
    text: &'a [u8],
    words: &ConstantTable,
) -> Option<(Vec<&'a [u8]>, CallResult)> {
    let (mut arguments, rest) = arguments(text)?;
    let rest = rest.trim_ascii_start().strip_prefix(b"=")?.trim_ascii();
    let mut outcome = outcome(rest, words)?;
    if arguments.iter().any(|argument| is_cut_off(argument)) {
        return None;
    }
    if name == b"_llseek" {
        seek_of_32_bits(&mut arguments, &mut outcome);
    }
    Some((arguments, outcome))
}

/// Converts `_llseek(3, 4096, [4096], SEEK_SET) = 0`: the position is the result of `lseek`, whose
/// arguments are the others.
fn seek_of_32_bits(texts: &mut Vec<&[u8]>, outcome: &mut CallResult) {
    if texts.len() == 4 {
        let result = texts.remove(2);
        let position = result.get(1..).and_then(number).map(u64::cast_signed);
        outcome.ret = if outcome.ret == Some(0) { position } else { outcome.ret };
    }
}

/// Arguments of a call without a printed end, as far as they are printed.
pub(super) fn half(text: &[u8]) -> Vec<&[u8]> {
    begun(text)
}

/// Parses the end of a call: `0`, `3</x>`, `-1 ENOENT (No such file or directory)`, `?`, each
/// optionally followed by ` <0.000123>`.
fn outcome(text: &[u8], words: &ConstantTable) -> Option<CallResult> {
    let (text, took) = match text.strip_suffix(b">").and_then(|rest| split_last(rest, b" <")) {
        Some((before, time)) => match seconds(time) {
            Some(took) => (before, Some(took)),
            None => (text, None),
        },
        None => (text, None),
    };
    if is_cut_off(text) {
        return None;
    }
    let mut parts = text.splitn(3, |text| *text == b' ');
    let (first, second) = (parts.next()?, parts.next().unwrap_or_default());
    let error = words.errno(second).map(|errno| -i64::from(errno));
    let ret = match first {
        b"?" => error,
        b"-1" if error.is_some() => error,
        b"-1" if second == b"(errno" => {
            let digits = parts.next().unwrap_or_default();
            number(digits).and_then(|number| i64::try_from(number).ok()).map(|number| -number)
        }
        _ => Some(number(first)?.cast_signed()),
    };
    Some(CallResult { ret, link: link(text).filter(|_| decorates_first(text)), took })
}

/// True if the result is decorated, and not a part of its explanation.
fn decorates_first(text: &[u8]) -> bool {
    let end = text.iter().position(|text| !text.is_ascii_digit());
    end.and_then(|end| text.get(end)) == Some(&b'<')
}

fn split_last<'a>(text: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let place = text.windows(at.len()).rposition(|window| window == at)?;
    Some((text.get(..place)?, text.get(place + at.len()..)?))
}

/// Resources that children of this call share with their parent; `None`: the call creates no task.
pub(super) fn clone_flags(name: &[u8], arguments: &[u8], words: &ConstantTable) -> Option<u64> {
    let flags = match name {
        b"fork" => 0,
        b"vfork" => (libc::CLONE_VM | libc::CLONE_VFORK) as u64,
        b"clone" | b"clone3" | b"clone2" => {
            let start = arguments
                .windows(6)
                .position(|window| window == b"flags=")
                .map_or(arguments.len(), |at| at + 6);
            let rest = arguments.get(start..).unwrap_or_default();
            let end = rest.iter().position(|rest| b",} )".contains(rest)).unwrap_or(rest.len());
            sum(rest.get(..end).unwrap_or_default(), words).unwrap_or(0)
        }
        _ => return None,
    };
    Some(flags & !SIGNAL_BITS)
}

/// Sum of numbers and names joined by `|`; `None`: one of them is unknown.
pub(super) fn sum(text: &[u8], words: &ConstantTable) -> Option<u64> {
    text.split(|text| *text == b'|').try_fold(0, |sum, part| {
        let word = part.split(|byte| b" <".contains(byte)).next().unwrap_or_default();
        Some(sum | number(word).or_else(|| words.value(word))?)
    })
}

/// Parses the arguments into registers and data read from memory.
pub(super) fn parse(
    id: CallId,
    texts: &[&[u8]],
    ret: Option<i64>,
    words: &ConstantTable,
    notes: &mut ImportReport,
) -> Parsed {
    let call = id.call();
    let mut parsed = Parsed::default();
    if call.class == CallClass::Process && !call.is_exec() {
        return parsed;
    }
    for (index, text) in texts.iter().take(6).enumerate() {
        // strace prints the two halves of its offset as one number.
        let place = if call.arg(Role::RwFlags).is_some() && index == 4 { 5 } else { index };
        let Some(role) = call.args.get(place).copied() else { continue };
        let address = MEMORY + APART * index as u64;
        let value = match role {
            Role::Fd | Role::Fd2 | Role::DirFd | Role::DirFd2 => {
                descriptor(&mut parsed, call, role, text, words)
            }
            Role::Path | Role::Path2 => path(&mut parsed.reads, text, address, notes),
            Role::Buffers | Role::OffsetPtr | Role::OffsetPtr2 | Role::How | Role::Pair => {
                pointed(&mut parsed.reads, role, text, address, ret, words)
            }
            _ => None,
        };
        let value = value.or_else(|| plain(text, address, words));
        if value.is_none() && !role.is_pointer() {
            notes.count("arguments of calls that were not understood, and are set to 0");
        }
        if let Some(register) = parsed.args.get_mut(place) {
            *register = value.unwrap_or(0);
        }
    }
    parsed
}

/// Parses a number, names of constants, or an argument in memory.
fn plain(text: &[u8], address: u64, words: &ConstantTable) -> Option<u64> {
    match text.first()? {
        b'"' | b'[' | b'{' | b'~' | b'&' => Some(address),
        _ => sum(text, words),
    }
}

fn descriptor(
    parsed: &mut Parsed,
    call: &Call,
    role: Role,
    text: &[u8],
    words: &ConstantTable,
) -> Option<u64> {
    let end = text.iter().position(|text| *text == b'<').unwrap_or(text.len());
    let value = sum(text.get(..end)?, words)?;
    let Some(link) = link(text) else { return Some(value) };
    let fd = i32::try_from(value.cast_signed()).ok()?;
    if fd == libc::AT_FDCWD {
        parsed.directory.get_or_insert(link);
    } else {
        // Calls for metadata may use the descriptor itself (`AT_EMPTY_PATH`).
        let is_metadata = matches!(call.class, CallClass::Stat | CallClass::Attribute);
        let is_directory = matches!(role, Role::DirFd | Role::DirFd2) && !is_metadata
            || matches!(call.class, CallClass::List | CallClass::Place);
        parsed.given.push(GivenDescriptor { fd: Fd(fd), link, is_directory });
    }
    Some(value)
}

fn path(
    reads: &mut Vec<MemoryRead>,
    text: &[u8],
    address: u64,
    notes: &mut ImportReport,
) -> Option<u64> {
    let (bytes, is_whole) = string(text)?;
    if is_whole {
        reads.push(MemoryRead::memory(NameOf::Argument, address, bytes));
    } else {
        notes.count("truncated paths: not used");
    }
    Some(address)
}

/// Parses the memory that a pointer refers to, after the call.
fn pointed(
    reads: &mut Vec<MemoryRead>,
    role: Role,
    text: &[u8],
    address: u64,
    ret: Option<i64>,
    words: &ConstantTable,
) -> Option<u64> {
    let opens = text.first().filter(|text| b"[{".contains(text));
    opens?;
    let bytes = match role {
        Role::Buffers => Some(buffers(text)),
        Role::How => how(text, words),
        Role::Pair => pair(text).map(|pair| pair.map(i32::to_le_bytes).as_flattened().to_vec()),
        _ => position(text, ret).map(|at| at.to_le_bytes().to_vec()),
    };
    let read = bytes.filter(|byte| !byte.is_empty());
    reads.extend(read.map(|bytes| MemoryRead::memory(NameOf::Memory, address, bytes)));
    Some(address)
}

/// Encodes `struct iovec`s: only their lengths are known. Empty if some of them are not shown.
fn buffers(text: &[u8]) -> Vec<u8> {
    let length = |byte: &&[u8]| {
        let place = byte.windows(8).rposition(|window| window == b"iov_len=")?;
        number(byte.get(place + 8..)?)
    };
    let elements = elements(text);
    let all: Option<Vec<u64>> = elements.iter().map(length).collect();
    let all = all.unwrap_or_default();
    all.iter().flat_map(|length| [0, *length].map(u64::to_le_bytes).concat()).collect()
}

/// Encodes a `struct open_how`: three numbers of eight bytes (`include/uapi/linux/openat2.h`).
fn how(text: &[u8], words: &ConstantTable) -> Option<Vec<u8>> {
    let elements = elements(text);
    let field = |name: &[u8]| {
        let found = elements.iter().find_map(|element| element.strip_prefix(name));
        found.map_or(Some(0), |found| sum(found, words))
    };
    let all = [field(b"flags=")?, field(b"mode=")?, field(b"resolve=")?];
    Some(all.map(u64::to_le_bytes).concat())
}

/// Parses the two descriptors of `pipe2`.
pub(super) fn pair(text: &[u8]) -> Option<[i32; 2]> {
    let [first, second] = elements(text).try_into().ok()?;
    let fd = |byte: &[u8]| i32::try_from(number(byte)?).ok();
    Some([fd(first)?, fd(second)?])
}

/// Parses a position such as `[0] => [46219]`: before and after the call; or only before, if the
/// kernel has moved it by the result of the call.
fn position(text: &[u8], ret: Option<i64>) -> Option<u64> {
    let after =
        text.windows(3).rposition(|window| window == b"> [").and_then(|at| text.get(at + 3..));
    match after {
        Some(after) => number(after),
        None => number(text.get(1..)?)?.checked_add(ret.unwrap_or(0).max(0).cast_unsigned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> (Parsed, CallResult) {
        let words = ConstantTable::new();
        let (name, rest) = line.split_once('(').expect(line);
        let (texts, outcome) = whole(name.as_bytes(), rest.as_bytes(), &words).expect(line);
        let call = row(name.as_bytes()).expect(name);
        let mut notes = ImportReport::default();
        let parsed = parse(call, &texts, outcome.ret, &words, &mut notes);
        assert_eq!(notes.messages(""), Vec::<String>::new(), "{line}");
        (parsed, outcome)
    }

    #[test]
    fn open_has_all_arguments_and_its_result() {
        let (it, outcome) = parsed(
            r#"openat(AT_FDCWD</tmp>, "a\n", O_WRONLY|O_CREAT|0x8, 0644) = 3</tmp/a> <0.000056>"#,
        );
        assert_eq!(it.args, [(-100_i64).cast_unsigned(), MEMORY + APART, 0o101 | 8, 0o644, 0, 0]);
        assert_eq!(it.directory, Some(b"/tmp".to_vec()));
        assert_eq!(it.reads[0].bytes, b"a\n");
        let link = Some(b"/tmp/a".to_vec());
        assert_eq!(outcome, CallResult { ret: Some(3), link, took: Some(56_000) });
    }

    #[test]
    fn calls_of_32_bit_programs_are_recognised() {
        let (it, outcome) = parsed("_llseek(3, 4096, [8192], SEEK_CUR) = 0 <0.000003>");
        assert_eq!((&it.args[..3], outcome.ret), (&[3, 4096, 1][..], Some(8192)));
        let (it, outcome) = parsed("_llseek(3, 4096, 0xbf00, SEEK_SET) = -1 EBADF (x)");
        assert_eq!((&it.args[..3], outcome.ret), (&[3, 4096, 0][..], Some(-9)));
        let (it, _) = parsed("mmap2(NULL, 8192, PROT_READ, MAP_SHARED, 3, 0x2000) = 0xb7f10000");
        assert_eq!(it.args, [0, 8192, 1, 1, 3, 0x2000]);
        for (name, _) in NAMES {
            assert!(row(name).is_some(), "{}", name.escape_ascii());
        }
        for (name, of_64_bits) in
            [("pread", "pread64"), ("stat64", "newstat"), ("sendfile", "sendfile64")]
        {
            assert_eq!(row(name.as_bytes()).map(|row| row.call().name), Some(of_64_bits));
        }
    }

    #[test]
    fn names_with_a_bracket_that_is_not_escaped_are_not_understood() {
        let words = ConstantTable::new();
        let is_known = |text: &str| whole(b"read", text.as_bytes(), &words).is_some();
        assert!(is_known(r#"3</tmp/a\76b>, "", 1) = 0 <0.000001>"#));
        assert!(is_known(r#"3</tmp/a>(deleted), "", 1) = 3</tmp/a> <0.000001>"#));
        assert!(!is_known(r#"3</tmp/a>b>, "", 1) = 0 <0.000001>"#));
        assert!(!is_known(r#"0, "", 1) = 3</tmp/a>b> <0.000001>"#));
        assert!(!is_known(r#"0, "", 1) = 3</tmp/a> b>"#));
    }

    #[test]
    fn results_are_those_of_the_kernel() {
        let ret = |text: &str| {
            outcome(text.as_bytes(), &ConstantTable::new())
                .map(|outcome| (outcome.ret, outcome.took))
        };
        assert_eq!(
            ret("-1 ENOENT (No such file or directory) <0.000013>"),
            Some((Some(-2), Some(13_000)))
        );
        assert_eq!(ret("? ERESTARTSYS (To be restarted)"), Some((Some(-512), None)));
        assert_eq!(ret("?"), Some((None, None)));
        assert_eq!(ret("0x8000 (flags O_RDONLY|O_LARGEFILE)"), Some((Some(0x8000), None)));
        assert_eq!(ret("-1 (errno 600)"), Some((Some(-600), None)));
        assert_eq!(ret("what"), None);
    }

    #[test]
    fn pointed_to_data_is_that_at_the_end_of_the_call() {
        let (it, _) = parsed("sendfile(1</o>, 3</i>, [10] => [30], 20) = 20");
        assert_eq!(
            (it.reads[0].address, it.reads[0].bytes.as_slice()),
            (it.args[2], &30_u64.to_le_bytes()[..])
        );
        let (it, _) = parsed("copy_file_range(3</i>, [10], 4</o>, NULL, 20, 0) = 20");
        assert_eq!((it.reads[0].bytes.as_slice(), it.args[3]), (&30_u64.to_le_bytes()[..], 0));
        let (it, _) = parsed(
            r#"preadv2(3</i>, [{iov_base="a"..., iov_len=7}, {iov_base="", iov_len=9}], 2, 5, RWF_NOWAIT) = 7"#,
        );
        assert_eq!((it.args[2..].to_vec(), it.reads[0].bytes.len()), (vec![2, 5, 0, 8], 32));
        let (it, _) = parsed("pipe2([3<pipe:[7]>, 4<pipe:[7]>], O_CLOEXEC) = 0");
        assert_eq!(it.reads[0].bytes, [3, 0, 0, 0, 4, 0, 0, 0]);
        let (it, _) =
            parsed(r#"openat2(5</d>, "x", {flags=O_RDWR, mode=0600, resolve=0}, 24) = 3</d/x>"#);
        assert_eq!(it.reads[1].bytes[..8], 2_u64.to_le_bytes());
        assert!(it.given[0].is_directory);
    }

    #[test]
    fn clone_flags_give_the_shared_resources() {
        let words = ConstantTable::new();
        let flags = |name: &str, it: &str| clone_flags(name.as_bytes(), it.as_bytes(), &words);
        assert_eq!(flags("clone", "child_stack=NULL, flags=CLONE_VM|SIGCHLD "), Some(0x100));
        assert_eq!(
            flags("clone3", "{flags=CLONE_THREAD|CLONE_FILES, exit_signal=0}, 88"),
            Some(0x10400)
        );
        assert_eq!(
            (flags("vfork", ""), flags("fork", ""), flags("read", "")),
            (Some(0x4100), Some(0), None)
        );
    }
}
