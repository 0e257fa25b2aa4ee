//! Report of `advise`: findings, where they are, the order of events that proves them, and what was
//! not judged.

use std::collections::BTreeMap;

use super::file_rows::{file_cells, file_columns};
use super::rows::{column, key_column};
use crate::analysis::advice::finding::{
    Advice, AdviceAmount, AdviceFinding, AdvicePlace, AdviceProof, NotJudged, PLACES_MAX,
    ProofEvent,
};
use crate::analysis::advice::rule::{AdviceRule, Severity};
use crate::analysis::advice::rule_table::RULES;
use crate::analysis::summary::KeyParts;
use crate::text::errno::ErrnoName;
use crate::text::escape;
use crate::text::quantity::{counted, size, time};
use crate::text::table::{Cell, Report, Table};
use crate::units::KernelTime;

/// Number of places and proofs of a finding in text.
const SHOWN: usize = 3;

/// Options of the report.
#[derive(Clone, Copy, Debug)]
pub struct AdviceOptions<'a> {
    /// Log as commands name it.
    pub log: &'a str,
    /// Begin of the recording.
    pub start: KernelTime,
    /// True for a form for people: fewer places and proofs.
    pub is_text: bool,
    /// Number of places and proofs of a finding that the caller wants; 0: all; `None`: the default.
    pub rows: Option<usize>,
}

impl AdviceOptions<'_> {
    /// Returns the number of places and proofs of a finding.
    fn shown(self) -> usize {
        match self.rows {
            Some(0) => usize::MAX,
            Some(rows) => rows,
            None if self.is_text => SHOWN,
            None => usize::MAX,
        }
    }
}

/// Returns the report on a judged recording.
pub fn report(advice: &Advice, options: AdviceOptions<'_>) -> Report {
    let word = advice.worst().map_or(Cell::None, |worst| Cell::Word(worst.as_str().to_owned()));
    let mut report = Report {
        kind: "advise",
        facts: vec![
            ("judged", "rules judged", Cell::Count(advice.judged)),
            (
                "not_judged_count",
                "",
                Cell::Count(RULES.len() as u64 - advice.judged - advice.ignored),
            ),
            ("ignored", "", Cell::Count(advice.ignored)),
            ("worst", "most severe finding", word),
        ],
        tables: vec![
            findings(advice, options),
            places(advice, options),
            events(advice, options),
            not_judged(&advice.not_judged, options.is_text),
        ],
        ..Report::default()
    };
    if advice.findings.is_empty() {
        report.notes.push("no rule that was judged has a finding".to_owned());
    }
    if options.is_text || options.rows.is_some() {
        report.notes.extend(left_out(advice, options.shown()));
    }
    report
}

/// Returns the note on places and proofs that the text does not have.
fn left_out(advice: &Advice, limit: usize) -> Option<String> {
    // A finding keeps no more of them.
    let limit = limit.min(PLACES_MAX);
    let shown = |all: u64| all.saturating_sub(limit as u64);
    let places: u64 = advice.findings.iter().map(|finding| shown(finding.all_places)).sum();
    let has_proof = |finding: &&AdviceFinding| !finding.proofs.is_empty();
    let proven = advice.findings.iter().filter(has_proof);
    let proofs: u64 = proven.map(|finding| shown(finding.count)).sum();
    let counts = [(places, "place"), (proofs, "proof")];
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    let texts: Vec<String> = some.map(|(count, noun)| counted(count, noun)).collect();
    (!texts.is_empty()).then(|| {
        format!(
            "left out: {} beyond the first {limit} of a finding; up to {PLACES_MAX} of each: -n 0",
            texts.join(", ")
        )
    })
}

