//! Rules about the code that neither the compiler nor clippy knows. Each rule is a function from
//! text to findings, and each is shown to be able to fail.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[path = "tidy/baseline.rs"]
mod baseline;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/measures.rs"]
mod measures;
#[path = "tidy/prose.rs"]
mod prose;
#[path = "tidy/tokens.rs"]
mod tokens;

use tokens::tokens;

/// Modules in the order of `lib.rs`, and what each may use. No module uses a later one. A subroom
/// (`replay::plan`) has a row of its own, which its room's row does not include.
const MODULES: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("anomaly", &["units"]),
    ("tracefs", &[]),
    ("record", &["units"]),
    ("merge", &["units"]),
    ("event", &["tracefs", "units"]),
    ("block", &["event", "units"]),
    ("probe_sites", &["event"]),
    ("capture", &["event", "units"]),
    ("sys", &["record", "capture", "event", "units"]),
    ("sys::replay", &["sys", "event", "units"]),
    ("tracer", &["sys", "probe_sites", "capture", "record", "block", "event", "tracefs", "units"]),
    ("naming", &["event", "capture", "units"]),
    ("operation", &["naming", "event", "block", "capture", "units", "anomaly"]),
    (
        "pipeline",
        &["capture", "event", "merge", "naming", "operation", "record", "anomaly", "units"],
    ),
    ("text", &["operation", "event", "anomaly", "units"]),
    ("otf2", &["operation", "event", "capture", "units"]),
    ("perfetto", &["text", "operation", "event", "capture", "anomaly", "units"]),
    ("columnar", &["text", "operation", "event", "anomaly", "units"]),
    ("analysis", &["operation", "naming", "capture", "pipeline", "event", "units", "anomaly"]),
    ("replay::plan", &["analysis", "operation", "event", "units"]),
    ("replay::fio", &["replay::plan", "text", "operation", "event", "units"]),
    ("replay", &["replay::plan", "analysis", "event", "units"]),
    ("replay::execute", &["replay::plan", "replay", "sys::replay", "sys", "event", "units"]),
    ("import", &["text", "capture", "event", "record", "units"]),
    ("capsule", &["capture", "record", "tracefs", "event", "units"]),
    (
        "report",
        &[
            "replay::plan",
            "replay::fio",
            "replay",
            "analysis",
            "text",
            "pipeline",
            "operation",
            "event",
            "capture",
            "anomaly",
            "units",
        ],
    ),
    (
        "cli",
        &[
            "units",
            "anomaly",
            "tracefs",
            "record",
            "merge",
            "event",
            "block",
            "probe_sites",
            "capture",
            "sys",
            "sys::replay",
            "tracer",
            "naming",
            "operation",
            "pipeline",
            "text",
            "otf2",
            "perfetto",
            "columnar",
            "analysis",
            "replay::plan",
            "replay::fio",
            "replay",
            "replay::execute",
            "import",
            "capsule",
            "report",
        ],
    ),
];

/// Lines of a source file.
const LINES_MAX: usize = 600;
/// Lines between the reason for a memory ordering and its use.
const ORDERING_LINES: usize = 6;

type Findings = Vec<String>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below a folder of the project, by their path in it, sorted.
fn files_below(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.expect("readable").path();
            let skipped = ["target", ".git", "corpus"].iter().any(|it| path.ends_with(it));
            if skipped {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                found.push(path.strip_prefix(root()).expect("below it").to_owned());
            }
        }
    }
    found.sort();
    found
}

fn rust_files(folder: &str) -> Vec<(String, String)> {
    let of_rust =
        files_below(folder).into_iter().filter(|it| it.extension().is_some_and(|it| it == "rs"));
    of_rust.map(|it| (it.to_string_lossy().into_owned(), text(&it))).collect()
}

