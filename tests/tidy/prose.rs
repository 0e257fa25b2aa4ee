//! The prose of the project: comments and messages of code, comments of scripts and programs,
//! documents. Each check returns findings that begin with the path of a file.

use std::collections::BTreeMap;
use std::path::Path;

use super::documents::{corpus_readmes, documents};
use super::tokens::prose_lines;
use super::{Findings, files_below, has_word, rust_files, text};

/// Source files, documents, scripts and programs by their paths.
pub(crate) type Sources = BTreeMap<String, String>;

/// Columns of a comment.
const COMMENT_COLUMNS: usize = 100;

/// Words of prose that have a plainer one. Letters are split, so that this file has none of them.
const BANNED: &[[&str; 2]] = &[
    ["no", "body"],
    ["some", "body"],
    ["every", "body"],
    ["every", "one"],
    ["who", "ever"],
    ["who", "m"],
    ["man", "ieth"],
    ["as e", "ver"],
    ["is none", " that"],
    ["to", "ld"],
    ["ru", "ng"],
    ["stands be", "hind"],
    ["stand be", "hind"],
    ["de", "ar"],
    ["de", "arer"],
    ["de", "arest"],
    ["h", "e"],
    ["h", "im"],
    ["h", "is"],
    ["him", "self"],
];

/// Pronouns and the like with which no doc comment begins.
const PRONOUNS: &[&str] = &[
    "What", "Who", "Where", "Which", "Whose", "Whom", "How", "It", "They", "Those", "These",
    "This", "Its", "Their", "The same", "Other",
];

/// The language of a file, as far as its comments matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    /// Comments begin with `//` or `/*`; messages in quotes are prose, too.
    RustOrC,
    /// Comments begin with `#`; texts in double quotes are prose, too.
    Script,
    Markdown,
}

fn language(file: &str) -> Language {
    match Path::new(file).extension().and_then(|ending| ending.to_str()) {
        Some("rs" | "c") => Language::RustOrC,
        Some("md") => Language::Markdown,
        _ => Language::Script,
    }
}

/// Comments of a script, with the numbers of their lines.
fn script_comments(text: &str) -> Vec<(usize, String)> {
    let mut comments = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with("#!")) {
        let after_code = line.split_once(" # ").filter(|(code, _)| {
            ['"', '\''].iter().all(|quote| code.matches(*quote).count() % 2 == 0)
        });
        if line.trim_start().starts_with('#') {
            comments.push((at + 1, line.to_owned()));
        } else if let Some((_, comment)) = after_code {
            comments.push((at + 1, comment.to_owned()));
        }
    }
    comments
}

/// Texts in double quotes that have a space, with the numbers of their lines. A text that begins
/// with three quotes goes on to the next three.
fn script_texts(text: &str) -> Vec<(usize, String)> {
    let mut texts = Vec::new();
    let mut is_long = false;
    for (at, line) in text.lines().enumerate() {
        for (count, part) in line.split("\"\"\"").enumerate() {
            is_long ^= count > 0;
            let (skipped, step) = if is_long { (0, 1) } else { (1, 2) };
            let quoted = part.split('"').skip(skipped).step_by(step).filter(|it| it.contains(' '));
            texts.extend(quoted.map(|it| (at + 1, it.to_owned())));
        }
    }
    texts
}

/// Comments and strings of code, and sentences of documents, with the numbers of their lines.
fn prose(sources: &Sources) -> impl Iterator<Item = (&str, usize, String)> {
    sources.iter().flat_map(|(file, text)| {
        let lines = match language(file) {
            Language::RustOrC => {
                prose_lines(text).into_iter().enumerate().map(|(at, line)| (at + 1, line)).collect()
            }
            Language::Script => [script_comments(text), script_texts(text)].concat(),
            Language::Markdown => super::documents::prose(text),
        };
        lines.into_iter().map(move |(number, line)| (file.as_str(), number, line))
    })
}

pub(crate) fn banned_words(sources: &Sources) -> Findings {
    let words: Vec<String> = BANNED.iter().map(|halves| halves.concat()).collect();
    let mut findings = Findings::new();
    for (file, number, line) in prose(sources) {
        let line = line.to_lowercase();
        let found = words.iter().filter(|word| has_word(&line, word));
        findings.extend(found.map(|word| format!("{file}:{number}: {word}")));
    }
    findings
}

