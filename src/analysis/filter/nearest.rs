//! Names of a recording from which a filter has selected nothing. The caller may have meant a name
//! that is near one of the filter.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::completed_op::CompletedOp;
use crate::operation::Step;
use crate::units::Pid;

/// Largest number of names of each kind.
const NAMES_MAX: usize = 4096;

/// Number of names that are shown.
const SHOWN: usize = 3;

/// Names so far.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenNames {
    comms: BTreeSet<Vec<u8>>,
    files: BTreeSet<Vec<u8>>,
    processes: BTreeMap<Pid, String>,
    cgroups: BTreeSet<Vec<u8>>,
}

impl SeenNames {
    /// Adds the names of a step.
    pub(super) fn note(&mut self, step: &Step<'_>) {
        match step {
            Step::ThreadSeen(thread) | Step::ThreadRenamed(thread) => {
                add(&mut self.comms, &thread.comm);
            }
            Step::ProcessSeen(process) | Step::Identified(process) => {
                if self.processes.len() < NAMES_MAX {
                    let comm = String::from_utf8_lossy(&process.comm).into_owned();
                    self.processes.insert(process.pid, comm);
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
        ];
        for (kind, words, names) in kinds {
            parts
                .extend(nearest(words, &names).map(|names| format!("the nearest {kind}: {names}")));
        }
        if let Some(first) = wanted.pids.first() {
            let mut all: Vec<(&Pid, &String)> = self.processes.iter().collect();
            all.sort_by_key(|(pid, _)| (pid.0.abs_diff(first.0), pid.0));
            let all: Vec<String> =
                all.iter().take(SHOWN).map(|(pid, comm)| format!("{pid} {comm}")).collect();
            parts.extend(
                (!all.is_empty()).then(|| format!("the nearest processes: {}", all.join(", "))),
            );
        }
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
}

fn add(names: &mut BTreeSet<Vec<u8>>, name: &[u8]) {
    if names.len() < NAMES_MAX && !name.is_empty() {
        names.insert(name.to_vec());
    }
}

fn names(names: &BTreeSet<Vec<u8>>) -> Vec<String> {
    names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Returns the names that are nearest to one of the words; `None`: there is none of either.
fn nearest(words: &[String], names: &[String]) -> Option<String> {
    let wanted = words.iter().filter(|word| !word.starts_with('!'));
    let words: Vec<String> = wanted.map(|word| bare(word)).collect();
    let distance = |name: &String| {
        let last = name.rsplit('/').next().unwrap_or(name);
        let edits = words.iter().map(|word| {
            let end = word.rsplit('/').next().unwrap_or(word);
            let has = !word.is_empty() && name.contains(word.as_str());
            if has { 0 } else { strsim::damerau_levenshtein(end, last) }
        });
        edits.min().unwrap_or(usize::MAX)
    };
    let mut near: Vec<(usize, &String)> = names.iter().map(|name| (distance(name), name)).collect();
    near.sort();
    let shown: Vec<&str> = near.iter().take(SHOWN).map(|(_, name)| name.as_str()).collect();
    (!words.is_empty() && !shown.is_empty()).then(|| shown.join(", "))
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
        assert_eq!(nearest(&[], &names), None);
        assert_eq!(nearest(&["a".to_owned()], &[]), None);
    }
}
