//! Names of opens against what strace saw of them: call by call in the same run, or as bags in
//! another one.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::driver::json::JsonOperation;
use crate::support::oracle::strace::arguments::{Annotated, split_arguments};
use crate::support::oracle::strace::names::kernel_name;
use crate::support::oracle::strace::{Call, Log};

/// Facts of an open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truth {
    /// The path that it was given.
    pub given: Option<Vec<u8>>,
    /// Path from the root, not resolved; `None`: not known where it begins.
    pub absolute: Option<Vec<u8>>,
    /// Link of the new descriptor; `None`: the open failed, or this is not known.
    pub became: Option<Vec<u8>>,
}

/// Judgement on the recorded name of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameJudgement {
    /// The name is the file's.
    Right,
    /// The name is absent, or marked as possibly wrong.
    Unknown,
    /// The name is another file's, and is not marked.
    Wrong,
}

/// Numbers of names by judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Score {
    /// All that were judged.
    pub opens: usize,
    /// See [`NameJudgement::Right`].
    pub right: usize,
    /// See [`NameJudgement::Unknown`].
    pub unknown: usize,
    /// Unknown names of failed opens.
    pub failed: usize,
    /// See [`NameJudgement::Wrong`]; what differs.
    pub wrong: Vec<String>,
}

impl Score {
    pub(crate) fn add(&mut self, other: Self) {
        self.opens += other.opens;
        self.right += other.right;
        self.unknown += other.unknown;
        self.failed += other.failed;
        self.wrong.extend(other.wrong);
    }

    /// Counts an open.
    pub(crate) fn judge(&mut self, truth: &Truth, ours: &JsonOperation) {
        self.opens += 1;
        match truth.verdict(ours) {
            NameJudgement::Right => self.right += 1,
            NameJudgement::Unknown => {
                self.unknown += 1;
                self.failed += usize::from(has_failed(ours));
            }
            NameJudgement::Wrong => {
                self.wrong.push(format!("path {}, ours {ours:?}", truth.show()))
            }
        }
    }

    /// Without those that failed and have no name: some sources have only those of files.
    pub(crate) fn of_files(self) -> Self {
        let Self { opens, unknown, failed, .. } = self;
        Self { opens: opens - failed, unknown: unknown - failed, failed: 0, ..self }
    }

    /// At least so many of 1000 are right.
    pub(crate) fn is_good(&self, of_1000: usize) -> bool {
        self.opens > 0 && self.right * 1000 >= self.opens * of_1000
    }
}

impl Truth {
    /// Returns the facts of an open that strace saw.
    pub(crate) fn of(call: &Call) -> Self {
        let given = call.path_argument.clone();
        let absolute = given.as_deref().and_then(|it| absolute(call, it));
        Self { given, absolute, became: call.ret_path.clone() }
    }

    /// Returns the verdict on the recorded name of this open.
    pub(crate) fn verdict(&self, ours: &JsonOperation) -> NameJudgement {
        let reported = ours.path();
        let is_right = match ours.path_source.as_deref() {
            None | Some("unverified") => return NameJudgement::Unknown,
            Some("fd-link" | "fanotify") => reported == self.became,
            // All others are the path that the call was given; of a new descriptor the same from
            // the root, if that is known.
            Some(_) => {
                // Bytes that are no text are escaped in ours.
                let absolute = self.absolute.as_deref().map(std::str::from_utf8);
                let begins_elsewhere = match (&ours.path_absolute, absolute) {
                    (Some(ours), Some(Ok(theirs))) => ours != theirs,
                    _ => false,
                };
                let is_descriptor = ours.result.is_some_and(|it| it >= 0);
                reported == self.given && !begins_elsewhere
                    || is_descriptor && reported == self.absolute
            }
        };
        if reported.is_some() && is_right { NameJudgement::Right } else { NameJudgement::Wrong }
    }

    fn show(&self) -> String {
        let text =
            |it: &Option<Vec<u8>>| it.as_deref().map(String::from_utf8_lossy).map(Into::into);
        let [given, became]: [Option<String>; 2] = [text(&self.given), text(&self.became)];
        format!("{:?} given as {:?}", became.unwrap_or_default(), given.unwrap_or_default())
    }
}

/// A path from the root, as far as strace reports its beginning. Empty parts and `.` are left out.
fn absolute(call: &Call, given: &[u8]) -> Option<Vec<u8>> {
    let base = if given.starts_with(b"/") {
        Vec::new()
    } else {
        let (arguments, _) = split_arguments(&call.args_text);
        arguments
            .first()
            .filter(|it| !it.starts_with('"'))
            .and_then(|it| Annotated::parse(it).path)?
    };
    let parts = given.split(|&it| it == b'/').filter(|it| !it.is_empty() && *it != b".");
    let mut whole = base.strip_suffix(b"/").unwrap_or(&base).to_vec();
    for part in parts {
        whole.push(b'/');
        whole.extend_from_slice(part);
    }
    if whole.is_empty() {
        whole.push(b'/');
    }
    Some(whole)
}

fn has_failed(open: &JsonOperation) -> bool {
    open.result.is_none_or(|it| it < 0)
}

