//! The rules on the order of events.
//!
//! `otf2-print` merges the locations by time. Events of equal time on different locations have no
//! order among them, so an archive is right if *some* order of them is: such a group is taken in
//! the first order found that keeps each location's own order and breaks no rule.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, BufRead};

use super::definitions::Definitions;
use super::event::{Event, Line, Mode};
use super::{Problems, Summary, Totals, for_lines};

/// An operation that has begun.
#[derive(Clone, Copy, Debug)]
struct Open {
    group: u64,
    mode: Mode,
    /// The operation still needs an `Issued` before it may complete.
    awaits_issue: bool,
    /// The operation may have an `Issued` at all.
    non_blocking: bool,
}

struct Rules<'a> {
    definitions: &'a Definitions,
    problems: &'a mut Problems,
    /// Regions that each location is in, outermost first.
    stacks: HashMap<u64, Vec<u64>>,
    /// Last time and number of events of each location.
    seen: HashMap<u64, (u64, u64)>,
    /// Whether a handle is active in a location group, if that ever changed there.
    active: HashMap<(u64, u64), bool>,
    open: HashMap<(u64, u64), Open>,
    enters: HashMap<u64, u64>,
    totals: HashMap<(u64, Mode), Totals>,
    ended_after_destroy: u64,
    events: u64,
}

/// Checks the output of `otf2-print` against the definitions.
pub(super) fn judge(
    definitions: &Definitions,
    text: &mut dyn BufRead,
    problems: &mut Problems,
) -> io::Result<Summary> {
    let mut rules = Rules {
        definitions,
        problems,
        stacks: HashMap::new(),
        seen: HashMap::new(),
        active: HashMap::new(),
        open: HashMap::new(),
        enters: HashMap::new(),
        totals: HashMap::new(),
        ended_after_destroy: 0,
        events: 0,
    };
    let mut same_time: VecDeque<Line> = VecDeque::new();
    for_lines(text, |text| {
        if text.starts_with(' ') {
            rules.attributes(text);
            return;
        }
        let Some(line) = Line::parse(text) else {
            rules.problems.add(format!("event that cannot be read: `{text}`"));
            return;
        };
        if same_time.front().is_some_and(|first| first.time != line.time) {
            rules.take(&mut same_time);
        }
        if rules.place(line) {
            same_time.push_back(line);
        }
    })?;
    rules.take(&mut same_time);
    Ok(rules.finish())
}

