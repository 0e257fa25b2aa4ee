//! Functions that a program has compiled at run time, from the list that it writes:
//! `/tmp/perf-PID.map`.
//!
//! Any user can create such a list: it is read only if the file belongs to the process's user or to
//! root.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::file_access::place_in;
use super::protocol::{FunctionOffset, NAME_BYTES_MAX};
use crate::sys::regular::open_regular;
use crate::units::Pid;

/// Largest part of a list that is read, in bytes.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// Names by address, each with the distance of the address from the start of its function.
type Compiled = BTreeMap<u64, FunctionOffset>;

/// Opens the list of a process, if there is one, and returns its size in bytes. `owner` is the
/// process's user, as far as known; a running process is queried.
pub(super) fn open(pid: Pid, owner: Option<u32>) -> Option<(File, u64)> {
    let owner = owner_of(pid).or(owner);
    let inside = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let inside = inside.lines().find_map(|it| it.strip_prefix("NSpid:"));
    let inside = inside.and_then(|it| it.split_whitespace().last()).map(str::to_owned);
    let root = |it: String| place_in(pid, format!("tmp/perf-{it}.map").as_ref());
    let places = inside.map(root).into_iter().chain([format!("/tmp/perf-{pid}.map").into()]);
    places.into_iter().find_map(|it: PathBuf| open_list(&it, owner))
}

/// Returns the user of a process; `None` if it has ended.
pub(in super::super) fn owner_of(pid: Pid) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|it| it.uid())
}

fn open_list(path: &Path, owner: Option<u32>) -> Option<(File, u64)> {
    let is_theirs = |it: &Metadata| it.uid() == 0 || Some(it.uid()) == owner;
    let (list, found) = open_regular(path, false).filter(|it| is_theirs(&it.1))?;
    Some((list, found.len()))
}

/// Returns the names of these addresses from a list of this size; true if the list was too long to
/// be read to its end.
pub(super) fn listed(list: File, bytes: u64, addresses: &BTreeSet<u64>) -> (Compiled, bool) {
    let from = BufReader::new(list.take(LIST_BYTES_MAX));
    (named_by(addresses, from), bytes > LIST_BYTES_MAX)
}

/// Parses lines `START BYTES NAME`, numbers in hexadecimal, and stores only the needed ones. The
/// last line of a start counts. A line without its end is ignored, because it is still being
/// written.
fn named_by(addresses: &BTreeSet<u64>, mut lines: impl BufRead) -> Compiled {
    let addresses: Vec<u64> = addresses.iter().copied().collect();
    // For each address, the nearest function before it, unless that is also before the previous
    // address.
    let mut nearest: Vec<Option<(u64, u64, Vec<u8>)>> = vec![None; addresses.len()];
    let mut line = Vec::new();
    while {
        line.clear();
        lines.read_until(b'\n', &mut line).is_ok() && line.pop() == Some(b'\n')
    } {
        let mut words = line.splitn(3, |it| *it == b' ');
        let mut number = || {
            let text = std::str::from_utf8(words.next()?).ok()?;
            u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
        };
        let (Some(start), Some(bytes)) = (number(), number()) else { continue };
        let Some(name) = words.next() else { continue };
        // The address is a return address: never the first byte of the function.
        let place = addresses.partition_point(|it| *it <= start);
        if let Some(nearest) = nearest.get_mut(place)
            && nearest.as_ref().is_none_or(|it| it.0 <= start)
        {
            let name = name.get(..NAME_BYTES_MAX).unwrap_or(name);
            *nearest = Some((start, bytes, name.to_vec()));
        }
    }
    let mut last = None;
    let mut named = Compiled::new();
    for (address, found) in addresses.into_iter().zip(nearest) {
        last = found.or(last);
        if let Some((start, bytes, name)) = &last
            && address - start <= *bytes
        {
            named.insert(address, (name.clone(), address - start));
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "1000 20 LazyCompile:~f a.js:1\n0x2000 10 g\nnothing\n1000 30 h\n3000 10 cu";

    #[test]
    fn lists_of_compiled_functions() {
        let addresses = [0x1000, 0x1001, 0x1030, 0x1031, 0x2001, 0x3001].into();
        let found = named_by(&addresses, LIST.as_bytes());
        let found: Vec<_> =
            found.iter().map(|(at, it)| (*at, String::from_utf8_lossy(&it.0), it.1)).collect();
        let expected =
            [(0x1001, "h".into(), 1), (0x1030, "h".into(), 0x30), (0x2001, "g".into(), 1)];
        assert_eq!(found, expected);
    }

    /// Fails if a list of another user is trusted, or if something other than a regular file is
    /// read.
    #[test]
    fn lists_are_files_of_the_user_or_of_root() {
        let dir = tempfile::tempdir().expect("a directory");
        let (list, link, fifo) =
            (dir.path().join("list"), dir.path().join("link"), dir.path().join("fifo"));
        fs::write(&list, LIST).expect("it is written");
        std::os::unix::fs::symlink(&list, &link).expect("a link");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).expect("a FIFO");
        let own = nix::unistd::geteuid().as_raw();
        let addresses = [0x1001].into();
        let count = |path: &Path, owner| {
            open_list(path, owner).map(|it| listed(it.0, it.1, &addresses).0.len())
        };
        assert_eq!(count(&list, Some(own)), Some(1));
        assert_eq!(count(&link, Some(own)), None);
        assert_eq!(count(&fifo, Some(own)), None);
        if own == 0 {
            std::os::unix::fs::chown(&list, Some(12345), None).expect("it is allowed");
            assert_eq!(count(&list, None), None);
            assert_eq!(count(&list, Some(12346)), None);
            assert_eq!(count(&list, Some(12345)), Some(1));
        }
    }
}
