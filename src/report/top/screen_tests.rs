use std::collections::BTreeSet;

use expect_test::{Expect, expect, expect_file};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::Text;

use unicode_width::UnicodeWidthStr;

use super::cells::{Scale, amount_cell};
use super::columns::fitted;
use super::test_model::model;
use super::*;
use crate::analysis::top::{TopAmounts, TopModel, TopRow, TopView};
use crate::text::table::{Separator, TableFormat, TextStyle};

/// Screen with its model.
struct Tried {
    screen: TopScreen,
    model: TopModel,
    status: TopStatus,
}

impl Tried {
    fn new(intervals: u64) -> Self {
        let status = TopStatus { can_restart: true, ..TopStatus::default() };
        Self { screen: TopScreen::new(TopView::Processes), model: model(intervals), status }
    }

    fn code(&mut self, code: KeyCode) -> TopAction {
        self.screen.key(KeyEvent::new(code, KeyModifiers::NONE), &mut self.model, 10)
    }

    /// Presses the keys of these letters.
    fn press(mut self, letters: &str) -> Self {
        for letter in letters.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\x1b' => KeyCode::Esc,
                '↓' => KeyCode::Down,
                letter => KeyCode::Char(letter),
            };
            self.code(code);
        }
        self
    }

    /// Draws on a terminal of this size, and returns its lines.
    fn drawn(&mut self, width: u16, height: u16) -> String {
        let size = TopSize { width: width.into(), height: height.into() };
        let lines = picture(&mut self.screen, &self.model, &self.status, size);
        assert!(lines.len() <= size.height, "{} lines", lines.len());
        for line in &lines {
            assert!(line.width() <= size.width, "{} cells: {line:?}", line.width());
        }
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it is memory");
        let draw = |frame: &mut ratatui::Frame<'_>| {
            frame.render_widget(Text::from(lines), frame.area());
        };
        terminal.draw(draw).expect("it is memory");
        let text = terminal.backend().to_string();
        assert!(!text.contains(['\x1b', '\x07']), "{text}");
        text
    }

    /// Returns the first words of the rows.
    fn rows(&mut self, words: usize) -> Vec<String> {
        let text = self.drawn(200, 50);
        let rows = text.lines().skip(4).map(|line| line.trim_matches(['"', ' ']));
        let rows = rows.take_while(|line| !line.is_empty() && !line.starts_with('?'));
        let first = |line: &str| line.split_whitespace().take(words).collect::<Vec<_>>().join(" ");
        rows.map(first).collect()
    }
}

#[test]
fn views_fit_an_old_terminal() {
    for (view, key) in [("processes", "1"), ("files", "2"), ("devices", "3t"), ("calls", "4")] {
        let text = Tried::new(19).press(key).drawn(80, 24);
        expect_file![format!("golden/{view}_80x24.txt")].assert_eq(&text);
    }
}

#[test]
fn views_fill_a_large_terminal() {
    for (view, key) in [("processes", "1"), ("files", "2"), ("cgroups", "5"), ("help", "?")] {
        let text = Tried::new(2).press(key).drawn(200, 50);
        expect_file![format!("golden/{view}_200x50.txt")].assert_eq(&text);
    }
}

#[test]
fn process_leads_to_its_files_and_their_operations() {
    let mut tried = Tried::new(2).press("\n");
    expect_file!["golden/files_of_process_80x24.txt"].assert_eq(&tried.drawn(80, 24));
    let mut tried = tried.press("\n");
    expect_file!["golden/operations_80x24.txt"].assert_eq(&tried.drawn(80, 24));
    assert!(tried.model.focus().is_some());
    let mut tried = tried.press("\x1b");
    assert!(tried.model.focus().is_none() && tried.drawn(80, 24).contains("files of 4711"));
    assert!(tried.press("\x1b").drawn(80, 24).contains(" 1 processes "));
}

#[track_caller]
fn check_rows(keys: &str, words: usize, expected: Expect) {
    expected.assert_eq(&Tried::new(2).press(keys).rows(words).join("\n"));
}

