//! The global definitions, as far as the rules need them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, BufRead};

use super::{Problems, Summary, for_lines};

/// A location: a thread or a device.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub name: String,
    pub events: u64,
    pub group: u64,
}

/// An I/O handle.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub file: Option<u64>,
    pub paradigm: u64,
    pub pre_created: bool,
    /// `IoPreCreatedHandleState` records for it.
    pub states: u32,
}

/// The definitions of an archive.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    /// First and last time that an event may have.
    pub clock: Option<(u64, u64)>,
    pub locations: BTreeMap<u64, Location>,
    pub groups: BTreeMap<u64, String>,
    pub regions: HashMap<u64, String>,
    pub paradigms: BTreeMap<u64, String>,
    pub files: BTreeMap<u64, String>,
    pub handles: BTreeMap<u64, Handle>,
    strings: HashMap<u64, String>,
    nodes: BTreeSet<u64>,
}

/// The record and the fields of a definition that cannot be read.
type Unreadable = Option<()>;

impl Definitions {
    /// Reads the output of `otf2-print -G`.
    pub(crate) fn read(text: &mut dyn BufRead, problems: &mut Problems) -> io::Result<Self> {
        let mut this = Self::default();
        for_lines(text, |line| {
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            let is_kind = |it: char| it.is_ascii_uppercase() || it == '_' || it.is_ascii_digit();
            if kind.is_empty() || !kind.chars().all(is_kind) {
                problems.add(format!("a line break in a name of a definition: `{line}`"));
            } else if this.record(kind, rest.trim_start(), problems).is_none() {
                problems.add(format!("definition that cannot be read: `{line}`"));
            }
        })?;
        this.judge(problems);
        Ok(this)
    }

    fn record(&mut self, kind: &str, rest: &str, problems: &mut Problems) -> Unreadable {
        if rest.contains(": INVALID <") || rest.contains("(INVALID <") {
            problems.add(format!("{kind} refers to what is not defined: {rest}"));
        }
        match kind {
            "CLOCK_PROPERTIES" => {
                let offset = number(between(rest, ", Global Offset: ", ", Length: ")?)?;
                let length = number(between(rest, ", Length: ", ", Date: ")?)?;
                if self.clock.replace((offset, offset.saturating_add(length))).is_some() {
                    problems.add("CLOCK_PROPERTIES twice");
                }
                return Some(());
            }
            "IO_PRE_CREATED_HANDLE_STATE" => {
                let handle = id_before(rest, ", Access Mode: ")?;
                match self.handles.get_mut(&handle) {
                    Some(handle) => handle.states += 1,
                    None => {
                        problems.add(format!("state of handle {handle}, which is not defined"));
                    }
                }
                return Some(());
            }
            _ => {}
        }
        let Some((id, rest)) = rest.split_once("  ") else { return Some(()) };
        let Some(id) = number(id) else { return Some(()) };
        let new = match kind {
            "STRING" => {
                let text = rest.strip_prefix('"')?.strip_suffix('"')?;
                self.strings.insert(id, text.to_owned()).is_none()
            }
            "SYSTEM_TREE_NODE" => self.nodes.insert(id),
            "LOCATION_GROUP" => {
                let name = self.name(rest, ", Type: ", problems)?;
                self.node(between_last(rest, ", Parent: ", ", Creator: ")?, kind, problems);
                self.groups.insert(id, name).is_none()
            }
            "LOCATION" => self.location(id, rest, problems)?,
            "REGION" => {
                let name = self.name(rest, " (Aka. ", problems)?;
                self.regions.insert(id, name).is_none()
            }
            "IO_PARADIGM" => {
                let name = between(rest, ", Name: ", ", Class: ")?;
                let name = self.string(reference(name)?, problems);
                self.paradigms.insert(id, name).is_none()
            }
            "IO_REGULAR_FILE" | "IO_DIRECTORY" => {
                let name = self.name(rest, ", Scope: ", problems)?;
                self.node(rest.rsplit_once(", Scope: ")?.1, kind, problems);
                self.files.insert(id, name).is_none()
            }
            "IO_HANDLE" => self.handle(id, rest, problems)?,
            _ => true,
        };
        if !new {
            problems.add(format!("{kind} {id} is defined twice"));
        }
        Some(())
    }

