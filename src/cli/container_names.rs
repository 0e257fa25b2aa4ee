//! Names of containers in place of their identifiers.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use nix::unistd::{Uid, User, geteuid};

use crate::analysis::filter::Cgroups;
use crate::operation::cgroup;
use crate::sys::containers::{Container, StateDirectories};
use crate::sys::proc;

/// Number of running containers that a message names.
const NAMED_MAX: usize = 6;

/// Characters of an identifier that users know.
const ID_SHOWN: usize = 12;

/// Returns the groups together with those of the containers that words are the names of.
pub(super) fn with_named(groups: Cgroups) -> Cgroups {
    let is_unit =
        |word: &str| [".service", ".scope", ".slice"].iter().any(|suffix| word.ends_with(suffix));
    if groups.words().iter().all(|word| word.contains('/') || is_unit(word)) {
        return groups;
    }
    let ids = ids_of(groups.words(), &all());
    groups.with_containers(ids)
}

/// Returns the identifiers of the containers with these names.
fn ids_of(words: &[String], all: &[Container]) -> Vec<String> {
    let named = all.iter().filter(|container| words.contains(&container.name));
    named.map(|container| container.id.clone()).collect()
}

/// Returns the containers of this machine that this user can read.
fn all() -> Vec<Container> {
    let caller = std::env::var("SUDO_UID").ok().filter(|_| geteuid().is_root());
    let caller = caller.and_then(|number| number.parse().ok()).map(Uid::from_raw);
    let users = [Some(geteuid()), caller].into_iter().flatten();
    let home = |user: Uid| User::from_uid(user).ok().flatten().map(|found| found.dir);
    let homes: Vec<PathBuf> = users.filter_map(home).collect();
    StateDirectories::of_machine(&homes).containers()
}

/// Returns the running containers as the end of a message; empty: there is none.
pub(super) fn running_text() -> String {
    let group = |pid| {
        // The process may have ended.
        let text = fs::read(format!("/proc/{pid}/cgroup")).ok()?;
        let path = String::from_utf8_lossy(cgroup::path(&text)?).into_owned();
        cgroup::container_id(&path).map(str::to_owned)
    };
    let running: BTreeSet<String> = proc::processes().into_iter().filter_map(group).collect();
    if running.is_empty() { String::new() } else { text_of(&running, &all()) }
}

/// Returns these identifiers with the names that are known.
fn text_of(running: &BTreeSet<String>, all: &[Container]) -> String {
    let shown = |id: &String| {
        let short: String = id.chars().take(ID_SHOWN).collect();
        match all.iter().find(|container| container.id == *id) {
            Some(Container { name, engine, .. }) => format!("{name} ({engine} {short})"),
            None => short,
        }
    };
    let mut names: Vec<String> = running.iter().map(shown).collect();
    names.sort();
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let more = if more > 0 { format!(", {more} more") } else { String::new() };
    format!("; running containers: {}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(name: &str, id: &str) -> Container {
        Container { name: name.to_owned(), id: id.to_owned(), engine: "docker" }
    }

    #[test]
    fn name_stands_for_all_containers_that_have_it() {
        let all = [container("web", "aa11"), container("db", "bb22"), container("web", "cc33")];
        let words = ["web".to_owned(), "we".to_owned()];
        assert_eq!(ids_of(&words, &all), ["aa11", "cc33"]);
        let groups = Cgroups::new(words.to_vec()).with_containers(ids_of(&words, &all));
        assert_eq!(groups.words(), words, "messages have the words of the user");
        let id = "aa11aa11aa11aa11";
        let groups = groups.with_containers(vec![id.to_owned()]);
        assert!(groups.has(format!("/docker/{id}").as_bytes()));
        assert!(!groups.has(b"/docker/bb22bb22bb22bb22"));
    }

    #[test]
    fn message_names_the_first_running_containers() {
        let ids: BTreeSet<String> = (0..8).map(|digit| format!("{digit}").repeat(64)).collect();
        let all = [container("web", &"7".repeat(64)), container("gone", "ffff")];
        let expected = "; running containers: 000000000000, 111111111111, 222222222222, \
            333333333333, 444444444444, 555555555555, 2 more";
        assert_eq!(text_of(&ids, &all), expected);
        let one = BTreeSet::from(["7".repeat(64)]);
        assert_eq!(text_of(&one, &all), "; running containers: web (docker 777777777777)");
    }
}
