//! Facts without names.

use super::code_ranges::CodeRanges;
use super::pseudonyms::Pseudonyms;
use crate::capture::fact::{Fact, NameOf, Text};
use crate::capture::header::CapsuleCounts;

/// Returns a fact with pseudonyms; `None`: it has to be left out.
pub(super) fn anonymous(
    fact: Fact,
    code: &CodeRanges,
    names: &mut Pseudonyms,
    counts: &mut CapsuleCounts,
) -> Option<Fact> {
    Some(match fact {
        // Memory has structures of numbers.
        Fact::Name { of: NameOf::Memory, .. } | Fact::Unwound(_) => fact,
        Fact::Stack(mut stack) => {
            for address in &mut stack.way.addresses {
                if *address != 0 && !code.contains(*address) {
                    *address = 0;
                    counts.chain_words += 1;
                }
            }
            Fact::Stack(stack)
        }
        Fact::Name { tid, cpu, record_time, of, begin, end, errno, address, stat, bytes } => {
            let is_target = of == NameOf::Link;
            let bytes = if is_target { names.target(&bytes) } else { names.path(&bytes) };
            Fact::Name { tid, cpu, record_time, of, begin, end, errno, address, stat, bytes }
        }
        Fact::Task { time, pid, tid, ppid, comm } => {
            Fact::Task { time, pid, tid, ppid, comm: names.name(&comm) }
        }
        Fact::Fd { begin, end, pid, fd, flags, position, shared, stat, link } => {
            let link = names.target(&link);
            Fact::Fd { begin, end, pid, fd, flags, position, shared, stat, link }
        }
        Fact::Opened { tid, since, until, end, errno, stat, bytes } => {
            Fact::Opened { tid, since, until, end, errno, stat, bytes: names.path(&bytes) }
        }
        // A word of a chain that is no address of code.
        Fact::Symbol(symbol) if symbol.pid.0 != 0 && !code.contains(symbol.address) => {
            counts.chain_words += 1;
            return None;
        }
        Fact::Symbol(mut symbol) => {
            symbol.name = names.name(&symbol.name);
            symbol.module = names.path(&symbol.module);
            symbol.build_id = Vec::new();
            Fact::Symbol(symbol)
        }
        Fact::User { time, pid, user } => Fact::User { time, pid, user: names.user(user) },
        Fact::Text { time, which, pid, text } => {
            let Some(text) = text_of(which, &text, names) else {
                let sum = if which == Text::COMMAND {
                    &mut counts.command_lines
                } else {
                    &mut counts.texts
                };
                *sum += 1;
                return None;
            };
            Fact::Text { time, which, pid, text }
        }
    })
}

/// Returns the number of facts in a frame, whatever their kinds: `u16` kind, `u32` length, body.
pub(super) fn entries(payload: &[u8]) -> u64 {
    const HEAD_BYTES: usize = 6;
    let (mut rest, mut count) = (payload, 0);
    while let Some([_, _, length @ ..]) = rest.first_chunk::<HEAD_BYTES>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some(next) = rest.get(HEAD_BYTES.saturating_add(length)..) else { break };
        (rest, count) = (next, count + 1);
    }
    count
}

/// Returns a text with pseudonyms; `None`: it has to be left out.
fn text_of(which: Text, text: &[u8], names: &mut Pseudonyms) -> Option<Vec<u8>> {
    Some(match which {
        Text::MOUNTINFO => lines(text, |line| mount(line, names)),
        Text::CWD | Text::ROOT | Text::EXE | Text::EXECUTABLE => names.path(text),
        Text::MAPS => lines(text, |line| mapping(line, names)),
        Text::CGROUP => lines(text, |line| group(line, names)),
        Text::PROGRAM => {
            let mut parts = text.splitn(3, |byte| *byte == b'\n');
            let (changed, reads) = (parts.next()?, parts.next()?);
            [changed, reads, &names.path(parts.next()?)].join(&b'\n')
        }
        Text::DISKSTATS_START
        | Text::DISKSTATS_END
        | Text::PROCESS_IO
        | Text::SNAPSHOT_OVER
        | Text::BITS
        | Text::BLOCKS
        | Text::MOUNTS
        | Text::EXTENTS
        | Text::SWITCHING_OFF
        | Text::PLACES => text.to_vec(),
        // Command lines, and texts of kinds that this program does not know.
        _ => return None,
    })
}

