//! Rules about the documents: links lead somewhere, each page is in the book, examples are accepted
//! by the program, files and modules that are named exist.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use super::tokens::tokens;
use super::{Findings, MODULES, check_rule, expect_none, files_below, root, rust_files, text};

/// Lines of README.md and ARCHITECTURE.md.
const LENGTHS: [(&str, usize); 2] = [("README.md", 150), ("ARCHITECTURE.md", 300)];
/// The page that lists all others.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The first line of the control protocol, which begins like a command.
const GREETING: &str = "control 1";

/// Folders whose files documents name by their paths. `fuzz` has folders that only a run of the
/// fuzzer makes.
const FOLDERS: [&str; 6] = ["src/", "tests/", "scripts/", "docs/", "benches/", "examples/"];

/// Recorded inputs, which [`files_below`] leaves out.
const CORPUS: &str = "tests/corpus";

/// A document and its text.
pub(crate) type Documents = BTreeMap<String, String>;

/// The documents outside the book, and all pages of the book.
pub(crate) fn documents() -> Documents {
    let outside = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(String::from);
    let pages = files_below("docs").into_iter().map(|file| file.to_string_lossy().into_owned());
    let markdown = outside.into_iter().chain(pages.filter(|file| file.ends_with(".md")));
    markdown.map(|file| (file.clone(), text(file.as_ref()))).collect()
}

/// The README files of the recorded inputs.
pub(crate) fn corpus_readmes() -> Documents {
    let mut found = Documents::new();
    let mut folders = vec![root().join(CORPUS)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the corpus") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("README.md") {
                let file = path.strip_prefix(root()).expect("below it").to_owned();
                found.insert(file.to_string_lossy().into_owned(), text(&file));
            }
        }
    }
    found
}

/// Lines outside code blocks with their numbers; code spans are emptied.
pub(crate) fn prose(text: &str) -> Vec<(usize, String)> {
    let mut in_block = false;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let spans = line.split('`').enumerate();
            let outside = spans.filter(|(place, _)| place % 2 == 0).map(|(_, part)| part);
            lines.push((number + 1, outside.collect::<Vec<_>>().join("``")));
        }
    }
    lines
}

/// The targets of inline links and images, with their lines.
fn link_targets(text: &str) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    for (number, line) in prose(text) {
        for rest in line.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                targets.push((number, target.to_owned()));
            }
        }
    }
    targets
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn slug(heading: &str) -> String {
    let linked = heading.replace("](", "\u{0}");
    let mut visible = String::new();
    for part in linked.split('[') {
        match part.split_once('\u{0}') {
            Some((label, rest)) => {
                visible.push_str(label);
                visible.push_str(rest.split_once(')').map_or("", |(_, after)| after));
            }
            None => visible.push_str(part),
        }
    }
    let kept = |letter: &char| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter);
    visible.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

/// The anchors of a page: its headings, the second of equal ones with `-1`.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut in_block = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        let marks = line.bytes().take_while(|byte| *byte == b'#').count();
        if in_block || marks == 0 || !line[marks..].starts_with(' ') {
            continue;
        }
        let anchor = slug(&line[marks..]);
        let mut numbered = anchor.clone();
        let mut number = 0;
        while !found.insert(numbered.clone()) {
            number += 1;
            numbered = format!("{anchor}-{number}");
        }
    }
    found
}

/// The path of a relative target, seen from the file that has the link.
fn resolved(file: &str, target: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Links to files or headings that do not exist, and links out of the book, which a built book
/// would not have.
fn dead_links(documents: &Documents, files: &BTreeSet<String>) -> Findings {
    let mut findings = Findings::new();
    for (file, text) in documents {
        for (line, target) in link_targets(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target.as_str(), ""));
            let path = if path.is_empty() { file.clone() } else { resolved(file, path) };
            if file.starts_with("docs/") && !path.starts_with("docs/") {
                findings.push(format!("{file}:{line}: a link out of the book: {target}"));
            } else if !files.contains(&path) {
                findings.push(format!("{file}:{line}: no such file: {target}"));
            } else if !anchor.is_empty()
                && !documents.get(&path).is_some_and(|text| anchors(text).contains(anchor))
            {
                findings.push(format!("{file}:{line}: no such heading: {target}"));
            }
        }
    }
    findings
}

