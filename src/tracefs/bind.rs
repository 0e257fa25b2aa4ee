//! Binding: from a field's name to its accessor, with an error for people.
//!
//! Each kind of accessor has two methods. The plain one is for fields every
//! supported kernel has; the `_opt` one for fields that only some have, and
//! there too a field of an unexpected kind is an error, not an absence: to
//! overlook it would silently drop data.

use super::access::{ArrayField, IntField};
use super::field::{Field, FieldKind};
use super::format::EventFormat;
use super::string::{Place, StringField};

/// A field that this kernel does not have, or has in another shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// No field of that name.
    #[error("the event `{event}` of this kernel has no field `{field}`")]
    Missing {
        /// The event's name.
        event: String,
        /// The field asked for.
        field: String,
    },
    /// A field of that name, but not of the kind asked for.
    #[error(
        "the field `{declaration}` ({size} bytes) of the event `{event}` of this kernel is not \
         {wanted}"
    )]
    Kind {
        /// The event's name.
        event: String,
        /// The field's declaration.
        declaration: String,
        /// The field's size in bytes.
        size: u32,
        /// What was asked for, with its article.
        wanted: &'static str,
    },
}

impl EventFormat {
    /// The accessor of an integer or address.
    ///
    /// # Errors
    ///
    /// When the field is missing or is no integer.
    pub fn int(&self, name: &str) -> Result<IntField, BindError> {
        self.required(name, self.int_opt(name)?)
    }

    /// As [`Self::int`]; `None` when the field is missing.
    ///
    /// # Errors
    ///
    /// When the field is there but is no integer.
    pub fn int_opt(&self, name: &str) -> Result<Option<IntField>, BindError> {
        self.bind(name, "an integer", int_field)
    }

    /// The accessor of an array of integers in place.
    ///
    /// # Errors
    ///
    /// When the field is missing or is no such array.
    pub fn array(&self, name: &str) -> Result<ArrayField, BindError> {
        self.required(name, self.array_opt(name)?)
    }

    /// As [`Self::array`]; `None` when the field is missing.
    ///
    /// # Errors
    ///
    /// When the field is there but is no such array.
    pub fn array_opt(&self, name: &str) -> Result<Option<ArrayField>, BindError> {
        self.bind(name, "an array of integers", array_field)
    }

    /// The accessor of text: in place, at the record's end, or located by
    /// `__data_loc` or `__rel_loc`.
    ///
    /// # Errors
    ///
    /// When the field is missing or is no text.
    pub fn string(&self, name: &str) -> Result<StringField, BindError> {
        self.required(name, self.string_opt(name)?)
    }

    /// As [`Self::string`]; `None` when the field is missing.
    ///
    /// # Errors
    ///
    /// When the field is there but is no text.
    pub fn string_opt(&self, name: &str) -> Result<Option<StringField>, BindError> {
        self.bind(name, "a string", string_field)
    }

    fn bind<T>(
        &self,
        name: &str,
        wanted: &'static str,
        compile: impl FnOnce(&Field) -> Option<T>,
    ) -> Result<Option<T>, BindError> {
        let Some(field) = self.field(name) else { return Ok(None) };
        let accessor = compile(field).ok_or_else(|| BindError::Kind {
            event: self.name.clone(),
            declaration: field.declaration.clone(),
            size: field.size,
            wanted,
        })?;
        Ok(Some(accessor))
    }

    fn required<T>(&self, name: &str, accessor: Option<T>) -> Result<T, BindError> {
        accessor
            .ok_or_else(|| BindError::Missing { event: self.name.clone(), field: name.to_owned() })
    }
}

fn int_field(field: &Field) -> Option<IntField> {
    match field.kind {
        FieldKind::Int | FieldKind::Pointer => {
            IntField::new(index(field.offset)?, field.size, field.signed)
        }
        FieldKind::Array { .. }
        | FieldKind::CharArray
        | FieldKind::DataLoc { .. }
        | FieldKind::RelLoc { .. }
        | FieldKind::Flexible { .. }
        | FieldKind::Opaque => None,
    }
}

fn array_field(field: &Field) -> Option<ArrayField> {
    let FieldKind::Array { element_size, count } = field.kind else { return None };
    ArrayField::new(index(field.offset)?, element_size, index(count)?)
}

fn string_field(field: &Field) -> Option<StringField> {
    let place = match field.kind {
        FieldKind::CharArray => Place::Inline(index(field.size)?),
        FieldKind::DataLoc { element_size: Some(1) } => Place::DataLoc,
        FieldKind::RelLoc { element_size: Some(1) } => Place::RelLoc,
        FieldKind::Flexible { element_size: Some(1) } => Place::ToEnd,
        FieldKind::Int
        | FieldKind::Pointer
        | FieldKind::Array { .. }
        | FieldKind::DataLoc { .. }
        | FieldKind::RelLoc { .. }
        | FieldKind::Flexible { .. }
        | FieldKind::Opaque => return None,
    };
    Some(StringField::new(index(field.offset)?, place))
}

fn index(value: u32) -> Option<usize> {
    usize::try_from(value).ok()
}

#[cfg(test)]
#[path = "bind_tests.rs"]
mod tests;
