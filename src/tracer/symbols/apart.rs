//! The helper: opens what it was asked about, gives up its rights, takes it apart, and answers.
//!
//! Any of it may be there to deceive or to stop us: nothing is opened but regular files, none that another one names
//! (`.gnu_debuglink`), and no byte of them is looked at while there are rights to be had.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use blazesym::helper::read_elf_build_id;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use nix::sys::stat::{major, minor};

use super::super::chains::{CodeFile, Identity};
use super::compiled;
use super::question::{self, Asked, Question, State};
use crate::sys::helper::{self, Bounds};
use crate::units::Pid;

/// What one question may take.
pub(super) const BOUNDS: Bounds = Bounds {
    time: Duration::from_secs(30),
    cpu: Duration::from_secs(10),
    memory_bytes: 1 << 30,
    // The files themselves lie in memory.
    address_bytes: 16 << 30,
    answer_bytes: 64 << 20,
};

/// Files that not everybody may read are copied into memory, those of one question all together up to this, in bytes.
const COPIED_BYTES_MAX: u64 = 256 << 20;

/// What is open, by its device and inode.
#[derive(Debug)]
struct Copy {
    file: File,
    is: (u64, u64),
}

/// Answers the question that stands at standard input.
///
/// # Errors
///
/// Nobody has asked, the rights cannot be given up, nobody listens any more.
pub fn answer() -> io::Result<()> {
    helper::limit(&BOUNDS)?;
    let (question, socket) = helper::asked()?;
    let question = Question::decode(&question);
    let Question { file, processes } =
        question.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    let mut out = BufWriter::new(socket);
    match file {
        Some(file) => of_file(&file, &processes, &mut out)?,
        None => of_lists(&processes, &mut out)?,
    }
    out.flush()
}

fn of_file(file: &CodeFile, processes: &[Asked], out: &mut impl Write) -> io::Result<()> {
    let mut copies = Vec::new();
    let mut left = COPIED_BYTES_MAX;
    let mut waiting = BTreeMap::new();
    for (number, it) in processes.iter().enumerate() {
        waiting.insert(number, candidates(it, file, &mut copies, &mut left));
    }
    give_up_rights()?;
    loop {
        let mut by_copy: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (process, candidates) in &waiting {
            if let Some(copy) = candidates.front() {
                by_copy.entry(*copy).or_default().push(*process);
            }
        }
        if by_copy.is_empty() {
            break;
        }
        for (number, theirs) in by_copy {
            let Some(copy) = copies.get(number) else { continue };
            question::begin(out, &theirs)?;
            let path = number_path(&copy.file);
            if File::open(&path).is_err() {
                question::end(out, State::Closed, [])?;
            } else if is_same(&path, &file.identity) {
                of_copy(&path, processes, &theirs, out)?;
            } else {
                question::end(out, State::Other, [])?;
                for it in theirs {
                    waiting.get_mut(&it).and_then(VecDeque::pop_front);
                }
                continue;
            }
            waiting.retain(|it, _| !theirs.contains(it));
        }
    }
    let gone: Vec<usize> = waiting.into_keys().collect();
    if !gone.is_empty() {
        question::begin(out, &gone)?;
        question::end(out, State::Gone, [])?;
    }
    Ok(())
}

/// From here on nothing is opened but what is open, by its number.
fn give_up_rights() -> io::Result<()> {
    // From the root nobody without rights may come here, if the root is closed to him.
    std::env::set_current_dir("/proc/self/fd")?;
    helper::give_up_rights()
}

/// Which copies a process may have meant, the likeliest first; they are opened if they are not yet. `left`: how much may still be
/// copied, in bytes.
fn candidates(
    process: &Asked,
    file: &CodeFile,
    copies: &mut Vec<Copy>,
    left: &mut u64,
) -> VecDeque<usize> {
    let below = Path::new(OsStr::from_bytes(file.path.get(1..).unwrap_or_default()));
    let Asked { pid, mapped: (start, end), .. } = process;
    let mapped = format!("/proc/{pid}/map_files/{start:x}-{end:x}").into();
    let places = [mapped, place_in(*pid, below), Path::new("/").join(below)];
    let mut candidates = VecDeque::new();
    for (opened, found) in places.into_iter().filter_map(|it| open_regular(&it, true)) {
        if !may_be(&found, &file.identity) {
            continue;
        }
        let is = (found.dev(), found.ino());
        let known = copies.iter().position(|it| it.is == is);
        let number = known.unwrap_or(copies.len());
        if known.is_none() {
            copies.push(Copy { file: for_everybody(opened, &found, left), is });
        }
        if !candidates.contains(&number) {
            candidates.push_back(number);
        }
    }
    candidates
}

