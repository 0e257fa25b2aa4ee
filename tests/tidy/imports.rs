//! Paths that a file uses, as absolute paths in the crate, and the files that they lead to.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{Token, tokens};

/// A path into the crate.
pub(crate) struct Path {
    /// Names from the root of the crate on; never empty.
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    /// The path was written with `crate::`.
    pub(crate) has_crate: bool,
    /// The path is in an inline module, such as `mod tests`.
    pub(crate) is_inline: bool,
}

/// The module path of a file: `src/a/mod.rs` and `src/a.rs` are `a`.
fn module_path(file: &str) -> Vec<String> {
    let inside = file.trim_start_matches("src/").trim_end_matches(".rs");
    let segments = inside.split('/').filter(|name| !["mod", "lib", "main"].contains(name));
    segments.map(str::to_owned).collect()
}

fn word_at(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |token| token.text.as_str())
}

fn is_separator(tokens: &[Token], at: usize) -> bool {
    word_at(tokens, at) == ":" && word_at(tokens, at + 1) == ":"
}

/// The paths of `a::b` or of `{a::b, c::{d, e}}` at `at`, each after `prefix`, with their lines;
/// and the place after them.
fn tree(tokens: &[Token], at: usize, prefix: &[String]) -> (Vec<(Vec<String>, usize)>, usize) {
    let Some(first) = tokens.get(at) else { return (Vec::new(), at) };
    if first.text != "{" {
        let segments = [prefix, std::slice::from_ref(&first.text)].concat();
        if is_separator(tokens, at + 1) {
            return tree(tokens, at + 3, &segments);
        }
        return (vec![(segments, first.line)], at + 1);
    }
    let mut paths = Vec::new();
    let mut at = at + 1;
    while at < tokens.len() && word_at(tokens, at) != "}" {
        let (inner, end) = tree(tokens, at, prefix);
        paths.extend(inner);
        at = end;
        // `as NAME` and the comma.
        while at < tokens.len() && !["}", ","].contains(&word_at(tokens, at)) {
            at += 1;
        }
        at += usize::from(word_at(tokens, at) == ",");
    }
    (paths, at + 1)
}

/// Names of `mod NAME;` and `mod NAME {`.
fn declared(tokens: &[Token]) -> BTreeSet<&str> {
    let pairs = tokens.windows(2).filter(|pair| pair[0].text == "mod");
    pairs.map(|pair| pair[1].text.as_str()).collect()
}

/// All paths of a file that begin with `crate`, `super`, `self` or a module that the file declares.
pub(crate) fn paths_used(file: &str, text: &str) -> Vec<Path> {
    let tokens = tokens(text);
    let declared = declared(&tokens);
    let own = module_path(file);
    let mut used = Vec::new();
    // Inline modules that are open: name, and depth of braces at which it was opened.
    let mut inline: Vec<(String, usize)> = Vec::new();
    let mut braces = 0usize;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let begins_path = (at == 0 || word_at(&tokens, at - 1) != "in")
            && is_separator(&tokens, at + 1)
            && (at < 2 || !is_separator(&tokens, at - 2));
        match token.text.as_str() {
            "{" => {
                if at >= 2 && word_at(&tokens, at - 2) == "mod" {
                    inline.push((word_at(&tokens, at - 1).to_owned(), braces));
                }
                braces += 1;
            }
            "}" => {
                braces = braces.saturating_sub(1);
                inline.pop_if(|open| open.1 == braces);
            }
            word if begins_path => {
                let mut base = own.clone();
                base.extend(inline.iter().map(|open| open.0.clone()));
                let mut start = at + 3;
                match word {
                    "crate" => base.clear(),
                    "self" => {}
                    "super" => {
                        base.pop();
                        while word_at(&tokens, start) == "super" && is_separator(&tokens, start + 1)
                        {
                            base.pop();
                            start += 3;
                        }
                    }
                    _ if inline.is_empty() && declared.contains(word) => start = at,
                    _ => {
                        at += 3;
                        continue;
                    }
                }
                let (paths, end) = tree(&tokens, start, &base);
                used.extend(paths.into_iter().map(|(segments, line)| Path {
                    segments,
                    line,
                    has_crate: word == "crate",
                    is_inline: !inline.is_empty(),
                }));
                at = end.max(at + 1);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    used
}

/// The file of the module that a path leads to or into, and how many segments name that module.
fn file_of<'a>(
    files: &'a BTreeMap<String, String>,
    segments: &[String],
) -> Option<(&'a str, usize)> {
    (1..=segments.len()).rev().find_map(|length| {
        let path = segments[..length].join("/");
        let names = [format!("src/{path}.rs"), format!("src/{path}/mod.rs")];
        let (name, _) = names.iter().find_map(|name| files.get_key_value(name))?;
        Some((name.as_str(), length))
    })
}

/// Whether a file has only tests, or helpers of tests.
fn is_of_tests(file: &str) -> bool {
    file.contains("/tests/")
        || ["_tests.rs", "/tests.rs", "fixtures.rs"].iter().any(|ending| file.ends_with(ending))
}

/// A path that a file uses outside its inline modules.
struct Use<'a> {
    /// The file that the path leads to.
    target: &'a str,
    /// The item's name; empty for the module itself.
    name: String,
    line: usize,
    /// The target is the file of a module that the file is in.
    is_of_parent: bool,
}

