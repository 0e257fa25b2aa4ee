//! Description of one event as a whole.

use std::fmt;

use super::field::Field;

/// Description of one event: the content of its `format` file.
///
/// `to_string()` returns the bytes of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// Name of the event without its system, such as `block_rq_issue`.
    pub name: String,
    /// Number in `common_type` of the event's records, which `perf_event_open` takes. `None` when
    /// the file does not have it.
    pub id: Option<u32>,
    /// Fields in the order of the file: those common to all events first.
    pub fields: Vec<Field>,
    /// `print fmt` text, for people; it may have several lines.
    pub print_fmt: String,
    /// Number of `fields` before the blank line.
    pub(super) common_count: usize,
}

impl EventFormat {
    /// Returns the field of that name. Names are unique in the text that the kernel prints; of two,
    /// the first would be found.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the fields that every event has (`common_type`, `common_pid`, ...).
    #[must_use]
    pub fn common_fields(&self) -> &[Field] {
        self.fields.get(..self.common_count).unwrap_or(&self.fields)
    }

    /// Returns the fields that only this event has.
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
