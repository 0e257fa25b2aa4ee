//! The tables of docs/json.md and docs/json/ as a schema: which keys an object has, of which
//! types, and which may be null.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The pages, each with an empty line above its title.
const DOCUMENT: &str = concat!(
    "\n",
    include_str!("../../../docs/json.md"),
    "\n",
    include_str!("../../../docs/json/script.md"),
    "\n",
    include_str!("../../../docs/json/summary.md"),
    "\n",
    include_str!("../../../docs/json/files.md"),
    "\n",
    include_str!("../../../docs/json/disk.md"),
    "\n",
    include_str!("../../../docs/json/neighbours.md"),
    "\n",
    include_str!("../../../docs/json/cache.md"),
    "\n",
    include_str!("../../../docs/json/what-if.md"),
    "\n",
    include_str!("../../../docs/json/slow.md"),
    "\n",
    include_str!("../../../docs/json/advise.md"),
    "\n",
    include_str!("../../../docs/json/latency.md"),
    "\n",
    include_str!("../../../docs/json/pattern.md"),
    "\n",
    include_str!("../../../docs/json/stacks.md"),
    "\n",
    include_str!("../../../docs/json/replay-plan.md"),
    "\n",
    include_str!("../../../docs/json/replay-run.md"),
    "\n",
    include_str!("../../../docs/json/replay-compare.md"),
    "\n",
    include_str!("../../../docs/json/replay-export.md"),
    "\n",
    include_str!("../../../docs/json/info.md"),
    "\n",
    include_str!("../../../docs/json/doctor.md"),
);

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Type {
    Null,
    Flag,
    Integer,
    Fraction,
    Text,
    /// A list whose elements are rows of their own if they are objects.
    List(Element),
    Object,
}

/// Type of the elements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    Text,
    Integer,
    Object,
}

/// Types by path: `wall_ns`, `calls[].count`, `audit.agrees`, `calls.*.count`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    types: BTreeMap<String, BTreeSet<Type>>,
    /// Keys that were met.
    pub written: BTreeSet<String>,
}

/// The words of a cell in backticks.
pub(crate) fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The text under this heading, given with its marks, up to the next one of its rank or a higher
/// one.
pub(crate) fn section(heading: &str) -> &'static str {
    let rank = heading.split(' ').next().expect("a word").len();
    let rest = DOCUMENT.split(&format!("\n{heading}\n")).nth(1).expect(heading);
    let is_next = |line: &str| {
        let marks = line.bytes().take_while(|it| *it == b'#').count();
        (1..=rank).contains(&marks)
    };
    let next = rest.lines().find(|it| is_next(it)).and_then(|it| rest.find(&format!("\n{it}\n")));
    &rest[..next.unwrap_or(rest.len())]
}

/// The rows of its tables: first cell, type, meaning.
pub(crate) fn rows(text: &str) -> impl Iterator<Item = [&str; 3]> {
    let cells = text.lines().filter_map(|it| it.strip_prefix("| `").map(|_| &it[2..]));
    cells.map(|it| {
        let mut cells = it.trim_end_matches('|').splitn(3, " | ").map(str::trim);
        std::array::from_fn(|_| cells.next().unwrap_or_else(|| panic!("three cells: {it}")))
    })
}

fn types_of(cell: &str, meaning: &str) -> BTreeSet<Type> {
    let mut types: BTreeSet<Type> = match cell {
        "true, false" => [Type::Flag].into(),
        "object" => [Type::Object].into(),
        "list of text" | "list of keys" => [Type::List(Element::Text)].into(),
        "list of numbers" => [Type::List(Element::Integer)].into(),
        "list" | "list of objects" => [Type::List(Element::Object)].into(),
        it if it.starts_with("list of `") => [Type::List(Element::Object)].into(),
        "fraction" => [Type::Fraction].into(),
        "number or `\"AT_FDCWD\"`" => [Type::Integer, Type::Text].into(),
        // Another row of this key has the type.
        "as above" => BTreeSet::new(),
        it => match it.split([' ', ',']).next().expect("a word") {
            "number" | "ns" | "ms" | "bytes" | "512" => [Type::Integer].into(),
            "text" | "word" | "name" | "letters" | "hexadecimal" => [Type::Text].into(),
            it if it.starts_with("`\"") => [Type::Text].into(),
            _ => panic!("what is {cell:?}?"),
        },
    };
    if quoted(meaning).any(|it| it == "null") {
        types.insert(Type::Null);
    }
    types
}

