//! Measures that only shrink: a table of checks, each with the number of its findings by room. A
//! number that has grown fails, and so does one that has shrunk: its constant is lowered in the
//! same commit.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::baseline::{self, Baseline};
use super::documents::documents;
use super::imports::{circles, imports_from_parent};
use super::tokens::{Token, prose_lines, tokens};
use super::{Findings, has_word, rust_files};

/// Source files and documents by their paths.
type Sources = BTreeMap<String, String>;

/// One check: its findings begin with the path of a file.
struct Measure {
    title: &'static str,
    find: fn(&Sources) -> Findings,
    baseline: Baseline,
}

const MEASURES: &[Measure] = &[
    Measure {
        title: "type names that denote more than one type",
        find: shared_type_names,
        baseline: baseline::SHARED_TYPE_NAMES,
    },
    Measure {
        title: "|it| in closures of one line",
        find: |sources| in_code(sources, |file, code| closures_of_it(file, code, false)),
        baseline: baseline::SHORT_CLOSURES_OF_IT,
    },
    Measure {
        title: "|it| in longer closures",
        find: |sources| in_code(sources, |file, code| closures_of_it(file, code, true)),
        baseline: baseline::LONG_CLOSURES_OF_IT,
    },
    Measure {
        title: "functions with tuples as parameters",
        find: |sources| in_code(sources, tuple_parameters),
        baseline: baseline::TUPLE_PARAMETERS,
    },
    Measure {
        title: "bare u64 times in replay",
        find: |sources| in_code(sources, bare_times),
        baseline: baseline::BARE_TIMES,
    },
    Measure {
        title: "imports of a child from its parent's file",
        find: imports_from_parent,
        baseline: baseline::IMPORTS_FROM_PARENT,
    },
    Measure { title: "files in circles of imports", find: circles, baseline: baseline::CIRCLES },
    Measure {
        title: "banned words in comments, messages and documents",
        find: banned_words,
        baseline: baseline::BANNED_WORDS,
    },
    Measure {
        title: "doc comments of one word or that begin with a pronoun",
        find: doc_comments,
        baseline: baseline::DOC_COMMENTS,
    },
    Measure {
        title: "comment lines of more than 100 columns",
        find: long_comments,
        baseline: baseline::LONG_COMMENTS,
    },
];

/// Columns of a comment.
const COMMENT_COLUMNS: usize = 100;

/// Names of `u64` fields and parameters that are times.
const TIME_NAMES: &[&str] = &[
    "at",
    "begin",
    "captured_end",
    "changed_from",
    "changed_to",
    "completed",
    "due",
    "early",
    "end",
    "ended",
    "floor",
    "from",
    "gap",
    "issued",
    "last",
    "late",
    "latest",
    "now",
    "ns",
    "oldest",
    "slack",
    "span",
    "stamp",
    "start",
    "time",
    "took",
    "until",
    "waited",
    "waits",
];

