//! The code blocks of README.md and the book: each is run, compared, or marked with the reason why
//! not.
//!
//! A comment right above a block marks it, `<!-- block: MARK -->`:
//!
//! | Mark | Meaning |
//! |---|---|
//! | none | commands; the outputs of those that read a log are compared exactly |
//! | `log NAME` | commands that record and report at once: the report is that of the log NAME |
//! | `output of COMMAND` | output only, compared exactly with that of the command |
//! | `any order` | each line is somewhere in the block's outputs here, with any numbers |
//! | `runs only: REASON` | the commands have to succeed; their output is not compared |
//! | `not run: REASON` | neither run nor compared |
//! | `no command: REASON` | a drawing or a format |
//!
//! In a block with lines that begin with `$ `, these are commands and the others output; `…` stands
//! for any number of lines. A block without such lines is a script. Two tests run them:
//!
//! - Commands without `sudo` read the logs of `tests/documents/logs`, as `NAME/traces.iocap`: the
//!   same on every machine. Their standard output is compared. With `UPDATE_EXPECT=1` it is written
//!   into the documents, where numbers or some words differ.
//! - All commands of a page are run in a row on this machine, in a directory with the files that
//!   `tests/documents/programs.sh` makes. They have to succeed. Outputs are compared where a mark
//!   says so.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;

#[path = "documents/book.rs"]
mod book;
#[path = "documents/compare.rs"]
mod compare;
#[path = "documents/page_directory.rs"]
mod page_directory;

use compare::{aligned, alike, most_alike, shape};
use page_directory::{Errors, PageDirectory};

/// A line that means any number of lines.
const ANY_LINES: &str = "…";

#[derive(Clone, Debug, PartialEq, Eq)]
enum Mark {
    /// Reading commands are compared with the checked-in logs.
    Exact,
    /// A recording command's report is that of a checked-in log.
    Log(String),
    /// The whole block is the output of this command.
    OutputOf(String),
    /// Compared after a run on this machine, with any numbers, without an order of lines.
    AnyOrder,
    /// Run on this machine, not compared.
    RunsOnly(String),
    /// Neither run nor compared.
    NotRun(String),
    /// A drawing or a format.
    NoCommand(String),
}

/// A command of a block with its documented output.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    /// Number of the first line in the document, from 0.
    line: usize,
    command: String,
    /// Line numbers in the document and lines.
    output: Vec<(usize, String)>,
}

#[derive(Clone, Debug)]
struct Block {
    page: String,
    /// Number of its first fence, from 1.
    line: usize,
    mark: Mark,
    steps: Vec<Step>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

// --- Reading the documents ---

/// README.md and the pages of the book, by their paths.
fn pages() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().join("docs")];
    let mut files = vec![root().join("README.md")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the book") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }
    for file in files {
        let name = file.strip_prefix(root()).expect("below it").to_string_lossy().into_owned();
        found.insert(name, fs::read_to_string(&file).expect("UTF-8"));
    }
    found
}