/// Returns the table of all rules.
pub fn rules() -> Report {
    let row = |rule: &AdviceRule| {
        let text = format!(
            "{} ({}): {}. When: {}. To do: {} Source: {}",
            rule.name,
            rule.severity.as_str(),
            rule.meaning,
            rule.threshold,
            rule.action,
            rule.source
        );
        let words = [
            rule.name,
            rule.severity.as_str(),
            rule.meaning,
            rule.threshold,
            rule.action,
            rule.command,
            rule.source,
        ];
        let words = words.map(|word| Cell::Word(word.to_owned()));
        words.into_iter().chain([Cell::Word(text)]).collect()
    };
    let columns = ["rule", "severity", "meaning", "threshold", "action", "command", "source"];
    let columns = columns.map(|key| column(key, "")).into_iter().chain([column("", "rule")]);
    Report {
        kind: "advise",
        tables: vec![Table {
            key: "rules",
            title: "Rules".into(),
            columns: columns.collect(),
            rows: RULES.iter().map(row).collect(),
        }],
        ..Report::default()
    }
}

fn findings(advice: &Advice, options: AdviceOptions<'_>) -> Table {
    let row = |finding: &AdviceFinding| {
        let rule = finding.rule.rule();
        let (text, command) = (sentence(finding), command(finding, options.log));
        let why = outcomes(finding);
        let why = if why.is_empty() { why } else { format!("\n  why: {why}") };
        let (action, source) = (rule.action, rule.source);
        let whole = format!("{text}{why}\n  do: {action}\n  see: {command}\n  source: {source}");
        vec![
            Cell::Word(rule.name.to_owned()),
            Cell::Word(finding.severity.as_str().to_owned()),
            Cell::Count(finding.count),
            Cell::Word(text),
            Cell::Word(rule.action.to_owned()),
            Cell::Word(command),
            Cell::Word(rule.source.to_owned()),
            Cell::Word(whole),
        ]
    };
    Table {
        key: "findings",
        title: "Findings".into(),
        columns: vec![
            column("finding", ""),
            column("severity", ""),
            column("count", ""),
            column("text", ""),
            column("action", ""),
            column("command", ""),
            column("source", ""),
            column("", "finding"),
        ],
        rows: advice.findings.iter().map(row).collect(),
    }
}

/// Returns the sentence of a finding: its rule, its numbers, and the first place.
pub(super) fn sentence(finding: &AdviceFinding) -> String {
    let rule = finding.rule.rule();
    let amounts: Vec<String> = finding.amounts.iter().map(amount).collect();
    let severity = finding.severity.as_str();
    let place = finding.places.first().map(|place| {
        let word = if finding.all_places > 1 { "; most: " } else { ": " };
        format!("{word}{}", place_text(place))
    });
    format!(
        "{severity} {}: {}: {}{}",
        rule.name,
        rule.meaning,
        amounts.join(", "),
        place.unwrap_or_default()
    )
}

/// Returns what the orders of events of a finding mean, each once.
fn outcomes(finding: &AdviceFinding) -> String {
    let mut texts: Vec<&str> = Vec::new();
    for proof in &finding.proofs {
        if !proof.outcome.is_empty() && !texts.contains(&proof.outcome) {
            texts.push(proof.outcome);
        }
    }
    texts.join("; ")
}

fn place_text(place: &AdvicePlace) -> String {
    let path = name(&place.key);
    match place.pid {
        Some(pid) if !place.comm.is_empty() => {
            format!("{path} ({}, process {pid})", name(&place.comm))
        }
        Some(pid) => format!("{path} (process {pid})"),
        None => path,
    }
}

fn name(key: &[u8]) -> String {
    let mut out = Vec::new();
    escape::shown(&mut out, KeyParts::of(key).path, b"");
    String::from_utf8_lossy(&out).into_owned()
}

fn amount(amount: &AdviceAmount) -> String {
    match amount {
        AdviceAmount::Count(number, noun) => plural(*number, noun),
        AdviceAmount::Bytes(bytes, what) => format!("{} {what}", size(*bytes)),
        AdviceAmount::Ns(ns, what) => format!("{} {what}", time(*ns)),
    }
}