/// The paths that a file uses outside its inline modules and that lead to other files. A child that
/// has a part of a type's methods does not use the file that defines the type: the two are parts of
/// one.
fn uses<'a>(files: &'a BTreeMap<String, String>, file: &str, text: &str) -> Vec<Use<'a>> {
    let own = module_path(file);
    let extended = extended(text);
    let mut uses = Vec::new();
    for path in paths_used(file, text).into_iter().filter(|path| !path.is_inline) {
        let Some((target, length)) = file_of(files, &path.segments) else { continue };
        let name = path.segments.get(length).cloned().unwrap_or_default();
        let is_of_parent = length < own.len() && own.get(..length) == path.segments.get(..length);
        let is_part = is_of_parent && extended.contains(&name);
        if target != file && !(is_part && defined(&files[target]).contains(&name)) {
            uses.push(Use { target, name, line: path.line, is_of_parent });
        }
    }
    uses
}

/// The files that a file uses outside its inline modules.
fn targets<'a>(files: &'a BTreeMap<String, String>, file: &str, text: &str) -> BTreeSet<&'a str> {
    uses(files, file, text).into_iter().map(|used| used.target).collect()
}

/// The files that each file uses.
fn edges(files: &BTreeMap<String, String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let code = files.iter().filter(|(file, _)| file.starts_with("src/") && !is_of_tests(file));
    code.map(|(file, text)| (file.as_str(), targets(files, file, text))).collect()
}

/// The files that a file uses, directly or through others.
fn reached<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>, start: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(file) = open.pop() {
        let next = edges.get(file).into_iter().flatten();
        open.extend(next.copied().filter(|target| reached.insert(*target)));
    }
    reached
}

/// The files that import each other, directly or through others.
pub(crate) fn circles(files: &BTreeMap<String, String>) -> Vec<String> {
    let edges = edges(files);
    let all: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|file| (*file, reached(&edges, file))).collect();
    let in_circle = edges.iter().filter(|(file, _)| all[*file].contains(*file));
    let members = in_circle.map(|(file, targets)| {
        let back = targets
            .iter()
            .filter(|target| all.get(*target).is_some_and(|files| files.contains(file)));
        let back: Vec<&str> = back.copied().collect();
        format!("{file}: in a circle through {}", back.join(", "))
    });
    members.collect()
}

/// Names that a file defines at its top level, by `pub` or not.
fn defined(text: &str) -> BTreeSet<String> {
    let words = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];
    let tokens = tokens(text);
    let mut braces = 0usize;
    let mut names = BTreeSet::new();
    for pair in tokens.windows(2) {
        match pair[0].text.as_str() {
            "{" => braces += 1,
            "}" => braces = braces.saturating_sub(1),
            word if braces == 0 && words.contains(&word) => {
                names.insert(pair[1].text.clone());
            }
            _ => {}
        }
    }
    names
}

/// The place after the `<…>` at `at`; `at` itself if there is none.
fn after_generics(tokens: &[Token], at: usize) -> usize {
    let (mut depth, mut end) = (0usize, at);
    while end < tokens.len() {
        match word_at(tokens, end) {
            "<" => depth += 1,
            ">" if word_at(tokens, end - 1) != "-" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if end == at { at } else { end + 1 };
        }
        end += 1;
    }
    end
}

