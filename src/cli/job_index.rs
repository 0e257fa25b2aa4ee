//! Index of a job, read: which recordings it has, and each of them opened.
//!
//! An index may be of another user, so nothing in it is believed:
//!
//! | What an index may name | What is done |
//! |---|---|
//! | a path that goes up by more than one directory, or has `.` in it | refused |
//! | a link, anywhere on the path | not followed: refused |
//! | a FIFO, a device, a file of the kernel | found and not opened: refused |
//! | a file of another user than that of the index | refused, unless the index is ours or root's |
//! | a file that is not the one of the index | refused: its size or its checksums differ |

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::checked_capture::{CheckedPlace, OpenCapture};
use super::clock_source::ClockSource;
use super::error::CliError;
use super::job_index_format::{
    CaptureEntry, ContentPrint, FORMAT, INDEX_NAME, IndexDocument, OmittedEntry, VERSION,
};
use crate::capture::wall_clock::{ClockLine, WallClock};
use crate::report::job::ranges;
use crate::sys::error_text::plain;
use crate::sys::files::is_of_kernel;
use crate::sys::output_dir::Users;
use crate::sys::regular;
use crate::units::KernelTime;

/// Largest index that is read: some 300,000 recordings.
const BYTES_MAX: u64 = 256 << 20;

/// Bytes at the beginning of an index that have its format.
const MARK_BYTES: u64 = 256;

/// An index.
#[derive(Debug)]
pub(super) struct JobIndex {
    /// Path of the file, as the user would write it.
    pub(super) path: PathBuf,
    /// Owner of the file.
    owner: u32,
    /// Names of the hosts, with the corrections of their clocks that the user gave, ns.
    pub(super) hosts: Vec<(String, i64)>,
    pub(super) captures: Vec<IndexedCapture>,
    /// Recordings that were left out when the index was made.
    pub(super) left_out: Vec<OmittedEntry>,
    /// Host with whose clock messages have compared others; empty: there is none.
    pub(super) clock_reference: String,
    /// Error of the wall clock of that host, ns.
    pub(super) reference_bound_ns: u64,
}

/// A recording of the index.
#[derive(Clone, Debug)]
pub(super) struct IndexedCapture {
    /// Absolute path without links.
    place: PathBuf,
    /// Path as the user would write it, for messages: the file is not opened by it.
    pub(super) shown: PathBuf,
    /// Number of its host.
    pub(super) host: usize,
    pub(super) rank: Option<u64>,
    pub(super) node_ranks: Vec<u64>,
    pub(super) is_system: bool,
    pub(super) job_size: Option<u64>,
    pub(super) clock: WallClock,
    pub(super) clock_source: ClockSource,
    pub(super) start: KernelTime,
    pub(super) end: KernelTime,
    has_end: bool,
    content: ContentPrint,
}

impl JobIndex {
    /// Returns the path of the index that an argument names: a directory that has one, or the file
    /// itself. `None`: it names none.
    pub(super) fn named_by(argument: &Path) -> Option<PathBuf> {
        let inside = argument.join(INDEX_NAME);
        if inside.symlink_metadata().is_ok_and(|found| found.is_file()) {
            return Some(inside);
        }
        let is_json = argument.extension().is_some_and(|name| name == "json");
        (is_json && has_mark(argument)).then(|| argument.to_owned())
    }

    /// Returns the path of an index in commands: that of its directory.
    pub(super) fn named(path: &Path) -> &Path {
        let directory = path.parent().filter(|_| path.ends_with(INDEX_NAME));
        directory.filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(path)
    }

