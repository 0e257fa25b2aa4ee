//! Addresses → functions, as the kernel and the files say it at the end of a recording.
//!
//! The kernel's functions are those of `/proc/kallsyms`; a program's those of its ELF files, found where the process has them
//! (so those of a container, too, while it runs) or where we have them, if they are still the same; and of what was compiled
//! on the way those of `/tmp/perf-PID.map`, if the program writes that.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use blazesym::helper::read_elf_build_id;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use nix::sys::stat::{major, minor};

use super::chains::{Code, Identity};
use crate::capture::fact::Symbol;
use crate::units::{KernelTime, Pid};

/// The most that is read of a list of compiled functions, in bytes.
const LIST_BYTES_MAX: u64 = 64 << 20;

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

/// The functions of programs at these addresses; those that have none, too, with what is known of them.
pub(super) fn of_programs(wanted: Vec<Wanted>) -> Vec<Symbol> {
    let mut by_file: BTreeMap<(Vec<u8>, Option<PathBuf>), Vec<Wanted>> = BTreeMap::new();
    let mut places = BTreeMap::new();
    for it in wanted {
        let key = match &it.code {
            Some(code) => {
                let file = &code.file;
                let place = places
                    .entry((it.pid, file.path.clone(), format!("{:?}", file.identity)))
                    .or_insert_with(|| found_again(it.pid, code));
                (file.path.clone(), place.clone())
            }
            None => (Vec::new(), None),
        };
        by_file.entry(key).or_default().push(it);
    }
    let symbolizer =
        Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build();
    let mut lists = BTreeMap::new();
    let mut named = Vec::new();
    for ((_, place), wanted) in by_file {
        let known = place.map(|it| of_file(&symbolizer, &it, &wanted));
        let known = known.unwrap_or_else(|| vec![None; wanted.len()]);
        for (it, known) in wanted.iter().zip(known) {
            let known = known.or_else(|| {
                let is_compiled = it.code.as_ref().is_none_or(|it| {
                    !it.file.path.starts_with(b"/") || it.file.path.starts_with(b"//")
                });
                let list = lists.entry(it.pid).or_insert_with(|| list_of(it.pid));
                list.at(it.address).filter(|_| is_compiled)
            });
            named.push(symbol(it, known));
        }
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

/// Where the file is now, if it is still there and the same.
fn found_again(pid: Pid, code: &Code) -> Option<PathBuf> {
    let path = &code.file.path;
    if !path.starts_with(b"/") || path.starts_with(b"//") {
        return None;
    }
    let below = OsStr::from_bytes(path.get(1..)?);
    let mapped = format!("/proc/{pid}/map_files/{:x}-{:x}", code.start, code.end);
    let root = place_in(pid, below.as_ref());
    let own = Path::new("/").join(below);
    [PathBuf::from(mapped), root, own].into_iter().find(|it| is_same(it, &code.file.identity))
}

/// Where a process has this, a path from its root.
fn place_in(pid: Pid, path: &Path) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join("root").join(path)
}

fn is_same(path: &Path, identity: &Identity) -> bool {
    // Nothing else is opened: a FIFO would have us wait.
    let Some(found) = fs::metadata(path).ok().filter(fs::Metadata::is_file) else { return false };
    match identity {
        Identity::BuildId(id) => {
            let found = read_elf_build_id(&path).ok().flatten();
            found.is_some_and(|it| it.as_ref() == id.as_slice())
        }
        Identity::Inode(of_major, of_minor, ino) => {
            let dev = (major(found.dev()), minor(found.dev()));
            found.ino() == *ino && dev == (u64::from(*of_major), u64::from(*of_minor))
        }
    }
}

/// The functions of a file at the places of these addresses.
fn of_file(symbolizer: &Symbolizer, file: &Path, wanted: &[Wanted]) -> Vec<Option<(Vec<u8>, u64)>> {
    // One byte before: in the call.
    let place = |it: &Wanted| {
        let code = it.code.as_ref()?;
        Some(code.offset.saturating_add(it.address.saturating_sub(code.start)).saturating_sub(1))
    };
    let places: Vec<u64> = wanted.iter().filter_map(place).collect();
    let mut found = functions_at(symbolizer, file, false, &places);
    // What a debugger needs is large, and seldom there: it is asked for the rest.
    let (rest, missing): (Vec<usize>, Vec<u64>) =
        places.iter().enumerate().filter(|it| matches!(found.get(it.0), Some(None))).unzip();
    if !missing.is_empty() {
        for (place, it) in rest.into_iter().zip(functions_at(symbolizer, file, true, &missing)) {
            if let Some(found) = found.get_mut(place) {
                *found = it;
            }
        }
    }
    found
}

/// The functions at these places of a file, by its own table of symbols, or by what was made for a debugger. None if the file cannot
/// be read.
fn functions_at(
    symbolizer: &Symbolizer,
    file: &Path,
    debug_syms: bool,
    places: &[u64],
) -> Vec<Option<(Vec<u8>, u64)>> {
    let mut elf = Elf::new(file);
    elf.debug_syms = debug_syms;
    let name = |it: &Symbolized<'_>| match it {
        Symbolized::Sym(it) => Some((it.name.as_bytes().to_vec(), it.offset as u64 + 1)),
        Symbolized::Unknown(_) => None,
    };
    match symbolizer.symbolize(&Source::Elf(elf), Input::FileOffset(places)) {
        Ok(found) => found.iter().map(name).collect(),
        Err(_) => vec![None; places.len()],
    }
}

