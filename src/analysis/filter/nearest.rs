//! Names of a recording from which a filter has selected nothing. The caller may have meant a name
//! that is near one of the filter.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::completed_op::CompletedOp;
use crate::operation::Step;
use crate::units::{Pid, Tid};

/// Largest number of names of each kind.
const NAMES_MAX: usize = 4096;

/// Number of names that are shown.
const SHOWN: usize = 3;

/// Names so far.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenNames {
    comms: BTreeSet<Vec<u8>>,
    files: BTreeSet<Vec<u8>>,
    processes: BTreeMap<i32, String>,
    threads: BTreeMap<i32, String>,
    cgroups: BTreeSet<Vec<u8>>,
}

impl SeenNames {
    /// Adds the names of a step.
    pub(super) fn note(&mut self, step: &Step<'_>) {
        match step {
            Step::ThreadSeen(thread) | Step::ThreadRenamed(thread) => {
                add(&mut self.comms, &thread.comm);
                if self.threads.len() < NAMES_MAX {
                    let comm = String::from_utf8_lossy(&thread.comm).into_owned();
                    self.threads.insert(thread.tid.0, comm);
                }
            }
            Step::ProcessSeen(process) | Step::Identified(process) => {
                if self.processes.len() < NAMES_MAX {
                    let comm = String::from_utf8_lossy(&process.comm).into_owned();
                    self.processes.insert(process.pid.0, comm);
                }
                process.cgroup.iter().for_each(|path| add(&mut self.cgroups, path));
            }
            _ => {
                let done = CompletedOp::last_of(step);
                done.and_then(|done| done.name)
                    .iter()
                    .for_each(|name| add(&mut self.files, name.path));
            }
        }
    }

    /// Returns the line about these words of the filter: files, threads, control groups, process
    /// numbers.
    pub(super) fn text(&self, wanted: &FilterWords<'_>) -> String {
        let mut parts = Vec::new();
        let kinds = [
            ("files", wanted.files, names(&self.files)),
            ("threads", wanted.comms, names(&self.comms)),
            ("control groups", wanted.cgroups, names(&self.cgroups)),
            ("file systems", wanted.fs_types, wanted.known_types.to_vec()),
        ];
        for (kind, words, names) in kinds {
            parts
                .extend(nearest(words, &names).map(|names| format!("the nearest {kind}: {names}")));
        }
        let tid = wanted.tids.first().map(|tid| tid.0);
        let pid = wanted.pids.first().map(|pid| pid.0);
        parts.extend(tid.and_then(|tid| nearest_numbers("threads", tid, &self.threads)));
        parts.extend(pid.and_then(|pid| nearest_numbers("processes", pid, &self.processes)));
        let near = if parts.is_empty() { String::new() } else { format!("; {}", parts.join("; ")) };
        format!("no operation of the recording matches the filter{near}")
    }
}

/// Words of a filter.
pub(super) struct FilterWords<'a> {
    pub(super) files: &'a [String],
    pub(super) comms: &'a [String],
    pub(super) cgroups: &'a [String],
    pub(super) pids: &'a [Pid],
    pub(super) tids: &'a [Tid],
    /// Types of file systems.
    pub(super) fs_types: &'a [String],
    /// Types of file systems of the recording.
    pub(super) known_types: &'a [String],
}

fn add(names: &mut BTreeSet<Vec<u8>>, name: &[u8]) {
    if names.len() < NAMES_MAX && !name.is_empty() {
        names.insert(name.to_vec());
    }
}

fn names(names: &BTreeSet<Vec<u8>>) -> Vec<String> {
    names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Returns the nearest numbers of tasks with their names; `None`: there is none.
fn nearest_numbers(kind: &str, wanted: i32, names: &BTreeMap<i32, String>) -> Option<String> {
    let mut all: Vec<(&i32, &String)> = names.iter().collect();
    all.sort_by_key(|(number, _)| (number.abs_diff(wanted), **number));
    let shown = all.iter().take(SHOWN).map(|(number, comm)| format!("{number} {comm}"));
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| format!("the nearest {kind}: {}", shown.join(", ")))
}

/// Returns the names that are nearest to one of the words; `None`: there is none of either. For a
/// directory (`/srv/`) these are directories.
pub(super) fn nearest(words: &[String], names: &[String]) -> Option<String> {
    let words: Vec<&String> = words.iter().filter(|word| !word.starts_with('!')).collect();
    let is_tree = words.iter().any(|word| word.ends_with('/'));
    let all: BTreeSet<String> = match is_tree {
        true => names.iter().flat_map(|name| directories(name)).collect(),
        false => names.iter().cloned().collect(),
    };
    let words: Vec<String> = words.iter().map(|word| bare(word)).collect();
    let distance =
        |name: &String| words.iter().map(|word| distance(word, name)).min().unwrap_or_default();
    let mut near: Vec<((usize, usize), &String)> =
        all.iter().map(|name| (distance(name), name)).collect();
    near.sort();
    let shown: Vec<&str> = near.iter().take(SHOWN).map(|(_, name)| name.as_str()).collect();
    (!words.is_empty() && !shown.is_empty()).then(|| shown.join(", "))
}

/// Number of parts of a path that are compared.
const PARTS: usize = 3;

/// Returns the edits from a word to a name: in their last parts, then in their last [`PARTS`]
/// parts, as far as the word has them.
fn distance(word: &str, name: &str) -> (usize, usize) {
    let bare = name.trim_end_matches('/');
    if !word.is_empty() && name.contains(word) {
        return (0, 0);
    }
    let ends = |count: usize| {
        let end = |path: &str| {
            let mut parts: Vec<String> = path.rsplit('/').take(count).map(str::to_owned).collect();
            parts.reverse();
            parts.join("/")
        };
        strsim::damerau_levenshtein(&end(word), &end(bare))
    };
    let parts = word.split('/').filter(|part| !part.is_empty()).count();
    (ends(1), ends(parts.clamp(1, PARTS)))
}

/// Returns the directories above a path, each with a slash at its end.
fn directories(path: &str) -> Vec<String> {
    let slashes = path.match_indices('/').map(|(place, _)| place).filter(|place| *place > 0);
    slashes.filter_map(|place| path.get(..=place)).map(str::to_owned).collect()
}

/// Returns a pattern without its special characters.
fn bare(word: &str) -> String {
    let word: String = word.chars().filter(|letter| !"*?[]{}".contains(*letter)).collect();
    word.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names_come_first() {
        let names = ["/etc/passwd", "/usr/lib/libc.so.6", "/tmp/a", "/tmp/passwort"];
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let near = |word: &str| nearest(&[word.to_owned()], &names);
        assert_eq!(near("pasword").as_deref(), Some("/tmp/passwort, /etc/passwd, /tmp/a"));
        assert_eq!(near("/usr/lib/*").as_deref(), Some("/usr/lib/libc.so.6, /tmp/a, /etc/passwd"));
        // The same last part in several directories.
        let names = ["/srv/a/x.db", "/srv/data/x.db", "/var/x.db"].map(str::to_owned);
        let near = |word: &str| nearest(&[word.to_owned()], &names);
        let expected = "/srv/data/x.db, /srv/a/x.db, /var/x.db";
        assert_eq!(near("/srv/dta/x.db").as_deref(), Some(expected));
        assert_eq!(near("/srv/dta/").as_deref(), Some("/srv/data/, /srv/a/, /srv/"));
        assert_eq!(nearest(&[], &names), None);
        assert_eq!(nearest(&["a".to_owned()], &[]), None);
    }
}