/// Pages of the book that its summary does not list.
fn pages_without_entry(documents: &Documents) -> Findings {
    let summary = documents.get(SUMMARY).map_or("", String::as_str);
    let targets = link_targets(summary).into_iter();
    let listed: BTreeSet<String> = targets.map(|(_, target)| resolved(SUMMARY, &target)).collect();
    let pages = documents.keys().filter(|file| file.starts_with("docs/") && *file != SUMMARY);
    pages
        .filter(|page| !listed.contains(*page))
        .map(|page| format!("{page}: not in {SUMMARY}"))
        .collect()
}

fn too_long(file: &str, text: &str) -> Findings {
    let limit = LENGTHS.iter().find(|(name, _)| *name == file);
    let lines = text.lines().count();
    let exceeded = limit.filter(|(_, limit)| lines > *limit);
    exceeded
        .map(|(_, limit)| format!("{file}: {lines} lines, more than {limit}"))
        .into_iter()
        .collect()
}

/// The words of a shell command up to the first operator or comment.
fn shell_words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in command.chars() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), inside) => word.get_or_insert_default().push(inside),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '>' | '<' | '&' | ';') => break,
            (None, '#') if word.is_none() => break,
            (None, other) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

/// The arguments of a line of a code block that calls iotrace-perf, with `sudo` or without; PID
/// becomes a number.
fn arguments(line: &str) -> Option<Vec<String>> {
    let command = line.trim_start().trim_start_matches("$ ").trim_start_matches("sudo ");
    let rest = command.strip_prefix("iotrace-perf ").filter(|rest| *rest != GREETING)?;
    let numbered = |word: String| if word == "PID" { "1".to_owned() } else { word };
    Some(shell_words(rest).into_iter().map(numbered).collect())
}

/// Calls of iotrace-perf in code blocks and code spans, with their lines.
fn examples(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut in_block = false;
    let mut found = Vec::new();
    let mut joined = String::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            joined.push_str(line);
            if joined.ends_with('\\') {
                joined.pop();
                continue;
            }
            found.extend(arguments(&joined).map(|words| (number + 1, words)));
            joined.clear();
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.filter_map(arguments).map(|words| (number + 1, words)));
        }
    }
    found
}

/// Asks the program for help after these arguments: it refuses unknown verbs, options and values
/// before that, and does nothing. Missing arguments and conflicts are not found. The words of a
/// program, which begin with `--` or `./`, are left out.
fn is_accepted(words: &[String]) -> bool {
    let is_program = |word: &String| word == "--" || word.starts_with("./");
    let end = words.iter().position(is_program).unwrap_or(words.len());
    let mut program = Command::new(env!("CARGO_BIN_EXE_iotrace-perf"));
    let output = program.args(&words[..end]).arg("--help").output().expect("the program starts");
    output.status.success()
}

fn refused_examples(file: &str, text: &str) -> Findings {
    let refused = examples(text).into_iter().filter(|(_, words)| !is_accepted(words));
    refused
        .map(|(line, words)| format!("{file}:{line}: refused: iotrace-perf {}", words.join(" ")))
        .collect()
}

/// The words in backticks outside code blocks, with their lines.
fn code_words(text: &str) -> Vec<(usize, String)> {
    let mut in_block = false;
    let mut words = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let spans = line.split('`').skip(1).step_by(2);
            let single = spans.filter(|span| !span.contains([' ', '*', '…']));
            words.extend(single.map(|span| (number + 1, span.to_owned())));
        }
    }
    words
}

/// Whether a file or folder of the project has this path.
fn exists(path: &str, files: &BTreeSet<String>) -> bool {
    let folder = format!("{}/", path.trim_end_matches('/'));
    files.contains(path) || files.iter().any(|file| file.starts_with(&folder))
}

