//! A budget: a TOML file with limits of counts.

use std::fmt::Display;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, value};

use super::error::CliError;
use super::values::parse_bytes;
use crate::analysis::budget::{BudgetMetric, BudgetScope};
use crate::analysis::filter::Globs;
use crate::sys::output_dir::{NewFile, OutputDirectory, Users};
use crate::sys::regular;

/// Largest file that is read.
const BYTES_MAX: u64 = 1 << 20;

/// Key of the list of limits.
const LIMIT: &str = "limit";

/// Keys of a limit that are not counts.
const OTHER_KEYS: [&str; 4] = ["name", "files", "programs", "tolerance"];

/// Begin of a file that `--update` makes.
const PREAMBLE: &str = "\
# Budget of iotrace-perf check. Each count is the largest value that is allowed.
# [[limit]] may have: name, files = [\"/etc/**\"], programs = [\"cc1\"], tolerance = \"5%\".
";

/// Largest values of the counts of one scope.
#[derive(Debug)]
pub(super) struct BudgetLimit {
    /// Name for people.
    pub(super) name: String,
    pub(super) scope: BudgetScope,
    /// Part of a value that may be exceeded, such as 0.05.
    pub(super) tolerance: f64,
    /// Largest values.
    pub(super) values: Vec<(BudgetMetric, u64)>,
}

/// A budget and its file.
#[derive(Debug)]
pub(super) struct BudgetFile {
    document: DocumentMut,
    pub(super) limits: Vec<BudgetLimit>,
    pub(super) is_new: bool,
}

impl BudgetFile {
    /// Reads a budget. If there is no file and `is_update`, the budget has one limit, of the counts
    /// that need no names or positions of files: those may be unknown in one run only.
    pub(super) fn read(path: &Path, is_update: bool) -> Result<Self, CliError> {
        let failed = |source| CliError::Open { path: path.to_owned(), source };
        let file = match regular::open_named(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && is_update => {
                return Ok(Self::new());
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(CliError::Usage(format!(
                    "there is no budget {0}; make one: iotrace-perf check --budget {0} --update -- \
                     COMMAND",
                    path.display()
                )));
            }
            other => other.map_err(failed)?,
        };
        let mut text = String::new();
        file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
        let wrong = |cause: String| CliError::Usage(format!("{}: {cause}", path.display()));
        if text.len() as u64 > BYTES_MAX {
            return Err(wrong("a budget has 1 MiB at most".into()));
        }
        let document: DocumentMut =
            text.parse().map_err(|error| wrong(explained(&error, &text)))?;
        let limits = limits(&document).map_err(wrong)?;
        Ok(Self { document, limits, is_new: false })
    }

    fn new() -> Self {
        let limit = BudgetLimit {
            name: "all".to_owned(),
            scope: BudgetScope::default(),
            tolerance: 0.0,
            values: BudgetMetric::ALL
                .into_iter()
                .filter(|metric| !metric.depends_on_names())
                .map(|metric| (metric, 0))
                .collect(),
        };
        Self { document: DocumentMut::new(), limits: vec![limit], is_new: true }
    }

    /// Removes a count from all limits.
    pub(super) fn leave_out(&mut self, metric: BudgetMetric) {
        self.limits.iter_mut().for_each(|limit| limit.values.retain(|(known, _)| *known != metric));
    }

    /// Writes the budget with these values, in the order of the limits and their counts. Comments
    /// and order stay.
    pub(super) fn update(&mut self, path: &Path, measured: &[Vec<u64>]) -> Result<(), CliError> {
        if self.is_new {
            self.document.decor_mut().set_prefix(PREAMBLE);
            let mut all = toml_edit::ArrayOfTables::new();
            all.push(Table::new());
            self.document.insert(LIMIT, Item::ArrayOfTables(all));
        }
        let tables = self.document.get_mut(LIMIT).and_then(Item::as_array_of_tables_mut);
        let tables = tables.into_iter().flat_map(toml_edit::ArrayOfTables::iter_mut);
        for ((table, limit), numbers) in tables.zip(&self.limits).zip(measured) {
            for ((metric, _), number) in limit.values.iter().zip(numbers) {
                let number = i64::try_from(*number).unwrap_or(i64::MAX);
                match table.get_mut(metric.as_str()).and_then(Item::as_value_mut) {
                    Some(old) => {
                        let decor = old.decor().clone();
                        *old = number.into();
                        *old.decor_mut() = decor;
                    }
                    None => {
                        table.insert(metric.as_str(), value(number));
                    }
                }
            }
        }
        let text = self.document.to_string();
        write(path, &text).map_err(|source| CliError::Create { path: path.to_owned(), source })
    }
}