impl Rules<'_> {
    fn attributes(&mut self, text: &str) {
        let Some(values) = text.trim_start().strip_prefix("ADDITIONAL ATTRIBUTES: ") else {
            self.problems.add(format!("a line break in a name of an event: `{text}`"));
            return;
        };
        if values.contains("(INVALID <") {
            self.problems.add(format!("an attribute that is not defined: {values}"));
        }
    }

    /// Checks where and when an event is; false if its location is not defined.
    fn place(&mut self, line: Line) -> bool {
        self.events += 1;
        let Line { location, time, event } = line;
        if !self.definitions.locations.contains_key(&location) {
            self.problems.add(format!("location {location} is not defined: {event:?} at {time}"));
            return false;
        }
        if let Some((first, last)) = self.definitions.clock
            && !(first..=last).contains(&time)
        {
            self.problems
                .add(format!("{event:?} at {time} is outside the clock's {first}..={last}"));
        }
        let (latest, count) = self.seen.entry(location).or_insert((time, 0));
        if time < *latest {
            self.problems.add(format!("location {location}: time goes back, {latest} to {time}"));
        }
        *latest = time;
        *count += 1;
        true
    }

    /// Takes all events of one time, each location's in their order.
    fn take(&mut self, events: &mut VecDeque<Line>) {
        while let Some(&first) = events.front() {
            let mut problem = self.violation(first);
            let mut index = 0;
            if problem.is_some()
                && let Some(possible) = self.other_first(events)
            {
                (index, problem) = (possible, None);
            }
            let Some(line) = events.remove(index) else { return };
            if let Some(problem) = problem {
                let (location, time) = (line.location, line.time);
                self.problems.add(format!("location {location} at {time}: {problem}"));
            }
            self.apply(line);
        }
    }

    /// The first event of another location that may come next.
    fn other_first(&self, events: &VecDeque<Line>) -> Option<usize> {
        let mut blocked = Vec::new();
        for (index, line) in events.iter().enumerate() {
            if blocked.contains(&line.location) {
                continue;
            }
            if self.violation(*line).is_none() {
                return Some(index);
            }
            blocked.push(line.location);
        }
        None
    }

    fn group(&self, location: u64) -> u64 {
        self.definitions.locations.get(&location).map_or(u64::MAX, |it| it.group)
    }

    /// Returns the rule that the event would break now.
    fn violation(&self, line: Line) -> Option<String> {
        let group = self.group(line.location);
        match line.event {
            Event::Enter { region } => self.unknown_region(region),
            Event::Leave { region } => self.unknown_region(region).or_else(|| {
                let top = self.stacks.get(&line.location).and_then(|it| it.last());
                (top != Some(&region))
                    .then(|| format!("leaves region {region}, but is in {top:?} (innermost)"))
            }),
            Event::Create { handle } => self.not_inactive(group, handle, "created"),
            Event::Destroy { handle } => self.not_active(group, handle, "destroyed"),
            Event::Duplicate { old, new } => self
                .not_active(group, old, "duplicated")
                .or_else(|| self.not_inactive(group, new, "made by duplication")),
            Event::Use { handle } => self.not_active(group, handle, "used"),
            Event::Begin { handle, id, .. } => {
                self.not_active(group, handle, "used by an operation").or_else(|| {
                    self.open.contains_key(&(handle, id)).then(|| {
                        format!("an operation with id {id} is open already on handle {handle}")
                    })
                })
            }
            Event::Issued { handle, id } => self.not_open(group, handle, id).or_else(|| {
                let open = self.open.get(&(handle, id))?;
                if !open.non_blocking {
                    return Some(format!("issued, but not NON_BLOCKING: handle {handle} id {id}"));
                }
                (!open.awaits_issue).then(|| format!("issued twice: handle {handle} id {id}"))
            }),
            Event::Test { handle, id } => self.not_open(group, handle, id),
            Event::Complete { handle, id, .. } | Event::Cancelled { handle, id } => {
                self.not_open(group, handle, id).or_else(|| {
                    let awaits = self.open.get(&(handle, id))?.awaits_issue;
                    awaits.then(|| {
                        format!(
                            "NON_BLOCKING operation ends before Issued: handle {handle} id {id}"
                        )
                    })
                })
            }
            Event::DeleteFile { paradigm, file } => {
                let known = self.definitions.paradigms.contains_key(&paradigm)
                    && self.definitions.files.contains_key(&file);
                (!known).then(|| format!("paradigm {paradigm} or file {file} is not defined"))
            }
            Event::BufferFlush => Some("BUFFER_FLUSH: the program was not stopped".to_owned()),
            Event::Other { dangling } => {
                dangling.then(|| "refers to what is not defined".to_owned())
            }
        }
    }

    fn unknown_region(&self, region: u64) -> Option<String> {
        let known = self.definitions.regions.contains_key(&region);
        (!known).then(|| format!("region {region} is not defined"))
    }

    /// Whether a handle is active in a group; `None` if there is no such handle.
    fn is_active(&self, group: u64, handle: u64) -> Option<bool> {
        let pre_created = self.definitions.handles.get(&handle)?.pre_created;
        Some(self.active.get(&(group, handle)).copied().unwrap_or(pre_created))
    }

    fn not_active(&self, group: u64, handle: u64, what: &str) -> Option<String> {
        match self.is_active(group, handle) {
            None => Some(format!("handle {handle} is not defined")),
            Some(true) => None,
            Some(false) => Some(format!("handle {handle} is {what}, but not active")),
        }
    }

    fn not_inactive(&self, group: u64, handle: u64, what: &str) -> Option<String> {
        match self.is_active(group, handle) {
            None => Some(format!("handle {handle} is not defined")),
            Some(false) => None,
            Some(true) => Some(format!("handle {handle} is {what}, but active already")),
        }
    }

    fn not_open(&self, group: u64, handle: u64, id: u64) -> Option<String> {
        if !self.definitions.handles.contains_key(&handle) {
            return Some(format!("handle {handle} is not defined"));
        }
        match self.open.get(&(handle, id)) {
            None => Some(format!("no operation with id {id} is open on handle {handle}")),
            Some(open) if open.group != group => {
                Some(format!("operation {id} on handle {handle} began in another location group"))
            }
            Some(_) => None,
        }
    }

    /// Applies the event, also if it broke a rule: one mistake shall be reported once.
    fn apply(&mut self, line: Line) {
        let group = self.group(line.location);
        match line.event {
            Event::Enter { region } => {
                self.stacks.entry(line.location).or_default().push(region);
                *self.enters.entry(region).or_default() += 1;
            }
            Event::Leave { .. } => {
                self.stacks.entry(line.location).or_default().pop();
            }
            Event::Create { handle } | Event::Duplicate { new: handle, .. } => {
                self.active.insert((group, handle), true);
            }
            Event::Destroy { handle } => {
                self.active.insert((group, handle), false);
            }
            Event::Begin { handle, mode, non_blocking, id } => {
                let open = Open { group, mode, non_blocking, awaits_issue: non_blocking };
                self.open.insert((handle, id), open);
            }
            Event::Issued { handle, id } => {
                if let Some(open) = self.open.get_mut(&(handle, id)) {
                    open.awaits_issue = false;
                }
            }
            Event::Complete { handle, result, id } => {
                self.end(handle, id, |totals| match result {
                    Some(bytes) => totals.bytes += bytes,
                    None => totals.without_result += 1,
                });
            }
            Event::Cancelled { handle, id } => {
                self.end(handle, id, |totals| totals.cancelled += 1);
            }
            Event::Use { .. }
            | Event::Test { .. }
            | Event::DeleteFile { .. }
            | Event::BufferFlush
            | Event::Other { .. } => {}
        }
    }

    fn end(&mut self, handle: u64, id: u64, add: impl FnOnce(&mut Totals)) {
        let Some(open) = self.open.remove(&(handle, id)) else { return };
        let Some(definition) = self.definitions.handles.get(&handle) else { return };
        if self.is_active(open.group, handle) == Some(false) {
            self.ended_after_destroy += 1;
        }
        let totals = self.totals.entry((definition.paradigm, open.mode)).or_default();
        totals.count += 1;
        add(totals);
    }

    /// Checks the state after the last event; returns the summary.
    fn finish(self) -> Summary {
        for (location, definition) in &self.definitions.locations {
            let count = self.seen.get(location).map_or(0, |it| it.1);
            if count != definition.events {
                self.problems.add(format!(
                    "location {location} has {count} events, its definition says {}",
                    definition.events
                ));
            }
        }
        let mut left: Vec<_> = self.stacks.iter().filter(|(_, it)| !it.is_empty()).collect();
        left.sort_unstable();
        for (location, regions) in left {
            self.problems.add(format!("location {location} never leaves regions {regions:?}"));
        }
        let mut open: Vec<_> = self.open.keys().collect();
        open.sort_unstable();
        for (handle, id) in open {
            self.problems.add(format!("operation {id} on handle {handle} never ends"));
        }
        let mut enters = BTreeMap::new();
        for (region, count) in &self.enters {
            let name = self.definitions.regions.get(region).cloned().unwrap_or_default();
            *enters.entry(name).or_default() += count;
        }
        let mut operations: BTreeMap<_, Totals> = BTreeMap::new();
        for ((paradigm, mode), totals) in &self.totals {
            let name = self.definitions.paradigms.get(paradigm).cloned().unwrap_or_default();
            operations.entry((name, *mode)).or_default().add(*totals);
        }
        let opened =
            |handle| self.definitions.handles.get(handle).is_some_and(|it| !it.pre_created);
        let handles = self.active.iter();
        let handles_left =
            handles.filter(|((_, handle), active)| **active && opened(handle)).count();
        Summary {
            enters,
            operations,
            events: self.events,
            events_of: self.seen.iter().map(|(location, it)| (*location, it.1)).collect(),
            ended_after_destroy: self.ended_after_destroy,
            handles_left: u64::try_from(handles_left).unwrap_or(u64::MAX),
            ..self.definitions.summary()
        }
    }
}
