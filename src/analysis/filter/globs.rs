//! Name patterns with `*`, `?`, `[…]` and `{a,b}`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Patterns of names, and of names that are excluded.
#[derive(Clone, Debug)]
pub struct Globs {
    /// Patterns as given, for messages.
    words: Vec<String>,
    /// `None`: all names but the excluded ones.
    wanted: Option<PatternSet>,
    excluded: PatternSet,
}

#[derive(Clone, Debug)]
struct PatternSet {
    /// Patterns for whole names.
    whole: GlobSet,
    /// Patterns for the last part of a path.
    last: GlobSet,
}

impl Globs {
    /// Compiles patterns of paths. A pattern without a slash is for the last part of a path. In
    /// others `*` does not match a slash, and `**` does. A pattern with a slash at its end is for a
    /// directory and all below it; a `!` before a pattern excludes.
    ///
    /// # Errors
    ///
    /// The error of the first invalid pattern.
    pub fn of_paths(words: &[String]) -> Result<Option<Self>, globset::Error> {
        Self::new(words, |words| {
            let words: Vec<String> = words.iter().flat_map(|word| with_trees(word)).collect();
            let (whole, last): (Vec<_>, Vec<_>) =
                words.into_iter().partition(|word| word.contains('/'));
            Ok(PatternSet { whole: set(&whole)?, last: set(&last)? })
        })
    }

    /// Compiles patterns of words; a `!` before a pattern excludes.
    ///
    /// # Errors
    ///
    /// The error of the first invalid pattern.
    pub fn of_words(words: &[String]) -> Result<Option<Self>, globset::Error> {
        Self::new(words, |words| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Ok(PatternSet { whole: set(&words)?, last: set(&[])? })
        })
    }

    fn new(
        words: &[String],
        patterns: impl Fn(&[&str]) -> Result<PatternSet, globset::Error>,
    ) -> Result<Option<Self>, globset::Error> {
        let excluded: Vec<&str> = words.iter().filter_map(|word| word.strip_prefix('!')).collect();
        let wanted = words.iter().map(String::as_str).filter(|word| !word.starts_with('!'));
        let wanted: Vec<&str> = wanted.collect();
        let wanted_set = (!wanted.is_empty()).then(|| patterns(&wanted)).transpose()?;
        let excluded = patterns(&excluded)?;
        let (is_given, words) = (!words.is_empty(), words.to_vec());
        Ok(is_given.then_some(Self { words, wanted: wanted_set, excluded }))
    }

    /// Returns true if a pattern matches the name, and none excludes it.
    pub fn is_match(&self, name: &[u8]) -> bool {
        self.wants(name) && !self.excludes(name)
    }

    /// Returns true if a pattern matches the name, or there are only patterns that exclude.
    pub fn wants(&self, name: &[u8]) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.is_match(name))
    }

    /// Returns true if a pattern excludes the name.
    pub fn excludes(&self, name: &[u8]) -> bool {
        self.excluded.is_match(name)
    }

    /// Returns true if one of the names is wanted; without names, if no pattern has to match.
    pub fn wants_one_of<'a>(&self, names: impl IntoIterator<Item = &'a [u8]>) -> bool {
        self.wanted.is_none() || names.into_iter().any(|name| self.wants(name))
    }

    /// Returns true if one of the names is selected; without names, if no pattern has to match.
    pub fn selects<'a>(&self, names: impl IntoIterator<Item = &'a [u8]>) -> bool {
        let mut names = names.into_iter().peekable();
        match names.peek() {
            Some(_) => names.any(|name| self.is_match(name)),
            None => self.wanted.is_none(),
        }
    }

    /// Returns the patterns as given.
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

impl PatternSet {
    fn is_match(&self, name: &[u8]) -> bool {
        let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
        self.whole.is_match(OsStr::from_bytes(name)) || self.last.is_match(OsStr::from_bytes(last))
    }
}

/// Returns a pattern, or those of a directory and all below it.
fn with_trees(word: &str) -> Vec<String> {
    let Some(directory) = word.strip_suffix('/').filter(|directory| !directory.is_empty()) else {
        return vec![if word == "/" { "/**".to_owned() } else { word.to_owned() }];
    };
    // A directory that does not begin at the root may be anywhere.
    let prefix = if directory.starts_with('/') { "" } else { "**/" };
    vec![format!("{prefix}{directory}"), format!("{prefix}{directory}/**")]
}

fn set(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(GlobBuilder::new(pattern).literal_separator(true).build()?);
    }
    set.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(patterns: &[&str], wanted: &[&str], others: &[&str]) {
        let owned: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let globs = Globs::of_paths(&owned).expect("good").expect("some");
        wanted.iter().for_each(|path| assert!(globs.is_match(path.as_bytes()), "{path}"));
        others.iter().for_each(|path| assert!(!globs.is_match(path.as_bytes()), "{path}"));
    }

    #[test]
    fn patterns_of_paths() {
        check(
            &["*.db", "/var/lib/*/x", "/srv/**"],
            &["/a/b/c.db", "c.db", "/var/lib/a/x", "/srv/a/b"],
            &["/a/c.dbx", "/var/lib/a/b/x", "/usr/srv/a"],
        );
        let globs = Globs::of_paths(&["*.db".to_owned()]).expect("good").expect("some");
        assert!(globs.is_match(b"/tmp/\xff\n.db"));
        assert!(Globs::of_paths(&[]).expect("good").is_none());
        assert!(Globs::of_paths(&["a[".to_owned()]).is_err());
    }

    #[test]
    fn slash_at_the_end_is_for_a_tree() {
        check(&["/srv/"], &["/srv", "/srv/a", "/srv/a/b"], &["/srv2", "/a/srv/b"]);
        check(&["include/"], &["/usr/include/a.h", "/include", "include/a"], &["/usr/includes/a"]);
        check(&["/"], &["/a", "/a/b"], &["pipe:[7]"]);
    }

    #[test]
    fn exclamation_mark_excludes() {
        check(&["!*.so", "!/proc/"], &["/a", "/usr/lib/a.c"], &["/lib/a.so", "/proc/1/maps"]);
        check(&["/usr/", "!*.h"], &["/usr/a.c"], &["/usr/a.h", "/etc/a"]);
        let globs = |word: &str| Globs::of_paths(&[word.to_owned()]).expect("good").expect("some");
        assert!(globs("!/tmp/").selects([]) && !globs("/tmp/").selects([]));
        assert!(globs("!/tmp/").selects([&b"/tmp/a"[..], b"/b"]));
        assert!(!globs("!/tmp/").selects([&b"/tmp/a"[..]]));
    }
}