    fn location(&mut self, id: u64, rest: &str, problems: &mut Problems) -> Option<bool> {
        let name = self.name(rest, ", Type: ", problems)?;
        let events = number(between_last(rest, ", # Events: ", ", Group: ")?)?;
        let group = reference(rest.rsplit_once(", Group: ")?.1)?;
        if !self.groups.contains_key(&group) {
            problems.add(format!("LOCATION {id} is in group {group}, which is not defined"));
        }
        Some(self.locations.insert(id, Location { name, events, group }).is_none())
    }

    fn handle(&mut self, id: u64, rest: &str, problems: &mut Problems) -> Option<bool> {
        let (rest, parent) = rest.rsplit_once(", Parent: ")?;
        if parent != "UNDEFINED" {
            let parent = reference(parent)?;
            if !self.handles.contains_key(&parent) {
                problems.add(format!("IO_HANDLE {id}: parent {parent} is not defined before it"));
            }
        }
        let (rest, flags) = rest.rsplit_once(", Flags: ")?;
        let pre_created = flags.split_once(", Communicator: ")?.0.contains("PRE_CREATED");
        let (rest, paradigm) = rest.rsplit_once(", I/O Paradigm: ")?;
        let paradigm = reference(paradigm)?;
        if !self.paradigms.contains_key(&paradigm) {
            problems.add(format!("IO_HANDLE {id}: paradigm {paradigm} is not defined"));
        }
        let file = rest.rsplit_once(", File: ")?.1;
        let file = if file == "UNDEFINED" { None } else { Some(reference(file)?) };
        if let Some(file) = file.filter(|it| !self.files.contains_key(it)) {
            problems.add(format!("IO_HANDLE {id}: file {file} is not defined"));
        }
        let handle = Handle { file, paradigm, pre_created, states: 0 };
        Some(self.handles.insert(id, handle).is_none())
    }

    /// The text of the string that the field `Name: ` ends with.
    fn name(&self, rest: &str, next_field: &str, problems: &mut Problems) -> Option<String> {
        Some(self.string(id_before(rest, next_field)?, problems))
    }

    fn string(&self, id: u64, problems: &mut Problems) -> String {
        self.strings.get(&id).cloned().unwrap_or_else(|| {
            problems.add(format!("string {id} is not defined"));
            String::new()
        })
    }

    fn node(&self, text: &str, kind: &str, problems: &mut Problems) {
        if text == "UNDEFINED" || reference(text).is_some_and(|id| self.nodes.contains(&id)) {
            return;
        }
        problems.add(format!("{kind} refers to a system tree node that is not defined: {text}"));
    }

    /// Checks that need all definitions.
    fn judge(&self, problems: &mut Problems) {
        if self.clock.is_none() {
            problems.add("no CLOCK_PROPERTIES");
        }
        for (id, handle) in &self.handles {
            match (handle.pre_created, handle.states) {
                (true, 1) | (false, 0) => {}
                (true, count) => {
                    problems.add(format!("PRE_CREATED handle {id} has {count} states, not one"));
                }
                (false, _) => problems.add(format!("handle {id} is not PRE_CREATED, has a state")),
            }
        }
    }

    /// The part of the summary that is known without events.
    pub(crate) fn summary(&self) -> Summary {
        let file_of = |handle: &Handle| self.files.get(&handle.file?).cloned();
        let handles = self.handles.iter();
        let locations = self.locations.iter();
        Summary {
            locations: locations.map(|(id, it)| (*id, it.name.clone())).collect(),
            groups: self.groups.clone(),
            files: self.files.clone(),
            handle_files: handles.filter_map(|(id, it)| Some((*id, file_of(it)?))).collect(),
            ..Summary::default()
        }
    }
}

/// The number that is all of the text.
pub(super) fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// The id at the end of `"name" <id>` or `INVALID <id>`.
pub(super) fn reference(text: &str) -> Option<u64> {
    number(text.strip_suffix('>')?.rsplit_once('<')?.1)
}

/// The id at the end of the text before the last `label` that has one before it.
fn id_before(text: &str, label: &str) -> Option<u64> {
    text.rmatch_indices(label).find_map(|(at, _)| reference(text.get(..at)?))
}

/// Text after the first `label` and before the next `end`.
fn between<'a>(text: &'a str, label: &str, end: &str) -> Option<&'a str> {
    Some(text.split_once(label)?.1.split_once(end)?.0)
}

/// Text before the last `end` and after the last `label` before it.
fn between_last<'a>(text: &'a str, label: &str, end: &str) -> Option<&'a str> {
    Some(text.rsplit_once(end)?.0.rsplit_once(label)?.1)
}