/// Types that a file has methods of: the names of `impl NAME`, `impl<…> NAME<…>` and
/// `impl TRAIT for NAME`.
fn extended(text: &str) -> BTreeSet<String> {
    let tokens = tokens(text);
    let mut names = BTreeSet::new();
    for start in (0..tokens.len()).filter(|at| word_at(&tokens, *at) == "impl") {
        // Otherwise it is a type, as in `fn f(a: impl B)`.
        let begins_block = start == 0 || ["}", ";", "]"].contains(&word_at(&tokens, start - 1));
        let mut name = after_generics(&tokens, start + 1);
        let mut end = after_generics(&tokens, name + 1);
        if word_at(&tokens, end) == "for" {
            name = end + 1;
            end = after_generics(&tokens, name + 1);
        }
        if begins_block && ["{", "where"].contains(&word_at(&tokens, end)) {
            names.insert(word_at(&tokens, name).to_owned());
        }
    }
    names
}

/// Imports of a child from the file of its parent module, of names that the parent defines.
pub(crate) fn imports_from_parent(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut findings = Vec::new();
    for (file, text) in files.iter().filter(|(file, _)| file.starts_with("src/")) {
        if is_of_tests(file) {
            continue;
        }
        for used in uses(files, file, text).into_iter().filter(|used| used.is_of_parent) {
            let Use { target, name, line, .. } = used;
            if name == "*" || defined(&files[target]).contains(&name) {
                findings.push(format!("{file}:{line}: imports {name}, which {target} defines"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &str, text: &str, expected: &[&str]) {
        let paths = paths_used(file, text).into_iter();
        assert_eq!(paths.map(|path| path.segments.join("::")).collect::<Vec<_>>(), expected);
    }

    fn sources(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn paths_are_absolute() {
        check(
            "src/a/b.rs",
            "use super::c::{D, e::F as G}; use crate::h;",
            &["a::c::D", "a::c::e::F", "h"],
        );
        check(
            "src/a/mod.rs",
            "mod b; pub use b::C; fn f() { b::g(std::h()) }",
            &["a::b::C", "a::b::g"],
        );
        check("src/a.rs", "mod tests { use super::f; use super::super::b; }", &["a::f", "b"]);
    }

    #[test]
    fn self_tests_are_no_tests() {
        for file in ["src/a_tests.rs", "src/a/tests.rs", "src/a/tests/b.rs", "src/test_fixtures.rs"]
        {
            assert!(is_of_tests(file), "{file}");
        }
        for file in ["src/cli/self_test.rs", "src/tracer/probe_self_test.rs", "src/latest/a.rs"] {
            assert!(!is_of_tests(file), "{file}");
        }
    }

    #[test]
    fn circle_through_parent_is_found() {
        let parent = ("src/a/mod.rs", "mod b; fn f() { b::g() }");
        let bad = sources(&[parent, ("src/a/b.rs", "use super::f;")]);
        assert_eq!((circles(&bad).len(), imports_from_parent(&bad).len()), (2, 1));
        let good =
            sources(&[parent, ("src/a/b.rs", "use super::c::f;"), ("src/a/c.rs", "fn f() {}")]);
        assert_eq!((circles(&good).len(), imports_from_parent(&good).len()), (0, 0));
    }

    #[test]
    fn child_with_methods_of_type_is_part_of_parent() {
        let parent = ("src/a/mod.rs", "mod b; struct T; fn f() { b::g() }");
        let counts = |child: &str| {
            let files = sources(&[parent, ("src/a/b.rs", child)]);
            (circles(&files).len(), imports_from_parent(&files).len())
        };
        assert_eq!(counts("use super::T; impl T {}"), (0, 0));
        assert_eq!(counts("use super::T; impl<O: P<Q>> T<O> where O: R {}"), (0, 0));
        assert_eq!(counts("use super::{T, f}; impl T {}"), (2, 1), "another import");
        assert_eq!(counts("use super::T; impl<O: P> S for T<O> {}"), (0, 0), "a trait");
        assert_eq!(counts("use super::T; fn h(_: impl T) {}"), (2, 1), "a type");
        let sibling = ("src/a/c.rs", "use super::b; struct T;");
        let files = sources(&[sibling, ("src/a/b.rs", "use super::c::T; impl T {}")]);
        assert_eq!(circles(&files).len(), 2, "of a sibling");
    }
}
