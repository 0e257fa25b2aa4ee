//! The book builds, its links lead somewhere, and its reference of verbs and options is that of
//! `--help`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{root, skipped};

// --- The built book ---

/// The program mdbook, which cargo installs beside others; `None` if it is not there.
fn mdbook() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let own = [cargo, home].into_iter().flatten().map(|folder| folder.join("bin"));
    let mut folders = std::env::split_paths(&path).chain(own);
    folders.find_map(|folder| Some(folder.join("mdbook")).filter(|program| program.is_file()))
}

/// The values of an attribute in a page.
fn attributes<'a>(page: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    page.split(&format!(" {name}=\""))
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect::<Vec<_>>()
        .into_iter()
}

/// Links of the pages to files and anchors that the book does not have.
fn dead_links(book: &Path, pages: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let anchors: BTreeMap<&PathBuf, BTreeSet<&str>> =
        pages.iter().map(|(file, page)| (file, attributes(page, "id").collect())).collect();
    let mut dead = Vec::new();
    for (file, page) in pages {
        let folder = file.parent().expect("a page is in a folder");
        for target in attributes(page, "href") {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let linked = if path.is_empty() { file.clone() } else { folder.join(path) };
            let Ok(linked) = fs::canonicalize(&linked) else {
                dead.push(format!("{}: no such file: {target}", file.display()));
                continue;
            };
            let has_anchor = || anchors.get(&linked).is_some_and(|known| known.contains(anchor));
            if !linked.starts_with(book) || !(anchor.is_empty() || has_anchor()) {
                dead.push(format!("{}: no such place in the book: {target}", file.display()));
            }
        }
    }
    dead
}

/// The pages of a built book. Left out are those that repeat others: the one for printing, and the
/// one for addresses that do not exist, whose links begin at the root of a server.
fn built_pages(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).expect("a folder of the book") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            built_pages(&path, pages);
        } else if name.ends_with(".html")
            && !["print.html", "404.html", "toc.html"].contains(&&*name)
        {
            let page = fs::read_to_string(&path).expect("UTF-8");
            pages.insert(path, page);
        }
    }
}

#[test]
fn book_builds_and_its_links_lead_to_pages_and_headings() {
    let Some(mdbook) = mdbook() else {
        let reason = "mdbook is not there: scripts/setup installs it";
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "cannot run in CI: {reason}");
        return skipped(reason);
    };
    let book = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book");
    drop(fs::remove_dir_all(&book));
    let build = Command::new(mdbook).arg("build").arg(root()).arg("-d").arg(&book).output();
    let build = build.expect("mdbook starts");
    let messages = String::from_utf8_lossy(&build.stderr).into_owned();
    let warned = messages.contains("WARN") || messages.contains("ERROR");
    assert!(build.status.success() && !warned, "{messages}");

    let book = fs::canonicalize(book).expect("it is built");
    let mut pages = BTreeMap::new();
    built_pages(&book, &mut pages);
    let listed = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the list of pages");
    assert_eq!(pages.len(), listed.matches(".md)").count(), "pages of the book");
    let dead = dead_links(&book, &pages);
    assert!(dead.is_empty(), "\n{}", dead.join("\n"));

    // Each kind of dead link is found.
    let index = book.join("index.html");
    for target in ["none.html", "#no-such-heading", "limitations.html#no-such-heading"] {
        let page = BTreeMap::from([(index.clone(), format!("<a href=\"{target}\">"))]);
        assert_eq!(dead_links(&book, &page).len(), 1, "{target}");
    }
}

// --- Verbs and options ---

/// Verbs below these words, and the long options of each of them, as `-h` lists them.
fn listed(words: &[String], found: &mut BTreeMap<String, BTreeSet<String>>) {
    let mut help = Command::new(env!("CARGO_BIN_EXE_iotrace-perf"));
    let help = help.args(words).arg("-h").output().expect("the program starts");
    let text = String::from_utf8(help.stdout).expect("UTF-8");
    let mut is_of_verbs = false;
    let options = found.entry(words.join(" ")).or_default();
    let mut verbs = Vec::new();
    for line in text.lines() {
        if !line.starts_with(' ') && line.ends_with(':') {
            // The first help has the verbs in groups with headings of their own.
            let is_other = line.starts_with("Options") || line == "Examples:";
            is_of_verbs = line == "Commands:" || words.is_empty() && !is_other;
        }
        let mut first = line.split_whitespace();
        match first.next() {
            Some(word) if word.starts_with("--") => drop(options.insert(word.to_owned())),
            Some(word) if word.starts_with('-') => {
                options
                    .extend(first.next().filter(|word| word.starts_with("--")).map(str::to_owned));
            }
            Some(word) if is_of_verbs && is_entry(line) && word != "help" => {
                verbs.push(word.to_owned());
            }
            _ => {}
        }
    }
    for verb in verbs {
        listed(&[words, &[verb]].concat(), found);
    }
}

/// True for the first line about a verb: the others are indented more.
fn is_entry(line: &str) -> bool {
    line.strip_prefix("  ").is_some_and(|line| !line.starts_with(' '))
}

#[test]
fn reference_lists_all_verbs_and_options() {
    let mut found = BTreeMap::new();
    listed(&[], &mut found);
    assert!(found.len() > 25, "only {} verbs", found.len());
    let page = fs::read_to_string(root().join("docs/reference/options.md")).expect("the page");
    let readme = fs::read_to_string(root().join("README.md")).expect("the page");
    let has = |page: &str, word: &str| {
        page.split('`').skip(1).step_by(2).any(|span| span.split([' ', '[']).next() == Some(word))
    };
    let mut missing = Vec::new();
    for (verb, options) in &found {
        // `replay plan` as it is, of `ctl` its own verbs.
        let is_there = verb.is_empty()
            || page.contains(&format!("`{verb}"))
            || verb.rsplit(' ').next().is_some_and(|last| has(&page, last));
        if !is_there {
            missing.push(format!("verb {verb}"));
        }
        if !verb.is_empty() && !verb.contains(' ') && !readme.contains(&format!("`{verb}`")) {
            missing.push(format!("verb {verb} in README.md"));
        }
        let unknown = options.iter().filter(|option| *option != "--help" && !has(&page, option));
        missing.extend(unknown.map(|option| format!("option {option} of {verb}")));
    }
    assert!(missing.is_empty(), "not in docs/reference/options.md:\n{}", missing.join("\n"));

    // Options of the page that no verb has.
    let all: BTreeSet<&String> = found.values().flatten().collect();
    let spans = page.split('`').skip(1).step_by(2);
    let named = spans.filter_map(|span| span.split([' ', '[']).next());
    let mut gone = named.filter(|word| word.starts_with("--") && word.len() > 2);
    let is_known = |word: &str| word == "--help" || all.contains(&word.to_owned());
    assert_eq!(gone.find(|word| !is_known(word)), None, "no verb has this option");
}
