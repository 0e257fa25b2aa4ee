//! Addresses → functions, as the kernel and the files say it at the end of a recording.
//!
//! The kernel's functions are those of `/proc/kallsyms`; a program's those of its ELF files, found where the process has them
//! (so those of a container, too, while it runs) or where we have them, if they are still the same; and of what was compiled
//! on the way those of `/tmp/perf-PID.map`, if the program writes that. Any of it may be there to deceive or to stop us: nothing is
//! opened but regular files, each once, and none that another one names (`.gnu_debuglink`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blazesym::helper::read_elf_build_id;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use nix::sys::stat::{major, minor};
use rustc_hash::FxHashMap;

use super::chains::{Code, CodeFile, Identity};
use super::compiled::listed;
use crate::capture::fact::Symbol;
use crate::units::{KernelTime, Pid};

/// Copies of a file that are open at once.
const COPIES_MAX: usize = 64;

/// No function of the kernel has so much code, in bytes: what is further behind the last one is in none that has a name.
const KERNEL_FUNCTION_BYTES_MAX: u64 = 1 << 20;

/// An address of a program.
#[derive(Debug)]
pub(super) struct Wanted {
    pub pid: Pid,
    pub address: u64,
    pub since: KernelTime,
    /// What was there.
    pub code: Option<Code>,
}

/// The kernel's functions at these addresses.
pub(super) fn of_kernel(addresses: &BTreeSet<u64>) -> io::Result<Vec<Symbol>> {
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    named_by(addresses, BufReader::new(File::open("/proc/kallsyms")?))
}

/// Where a function begins, its name, and its module's.
type Function = (u64, Vec<u8>, Vec<u8>);

/// By lines `ADDRESS TYPE NAME [MODULE]`, in any order, of which nothing is kept that is not needed.
fn named_by(addresses: &BTreeSet<u64>, mut lines: impl BufRead) -> io::Result<Vec<Symbol>> {
    let addresses: Vec<u64> = addresses.iter().copied().collect();
    // The nearest function before each address that has none nearer to the address before it.
    let mut nearest: Vec<Option<Function>> = vec![None; addresses.len()];
    let mut line = Vec::new();
    let mut is_told = false;
    while {
        line.clear();
        lines.read_until(b'\n', &mut line)? > 0
    } {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|it| !it.is_empty());
        let start = words.next().and_then(|it| std::str::from_utf8(it).ok());
        let start = start.and_then(|it| u64::from_str_radix(it, 16).ok());
        let is_code = words.next().is_some_and(|it| matches!(it, b"t" | b"T" | b"w" | b"W"));
        let (Some(start), Some(name), true) = (start, words.next(), is_code) else { continue };
        is_told |= start != 0;
        // Behind a call: never the first byte of the function.
        let place = addresses.partition_point(|it| *it <= start);
        if let Some(nearest) = nearest.get_mut(place)
            && start != 0
            && nearest.as_ref().is_none_or(|it| it.0 < start)
        {
            let module = words.next().unwrap_or_default();
            let module = module.strip_prefix(b"[").and_then(|it| it.strip_suffix(b"]"));
            *nearest = Some((start, name.to_vec(), module.unwrap_or_default().to_vec()));
        }
    }
    if !is_told {
        return Err(io::Error::other("kernel.kptr_restrict hides their addresses"));
    }
    let mut last = None;
    let mut named = Vec::new();
    for (address, found) in addresses.into_iter().zip(nearest) {
        last = found.or(last);
        if let Some((start, name, module)) = &last
            && address - start <= KERNEL_FUNCTION_BYTES_MAX
        {
            let (name, module) = (name.clone(), module.clone());
            named.push(Symbol {
                address,
                name,
                module,
                offset: address - start,
                ..Symbol::default()
            });
        }
    }
    Ok(named)
}