/// The file, or if not everybody may read it, a copy: it is opened once more when there are no rights any more.
fn for_everybody(mut file: File, found: &Metadata, left: &mut u64) -> File {
    if found.mode() & libc::S_IROTH != 0 || found.len() > *left {
        return file;
    }
    // If it is too large it is found later that it cannot be read.
    let Ok(Some((copy, bytes))) = helper::copy_in_memory(&mut file, *left) else { return file };
    *left = left.saturating_sub(bytes);
    copy
}

/// Where a process has this, a path from its root.
pub(super) fn place_in(pid: Pid, path: &Path) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join("root").join(path)
}

/// Opens a regular file, and nothing else: a FIFO would have us wait, a device do who knows what.
pub(super) fn open_regular(path: &Path, through_links: bool) -> Option<(File, Metadata)> {
    let open = |path: &Path, flags| OpenOptions::new().read(true).custom_flags(flags).open(path);
    // It is only found, not opened.
    let links = if through_links { 0 } else { libc::O_NOFOLLOW };
    let place = open(path, libc::O_PATH | links).ok()?;
    let found = place.metadata().ok().filter(Metadata::is_file)?;
    // The same, whatever its name may lead to by now; who has a lease of it does not have us wait.
    let file = open(&own_path(&place), libc::O_NONBLOCK | libc::O_NOCTTY).ok()?;
    Some((file, found))
}

/// A path that leads to this file and to no other while it is open.
fn own_path(file: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(number_path(file))
}

/// The same, from there.
fn number_path(file: &File) -> PathBuf {
    file.as_raw_fd().to_string().into()
}

/// False if its inode is not the one that was meant.
fn may_be(found: &Metadata, identity: &Identity) -> bool {
    match identity {
        Identity::BuildId(_) => true,
        Identity::Inode(of_major, of_minor, ino) => {
            let dev = (major(found.dev()), minor(found.dev()));
            found.ino() == *ino && dev == (u64::from(*of_major), u64::from(*of_minor))
        }
    }
}

/// False if its build id is not the one that was meant.
fn is_same(path: &Path, identity: &Identity) -> bool {
    match identity {
        Identity::BuildId(id) => {
            let found = read_elf_build_id(path).ok().flatten();
            found.is_some_and(|it| it.as_ref() == id.as_slice())
        }
        Identity::Inode(..) => true,
    }
}

/// The functions of a file at the places of these processes, by its own tables of symbols. What was made for a debugger is not asked:
/// that is in other files, which the file names, and the library opens whatever is there.
fn of_copy(
    path: &Path,
    processes: &[Asked],
    theirs: &[usize],
    out: &mut impl Write,
) -> io::Result<()> {
    let asked = theirs.iter().filter_map(|it| processes.get(*it));
    // One byte before: in the call.
    let places: Vec<u64> = asked.flat_map(|it| &it.places).map(|it| it.saturating_sub(1)).collect();
    let mut elf = Elf::new(path);
    elf.debug_syms = false;
    let name = |it: Symbolized<'_>| match it {
        Symbolized::Sym(it) => Some((it.name.as_bytes().to_vec(), it.offset as u64 + 1)),
        Symbolized::Unknown(_) => None,
    };
    // One for each file: it remembers files by their paths, and ours have those of others later.
    let symbolizer =
        Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build();
    match symbolizer.symbolize(&Source::Elf(elf), Input::FileOffset(&places)) {
        Ok(found) => question::end(out, State::Read, found.into_iter().map(name)),
        Err(_) => question::end(out, State::Unreadable, []),
    }
}

fn of_lists(processes: &[Asked], out: &mut impl Write) -> io::Result<()> {
    let opened: Vec<_> = processes.iter().map(|it| compiled::open(it.pid, it.owner)).collect();
    give_up_rights()?;
    for ((number, list), asked) in opened.into_iter().enumerate().zip(processes) {
        question::begin(out, &[number])?;
        let Some((list, bytes)) = list else {
            question::end(out, State::Gone, [])?;
            continue;
        };
        let addresses: BTreeSet<u64> = asked.places.iter().copied().collect();
        let (named, is_cut) = compiled::listed(list, bytes, &addresses);
        let named = asked.places.iter().map(|it| named.get(it).cloned());
        question::end(out, if is_cut { State::Cut } else { State::Read }, named)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if something else than a file is opened, or if a link is followed where none may be.
    #[test]
    fn nothing_but_files_is_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "x").expect("it is written");
        std::os::unix::fs::symlink(at("file"), at("link")).expect("a link");
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRUSR).expect("a FIFO");
        let is_opened = |name: &str, through_links| {
            let opened = open_regular(&at(name), through_links);
            opened.is_some_and(|it| it.0.metadata().expect("it is open").ino() == it.1.ino())
        };
        assert!(is_opened("file", false) && is_opened("link", true));
        assert!(!is_opened("link", false) && !is_opened("fifo", true) && !is_opened(".", true));
        assert!(open_regular(Path::new("/dev/null"), true).is_none());
    }
}