/// Functions that a program has compiled on the way, by their first addresses.
#[derive(Debug, Default)]
struct Compiled(BTreeMap<u64, (u64, Vec<u8>)>);

impl Compiled {
    /// Of lines `START BYTES NAME`, numbers in hexadecimal. The last one of an address holds, and one without its end is none: it is
    /// just being written.
    fn read(mut from: impl BufRead) -> Self {
        let mut all = BTreeMap::new();
        let mut line = Vec::new();
        while {
            line.clear();
            from.read_until(b'\n', &mut line).is_ok() && line.pop() == Some(b'\n')
        } {
            let mut words = line.splitn(3, |it| *it == b' ');
            let mut number = || {
                let text = std::str::from_utf8(words.next()?).ok()?;
                u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
            };
            if let (Some(start), Some(bytes)) = (number(), number())
                && let Some(name) = words.next()
            {
                all.insert(start, (bytes, name.to_vec()));
            }
        }
        Self(all)
    }

    fn at(&self, address: u64) -> Option<(Vec<u8>, u64)> {
        let (start, (bytes, name)) = self.0.range(..address).next_back()?;
        let offset = address - start;
        (offset <= *bytes).then(|| (name.clone(), offset))
    }
}

/// The list that a process has written, if there is one.
fn list_of(pid: Pid) -> Compiled {
    let inside = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let inside = inside.lines().find_map(|it| it.strip_prefix("NSpid:"));
    let inside = inside.and_then(|it| it.split_whitespace().last()).map(str::to_owned);
    let root = |it: String| place_in(pid, format!("tmp/perf-{it}.map").as_ref());
    let places = inside.map(root).into_iter().chain([format!("/tmp/perf-{pid}.map").into()]);
    let open = |path: PathBuf| {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        file.metadata().ok()?.is_file().then_some(file)
    };
    let file = places.into_iter().find_map(open);
    file.map_or_else(Compiled::default, |it| {
        Compiled::read(BufReader::new(it.take(LIST_BYTES_MAX)))
    })
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
        let text = fs::read("/proc/self/maps").expect("our own");
        let address = functions_of_our_own_are_found_in_our_file as fn() as usize as u64 + 1;
        let mut seen = super::super::chains::SeenChains::default();
        let pid = Pid(std::process::id().cast_signed());
        let which = crate::capture::fact::Text::MAPS;
        let time = KernelTime(5);
        seen.note_fact(&crate::capture::fact::Fact::Text { time, which, pid, text });
        let code = seen.at_for_tests(pid, address).expect("we are in memory");
        let found = of_programs(vec![Wanted { pid, address, since: time, code: Some(code) }]);
        let name = String::from_utf8_lossy(&found[0].name).into_owned();
        assert!(name.contains("functions_of_our_own_are_found_in_our_file"), "{found:?}");
        assert_eq!((found[0].offset, found[0].since), (1, time));
    }

    #[test]
    fn lists_of_compiled_functions() {
        let list = Compiled::read(
            &b"1000 20 LazyCompile:~f a.js:1\n0x2000 10 g\nnothing\n1000 30 h\n3000 10 cu"[..],
        );
        let at = |it| list.at(it).map(|it| String::from_utf8_lossy(&it.0).into_owned());
        assert_eq!(at(0x1030).as_deref(), Some("h"));
        assert_eq!(at(0x1031), None);
        assert_eq!(at(0x2001).as_deref(), Some("g"));
        assert_eq!(at(0x1000), None);
        assert_eq!(at(0x3001), None);
    }
}
