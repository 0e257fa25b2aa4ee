//! Binding of a field's name to its accessor, with errors that people can read.
//!
//! Each kind of accessor has two methods. The plain one is for fields that every supported kernel
//! has; the `_opt` one is for fields that only some have. In both, a field of an unexpected kind is
//! an error, not an absence: ignoring it would silently drop data.

use super::access::{ArrayField, IntField};
use super::field::{Field, FieldKind};
use super::format::EventFormat;
use super::string::{StringField, StringPlace};

/// Field that this kernel does not have, or has in another form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The event has no field of that name.
    #[error("the event `{event}` of this kernel has no field `{field}`")]
    Missing {
        /// The event's name.
        event: String,
        /// Name of the requested field.
        field: String,
    },
    /// The event has a field of that name, but of another kind than requested.
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
        /// Requested kind, with its article.
        wanted: &'static str,
    },
}

impl EventFormat {
    /// Returns the accessor of an integer or address.
    ///
    /// # Errors
    ///
    /// When the field is missing or is not an integer.
    pub fn int(&self, name: &str) -> Result<IntField, BindError> {
        self.required(name, self.int_opt(name)?)
    }

    /// Returns the accessor as [`Self::int`] does; `None` when the field is missing.
    ///
    /// # Errors
    ///
    /// When the field is present but is not an integer.
    pub fn int_opt(&self, name: &str) -> Result<Option<IntField>, BindError> {
        self.bind(name, "an integer", int_field)
    }

    /// Returns the accessor of an array of integers in place.
    ///
    /// # Errors
    ///
    /// When the field is missing or is not such an array.
    pub fn array(&self, name: &str) -> Result<ArrayField, BindError> {
        self.required(name, self.array_opt(name)?)
    }

    /// Returns the accessor as [`Self::array`] does; `None` when the field is missing.
    ///
    /// # Errors
    ///
    /// When the field is present but is not such an array.
    pub fn array_opt(&self, name: &str) -> Result<Option<ArrayField>, BindError> {
        self.bind(name, "an array of integers", array_field)
    }

    /// Returns the accessor of text: in place, at the record's end, or located by `__data_loc` or
    /// `__rel_loc`.
    ///
    /// # Errors
    ///
    /// When the field is missing or is not text.
    pub fn string(&self, name: &str) -> Result<StringField, BindError> {
        self.required(name, self.string_opt(name)?)
    }

    /// Returns the accessor as [`Self::string`] does; `None` when the field is missing.
    ///
    /// # Errors
    ///
    /// When the field is present but is not text.
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
        FieldKind::CharArray => StringPlace::Inline(index(field.size)?),
        FieldKind::DataLoc { element_size: Some(1) } => StringPlace::DataLoc,
        FieldKind::RelLoc { element_size: Some(1) } => StringPlace::RelLoc,
        FieldKind::Flexible { element_size: Some(1) } => StringPlace::ToEnd,
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