impl Schema {
    /// Adds the tables of this text. A table after "In each of `a`, `b`:" belongs to the objects of
    /// these lists.
    pub(crate) fn with(mut self, text: &str) -> Self {
        let mut prefixes = vec![String::new()];
        for part in text.split("\n\n") {
            if let Some(lists) =
                part.trim().strip_prefix("In each of ").filter(|it| it.ends_with(':'))
            {
                prefixes = quoted(lists).map(|it| format!("{it}[].")).collect();
            } else if part.trim_start().starts_with("| Key |") {
                for [keys, kind, meaning] in rows(part) {
                    let types = types_of(kind, meaning);
                    let paths = prefixes
                        .iter()
                        .flat_map(|prefix| quoted(keys).map(move |key| format!("{prefix}{key}")));
                    for path in paths {
                        self.types.entry(path).or_default().extend(&types);
                    }
                }
                prefixes = vec![String::new()];
            }
        }
        self
    }

    /// Keeps each key only at its last place: for objects whose tables list keys at any depth.
    pub(crate) fn flat(self) -> Self {
        let mut flat = Self::default();
        for (path, types) in self.types {
            let key = path.rsplit("[].").next().unwrap_or(&path).to_owned();
            flat.types.entry(key).or_default().extend(types);
        }
        flat
    }

    /// All that is documented.
    pub(crate) fn documented(&self) -> BTreeSet<String> {
        self.types.keys().cloned().collect()
    }

    /// Returns the documented keys that did not appear.
    pub(crate) fn unwritten(&self) -> Vec<&str> {
        let all = self.types.keys().map(String::as_str);
        all.filter(|it| !self.written.contains(*it)).collect()
    }

    /// Checks an object with all that is in it; what is wrong, in words.
    pub(crate) fn check(&mut self, object: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        self.object("", object, &mut wrong);
        wrong
    }

    fn object(&mut self, prefix: &str, value: &Value, wrong: &mut Vec<String>) {
        let Some(object) = value.as_object() else {
            wrong.push(format!("{prefix}: {value} is no object"));
            return;
        };
        for (key, value) in object {
            let path = format!("{prefix}{key}");
            let any = format!("{prefix}*");
            if self.types.contains_key(&path) {
                self.value(path, value, wrong);
            } else if self.types.contains_key(&any) {
                self.value(any, value, wrong);
            } else if !self.is_bytes_of_text(&path, value) {
                wrong.push(format!("{path} is not documented: {value}"));
            }
        }
    }

    /// `path_bytes` beside a `path`.
    fn is_bytes_of_text(&self, path: &str, value: &Value) -> bool {
        let types = path.strip_suffix("_bytes").and_then(|it| self.types.get(it));
        let is_hexadecimal =
            value.as_str().is_some_and(|it| it.bytes().all(|it| it.is_ascii_hexdigit()));
        types.is_some_and(|it| it.contains(&Type::Text)) && is_hexadecimal
    }

    fn value(&mut self, path: String, value: &Value, wrong: &mut Vec<String>) {
        let types = &self.types[&path];
        if !types.iter().any(|it| it.is_of(value)) {
            wrong.push(format!("{path}: {value} is none of {types:?}"));
        }
        if value.is_object() {
            self.object(&format!("{path}."), value, wrong);
        }
        for element in value.as_array().into_iter().flatten().filter(|it| it.is_object()) {
            self.object(&format!("{path}[]."), element, wrong);
        }
        self.written.insert(path);
    }

    /// As [`Self::check`], for [`Self::flat`] ones.
    pub(crate) fn check_flat(&mut self, object: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        self.at_any_depth(object, &mut wrong);
        wrong
    }

    fn at_any_depth(&mut self, value: &Value, wrong: &mut Vec<String>) {
        for (key, value) in value.as_object().into_iter().flatten() {
            match self.types.get(key) {
                None => wrong.push(format!("{key} is not documented: {value}")),
                Some(types) if !types.iter().any(|it| it.is_of(value)) => {
                    wrong.push(format!("{key}: {value} is none of {types:?}"));
                }
                Some(_) => {}
            }
            self.written.insert(key.clone());
            self.at_any_depth(value, wrong);
        }
        value.as_array().into_iter().flatten().for_each(|it| self.at_any_depth(it, wrong));
    }
}

impl Type {
    fn is_of(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Flag => value.is_boolean(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Fraction => value.is_f64(),
            Self::Text => value.is_string(),
            Self::Object => value.is_object(),
            Self::List(element) => value.as_array().is_some_and(|all| {
                all.iter().all(|it| match element {
                    Element::Text => it.is_string(),
                    Element::Integer => it.is_i64() || it.is_u64(),
                    Element::Object => it.is_object(),
                })
            }),
        }
    }
}