/// The functions of programs at these addresses; those that have none, too, with what is known of them. `owners`: users of
/// processes, which may be over. With the number of lists of compiled functions that were too long to be read to their ends.
pub(super) fn of_programs(
    wanted: Vec<Wanted>,
    owners: &FxHashMap<Pid, Option<u32>>,
) -> (Vec<Symbol>, u64) {
    let mut by_file: BTreeMap<Arc<CodeFile>, BTreeMap<Pid, Vec<Wanted>>> = BTreeMap::new();
    let mut compiled: BTreeMap<Pid, Vec<Wanted>> = BTreeMap::new();
    for it in wanted {
        let file = it.code.as_ref().map(|it| &it.file).filter(|it| is_path(&it.path));
        let by_pid = match file {
            Some(file) => by_file.entry(Arc::clone(file)).or_default(),
            None => &mut compiled,
        };
        by_pid.entry(it.pid).or_default().push(it);
    }
    let mut named = Vec::new();
    for by_pid in by_file.into_values() {
        let mut copies = Copies::new();
        for (pid, wanted) in by_pid {
            let code = wanted.first().and_then(|it| it.code.as_ref());
            match code.and_then(|it| found_again(pid, it)) {
                Some((file, found)) => {
                    let copy = copies.entry((found.dev(), found.ino()));
                    copy.or_insert_with(|| (file, Vec::new())).1.extend(wanted);
                }
                None => named.extend(wanted.iter().map(|it| symbol(it, None))),
            }
            if copies.len() >= COPIES_MAX {
                named.extend(of_copies(std::mem::take(&mut copies)));
            }
        }
        named.extend(of_copies(copies));
    }
    let mut cut = 0;
    for (pid, wanted) in compiled {
        let addresses = wanted.iter().map(|it| it.address).collect();
        let (list, is_cut) = listed(pid, owners.get(&pid).copied().flatten(), &addresses);
        cut += u64::from(is_cut);
        named.extend(wanted.iter().map(|it| symbol(it, list.get(&it.address).cloned())));
    }
    (named, cut)
}

/// True if this is the path of a file, and not what the kernel calls memory without one.
fn is_path(path: &[u8]) -> bool {
    path.starts_with(b"/") && !path.starts_with(b"//")
}

/// What the processes call the same is one file in all of them or not; what is wanted of each, by device and inode.
type Copies = BTreeMap<(u64, u64), (File, Vec<Wanted>)>;

fn of_copies(copies: Copies) -> Vec<Symbol> {
    let mut named = Vec::new();
    for (file, wanted) in copies.into_values() {
        let known = of_file(&file, &wanted);
        named.extend(wanted.iter().zip(known).map(|(it, known)| symbol(it, known)));
    }
    named
}

/// What is known of an address; a name with the distance to its beginning.
fn symbol(wanted: &Wanted, known: Option<(Vec<u8>, u64)>) -> Symbol {
    let Wanted { pid, address, since, code } = wanted;
    let (name, offset) = known.unwrap_or_default();
    let mut symbol =
        Symbol { pid: *pid, address: *address, since: *since, name, offset, ..Symbol::default() };
    if let Some(code) = code {
        symbol.module = code.file.path.clone();
        symbol.place = code.offset.saturating_add(address.saturating_sub(code.start));
        if let Identity::BuildId(id) = &code.file.identity {
            symbol.build_id = id.clone();
        }
    }
    symbol
}

