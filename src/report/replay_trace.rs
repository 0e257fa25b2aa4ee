//! Report of `replay compare`: a recording of a replay, next to its plan.

use super::replay_columns::result;
use super::rows::{column, first_rows, key_column};
use crate::replay::verify_recording::VerifyResult;
use crate::text::escape;
use crate::text::quantity::{count, counted};
use crate::text::table::{Cell, Column, Report, Table};
use crate::text::table_text::end_of;

const DIFFERENCES: [Column; 2] = [column("difference", "another"), column("count", "operations")];

const EXAMPLES: [Column; 11] = [
    key_column(0, "worker", "thread"),
    column("number", "its operation"),
    column("difference", "another"),
    key_column(0, "call", "call"),
    key_column(0, "path", "path"),
    column("result", ""),
    column("", "result"),
    column("recorded_call", "recorded call"),
    column("recorded_path", "path"),
    column("recorded_result", ""),
    column("", "result"),
];

/// Operations that are the same in both, and those that differ. `lost`: records that the recording
/// does not have.
pub fn report(traced: &VerifyResult, lost: u64, limit: usize) -> Report {
    let facts = vec![
        ("compared", "operations compared", Cell::Count(traced.compared)),
        ("same", "  the same", Cell::Count(traced.same)),
        ("different", "  others", Cell::Count(traced.different.values().sum())),
        ("missing", "not in the recording", Cell::Count(traced.missing)),
        ("extra", "only in the recording", Cell::Count(traced.extra)),
        ("own", "calls of the replay itself", Cell::Count(traced.own)),
        ("offsets_unknown", "offsets not compared", Cell::Count(traced.offsets_unknown)),
        ("files_unknown", "files not compared", Cell::Count(traced.files_unknown)),
        ("lost", "records lost in the recording", Cell::Count(lost)),
        ("is_same", "", Cell::Flag(traced.is_same())),
    ];
    let mut report = Report { kind: "replay compare", facts, ..Report::default() };
    report.tables = vec![differences(traced), examples(traced, limit)];
    if lost > 0 && traced.missing > 0 {
        let note = "records of the recording were lost: operations that are missing in it may have been done";
        report.notes.push(note.to_owned());
    }
    if traced.missing_in_lanes > 0 {
        report.notes.push(format!(
            "{} of the missing operations belong to lanes without a thread in the recording: operations of a replay with \
             --engine io_uring are not calls; replay with --engine calls to record them",
            traced.missing_in_lanes
        ));
    }
    report
}

/// Rows of each table of [`brief`], and letters of a path in them.
const BRIEF_ROWS: usize = 5;
const PATH_LETTERS: usize = 24;

const BRIEF_EXAMPLES: [Column; 5] = [
    column("", "call"),
    column("", "result"),
    column("", "recorded"),
    column("", "result"),
    column("", "path"),
];

/// Short report for one screen: the finding, the key figures, the first differences; `whole`: the
/// complete report.
pub fn brief(traced: &VerifyResult, whole: &Report) -> Report {
    let all = counted(traced.compared, "operation");
    let different: u64 = traced.different.values().sum();
    let result = match traced.is_same() {
        true => format!("{all} done as planned: all of them"),
        false => format!("not as planned: {} of {all}", count(different)),
    };
    let recording = format!(
        "{} missing, {} not planned, {} of the replay itself",
        count(traced.missing),
        count(traced.extra),
        count(traced.own)
    );
    let word = |title, text| ("", title, Cell::Word(text));
    let mut facts = vec![word("result", result), word("recording", recording)];
    let is_caveat = |text: &&(&str, &str, Cell)| {
        matches!(text.0, "offsets_unknown" | "files_unknown" | "lost") && text.2 != Cell::Count(0)
    };
    facts.extend(
        whole.facts.iter().filter(is_caveat).map(|(_, title, it)| ("", *title, it.clone())),
    );
    let mut differences = differences(traced);
    differences.rows.truncate(BRIEF_ROWS);
    let about = if whole.notes.is_empty() { "" } else { " and notes" };
    let notes = vec![format!("all tables{about}: --details")];
    let tables = vec![differences, brief_examples(traced)];
    Report { kind: whole.kind, facts, tables, notes, incomplete: whole.incomplete.clone() }
}

fn brief_examples(traced: &VerifyResult) -> Table {
    let rows = traced.examples.iter().take(BRIEF_ROWS).map(|example| {
        let mut path = Vec::new();
        escape::shown(&mut path, example.paths[0].as_deref().unwrap_or_default(), b"");
        let path = end_of(&String::from_utf8_lossy(&path), PATH_LETTERS);
        let [call, recorded] = example.calls.each_ref().map(|text| Cell::Word(text.clone()));
        let [number, recorded_number] = example.results.map(result);
        vec![call, number, recorded, recorded_number, Cell::Word(path)]
    });
    let (rows, columns) = (rows.collect(), BRIEF_EXAMPLES.to_vec());
    Table { key: "", title: "First differences".into(), columns, rows }
}

fn differences(traced: &VerifyResult) -> Table {
    let rows = traced.different.iter();
    let rows = rows.map(|(it, count)| vec![Cell::Word(it.as_str().into()), Cell::Count(*count)]);
    Table {
        key: "differences",
        title: "Differences".into(),
        columns: DIFFERENCES.to_vec(),
        rows: rows.collect(),
    }
}

fn examples(traced: &VerifyResult, limit: usize) -> Table {
    let (shown, _) = first_rows(traced.examples.iter().collect(), limit);
    let rows = shown.into_iter().map(|shown| {
        let [call, recorded_call] = &shown.calls;
        let path = |value: &Option<Vec<u8>>| value.clone().map_or(Cell::None, Cell::Name);
        let [of_plan, recorded] = &shown.paths;
        let [number, recorded_number] = shown.results;
        vec![
            Cell::Count(shown.at.worker.0.into()),
            Cell::Count(shown.at.number.into()),
            Cell::Word(shown.difference.as_str().into()),
            Cell::Word(call.clone()),
            path(of_plan),
            Cell::Signed(number),
            result(number),
            Cell::Word(recorded_call.clone()),
            path(recorded),
            Cell::Signed(recorded_number),
            result(recorded_number),
        ]
    });
    Table {
        key: "first_differences",
        title: "First differences".into(),
        columns: EXAMPLES.to_vec(),
        rows: rows.collect(),
    }
}