    /// Reads an index.
    ///
    /// # Errors
    ///
    /// Error: it cannot be read, or is not an index of a known version.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let failed = |source| CliError::Open { path: path.to_owned(), source };
        let wrong = |cause: String| {
            CliError::Usage(format!(
                "{}: {cause}; make the index again: iotrace-perf merge LOG… -o DIR/ --force",
                path.display()
            ))
        };
        let file = regular::open_named(path).map_err(failed)?;
        let owner = file.metadata().map_err(failed)?.uid();
        let real = std::fs::read_link(regular::own_path(&file)).map_err(failed)?;
        let root = real.parent().unwrap_or(Path::new("/")).to_owned();
        let mut text = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(wrong("it is too large: 256 MiB are read at most".to_owned()));
        }
        let version: IndexVersion = serde_json::from_slice(&text)
            .map_err(|error| wrong(format!("it is not an index of a job: {error}")))?;
        if version.format != FORMAT {
            return Err(wrong("it is not an index of a job".to_owned()));
        }
        if version.version != VERSION {
            let text = "is not known to this program, which knows version";
            return Err(wrong(format!("version {} {text} {VERSION}", version.version)));
        }
        let document: IndexDocument = serde_json::from_slice(&text)
            .map_err(|error| wrong(format!("it is not an index of a job: {error}")))?;
        let place = IndexPlace::of(path, root);
        let hosts = document.hosts.len();
        let captures: Result<Vec<IndexedCapture>, String> = document
            .captures
            .iter()
            .map(|entry| IndexedCapture::of(entry, &place, hosts))
            .collect();
        Ok(Self {
            path: path.to_owned(),
            owner,
            hosts: document
                .hosts
                .iter()
                .map(|host| (host.name.clone(), host.clock_offset_given_ns))
                .collect(),
            captures: captures.map_err(wrong)?,
            left_out: document.left_out,
            clock_reference: document.clock_reference,
            reference_bound_ns: document.clock_reference_bound_ns,
        })
    }

    /// Opens a recording, if it is the one of the index.
    ///
    /// # Errors
    ///
    /// Reason, in words, why it is not read.
    pub(super) fn open(&self, capture: &IndexedCapture) -> Result<OpenCapture, String> {
        let place =
            regular::find_without_links(&capture.place).map_err(|error| self.not_found(&error))?;
        let unread = |error: io::Error| format!("it cannot be read: {}", plain(&error));
        let found = place.metadata().map_err(unread)?;
        if found.file_type().is_symlink() {
            return Err("it is a link, which is not followed".to_owned());
        }
        if !found.is_file() {
            return Err("it is not a regular file".to_owned());
        }
        if is_of_kernel(&place).map_err(|error| unread(error.into()))? {
            return Err("it is a file of the kernel's own".to_owned());
        }
        if !self.may_name(found.uid()) {
            return Err(format!(
                "it belongs to user {}, and the index to user {}: read it by its name",
                found.uid(),
                self.owner
            ));
        }
        let file = regular::open_found(&place, 0).map_err(unread)?;
        let print = ContentPrint::of(&file).map_err(unread)?;
        if print != capture.content {
            return Err(changed(&print, &capture.content));
        }
        Ok(OpenCapture::of(file))
    }

    /// Checks a recording as [`Self::open`] does; it can be opened later.
    ///
    /// # Errors
    ///
    /// Reason, in words, why it is not read.
    pub(super) fn check(&self, capture: &IndexedCapture) -> Result<CheckedPlace, String> {
        let opened = self.open(capture)?;
        let unread = |error: io::Error| format!("it cannot be read: {}", plain(&error));
        opened.closed(&capture.place, capture.content).map_err(unread)
    }

    /// Returns true if the index may name files of this user: an index of another user names only
    /// that user's files.
    fn may_name(&self, user: u32) -> bool {
        user == self.owner || self.owner == 0 || Users::caller().owns(self.owner)
    }

    fn not_found(&self, error: &io::Error) -> String {
        match error.kind() {
            io::ErrorKind::NotFound => format!(
                "it is not there; it was moved or removed since the index {} was made",
                self.path.display()
            ),
            _ if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENOTDIR)) => {
                "a part of its path is a link or a file: links are not followed".to_owned()
            }
            _ => format!("it cannot be found: {}", plain(error)),
        }
    }

    /// Returns the name of a host.
    pub(super) fn host(&self, capture: &IndexedCapture) -> &str {
        self.hosts.get(capture.host).map_or("", |host| host.0.as_str())
    }

    /// Returns the name of a recording in headings and messages: `node1, rank 3`; one without a
    /// rank has its path.
    pub(super) fn label(&self, capture: &IndexedCapture) -> String {
        let host = self.host(capture);
        let ranks: BTreeSet<u64> = capture.ranks().collect();
        match ranks.len() {
            0 => format!("{host}, {}", capture.shown.display()),
            1 => format!("{host}, rank {}", ranges(&ranks)),
            _ => format!("{host}, ranks {}", ranges(&ranks)),
        }
    }

    /// Returns the error bound of the order of two events of different clocks, ns; `None`: a
    /// recording has no dates.
    pub(super) fn order_bound_ns(&self) -> Option<u64> {
        // All recordings of one boot of a host have one clock.
        let mut clocks: HashSet<(usize, ClockLine)> = HashSet::new();
        let mut bounds: Vec<u64> = Vec::new();
        for capture in &self.captures {
            let bound = capture.clock.bound_ns();
            let bound = if self.captures.len() > 1 { bound? } else { bound.unwrap_or(0) };
            if clocks.insert((capture.host, capture.clock.line())) {
                bounds.push(bound);
            }
        }
        bounds.sort_unstable_by(|one, other| other.cmp(one));
        match bounds.as_slice() {
            [first, second, ..] => Some(first.saturating_add(*second)),
            _ => Some(0),
        }
    }

    /// Returns the names of hosts of which a recording of the whole machine overlaps with another
    /// one.
    pub(super) fn overlapping_hosts(&self) -> Vec<&str> {
        let mut hosts = BTreeSet::new();
        let systems = self.captures.iter().enumerate().filter(|(_, capture)| capture.is_system);
        for (number, system) in systems {
            let mut others = self.captures.iter().enumerate();
            if others.any(|(other, capture)| other != number && system.overlaps(capture)) {
                hosts.insert(system.host);
            }
        }
        hosts.iter().filter_map(|&host| Some(self.hosts.get(host)?.0.as_str())).collect()
    }
}

