//! Control groups of a filter: by path, unit, or container.

use crate::operation::cgroup;

/// Control groups, each with all below it: the words of the user, and identifiers of the containers
/// that some of the words are names of.
#[derive(Clone, Debug, Default)]
pub struct Cgroups(Vec<String>, Vec<String>);

impl Cgroups {
    /// Returns the groups that these words name: a path, a unit with or without its suffix, or the
    /// beginning of a container's identifier.
    pub fn new(words: Vec<String>) -> Self {
        Self(words, Vec::new())
    }

    /// Returns the groups together with those of the containers with these identifiers.
    pub fn with_containers(self, ids: Vec<String>) -> Self {
        Self(self.0, ids)
    }

    /// True if no group is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the words.
    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// Returns true if one of the words names this group, or one above it.
    pub fn has(&self, path: &[u8]) -> bool {
        self.0.iter().chain(&self.1).any(|word| is_named(word, path))
    }
}

/// Smallest number of characters of a container's identifier.
const ID_MIN: usize = 4;

fn is_named(word: &str, path: &[u8]) -> bool {
    let below = |rest: &[u8]| rest.is_empty() || rest.starts_with(b"/");
    if word.starts_with('/') {
        return path.strip_prefix(word.trim_end_matches('/').as_bytes()).is_some_and(below);
    }
    let path = String::from_utf8_lossy(path);
    let units = ["", ".service", ".scope", ".slice"].map(|suffix| format!("{word}{suffix}"));
    let is_unit = path.split('/').any(|part| units.iter().any(|unit| unit == part));
    // A few digits may begin several identifiers.
    let is_long = word.len() >= ID_MIN;
    is_unit || is_long && cgroup::container_id(&path).is_some_and(|id| id.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, path: &str, expected: bool) {
        let groups = Cgroups::new(vec![word.to_owned()]);
        assert_eq!(groups.has(path.as_bytes()), expected, "{word} {path}");
    }

    #[test]
    fn groups_are_named_by_path_unit_or_identifier() {
        check("/a/b", "/a/b", true);
        check("/a/b/", "/a/b/c", true);
        check("/a/b", "/a/bc", false);
        check("/", "/a", true);
        check("postgresql", "/system.slice/postgresql.service", true);
        check("postgresql.service", "/system.slice/postgresql.service/x", true);
        check("postgres", "/system.slice/postgresql.service", false);
        let id = "3f2a1b0c9d8e7f6a";
        check("3f2a", &format!("/system.slice/docker-{id}.scope"), true);
        check("3f2", &format!("/system.slice/docker-{id}.scope"), false);
        check("1b0c", &format!("/system.slice/docker-{id}.scope"), false);
        assert!(Cgroups::default().is_empty() && !Cgroups::default().has(b"/"));
    }
}