fn text(path: &Path) -> String {
    let bytes = std::fs::read(root().join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[track_caller]
fn expect_none(findings: Findings) {
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// Shows that a rule finds something in a sample, and nothing in the other.
#[track_caller]
fn check_rule(rule: impl Fn(&str) -> Findings, bad: &str, good: &str) {
    assert!(!rule(bad).is_empty(), "the rule does not find:\n{bad}");
    assert_eq!(rule(good), Findings::new(), "the rule finds something in:\n{good}");
}

// --- The direction of imports ---

/// The row of `MODULES` with the most segments of those at the begin of a path, else the first
/// segment.
fn row_of(path: &[String]) -> String {
    let names = (1..=path.len()).rev().map(|length| path[..length].join("::"));
    let mut rows = names.filter(|name| MODULES.iter().any(|row| row.0 == name));
    rows.next().unwrap_or_else(|| path[0].clone())
}

/// The module that a file of `src` belongs to; `None` for `lib.rs` and `main.rs`.
fn module_of(file: &str) -> Option<String> {
    let inside = file.strip_prefix("src/")?.trim_end_matches(".rs");
    let path: Vec<String> = inside.split('/').map(str::to_owned).collect();
    (path[0] != "lib" && path[0] != "main").then(|| row_of(&path))
}

/// Modules of the crate that a file uses.
fn modules_used(file: &str, text: &str) -> Vec<(String, usize)> {
    let paths = imports::paths_used(file, text).into_iter();
    // Other paths are files that `#[path]` put deeper in the module tree than in the folders.
    let is_module = |path: &imports::Path| {
        path.has_crate || MODULES.iter().any(|row| row.0 == path.segments[0])
    };
    paths.filter(is_module).map(|path| (row_of(&path.segments), path.line)).collect()
}

fn import_direction(file: &str, text: &str) -> Findings {
    let Some(module) = module_of(file) else { return Findings::new() };
    let Some((_, allowed)) = MODULES.iter().find(|it| it.0 == module) else {
        return vec![format!("{file}: the module {module} has no row in MODULES")];
    };
    let used = modules_used(file, text).into_iter();
    used.filter(|(used, _)| *used != module && !allowed.contains(&used.as_str()))
        .map(|(used, line)| format!("{file}:{line}: {module} may not use {used}"))
        .collect()
}

#[test]
fn imports_go_one_way() {
    expect_none(
        rust_files("src").iter().flat_map(|(file, text)| import_direction(file, text)).collect(),
    );
}

#[test]
fn table_is_in_the_order_of_the_library() {
    let tokens = tokens(&text(Path::new("src/lib.rs")));
    let declared = tokens.windows(2).filter(|it| it[0].text == "mod").map(|it| it[1].text.as_str());
    let rows: Vec<&str> = MODULES.iter().map(|it| it.0).collect();
    let rooms = rows.iter().copied().filter(|row| !row.contains("::"));
    assert_eq!(declared.collect::<Vec<_>>(), rooms.collect::<Vec<_>>());
    for (place, (module, allowed)) in MODULES.iter().enumerate() {
        for other in *allowed {
            assert!(
                rows[..place].contains(other),
                "{module} uses {other}, which is a later module"
            );
        }
    }
}

#[test]
fn import_rule_can_fail() {
    let rule = |text: &str| import_direction("src/record/parse.rs", text);
    check_rule(rule, "use crate::event::Event;", "use crate::units::{Pid, Tid};");
    check_rule(
        rule,
        "use crate::{\n    units::Pid,\n    event,\n};",
        "use crate::{units::{event, Pid}, record};",
    );
    check_rule(rule, "use super::super::event;", "use super::abi; use super::super::record;");
    check_rule(
        rule,
        "mod tests { use super::super::super::merge; }",
        "mod tests { use super::super::abi; }",
    );
    check_rule(
        rule,
        "fn f() { crate::merge::go() }",
        "fn f() { /* crate::merge */ \"crate::merge\"; }",
    );
    check_rule(rule, "use crate::*;", "pub(crate) fn f() {}");
    check_rule(
        |text| import_direction("src/merge/mod.rs", text),
        "use super::record;",
        "use super::units;",
    );
    check_rule(
        |text| import_direction("src/pipeline.rs", text),
        "use super::cli;",
        "use crate::merge;",
    );
    check_rule(
        |text| import_direction("src/replay/plan/locks.rs", text),
        "use super::super::execute::run; use crate::sys::clock;",
        "use super::handles; use crate::replay::plan::namespace::FileId;",
    );
    check_rule(
        |text| import_direction("src/replay/execute/mod.rs", text),
        "use crate::replay::fio::Logs;",
        "use super::{comparison, plan::locks}; use crate::sys::clock;",
    );
    assert!(!import_direction("src/new.rs", "").is_empty(), "a module without a row");
}

// --- Unsafe code, memory orderings, clocks ---

/// The lines on which the code has a row of words.
fn lines_of(text: &str, words: &[&str]) -> Vec<usize> {
    let tokens = tokens(text);
    let found = tokens
        .windows(words.len())
        .filter(|it| it.iter().zip(words).all(|(token, word)| token.text == *word));
    found.filter_map(|it| it.first()).map(|it| it.line).collect()
}

fn unsafe_only_at_the_boundary(file: &str, text: &str) -> Findings {
    if file.starts_with("src/sys/") || file.starts_with("otf2-bindings/") {
        return Findings::new();
    }
    lines_of(text, &["unsafe"])
        .iter()
        .map(|line| format!("{file}:{line}: unsafe code outside src/sys"))
        .collect()
}

/// Each `unsafe { … }` has its reason above the statement that it is in.
fn safety_comments(file: &str, text: &str) -> Findings {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let ends_before = |line: &&&str| {
        line.is_empty() || line.ends_with([';', '{', '}']) && !line.starts_with("//")
    };
    let has_reason = |line: usize| {
        let above = lines.get(..line - 1).unwrap_or_default().iter().rev();
        above.take_while(|it| !ends_before(it)).any(|it| it.starts_with("// SAFETY:"))
    };
    let blocks = lines_of(text, &["unsafe", "{"]).into_iter();
    blocks
        .filter(|&it| !has_reason(it))
        .map(|it| format!("{file}:{it}: unsafe without a SAFETY comment"))
        .collect()
}

/// Each use of a memory ordering has a comment: its counterpart, or that nothing depends on it.
fn ordering_comments(file: &str, text: &str) -> Findings {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let has_reason = |line: usize| {
        let above =
            lines.get(line.saturating_sub(ORDERING_LINES + 1)..line - 1).unwrap_or_default();
        above.iter().any(|it| it.starts_with("// ORDERING:"))
    };
    let uses = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"]
        .iter()
        .flat_map(|it| lines_of(text, &["Ordering", ":", ":", it]));
    uses.filter(|&it| !has_reason(it))
        .map(|it| format!("{file}:{it}: a memory ordering without its reason"))
        .collect()
}

fn one_clock(file: &str, text: &str) -> Findings {
    if file == "src/sys/clock.rs" {
        return Findings::new();
    }
    let asks: [&[&str]; 4] = [
        &["Instant", ":", ":", "now"],
        &["SystemTime", ":", ":", "now"],
        &["Timestamp", ":", ":", "now"],
        &["clock_gettime"],
    ];
    let lines = asks.iter().flat_map(|it| lines_of(text, it));
    lines.map(|it| format!("{file}:{it}: time comes from sys::clock")).collect()
}

#[test]
fn unsafe_code_stays_at_the_boundary_and_has_reasons() {
    let mut files = rust_files("src");
    for folder in ["tests", "benches", "examples", "otf2-bindings"] {
        files.extend(rust_files(folder));
    }
    expect_none(
        files.iter().flat_map(|(file, text)| unsafe_only_at_the_boundary(file, text)).collect(),
    );
    expect_none(files.iter().flat_map(|(file, text)| safety_comments(file, text)).collect());
    check_rule(
        |it| unsafe_only_at_the_boundary("src/a.rs", it),
        "fn f() { unsafe { g() } }",
        "// unsafe\n\"unsafe\"",
    );
    check_rule(
        |it| safety_comments("src/a.rs", it),
        "f();\nunsafe { g() };",
        "f();\n// SAFETY: g.\nlet a =\nunsafe { g() };",
    );
    check_rule(
        |it| safety_comments("src/a.rs", it),
        "// SAFETY: f.\nunsafe { f() };\nunsafe { g() };",
        "unsafe fn f() {}",
    );
}

#[test]
fn memory_orderings_have_reasons() {
    let files = rust_files("src");
    expect_none(files.iter().flat_map(|(file, text)| ordering_comments(file, text)).collect());
    let far =
        format!("// ORDERING: far.\n{}a.load(Ordering::Acquire);", "\n".repeat(ORDERING_LINES));
    let near = "// ORDERING: near.\na.load(Ordering::Acquire);\nmatch Ordering::Less {}";
    check_rule(|it| ordering_comments("src/a.rs", it), &far, near);
}

#[test]
fn one_place_asks_the_time() {
    let files = rust_files("src");
    expect_none(files.iter().flat_map(|(file, text)| one_clock(file, text)).collect());
    check_rule(
        |it| one_clock("src/a.rs", it),
        "let a = std::time::Instant::now();",
        "// Instant::now()\nlet a: Instant;",
    );
    check_rule(|it| one_clock("src/sys/b.rs", it), "nix::time::clock_gettime(id)", "clock::now()");
}

// --- Files ---

fn length(file: &str, text: &str) -> Findings {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        vec![format!("{file}: {lines} lines, more than {LINES_MAX}")]
    } else {
        Findings::new()
    }
}

#[test]
fn source_files_are_short() {
    expect_none(rust_files("src").iter().flat_map(|(file, text)| length(file, text)).collect());
    check_rule(|it| length("src/a.rs", it), &"\n".repeat(LINES_MAX + 1), &"\n".repeat(LINES_MAX));
}

/// Each line of a dependency table ends with the reason why the dependency is there.
fn dependency_reasons(file: &str, text: &str) -> Findings {
    let mut in_table = false;
    let mut findings = Findings::new();
    for (number, line) in text.lines().map(str::trim).enumerate() {
        if line.starts_with('[') {
            in_table = line.trim_end_matches(']').ends_with("dependencies");
        } else if in_table && line.contains('=') && !line.starts_with('#') {
            let reason = line.rsplit_once(" # ").map_or("", |it| it.1);
            if reason.trim().is_empty() || reason.contains('"') {
                findings.push(format!("{file}:{}: a dependency without its reason", number + 1));
            }
        }
    }
    findings
}

#[test]
fn dependencies_have_reasons() {
    let manifests = ["Cargo.toml", "otf2-bindings/Cargo.toml"];
    expect_none(
        manifests.iter().flat_map(|it| dependency_reasons(it, &text(Path::new(it)))).collect(),
    );
    let rule = |text: &str| dependency_reasons("Cargo.toml", text);
    check_rule(
        rule,
        "[dependencies]\nlibc = \"0.2\"",
        "[dependencies]\nlibc = \"0.2\" # constants\n[lib]\nname = \"a\"",
    );
    check_rule(rule, "[dev-dependencies]\na = { path = \" # no\" }", "# a = 1\n[features]\na = []");
}

/// Words for "not finished". Joined here, so that this file has none of them.
fn unfinished_words() -> [String; 5] {
    [["TO", "DO"], ["FIX", "ME"], ["X", "XX"], ["to", "do!"], ["unimpl", "emented!"]]
        .map(|it| it.concat())
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '_');
    line.match_indices(word).any(|(at, _)| {
        !is_part(line[..at].chars().next_back()) && !is_part(line[at + word.len()..].chars().next())
    })
}

fn unfinished(file: &str, text: &str) -> Findings {
    let words = unfinished_words();
    let found =
        text.lines().enumerate().filter(|(_, line)| words.iter().any(|word| has_word(line, word)));
    found.map(|(number, line)| format!("{file}:{}: {}", number + 1, line.trim())).collect()
}

/// An ignored test never runs, unless its reason names the test that starts it in a process of its
/// own.
fn ignored_tests(file: &str, text: &str) -> Findings {
    let attribute = ["#[ig", "nore"].concat();
    let mut findings = Findings::new();
    for (number, line) in
        text.lines().enumerate().filter(|it| it.1.trim_start().starts_with(&attribute))
    {
        let runner = line
            .split_once("\"run by ")
            .and_then(|it| it.1.split_once('"'))
            .map(|it| format!("fn {}(", it.0));
        if !runner.is_some_and(|it| text.contains(&it)) {
            findings.push(format!("{file}:{}: a test that is never run", number + 1));
        }
    }
    findings
}

/// Places that only one developer's machine has. Joined here, so that this file has none of them.
fn machine_paths(file: &str, text: &str) -> Findings {
    let places = [["/wo", "rk/"], ["/ho", "me/"], ["/ro", "ot/"]].map(|it| it.concat());
    let found =
        text.lines().enumerate().filter(|(_, line)| places.iter().any(|it| line.contains(it)));
    found
        .map(|(number, line)| {
            format!("{file}:{}: a path of one machine: {}", number + 1, line.trim())
        })
        .collect()
}

/// Everything that people wrote.
fn written_files() -> Vec<(String, String)> {
    let endings = ["rs", "toml", "md", "yml", "yaml", "txt", ""];
    let all = files_below(".")
        .into_iter()
        .map(|it| it.strip_prefix("./").map_or(it.clone(), Path::to_owned));
    let written = all.filter(|it| {
        let ending = it.extension().and_then(|it| it.to_str()).unwrap_or("");
        endings.contains(&ending) && !it.ends_with("Cargo.lock")
    });
    written.map(|it| (it.to_string_lossy().into_owned(), text(&it))).collect()
}

#[test]
fn nothing_is_unfinished_and_nothing_is_of_one_machine() {
    let files = written_files();
    let names: BTreeSet<&str> = files.iter().map(|it| it.0.as_str()).collect();
    for expected in [
        "Cargo.toml",
        "src/lib.rs",
        "tests/tidy.rs",
        "otf2-bindings/src/lib.rs",
        "scripts/capture-formats",
    ] {
        assert!(names.contains(expected), "{expected} is not looked at");
    }
    expect_none(files.iter().flat_map(|(file, text)| unfinished(file, text)).collect());
    expect_none(files.iter().flat_map(|(file, text)| ignored_tests(file, text)).collect());
    expect_none(files.iter().flat_map(|(file, text)| machine_paths(file, text)).collect());
    for word in unfinished_words() {
        check_rule(
            |it| unfinished("a.rs", it),
            &format!("// {word}: later"),
            &format!("// a{word}b"),
        );
    }
    let ignored = ["#[ig", "nore = \"run by parent\"]\nfn child() {}"].concat();
    check_rule(|it| ignored_tests("a.rs", it), &ignored, &format!("fn parent() {{}}\n{ignored}"));
    check_rule(|it| machine_paths("a.rs", it), &["\"/ho", "me/me\""].concat(), "\"/tmp/a\"");
}