/// Format and version of an index, which are read before the rest.
#[derive(Debug, serde::Deserialize)]
struct IndexVersion {
    format: String,
    version: u64,
}

impl IndexedCapture {
    fn of(entry: &CaptureEntry, index: &IndexPlace, hosts: usize) -> Result<Self, String> {
        let path = entry.path().ok_or_else(|| "a path has wrong digits".to_owned())?;
        if entry.host >= hosts {
            return Err(format!("a recording is of host {}, and there are {hosts}", entry.host));
        }
        let clock = WallClock::of_line(&entry.clock.into());
        let clock = clock.ok_or_else(|| "the clock of a recording goes back".to_owned())?;
        Ok(Self {
            place: place_of(&path, &index.root)?,
            shown: index.shown(&path),
            host: entry.host,
            rank: entry.rank,
            node_ranks: entry.node_ranks.clone(),
            is_system: entry.is_system,
            job_size: entry.job_size,
            clock,
            clock_source: entry.clock.source,
            start: KernelTime(entry.start_ns),
            end: KernelTime(entry.end_ns),
            has_end: entry.has_end,
            content: entry.content,
        })
    }

    /// Returns its size, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.content.bytes
    }

    /// Returns the ranks that were recorded.
    pub(super) fn ranks(&self) -> impl Iterator<Item = u64> {
        self.rank.into_iter().chain(self.node_ranks.iter().copied())
    }

    /// Returns true if two recordings of a host overlap in time.
    fn overlaps(&self, other: &Self) -> bool {
        // A recording without an end may have lasted for any time.
        let end_of = |one: &Self| if one.has_end { one.clock.at(one.end) } else { i128::MAX };
        let range = |one: &Self| (one.clock.at(one.start), end_of(one));
        let ((start, end), (begin, last)) = (range(self), range(other));
        self.host == other.host && start < last && begin < end
    }
}

/// Directory of an index.
#[derive(Debug)]
struct IndexPlace {
    /// Absolute path without links.
    root: PathBuf,
    /// Path as the user has written it.
    directory: PathBuf,
    /// True if the words before the last name of that path lead to the directory above: the last
    /// name is no link.
    is_plain: bool,
}

impl IndexPlace {
    fn of(path: &Path, root: PathBuf) -> Self {
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        let above = directory.parent().map(|above| match above.as_os_str().is_empty() {
            true => Path::new("."),
            false => above,
        });
        let above = above.and_then(|above| fs::canonicalize(above).ok());
        let is_plain = above.as_deref() == root.parent();
        Self { root, directory, is_plain }
    }