/// The mark of a comment line; `None` for other lines and unknown words.
fn mark(line: &str) -> Option<Mark> {
    let inside = line.trim().strip_prefix("<!-- block: ")?.strip_suffix(" -->")?;
    let reason = |word: &str| {
        let text = inside.strip_prefix(word)?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    match inside {
        "any order" => Some(Mark::AnyOrder),
        _ => reason("log ")
            .map(Mark::Log)
            .or_else(|| reason("output of ").map(Mark::OutputOf))
            .or_else(|| reason("runs only: ").map(Mark::RunsOnly))
            .or_else(|| reason("not run: ").map(Mark::NotRun))
            .or_else(|| reason("no command: ").map(Mark::NoCommand)),
    }
}

/// Whether a shell needs no further line for this command.
fn is_whole(command: &str) -> bool {
    let checked = Command::new("bash").args(["-n", "-c", command]).output();
    !command.ends_with('\\') && checked.expect("bash starts").status.success()
}

/// The commands of a block with their outputs.
fn steps(lines: &[(usize, &str)], mark: &Mark) -> Vec<Step> {
    let owned = |lines: &[(usize, &str)]| -> Vec<(usize, String)> {
        lines.iter().map(|(number, line)| (*number, (*line).to_owned())).collect()
    };
    let Some((first, _)) = lines.first() else { return Vec::new() };
    if let Mark::OutputOf(command) = mark {
        return vec![Step { line: *first, command: command.clone(), output: owned(lines) }];
    }
    if !lines.iter().any(|(_, line)| line.starts_with("$ ")) {
        let command = lines.iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
        return vec![Step { line: *first, command, output: Vec::new() }];
    }
    let mut found: Vec<Step> = Vec::new();
    let mut is_open = false;
    for (number, line) in lines {
        if let (true, Some(step)) = (is_open, found.last_mut()) {
            step.command = format!("{}\n{line}", step.command);
            is_open = !is_whole(&step.command);
        } else if let Some(command) = line.strip_prefix("$ ") {
            let command = command.to_owned();
            is_open = !is_whole(&command);
            found.push(Step { line: *number, command, output: Vec::new() });
        } else if let Some(step) = found.last_mut() {
            step.output.push((*number, (*line).to_owned()));
        }
    }
    found
}

fn blocks(page: &str, text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut open: Option<usize> = None;
    for (number, line) in lines.iter().enumerate() {
        if !line.trim_start().starts_with("```") {
            continue;
        }
        let Some(fence) = open.take() else {
            open = Some(number);
            continue;
        };
        let above = fence.checked_sub(1).and_then(|above| mark(lines[above]));
        let mark = above.unwrap_or(Mark::Exact);
        let inside: Vec<(usize, &str)> =
            (fence + 1..number).map(|inner| (inner, lines[inner])).collect();
        let steps = match mark {
            Mark::NotRun(_) | Mark::NoCommand(_) => Vec::new(),
            _ => steps(&inside, &mark),
        };
        found.push(Block { page: page.to_owned(), line: fence + 1, mark, steps });
    }
    found
}

fn all_blocks() -> Vec<Block> {
    pages().iter().flat_map(|(page, text)| blocks(page, text)).collect()
}

// --- Running ---

/// Whether a page only reads the logs: then its commands are not run on this machine.
fn only_reads(blocks: &[Block]) -> bool {
    let is_read = |step: &Step| !step.command.contains("sudo ");
    blocks.iter().all(|block| match block.mark {
        Mark::Exact | Mark::OutputOf(_) => block.steps.iter().all(is_read),
        _ => block.steps.is_empty(),
    })
}

/// The command that reads the checked-in logs for this step, if one does. A script without output
/// is run on this machine, except that of a page that only reads.
fn command_of_logs(block: &Block, step: &Step, page_only_reads: bool) -> Option<String> {
    let is_script = step.output.is_empty() && block.steps.len() == 1;
    if is_script && !page_only_reads {
        return None;
    }
    match &block.mark {
        Mark::Exact if !step.command.contains("sudo ") => Some(step.command.clone()),
        Mark::OutputOf(command) => Some(command.clone()),
        Mark::Log(name) => of_log(&step.command, name),
        _ => None,
    }
}

/// Whether the steps of a block are run on this machine.
fn runs_here(block: &Block, page_only_reads: bool) -> bool {
    !page_only_reads && !matches!(block.mark, Mark::OutputOf(_))
}

/// Blocks that neither test runs, without the mark for that.
fn never_run(page: &str, blocks: &[Block]) -> Vec<String> {
    let page_only_reads = only_reads(blocks);
    let is_marked = |block: &Block| matches!(block.mark, Mark::NotRun(_) | Mark::NoCommand(_));
    let is_run = |block: &Block, step: &Step| {
        runs_here(block, page_only_reads) || command_of_logs(block, step, page_only_reads).is_some()
    };
    let left_out = blocks.iter().filter(|block| {
        let all_run = block.steps.iter().all(|step| is_run(block, step));
        !is_marked(block) && (block.steps.is_empty() || !all_run)
    });
    left_out.map(|block| format!("{page}:{}: run by neither test", block.line)).collect()
}

/// The command that prints from a log what a recording command prints of its own recording.
fn of_log(command: &str, name: &str) -> Option<String> {
    let (options, _) = command.strip_prefix("sudo ")?.split_once(" -- ")?;
    Some(format!("{options} {name}/traces.iocap"))
}

// --- Comparing ---

/// Returns a documented output beside that of a run if they differ.
fn difference(block: &Block, step: &Step, printed: &[String]) -> Option<String> {
    let documented: Vec<String> = step.output.iter().map(|(_, line)| line.clone()).collect();
    let is_equal = if block.mark == Mark::AnyOrder {
        let shapes: Vec<String> = printed.iter().map(|line| shape(line)).collect();
        let mut lines = documented.iter().filter(|line| *line != ANY_LINES);
        lines.all(|line| shapes.contains(&shape(line)))
    } else {
        aligned(&documented, printed, |one, other| one == other).is_some()
    };
    let shown = |lines: &[String]| -> String {
        lines.iter().take(60).map(|line| format!("    {line}\n")).collect()
    };
    (!is_equal).then(|| {
        format!(
            "{}:{}: $ {}\n  documented:\n{}  printed:\n{}",
            block.page,
            step.line + 1,
            step.command,
            shown(&documented),
            shown(printed)
        )
    })
}

/// The documented lines as they were printed, by line numbers.
fn updated(step: &Step, printed: &[String]) -> Option<BTreeMap<usize, String>> {
    let documented: Vec<String> = step.output.iter().map(|(_, line)| line.clone()).collect();
    let found = aligned(&documented, printed, |one, other| shape(one) == shape(other))
        .or_else(|| alike(&documented, printed))?;
    let lines = step.output.iter().zip(found);
    Some(lines.filter_map(|((number, _), at)| Some((*number, printed[at?].clone()))).collect())
}

/// Documented lines that were not printed, with the printed ones that are most like them.
fn reworded(step: &Step, printed: &[String]) -> BTreeMap<usize, String> {
    let shapes: Vec<String> = printed.iter().map(|line| shape(line)).collect();
    let missing = step.output.iter().filter(|(_, line)| !shapes.contains(&shape(line)));
    let lines = missing.filter(|(_, line)| line != ANY_LINES);
    lines.filter_map(|(number, line)| Some((*number, most_alike(line, printed)?.clone()))).collect()
}

/// Puts these lines into a document, by their numbers.
fn rewrite(page: &str, changed: &BTreeMap<usize, String>) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    if changed.is_empty() {
        return;
    }
    let file = root().join(page);
    let text = fs::read_to_string(&file).expect("UTF-8");
    let lines = text.lines().enumerate();
    let lines = lines.map(|(number, line)| changed.get(&number).map_or(line, String::as_str));
    let lines: Vec<&str> = lines.collect();
    fs::write(&file, lines.join("\n") + "\n").expect("a document");
}