/// Words of prose that have a plainer one. Letters are split, so that this file has none of them.
const BANNED: &[[&str; 2]] = &[
    ["no", "body"],
    ["some", "body"],
    ["who", "ever"],
    ["who", "m"],
    ["man", "ieth"],
    ["as e", "ver"],
    ["is none", " that"],
    ["to", "ld"],
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

/// Pronouns with which no doc comment begins.
const PRONOUNS: &[&str] = &["What", "Who", "Where", "Which", "Whose", "Whom"];

/// The room of a finding: `src/cli`, `tests`, `docs`; `src` and `.` for files beside the rooms.
fn room_of(finding: &str) -> &str {
    let file = finding.split(':').next().unwrap_or(finding);
    let mut slashes = file.match_indices('/').map(|(at, _)| at);
    match (slashes.next(), slashes.next()) {
        (Some(first), Some(second)) if file.starts_with("src/") => &file[..second.max(first)],
        (Some(_), None) if file.starts_with("src/") => file.trim_end_matches(".rs"),
        (Some(first), _) => &file[..first],
        (None, _) => ".",
    }
}

/// The room's findings if their number is not the expected one.
fn compared(measure: &Measure, findings: &Findings) -> String {
    let mut rooms: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for finding in findings {
        rooms.entry(room_of(finding)).or_default().push(finding);
    }
    for (room, _) in measure.baseline {
        rooms.entry(room).or_default();
    }
    let mut failures = String::new();
    for (room, found) in rooms {
        let expected = measure.baseline.iter().find(|row| row.0 == room).map_or(0, |row| row.1);
        if found.len() > expected {
            let list = found.join("\n  ");
            let _ = writeln!(
                failures,
                "{}: {room} has {}, at most {expected} are allowed:\n  {list}",
                measure.title,
                found.len()
            );
        } else if found.len() < expected {
            let _ = writeln!(
                failures,
                "{}: {room} has {}, not {expected}: lower the constant",
                measure.title,
                found.len()
            );
        }
    }
    failures
}

fn in_code(sources: &Sources, find: fn(&str, &[Token]) -> Findings) -> Findings {
    let code = sources.iter().filter(|(file, _)| file.starts_with("src/"));
    code.flat_map(|(file, text)| find(file, &tokens(text))).collect()
}

fn shared_type_names(sources: &Sources) -> Findings {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in sources.iter().filter(|(file, _)| file.starts_with("src/")) {
        for pair in tokens(text).windows(2) {
            if ["struct", "enum", "union", "trait"].contains(&pair[0].text.as_str()) {
                places
                    .entry(pair[1].text.clone())
                    .or_default()
                    .push(format!("{file}:{}", pair[1].line));
            }
        }
    }
    let all = places.len();
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    // Of the whole crate, not of a room.
    shared
        .map(|(name, places)| format!(".: {name} (of {all} names) {}", places.join(" ")))
        .collect()
}

/// Whether the parameter `it` of a closure begins here.
fn is_closure_of_it(tokens: &[Token], at: usize) -> bool {
    let word = |offset: usize| tokens.get(at + offset).map_or("", |token| token.text.as_str());
    let name = if word(1) == "&" { 2 } else { 1 };
    word(0) == "|" && word(name) == "it" && ["|", ":", ","].contains(&word(name + 1))
}

/// The last line of the closure whose parameters begin at `at`.
fn end_of_closure(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0usize;
    let mut last = tokens[at].line;
    let parameters = tokens[at + 1..].iter().position(|token| token.text == "|").unwrap_or(0);
    for token in &tokens[at + 2 + parameters..] {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => break,
            ")" | "]" | "}" => depth -= 1,
            "," | ";" if depth == 0 => break,
            _ => {}
        }
        last = token.line;
    }
    last
}

fn closures_of_it(file: &str, tokens: &[Token], is_long: bool) -> Findings {
    let closures = (0..tokens.len()).filter(|at| is_closure_of_it(tokens, *at));
    let matching =
        closures.filter(|at| (end_of_closure(tokens, *at) > tokens[*at].line) == is_long);
    matching.map(|at| format!("{file}:{}: |it|", tokens[at].line)).collect()
}

fn tuple_parameters(file: &str, tokens: &[Token]) -> Findings {
    let mut findings = Findings::new();
    for start in (0..tokens.len()).filter(|at| tokens[*at].text == "fn") {
        let (mut round, mut angle, mut square, mut before) = (0usize, 0usize, 0usize, "");
        for token in &tokens[start + 1..] {
            match token.text.as_str() {
                "(" => {
                    if round == 1 && angle == 0 && ["(", ","].contains(&before) {
                        findings.push(format!("{file}:{}: a tuple as a parameter", token.line));
                        break;
                    }
                    round += 1;
                }
                ")" => round = round.saturating_sub(1),
                "<" => angle += 1,
                ">" if before != "-" => angle = angle.saturating_sub(1),
                "[" => square += 1,
                "]" => square = square.saturating_sub(1),
                // Of an array's type otherwise.
                "{" | ";" if square == 0 => break,
                _ => {}
            }
            if round == 0 && angle == 0 && token.text == ")" {
                break;
            }
            before = &token.text;
        }
    }
    findings
}

fn bare_times(file: &str, tokens: &[Token]) -> Findings {
    if !file.starts_with("src/replay") {
        return Findings::new();
    }
    let is_time = |row: &&[Token]| {
        let words = [0, 1, 2, 3, 4].map(|at| row[at].text.as_str());
        let is_u64 = matches!(words, [_, ":", "u64", ..] | [_, ":", "Option", "<", "u64"]);
        is_u64 && TIME_NAMES.contains(&words[0])
    };
    let rows = tokens.windows(5).filter(is_time);
    rows.map(|row| format!("{file}:{}: {}: u64", row[0].line, row[0].text)).collect()
}

/// Comments and strings of code, and sentences of documents, with the numbers of their lines.
fn prose(sources: &Sources) -> impl Iterator<Item = (&str, usize, String)> {
    sources.iter().flat_map(|(file, text)| {
        let lines = if file.ends_with(".rs") {
            prose_lines(text).into_iter().enumerate().map(|(at, line)| (at + 1, line)).collect()
        } else {
            super::documents::prose(text)
        };
        lines.into_iter().map(move |(number, line)| (file.as_str(), number, line))
    })
}

fn banned_words(sources: &Sources) -> Findings {
    let words: Vec<String> = BANNED.iter().map(|halves| halves.concat()).collect();
    let mut findings = Findings::new();
    for (file, number, line) in prose(sources) {
        let line = line.to_lowercase();
        let found = words.iter().filter(|word| has_word(&line, word));
        findings.extend(found.map(|word| format!("{file}:{number}: {word}")));
    }
    findings
}