/// Files and modules (`tracer::gauge`) that documents name and that do not exist.
fn stale_names(file: &str, text: &str, files: &BTreeSet<String>) -> Findings {
    let is_stale = |word: &str| {
        if FOLDERS.iter().any(|folder| word.starts_with(folder)) {
            return !word.starts_with(CORPUS) && !exists(word, files);
        }
        let segments: Vec<&str> = word.split("::").collect();
        let is_room = |length: &usize| {
            let room = segments[..*length].join("::");
            MODULES.iter().any(|row| row.0 == room)
        };
        // `a::b` of a room `a`, `a::b::c` of a subroom `a::b`.
        let Some(length) = (1..segments.len()).rev().find(is_room) else { return false };
        let child = segments[length];
        let is_module = child.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
        let path = format!("src/{}", segments[..=length].join("/"));
        is_module && !exists(&format!("{path}.rs"), files) && !exists(&path, files)
    };
    let stale = code_words(text).into_iter().filter(|(_, word)| is_stale(word));
    stale.map(|(line, word)| format!("{file}:{line}: does not exist: {word}")).collect()
}

/// The page whose tables name the test that fails for each forgotten step.
const RECIPES: &str = "docs/internals/recipes.md";
/// Title of that column, which is the last.
const FAILING_TEST: &str = "Test that fails";

/// Names of functions and modules of `tests` and `src`.
fn names_of_code(sources: &[(String, String)]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (file, text) in sources {
        names.extend(file.trim_end_matches(".rs").split('/').map(str::to_owned));
        for pair in tokens(text).windows(2) {
            if ["fn", "mod"].contains(&pair[0].text.as_str()) {
                names.insert(pair[1].text.clone());
            }
        }
    }
    names
}

/// Tests in the last column of the recipes' tables that are neither functions nor modules.
fn stale_tests(file: &str, text: &str, names: &BTreeSet<String>) -> Findings {
    let mut in_table = false;
    let mut findings = Findings::new();
    for (number, line) in text.lines().enumerate() {
        if !line.starts_with('|') {
            in_table = false;
            continue;
        }
        let last = line.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or("");
        if last.trim() == FAILING_TEST {
            in_table = true;
            continue;
        }
        let spans = last.split('`').skip(1).step_by(2).filter(|_| in_table);
        for segment in spans.flat_map(|span| span.split([' ', ':'])) {
            let is_name = !segment.is_empty()
                && segment != "_"
                && segment.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
            if is_name && !names.contains(segment) {
                findings.push(format!("{file}:{}: no such test: {segment}", number + 1));
            }
        }
    }
    findings
}

/// The address of a limitation, as messages give it.
const LIMITATION: &str = "docs/limitations.md#";

/// Addresses of limitations in the code that are neither headings nor anchors of the page.
fn dead_limitations(file: &str, text: &str, page: &str) -> Findings {
    let headings = anchors(page);
    let mut findings = Findings::new();
    for (number, line) in text.lines().enumerate() {
        for rest in line.split(LIMITATION).skip(1) {
            let is_part = |letter: char| letter.is_alphanumeric() || letter == '-';
            let end = rest.find(|letter: char| !is_part(letter)).unwrap_or(rest.len());
            let anchor = &rest[..end];
            let is_there = headings.contains(anchor) || page.contains(&format!("id=\"{anchor}\""));
            if !is_there {
                findings.push(format!("{file}:{}: no such limitation: {anchor}", number + 1));
            }
        }
    }
    findings
}

/// All files of the project by their paths.
fn project_files() -> BTreeSet<String> {
    let all = files_below(".").into_iter().map(|file| file.to_string_lossy().into_owned());
    all.map(|file| file.trim_start_matches("./").to_owned()).collect()
}

#[test]
fn files_and_modules_in_documents_exist() {
    let files = project_files();
    let found = documents().into_iter().flat_map(|(file, text)| stale_names(&file, &text, &files));
    expect_none(found.collect());

    let few =
        ["src/tracer/gauge.rs", "src/sys/ring/mod.rs", "src/replay/plan/locks.rs", "tests/a/b.rs"]
            .map(String::from);
    let few = BTreeSet::from(few);
    let rule = |page: &str| stale_names("a.md", page, &few);
    check_rule(
        rule,
        "`src/tracer/meter.rs`",
        "`src/tracer/gauge.rs`, `tests/a`, `tests/corpus/c`, `a/b.rs`",
    );
    check_rule(
        rule,
        "`tracer::meter`",
        "`tracer::gauge`, `sys::ring::map`, `tracer::Meter`, `std::fs`",
    );
    check_rule(
        rule,
        "`replay::plan::handles`",
        "`replay::plan`, `replay::plan::locks::wish`, `replay::plan::Lock`",
    );
}