// --- What a machine needs ---

/// Whether the machine has what the commands need; otherwise the reason is printed. In CI all of it
/// has to be there.
fn can_run(needs_recording: bool) -> bool {
    let has = |program: &str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        found.is_ok_and(|output: Output| output.status.success())
    };
    let programs =
        ["bash", "timeout", "jq", "sqlite3", "fio", "otf2-print", "make", "cc", "strace"];
    let mut missing: Vec<String> =
        programs.iter().filter(|program| !has(program)).map(ToString::to_string).collect();
    if needs_recording {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let user = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        if user.and_then(|ids| ids.split_whitespace().nth(1)) != Some("0") {
            missing.push("root".to_owned());
        }
        if fs::read_dir("/sys/kernel/tracing/events").is_err() {
            missing.push("a readable tracing file system".to_owned());
        }
    }
    if missing.is_empty() {
        return true;
    }
    let reason = format!("not there: {}", missing.join(", "));
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "cannot run in CI: {reason}");
    skipped(&reason);
    false
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}

// --- The tests ---

/// Lists how each block is tested, and fails for a mark that is misspelt or without a reason, and
/// for a block that shows output without a command.
#[test]
#[expect(clippy::print_stdout, reason = "the list of blocks that are not run")]
fn every_block_is_run_or_marked() {
    let mut wrong = Vec::new();
    for (page, text) in pages() {
        for (number, line) in text.lines().enumerate() {
            if line.contains("<!-- block:") && mark(line).is_none() {
                wrong.push(format!("{page}:{}: unknown mark: {line}", number + 1));
            }
        }
    }
    for (page, text) in pages() {
        wrong.extend(never_run(&page, &blocks(&page, &text)));
    }
    for block in all_blocks() {
        let place = format!("{}:{}", block.page, block.line);
        match &block.mark {
            Mark::NotRun(reason) => println!("{place}: not run: {reason}"),
            Mark::NoCommand(reason) => println!("{place}: no command: {reason}"),
            Mark::RunsOnly(reason) => println!("{place}: not compared: {reason}"),
            Mark::Log(_) if !block.steps.iter().all(|step| of_log(&step.command, "").is_some()) => {
                wrong.push(format!("{place}: `log` is for commands like: sudo … -- PROGRAM"));
            }
            _ => {}
        }
        // A script has no output; a step of another block has one where `$ ` begins its command.
        let is_script = block.steps.iter().all(|step| step.output.is_empty());
        if block.mark == Mark::Exact && is_script {
            for step in &block.steps {
                if !is_whole(&step.command) {
                    wrong.push(format!("{place}: neither commands nor a marked block"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn reports_of_the_logs_are_those_in_the_documents() {
    if !can_run(false) {
        return;
    }
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (page, text) in pages() {
        let place = PageDirectory::new("reports", &page);
        place.put_logs("");
        let mut changed = BTreeMap::new();
        let blocks = blocks(&page, &text);
        let page_only_reads = only_reads(&blocks);
        for block in &blocks {
            for step in &block.steps {
                let Some(command) = command_of_logs(block, step, page_only_reads) else {
                    continue;
                };
                if !place.run(0, &command, Errors::Apart) {
                    wrong.push(format!(
                        "{page}:{}: failed: {command}\n{}",
                        step.line + 1,
                        fs::read_to_string(place.folder.join("errors")).unwrap_or_default()
                    ));
                    continue;
                }
                if step.output.is_empty() {
                    continue;
                }
                let printed = place.printed(0);
                compared += 1;
                if update && let Some(new) = updated(step, &printed) {
                    changed.extend(new);
                } else {
                    wrong.extend(difference(block, step, &printed));
                }
            }
        }
        rewrite(&page, &changed);
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(compared > 15, "only {compared} outputs were compared");
}

#[test]
fn commands_of_the_documents_run_on_this_machine() {
    if !can_run(true) {
        return;
    }
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut wrong = Vec::new();
    let mut run = 0;
    for (page, text) in pages() {
        let blocks = blocks(&page, &text);
        // The other test runs pages that only read the logs.
        let page_only_reads = only_reads(&blocks);
        if page_only_reads {
            continue;
        }
        let mut changed = BTreeMap::new();
        let place = PageDirectory::new("commands", &page);
        place.put_logs(&text);
        let programs = root().join("tests/documents/programs.sh");
        assert!(
            place.run(0, &programs.to_string_lossy(), Errors::InOutput),
            "{}",
            place.printed(0).join("\n")
        );
        for block in &blocks {
            if !runs_here(block, page_only_reads) {
                continue;
            }
            for (number, step) in block.steps.iter().enumerate() {
                run += 1;
                if !place.run(number, &step.command, Errors::InOutput) {
                    wrong.push(format!(
                        "{page}:{}: failed: {}\n{}",
                        step.line + 1,
                        step.command,
                        place.printed(number).join("\n")
                    ));
                }
            }
            // Only now: a program in the background goes on to print.
            let numbers = 0..block.steps.len();
            let printed: Vec<String> = numbers.flat_map(|number| place.printed(number)).collect();
            let with_output = block.steps.iter().filter(|step| !step.output.is_empty());
            if block.mark != Mark::AnyOrder {
                continue;
            }
            for step in with_output {
                let found = difference(block, step, &printed);
                if found.is_some() && update {
                    changed.extend(reworded(step, &printed));
                } else {
                    wrong.extend(found);
                }
            }
        }
        rewrite(&page, &changed);
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(run > 30, "only {run} commands were run");
}

#[test]
fn script_of_page_that_only_reads_is_run() {
    let script = "```\na b/traces.iocap\n```\n";
    let found = blocks("p.md", script);
    assert!(only_reads(&found) && !runs_here(&found[0], true));
    assert_eq!(
        command_of_logs(&found[0], &found[0].steps[0], true).as_deref(),
        Some("a b/traces.iocap")
    );
    assert_eq!(never_run("p.md", &found), Vec::<String>::new());
    let recorded = blocks("p.md", &format!("{script}```\nsudo a -- b\n```\n"));
    assert!(!only_reads(&recorded) && runs_here(&recorded[0], false));
    assert_eq!(command_of_logs(&recorded[0], &recorded[0].steps[0], false), None);
    assert_eq!(never_run("p.md", &recorded), Vec::<String>::new());
    let empty = blocks("p.md", "```\n```\n");
    assert_eq!(never_run("p.md", &empty), ["p.md:1: run by neither test"]);
}

#[test]
fn marks_and_commands_are_read_from_a_page() {
    let page = "a\n<!-- block: log sq -->\n```\n$ sudo a -n 3 -- b\n…\nc\n```\n\n```\n$ x |\n    y\nz\n```\n\
                <!-- block: not run: d -->\n```\ne\n```\n```\nf\ng\n```\n";
    let found = blocks("p.md", page);
    let commands: Vec<Vec<&str>> = found
        .iter()
        .map(|block| block.steps.iter().map(|step| step.command.as_str()).collect())
        .collect();
    assert_eq!(commands, [vec!["sudo a -n 3 -- b"], vec!["x |\n    y"], vec![], vec!["f\ng"]]);
    assert_eq!(found[0].mark, Mark::Log("sq".to_owned()));
    assert_eq!(found[0].steps[0].output, [(4, "…".to_owned()), (5, "c".to_owned())]);
    assert_eq!(found[2].mark, Mark::NotRun("d".to_owned()));
    assert_eq!(of_log("sudo a -n 3 -- b", "sq").as_deref(), Some("a -n 3 sq/traces.iocap"));
    for wrong in ["<!-- block: not run: -->", "<!-- block: notrun: a -->", "<!-- block: -->"] {
        assert_eq!(mark(wrong), None, "{wrong}");
    }
}