fn lines(text: &[u8], change: impl FnMut(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let all = text.split(|byte| *byte == b'\n');
    all.map(change).collect::<Vec<_>>().join(&b'\n')
}

/// Line of `/proc/PID/mountinfo` (proc(5)).
fn mount(line: &[u8], names: &mut Pseudonyms) -> Vec<u8> {
    let mut words = line.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let dash = words.iter().position(|word| word == b"-").unwrap_or(words.len());
    for (place, word) in words.iter_mut().enumerate() {
        *word = match place.checked_sub(dash) {
            None if place == 3 || place == 4 => names.path(&unescaped(word)),
            None if place == 5 => options(word),
            // The other ones are numbers, and optional fields such as `shared:7`.
            None | Some(0) => continue,
            Some(1) => file_system(word, names),
            // A device.
            Some(2) if word.starts_with(b"/dev/") => names.path(&unescaped(word)),
            // A server, a directory of another file system.
            Some(2) => names.name(word),
            Some(_) => options(word),
        };
    }
    words.join(&b' ')
}

/// Type of a file system; after a dot the name of the program that serves it.
fn file_system(word: &[u8], names: &mut Pseudonyms) -> Vec<u8> {
    match word.iter().position(|byte| *byte == b'.') {
        Some(dot) => {
            let (kind, program) = word.split_at(dot + 1);
            [kind, &names.name(program)].concat()
        }
        None => word.to_vec(),
    }
}

/// Options whose numbers say how a file system works, and contain no name.
const NUMBERS: [&[u8]; 22] = [
    b"allocsize",
    b"barrier",
    b"bsize",
    b"commit",
    b"data",
    b"inode_readahead_blks",
    b"journal_ioprio",
    b"logbsize",
    b"logbufs",
    b"max_batch_time",
    b"max_read",
    b"min_batch_time",
    b"nr_blocks",
    b"nr_inodes",
    b"resv_level",
    b"retrans",
    b"rsize",
    b"size",
    b"stripe",
    b"sunit",
    b"swidth",
    b"wsize",
];

/// Options of a mount: those with a value keep it only if it is a number of the list.
fn options(word: &[u8]) -> Vec<u8> {
    let all = word.split(|byte| *byte == b',').filter_map(|option| {
        let (key, value) = match option.iter().position(|byte| *byte == b'=') {
            Some(at) => (option.get(..at)?, option.get(at + 1..)?),
            None => return is_word(option).then_some(option),
        };
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        Some(if is_number && NUMBERS.contains(&key) { option } else { key })
    });
    all.collect::<Vec<_>>().join(&b',')
}

/// True for a word of options: letters, digits, dashes.
fn is_word(option: &[u8]) -> bool {
    option.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Undoes the octal escapes of mountinfo: blanks, tabs, line ends, backslashes.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        (rest, out) = match byte {
            Some(byte) => (tail.get(3..).unwrap_or_default(), [out, vec![byte]].concat()),
            None => (tail, [out, vec![*first]].concat()),
        };
    }
    out
}

/// Line of `/proc/PID/maps`: the path is after the fifth blank-separated word.
fn mapping(line: &[u8], names: &mut Pseudonyms) -> Vec<u8> {
    let Some(begin) = line.iter().position(|byte| matches!(byte, b'/' | b'[')) else {
        return line.to_vec();
    };
    let (head, path) = line.split_at(begin);
    const KERNEL: [&[u8]; 7] = [
        b"[heap]",
        b"[stack]",
        b"[vdso]",
        b"[vvar]",
        b"[vsyscall]",
        b"[vvar_vclock]",
        b"[uprobes]",
    ];
    if KERNEL.contains(&path) {
        return line.to_vec();
    }
    [head, &names.path(path)].concat()
}