/// Returns a count with its noun, whose first word is in the plural if it has others.
fn plural(number: u64, noun: &str) -> String {
    let (first, rest) =
        noun.split_once(' ').map_or((noun, None), |(first, rest)| (first, Some(rest)));
    let is_plain = !matches!(first, "query" | "unaligned" | "random" | "at");
    let text = match (is_plain, noun) {
        (true, _) => counted(number, first),
        (_, "query") if number != 1 => counted(number, "querie"),
        (_, "unaligned access") if number != 1 => counted(number, "unaligned accesse"),
        (_, "at once") => return format!("{number} at once"),
        _ => return counted(number, noun),
    };
    match rest.filter(|_| is_plain) {
        Some(rest) => format!("{text} {rest}"),
        None => text,
    }
}

/// Returns the command that shows the evidence of a finding.
fn command(finding: &AdviceFinding, log: &str) -> String {
    // A renamed file has events by each of its names.
    let mut files: Vec<String> = Vec::new();
    for event in finding.proofs.first().into_iter().flat_map(|proof| &proof.events) {
        let word = glob_word(&event.path);
        if !event.path.is_empty() && !files.contains(&word) {
            files.push(word);
        }
    }
    if let (true, Some(place)) = (files.is_empty(), finding.places.first()) {
        files.push(glob_word(KeyParts::of(&place.key).path));
    }
    let file = (!files.is_empty()).then(|| files.join(" -F "));
    let words = finding.rule.rule().command.split(' ');
    let filled = words.map(|word| match (word, &file) {
        ("LOG", _) => log_word(log),
        ("FILE", Some(file)) => file.clone(),
        ("FILE/", Some(file)) => format!("{file}/"),
        _ => word.to_owned(),
    });
    let filled: Vec<String> = filled.collect();
    format!("iotrace-perf {}", filled.join(" "))
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._+-,=@:%".contains(&byte)
}

/// Returns a path as a pattern that a shell passes on: unusual bytes match anything.
fn glob_word(path: &[u8]) -> String {
    if path.iter().all(|byte| is_plain(*byte)) && !path.is_empty() {
        return String::from_utf8_lossy(path).into_owned();
    }
    let mut word = String::from("'");
    for byte in path {
        if is_plain(*byte) || *byte == b' ' {
            word.push(char::from(*byte));
        } else if !word.ends_with('*') {
            word.push('*');
        }
    }
    word.push('\'');
    word
}

/// Returns the path of a log as a word that is no option.
fn log_word(log: &str) -> String {
    let word = shell_word(log.as_bytes());
    if word.starts_with('-') { format!("./{word}") } else { word }
}

/// Returns a word that a shell passes on.
fn shell_word(bytes: &[u8]) -> String {
    match bytes.iter().all(|byte| is_plain(*byte)) {
        true => String::from_utf8_lossy(bytes).into_owned(),
        false if bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) => {
            format!("'{}'", String::from_utf8_lossy(bytes).replace('\'', "'\\''"))
        }
        false => {
            let escaped = |byte: u8| match byte {
                b' '..=b'~' if !b"'\\".contains(&byte) => char::from(byte).to_string(),
                _ => format!("\\x{byte:02x}"),
            };
            format!("$'{}'", bytes.iter().copied().map(escaped).collect::<String>())
        }
    }
}