/// Line and cause of a text that is not TOML.
fn explained(error: &toml_edit::TomlError, text: &str) -> String {
    let begin = error.span().map_or(0, |span| span.start);
    let before = text.as_bytes().get(..begin).unwrap_or_default();
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    format!("line {line}: {}", error.message().trim())
}

/// Replaces a file of ours, which keeps its mode, or makes it. A link is not followed.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let (directory, name) = OutputDirectory::parent_of(path, &Users::caller())?;
    let old = std::fs::symlink_metadata(path).ok();
    if old.as_ref().is_some_and(std::fs::Metadata::is_symlink) {
        return Err(std::io::Error::other("it is a link; name the file itself"));
    }
    let mut part = name.clone();
    part.push(format!(".{}.part", std::process::id()));
    let mut file = NewFile::create_in(directory, part.clone())?;
    file.file().write_all(text.as_bytes())?;
    let mode = old.map_or(0o644, |old| old.permissions().mode() & 0o777);
    file.file().set_permissions(std::fs::Permissions::from_mode(mode))?;
    let (directory, _) = OutputDirectory::parent_of(path, &Users::caller())?;
    directory.replace(&part, &name)?;
    file.keep();
    Ok(())
}

/// Limits of a document.
fn limits(document: &DocumentMut) -> Result<Vec<BudgetLimit>, String> {
    let mut tolerance = 0.0;
    for (key, item) in document.iter() {
        match key {
            LIMIT => {}
            "tolerance" => tolerance = share(item)?,
            other => return Err(unknown(other, &[LIMIT, "tolerance"])),
        }
    }
    let list = document.get(LIMIT).and_then(Item::as_array_of_tables);
    let list = list.ok_or("it has no [[limit]]; for example:\n[[limit]]\nopens = 650")?;
    list.iter().enumerate().map(|(place, table)| limit(place, table, tolerance)).collect()
}

fn limit(place: usize, table: &Table, tolerance: f64) -> Result<BudgetLimit, String> {
    let in_limit = |cause: String| format!("[[limit]] {}: {cause}", place + 1);
    let mut known: Vec<&str> = BudgetMetric::ALL.iter().map(|metric| metric.as_str()).collect();
    known.extend(OTHER_KEYS);
    let mut limit = BudgetLimit {
        name: String::new(),
        scope: BudgetScope::default(),
        tolerance,
        values: Vec::new(),
    };
    for (key, item) in table.iter() {
        let metric = BudgetMetric::ALL.into_iter().find(|metric| metric.as_str() == key);
        match (key, metric) {
            (_, Some(metric)) => limit.values.push((metric, number(key, item).map_err(in_limit)?)),
            ("name", _) => {
                let text = item.as_str().ok_or_else(|| in_limit("name is not a text".into()))?;
                text.clone_into(&mut limit.name);
            }
            ("tolerance", _) => limit.tolerance = share(item).map_err(in_limit)?,
            ("files", _) => {
                limit.scope.files = globs(key, item, Globs::of_paths).map_err(in_limit)?
            }
            ("programs", _) => {
                limit.scope.programs = globs(key, item, Globs::of_words).map_err(in_limit)?;
            }
            _ => return Err(in_limit(unknown(key, &known))),
        }
    }
    if limit.values.is_empty() {
        return Err(in_limit(format!("it limits nothing; counts are: {}", metrics())));
    }
    if limit.name.is_empty() {
        limit.name = name_of(&limit.scope);
    }
    Ok(limit)
}

/// Name of a limit without one: its patterns.
fn name_of(scope: &BudgetScope) -> String {
    let words = |globs: &Option<Globs>| globs.as_ref().map(|globs| globs.words().join(" "));
    let parts: Vec<String> =
        [words(&scope.programs), words(&scope.files)].into_iter().flatten().collect();
    if parts.is_empty() { "all".to_owned() } else { parts.join(", ") }
}

fn metrics() -> String {
    BudgetMetric::ALL.map(BudgetMetric::as_str).join(", ")
}

fn unknown(key: &str, known: &[&str]) -> String {
    let near = known.iter().max_by(|one, other| {
        strsim::jaro_winkler(key, one).total_cmp(&strsim::jaro_winkler(key, other))
    });
    let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    format!("unknown key {key}{hint}")
}

/// A number, or a size with a unit.
fn number(key: &str, item: &Item) -> Result<u64, String> {
    let wrong = |cause: &dyn Display| format!("{key} is not a number: {cause}");
    if let Some(text) = item.as_str() {
        return parse_bytes(text).map_err(|error| wrong(&error));
    }
    let number = item.as_integer().ok_or_else(|| wrong(&item.to_string().trim()))?;
    u64::try_from(number).map_err(|_| wrong(&number))
}