#[test]
fn rows_are_sorted_by_any_column() {
    check_rows(
        "",
        2,
        expect![[r"
        4711 postgres
        1234567 †
        812 \x1b]0;evil\x07"]],
    );
    check_rows(
        "r",
        1,
        expect![[r"
        812
        1234567
        4711"]],
    );
    check_rows(
        "P",
        1,
        expect![[r"
        812
        4711
        1234567"]],
    );
    check_rows(
        "A",
        1,
        expect![[r"
        812
        4711
        1234567"]],
    );
    // From the time to the mean.
    check_rows(
        ">",
        1,
        expect![[r"
        4711
        1234567
        812"]],
    );
    check_rows(
        "<W",
        1,
        expect![[r"
        4711
        1234567
        812"]],
    );
}

#[test]
fn filter_selects_by_name_command_and_number() {
    check_rows("/WRITER\n", 1, expect!["4711"]);
    check_rows("/cc\n", 1, expect!["1234567"]);
    check_rows("/812\n", 1, expect!["812"]);
    check_rows("/nothing\n", 3, expect!["no row matches"]);
    check_rows(
        "/nothing\n\x1b",
        1,
        expect![[r"
        4711
        1234567
        812"]],
    );
}

#[test]
fn chosen_line_is_followed() {
    let mut tried = Tried::new(2).press("↓↓");
    tried.drawn(80, 24);
    assert_eq!(tried.screen.selected, 2);
    let mut tried = tried.press("r");
    tried.drawn(80, 24);
    assert_eq!(tried.screen.selected, 0);
    let mut tried = tried.press("\n");
    assert!(tried.drawn(80, 24).contains(r"files of 812 \x1b]0;evil\x07"));
}

#[test]
fn paused_screen_stays_as_it_is() {
    let mut tried = Tried::new(2).press(" ");
    let before = tried.drawn(80, 24);
    tried.model = model(9);
    let paused = tried.drawn(80, 24);
    let rows = |text: &str| text.lines().skip(4).map(str::to_owned).collect::<Vec<_>>();
    assert!(paused.contains("PAUSED") && tried.screen.is_paused());
    assert_eq!(rows(&before), rows(&paused));
    let mut tried = tried.press(" ");
    assert_ne!(rows(&before), rows(&tried.drawn(80, 24)));
}

#[test]
fn keys_have_their_actions() {
    let mut tried = Tried::new(1);
    for (code, action) in [
        (KeyCode::Char('q'), TopAction::Quit),
        (KeyCode::Char('n'), TopAction::Names),
        (KeyCode::Char('x'), TopAction::Draw),
        (KeyCode::F(1), TopAction::Draw),
    ] {
        assert_eq!(tried.code(code), action, "{code:?}");
    }
    for (letter, action) in [('c', TopAction::Interrupt), ('z', TopAction::Suspend)] {
        let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        assert_eq!(tried.screen.key(key, &mut tried.model, 10), action);
    }
}

#[test]
fn losses_delays_and_the_end_are_reported() {
    let mut tried = Tried::new(2);
    (tried.model.last_lost, tried.model.lost, tried.model.delay_ns) = (17, 1_009, 4_200_000_000);
    let text = tried.drawn(120, 24);
    for part in ["lost 1,009", "LOST 17 in this interval", "BEHIND by 4.20 s"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // No interval ends any more.
    tried.status.since_ns = 90_000_000_000;
    assert!(tried.drawn(120, 24).contains("BEHIND by 89.0 s"));
    tried.status.over = Some("ENDED: q quits".to_owned());
    let text = tried.drawn(120, 24);
    assert!(text.contains("ENDED: q quits") && !text.contains("BEHIND"), "{text}");
}

/// No size makes a line that is too wide, or panics.
#[test]
fn all_sizes_can_be_drawn() {
    for keys in ["", "2", "3", "4t", "5", "\n", "\n\n", "?", "/a"] {
        for (width, height) in [(1, 1), (39, 24), (40, 8), (47, 9), (66, 10), (97, 30), (131, 30)] {
            Tried::new(3).press(keys).drawn(width, height);
        }
    }
}

/// Fails if an amount is wider than its column: the ones behind it would not be below theirs.
#[test]
fn large_amounts_fit_their_columns() {
    let day = 86_400_000_000_000;
    for number in
        [0, 7, 99_999, 100_000, 999_999, 1_000_000, 12_345_678_901, 999_000_000_000_000_000]
    {
        let io_ns = number.min(365 * day);
        let amounts = TopAmounts {
            count: number,
            read: number,
            written: number,
            errors: number,
            io_count: 1,
            io_ns,
            waited_ns: io_ns,
            ..TopAmounts::default()
        };
        let row = TopRow { last: amounts, total: amounts, ..TopRow::default() };
        for (column, width) in fitted(TopView::Calls, false, 200) {
            for is_total in [true, false] {
                let scale = Scale { is_total, ns: 1_000_000_000 };
                let text = amount_cell(&row, column, width, scale);
                assert!(text.width() <= width, "{column:?}: {text}");
            }
        }
    }
}

/// Fails if marks without a width move the columns behind a name, or hide a part of it.
#[test]
fn names_with_marks_have_their_cells() {
    let mut tried = Tried::new(1);
    tried.model.facts.scope = "e\u{301}\u{34f}\u{301}x".to_owned();
    let text = tried.drawn(120, 24);
    let shown = text.contains("e\u{301}\\xcd\\x8f\\xcc\\x81x | every");
    assert!(shown, "{text}");
}

#[test]
fn tables_of_an_interval_have_its_numbers() {
    let views = [TopView::Processes, TopView::Files];
    let model = model(2);
    let printed = |views: &[TopView], limit, repeats_interval, form| {
        let options = IntervalReportOptions { views, limit, repeats_interval };
        let mut text = Vec::new();
        let report = interval_report(&model, &options);
        let done = match form {
            TableFormat::Csv => report.print_rows(Separator::Comma, true, &mut text),
            TableFormat::Tsv => report.print_rows(Separator::Tab, true, &mut text),
            TableFormat::Json => report.print_json_line(&mut text),
            TableFormat::Text => {
                report.print(form, TextStyle { width: Some(80), has_color: false }, &mut text)
            }
        };
        done.expect("it is memory");
        String::from_utf8(text).expect("UTF-8")
    };
    expect_file!["golden/interval.txt"].assert_eq(&printed(&views, 1, false, TableFormat::Text));
    expect_file!["golden/interval.csv"].assert_eq(&printed(&views[..1], 0, true, TableFormat::Csv));
    let line = printed(&views, 0, false, TableFormat::Json);
    assert_eq!(line.matches('\n').count(), 1);
    let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let sum = |table: &str, key: &str| -> u64 {
        value[table].as_array().expect("rows").iter().filter_map(|row| row[key].as_u64()).sum()
    };
    for key in ["count", "read_bytes", "written_bytes", "io_ns", "waited_ns", "errors"] {
        assert_eq!(Some(sum("processes", key)), value[key].as_u64(), "{key}");
    }
    assert_eq!(value["processes"][1]["program"], "cc1");
    assert_eq!(value["processes"][1]["ended"], true);
}

/// Fails if a key is not in the document, or if one of the document is not printed.
#[test]
fn json_has_the_documented_keys() {
    let document = include_str!("../../../docs/json/top.md");
    let options = IntervalReportOptions { views: &TopView::ALL, limit: 0, repeats_interval: false };
    let mut line = Vec::new();
    interval_report(&model(2), &options).print_json_line(&mut line).expect("it is memory");
    let value: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
    let mut printed: BTreeSet<String> = BTreeSet::new();
    let of_each_report = ["kind", "version", "incomplete", "notes"];
    for (key, value) in value.as_object().expect("an object") {
        if !of_each_report.contains(&key.as_str()) {
            printed.insert(key.clone());
        }
        for row in value.as_array().into_iter().flatten().filter_map(|row| row.as_object()) {
            printed.extend(row.keys().map(|name| format!("{key}[].{name}")));
        }
    }
    let mut documented = BTreeSet::new();
    for (number, section) in document.split("| Key |").skip(1).enumerate() {
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            let keys = row.split('|').nth(1).expect("a cell").split('`').skip(1).step_by(2);
            for key in keys {
                let in_rows = TopView::ALL.map(|view| format!("{}[].{key}", view.as_str()));
                documented.extend((number > 0).then_some(in_rows).into_iter().flatten());
                documented.extend((number < 2).then(|| key.to_owned()));
            }
        }
    }
    assert_eq!(printed, documented);
}