/// Line of `/proc/PID/cgroup`: `ID:CONTROLLERS:PATH`.
fn group(line: &[u8], names: &mut Pseudonyms) -> Vec<u8> {
    let mut parts = line.splitn(3, |byte| *byte == b':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(id), Some(controllers), Some(path)) => {
            // A hierarchy without controllers has a name.
            let controllers = match controllers.strip_prefix(b"name=") {
                Some(name) => [b"name=".as_slice(), &names.name(name)].concat(),
                None => controllers.to_vec(),
            };
            [id, &controllers, &names.path(path)].join(&b':')
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(which: Text, text: &str) -> String {
        let mut names = Pseudonyms::new(b"salt");
        let text = text_of(which, text.as_bytes(), &mut names).expect("kept");
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn mounts_keep_numbers_types_and_flags() {
        let line = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - fuse.sshfs me@host:/srv \
                    rw,errors=continue,uid=1000,size=4096,pin=4711,upperdir=/srv/me\n";
        let text = changed(Text::MOUNTINFO, line);
        let words: Vec<&str> = text.trim_end().split(' ').collect();
        assert_eq!(
            (words[..3].join(" "), words[5], words[6]),
            ("36 35 98:0".into(), "rw,noatime", "master:1")
        );
        assert_eq!(
            (words[3].len(), words[4].len(), words[10]),
            (5, 6, "rw,errors,uid,size=4096,pin,upperdir")
        );
        assert!(words[8].starts_with("fuse."));
        for name in ["mnt1", "mnt", "sshfs", "me@host", "srv", "1000", "4711", "continue"] {
            assert!(!text.contains(name), "{name}: {text}");
        }
    }

    #[test]
    fn maps_groups_and_programs_keep_their_shape() {
        let maps = "00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/dbus\n\
                    7ff0-7ff1 rw-p 0 00:00 0 [stack]\n7ff2-7ff3 rw-p 0 00:00 0 \n";
        let text = changed(Text::MAPS, maps);
        assert_eq!(text.len(), maps.len());
        assert!(text.contains("[stack]") && text.contains("08:02 173521 /"));
        assert!(!text.contains("dbus") && !text.contains("usr"));
        let text = changed(Text::CGROUP, "1:name=systemd:/a\n0::/system.slice/web.service\n");
        assert!(text.contains(".slice/") && text.contains(".service\n") && text.contains("\n0::/"));
        assert!(!text.contains("web") && !text.contains("systemd"));
        let text = changed(Text::PROGRAM, "17\n4096 64\n/bin/true");
        assert!(text.starts_with("17\n4096 64\n/") && !text.contains("true"));
    }

    #[test]
    fn facts_of_unknown_kinds_are_entries() {
        let unknown = [b"\xff\xff".as_slice(), &3_u32.to_le_bytes(), b"abc"].concat();
        let payload = [unknown.as_slice(), &unknown, b"\x01\0\xff"].concat();
        assert_eq!((entries(&payload), crate::capture::fact::facts(&payload).count()), (2, 0));
    }

    #[test]
    fn command_lines_and_unknown_texts_are_left_out() {
        let (mut names, mut counts) = (Pseudonyms::new(b"s"), CapsuleCounts::default());
        for which in [Text::COMMAND, Text(999)] {
            let (time, pid, text) = (crate::units::KernelTime(1), crate::units::Pid(1), vec![1]);
            let fact = Fact::Text { time, which, pid, text };
            let code = CodeRanges::default();
            assert_eq!(anonymous(fact, &code, &mut names, &mut counts), None);
        }
        assert_eq!((counts.command_lines, counts.texts), (1, 1));
    }
}