/// A share, such as "5%".
fn share(item: &Item) -> Result<f64, String> {
    let wrong = || format!("tolerance is a text such as \"5%\", not {}", item.to_string().trim());
    let text = item.as_str().and_then(|text| text.trim().strip_suffix('%')).ok_or_else(wrong)?;
    let percent: f64 = text.trim().parse().map_err(|_| wrong())?;
    if (0.0..=1000.0).contains(&percent) { Ok(percent / 100.0) } else { Err(wrong()) }
}

/// Patterns: a text or a list of texts.
fn globs(
    key: &str,
    item: &Item,
    parse: impl Fn(&[String]) -> Result<Option<Globs>, globset::Error>,
) -> Result<Option<Globs>, String> {
    let wrong = || format!("{key} is a pattern or a list of patterns, such as [\"/etc/**\"]");
    let words: Option<Vec<String>> = match (item.as_str(), item.as_array()) {
        (Some(word), _) => Some(vec![word.to_owned()]),
        (_, Some(words)) => words.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    let words = words.filter(|words| !words.is_empty()).ok_or_else(wrong)?;
    parse(&words).map_err(|error| format!("{key}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<BudgetLimit>, String> {
        limits(&text.parse::<DocumentMut>().expect("TOML"))
    }

    #[test]
    fn limits_are_read() {
        let text = "tolerance = \"10%\"\n[[limit]]\nopens = 5\nread_bytes = \"1M\"\n\
                    [[limit]]\nfiles = [\"/etc/**\", \"!/etc/x\"]\nprograms = \"cc1\"\n\
                    tolerance = \"0%\"\nfsyncs = 0\n";
        let limits = parsed(text).expect("limits");
        let values: Vec<_> = limits.iter().map(|limit| limit.values.clone()).collect();
        let first = vec![(BudgetMetric::Opens, 5), (BudgetMetric::ReadBytes, 1 << 20)];
        assert_eq!(values, [first, vec![(BudgetMetric::Fsyncs, 0)]]);
        let names: Vec<_> = limits.iter().map(|limit| (&*limit.name, limit.tolerance)).collect();
        assert_eq!(names, [("all", 0.1), ("cc1, /etc/** !/etc/x", 0.0)]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "no [[limit]]"),
            ("[[limit]]\nopen = 5", "did you mean opens?"),
            ("[[limit]]\nfile = \"/x\"\nopens = 1", "did you mean files?"),
            ("tolerence = \"1%\"\n[[limit]]\nopens = 1", "did you mean tolerance?"),
            ("[[limit]]\nname = \"x\"", "limits nothing"),
            ("[[limit]]\nopens = -1", "not a number: -1"),
            ("[[limit]]\nopens = true", "not a number: true"),
            ("[[limit]]\nread_bytes = \"1 XB\"", "read_bytes is not a number"),
            ("[[limit]]\nopens = 1\ntolerance = 5", "such as \"5%\""),
            ("[[limit]]\nopens = 1\nfiles = []", "list of patterns"),
            ("[[limit]]\nopens = 1\nfiles = \"[\"", "files:"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn line_of_a_mistake_is_named() {
        let text = "tolerance = \"1%\"\n[[limit]]\nopens\n";
        let error = text.parse::<DocumentMut>().expect_err("no TOML");
        let explained = explained(&error, text);
        assert!(explained.starts_with("line 3: ") && !explained.contains('\n'), "{explained}");
    }

    #[test]
    fn update_keeps_comments() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("io.toml");
        let text = "# ours\n[[limit]]\nopens = 5 # few\n\n[[limit]]\nfiles = \"/x\"\nfsyncs = 1\n";
        std::fs::write(&path, text).expect("written");
        let mut budget = BudgetFile::read(&path, true).expect("a budget");
        budget.update(&path, &[vec![7], vec![0]]).expect("written");
        let expected = text.replace("opens = 5", "opens = 7").replace("fsyncs = 1", "fsyncs = 0");
        assert_eq!(std::fs::read_to_string(&path).expect("a text"), expected);
        let new = dir.path().join("new.toml");
        assert!(BudgetFile::read(&new, false).is_err());
        let mut budget = BudgetFile::read(&new, true).expect("a budget");
        budget.update(&new, &[(1..=7).collect()]).expect("written");
        let again = BudgetFile::read(&new, false).expect("a budget");
        let values: Vec<u64> = again.limits[0].values.iter().map(|value| value.1).collect();
        assert_eq!(values, (1..=7).collect::<Vec<u64>>());
    }
}
