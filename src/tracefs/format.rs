//! One event's description, as a whole.

use std::fmt;

use super::field::Field;

/// The description of one event: the content of its `format` file.
///
/// `to_string()` gives the file's bytes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// The event's name without its system, such as `block_rq_issue`.
    pub name: String,
    /// The number that `common_type` of the event's records holds, and that
    /// `perf_event_open` takes. `None` when the file does not say.
    pub id: Option<u32>,
    /// The fields in the order of the file: those common to all events first.
    pub fields: Vec<Field>,
    /// The `print fmt` text, for people; it may have several lines.
    pub print_fmt: String,
    /// How many of `fields` stand before the blank line.
    pub(super) common_count: usize,
}

impl EventFormat {
    /// The field of that name. Names are unique in what the kernel prints; of
    /// two, the first would be found.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The fields that every event has (`common_type`, `common_pid`, ...).
    #[must_use]
    pub fn common_fields(&self) -> &[Field] {
        self.fields.get(..self.common_count).unwrap_or(&self.fields)
    }

    /// The fields of this event alone.
    #[must_use]
    pub fn event_fields(&self) -> &[Field] {
        self.fields.get(self.common_count..).unwrap_or(&[])
    }
}

impl fmt::Display for EventFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "name: {}", self.name)?;
        if let Some(id) = self.id {
            writeln!(f, "ID: {id}")?;
        }
        writeln!(f, "format:")?;
        for section in [self.common_fields(), self.event_fields()] {
            for field in section {
                write!(f, "{field}")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "print fmt: {}", self.print_fmt)
    }
}