/// The file, if it is still there and the same.
fn found_again(pid: Pid, code: &Code) -> Option<(File, Metadata)> {
    let below = Path::new(OsStr::from_bytes(code.file.path.get(1..)?));
    let mapped = format!("/proc/{pid}/map_files/{:x}-{:x}", code.start, code.end).into();
    let places = [mapped, place_in(pid, below), Path::new("/").join(below)];
    let mut opened = places.into_iter().filter_map(|it| open_regular(&it, true));
    opened.find(|(file, found)| is_same(file, found, &code.file.identity))
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
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn is_same(file: &File, found: &Metadata, identity: &Identity) -> bool {
    match identity {
        Identity::BuildId(id) => {
            let found = read_elf_build_id(&own_path(file)).ok().flatten();
            found.is_some_and(|it| it.as_ref() == id.as_slice())
        }
        Identity::Inode(of_major, of_minor, ino) => {
            let dev = (major(found.dev()), minor(found.dev()));
            found.ino() == *ino && dev == (u64::from(*of_major), u64::from(*of_minor))
        }
    }
}

/// The functions of a file at the places of these addresses, by its own tables of symbols; none if it cannot be read. What was made
/// for a debugger is not asked: that is in other files, which the file names, and the library opens whatever is there.
fn of_file(file: &File, wanted: &[Wanted]) -> Vec<Option<(Vec<u8>, u64)>> {
    // One byte before: in the call.
    let place = |it: &Wanted| {
        let code = it.code.as_ref();
        let place = code.map(|of| of.offset.saturating_add(it.address.saturating_sub(of.start)));
        place.unwrap_or(0).saturating_sub(1)
    };
    let places: Vec<u64> = wanted.iter().map(place).collect();
    let mut elf = Elf::new(own_path(file));
    elf.debug_syms = false;
    let name = |it: &Symbolized<'_>| match it {
        Symbolized::Sym(it) => Some((it.name.as_bytes().to_vec(), it.offset as u64 + 1)),
        Symbolized::Unknown(_) => None,
    };
    // One for each file: it remembers files by their paths, and ours have those of others later.
    let symbolizer =
        Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build();
    match symbolizer.symbolize(&Source::Elf(elf), Input::FileOffset(&places)) {
        Ok(found) => found.iter().map(name).collect(),
        Err(_) => vec![None; places.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "\
ffffffff81000000 T _text
ffffffff81000100 t first
ffffffff81000180 d data
ffffffffc0000000 t of_module\t[loop]
ffffffff81000200 T second
";

    #[test]
    fn the_nearest_function_before_an_address_is_it() {
        let start = 0xffff_ffff_8100_0000;
        let of_module = 0xffff_ffff_c000_0009;
        // The last one is in nothing that has a name.
        let addresses = [start + 0x101, start + 0x1ff, start + 0x200, start + 0x201, of_module];
        let addresses = addresses.into_iter().chain([of_module + (1 << 24)]).collect();
        let found = named_by(&addresses, KALLSYMS.as_bytes()).expect("memory");
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        let found: Vec<_> =
            found.iter().map(|it| (text(&it.name), text(&it.module), it.offset)).collect();
        let expected = [
            ("first", "", 1),
            ("first", "", 0xff),
            // Behind the last call of the one before.
            ("first", "", 0x100),
            ("second", "", 1),
            ("of_module", "loop", 9),
        ];
        let expected = expected.map(|(name, module, at)| (name.to_owned(), module.to_owned(), at));
        assert_eq!(found, expected);
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        let hidden = "0000000000000000 T _text\n0000000000000000 t first\n";
        let error =
            named_by(&[0xffff_ffff_8100_0000].into(), hidden.as_bytes()).expect_err("hidden");
        assert!(error.to_string().contains("kptr_restrict"));
    }

    #[test]
    fn functions_of_our_own_are_found_in_our_file() {
        let text = std::fs::read("/proc/self/maps").expect("our own");
        let address = functions_of_our_own_are_found_in_our_file as fn() as usize as u64 + 1;
        let mut seen = super::super::chains::SeenChains::default();
        let pid = Pid(std::process::id().cast_signed());
        let which = crate::capture::fact::Text::MAPS;
        let time = KernelTime(5);
        seen.note_fact(&crate::capture::fact::Fact::Text { time, which, pid, text });
        let code = seen.at_for_tests(pid, address).expect("we are in memory");
        let wanted = vec![Wanted { pid, address, since: time, code: Some(code) }];
        let (found, _) = of_programs(wanted, &FxHashMap::default());
        let name = String::from_utf8_lossy(&found[0].name).into_owned();
        assert!(name.contains("functions_of_our_own_are_found_in_our_file"), "{found:?}");
        assert_eq!((found[0].offset, found[0].since), (1, time));
    }

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
