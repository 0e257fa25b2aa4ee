//! Reports as Markdown: tables for a comment on a change.

use super::escape;
use super::table::{Report, Table, incomplete_line};

impl Report {
    /// Returns the report as Markdown, with the tables of people.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        if let Some(line) = incomplete_line(&self.incomplete) {
            text.push_str(&format!("**{}**\n\n", plain(&line)));
        }
        for (_, title, value) in self.facts.iter().filter(|(_, title, _)| !title.is_empty()) {
            text.push_str(&format!("- {title}: {}\n", plain(&value.text())));
        }
        for table in self.tables.iter().filter(|table| !table.rows.is_empty()) {
            text.push_str(&format!("\n### {}\n\n", plain(&table.title)));
            text.push_str(&table.markdown());
        }
        for note in &self.notes {
            text.push_str(&format!("\n{}\n", plain(note)));
        }
        text
    }
}

impl Table {
    fn markdown(&self) -> String {
        let shown: Vec<usize> = (0..self.columns.len())
            .filter(|place| self.columns.get(*place).is_some_and(|column| !column.title.is_empty()))
            .collect();
        let mut text = String::new();
        if let [only] = shown.as_slice() {
            let cells = self.rows.iter().filter_map(|row| row.get(*only));
            cells.for_each(|cell| text.push_str(&format!("- {}\n", plain(&cell.text()))));
            return text;
        }
        let titles = shown.iter().filter_map(|place| self.columns.get(*place));
        let titles: Vec<&str> = titles.map(|column| column.title).collect();
        text.push_str(&format!("| {} |\n|{}\n", titles.join(" | "), " --- |".repeat(titles.len())));
        for row in &self.rows {
            let cells = shown.iter().filter_map(|place| row.get(*place));
            let cells: Vec<String> = cells.map(|cell| plain(&cell.text())).collect();
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        text
    }
}

/// Text without a meaning in Markdown or HTML: names are those of the traced system.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for letter in escape::harmless(text).chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' | '@' => {
                out.push('\\');
                out.push(letter);
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::table::{Cell, Column};

    #[test]
    fn names_stay_in_their_cells() {
        let column = |key, title| Column { key, title, rank: None };
        let report = Report {
            facts: vec![("a", "name", Cell::Word("x".into())), ("b", "", Cell::Count(1))],
            tables: vec![Table {
                key: "t",
                title: "Files".into(),
                columns: vec![column("n", "file"), column("h", ""), column("c", "count")],
                rows: vec![vec![Cell::Name(b"/a|b<i>".to_vec()), Cell::None, Cell::Count(7)]],
            }],
            notes: vec!["done".into()],
            ..Report::default()
        };
        let expected = "- name: x\n\n### Files\n\n| file | count |\n| --- | --- |\n\
                        | /a\\|b&lt;i&gt; | 7 |\n\ndone\n";
        assert_eq!(report.markdown(), expected);
    }
}