/// Doc comments of one word, and those that begin with a pronoun.
fn doc_comments(sources: &Sources) -> Findings {
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
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_single = words.len() == 1 && doc(Some(at + 1)).is_none();
            let first = words.first().map_or("", |word| word.trim_end_matches(['.', ',']));
            if is_single || PRONOUNS.contains(&first) {
                findings.push(format!("{file}:{}: ///{line}", at + 1));
            }
        }
    }
    findings
}

fn long_comments(sources: &Sources) -> Findings {
    let mut findings = Findings::new();
    for (file, text) in sources.iter().filter(|(file, _)| file.ends_with(".rs")) {
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if line.trim_start().starts_with("//") && columns > COMMENT_COLUMNS {
                findings.push(format!("{file}:{}: a comment of {columns} columns", number + 1));
            }
        }
    }
    findings
}

fn sources() -> Sources {
    let folders = ["src", "tests", "benches", "examples", "otf2-bindings", "fuzz"];
    let mut sources: Sources = folders.iter().flat_map(|folder| rust_files(folder)).collect();
    sources.extend(documents());
    sources
}

#[test]
fn measures_only_shrink() {
    let sources = sources();
    let failures: String =
        MEASURES.iter().map(|measure| compared(measure, &(measure.find)(&sources))).collect();
    assert!(failures.is_empty(), "\n{failures}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(find: fn(&Sources) -> Findings, file: &str, text: &str, expected: &[&str]) {
        assert_eq!(find(&Sources::from([(file.to_owned(), text.to_owned())])), expected, "{text}");
    }

    #[test]
    fn number_must_be_exact() {
        let measure = Measure { title: "t", find: |_| Findings::new(), baseline: &[("src/a", 2)] };
        let findings = |count: usize| vec!["src/a/b.rs:1: c".to_owned(); count];
        assert!(compared(&measure, &findings(3)).contains("at most 2"));
        assert_eq!(compared(&measure, &findings(2)), "");
        assert!(compared(&measure, &findings(1)).contains("lower the constant"));
        assert!(compared(&measure, &vec!["src/b.rs:1: c".to_owned()]).contains("src/b has 1"));
    }

    #[test]
    fn each_measure_can_fail() {
        let code = "struct A; mod b { enum A {} }";
        check(shared_type_names, "src/a.rs", code, &[".: A (of 1 names) src/a.rs:1 src/a.rs:1"]);
        check(shared_type_names, "src/a.rs", "struct A; impl B for A {}", &[]);
        let short =
            |sources: &Sources| in_code(sources, |file, code| closures_of_it(file, code, false));
        let long =
            |sources: &Sources| in_code(sources, |file, code| closures_of_it(file, code, true));
        let closures = "f(|it| g(it), 1);\nf(|&it| {\n})";
        check(short, "src/a.rs", closures, &["src/a.rs:1: |it|"]);
        check(long, "src/a.rs", closures, &["src/a.rs:2: |it|"]);
        let tuples = |sources: &Sources| in_code(sources, tuple_parameters);
        let tuple = "fn f<A: Fn(B) -> C>(a: A, (b, c): (B, C)) {}";
        check(tuples, "src/a.rs", tuple, &["src/a.rs:1: a tuple as a parameter"]);
        check(tuples, "src/a.rs", "fn f(a: Map<A, (B, C)>, g: (A, B)) { h((1, 2)) }", &[]);
        let after_array = "fn f(a: [u64; 6], (b, c): (B, C)) {}\nfn g(a: [u64; 6]);";
        check(tuples, "src/a.rs", after_array, &["src/a.rs:1: a tuple as a parameter"]);
        let times = |sources: &Sources| in_code(sources, bare_times);
        check(
            times,
            "src/replay/a.rs",
            "f(end: u64, size: u64, _: A)",
            &["src/replay/a.rs:1: end: u64"],
        );
        let word = BANNED[0].concat();
        let comment = format!("// No: {word}.\nlet a = \"{word}\";");
        check(banned_words, "src/a.rs", &comment, &[&format!("src/a.rs:1: {word}")]);
        let docs =
            "/// What.\n/// b\n\n/// Size.\nfn what() {}\n/// Size of it.\n/// What is left.\n";
        check(doc_comments, "src/a.rs", docs, &["src/a.rs:1: /// What.", "src/a.rs:4: /// Size."]);
        let comment = format!("//{}\n//{0}-", "-".repeat(COMMENT_COLUMNS - 2));
        check(long_comments, "src/a.rs", &comment, &["src/a.rs:2: a comment of 101 columns"]);
    }
}