    /// Returns the path of a recording as the user would write it: from the working directory on,
    /// as the index was.
    fn shown(&self, path: &Path) -> PathBuf {
        let directory = &self.directory;
        let Ok(beside) = path.strip_prefix("..") else { return directory.join(path) };
        match directory.components().next_back() {
            Some(Component::Normal(_)) if self.is_plain => {
                directory.parent().unwrap_or(directory).join(beside)
            }
            _ => directory.join(path),
        }
    }
}

/// Returns the absolute path of a recording, if it has the form of those that are written.
fn place_of(path: &Path, root: &Path) -> Result<PathBuf, String> {
    let refused = || format!("the path {} is not one of an index", path.display());
    let mut parts = path.components().peekable();
    let mut place = root.to_owned();
    match parts.peek() {
        Some(Component::RootDir) => {
            parts.next();
            place = PathBuf::from("/");
        }
        Some(Component::ParentDir) => {
            parts.next();
            if !place.pop() {
                return Err(refused());
            }
        }
        _ => {}
    }
    let mut names = 0_usize;
    for part in parts {
        let Component::Normal(name) = part else { return Err(refused()) };
        place.push(name);
        names += 1;
    }
    if names == 0 { Err(refused()) } else { Ok(place) }
}

/// Returns the reason why a file is not the one of the index.
fn changed(found: &ContentPrint, wanted: &ContentPrint) -> String {
    let has_same_head = found.head_crc32 == wanted.head_crc32;
    let what = match found.bytes.cmp(&wanted.bytes) {
        Ordering::Equal if has_same_head => "it has changed since the index was made",
        Ordering::Greater if has_same_head => "it has grown since the index was made",
        Ordering::Less if has_same_head => "it is shorter than when the index was made",
        Ordering::Equal => "it is another recording than the one of the index",
        _ => "it has another length than the recording of the index",
    };
    format!("{what}; make the index again: iotrace-perf merge LOG… -o DIR/ --force")
}

/// Returns true if a file begins as an index does.
fn has_mark(path: &Path) -> bool {
    let read = || -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        regular::open_named(path)?.take(MARK_BYTES).read_to_end(&mut text)?;
        Ok(text)
    };
    read().is_ok_and(|text| String::from_utf8_lossy(&text).contains(FORMAT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_other_forms_are_refused() {
        let place = |path: &str| place_of(Path::new(path), Path::new("/srv/u/job"));
        assert_eq!(place("r0/a.iocap"), Ok("/srv/u/job/r0/a.iocap".into()));
        assert_eq!(place("../r0/a.iocap"), Ok("/srv/u/r0/a.iocap".into()));
        assert_eq!(place("/tmp/a.iocap"), Ok("/tmp/a.iocap".into()));
        for path in ["", "..", "/", "../../a", "r0/../../a", "/tmp/../etc/shadow", "./a/.."] {
            assert!(place(path).is_err(), "{path}");
        }
    }

    #[test]
    fn paths_are_shown_as_the_index_was_named() {
        let of = |path: &str, directory: &str| {
            let directory = directory.into();
            IndexPlace { root: "/x/job".into(), directory, is_plain: true }.shown(Path::new(path))
        };
        assert_eq!(of("../t_0/traces.iocap", "job"), Path::new("t_0/traces.iocap"));
        assert_eq!(of("../t_0/traces.iocap", "/x/job"), Path::new("/x/t_0/traces.iocap"));
        assert_eq!(of("../t_0/traces.iocap", ""), Path::new("../t_0/traces.iocap"));
        assert_eq!(of("../t_0/traces.iocap", ".."), Path::new("../../t_0/traces.iocap"));
        assert_eq!(of("r/a.iocap", "job"), Path::new("job/r/a.iocap"));
        assert_eq!(of("/tmp/a.iocap", "job"), Path::new("/tmp/a.iocap"));
        let directory = "link".into();
        let linked = IndexPlace { root: "/x/job".into(), directory, is_plain: false };
        assert_eq!(linked.shown(Path::new("../a.iocap")), Path::new("link/../a.iocap"));
    }
}