/// True for the calls that open files.
pub(crate) fn is_open(kernel_name: &str) -> bool {
    matches!(kernel_name, "open" | "openat" | "openat2" | "creat")
}

/// Names of opens without their order: two runs of a program do the same, but not at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bags {
    opens: usize,
    unknown: usize,
    /// Unknown names of failed opens.
    failed: usize,
    /// By what descriptors link to.
    links: BTreeMap<String, usize>,
    /// By what the calls were given, from the root.
    absolute: BTreeMap<String, usize>,
    /// By what they were given, where that does not begin at the root.
    given: BTreeMap<String, usize>,
}

impl Bags {
    /// Returns the opens that strace saw of a run in this directory.
    pub(crate) fn of_log(log: &Log, place: &Path) -> Self {
        let mut bags = Self::default();
        for (_, call) in log.all().filter(|it| is_open(kernel_name(&it.1.name)) && !it.1.unfinished)
        {
            bags.opens += 1;
            let truth = Truth::of(call);
            let count = |bag: &mut BTreeMap<String, usize>, path: Option<Vec<u8>>| {
                if let Some(path) = path {
                    *bag.entry(normal(&path, place)).or_default() += 1;
                }
            };
            count(&mut bags.links, truth.became);
            count(&mut bags.absolute, truth.absolute);
            count(&mut bags.given, truth.given.filter(|it| !it.starts_with(b"/")));
        }
        bags
    }

    /// Returns the recorded opens of a run in this directory.
    pub(crate) fn of_operations(operations: &[JsonOperation], place: &Path) -> Self {
        let mut bags = Self::default();
        for operation in operations.iter().filter(|it| is_open(&it.name) && it.unfinished.is_none())
        {
            bags.opens += 1;
            let absolute = operation.path_absolute.clone().map(String::into_bytes);
            let path = operation.path().unwrap_or_default();
            let (bag, path) = match (operation.path_source.as_deref(), absolute) {
                (None | Some("unverified"), _) => {
                    bags.unknown += 1;
                    bags.failed += usize::from(has_failed(operation));
                    continue;
                }
                (Some("fd-link" | "fanotify"), _) => (&mut bags.links, path),
                (Some(_), Some(absolute)) => (&mut bags.absolute, absolute),
                (Some(_), None) if path.starts_with(b"/") => (&mut bags.absolute, path),
                // The begin of the path is not known.
                (Some(_), None) => (&mut bags.given, path),
            };
            *bag.entry(normal(&path, place)).or_default() += 1;
        }
        bags
    }

    /// Ours against what is true: a name that is there more often than it was opened is wrong.
    pub(crate) fn score(&self, ours: &Self) -> Score {
        let mut score = Score {
            opens: ours.opens,
            unknown: ours.unknown,
            failed: ours.failed,
            ..Score::default()
        };
        let links = (&self.links, &ours.links);
        let absolute = (&self.absolute, &ours.absolute);
        for (truth, ours) in [links, absolute, (&self.given, &ours.given)] {
            for (path, &reported) in ours {
                let opened = truth.get(path).copied().unwrap_or(0);
                score.right += reported.min(opened);
                let text =
                    || format!("{path:?} is reported {reported} times, was opened {opened} times");
                score.wrong.extend((opened..reported).map(|_| text()));
            }
        }
        if ours.opens != self.opens {
            score.wrong.push(format!("{} opens are recorded of {}", ours.opens, self.opens));
        }
        score
    }
}

/// A path without what differs between two runs: the directory they are in, numbers of processes,
/// names of temporary files.
pub(crate) fn normal(path: &[u8], place: &Path) -> String {
    let path = String::from_utf8_lossy(path);
    let place = place.to_str().expect("a path that is text");
    let (before, inside) = match path.strip_prefix(place) {
        Some(rest) => ("PLACE", rest),
        None => ("", &*path),
    };
    let mut parts: Vec<String> = Vec::new();
    for part in inside.split('/') {
        let folder = parts.last().map(String::as_str);
        let is_number = !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
        let is_process = folder == Some("proc") && is_number;
        let name = if is_process { "PID".to_owned() } else { temporary(folder, part) };
        parts.push(name);
    }
    before.to_owned() + &parts.join("/")
}

/// Names with letters that are chosen anew each time: `tmp_obj_Hf3sX1` and `tHf3sX1` (git),
/// `tmp_py_8ab3_xyz` (Python), `ccHf3sX1.s` (gcc).
fn temporary(folder: Option<&str>, name: &str) -> String {
    let chosen =
        |it: &str| it.len() >= 6 && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    if let Some((kind, end)) = name.strip_prefix("tmp_").and_then(|it| it.split_once('_'))
        && chosen(end)
    {
        return format!("tmp_{kind}_*");
    }
    // A file with which git tests for symbolic links.
    if folder == Some(".git") && name.len() == 7 && name.starts_with('t') && chosen(name) {
        return "t*".to_owned();
    }
    let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
    match stem.strip_prefix("cc") {
        Some(rest) if rest.len() == 6 && chosen(rest) => format!("cc*.{ending}"),
        _ => name.to_owned(),
    }
}