/// Whether a sentence begins with one of the pronouns.
fn begins_with_pronoun(line: &str) -> bool {
    let mut rests = PRONOUNS.iter().filter_map(|pronoun| line.trim_start().strip_prefix(pronoun));
    rests.any(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// Doc comments of one word, and those that begin with a pronoun.
pub(crate) fn doc_comments(sources: &Sources) -> Findings {
    let mut findings = Findings::new();
    for (file, text) in sources.iter().filter(|(file, _)| file.ends_with(".rs")) {
        let lines: Vec<String> = prose_lines(text);
        let doc = |at: Option<usize>| {
            let line = lines.get(at?)?.trim();
            line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
        };
        for at in 0..lines.len() {
            let Some(line) = doc(Some(at)).filter(|_| doc(at.checked_sub(1)).is_none()) else {
                continue;
            };
            let is_single = line.split_whitespace().count() == 1 && doc(Some(at + 1)).is_none();
            if is_single || begins_with_pronoun(line) {
                findings.push(format!("{file}:{}: ///{line}", at + 1));
            }
        }
    }
    findings
}

pub(crate) fn long_comments(sources: &Sources) -> Findings {
    let mut findings = Findings::new();
    for (file, text) in sources {
        let marks: &[&str] = match language(file) {
            Language::RustOrC => &["//", "/*", "* "],
            Language::Script => &["#"],
            Language::Markdown => continue,
        };
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            let is_comment = marks.iter().any(|mark| line.trim_start().starts_with(mark));
            if is_comment && columns > COMMENT_COLUMNS {
                findings.push(format!("{file}:{}: a comment of {columns} columns", number + 1));
            }
        }
    }
    findings
}

/// Scripts, workflows, and programs in C, by their paths.
fn scripts_and_programs() -> Sources {
    let endings = ["", "sh", "py", "c", "md", "yml"];
    let folders = ["scripts", ".github", "tests/programs", "benches/workloads"];
    let files = folders.iter().flat_map(|folder| files_below(folder));
    let kept = files.filter(|file| {
        endings.contains(&file.extension().and_then(|ending| ending.to_str()).unwrap_or(""))
    });
    kept.map(|file| (file.to_string_lossy().into_owned(), text(&file))).collect()
}

/// Everything that the checks read.
pub(crate) fn sources() -> Sources {
    let folders = ["src", "tests", "benches", "examples", "otf2-bindings", "fuzz"];
    let mut sources: Sources = folders.iter().flat_map(|folder| rust_files(folder)).collect();
    sources.extend(documents());
    sources.extend(corpus_readmes());
    sources.extend(scripts_and_programs());
    for file in ["AGENTS.md", "CHANGELOG.md"] {
        sources.insert(file.to_owned(), text(Path::new(file)));
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(find: fn(&Sources) -> Findings, file: &str, text: &str, expected: &[&str]) {
        assert_eq!(find(&Sources::from([(file.to_owned(), text.to_owned())])), expected, "{text}");
    }

    #[test]
    fn all_kinds_of_files_are_read() {
        let sources = sources();
        for file in [
            "AGENTS.md",
            "CHANGELOG.md",
            "tests/corpus/README.md",
            "tests/corpus/logs/README.md",
            "scripts/common.sh",
            "scripts/vm/check_layers_compare.py",
            "tests/programs/maps.c",
            "benches/workloads/reads.c",
            ".github/pull_request_template.md",
        ] {
            assert!(sources.contains_key(file), "{file} is not read");
        }
    }

    #[test]
    fn banned_words_are_found_in_each_language() {
        let word = BANNED[0].concat();
        let code = format!("// No: {word}.\nlet a = \"{word}\";");
        check(banned_words, "src/a.rs", &code, &[&format!("src/a.rs:1: {word}")]);
        let program = format!("/* a\n {word} */\nint a;");
        check(banned_words, "a/b.c", &program, &[&format!("a/b.c:2: {word}")]);
        let script = format!("#!/bin/sh\nsu {word} # {word}\n# {word}\necho \" # {word}\"\n");
        let found = [2, 3, 4].map(|line| format!("scripts/a:{line}: {word}"));
        check(banned_words, "scripts/a", &script, &found.each_ref().map(String::as_str));
        let script = format!(
            "\"\"\"A\n{word} b\n\"\"\"\na = \"{word}\", \"a {word}\", {word}\n\"\"\"b {word}\"\"\""
        );
        let found = [2, 4, 5].map(|line| format!("scripts/a.py:{line}: {word}"));
        check(banned_words, "scripts/a.py", &script, &found.each_ref().map(String::as_str));
        let page = format!("a {word}\n`{word}`\n");
        check(banned_words, "CHANGELOG.md", &page, &[&format!("CHANGELOG.md:1: {word}")]);
    }

    #[test]
    fn doc_comments_begin_with_a_noun() {
        let docs =
            "/// What.\n/// b\n\n/// Size.\nfn what() {}\n/// Size of it.\n/// What is left.\n";
        check(doc_comments, "src/a.rs", docs, &["src/a.rs:1: /// What.", "src/a.rs:4: /// Size."]);
        let docs = "/// The same for a.\nfn a() {}\n//! Its size.\n\n/// Items of it.\nfn b() {}\n";
        let found = ["src/a.rs:1: /// The same for a.", "src/a.rs:3: /// Its size."];
        check(doc_comments, "src/a.rs", docs, &found);
    }

    #[test]
    fn comments_end_at_the_last_column() {
        let comment = format!("//{}\n//{0}-", "-".repeat(COMMENT_COLUMNS - 2));
        check(long_comments, "src/a.rs", &comment, &["src/a.rs:2: a comment of 101 columns"]);
        let comment = format!("#{}\n#{0}-", "-".repeat(COMMENT_COLUMNS - 1));
        check(long_comments, "scripts/a", &comment, &["scripts/a:2: a comment of 101 columns"]);
        check(long_comments, "a.md", &comment, &[]);
    }
}
