//! Measures that only shrink: a table of checks, each with the number of its findings by room. A
//! number that has grown fails, and so does one that has shrunk: its constant is lowered in the
//! same commit.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Findings;
use super::baseline::{self, Baseline};
use super::imports::{circles, imports_from_parent};
use super::prose::{Sources, banned_words, doc_comments, long_comments, sources};
use super::tokens::{Token, tokens};

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
        title: "functions with a parameter `it`",
        find: |sources| in_code(sources, functions_of_it),
        baseline: baseline::FUNCTIONS_OF_IT,
    },
    Measure {
        title: "functions with tuples as parameters",
        find: |sources| in_code(sources, tuple_parameters),
        baseline: baseline::TUPLE_PARAMETERS,
    },
    Measure {
        title: "bare u64 times of replays",
        find: |sources| in_code(sources, bare_times),
        baseline: baseline::BARE_TIMES,
    },
    Measure {
        title: "names that are a participle of tell",
        find: |sources| in_code(sources, names_with_told),
        baseline: baseline::NAMES_WITH_TOLD,
    },
    Measure {
        title: "imports of a child from its parent's file",
        find: imports_from_parent,
        baseline: baseline::IMPORTS_FROM_PARENT,
    },
    Measure { title: "files in circles of imports", find: circles, baseline: baseline::CIRCLES },
    Measure {
        title: "banned words in comments, messages, documents, scripts and programs",
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

fn is_code(file: &str) -> bool {
    file.starts_with("src/") && file.ends_with(".rs")
}

fn in_code(sources: &Sources, find: fn(&str, &[Token]) -> Findings) -> Findings {
    let code = sources.iter().filter(|(file, _)| is_code(file));
    code.flat_map(|(file, text)| find(file, &tokens(text))).collect()
}

/// Names of types that a file defines, with their lines. An associated type, or an alias inside a
/// function, has no name of its own in the crate.
fn type_names(tokens: &[Token]) -> Vec<&Token> {
    // For each open brace, whether it is that of a module.
    let mut open: Vec<bool> = Vec::new();
    let mut names = Vec::new();
    let word = |at: Option<usize>| at.map_or("", |at| tokens[at].text.as_str());
    for (at, pair) in tokens.windows(2).enumerate() {
        match pair[0].text.as_str() {
            "{" => open.push(word(at.checked_sub(2)) == "mod"),
            "}" => drop(open.pop()),
            "struct" | "enum" | "union" | "trait" => names.push(&pair[1]),
            "type" if open.iter().all(|is_module| *is_module) => names.push(&pair[1]),
            _ => {}
        }
    }
    names
}

fn shared_type_names(sources: &Sources) -> Findings {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in sources.iter().filter(|(file, _)| is_code(file)) {
        for name in type_names(&tokens(text)) {
            let place = format!("{file}:{}", name.line);
            places.entry(name.text.clone()).or_default().push(place);
        }
    }
    let all = places.len();
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    // Of the whole crate, not of a room.
    shared
        .map(|(name, places)| format!(".: {name} (of {all} names) {}", places.join(" ")))
        .collect()
}

/// The end of the closure's parameters that begin at `at`: the place of their second `|`.
fn end_of_parameters(tokens: &[Token], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (end, token) in tokens.iter().enumerate().skip(at + 1) {
        match token.text.as_str() {
            "|" if depth == 0 => return Some(end),
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            "&" | "," | ":" | "<" | ">" | "'" | "." => {}
            word if word.starts_with(|first: char| first.is_alphanumeric() || first == '_') => {}
            _ => return None,
        }
    }
    None
}

/// Whether a parameter `it`, or a part of one, is among these tokens of a pattern.
fn has_parameter_it(pattern: &[Token]) -> bool {
    let word = |at: usize| pattern.get(at).map_or("", |token| token.text.as_str());
    (0..pattern.len()).any(|at| {
        let before = at.checked_sub(1).map_or("", word);
        let begins = ["", "&", ",", "(", "[", "{", "mut", "ref"].contains(&before);
        word(at) == "it" && begins && ["", ",", ")", "]", "}", ":"].contains(&word(at + 1))
    })
}

/// The places at which closures with a parameter `it` begin.
fn starts_of_closures_of_it(tokens: &[Token]) -> Vec<usize> {
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let before_closure =
        ["", "(", ",", "=", "{", "}", ";", ">", "&", "[", ":", "move", "return", "else"];
    let mut starts = Vec::new();
    let mut at = 0;
    let mut last_end = None;
    while at < tokens.len() {
        let before = at.checked_sub(1);
        let may_begin = before_closure.contains(&before.map_or("", word))
            || before.is_some() && before == last_end;
        if word(at) != "|" || !may_begin {
            at += 1;
            continue;
        }
        let Some(end) = end_of_parameters(tokens, at) else {
            at += 1;
            continue;
        };
        if has_parameter_it(&tokens[at + 1..end]) {
            starts.push(at);
        }
        last_end = Some(end);
        at = end + 1;
    }
    starts
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
    let closures = starts_of_closures_of_it(tokens).into_iter();
    let matching =
        closures.filter(|at| (end_of_closure(tokens, *at) > tokens[*at].line) == is_long);
    matching.map(|at| format!("{file}:{}: |it|", tokens[at].line)).collect()
}

/// The parameters of the functions that begin here: for each `fn`, the tokens between its brackets.
fn parameters_of_functions(tokens: &[Token]) -> Vec<&[Token]> {
    let mut all = Vec::new();
    for start in (0..tokens.len()).filter(|at| tokens[*at].text == "fn") {
        let (mut round, mut angle, mut begin, mut before) = (0usize, 0usize, None, "");
        for (at, token) in tokens.iter().enumerate().skip(start + 1) {
            match token.text.as_str() {
                "(" => {
                    if round == 0 && angle == 0 {
                        begin = Some(at + 1);
                    }
                    round += 1;
                }
                ")" => round = round.saturating_sub(1),
                "<" if round == 0 => angle += 1,
                ">" if round == 0 && before != "-" => angle = angle.saturating_sub(1),
                "{" | ";" if round == 0 => break,
                _ => {}
            }
            if let Some(begin) = begin.filter(|_| round == 0) {
                all.push(&tokens[begin..at]);
                break;
            }
            before = &token.text;
        }
    }
    all
}

/// Whether the brackets at `at` are those of a tuple: `()` and `(dyn A + B)` are none.
fn is_tuple(tokens: &[Token], at: usize) -> bool {
    let (mut depth, mut before) = (0usize, "");
    for token in &tokens[at..] {
        match token.text.as_str() {
            "," if depth == 1 => return true,
            "(" | "[" | "<" => depth += 1,
            ">" if before == "-" => {}
            ")" | "]" | ">" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return false;
        }
        before = &token.text;
    }
    false
}

/// Whether a parameter's type begins at `at`, after `&`, `mut` and a lifetime.
fn begins_type(parameters: &[Token], at: usize) -> bool {
    let word = |at: usize| parameters[at].text.as_str();
    let mut at = at;
    while at > 0 {
        if at >= 2 && word(at - 2) == "'" {
            at -= 2;
        } else if ["&", "mut"].contains(&word(at - 1)) {
            at -= 1;
        } else {
            return word(at - 1) == ":";
        }
    }
    false
}

fn tuple_parameters(file: &str, tokens: &[Token]) -> Findings {
    let mut findings = Findings::new();
    for parameters in parameters_of_functions(tokens) {
        let (mut depth, mut before) = (0usize, "");
        for (at, token) in parameters.iter().enumerate() {
            match token.text.as_str() {
                "(" => {
                    let is_pattern = ["", ","].contains(&before);
                    let is_type = begins_type(parameters, at) && is_tuple(parameters, at);
                    if depth == 0 && (is_pattern || is_type) {
                        findings.push(format!("{file}:{}: a tuple as a parameter", token.line));
                        break;
                    }
                    depth += 1;
                }
                "<" | "[" => depth += 1,
                ">" if before == "-" => {}
                ")" | "]" | ">" => depth = depth.saturating_sub(1),
                _ => {}
            }
            before = &token.text;
        }
    }
    findings
}

fn functions_of_it(file: &str, tokens: &[Token]) -> Findings {
    let all = parameters_of_functions(tokens).into_iter();
    let of_it = all.filter(|parameters| has_parameter_it(parameters));
    of_it.map(|parameters| format!("{file}:{}: fn (it)", parameters[0].line)).collect()
}

/// Words of a name, in either case.
fn words_of_name(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        let begins = letter == '_' || letter.is_uppercase();
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter != '_') {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

fn names_with_told(file: &str, tokens: &[Token]) -> Findings {
    let word = ["to", "ld"].concat();
    let found = tokens.iter().filter(|token| words_of_name(&token.text).contains(&word));
    found.map(|token| format!("{file}:{}: {}", token.line, token.text)).collect()
}

/// Files in which a time of a replay is no bare number.
fn is_of_replay(file: &str) -> bool {
    ["src/replay", "src/sys/replay", "src/report/replay"]
        .iter()
        .any(|prefix| file.starts_with(prefix))
}

/// Whether `u64` or `Option<u64>` is here.
fn is_u64(tokens: &[Token]) -> bool {
    let words: Vec<&str> = tokens.iter().take(3).map(|token| token.text.as_str()).collect();
    match words.as_slice() {
        // A value: `u64::from(…)`.
        ["u64", ":", ":"] => false,
        ["u64", ..] | ["Option", "<", "u64"] => true,
        _ => false,
    }
}

/// Whether the function whose name is at `at` returns `u64` or `Option<u64>`.
fn returns_u64(tokens: &[Token], at: usize) -> bool {
    let rest = &tokens[at..];
    let signature = rest.iter().position(|token| ["{", ";"].contains(&token.text.as_str()));
    let signature = &rest[..signature.unwrap_or(rest.len())];
    let arrow = signature.windows(2).rposition(|pair| pair[0].text == "-" && pair[1].text == ">");
    arrow.is_some_and(|arrow| is_u64(&signature[arrow + 2..]))
}

fn bare_times(file: &str, tokens: &[Token]) -> Findings {
    if !is_of_replay(file) {
        return Findings::new();
    }
    let mut findings = Findings::new();
    for (at, token) in tokens.iter().enumerate() {
        let name = token.text.as_str();
        let word = |at: Option<usize>| {
            at.and_then(|at| tokens.get(at)).map_or("", |token| token.text.as_str())
        };
        let is_typed = word(Some(at + 1)) == ":" && is_u64(&tokens[(at + 2).min(tokens.len())..]);
        // Outside the plans, `end` and `from` are places in files, too.
        let is_listed = file.starts_with("src/replay") && TIME_NAMES.contains(&name);
        let is_function = word(at.checked_sub(1)) == "fn" && returns_u64(tokens, at);
        let is_in_ns = name.ends_with("_ns");
        if is_typed && (is_listed || is_in_ns) {
            findings.push(format!("{file}:{}: {name}: u64", token.line));
        } else if is_function && is_in_ns {
            findings.push(format!("{file}:{}: {name}() -> u64", token.line));
        }
    }
    findings
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
        check(shared_type_names, "src/a.rs", "struct A; impl B for A { type A = C; }", &[]);
        let alias = "struct A; mod b { pub type A = u8; }";
        check(shared_type_names, "src/a.rs", alias, &[".: A (of 1 names) src/a.rs:1 src/a.rs:1"]);
        let short =
            |sources: &Sources| in_code(sources, |file, code| closures_of_it(file, code, false));
        let long =
            |sources: &Sources| in_code(sources, |file, code| closures_of_it(file, code, true));
        let closures = "f(|it| g(it), 1);\nf(|&it| {\n})";
        check(short, "src/a.rs", closures, &["src/a.rs:1: |it|"]);
        check(long, "src/a.rs", closures, &["src/a.rs:2: |it|"]);
        let nested = "f(|a, it| g(it));\nf(move |(b, &it): (B, &C)| g(it));\nf(|a| |it| g(it));";
        let each = ["src/a.rs:1: |it|", "src/a.rs:2: |it|", "src/a.rs:3: |it|"];
        check(short, "src/a.rs", nested, &each);
        check(short, "src/a.rs", "a | it | b; matches!(c, \"d\" | \"e\"); f(|a: it::B| a);", &[]);
        let functions = |sources: &Sources| in_code(sources, functions_of_it);
        let named = "fn f<A>(a: A, it: &B) {}\nfn g(a: it::B) { h(it) }";
        check(functions, "src/a.rs", named, &["src/a.rs:1: fn (it)"]);
        let word = ["to", "ld"].concat();
        let told = |sources: &Sources| in_code(sources, names_with_told);
        let names = format!("fn is_{word}() {{}} struct A{}X; fn {word}x() {{}}", "Told");
        let found = [format!("src/a.rs:1: is_{word}"), format!("src/a.rs:1: A{}X", "Told")];
        check(told, "src/a.rs", &names, &found.each_ref().map(String::as_str));
        let tuples = |sources: &Sources| in_code(sources, tuple_parameters);
        let tuple = "fn f<A: Fn(B) -> C>(a: A, (b, c): (B, C)) {}";
        check(tuples, "src/a.rs", tuple, &["src/a.rs:1: a tuple as a parameter"]);
        let typed = "fn f(a: (A, B)) {}\nfn g(&self, b: &'a mut (A, B)) {}";
        let both = ["src/a.rs:1: a tuple as a parameter", "src/a.rs:2: a tuple as a parameter"];
        check(tuples, "src/a.rs", typed, &both);
        let none = "fn f(a: Map<A, (B, C)>, b: &(dyn Fn(A, B) + C), c: ()) -> (A, B) { h((1, 2)) }";
        check(tuples, "src/a.rs", none, &[]);
        let after_array = "fn f(a: [u64; 6], (b, c): (B, C)) {}\nfn g(a: [u64; 6]);";
        check(tuples, "src/a.rs", after_array, &["src/a.rs:1: a tuple as a parameter"]);
        let times = |sources: &Sources| in_code(sources, bare_times);
        check(
            times,
            "src/replay/a.rs",
            "f(end: u64, size: u64, _: A)",
            &["src/replay/a.rs:1: end: u64"],
        );
        let named = "wake_ns: Option<u64>, fn late_ns(&self) -> u64 {} fn a_ns() -> KernelTime {}";
        let found =
            ["src/sys/replay/a.rs:1: wake_ns: u64", "src/sys/replay/a.rs:1: late_ns() -> u64"];
        check(times, "src/sys/replay/a.rs", named, &found);
        check(times, "src/report/replay_run.rs", "end: u64", &[]);
    }
}
