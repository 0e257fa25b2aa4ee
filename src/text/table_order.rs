//! Order and choice of the rows and tables of a report, as the caller wants them.

use std::cmp::Ordering;

use super::table::{Cell, Report, Table};

/// Rank of the column by which a table is sorted: it is shown on narrow terminals, too.
const AFTER_KEYS: u8 = u8::MAX - 1;

impl Report {
    /// Sorts the tables that have this column, largest numbers first and texts by the alphabet, and
    /// keeps `limit` rows of each table; 0: all. A column is named by its key, with or without its
    /// unit (`time_ns`, `time`), or by its title. Events that prove a finding keep their order.
    ///
    /// # Errors
    ///
    /// No table has the column: the names of all columns.
    pub fn sort(&mut self, column: &str, limit: usize) -> Result<(), Vec<&'static str>> {
        let is_proof = self.kind == "advise";
        let is_ordered = |table: &Table| is_proof && table.key == "events";
        let mut is_known = false;
        for table in &mut self.tables {
            if let Some(place) = table.place_of(column) {
                is_known = true;
                if is_ordered(table) {
                    continue;
                }
                let none = Cell::None;
                let cell = |row: &Vec<Cell>| row.get(place).unwrap_or(&none).clone();
                table.rows.sort_by(|a, b| order(&cell(a), &cell(b)));
                if let Some(column) = table.columns.get_mut(place) {
                    column.rank.get_or_insert(AFTER_KEYS);
                }
            }
        }
        if !is_known {
            return Err(self.column_names());
        }
        for table in self.tables.iter_mut().filter(|table| limit > 0 && table.rows.len() > limit) {
            if is_ordered(table) {
                continue;
            }
            let (key, rows) = (table.key, table.rows.len());
            self.notes.push(format!("{key}: the first {limit} of {rows} rows (-n)"));
            table.rows.truncate(limit);
        }
        Ok(())
    }

    /// Keeps one table only, by its key or the first word of its title.
    ///
    /// # Errors
    ///
    /// There is no such table: the keys of all tables.
    pub fn keep_table(&mut self, name: &str) -> Result<(), Vec<&'static str>> {
        let keys = self.tables.iter().map(|table| table.key).collect();
        let has_key = self.tables.iter().any(|table| table.key == name);
        let is_wanted = |table: &Table| match has_key {
            true => table.key == name,
            false => table.first_word() == name.to_lowercase(),
        };
        self.tables.retain(is_wanted);
        if self.tables.is_empty() { Err(keys) } else { Ok(()) }
    }

    /// Returns the names of all columns, each once, as [`Report::sort`] takes them.
    fn column_names(&self) -> Vec<&'static str> {
        let columns = self.tables.iter().flat_map(|table| &table.columns);
        let mut names: Vec<&str> = columns
            .map(|column| without_unit(column.key))
            .filter(|name| !name.is_empty())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Table {
    /// Returns the first word of the title, in small letters.
    fn first_word(&self) -> String {
        let end = self.title.find(|letter: char| !letter.is_alphanumeric());
        self.title.get(..end.unwrap_or(self.title.len())).unwrap_or_default().to_lowercase()
    }

    /// Returns the place of a column with this name.
    fn place_of(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| {
            column.key == name || without_unit(column.key) == name || column.title == name
        })
    }
}

fn without_unit(key: &'static str) -> &'static str {
    let units = ["_ns", "_bytes"];
    units.iter().find_map(|unit| key.strip_suffix(unit)).unwrap_or(key)
}

/// Order of two cells: larger numbers and earlier texts first, unknown values last.
fn order(a: &Cell, b: &Cell) -> Ordering {
    match (number(a), number(b)) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => {
            text(a).is_none().cmp(&text(b).is_none()).then_with(|| text(a).cmp(&text(b)))
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for an order of what people read")]
fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Count(number) | Cell::Ns(number) => Some(*number as f64),
        Cell::Signed(number) => Some(*number as f64),
        Cell::Mean(number) | Cell::Share(number) | Cell::Part(number, _) => Some(*number),
        Cell::Flag(flag) => Some(f64::from(u8::from(*flag))),
        Cell::None | Cell::Name(_) | Cell::Group(..) | Cell::Unverified(_) | Cell::Word(_) => None,
    }
}

fn text(cell: &Cell) -> Option<&[u8]> {
    match cell {
        Cell::Name(name) | Cell::Group(name, _) | Cell::Unverified(name) => Some(name),
        Cell::Word(word) => Some(word.as_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Column;
    use super::*;

    fn sample() -> Report {
        let column = |key, title| Column { key, title, rank: None };
        let columns = vec![column("read_bytes", "read"), column("path", "file")];
        let row = |bytes: Option<u64>, name: &str| {
            vec![Cell::count(bytes), Cell::Name(name.as_bytes().to_vec())]
        };
        let rows = vec![row(Some(1), "c"), row(None, "a"), row(Some(3), "b")];
        let one = Table { key: "files", title: "Files".into(), columns, rows };
        let columns = vec![column("count", "count")];
        let two = Table { key: "errors", title: "Errors".into(), columns, rows: Vec::new() };
        Report { tables: vec![one, two], ..Report::default() }
    }

    /// Returns the names after sorting, and the notes.
    fn sorted(column: &str, limit: usize) -> (String, String) {
        let mut report = sample();
        report.sort(column, limit).expect(column);
        let table = &report.tables[0];
        let names = table.rows.iter().filter_map(|row| text(&row[1]));
        (names.map(String::from_utf8_lossy).collect(), report.notes.join("; "))
    }

    #[test]
    fn rows_have_the_order_of_a_column() {
        for name in ["read_bytes", "read"] {
            assert_eq!(sorted(name, 0).0, "bca");
        }
        assert_eq!(sorted("file", 0).0, "abc");
        assert_eq!(sorted("read", 2), ("bc".into(), "files: the first 2 of 3 rows (-n)".into()));
        assert_eq!(sample().sort("size", 0), Err(vec!["count", "path", "read"]));
    }

    #[test]
    fn one_table_stays() {
        let mut report = sample();
        assert_eq!(report.keep_table("calls"), Err(vec!["files", "errors"]));
        let mut report = Report { tables: sample().tables, ..report };
        assert_eq!(report.keep_table("files"), Ok(()));
        assert_eq!(report.tables.len(), 1);
    }
}