#[test]
fn tests_in_the_recipes_exist() {
    let sources = [rust_files("tests"), rust_files("src")].concat();
    let names = names_of_code(&sources);
    expect_none(stale_tests(RECIPES, &text(RECIPES.as_ref()), &names));

    let few = [("tests/a/b.rs".to_owned(), "mod c { fn d_is_e() {} }".to_owned())];
    let few = names_of_code(&few);
    let head = "| F | Test that fails |\n|---|---|\n";
    let rule = |row: &str| stale_tests("a.md", &format!("{head}{row}"), &few);
    check_rule(rule, "| x | `d_is_f` |", "| `gone` | `d_is_e`, `a b::` |");
    check_rule(rule, "| x | the test `a::gone` |", "| x | no `_` arm in `D::c` |\n\n| `gone` |");
}

#[test]
fn limitations_in_messages_exist() {
    let page = text("docs/limitations.md".as_ref());
    let files = rust_files("src");
    expect_none(
        files.iter().flat_map(|(file, text)| dead_limitations(file, text, &page)).collect(),
    );

    let page = "# Limits\n<a id=\"lim-a-b\"></a>\n## lim-c\n";
    let rule = |code: &str| dead_limitations("src/a.rs", code, page);
    let at = |anchor: &str| format!("\"see {LIMITATION}{anchor}\"");
    check_rule(rule, &at("lim-a"), &[at("lim-a-b"), at("lim-c")].concat());
}

#[test]
fn links_of_documents_lead_to_files_and_headings() {
    expect_none(dead_links(&documents(), &project_files()));

    let rule = |page: &str| {
        let documents = Documents::from([("docs/a/b.md".to_owned(), page.to_owned())]);
        let files = ["docs/a/b.md", "docs/c.svg", "README.md"].map(String::from);
        dead_links(&documents, &BTreeSet::from(files))
    };
    check_rule(rule, "[a](../d.md)", "![a](../c.svg) [b](https://b.example/c)");
    check_rule(rule, "# A `b`: c\n[a](#a-b)", "# A `b`: c\n[a](#a-b-c)");
    check_rule(rule, "[a](../../README.md)", "`[a](d.md)`\n```\n[a](d.md)\n```");
    check_rule(rule, "# A\n[a](#a-1)", "# A\n# [A](b.md#a)\n[a](b.md#a-1)");
}

#[test]
fn pages_of_the_book_are_in_its_summary() {
    expect_none(pages_without_entry(&documents()));
    let rule = |summary: &str| {
        let pages = [(SUMMARY, summary), ("docs/a.md", ""), ("README.md", "")];
        pages_without_entry(&pages.map(|(file, text)| (file.to_owned(), text.to_owned())).into())
    };
    check_rule(rule, "[b](b.md)", "[a](a.md)");
}

#[test]
fn readme_and_architecture_are_short() {
    for (file, _) in LENGTHS {
        expect_none(too_long(file, &text(file.as_ref())));
    }
    check_rule(|page| too_long("README.md", page), &"\n".repeat(151), &"\n".repeat(150));
}

#[test]
fn examples_in_documents_are_accepted_by_the_program() {
    let documents = documents();
    expect_none(documents.iter().flat_map(|(file, text)| refused_examples(file, text)).collect());
    let found: usize = documents.values().map(|text| examples(text).len()).sum();
    assert!(found > 50, "only {found} examples were found");

    let rule = |page: &str| refused_examples("a.md", page);
    check_rule(rule, "`iotrace-perf sumary a.iocap`", "`iotrace-perf summary a.iocap`");
    check_rule(
        rule,
        "```\n$ sudo iotrace-perf --source \\\n    ebpf -- ./app\n```",
        "```\n$ sudo iotrace-perf --source \\\n    perf -- ./app --bogus | cat\n```",
    );
    assert_eq!(shell_words("a 'b c' \"\" d|e # f"), ["a", "b c", "", "d"]);
}