fn places(advice: &Advice, options: AdviceOptions<'_>) -> Table {
    let mut rows = Vec::new();
    for finding in &advice.findings {
        for place in finding.places.iter().take(options.shown()) {
            let number = |number: u64| if number == 0 { Cell::None } else { Cell::Count(number) };
            let comm = (!place.comm.is_empty()).then(|| Cell::Name(place.comm.clone()));
            let mut row = vec![
                Cell::Word(finding.rule.rule().name.to_owned()),
                Cell::Word(finding.severity.as_str().to_owned()),
                Cell::Count(place.count),
                number(place.bytes),
                if place.time_ns == 0 { Cell::None } else { Cell::Ns(place.time_ns) },
                place.pid.map_or(Cell::None, |pid| Cell::Signed(pid.0.into())),
                comm.unwrap_or(Cell::None),
            ];
            row.extend(file_cells(&place.key));
            rows.push(row);
        }
    }
    let [mounts, unverified, _] = file_columns("");
    Table {
        key: "places",
        title: "Where".into(),
        columns: vec![
            key_column(0, "finding", "finding"),
            column("severity", ""),
            column("count", "count"),
            column("bytes", "bytes"),
            column("time_ns", "time"),
            column("pid", "process"),
            column("comm", "program"),
            mounts,
            unverified,
            key_column(1, "path", "file, directory, device"),
        ],
        rows,
    }
}

fn events(advice: &Advice, options: AdviceOptions<'_>) -> Table {
    let mut rows = Vec::new();
    for finding in &advice.findings {
        for (number, proof) in finding.proofs.iter().take(options.shown()).enumerate() {
            for event in &proof.events {
                rows.push(event_row(finding, number + 1, event, proof, options.start));
            }
        }
    }
    Table {
        key: "events",
        title: "Order of events (times since the start of the recording)".into(),
        columns: vec![
            key_column(0, "finding", "finding"),
            column("severity", ""),
            key_column(1, "proof", "proof"),
            column("since_ns", ""),
            column("", "time s"),
            column("duration_ns", ""),
            column("pid", "process"),
            column("operation", "operation"),
            column("fd", "fd"),
            column("result", "result"),
            column("bytes", "bytes"),
            column("outcome", ""),
            column("path", "path"),
        ],
        rows,
    }
}

fn event_row(
    finding: &AdviceFinding,
    number: usize,
    event: &ProofEvent,
    proof: &AdviceProof,
    start: KernelTime,
) -> Vec<Cell> {
    let since = event.start.0.saturating_sub(start.0);
    let seconds = format!("{}.{:06}", since / 1_000_000_000, since / 1000 % 1_000_000);
    let result = event.errno.map_or("ok".to_owned(), |errno| ErrnoName(errno).to_string());
    vec![
        Cell::Word(finding.rule.rule().name.to_owned()),
        Cell::Word(finding.severity.as_str().to_owned()),
        Cell::Count(number as u64),
        Cell::Ns(since),
        Cell::Word(seconds),
        Cell::Ns(event.end.0.saturating_sub(event.start.0)),
        Cell::Signed(event.pid.0.into()),
        Cell::Word(event.what.to_string()),
        Cell::count(event.fd.and_then(|fd| u64::try_from(fd).ok())),
        Cell::Word(result),
        if event.bytes == 0 { Cell::None } else { Cell::Count(event.bytes) },
        Cell::Word(proof.outcome.to_owned()),
        Cell::Name(event.path.to_vec()),
    ]
}

/// Rules that were not judged: a sentence for each reason; in text nothing else.
fn not_judged(all: &[NotJudged], is_text: bool) -> Table {
    let mut by_reason: BTreeMap<(bool, &str), Vec<&NotJudged>> = BTreeMap::new();
    for one in all {
        by_reason.entry((one.cases.is_some(), &one.reason)).or_default().push(one);
    }
    let rows = by_reason.into_iter().flat_map(|((_, reason), of_reason)| {
        let names = of_reason.iter().map(|one| {
            let name = one.rule.rule().name;
            match one.cases {
                Some(cases) => format!("{name} ({})", counted(cases, "case")),
                None => name.to_owned(),
            }
        });
        let names: Vec<String> = names.collect();
        let text = format!("not judged: {reason}: {}", names.join(", "));
        let rows: Vec<Vec<Cell>> = of_reason
            .iter()
            .enumerate()
            .filter(|(place, _)| *place == 0 || !is_text)
            .map(|(place, one)| {
                vec![
                    Cell::Word(one.rule.rule().name.to_owned()),
                    Cell::count(one.cases),
                    Cell::Word(one.reason.clone()),
                    if place == 0 { Cell::Word(text.clone()) } else { Cell::None },
                ]
            })
            .collect();
        rows
    });
    Table {
        key: "not_judged",
        title: "Not judged".into(),
        columns: vec![
            column("rule", ""),
            column("cases", ""),
            column("reason", ""),
            column("", "reason"),
        ],
        rows: rows.collect(),
    }
}

/// Adds the findings to a summary: warnings and problems, with the name of the rule as their kind.
pub fn add_to_summary(summary: &mut Report, advice: &Advice, log: &str) {
    let severe = advice.findings.iter().filter(|finding| finding.severity > Severity::Note);
    let severe: Vec<&AdviceFinding> = severe.collect();
    let Some(table) = summary.tables.iter_mut().find(|table| table.key == "findings") else {
        return;
    };
    for finding in &severe {
        let name = Cell::Word(finding.rule.rule().name.to_owned());
        table.rows.push(vec![name, Cell::None, Cell::Word(sentence(finding))]);
    }
    if !severe.is_empty() {
        summary.notes.push(format!(
            "what to do about {}, with the evidence: iotrace-perf advise {}",
            plural(severe.len() as u64, "finding of the rules"),
            log_word(log)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_words_of_a_shell() {
        assert_eq!(glob_word(b"/a/b.c"), "/a/b.c");
        assert_eq!(glob_word(b"/a b/'[x]\n"), "'/a b/*x*'");
        assert_eq!(glob_word(b""), "''");
        assert_eq!(shell_word(b"a'b"), "'a'\\''b'");
        assert_eq!(shell_word(b"a\n'"), "$'a\\x0a\\x27'");
        assert_eq!(log_word("-x.iocap"), "./-x.iocap");
    }

    /// Fails if the command shows a renamed file by its last name only.
    #[test]
    fn command_names_each_path_of_the_proof() {
        let event = |path: &[u8]| ProofEvent {
            start: KernelTime(1),
            end: KernelTime(2),
            what: crate::analysis::completed_op::OpKind::Call(crate::event::syscall_table::CallId(
                0,
            )),
            pid: crate::units::Pid(1),
            fd: None,
            errno: None,
            bytes: 0,
            path: path.into(),
        };
        let events = vec![event(b"/d/a.tmp"), event(b"/d/a.tmp"), event(b"/d/a")];
        let proof = AdviceProof { path: b"/d/a"[..].into(), events, outcome: "never synced" };
        let finding = AdviceFinding {
            rule: crate::analysis::advice::rule::RuleId::RenameUnsynced,
            severity: Severity::Note,
            count: 1,
            amounts: vec![AdviceAmount::Count(1, "case")],
            places: Vec::new(),
            all_places: 0,
            proofs: vec![proof],
        };
        assert_eq!(command(&finding, "x"), "iotrace-perf script x -F /d/a.tmp -F /d/a");
        let advice = Advice { findings: vec![finding], ..Advice::default() };
        let start = KernelTime(0);
        let options = AdviceOptions { log: "x", start, is_text: true, rows: None };
        let rows = findings(&advice, options).rows;
        let Some(Cell::Word(text)) = rows[0].last() else { panic!("no text") };
        let heads: Vec<&str> =
            text.lines().skip(1).filter_map(|line| line.split(':').next()).collect();
        assert_eq!(heads, ["  why", "  do", "  see", "  source"], "{text}");
    }

    #[test]
    fn nouns_have_plurals() {
        for (number, noun, text) in [
            (1, "read", "1 read"),
            (2, "read", "2 reads"),
            (2, "call that found nothing", "2 calls that found nothing"),
            (2, "query", "2 queries"),
            (1, "query", "1 query"),
            (2, "unaligned access", "2 unaligned accesses"),
            (2, "random read", "2 random reads"),
            (1, "at once", "1 at once"),
        ] {
            assert_eq!(plural(number, noun), text);
        }
    }
}
